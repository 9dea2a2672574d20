//! `pg_dwbinspect check` on real crashed clusters, against what is known of each torn write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common;
use crate::common::edit::{ClusterCopy, ControlField, DWB_FILE, same_page, sealed};
use crate::common::truth::{Torn, check, check_with, chosen_image, torn_writes};
use crate::common::{DWB_CASES, arg, bytes_read, cluster, dwbinspect, packed_rows, unpack};
use pgforensics::types::Lsn;
use serde_json::Value;

/// Bytes that a disk writes in one piece.
const SECTOR: usize = 512;

/// Blocks of base/5/16399 in `nochecksums` that are, on disk, the whole page from before the write: the bytes that
/// reached the disk were there already.
const OLD_WHOLE_PAGES: [u32; 3] = [2828, 3752, 3973];

/// Used slots of a case as an independent reader of the format found them: database and file number, fork and block.
fn slots(case: &str) -> BTreeMap<(String, String, u32), usize> {
    let rows = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.slots.tsv.zst")));
    let mut slots = BTreeMap::new();
    let is_whole = |row: &&BTreeMap<String, String>| match row["crc"].as_str() {
        "unverifiable" => row["page_checksum"] == "good",
        crc => crc == "good",
    };
    for row in rows.iter().filter(|row| row["state"] == "used").filter(is_whole) {
        let block = row["block"].parse().unwrap();
        let rel = format!("{}/{}", row["db_oid"], row["rel_number"]);
        *slots.entry((rel, row["fork"].clone(), block)).or_default() += 1;
    }
    slots
}

/// Torn writes that can be seen on disk and of which a slot holds an image.
fn visible(case: &str) -> Vec<Torn> {
    let slots = slots(case);
    let mut torn = torn_writes(case);
    torn.retain(|torn| {
        let mut parts = torn.file.rsplit('/');
        let (name, database) = (parts.next().unwrap(), parts.next().unwrap());
        let rel = format!("{database}/{}", name.split('_').next().unwrap());
        let seen = match case {
            "nochecksums" => !(torn.is_invisible || name == "16399" && OLD_WHOLE_PAGES.contains(&torn.block)),
            _ => !torn.checksum_fits,
        };
        seen && slots.contains_key(&(rel, torn.fork_name().to_owned(), torn.block))
    });
    torn
}

/// The unlogged table, `scratch`.
fn is_unlogged(row: &Value) -> bool {
    ["base/5/16418", "pg_tblspc/16384/PG_19_202602051/5/16419"].contains(&row["path"].as_str().unwrap())
}

