//! `pg_walfpi` on WAL of majors 10 to 19, against what pg_waldump of the same major says.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;

use crate::common;
use crate::common::{Ran, arg, before_findings, run, unpack};
use pgforensics::types::Lsn;
use serde_json::Value;

fn unpacked(format: impl Display) -> PathBuf {
    unpack::unpack(&format!("wal/pg{format}")).expect("unpack fixture")
}

fn data(format: impl Display) -> PathBuf {
    unpacked(&format).join(format!("pg{format}"))
}

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// Counts of a row as pg_waldump prints them: records, record bytes, FPI bytes, combined bytes.
type Counts = [u64; 4];

fn counts(row: &Value) -> Counts {
    ["records", "record_bytes", "fpi_bytes", "combined_bytes"].map(|name| row[name].as_u64().unwrap())
}

/// Rows of a captured `pg_waldump --stats`; those of the same name are added up, since the one of 10 prints some twice.
fn captured(format: impl Display, file: &str) -> (BTreeMap<String, Counts>, Counts) {
    let text = fs::read_to_string(unpacked(format).join("expected").join(file)).unwrap();
    let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
    let mut total = [0; 4];
    for line in text.lines() {
        // Names longer than their column push the numbers on; two blanks always stand between.
        let (name, rest) = line.split_once("  ").unwrap_or((line, ""));
        // Percentages stand in brackets of two kinds, some with blanks inside.
        let plain = |part: &str| part.split(['(', '[']).next().unwrap_or_default().trim().to_owned();
        let parts: Vec<String> = rest.split([')', ']']).map(plain).collect();
        let numbers: Vec<u64> =
            parts.iter().flat_map(|part| part.split_whitespace()).filter_map(|word| word.parse().ok()).collect();
        let Ok(numbers) = Counts::try_from(numbers) else { continue };
        if name.trim() == "Total" {
            total = numbers;
        } else {
            let row = rows.entry(name.trim().to_owned()).or_default();
            row.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
    }
    (rows, total)
}

#[test]
fn every_row_of_pg_waldump_stats() {
    // `pg19` is of a development tree, `19rc1` of the release candidate.
    let formats = (10..=19).map(|major: u32| major.to_string()).chain(["19rc1", "19rc1-overwrite"].map(str::to_owned));
    for major in formats {
        for (by, file) in [("rmgr", "stats.txt"), ("record", "stats-record.txt")] {
            let ran = walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&data(&major))]);
            assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{major} {by}");
            let (expected, total) = captured(&major, file);
            assert!(expected.len() > 10, "{major} {by}");
            let own: BTreeMap<String, Counts> = ran
                .of_types(&["group", "interval"])
                .iter()
                .map(|row| {
                    let name = [&row["rmgr"], &row["record"]].into_iter().filter_map(Value::as_str);
                    (name.collect::<Vec<_>>().join("/"), counts(row))
                })
                .collect();
            assert_eq!(own, expected, "{major} {by}");
            assert_eq!(counts(&ran.of_type("summary")[0]), total, "{major} {by}");
        }
    }
}

#[test]
fn every_grouping_adds_up_to_the_total() {
    for major in [10, 15, 19] {
        let (_, total) = captured(major, "stats.txt");
        for by in
            ["checkpoint", "relation", "fork", "block", "cause", "segment", "compression", "database", "tablespace"]
        {
            let ran = walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&data(major))]);
            assert_eq!(ran.status, 0, "{major} {by}: {}", ran.stderr);
            let rows = ran.of_types(&["group", "interval"]);
            let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
            assert_eq!([sum("record_bytes"), sum("fpi_bytes")], [total[1], total[2]], "{major} {by}");
            if ["checkpoint", "segment"].contains(&by) {
                assert_eq!(sum("records"), total[0], "{major} {by}");
            }
        }
    }
}

#[test]
fn number_of_threads_changes_nothing() {
    for major in [10, 16, 19] {
        for by in ["checkpoint", "record", "relation"] {
            let one = walfpi(&["stats", "--by", by, "--jobs", "1", "--format", "csv", arg(&data(major))]);
            let many = walfpi(&["stats", "--by", by, "--jobs", "7", "--format", "csv", arg(&data(major))]);
            assert_eq!(one.stdout, many.stdout, "{major} {by}");
        }
        for command in ["verify", "list"] {
            let one = walfpi(&[command, "--jobs", "1", "--format", "ndjson", arg(&data(major))]);
            let many = walfpi(&[command, "--jobs", "7", "--format", "ndjson", arg(&data(major))]);
            assert_eq!((one.status, one.stdout), (many.status, many.stdout), "{major} {command}");
        }
    }
}

/// With `--resync` records are read one after the other: where there is no damage, several threads list the same.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn threads_list_what_reading_in_order_does() {
    for major in 10..=19 {
        for format in ["text", "json", "csv"] {
            let list = |args: &[&str]| {
                let ran = walfpi(&[&["list", "--format", format], args, &[arg(&data(major))]].concat());
                (ran.status, ran.stdout, ran.stderr)
            };
            let in_order = list(&["--resync"]);
            assert!(in_order.0 == 0 && in_order.1.lines().count() > 20, "{major} {format}: {}", in_order.1);
            for jobs in ["1", "2", "4"] {
                assert_eq!(list(&["--jobs", jobs]), in_order, "{major} {format} {jobs}");
            }
        }
    }
}

