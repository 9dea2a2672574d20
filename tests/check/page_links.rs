//! Pages of an index that do not agree, on a cluster that was shut down cleanly, so that no WAL speaks of them. Each damaged
//! page gets its right checksum: nothing about it is wrong by itself.

use std::collections::BTreeSet;

use crate::common::edit::{ClusterCopy, ControlField, Key, page_lsn, sealed, set_page_lsn};
use crate::common::{DWB_CASES, Ran, arg, cluster, dwbinspect};
use serde_json::Value;

const BLOCK: usize = 8192;

/// `pg_attribute_relid_attnam_index` of database 5: block 0 is the metapage, 3 the root, 1, 2, 4 to 15 leaves in a chain.
const INDEX: u32 = 2658;

/// Where the special space of its pages begins: left, right, level, flags.
const SPECIAL: usize = BLOCK - 16;

/// A copy of `clean` in which this block of the index holds these bytes.
fn with_page(block: u32, change: impl FnOnce(&mut Vec<u8>)) -> ClusterCopy {
    let copy = ClusterCopy::of("clean");
    let mut page = copy.page(Key::main(INDEX, block));
    change(&mut page);
    let is_zero = page.iter().all(|byte| *byte == 0);
    copy.set_page(Key::main(INDEX, block), &if is_zero { page } else { sealed(&page, block) });
    copy
}

fn run(command: &str, copy: &ClusterCopy) -> Ran {
    dwbinspect(&[command, "--format", "ndjson", arg(copy.data())])
}

