//! How sure figures are: what is missing never makes one surer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ran, arg, run, unpack};
use serde_json::Value;

/// A lower bound and an estimate cannot be compared: each says something that the other does not.
fn is_exact(certainty: &str) -> bool {
    match certainty {
        "exact" => true,
        "at_least" | "estimate" | "sample" => false,
        other => panic!("{other}"),
    }
}

/// Every certainty of the rows that some commands show, by what it is about.
fn certainties(wal: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for command in [&["whatif", "--sample", "all"][..], &["dwb-size"], &["advise", "--sample", "1"]] {
        let ran = run("pg_walfpi", &[command, &["--format", "ndjson", arg(wal)]].concat());
        put(&mut all, command[0], &ran);
    }
    all
}

fn put(all: &mut BTreeMap<String, String>, command: &str, ran: &Ran) {
    assert!(ran.status <= 2, "{command}: {}", ran.stderr);
    let keys = ["setting", "every", "max_wal_size_bytes", "checkpoint_timeout_s", "guard", "part"];
    let more = ["remedy", "times", "method", "for", "layout", "setting_mb"];
    for row in ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let fields = row.as_object().unwrap();
        let sure = fields.iter().filter(|(name, value)| name.ends_with("certainty") && value.is_string());
        for (name, certainty) in sure {
            // Which method is the best one, and which sizes a need comes to, may differ with what is there.
            let needs = row["type"] == "buffer_need";
            let varies = |key: &str| (needs && key == "setting_mb") || (row["remedy"].is_string() && key == "method");
            let about: Vec<String> =
                keys.iter().chain(&more).filter(|key| !varies(key)).map(|key| row[*key].to_string()).collect();
            let key = format!("{command} {} {} {name}", row["type"], about.join(" "));
            all.insert(key, certainty.as_str().unwrap().to_owned());
        }
    }
}

/// False for a file that was given a new name and not written since: its first page has another address.
fn holds_own_wal(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    let number = |range: std::ops::Range<usize>| {
        u64::from_str_radix(&path.file_name().unwrap().to_str().unwrap()[range], 16).unwrap()
    };
    let address = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    address == (number(8..16) << 32) + number(16..24) * bytes.len() as u64
}

/// Segments of a fixture, in order.
fn segments(major: u32) -> Vec<PathBuf> {
    let wal = unpack::data_dir(&format!("wal/pg{major}")).unwrap().join("pg_wal");
    let mut segments: Vec<PathBuf> = fs::read_dir(wal).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24 && holds_own_wal(path));
    segments.sort();
    segments
}

/// Some of them, alone in a directory.
fn directory_of<'s>(segments: impl Iterator<Item = &'s PathBuf>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for segment in segments {
        fs::copy(segment, directory.path().join(segment.file_name().unwrap())).unwrap();
    }
    directory
}

fn none_is_surer(whole: &BTreeMap<String, String>, rest: &BTreeMap<String, String>, what: &str) {
    let mut compared = 0;
    for (key, certainty) in rest {
        // A remedy may be of use for the rest alone.
        let Some(before) = whole.get(key) else { continue };
        assert!(is_exact(before) || !is_exact(certainty), "{what}: {key} was {before} and is {certainty}");
        compared += 1;
    }
    assert!(compared > 40, "{what}: {compared}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn no_figure_is_surer_when_wal_is_missing() {
    for major in [13, 18] {
        let segments = segments(major);
        let whole = certainties(directory_of(segments.iter()).path());
        // Enough to lose. What guards against torn pages save is "at least" there: the WAL begins before a redo point.
        assert!(whole.values().filter(|certainty| *certainty == "exact").count() >= 8, "{major}: {whole:?}");
        for cut in [1, segments.len() / 2] {
            let mut rest = certainties(directory_of(segments.iter().skip(cut)).path());
            // Records that leave open which images other checkpoints spare may all lie in what was cut.
            rest.retain(|key, _| !key.contains("every_nth") && !key.contains("fewer_checkpoints"));
            none_is_surer(&whole, &rest, &format!("{major} without the first {cut}"));
        }
        let middle = segments.len() / 2;
        let rest = segments.iter().enumerate().filter(|(index, _)| *index != middle).map(|(_, segment)| segment);
        let gap = certainties(directory_of(rest).path());
        none_is_surer(&whole, &gap, &format!("{major} without segment {middle}"));
        // A sum over what is left is no sum over all.
        let exact: Vec<_> = gap.iter().filter(|(_, certainty)| *certainty == "exact").collect();
        assert!(exact.is_empty(), "{major}: {exact:?}");
        let damaged = directory_of(segments.iter());
        let path = damaged.path().join(segments[middle].file_name().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        // Within the records: after them a segment may end in zeros.
        let at = 3 * 8192 + 4000;
        assert!(bytes[at..at + 64].iter().any(|byte| *byte != 0), "{major}");
        bytes[at..at + 64].fill(0xA5);
        fs::write(&path, bytes).unwrap();
        let after = certainties(damaged.path());
        none_is_surer(&whole, &after, &format!("{major} with damage"));
        let exact: Vec<_> = after.iter().filter(|(_, certainty)| *certainty == "exact").collect();
        assert!(exact.is_empty(), "{major}: {exact:?}");
    }
}

/// Rows of one type that `whatif` shows of the rest of a fixture, with the first of its segments left out.
fn rows_without(major: u32, left_out: usize, kind: &str) -> Vec<Value> {
    let directory = directory_of(segments(major).iter().skip(left_out));
    let ran = run("pg_walfpi", &["whatif", "--format", "ndjson", "--sample", "1", arg(directory.path())]);
    let rows = ran.of_type(kind);
    assert!(!rows.is_empty(), "{major} {left_out}: {}{}", ran.stdout, ran.stderr);
    rows
}

#[test]
fn what_depends_on_wal_before_the_first_redo_point_is_not_exact() {
    // All of a cluster's WAL begins with a checkpoint: nothing is open.
    let from_the_start = &rows_without(10, 0, "spacing")[0];
    assert_eq!((&from_the_start["certainty"], &from_the_start["replay_certainty"]), (&"exact".into(), &"exact".into()));
    for major in [13, 18] {
        let mut seen = [false; 2];
        for left_out in 1..segments(major).len() - 1 {
            let spacing = rows_without(major, left_out, "spacing");
            // Recovery after a crash before the first checkpoint that is there would have begun earlier.
            assert_eq!(spacing[0]["replay_certainty"], "at_least", "{major} {left_out}");
            assert_eq!(spacing[0]["certainty"], "exact", "{major} {left_out}");
            seen[0] |= spacing.iter().skip(1).take(3).all(|row| row["certainty"] != "exact");
            let hints = rows_without(major, left_out, "hint");
            assert_eq!(hints[0]["certainty"], "exact", "{major} {left_out}");
            seen[1] |= hints[1]["certainty"] == "estimate";
        }
        assert_eq!(seen, [true; 2], "{major}");
    }
}
