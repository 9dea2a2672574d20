//! Rows that came into a page without a record: no image from before them is what the page must be.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::truth::check_with;
use crate::common::{arg, copy_tree, dwbinspect, edit_control, temporary, unpack};

/// Offset of `wal_level` in `pg_control` of 12.
const WAL_LEVEL: usize = 172;
/// The same of `data_checksum_version`.
const CHECKSUMS: usize = 252;

/// The cluster with a byte of its table's only page changed.
fn damaged() -> (tempfile::TempDir, PathBuf) {
    let temporary = temporary();
    let data = temporary.path().join("data");
    copy_tree(&unpack::data_dir("cases/copy-without-wal").expect("unpack fixture"), &data);
    let file = table(&data);
    let mut bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 8192);
    bytes[7000] ^= 0xFF;
    fs::write(file, bytes).unwrap();
    (temporary, data)
}

fn table(data: &Path) -> PathBuf {
    data.join("base/13396/16384")
}

/// The verdict on the page, and the codes of what is said of its only image.
fn judged(data: &Path) -> (String, Vec<String>) {
    let checked = check_with(data, &[]);
    let [page] = checked.pages.as_slice() else { panic!("{:#?}", checked.pages) };
    let [candidate] = page["candidates"].as_array().unwrap().as_slice() else { panic!("{page:#}") };
    let codes = candidate["evidence"].as_array().unwrap().iter().map(|step| step["code"].as_str().unwrap().to_owned());
    (page["verdict"].as_str().unwrap().to_owned(), codes.collect())
}

#[test]
fn image_from_before_rows_that_copy_did_not_log_is_not_put_back() {
    let (keep, data) = damaged();
    let (verdict, codes) = judged(&data);
    assert_eq!(verdict, "restore_unproven", "{codes:?}");
    assert!(codes.iter().any(|code| code == "copies_unlogged"), "{codes:?}");
    let before = fs::read(table(&data)).unwrap();
    let ran = dwbinspect(&["repair", arg(&data), "--apply", "--journal", arg(&keep.path().join("journal"))]);
    assert_eq!(fs::read(table(&data)).unwrap(), before, "{}", ran.stdout);
    // The level alone makes the difference.
    edit_control(&data, WAL_LEVEL, &1_u32.to_le_bytes());
    assert_eq!(judged(&data).0, "restore");
}

#[test]
fn page_with_rows_that_copy_did_not_log_is_not_disproven_by_replay() {
    let temporary = temporary();
    let data = temporary.path().join("data");
    copy_tree(&unpack::data_dir("cases/copy-without-wal").expect("unpack fixture"), &data);
    edit_control(&data, CHECKSUMS, &0_u32.to_le_bytes());
    let ran = dwbinspect(&["check", "--prove", arg(&data), "--format", "ndjson"]);
    assert_eq!((ran.status, ran.of_type("page").len()), (2, 0), "{}", ran.stdout);
    let skipped = ran.of_type("skipped");
    let is_said = |row: &serde_json::Value| row["cause"] == "copies_unlogged" && row["part"] == "proof_by_replay";
    assert!(skipped.iter().any(is_said), "{skipped:#?}");
}
