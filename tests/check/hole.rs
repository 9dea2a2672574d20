//! Without checksums: what an older image holds where a page has its hole may be left there, and the page is whole all the same.

use crate::common::edit::{ClusterCopy, ControlField, Key, page_lsn, set_page_lsn};
use crate::common::{arg, dwbinspect, run};
use serde_json::Value;

const SECTOR: usize = 512;

fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

/// Heap pages of which WAL has an image, and that image as redo leaves it.
fn heap_images(copy: &ClusterCopy) -> Vec<(Key, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("images");
    assert_eq!(run("pg_walfpi", &["extract", arg(&to), arg(copy.data())]).status, 0);
    let mut names: Vec<_> =
        std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let image = |name: &String| {
        // TIMELINE-LSN.SPC.DB.REL.BLOCK_FORK
        let parts: Vec<&str> = name.split('.').collect();
        let [_, "1663", db, rel, last] = parts[..] else { return None };
        let block = last.strip_suffix("_main")?;
        let page = std::fs::read(to.join(name)).ok()?;
        let key = Key { db: db.parse().ok()?, ..Key::main(rel.parse().ok()?, block.parse().ok()?) };
        (u16_at(&page, 16) == page.len() && copy.exists(&key.file())).then_some((key, page))
    };
    names.iter().filter_map(image).collect()
}

#[test]
fn what_an_older_image_left_in_the_hole_makes_no_page_torn() {
    let copy = ClusterCopy::of_archive("cases/brin");
    copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    let has_large_hole = |page: &[u8]| u16_at(page, 12) < 2 * SECTOR && u16_at(page, 14) > 5 * SECTOR;
    // No record changed the page after it: else the image in its place would be a lost write.
    let is_last = |key: Key, page: &[u8]| page_lsn(&copy.page(key)) == page_lsn(page);
    let (key, newer) = heap_images(&copy)
        .into_iter()
        .find(|(key, page)| has_large_hole(page) && is_last(*key, page))
        .expect("an image with a hole");
    // The older version has rows where the newer has its hole.
    let mut older = newer.clone();
    set_page_lsn(&mut older, page_lsn(&newer) - 8);
    older[3 * SECTOR..4 * SECTOR].fill(0x5A);
    copy.set_slot(0, 0, key, page_lsn(&older), &older);

    let found = |page: &[u8]| -> Option<Value> {
        copy.set_page(key, page);
        let ran = dwbinspect(&["check", "--format", "ndjson", arg(copy.data())]);
        let is_it =
            |row: &Value| row["path"] == key.file().as_str() && row["block"] == key.block && row["fork"] == "main";
        ran.of_type("page").into_iter().find(is_it)
    };
    let mut whole = newer.clone();
    whole[3 * SECTOR..4 * SECTOR].copy_from_slice(&older[3 * SECTOR..4 * SECTOR]);
    assert_eq!(found(&whole), None);
    // With other rows at its end, too, that is a page of which only the first sector is the newer.
    let end = older.len();
    older[end - 8..].fill(0x5A);
    copy.set_slot(0, 0, key, page_lsn(&older), &older);
    let torn = [&newer[..SECTOR], &older[SECTOR..]].concat();
    let row = found(&torn).expect("a torn page");
    assert_eq!((&row["disk"], &row["strength"]), (&"torn".into(), &"proven".into()), "{row}");
}
