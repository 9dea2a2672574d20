//! Files that are there and that the system does not let the user open: nothing is said to be missing or to be given up for
//! that, and the next step is to run as somebody who may open them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{arg, cluster, copy_program, copy_tree};
use serde_json::Value;

/// An account that owns nothing: that of the system for everybody who is nobody.
const NOBODY: u32 = 65_534;

/// A cluster and the program, where a user without rights comes to.
struct Closed {
    keep: tempfile::TempDir,
}

impl Closed {
    fn of(case: &str) -> Self {
        let keep = tempfile::tempdir().expect("temporary directory");
        let closed = Self { keep };
        copy_tree(&cluster(case), &closed.data());
        copy_program(Path::new(env!("CARGO_BIN_EXE_pg_dwbinspect")), &closed.program());
        closed.set_mode("..", 0o755);
        closed.open_all(&closed.data());
        // No server starts in a data directory that all may read.
        closed.set_mode("", 0o750);
        if rustix::process::geteuid().is_root() {
            chown(closed.data(), None, Some(NOBODY)).expect("group");
        }
        closed
    }

    fn data(&self) -> PathBuf {
        self.keep.path().join("data")
    }

    fn program(&self) -> PathBuf {
        self.keep.path().join("program")
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.data().join(name), fs::Permissions::from_mode(mode)).expect("mode");
    }

    fn open_all(&self, path: &Path) {
        let metadata = path.symlink_metadata().expect("metadata");
        if metadata.is_dir() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
            fs::read_dir(path).expect("list").for_each(|entry| self.open_all(&entry.expect("list").path()));
        } else if metadata.is_file() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("mode");
        }
    }

    /// What a user says to whom closed files are closed: root would read them all the same.
    fn check(&self, more: &[&str]) -> (i32, Vec<Value>) {
        self.check_as(NOBODY, more)
    }

    /// As [`Self::check`], as a user of this number where the test may choose one.
    fn check_as(&self, uid: u32, more: &[&str]) -> (i32, Vec<Value>) {
        let mut command = Command::new(self.program());
        command.args(["check", "--format", "ndjson", arg(&self.data())]).args(more);
        if rustix::process::geteuid().is_root() {
            command.uid(uid).gid(NOBODY);
        }
        let output = command.output().expect("run");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (output.status.code().expect("status"), lines)
    }
}

fn summary(lines: &[Value]) -> &Value {
    lines.last().filter(|line| line["type"] == "summary").expect("summary")
}

fn texts<'a>(list: &'a Value, field: Option<&str>) -> Vec<&'a str> {
    let text = |entry: &'a Value| field.map_or(entry, |field| &entry[field]).as_str().expect("text");
    list.as_array().expect("list").iter().map(text).collect()
}

/// Nothing but the step to run as the owner is given, and no page is safe.
fn assert_run_as_owner(what: &str, (status, lines): &(i32, Vec<Value>)) {
    let summary = summary(lines);
    assert_eq!((*status, texts(&summary["next"], Some("step"))), (2, vec!["run_as_owner"]), "{what}: {summary}");
    for page in lines.iter().filter(|line| line["type"] == "page") {
        assert_ne!(page["verdict"], "restore", "{what}: {page}");
    }
}

#[test]
fn owner_is_named_and_not_sent_to_himself() {
    let closed = Closed::of("clean");
    closed.set_mode("base/5/1259", 0o000);
    let command_as = |uid: u32| {
        let found = closed.check_as(uid, &[]);
        assert_run_as_owner(&format!("user {uid}"), &found);
        texts(&summary(&found.1)["next"][0]["commands"], None)[0].to_owned()
    };
    let data = closed.data();
    // Who is not root owns the copy.
    if rustix::process::geteuid().is_root() {
        assert_eq!(command_as(NOBODY), format!("sudo -u root pg_dwbinspect check {}", arg(&data)));
        chown(&data, Some(NOBODY), Some(NOBODY)).expect("owner");
    }
    assert_eq!(command_as(NOBODY), format!("pg_dwbinspect check {}", arg(&data)));
}

