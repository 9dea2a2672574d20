//! Why images were written: against WAL whose answer is known.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common;
use crate::common::live::Server;
use crate::common::{Ran, arg, run};
use pgforensics::analysis::wal::cause::{Cause, CauseClassifier, always_images, never_forced};
use pgforensics::analysis::wal::cause_facts::{CauseFacts, FactsFold};

use pgforensics::analysis::wal::hidden_redo::HiddenRedo;

use crate::common::wal::{Fixture, read_all};
use pgforensics::parsers::image::ImageDecoder;
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::names::rmgr_name;
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::parsers::wal::record::Record;
use pgforensics::types::Lsn;
use serde_json::Value;

#[test]
fn images_are_forced_by_the_type_of_the_record_alone() {
    let mut forced: BTreeMap<String, usize> = BTreeMap::new();
    for number in 10..=19 {
        let fixture = Fixture::load(number);
        let mut redo_points = Vec::new();
        read_all(&fixture, 1 << 20, |record| {
            if let Ok(Some(XlogPayload::CheckpointShutdown(point) | XlogPayload::CheckpointOnline(point))) =
                XlogPayload::of(record)
            {
                redo_points.push(point.redo_lsn);
            }
        });
        let (mut decoder, mut page) = (ImageDecoder::new(), vec![0; 8192]);
        let mut ordinary = 0;
        read_all(&fixture, 1 << 20, |record| {
            let redo = redo_points.iter().filter(|redo| **redo <= record.start_lsn).max();
            for block in record.blocks() {
                let (id, kind) = (record.header.rmgr_id, record.kind());
                let name = format!("{}/{}", rmgr_name(id), record.type_name());
                let image = block.image.filter(|image| image.applies());
                let is_forced = always_images(kind, block.block_id);
                assert!(!is_forced || image.is_some(), "{number} {name} at {}", record.start_lsn);
                *forced.entry(name.clone()).or_default() += usize::from(is_forced);
                let (Some(image), Some(redo)) = (image, redo) else { continue };
                decoder.restore(&image, &mut page).unwrap();
                let old = PageHeader::decode(0, &page).unwrap().lsn;
                if never_forced(record.major, kind, block.block_id) {
                    assert!(!is_forced && old <= *redo, "{number} {name} at {}: {old}", record.start_lsn);
                    ordinary += usize::from(old > Lsn(0));
                } else if old > *redo {
                    assert!(is_forced || name == "Generic/Generic", "{number} {name} at {}", record.start_lsn);
                }
            }
        });
        assert!(ordinary > 50, "{number}: {ordinary}");
    }
    forced.retain(|_, count| *count > 0);
    let names: Vec<&str> = forced.keys().map(String::as_str).collect();
    // No page of GIN is split here; on a live server one is.
    assert_eq!(names, ["Gin/VACUUM_PAGE", "Hash/SPLIT_PAGE", "XLOG/FPI"], "{forced:?}");
}

/// What is known when nothing but these redo points is.
fn only_redo_points(points: &[u64]) -> CauseFacts {
    let mut fold = FactsFold::default();
    points.iter().for_each(|point| fold.add_redo_point(Lsn(*point)));
    fold.finish(None)
}

/// Causes of the first image of this name in a fixture, as if it stood at these addresses with these LSNs before it.
fn causes_of(major: u32, name: &str, redo_points: &[u64], images: &[(u64, u64)]) -> (Vec<Cause>, Vec<HiddenRedo>) {
    let mut classifier = CauseClassifier::new(only_redo_points(redo_points), 8192);
    let mut causes = Vec::new();
    read_all(&Fixture::load(major), 1 << 20, |record| {
        let own = format!("{}/{}", rmgr_name(record.header.rmgr_id), record.type_name());
        let first = record.blocks().find_map(|block| block.image.map(|image| (block, image)));
        let Some((block, image)) = first.filter(|_| own == name && causes.is_empty()) else { return };
        for (start, old) in images {
            let moved = Record { start_lsn: Lsn(*start), ..*record };
            causes.push(classifier.cause(&moved, &block, &image, Some(Lsn(*old))));
        }
    });
    assert_eq!(causes.len(), images.len(), "{name} is not in the fixture");
    (causes, classifier.open().hidden.points)
}

