//! `check --prove` on a real server without checksums: whole pages are proven, torn ones and lost writes are found, and
//! nothing else is said to be damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::live::Server;
use crate::common::{arg, copy_tree, dwbinspect, unpack};
use pgforensics::analysis::pages::page_mask::differences;
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::types::{ForkNumber, PageId, RelFileLocator};
use serde_json::Value;

const PAGE: usize = 8192;

/// A page by the path of its file in the data directory.
type Key = (String, u64);

/// A crashed cluster without checksums, and its files as they were at its last checkpoint but one.
struct Crashed {
    server: Server,
    older: tempfile::TempDir,
}

fn changes(round: u32) -> String {
    let base = round * 10_000;
    let mut sql = format!(
        "insert into h select g, g % 50, md5(g::text) from generate_series({base}, {}) g;
         insert into x select g, array[g % 40, g], point(g % 99, g), md5(g::text) from generate_series({base}, {}) g;
         delete from h where id % 7 = {round}; delete from x where id % 5 = {round}; vacuum h; vacuum x;\n",
        base + 1500,
        base + 700,
    );
    for step in 0..150 {
        let id = base + step * 9;
        sql += &format!("update h set a = a + 1 where id = {id}; update h set b = 'changed' where id = {id} + 3;\n");
        sql += &format!("insert into x values ({id}, array[{step}], point({step}, 3), 'n{step}');\n");
        sql += "select nextval('s');\n";
    }
    sql
}

fn crashed() -> Option<Crashed> {
    let server = Server::create("full_page_writes = off\nmax_wal_size = 1GB")?;
    server.must("pg_checksums", &["--disable", "-D", arg(&server.data())]);
    assert!(server.launch(&[]), "{}", server.log());
    server.sql(
        "create table h(id int, a int, b text) with (fillfactor = 70); create index on h(a); create index on h(b);
         create table x(id int, v int[], p point, t text); create index on x using gin(v);
         create index on x using gist(p); create index on x using spgist(t); create index on x using hash(id);
         create index on x using brin(id) with (pages_per_range = 4); create sequence s;",
    );
    server.sql(&changes(1));
    server.sql("checkpoint;");
    let older = tempfile::tempdir().unwrap();
    copy_tree(&server.data().join("base"), &older.path().join("base"));
    server.sql(&changes(2));
    server.sql("checkpoint;");
    server.sql(&changes(3));
    server.stop("immediate");
    Some(Crashed { server, older })
}

fn check(data: &Path, more: &[&str]) -> (i32, BTreeMap<Key, Value>, Value) {
    let ran = dwbinspect(&[&["check", "--format", "ndjson"], more, &[arg(data)]].concat());
    let key = |row: &Value| (row["path"].as_str().unwrap().to_owned(), row["block"].as_u64().unwrap());
    let pages = ran.of_type("page").into_iter().map(|row| (key(&row), row)).collect();
    let summary = ran.of_type("summary").pop().unwrap_or_else(|| panic!("{}", ran.stderr));
    (ran.status, pages, summary)
}

fn prove(data: &Path) -> (i32, BTreeMap<Key, Value>, Value) {
    check(data, &["--prove"])
}

fn lsn(page: &[u8]) -> u64 {
    let half = |at: usize| u64::from(u32::from_le_bytes(page[at..at + 4].try_into().unwrap()));
    half(0) << 32 | half(4)
}

/// Pages of logged tables and indexes that have another LSN in the older files: path, block, older and newer bytes.
fn changed_pages(crashed: &Crashed) -> Vec<(Key, Vec<u8>, Vec<u8>)> {
    let data = crashed.server.data();
    let mut found = Vec::new();
    let base = fs::read_dir(data.join("base")).unwrap().map(|entry| entry.unwrap().path());
    for path in base.flat_map(|database| fs::read_dir(database).unwrap().map(|entry| entry.unwrap().path())) {
        let name = path.strip_prefix(&data).unwrap().to_str().unwrap().to_owned();
        let is_main = path.file_name().unwrap().to_str().unwrap().bytes().all(|byte| byte.is_ascii_digit());
        let (true, Ok(older)) = (is_main, fs::read(crashed.older.path().join(&name))) else { continue };
        let newer = fs::read(&path).unwrap();
        for (block, (older, newer)) in older.chunks(PAGE).zip(newer.chunks(PAGE)).enumerate() {
            if lsn(older) != lsn(newer) && lsn(older) > 0 {
                found.push(((name.clone(), block as u64), older.to_vec(), newer.to_vec()));
            }
        }
    }
    found
}

