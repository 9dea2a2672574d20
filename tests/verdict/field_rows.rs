//! Maps and rows that do not fit their table, its catalog row or the counters.

use crate::common::edit::ClusterCopy;
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