#[test]
fn owner_of_a_closed_directory_is_named() {
    if !rustix::process::geteuid().is_root() {
        return crate::common::skipped("only root can run this as another user than the owner");
    }
    let closed = Closed::of("clean");
    closed.set_mode("", 0o700);
    let ran = Command::new(closed.program()).args(["check", arg(&closed.data())]).uid(NOBODY).gid(NOBODY).output();
    let ran = ran.expect("run");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && said.contains("run this as the owner: sudo -u root"), "{said}");
}

/// By the fixture's README a server repairs 8 pages of `evict`, and stops in `checkpoint`; `clean` was shut down.
const CASES: [(&str, &str); 3] = [("evict", "depends_on_dwb"), ("checkpoint", "stops"), ("clean", "without_replay")];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn wal_that_may_not_be_opened_is_not_missing() {
    for (case, start) in CASES {
        let closed = Closed::of(case);
        let open = closed.check(&[]);
        assert_eq!(summary(&open.1)["on_start"]["start"], start, "{case}");
        let mut segments: Vec<PathBuf> = fs::read_dir(closed.data().join("pg_wal"))
            .expect("list")
            .map(|entry| entry.expect("list").path())
            .filter(|path| path.is_file())
            .collect();
        segments.sort();
        let close = |mode: u32| {
            for path in &segments {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
            }
        };
        let is_unknown = |what: &str| {
            for more in [&[][..], &["--dwb-only"]] {
                let closed = closed.check(more);
                assert_run_as_owner(&format!("{case}, {what} {more:?}"), &closed);
                let summary = summary(&closed.1);
                assert_eq!(summary["on_start"]["start"], "unknown", "{case}, {what}: {summary}");
                let doubts = texts(&summary["doubt_codes"], None);
                assert!(doubts.contains(&"wal_denied"), "{case}, {what}: {doubts:?}");
                for missing in ["no_wal", "no_wal_at_redo", "ends_before_checkpoint", "segment_missing"] {
                    assert!(!doubts.contains(&missing), "{case}, {what}: {doubts:?}");
                }
                assert!(closed.1.iter().all(|line| line["kind"] != "wal_gap"), "{case}, {what}");
            }
        };
        close(0o000);
        is_unknown("all segments");
        close(0o644);
        // The redo point is in one of them: what came before it is not needed.
        let redo = summary(&open.1)["redo_lsn"].as_str().expect("LSN").to_owned();
        let redo: u64 = redo.split('/').next_back().and_then(|low| u64::from_str_radix(low, 16).ok()).expect("LSN");
        let segment_bytes = segments.last().expect("a segment").metadata().expect("size").len();
        let needed = segments.iter().position(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("name");
            u64::from_str_radix(&name[16..], 16).is_ok_and(|number| number == redo / segment_bytes)
        });
        let needed = &segments[needed.expect("the segment of the redo point")];
        fs::set_permissions(needed, fs::Permissions::from_mode(0o000)).expect("mode");
        is_unknown("the segment of the redo point");
        fs::set_permissions(needed, fs::Permissions::from_mode(0o644)).expect("mode");
        closed.set_mode("pg_wal", 0o000);
        is_unknown("the directory");
        closed.set_mode("pg_wal", 0o755);
        assert_eq!(closed.check(&[]), open, "{case}: all is open again");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn other_files_that_may_not_be_opened_make_no_step_wrong() {
    for (case, _) in CASES {
        let closed = Closed::of(case);
        for name in ["base/5/1259", "base/5", "pg_dwbuf/dwbuf_000", "global/pg_control"] {
            let before = closed.data().join(name).metadata().expect("metadata").permissions().mode();
            closed.set_mode(name, 0o000);
            let found = closed.check(&[]);
            assert_run_as_owner(&format!("{case}, {name}"), &found);
            let skipped = found.1.iter().filter(|line| line["type"] == "skipped" && line["code"] == "unreadable");
            assert!(skipped.count() > 0, "{case}, {name}");
            closed.set_mode(name, before & 0o777);
        }
    }
}
