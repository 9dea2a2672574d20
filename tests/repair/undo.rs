//! `pg_dwbinspect undo` and `repair --resume` after something else has happened to the cluster or to the journal.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{Ran, arg, copy_of, dwbinspect, edit_control, run};
use serde_json::Value;

/// Offset of `time` in `pg_control`, and of `state`.
const TIME: usize = 24;
const STATE: usize = 16;

/// A repaired copy of the cluster `checkpoint`, its journal, and its six repaired pages as they were when it crashed.
struct Repaired {
    keep: tempfile::TempDir,
    data: PathBuf,
    crashed: Vec<Vec<u8>>,
}

/// The files of the repaired pages.
const FILES: [&str; 5] = ["1259", "2619", "2662", "2663", "2665"];

fn files(data: &Path) -> Vec<Vec<u8>> {
    FILES.map(|file| fs::read(data.join("base/5").join(file)).expect("read")).into()
}

impl Repaired {
    fn new() -> Self {
        let (keep, data) = copy_of("checkpoint");
        let crashed = files(&data);
        let repaired = Self { keep, data, crashed };
        let ran = dwbinspect(&["repair", arg(&repaired.data), "--apply", "--journal", arg(&repaired.journal())]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_ne!(files(&repaired.data), repaired.crashed);
        repaired
    }

    fn journal(&self) -> PathBuf {
        self.keep.path().join("journal")
    }

    fn undo(&self, flags: &[&str]) -> Ran {
        dwbinspect(&[&["undo", arg(&self.data), arg(&self.journal())], flags].concat())
    }

    fn resume(&self, flags: &[&str]) -> Ran {
        dwbinspect(&[&["repair", arg(&self.data), "--resume", arg(&self.journal())], flags].concat())
    }

    /// Flips a bit in a page.
    fn change(&self, file: &str, offset: usize) {
        let path = self.data.join("base/5").join(file);
        let mut bytes = fs::read(&path).expect("read");
        bytes[offset] ^= 1;
        fs::write(&path, bytes).expect("write");
    }

    /// Changes the manifest and signs it again.
    fn edit_manifest(&self, edit: impl FnOnce(&mut Value)) {
        let path = self.journal().join("journal.json");
        let text = fs::read_to_string(&path).expect("manifest");
        let mut manifest = serde_json::from_str(text.lines().next().expect("line")).expect("JSON");
        edit(&mut manifest);
        let body = manifest.to_string();
        fs::write(&path, format!("{body}\n{:08x}\n", crc32c::crc32c(body.as_bytes()))).expect("manifest");
    }

    /// Makes the journal one of the first format: a CRC-32C over the whole of `pg_control` in place of a witness.
    fn make_old(&self) {
        let control = fs::read(self.data.join("global/pg_control")).expect("pg_control");
        self.edit_manifest(|manifest| {
            let manifest = manifest.as_object_mut().expect("object");
            manifest.remove("witness");
            manifest.insert("schema".to_owned(), 1.into());
            manifest.insert("control_crc".to_owned(), format!("{:08x}", crc32c::crc32c(&control)).into());
        });
    }

    fn control_time(&self) -> i64 {
        let control = fs::read(self.data.join("global/pg_control")).expect("pg_control");
        i64::from_le_bytes(control[TIME..TIME + 8].try_into().expect("eight bytes"))
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn server_that_was_started_since_forbids_undo_and_resume() {
    let every_flag = ["--allow-shut-down", "--allow-standby", "--skip-changed", "--allow-old-journal"];
    let edits: [(&str, usize, &[u8]); 4] = [
        ("killed while it recovered: another time", TIME, &1_900_000_000_i64.to_le_bytes()),
        ("killed while it recovered: another state", STATE, &4_u32.to_le_bytes()),
        ("stopped in order", STATE, &1_u32.to_le_bytes()),
        ("another checkpoint", 32, &0x0100_0028_u64.to_le_bytes()),
    ];
    for (what, offset, bytes) in edits {
        let repaired = Repaired::new();
        edit_control(&repaired.data, offset, bytes);
        let before = files(&repaired.data);
        for ran in [
            repaired.undo(&every_flag),
            repaired.resume(&every_flag),
            repaired.undo(&[&every_flag[..], &["--page", "base/5/1259:0"]].concat()),
        ] {
            assert_eq!(ran.status, 2, "{what}: {}", ran.stdout);
            assert!(ran.stderr.contains("a server was started after the repair began"), "{what}: {}", ran.stderr);
            assert!(ran.stderr.contains("no page was written"), "{what}: {}", ran.stderr);
        }
        assert_eq!(files(&repaired.data), before, "{what}");
    }
}

/// Copies of a cluster have one number, one control file and one end of WAL.
#[test]
fn another_copy_of_the_cluster_is_refused() {
    let repaired = Repaired::new();
    let (_keep, copy) = copy_of("checkpoint");
    let undo = |flags: &[&str]| dwbinspect(&[&["undo", arg(&copy), arg(&repaired.journal())], flags].concat());
    let resume =
        |flags: &[&str]| dwbinspect(&[&["repair", arg(&copy), "--resume", arg(&repaired.journal())], flags].concat());
    let every_flag = ["--skip-changed", "--allow-old-journal", "--allow-shut-down", "--allow-standby"];
    let (crashed, whole) = (files(&copy), files(&repaired.data));
    let refused = |what: &str| {
        for content in [&crashed, &whole] {
            for (file, bytes) in FILES.iter().zip(content) {
                fs::write(copy.join("base/5").join(file), bytes).expect("write");
            }
            for ran in [undo(&[]), undo(&every_flag), resume(&[]), resume(&every_flag)] {
                assert_eq!(ran.status, 2, "{what}: {}{}", ran.stdout, ran.stderr);
                assert!(ran.stderr.contains("--moved"), "{what}: {}", ran.stderr);
                assert!(ran.stderr.contains(arg(&repaired.data)), "{what}: {}", ran.stderr);
                assert!(&files(&copy) == content, "{what}");
            }
        }
    };
    refused("a journal of this version");
    repaired.edit_manifest(|manifest| {
        manifest.as_object_mut().expect("object").remove("directory").expect("device and inode");
    });
    refused("a journal without device and inode");
    // The one that was repaired is known by its path alone.
    assert_eq!(repaired.undo(&[]).status, 0);
    assert_eq!(files(&repaired.data), repaired.crashed);
    // The copy has the pages of the repair, and the user says what it is.
    let ran = undo(&["--moved"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(files(&copy), crashed);
}

#[test]
fn directory_that_was_moved_asks_for_a_flag_and_one_that_took_its_path_too() {
    let repaired = Repaired::new();
    let whole = files(&repaired.data);
    let elsewhere = repaired.keep.path().join("elsewhere");
    fs::rename(&repaired.data, &elsewhere).expect("move");
    let ran = dwbinspect(&["undo", arg(&elsewhere), arg(&repaired.journal())]);
    assert!(ran.status == 2 && ran.stderr.contains("--moved"), "{}", ran.stderr);
    assert_eq!(files(&elsewhere), whole);
    // Another copy stands where the repaired directory was: same path, other directory.
    let (_keep, copy) = copy_of("checkpoint");
    let copied = std::process::Command::new("cp").args(["-a", arg(&copy), arg(&repaired.data)]).status().expect("cp");
    assert!(copied.success());
    for ran in [repaired.undo(&[]), repaired.resume(&[])] {
        assert!(ran.status == 2 && ran.stderr.contains("--moved"), "{}", ran.stderr);
        assert!(ran.stderr.contains("was at"), "{}", ran.stderr);
    }
    assert_eq!(files(&repaired.data), repaired.crashed);
    let ran = dwbinspect(&["repair", arg(&elsewhere), "--resume", arg(&repaired.journal()), "--moved"]);
    assert_eq!((ran.status, files(&elsewhere) == whole), (0, true), "{}", ran.stderr);
    let ran = dwbinspect(&["undo", arg(&elsewhere), arg(&repaired.journal()), "--moved"]);
    assert_eq!((ran.status, files(&elsewhere) == repaired.crashed), (0, true), "{}", ran.stderr);
    // Without a journal the flag means nothing.
    assert_eq!(dwbinspect(&["repair", arg(&elsewhere), "--moved"]).status, 2);
}

#[test]
fn path_of_a_journal_leads_to_the_directory_through_links_and_tells_nothing_where_it_is_relative() {
    let repaired = Repaired::new();
    let link = repaired.keep.path().join("link");
    symlink(&repaired.data, &link).expect("link");
    assert_eq!(dwbinspect(&["undo", arg(&link), arg(&repaired.journal())]).status, 0);
    assert_eq!(files(&repaired.data), repaired.crashed);
    // Earlier versions wrote down what was typed.
    let rename = |path: &Path| {
        repaired.edit_manifest(|manifest| {
            let manifest = manifest.as_object_mut().expect("object");
            manifest.remove("directory");
            manifest.insert("data_dir".to_owned(), arg(path).into());
        });
    };
    rename(&link);
    assert_eq!(repaired.resume(&[]).status, 0);
    for path in ["data", ".", ""] {
        rename(Path::new(path));
        let ran = repaired.undo(&[]);
        assert!(ran.status == 2 && ran.stderr.contains("--moved"), "{path}: {}", ran.stderr);
        assert_ne!(files(&repaired.data), repaired.crashed);
    }
    assert_eq!(repaired.undo(&["--moved"]).status, 0);
}

#[test]
fn wal_that_goes_on_after_its_end_forbids_undo() {
    let repaired = Repaired::new();
    let before = files(&repaired.data);
    // The whole of pg_wal as it was, but for the first byte after the last record: a server would write there, whatever
    // stands in pg_control. Where WAL ends is told by the other program.
    let verify = run("pg_walfpi", &["verify", "--format", "ndjson", arg(&repaired.data)]);
    let end = verify.of_type("run").pop().expect("a run")["end_lsn"].as_str().expect("LSN").to_owned();
    let (high, low) = end.split_once('/').expect("LSN");
    let lsn = (u64::from_str_radix(high, 16).expect("hex") << 32) | u64::from_str_radix(low, 16).expect("hex");
    let segment_bytes = 1_u64 << 20;
    let segment = repaired.data.join(format!("pg_wal/{:08X}{:08X}{:08X}", 1, 0, lsn / segment_bytes));
    let mut wal = fs::read(&segment).unwrap_or_else(|error| panic!("{}: {error}", segment.display()));
    assert_eq!(wal.len() as u64, segment_bytes);
    wal[usize::try_from(lsn % segment_bytes).expect("offset")] ^= 0x55;
    fs::write(&segment, wal).expect("write");
    let ran = repaired.undo(&[]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("WAL was written after its end"), "{}", ran.stderr);
    assert_eq!(files(&repaired.data), before);
}

#[test]
fn journal_of_the_first_format_asks_for_a_flag() {
    let repaired = Repaired::new();
    repaired.make_old();
    let before = files(&repaired.data);
    for ran in [repaired.undo(&[]), repaired.resume(&[])] {
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(ran.stderr.contains("cannot show whether a server was started"), "{}", ran.stderr);
        assert!(ran.stderr.contains("--allow-old-journal"), "{}", ran.stderr);
    }
    assert_eq!(files(&repaired.data), before);
    // A server that wrote pg_control after the repair is proof even for such a journal, and no flag lifts that.
    let time = repaired.control_time();
    edit_control(&repaired.data, TIME, &(jiff::Timestamp::now().as_second() + 3600).to_le_bytes());
    let ran = repaired.undo(&["--allow-old-journal"]);
    assert!(ran.status == 2 && ran.stderr.contains("after the repair began"), "{}", ran.stderr);
    assert_eq!(files(&repaired.data), before);
    edit_control(&repaired.data, TIME, &time.to_le_bytes());
    // However long its log has become, the beginning of the repair stands at its beginning.
    let log = repaired.journal().join("audit.ndjson");
    fs::File::options().append(true).open(log).and_then(|log| log.set_len(1 << 40)).expect("hole");
    let ran = repaired.undo(&["--allow-old-journal"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(files(&repaired.data), repaired.crashed);
    assert_eq!(repaired.resume(&["--allow-old-journal"]).status, 0);
    assert_eq!(files(&repaired.data), before);
}

#[test]
fn page_that_somebody_changed_does_not_keep_the_others() {
    let repaired = Repaired::new();
    let whole = files(&repaired.data);
    repaired.change("1259", 5000);
    let changed = files(&repaired.data);
    for ran in [repaired.undo(&[]), repaired.resume(&[])] {
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(ran.stderr.contains("changed since by something else: base/5/1259 block 0"), "{}", ran.stderr);
        assert!(ran.stderr.contains("no page was written") && ran.stderr.contains("--skip-changed"), "{}", ran.stderr);
    }
    assert_eq!(files(&repaired.data), changed);
    // One page, by its name.
    let ran = repaired.undo(&["--page", "base/5/2619:18"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let now = files(&repaired.data);
    for (at, file) in FILES.into_iter().enumerate() {
        let expected = if file == "2619" { &repaired.crashed[at] } else { &changed[at] };
        assert_eq!(&now[at], expected, "{file}");
    }
    assert_eq!(repaired.undo(&["--page", "base/5/1259:7"]).status, 2, "no page of the journal");
    // All the others.
    let ran = repaired.undo(&["--skip-changed", "--format", "json"]);
    assert_eq!(ran.status, 1, "a page was left: {}", ran.stderr);
    let summary = &serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["summary"];
    assert_eq!((&summary["written"], &summary["already"], &summary["exit_status"]), (&4.into(), &1.into(), &1.into()));
    let left = &summary["left_unchanged"];
    assert_eq!(
        (&left[0]["path"], &left[0]["block"], &left[0]["kind"]),
        (&"base/5/1259".into(), &0.into(), &"changed".into())
    );
    let now = files(&repaired.data);
    assert_eq!(now[0], changed[0], "the page of somebody else");
    assert_eq!(now[1..], repaired.crashed[1..]);
    // And forward again.
    let ran = repaired.resume(&["--skip-changed"]);
    assert!(ran.status == 1 && ran.stdout.contains("base/5/1259 block 0"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(files(&repaired.data)[1..], whole[1..]);
    // The flag means nothing where no journal is carried out again.
    assert_eq!(dwbinspect(&["repair", arg(&repaired.data), "--skip-changed"]).status, 2);
}

#[test]
fn undo_needs_no_new_bytes() {
    for damage in ["missing", "damaged"] {
        let repaired = Repaired::new();
        let path = repaired.journal().join("after.pages");
        match damage {
            "missing" => fs::remove_file(&path).expect("remove"),
            _ => fs::write(&path, "nothing of use").expect("write"),
        }
        assert_eq!(repaired.resume(&[]).status, 2, "{damage}");
        let ran = repaired.undo(&[]);
        assert_eq!(ran.status, 0, "{damage}: {}", ran.stderr);
        assert_eq!(files(&repaired.data), repaired.crashed, "{damage}");
    }
}

#[test]
fn journal_that_is_not_safe_from_others_is_refused() {
    let repaired = Repaired::new();
    let before = files(&repaired.data);
    let mode = |bits| fs::set_permissions(repaired.journal(), fs::Permissions::from_mode(bits)).expect("chmod");
    mode(0o777);
    let ran = repaired.undo(&[]);
    assert!(ran.status == 2 && ran.stderr.contains("may be written by other users"), "{}", ran.stderr);
    mode(0o700);
    // Kept in the data directory: its log would be written there.
    let inside = repaired.data.join("journal");
    fs::rename(repaired.journal(), &inside).expect("move");
    let ran = dwbinspect(&["undo", arg(&repaired.data), arg(&inside)]);
    assert!(ran.status == 2 && ran.stderr.contains("is inside"), "{}", ran.stderr);
    fs::rename(&inside, repaired.journal()).expect("move back");
    // Pages of another size.
    repaired.edit_manifest(|manifest| manifest["block_size"] = 4096.into());
    let ran = repaired.undo(&[]);
    assert!(ran.status == 2 && ran.stderr.contains("pages of 4096 bytes"), "{}", ran.stderr);
    repaired.edit_manifest(|manifest| manifest["block_size"] = 8192.into());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(repaired.journal(), Some(65_534), Some(65_534)).expect("chown");
        let ran = repaired.undo(&[]);
        assert!(ran.status == 2 && ran.stderr.contains("belongs to user 65534"), "{}", ran.stderr);
        std::os::unix::fs::chown(repaired.journal(), Some(0), Some(0)).expect("chown");
    } else {
        common::skipped("only root can give a journal away");
    }
    assert_eq!(files(&repaired.data), before);
    assert_eq!(repaired.undo(&[]).status, 0);
}

#[test]
fn copy_of_the_cluster_is_undone_with_a_hint() {
    let repaired = Repaired::new();
    let untouched = repaired.undo(&["--format", "json"]);
    let hint = |ran: &Ran| serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["summary"]["newer_files"].clone();
    assert_eq!(hint(&untouched), Value::Array(Vec::new()), "{}", untouched.stderr);
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(100);
    let options = repaired.data.join("postmaster.opts");
    fs::write(&options, "/bin/postgres\n").expect("write");
    fs::File::options().write(true).open(&options).and_then(|file| file.set_modified(future)).expect("time");
    let ran = repaired.resume(&["--format", "json"]);
    assert_eq!((ran.status, hint(&ran)), (0, serde_json::json!(["postmaster.opts"])), "{}", ran.stderr);
    assert!(repaired.undo(&[]).stdout.contains("postmaster.opts"));
}

/// Commands that make something new in `place`.
fn writers(data: &Path, place: &Path) -> [(&'static str, Vec<String>, PathBuf); 4] {
    let new = |name: &str| place.join(name);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let data = arg(data);
    [
        ("pg_dwbinspect", words(&["repair", data, "--apply", "--journal", arg(&new("journal"))]), new("journal")),
        ("pg_dwbinspect", words(&["repair", data, "--plan", arg(&new("plan.json"))]), new("plan.json")),
        ("pg_dwbinspect", words(&["dump", data, "--images", arg(&new("images"))]), new("images")),
        ("pg_walfpi", words(&["extract", arg(&new("pages")), data]), new("pages")),
    ]
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn nothing_new_is_made_in_what_belongs_to_the_cluster() {
    let (keep, data) = copy_of("checkpoint");
    // WAL, a tablespace and a directory of the administrator's own, all outside; a tablespace whose disk is not mounted.
    let outside = |name: &str| keep.path().join(name);
    fs::rename(data.join("pg_wal"), outside("wal")).expect("move");
    symlink(outside("wal"), data.join("pg_wal")).expect("link");
    for (name, link) in [("space", "pg_tblspc/20001"), ("logs", "log")] {
        fs::create_dir(outside(name)).expect("directory");
        symlink(outside(name), data.join(link)).expect("link");
    }
    symlink(outside("unmounted"), data.join("pg_tblspc/20002")).expect("link");
    fs::create_dir(outside("elsewhere")).expect("directory");
    for place in [data.clone(), data.join("base"), outside("wal"), outside("space"), outside("logs")] {
        for (program, args, made) in writers(&data, &place) {
            let ran = run(program, &args.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.status, 2, "{args:?}: {}", ran.stdout);
            assert!(!made.exists(), "{args:?}");
        }
    }
    // The place of the disk itself: to make it would hide what is mounted there later.
    let images = |place: &str| dwbinspect(&["dump", arg(&data), "--images", arg(&outside(place))]);
    assert_eq!(images("unmounted").status, 2);
    assert!(!outside("unmounted").exists());
    let ran = images("elsewhere/images");
    assert!(outside("elsewhere/images").exists(), "{}", ran.stderr);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn where_a_tablespace_is_must_be_known_before_anything_is_written() {
    let (keep, data) = copy_of("checkpoint");
    let elsewhere = keep.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("directory");
    // A link that leads in a circle, and one through something that is not a directory.
    for target in [data.join("pg_tblspc/20001"), data.join("PG_VERSION/space")] {
        let link = data.join("pg_tblspc/20001");
        symlink(target, &link).expect("link");
        for (program, args, made) in writers(&data, &elsewhere) {
            let ran = run(program, &args.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.status, 2, "{args:?}: {}", ran.stdout);
            assert!(!made.exists(), "{args:?}: {}", ran.stderr);
        }
        fs::remove_file(&link).expect("remove");
    }
}

/// Runs the program with files limited to so many blocks of 512 bytes.
fn limited(blocks: usize, args: &[&str]) -> Ran {
    let mut command = assert_cmd::Command::new("sh");
    command.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
    command.arg(assert_cmd::cargo::cargo_bin("pg_dwbinspect")).args(args);
    let output = command.output().expect("program runs");
    Ran {
        status: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}")),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn limit_on_the_size_of_files_is_told_and_nothing_is_lost() {
    let whole = files(&Repaired::new().data);
    let (keep, data) = copy_of("checkpoint");
    let crashed = files(&data);
    let mut counts = std::collections::BTreeSet::new();
    // From a journal that cannot be begun, over relation files that are too long, to a repair that comes to its end.
    for blocks in (0..500).step_by(16).filter(|blocks| *blocks < 32 || *blocks > 90) {
        let journal = keep.path().join(format!("journal{blocks}"));
        let ran = limited(blocks, &["repair", arg(&data), "--apply", "--journal", arg(&journal)]);
        let pages = |files: &[Vec<u8>]| files.iter().map(|file| file.chunks(8192).count()).collect::<Vec<_>>();
        let now = files(&data);
        assert_eq!(pages(&now), pages(&crashed), "{blocks}: no file becomes longer or shorter");
        let mut written = 0;
        for ((now, old), new) in now.iter().zip(&crashed).zip(&whole) {
            for ((now, old), new) in now.chunks(8192).zip(old.chunks(8192)).zip(new.chunks(8192)) {
                let half =
                    now.chunks(512).zip(old.chunks(512)).zip(new.chunks(512)).all(|((n, o), w)| n == o || n == w);
                assert!(half, "{blocks}: neither old nor new");
                assert!(
                    now == old || now == new || ran.stderr.contains("this page may be only half written"),
                    "{blocks}"
                );
                written += usize::from(now == new && old != new);
            }
        }
        let words = match written {
            0 => "no page was written".to_owned(),
            1 => "1 page was written before that".to_owned(),
            count => format!("{count} pages were written before that"),
        };
        let is_told = ran.stderr.contains(&words) || written == 0 && ran.stderr.contains("no other page was written");
        assert!(if ran.status == 0 { now == whole } else { ran.status == 2 && is_told }, "{blocks}: {}", ran.stderr);
        if ran.stderr.contains("cannot write") && ran.stderr.contains("/base/5/") {
            assert!(ran.stderr.contains("this page may be only half written"), "{blocks}: {}", ran.stderr);
        }
        counts.insert(written);
        if journal.join("journal.json").exists() {
            let ran = dwbinspect(&["repair", arg(&data), "--resume", arg(&journal)]);
            assert_eq!((ran.status, files(&data) == whole), (0, true), "{blocks}: {}", ran.stderr);
            let ran = dwbinspect(&["undo", arg(&data), arg(&journal)]);
            assert_eq!(ran.status, 0, "{blocks}: {}", ran.stderr);
        }
        assert!(files(&data) == crashed, "{blocks}");
    }
    assert!(counts.len() > 2 && counts.contains(&0) && counts.contains(&6), "{counts:?}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn bind_mount_of_a_part_of_the_data_is_the_data() {
    let (keep, data) = copy_of("checkpoint");
    let mount = keep.path().join("mount");
    fs::create_dir(&mount).expect("directory");
    // In a name space of its own: the mount goes away with the program.
    let mounted = |from: &Path, program: &[&str]| {
        let mut command = assert_cmd::Command::new("unshare");
        command.args(["-m", "sh", "-c", "mount --bind \"$1\" \"$2\" || exit 77; shift 2; exec \"$@\"", "sh"]);
        command.args([from, &mount]).args(program).output().ok()
    };
    if !mounted(&data, &["true"]).is_some_and(|output| output.status.success()) {
        return common::skipped("nothing can be mounted here");
    }
    let program = assert_cmd::cargo::cargo_bin("pg_dwbinspect");
    let journal = mount.join("journal");
    for part in ["", "base", "base/5", "pg_wal"] {
        let args = [arg(&program), "repair", arg(&data), "--apply", "--journal", arg(&journal)];
        let output = mounted(&data.join(part), &args).expect("program runs");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && words.contains("is inside"), "{part}: {words}");
        assert!(!data.join(part).join("journal").exists(), "{part}");
    }
}