/// Before damage everything is listed, after it nothing, by any number of threads.
#[test]
fn threads_list_nothing_after_damage() {
    let images = |data: &std::path::Path, jobs: &str| {
        let ran = walfpi(&["list", "--format", "ndjson", "--jobs", jobs, arg(data)]);
        (ran.status, ran.of_type("image"), ran.of_type("finding"))
    };
    let (_keep, data) = copy_of(16);
    let whole = images(&data, "1").1;
    let (first, second) = (segment(&data, 0), segment(&data, 1));
    let sound = [fs::read(&first).unwrap(), fs::read(&second).unwrap()];
    let middle = sound[0].len() / 2;
    for (index, at) in [(0, middle), (0, sound[0].len() - 100), (1, 3), (1, 50), (1, 9000)] {
        let (path, mut bytes) = ([&first, &second][index], sound[index].clone());
        bytes[at] ^= 0x20;
        fs::write(path, bytes).unwrap();
        let one = images(&data, "1");
        assert!(one.1.len() <= whole.len() && one.1[..] == whole[..one.1.len()], "{index} {at}");
        if (index, at) == (0, middle) {
            assert!(one.1.len() < whole.len());
        }
        for jobs in ["2", "4"] {
            assert_eq!(images(&data, jobs), one, "{index} {at} {jobs}");
        }
        fs::write(path, &sound[index]).unwrap();
    }
}

/// Reading on after damage is done in order, record by record: where there is none, several threads say the same, and
/// where there is, they end at the same place for the same reason.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn threads_verify_what_reading_in_order_does() {
    let run_of = |data: &std::path::Path, args: &[&str]| {
        let ran = walfpi(&[&["verify", "--format", "ndjson"], args, &[arg(data)]].concat());
        ran.of_type("run").first().cloned().unwrap()
    };
    for major in 10..=19 {
        assert_eq!(run_of(&data(major), &[]), run_of(&data(major), &["--resync"]), "{major}");
    }
    let (_keep, data) = copy_of(16);
    let (first, second) = (segment(&data, 0), segment(&data, 1));
    let sound = [fs::read(&first).unwrap(), fs::read(&second).unwrap()];
    let size = sound[0].len();
    // The seam of two segments is where threads know least of each other.
    let near = (0..200).step_by(5).map(|at| (1, at)).chain((1..200).step_by(7).map(|back| (0, size - back)));
    for (index, at) in near {
        flip([&first, &second][index], at, (at % 8) as u8);
        let (threads, one) = (run_of(&data, &["--jobs", "5"]), run_of(&data, &["--resync"]));
        let damage = walfpi(&["verify", "--resync", "--format", "ndjson", arg(&data)]).of_type("damage");
        if let Some(place) = damage.first() {
            assert_eq!(threads["end_at"], place["lsn"], "segment {index} at {at}");
            assert_eq!(threads["end_reason"], place["reason"], "segment {index} at {at}");
            assert_eq!(threads["end_lsn"], place["from_lsn"], "segment {index} at {at}");
        } else {
            assert_eq!(threads, one, "segment {index} at {at}");
        }
        fs::write(&first, &sound[0]).unwrap();
        fs::write(&second, &sound[1]).unwrap();
    }
}

#[test]
fn range_that_ends_with_a_segment_is_no_missing_wal() {
    for major in [10, 16, 18] {
        let size = fs::metadata(segment(&data(major), 0)).unwrap().len();
        let first = walfpi(&["verify", "--format", "ndjson", arg(&data(major))]).of_type("run").remove(0);
        let end = number(&first["start_lsn"]).unwrap().next_multiple_of(size) + size;
        let end = format!("{:X}/{:X}", end >> 32, end & 0xFFFF_FFFF);
        for command in ["stats", "verify"] {
            let ran = walfpi(&[command, "--end", &end, "--format", "ndjson", arg(&data(major))]);
            let is_problem = |finding: &Value| finding["severity"] == "problem";
            assert!(
                ran.status == 0 && !ran.of_type("finding").iter().any(is_problem),
                "{major} {command}: {}",
                ran.stdout
            );
        }
    }
}

#[test]
fn bytes_after_a_packed_segment_are_told_and_end_nothing() {
    let (_keep, data) = copy_of(16);
    let whole = walfpi(&["stats", "--format", "ndjson", arg(&data.join("pg_wal"))]);
    let path = segment(&data, 1);
    let packed = zstd::encode_all(&[fs::read(&path).unwrap(), vec![7; 100]].concat()[..], 1).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(path.with_extension("zst"), packed).unwrap();
    for command in ["stats", "verify", "list"] {
        let ran = walfpi(&[command, "--format", "ndjson", arg(&data.join("pg_wal"))]);
        let told = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "behind_segment").count();
        assert_eq!((ran.status, told), (1, 1), "{command}: {}", ran.stdout);
        if command == "stats" {
            assert_eq!(ran.of_types(&["group", "interval"]), whole.of_types(&["group", "interval"]));
        }
    }
}

