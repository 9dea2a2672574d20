//! `pg_dwbinspect dump` on real crashed clusters, against what an independent reader says of the same bytes.

use std::collections::BTreeSet;
use std::fs;

use crate::common;
use crate::common::{DWB_CASES, arg, cell, cluster, dwbinspect, packed_rows, unpack};

/// Columns that the independent reader has too, under the same names.
const SHARED: [&str; 19] = [
    "file",
    "slot_index",
    "state",
    "slot_id",
    "spc_oid",
    "db_oid",
    "rel_number",
    "block",
    "slot_lsn",
    "page_lsn",
    "flags",
    "crc",
    "page_checksum",
    "pd_flags",
    "pd_lower",
    "pd_upper",
    "pd_special",
    "pd_pagesize_version",
    "pd_prune_xid",
];

#[test]
fn every_slot_field_equals_the_independent_reader() {
    for case in DWB_CASES {
        let expected = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.slots.tsv.zst")));
        let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&cluster(case))]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{case}");
        let slots = ran.of_type("slot");
        assert_eq!(slots.len(), expected.len(), "{case}");
        for (slot, row) in slots.iter().zip(&expected) {
            for name in SHARED {
                assert_eq!(cell(&slot[name]), row[name], "{case} {} {} {name}", row["file"], row["slot_index"]);
            }
            if row["state"] == "used" {
                assert_eq!(cell(&slot["fork"]), row["fork"], "{case} {} {}", row["file"], row["slot_index"]);
            }
        }
        let summary = ran.of_type("summary");
        assert_eq!(summary[0]["examined"], expected.len(), "{case}");
        assert_eq!(summary[0]["exit_status"], 0, "{case}");
    }
}

#[test]
fn all_formats_show_the_same_slots() {
    let path = cluster("tablespace");
    let lines = dwbinspect(&["dump", "--format", "ndjson", arg(&path)]).of_type("slot");
    let document: serde_json::Value =
        serde_json::from_str(&dwbinspect(&["dump", "--format", "json", arg(&path)]).stdout).unwrap();
    assert_eq!(document["slots"].as_array().unwrap(), &lines);
    assert_eq!(document["files"].as_array().unwrap().len(), 2);
    assert_eq!(document["begin"]["schema"], 3);

    let csv = dwbinspect(&["dump", "--format", "csv", arg(&path)]).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let mut fields = lines.iter().flat_map(|line| line.as_object().unwrap().keys()).filter(|key| *key != "type");
    assert_eq!(fields.find(|field| !header.iter().any(|column| column == *field)), None, "no column");
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), lines.len());
    for (row, slot) in rows.iter().zip(&lines).step_by(97) {
        for (name, value) in header.iter().zip(row).filter(|(name, _)| *name != "faults") {
            let wanted = if slot[name].is_null() { String::new() } else { cell(&slot[name]) };
            assert_eq!(value, wanted, "{name}");
        }
    }

    let text = dwbinspect(&["dump", arg(&path)]).stdout;
    assert_eq!(text.lines().filter(|line| line.contains(" good ")).count(), 4823);
    assert!(text.contains("001:2276-2546    never written (271)"), "{text}");
    assert!(text.contains(" postgres.pg_catalog.pg_class "), "{text}");
    // A name is never cut: the other columns stand after the longest.
    let columns: BTreeSet<usize> = text.lines().filter_map(|line| line.find(" main ")).collect();
    assert_eq!(columns.len(), 1, "{text}");
}

