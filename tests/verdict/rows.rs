//! A page and one image of it: where the image stands to the redo point, and what WAL says in between, decides.

use super::scene::{Scene, torn_after_redo, torn_before_redo};
use crate::common::edit::{ControlField, DWB_FILE, Key, page_lsn, sealed, torn};

#[test]
fn image_from_after_the_redo_point_is_safe() {
    let (scene, slot) = torn_after_redo(|_| ());
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!((row.disk(), row.on_start()), ("torn", "read"));
    // The record before the end of WAL is the only one that touches the page.
    assert!(row.on_start_lsn() > scene.copy.control(ControlField::Redo) && row.on_start_lsn() < scene.wal.end());
}

#[test]
fn image_at_the_redo_point_is_safe() {
    let (scene, slot) = torn_before_redo(|_| ());
    let (_, slot_lsn, _) = scene.copy.slot(DWB_FILE, slot);
    assert_eq!(scene.copy.control(ControlField::Redo), slot_lsn, "nothing lies between");
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!(row.on_start(), "later", "no record after the redo point reads the page");
}

#[test]
fn older_image_is_safe_when_wal_shows_that_nothing_came_between() {
    let (scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(100);
        // Other pages, one of them of the same number in another fork, and one in another database.
        scene.wal.change(scene.key.at(scene.key.block + 1));
        scene.wal.change(scene.key.of_fork(2));
        scene.wal.change(Key { db: 1, ..scene.key });
        scene.wal.truncate(scene.key, scene.key.block + 1);
    });
    scene.row().assert_restores(slot);
}

#[test]
fn older_image_loses_the_change_that_wal_shows_between() {
    let mut changes = Vec::new();
    let (scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(100);
        changes.push(scene.wal.change(scene.key).end);
        scene.wal.noop(100);
        changes.push(scene.wal.change(scene.key).end);
    });
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!((row.outcome_of(slot), row.lost(slot)), ("loses_changes", changes));
}

#[test]
fn change_that_ends_at_the_redo_point_is_lost_and_one_that_starts_there_is_not() {
    let mut change = 0..0;
    let (mut scene, slot) = torn_before_redo(|scene| change = scene.wal.change(scene.key));
    assert_eq!(scene.copy.control(ControlField::Redo), change.end);
    scene.wal.change(scene.key);
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);

    // Before version 17 no record marks the redo point: it can be one that a change starts at.
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(40);
    });
    let change = scene.wal.change(scene.key);
    let redo = change.start;
    scene.wal.noop(40);
    scene.checkpoint_from(redo);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!((row.on_start(), row.on_start_lsn()), ("read", redo));
}

#[test]
fn hint_bits_that_are_lost_do_no_harm() {
    let (scene, slot) = torn_before_redo(|scene| {
        scene.wal.hint(scene.key);
        scene.wal.noop(8);
    });
    scene.row().assert_restores(slot);
}

#[test]
fn image_that_replay_only_compares_is_a_change_like_any_other() {
    let mut change = 0..0;
    let (scene, slot) = torn_before_redo(|scene| {
        let page = scene.old.clone();
        change = scene.wal.change_with_image_to_compare(scene.key, &page);
        scene.wal.noop(8);
    });
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);
}

#[test]
fn image_from_before_all_wal_is_not_proven() {
    let mut scene = Scene::new();
    // Older than the first segment that is there, as the page in the cluster itself.
    let image = scene.version(b'!', page_lsn(&scene.old));
    let slot = scene.slot(&image);
    scene.set_disk(&torn(&image, &scene.version(b'#', 0x1000), 4096));
    let row = scene.row();
    row.assert_verdict("restore_unproven");
    assert_eq!((row.outcome_of(slot), row.chosen_slot()), ("unproven", Some(slot.into())));
}

#[test]
fn image_from_before_all_wal_loses_what_the_wal_that_is_there_shows() {
    let mut scene = Scene::new();
    let image = scene.version(b'!', page_lsn(&scene.old));
    let slot = scene.slot(&image);
    scene.set_disk(&torn(&image, &scene.version(b'#', 0x1000), 4096));
    let change = scene.wal.change(scene.key);
    scene.wal.noop(100);
    scene.checkpoint();
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);
}