/// Checkpoints by pg_waldump's own words: LSN of the record and redo point.
fn checkpoints(major: u32) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(unpacked(major).join("expected/records.txt")).unwrap();
    let lsn = |text: &str| {
        let (high, low) = text.trim_end_matches(';').trim_end_matches(',').split_once('/').unwrap();
        u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
    };
    text.lines()
        .filter(|line| line.contains("CHECKPOINT_SHUTDOWN") || line.contains("CHECKPOINT_ONLINE"))
        .map(|line| {
            let own = line.split("lsn: ").nth(1).unwrap().split_whitespace().next().unwrap();
            let redo = line.split("redo ").nth(1).unwrap().split_whitespace().next().unwrap();
            (lsn(own), lsn(redo))
        })
        .collect()
}

fn number(value: &Value) -> Option<u64> {
    let (high, low) = value.as_str()?.split_once('/')?;
    Some(u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap())
}

#[test]
fn intervals_begin_at_the_redo_points_of_all_checkpoints() {
    for major in 10..=19 {
        let rows = walfpi(&["stats", "--format", "ndjson", arg(&data(major))]).of_types(&["group", "interval"]);
        let own: Vec<(u64, u64)> =
            rows.iter().filter_map(|row| Some((number(&row["checkpoint_lsn"])?, number(&row["redo_lsn"])?))).collect();
        assert_eq!(own, checkpoints(major), "{major}");
        for pair in rows.windows(2) {
            assert_eq!(pair[0]["end_lsn"], pair[1]["start_lsn"], "{major}: no gap between intervals");
        }
    }
}

#[test]
fn images_of_each_interval_are_those_of_its_records() {
    // pg_waldump's list of records, cut at the redo points of its own checkpoints.
    for major in [10, 14, 17, 19] {
        let text = fs::read_to_string(unpacked(major).join("expected/records.txt")).unwrap();
        let mut redo: Vec<u64> = checkpoints(major).into_iter().map(|(_, redo)| redo).collect();
        redo.sort_unstable();
        let mut images: BTreeMap<u64, u64> = BTreeMap::new();
        let mut current = 0;
        for line in text.lines() {
            if let Some(rest) = line.split("lsn: ").nth(1) {
                let (high, low) = rest.split_once(',').unwrap().0.split_once('/').unwrap();
                let lsn = u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap();
                current = redo.iter().copied().filter(|redo| *redo <= lsn).max().unwrap_or(0);
            }
            *images.entry(current).or_default() += line.matches("FPW").count() as u64;
        }
        let rows = walfpi(&["stats", "--format", "ndjson", arg(&data(major))]).of_types(&["group", "interval"]);
        for row in &rows {
            let redo = number(&row["redo_lsn"]).unwrap_or(0);
            assert_eq!(
                row["fpi_count"].as_u64(),
                images.get(&redo).copied().or(Some(0)),
                "{major} {}",
                row["redo_lsn"]
            );
        }
    }
}