#[test]
fn batch_of_each_cluster() {
    // Positions by hand from LSNs against the end of the last checkpoint record, see the fixtures' README.
    for (case, current, stale, undecided) in [
        ("aligned", 30, 1335, 0),
        ("checkpoint", 3057, 0, 0),
        ("clean", 0, 382, 0),
        ("evict", 53, 0, 966),
        ("nochecksums", 32, 0, 987),
        ("reva", 1018, 0, 0),
        ("tablespace", 46, 0, 4777),
        ("wrapped", 64, 0, 63),
    ] {
        let slots = dwbinspect(&["dump", "--format", "ndjson", arg(&cluster(case))]).of_type("slot");
        let count = |batch: &str| slots.iter().filter(|slot| slot["batch"] == batch).count();
        assert_eq!((count("current"), count("stale"), count("undecided")), (current, stale, undecided), "{case}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn filters_take_what_they_say() {
    let path = cluster("tablespace");
    let all = dwbinspect(&["dump", "--format", "ndjson", arg(&path)]).of_type("slot");
    let hex = |slot: &serde_json::Value| {
        let (high, low) = slot["page_lsn"].as_str().unwrap().split_once('/').unwrap();
        u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
    };
    type Test<'a> = &'a dyn Fn(&serde_json::Value) -> bool;
    let cases: [(&[&str], Test<'_>); 11] = [
        (&["--file", "1"], &|s| s["file"] == "dwbuf_001"),
        (&["--file", "dwbuf_000", "--slots", "10-20"], &|s| {
            s["file"] == "dwbuf_000" && (10..=20).contains(&s["slot_index"].as_u64().unwrap())
        }),
        (&["--slots", "2540-"], &|s| s["slot_index"].as_u64().unwrap() >= 2540),
        (&["--relation", "16384/5/16419"], &|s| s["rel_number"] == 16_419),
        (&["--relation", "5/16400,1259"], &|s| s["rel_number"] == 16_400 || s["rel_number"] == 1259),
        (&["--fork", "vm,fsm"], &|s| s["state"] == "used" && s["fork"] != "main"),
        (&["--block", "3284"], &|s| s["block"] == 3284),
        (&["--lsn", "0/21A0000-0/21A5768"], &|s| (0x21A_0000..=0x21A_5768).contains(&hex(s))),
        (&["--state", "empty"], &|s| s["state"] == "empty"),
        (&["--state", "bad"], &|_| false),
        (&["--batch", "current"], &|s| s["batch"] == "current"),
    ];
    for (filter, takes) in cases {
        let args = [&["dump", "--format", "ndjson", arg(&path)], filter].concat();
        let ran = dwbinspect(&args);
        assert_eq!(ran.status, 0, "{filter:?}: {}", ran.stderr);
        let wanted: Vec<_> = all.iter().filter(|slot| takes(slot)).cloned().collect();
        assert_eq!(ran.of_type("slot"), wanted, "{filter:?}");
    }
}

#[test]
fn saved_images_are_the_bytes_of_the_slots() {
    let out = tempfile::tempdir().unwrap();
    let images = out.path().join("images");
    let file = cluster("evict").join("pg_dwbuf/dwbuf_000");
    let ran = dwbinspect(&["dump", "--slots", "14-20", "--images", arg(&images), arg(&cluster("evict"))]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let dwb = fs::read(file).unwrap();
    let mut names: Vec<String> =
        fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_by_key(|name| name.rsplit('-').next().unwrap().parse::<usize>().unwrap());
    assert_eq!(names.len(), 7);
    assert_eq!(names[0], "00000001-00000000-021A5510.1663.5.16399.1973_main.dwbuf_000-14");
    for (name, slot) in names.iter().zip(14..) {
        assert_eq!(fs::read(images.join(name)).unwrap(), dwb[40 + slot * 8232 + 40..][..8192], "{name}");
    }
    let again = dwbinspect(&["dump", "--slots", "14", "--images", arg(&images), arg(&cluster("evict"))]);
    assert_eq!(again.status, 2, "an existing file is never overwritten");
    assert!(again.stdout.contains("File exists"), "{}", again.stdout);
}

#[test]
fn images_are_not_written_into_the_data_directory() {
    let (_keep, data) = common::small_copy("wrapped");
    let inside = data.join("images");
    for target in [arg(&data), arg(&data.join("pg_dwbuf"))] {
        let ran = dwbinspect(&["dump", "--images", arg(&inside), target]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains("Choose a directory outside the data directory"), "{}", ran.stderr);
        assert!(!inside.exists());
    }
}

#[test]
fn hex_dump_names_every_part_of_a_page() {
    let ran = dwbinspect(&["dump", "--hex", "--slots", "14", arg(&cluster("evict"))]);
    insta::with_settings!({ filters => vec![(r"names process \d+", "names process [PID]")] }, {
        insta::assert_snapshot!("hex_heap_page", ran.stdout);
    });
}

#[test]
fn single_files_and_the_buffer_directory_are_accepted() {
    let data = cluster("tablespace");
    let directory = data.join("pg_dwbuf");
    let whole = dwbinspect(&["dump", "--format", "ndjson", arg(&directory)]);
    assert_eq!((whole.status, whole.of_type("slot").len()), (0, 5094));
    let (first, second) = (directory.join("dwbuf_000"), directory.join("dwbuf_001"));
    let both = dwbinspect(&["dump", "--format", "ndjson", arg(&first), arg(&second)]);
    assert_eq!((both.status, both.of_type("slot").len()), (0, 5094));
    // Without the control file a header alone proves nothing.
    assert!(both.of_type("slot").iter().all(|slot| slot["state"] == "empty" || slot["batch"] == "undecided"));
    let current = |ran: &common::Ran| ran.of_type("slot").iter().filter(|slot| slot["batch"] == "current").count();
    assert_eq!((current(&whole), current(&both)), (46, 0));
    let copied = tempfile::tempdir().unwrap();
    fs::copy(&first, copied.path().join("dwbuf_000")).unwrap();
    assert_eq!(current(&dwbinspect(&["dump", "--format", "ndjson", arg(copied.path())])), 0);
    let one = dwbinspect(&["dump", "--format", "ndjson", arg(&second)]);
    assert_eq!((one.status, one.of_type("slot").len()), (0, 2547));
}
