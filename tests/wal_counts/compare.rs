//! `pg_walfpi compare`: figures are those of pg_waldump, and no percentage is shown where evidence is missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common;
use crate::common::wal::{Fixture, expected_records, expected_totals};
use crate::common::{Ran, arg, run, unpack};
use serde_json::Value;

fn compare(args: &[&str]) -> Ran {
    run("pg_walfpi", &[&["compare"], args].concat())
}

fn archive(major: u32) -> String {
    format!("{}/fixtures/wal/pg{major}.tar.zst", env!("CARGO_MANIFEST_DIR"))
}

/// A figure of a set, with what it is about.
fn figure(ran: &Ran, set: &str, by: Option<&str>, key: Option<&str>, figure: &str) -> Value {
    let is_it = |row: &Value| {
        row["set"] == set && row["figure"] == figure && row["by"].as_str() == by && row["key"].as_str() == key
    };
    ran.of_type("figure").into_iter().find(is_it).unwrap_or_else(|| panic!("{set} {by:?} {key:?} {figure}"))
}

fn number(ran: &Ran, set: &str, name: &str) -> f64 {
    figure(ran, set, None, None, name)["value"].as_f64().unwrap()
}

/// Records, their bytes without images, bytes of images, images and commits, as pg_waldump says.
fn expected(major: u32) -> [f64; 5] {
    let fixture = Fixture::load(major);
    let (records, record_bytes, image_bytes) = expected_totals(&fixture.expected("stats.txt"))["Total"];
    let types = expected_totals(&fixture.expected("stats-record.txt"));
    let of_type = |name: &str| types.get(name).map_or(0, |totals| totals.0);
    let commits = of_type("Transaction/COMMIT") + of_type("Transaction/COMMIT_PREPARED");
    let records_in_full = expected_records(&fixture.expected("records.txt"));
    let images = records_in_full.iter().flat_map(|record| &record.blocks).filter(|block| block.image.is_some()).count();
    [records, record_bytes, image_bytes, images as u64, commits].map(|count| count as f64)
}

