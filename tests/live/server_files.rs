//! What a server needs besides pages and WAL: each thing is taken away, and what `check` foretells is compared with what the server does.

use std::fs;
use std::path::Path;

use super::lost_files::line;
use crate::common::live::Server;
use crate::common::{arg, dwbinspect, edit_control};

/// Offset of the state in `pg_control`.
const STATE: usize = 16;

/// Status, how a start goes, and the kinds of problems with their files.
pub fn told(data: &Path) -> (i32, String, Vec<(String, String)>, String) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let summary = ran.of_type("summary").pop().expect("summary");
    let problems = ran.of_type("finding").into_iter().filter(|finding| finding["severity"] == "problem");
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let named = problems.map(|finding| (word(&finding["kind"]), word(&finding["file"]))).collect();
    let steps = summary["next"].to_string();
    (ran.status, word(&summary["on_start"]["start"]), named, steps)
}

fn connects(server: &Server) -> bool {
    let host = arg(server.host());
    let given = ["-XAtq", "-h", host, "-U", "postgres", "-d", "postgres", "-c", "select count(*) from pg_class"];
    server.run("psql", &given).status.success()
}

/// Removes a file or a directory with all that is in it.
fn take_away(server: &Server, path: &str) {
    let gone = server.data().join(path);
    if gone.is_dir() { fs::remove_dir_all(&gone) } else { fs::remove_file(&gone) }.unwrap();
}

