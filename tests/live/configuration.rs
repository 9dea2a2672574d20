//! Settings with which servers refuse to start: what `check` foretells is compared with what the server does.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use super::lost_files::{crash_and_stop, is_sound, line, servers};
use super::server_files::told;
use crate::common::live::Server;

/// What a change of a copy leads to.
struct Case<'a> {
    /// Files that are made or written anew; a name that ends with `/` is a directory.
    files: &'a [(&'a str, &'a str)],
    /// Lines that are added to `postgresql.conf`.
    settings: &'a str,
    /// The file with the problem.
    refused: Option<&'a str>,
}

fn compare(server: &Server, cases: &[Case<'_>]) {
    for case in cases {
        let copy = server.copy();
        for (name, text) in case.files {
            let path = copy.data().join(name);
            if name.ends_with('/') { fs::create_dir_all(&path) } else { fs::write(&path, text) }.unwrap();
        }
        copy.configure(&format!("{}\n", case.settings));
        let what = format!("{} {:?}", case.settings, case.files);
        let (status, start, problems, _) = told(&copy.data());
        let is_up = copy.launch(&[]);
        assert_eq!(is_up, case.refused.is_none(), "{what}: {}", copy.log());
        match case.refused {
            None => assert_eq!((status, problems.len()), (0, 0), "{what}: {start} {problems:?}"),
            Some(file) => {
                // A later timeline leaves more unknown than that.
                let (expected, code) =
                    if file.ends_with(".history") { (2, "timeline_forked") } else { (1, "configuration") };
                assert_eq!((status, start.as_str()), (expected, "cannot_begin"), "{what}: {problems:?}");
                assert_eq!(problems, [(code.to_owned(), file.to_owned())], "{what}");
            }
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn settings_of_recovery_that_the_server_refuses_are_foretold() {
    let Some(server) = Server::start("max_connections = 50\nmax_wal_senders = 5") else { return };
    server.stop("fast");
    let main = Some("postgresql.conf");
    let standby = &[("standby.signal", "")];
    compare(
        &server,
        &[
            Case { files: standby, settings: "", refused: None },
            Case { files: standby, settings: "max_connections = 60", refused: None },
            Case { files: &[], settings: "max_connections = 49", refused: None },
            Case { files: &[], settings: "recovery_target = 'immediate'", refused: None },
            Case { files: &[], settings: "recovery_target = 'immediate'\nrecovery_target_xid = '1000'", refused: main },
            Case { files: &[], settings: "recovery_target_name = ''\nrecovery_target_xid = '1000'", refused: None },
            Case { files: standby, settings: "recovery_target_timeline = 'latest'", refused: None },
        ],
    );
    // It ends before the target, and no server starts.
    let recovery = "restore_command = 'false'\n";
    for (target, is_usual) in
        [("", true), ("recovery_target_xid = '100000'", false), ("recovery_target_name 'x'", false)]
    {
        let copy = server.copy();
        fs::write(copy.data().join("recovery.signal"), "").unwrap();
        copy.configure(&format!("{recovery}{target}\n"));
        let (status, start, problems, _) = told(&copy.data());
        assert_eq!(copy.launch(&[]), is_usual, "{target}: {}", copy.log());
        // A later timeline may be where the command looks.
        let expected = if is_usual { (2, "completes", 0) } else { (2, "unknown", 1) };
        assert_eq!((status, start.as_str(), problems.len()), expected, "{target}: {problems:?}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn timeline_that_the_checkpoint_is_not_on_is_foretold() {
    let Some(server) = Server::start("") else { return };
    server.stop("fast");
    let early = [("standby.signal", ""), ("pg_wal/00000002.history", "1\t0/100000\tx\n")];
    let late = [("standby.signal", ""), ("pg_wal/00000002.history", "1\tF/1000000\tx\n")];
    let file = Some("pg_wal/00000002.history");
    compare(
        &server,
        &[
            Case { files: &early, settings: "", refused: file },
            Case { files: &early, settings: "recovery_target_timeline = latest", refused: file },
            Case { files: &early, settings: "recovery_target_timeline = 'current'", refused: None },
            Case { files: &early[1..], settings: "", refused: None },
            Case { files: &late[1..], settings: "", refused: None },
        ],
    );
    // It starts, and follows the later timeline, which is not read here.
    let copy = server.copy();
    for (name, text) in late {
        fs::write(copy.data().join(name), text).unwrap();
    }
    let (status, _, problems, _) = told(&copy.data());
    assert_eq!((status, problems.len()), (2, 0), "{problems:?}");
    assert!(copy.launch(&[]), "{}", copy.log());
}

/// Ends recovery at once, so that the server goes on in timeline 2.
fn promote(server: &Server) {
    let is_old = server.major() < 12;
    let command = "restore_command = 'false'\n";
    let signal = server.data().join(if is_old { "recovery.conf" } else { "recovery.signal" });
    fs::write(&signal, if is_old { command } else { "" }).unwrap();
    let owner = fs::metadata(server.data()).unwrap();
    chown(&signal, Some(owner.uid()), Some(owner.gid())).unwrap();
    if !is_old {
        server.configure(command);
    }
    assert!(server.launch(&[]), "{}", server.log());
    while line(server, "select pg_is_in_recovery()") == "t" {}
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn history_that_the_server_cannot_read_is_named() {
    for server in servers("") {
        promote(&server);
        server.sql("create table t as select 1; checkpoint; create table u as select 1;");
        let history = "pg_wal/00000002.history";
        assert!(server.data().join(history).is_file(), "{}", server.log());
        let stopped = crash_and_stop(&server);
        for (server, sound) in [(&server, "completes"), (&stopped, "without_replay")] {
            let text = fs::read_to_string(server.data().join(history)).unwrap();
            let latin = [text.trim_end().as_bytes(), b" \xe9\n"].concat();
            for bytes in [Some(latin.as_slice()), Some(b""), Some(b"# nothing\n\n"), None] {
                let copy = server.copy();
                let path = copy.data().join(history);
                bytes.map_or_else(|| fs::remove_file(&path), |bytes| fs::write(&path, bytes)).unwrap();
                is_sound(&copy.data(), sound);
                assert!(copy.launch(&[]), "{bytes:?}: {}", copy.log());
            }
            for bytes in [Some(b"what\n".as_slice()), Some(b"1\n"), Some(b"2\t0/1000000\tx\n"), Some(b"1 x\n"), None] {
                let copy = server.copy();
                let path = copy.data().join(history);
                match bytes {
                    Some(bytes) => fs::write(&path, bytes).unwrap(),
                    None => {
                        fs::remove_file(&path).unwrap();
                        fs::create_dir(&path).unwrap();
                    }
                }
                let (status, start, problems, steps) = told(&copy.data());
                assert!(problems.contains(&("history_file".to_owned(), history.to_owned())), "{problems:?}");
                assert!(status > 0 && start == "cannot_begin", "{bytes:?}: {start}");
                assert!(!steps.contains("\"start\""), "{steps}");
                assert!(!copy.launch(&[]), "{bytes:?}: {}", copy.log());
            }
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn recovery_over_minimal_wal_is_foretold() {
    for server in servers("wal_level = minimal\nmax_wal_senders = 0") {
        assert!(server.launch(&[]), "{}", server.log());
        server.stop("fast");
        let major = server.major();
        let signal = if major < 12 { "recovery.conf" } else { "standby.signal" };
        compare(&server, &[Case { files: &[], settings: "wal_level = replica", refused: None }]);
        // Where nobody may read, older servers wait for WAL.
        for settings in ["hot_standby = on", "hot_standby = off"].into_iter().take(if major < 14 { 1 } else { 2 }) {
            let copy = server.copy();
            copy.configure(&format!("wal_level = replica\n{settings}\n"));
            fs::write(copy.data().join(signal), "standby_mode = on\n").unwrap();
            let (status, start, problems, _) = told(&copy.data());
            assert_eq!((status > 0, start.as_str()), (true, "cannot_begin"), "{major} {settings}: {problems:?}");
            assert_eq!(problems, [("configuration".to_owned(), "global/pg_control".to_owned())]);
            assert!(!copy.launch(&[]), "{major} {settings}: {}", copy.log());
        }
    }
}