#[test]
fn two_images_for_the_same_hint_bits_are_a_race() {
    for major in [13, 15, 18] {
        let (causes, hidden) = causes_of(major, "XLOG/FPI_FOR_HINT", &[100], &[(200, 50), (300, 50)]);
        assert_eq!((causes, hidden), (vec![Cause::HintOnly, Cause::RepeatedHint], vec![]), "{major}");
    }
}

#[test]
fn image_of_a_newer_page_shows_a_redo_point_that_no_record_names() {
    for name in ["Heap/INSERT", "Btree/INSERT_LEAF", "XLOG/FPI_FOR_HINT"] {
        let first = if name.starts_with("XLOG") { Cause::HintOnly } else { Cause::FirstTouch };
        // The page was changed at 240, after the redo point: its next image is due to one between 240 and 400.
        let (causes, hidden) = causes_of(15, name, &[100], &[(200, 50), (400, 240), (600, 500)]);
        assert_eq!(causes, [first; 3], "{name}");
        let expected =
            [(240, 400), (500, 600)].map(|(after, before)| HiddenRedo { after: Lsn(after), before: Lsn(before) });
        assert_eq!(hidden, expected, "{name}");
    }
    // Known: nothing is hidden.
    let (causes, hidden) = causes_of(15, "Heap/INSERT", &[100, 300, 550], &[(200, 50), (400, 240), (600, 500)]);
    assert_eq!((causes, hidden), (vec![Cause::FirstTouch; 3], vec![]));
    // Up to 14 another backend may have set the newer LSN, and a page may be from the future.
    let (_, hidden) = causes_of(14, "XLOG/FPI_FOR_HINT", &[100], &[(200, 50), (400, 240)]);
    assert_eq!(hidden, []);
    assert_eq!(causes_of(15, "Heap/INSERT", &[100], &[(200, 5000)]).1, []);
}

#[test]
fn records_that_always_have_an_image_are_forced_whatever_the_lsn() {
    for (name, cause, again) in [
        ("Gin/VACUUM_PAGE", Cause::Forced, Cause::RepeatedForced),
        ("Hash/SPLIT_PAGE", Cause::Forced, Cause::RepeatedForced),
        ("XLOG/FPI", Cause::NewPage, Cause::RepeatedNewPage),
    ] {
        for old in [0, 50, 150] {
            let (causes, hidden) = causes_of(16, name, &[100], &[(200, old), (400, 250)]);
            assert_eq!((causes, hidden), (vec![cause, again], vec![]), "{name} {old}");
        }
    }
}

