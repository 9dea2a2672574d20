//! What replay makes of things outside WAL, and pages that change without WAL: `check` against what servers do.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};

use super::lost_files::{connects, crash_and_stop, directory_of_server, line, servers};
use super::server_files::told;
use crate::common::live::Server;
use crate::common::{arg, dwbinspect};

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn tablespace_that_replay_cannot_make_is_named() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        let place = directory_of_server(&server, "place");
        server.sql(&format!("create tablespace there location '{}'", place.display()));
        let path = line(&server, "select 'pg_tblspc/' || oid from pg_tablespace where spcname = 'there'");
        server.sql("drop tablespace there; create table t as select 1");
        server.stop("immediate");
        let sound = told(&server.data());
        assert_eq!((sound.0, sound.1.as_str()), (0, "completes"), "{sound:?}");
        let named = ("tablespace_of_wal".to_owned(), path);
        fs::remove_dir(&place).unwrap();
        for how in ["gone", "a file", "of another user"] {
            match how {
                "gone" => {}
                "a file" => fs::write(&place, "").unwrap(),
                _ => {
                    fs::remove_file(&place).unwrap();
                    fs::create_dir(&place).unwrap();
                    if fs::metadata(&place).unwrap().uid() == fs::metadata(server.data()).unwrap().uid() {
                        continue;
                    }
                }
            }
            let copy = server.copy();
            let (status, start, problems, _) = told(&copy.data());
            assert_eq!((status, start.as_str()), (1, "cannot_begin"), "{how}: {problems:?}");
            assert!(problems.contains(&named), "{how}: {problems:?}");
            assert!(!copy.launch(&[]), "{how}: {}", copy.log());
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn directory_in_place_of_the_link_of_a_tablespace_ends_recovery_from_a_backup() {
    let Some(server) = Server::start("") else { return };
    let place = directory_of_server(&server, "place");
    server.sql(&format!("create tablespace there location '{}'", place.display()));
    server.sql("create table t tablespace there as select 1 i; checkpoint");
    let path = line(&server, "select 'pg_tblspc/' || oid from pg_tablespace where spcname = 'there'");
    server.stop("fast");
    let link = server.data().join(&path);
    fs::remove_file(&link).unwrap();
    fs::rename(&place, &link).unwrap();
    let plain = server.copy();
    assert!(plain.launch(&[]) && connects(&plain, "postgres"), "{}", plain.log());
    for setting in ["", "allow_in_place_tablespaces = on"] {
        let copy = server.copy();
        copy.configure(&format!("{setting}\n"));
        fs::write(copy.data().join("standby.signal"), "").unwrap();
        let (status, start, problems, _) = told(&copy.data());
        let is_refused = setting.is_empty();
        let named = problems.contains(&("tablespace_no_link".to_owned(), path.clone()));
        assert_eq!(
            (status > 0 && start == "cannot_begin", named),
            (is_refused, is_refused),
            "{setting}: {start} {problems:?}"
        );
        let is_up = copy.launch(&[]) && connects(&copy, "postgres");
        assert_eq!(is_up, !is_refused, "{setting}: {}", copy.log());
    }
}

/// A standby copies the files of the other database once more, as they are now.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn database_that_replay_copies_anew_is_named() {
    let Some(primary) = Server::start("") else { return };
    primary.sql("create database source");
    let standby = primary.base_backup(&["-R", "-X", "stream"]);
    standby.configure(&format!("primary_conninfo = 'host={} user=postgres'\n", primary.host().display()));
    assert!(standby.launch(&[]), "{}", standby.log());
    primary.sql("create database b template source strategy file_copy; create database plain template template0 strategy file_copy");
    let of = |name: &str| line(&primary, &format!("select 'base/' || oid from pg_database where datname = '{name}'"));
    let (path, plain) = (of("b"), of("plain"));
    for is_dropped in [false, true] {
        if is_dropped {
            primary.sql("drop database source");
        }
        let end = line(&primary, "select pg_current_wal_lsn()");
        while line(&standby, &format!("select pg_last_wal_replay_lsn() >= '{end}'")) != "t" {}
        let copy = {
            standby.stop("immediate");
            let copy = standby.copy();
            copy.configure("primary_conninfo = ''\n");
            assert!(standby.launch(&[]), "{}", standby.log());
            copy
        };
        let (status, start, problems, _) = told(&copy.data());
        let expected = if is_dropped { "not_usable" } else { "unknown" };
        assert_eq!((status > 0, start.as_str()), (true, expected), "{problems:?}");
        assert!(problems.contains(&("database_copied".to_owned(), path.clone())), "{problems:?}");
        assert!(!problems.iter().any(|(_, file)| *file == plain), "nobody changes template0: {problems:?}");
        assert!(copy.launch(&[]), "{}", copy.log());
        assert_eq!(connects(&copy, "b"), !is_dropped, "{}", copy.log());
    }
}

