//! Relation files: unlogged tables, maps, pages of zeros, files that are missing, cut or not to be read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::scene::{Row, Scene, torn_after_redo, torn_before_redo};
use crate::common::edit::{DWB_FILE, Key, PAGE, page_lsn, same_page, sealed, set_page_lsn, torn};
use crate::common::skipped;
use crate::common::truth::Checked;

/// A page of the unlogged table `scratch` whose write was cut.
const SCRATCH: Key = Key::main(16_418, 5);
/// A free space map page and a visibility map page.
const SPACE_MAP: Key = Key::main(16_399, 3).of_fork(1);
const VISIBILITY_MAP: Key = Key::main(1247, 0).of_fork(2);

#[test]
fn unlogged_table_is_reset_by_recovery() {
    let scene = Scene::new();
    let row = Row::of(&scene.check(), SCRATCH);
    assert_eq!((row.disk(), row.verdict(), row.on_start()), ("torn", "leave", "harmless"), "{row}");
    assert!(row.has_reason("unlogged_relation") && row.chose_nothing());
}

#[test]
fn unlogged_table_is_not_reset_after_a_clean_shutdown() {
    let mut scene = Scene::new();
    scene.wal.shut_down(&scene.copy);
    let row = Row::of(&scene.check(), SCRATCH);
    row.assert_verdict("restore_unproven");
}

#[test]
fn table_without_its_init_fork_is_not_known_to_be_unlogged() {
    let scene = Scene::new();
    scene.copy.remove(&SCRATCH.of_fork(3).file());
    let row = Row::of(&scene.check(), SCRATCH);
    row.assert_verdict("restore_unproven");
    assert!(row.says("no_page_lsn"), "{row}");
}

/// Servers of 10 to 18 fail where they come to write it, at the start or later.
#[test]
fn what_has_the_name_of_a_file_and_is_none_leaves_the_start_unknown() {
    let named = |checked: &Checked, name: &str| {
        let findings = checked.ran.of_type("finding");
        findings.iter().any(|found| found["kind"] == "not_a_file" && found["file"] == name)
    };
    for is_stopped in [false, true] {
        let mut scene = Scene::new();
        scene.wal.noop(8);
        scene.wal.write(&scene.copy);
        if is_stopped {
            scene.wal.shut_down(&scene.copy);
        }
        let sound = scene.check();
        // Of this cluster nothing better is known after a stop: pages of an unlogged table are torn.
        let usual = if is_stopped { "unknown" } else { "depends_on_dwb" };
        assert_eq!(sound.summary["on_start"]["start"], usual, "{}", sound.doubts());
        for name in [
            "pg_notify/0000",
            "pg_serial/0000",
            "pg_subtrans/0FFF",
            "pg_commit_ts/0000",
            "pg_wal/0000000100000000000000F0",
        ] {
            for is_link in [false, true] {
                let path = scene.copy.data().join(name);
                let aside = scene.copy.beside("aside");
                if path.exists() {
                    scene.copy.move_out(name, &aside);
                }
                if is_link { symlink("/nonexistent/file", &path) } else { fs::create_dir(&path) }.unwrap();
                let checked = scene.check();
                let start = checked.summary["on_start"]["start"].as_str().unwrap();
                assert!(named(&checked, name), "{name}: {}", checked.ran.stdout);
                assert!(checked.ran.status > 0 && start == "unknown", "{name} {is_link} {is_stopped}: {start}");
                if is_link { fs::remove_file(&path) } else { fs::remove_dir(&path) }.unwrap();
                if aside.exists() {
                    fs::rename(&aside, &path).unwrap();
                }
            }
        }
        // No server asks for these.
        for name in ["pg_notify/note", "pg_wal/note", "pg_subtrans/1234567"] {
            let path = scene.copy.data().join(name);
            fs::create_dir(&path).unwrap();
            assert!(!named(&scene.check(), name), "{name}");
            fs::remove_dir(&path).unwrap();
        }
    }
}

#[test]
fn free_space_map_takes_any_whole_page_of_its_own() {
    let mut scene = Scene::new();
    let map = scene.copy.page(SPACE_MAP);
    let slot = scene.slot_of(SPACE_MAP, page_lsn(&map), &map);
    scene.copy.set_page(SPACE_MAP, &torn(&map, &[0x11; PAGE], 4096));
    scene.wal.noop(8);
    let row = Row::of(&scene.check(), SPACE_MAP);
    row.assert_restores(slot);
}

