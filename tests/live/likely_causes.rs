//! What `stats --by relation` says most images of a relation come from, against work whose cause is known.

use std::collections::BTreeMap;

use crate::common;
use crate::common::live::{Server, find_programs, version_of};
use crate::common::{arg, run};

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