/// An image from before values that were handed out would hand them out again.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn image_of_a_sequence_is_proven_only_where_a_record_sets_it_later() {
    let Some(server) = Server::start("wal_level = minimal\nmax_wal_senders = 0") else { return };
    server.sql("begin; create table t (id serial, x int); insert into t (x) values (0); commit;");
    // Of these values no record speaks.
    server.sql("insert into t (x) select i from generate_series(1, 20) i; checkpoint;");
    let path = line(&server, "select pg_relation_filepath('t_id_seq')");
    let verdict = |server: &Server| {
        let file = server.data().join(&path);
        let mut bytes = fs::read(&file).unwrap();
        bytes[4096] ^= 0xFF;
        fs::write(&file, bytes).unwrap();
        let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
        let [page] = ran.of_type("page").try_into().unwrap_or_else(|pages| panic!("{pages:#?}"));
        (page["verdict"].as_str().unwrap().to_owned(), page.to_string())
    };
    server.stop("immediate");
    let crashed = server.copy();
    let (found, page) = verdict(&crashed);
    assert!(found == "restore_unproven" && page.contains("sequence_value"), "{page}");
    // One that replay sets heals.
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("checkpoint; insert into t (x) select i from generate_series(1, 40) i");
    server.stop("immediate");
    let (found, page) = verdict(&server);
    assert_eq!(found, "heals_in_replay", "{page}");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn index_or_sequence_without_a_page_is_named() {
    let Some(server) = Server::start("") else { return };
    server.sql(
        "create table t (id serial primary key, x int); insert into t (x) select i from generate_series(1, 1000) i;
         create index b on t using brin (x); create index h on t using hash (x); create table gone (id int primary key); checkpoint;",
    );
    let of = |name: &str| line(&server, &format!("select pg_relation_filepath('{name}')"));
    let files = ["t_pkey", "b", "h", "t_id_seq", "pg_proc_oid_index"].map(of);
    // The file of what was dropped is empty until the next checkpoint. An image of its first page in a record that changes it makes no index whole.
    server.sql("drop table gone; insert into t (id, x) select i, i from generate_series(2000, 2100) i");
    let stopped = crash_and_stop(&server);
    for of in [&server, &stopped] {
        for file in &files {
            let copy = of.copy();
            fs::write(copy.data().join(file), "").unwrap();
            let (status, start, problems, _) = told(&copy.data());
            assert!(problems.contains(&("relation_file_empty".to_owned(), file.clone())), "{file}: {problems:?}");
            assert!(status > 0 && (*file != files[4] || start == "not_usable"), "{file}: {start}");
        }
    }
}

/// A link that leads nowhere, where a server makes a directory.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn link_in_place_of_a_directory_that_the_server_makes_is_named() {
    let Some(server) = Server::start("") else { return };
    server.stop("immediate");
    let status_of_archive = server.data().join("pg_wal/archive_status");
    fs::remove_dir_all(&status_of_archive).unwrap();
    symlink("/nonexistent/status", &status_of_archive).unwrap();
    let owner = fs::metadata(server.data()).unwrap();
    lchown(&status_of_archive, Some(owner.uid()), Some(owner.gid())).unwrap();
    let (status, start, problems, _) = told(&server.data());
    assert!(status > 0 && start == "unknown", "{start} {problems:?}");
    assert!(!server.launch(&[]), "{}", server.log());
}

/// No server reads its pages, whatever they are, until it is made anew or dropped.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn index_that_was_never_filled_is_not_missed() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql(
            "create table t as select i % 900 x from generate_series(1, 1000) i; vacuum t;
             create function slow(i int) returns int language plpgsql immutable as 'begin perform pg_sleep(1); return i; end'",
        );
        let mut builder = server.start_sql("create unique index concurrently u on t (x)");
        assert!(!builder.wait().unwrap().success(), "two rows are the same");
        let mut builder = server.start_sql("create index concurrently s on t (slow(x))");
        while line(&server, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") != "1" {}
        server.sql("checkpoint");
        assert_eq!(line(&server, "select count(*) from pg_index where not indisready"), "2");
        let of = |name: &str| line(&server, &format!("select pg_relation_filepath('{name}')"));
        let files = ["u", "s", "t"].map(of);
        let stopped = crash_and_stop(&server);
        drop(builder.wait());
        let table = fs::read(stopped.data().join(&files[2])).unwrap();
        for how in ["gone", "zeros", "of the table"] {
            let copy = stopped.copy();
            for file in &files[..2] {
                let path = copy.data().join(file);
                match how {
                    "gone" => fs::remove_file(path).unwrap(),
                    "zeros" => fs::write(path, [0; 16_384]).unwrap(),
                    _ => fs::write(path, &table[..8192]).unwrap(),
                }
            }
            let found = told(&copy.data());
            assert_eq!((found.0, found.1.as_str(), found.2.len()), (0, "without_replay", 0), "{how}: {found:?}");
            assert!(copy.launch(&[]), "{how}: {}", copy.log());
            copy.sql("insert into t values (7); update t set x = 8 where x = 7; vacuum analyze t; drop index u");
        }
    }
}

/// Its file is empty from the first transaction of `CREATE INDEX CONCURRENTLY` on until the second one fills it, and replay does so too.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn index_that_replay_fills_is_not_missed() {
    let Some(server) = Server::start("") else { return };
    server.sql("create table t as select i x from generate_series(1, 1000) i");
    // Until this one ends, the index waits to be filled.
    let mut writer = server.start_sql("begin; insert into t values (0); select pg_sleep(3); commit");
    while line(&server, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") != "1" {}
    let mut builder = server.start_sql("create index concurrently i on t (x)");
    while line(&server, "select count(*) from pg_class where relname = 'i'") != "1" {}
    server.sql("checkpoint");
    assert!(writer.wait().unwrap().success() && builder.wait().unwrap().success());
    let file = line(&server, "select pg_relation_filepath('i')");
    server.stop("immediate");
    fs::write(server.data().join(&file), "").unwrap();
    let found = told(&server.data());
    assert_eq!((found.0, found.1.as_str(), found.2.len()), (0, "completes", 0), "{found:?}");
    assert!(server.launch(&[]), "{}", server.log());
    assert_eq!(line(&server, "set enable_seqscan = off; select count(*) from t where x = 7"), "1");
}
