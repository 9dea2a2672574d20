//! Maps and rows that do not fit their table, its catalog row or the counters.

use crate::common::edit::{ClusterCopy, page_lsn, sealed, set_page_lsn};
use crate::common::{Ran, arg, dwbinspect, unpack};

fn examined(command: &str, case: &str) -> Ran {
    dwbinspect(&[
        command,
        "--format",
        "ndjson",
        arg(&unpack::data_dir(&format!("field/{case}")).expect("unpack fixture")),
    ])
}

/// The server 18.6: "invalid page in block 0 of relation base/5/16384_vm" in redo of `Heap/DELETE`. A page of zeros passes.
#[test]
fn map_page_that_redo_reads_stops_the_start_until_it_is_blank() {
    let ran = examined("check", "pg18.6_vm_clear");
    assert_eq!(ran.status, 1);
    let summary = &ran.of_type("summary")[0];
    assert_eq!(summary["on_start"]["start"], "stops", "{summary}");
    let steps: Vec<_> = summary["next"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert!(steps.iter().any(|step| step == "blank_maps_of_replay") && steps.iter().all(|step| step != "start"));
    let pages = ran.of_type("page");
    assert_eq!((pages.len(), &pages[0]["fork"], &pages[0]["verdict"]), (1, &"vm".into(), &"no_image".into()));

    let edited = ClusterCopy::of_archive("field/pg18.6_vm_clear");
    edited.patch("base/5/16384_vm", 0, &[0; 8192]);
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(edited.data())]);
    assert_eq!((ran.status, &ran.of_type("summary")[0]["on_start"]["start"]), (0, &"completes".into()));
}

/// The server 15: 3000 rows by an index-only scan, 2000 by a sequential one. 14 pages had rows deleted.
#[test]
fn older_map_is_found_after_a_crash() {
    for command in ["check", "verify"] {
        let ran = examined(command, "older_visibility_map_after_crash");
        let found = ran.of_type("finding");
        let of_map = found.iter().filter(|found| found["kind"] == "map_ahead" && found["file"] == "base/5/16384");
        assert_eq!((ran.status, of_map.count()), (1, 14), "{command}");
    }
}

/// The backend crashes when it reads column 2 of block 3 item 5.
#[test]
fn value_that_does_not_end_inside_its_row_is_named_by_block_and_item() {
    for command in ["check", "verify"] {
        let ran = examined(command, "heap_tuple_varlena_length");
        let found = ran.of_type("finding").into_iter().find(|found| found["kind"] == "row_fault").unwrap();
        assert_eq!((ran.status, found["offset"].as_str()), (1, Some("0x6000")), "{command}: {found}");
        assert!(found["what"].as_str().unwrap().contains("block 3 item 5"), "{found}");
    }
}

/// VACUUM of the server 15: "found xmin 600 from before relfrozenxid 725".
#[test]
fn transaction_from_before_the_freeze_bound_is_named() {
    let case = ClusterCopy::of_archive("field/heap_tuple_multixact_future");
    let page = case.read("base/5/16384");
    let at = 3 * 8192;
    // Line pointer of item 5, of which the low 15 bits are the offset of the tuple in its page.
    let pointer = u32::from_le_bytes(page[at + 24 + 4 * 4..][..4].try_into().unwrap());
    let tuple = at + (pointer & 0x7FFF) as usize;
    let infomask = u16::from_le_bytes(page[tuple + 20..][..2].try_into().unwrap());
    case.patch("base/5/16384", tuple as u64, &600_u32.to_le_bytes());
    // Committed, not frozen; nobody deleted it.
    let infomask = infomask & !0x1200 | 0x0900;
    case.patch("base/5/16384", tuple as u64 + 20, &infomask.to_le_bytes());
    for command in ["check", "verify"] {
        let ran = dwbinspect(&[command, "--format", "ndjson", arg(case.data())]);
        let found = ran.of_type("finding").into_iter().find(|found| found["kind"] == "row_fault").unwrap();
        let what = found["what"].as_str().unwrap();
        assert!(ran.status == 1 && what.contains("block 3 item 5") && what.contains("600"), "{command}: {found}");
        assert!(what.contains("725"), "{found}");
    }
}

