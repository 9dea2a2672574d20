//! Files and directories whose owner or mode keeps a server out, on every major there is: what `check` foretells is what the server does.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::lost_files::{connects, crash_and_stop, directory_of_server, is_sound, line, servers};
use super::server_files::told;
use crate::common::arg;
use crate::common::live::Server;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A cluster of two databases after a crash, and the same stopped in order; the first file of a table that replay changes, and of
/// one that it does not.
fn clusters(server: Server) -> (Server, Server, String, String) {
    assert!(server.launch(&[]), "{}", server.log());
    server.sql(
        "create table t as select i from generate_series(1, 1000) i; create table o as select i from generate_series(1, 1000) i;
         create database other; select pg_create_physical_replication_slot('s'); checkpoint; insert into t values (0);",
    );
    let [changed, other] = ["t", "o"].map(|table| line(&server, &format!("select pg_relation_filepath('{table}')")));
    let stopped = crash_and_stop(&server);
    (server, stopped, changed, other)
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn data_directory_that_others_may_read_is_not_started_in() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        let major = server.major();
        server.stop("fast");
        for mode in [0o700, 0o750, 0o755, 0o710, 0o770, 0o701] {
            let copy = server.copy();
            set_mode(&copy.data(), mode);
            let (status, start, problems, steps) = told(&copy.data());
            let is_allowed = mode == 0o700 || major > 10 && matches!(mode, 0o750 | 0o710);
            if is_allowed {
                is_sound(&copy.data(), "without_replay");
            } else {
                assert_eq!((status, start.as_str()), (1, "cannot_begin"), "{mode:o}: {problems:?}");
                assert_eq!(problems, [("data_dir_mode".to_owned(), String::new())]);
                assert!(steps.contains("give_access") && steps.contains("chmod 0700"), "{steps}");
            }
            assert_eq!(copy.launch(&[]), is_allowed, "{mode:o}: {}", copy.log());
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn what_the_server_cannot_open_is_named() {
    for server in servers("max_replication_slots = 3\nwal_level = replica") {
        let (server, stopped, changed, other) = clusters(server);
        // What a start brings after a crash and after a stop.
        let cases = [
            ("", 0o500, "cannot_begin", "cannot_begin"),
            ("global", 0o000, "cannot_begin", "cannot_begin"),
            ("pg_xact", 0o000, "cannot_begin", "cannot_begin"),
            ("pg_notify", 0o000, "cannot_begin", "cannot_begin"),
            ("pg_replslot/s", 0o000, "cannot_begin", "cannot_begin"),
            ("PG_VERSION", 0o000, "cannot_begin", "cannot_begin"),
            ("postgresql.conf", 0o000, "cannot_begin", "cannot_begin"),
            ("pg_hba.conf", 0o000, "cannot_begin", "cannot_begin"),
            ("postmaster.opts", 0o400, "cannot_begin", "cannot_begin"),
            ("global/pg_control", 0o400, "cannot_begin", "cannot_begin"),
            ("pg_xact/0000", 0o000, "cannot_begin", "cannot_begin"),
            ("pg_replslot/s/state", 0o400, "cannot_begin", "cannot_begin"),
            ("global/pg_filenode.map", 0o000, "not_usable", "not_usable"),
            ("global/1262", 0o000, "not_usable", "not_usable"),
            (&changed, 0o000, "unknown", "without_replay"),
            (&changed, 0o400, "unknown", "without_replay"),
            (&other, 0o000, "unknown", "without_replay"),
            ("pg_twophase", 0o500, "unknown", "without_replay"),
        ];
        for (of, is_crash) in [(&server, true), (&stopped, false)] {
            for (path, mode, crashed, clean) in cases {
                let start = if is_crash { crashed } else { clean };
                let copy = of.copy();
                set_mode(&copy.data().join(path), mode);
                let (status, foretold, problems, steps) = told(&copy.data());
                assert_eq!((status > 0, foretold.as_str()), (true, start), "{path} {mode:o} {is_crash}: {problems:?}");
                assert_eq!(problems, [("closed_files".to_owned(), path.to_owned())], "{mode:o} {is_crash}");
                assert!(steps.contains("give_access") && !steps.contains("bring_files"), "{steps}");
                let is_up = copy.launch(&[]);
                let expected = match start {
                    "unknown" => path != changed,
                    _ => start != "cannot_begin",
                };
                assert_eq!(is_up, expected, "{path} {mode:o} {is_crash}: {}", copy.log());
                let is_connected = is_up && connects(&copy, "postgres");
                assert_eq!(is_connected, is_up && start != "not_usable", "{path} {}", copy.log());
            }
        }
        // What a server has no use for, or may open by what the group is allowed.
        for (path, mode) in [("pg_dynshmem", 0o000), ("postgresql.auto.conf", 0o000), ("PG_VERSION", 0o400)] {
            let copy = stopped.copy();
            set_mode(&copy.data().join(path), mode);
            is_sound(&copy.data(), "without_replay");
            assert!(copy.launch(&[]) && connects(&copy, "postgres"), "{path}: {}", copy.log());
        }
    }
}

/// Up to 14 recovery empties these directories; later servers have no use for them.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn closed_directories_of_statistics_count_where_recovery_empties_them() {
    for server in servers("") {
        let (server, stopped, ..) = clusters(server);
        let major = server.major();
        for name in ["pg_stat", "pg_stat_tmp"] {
            for (of, is_refused) in [(&server, major < 15), (&stopped, false)] {
                let copy = of.copy();
                set_mode(&copy.data().join(name), 0o000);
                let (status, start, problems, _) = told(&copy.data());
                assert_eq!(
                    (status > 0, start == "cannot_begin"),
                    (is_refused, is_refused),
                    "{major} {name}: {problems:?}"
                );
                // What the last run counted is read from one of them, and without it the server goes on.
                assert_eq!(copy.launch(&[]), !is_refused, "{major} {name}: {}", copy.log());
            }
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn closed_times_of_commits_stop_a_start() {
    for server in servers("track_commit_timestamp = on") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t as select 1 i; checkpoint; insert into t values (2)");
        let stopped = crash_and_stop(&server);
        for (of, start) in [(&server, "unknown"), (&stopped, "cannot_begin")] {
            let copy = of.copy();
            set_mode(&copy.data().join("pg_commit_ts/0000"), 0o000);
            let (status, foretold, problems, _) = told(&copy.data());
            assert_eq!((status > 0, foretold.as_str()), (true, start), "{problems:?}");
            assert_eq!(problems, [("closed_files".to_owned(), "pg_commit_ts/0000".to_owned())]);
            assert!(!copy.launch(&[]), "{start}: {}", copy.log());
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn files_of_another_user_are_named_and_a_copy_of_another_user_is_not() {
    if !geteuid().is_root() {
        return crate::common::skipped("only root gives files away");
    }
    for server in servers("") {
        let (server, stopped, changed, _) = clusters(server);
        for path in ["", "global/pg_control", "pg_wal", changed.as_str()] {
            let copy = server.copy();
            chown(copy.data().join(path), Some(0), Some(0)).unwrap();
            let (status, start, problems, steps) = told(&copy.data());
            let expected = if path == changed { "unknown" } else { "cannot_begin" };
            assert_eq!((status > 0, start.as_str()), (true, expected), "{path}: {problems:?}");
            assert_eq!(problems, [("closed_files".to_owned(), path.to_owned())]);
            let owner = fs::metadata(server.data().join("base")).unwrap().uid();
            assert!(steps.contains(&format!("chown -hR {owner} ")), "{steps}");
            assert!(!copy.launch(&[]), "{path}: {}", copy.log());
        }
        // What its group may do does not help.
        let copy = stopped.copy();
        set_mode(&copy.data(), 0o750);
        let group = fs::metadata(copy.data()).unwrap().gid();
        chown(copy.data(), Some(0), Some(group)).unwrap();
        let (status, start, problems, _) = told(&copy.data());
        assert_eq!((status > 0, start.as_str()), (true, "cannot_begin"), "{problems:?}");
        assert!(problems.contains(&("closed_files".to_owned(), String::new())), "{problems:?}");
        assert!(!copy.launch(&[]), "{}", copy.log());
        // Root copied all, as one does to look at a cluster elsewhere.
        for (of, start) in [(&server, "completes"), (&stopped, "without_replay")] {
            let copy = of.copy();
            assert!(Command::new("chown").args(["-hR", "0:0", arg(&copy.data())]).status().unwrap().success());
            is_sound(&copy.data(), start);
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn segments_of_wal_are_needed_as_far_as_replay_comes() {
    for server in servers("wal_level = replica") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int); select pg_create_physical_replication_slot('s', true)");
        for _ in 0..2 {
            server.sql("insert into t values (1)");
            server.sql("select pg_switch_wal()");
        }
        server.sql("checkpoint");
        for _ in 0..2 {
            server.sql("insert into t values (1)");
            server.sql("select pg_switch_wal()");
        }
        server.sql("insert into t values (1)");
        let last = line(&server, "select pg_walfile_name(pg_current_wal_insert_lsn())");
        let redo = line(&server, "select pg_walfile_name(redo_lsn) from pg_control_checkpoint()");
        server.stop("immediate");
        is_sound(&server.data(), "completes");
        let mut segments: Vec<String> = fs::read_dir(server.data().join("pg_wal"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.len() == 24 && *name <= last)
            .collect();
        segments.sort();
        let first = segments.first().unwrap();
        assert!(*first < redo && redo < last, "{segments:?} {redo}");
        let next = &segments[segments.iter().position(|name| *name == redo).unwrap() + 1];
        assert!(*next < last, "{segments:?} {redo}");
        for (segment, mode, start, starts) in [
            // Nobody opens what is older than the redo point.
            (first, 0o000, "completes", true),
            (first, 0o400, "completes", true),
            (&redo, 0o000, "cannot_begin", false),
            // Replay comes to it, which nothing but WAL says.
            (next, 0o000, "unknown", false),
            (next, 0o400, "unknown", true),
        ] {
            let copy = server.copy();
            let path = format!("pg_wal/{segment}");
            set_mode(&copy.data().join(&path), mode);
            let (status, foretold, problems, _) = told(&copy.data());
            assert_eq!((status > 0, foretold.as_str()), (true, start), "{path} {mode:o}: {problems:?}");
            assert!(problems.contains(&("closed_files".to_owned(), path.clone())), "{problems:?}");
            assert_eq!(copy.launch(&[]), starts, "{path} {mode:o}: {}", copy.log());
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn directory_of_a_tablespace_is_looked_at() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        let major = server.major();
        let place = directory_of_server(&server, "place");
        server.sql(&format!("create tablespace there location '{}'", place.display()));
        server.sql("create table t tablespace there as select 1 i; checkpoint; insert into t values (2)");
        let link = line(&server, "select 'pg_tblspc/' || oid from pg_tablespace where spcname = 'there'");
        server.stop("immediate");
        is_sound(&server.data(), "completes");
        let stopped = server.copy();
        set_mode(&place, 0o000);
        let (status, start, problems, _) = told(&server.data());
        let crashed = if major > 10 { "cannot_begin" } else { "unknown" };
        assert_eq!((status > 0, start.as_str()), (true, crashed), "{major} {problems:?}");
        assert!(problems.contains(&("closed_files".to_owned(), link.clone())), "{problems:?}");
        let is_up = server.launch(&[]);
        assert!(!is_up || crashed == "unknown", "{}", server.log());
        if is_up {
            server.stop("immediate");
        }
        set_mode(&place, 0o700);
        assert!(stopped.launch(&[]), "{}", stopped.log());
        stopped.stop("fast");
        is_sound(&stopped.data(), "without_replay");
        set_mode(&place, 0o000);
        let (status, start, problems, _) = told(&stopped.data());
        assert_eq!((status > 0, start.as_str()), (true, "without_replay"), "{major} {problems:?}");
        assert!(problems.contains(&("closed_files".to_owned(), link)), "{problems:?}");
        assert!(stopped.launch(&[]) && connects(&stopped, "postgres"), "{}", stopped.log());
        set_mode(&place, 0o700);
    }
}
