//! The whole way on a stock cluster: rotten heap and index pages, a base backup and archived WAL, and a server that is started on
//! what came out.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common;
use crate::common::live::Server;
use crate::common::{arg, dwbinspect};

/// Overwrites a page, with bytes that no server writes or with zeros.
fn spoil(path: &Path, block: u64, noise: u32) {
    let page: Vec<u8> = (0..8192_u32).map(|at| (at.wrapping_mul(noise) >> 13) as u8).collect();
    let file = fs::OpenOptions::new().write(true).open(path).expect("relation file");
    file.write_all_at(&page, block * 8192).expect("page");
}

/// Overwrites the second half of a page: its LSN is still there.
fn spoil_half(path: &Path, block: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("relation file");
    file.write_all_at(&[0xA5; 4096], block * 8192 + 4096).expect("page");
}

const SUMS: &str = "SELECT count(*), sum(id), md5(string_agg(v, ',' ORDER BY id)) FROM t";

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn rotten_pages_of_a_stock_cluster_come_back_as_they_were() {
    let Some(server) = Server::create("") else { return };
    let archive = server.keep_archive();
    assert!(server.launch(&[]), "{}", server.log());
    server.sql(
        "CREATE TABLE t(id int PRIMARY KEY, v text);
         INSERT INTO t SELECT g, repeat('a', 100) FROM generate_series(1, 20000) g;
         CREATE INDEX t_v ON t(v, id);
         VACUUM t;
         CHECKPOINT",
    );
    let backup = server.base_backup(&[]);
    for round in 1..=4 {
        server.sql(&format!(
            "UPDATE t SET v = repeat(chr(97 + {round}), 90 + {round}) WHERE id % 7 = {round};
             INSERT INTO t SELECT g, 'n' FROM generate_series({0} + 1, {0} + 1000) g;
             DELETE FROM t WHERE id % 100 = {round};
             CHECKPOINT",
            20_000 + round * 1000
        ));
    }
    server.sql("SELECT pg_switch_wal()");
    let path = |relation: &str| server.sql(&format!("SELECT pg_relation_filepath('{relation}')")).trim().to_owned();
    let (table, by_value, by_id) = (path("t"), path("t_v"), path("t_pkey"));
    let sums = server.sql(SUMS);
    server.stop("fast");

    let damaged = server.copy();
    let data = damaged.data();
    let places = [(&table, 5), (&table, 100), (&table, 300), (&by_value, 3), (&by_value, 20), (&by_id, 7)];
    for (file, block) in places {
        spoil(&data.join(file), block, 2_654_435_761);
    }
    spoil(&data.join(&table), 50, 0);
    let before = [&table, &by_value, &by_id].map(|file| fs::read(data.join(file)).unwrap());
    let donor = backup.data();
    let sources = ["--wal", arg(&archive), "--donor", arg(&donor), arg(&data), "--format", "ndjson"];
    let checked = dwbinspect(&[&["check"], &sources[..]].concat());
    let pages = checked.of_type("page");
    let is_offered = |page: &serde_json::Value| page["verdict"] == "restore" || page["rebuildable"]["possible"] == true;
    assert!(pages.len() == 7 && pages.iter().all(is_offered), "{}", checked.stdout);

    let journal = damaged.host().join("journal");
    let allowed = ["--allow-shut-down", "--allow-other-user"];
    let repair = ["repair", "--rebuild", "--apply", "--journal", arg(&journal)];
    let applied = dwbinspect(&[&repair[..], &allowed, &sources].concat());
    assert_eq!(applied.status, 0, "{}{}", applied.stdout, applied.stderr);
    let clean = dwbinspect(&["check", "--quiet", arg(&data)]);
    assert_eq!(clean.status, 0);

    let repaired = damaged.copy();
    repaired.configure("archive_mode = off\n");
    assert!(repaired.launch(&[]), "{}", repaired.log());
    assert_eq!(repaired.sql(SUMS), sums);
    let checks = "CREATE EXTENSION amcheck;
        SELECT bt_index_check(oid, true) FROM pg_class WHERE relname IN ('t_pkey', 't_v')";
    if repaired.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'").trim() == "1" {
        repaired.sql(checks);
    } else {
        common::skipped("the extension amcheck is not installed here");
    }
    repaired.stop("fast");

    let undone = dwbinspect(&[&["undo", arg(&data), arg(&journal)], &allowed[..]].concat());
    assert_eq!(undone.status, 0, "{}{}", undone.stdout, undone.stderr);
    assert!([&table, &by_value, &by_id].map(|file| fs::read(data.join(file)).unwrap()) == before, "undo");
}

