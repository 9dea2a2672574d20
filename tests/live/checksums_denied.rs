//! `pg_control` says that data checksums are off: where the pages say otherwise they are judged by them, and where a server
//! really turned them off, nothing is said.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::lost_files::{line, servers};
use crate::common::live::{Server, version_of};
use crate::common::{arg, dwbinspect, edit_control};

const PAGE: u64 = 8192;

/// Pages of before and after the last checkpoint on disk, and WAL for the latter.
const SETTINGS: &str =
    "full_page_writes = off\nautovacuum = off\ncheckpoint_timeout = 1h\nshared_buffers = 1MB\nmax_wal_size = 1GB\n";

/// Offset of `data_checksum_version` in `pg_control`.
fn checksums_at(server: &Server) -> usize {
    match version_of(server.bin())[0] {
        11 => 244,
        _ => 252,
    }
}

fn work(server: &Server, table: &str) {
    server.sql(&format!(
        "create table {table} (i int, v text); insert into {table} select i, md5(i::text) from generate_series(1, 20000) i;
         checkpoint; update {table} set v = v || 'x' where i % 20 = 0; select count(v) from {table}, pg_class;"
    ));
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_with_checksums_are_judged_by_them_whatever_pg_control_says() {
    for server in servers(SETTINGS).filter(|server| version_of(server.bin())[0] < 19) {
        let what = server.bin().display().to_string();
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table s (i int, v text); insert into s select i, md5(i::text) from generate_series(1, 2000) i; vacuum s;");
        work(&server, "t");
        let path = line(&server, "select pg_relation_filepath('s')");
        server.stop("immediate");
        let told = |server: &Server| {
            let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
            let summary = ran.of_type("summary").pop().expect("summary");
            let pages: Vec<_> =
                ran.of_type("page").iter().map(|page| (page["path"].clone(), page["block"].clone())).collect();
            let is_named = ran.of_type("finding").iter().any(|finding| finding["kind"] == "checksums_contradict");
            let verdicts: Vec<_> = ran.of_type("page").iter().map(|page| page["verdict"].clone()).collect();
            (ran.status, is_named, pages, verdicts, summary)
        };
        let (status, is_named, ..) = told(&server);
        assert_eq!((status, is_named), (0, false), "{what}");

        // A byte of a row of a page that was not changed since the checkpoint, which no rule of pages covers.
        let torn = server.copy();
        let file = OpenOptions::new().read(true).write(true).open(torn.data().join(&path)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 3 * PAGE + PAGE - 1).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 3 * PAGE + PAGE - 1).unwrap();
        let expected = vec![(path.clone().into(), 3.into())];
        let (status, is_named, pages, ..) = told(&torn);
        assert_eq!((status, is_named, &pages), (1, false, &expected), "{what}");

        for copy in [&server.copy(), &torn] {
            edit_control(&copy.data(), checksums_at(copy), &0_u32.to_le_bytes());
        }
        let (status, is_named, pages, verdicts, _) = told(&torn);
        assert_eq!((status, is_named, &pages), (2, true, &expected), "{what}");
        assert!(verdicts.iter().all(|verdict| verdict != "restore"), "{what}: {verdicts:?}");
        edit_control(&server.data(), checksums_at(&server), &0_u32.to_le_bytes());
        let (status, is_named, pages, ..) = told(&server);
        assert_eq!((status, is_named, pages.len()), (2, true, 0), "{what}");
        // The doubt reaches the question about one page, and the other command.
        let ran = dwbinspect(&["verify", arg(&server.data()), "--format", "ndjson"]);
        let is_named = ran.of_type("finding").iter().any(|finding| finding["kind"] == "checksums_contradict");
        assert!(is_named && ran.status == 1, "{what}: {}", ran.stdout);
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn checksums_that_a_server_turned_off_are_no_contradiction() {
    for server in servers(SETTINGS).filter(|server| version_of(server.bin())[0] < 19) {
        let what = server.bin().display().to_string();
        assert!(server.launch(&[]), "{}", server.log());
        work(&server, "t");
        server.stop("fast");
        // What `pg_checksums --disable` does.
        edit_control(&server.data(), checksums_at(&server), &0_u32.to_le_bytes());
        assert!(server.launch(&[]), "{}", server.log());
        work(&server, "u");
        server.sql("update t set v = v || 'y' where i % 10 = 0; select count(v) from t, pg_class;");
        server.stop("immediate");
        for command in ["check", "verify"] {
            let ran = dwbinspect(&[command, arg(&server.data()), "--format", "ndjson"]);
            let kinds: Vec<_> = ran.of_type("finding").into_iter().map(|finding| finding["kind"].clone()).collect();
            assert!(kinds.iter().all(|kind| kind != "checksums_contradict"), "{what}: {kinds:?}");
            assert!(kinds.iter().any(|kind| kind == "checksums_off"), "{what}: {kinds:?}");
        }
    }
}
