//! `pg_walfpi advise` says what the commands say that it is built of, and what pg_waldump counts.

use crate::common::wal::Fixture;
use crate::common::{run, unpack};
use serde_json::{Value, json};

/// What a command prints as JSON, and its exit status.
fn json_of(args: &[&str]) -> (Value, i32) {
    let ran = run("pg_walfpi", &[args, &["--format", "json"]].concat());
    (serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", ran.stderr)), ran.status)
}

fn rows<'a>(output: &'a Value, array: &str) -> &'a [Value] {
    output[array].as_array().map_or(&[], Vec::as_slice)
}

fn row_with<'a>(rows: &'a [Value], field: &str, value: &Value) -> &'a Value {
    rows.iter().find(|row| row[field] == *value).unwrap_or_else(|| panic!("no {field} = {value}"))
}

/// Number and bytes of all records, and bytes of images, in the last line of `pg_waldump --stats`.
fn sums_of_pg_waldump(major: u32) -> (u64, u64, u64) {
    let stats = Fixture::load(major).expected("stats.txt");
    let total = stats.lines().find(|line| line.starts_with("Total")).unwrap();
    let numbers: Vec<u64> = total.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1], numbers[2])
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn figures_are_those_of_the_commands_that_stand_alone() {
    for major in [10, 13, 16, 18, 19] {
        let data = unpack::unpack(&format!("wal/pg{major}")).unwrap().join(format!("pg{major}"));
        let path = data.to_str().unwrap();
        let (advice, status) = json_of(&["advise", path]);
        let (what_if, _) = json_of(&["whatif", path]);
        let (by_relation, expected_status) = json_of(&["stats", "--by", "relation", path]);
        assert_eq!(status, expected_status, "{major}");

        let summary = &advice["summary"];
        let sums = ["records", "record_bytes", "fpi_bytes"].map(|field| summary[field].as_u64().unwrap());
        assert_eq!((sums[0], sums[1], sums[2]), sums_of_pg_waldump(major), "{major}");

        let savings = rows(&advice, "savings");
        let spacings = rows(&what_if, "spacings");
        let actual = row_with(spacings, "setting", &json!("actual"));
        for times in [2, 4] {
            let saving = row_with(savings, "times", &json!(times));
            let spacing = row_with(spacings, "every", &json!(times));
            let less = actual["image_bytes"].as_i64().unwrap() - spacing["image_bytes"].as_i64().unwrap();
            assert_eq!(saving["image_bytes"], json!(less), "{major} {times}");
            for field in ["certainty", "wal_certainty", "replay_bytes_max"] {
                assert_eq!(saving[field], spacing[field], "{major} {times} {field}");
            }
        }
        let guards = rows(&what_if, "guards");
        let [full, double] = ["full_page_writes", "double_write"].map(|name| row_with(guards, "guard", &json!(name)));
        let double_write = savings.iter().find(|row| row["remedy"] == "double_write");
        assert_eq!(double_write.is_some(), full["is_actual"] == true, "{major}");
        if let Some(saving) = double_write {
            let less = full["image_bytes"].as_i64().unwrap() - double["image_bytes"].as_i64().unwrap();
            assert_eq!(
                (&saving["image_bytes"], &saving["stay_bytes"]),
                (&json!(less), &double["image_bytes"]),
                "{major}"
            );
        }

        // One count of checkpoints, and no image that is neither in a span of seconds nor said to be left out.
        assert_eq!(summary["checkpoints"], actual["checkpoints"], "{major}");
        let spans = |field: &str| -> u64 {
            summary["since_redo"].as_array().unwrap().iter().map(|span| span[field].as_u64().unwrap()).sum()
        };
        for (left_out, field) in
            [("since_redo_left_out_images", "fpi_count"), ("since_redo_left_out_bytes", "fpi_bytes")]
        {
            let told = spans(field) + summary[left_out].as_u64().unwrap();
            assert_eq!(told, summary[field].as_u64().unwrap(), "{major} {field}");
        }

        let groups = rows(&advice, "groups");
        assert!(!groups.is_empty() && groups.len() <= 8, "{major}");
        for group in groups {
            assert!(rows(&by_relation, "groups").contains(group), "{major} {group}");
        }
        let bytes: Vec<u64> = groups.iter().map(|group| group["fpi_bytes"].as_u64().unwrap()).collect();
        assert!(bytes.is_sorted_by(|one, next| one >= next), "{major}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn majors_up_to_14_are_offered_their_own_compression_alone() {
    for (major, others) in [(13, 0), (14, 0), (15, 2), (18, 2)] {
        let data = unpack::unpack(&format!("wal/pg{major}")).unwrap().join(format!("pg{major}"));
        let (advice, _) = json_of(&["advise", data.to_str().unwrap()]);
        let saving = row_with(rows(&advice, "savings"), "remedy", &json!("wal_compression"));
        assert_eq!(saving["others"].as_array().unwrap().len(), others, "{major}");
        assert!(others > 0 || saving["method"] == "pglz", "{major}: {saving}");
        let (without, _) = json_of(&["advise", "--no-compression", data.to_str().unwrap()]);
        assert!(rows(&without, "savings").iter().all(|row| row["remedy"] != "wal_compression"), "{major}");
    }
}

#[test]
fn without_a_redo_point_nothing_is_said_of_other_checkpoints() {
    let data = unpack::unpack("wal/pg18").unwrap().join("pg18");
    let path = data.to_str().unwrap();
    let (intervals, _) = json_of(&["stats", path]);
    let redo = |row: &Value| row["redo_lsn"].as_str().map(str::to_owned);
    let points: Vec<String> = rows(&intervals, "intervals").iter().filter_map(redo).collect();
    let start = rows(&intervals, "intervals")[0]["start_lsn"].as_str().unwrap().to_owned();
    let (advice, _) = json_of(&["advise", "--start", &start, "--end", &points[0], path]);
    assert!(rows(&advice, "savings").iter().all(|row| row["remedy"] != "fewer_checkpoints"), "{advice}");
    assert_eq!(advice["summary"]["replayed_from"], Value::Null);
}

#[test]
fn wal_that_was_not_read_whole_is_never_a_clean_answer() {
    let data = unpack::unpack("wal/pg16").unwrap().join("pg16/pg_wal");
    let copy = tempfile::tempdir().unwrap();
    let mut segments: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    for (index, path) in segments.iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        if index == 2 {
            bytes[300_000..300_100].fill(0xA5);
        }
        std::fs::write(copy.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let path = copy.path().to_str().unwrap();
    let (advice, status) = json_of(&["advise", "--no-compression", path]);
    let (_, expected) = json_of(&["stats", path]);
    assert!(status > 0 && status == expected, "{status} {expected}");
    assert!(!rows(&advice, "findings").is_empty());
}

/// Steady commits for longer than the finest steps of time reach: see `fixtures/field/README.md`.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn steady_commits_keep_their_times() {
    let data = unpack::unpack("field/wal-steady").unwrap();
    let path = data.join("pg_wal");
    let path = path.to_str().unwrap();
    let (advice, _) = json_of(&["advise", "--no-compression", path]);
    let summary = &advice["summary"];
    for field in ["first_time", "last_time", "peak_time"] {
        let time = summary[field].as_str().unwrap();
        assert!(("2026-11-27T08:20:00Z".."2026-11-27T08:25:00Z").contains(&time), "{field} {time}");
    }
    let rate = summary["combined_bytes"].as_f64().unwrap() / summary["duration_s"].as_f64().unwrap();
    assert!((150_000.0..250_000.0).contains(&rate), "{rate}");

    let (since, _) = json_of(&["stats", "--by", "since-redo", path]);
    let spans = rows(&since, "since_redo");
    let counted: u64 = spans.iter().map(|span| span["fpi_count"].as_u64().unwrap()).sum();
    // The WAL before the first redo point has no interval to be counted in.
    let left_out = summary["since_redo_left_out_images"].as_u64().unwrap();
    assert_eq!(counted + left_out, summary["fpi_count"].as_u64().unwrap());
    assert!(left_out * 20 < counted && spans[2]["fpi_count"].as_u64() > Some(0), "{since}");
}
