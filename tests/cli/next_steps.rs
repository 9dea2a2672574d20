//! What a DBA of a stock server is told to do about damaged tables and indexes, and that it works.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::live::{Server, version_of};
use crate::common::{arg, dwbinspect};
use serde_json::Value;

/// Overwrites a page with what no page holds.
fn spoil(path: &Path, block: u64) {
    spoil_from(path, block, 0);
}

/// Overwrites a page from this byte on.
fn spoil_from(path: &Path, block: u64, first: usize) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("relation file");
    let noise: Vec<u8> = (0..8192_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
    file.write_all_at(&noise[first..], block * 8192 + first as u64).expect("page");
}

/// Flips bits of two bytes.
fn spoil_bytes(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("read");
    bytes[at..at + 2].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(path, bytes).expect("write");
}

fn steps(data: &Path) -> Vec<Value> {
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(data)]);
    let summary = ran.of_type("summary").remove(0);
    summary["next"].as_array().expect("steps").clone()
}

fn step<'a>(steps: &'a [Value], code: &str) -> &'a Value {
    steps.iter().find(|step| step["step"] == code).unwrap_or_else(|| panic!("no step {code}: {steps:#?}"))
}

/// The segment that WAL is written to.
fn last_segment(server: &Server) -> String {
    server.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())").trim().to_owned()
}