#[test]
fn free_space_map_does_not_take_a_page_of_a_table() {
    let mut scene = Scene::new();
    let map = scene.copy.page(SPACE_MAP);
    scene.copy.set_page(SPACE_MAP, &torn(&map, &[0x11; PAGE], 4096));
    let foreign = sealed(&scene.old, SPACE_MAP.block);
    let slot = scene.slot_of(SPACE_MAP, page_lsn(&foreign), &foreign);
    let row = Row::of(&scene.check(), SPACE_MAP);
    assert!(row.verdict() == "leave" && row.outcome_of(slot) == "unusable", "{row}");
}

/// A torn visibility map page, with an image in a slot whose LSN is that of a record of the map; and the slot.
fn torn_map() -> (Scene, u32) {
    let mut scene = Scene::new();
    let record = scene.wal.visible(VISIBILITY_MAP, Key::main(1247, 0));
    let mut image = scene.copy.page(VISIBILITY_MAP);
    set_page_lsn(&mut image, record.end);
    let slot = scene.slot_of(VISIBILITY_MAP, record.end, &sealed(&image, 0));
    scene.copy.set_page(VISIBILITY_MAP, &torn(&image, &[0x11; PAGE], 4096));
    (scene, slot)
}

#[test]
fn visibility_map_from_after_the_redo_point_is_restored() {
    let (scene, slot) = torn_map();
    let row = Row::of(&scene.check(), VISIBILITY_MAP);
    row.assert_restores(slot);
    assert_eq!(row.on_start(), "harmless", "a map page that cannot be read is taken for an empty one");
}

#[test]
fn visibility_map_with_bits_that_a_heap_record_cleared_is_not_restored() {
    // The heap record names only the heap page, but clears bits of the map.
    let other_page_of_the_map = Key::main(1247, 40_000);
    for (heap, expected) in [
        (Key::main(1247, 3), ("leave", "loses_changes")),
        (Key::main(1249, 3), ("restore", "safe")),
        // The table is not that long: that page of it got lost.
        (other_page_of_the_map, ("leave", "unproven")),
    ] {
        let (mut scene, slot) = torn_map();
        scene.wal.change(heap);
        scene.checkpoint();
        let row = Row::of(&scene.check(), VISIBILITY_MAP);
        assert_eq!((row.verdict(), row.outcome_of(slot)), expected, "{heap:?}: {row}");
    }
}

#[test]
fn visibility_map_of_a_truncated_table_is_not_restored() {
    let (mut scene, _) = torn_map();
    scene.wal.truncate(VISIBILITY_MAP, 10);
    scene.checkpoint();
    let row = Row::of(&scene.check(), VISIBILITY_MAP);
    row.assert_verdict("leave");
}

#[test]
fn page_of_zeros_that_replay_reads_gets_its_image() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.set_disk(&[0; PAGE]);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!((row.disk(), row.on_start()), ("zeroed", "passed_over"));
}

#[test]
fn page_of_zeros_that_replay_builds_is_in_order() {
    let mut scene = Scene::new();
    scene.set_disk(&[0; PAGE]);
    scene.wal.init(scene.key);
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    scene.slot(&image);
    assert!(scene.is_silent(), "the page was added to the file, and not written yet");
}

