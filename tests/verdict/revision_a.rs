//! The layout whose slot CRC proves nothing: the image's own checksum and WAL take its place, and each part of that proof is
//! needed.

use serde_json::Value;

use crate::common::edit::{ClusterCopy, ControlField, DWB_FILE, Key, sealed, set_page_lsn, slot_at};
use crate::common::truth::{check, chosen_image, same_page, torn_writes};
use crate::common::wal_tail::WalTail;

/// Bytes of a slot's header, and from slot to slot.
const SLOT_HEADER: u64 = 48;
const STRIDE: u64 = SLOT_HEADER + 8192;
/// A torn page, and the slot that holds it alone.
const TORN: (Key, u32) = (Key::main(16_399, 278), 525);

fn offset_of(slot: u32) -> u64 {
    40 + u64::from(slot) * STRIDE
}

fn image_in(copy: &ClusterCopy, slot: u32) -> Vec<u8> {
    // The reader knows headers of 40 bytes.
    slot_at(&copy.data().join(DWB_FILE), offset_of(slot) + 8).2
}

fn row_of(copy: &ClusterCopy, key: Key) -> Option<Value> {
    check(copy.data()).page(key).cloned()
}

fn outcome_of(row: &Value, slot: u32) -> Option<&str> {
    let candidates = row["candidates"].as_array().unwrap();
    candidates.iter().find(|candidate| candidate["slot_index"] == slot)?["outcome"].as_str()
}

#[test]
fn images_are_put_back_as_the_server_meant_to_write_them() {
    let copy = ClusterCopy::of("reva");
    let torn = torn_writes("reva");
    let checked = check(copy.data());
    let restored: Vec<&Value> = checked.pages.iter().filter(|row| row["verdict"] == "restore").collect();
    assert_eq!(restored.len(), 17);
    for row in restored {
        let write = torn.iter().find(|torn| torn.is_in(row)).expect("a write that was cut");
        assert!(same_page(&chosen_image(copy.data(), row), &write.intended), "{row:#}");
    }
}

#[test]
fn spoiled_image_is_no_image() {
    let copy = ClusterCopy::of("reva");
    let (key, slot) = TORN;
    assert_eq!(outcome_of(&row_of(&copy, key).unwrap(), slot), Some("safe"));
    // A bit in the middle, of the checksum itself, of the LSN, and half of the image of another slot.
    for at in [5000, 8, 2] {
        copy.patch(DWB_FILE, offset_of(slot) + SLOT_HEADER + at, &[image_in(&copy, slot)[at as usize] ^ 1]);
        // No slot is left that names the page.
        assert_eq!(row_of(&copy, key), None, "{at}");
        copy.undo(DWB_FILE);
    }
    let other = image_in(&copy, slot + 1);
    copy.patch(DWB_FILE, offset_of(slot) + SLOT_HEADER + 4096, &other[4096..]);
    assert_eq!(row_of(&copy, key), None);
}

#[test]
fn slot_that_names_another_page_gives_it_nothing() {
    // Tablespace, database, relation, fork and block, none of which the slot's CRC covers for sure.
    let changes = [(0, 1664_u32), (4, 1), (8, 16_400), (12, 2), (16, 279)];
    for (at, number) in changes {
        let copy = ClusterCopy::of("reva");
        let (key, slot) = TORN;
        copy.patch(DWB_FILE, offset_of(slot) + at, &number.to_le_bytes());
        let checked = check(copy.data());
        assert_eq!(checked.page(key), None, "{at}: no slot names the page");
        let restored = checked.pages.iter().filter(|row| row["verdict"] == "restore").count();
        assert_eq!(restored, 16, "{at}: the other slots still hold their pages");
    }
}

#[test]
fn slot_with_another_lsn_than_its_image_is_not_trusted() {
    let copy = ClusterCopy::of("reva");
    let (key, slot) = TORN;
    copy.patch(DWB_FILE, offset_of(slot) + 24, &0x02E5_E7A8_u64.to_le_bytes());
    let row = row_of(&copy, key).unwrap();
    assert_eq!((&row["verdict"], outcome_of(&row, slot)), (&"restore_unproven".into(), Some("unproven")), "{row:#}");
}

#[test]
fn without_checksums_nothing_proves_a_slot() {
    let copy = ClusterCopy::of("reva");
    copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    let checked = check(copy.data());
    assert!(checked.pages.iter().all(|row| row["verdict"] != "restore"), "{:#?}", checked.summary);
    assert!(checked.pages.iter().any(|row| row["verdict"] == "restore_unproven"));
}

/// Puts content with a right checksum into a slot and names it.
fn put(copy: &ClusterCopy, slot: u32, key: Key, lsn: u64, image: &[u8]) {
    let start = offset_of(slot);
    copy.patch(DWB_FILE, start, &key.locator());
    copy.patch(DWB_FILE, start + 12, &u32::from(key.fork).to_le_bytes());
    copy.patch(DWB_FILE, start + 16, &key.block.to_le_bytes());
    copy.patch(DWB_FILE, start + 24, &lsn.to_le_bytes());
    copy.patch(DWB_FILE, start + SLOT_HEADER, &sealed(image, key.block));
}

#[test]
fn map_page_under_the_name_of_its_table_is_not_trusted() {
    let copy = ClusterCopy::of("reva");
    let table = Key::main(16_399, 0);
    let map = table.of_fork(2);
    let mut wal = WalTail::of(&copy);
    let change = wal.visible(map, table);
    wal.noop(8);
    wal.write(&copy);
    let (mut own, mut foreign) = (copy.page(table), copy.page(map));
    copy.set_page(table, &[&own[..4096], &[0x5A; 4096]].concat());
    set_page_lsn(&mut own, change.end);
    set_page_lsn(&mut foreign, change.end);
    let (_, slot) = TORN;
    // Both blocks have the number 0, so the checksum fits either, and both get the LSN of the record.
    put(&copy, slot, table, change.end, &foreign);
    let row = row_of(&copy, table).unwrap();
    assert_eq!(outcome_of(&row, slot), Some("unproven"), "{row:#}");
    put(&copy, slot, table, change.end, &own);
    let row = row_of(&copy, table).unwrap();
    assert_eq!(outcome_of(&row, slot), Some("safe"), "{row:#}");
}

#[test]
fn free_space_map_is_not_taken_on_the_word_of_a_slot() {
    let copy = ClusterCopy::of("reva");
    let map = Key::main(16_399, 0).of_fork(1);
    let page = copy.page(map);
    copy.set_page(map, &[&page[..4096], &[0x5A; 4096]].concat());
    let (_, slot) = TORN;
    put(&copy, slot, map, 0, &page);
    let row = row_of(&copy, map).unwrap();
    assert_eq!(outcome_of(&row, slot), Some("unproven"), "{row:#}");
}
