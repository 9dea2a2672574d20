//! Clusters of a server with a double write buffer in `pg_dwb` that was built from its published source: what a start of it did to each page is
//! in the truth beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common::{Ran, arg, copy_tree, dwbinspect, unpack};
use pgforensics::analysis::dwb::format::open_buffer;
use serde_json::Value;
use sha2::{Digest, Sha256};

const BLOCK: usize = 8192;

/// File of a relation without its fork, fork, block.
type Key = (String, String, u64);

fn truth(case: &str) -> Value {
    let path = unpack::fixtures().join(format!("dwb-b/{case}.truth.json"));
    serde_json::from_slice(&fs::read(path).expect("truth")).expect("JSON")
}

fn data(case: &str) -> PathBuf {
    unpack::data_dir(&format!("dwb-b/{case}")).expect("unpack fixture")
}

fn checked(case: &str) -> Ran {
    dwbinspect(&["check", "--format", "ndjson", arg(&data(case))])
}

fn pages_of(case: &str) -> BTreeMap<Key, Value> {
    let of = |page: &Value| {
        let file = page["file"].as_str().expect("file").to_owned();
        let (base, fork) = file.rsplit_once('_').unwrap_or((&file, "main"));
        (base.to_owned(), fork.to_owned(), page["block"].as_u64().expect("block"))
    };
    truth(case)["pages"].as_array().expect("pages").iter().map(|page| (of(page), page.clone())).collect()
}

fn key(row: &Value) -> Key {
    let word = |name: &str| row[name].as_str().expect(name).to_owned();
    let number = |name: &str| row[name].as_u64().expect(name);
    let path = format!("base/{}/{}", number("db_oid"), number("rel_number"));
    (path, word("fork"), number("block"))
}

/// SHA-256 of the image that a check chose, its first 16 digits.
fn image(case: &str, row: &Value) -> String {
    let chosen = &row["chosen"];
    let set = open_buffer(&data(case), Some(BLOCK as u32));
    let name = chosen["file"].as_str().expect("file");
    let file = set.files.iter().find(|file| file.name == name).expect("batch file");
    let mut slots = file.slots();
    let mut at = 0;
    while let Some(slot) = slots.next_slot() {
        let slot = slot.expect("read");
        if Some(at) == chosen["slot_index"].as_u64() {
            let digest = Sha256::digest(slot.image);
            return digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        }
        at += 1;
    }
    panic!("no slot {chosen}")
}

#[test]
fn images_that_are_put_back_are_those_that_the_server_meant() {
    let mut restored = 0;
    for case in ["torn", "ring_torn", "standby"] {
        let truth = pages_of(case);
        let ran = checked(case);
        assert_eq!(ran.status, 1, "{case}: {}", ran.stderr);
        for row in ran.of_type("page") {
            let page = truth.get(&key(&row)).unwrap_or_else(|| panic!("{case}: {row} is no damaged page"));
            match row["verdict"].as_str().expect("verdict") {
                "restore" => {
                    assert_eq!(image(case, &row), page["sha_new"], "{case} {row}");
                    restored += 1;
                }
                verdict => assert_eq!(verdict, "heals_in_replay", "{case} {row}"),
            }
        }
        let summary = &ran.of_type("summary")[0];
        assert_eq!(summary["on_start"]["start"], "completes", "{case}: {summary}");
        assert_eq!(summary["on_start"]["stay_damaged"], 0, "{case}: {summary}");
    }
    assert_eq!(restored, 45 + 19 + 38);
}

#[test]
fn nothing_is_wrong_where_no_page_was_torn() {
    let ran = checked("crash");
    assert_eq!((ran.status, ran.of_type("page").len()), (0, 0), "{}", ran.stdout);
    // Two batches that were being written are no damage.
    let ran = checked("ring_torn");
    let problems: Vec<Value> =
        ran.of_type("finding").into_iter().filter(|found| found["severity"] == "problem").collect();
    assert!(problems.iter().all(|found| found["kind"] == "damaged_pages"), "{problems:?}");
}