/// The path of a file that SQL gives.
fn path_of(server: &Server, sql: &str) -> String {
    server.sql(sql).trim().to_owned()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn what_the_server_does_without_a_file_is_foretold() {
    let Some(server) = Server::start("") else { return };
    server.sql(
        "create table t as select i from generate_series(1, 1000) i; create unlogged table u (i int); checkpoint;",
    );
    let table = path_of(&server, "select pg_relation_filepath('t')");
    let catalog = path_of(&server, "select pg_relation_filepath('pg_class')");
    let database = path_of(&server, "select 'base/' || oid from pg_database where datname = 'postgres'");
    server
        .sql("drop table if exists gone; create table late as select 1; begin; create table never (i int); rollback;");
    server.stop("immediate");
    let sound = told(&server.data());
    assert_eq!((sound.0, sound.1.as_str(), sound.2.len()), (0, "completes", 0), "{sound:?}");

    let (map, version) = (format!("{database}/pg_filenode.map"), format!("{database}/PG_VERSION"));
    let cases = [
        ("pg_notify", "server_directory", "cannot_begin"),
        ("pg_twophase", "server_directory", "cannot_begin"),
        ("pg_replslot", "server_directory", "cannot_begin"),
        ("pg_logical/snapshots", "server_directory", "cannot_begin"),
        ("pg_tblspc", "server_directory", "cannot_begin"),
        ("global/pg_filenode.map", "filenode_map", "not_usable"),
        (&map, "filenode_map", "not_usable"),
        (&version, "database_version", "not_usable"),
        (&catalog, "relation_file_missing", "not_usable"),
        (&table, "relation_file_missing", "completes"),
    ];
    for (path, kind, start) in cases {
        let copy = server.copy();
        take_away(&copy, path);
        let (status, foretold, problems, steps) = told(&copy.data());
        assert_eq!(foretold, start, "{path}: {problems:?}");
        assert!(status > 0 && problems.contains(&(kind.to_owned(), path.to_owned())), "{path}: {problems:?}");
        assert!(steps.contains("bring_files") && !steps.contains("\"start\""), "{path}: {steps}");
        let is_up = copy.launch(&[]);
        assert_eq!(is_up, start != "cannot_begin", "{path}: {}", copy.log());
        assert_eq!(is_up && connects(&copy), start == "completes", "{path}: {}", copy.log());
    }
    // The server makes it anew or has no use for it.
    for path in ["pg_dynshmem", "pg_serial", "pg_snapshots", "pg_wal/archive_status"] {
        let copy = server.copy();
        fs::remove_dir_all(copy.data().join(path)).unwrap();
        let (status, start, problems, _) = told(&copy.data());
        assert_eq!((status, start.as_str(), problems.len()), (0, "completes", 0), "{path}: {problems:?}");
        assert!(copy.launch(&[]) && connects(&copy), "{path}: {}", copy.log());
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn map_that_the_server_refuses_is_named() {
    let Some(server) = Server::start("") else { return };
    server.stop("fast");
    let map = fs::read(server.data().join("global/pg_filenode.map")).unwrap();
    for change in ["byte", "length", "directory"] {
        let copy = server.copy();
        let path = copy.data().join("global/pg_filenode.map");
        let mut bytes = map.clone();
        match change {
            "byte" => bytes[100] ^= 1,
            _ => bytes.truncate(100),
        }
        fs::remove_file(&path).unwrap();
        if change == "directory" { fs::create_dir(&path) } else { fs::write(&path, &bytes) }.unwrap();
        let (status, foretold, problems, _) = told(&copy.data());
        assert_eq!((status, foretold.as_str()), (1, "not_usable"), "{change}: {problems:?}");
        assert_eq!(problems, [("filenode_map".to_owned(), "global/pg_filenode.map".to_owned())], "{change}");
        assert!(copy.launch(&[]), "{change}: {}", copy.log());
        assert!(!connects(&copy), "{change}: {}", copy.log());
    }
}

/// Sets bytes of `pg_control` at an offset that versions 1300 to 1700 share, and its CRC, which ends the struct of 288 bytes.
fn set_control(data: &Path, at: usize, bytes: &[u8]) {
    let path = data.join("global/pg_control");
    let mut control = fs::read(&path).unwrap();
    assert_eq!(control[288..292], crc32c::crc32c(&control[..288]).to_le_bytes(), "the layout of this version");
    control[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&control[..288]);
    control[288..292].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, control).unwrap();
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn control_file_that_the_server_refuses_is_not_started_from() {
    let Some(server) = Server::start("") else { return };
    server.stop("fast");
    let version = fs::read(server.data().join("global/pg_control")).unwrap()[8..12].to_vec();
    if u32::from_le_bytes(version.try_into().unwrap()) != 1300 {
        return crate::common::skipped("the server writes another version of pg_control");
    }
    // State, maxAlign, floatFormat, relseg_size, indexMaxKeys, toast_max_chunk_size, loblksize, float8ByVal.
    for (at, bytes, start) in [
        (16, &0_u32.to_le_bytes()[..], "cannot_begin"),
        (16, &7_u32.to_le_bytes(), "cannot_begin"),
        (204, &4_u32.to_le_bytes(), "unknown"),
        (208, &1_234_568.0_f64.to_le_bytes(), "unknown"),
        (220, &65_536_u32.to_le_bytes(), "unknown"),
        (236, &64_u32.to_le_bytes(), "unknown"),
        (240, &1000_u32.to_le_bytes(), "unknown"),
        (244, &4096_u32.to_le_bytes(), "unknown"),
        (248, &[0], "unknown"),
    ] {
        let copy = server.copy();
        set_control(&copy.data(), at, bytes);
        let (status, foretold, problems, _) = told(&copy.data());
        assert!(status > 0 && foretold == start && !problems.is_empty(), "{at}: {status} {foretold} {problems:?}");
        assert!(!copy.launch(&[]), "{at}: {}", copy.log());
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn transactions_whose_ends_are_lost_are_not_passed_over() {
    let Some(server) = Server::start("full_page_writes = on") else { return };
    server.sql("create table t as select i from generate_series(1, 1000) i; checkpoint; insert into t values (0);");
    let count = |server: &Server| {
        let given =
            ["-XAtq", "-h", arg(server.host()), "-U", "postgres", "-d", "postgres", "-c", "select sum(1) from t"];
        String::from_utf8_lossy(&server.run("psql", &given).stdout).trim().to_owned()
    };
    let stopped_copy = |server: &Server| {
        let copy = server.copy();
        assert!(copy.launch(&[]) && count(&copy) == "1001", "{}", copy.log());
        copy.stop("fast");
        copy
    };
    server.stop("immediate");
    let stopped = stopped_copy(&server);
    let path = "pg_xact/0000";
    for (of, damage, start) in [
        (&server, "none", "completes"),
        (&server, "missing", "not_usable"),
        (&server, "zeros", "not_usable"),
        (&server, "cut", "cannot_begin"),
        (&stopped, "none", "without_replay"),
        (&stopped, "missing", "cannot_begin"),
        (&stopped, "zeros", "not_usable"),
        (&stopped, "cut", "cannot_begin"),
    ] {
        let copy = of.copy();
        let file = copy.data().join(path);
        let bytes = fs::read(&file).unwrap();
        match damage {
            "missing" => fs::remove_file(&file).unwrap(),
            "zeros" => fs::write(&file, vec![0; bytes.len()]).unwrap(),
            "cut" => fs::write(&file, &bytes[..100]).unwrap(),
            _ => {}
        }
        let (status, foretold, problems, _) = told(&copy.data());
        assert_eq!(foretold, start, "{damage}: {problems:?}");
        let is_named = problems.contains(&("xact_file".to_owned(), path.to_owned()));
        assert_eq!((status > 0, is_named), (damage != "none", damage != "none"), "{damage}: {problems:?}");
        let is_up = copy.launch(&[]);
        assert_eq!(is_up, start != "cannot_begin", "{damage}: {}", copy.log());
        // What was counted before the stop has hint bits.
        if is_up && damage != "none" && std::ptr::eq(of, &server) {
            assert_ne!(count(&copy), "1001", "{damage}");
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn file_that_is_lost_is_missed_after_a_start_that_failed() {
    let Some(server) = Server::start("") else { return };
    server.sql(
        "create table kept as select i from generate_series(1, 1000) i; create table dropped as select 1 i;
         create table late as select 1 i; create database other; create database passing; checkpoint;",
    );
    let late = path_of(&server, "select pg_relation_filepath('late')");
    let table = path_of(&server, "select pg_relation_filepath('kept')");
    let catalog = path_of(&server, "select pg_relation_filepath('pg_class')");
    let database = path_of(&server, "select 'base/' || oid from pg_database where datname = 'other'");
    for statement in ["drop table dropped", "drop database passing", "insert into kept values (0)"] {
        server.sql(statement);
    }
    let between = line(&server, "select pg_walfile_name(pg_switch_wal() + 1)");
    server.sql("insert into kept values (0); select pg_switch_wal(); drop table late;");
    server.stop("immediate");
    // Replay is done, and the checkpoint after it fails: what was dropped has no file any more, and may still have a row.
    let moved = server.host().join("snapshots");
    let needed = server.data().join("pg_logical/snapshots");
    fs::rename(&needed, &moved).unwrap();
    assert!(!server.launch(&[]), "{}", server.log());
    fs::rename(&moved, &needed).unwrap();
    // "Shutting down", since that checkpoint is one of a shutdown.
    let state = fs::read(server.data().join("global/pg_control")).unwrap()[STATE];
    assert!(matches!(state, 3 | 4), "{state}");
    let sound = told(&server.data());
    assert_eq!((sound.0, sound.1.as_str(), sound.2.len()), (0, "completes", 0), "{sound:?}");

    let cases = [
        (&table, "relation_file_missing", "completes"),
        (&catalog, "relation_file_missing", "not_usable"),
        (&database, "database_missing", "not_usable"),
    ];
    for (path, kind, start) in cases {
        let copy = server.copy();
        take_away(&copy, path);
        let (status, foretold, problems, _) = told(&copy.data());
        assert!(status > 0 && problems.contains(&(kind.to_owned(), path.to_owned())), "{path}: {problems:?}");
        assert_eq!(foretold, start, "{path}: {problems:?}");
        assert!(copy.launch(&[]), "{path}: {}", copy.log());
    }
    // Every state says the same of it.
    for state in [3_i32, 4, 5] {
        let copy = server.copy();
        fs::remove_file(copy.data().join(&table)).unwrap();
        edit_control(&copy.data(), STATE, &state.to_le_bytes());
        let (status, _, problems, _) = told(&copy.data());
        let missing = ("relation_file_missing".to_owned(), table.clone());
        assert!(status > 0 && problems.contains(&missing), "{state}: {problems:?}");
        // What replay does not come to removes nothing.
        fs::remove_file(copy.data().join("pg_wal").join(&between)).unwrap();
        let (_, _, problems, _) = told(&copy.data());
        let missing = ("relation_file_missing".to_owned(), late.clone());
        assert!(problems.contains(&missing), "{state}: {problems:?}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn rewritten_catalog_and_stray_init_fork_are_named() {
    let Some(server) = Server::start("") else { return };
    server.sql("create table t as select i from generate_series(1, 1000) i; vacuum full pg_class; checkpoint;");
    let table = path_of(&server, "select pg_relation_filepath('t')");
    let catalog = path_of(&server, "select pg_relation_filepath('pg_class')");
    // WAL makes this one anew, whether it is there or not.
    server.sql("vacuum full pg_type");
    let replayed = path_of(&server, "select pg_relation_filepath('pg_type')");
    server.stop("immediate");
    let sound = told(&server.data());
    assert_eq!((sound.0, sound.1.as_str(), sound.2.len()), (0, "completes", 0), "{sound:?}");

    let copy = server.copy();
    fs::remove_file(copy.data().join(replayed)).unwrap();
    let found = told(&copy.data());
    assert_eq!((found.0, found.1.as_str()), (0, "completes"), "{found:?}");
    assert!(copy.launch(&[]) && connects(&copy), "{}", copy.log());

    let copy = server.copy();
    fs::remove_file(copy.data().join(&catalog)).unwrap();
    fs::remove_file(copy.data().join(&table)).unwrap();
    let (_, start, problems, _) = told(&copy.data());
    assert!(problems.contains(&("relation_file_missing".to_owned(), catalog.clone())), "{problems:?}");
    assert_eq!(start, "not_usable");
    assert!(!copy.launch(&[]) || !connects(&copy), "{}", copy.log());

    // Nothing names the table any more, which is said.
    let copy = server.copy();
    fs::write(copy.data().join(&catalog), "").unwrap();
    fs::remove_file(copy.data().join(&table)).unwrap();
    let (status, ..) = told(&copy.data());
    assert_ne!(status, 0);

    // After a clean shutdown no database is in the making, whose pages would be zeros too.
    let copy = server.copy();
    assert!(copy.launch(&[]), "{}", copy.log());
    copy.stop("fast");
    assert_eq!(told(&copy.data()).0, 0);
    let length = fs::metadata(copy.data().join(&catalog)).unwrap().len();
    fs::write(copy.data().join(&catalog), vec![0; usize::try_from(length).unwrap()]).unwrap();
    fs::remove_file(copy.data().join(&table)).unwrap();
    let ran = dwbinspect(&["check", arg(&copy.data()), "--format", "ndjson"]);
    let is_told = ran.of_type("skipped").iter().any(|skipped| skipped["cause"] == "no_row_read");
    assert!(ran.status == 2 && is_told, "{}", ran.stdout);
    assert!(copy.launch(&[]) && !connects(&copy), "{}", copy.log());

    let copy = server.copy();
    fs::write(copy.data().join(format!("{table}_init")), "").unwrap();
    let (status, start, problems, _) = told(&copy.data());
    let stray = ("init_fork_of_permanent".to_owned(), format!("{table}_init"));
    assert!(problems.contains(&stray), "{problems:?}");
    assert_eq!((status, start.as_str()), (1, "not_usable"));
    assert!(copy.launch(&[]), "{}", copy.log());
    assert_eq!(line(&copy, "select count(*) from t"), "0");
}
