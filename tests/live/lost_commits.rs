//! What other files of the data directory show to be gone: commits, and relations of new transactions.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::live::{Server, all_programs, version_of};
use crate::common::{arg, dwbinspect};

/// Status, how a start goes, and kinds and files of the problems.
fn told(data: &Path) -> (i32, String, Vec<(String, String)>) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let problems = ran.of_type("finding").into_iter().filter(|found| found["severity"] == "problem");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let problems = problems.map(|found| (text(&found["kind"]), text(&found["file"]))).collect();
    (ran.status, text(&ran.of_type("summary")[0]["on_start"]["start"]), problems)
}

fn keep_wal(bin: &Path) -> &'static str {
    let is_before_13 = version_of(bin).first().is_some_and(|own| *own < 13);
    if is_before_13 { "wal_keep_segments = 60" } else { "wal_keep_size = 1GB" }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn older_transaction_status_is_seen_by_the_commits_in_wal() {
    let Some((bins, client)) = all_programs() else { return };
    for (bin, mode) in bins.iter().flat_map(|bin| [(bin, "fast"), (bin, "immediate")]) {
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], keep_wal(bin));
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int); checkpoint;");
        let file = server.data().join("pg_xact/0000");
        let old = fs::read(&file).unwrap();
        for row in 0..20 {
            server.sql(&format!("insert into t values ({row})"));
        }
        server.sql("begin; insert into t values (20); savepoint a; insert into t values (21); commit");
        server.sql("begin; insert into t values (22); rollback");
        server.sql("checkpoint");
        server.sql("insert into t values (23)");
        server.stop(mode);
        let what = format!("{}, {mode}", bin.display());
        let sound = told(&server.data());
        assert_eq!((sound.0, sound.2), (0, vec![]), "{what}");

        let mut bytes = old;
        bytes.resize(fs::metadata(&file).unwrap().len() as usize, 0);
        fs::write(&file, bytes).unwrap();
        let found = told(&server.data());
        let lost = ("commits_lost".to_owned(), "pg_xact/0000".to_owned());
        assert_eq!(found, (1, "not_usable".to_owned(), vec![lost]), "{what}");
        assert!(server.launch(&[]), "{what}: {}", server.log());
        let rows: u32 = server.sql("select count(*) from t").trim().parse().unwrap();
        assert!(rows <= 1, "{what}: the server takes what was committed for undone: {rows}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn older_multixacts_and_times_of_commits_are_seen_by_wal() {
    let Some((bins, client)) = all_programs() else { return };
    for (bin, mode) in bins.iter().flat_map(|bin| [(bin, "fast"), (bin, "immediate")]) {
        let settings = format!("{}\ntrack_commit_timestamp = on", keep_wal(bin));
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int primary key, n int); insert into t values (1, 0); checkpoint;");
        let files = ["pg_multixact/offsets/0000", "pg_commit_ts/0000"];
        let old = files.map(|file| fs::read(server.data().join(file)).unwrap_or_default());
        // A lock of a transaction and one of its subtransactions make a multixact.
        for row in 0..5 {
            server.sql(&format!(
                "begin; select * from t for key share; savepoint a; update t set n = {row}; rollback to a; commit; \
                 begin; select * from t for key share; savepoint b; update t set n = {row}; commit"
            ));
        }
        server.sql("checkpoint; insert into t values (2, 2)");
        server.stop(mode);
        let what = format!("{}, {mode}", bin.display());
        let sound = told(&server.data());
        assert_eq!((sound.0, sound.2), (0, vec![]), "{what}");
        for (file, code, old) in files
            .iter()
            .zip(["multixacts_lost", "commit_times_lost"])
            .zip(old)
            .map(|((file, code), old)| (file, code, old))
        {
            let path = server.data().join(file);
            let newest = fs::read(&path).unwrap();
            let mut bytes = old;
            bytes.resize(newest.len(), 0);
            fs::write(&path, bytes).unwrap();
            let found = told(&server.data());
            assert_eq!((found.0, found.2), (1, vec![(code.to_owned(), (*file).to_owned())]), "{what}");
            fs::write(&path, newest).unwrap();
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn what_is_missing_of_a_transaction_that_is_newer_than_an_open_one_is_named() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        let settings = format!("{}\nmax_prepared_transactions = 5", keep_wal(&bin));
        let server = Server::create_with(bin.clone(), client.clone(), &[], &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table old (i int)");
        // It is open, and older than what comes.
        server.sql("begin; insert into old values (1); prepare transaction 'open'");
        server.sql("create database shop");
        server.sql("create table new as select generate_series(1, 1000) i");
        let table = server.sql("select pg_relation_filepath('new')").trim().to_owned();
        let database = server.sql("select 'base/' || oid from pg_database where datname = 'shop'").trim().to_owned();
        server.sql("checkpoint");
        // What replay makes is not missed.
        server.sql("create table later as select * from new; create table undone (i int); drop table undone");
        let later = server.sql("select pg_relation_filepath('later')").trim().to_owned();
        server.stop("immediate");
        let what = bin.display();
        fs::remove_file(server.data().join(&later)).unwrap();
        let sound = told(&server.data());
        assert_eq!((sound.0, sound.1.as_str(), sound.2), (0, "completes", vec![]), "{what}");

        let copy = server.copy();
        fs::remove_file(copy.data().join(&table)).unwrap();
        let found = told(&copy.data());
        assert!(found.2.contains(&("relation_file_missing".to_owned(), table)), "{what}: {found:?}");
        assert!(found.0 > 0, "{what}");

        fs::remove_dir_all(server.data().join(&database)).unwrap();
        let found = told(&server.data());
        assert!(found.2.contains(&("database_missing".to_owned(), database)), "{what}: {found:?}");
        assert_eq!(found.1, "not_usable", "{what}");
    }
}