#[test]
fn raw_pages_are_those_of_pg_waldump() {
    // Names and SHA-256 of what pg_waldump 16 --save-fullpage wrote; the sums are taken by sha256sum here too.
    let out = tempfile::tempdir().unwrap();
    let pages = out.path().join("pages");
    let ran = walfpi(&["extract", arg(&pages), "--raw", arg(&data(16))]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let list = unpack::fixtures().join("wal/pg16-fullpage.sha256");
    assert_eq!(fs::read_dir(&pages).unwrap().count(), fs::read_to_string(&list).unwrap().lines().count());
    let mut check = std::process::Command::new("sha256sum");
    let output = check.args(["--check", "--quiet", "--strict"]).arg(&list).current_dir(&pages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn ready_pages_carry_the_records_end_and_their_checksum() {
    use pgforensics::parsers::checksum::page_checksum;
    use pgforensics::parsers::page::PageHeader;
    for major in [10, 15, 19] {
        let out = tempfile::tempdir().unwrap();
        let pages = out.path().join("pages");
        let ran = walfpi(&["extract", "--format", "ndjson", arg(&pages), arg(&data(major))]);
        assert_eq!(ran.status, 0, "{major}: {}", ran.stderr);
        let images = ran.of_type("image");
        assert!(images.len() > 300, "{major}");
        for image in images {
            let page = fs::read(pages.join(image["file"].as_str().unwrap())).unwrap();
            let header = PageHeader::decode(0, &page).unwrap();
            assert_eq!(page.len(), 8192);
            if !header.is_new() {
                assert_eq!(Some(header.lsn.0), number(&image["end_lsn"]), "{major} {}", image["file"]);
                let block = u32::try_from(image["block"].as_u64().unwrap()).unwrap();
                assert_eq!(header.checksum, page_checksum(&page, block), "{major} {}", image["file"]);
                assert_eq!(header.faults(8192), [], "{major} {}", image["file"]);
            }
        }
    }
}

#[test]
fn list_shows_every_image_with_its_cause() {
    for major in 10..=19 {
        let images = walfpi(&["list", "--format", "ndjson", arg(&data(major))]).of_type("image");
        let (_, total) = captured(major, "stats.txt");
        let bytes: u64 = images.iter().map(|image| image["stored_bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, total[2], "{major}");
        for image in &images {
            let (record, cause) = (image["record"].as_str().unwrap(), image["cause"].as_str().unwrap());
            match record {
                "FPI_FOR_HINT" => assert!(["hint_only", "hint_then_changed"].contains(&cause), "{major} {image}"),
                "FPI" if cause == "map_truncation" => assert_ne!(image["fork"], "main", "{major} {image}"),
                "FPI" => assert!(cause.ends_with("new_page"), "{major} {image}"),
                // Only these record types force an image though the page was changed before, by the fact sheet.
                _ if cause.ends_with("forced") => {
                    let name = format!("{}/{record}", image["rmgr"].as_str().unwrap());
                    let known = ["Gin/SPLIT", "Gin/VACUUM_PAGE", "Hash/SPLIT_PAGE", "Generic/Generic"];
                    assert!(known.contains(&name.as_str()), "{major} {image}");
                }
                _ => assert!(cause.starts_with("first_touch"), "{major} {image}"),
            }
        }
        let hints = walfpi(&["list", "--cause", "hint", "--format", "ndjson", arg(&data(major))]).of_type("image");
        assert_eq!(hints.len(), images.iter().filter(|image| image["record"] == "FPI_FOR_HINT").count(), "{major}");
    }
}

#[test]
fn end_of_wal_is_told_from_damage() {
    for major in 10..=19 {
        let ran = walfpi(&["verify", "--format", "ndjson", arg(&data(major))]);
        assert_eq!(ran.status, 0, "{major}: {}", ran.stdout);
        let runs = ran.of_type("run");
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0]["verdict_code"], "end_of_wal", "{major}");
        let text = fs::read_to_string(unpacked(major).join("expected/end-of-wal.txt")).unwrap();
        let at = text.split([' ', ':', '\n']).rfind(|word| word.contains('/')).unwrap();
        assert_eq!(number(&runs[0]["end_at"]), number(&Value::from(at)), "{major}: {text}");
    }
}

/// A copy of a fixture's segments, to be damaged.
fn copy_of(major: u32) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let to = temporary.path().join("data");
    common::copy_tree(&data(major), &to);
    (temporary, to)
}

fn segment(data: &std::path::Path, index: usize) -> PathBuf {
    let mut names: Vec<PathBuf> = fs::read_dir(data.join("pg_wal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    names.sort();
    names.swap_remove(index)
}

#[test]
fn flipped_bit_in_the_middle_is_damage_with_a_place() {
    let (_keep, data) = copy_of(15);
    let path = segment(&data, 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0x80_100] ^= 4;
    fs::write(&path, &bytes).unwrap();
    for command in [&["verify"][..], &["stats"], &["stats", "--by", "rmgr"], &["stats", "--by", "cause"], &["list"]] {
        let ran = walfpi(&[command, &["--format", "ndjson", arg(&data)]].concat());
        assert_eq!(ran.status, 2, "{command:?}: {}", ran.stdout);
        let finding = ran.of_type("finding").into_iter().find(|finding| finding["kind"] == "damage").unwrap();
        let what = finding["what"].as_str().unwrap();
        let at = number(&Value::from(what.split([' ', ',']).find(|word| word.contains('/')).unwrap())).unwrap();
        // The bit lies at 0/980100: the record that holds it begins at most some pages before.
        assert!((0x97_8000..=0x98_0100).contains(&at), "{command:?} {finding}");
        assert!(finding["why"].as_str().unwrap().ends_with("--resync reads on"), "{command:?} {finding}");
        let skipped = ran.of_type("skipped");
        assert_eq!((skipped.len(), &skipped[0]["cause"]), (1, &Value::from("damaged_wal")), "{command:?}");
    }
    let resumed = walfpi(&["verify", "--resync", "--format", "ndjson", arg(&data)]);
    let damage = resumed.of_type("damage");
    assert_eq!((resumed.status, damage.len()), (2, 1), "{}", resumed.stdout);
    assert!(damage[0]["bytes"].as_u64().unwrap() < 32_768, "only the neighbourhood is lost: {}", damage[0]);
    let whole =
        walfpi(&["verify", "--format", "ndjson", arg(&self::data(15))]).of_type("run")[0]["records"].as_u64().unwrap();
    let rest = resumed.of_type("run")[0]["records"].as_u64().unwrap();
    assert!(rest > whole - 400 && rest < whole, "{rest} of {whole}");
}

#[test]
fn zeroed_middle_and_missing_segment() {
    let (_keep, data) = copy_of(15);
    let path = segment(&data, 2);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0x4_0000..0x6_0000].fill(0);
    fs::write(&path, &bytes).unwrap();
    let ran = walfpi(&["stats", "--format", "ndjson", arg(&data)]);
    assert!(ran.status == 2 && ran.stdout.contains("valid records follow at"), "{}", ran.stdout);
    fs::remove_file(&path).unwrap();
    let ran = walfpi(&["stats", "--format", "ndjson", arg(&data)]);
    let skipped = ran.of_type("skipped");
    assert_eq!((ran.status, skipped.len()), (2, 1), "{}", ran.stdout);
    assert_eq!(
        (&skipped[0]["cause"], &skipped[0]["what"]),
        (&Value::from("segments_missing"), &Value::from("0/00A00000 to 0/00B00000"))
    );
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "wal_gap"), "{}", ran.stdout);
    // Missing is what a range asks for that is not there.
    let status = |range: &[&str]| walfpi(&[&["stats", "--format", "ndjson"], range, &[arg(&data)]].concat()).status;
    assert_eq!((status(&["--end", "0/A00000"]), status(&["--end", "0/A00001"])), (0, 2));
    assert_eq!((status(&["--start", "0/B00000"]), status(&["--start", "0/AFFFFF"])), (0, 2));
    let runs = walfpi(&["verify", "--format", "ndjson", arg(&data)]).of_type("run");
    assert_eq!(runs.len(), 2, "what lies on each side of the gap is read");
}

#[test]
fn ranges_count_only_what_lies_inside() {
    // The captured list of records gives start and length of each; ends are taken from the next start.
    let whole = walfpi(&["stats", "--by", "rmgr", "--format", "ndjson", arg(&data(15))]);
    let (start, end) = ("0/870000", "0/9A0000");
    let inside =
        walfpi(&["stats", "--by", "rmgr", "--start", start, "--end", end, "--format", "ndjson", arg(&data(15))]);
    let text = fs::read_to_string(unpacked(15).join("expected/records.txt")).unwrap();
    let starts: Vec<u64> = text
        .lines()
        .filter_map(|line| number(&Value::from(line.split("lsn: ").nth(1)?.split(',').next()?)))
        .filter(|lsn| (0x87_0000..0x9A_0000).contains(lsn))
        .collect();
    let counted = inside.of_type("summary")[0]["records"].as_u64().unwrap();
    // The last record may reach over the end.
    assert!(counted == starts.len() as u64 || counted + 1 == starts.len() as u64, "{counted} of {}", starts.len());
    assert!(counted < whole.of_type("summary")[0]["records"].as_u64().unwrap());
    let empty = walfpi(&["stats", "--start", "0/A00000", "--end", "0/900000", arg(&data(15))]);
    assert_eq!(empty.status, 2);
}

#[test]
fn text_is_stable_and_fits_80_columns() {
    for (name, args) in [
        ("checkpoint", &["stats"][..]),
        ("rmgr", &["stats", "--by", "rmgr"]),
        ("cause", &["stats", "--by", "cause"]),
        ("relation", &["stats", "--by", "relation", "--top", "5"]),
        ("verify", &["verify"]),
    ] {
        let ran = walfpi(&[args, &[arg(&data(18))]].concat());
        let text = before_findings(&ran.stdout);
        assert!(text.lines().all(|line| line.chars().count() <= 84), "{name}:\n{text}");
        insta::assert_snapshot!(format!("text_{name}"), text);
    }
    let wide = walfpi(&["stats", "--width", "160", arg(&data(18))]);
    insta::assert_snapshot!("text_checkpoint_wide", before_findings(&wide.stdout));
}

#[test]
fn wrong_input_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("notwal");
    fs::write(&file, b"this is no WAL at all").unwrap();
    for path in ["/no/such/path", arg(temporary.path()), arg(&file)] {
        for command in ["stats", "list", "verify"] {
            let ran = walfpi(&[command, path]);
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command} {path}");
            assert!(ran.stderr.starts_with("pg_walfpi: "), "{command} {path}: {}", ran.stderr);
        }
    }
}

