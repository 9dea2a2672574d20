//! Clusters that were stopped in order, with writes that were lost: no replay follows, and only pages that speak of others tell.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::lost_files::{crash_and_stop, line, servers};
use crate::common::live::{Server, all_programs, version_of};
use crate::common::{arg, dwbinspect, skipped};

const PAGE: usize = 8192;

/// A table whose map gets bits after its last rows, and indexes of several pages that have no siblings.
const BEFORE: &str = "
    create table m (i int primary key, v text); alter table m set (autovacuum_enabled = off);
    insert into m select i, 'x' from generate_series(1, 15) i;
    create table o (i int, v text) with (fillfactor = 10);
    insert into o select i, md5(i::text) || repeat('y', 200) from generate_series(1, 3000) i;
    create index o_spgist on o using spgist (v); create index o_brin on o using brin (i) with (pages_per_range = 1);
    vacuum o; checkpoint;";
const AFTER: &str = "insert into m select i, 'z' from generate_series(16, 21) i; vacuum m; checkpoint;";

/// Status, and file and offset of each finding of these kinds.
fn found(command: &str, data: &Path, kind: &str) -> (i32, Vec<(String, u64)>) {
    let ran = dwbinspect(&[command, arg(data), "--format", "ndjson"]);
    let of_kind = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == kind);
    let place = |finding: serde_json::Value| {
        let offset = finding["offset"].as_str().unwrap().trim_start_matches("0x");
        (finding["file"].as_str().unwrap().to_owned(), u64::from_str_radix(offset, 16).unwrap())
    };
    (ran.status, of_kind.map(place).collect())
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_that_a_sound_stop_does_not_explain_are_named() {
    let Some((bins, client)) = all_programs() else { return };
    for (bin, has_checksums) in bins.iter().flat_map(|bin| [(bin, true), (bin, false)]) {
        let is_before = |major: u32| version_of(bin).first().is_some_and(|own| *own < major);
        let mut initdb = if has_checksums { vec!["-k"] } else { vec![] };
        if !is_before(18) && !has_checksums {
            initdb.push("--no-data-checksums");
        }
        let server = Server::create_with(bin.clone(), client.clone(), &initdb, "");
        assert!(server.launch(&[]), "{}", server.log());
        let what = format!("{}, checksums {has_checksums}", bin.display());
        server.sql(BEFORE);
        let path_of = |name: &str| server.sql(&format!("select pg_relation_filepath('{name}')")).trim().to_owned();
        let [table, spgist, brin] = ["m", "o_spgist", "o_brin"].map(path_of);
        let mut old = vec![0; PAGE];
        fs::File::open(server.data().join(&table)).unwrap().read_exact_at(&mut old, 0).unwrap();
        for statement in AFTER.split(';').filter(|statement| !statement.trim().is_empty()) {
            server.sql(statement);
        }
        server.stop("fast");
        for command in ["check", "verify"] {
            let ran = dwbinspect(&[command, arg(&server.data()), "--format", "ndjson"]);
            assert_eq!(ran.status, 0, "{what}, {command}: {}", ran.stdout);
        }

        let copy = server.copy();
        let file = OpenOptions::new().write(true).open(copy.data().join(&table)).unwrap();
        file.write_all_at(&old, 0).unwrap();
        assert_eq!(found("verify", &copy.data(), "map_ahead"), (1, vec![(table.clone(), 0)]), "{what}");
        let (status, told) = found("check", &copy.data(), "map_ahead");
        // Without checksums WAL from before the checkpoint, where it is there, shows that the page itself is wrong.
        let is_told = told == [(table.clone(), 0)] || (told.is_empty() && !has_checksums);
        assert!(status == 1 && is_told, "{what}: {status}, {told:?}");
        assert!(copy.launch(&[]), "{what}: {}", copy.log());
        // The index has rows that the table lost, and the map keeps the server from looking.
        let count = |settings: &str| copy.sql(&format!("set {settings} = off; select count(*) from m where i > 0"));
        assert_eq!((count("enable_seqscan").trim(), count("enable_indexonlyscan").trim()), ("21", "15"), "{what}");

        for path in [&spgist, &brin] {
            let copy = server.copy();
            let file = OpenOptions::new().write(true).open(copy.data().join(path)).unwrap();
            let last = file.metadata().unwrap().len() - PAGE as u64;
            file.write_all_at(&[0; PAGE], last).unwrap();
            assert_eq!(found("verify", &copy.data(), "named_page_zeroed"), (1, vec![(path.clone(), last)]), "{what}");
            file.set_len(last).unwrap();
            assert_eq!(found("verify", &copy.data(), "named_page_missing"), (1, vec![(path.clone(), last)]), "{what}");
            let ran = dwbinspect(&["check", arg(&copy.data()), "--format", "ndjson"]);
            let pages = ran.of_type("page");
            let page =
                pages.iter().find(|page| page["path"] == **path).unwrap_or_else(|| panic!("{what}: {}", ran.stdout));
            assert_eq!(page["block"], last / PAGE as u64, "{what}");
            // WAL from before the checkpoint, where it is there, shows it first.
            let is_known = |code: &serde_json::Value| code == "named_page_missing" || code == "lost_content";
            assert!(page["damage_codes"].as_array().unwrap().iter().all(is_known), "{what}: {page}");
            assert_eq!((ran.status, pages.len()), (1, 1), "{what}");
        }
    }
}

