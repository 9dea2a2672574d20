//! Torn pages of clusters without data checksums: rows and index entries against WAL, on real page versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::edit::{ClusterCopy, Key, PAGE, page_lsn, same_page, slot_at, slot_offset};
use crate::common::truth::{Checked, check_with, page_of};
use crate::common::{arg, copy_of, copy_tree, dwbinspect, unpack};
use pgforensics::inspect::check::{CheckRequest, check};
use serde_json::Value;

/// The redo point of `nochecksums-mixed`.
const REDO: u64 = 0x26E_BF38;

fn mixed() -> PathBuf {
    unpack::data_dir("cases/nochecksums-mixed").unwrap()
}

/// A page as `page` shows it.
fn page(data: &Path, relation: &str, block: &str) -> Value {
    let ran = dwbinspect(&["page", arg(data), relation, block, "--format", "ndjson"]);
    ran.of_type("page").pop().unwrap_or_else(|| panic!("{}", ran.stderr))
}

#[test]
fn page_that_two_slots_explain_only_together_is_torn() {
    // By the fixture's README: each page equals one slot but for its end, and another but for its beginning.
    for (relation, block) in [("5/16430", "143"), ("5/16443", "16")] {
        let row = page(&mixed(), relation, block);
        assert_eq!((&row["disk"], &row["strength"]), (&"torn".into(), &"proven".into()), "{row:#}");
    }
}

/// The versions from the redo point on of every page in main forks of database 5 that has a file and is as long as that,
/// oldest first.
fn versions(data: &Path) -> BTreeMap<Key, BTreeMap<u64, Vec<u8>>> {
    let buffer = data.join("pg_dwbuf/dwbuf_000");
    let slots = (fs::metadata(&buffer).unwrap().len() - 40) / (40 + PAGE as u64);
    let mut versions: BTreeMap<Key, BTreeMap<u64, Vec<u8>>> = BTreeMap::new();
    for index in 0..u32::try_from(slots).unwrap() {
        let (key, _, image) = slot_at(&buffer, slot_offset(index));
        let is_there = (key.spc, key.db, key.fork) == (1663, 5, 0) && data.join(key.file()).exists();
        if is_there && page_lsn(&image) >= REDO && page_of(data, &key.file(), key.block).len() == PAGE {
            versions.entry(key).or_default().insert(page_lsn(&image), image);
        }
    }
    versions
}

/// A copy of the cluster without its double write buffer, so that only WAL can tell, in which `choose` made some pages anew.
fn rewritten(
    choose: impl Fn(usize, &BTreeMap<u64, Vec<u8>>) -> Option<Vec<u8>>,
) -> (tempfile::TempDir, PathBuf, BTreeSet<Key>) {
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = keep.path().join("data");
    copy_tree(&mixed(), &data);
    let mut changed = BTreeSet::new();
    for (number, (key, versions)) in versions(&mixed()).iter().enumerate() {
        let Some(bytes) = choose(number, versions) else { continue };
        let file = fs::OpenOptions::new().write(true).open(data.join(key.file())).unwrap();
        file.write_all_at(&bytes, u64::from(key.block) * PAGE as u64).unwrap();
        changed.insert(*key);
    }
    fs::remove_dir_all(data.join("pg_dwbuf")).unwrap();
    fs::create_dir(data.join("pg_dwbuf")).unwrap();
    (keep, data, changed)
}

