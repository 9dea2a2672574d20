//! What `stats --by relation` says most images of a relation come from, against work whose cause is known.

use std::collections::BTreeMap;

use crate::common;
use crate::common::live::{Server, all_programs, find_programs, version_of};
use crate::common::{arg, run};
use pgforensics::types::Lsn;

/// Tables, each for one kind of work. Rows are hinted and maps set, so that only the work itself writes images.
const TABLES: &str = "
    CREATE TABLE packed (id int PRIMARY KEY, n int, filler char(200)) WITH (fillfactor = 100);
    INSERT INTO packed SELECT i, 0, '' FROM generate_series(1, 20000) i;
    CREATE TABLE roomy (id int PRIMARY KEY, n int, filler char(200)) WITH (fillfactor = 50);
    INSERT INTO roomy SELECT i, 0, '' FROM generate_series(1, 20000) i;
    CREATE TABLE indexed (id int PRIMARY KEY, n int, filler char(200)) WITH (fillfactor = 50);
    INSERT INTO indexed SELECT i, i, '' FROM generate_series(1, 20000) i;
    CREATE INDEX indexed_n ON indexed (n);
    CREATE TABLE uuids (key text);
    INSERT INTO uuids SELECT md5(i::text) FROM generate_series(1, 60000) i;
    CREATE INDEX uuids_key ON uuids (key);
    CREATE TABLE serials (key int);
    INSERT INTO serials SELECT i FROM generate_series(1, 60000) i;
    CREATE INDEX serials_key ON serials (key);
    CREATE TABLE emptied (id int, filler char(200));
    INSERT INTO emptied SELECT i, '' FROM generate_series(1, 20000) i;
    CREATE TABLE hinted_then_emptied (id int, filler char(200));
    INSERT INTO hinted_then_emptied SELECT i, '' FROM generate_series(1, 20000) i;
    CREATE TABLE rewritten (id int, filler char(200));
    INSERT INTO rewritten SELECT i, '' FROM generate_series(1, 20000) i;
    VACUUM (FREEZE, ANALYZE);
    DELETE FROM emptied WHERE id % 3 = 0;
    SELECT count(*) FROM emptied;
    DELETE FROM hinted_then_emptied WHERE id % 3 = 0;
    CREATE TABLE hinted (id int, filler char(200));
    INSERT INTO hinted SELECT i, '' FROM generate_series(1, 20000) i;
    CHECKPOINT";