#[test]
fn control_file_of_another_version_is_told() {
    let (_keep, data) = copy_of(15);
    // The control file of 18, made to belong to the same cluster, so that only the version is wrong.
    let mut control = fs::read(self::data(18).join("global/pg_control")).unwrap();
    let own = fs::read(data.join("global/pg_control")).unwrap();
    control[..8].copy_from_slice(&own[..8]);
    let crc = pgforensics::parsers::crc::crc32c(&control[..292]);
    control[292..296].copy_from_slice(&crc.to_le_bytes());
    fs::write(data.join("global/pg_control"), control).unwrap();
    let ran = walfpi(&["stats", "--format", "ndjson", arg(&data)]);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "wal_version"), "{}", ran.stdout);
}

/// A run that is broken off shows what was counted so far and calls it partial.
#[test]
fn interrupted_run_prints_what_it_has() {
    use std::process::{Command, Stdio};
    let temporary = tempfile::tempdir().unwrap();
    // xz is slow enough to be interrupted.
    for entry in fs::read_dir(data(10).join("pg_wal")).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() {
            continue;
        }
        let to = fs::File::create(temporary.path().join(path.file_name().unwrap()).with_extension("xz")).unwrap();
        let Ok(status) = Command::new("xz").args(["-1", "-c", arg(&path)]).stdout(to).status() else {
            return common::skipped("xz is not installed");
        };
        assert!(status.success());
    }
    for delay_ms in [120, 200, 300, 60, 450, 30, 700] {
        let child = Command::new(env!("CARGO_BIN_EXE_pg_walfpi"))
            .args(["stats", "--jobs", "1", "--format", "ndjson", arg(temporary.path())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Too early the signal ends the program, too late there is nothing left to break off.
        if output.status.code() == Some(2) && text.contains("interrupted: the figures are partial") {
            let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!(summary["type"], "summary");
            return;
        }
    }
    panic!("no delay met the program while it was reading");
}

/// What `verify` says of a damaged copy: status, verdict, and whether damage is a finding.
fn verdict(data: &std::path::Path, args: &[&str]) -> (i32, String, bool) {
    let ran = walfpi(&[&["verify", "--format", "ndjson"], args, &[arg(data)]].concat());
    let verdict =
        ran.of_type("run").last().map(|run| run["verdict_code"].as_str().unwrap().to_owned()).unwrap_or_default();
    (ran.status, verdict, ran.of_type("finding").iter().any(|finding| finding["kind"] == "damage"))
}

fn flip(path: &std::path::Path, at: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_to_the_checkpoint_that_pg_control_names_is_no_normal_end() {
    for major in [10, 15, 18] {
        let (_keep, data) = copy_of(major);
        let control = fs::read(data.join("global/pg_control")).unwrap();
        let checkpoint = u64::from_le_bytes(control[32..40].try_into().unwrap());
        let size = fs::metadata(segment(&data, 0)).unwrap().len();
        let name = format!("{:08X}{:08X}{:08X}", 1, 0, checkpoint / size);
        flip(&data.join("pg_wal").join(name), (checkpoint % size) as usize + 40, 3);
        let expected = (2, "damage".to_owned(), true);
        assert_eq!(verdict(&data, &[]), expected, "{major}");
        assert_eq!(verdict(&data, &["--resync"]), expected, "{major}");
        for command in [&["stats"][..], &["stats", "--by", "cause"], &["list"], &["list", "--resync"]] {
            assert_eq!(walfpi(&[command, &[arg(&data)]].concat()).status, 2, "{major} {command:?}");
        }
    }
}

#[test]
fn damage_is_found_by_records_after_it_in_the_same_page() {
    // Without a control file, a record of the last page: the records after it are in that page too.
    let (_keep, data) = copy_of(15);
    let text = fs::read_to_string(unpacked(15).join("expected/records.txt")).unwrap();
    let starts: Vec<u64> =
        text.lines().filter_map(|line| number(&Value::from(line.split("lsn: ").nth(1)?.split(',').next()?))).collect();
    let last = *starts.last().unwrap();
    let in_last_page: Vec<u64> = starts.iter().copied().filter(|lsn| lsn / 8192 == last / 8192).collect();
    assert!(in_last_page.len() > 3);
    let hit = in_last_page[in_last_page.len() - 3];
    fs::remove_file(data.join("global/pg_control")).unwrap();
    flip(&data.join(format!("pg_wal/0000000100000000000000{:02X}", hit >> 20)), (hit % (1 << 20)) as usize + 20, 0);
    assert_eq!(verdict(&data.join("pg_wal"), &[]), (2, "damage".to_owned(), true));
}

/// Whatever is lost inside WAL, the records after it tell: no control file is needed.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damage_inside_wal_is_always_found() {
    for major in [10, 13, 15, 18] {
        let (_keep, data) = copy_of(major);
        let size = fs::metadata(segment(&data, 0)).unwrap().len();
        let text = fs::read_to_string(unpacked(major).join("expected/records.txt")).unwrap();
        let start_of = |line: &str| number(&Value::from(line.split("lsn: ").nth(1)?.split(',').next()?));
        let starts: Vec<u64> = text.lines().filter_map(start_of).collect();
        let last = *starts.last().unwrap();
        // Everything but the last page of WAL, every so many records; of the last page what is not its last record.
        let (inner, in_last_page): (Vec<u64>, Vec<u64>) =
            starts[..starts.len() - 1].iter().partition(|lsn| *lsn / 8192 < last / 8192);
        let some = inner.iter().step_by(inner.len() / 12).chain(inner.last()).chain(&in_last_page).copied();
        fs::remove_file(data.join("global/pg_control")).unwrap();
        let path_of = |lsn: u64| data.join("pg_wal").join(format!("{:08X}{:08X}{:08X}", 1, 0, lsn / size));
        let timeline_1 = |lsn: &u64| path_of(*lsn).exists();
        for (round, lsn) in some.filter(timeline_1).enumerate() {
            let (path, at) = (path_of(lsn), (lsn % size) as usize);
            let sound = fs::read(&path).unwrap();
            let older = fs::read(segment(&data, 0)).unwrap();
            let mut damaged = sound.clone();
            let unit = [0, 512, 4096, 8192][round % 4];
            // A hole takes the start of the record with it, and must leave the last record.
            let from = at - at % unit.max(1);
            let is_inside = unit > 0 && lsn - lsn % 8192 + 8192 < last && path != segment(&data, 0);
            match (is_inside, round % 8 < 4) {
                (false, _) => damaged[at + 22] ^= 1,
                (true, true) => damaged[from..from + unit].fill(0),
                (true, false) => damaged[from..from + unit].copy_from_slice(&older[from..from + unit]),
            }
            fs::write(&path, &damaged).unwrap();
            assert_eq!(
                verdict(&data.join("pg_wal"), &[]),
                (2, "damage".to_owned(), true),
                "{major} {lsn:X} unit {unit} inside {is_inside}"
            );
            assert_eq!(walfpi(&["stats", arg(&data.join("pg_wal"))]).status, 2, "{major} {lsn:X}");
            fs::write(&path, &sound).unwrap();
        }
    }
}

#[test]
fn resync_reports_every_damage_and_goes_on() {
    let (_keep, data) = copy_of(15);
    flip(&segment(&data, 0), 0x5_0100, 1);
    flip(&segment(&data, 1), 0x8_0004, 0); // the timeline of a page
    let path = segment(&data, 2);
    fs::File::options().write(true).open(&path).unwrap().set_len(500_000).unwrap();
    let ran = walfpi(&["verify", "--resync", "--format", "ndjson", arg(&data)]);
    let damage = ran.of_type("damage");
    assert_eq!((ran.status, damage.len()), (2, 3), "{}", ran.stdout);
    let end = number(&ran.of_type("run")[0]["end_lsn"]).unwrap();
    assert_eq!(end, 0xB3_BCE0, "what follows the short segment is read to its end");
    let list = walfpi(&["list", "--resync", "--format", "ndjson", arg(&data)]);
    assert_eq!(list.of_type("finding").iter().filter(|finding| finding["kind"] == "damage").count(), 3);
}

#[test]
fn wrong_timeline_in_one_first_page_does_not_discard_the_others() {
    let (_keep, data) = copy_of(15);
    flip(&segment(&data, 1), 4, 1);
    let ran = walfpi(&["stats", "--format", "ndjson", arg(&data)]);
    assert_eq!(ran.status, 2);
    let records = ran.of_type("summary")[0]["records"].as_u64().unwrap();
    let first_segment = walfpi(&["stats", "--end", "0/900000", "--format", "ndjson", arg(&self::data(15))]);
    assert!(records >= first_segment.of_type("summary")[0]["records"].as_u64().unwrap(), "{records}");
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "wal_first_page_damaged"));
}