fn kinds(ran: &Ran) -> BTreeSet<String> {
    ran.of_type("finding").iter().map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn zeroed_leaf_is_damage_because_its_neighbours_and_its_parent_name_it() {
    let copy = with_page(7, |page| page.fill(0));
    let verified = run("verify", &copy);
    assert_eq!(verified.status, 1, "{}", verified.stderr);
    let findings = verified.of_type("finding");
    let found = findings.iter().find(|finding| finding["kind"] == "named_page_zeroed").expect("a finding");
    assert_eq!(found["file"], "base/5/2658");
    assert_eq!(found["offset"], "0xE000");
    let what = found["what"].as_str().unwrap();
    for namer in ["block 6 ", "block 8 ", "block 3 "] {
        assert!(what.contains(namer), "{what}");
    }
    let checked = run("check", &copy);
    // No LSN is left of the page; the server was shut down, so no page can be newer than WAL all the same.
    assert_eq!(checked.status, 1, "{}", checked.stderr);
    assert_eq!(checked.of_type("summary")[0]["doubt_codes"], serde_json::json!([]));
    let pages = checked.of_type("page");
    assert_eq!(pages.len(), 1, "{pages:?}");
    let page = &pages[0];
    assert_eq!((&page["block"], &page["disk"]), (&Value::from(7), &Value::from("zeroed")));
    assert_eq!(page["strength"], "proven");
    assert_ne!(page["verdict"], "restore", "an index page that was never an image's is not put back from nothing");
    assert_eq!(by_itself(&copy, 7), (1, page.clone()));
}

/// Status and page of `page` for a block of the index.
fn by_itself(copy: &ClusterCopy, block: u32) -> (i32, Value) {
    let ran = dwbinspect(&["page", "--format", "ndjson", arg(copy.data()), "base/5/2658", &block.to_string()]);
    (ran.status, ran.of_type("page").remove(0))
}

#[test]
fn leaf_that_names_another_left_sibling_disagrees() {
    // Block 7's left sibling is 6; it says 5 now, and nothing else about it is wrong.
    let copy = with_page(7, |page| page[SPECIAL..SPECIAL + 4].copy_from_slice(&5_u32.to_le_bytes()));
    for command in ["verify", "check"] {
        let ran = run(command, &copy);
        assert_eq!(ran.status, 1, "{command}: {}", ran.stderr);
        assert!(kinds(&ran).contains("siblings_disagree"), "{command}: {:?}", kinds(&ran));
    }
}

#[test]
fn leaf_of_another_level_disagrees_with_siblings_and_parent() {
    let copy = with_page(7, |page| page[SPECIAL + 8..SPECIAL + 12].copy_from_slice(&1_u32.to_le_bytes()));
    assert!(kinds(&run("verify", &copy)).contains("levels_disagree"));
}

#[test]
fn leaf_marked_deleted_is_named_by_others() {
    let copy = with_page(7, |page| page[SPECIAL + 12] |= 4);
    assert!(kinds(&run("verify", &copy)).contains("named_page_deleted"));
}

#[test]
fn index_that_ends_before_a_page_that_it_names_is_damaged() {
    let copy = ClusterCopy::of("clean");
    copy.cut("base/5/2658", 9 * BLOCK);
    let verified = run("verify", &copy);
    assert_eq!(verified.status, 1);
    assert!(kinds(&verified).contains("named_page_missing"), "{:?}", kinds(&verified));
    let checked = run("check", &copy);
    assert_eq!(checked.status, 1, "the server was shut down: no page that is gone can have been newer than WAL");
    let blocks: BTreeSet<u64> = checked.of_type("page").iter().map(|page| page["block"].as_u64().unwrap()).collect();
    assert!(blocks.contains(&9), "{blocks:?}");
    let (status, page) = by_itself(&copy, 9);
    assert_eq!((status, &page["damage_codes"]), (1, &serde_json::json!(["named_page_missing"])));
}

#[test]
fn pages_that_replay_may_still_change_are_not_compared() {
    // The same wrong link on a page that is newer than the redo point: replay has not come to its siblings yet.
    let copy = with_page(7, |page| {
        page[SPECIAL..SPECIAL + 4].copy_from_slice(&5_u32.to_le_bytes());
        page[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    assert!(!kinds(&run("verify", &copy)).contains("siblings_disagree"));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn sound_and_crashed_clusters_have_no_broken_links() {
    let words =
        ["siblings_disagree", "levels_disagree", "named_page_deleted", "named_page_zeroed", "named_page_missing"];
    for case in DWB_CASES {
        for command in ["verify", "check"] {
            let ran = dwbinspect(&[command, "--format", "ndjson", arg(&cluster(case))]);
            let found = kinds(&ran);
            assert!(words.iter().all(|word| !found.contains(*word)), "{case} {command}: {found:?}");
        }
    }
}

/// `clean` without checksums, in which the root of the index is one half of each of two versions, both of which the double
/// write buffer has; the newer names block 999 where the older names a page that is there. `is_torn`: else it is the newer.
fn with_root_of_two_versions(is_torn: bool) -> ClusterCopy {
    let copy = ClusterCopy::of("clean");
    copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    let key = Key::main(INDEX, 3);
    let older = copy.page(key);
    let mut newer = older.clone();
    set_page_lsn(&mut newer, page_lsn(&older) + 8);
    // The item of line pointer 1 lies last, right before the special space; its first six bytes name the child.
    let item = usize::from(u16::from_le_bytes([older[24], older[25]]) & 0x7FFF);
    assert!(item >= PAGE_HALF, "in the half that is of the newer version");
    newer[item..item + 4].copy_from_slice(&[0, 0, 0xE7, 0x03]);
    for (index, image) in (0..).zip([&older, &newer]) {
        copy.set_slot(index, index, key, page_lsn(image), image);
    }
    let half = if is_torn { &older } else { &newer };
    copy.set_page(key, &[&half[..PAGE_HALF], &newer[PAGE_HALF..]].concat());
    copy
}

const PAGE_HALF: usize = BLOCK / 2;

#[test]
fn page_that_only_a_torn_page_names_is_no_damage_without_checksums() {
    let ran = run("check", &with_root_of_two_versions(true));
    let pages = ran.of_type("page");
    let torn: Vec<_> = pages.iter().map(|page| (page["block"].as_u64().unwrap(), page["disk"].clone())).collect();
    assert_eq!(torn, [(3, Value::from("torn"))], "{pages:#?}");
    assert!(kinds(&ran).contains("links_of_damaged_pages") && !kinds(&ran).contains("named_page_missing"));
    // Where nothing speaks against the page that names it, it is missing: but no checksum proves that.
    let ran = run("check", &with_root_of_two_versions(false));
    let pages = ran.of_type("page");
    let missing = pages.iter().find(|page| page["block"] == 999).expect("the page that is named");
    assert_eq!((&missing["disk"], &missing["strength"]), (&Value::from("beyond_end"), &Value::from("likely")));
}

/// `clean`, with checksums or without, in which the root of the index names block 8,388,608, 64 GiB further on.
fn with_impossible_child(has_checksums: bool) -> ClusterCopy {
    let copy = with_page(3, |page| {
        let item = usize::from(u16::from_le_bytes([page[24], page[25]]) & 0x7FFF);
        page[item..item + 4].copy_from_slice(&[0x80, 0, 0, 0]);
    });
    if !has_checksums {
        copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    }
    copy
}

#[test]
fn page_that_names_what_cannot_have_been_is_in_doubt_itself_without_checksums() {
    let ran = run("check", &with_impossible_child(false));
    let pages = ran.of_type("page");
    let found: Vec<_> = pages.iter().map(|page| (&page["block"], &page["disk"], &page["strength"])).collect();
    assert_eq!(found, [(&Value::from(3), &Value::from("torn"), &Value::from("likely"))], "{pages:#?}");
    assert_eq!(pages[0]["damage_codes"], serde_json::json!(["impossible_links"]));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    // An image that is the same vouches for it, also when replay is to change it: what it names is said to be missing.
    for lsn in [None, Some(u64::MAX >> 8)] {
        let copy = with_impossible_child(false);
        let key = Key::main(INDEX, 3);
        let mut page = copy.page(key);
        if let Some(lsn) = lsn {
            set_page_lsn(&mut page, lsn);
            copy.set_page(key, &page);
        }
        copy.set_slot(0, 0, key, page_lsn(&page), &page);
        let ran = run("check", &copy);
        assert!(kinds(&ran).contains("named_page_missing"), "{lsn:?}: {:?}", kinds(&ran));
        assert_ne!(ran.status, 0);
        assert_eq!(ran.of_type("page"), Vec::<Value>::new(), "{lsn:?}");
    }
    // A checksum vouches for the page that names it: the named one is gone.
    let ran = run("check", &with_impossible_child(true));
    let blocks: Vec<Value> = ran.of_type("page").iter().map(|page| page["block"].clone()).collect();
    assert_eq!(blocks, [Value::from(8_388_608)]);
}

#[test]
fn page_whose_first_write_ended_early_is_torn_and_names_nothing() {
    let copy = with_page(7, |page| page[PAGE_HALF..].fill(0));
    copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    let ran = run("check", &copy);
    let pages = ran.of_type("page");
    assert_eq!(pages.len(), 1, "{pages:#?}");
    let page = &pages[0];
    assert_eq!((&page["block"], &page["disk"], &page["strength"]), (&7.into(), &"torn".into(), &"likely".into()));
    assert_eq!(page["damage_codes"], serde_json::json!(["items_special"]));
}
