//! `whatif` and `dwb-size` against a plain simulation over what `pg_waldump --bkp-details` prints of the same WAL.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::{Ran, arg, cluster, run, unpack};
use serde_json::Value;

const MAJORS: [u32; 10] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

/// Bytes of a page.
const PAGE: u64 = 8192;

/// Relation, fork and block, as they are printed.
type Block = (String, String, u64);

#[derive(Debug)]
struct Reference {
    id: u32,
    block: Block,
    /// Bytes of an image that redo applies.
    image: Option<u64>,
}

#[derive(Debug)]
struct Printed {
    rmgr: String,
    lsn: u64,
    /// Name of the record's type and what follows.
    text: String,
    references: Vec<Reference>,
}

fn after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before).map(|(_, rest)| rest)
}

fn word(text: &str) -> &str {
    text.split([' ', ',', ';', '\n']).find(|word| !word.is_empty()).unwrap_or_default()
}

fn lsn(text: &str) -> u64 {
    let (high, low) = word(text).split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn printed(major: u32) -> Vec<Printed> {
    let root = unpack::unpack(&format!("wal/pg{major}")).unwrap();
    let text = String::from_utf8_lossy(&fs::read(root.join("expected/records.txt")).unwrap()).into_owned();
    let mut records: Vec<Printed> = Vec::new();
    for line in text.lines() {
        if line.starts_with("rmgr:") {
            records.push(Printed {
                rmgr: word(after(line, "rmgr:").unwrap()).to_owned(),
                lsn: lsn(after(line, "lsn: ").unwrap()),
                text: after(line, "desc: ").unwrap().to_owned(),
                references: Vec::new(),
            });
        } else if let Some(rest) = after(line, "blkref #") {
            let number =
                |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
            let value = |name: &str| after(rest, name).map_or(0, number);
            let fork = after(rest, "fork ").map_or("main", word).to_owned();
            let block = (word(after(rest, "rel ").unwrap()).to_owned(), fork, value("blk "));
            let bytes = PAGE - value("length: ") - value("compression saved: ");
            let image = rest.contains("(FPW)").then_some(bytes);
            records.last_mut().unwrap().references.push(Reference { id: number(rest) as u32, block, image });
        }
    }
    records
}

impl Printed {
    fn kind(&self) -> &str {
        word(&self.text)
    }

    /// Written whatever the LSN of the page.
    fn is_always(&self, reference: &Reference) -> bool {
        match (self.rmgr.as_str(), self.kind()) {
            ("XLOG", "FPI") | ("Gin", "VACUUM_PAGE") | ("Hash", "SPLIT_PAGE") => true,
            ("Gin", "SPLIT") => reference.id < 3,
            _ => false,
        }
    }

    /// Sure to set the page's LSN. These WALs are written with checksums, so `VISIBLE` sets it, too.
    fn sets_lsn(&self, reference: &Reference, has_seen_hints: bool) -> bool {
        let builds = match self.kind() {
            "INIT_META_PAGE" | "INIT_BITMAP_PAGE" => reference.id == 0,
            "ADD_OVFL_PAGE" => reference.id == 0 || reference.id == 3,
            "SPLIT_ALLOCATE_PAGE" => reference.id == 1,
            _ => false,
        };
        let is_visible = self.rmgr == "Heap2" && self.kind() == "VISIBLE";
        match self.rmgr.as_str() {
            _ if reference.image.is_some() => true,
            "XLOG" => false,
            "Hash" => builds,
            _ if is_visible => reference.block.1 == "vm" || has_seen_hints,
            _ => reference.block.1 == "main",
        }
    }
}

/// Redo points from the first record on, and whether each is that of a shutdown.
fn redo_points(records: &[Printed]) -> Vec<(u64, bool)> {
    let mut points = BTreeMap::new();
    for record in records.iter().filter(|record| record.rmgr == "XLOG") {
        if record.kind() == "CHECKPOINT_REDO" {
            points.entry(record.lsn).or_insert(false);
        } else if let Some(redo) = after(&record.text, " redo ") {
            *points.entry(lsn(redo)).or_insert(false) |= record.kind() == "CHECKPOINT_SHUTDOWN";
        }
    }
    points.into_iter().filter(|(redo, _)| *redo >= records[0].lsn).collect()
}

/// The last point that is not after `lsn`.
fn last(points: &[u64], lsn: u64) -> Option<u64> {
    points[..points.partition_point(|point| *point <= lsn)].last().copied()
}

/// Images, and their bytes, that are not written when each `every`-th checkpoint is kept.
fn avoided(records: &[Printed], every: u32) -> (u64, u64) {
    let points = redo_points(records);
    let (mut kept, mut passed) = (Vec::new(), 0);
    for (redo, is_shutdown) in &points {
        passed += 1;
        if kept.is_empty() || *is_shutdown || passed == every {
            kept.push(*redo);
            passed = 0;
        }
    }
    let points: Vec<u64> = points.iter().map(|(redo, _)| *redo).collect();
    let (mut touched, mut has_seen_hints, mut sum) = (BTreeMap::<Block, u64>::new(), false, (0, 0));
    for record in records {
        if record.rmgr == "Storage" && record.kind() == "TRUNCATE" {
            let path = word(after(&record.text, "TRUNCATE ").unwrap());
            let rel = path.replace("base/", "1663/");
            let keeps: u64 = word(after(&record.text, " to ").unwrap()).parse().unwrap();
            touched.retain(|block, _| block.0 != rel || (block.1 == "main" && block.2 < keeps));
        }
        for reference in &record.references {
            let before = touched.get(&reference.block).copied();
            if let (Some(bytes), Some(before), Some(redo)) = (reference.image, before, last(&points, record.lsn))
                && !record.is_always(reference)
                && before < redo
                && before >= last(&kept, record.lsn).unwrap()
            {
                sum = (sum.0 + 1, sum.1 + bytes);
            }
            if record.sets_lsn(reference, has_seen_hints) {
                touched.insert(reference.block.clone(), record.lsn);
            }
            has_seen_hints |= record.kind() == "FPI_FOR_HINT";
        }
    }
    sum
}

/// True when images that depend on the LSN of their page come before the first redo point of this WAL is known.
fn has_images_before_a_checkpoint(records: &[Printed]) -> bool {
    images_before_a_checkpoint(records, &|_| true) > 0
}

/// Images that are not always written, of records that are taken, before the first redo point is known.
fn images_before_a_checkpoint(records: &[Printed], takes: &dyn Fn(&Printed) -> bool) -> u64 {
    let says_redo = |record: &&Printed| {
        record.kind() == "CHECKPOINT_REDO"
            || after(&record.text, " redo ").is_some_and(|redo| lsn(redo) >= records[0].lsn)
    };
    let known = records.iter().filter(|record| record.rmgr == "XLOG").find(says_redo).unwrap().lsn;
    let before = records.iter().take_while(|record| record.lsn < known);
    let images = before
        .filter(|record| takes(record))
        .flat_map(|record| record.references.iter().map(move |reference| (record, reference)))
        .filter(|(record, reference)| reference.image.is_some() && !record.is_always(reference));
    images.count() as u64
}

fn whatif(major: u32, more: &[&str]) -> Ran {
    let wal = unpack::data_dir(&format!("wal/pg{major}")).unwrap().join("pg_wal");
    let ran = run("pg_walfpi", &[&["whatif", "--format", "ndjson"], more, &[arg(&wal)]].concat());
    assert_eq!(ran.status, 0, "{major}: {}{}", ran.stdout, ran.stderr);
    ran
}

fn spacing<'a>(rows: &'a [Value], setting: &str, field: &str, value: u64) -> &'a Value {
    rows.iter().find(|row| row["setting"] == setting && row[field] == value).unwrap()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn kept_checkpoints_avoid_the_images_that_a_plain_simulation_avoids() {
    for major in MAJORS {
        let (records, ran) = (printed(major), whatif(major, &[]));
        let rows = ran.of_type("spacing");
        let bytes_of_all = rows[0]["image_bytes"].as_u64().unwrap();
        for every in [2, 4, 8] {
            let row = spacing(&rows, "every_nth_checkpoint", "every", every);
            let told = (row["images_avoided"].as_u64().unwrap(), bytes_of_all - row["image_bytes"].as_u64().unwrap());
            assert_eq!(told, avoided(&records, every as u32), "{major}, every {every}");
            assert!(told.0 > 0, "{major}, every {every}");
            let is_exact = row["images_unsure"] == 0 && !has_images_before_a_checkpoint(&records);
            assert_eq!(row["certainty"], if is_exact { "exact" } else { "at_least" }, "{major}, every {every}");
        }
        // All of the WAL is smaller than this: the checkpoints at shutdown stay.
        let largest = spacing(&rows, "max_wal_size", "max_wal_size_bytes", 64 << 30);
        assert_eq!(largest["images_avoided"], avoided(&records, u32::MAX).0, "{major}");
        assert_eq!(largest["certainty"], "estimate", "{major}");
    }
}

