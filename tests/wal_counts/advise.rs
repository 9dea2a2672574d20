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
        let (_, expected_status) = json_of(&["stats", "--by", "relation", path]);
        // Of a data directory, names are shown unasked.
        let (by_relation, _) = json_of(&["stats", "--by", "relation", "--names", path, path]);
        assert_eq!(status, expected_status, "{major}");

        let summary = &advice["summary"];
        let sums = ["records", "record_bytes", "fpi_bytes"].map(|field| summary[field].as_u64().unwrap());
        assert_eq!((sums[0], sums[1], sums[2]), sums_of_pg_waldump(major), "{major}");

        let savings = rows(&advice, "savings");
        let spacings = rows(&what_if, "spacings");
        let actual = row_with(spacings, "setting", &json!("actual"));
        for saving in savings.iter().filter(|row| row["remedy"] == "fewer_checkpoints") {
            let size = format!("{}MB", saving["max_wal_size_bytes"].as_u64().unwrap() >> 20);
            let timeout = format!("{}s", saving["checkpoint_timeout_s"]);
            let (both, _) = json_of(&["whatif", "--max-wal-size", &size, "--checkpoint-timeout", &timeout, path]);
            let both = rows(&both, "spacings");
            let spacing = row_with(both, "setting", &json!("max_wal_size_and_checkpoint_timeout"));
            let times = saving["times"].as_u64().unwrap();
            // So many times as far apart, or only the one checkpoint with which the replay begins.
            let (now, then) = (actual["checkpoints"].as_u64().unwrap(), spacing["checkpoints"].as_u64().unwrap());
            assert!(then * times < now + times, "{major} {times}: {then} of {now}");
            let less = actual["image_bytes"].as_i64().unwrap() - spacing["image_bytes"].as_i64().unwrap();
            assert_eq!(saving["image_bytes"], json!(less), "{major} {times}");
            for field in ["certainty", "wal_certainty", "replay_bytes_max"] {
                assert_eq!(saving[field], spacing[field], "{major} {times} {field}");
            }
        }
        let guards = rows(&what_if, "guards");
        let [full, double] = ["full_page_writes", "double_write"].map(|name| row_with(guards, "guard", &json!(name)));
        let double_write = savings.iter().find(|row| row["remedy"] == "double_write");
        // Neither a patch nor a fork of an older major has a buffer.
        assert_eq!(double_write.is_some(), full["is_actual"] == true && major >= 18, "{major}");
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
            let mut counted = group.clone();
            let row = counted.as_object_mut().unwrap();
            let main = row.remove("main_record").unwrap();
            let bytes = row.remove("main_record_bytes").unwrap().as_u64().unwrap();
            assert!(main.as_str().unwrap().contains('/') && bytes <= row["combined_bytes"].as_u64().unwrap());
            let has_cause = row.get("likely_cause").is_some_and(Value::is_string);
            assert!(row.remove("cure_saves_bytes").is_none() || has_cause, "{major} {group}");
            row.remove("cure_certainty");
            assert!(rows(&by_relation, "groups").contains(&counted), "{major} {group}");
        }
        let bytes: Vec<u64> = groups.iter().map(|group| group["combined_bytes"].as_u64().unwrap()).collect();
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

/// WAL of less than a minute says nothing about a day, and the settings of a server that nobody changed are no remedy.
#[test]
fn short_wal_has_no_figure_a_day() {
    let of = |case: &str, directory: &str| {
        let path = unpack::unpack(&format!("field/{case}")).unwrap().join(directory);
        run("pg_walfpi", &["advise", "--no-compression", path.to_str().unwrap()]).stdout
    };
    // By fixtures/field/README.md: three minutes, and less than a second.
    let (steady, burst) = (of("wal-steady", "pg_wal"), of("wal-hint-called-fillfactor-and-ctas", "k3w"));
    assert!(steady.contains("a day at this rate") && steady.contains("GB/day"), "{steady}");
    assert!(!burst.contains("day"), "{burst}");
    for text in [&steady, &burst] {
        assert!(!text.contains("max_wal_size = 1GB"), "the default: {text}");
        assert!(text.contains("pg_rewind refuses"), "a price: {text}");
    }
    // The index was built with half of its images, and pages that were changed had the others.
    assert!(!steady.contains("built or rewritten"), "{steady}");
}

/// Bytes of the rest of a record with which the first segment begins, with the header of the page (`xlp_rem_len`, and the
/// long header of 40 bytes).
fn rest_at_the_start(segment: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(segment[16..20].try_into().unwrap()))
}

/// Every byte of the WAL is in a row: images and records as pg_waldump counts them, and the rest as the formats say.
#[test]
fn rows_of_the_bill_add_up_to_the_wal() {
    for major in [10, 13, 16, 18, 19] {
        let data = unpack::unpack(&format!("wal/pg{major}")).unwrap().join(format!("pg{major}"));
        let (advice, _) = json_of(&["advise", "--no-compression", data.to_str().unwrap()]);
        let (summary, bill) = (&advice["summary"], rows(&advice, "bill"));
        let bytes = |part: &str| -> u64 {
            bill.iter().filter(|row| row["part"] == part).map(|row| row["bytes"].as_u64().unwrap()).sum()
        };
        let sum: u64 = bill.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        assert_eq!(summary["wal_bytes"], json!(sum), "{major}");
        let (_, records, images) = sums_of_pg_waldump(major);
        assert_eq!((bytes("records") + bytes("old_rows"), bytes("images")), (records, images), "{major}");
        // What follows begins at a multiple of 8.
        let rest = rest_at_the_start(&Fixture::load(major).segments[0].1).next_multiple_of(8);
        assert_eq!(bytes("cut"), rest, "{major}: only what begins before the first segment is no whole record");
        // The other commands say the same of the same bytes.
        for by in ["checkpoint", "relation", "rmgr"] {
            let (stats, _) = json_of(&["stats", "--by", by, data.to_str().unwrap()]);
            let field = |name: &str| stats["summary"][name].as_u64().unwrap();
            assert_eq!(
                [field("unused_bytes"), field("padding_bytes")],
                [bytes("unused"), bytes("padding")],
                "{major} {by}"
            );
            // An interval that begins with the first record has not the header before it.
            let more = field("wal_bytes") - summary["wal_bytes"].as_u64().unwrap();
            assert_eq!(field("page_header_bytes"), bytes("page_headers") + more, "{major} {by}");
        }
    }
}

