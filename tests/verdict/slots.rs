//! What a slot holds and says: another page's content, a copy in the middle of a change, several images of one page.

use super::scene::{Row, Scene, torn_after_redo, torn_before_redo};
use crate::common::edit::{DWB_FILE, Key, page_lsn, sealed, set_page_lsn, torn, unsealed};
use crate::common::truth::Checked;

/// The page is torn, with an image of something else in the only slot that names it.
fn with_foreign_image(make: impl FnOnce(&mut Scene) -> Vec<u8>) -> (Scene, u32) {
    let mut scene = Scene::new();
    let image = make(&mut scene);
    let slot = scene.slot(&image);
    let newer = scene.version(b'!', scene.wal.end());
    scene.tear(&newer);
    scene.wal.noop(8);
    (scene, slot)
}

#[test]
fn content_of_another_block_is_never_restored() {
    // The other block's own change, so that its LSN is one that WAL knows.
    let (scene, slot) = with_foreign_image(|scene| {
        let other = scene.key.at(scene.key.block + 1);
        let change = scene.wal.change(other);
        let mut image = scene.copy.page(other);
        set_page_lsn(&mut image, change.end);
        sealed(&image, scene.key.block)
    });
    let row = scene.row();
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
    assert!(row.says("no_record_of_page"), "{row}");
}

#[test]
fn content_of_another_relation_is_never_restored() {
    for (what, other) in [("table", Key::main(16_400, 0)), ("index", Key::main(16_415, 1))] {
        let (scene, slot) = with_foreign_image(|scene| {
            let change = scene.wal.change(other);
            let mut image = scene.copy.page(other);
            set_page_lsn(&mut image, change.end);
            sealed(&image, scene.key.block)
        });
        let row = scene.row();
        assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{what}: {row}");
    }
}

#[test]
fn foreign_content_from_before_all_wal_is_not_restored() {
    // As it lies in the data file: nothing is known of its LSN, but its rows say where they stand.
    let (scene, slot) = with_foreign_image(|scene| scene.copy.page(scene.key.at(scene.key.block + 1)));
    let row = scene.row();
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
    assert!(row.says("rows_name_other_block"), "{row}");
    // That of an index does not even look like a page of a table.
    let (scene, slot) = with_foreign_image(|scene| {
        let mut image = scene.copy.page(Key::main(16_415, 1));
        set_page_lsn(&mut image, page_lsn(&scene.old));
        sealed(&image, scene.key.block)
    });
    let row = scene.row();
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
}

#[test]
fn slot_whose_lsn_is_not_that_of_its_image_is_not_trusted() {
    for shift in [-8_i64, 8] {
        let mut scene = Scene::new();
        let change = scene.wal.change(scene.key);
        let image = scene.version(b'!', change.end);
        let slot = scene.slot_of(scene.key, change.end.wrapping_add_signed(shift), &image);
        scene.tear(&image);
        let row = scene.row();
        row.assert_verdict("restore_unproven");
        assert_eq!(row.outcome_of(slot), "unproven");
        assert!(row.has_reason("slot_lsn_differs"), "{row}");
    }
}