fn write_page(data: &Path, key: &Key, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(data.join(&key.0)).unwrap();
    file.write_all_at(bytes, key.1 * PAGE as u64).unwrap();
}

/// True when a page differs in more than hints from another.
fn is_other(key: &Key, one: &[u8], other: &[u8]) -> bool {
    let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1 };
    let page = PageId { rel, fork: ForkNumber::Main, block: u32::try_from(key.1).unwrap() };
    !differences(page, one, other).is_empty()
}

fn has(row: &Value, code: &str) -> bool {
    row["damage_codes"].as_array().unwrap().iter().any(|found| found == code)
}

fn redo(summary: &Value) -> u64 {
    let (high, low) = summary["redo_lsn"].as_str().unwrap().split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn replay_proves_whole_pages_and_finds_torn_and_lost_ones() {
    let Some(crashed) = crashed() else { return };
    let data = crashed.server.data();

    // Nothing is wrong: no page is said to be, and many leave the unproven ones.
    let (_, none, plain) = check(&data, &[]);
    let (_, pages, summary) = prove(&data);
    assert!(none.is_empty() && pages.is_empty(), "{pages:#?}");
    let (whole, unproven) = (summary["proven_whole"].as_u64().unwrap(), summary["unproven_pages"].as_u64().unwrap());
    assert_eq!(whole + unproven, plain["unproven_pages"].as_u64().unwrap());
    assert!(plain["proven_whole"].is_null() && plain["proof"].is_null(), "{plain:#}");
    let proof = &summary["proof"];
    assert_eq!((&proof["wrong"], &proof["not_built"]), (&0.into(), &serde_json::json!({})), "{proof:#}");
    assert!(whole > 100 && proof["records"].as_u64().unwrap() > 1000, "{proof:#}");

    // Every third changed page is torn, at another sector each, in turn with the newer and the older version in front.
    let changed = changed_pages(&crashed);
    let torn = crashed.server.copy();
    let mut real = BTreeSet::new();
    let mut touched = BTreeSet::new();
    for (number, (key, older, newer)) in changed.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        let cut = 512 * (1 + number / 3 % 15);
        let (front, back) = if number % 2 == 0 { (newer, older) } else { (older, newer) };
        let bytes = [&front[..cut], &back[cut..]].concat();
        write_page(&torn.data(), key, &bytes);
        touched.insert(key.clone());
        if is_other(key, front, &bytes) {
            real.insert(key.clone());
        }
    }
    let (_, without, _) = check(&torn.data(), &[]);
    let (_, with, summary) = prove(&torn.data());
    let seen = |pages: &BTreeMap<Key, Value>| real.iter().filter(|key| pages.contains_key(*key)).count();
    assert!(real.len() > 20, "{} tears", real.len());
    // The WAL of these tables is whole: every tear is seen, each proven.
    let unseen: Vec<&Key> = real.iter().filter(|key| !with.contains_key(*key)).collect();
    assert!(unseen.is_empty(), "unseen: {unseen:?}, {summary:#}");
    assert!(seen(&without) <= seen(&with), "{} of {}", seen(&without), real.len());
    for (key, row) in &with {
        assert!(touched.contains(key), "whole, yet called damaged: {row:#}");
        assert_eq!(row["strength"], "proven", "{row:#}, {:#}", summary["proof"]);
        assert!(has(row, "differs_from_replay") || has(row, "lacks_record"), "{row:#}");
    }

    // The older version of a page that a record from before the redo point changes was left behind by a lost write.
    let lost = crashed.server.copy();
    let redo = redo(&plain);
    let (key, older, _) = changed.iter().find(|(_, _, newer)| lsn(newer) <= redo).expect("a page of round two");
    write_page(&lost.data(), key, older);
    let (_, pages, _) = prove(&lost.data());
    assert_eq!(pages.keys().collect::<Vec<_>>(), [key]);
    let row = &pages[key];
    assert_eq!((&row["disk"], &row["strength"]), (&"disk_older".into(), &"proven".into()), "{row:#}");
    assert!(has(row, "lacks_record"), "{row:#}");
}