/// Codes of the findings of a check, and whether a page is offered as free of loss.
fn codes_of(case: &ClusterCopy) -> (i32, Vec<String>) {
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(case.data())]);
    let proven = |page: &&serde_json::Value| page["verdict"] == "restore" || page["verdict"] == "rebuild";
    assert_eq!(ran.of_type("page").iter().filter(proven).count(), 0);
    let codes = ran.of_type("finding").iter().map(|found| found["kind"].as_str().unwrap().to_owned()).collect();
    (ran.status, codes)
}

/// A page with a right checksum and an LSN 8 bytes after the end of a record: none is that short.
#[test]
fn signed_page_with_an_lsn_of_no_record_takes_every_proof_away() {
    let case = ClusterCopy::of("clean");
    let mut newest: Option<(u64, String, usize)> = None;
    for name in
        case.names_in("base/5").into_iter().filter(|name| name.parse::<u32>().is_ok_and(|number| number >= 16384))
    {
        let file = format!("base/5/{name}");
        for (block, page) in case.read(&file).chunks_exact(8192).enumerate() {
            newest = newest.max(Some((page_lsn(page), file.clone(), block)));
        }
    }
    let (lsn, file, block) = newest.unwrap();
    let mut page = case.read(&file)[block * 8192..][..8192].to_vec();
    set_page_lsn(&mut page, lsn + 8);
    case.patch(&file, block as u64 * 8192, &sealed(&page, block as u32));
    let (status, codes) = codes_of(&case);
    assert_eq!(status, 2, "{codes:?}");
    assert!(codes.iter().any(|code| code == "page_of_no_record"), "{codes:?}");
}

/// Rows say of their transactions that they committed; a `pg_xact` of before them does not know that.
#[test]
fn older_pg_xact_is_seen_by_the_rows_after_a_shutdown() {
    let case = ClusterCopy::of("clean");
    let bytes = case.read("pg_xact/0000").len();
    // Of the transactions of initdb on all are unfinished: 4 in a byte.
    case.patch("pg_xact/0000", 184, &vec![0; bytes - 184]);
    for command in ["check", "verify"] {
        let ran = dwbinspect(&[command, "--format", "ndjson", arg(case.data())]);
        let codes = ran.of_type("finding");
        assert_ne!(ran.status, 0, "{command}");
        assert!(codes.iter().any(|found| found["kind"] == "xact_older"), "{command}: {codes:?}");
    }
}

#[test]
fn wal_without_the_checkpoint_of_pg_control_is_named_by_verify() {
    let case = ClusterCopy::of("clean");
    let verify = || dwbinspect(&["verify", "--format", "ndjson", arg(case.data())]);
    assert_eq!(verify().status, 0);
    for name in case.names_in("pg_wal").into_iter().filter(|name| name.len() == 24) {
        case.remove(&format!("pg_wal/{name}"));
    }
    let found = verify().of_type("finding");
    assert!(found.iter().any(|found| found["kind"] == "checkpoint_missing"), "{found:?}");
}

/// What was handed out in WAL that cannot be read is unknown, so no counters are given for a new `pg_control`.
#[test]
fn damaged_wal_gives_no_arguments_for_a_reset() {
    let case = ClusterCopy::of("wrapped");
    case.write("global/pg_control", b"");
    let has_step = || {
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(case.data())]);
        let next = ran.of_type("summary")[0]["next"].clone();
        next.as_array().unwrap().iter().any(|step| step["step"] == "reset_by_wal")
    };
    assert!(has_step());
    // WAL goes on in the next segment, up to 0/02228758.
    case.patch("pg_wal/000000010000000000000021", 0xC_0000, &[0xEE; 8192]);
    assert!(!has_step());
}