/// Judges an image that was made by changing a good one.
fn with_changed_image(change: impl FnOnce(&mut [u8])) -> (Checked, Scene, u32) {
    let mut scene = Scene::new();
    let record = scene.wal.change(scene.key);
    let whole = scene.version(b'!', record.end);
    scene.tear(&whole);
    let mut image = whole.clone();
    change(&mut image);
    let slot = scene.slot(&sealed(&image, scene.key.block));
    (scene.check(), scene, slot)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn image_with_broken_structure_is_never_restored() {
    let first_tuple = |image: &[u8]| usize::from(u16::from_le_bytes([image[24], image[25]]) & 0x7FFF);
    for (what, change) in [
        (
            "pd_lower after pd_upper",
            (|image: &mut [u8]| image[12..14].copy_from_slice(&8000_u16.to_le_bytes())) as fn(&mut [u8]),
        ),
        ("pd_upper after pd_special", |image| image[14..16].copy_from_slice(&8191_u16.to_le_bytes())),
        ("pd_special not aligned", |image| image[16..18].copy_from_slice(&8188_u16.to_le_bytes())),
        ("unknown flag", |image| image[10] |= 0x40),
        ("other page size", |image| image[19] = 0x40),
        ("line pointer into the free space", |image| {
            image[24..28].copy_from_slice(&(30_u32 | 1 << 15 | 60 << 17).to_le_bytes())
        }),
        ("line pointer beyond the page", |image| {
            image[24..28].copy_from_slice(&(8100_u32 | 1 << 15 | 200 << 17).to_le_bytes())
        }),
        ("redirection to no item", |image| image[24..28].copy_from_slice(&(900_u32 | 2 << 15).to_le_bytes())),
    ] {
        let (checked, scene, slot) = with_changed_image(change);
        let row = Row::of(&checked, scene.key);
        assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{what}: {row}");
    }
    let (checked, scene, slot) = with_changed_image(|image| image[first_tuple(image) + 22] = 3);
    let row = Row::of(&checked, scene.key);
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "t_hoff: {row}");
}

#[test]
fn image_of_zeros_is_never_restored() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let slot = scene.slot_of(scene.key, change.end, &[0; 8192]);
    scene.tear(&scene.version(b'!', change.end));
    let row = scene.row();
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
}

#[test]
fn map_page_under_the_name_of_its_table_is_not_trusted() {
    // A buffer can be given to another page while a checkpoint copies it without a pin: here to the table's page, which
    // the same record changed.
    let mut scene = Scene::new();
    let map = scene.key.of_fork(2).at(0);
    let change = scene.wal.visible(map, scene.key);
    // A page of a visibility map that says of some pages that everybody sees all of their rows.
    let mut foreign = scene.old.clone();
    foreign[12..18].copy_from_slice(&[24, 0, 0, 0x20, 0, 0x20]);
    foreign[24..].fill(0);
    foreign[24..40].fill(0x55);
    set_page_lsn(&mut foreign, change.end);
    let slot = scene.slot(&unsealed(&foreign));
    scene.tear(&scene.version(b'!', change.end));
    let row = scene.row();
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("restore_unproven", "unproven"), "{row}");
    let own = scene.version(b'!', change.end);
    let slot = scene.slot(&unsealed(&own));
    scene.row().assert_restores(slot);
}

#[test]
fn copy_in_the_middle_of_a_change_is_never_restored() {
    // A checkpoint copies without a lock: the row of a later record is there, its LSN is not.
    for later_record in [true, false] {
        let mut scene = Scene::new();
        let first = scene.wal.change(scene.key);
        scene.wal.xid += 1;
        if later_record {
            scene.wal.change(scene.key);
        } else {
            scene.wal.noop(8);
        }
        let mut image = scene.version(b'!', first.end);
        scene.tear(&image);
        let tuple = usize::from(u16::from_le_bytes([image[24], image[25]]) & 0x7FFF);
        image[tuple..tuple + 4].copy_from_slice(&scene.wal.xid.to_le_bytes());
        // Neither known to have committed nor to have failed.
        image[tuple + 21] &= 0xFC;
        let slot = scene.slot(&unsealed(&image));
        let row = scene.row();
        assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
        let code = if later_record { "first_record_later" } else { "transaction_without_record" };
        assert!(row.says(code), "{code}: {row}");
    }
}

#[test]
fn copy_of_a_checkpoint_without_a_sign_of_change_is_restored() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&unsealed(&image));
    scene.tear(&image);
    let checked = scene.check();
    let row = Row::of(&checked, scene.key);
    row.assert_restores(slot);
    // The server's own recovery refuses the image for its checksum and stops; all other torn pages have good images.
    assert_eq!(row.on_start(), "read");
    assert_eq!(checked.summary["on_start"]["start"], "stops");
}

/// An image that was copied without a lock, and what comes next in WAL.
fn unlocked_before(next: impl FnOnce(&mut Scene)) -> (Row, u32) {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&unsealed(&image));
    scene.tear(&image);
    next(&mut scene);
    (scene.row(), slot)
}