/// A segment less never makes another cause certain: what it was in whole WAL, or what depends on the redo point that is
/// missing.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn after_a_gap_a_cause_is_the_same_or_unknown() {
    let mut unknown_of: BTreeMap<(String, String), usize> = BTreeMap::new();
    for major in 11..=19 {
        let (fixture, dir) = (Fixture::load(major), tempfile::tempdir().unwrap());
        let write = |(name, bytes): &(String, Vec<u8>)| std::fs::write(dir.path().join(name), bytes).unwrap();
        fixture.segments.iter().for_each(write);
        let causes = |images: Vec<Value>| -> BTreeMap<String, (String, String)> {
            let key = |image: &Value| format!("{} {} {}", image["lsn"], image["rel_number"], image["block"]);
            let text = |image: &Value, field: &str| image[field].as_str().unwrap().to_owned();
            images
                .iter()
                .map(|image| {
                    (key(image), (text(image, "cause"), format!("{}/{}", text(image, "rmgr"), text(image, "record"))))
                })
                .collect()
        };
        let whole = causes(list(dir.path(), &[]).0);
        for segment in fixture.segments.iter().skip(1).rev().skip(1) {
            std::fs::remove_file(dir.path().join(&segment.0)).unwrap();
            for (image, (cause, record)) in causes(list(dir.path(), &[]).0) {
                let Some((of_whole, _)) = whole.get(&image) else { continue };
                let is_careful = match of_whole.as_str() {
                    // The change may come after the gap: a finding says so.
                    "hint_then_changed" => cause == "hint_only",
                    _ => cause == "unknown_before_start",
                };
                assert!(cause == *of_whole || is_careful, "{major} {record} {image}: {of_whole}, {cause}");
                if cause != *of_whole {
                    *unknown_of.entry((of_whole.clone(), record)).or_default() += 1;
                }
            }
            write(segment);
        }
    }
    let has = |cause: &str, record: &str| unknown_of.contains_key(&(cause.to_owned(), record.to_owned()));
    // What had an image before the gap may have it again, and what has its first one after it may have had one.
    assert!(has("forced", "Hash/SPLIT_PAGE") && !has("first_touch", "Heap2/VISIBLE"), "{unknown_of:?}");
}

#[test]
fn with_a_double_write_buffer_only_forced_images_are_left() {
    for case in ["checkpoint", "evict", "wrapped"] {
        let data = common::cluster(case);
        let list = run("pg_walfpi", &["list", "--format", "ndjson", arg(&data)]);
        let images = list.of_type("image");
        let of = |cause: &str| images.iter().filter(|image| image["cause"] == cause).count();
        assert_eq!((of("first_touch_in_backup"), of("unknown"), list.status), (0, 0, 0), "{case}");
    }
}

/// Images that `pg_walfpi list` shows, with their findings.
fn list(path: &Path, more: &[&str]) -> (Vec<Value>, Ran) {
    let ran = run("pg_walfpi", &[&["list", "--format", "ndjson", arg(path)], more].concat());
    (ran.of_type("image"), ran)
}

