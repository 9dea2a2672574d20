//! Pages that a disk did not write, or wrote to another place: each is whole, and WAL tells.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::lost_files::{line, servers};
use crate::common::live::{Server, all_programs, version_of};
use crate::common::{arg, dwbinspect};

const PAGE: usize = 8192;

/// Rows of many pages, indexes of all kinds, and what moves pages about.
const WORK: &str = "
    create table t (i int primary key, v text);
    insert into t select i, repeat('x', 300) from generate_series(1, 4000) i;
    create table o (i int, a int[], p point, v text);
    insert into o select i, array[i, i % 7], point(i, i % 100), 'v' || i from generate_series(1, 3000) i;
    create index on o using gin (a); create index on o using gist (p); create index on o using spgist (v);
    create index on o using hash (i); create index on o using brin (i);
    create sequence s; select nextval('s');
    create unlogged table u as select generate_series(1, 500) i;
    delete from o where i % 3 = 0; vacuum o; insert into o select i, array[i], point(i, i), 'w' || i from generate_series(1, 500) i;
    create table gone as select * from o; truncate gone; insert into gone select * from o limit 100; vacuum full gone;
    cluster t using t_pkey; analyze; checkpoint;
    update t set v = 'y' where i = 2000; update o set i = i where i % 50 = 1; delete from t where i > 3900; vacuum t;
    select nextval('s') from generate_series(1, 100); checkpoint;
    update o set v = 'z' where i = 1; insert into o select 1, array[1], point(1, 1), 'q';";

const ROWS: &str = "select md5(string_agg(i || v, ',' order by i, v)) from t";

/// A page that something is wrong with: file, block, what shows it.
type WrongPage = (String, u64, Vec<String>);

/// Status, pages, and what was not examined.
fn told(data: &Path) -> (i32, Vec<WrongPage>, Vec<Value>) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let pages = ran.of_type("page").into_iter().map(|page| {
        let codes = page["damage_codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned());
        (page["path"].as_str().unwrap().to_owned(), page["block"].as_u64().unwrap(), codes.collect())
    });
    (ran.status, pages.collect(), ran.of_type("skipped"))
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn writes_that_were_lost_or_misplaced_are_seen_by_wal() {
    let Some((bins, client)) = all_programs() else { return };
    for (bin, has_checksums) in bins.iter().flat_map(|bin| [(bin, true), (bin, false)]) {
        // A directory of another name is that of a server under development.
        let is_before = |major: u32| version_of(bin).first().is_some_and(|own| *own < major);
        let mut initdb = if has_checksums { vec!["-k"] } else { vec![] };
        if !is_before(18) && !has_checksums {
            initdb.push("--no-data-checksums");
        }
        let keep = if is_before(13) { "wal_keep_segments = 60" } else { "wal_keep_size = 1GB" };
        let server = Server::create_with(bin.clone(), client.clone(), &initdb, keep);
        assert!(server.launch(&[]), "{}", server.log());
        let what = format!("{}, checksums {has_checksums}", bin.display());
        let (before, after) = WORK.split_once("checkpoint;").unwrap();
        server.sql(&format!("{before} checkpoint"));
        let path = server.sql("select pg_relation_filepath('t')").trim().to_owned();
        let block = server.sql("select split_part(trim('()' from ctid::text), ',', 1) from t where i = 2000");
        let block: u64 = block.trim().parse().unwrap();
        let file = server.data().join(&path);
        let read = |block: u64| {
            let mut page = vec![0; PAGE];
            fs::File::open(&file).unwrap().read_exact_at(&mut page, block * PAGE as u64).unwrap();
            page
        };
        let old = read(block);
        server.sql(after);
        let rows = server.sql(ROWS);
        server.stop("immediate");

        let sound = told(&server.data());
        assert!(sound.1.is_empty() && sound.2.is_empty() && sound.0 == 0, "{what}: {sound:?}");

        assert_ne!(old, read(block), "{what}: the checkpoint wrote the page");
        let mut cases = vec![("lacks_record", old)];
        if !has_checksums {
            // Block numbers are part of checksums. Pages that were written together have the same LSN.
            cases.push(("lsn_of_no_record", read(block - 60)));
        }
        for (code, bytes) in cases {
            let copy = server.copy();
            let file = OpenOptions::new().write(true).open(copy.data().join(&path)).unwrap();
            file.write_all_at(&bytes, block * PAGE as u64).unwrap();
            let (status, pages, _) = told(&copy.data());
            assert_eq!(status, 1, "{what}, {code}: {pages:?}");
            assert_eq!(pages, [(path.clone(), block, vec![code.to_owned()])], "{what}");
            assert!(copy.launch(&[]), "{what}: {}", copy.log());
            // The server notices nothing, and has other rows.
            assert_ne!(copy.sql(ROWS), rows, "{what}, {code}");
        }
    }
}

/// Records that name pages which they do not change, of the same kind as these, are no proof.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn lost_rows_of_copy_and_entries_of_a_hash_index_are_seen_by_wal() {
    for server in servers("full_page_writes = off") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int, v text); insert into t select i, 'v' from generate_series(1, 20) i; create index h on t using hash (i); checkpoint;");
        let files = ["t", "h"].map(|name| line(&server, &format!("select pg_relation_filepath('{name}')")));
        let read = |path: &String| fs::read(server.data().join(path)).unwrap();
        let old = files.each_ref().map(read);
        server.sql("copy t from program 'printf \"21\\tv\\n22\\tv\\n\"'");
        server.sql("checkpoint");
        let new = files.each_ref().map(read);
        server.stop("immediate");
        let sound = told(&server.data());
        assert!(sound.1.is_empty() && sound.2.is_empty() && sound.0 == 0, "{}: {sound:?}", server.major());
        for ((path, old), new) in files.iter().zip(old).zip(new) {
            let mut pages = old.chunks(PAGE).zip(new.chunks(PAGE)).enumerate();
            let (block, (page, _)) =
                pages.find(|(block, (old, new))| (*path == files[0] || *block > 0) && old != new).unwrap();
            let copy = server.copy();
            let file = OpenOptions::new().write(true).open(copy.data().join(path)).unwrap();
            file.write_all_at(page, (block * PAGE) as u64).unwrap();
            let (status, pages, _) = told(&copy.data());
            let expected = (path.clone(), block as u64, vec!["lacks_record".to_owned()]);
            assert!(status == 1 && pages.contains(&expected), "{} {path}: {pages:?}", server.major());
        }
    }
}