/// Tables whose files get shorter, or others, by what servers do.
const CHANGED: [&str; 8] = [
    "create table cut as select i, repeat('x', 500) v from generate_series(1, 3000) i",
    "create unlogged table unlogged as table cut; create table deleted as table cut; create table emptied as table cut; create table full_vacuum as \
     table cut; create table rewritten as table cut; create table undone as table cut",
    "vacuum analyze",
    "delete from deleted; vacuum deleted; truncate emptied",
    "delete from full_vacuum where i > 10; vacuum full full_vacuum",
    "delete from rewritten where i > 10; alter table rewritten alter i type bigint",
    "begin; create table made as table cut; analyze made; truncate made; commit",
    "begin; truncate undone; rollback; checkpoint",
];

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn table_that_was_cut_with_its_map_is_named() {
    for server in servers("").filter(|server| server.major() < 18) {
        assert!(server.launch(&[]), "{}", server.log());
        CHANGED.iter().for_each(|statements| drop(server.sql(&format!("{statements};"))));
        let path = line(&server, "select pg_relation_filepath('cut')");
        let stopped = crash_and_stop(&server);
        let cut = |stopped: &Server, pages: usize| {
            let file = OpenOptions::new().write(true).open(stopped.data().join(&path)).unwrap();
            file.set_len((pages * PAGE) as u64).unwrap();
        };
        let pages = usize::try_from(fs::metadata(stopped.data().join(&path)).unwrap().len()).unwrap() / PAGE;
        let map = stopped.data().join(format!("{path}_vm"));
        for (left, is_short) in [(1, true), (pages / 2 - 4, true), (pages / 2 + 4, false), (pages, false)] {
            let copy = stopped.copy();
            fs::remove_file(copy.data().join(format!("{path}_vm"))).unwrap();
            cut(&copy, left);
            for command in ["check", "verify"] {
                let ran = dwbinspect(&[command, arg(&copy.data()), "--format", "ndjson"]);
                let findings = ran.of_type("finding");
                let is_named = findings.iter().any(|found| found["kind"] == "relation_short" && found["file"] == *path);
                assert_eq!(is_named, is_short, "{command}, {left} of {pages}: {findings:?}");
                assert!(ran.status == 1 || !is_short, "{command}, {left} of {pages}");
            }
            if is_short {
                assert!(copy.launch(&[]), "{}", copy.log());
                assert!(line(&copy, "select count(*) from cut").parse::<usize>().unwrap() < 3000);
            }
        }
        // The map, where it is there, says it by itself.
        cut(&stopped, 1);
        assert!(map.exists());
        let ran = dwbinspect(&["verify", arg(&stopped.data()), "--format", "ndjson"]);
        assert!(ran.of_type("finding").iter().all(|found| found["kind"] != "relation_short"), "{}", ran.stdout);
        assert_eq!(ran.status, 1, "{}", ran.stdout);
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn truncated_map_does_not_excuse_a_damaged_table() {
    let Some(server) = Server::start("") else { return };
    if server.sql("select count(*) from pg_available_extensions where name = 'pg_visibility'").trim() == "0" {
        return skipped("pg_visibility is not installed");
    }
    server.sql(
        "create extension pg_visibility; create table t as select i from generate_series(1, 1000) i; vacuum t; checkpoint;
         select pg_truncate_visibility_map('t');",
    );
    let table = server.sql("select pg_relation_filepath('t')").trim().to_owned();
    server.stop("immediate");
    let path = server.data().join(table);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xA5; 512], PAGE as u64 + 4096).unwrap();
    let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
    let pages = ran.of_type("page");
    assert_eq!((ran.status, pages.len()), (1, 1), "{}", ran.stdout);
    assert_ne!(pages[0]["verdict"], "leave", "{}", ran.stdout);
}