fn forget_wal_before(data: &Path, needed: &str) {
    for entry in fs::read_dir(data.join("pg_wal")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.len() == 24 && *name < *needed {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

const TABLES: &str = "
CREATE TABLE public.\"Orders\"(id int PRIMARY KEY, t text);
CREATE INDEX by_hash ON public.\"Orders\" USING hash(t);
INSERT INTO public.\"Orders\" SELECT g, repeat('x', 200) FROM generate_series(1, 5000) g;
CREATE TABLE public.long_values(v text);
ALTER TABLE public.long_values ALTER v SET STORAGE EXTERNAL;
INSERT INTO public.long_values SELECT repeat('y', 9000) FROM generate_series(1, 50);
CREATE SEQUENCE public.counter;
CREATE MATERIALIZED VIEW public.summary AS SELECT id FROM public.\"Orders\";
CHECKPOINT;
";

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn each_kind_of_relation_has_its_step_and_the_commands_work() {
    let Some(server) = Server::start("") else { return };
    server.sql(TABLES);
    let path = |relation: &str| server.sql(&format!("SELECT pg_relation_filepath({relation})")).trim().to_owned();
    let orders = path("'public.\"Orders\"'");
    let pkey = path("'public.\"Orders_pkey\"'");
    let hash = path("'public.by_hash'");
    let toast = path("(SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'long_values')");
    let view = path("'public.summary'");
    let sequence = path("'public.counter'");
    let catalog_index = path("'pg_catalog.pg_depend_reference_index'");
    // With the WAL that made them the pages could be rebuilt.
    server.sql("SELECT pg_switch_wal(); CHECKPOINT");
    let needed = last_segment(&server);
    server.stop("fast");
    let data = server.data();
    forget_wal_before(&data, &needed);
    for (path, block) in [
        (&orders, 3),
        (&orders, 4),
        (&pkey, 1),
        (&hash, 1),
        (&toast, 2),
        (&view, 0),
        (&sequence, 0),
        (&catalog_index, 1),
    ] {
        spoil(&data.join(path), block);
    }
    let told = steps(&data);
    let tables = step(&told, "salvage_table");
    // 291 rows at most stand in a page of 8 kB (MaxHeapTuplesPerPage).
    let expected = "postgres.public.Orders (blocks 3-4): ctid (3,1)..(4,291)";
    assert_eq!(tables["relations"], serde_json::json!([expected]));
    let first = tables["commands"][0].as_str().unwrap();
    assert_eq!(first, format!("pg_dwbinspect salvage {} -o RESCUE", arg(&data)), "{tables}");
    let indexes = step(&told, "reindex");
    let of = |relation: &str, method: &str| {
        format!("postgres.public.{relation} (block 1), a {method} index of postgres.public.Orders")
    };
    let named: Vec<&str> = indexes["relations"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(named.len() == 2 && named.contains(&&*of("Orders_pkey", "btree")), "{named:?}");
    assert!(named.contains(&&*of("by_hash", "hash")), "{named:?}");
    let long = step(&told, "salvage_toast")["relations"][0].as_str().unwrap();
    assert!(long.contains(" of postgres.public.long_values (block 2): ctid (2,1)..(2,291)"), "{long}");
    assert_eq!(step(&told, "reset_sequence")["relations"][0], "postgres.public.counter (block 0)");
    step(&told, "refresh_materialized_view");
    let system = step(&told, "reindex_system");
    let command = system["commands"][0].as_str().unwrap().to_owned();
    assert!(command.contains("REINDEX INDEX pg_catalog.pg_depend_reference_index"), "{command}");
    // An archive can help tables, and indexes need none.
    let sentence = step(&told, "look_into_archive")["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("With both, 4 pages can be"),
        "two of a table, one of long values, one of a sequence: {sentence}"
    );
    assert!(told.iter().all(|step| step["step"] != "get_past" && step["step"] != "start"), "{told:#?}");
    // The cluster was stopped in order: nothing is replayed, and no two sentences say otherwise.
    let text = dwbinspect(&["check", arg(&data)]).stdout;
    assert!(text.contains("none needed") && !text.contains("end of WAL"), "{text}");
    assert!(server.launch(&[]), "{}", server.log());
    // The table comes first, as the order of the steps says: an index is made from all of its pages.
    let place = |code: &str| told.iter().position(|step| step["step"] == code);
    assert!(place("salvage_table") < place("reindex"), "{told:#?}");
    for statement in indexes["commands"].as_array().unwrap() {
        let (_, statement) = statement.as_str().unwrap().split_once(" -c ").unwrap();
        server.sql(&format!("SET zero_damaged_pages = on; {};", statement.trim_matches('\'')));
    }
    assert_eq!(server.sql("SET enable_seqscan = off; SELECT id FROM public.\"Orders\" WHERE id = 4999").trim(), "4999");
    // The view is made from its table, of which two pages are gone.
    let first = step(&told, "refresh_materialized_view")["commands"][0].as_str().unwrap();
    let (_, statement) = first.split_once(" -c ").unwrap();
    server.sql(&format!("SET zero_damaged_pages = on; {};", statement.trim_matches('\'')));
    let rows = server.sql("SELECT count(*) FROM public.summary").trim().parse::<u32>().unwrap();
    assert!(rows > 4800 && rows < 5000, "{rows}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn replay_that_stops_is_answered_with_a_way_past_that_works() {
    let Some(server) = Server::start("full_page_writes = off") else { return };
    server.sql(TABLES);
    let pkey = server.sql("SELECT pg_relation_filepath('public.\"Orders_pkey\"')").trim().to_owned();
    server.sql("SELECT pg_switch_wal(); CHECKPOINT; SELECT pg_switch_wal(); CHECKPOINT");
    let needed = last_segment(&server);
    server.sql("UPDATE public.\"Orders\" SET t = t || 'y' WHERE id % 7 = 0");
    server.stop("immediate");
    let data = server.data();
    // With the WAL that made the page it could be rebuilt.
    forget_wal_before(&data, &needed);
    spoil(&data.join(&pkey), 1);
    let told = steps(&data);
    let past = step(&told, "get_past");
    assert!(past["sentence"].as_str().unwrap().contains("postgres.public.Orders_pkey"), "{past}");
    let command = past["commands"][0].as_str().unwrap();
    assert!(command.ends_with("-c ignore_checksum_failure=on'"), "{command}");
    let command = past["commands"][1].as_str().unwrap();
    assert!(command.ends_with("-c zero_damaged_pages=on'"), "{command}");
    step(&told, "reindex");
    assert!(!server.copy().launch(&[]), "the server stops at the page");
    server.configure("zero_damaged_pages = on\n");
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("REINDEX INDEX public.\"Orders_pkey\"");
    assert_eq!(server.sql("SELECT count(*) FROM public.\"Orders\" WHERE t LIKE '%y'").trim(), "714");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damage_under_full_page_writes_is_no_tear_of_the_crash() {
    let Some(server) = Server::start("") else { return };
    server.sql(TABLES);
    let orders = server.sql("SELECT pg_relation_filepath('public.\"Orders\"')").trim().to_owned();
    server.sql("UPDATE public.\"Orders\" SET t = 'z' WHERE id = 5000");
    server.stop("immediate");
    let data = server.data();
    // Its header still says how far WAL had been written: without it more WAL could be missing.
    spoil_from(&data.join(&orders), 3, 512);
    let notes = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("finding");
    let note = notes.iter().find(|note| note["kind"] == "not_a_crash_tear").unwrap_or_else(|| panic!("{notes:#?}"));
    assert_eq!(
        (&note["severity"], &note["what"]),
        (&"note".into(), &"damaged pages that the crash did not tear: 1".into())
    );
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn server_after_a_complete_repair_is_said_to_start() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    common::copy_tree(&common::cluster("checkpoint"), &data);
    let journal = place.path().join("journal");
    let user = rustix::process::geteuid().is_root().then_some("--allow-other-user");
    let args = ["repair", arg(&data), "--apply", "--journal", arg(&journal)];
    let ran = dwbinspect(&args.into_iter().chain(user).collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("WILL START "), "{}", ran.stdout);
    let lines: Vec<&str> = ran.stdout.lines().skip_while(|line| *line != "What to do").map(str::trim).collect();
    assert!(lines[1].ends_with("Start the server:"), "{}", ran.stdout);
    assert_eq!(lines[2], format!("pg_ctl start -D {}", arg(&data)));
}

/// A copy of `clean`, which was shut down at 0/015BB748 in segments of 1 MiB, see the README of the fixture.
fn stopped(name: &str) -> (tempfile::TempDir, PathBuf) {
    let place = common::temporary();
    let data = place.path().join(name);
    common::copy_tree(&common::cluster("clean"), &data);
    (place, data)
}

#[test]
fn page_that_fails_its_checksum_is_read_before_it_is_given_up() {
    let (_place, data) = stopped("table");
    // In a row: header and line pointers stay as they are.
    spoil_bytes(&data.join("base/5/16399"), 8000);
    let told = steps(&data);
    let sentence = step(&told, "salvage_table")["sentence"].as_str().expect("sentence");
    let at = |setting: &str| sentence.find(setting).unwrap_or_else(|| panic!("{setting}: {sentence}"));
    assert!(at("salvage copies out every row") < at("ignore_checksum_failure = on"), "{sentence}");
    assert!(!sentence.contains("zero_damaged_pages"), "{sentence}");
}

#[test]
fn missing_wal_is_named_by_its_segment() {
    let (_place, data) = stopped("wal");
    let needed = "000000010000000000000015";
    fs::remove_file(data.join("pg_wal").join(needed)).expect("the segment of the checkpoint");
    let told = steps(&data);
    let sentence = step(&told, "bring_wal")["sentence"].as_str().expect("sentence");
    assert!(sentence.contains(&format!("Missing: {needed}.")), "{sentence}");
}

#[test]
fn damaged_control_file_is_told_once() {
    let (_place, data) = stopped("control");
    spoil_bytes(&data.join("global/pg_control"), 60);
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    let findings = ran.of_type("finding");
    let kinds = findings.iter().filter_map(|finding| finding["kind"].as_str());
    assert_eq!(kinds.filter(|kind| kind.contains("control")).collect::<Vec<_>>(), ["control_crc"], "{findings:?}");
    let summary = ran.of_type("summary").remove(0);
    assert_eq!(summary["doubt_codes"], serde_json::json!(["control_not_trusted"]), "{summary}");
    // An older one would begin recovery before WAL that is no longer there.
    let sentence = step(&steps(&data), "bring_control")["sentence"].as_str().expect("sentence").to_owned();
    assert!(sentence.contains("only if pg_wal has all WAL since its redo point"), "{sentence}");
}

#[test]
fn versions_are_sorted_by_number() {
    let mut found: Vec<_> =
        ["9.6/bin", "15/bin", "10/bin"].map(|path| Path::new("/usr/lib/postgresql").join(path)).into();
    found.sort_by_key(|bin| version_of(bin));
    assert!(found.last().unwrap().ends_with("15/bin"), "{found:?}");
}
