//! Crashed clusters of PostgreSQL 19 as released, with what a server of it met.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::edit::ClusterCopy;
use crate::common::{arg, copy_tree, dwbinspect, run, unpack};

/// The server replayed to its end; `pg_checksums` found these four pages afterwards, and one page of a visibility map was zeroed when it was read.
#[test]
fn crash_of_the_release_candidate_is_foretold_to_the_page() {
    let data = unpack::data_dir("field/pg19rc1_crash").expect("unpack fixture");
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    // Of pages without a header nothing says how far WAL had been written.
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let page = |row: &Value| {
        let word = row["verdict"].as_str().expect("verdict").to_owned();
        (
            row["rel_number"].as_u64().expect("file"),
            row["fork"].as_str().expect("fork").to_owned(),
            row["block"].as_u64(),
            word,
        )
    };
    let rows: Vec<_> = ran.of_type("page").iter().map(page).collect();
    let of = |verdict: &str| -> Vec<(u64, &str, u64)> {
        let of = rows.iter().filter(|(.., word)| word == verdict);
        of.map(|(file, fork, block, _)| (*file, &**fork, block.expect("block"))).collect()
    };
    let stay = [(16395, "main", 24), (16396, "main", 1), (16397, "main", 0), (16406, "main", 48)];
    assert_eq!(of("no_image"), stay);
    assert_eq!(of("leave"), [(16398, "vm", 0)]);
    assert_eq!(of("heals_in_replay").len(), rows.len() - 5);
    let summary = &ran.of_type("summary")[0];
    assert_eq!(summary["on_start"]["start"], "completes");
    assert_eq!((&summary["redo_lsn"], &summary["end_lsn"]), (&"0/00EF0A90".into(), &"0/011B1858".into()), "{summary}");
}

/// Versions of `pg_control` and page magics that belong to no release are named and refused.
#[test]
fn betas_are_named_and_refused() {
    let from = unpack::data_dir("wal/pg19rc1").expect("unpack fixture");
    let words: BTreeMap<u32, &str> =
        [(1902, "a beta of 19 or a development tree"), (1904, "a development tree of 19")].into();
    for (version, words) in words {
        let copy = tempfile::tempdir().expect("temporary directory");
        let data = copy.path().join("data");
        copy_tree(&from, &data);
        let path = data.join("global/pg_control");
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        std::fs::write(&path, bytes).expect("write");
        let ran = dwbinspect(&["check", arg(&data)]);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ran.status, 2, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let ran = run("pg_walfpi", &["stats", arg(&from)]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// A record goes on in a segment that is not there: it was lost, unless the server was making it.
#[test]
fn segment_that_was_being_made_is_not_missing() {
    let case = ClusterCopy::of_archive("field/pg19rc1_crash");
    for number in 0x11..0x20 {
        let name = format!("pg_wal/0000000100000000000000{number:02X}");
        if case.exists(&name) {
            case.remove(&name);
        }
    }
    let says_cut_off = || {
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(case.data())]);
        ran.of_type("summary")[0]["doubt_codes"].as_array().expect("codes").contains(&"end_cut_off".into())
    };
    assert!(says_cut_off());
    let made = case.data().join("pg_wal/xlogtemp.4711");
    std::fs::create_dir(&made).expect("make");
    assert!(says_cut_off(), "a directory is no segment");
    std::fs::remove_dir(&made).expect("remove");
    std::fs::write(&made, [0; 4096]).expect("write");
    assert!(!says_cut_off());
}

#[test]
fn data_directory_below_is_named() {
    let from = unpack::data_dir("wal/pg18").expect("unpack fixture");
    let place = tempfile::tempdir().expect("temporary directory");
    copy_tree(&from, &place.path().join("18/docker"));
    for command in ["check", "verify", "info"] {
        let ran = dwbinspect(&[command, arg(place.path())]);
        assert_eq!(ran.status, 2, "{command}");
        assert!(ran.stderr.contains("did you mean") && ran.stderr.contains("18/docker?"), "{command}: {}", ran.stderr);
    }
}