#[test]
fn figures_and_their_differences_follow_from_pg_waldump() {
    let (first, second) = (archive(13), archive(18));
    let ran = compare(&["--format", "ndjson", &format!("old={first}"), &format!("new={second}")]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let (old, new) = (expected(13), expected(18));
    let derived = |[records, record_bytes, image_bytes, images, commits]: [f64; 5]| {
        assert!(commits > 5.0);
        [
            ("records", records),
            ("record_bytes", record_bytes),
            ("image_bytes", image_bytes),
            ("images", images),
            ("commits", commits),
            ("wal_bytes", record_bytes + image_bytes),
            ("image_share", image_bytes / (record_bytes + image_bytes)),
            ("bytes_per_commit", (record_bytes + image_bytes) / commits),
            ("images_per_1000_commits", images * 1000.0 / commits),
        ]
    };
    for ((name, old), (_, new)) in derived(old).into_iter().zip(derived(new)) {
        let near = |found: &Value, wanted: f64| {
            let found = found.as_f64().unwrap();
            assert!((found - wanted).abs() <= 0.001_f64.max(wanted.abs() * 1e-6), "{name}: {found} {wanted}");
        };
        let of_old = figure(&ran, "old", None, None, name);
        let of_new = figure(&ran, "new", None, None, name);
        near(&of_old["value"], old);
        near(&of_new["value"], new);
        near(&of_new["difference_percent"], (new - old) / old * 100.0);
        assert_eq!((&of_old["difference_percent"], &of_new["certainty"]), (&Value::Null, &"exact".into()), "{name}");
        if name == "image_share" {
            near(&of_new["difference_points"], (new - old) * 100.0);
        } else {
            assert_eq!(of_new["difference_points"], Value::Null, "{name}");
        }
    }
}

#[test]
fn images_are_divided_as_pg_waldump_and_stats_divide_them() {
    let (first, second) = (archive(15), archive(16));
    let ran = compare(&["--format", "ndjson", &format!("a={first}"), &format!("b={second}")]);
    for (set, major) in [("a", 15), ("b", 16)] {
        let said = Fixture::load(major).expected("records.txt");
        for method in ["pglz", "lz4", "zstd"] {
            let images = figure(&ran, set, Some("compression"), Some(method), "images");
            assert_eq!(images["value"], said.matches(&format!("method: {method}")).count(), "{set} {method}");
        }
        let all = number(&ran, set, "images");
        let parts = |by: &str| -> f64 {
            let rows = ran.of_type("figure");
            let of = rows.iter().filter(|row| row["set"] == set && row["by"] == by && row["figure"] == "images");
            of.map(|row| row["value"].as_f64().unwrap()).sum()
        };
        assert_eq!((parts("compression"), parts("cause")), (all, all), "{set}");
    }
    // Of a method that the first set lacks no percentage can be told.
    let lz4 = figure(&ran, "b", Some("compression"), Some("lz4"), "images");
    assert_eq!((&lz4["value"], &lz4["difference_percent"]), (&0.into(), &(-100.0).into()));
    let backwards = compare(&["--format", "ndjson", &format!("b={second}"), &format!("a={first}")]);
    let lz4 = figure(&backwards, "a", Some("compression"), Some("lz4"), "images");
    assert!(lz4["value"].as_f64().unwrap() > 0.0 && lz4["difference_percent"].is_null());
}

#[test]
fn set_that_is_damaged_or_has_a_gap_is_marked_and_not_compared_in_percent() {
    let kept = tempfile::tempdir().unwrap();
    let copy = |name: &str| -> (PathBuf, Vec<PathBuf>) {
        let data = kept.path().join(name);
        common::copy_tree(&unpack::data_dir("wal/pg16").unwrap(), &data);
        let mut segments: Vec<_> =
            fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.file_name().unwrap().len() == 24);
        segments.sort();
        (data, segments)
    };
    let (whole, _) = copy("whole");
    let (damaged, segments) = copy("damaged");
    let mut bytes = fs::read(&segments[1]).unwrap();
    bytes[5000..5100].fill(0xFF);
    fs::write(&segments[1], bytes).unwrap();
    let (gap, segments) = copy("gap");
    fs::remove_file(&segments[1]).unwrap();
    for (name, broken) in [("damaged", &damaged), ("gap", &gap)] {
        for whole_first in [true, false] {
            let sets = [format!("whole={}", arg(&whole)), format!("{name}={}", arg(broken))];
            let sets = if whole_first { [&*sets[0], &sets[1]] } else { [&*sets[1], &sets[0]] };
            let ran = compare(&[&["--format", "ndjson"], &sets[..]].concat());
            assert_eq!(ran.status, 2, "{name} {}", ran.stdout);
            assert!(ran.of_type("figure").iter().all(|row| row["difference_percent"].is_null()), "{name}");
            let certainty = |set: &str, of: &str| figure(&ran, set, None, None, of)["certainty"].clone();
            assert_eq!((certainty("whole", "images"), certainty(name, "images")), ("exact".into(), "at_least".into()));
            assert_eq!(certainty(name, "image_share"), "estimate");
            let is_whole: Vec<_> =
                ran.of_type("set").iter().map(|set| (set["name"].clone(), set["is_whole"].clone())).collect();
            assert!(is_whole.contains(&("whole".into(), true.into())), "{is_whole:?}");
            assert!(is_whole.contains(&(name.into(), false.into())), "{is_whole:?}");
            // What is wrong is said of the set that it is wrong with.
            let mut said = ran.of_type("skipped").into_iter().map(|skipped| skipped["what"].clone());
            let problems = ran.of_type("finding").into_iter().filter(|finding| finding["severity"] == "problem");
            let mut said = said.by_ref().chain(problems.map(|finding| finding["file"].clone())).peekable();
            assert!(said.peek().is_some() && said.all(|what| what.as_str().unwrap().starts_with(name)), "{name}");
            let text = compare(&sets);
            assert!(text.stdout.contains(&format!("{name}?")) && !text.stdout.contains("whole?"), "{}", text.stdout);
            assert_eq!(text.status, 2);
        }
    }
}

#[test]
fn relations_are_matched_by_number_in_one_cluster_and_by_name_in_two() {
    let first = unpack::data_dir("dwb/checkpoint").unwrap();
    let second = unpack::data_dir("dwb/evict").unwrap();
    let relations = |args: &[&str]| -> Vec<(String, Value, Value)> {
        let ran = compare(&[&["--format", "ndjson", "--top", "1000"], args].concat());
        let of = ran.of_type("figure").into_iter().filter(|row| row["by"] == "relation" && row["figure"] == "images");
        let of_second = of.filter(|row| row["set"] == "b");
        let row = |row: Value| {
            (row["key"].as_str().unwrap().to_owned(), row["value"].clone(), row["difference_percent"].clone())
        };
        of_second.map(row).collect()
    };
    let (a, b) = (format!("a={}", arg(&first)), format!("b={}", arg(&second)));
    let same = format!("b={}", arg(&first));
    let by_number = relations(&[&a, &same]);
    assert!(by_number.len() > 5 && by_number.iter().all(|(_, _, difference)| *difference == 0.0), "{by_number:?}");
    assert!(by_number.iter().all(|(key, ..)| key.split('/').count() == 3), "{by_number:?}");
    // The names of one set serve all sets of the cluster.
    let by_name = relations(&[&a, &same, "--names", &a]);
    assert_eq!(by_name.len(), by_number.len());
    assert!(by_name.iter().any(|(key, _, difference)| key.contains("pg_catalog.pg_class") && *difference == 0.0));
    // Two clusters: numbers mean nothing, and a name that only one of them has says nothing of the other.
    let identifier = |data: &std::path::Path| fs::read(data.join("global/pg_control")).unwrap()[..8].to_vec();
    assert_ne!(identifier(&first), identifier(&second));
    assert_eq!(relations(&[&a, &b]), []);
    let half = relations(&[&a, &b, "--names", &a]);
    assert!(half.iter().any(|(key, ..)| key.contains("pg_catalog.pg_class")), "{half:?}");
    assert!(
        half.iter()
            .filter(|(key, ..)| key != "(unnamed)")
            .all(|(_, value, percent)| value.is_null() && percent.is_null())
    );
}