/// Pages that were written since the last checkpoint, torn between that and the version of the checkpoint. The WAL of everything that
/// was done to them since is there, and the database itself was made in it.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn records_since_the_redo_point_show_torn_rows() {
    let settings =
        "full_page_writes = off\nmax_wal_size = 1GB\nshared_buffers = 512kB\nwal_keep_size = 1GB\nautovacuum = off";
    let Some(server) = Server::create(settings) else { return };
    server.must("pg_checksums", &["--disable", "-D", arg(&server.data())]);
    assert!(server.launch(&[]), "{}", server.log());
    server.sql(
        "create table h(id int, a int, b text) with (fillfactor = 70);
         create table x(id int, v int[], p point, t text); create index on x using spgist(t); create sequence s;
         create table large as select g, repeat('x', 900) from generate_series(1, 3000) g;",
    );
    server.sql(&changes(1));
    server.sql("checkpoint;");
    let older = tempfile::tempdir().unwrap();
    copy_tree(&server.data().join("base"), &older.path().join("base"));
    server.sql(&changes(2));
    // All buffers are needed for others.
    server.sql("select count(*) from large; analyze;");
    server.stop("immediate");
    let crashed = Crashed { server, older };
    let data = crashed.server.data();
    let (_, none, _) = check(&data, &[]);
    assert!(none.is_empty(), "whole, yet called damaged: {none:#?}");

    let mut torn_pages: BTreeMap<PageKind, usize> = BTreeMap::new();
    let mut unseen: BTreeMap<PageKind, Vec<Key>> = BTreeMap::new();
    for sectors in [1, 5, 8, 11, 15] {
        let torn = crashed.server.copy();
        let mut real: BTreeMap<Key, PageKind> = BTreeMap::new();
        for (number, (key, older, newer)) in changed_pages(&crashed).iter().enumerate() {
            let (front, back) = if number % 2 == 0 { (newer, older) } else { (older, newer) };
            let bytes = [&front[..512 * sectors], &back[512 * sectors..]].concat();
            write_page(&torn.data(), key, &bytes);
            if is_other(key, older, &bytes) && is_other(key, newer, &bytes) {
                let header = PageHeader::decode(0, newer).unwrap();
                real.insert(key.clone(), PageKind::of(&header, newer, ForkNumber::Main));
            }
        }
        let (_, pages, _) = check(&torn.data(), &[]);
        for (key, kind) in real {
            *torn_pages.entry(kind).or_default() += 1;
            if !pages.contains_key(&key) {
                unseen.entry(kind).or_default().push(key);
            }
        }
    }
    for (kind, least) in [(PageKind::Heap, 100), (PageKind::SpGist, 20)] {
        let (all, unseen) = (torn_pages[&kind], unseen.get(&kind).map_or(0, Vec::len));
        assert!(all >= least && unseen * 20 <= all, "{kind:?}: {unseen} of {all}");
    }
}

/// A page that was written with hint bits, between two images of it: its end is that of the newer, its LSN that of the older one.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn hint_bits_that_a_later_image_has_too_make_no_page_torn() {
    let Some(server) = Server::create("wal_log_hints = on\nautovacuum = off\nwal_keep_size = 1GB") else { return };
    server.must("pg_checksums", &["--disable", "-D", arg(&server.data())]);
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("create table t(id int); insert into t values (1);");
    for more in ["insert into t values (2);", "select * from t;", "checkpoint;", "vacuum t;"] {
        server.sql(&format!("checkpoint; {more}"));
    }
    server.stop("immediate");
    let (_, pages, _) = check(&server.data(), &[]);
    assert!(pages.is_empty(), "whole, yet called damaged: {pages:#?}");
}