#[test]
fn range_without_records_is_no_clean_answer() {
    for command in [&["stats"][..], &["verify"], &["list"]] {
        let ran = walfpi(&[command, &["--start", "0/B3C000", arg(&data(15))]].concat());
        assert_eq!(ran.status, 2, "{command:?} {}", ran.stdout);
        assert!(ran.stdout.contains("no record in this range"), "{command:?} {}", ran.stdout);
    }
}

/// WAL of the range asked for that is not there was not examined, whatever the rest of it says.
#[test]
fn range_that_begins_before_all_wal_or_ends_after_it_is_not_whole() {
    let archive = tempfile::tempdir().unwrap();
    let segments: Vec<PathBuf> = (0..3).map(|index| segment(&data(15), index)).collect();
    for from in &segments {
        fs::copy(from, archive.path().join(from.file_name().unwrap())).unwrap();
    }
    let address = |index: usize| {
        let name = segments[index].file_name().unwrap().to_str().unwrap();
        u64::from_str_radix(&name[16..], 16).unwrap() << 20
    };
    let (start, end) = (address(0), address(2) + (1 << 20));
    let [before, start, end, after] = [start - 8, start, end, end + 1].map(|lsn| Lsn(lsn).to_string());
    for command in
        [&["stats"][..], &["verify"], &["list"], &["whatif", "--section", "hints"], &["dwb-size"], &["advise"]]
    {
        let run = |start: &str, end: &str| {
            walfpi(&[command, &["--start", start, "--end", end, arg(archive.path())]].concat())
        };
        let (whole, early, late) = (run(&start, &end), run(&before, &end), run(&start, &after));
        assert_eq!((whole.status, early.status, late.status), (0, 2, 2), "{command:?} {}", whole.stdout);
        for (ran, range) in [(early, format!("{before} to {start}")), (late, format!("{end} to {after}"))] {
            let words = format!("{}{}", ran.stdout, ran.stderr);
            assert!(words.contains("no WAL segment of this range exists"), "{command:?} {range} {words}");
        }
    }
}