#[test]
fn start_that_writes_older_images_is_said_to_lose_changes() {
    let ran = checked("stale_winner");
    let pages = ran.of_type("page");
    assert_eq!((ran.status, pages.len()), (1, 3));
    for page in &pages {
        assert_eq!(
            (&page["verdict"], &page["on_start"]["what"]),
            (&"loses_changes".into(), &"overwritten".into()),
            "{page}"
        );
    }
    let on_start = &ran.of_type("summary")[0]["on_start"];
    assert_eq!((&on_start["server_loses"], &on_start["server_restores"]), (&3.into(), &0.into()), "{on_start}");
    let text = dwbinspect(&["check", "--explain", "--width", "400", arg(&data("stale_winner"))]).stdout;
    assert!(
        text.starts_with("WILL START, DAMAGE REMAINS\n    the server overwrites 3 pages with older images"),
        "{text}"
    );
    assert!(text.contains("Add no backup_label"), "a backup_label empties the buffer: {text}");
}

#[test]
fn ring_that_was_closed_in_order_has_no_slots_that_count() {
    let ran = dwbinspect(&["info", "--format", "json", arg(&data("clean_rot"))]);
    let document: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(document["rings"][0]["slots_that_count"], "0", "{}", document["rings"]);
    // WAL shows that the pages were not changed after their images.
    let truth = pages_of("clean_rot");
    let pages = checked("clean_rot").of_type("page");
    assert_eq!(pages.len(), 3);
    for row in &pages {
        assert_eq!(row["verdict"], "restore", "{row}");
        assert_eq!(image("clean_rot", row), truth[&key(row)]["sha_new"], "{row}");
    }
}

#[test]
fn ring_of_another_cluster_is_not_let_loose_on_whole_pages() {
    for (case, other) in [("crash", "torn"), ("crash", "ring_torn"), ("torn", "ring_torn"), ("torn", "crash")] {
        let copy = tempfile::tempdir().expect("temporary directory");
        let own = copy.path().join("data");
        copy_tree(&data(case), &own);
        fs::remove_dir_all(own.join("pg_dwb")).expect("remove");
        copy_tree(&data(other).join("pg_dwb"), &own.join("pg_dwb"));
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(&own)]);
        assert_ne!(ran.status, 0, "{case} with the buffer of {other}: {}", ran.stdout);
        assert!(ran.of_type("finding").iter().any(|found| found["kind"] == "ring_of_strangers"), "{}", ran.stdout);
        assert!(ran.of_type("page").iter().all(|page| page["verdict"] != "restore"), "{}", ran.stdout);
    }
}

/// Four staging buffers can be caught in a write; a fifth batch that does not verify is damage.
#[test]
fn fifth_batch_that_does_not_verify_is_a_problem() {
    let copy = tempfile::tempdir().expect("temporary directory");
    let own = copy.path().join("data");
    copy_tree(&data("crash"), &own);
    let set = open_buffer(&own, Some(BLOCK as u32));
    let written =
        set.files.iter().filter(|file| file.detection.sound_header().is_some_and(|header| header.slots_per_file > 0));
    let names: Vec<PathBuf> = written.map(|file| own.join("pg_dwb").join(&file.name)).take(5).collect();
    assert_eq!(names.len(), 5, "batches that were written");
    for (spoilt, path) in (1..).zip(&names) {
        let mut bytes = fs::read(path).expect("batch");
        // Its 32 images are the end of the file.
        let images = bytes.len() - 32 * BLOCK;
        bytes[images..].iter_mut().for_each(|byte| *byte ^= 0x5A);
        fs::write(path, bytes).expect("write");
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(&own)]);
        let found = ran.of_type("finding");
        let bad: Vec<&Value> = found.iter().filter(|found| found["kind"] == "bad_slots").collect();
        assert_eq!(bad.len(), spoilt, "{}", ran.stdout);
        let expected = if spoilt <= 4 { "note" } else { "problem" };
        assert!(bad.iter().all(|found| found["severity"] == expected), "{spoilt}: {bad:?}");
        assert_eq!(ran.status, i32::from(spoilt > 4), "{spoilt}: {}", ran.stdout);
    }
}