#[test]
fn image_from_past_the_end_of_wal_is_never_chosen() {
    let mut scene = Scene::new();
    scene.wal.noop(100);
    let image = scene.version(b'!', scene.wal.end() + 8);
    let slot = scene.slot(&image);
    scene.tear(&image);
    let row = scene.row();
    row.assert_verdict("no_image");
    assert!(row.chose_nothing() && row.outcome_of(slot) == "unusable");
    assert!(row.says("image_after_wal_end"), "{row}");
}

#[test]
fn page_is_healed_by_the_image_that_replay_meets_first() {
    let (mut scene, _) = torn_before_redo(|scene| {
        scene.wal.change(scene.key);
    });
    let page = scene.version(b'#', 0);
    let record = scene.wal.image(scene.key, &page);
    let row = scene.row();
    row.assert_verdict("heals_in_replay");
    assert!(row.chose_nothing() && row.on_start() == "harmless");
    let at = format!("0/{:08X}", record.start);
    assert!(row.has_reason("overwritten_in_replay") && row.reasons().contains(&at), "{at} in {}", row.reasons());
}

#[test]
fn page_is_healed_when_replay_builds_it_anew_first() {
    let (mut scene, _) = torn_before_redo(|scene| {
        scene.wal.change(scene.key);
    });
    // A hint-bit record without image is passed over.
    scene.wal.hint(scene.key);
    scene.wal.init(scene.key);
    scene.wal.change(scene.key);
    let row = scene.row();
    row.assert_verdict("heals_in_replay");
    assert_eq!(row.on_start(), "harmless");
}

#[test]
fn image_after_a_record_that_reads_the_page_heals_nothing() {
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    let change = scene.wal.change(scene.key);
    let page = scene.version(b'#', 0);
    scene.wal.image(scene.key, &page);
    let row = scene.row();
    assert_eq!(row.verdict(), "restore");
    assert_eq!((row.on_start(), row.on_start_lsn()), ("read", change.start));
    assert!(row.outcome_of(slot) == "safe");
    let summary = scene.check().summary;
    assert!(summary["on_start"]["server_restores"].as_u64() > Some(0), "its own image is good: {summary:#}");
}

#[test]
fn image_that_replay_only_compares_heals_nothing() {
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    let page = scene.version(b'#', 0);
    let record = scene.wal.change_with_image_to_compare(scene.key, &page);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!((row.on_start(), row.on_start_lsn()), ("read", record.start));
}

#[test]
fn image_of_another_page_heals_nothing() {
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    let page = scene.version(b'#', 0);
    scene.wal.image(scene.key.at(scene.key.block + 1), &page);
    scene.wal.image(scene.key.of_fork(2), &page);
    scene.row().assert_restores(slot);
}

#[test]
fn image_in_wal_that_is_newer_than_the_slot_is_chosen() {
    let mut record = 0..0;
    let (scene, slot) = torn_before_redo(|scene| {
        let page = scene.version(b'#', 0);
        scene.wal.noop(8);
        record = scene.wal.image(scene.key, &page);
        scene.wal.noop(8);
    });
    let row = scene.row();
    assert_eq!((row.verdict(), row.chosen_record()), ("restore", Some(record.start)), "{row}");
    assert_eq!(row.outcome_of(slot), "loses_changes", "the image is a change that the slot lacks");
}

#[test]
fn page_that_replay_drops_is_left() {
    for (what, drops) in [
        (
            "commit",
            (|scene: &mut Scene| {
                scene.wal.commit_drops(&[scene.key]);
            }) as fn(&mut Scene),
        ),
        ("one of several", |scene| {
            scene.wal.commit_drops(&[Key::main(1, 0), scene.key]);
        }),
        ("abort", |scene| {
            scene.wal.abort_drops(&[scene.key]);
        }),
        ("truncation", |scene| {
            scene.wal.truncate(scene.key, scene.key.block);
        }),
        ("database", |scene| {
            scene.wal.drop_database(scene.key);
        }),
    ] {
        let (mut scene, _) = torn_before_redo(|scene| {
            scene.wal.noop(8);
        });
        drops(&mut scene);
        let row = scene.row();
        assert_eq!((row.verdict(), row.on_start()), ("leave", "harmless"), "{what}: {row}");
        assert!(row.chose_nothing(), "{what}");
    }
}

#[test]
fn page_that_replay_reads_before_it_drops_it_is_needed() {
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    let change = scene.wal.change(scene.key);
    scene.wal.commit_drops(&[scene.key]);
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!((row.on_start(), row.on_start_lsn()), ("read", change.start));
}