/// Tables without an index, never vacuumed; others that lost pages by the server's own hand, and one that no WAL knows.
const BARE: &str = "
    create table bare (i int, v text); alter table bare set (autovacuum_enabled = off);
    insert into bare select i, repeat('x', 300) from generate_series(1, 2000) i;
    create table cut as select * from bare; delete from cut where i > 300; vacuum cut;
    create table emptied as select * from bare; truncate emptied;
    create table moved as select * from bare; vacuum full moved; create table dropped as select * from bare; drop table dropped;
    create unlogged table u as select * from bare; checkpoint;
    create table later as select * from bare; delete from later where i > 10; drop table moved; checkpoint;
    vacuum later; truncate bare; insert into bare select i, repeat('z', 300) from generate_series(1, 2000) i; checkpoint;
    create table last as select * from bare; drop table emptied;";

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn content_that_a_table_lost_is_seen_by_wal() {
    let Some((bins, client)) = all_programs() else { return };
    for (bin, mode) in bins.iter().flat_map(|bin| [(bin, "fast"), (bin, "immediate")]) {
        let is_before = |major: u32| version_of(bin).first().is_some_and(|own| *own < major);
        let keep = if is_before(13) { "wal_keep_segments = 60" } else { "wal_keep_size = 1GB" };
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], keep);
        assert!(server.launch(&[]), "{}", server.log());
        for statement in BARE.split(';').filter(|statement| !statement.trim().is_empty()) {
            server.sql(statement);
        }
        server.sql("begin; create table undone as select * from bare; checkpoint; rollback");
        let path = server.sql("select pg_relation_filepath('bare')").trim().to_owned();
        let rows = server.sql("select count(*) from bare");
        server.stop(mode);
        let what = format!("{}, {mode}", bin.display());
        let sound = told(&server.data());
        assert!(sound.1.is_empty() && sound.2.is_empty() && sound.0 == 0, "{what}: {sound:?}");

        let blocks = fs::metadata(server.data().join(&path)).unwrap().len() / PAGE as u64;
        assert!(blocks > 80, "{blocks}");
        let wrong = |blocks: std::ops::Range<u64>| -> Vec<WrongPage> {
            blocks.map(|block| (path.clone(), block, vec!["lost_content".to_owned()])).collect()
        };
        for (zeroed, expected) in [(None, wrong(50..blocks)), (Some(20), wrong(20..22))] {
            let copy = server.copy();
            let file = OpenOptions::new().write(true).open(copy.data().join(&path)).unwrap();
            match zeroed {
                None => file.set_len(50 * PAGE as u64).unwrap(),
                Some(block) => file.write_all_at(&[0; 2 * PAGE], block * PAGE as u64).unwrap(),
            }
            let (status, pages, _) = told(&copy.data());
            // After a crash, pages without an LSN cannot show whether WAL lost its end.
            let is_certain = mode == "fast";
            assert_eq!((status, pages), (if is_certain { 1 } else { 2 }, expected), "{what}");
            // The server notices nothing, and has fewer rows.
            assert!(copy.launch(&[]), "{what}: {}", copy.log());
            assert_ne!(copy.sql("select count(*) from bare"), rows, "{what}");
        }
    }
}