#[test]
fn images_that_stay_under_any_guard_are_those_of_their_records() {
    for major in MAJORS {
        let (records, ran) = (printed(major), whatif(major, &["--section", "protection,hints"]));
        let images = |takes: &dyn Fn(&Printed, &Reference) -> bool| {
            let all = records.iter().flat_map(|record| record.references.iter().map(move |one| (record, one)));
            let taken = all.filter(|(record, reference)| reference.image.is_some() && takes(record, reference));
            taken.fold((0, 0), |(count, bytes), (_, reference)| (count + 1, bytes + reference.image.unwrap()))
        };
        let always = images(&|record, reference| record.is_always(reference));
        let hints = images(&|record, _| record.kind() == "FPI_FOR_HINT");
        let guard = |name: &str| {
            let row = ran.of_type("guard").into_iter().find(|row| row["guard"] == name).unwrap();
            (row["images"].as_u64().unwrap(), row["image_bytes"].as_u64().unwrap())
        };
        let not_applied = guard("full_page_writes").0 - images(&|_, _| true).0;
        // Up to 14 an image for hint bits does not ask for full-page writes.
        let stay = if major <= 14 { hints } else { (0, 0) };
        // What lies before the first redo point that is known is no part of a prediction.
        let before = images_before_a_checkpoint(&records, &|record| major > 14 || record.kind() != "FPI_FOR_HINT");
        assert_eq!(guard("double_write").0 - not_applied, always.0 + stay.0 + before, "{major}");
        assert_eq!(guard("off").0 - not_applied, always.0 + stay.0 + before, "{major}");
        let part = |name: &str| ran.of_type("hint").into_iter().find(|row| row["part"] == name).unwrap();
        assert_eq!(part("all")["images"], hints.0, "{major}");
        let parts = ["hint_only", "hint_then_changed", "undecided"].map(|name| part(name)["images"].as_u64().unwrap());
        assert_eq!(parts.iter().sum::<u64>(), hints.0, "{major}");
    }
}