#[test]
fn unlocked_copy_is_restored_only_when_it_shows_that_it_lacks_the_next_change() {
    // The item of the next row is free in the image.
    let (row, slot) = unlocked_before(|scene| {
        scene.wal.insert(scene.key, 250);
    });
    row.assert_restores(slot);
    // It is used: the row is there before its record.
    let (row, slot) = unlocked_before(|scene| {
        scene.wal.insert(scene.key, 1);
    });
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{row}");
    assert!(row.says("holds_next_change"), "{row}");
    // A row that is removed still stands at its place, so none had been moved.
    let (row, slot) = unlocked_before(|scene| {
        scene.wal.prune(scene.key, 9);
    });
    row.assert_restores(slot);
    // Of the row at the end of the page that does not show: it may have been copied first.
    let (row, slot) = unlocked_before(|scene| {
        scene.wal.prune(scene.key, 1);
    });
    assert_eq!((row.verdict(), row.outcome_of(slot)), ("restore_unproven", "unproven"), "{row}");
    assert!(row.says("may_hold_next_change"), "{row}");
}

#[test]
fn unlocked_copy_of_a_page_whose_rows_are_being_moved_is_not_restored() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let whole = scene.version(b'!', change.end);
    let place = |item: usize| {
        let word = u32::from_le_bytes(whole[20 + 4 * item..24 + 4 * item].try_into().unwrap());
        ((word & 0x7FFF) as usize, (word >> 17) as usize)
    };
    // Row 9 goes: row 10 has come to its end, while header and line pointers are as before.
    let ((gone, gone_bytes), (next, next_bytes)) = (place(9), place(10));
    let mut image = whole.clone();
    let room = next_bytes.next_multiple_of(8);
    image.copy_within(next..next + room, gone + gone_bytes.next_multiple_of(8) - room);
    let slot = scene.slot(&unsealed(&image));
    scene.tear(&whole);
    scene.wal.prune(scene.key, 9);
    let row = scene.row();
    assert_eq!(row.outcome_of(slot), "unproven", "{row}");
}

#[test]
fn unlocked_copy_of_an_index_page_is_restored_only_when_an_insertion_has_not_begun() {
    // Number 1 of a leaf is the upper end of its keys, so new entries begin at 2.
    let told = |half: &dyn Fn(&mut [u8])| {
        let mut scene = Scene::new();
        scene.key = Key::main(16_415, 3);
        let old = scene.copy.page(scene.key);
        let record = scene.wal.change(scene.key);
        let mut whole = old.clone();
        set_page_lsn(&mut whole, record.end);
        let mut image = whole.clone();
        half(&mut image);
        let slot = scene.slot(&unsealed(&image));
        let mut disk = torn(&whole, &old, 512);
        disk[4096] ^= 0xFF;
        scene.set_disk(&disk);
        let mut tuple = vec![0x77; 16];
        tuple[6..8].copy_from_slice(&[16, 0]);
        scene.wal.insert_entry(scene.key, 2, &tuple);
        scene.row().outcome_of(slot).to_owned()
    };
    assert_eq!(told(&|_| ()), "safe");
    // The line pointers from the third on have moved on already; the header has not.
    let moved = |page: &mut [u8]| {
        let lower = usize::from(u16::from_le_bytes([page[12], page[13]]));
        page.copy_within(32..lower - 4, 36);
    };
    assert_eq!(told(&moved), "unproven");
    // The header says that there is one more tuple, of which nothing is there.
    let announced = |page: &mut [u8]| {
        let upper = u16::from_le_bytes([page[14], page[15]]) - 16;
        page[14..16].copy_from_slice(&upper.to_le_bytes());
    };
    assert_eq!(told(&announced), "unproven");
}

#[test]
fn locked_copy_is_what_its_lsn_says() {
    let (scene, slot) = torn_after_redo(|scene| {
        scene.wal.prune(scene.key, 1);
    });
    scene.row().assert_restores(slot);
}