/// The same between a page of a base backup and an image in WAL. A row fills a sector, so that the hint is all that a sector shows.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn hint_bits_set_since_a_backup_make_no_page_torn() {
    let Some(server) = Server::create("autovacuum = off") else { return };
    server.must("pg_checksums", &["--disable", "-D", arg(&server.data())]);
    assert!(server.launch(&[]), "{}", server.log());
    let insert = |id: u32| format!("insert into t values ({id}, repeat('x', 480));");
    server.sql(&format!("create table t(id int, filler text); {}", insert(1)));
    server.stop("fast");
    let donor = tempfile::tempdir().unwrap();
    copy_tree(&server.data(), &donor.path().join("data"));
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("select * from t;");
    server.sql(&format!("checkpoint; {}", insert(2)));
    server.stop("immediate");
    let (_, pages, _) = check(&server.data(), &["--donor", arg(&donor.path().join("data"))]);
    assert!(pages.is_empty(), "whole, yet called damaged: {pages:#?}");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn without_a_server_all_else_is_as_before() {
    let data = unpack::data_dir("dwb/nochecksums").unwrap();
    let (_, pages, plain) = check(&data, &[]);
    let empty = tempfile::tempdir().unwrap();
    let (status, proven, summary) = check(&data, &["--prove", "--pg-bin", arg(empty.path())]);
    assert_eq!(status, 2);
    assert_eq!(pages.keys().collect::<Vec<_>>(), proven.keys().collect::<Vec<_>>());
    let ran = dwbinspect(&["check", "--prove", "--pg-bin", arg(empty.path()), "--format", "ndjson", arg(&data)]);
    let skipped = ran.of_type("skipped");
    assert!(
        skipped.iter().any(|row| row["cause"] == "not_replayed" && row["part"] == "proof_by_replay"),
        "{skipped:#?}"
    );
    // What equals an image byte for byte is proven without a server.
    let whole = summary["proven_whole"].as_u64().unwrap();
    assert!(whole > 0);
    assert_eq!(whole + summary["unproven_pages"].as_u64().unwrap(), plain["unproven_pages"].as_u64().unwrap());
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_with_checksums_need_no_proof() {
    let data: PathBuf = unpack::data_dir("dwb/evict").unwrap();
    let (status, pages, plain) = check(&data, &[]);
    let (with_status, proven, summary) = prove(&data);
    assert_eq!((status, pages), (with_status, proven));
    assert_eq!((&summary["proof"]["needless"], &summary["proven_whole"]), (&true.into(), &0.into()));
    assert_eq!(plain["unproven_pages"], summary["unproven_pages"]);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn images_that_were_switched_off_after_the_checkpoint_leave_pages_unproven() {
    for (level, is_switched_off) in [("replica", true), ("minimal", true), ("replica", false), ("minimal", false)] {
        let Some(server) = Server::create(&format!("wal_level = {level}\nmax_wal_senders = 0\n")) else { return };
        server.must("pg_checksums", &["--disable", "-D", arg(&server.data())]);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t as select i from generate_series(1, 10000) i; checkpoint;");
        if is_switched_off {
            server.sql("alter system set full_page_writes = off; select pg_reload_conf();");
            while server.sql("show full_page_writes").trim() != "off" {}
        }
        server.sql("update t set i = -i where i % 100 = 0; select pg_switch_wal();");
        server.stop("immediate");
        let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
        let summary = ran.of_type("summary").pop().unwrap();
        assert_eq!(summary["on_start"]["start"], "completes", "{}", ran.stdout);
        // A torn page would look the same.
        assert_eq!(ran.status, if is_switched_off { 2 } else { 0 }, "{level}: {}", ran.stdout);
        if level == "minimal" {
            // No record tells of a switch, so settings that are elsewhere leave it unknown.
            fs::remove_file(server.data().join("postgresql.conf")).unwrap();
            fs::remove_file(server.data().join("postgresql.auto.conf")).unwrap();
            let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
            assert_eq!(ran.status, 2, "{}", ran.stdout);
        }
    }
}