/// A table of more pages than are listed, most of which the server removes after the checkpoint; and one whose transaction ends after
/// it.
const REMOVED: &str = "
    create table big (i int) with (fillfactor = 10); alter table big set (autovacuum_enabled = off);
    insert into big select i from generate_series(1, 300000) i; checkpoint;";

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn what_comes_after_the_checkpoint_decides_about_pages_that_are_not_there() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        let is_before_13 = version_of(&bin).first().is_some_and(|own| *own < 13);
        let keep = if is_before_13 { "wal_keep_segments = 60" } else { "wal_keep_size = 1GB" };
        let settings = format!("{keep}\nmax_wal_size = 2GB\ncheckpoint_timeout = 1h");
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], &settings);
        assert!(server.launch(&[]), "{}", server.log());
        for statement in REMOVED.split(';').filter(|statement| !statement.trim().is_empty()) {
            server.sql(statement);
        }
        let path = server.sql("select pg_relation_filepath('big')").trim().to_owned();
        let blocks = || fs::metadata(server.data().join(&path)).unwrap().len() / PAGE as u64;
        assert!(blocks() > 11_000, "{}", blocks());
        server.sql("delete from big where i > 1000");
        server.sql("vacuum big");
        assert!(blocks() < 100, "{}", blocks());
        // One session all along: another one's checkpoint comes before it commits.
        let mut session =
            server.command("psql", &["-XAtq", "-h", arg(server.host()), "-U", "postgres", "-d", "postgres"]);
        let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(session.stdout.take().unwrap()).lines();
        let mut ask = |sql: &str| {
            writeln!(session.stdin.as_mut().unwrap(), "{sql}").unwrap();
            answers.next().unwrap().unwrap()
        };
        let born = ask(
            "begin; create table born as select i from generate_series(1, 1000) i; select pg_relation_filepath('born');",
        );
        server.sql("checkpoint");
        assert_eq!(ask("commit; select 'done';"), "done");
        drop(session.stdin.take());
        session.wait().unwrap();
        server.stop("immediate");
        let what = bin.display().to_string();
        let sound = told(&server.data());
        assert!(sound.1.is_empty() && sound.2.is_empty() && sound.0 == 0, "{what}: {sound:?}");
        // The catalog on disk does not know yet that its transaction committed.
        let copy = server.copy();
        fs::File::create(copy.data().join(&born)).unwrap();
        let (status, pages, _) = told(&copy.data());
        assert!(status > 0, "{what}: {pages:?}");
        assert!(pages.iter().all(|(file, ..)| *file == born) && !pages.is_empty(), "{what}: {pages:?}");
        assert!(copy.launch(&[]), "{what}: {}", copy.log());
        assert_ne!(copy.sql("select count(*) from born").trim(), "1000", "{what}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn prepared_transaction_whose_file_is_gone_is_named() {
    const XACTS: &str = "select string_agg(gid, ' ' order by gid) from pg_prepared_xacts";
    let Some((bins, client)) = all_programs() else { return };
    for (bin, mode) in bins.iter().flat_map(|bin| [(bin, "fast"), (bin, "immediate")]) {
        let is_before_13 = version_of(bin).first().is_some_and(|own| *own < 13);
        let keep = if is_before_13 { "wal_keep_segments = 60" } else { "wal_keep_size = 1GB" };
        let settings = format!("{keep}\nmax_prepared_transactions = 10");
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int)");
        for gid in ["kept", "lost", "committed", "undone", "early"] {
            server.sql(&format!("begin; insert into t values (1); prepare transaction '{gid}'"));
        }
        let what = format!("{}, {mode}", bin.display());
        let file_of_lost = server.sql("select transaction from pg_prepared_xacts where gid = 'lost'");
        let xid: u32 = file_of_lost.trim().parse().unwrap();
        server.sql("commit prepared 'early'");
        server.sql("checkpoint");
        server.sql("commit prepared 'committed'");
        server.sql("rollback prepared 'undone'");
        server.sql("begin; insert into t values (1); prepare transaction 'later'");
        server.stop(mode);

        let found = |data: &Path| {
            let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
            let named = ran.of_type("finding").into_iter().filter(|found| found["kind"] == "prepared_missing");
            (ran.status, named.map(|found| found["file"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(found(&server.data()), (0, vec![]), "{what}");
        let names = [format!("pg_twophase/{xid:08X}"), format!("pg_twophase/{xid:016X}")];
        let name = names.into_iter().find(|name| server.data().join(name).exists()).unwrap();
        fs::remove_file(server.data().join(&name)).unwrap();
        assert_eq!(found(&server.data()), (1, vec![name]), "{what}");
        assert!(server.launch(&[]), "{what}: {}", server.log());
        assert_eq!(server.sql(XACTS).trim(), "kept later", "{what}");
    }
}