#[test]
fn unlocked_copy_of_an_index_page_with_the_lsn_of_two_blocks_is_not_proven() {
    let image_of = |seal: bool, partner: bool| {
        let mut scene = Scene::new();
        scene.key = Key::main(16_415, 3);
        let other = scene.key.at(if partner { 4 } else { 3 });
        let record = if partner { scene.wal.unlink(scene.key, other) } else { scene.wal.change(scene.key) };
        let mut image = scene.copy.page(scene.key);
        set_page_lsn(&mut image, record.end);
        let image = sealed(&image, scene.key.block);
        let old = scene.copy.page(scene.key);
        let slot = scene.slot(&if seal { image.clone() } else { unsealed(&image) });
        let mut disk = torn(&image, &old, 512);
        disk[4096] ^= 0xFF;
        scene.set_disk(&disk);
        (scene.row(), slot)
    };
    let (row, slot) = image_of(false, true);
    assert_eq!(row.outcome_of(slot), "unproven", "{row}");
    assert!(row.says("same_lsn_as_blocks"), "{row}");
    // One block in the record, or a checksum, which is of one block only.
    for (seal, partner) in [(false, false), (true, true)] {
        let (row, slot) = image_of(seal, partner);
        assert_eq!(row.outcome_of(slot), "safe", "{seal} {partner}: {row}");
    }
}

#[test]
fn metapage_is_never_restored_into_another_block() {
    let mut scene = Scene::new();
    scene.key = Key::main(16_415, 3);
    let record = scene.wal.unlink(scene.key, scene.key.at(0));
    let mut image = scene.copy.page(scene.key.at(0));
    set_page_lsn(&mut image, record.end);
    let slot = scene.slot(&unsealed(&image));
    let mut disk = scene.copy.page(scene.key);
    disk[4096] ^= 0xFF;
    scene.set_disk(&disk);
    let row = scene.row();
    assert_eq!(row.outcome_of(slot), "unusable", "{row}");
    assert!(row.says("is_metapage"), "{row}");
}

/// A torn page and two changes after the redo point, with an image of each; `spoil` then does something to the newer.
fn two_images(spoil: impl FnOnce(&mut Scene, u32, Vec<u8>)) -> (Row, u32, u32) {
    let mut scene = Scene::new();
    let (first, second) = (scene.wal.change(scene.key), scene.wal.change(scene.key));
    let older = scene.version(b'!', first.end);
    let newer = scene.version(b'#', second.end);
    let (older_slot, newer_slot) = (scene.slot(&older), scene.slot(&newer));
    scene.set_disk(&torn(&older, &scene.old, 2048));
    spoil(&mut scene, newer_slot, newer);
    (scene.row(), older_slot, newer_slot)
}

#[test]
fn newest_of_two_safe_images_is_chosen() {
    let (row, older, newer) = two_images(|_, _, _| ());
    row.assert_restores(newer);
    assert_eq!(row.outcome_of(older), "safe");
}

#[test]
fn newest_image_is_chosen_wherever_it_stands() {
    let mut scene = Scene::new();
    let (first, second) = (scene.wal.change(scene.key), scene.wal.change(scene.key));
    let newer = scene.version(b'#', second.end);
    let older = scene.version(b'!', first.end);
    let slot = scene.slot(&newer);
    scene.slot(&older);
    scene.tear(&newer);
    scene.row().assert_restores(slot);
}

#[test]
fn last_written_of_two_images_with_the_same_lsn_is_chosen() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let mut hinted = image.clone();
    hinted[10] |= 2;
    scene.slot(&image);
    let last = scene.slot(&sealed(&hinted, scene.key.block));
    scene.tear(&image);
    scene.row().assert_restores(last);
}

/// What is done to the slot of the newer image.
type Spoil = fn(&mut Scene, u32, Vec<u8>);

