//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

pub mod crash;
pub mod dwb_format;
pub mod edit;
pub mod html;
pub mod live;
pub mod rebuild;
pub mod ring_format;
pub mod schema;
#[cfg(feature = "tui")]
pub mod screen;
pub mod tear;
pub mod truth;
#[path = "../../fixtures/unpack.rs"]
pub mod unpack;
pub mod wal;
pub mod wal_edit;
pub mod wal_set;
pub mod wal_tail;

/// The crashed clusters with a double write buffer.
pub const DWB_CASES: [&str; 8] =
    ["aligned", "checkpoint", "clean", "evict", "nochecksums", "reva", "tablespace", "wrapped"];

/// Copies a program by another process. What this one has open for writing, children that other tests start meanwhile have open, too,
/// and then the system does not run it (`ETXTBSY`).
pub fn copy_program(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").args([from, to]).status().expect("cp");
    assert!(copied.success(), "cp {} {}", from.display(), to.display());
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
}

/// Writes a script that can be run at once.
pub fn write_script(path: &Path, text: &str) {
    let part = path.with_extension("part");
    fs::write(&part, text).expect("write the script");
    copy_program(&part, path);
    fs::remove_file(&part).expect("remove the part");
}

/// Data directory of a crashed cluster. Shared between tests: never changed.
pub fn cluster(case: &str) -> PathBuf {
    unpack::data_dir(&format!("dwb/{case}")).expect("unpack fixture")
}

/// A directory for copies of clusters, removed with them.
pub fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(live::place_of_clusters()).expect("temporary directory")
}

/// A copy of the parts of a cluster that `pg_dwbinspect info` and `dump` read, to be damaged by a test.
pub fn small_copy(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let to = temporary.path().join("data");
    let from = cluster(case);
    for directory in ["", "base", "global", "pg_tblspc", "pg_dwbuf"] {
        fs::create_dir(to.join(directory)).expect("make directory");
    }
    for file in ["PG_VERSION", "postgresql.conf", "postgresql.auto.conf", "postmaster.pid", "global/pg_control"] {
        if from.join(file).exists() {
            fs::copy(from.join(file), to.join(file)).expect("copy");
        }
    }
    for entry in fs::read_dir(from.join("pg_dwbuf")).expect("list") {
        let entry = entry.expect("list");
        fs::copy(entry.path(), to.join("pg_dwbuf").join(entry.file_name())).expect("copy");
    }
    (temporary, to)
}

/// A text up to its findings, which name paths of this machine and whether the killed server's number is in use again.
pub fn before_findings(text: &str) -> &str {
    let begins = ["\nProblems\n", "\nNotes\n"].iter().filter_map(|heading| text.find(heading)).min();
    begins.map_or(text, |end| &text[..end])
}

/// Copies a directory tree, links as links.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make directory");
    for entry in fs::read_dir(from).expect("list") {
        let entry = entry.expect("list");
        let kind = entry.file_type().expect("type");
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_tree(&entry.path(), &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).expect("link"), target).expect("link");
        } else {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
    keep_mode(from, to);
}

/// Gives a directory the permissions of another: a server refuses a data directory that others may read.
pub fn keep_mode(from: &Path, to: &Path) {
    fs::set_permissions(to, fs::metadata(from).expect("examine").permissions()).expect("mode");
}

/// A copy of a whole cluster that has no tablespace.
pub fn copy_of(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = temporary();
    let data = temporary.path().join("data");
    copy_tree(&cluster(case), &data);
    (temporary, data)
}

/// Sets a field of `pg_control` and its CRC.
pub fn edit_control(data: &Path, offset: usize, bytes: &[u8]) {
    let path = data.join("global/pg_control");
    let mut control = fs::read(&path).expect("read");
    control[offset..offset + bytes.len()].copy_from_slice(bytes);
    // The CRC of version 1901 lies after the fields; it is the first offset where it fits.
    let old = fs::read(&path).expect("read");
    let at = (200..400)
        .step_by(4)
        .find(|at| old[*at..at + 4] == crc32c::crc32c(&old[..*at]).to_le_bytes())
        .expect("CRC of pg_control");
    let crc = crc32c::crc32c(&control[..at]).to_le_bytes();
    control[at..at + 4].copy_from_slice(&crc);
    fs::write(&path, control).expect("write");
}

/// What a run of a program gave.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Every line of NDJSON.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
    }

    /// Lines of one type.
    pub fn of_type(&self, wanted: &str) -> Vec<Value> {
        self.of_types(&[wanted])
    }

    pub fn of_types(&self, wanted: &[&str]) -> Vec<Value> {
        self.lines().into_iter().filter(|line| wanted.iter().any(|one| line["type"] == *one)).collect()
    }
}

/// Runs a program of this package; time zone and colours fixed. What it prints as JSON is compared with the schema.
pub fn run(program: &str, args: &[&str]) -> Ran {
    let mut command = Command::cargo_bin(program).expect("program is built");
    command.env("TZ", "UTC").env_remove("NO_COLOR").env_remove("COLUMNS");
    let output = command.args(args).output().expect("program runs");
    let ran = Ran {
        status: output.status.code().expect("ended by itself, not by a signal"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    };
    schema::check_output(args, &ran);
    ran
}

/// Bytes that a run of the program read, by the system's own count.
#[cfg(target_os = "linux")]
pub fn bytes_read(program: &str, args: &[&str]) -> u64 {
    use std::process::Stdio;
    let program = assert_cmd::cargo::cargo_bin(program);
    let mut child =
        std::process::Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    // It has ended, and is still counted until somebody asks how.
    while !of("stat").rsplit(')').next().unwrap().trim_start().starts_with('Z') {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let count = of("io").lines().find_map(|line| line.strip_prefix("rchar: ").map(|count| count.parse().unwrap()));
    child.wait().unwrap();
    count.unwrap()
}

/// Runs `pg_dwbinspect`.
pub fn dwbinspect(args: &[&str]) -> Ran {
    run("pg_dwbinspect", args)
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// Rows of a tab-separated file with a header line, packed with zstd.
pub fn packed_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut text = String::new();
    let file = fs::File::open(path).expect("open rows");
    zstd::Decoder::new(file).expect("zstd").read_to_string(&mut text).expect("unpack rows");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("header line").split('\t').collect();
    lines
        .map(|line| {
            names.iter().zip(line.split('\t')).map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect()
        })
        .collect()
}

/// A JSON value as the text that a tab-separated file holds.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Lists what could not be tested, for `zz_skipped` and `.ci/run` to sum up.
pub fn skipped_list() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped_tests")
}

/// Says loudly that a test could not run here.
pub fn skipped(why: &str) {
    tell_skipped(why, &skipped_list(), &mut std::io::stderr().lock());
}

/// The same, for the end of `list`. What is printed goes to `out`, which is not the macros: what they print is caught with
/// the output of a test that passes.
pub fn tell_skipped(why: &str, list: &Path, out: &mut dyn Write) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let program = program.as_deref().and_then(|name| name.rsplit_once('-')).map_or("", |(name, _)| name).to_owned();
    drop(writeln!(out, "SKIPPED {program}::{test}: {why}"));
    let mut list = fs::OpenOptions::new().create(true).append(true).open(list).expect("list of skipped tests");
    list.write_all(format!("{program}::{test}: {why}\n").as_bytes()).expect("list of skipped tests");
}