/// A checkpoint whose checksum is right but whose length is not that of a checkpoint.
#[test]
fn record_that_is_no_record_of_its_type_is_a_finding() {
    use pgforensics::parsers::crc::crc32c_of_two;
    let (_keep, data) = copy_of(15);
    let text = fs::read_to_string(unpacked(15).join("expected/records.txt")).unwrap();
    // The first record as long as a short checkpoint would be: its resource manager and type are made those of one.
    let lsn = text
        .lines()
        .filter(|line| line.contains("RUNNING_XACTS"))
        .find_map(|line| number(&Value::from(line.split("lsn: ").nth(1)?.split(',').next()?)))
        .unwrap();
    let path = data.join(format!("pg_wal/0000000100000000000000{:02X}", lsn >> 20));
    let mut bytes = fs::read(&path).unwrap();
    let at = (lsn % (1 << 20)) as usize;
    let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    bytes[at + 16] = 0x10;
    bytes[at + 17] = 0;
    let crc = crc32c_of_two(&bytes[at + 24..at + length], bytes[at..].first_chunk::<20>().unwrap());
    bytes[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let ran = walfpi(&["stats", "--format", "ndjson", arg(&data)]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "payload"), "{}", ran.stdout);
}

/// What lies after the end decides whether it is damage: where that cannot be read, the end is not called a normal one.
#[test]
fn unreadable_segment_after_the_end_is_said() {
    let (_keep, data) = copy_of(15);
    let text = fs::read_to_string(unpacked(15).join("expected/records.txt")).unwrap();
    let starts = text.lines().filter_map(|line| number(&Value::from(line.split("lsn: ").nth(1)?.split(',').next()?)));
    // The checksum of the last record that lies wholly in the second segment; one more begins there.
    let inside: Vec<u64> = starts.filter(|lsn| lsn >> 20 == 9).collect();
    let hit = inside[inside.len() - 2];
    flip(&segment(&data, 1), (hit % (1 << 20)) as usize + 20, 1);
    let last = segment(&data, 2);
    // Stored without compression, so that a cut after the page header leaves that header and nothing of a record.
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut packer, &fs::read(&last).unwrap()).unwrap();
    let packed = packer.finish().unwrap();
    fs::remove_file(&last).unwrap();
    fs::write(last.with_extension("gz"), &packed[..80]).unwrap();
    fs::remove_file(segment(&data, 3)).unwrap();
    let ran = walfpi(&["verify", "--end", "0/A00000", "--format", "ndjson", arg(&data.join("pg_wal"))]);
    let is_said = ran.of_type("skipped").iter().any(|skipped| skipped["part"] == "wal_after_end");
    assert!(ran.status == 2 && is_said, "{}", ran.stdout);
    assert_ne!(ran.of_type("run")[0]["verdict_code"], "end_of_wal");
}