/// Distinct blocks of each interval, by redo point; those logged as a whole are left out.
fn dirtied(records: &[Printed]) -> Vec<(Option<u64>, u64)> {
    let points: Vec<u64> = redo_points(records).into_iter().map(|(redo, _)| redo).collect();
    let mut blocks = BTreeMap::<Option<u64>, BTreeSet<Block>>::new();
    blocks.extend(points.iter().map(|redo| (Some(*redo), BTreeSet::new())));
    for record in records.iter().filter(|record| record.rmgr != "XLOG" || record.kind() != "FPI") {
        let touched = record.references.iter().map(|reference| reference.block.clone());
        blocks.entry(last(&points, record.lsn)).or_default().extend(touched);
    }
    blocks.retain(|redo, blocks| redo.is_some() || !blocks.is_empty());
    blocks.iter().map(|(redo, blocks)| (*redo, blocks.len() as u64)).collect()
}

fn buffer_pages(ran: &Ran) -> u64 {
    let guards = ran.of_type("guard");
    guards.iter().find(|row| row["guard"] == "double_write").unwrap()["buffer_pages"].as_u64().unwrap()
}

/// The pages of a double write buffer are those that `dwb-size` counts in all intervals, and WAL that is missing never makes
/// them more: not a block of the rest counts twice for it.
#[test]
fn pages_through_a_buffer_are_the_blocks_of_each_interval_and_fewer_where_wal_is_missing() {
    for major in MAJORS {
        let expected: u64 = dirtied(&printed(major)).into_iter().map(|(_, blocks)| blocks).sum();
        let whole = buffer_pages(&whatif(major, &["--section", "protection"]));
        // Up to 16 redo points are known late, and where blocks were changed to about a kilobyte.
        let slack = if major >= 17 { 0 } else { expected / 100 };
        assert!(whole.abs_diff(expected) <= slack, "{major}: {whole}, {expected}");
        let wal = unpack::data_dir(&format!("wal/pg{major}")).unwrap().join("pg_wal");
        let mut segments: Vec<_> = fs::read_dir(&wal).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.is_file() && path.extension().is_none());
        segments.sort();
        // The last ones hold WAL of an earlier time; those of 10 are of 16 MB, and few.
        let (records, size) = (printed(major), fs::metadata(&segments[0]).unwrap().len());
        segments.truncate((records.last().unwrap().lsn / size - records[0].lsn / size + 1) as usize);
        for missing in 1..segments.len() - 1 {
            let there = segments.iter().enumerate().filter(|(index, _)| *index != missing);
            let paths: Vec<&str> = there.map(|(_, path)| arg(path)).collect();
            let args = ["whatif", "--format", "ndjson", "--section", "protection"];
            let with_gap = buffer_pages(&run("pg_walfpi", &[&args[..], &paths].concat()));
            assert!(with_gap <= whole, "{major} without segment {missing}: {with_gap}, {whole}");
        }
    }
}