/// An archive of segments that archive_timeout ended: see `fixtures/field/README.md`.
#[test]
fn space_after_segment_switches_is_named_with_its_rhythm_and_cure() {
    let data = unpack::unpack("field/wal-archive-timeout").unwrap();
    let path = data.join("arch1");
    let (advice, _) = json_of(&["advise", "--no-compression", path.to_str().unwrap()]);
    let unused = row_with(rows(&advice, "bill"), "part", &json!("unused"));
    assert_eq!(unused["count"], json!(std::fs::read_dir(&path).unwrap().count()), "each segment ended early");
    assert!(unused["share"].as_f64() > Some(0.95), "{unused}");
    let saving = row_with(rows(&advice, "savings"), "remedy", &json!("archive_timeout"));
    let every = saving["switches_every_s"].as_f64().unwrap();
    assert!((1.5..4.0).contains(&every) && saving["archive_timeout_s"].as_u64() > Some(2), "{saving}");
    for range in [&["--since", "30s"][..], &[]] {
        let arguments = [&["advise", "--no-compression", path.to_str().unwrap()], range].concat();
        let (advice, _) = json_of(&arguments);
        let rate = |field: &str| advice["summary"][field].as_f64().unwrap();
        assert!(rate("bytes_per_s") <= rate("peak_bytes_per_s"), "{range:?}: the mean is not above the peak");
    }
}

/// A table that CREATE TABLE AS filled has no image and a third of the WAL: see `fixtures/field/README.md`.
#[test]
fn relations_without_images_are_among_those_that_cost_most() {
    let data = unpack::unpack("field/wal-hint-called-fillfactor-and-ctas").unwrap();
    let (advice, _) = json_of(&["advise", "--no-compression", data.join("k3w").to_str().unwrap()]);
    let new = row_with(rows(&advice, "groups"), "rel_number", &json!(16389));
    let share = new["combined_bytes"].as_f64().unwrap() / advice["summary"]["wal_bytes"].as_f64().unwrap();
    assert!((0.35..0.37).contains(&share) && new["fpi_bytes"] == 0, "{new}");
}

/// Cases in which a cure was tried: see `fixtures/field/README.md`.
#[test]
fn causes_name_what_writes_most_images() {
    for (case, directory, rel_number, cause) in [
        ("wal-hint-called-fillfactor-and-ctas", "k3w", 16384, "hint_bits"),
        ("wal-uuid-no-cause", "k2w", 16388, "random_keys"),
    ] {
        let data = unpack::unpack(&format!("field/{case}")).unwrap();
        let (advice, _) = json_of(&["advise", "--no-compression", data.join(directory).to_str().unwrap()]);
        let relation = row_with(rows(&advice, "groups"), "rel_number", &json!(rel_number));
        assert_eq!(relation["likely_cause"], cause, "{case}: {relation}");
    }
}

/// Tables with REPLICA IDENTITY FULL, slots and an archiver that fails: see `fixtures/field/README.md`.
#[test]
fn old_rows_and_what_keeps_segments_are_those_of_the_server() {
    let data = unpack::unpack("field/wal-kept").unwrap().join("data");
    let path = data.to_str().unwrap();
    let (advice, _) = json_of(&["advise", "--no-compression", path]);
    let old = row_with(rows(&advice, "bill"), "part", &json!("old_rows"));
    assert_eq!(old["count"], 600, "500 updates and 100 deletes");
    // Each has a text of 150 bytes, two numbers and the header of the row.
    let each = old["bytes"].as_u64().unwrap() / 600;
    assert!((160..190).contains(&each), "{old}");
    let saving = row_with(rows(&advice, "savings"), "remedy", &json!("replica_identity"));
    assert_eq!((&saving["old_row_records"], &saving["wal_bytes"]), (&json!(600), &old["bytes"]));

    let (kept, status) = json_of(&["kept", path]);
    assert_eq!(status, 0, "{kept}");
    let kept = rows(&kept, "kept");
    for (slot, lsn) in [("standby_b", "0/00600768"), ("cdc", "0/0061FA60")] {
        assert_eq!(row_with(kept, "slot", &json!(slot))["from_lsn"], lsn);
    }
    assert_eq!(row_with(kept, "keeper", &json!("archiver"))["segments"], 6);
    // A slot that cannot be read may keep all segments.
    let copy = tempfile::tempdir().unwrap();
    crate::common::copy_tree(&data, copy.path());
    let state = copy.path().join("pg_replslot/cdc/state");
    let mut bytes = std::fs::read(&state).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&state, bytes).unwrap();
    let (broken, status) = json_of(&["kept", copy.path().to_str().unwrap()]);
    assert!(status == 2 && rows(&broken, "skipped").len() == 1, "{broken}");
}