#[test]
fn total_of_wal_is_the_sum_of_its_column() {
    for major in 10..=19 {
        let ran = walfpi(&["stats", "--format", "ndjson", arg(&data(major))]);
        let rows = ran.of_type("interval");
        let distance = |row: &Value| number(&row["end_lsn"]).unwrap() - number(&row["start_lsn"]).unwrap();
        let summary = ran.of_type("summary").remove(0);
        assert_eq!(summary["wal_bytes"].as_u64().unwrap(), rows.iter().map(distance).sum::<u64>(), "{major}");
        // The bytes of the records are known beside it, and are less: page headers and padding are not theirs.
        assert_eq!(summary["combined_bytes"].as_u64().unwrap(), captured(major, "stats.txt").1[3], "{major}");
        assert!(summary["wal_bytes"].as_u64() > summary["combined_bytes"].as_u64(), "{major}");
        for by in ["rmgr", "relation", "cause"] {
            let by =
                walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&data(major))]).of_type("summary").remove(0);
            assert!(by["wal_bytes"].as_u64() > by["combined_bytes"].as_u64(), "{major} {by}");
            // Other groupings begin with the segment or the first record, not with a redo point.
            let apart = by["wal_bytes"].as_u64().unwrap().abs_diff(summary["wal_bytes"].as_u64().unwrap());
            assert!(apart < 8192, "{major} {by}: {apart}");
        }
        // In text it is the same measure: all rows and the total, as sizes.
        let text = walfpi(&["stats", arg(&data(major))]).stdout;
        let header: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        let column = header.iter().position(|name| *name == "WAL").unwrap();
        let total = text.lines().find(|line| line.trim_start().starts_with("total")).unwrap();
        let shown = total.split_whitespace().nth(1).unwrap();
        let mut sum = 0.0;
        for line in text.lines().skip(3).take_while(|line| !line.trim_start().starts_with("total")) {
            sum += bytes_of(line.split_whitespace().nth(column).unwrap());
        }
        assert!((sum - bytes_of(shown)).abs() <= 0.1 * (1 << 20) as f64, "{major}: {sum} is not {shown}");
    }
}

/// A size as text shows it.
fn bytes_of(size: &str) -> f64 {
    let unit = size.chars().last().unwrap();
    let power = " KMGT".find(unit).unwrap_or(0);
    size.trim_end_matches(char::is_alphabetic).parse::<f64>().unwrap() * 1024_f64.powi(power as i32)
}