/// Work on one table each.
const WORK: &str = "
    UPDATE packed SET n = n + 1 WHERE id % 7 = 0;
    UPDATE roomy SET n = n + 1 WHERE id % 31 = 0;
    UPDATE indexed SET n = n + 100000 WHERE id % 31 = 0;
    INSERT INTO uuids SELECT md5((-i)::text) FROM generate_series(1, 400) i;
    INSERT INTO serials SELECT i FROM generate_series(60001, 62000) i;
    VACUUM emptied;
    VACUUM hinted_then_emptied;
    CREATE INDEX rewritten_id ON rewritten (id);
    SELECT count(*) FROM hinted;";

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn likely_cause_of_each_relation_is_the_work_that_was_done() {
    let Some(bin) = find_programs() else { return common::skipped("no PostgreSQL server is installed here") };
    let major = version_of(&bin).first().copied().unwrap_or_default();
    // With checksums, so that hint bits write images.
    let server = Server::create_with(
        bin.clone(),
        bin,
        &["-k"],
        "checkpoint_timeout = 1h\nmax_wal_size = 8GB\nwal_keep_size = 4GB",
    );
    assert!(server.launch(&[]), "{}", server.log());
    for statement in TABLES.split(';') {
        server.sql(statement);
    }
    let start = server.sql("SELECT redo_lsn FROM pg_control_checkpoint()").trim().to_owned();
    for statement in WORK.split(';') {
        server.sql(statement);
    }
    server.stop("fast");
    let data = server.data();
    let args =
        ["stats", "--by", "relation", "--format", "ndjson", "--start", &start, "--names", arg(&data), arg(&data)];
    let ran = run("pg_walfpi", &args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let causes: BTreeMap<String, Option<String>> = ran
        .of_type("group")
        .iter()
        .filter_map(|group| {
            let name = group["relation"].as_str()?.strip_prefix("postgres.public.")?.to_owned();
            Some((name, group["likely_cause"].as_str().map(str::to_owned)))
        })
        .collect();
    for (relation, cause) in [
        ("packed", Some("full_pages")),
        // Updates that find room are HOT: what writes the images is the checkpoint, and nothing else is to be said.
        ("roomy", None),
        ("indexed", Some("indexed_columns")),
        ("uuids_key", Some("random_keys")),
        ("serials_key", None),
        ("emptied", Some("vacuum")),
        // Vacuum sets hint bits first, and would have written the image without them.
        ("hinted_then_emptied", None),
        ("rewritten_id", Some("whole_pages")),
        // From 19 on whoever reads a page prunes it and sets its bit in the map, in one record that is no hint.
        ("hinted", (major < 19).then_some("hint_bits")),
    ] {
        assert_eq!(causes.get(relation).map(Option::as_deref), Some(cause), "{relation}: {causes:?}");
    }
}

/// Work that has a cause, and the same work once the cure is applied. From the start of the work on WAL is counted.
struct Pair {
    cause: &'static str,
    relation: &'static str,
    /// Tables, then the work.
    ill: [String; 2],
    cured: [String; 2],
}

/// Entries of an index in four checkpoint intervals.
fn keys(method: &str, key: &str) -> [String; 2] {
    let insert = |from: u32, to: u32| format!("INSERT INTO t SELECT {key}, 'x' FROM generate_series({from}, {to}) i");
    let tables = format!(
        "CREATE TABLE t (id uuid, f text); CREATE INDEX t_i ON t USING {method} (id); {}; VACUUM FREEZE t",
        insert(1, 100_000)
    );
    let work: Vec<String> =
        (0..4).map(|at| insert(100_001 + at * 5000, 105_000 + at * 5000) + "; CHECKPOINT").collect();
    [tables, work.join("; ")]
}

/// Rows that are found by their own words, so that entries go everywhere.
fn words(options: &str) -> [String; 2] {
    let insert = |from: u32, to: u32| {
        format!(
            "INSERT INTO t SELECT (SELECT array_agg((i * 7 + j * j * 31 + i % 97 * j) % 5000) FROM generate_series(1, 20) j) \
             FROM generate_series({from}, {to}) i"
        )
    };
    let tables = format!(
        "CREATE TABLE t (a int[]); CREATE INDEX t_i ON t USING gin (a) WITH ({options}); {}; VACUUM FREEZE t",
        insert(1, 20_000)
    );
    let work: Vec<String> = (0..5).map(|at| insert(20_001 + at * 200, 20_200 + at * 200) + "; CHECKPOINT").collect();
    [tables, work.join("; ") + "; VACUUM t"]
}

/// A load, and what comes right after it, before a checkpoint and what comes then.
fn load(at_once: &str, later: &str) -> [String; 2] {
    let load = "INSERT INTO t SELECT i, '' FROM generate_series(1, 60000) i";
    ["CREATE TABLE t (id int, f char(200))".to_owned(), format!("{load}; {at_once}; CHECKPOINT; {later}")]
}

fn updates(fillfactor: u32, indexed: &str) -> [String; 2] {
    let tables = format!(
        "CREATE TABLE t (id int PRIMARY KEY, n int, m int, f char(200)) WITH (fillfactor = {fillfactor}); \
         INSERT INTO t SELECT i, i, i, '' FROM generate_series(1, 40000) i; CREATE INDEX t_m ON t (m); {indexed}; VACUUM FREEZE t"
    );
    [tables, "UPDATE t SET n = n + 100000 WHERE id % 31 = 0".to_owned()]
}

fn pairs() -> Vec<Pair> {
    let (random, ascending) = ("md5(i::text)::uuid", "lpad(to_hex(i), 32, '0')::uuid");
    let pair = |cause, relation, ill, cured| Pair { cause, relation, ill, cured };
    vec![
        pair("random_keys", "t_i", keys("btree", random), keys("btree", ascending)),
        pair("hash_index", "t_i", keys("hash", ascending), keys("btree", ascending)),
        pair("gin_index", "t_i", words("fastupdate = off"), words("gin_pending_list_limit = 65536")),
        pair("hint_bits", "t", load("SELECT 1", "SELECT count(*) FROM t"), load("VACUUM t", "SELECT count(*) FROM t")),
        pair(
            "freeze",
            "t",
            load("SELECT count(*) FROM t", "VACUUM (FREEZE) t"),
            load("VACUUM (FREEZE) t", "VACUUM (FREEZE) t"),
        ),
        pair("full_pages", "t", updates(100, ""), updates(90, "")),
        pair("indexed_columns", "t", updates(80, "CREATE INDEX t_n ON t (n)"), updates(80, "")),
    ]
}

/// The server after the work, with the addresses between which it was done.
fn worked(prepared: &Server, [tables, work]: &[String; 2]) -> (Server, [String; 2]) {
    let server = prepared.copy();
    assert!(server.launch(&[]), "{}", server.log());
    let run = |statements: &str| {
        statements.split(';').filter(|one| !one.trim().is_empty()).for_each(|one| drop(server.sql(one)));
    };
    run(tables);
    run("CHECKPOINT");
    let start = server.sql("SELECT redo_lsn FROM pg_control_checkpoint()").trim().to_owned();
    run(work);
    let end = server.sql("SELECT pg_current_wal_insert_lsn()").trim().to_owned();
    server.stop("fast");
    (server, [start, end])
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn cure_of_a_cause_saves_what_advise_says() {
    let Some((all, client)) = all_programs() else { return };
    for bin in all {
        let major = version_of(&bin).first().copied().unwrap_or_default();
        let keep = if major >= 13 { "wal_keep_size = 4GB" } else { "wal_keep_segments = 256" };
        let settings = format!(
            "checkpoint_timeout = 1h\nmax_wal_size = 8GB\nbgwriter_lru_maxpages = 0\nshared_buffers = 256MB\n{keep}\n"
        );
        let prepared = Server::create_with(bin, client.clone(), &["-k"], &settings);
        for Pair { cause, relation, ill, cured } in pairs() {
            // Whoever reads a page prunes it and sets its bit in the map, in one record that is no hint.
            if cause == "hint_bits" && major >= 19 {
                continue;
            }
            let (server, [start, end]) = worked(&prepared, &ill);
            let (_, cured) = worked(&prepared, &cured);
            let bytes = |lsn: &str| lsn.parse::<Lsn>().unwrap().0 as f64;
            let gain = bytes(&end) - bytes(&start) - (bytes(&cured[1]) - bytes(&cured[0]));
            let data = server.data();
            let ran = run(
                "pg_walfpi",
                &["advise", "--format", "ndjson", "--no-compression", "--start", &start, "--end", &end, arg(&data)],
            );
            let groups = ran.of_type("group");
            let name = format!("postgres.public.{relation}");
            let group = groups.iter().find(|group| group["relation"] == name.as_str()).expect("the relation");
            assert_eq!(group["likely_cause"], cause, "{major}: {group}");
            let said = group["cure_saves_bytes"].as_f64().expect("bytes");
            let off_by = (said / gain - 1.0).abs() * 100.0;
            match group["cure_certainty"].as_str() {
                Some("at_least") => assert!(said <= gain * 1.05, "{major} {cause}: {said} said, {gain} saved"),
                _ => assert!(off_by <= 20.0, "{major} {cause}: {said} said, {gain} saved"),
            }
        }
    }
}