fn seen(checked: &Checked, keys: &BTreeSet<Key>) -> BTreeSet<Key> {
    keys.iter().copied().filter(|key| checked.page(*key).is_some()).collect()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn whole_versions_are_no_torn_pages() {
    // The oldest version since the redo point is what stands on disk when no later write arrived.
    for choice in [0, 1] {
        let (_keep, data, changed) = rewritten(|_, versions| versions.values().nth(choice).cloned());
        assert!(changed.len() > 100, "{}", changed.len());
        let checked = check_with(&data, &[]);
        let found = seen(&checked, &changed);
        assert!(found.is_empty(), "{:#?}", found.iter().map(|key| checked.page(*key)).collect::<Vec<_>>());
        // Records are kept of pages that something contradicts only: of all of them there is no room in a large cluster.
        let examined = check(&CheckRequest::of(&data), &()).unwrap();
        let (kept, rewritten) = (examined.report.interest.pages().len(), changed.len());
        assert!(kept < rewritten / 4, "{kept} of {rewritten}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn two_versions_in_one_page_are_seen_by_wal_alone() {
    // Head or tail of each version over the one before it, broken at 4 KiB or elsewhere.
    let tear = |number: usize, versions: &BTreeMap<u64, Vec<u8>>| {
        let [old, new] = versions.values().take(2).collect::<Vec<_>>().try_into().ok()?;
        let at = if number.is_multiple_of(2) { 4096 } else { 512 * (1 + number % 15) };
        let (front, back) = if number.is_multiple_of(3) { (old, new) } else { (new, old) };
        let torn = [&front[..at], &back[at..]].concat();
        (!same_page(&torn, old) && !same_page(&torn, new)).then_some(torn)
    };
    let (_keep, data, torn) = rewritten(tear);
    let checked = check_with(&data, &[]);
    let found = seen(&checked, &torn);
    // What differs in the others may be hint bits or unused space.
    let missed: Vec<String> = torn.difference(&found).map(|key| format!("{} {}", key.rel, key.block)).collect();
    assert!(torn.len() > 100 && found.len() >= 60, "{} of {}; not {missed:?}", found.len(), torn.len());
    assert!(found.iter().all(|key| checked.page(*key).unwrap()["verdict"] != "restore"), "there is no image left");
    assert_eq!(checked.summary["on_start"]["start"], "may_stop");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn page_that_neither_wal_nor_an_image_speaks_of_is_examined_too() {
    // pg_depend_depender_index of template1, as the second half of it never arrived: entries without a length. Nothing writes there.
    const TORN: (&str, u64) = ("base/1/2673", 1);
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = keep.path().join("data");
    copy_tree(&mixed(), &data);
    let counts = |data: &Path| {
        let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
        let torn = ran.of_type("page").into_iter().filter(|page| page["path"] == TORN.0).collect::<Vec<_>>();
        let unproven = ran.of_type("summary").pop().unwrap()["unproven_pages"].as_u64().unwrap();
        (torn, unproven)
    };
    let (torn, unproven) = counts(&data);
    assert_eq!(torn, Vec::<Value>::new());

    let file = fs::OpenOptions::new().write(true).open(data.join(TORN.0)).unwrap();
    let at = TORN.1 * PAGE as u64;
    file.write_all_at(&[0; PAGE / 2], at + PAGE as u64 / 2).unwrap();
    let (torn, still_unproven) = counts(&data);
    let [page] = torn.as_slice() else { panic!("{torn:?}") };
    assert_eq!((&page["block"], &page["disk"], &page["strength"]), (&1.into(), &"torn".into(), &"likely".into()));
    assert_eq!(still_unproven, unproven - 1);
}

/// A torn page of the catalog can make another index the table of an index: what its entries lead to is no row there. Here the file of
/// `pgbench_accounts` holds pages of its primary key.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn file_that_is_none_of_a_table_lacks_no_pages() {
    let copy = ClusterCopy::of("nochecksums");
    let missing = |checked: &Checked| {
        let is_missing = |row: &&Value| {
            row["path"] == "base/5/16399" && row["damage"][0].as_str().unwrap().contains("points to a row in it")
        };
        checked.pages.iter().filter(is_missing).count()
    };
    let index = copy.read("base/5/16407");
    let table = copy.read("base/5/16399");
    // Cut short, it lacks pages that its index names, and its visibility map would.
    copy.remove("base/5/16399_vm");
    copy.write("base/5/16399", &table[..8 * PAGE]);
    let checked = check_with(copy.data(), &[]);
    assert!(missing(&checked) > 100, "{}", checked.summary);
    copy.write("base/5/16399", &index[..8 * PAGE]);
    let checked = check_with(copy.data(), &[]);
    let told = checked.ran.of_type("skipped");
    let is_told = |one: &Value| {
        let reason = one["reason"].as_str().unwrap();
        one["cause"] == "name_gap" && reason.contains("belongs to table 1663/5/16399, whose file is not one of a table")
    };
    assert!(told.iter().any(is_told), "{told:?}");
    assert_eq!((missing(&checked), checked.ran.status), (0, 2));
}

/// The server used its double write buffer, whatever became of that and of the settings since: WAL has no image of the pages that it changed.
#[test]
fn pages_that_wal_has_no_image_of_are_unproven_whatever_the_settings_say() {
    let (keep, data) = copy_of("nochecksums");
    let status = || dwbinspect(&["check", arg(&data)]).status;
    let journal = keep.path().join("journal");
    dwbinspect(&["repair", arg(&data), "--apply", "--journal", arg(&journal)]);
    assert!(check_with(&data, &[]).pages.iter().all(|page| page["verdict"] == "leave"));
    let conf = data.join("postgresql.conf");
    let sound = fs::read_to_string(&conf).unwrap();
    let setting = "double_write_buffer=on";
    assert!(sound.contains(setting));
    for is_lost in [false, true] {
        if is_lost {
            fs::remove_dir_all(data.join("pg_dwbuf")).unwrap();
        }
        for said in [Some(setting), Some("double_write_buffer=off"), Some(""), None] {
            match said {
                Some(said) => fs::write(&conf, sound.replace(setting, said)).unwrap(),
                None => fs::remove_file(&conf).unwrap(),
            }
            assert_eq!(status(), 2, "{said:?}, lost: {is_lost}");
        }
        fs::write(&conf, &sound).unwrap();
    }
}