#[test]
fn removal_of_something_else_in_replay_changes_nothing() {
    for (what, drops) in [
        (
            "other relation",
            (|scene: &mut Scene| {
                scene.wal.commit_drops(&[Key::main(16_400, 0)]);
            }) as fn(&mut Scene),
        ),
        ("blocks after it", |scene| {
            scene.wal.truncate(scene.key, scene.key.block + 1);
        }),
        ("other database", |scene| {
            scene.wal.drop_database(Key { db: 4, ..scene.key });
        }),
        ("nothing dropped", |scene| {
            scene.wal.commit_drops(&[]);
        }),
    ] {
        let (mut scene, slot) = torn_before_redo(|scene| {
            scene.wal.noop(8);
        });
        drops(&mut scene);
        let row = scene.row();
        assert_eq!((row.verdict(), row.chosen_slot()), ("restore", Some(slot.into())), "{what}: {row}");
    }
}

#[test]
fn image_from_before_a_removal_is_of_another_page() {
    for (what, removes) in [
        (
            "drop",
            (|scene: &mut Scene| {
                scene.wal.commit_drops(&[scene.key]);
            }) as fn(&mut Scene),
        ),
        ("abort", |scene| {
            scene.wal.abort_drops(&[scene.key]);
        }),
        ("truncation", |scene| {
            scene.wal.truncate(scene.key, scene.key.block);
        }),
        ("creation", |scene| {
            scene.wal.create(scene.key);
        }),
        ("database", |scene| {
            scene.wal.drop_database(scene.key);
        }),
    ] {
        let (scene, slot) = torn_before_redo(|scene| {
            scene.wal.noop(8);
            removes(scene);
            scene.wal.noop(8);
        });
        let row = scene.row();
        assert_eq!((row.verdict(), row.outcome_of(slot)), ("no_image", "unusable"), "{what}: {row}");
        assert!(row.chose_nothing(), "{what}");
    }
}

#[test]
fn sound_page_that_is_newer_than_its_image_is_left() {
    for before_redo in [false, true] {
        let mut scene = Scene::new();
        let (first, second) = (scene.wal.change(scene.key), scene.wal.change(scene.key));
        let image = scene.version(b'!', first.end);
        scene.slot(&image);
        scene.set_disk(&scene.version(b'#', second.end));
        if before_redo {
            scene.checkpoint();
        }
        assert!(scene.is_silent());
    }
}

#[test]
fn sound_page_that_is_older_than_its_image_is_brought_forward_by_replay() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    scene.slot(&image);
    assert!(scene.is_silent(), "the page on disk is as it was before the redo point");
}

#[test]
fn sound_page_with_other_hint_bits_is_left() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let mut image = scene.version(b'!', change.end);
    scene.slot(&image);
    // "Page is full", and a transaction that may have left something to prune.
    image[10] |= 2;
    image[20] = 9;
    scene.set_disk(&sealed(&image, scene.key.block));
    assert!(scene.is_silent());
}

#[test]
fn lost_write_is_reported_when_the_image_is_proven() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&image);
    scene.wal.noop(8);
    scene.checkpoint();
    let row = scene.row();
    row.assert_restores(slot);
    assert_eq!(row.disk(), "disk_older", "the page on disk should have been written before the checkpoint ended");
}

#[test]
fn lost_write_is_reported_when_the_image_is_only_a_part_of_what_was_lost() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&image);
    let second = scene.wal.change(scene.key);
    scene.wal.noop(8);
    scene.checkpoint();
    let row = scene.row();
    assert_eq!((row.disk(), row.verdict()), ("disk_older", "loses_changes"));
    assert_eq!(row.lost(slot), [second.end]);
}

#[test]
fn older_page_is_no_lost_write_where_wal_does_not_know_the_image() {
    let mut scene = Scene::new();
    // Older than all WAL that is there: it may be an image of something else.
    let image = scene.version(b'!', page_lsn(&scene.old) + 8);
    scene.slot(&image);
    assert!(scene.is_silent());
}

#[test]
fn older_page_is_no_lost_write_because_of_what_replay_will_bring() {
    let mut scene = Scene::new();
    // The image from before the redo point is one that nothing vouches for; the safe one is from after it.
    let stray = scene.version(b'!', page_lsn(&scene.old) + 8);
    scene.slot(&stray);
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'#', change.end);
    scene.slot(&image);
    assert!(scene.is_silent());
}