#[test]
fn older_image_is_chosen_when_the_newest_is_bad() {
    let bad: [(&str, Spoil); 5] = [
        ("LSN of the slot", |scene, slot, image| {
            scene.copy.set_slot(slot, slot, scene.key, page_lsn(&image) - 8, &image);
        }),
        ("structure", |scene, slot, mut image| {
            image[12..14].copy_from_slice(&8000_u16.to_le_bytes());
            scene.copy.set_slot(slot, slot, scene.key, page_lsn(&image), &image);
        }),
        ("past the end of WAL", |scene, slot, mut image| {
            // Copied under its lock, it would show that WAL is missing.
            set_page_lsn(&mut image, scene.wal.end() + 0x1000);
            let image = unsealed(&image);
            scene.copy.set_slot(slot, slot, scene.key, page_lsn(&image), &image);
        }),
        ("content of something else", |scene, slot, mut image| {
            // The LSN of a record of another page.
            let lsn = scene.wal.change(scene.key.at(scene.key.block + 1)).end;
            set_page_lsn(&mut image, lsn);
            let image = sealed(&image, scene.key.block);
            scene.copy.set_slot(slot, slot, scene.key, lsn, &image);
        }),
        ("zeros", |scene, slot, image| scene.copy.set_slot(slot, slot, scene.key, page_lsn(&image), &[0; 8192])),
    ];
    for (what, spoil) in bad {
        let (row, older, newer) = two_images(spoil);
        assert_eq!((row.verdict(), row.chosen_slot()), ("restore", Some(older.into())), "{what}: {row}");
        assert_ne!(row.outcome_of(newer), "safe", "{what}");
    }
}

#[test]
fn slot_with_a_wrong_crc_is_no_image() {
    let (row, older, newer) = two_images(|scene, slot, _| scene.copy.spoil_slot(slot));
    row.assert_restores(older);
    assert!(row.0["candidates"].as_array().unwrap().iter().all(|candidate| candidate["slot_index"] != newer));
}

#[test]
fn older_image_is_not_chosen_when_it_would_lose_what_the_bad_one_held() {
    // The change between the two lies before the redo point.
    let mut newer_slot = 0;
    let (scene, older) = torn_before_redo(|scene| {
        let change = scene.wal.change(scene.key);
        let newer = scene.version(b'#', change.end);
        newer_slot = scene.slot_of(scene.key, change.end - 8, &newer);
        scene.wal.noop(8);
    });
    let row = scene.row();
    row.assert_verdict("restore_unproven");
    assert_eq!((row.outcome_of(older), row.outcome_of(newer_slot)), ("loses_changes", "unproven"));
    assert_eq!(row.chosen_slot(), Some(newer_slot.into()), "the one that may be right, not the one that is wrong");
}

#[test]
fn slot_left_over_from_another_geometry_is_judged_by_its_lsn() {
    // In the first file a slot's number is its place; another number is that of another geometry.
    let (row, older, newer) = two_images(|scene, slot, _| {
        let lsn = scene.wal.end() - 0x100_0000;
        let leftover = scene.version(b'%', lsn);
        scene.copy.set_slot(slot + 1, 5000, scene.key, lsn, &leftover);
    });
    row.assert_restores(newer);
    assert_eq!(row.outcome_of(older), "safe");

    let mut scene = Scene::new();
    let leftover = scene.version(b'%', page_lsn(&scene.old));
    let slot = super::scene::FIRST_SLOT;
    scene.copy.set_slot(slot, 5000, scene.key, page_lsn(&leftover), &leftover);
    scene.tear(&scene.version(b'!', scene.wal.end()));
    let row = scene.row();
    row.assert_verdict("restore_unproven");
    let change = scene.wal.change(scene.key);
    scene.checkpoint();
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert!(row.lost(slot).contains(&change.end));
}

#[test]
fn image_of_one_database_is_none_of_another() {
    let (mut scene, slot) = torn_after_redo(|_| ());
    let (_, lsn, image) = scene.copy.slot(DWB_FILE, slot);
    // The same numbers but for the database: no file of that name is there, so nothing is to be put back.
    let other = Key { db: 77, ..scene.key };
    let stray = scene.slot_of(other, lsn, &image);
    let checked = scene.check();
    assert!(checked.page(other).is_none_or(|row| row["verdict"] != "restore"));
    Row::of(&checked, scene.key).assert_restores(slot);
    assert_ne!(stray, slot);
}