fn number(lsn: &Value) -> u64 {
    let (high, low) = lsn.as_str().unwrap().split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn is_of(image: &Value, rel_number: &str) -> bool {
    image["rel_number"].as_u64() == rel_number.parse().ok()
}

/// How many images of a relation have each cause.
fn causes_by_relation(images: &[Value], rel_number: &str) -> BTreeMap<String, usize> {
    let mut causes = BTreeMap::new();
    for image in images.iter().filter(|image| is_of(image, rel_number) && image["fork"] == "main") {
        *causes.entry(image["cause"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    causes
}

/// Settings under which no checkpoint begins by itself, and one that may take its time does not end.
const QUIET: &str =
    "checkpoint_timeout = 1h\ncheckpoint_completion_target = 0.9\nmax_wal_size = 4GB\nlog_checkpoints = on\n";

#[test]
fn hint_images_are_told_by_what_became_of_the_page() {
    let Some(server) = Server::start(QUIET) else { return };
    server.sql(
        "CREATE TABLE read AS SELECT i, repeat('x', 500) t FROM generate_series(1, 600) i;
         CREATE TABLE written AS SELECT i, repeat('x', 500) t FROM generate_series(1, 600) i;
         CREATE TABLE later AS SELECT i, repeat('x', 500) t FROM generate_series(1, 600) i;
         CREATE TABLE cut AS SELECT i, repeat('x', 500) t FROM generate_series(1, 600) i;
         DELETE FROM cut WHERE i > 100; CHECKPOINT;
         SELECT count(*) FROM read; SELECT count(*) FROM written; SELECT count(*) FROM later;
         UPDATE written SET i = -i; VACUUM cut; CHECKPOINT;
         UPDATE later SET i = -i; SELECT count(*) FROM read;",
    );
    // Rows of 532 bytes, 15 a page.
    let facts = |table: &str| {
        let answer = server.sql(&format!("SELECT pg_relation_filenode('{table}'), {}", 600_usize.div_ceil(15)));
        let (rel, pages) = answer.trim().split_once('|').unwrap();
        (rel.to_owned(), pages.parse::<usize>().unwrap())
    };
    let (images, _) = list(&server.data(), &[]);
    let expect = |table: &str, cause: &str| {
        let (rel, pages) = facts(table);
        let causes = causes_by_relation(&images, &rel);
        assert_eq!(causes.get(cause), Some(&pages), "{table}: {causes:?}");
        causes
    };
    assert!(!expect("read", "hint_only").contains_key("hint_then_changed"));
    assert!(!expect("written", "hint_then_changed").contains_key("hint_only"));
    // Changed after the next redo point: that change has its own image, and the first was for the hint bits alone.
    assert!(!expect("later", "hint_only").contains_key("hint_then_changed"));
    expect("later", "first_touch");
    let (rel, _) = facts("cut");
    let maps: Vec<_> = images.iter().filter(|image| is_of(image, &rel) && image["fork"] != "main").collect();
    let cut: Vec<_> = maps.iter().filter(|image| image["record"] == "FPI").collect();
    assert!(!cut.is_empty() && cut.iter().all(|image| image["cause"] == "map_truncation"), "{maps:?}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn redo_point_of_a_running_checkpoint_is_found_by_its_images() {
    let Some(server) = Server::start(QUIET) else { return };
    let major = server.sql("SHOW server_version_num").trim().parse::<u32>().unwrap() / 10_000;
    server.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int, v text); CREATE INDEX ON t USING hash (n);
         INSERT INTO t SELECT i, i, repeat('x', 300) FROM generate_series(1, 3000) i;
         CREATE TABLE read AS SELECT i, repeat('x', 500) v FROM generate_series(1, 300) i;
         CHECKPOINT; UPDATE t SET n = n + 1 WHERE id % 2 = 0;",
    );
    // A checkpoint that takes its time.
    let begun = || server.log().matches("checkpoint starting").count();
    let before = begun();
    let start = if major >= 15 { "pg_backup_start('x', false)" } else { "pg_start_backup('x', false, false)" };
    let mut waiting = server.start_sql(&format!("SELECT {start}"));
    while begun() == before {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.sql("UPDATE t SET n = n + 1; SELECT count(*) FROM read; UPDATE t SET n = n + 1;");
    let copy = tempfile::tempdir().unwrap();
    common::copy_tree(&server.data().join("pg_wal"), &copy.path().join("pg_wal"));
    // Now it is quick, and its record names the redo point.
    server.sql("CHECKPOINT");
    waiting.wait().unwrap();
    server.stop("fast");
    let (truth, _) = list(&server.data(), &[]);
    let (images, ran) = list(&copy.path().join("pg_wal"), &[]);
    let last = images.iter().map(|image| number(&image["lsn"])).max().unwrap();
    let key = |image: &Value| (number(&image["lsn"]), image["block_id"].to_string(), image["cause"].to_string());
    let truth: Vec<_> = truth.iter().filter(|image| number(&image["lsn"]) <= last).map(key).collect();
    assert_eq!(images.iter().map(key).collect::<Vec<_>>(), truth);
    let hidden: Vec<_> =
        ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "hidden_redo").collect();
    assert_eq!(hidden.len(), usize::from(major <= 16), "{hidden:?}");
    let pg_wal = server.data().join("pg_wal");
    let first = truth.first().unwrap().0;
    let first = format!("{:X}/{:X}", first >> 32, first & 0xFFFF_FFFF);
    let dump = server.run("pg_waldump", &["-p", arg(&pg_wal), "-r", "XLOG", "-s", &first]);
    let dump = String::from_utf8(dump.stdout).unwrap();
    let redo = dump.lines().filter_map(|line| line.split_once("CHECKPOINT_ONLINE redo ")?.1.split(';').next());
    let redo: Vec<u64> = redo.map(|lsn| number(&Value::from(lsn))).collect();
    let copied = copy.path().join("pg_wal");
    let stats = |more: &[&str]| run("pg_walfpi", &[&["stats", "--format", "ndjson", arg(&copied)], more].concat());
    let rows: Vec<Value> = stats(&[]).of_type("interval").into_iter().filter(|row| row["kind"] == "hidden").collect();
    assert_eq!(rows.len(), hidden.len(), "{rows:?}");
    for row in rows {
        let (after, before) = (number(&row["redo_after_lsn"]), number(&row["redo_before_lsn"]));
        let real = *redo.iter().find(|redo| (after..=before).contains(redo)).unwrap();
        let images = |from: u64| truth.iter().filter(|(lsn, ..)| *lsn >= from).count();
        assert_eq!(row["fpi_count"], images(before), "{row}");
        // All from the redo point itself on.
        let all =
            stats(&["--start", &format!("{:X}/{:X}", real >> 32, real & 0xFFFF_FFFF)]).of_type("summary").remove(0);
        assert_eq!(all["fpi_count"], images(real), "{row}");
        assert!(images(before) * 10 > images(real) * 9, "{row}");
    }
    for finding in hidden {
        let words = finding["what"].as_str().unwrap().to_owned();
        let lsns: Vec<u64> =
            words.split([' ', ',']).filter(|word| word.contains('/')).map(|word| number(&Value::from(word))).collect();
        assert!(redo.iter().any(|redo| (lsns[0]..=lsns[1]).contains(redo)), "{words}: {redo:X?}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn without_full_page_writes_images_are_forced_or_of_a_backup() {
    let Some(server) = Server::start(&format!("full_page_writes = off\n{QUIET}")) else { return };
    let major = server.sql("SHOW server_version_num").trim().parse::<u32>().unwrap() / 10_000;
    let position = || number(&Value::from(server.sql("SELECT pg_current_wal_insert_lsn()").trim()));
    let began = position();
    server.sql(
        "CREATE TABLE t (id int PRIMARY KEY, words text, n int, p point);
         CREATE INDEX ON t USING gin (to_tsvector('simple', words)); CREATE INDEX ON t USING hash (n);
         CREATE INDEX ON t USING gist (p); CREATE INDEX ON t USING spgist (words); CREATE INDEX ON t USING brin (id);
         INSERT INTO t SELECT i, md5(i::text) || ' ' || md5((-i)::text), i, point(i, i % 77) FROM generate_series(1, 4000) i;
         CHECKPOINT; UPDATE t SET n = n + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0; VACUUM t; CHECKPOINT;
         INSERT INTO t SELECT i, md5(i::text), i, point(i, i % 77) FROM generate_series(4001, 7000) i;",
    );
    let backup_began = position();
    let (start, stop) = if major >= 15 {
        ("pg_backup_start('x', true)", "pg_backup_stop()")
    } else {
        ("pg_start_backup('x', true, false)", "pg_stop_backup(false)")
    };
    server.sql(&format!("SELECT {start}; UPDATE t SET n = n + 1 WHERE id < 500; SELECT {stop};"));
    let backup_ended = position();
    server.sql("CHECKPOINT; UPDATE t SET n = n + 1 WHERE id < 500;");
    let (images, _) = list(&server.data(), &[]);
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for image in images.iter().filter(|image| number(&image["lsn"]) >= began) {
        let name = format!("{}/{}", image["rmgr"].as_str().unwrap(), image["record"].as_str().unwrap());
        let is_in_backup = (backup_began..backup_ended).contains(&number(&image["lsn"]));
        let cause = image["cause"].as_str().unwrap().to_owned();
        let expected = match name.as_str() {
            "Gin/SPLIT" | "Gin/VACUUM_PAGE" | "Hash/SPLIT_PAGE" => "forced",
            "XLOG/FPI" if image["fork"] == "main" || image["fork"] == "init" => "new_page",
            "XLOG/FPI" => "map_truncation",
            "XLOG/FPI_FOR_HINT" if major >= 15 => "hint_in_backup",
            "XLOG/FPI_FOR_HINT" => "hint_only",
            _ => "first_touch_in_backup",
        };
        assert!(cause == expected || cause.strip_prefix("repeated_") == Some(expected), "{image}");
        assert!(is_in_backup || !cause.ends_with("in_backup"), "{image}");
        *seen.entry((name, cause)).or_default() += 1;
    }
    let has = |name: &str, cause: &str| seen.keys().any(|(own, of)| own == name && of.ends_with(cause));
    for (name, cause) in [
        ("Gin/SPLIT", "forced"),
        ("Gin/VACUUM_PAGE", "forced"),
        ("Hash/SPLIT_PAGE", "forced"),
        ("XLOG/FPI", "new_page"),
        ("Heap/UPDATE", "first_touch_in_backup"),
    ] {
        assert!(has(name, cause), "{name} {cause}: {seen:?}");
    }
    let out = tempfile::tempdir().unwrap();
    let rows = out.path().join("rows");
    let export = ["export", "--table", "images", "--as", "ndjson", "--group", "1000", "-o", arg(&rows)];
    let ran = run("pg_walfpi", &[&export[..], &[arg(&server.data())]].concat());
    assert!(ran.status < 2, "{}", ran.stderr);
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(rows.join("_manifest.json")).unwrap()).unwrap();
    let file = std::fs::read_to_string(rows.join(manifest["files"][0]["path"].as_str().unwrap())).unwrap();
    let exported: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exported =
        exported.iter().map(|row| (row["lsn"].as_u64().unwrap(), row["block"].clone(), row["cause"].clone()));
    let listed = images.iter().map(|row| (number(&row["lsn"]), row["block"].clone(), row["cause"].clone()));
    assert_eq!(exported.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
}

#[test]
fn images_before_the_first_redo_point_are_unknown_only_where_it_matters() {
    let Some(server) = Server::start(QUIET) else { return };
    if server.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'bloom'").trim() == "0" {
        return common::skipped("bloom is not installed");
    }
    server.sql(
        "CREATE EXTENSION bloom; CREATE TABLE t AS SELECT i, i n FROM generate_series(1, 1000) i;
         CREATE INDEX ON t USING bloom (i, n); CHECKPOINT;",
    );
    let start = server.sql("SELECT pg_current_wal_insert_lsn()").trim().to_owned();
    server.sql("INSERT INTO t VALUES (-1, -1)");
    server.stop("immediate");
    let of = |images: &[Value], rmgr: &str| -> Vec<String> {
        let own = images.iter().filter(|image| image["rmgr"] == rmgr);
        own.map(|image| image["cause"].as_str().unwrap().to_owned()).collect()
    };
    let (whole, ran) = list(&server.data(), &["--lsn", &format!("{start}-")]);
    assert_eq!(
        (of(&whole, "Heap"), of(&whole, "Generic").last()),
        (vec!["first_touch".into()], Some(&"first_touch".into()))
    );
    assert!(!ran.stdout.contains("before_first_redo"));
    // pg_control names the redo point, without which nobody does.
    let (named, _) = list(&server.data(), &["--start", &start]);
    assert_eq!(of(&named, "Generic"), of(&whole, "Generic"));
    let (rest, ran) = list(&server.data().join("pg_wal"), &["--start", &start]);
    let unknown = of(&rest, "Generic");
    assert_eq!(of(&rest, "Heap"), ["first_touch"]);
    assert!(!unknown.is_empty() && unknown.iter().all(|cause| cause == "unknown_before_start"), "{unknown:?}");
    let findings = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "before_first_redo");
    assert_eq!(findings.count(), 1);
}
