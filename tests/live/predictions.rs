//! Predictions about things other than pages, compared with what a live server does.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::lost_files::servers;
use crate::common::live::Server;
use crate::common::{Ran, arg, dwbinspect};
use rustix::process::{Pid, WaitId, WaitIdOptions, geteuid, waitid};
use serde_json::Value;

/// User that servers are run as when the tests run as root.
const NOBODY: u32 = 65_534;

/// A crashed cluster.
fn crashed() -> Option<Server> {
    let server = Server::start("")?;
    server.sql("create table t as select i from generate_series(1, 1000) i;");
    server.stop("immediate");
    Some(server)
}

fn sleeper(user: Option<u32>) -> Child {
    let mut command = Command::new("sleep");
    command.arg("300");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.spawn().unwrap()
}

/// What `check` says, with this number in `postmaster.pid`.
fn told(server: &Server, pid: u32) -> (i32, Value, String) {
    fs::write(server.data().join("postmaster.pid"), format!("{pid}\n{}\n", server.data().display())).unwrap();
    let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
    let on_start = ran.of_type("summary").pop().unwrap()["on_start"].clone();
    let text = dwbinspect(&["check", "--width", "300", arg(&server.data())]).stdout;
    (ran.status, on_start, text)
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn number_of_any_process_of_the_user_keeps_a_server_from_starting() {
    let Some(server) = crashed() else { return };
    let user = geteuid().is_root().then_some(NOBODY);
    let mut sleeper = sleeper(user);
    let pid = sleeper.id();
    for is_zombie in [false, true] {
        if is_zombie {
            sleeper.kill().unwrap();
            let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            // Waits for the end, and leaves the process uncollected.
            waitid(WaitId::Pid(raw), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        }
        let (status, on_start, text) = told(&server, pid);
        assert_eq!((status, &on_start["refused_by_pid"]), (1, &pid.into()), "zombie: {is_zombie}: {on_start}");
        assert_eq!(on_start["start"], "completes", "no server runs");
        assert!(!text.contains("may be running") && text.contains("remove postmaster.pid"), "{text}");
        let before = server.log().len();
        assert!(!server.launch(&[]), "zombie: {is_zombie}");
        let log = server.log();
        assert!(log[before..].contains("lock file \"postmaster.pid\" already exists"), "{log}");
    }
    sleeper.wait().unwrap();
    let (_, on_start, text) = told(&server, pid);
    assert!(on_start["refused_by_pid"].is_null() && !text.contains("refuses"), "{text}");
    if user.is_some() {
        // A process of another user, the test itself.
        let (_, on_start, text) = told(&server, std::process::id());
        assert!(on_start["refused_by_pid"].is_null() && !text.contains("refuses"), "{text}");
    }
    let begun = Instant::now();
    assert!(server.launch(&[]), "{}", server.log());
    assert!(begun.elapsed() < Duration::from_secs(120));
}

/// A base backup of a running server, beside its data directory.
fn base_backup(server: &Server, name: &str, more: &[&str]) -> PathBuf {
    let (data, to) = (server.data(), server.data().with_file_name(name));
    let host = data.parent().unwrap();
    let args = [&["-h", arg(host), "-U", "postgres", "-c", "fast", "-D", arg(&to)], more].concat();
    server.must("pg_basebackup", &args);
    to
}

fn check(data: &Path) -> (Ran, Value) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let summary = ran.of_type("summary").pop().unwrap_or_default();
    (ran, summary)
}

/// Starts a server on a copy of its data, and stops it; what it said, and whether it came up.
fn comes_up(server: &Server, data: &Path) -> (bool, String) {
    let log = data.with_extension("log");
    let started =
        server.run("pg_ctl", &["start", "-w", "-D", arg(data), "-l", arg(&log), "-o", "-p 6199"]).status.success();
    if started {
        server.must("pg_ctl", &["stop", "-w", "-m", "fast", "-D", arg(data)]);
    }
    (started, String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned())
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn base_backup_is_in_order_when_its_wal_is_complete() {
    let Some(server) = Server::start("") else { return };
    server.sql("create table t as select i, repeat('x', 100) v from generate_series(1, 20000) i; checkpoint;");
    for (name, wal) in [("streamed", "stream"), ("fetched", "fetch")] {
        let backup = base_backup(&server, name, &["-X", wal]);
        let (ran, summary) = check(&backup);
        assert_eq!(
            (ran.status, &summary["recovery"], &summary["backup_end"]),
            (0, &"backup".into(), &"reached".into())
        );
        assert_eq!(summary["on_start"]["start"], "completes", "{}", ran.stdout);
        assert!(ran.of_type("finding").iter().all(|finding| finding["severity"] == "note"), "{}", ran.stdout);
        let text = dwbinspect(&["check", "--width", "300", arg(&backup)]).stdout;
        assert!(text.starts_with("WILL START ") && text.contains("keep backup_label"), "{text}");
        let (is_up, log) = comes_up(&server, &backup);
        assert!(is_up, "{log}");
    }

    let without = base_backup(&server, "without", &["-X", "none"]);
    let (ran, summary) = check(&without);
    assert_eq!(summary["on_start"]["start"], "cannot_begin", "{}", ran.stdout);
    assert_ne!(ran.status, 0);
    assert!(!comes_up(&server, &without).0);

    // The same starts when it is told where WAL is: that of an archive is not known here.
    let fetching = base_backup(&server, "fetching", &["-X", "none"]);
    let conf = fetching.join("postgresql.auto.conf");
    let command = format!("restore_command = 'cp {}/pg_wal/%f %p'\n", server.data().display());
    fs::write(&conf, fs::read_to_string(&conf).unwrap() + &command).unwrap();
    fs::write(fetching.join("recovery.signal"), "").unwrap();
    let (ran, summary) = check(&fetching);
    assert_eq!((ran.status, &summary["on_start"]["start"]), (2, &"unknown".into()), "{}", ran.stdout);
    server.sql("select pg_switch_wal();");
    let (is_up, log) = comes_up(&server, &fetching);
    assert!(is_up, "{log}");

    // The record that ends the backup, and all that follows, never arrived.
    let cut = base_backup(&server, "cut", &["-X", "stream"]);
    let label = fs::read_to_string(cut.join("backup_label")).unwrap();
    let (start, rest) = label.strip_prefix("START WAL LOCATION: ").unwrap().split_once(" (file ").unwrap();
    let segment = cut.join("pg_wal").join(rest.split_once(')').unwrap().0);
    let records = server.run("pg_waldump", &["-s", start, arg(&segment)]).stdout;
    let records = String::from_utf8(records).unwrap();
    let end = records.lines().find(|line| line.contains("BACKUP_END")).unwrap_or_else(|| panic!("{records}"));
    let lsn = end.split_once("lsn: ").unwrap().1.split_once(',').unwrap().0;
    let low = u64::from_str_radix(lsn.split_once('/').unwrap().1, 16).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let at = usize::try_from(low).unwrap() % bytes.len();
    bytes[at..].fill(0);
    fs::write(&segment, bytes).unwrap();
    let (ran, summary) = check(&cut);
    assert_eq!(
        (&summary["on_start"]["start"], &summary["backup_end"]),
        (&"backup_incomplete".into(), &"missing".into())
    );
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "backup_wal_incomplete"), "{}", ran.stdout);
    assert_eq!(ran.status, 1);
    let (is_up, log) = comes_up(&server, &cut);
    assert!(!is_up && log.contains("WAL ends before end of online backup"), "{log}");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn label_that_was_edited_is_refused_where_the_server_refuses_it() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        let backup = base_backup(&server, "edited", &["-X", "stream"]);
        let label = fs::read_to_string(backup.join("backup_label")).unwrap();
        let (control, old) = (backup.join("global/pg_control"), backup.join("backup_label.old"));
        let before = fs::read(&control).unwrap();
        let mut swapped: Vec<&str> = label.split_inclusive('\n').collect();
        swapped.swap(0, 1);
        let edits = [
            label.replace('\n', "\r\n"),
            label.replace("(file ", "("),
            swapped.concat(),
            label.split_inclusive('\n').next().unwrap().to_owned(),
            format!("\n{label}"),
            label.clone(),
        ];
        for (index, edited) in edits.iter().enumerate() {
            fs::write(backup.join("backup_label"), edited).unwrap();
            let (ran, summary) = check(&backup);
            let foretold = summary["on_start"]["start"] == "completes";
            let (is_up, log) = comes_up(&server, &backup);
            assert_eq!((foretold, ran.status == 0), (is_up, is_up), "{index}: {edited:?}: {}\n{log}", ran.stdout);
            if is_up {
                // The rest began anew from what it was.
                break;
            }
            assert_eq!(fs::read(&control).unwrap(), before, "{log}");
            assert!(!old.exists());
        }
        server.stop("immediate");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn backup_in_tar_format_is_told_how_to_be_looked_at() {
    let Some(server) = Server::start("") else { return };
    let space = server.data().with_file_name("a space");
    fs::create_dir(&space).unwrap();
    if geteuid().is_root() {
        std::os::unix::fs::chown(&space, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    server.sql(&format!("create tablespace s location '{}';", space.display()));
    server.sql("create table t tablespace s as select i from generate_series(1, 1000) i;");
    for (name, compression) in [("plain", None), ("it's packed", Some("-z"))] {
        let more: Vec<&str> = ["-Ft"].into_iter().chain(compression).collect();
        let backup = base_backup(&server, name, &more);
        let (ran, _) = check(&backup);
        assert!(ran.status == 2 && ran.stdout.is_empty(), "{}", ran.stdout);
        assert!(ran.stderr.contains("a base backup in tar format"), "{}", ran.stderr);
        let commands: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        let (check_it, unpack) = commands.split_last().unwrap();
        for command in unpack {
            let done = Command::new("sh").args(["-c", command]).current_dir("/").status().unwrap();
            assert!(done.success(), "{command}");
        }
        let unpacked = backup.with_file_name(format!("{name}.unpacked"));
        assert!(check_it.starts_with("pg_dwbinspect check ") && unpacked.join("PG_VERSION").exists(), "{check_it}");
        let (ran, summary) = check(&unpacked);
        // In this form the server makes the links of tablespaces anew, by `tablespace_map`, in the place of the directories
        // that were unpacked here: what it does then is not certain.
        assert_eq!((ran.status, &summary["backup_end"]), (2, &"reached".into()), "{}", ran.stdout);
        assert!(summary["doubt_codes"].as_array().unwrap().contains(&"other_signals".into()), "{summary}");
        // The row of the table in the tablespace was examined too.
        let oid = fs::read_dir(unpacked.join("pg_tblspc")).unwrap().next().unwrap().unwrap();
        assert!(oid.path().is_dir());
        assert_eq!(dwbinspect(&["info", arg(&backup)]).status, 2);
        assert!(dwbinspect(&["info", arg(&backup)]).stderr.contains("in tar format"));
    }
}