/// The relation with most images in each of two clusters gets the same name: its images are those that pg_waldump shows.
#[test]
fn relations_of_two_clusters_are_compared_by_name() {
    let kept = tempfile::tempdir().unwrap();
    let mut args = vec!["--format".to_owned(), "ndjson".to_owned()];
    let mut expected = Vec::new();
    for (set, major) in [("a", 16), ("b", 18)] {
        let mut images: BTreeMap<String, u64> = BTreeMap::new();
        let records = expected_records(&Fixture::load(major).expected("records.txt"));
        for block in records.iter().flat_map(|record| &record.blocks).filter(|block| block.image.is_some()) {
            *images.entry(block.rel.clone()).or_default() += 1;
        }
        // Of another number than in the first set.
        images.retain(|_, count| !expected.contains(&(*count as f64)));
        let (rel, count) = images.into_iter().max_by_key(|(_, count)| *count).unwrap();
        let numbers: Vec<u32> = rel.split('/').map(|number| number.parse().unwrap()).collect();
        let name = serde_json::json!([{
            "spc_oid": numbers[0], "db_oid": numbers[1], "rel_number": numbers[2],
            "database": "db", "schema": "public", "relation": "busy",
        }]);
        let file = kept.path().join(set);
        fs::write(&file, name.to_string()).unwrap();
        args.extend([format!("{set}={}", archive(major)), format!("--names={set}={}", arg(&file))]);
        expected.push(count as f64);
    }
    let ran = compare(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let of = |set| figure(&ran, set, Some("relation"), Some("db.public.busy"), "images");
    let found = ["a", "b"].map(|set| of(set)["value"].as_f64().unwrap());
    assert!(found == expected[..] && found[0] != found[1], "{found:?} {expected:?}");
    let percent = of("b")["difference_percent"].as_f64().unwrap();
    assert!((percent - (expected[1] / expected[0] - 1.0) * 100.0).abs() < 0.001, "{percent}");
    // All others have no name, and are never compared.
    assert!(figure(&ran, "b", Some("relation"), Some("(unnamed)"), "images")["difference_percent"].is_null());
}

#[test]
fn command_line_that_names_no_two_sets_is_refused() {
    let path = archive(16);
    let (one, twice) = (format!("one={path}"), format!("one={}", archive(18)));
    let (no_name, no_path) = (format!("={path}"), "two=".to_owned());
    for (args, said) in [
        (vec![&*one], "nothing to compare: pass at least two sets"),
        (vec![&one, &twice], "two sets are called \"one\""),
        (vec![&one, &path], "is not a valid set: expected NAME=PATH"),
        (vec![&one, &no_name], "is not a valid set: expected NAME=PATH"),
        (vec![&one, &no_path], "is not a valid set: expected NAME=PATH"),
        (vec![&one, "two=/nowhere/at/all"], "set two: "),
    ] {
        let ran = compare(&args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn odd_names_and_several_paths_are_taken_as_they_are() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let mut segments: Vec<_> = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    // The last one is an old segment that waits under the name of a future one.
    segments.pop();
    let all = segments.iter().map(|path| arg(path)).collect::<Vec<_>>().join(",");
    let kept = tempfile::tempdir().unwrap();
    let comma = kept.path().join("a,b=c.tar.zst");
    fs::copy(archive(16), &comma).unwrap();
    let name = "before\u{1b}[31m\nµ";
    let sets = [format!("{name}={all}"), format!("tar={}", arg(&comma))];
    let ran = compare(&["--format", "ndjson", &sets[0], &sets[1]]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(number(&ran, name, "images"), number(&ran, "tar", "images"));
    assert_eq!(ran.of_type("set")[0]["paths"].as_array().unwrap().len(), segments.len());
    let text = compare(&[&sets[0], &sets[1]]);
    assert!(!text.stdout.contains('\u{1b}') && text.stdout.contains("before\\u{1b}[31m\\nµ"), "{}", text.stdout);
    let csv = compare(&["--format", "csv", &sets[0], &sets[1]]);
    let mut reader = csv::Reader::from_reader(csv.stdout.as_bytes());
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert!(records.len() > 30 && records.iter().any(|record| &record[0] == name));
    assert_eq!(records.len(), ran.of_type("figure").len());
}