/// What crash recovery has to replay.
const CHANGES_BEFORE_THE_CRASH: &str = "UPDATE t SET v = repeat('y', 95) WHERE id % 11 = 3;
    DELETE FROM t WHERE id % 100 = 51;
    INSERT INTO t SELECT g, 'late' FROM generate_series(30001, 32000) g;";

/// Pages that rotted before the last checkpoint, of a server that was killed: replay goes over them as they come back.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn rotten_pages_of_a_crashed_cluster_come_back_and_recovery_passes() {
    let Some(server) = Server::create("full_page_writes = off\nmax_wal_size = 4GB\ncheckpoint_timeout = 1h\n") else {
        return;
    };
    server.configure("wal_keep_size = 0\n");
    let archive = server.keep_archive();
    assert!(server.launch(&[]), "{}", server.log());
    server.sql(
        "CREATE TABLE t(id int PRIMARY KEY, v text);
         INSERT INTO t SELECT g, repeat('a', 100) FROM generate_series(1, 20000) g;
         CREATE INDEX t_v ON t(v, id);
         VACUUM t;
         CHECKPOINT",
    );
    let backup = server.base_backup(&[]);
    server.sql(
        "UPDATE t SET v = repeat('b', 91) WHERE id % 7 = 1;
         DELETE FROM t WHERE id % 100 = 1;
         UPDATE t SET v = repeat('c', 92) WHERE id % 7 = 2;
         VACUUM t;
         SELECT pg_switch_wal();
         CHECKPOINT",
    );
    server.sql(CHANGES_BEFORE_THE_CRASH);
    let path = |relation: &str| server.sql(&format!("SELECT pg_relation_filepath('{relation}')")).trim().to_owned();
    let (table, by_value, by_id) = (path("t"), path("t_v"), path("t_pkey"));
    server.stop("immediate");

    let damaged = server.copy();
    let twin = server.copy();
    let data = damaged.data();
    let pages = [(&table, 5), (&table, 100), (&table, 250), (&by_value, 3), (&by_value, 20), (&by_id, 7)];
    for (file, block) in pages {
        spoil_half(&data.join(file), block);
    }
    let before = [&table, &by_value, &by_id].map(|file| fs::read(data.join(file)).unwrap());
    let donor = backup.data();
    let sources = ["--wal", arg(&archive), "--donor", arg(&donor), arg(&data), "--format", "ndjson"];
    let journal = damaged.host().join("journal");
    let from_images = dwbinspect(&[&["repair"], &sources[..]].concat());
    assert!(from_images.of_type("step").len() < 3, "{}", from_images.stdout);
    let apply = ["repair", "--rebuild", "--apply", "--allow-other-user", "--journal", arg(&journal)];
    let applied = dwbinspect(&[&apply[..], &sources].concat());
    assert_eq!(applied.status, 0, "{}{}", applied.stdout, applied.stderr);
    assert_eq!(applied.of_type("step").len(), pages.len(), "{}", applied.stdout);

    let repaired = damaged.copy();
    let whole = format!("{SUMS}; SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE id > 0; {SUMS}");
    let sums = [&twin, &repaired].map(|server| {
        server.configure("archive_mode = off\n");
        assert!(server.launch(&[]), "{}", server.log());
        assert!(server.log().contains("redo done at"), "{}", server.log());
        if server.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'").trim() == "1" {
            server.sql(
                "CREATE EXTENSION amcheck;
                 SELECT bt_index_check(oid, true) FROM pg_class WHERE relname IN ('t_pkey', 't_v')",
            );
        }
        let sums = server.sql(&whole);
        server.stop("fast");
        sums
    });
    assert_eq!(sums[0], sums[1]);

    let undone = dwbinspect(&["undo", arg(&data), arg(&journal), "--allow-other-user"]);
    assert_eq!(undone.status, 0, "{}{}", undone.stdout, undone.stderr);
    assert!([&table, &by_value, &by_id].map(|file| fs::read(data.join(file)).unwrap()) == before, "undo");
}