/// Database and file number, fork and block of a row.
fn key_of(row: &Value) -> (String, String, u32) {
    let rel = format!("{}/{}", row["db_oid"], row["rel_number"]);
    (rel, row["fork"].as_str().unwrap().to_owned(), number(&row["block"]) as u32)
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))).unwrap()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_visible_torn_write_is_told_and_nothing_else() {
    for case in DWB_CASES {
        let checked = check(&cluster(case));
        let visible = visible(case);
        assert_eq!(visible.is_empty(), case == "clean");
        for torn in &visible {
            let row = checked.pages.iter().find(|row| torn.is_in(row));
            let row = row.unwrap_or_else(|| panic!("{case}: {} block {} is not told", torn.file, torn.block));
            assert_eq!(row["disk"], "torn", "{case}: {row:#}");
        }
        for row in &checked.pages {
            assert!(visible.iter().any(|torn| torn.is_in(row)), "{case}: no write was cut there: {row:#}");
        }
        assert_eq!(number(&checked.summary["damaged_pages"]), visible.len());
        // That nothing is wrong with these pages says nothing of the others.
        let status = if case == "clean" { 2 } else { 1 };
        assert_eq!((checked.ran.status, checked.ran.stderr.as_str()), (status, ""), "{case}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn tear_is_where_the_write_was_cut() {
    for case in DWB_CASES {
        let data = cluster(case);
        let checked = check(&data);
        for torn in visible(case) {
            let row = checked.pages.iter().find(|row| torn.is_in(row)).unwrap();
            let tear = &row["tear"];
            let is_head = torn.reached.start == 0;
            assert_eq!(tear["direction"], if is_head { "head" } else { "tail" }, "{case}: {row:#}");
            let cut = if is_head { torn.reached.end } else { torn.reached.start };
            let (first, last) = (number(&tear["break_min"]), number(&tear["break_max"]));
            assert!((first..=last).contains(&cut), "{case}: cut at {cut}: {row:#}");
            assert!((first..=last).contains(&number(&tear["break_at"])), "{case}: {row:#}");
            let sources = tear["sectors"].as_array().unwrap();
            assert_eq!(sources.len(), 16);
            let from = |image: &Value, range: std::ops::Range<usize>| {
                sources[range.start / SECTOR..range.end / SECTOR]
                    .iter()
                    .all(|list| list.as_array().unwrap().contains(image))
            };
            // The part that arrived is that of the image which was being written.
            assert!(from(&tear["newer"], torn.reached.clone()), "{case}: {row:#}");
            let mut newer = row.clone();
            newer["chosen"] = row["candidates"][number(&tear["newer"])].clone();
            assert!(same_page(&chosen_image(&data, &newer), &torn.intended), "{case}: {row:#}");
            if !tear["older"].is_null() {
                let rest = if is_head { cut..8192 } else { 0..cut };
                assert!(from(&tear["older"], rest), "{case}: {row:#}");
            }
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn image_that_is_to_be_put_back_is_what_the_server_meant_to_write() {
    for case in DWB_CASES {
        let data = cluster(case);
        let checked = check(&data);
        for torn in visible(case) {
            let row = checked.pages.iter().find(|row| torn.is_in(row)).unwrap();
            if is_unlogged(row) {
                assert_eq!((&row["verdict"], &row["chosen"]), (&"leave".into(), &Value::Null), "{case}: {row:#}");
                continue;
            }
            if row["verdict"] == "heals_in_replay" {
                assert!(row["chosen"].is_null() && ["checkpoint", "reva"].contains(&case), "{case}: {row:#}");
                continue;
            }
            assert_eq!(row["verdict"], "restore", "{case}: {row:#}");
            assert!(same_page(&chosen_image(&data, row), &torn.intended), "{case}: {row:#}");
        }
    }
}

#[test]
fn start_is_foreseen_as_the_server_itself_did() {
    // By the fixtures' README: the server repairs that many pages and starts, or stops at the first of them; without
    // checksums it sees nothing. The cluster `aligned` was not tried.
    for (case, start, restores) in [
        ("clean", "without_replay", 0),
        // It did, because the images still stood when replay came to their pages: that depends on how many it writes before.
        ("evict", "depends_on_dwb", 8),
        ("wrapped", "depends_on_dwb", 14),
        ("tablespace", "depends_on_dwb", 7),
        // It started, having changed torn pages on the way: nothing says that it must.
        ("nochecksums", "may_stop", 0),
        ("checkpoint", "stops", 0),
        ("reva", "stops", 0),
    ] {
        let summary = check_with(&cluster(case), &[]).summary;
        let on_start = &summary["on_start"];
        assert_eq!((&on_start["start"], &on_start["server_restores"]), (&start.into(), &restores.into()), "{case}");
        assert_eq!(summary["doubts"], Value::Array(Vec::new()), "{case}");
    }
}

/// A server of `19devel` took the image of a torn page three times, since replay threw the page out of memory unchanged, and stopped at
/// the fourth record of it: the image was gone by then. The page that was foretold to stop it came later.
#[test]
fn replay_may_stop_before_where_it_needs_images_of_the_buffer() {
    let sound = check(&cluster("evict"));
    let lsn = |row: &Value| row["on_start"]["lsn"].as_str().unwrap().parse::<Lsn>().unwrap();
    let mut rows: Vec<&Value> = sound.pages.iter().filter(|row| row["on_start"]["what"] == "read").collect();
    rows.sort_by_key(|row| lsn(row));
    assert_eq!(sound.summary["on_start"]["may_stop_before"], false);
    for (row, may_stop_before) in [(rows[0], false), (rows[rows.len() - 1], true)] {
        let copy = ClusterCopy::of("evict");
        for candidate in row["candidates"].as_array().unwrap() {
            copy.spoil_slot(u32::try_from(number(&candidate["slot_index"])).unwrap());
        }
        let on_start = check_with(copy.data(), &[]).summary["on_start"].clone();
        assert_eq!((&on_start["start"], &on_start["stops_at"]), (&"stops".into(), &row["on_start"]["lsn"]));
        assert_eq!(on_start["may_stop_before"], may_stop_before, "{on_start}");
        let text = dwbinspect(&["check", "--width", "200", arg(copy.data())]).stdout;
        assert_eq!(text.contains(", or earlier"), may_stop_before, "{text}");
    }
}

#[test]
fn torn_pages_that_replay_does_not_notice_may_stop_it() {
    // By the fixture's README its server stops on a torn page of an SP-GiST index.
    let data = unpack::data_dir("cases/nochecksums-stops").unwrap();
    let checked = check_with(&data, &[]);
    let on_start = &checked.summary["on_start"];
    assert!(number(&on_start["unnoticed"]) > 0, "{on_start}");
    assert_eq!(on_start["start"], "may_stop", "{on_start}");
    let touched: BTreeSet<&str> = checked.pages.iter().filter_map(|page| page["on_start"]["lsn"].as_str()).collect();
    assert!(touched.contains(on_start["stops_at"].as_str().unwrap()), "{on_start}");
    let text = dwbinspect(&["check", arg(&data)]).stdout;
    assert!(text.starts_with("MAY NOT START ") && !text.contains("pg_ctl start"), "{text}");
}

/// Where something is uncertain, or changes are lost, no output begins as if the server could just be started.
#[test]
fn badge_promises_a_start_only_where_no_doubt_is_left() {
    let mut doubtful = 0;
    let cases = ["copy-without-wal", "map-leave", "nochecksums-mixed", "stale-tail", "standby-fresh"];
    let names = DWB_CASES.map(|case| format!("dwb/{case}")).into_iter();
    for name in names.chain(cases.map(|case| format!("cases/{case}"))) {
        let copy = ClusterCopy::of_archive(&name);
        // Without the newest segment of WAL, pages show that there was more.
        let newest = std::fs::read_dir(copy.data().join("pg_wal")).unwrap().filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            (name.len() == 24).then_some(name)
        });
        let newest = newest.max().unwrap();
        for is_cut in [false, true] {
            if is_cut {
                copy.remove(&format!("pg_wal/{newest}"));
            }
            let summary = check_with(copy.data(), &[]).summary;
            let codes = summary["doubt_codes"].as_array().unwrap();
            let expected = |code: &&Value| **code == "base_backup" || **code == "wal_was_reset";
            let is_doubtful = codes.iter().any(|code| !expected(&code));
            let text = dwbinspect(&["check", arg(copy.data())]).stdout;
            assert!(!(is_doubtful && text.starts_with("WILL START")), "{name}, cut: {is_cut}: {text}");
            doubtful += usize::from(is_doubtful);
        }
    }
    assert!(doubtful > 3, "{doubtful}");
}

#[test]
fn checkpoint_that_its_server_cannot_start_on() {
    let checked = check(&cluster("checkpoint"));
    let verdicts = &checked.summary["verdicts"];
    assert_eq!((&verdicts["restore"], &verdicts["heals_in_replay"]), (&6.into(), &1.into()));
    // The server: "invalid page in block 0 of relation base/5/1259".
    let stops_at = &checked.summary["on_start"]["stops_at"];
    let row = checked.pages.iter().find(|row| row["on_start"]["lsn"] == *stops_at).unwrap();
    assert_eq!((&row["path"], &row["block"]), (&"base/5/1259".into(), &0.into()));
    assert_eq!(row["relation"], "postgres.pg_catalog.pg_class");
}

#[test]
fn server_of_the_first_layout_never_reads_its_buffer() {
    let checked = check(&cluster("reva"));
    let verdicts = &checked.summary["verdicts"];
    assert_eq!((&verdicts["restore"], &verdicts["heals_in_replay"]), (&17.into(), &1.into()));
    let on_start = &checked.summary["on_start"];
    assert_eq!((&on_start["server_restores"], &on_start["server_guesses"]), (&0.into(), &0.into()));
    // The server: "invalid page in block 6420 of relation base/5/16399".
    let row = checked.pages.iter().find(|row| row["on_start"]["lsn"] == on_start["stops_at"]).unwrap();
    assert_eq!((&row["path"], &row["block"]), (&"base/5/16399".into(), &6420.into()));
    let text = dwbinspect(&["check", "--dwb-only", "--explain", "--width", "200", arg(&cluster("reva"))]).stdout;
    assert!(text.contains("and stops\n") && !text.contains("image of its own"), "{text}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_without_an_image_are_the_only_ones_that_a_scan_adds() {
    for case in DWB_CASES {
        let data = cluster(case);
        let (few, all) = (check(&data), check_with(&data, &["--jobs", "2"]));
        let (torn, slots) = (torn_writes(case), slots(case));
        for row in &few.pages {
            assert!(all.pages.contains(row), "{case}: {row:#}");
        }
        for row in all.pages.iter().filter(|row| !few.pages.contains(row)) {
            assert!(torn.iter().any(|torn| torn.is_in(row)), "{case}: no write was cut there: {row:#}");
            let key = key_of(row);
            assert!(!slots.contains_key(&key), "{case}: {row:#}");
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn all_lists_every_page_that_a_slot_holds_once() {
    for case in DWB_CASES {
        let checked = check_with(&cluster(case), &["--dwb-only", "--all"]);
        let slots = slots(case);
        let mut seen = BTreeSet::new();
        for row in checked.pages.iter().chain(&checked.others) {
            let key = key_of(row);
            let images = row["candidates"].as_array().unwrap().iter().filter(|image| image["source"] == "dwb").count();
            assert_eq!(slots.get(&key), Some(&images), "{case}: {row:#}");
            assert!(seen.insert(key), "{case}: twice: {row:#}");
        }
        assert_eq!(seen.len(), slots.len(), "{case}");
        let words = checked.summary["slots"].as_object().unwrap().values().map(number).sum::<usize>();
        assert_eq!(words, slots.values().sum::<usize>(), "{case}: every slot has a word");
    }
}

#[test]
fn formats_say_the_same() {
    let data = cluster("checkpoint");
    let rows = check(&data).pages;
    let ran = dwbinspect(&["check", "--dwb-only", "--format", "json", arg(&data)]);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut listed = document["pages"].as_array().unwrap().clone();
    let tag = |row: &mut Value| row.as_object_mut().unwrap().insert("type".to_owned(), "page".into());
    listed.iter_mut().for_each(|row| drop(tag(row)));
    assert_eq!(listed, rows);
    let ran = dwbinspect(&["check", "--dwb-only", "--format", "csv", arg(&data)]);
    let mut lines = csv::Reader::from_reader(ran.stdout.as_bytes());
    let verdict = lines.headers().unwrap().iter().position(|name| name == "verdict").unwrap();
    let verdicts: Vec<String> = lines.records().map(|line| line.unwrap()[verdict].to_owned()).collect();
    assert_eq!(verdicts, rows.iter().map(|row| row["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
    let ran = dwbinspect(&["check", "--dwb-only", "--explain", "--width", "200", arg(&data)]);
    assert_eq!(ran.status, 1);
    for row in &rows {
        let line = format!("block {} ({})", row["block"], row["path"].as_str().unwrap());
        assert!(ran.stdout.contains(&line), "{line} in {}", ran.stdout);
    }
}

#[test]
fn input_that_cannot_be_checked() {
    let temporary = tempfile::tempdir().unwrap();
    for (args, words) in [
        (vec!["check", "/no/such/directory"], "No such file"),
        (vec!["check", arg(temporary.path())], "PG_VERSION"),
        (vec!["check", "--wal", "/no/such/archive", arg(&cluster("evict"))], "/no/such/archive"),
        (vec!["check", "--wal", arg(temporary.path()), arg(&cluster("clean")), "--jobs", "0"], "--jobs"),
    ] {
        let ran = dwbinspect(&args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn sizes_of_pg_control_are_held_against_the_pages() {
    let copy = common::edit::ClusterCopy::of("checkpoint");
    // Offsets of blcksz, relseg_size, xlog_blcksz and xlog_seg_size in version 1901.
    for (at, size) in [
        (224, 0x7FFF_FFFF),
        (224, 16_384),
        (224, 4096),
        (224, 0),
        (228, 0),
        (228, u32::MAX),
        (236, 0x7FFF_FFFF),
        (236, 0),
        (240, 0x7FFF_FFFF),
        (240, 512),
    ] {
        let sound = copy.read("global/pg_control");
        let mut control = sound.clone();
        control[at..at + 4].copy_from_slice(&u32::to_le_bytes(size));
        let crc = crc32c::crc32c(&control[..304]);
        control[304..308].copy_from_slice(&crc.to_le_bytes());
        copy.write("global/pg_control", &control);
        let ran = dwbinspect(&["check", arg(copy.data()), "--format", "ndjson"]);
        assert_eq!(ran.status, 2, "{at} {size}: {}", ran.stderr);
        let findings = ran.of_type("finding");
        let finding = findings.iter().find(|finding| finding["kind"] == "control_sizes").expect("finding");
        assert_eq!(finding["offset"], format!("{at:#X}").replace("0X", "0x"), "{finding}");
        for page in ran.of_type("page") {
            assert!(page["verdict"] != "restore" && page["verdict"] != "heals_in_replay", "{at} {size}: {page}");
        }
        let ran = dwbinspect(&["repair", arg(copy.data()), "--apply", "--journal", arg(&copy.beside("journal"))]);
        assert!(ran.status == 2 && ran.stderr.contains("pg_control"), "{at} {size}: {}", ran.stderr);
        copy.write("global/pg_control", &sound);
    }
}

/// With `--dwb-only` every page and image is read to be compared; else most were compared while all pages were read.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_are_compared_alike_however_they_are_read() {
    let both = |data: &Path| {
        let (alone, together) = (check(data).summary, check_with(data, &[]).summary);
        assert_eq!(alone["slots"], together["slots"], "{}", data.display());
        number(&together["slots"]["identical"])
    };
    for case in DWB_CASES {
        both(&cluster(case));
    }
    for case in ["evict", "nochecksums"] {
        let copy = ClusterCopy::of(case);
        let before = both(copy.data());
        let mut changed = 0;
        for index in 0..400 {
            let (key, _, image) = copy.slot(DWB_FILE, index);
            if key.rel != 16399 || key.fork != 0 || !same_page(&copy.page(key), &image) {
                continue;
            }
            // One bit of the LSN, of the flags, of the line pointers, in the middle, of the last tuple.
            let mut page = image;
            page[[4, 10, 30, 5000, 8190][changed % 5]] ^= 1;
            copy.set_page(key, &sealed(&page, key.block));
            changed += 1;
            assert_eq!(both(copy.data()), before - changed, "{case}, {key:?}");
            if changed == 10 {
                break;
            }
        }
        assert_eq!(changed, 10, "{case}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn number_of_threads_changes_nothing() {
    for case in DWB_CASES {
        let told = |jobs: &str| {
            let ran =
                dwbinspect(&["check", arg(&cluster(case)), "--explain", "--all", "--format", "ndjson", "--jobs", jobs]);
            (ran.status, ran.stdout)
        };
        let one = told("1");
        for jobs in ["2", "3", "64"] {
            assert_eq!(told(jobs), one, "{case}, {jobs} threads");
        }
    }
}

/// All pages once, the double write buffer, and WAL once: before the redo point it shows lost writes.
#[cfg(target_os = "linux")]
#[test]
fn sound_cluster_costs_its_wal_once() {
    let data = cluster("clean");
    let read = |args: &[&str]| bytes_read("pg_dwbinspect", args);
    let wal: u64 = std::fs::read_dir(data.join("pg_wal"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(std::fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum();
    let segment = 1 << 20;
    assert!(wal >= 10 * segment);
    let (verified, checked) = (read(&["verify", arg(&data)]), read(&["check", arg(&data)]));
    let dwb = std::fs::metadata(data.join(DWB_FILE)).unwrap().len();
    assert!(checked < verified + dwb * 2 + wal + 4 * segment, "{checked} bytes, {verified} without WAL, {wal} of WAL");
}

#[test]
fn wal_that_is_missing_before_the_redo_point_is_no_problem() {
    // A checkpoint removes old segments in the order of the directory: a crash leaves one, and not the next.
    let copy = ClusterCopy::of("checkpoint");
    let name = |number: u64| format!("pg_wal/{:08X}{:08X}{number:08X}", 1, 0);
    let mut old = copy.read(&name(0x7));
    let segment_bytes = old.len() as u64;
    assert_eq!(copy.control(ControlField::Redo) / segment_bytes, 0x7);
    // Bytes 8 to 16 of its first page: its place in WAL.
    old[8..16].copy_from_slice(&(0x5 * segment_bytes).to_le_bytes());
    copy.write(&name(0x5), &old);
    let look = || {
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(copy.data())]);
        let gap = ran.of_type("finding").iter().any(|finding| finding["kind"] == "wal_gap");
        (gap, ran.of_type("summary")[0]["doubt_codes"].as_array().unwrap().is_empty())
    };
    assert_eq!(look(), (false, true));
    copy.remove(&name(0x9));
    assert_eq!(look(), (true, false), "WAL after the redo point is needed");
}

#[test]
fn check_of_the_buffer_alone_foresees_no_start() {
    // By truth.json pages of this cluster are torn; without its buffer nothing leads to them but reading all pages.
    let copy = ClusterCopy::of("evict");
    std::fs::remove_dir_all(copy.data().join("pg_dwbuf")).unwrap();
    for (args, status, start, step) in [(&[][..], 1, "stops", None), (&["--dwb-only"], 2, "unknown", Some("check_all"))]
    {
        let checked = check_with(copy.data(), args);
        assert_eq!((checked.ran.status, &checked.summary["on_start"]["start"]), (status, &start.into()), "{args:?}");
        let steps: Vec<&str> =
            checked.summary["next"].as_array().unwrap().iter().map(|next| next["step"].as_str().unwrap()).collect();
        assert!(!steps.contains(&"start") && step.is_none_or(|step| steps == [step]), "{args:?}: {steps:?}");
    }
}