#[test]
fn page_of_zeros_from_before_the_redo_point_goes_by_the_proof() {
    let (scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    scene.set_disk(&[0; PAGE]);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!(row.disk(), "zeroed");

    let mut change = 0..0;
    let (scene, slot) = torn_before_redo(|scene| {
        change = scene.wal.change(scene.key);
        scene.wal.noop(8);
    });
    scene.set_disk(&[0; PAGE]);
    let row = scene.row();
    assert_eq!((row.disk(), row.verdict()), ("zeroed", "loses_changes"), "{row}");
    assert_eq!(row.lost(slot), [change.end]);
}

#[test]
fn page_of_zeros_with_an_image_that_nothing_vouches_for_is_in_order() {
    let mut scene = Scene::new();
    scene.set_disk(&[0; PAGE]);
    let image = scene.version(b'!', page_lsn(&scene.old));
    scene.slot(&image);
    assert!(scene.is_silent());
}

#[test]
fn file_that_ends_inside_the_page_is_not_made_longer_without_being_told() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.copy.cut(&scene.key.file(), scene.key.block as usize * PAGE + 3000);
    let checked = scene.check();
    let row = Row::of(&checked, scene.key);
    assert_eq!(
        (row.disk(), row.verdict(), row.chosen_slot()),
        ("torn", "restore_unproven", Some(slot.into())),
        "{row}"
    );
    // The pages after it, which entries of the index lead to, may have been newer than all WAL that is here.
    assert_eq!(row.outcome_of(slot), "unproven");
    // The pages after it are gone, and slots hold images of blocks 46 to 84 that WAL vouches for.
    let row = Row::of(&checked, scene.key.at(60));
    assert_eq!((row.disk(), row.verdict()), ("beyond_end", "restore_unproven"), "{row}");
    assert!(checked.pages.iter().all(|page| page["rel_number"] != 16_409 || page["verdict"] != "restore"));
}

#[test]
fn cut_file_that_replay_cuts_further_is_left() {
    let (mut scene, _) = torn_after_redo(|_| ());
    scene.wal.truncate(scene.key, scene.key.block);
    scene.copy.cut(&scene.key.file(), scene.key.block as usize * PAGE + 3000);
    let checked = scene.check();
    let row = Row::of(&checked, scene.key);
    assert_eq!((row.disk(), row.verdict(), row.on_start()), ("torn", "leave", "harmless"), "{row}");
    assert!(checked.page(scene.key.at(60)).is_none(), "replay removes it too");
}

#[test]
fn relation_without_file_is_not_made_again() {
    let (mut scene, _) = torn_after_redo(|_| ());
    scene.copy.remove(&scene.key.file());
    let checked = scene.check();
    assert!(checked.pages.iter().all(|page| page["rel_number"] != 16_409 || page["verdict"] != "restore"));
    let missing = checked.summary["slots"]["missing_file"].as_u64().unwrap();
    assert!(missing > 0 && checked.summary["slots"]["dropped_relation"] == 0, "{}", checked.summary);
    scene.wal.commit_drops(&[scene.key]);
    let checked = scene.check();
    assert_eq!(checked.summary["slots"]["dropped_relation"], missing);
}

#[test]
fn link_in_the_place_of_a_file_is_not_followed() {
    let (scene, _) = torn_after_redo(|_| ());
    let aside = scene.copy.beside("aside");
    std::fs::copy(scene.copy.data().join(scene.key.file()), &aside).unwrap();
    scene.copy.replace_by_link(&scene.key.file(), &aside);
    let checked = scene.check();
    assert_eq!(checked.ran.status, 2, "something was not examined");
    assert!(checked.page(scene.key).is_none() && checked.skipped().contains("16409"), "{}", checked.skipped());
}

#[test]
fn file_that_cannot_be_read_is_said_to_be_skipped() {
    if rustix::process::geteuid().is_root() {
        return skipped("root reads every file");
    }
    let (scene, _) = torn_after_redo(|_| ());
    let path = scene.copy.data().join(scene.key.file());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let checked = scene.check();
    assert_eq!(checked.ran.status, 2);
    assert!(checked.page(scene.key).is_none() && checked.skipped().contains("16409"), "{}", checked.skipped());
}

#[test]
fn image_that_is_on_disk_but_for_the_checksum_is_told() {
    let (scene, slot) = torn_after_redo(|_| ());
    let (_, _, image) = scene.copy.slot(DWB_FILE, slot);
    let mut page = image.clone();
    page[8] ^= 1;
    assert!(same_page(&page, &image));
    scene.set_disk(&page);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!(row.disk(), "damaged", "no write was cut");
    // A flipped bit is not a cut write either.
    let mut page = image;
    page[5000] ^= 4;
    scene.set_disk(&page);
    let row = scene.row();
    row.assert_restores(slot);
    assert!(row.disk() == "damaged" && row.0["damage_codes"][1] == "flipped_bits", "{row}");
}