#[test]
fn blocks_of_an_interval_are_those_that_are_printed() {
    for major in MAJORS {
        let records = printed(major);
        let wal = unpack::data_dir(&format!("wal/pg{major}")).unwrap().join("pg_wal");
        let ran = run("pg_walfpi", &["dwb-size", "--format", "ndjson", "--size", "16MB", arg(&wal)]);
        assert_eq!(ran.status, 0, "{major}: {}", ran.stderr);
        let expected = dirtied(&records);
        let told = ran.of_type("dirtied");
        let told: Vec<_> =
            told.iter().map(|row| (row["redo_lsn"].as_str().map(lsn), row["blocks"].as_u64().unwrap())).collect();
        assert_eq!(told, expected, "{major}");
        let summary = ran.of_type("summary").pop().unwrap();
        let whole = expected.iter().rev().skip(1).filter(|(redo, _)| redo.is_some()).map(|(_, blocks)| *blocks);
        assert_eq!(summary["peak_blocks"], whole.max().unwrap(), "{major}");
        assert_eq!(summary["buffer_wrapped"], Value::Null);
    }
}

/// An interval is whole between two redo points that are printed; those at the ends of this WAL are not, and say so.
#[test]
fn interval_that_was_counted_in_part_is_marked() {
    for major in MAJORS {
        let points: BTreeSet<u64> = redo_points(&printed(major)).into_iter().map(|(redo, _)| redo).collect();
        let wal = unpack::data_dir(&format!("wal/pg{major}")).unwrap().join("pg_wal");
        let rows = run("pg_walfpi", &["stats", "--format", "ndjson", arg(&wal)]).of_type("interval");
        for row in &rows {
            let is_known = ["start_lsn", "end_lsn"].map(|field| points.contains(&lsn(row[field].as_str().unwrap())));
            assert_eq!(row["is_whole"], is_known == [true; 2], "{major}: {row}");
        }
        assert!(rows.len() > 2 && rows[1]["is_whole"] == true && rows.last().unwrap()["is_whole"] == false, "{major}");
        // From the middle of the second interval on, the first row is a part of it, and text says so.
        let start = lsn(rows[1]["start_lsn"].as_str().unwrap()) + 1;
        let args = ["stats", "--start", &format!("{:X}/{:08X}", start >> 32, start & 0xFFFF_FFFF), arg(&wal)];
        let rest = run("pg_walfpi", &[&args[..], &["--format", "ndjson"]].concat()).of_type("interval");
        assert_eq!(rest[0]["is_whole"], false, "{major}: {}", rest[0]);
        let text = run("pg_walfpi", &args).stdout;
        assert!(text.lines().nth(3).unwrap().trim_start().starts_with('<'), "{major}: {text}");
        assert!(text.contains("<: the interval began before"), "{major}: {text}");
    }
}

#[test]
fn buffer_of_a_cluster_says_whether_it_has_wrapped() {
    let wrapped = |case: &str| {
        let ran = run("pg_walfpi", &["dwb-size", "--format", "ndjson", arg(&cluster(case))]);
        ran.of_type("summary").pop().unwrap()["buffer_wrapped"].clone()
    };
    // Worked out by hand in `fixtures/dwb/README.md`. The ring of `wrapped` was overwritten by earlier batches; revision A
    // never starts over.
    for (case, expected) in
        [("wrapped", "no"), ("evict", "no"), ("checkpoint", "likely"), ("reva", "likely"), ("clean", "unknown")]
    {
        assert_eq!(wrapped(case), expected, "{case}");
    }
    let without = unpack::data_dir("wal/pg18").unwrap();
    let ran = run("pg_walfpi", &["dwb-size", "--format", "ndjson", arg(&without)]);
    assert_eq!(ran.of_type("summary").pop().unwrap()["buffer_wrapped"], "no_buffer");
}

#[test]
fn settings_that_cannot_be_are_refused_before_any_file_is_opened() {
    for (args, says) in [
        (&["whatif", "--max-wal-size", "1XB", "/nowhere"][..], "expected a size"),
        (&["whatif", "--checkpoint-timeout", "5m", "/nowhere"], "expected a time"),
        (&["whatif", "--completion-target", "1.5", "/nowhere"], "expected a number from 0 to 1"),
        (&["dwb-size", "--size", "2GB", "/nowhere"], "1MB to 1024MB"),
    ] {
        let ran = run("pg_walfpi", args);
        assert!(ran.status == 2 && ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
}
