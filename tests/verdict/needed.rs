//! Pages that replay needs and that are zero, cut off or gone, though no slot holds them.

use super::scene::{Row, Scene, lsn, torn_after_redo};
use crate::common::edit::{ControlField, DWB_FILE, Key, PAGE, sealed, set_page_lsn};
use crate::common::truth::{Checked, check_with};
use crate::common::{arg, dwbinspect};

/// How a page gets lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Zero,
    Cut,
    File,
}

const LOSSES: [(Loss, &str); 3] = [(Loss::Zero, "zeroed"), (Loss::Cut, "beyond_end"), (Loss::File, "missing_file")];

fn lose(scene: &Scene, loss: Loss) {
    match loss {
        Loss::Zero => scene.set_disk(&[0; PAGE]),
        Loss::Cut => scene.copy.cut(&scene.key.file(), scene.key.block as usize * PAGE),
        Loss::File => scene.copy.remove(&scene.key.file()),
    }
}

/// A check of all pages.
fn full(scene: &Scene) -> Checked {
    scene.wal.write(&scene.copy);
    check_with(scene.copy.data(), &[])
}

#[test]
fn page_that_replay_changes_has_to_be_there() {
    for (loss, word) in LOSSES {
        let mut scene = Scene::new();
        let change = scene.wal.change(scene.key);
        assert!(full(&scene).page(scene.key).is_none());
        lose(&scene, loss);
        let checked = full(&scene);
        let row = Row::of(&checked, scene.key);
        assert_eq!((row.disk(), row.verdict(), row.on_start()), (word, "no_image", "passed_over"), "{loss:?}: {row}");
        // Nothing of it is left, so whether WAL had been written further is not certain.
        assert_eq!((row.on_start_lsn(), checked.ran.status), (change.start, 2));
        // Servers of majors 10 to 19 start, and the rows are gone.
        assert!(checked.summary["on_start"]["passed_over"].as_u64() > Some(0));
        let (relation, block) = (scene.key.file(), scene.key.block.to_string());
        let page = dwbinspect(&["page", "--format", "ndjson", arg(scene.copy.data()), &relation, &block]);
        assert_eq!(page.of_type("page")[0]["disk"], word, "{}", page.stdout);
        assert_eq!(page.status, 2);
    }
}

#[test]
fn standby_stops_over_a_page_that_is_not_there() {
    for (loss, _) in LOSSES {
        let mut scene = Scene::new();
        scene.wal.change(scene.key);
        lose(&scene, loss);
        scene.copy.write("standby.signal", b"");
        let checked = full(&scene);
        assert_eq!(checked.summary["on_start"]["start"], "invalid_pages", "{loss:?}");
        assert_eq!(Row::of(&checked, scene.key).on_start(), "passed_over");
    }
}

/// Takes away what speaks of pages of the table besides WAL: entries of its two indexes lead to every one of them.
fn without_indexes(scene: &Scene) {
    ["base/5/16415", "base/5/16417"].iter().for_each(|index| scene.copy.remove(index));
}

/// Asserts that a lost page which only these records touch is in order.
fn assert_in_order(what: &str, records: impl Fn(&mut Scene)) {
    for (loss, _) in LOSSES {
        let mut scene = Scene::new();
        records(&mut scene);
        without_indexes(&scene);
        lose(&scene, loss);
        let checked = full(&scene);
        let found = checked.page(scene.key);
        assert!(found.is_none(), "{what}, {loss:?}: {found:#?}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn page_that_replay_builds_or_removes_need_not_be_there() {
    assert_in_order("built", |scene| {
        scene.wal.init(scene.key);
        scene.wal.change(scene.key);
    });
    assert_in_order("image", |scene| {
        let page = scene.old.clone();
        scene.wal.image(scene.key, &page);
        scene.wal.change(scene.key);
    });
    assert_in_order("hint", |scene| {
        scene.wal.hint(scene.key);
    });
    assert_in_order("dropped", |scene| {
        scene.wal.change(scene.key);
        scene.wal.commit_drops(&[scene.key]);
    });
    assert_in_order("creation undone", |scene| {
        scene.wal.change(scene.key);
        scene.wal.abort_drops(&[scene.key]);
    });
    assert_in_order("truncated", |scene| {
        scene.wal.change(scene.key);
        scene.wal.truncate(scene.key, scene.key.block);
    });
    assert_in_order("truncated and built anew", |scene| {
        scene.wal.change(scene.key);
        scene.wal.truncate(scene.key, 0);
        scene.wal.init(scene.key);
        scene.wal.change(scene.key);
    });
    assert_in_order("database dropped", |scene| {
        scene.wal.change(scene.key);
        scene.wal.drop_database(scene.key);
    });
    assert_in_order("truncated before the redo point", |scene| {
        scene.wal.change(scene.key);
        scene.wal.truncate(scene.key, scene.key.block);
        scene.checkpoint();
        scene.wal.noop(8);
    });
}

/// A checkpoint wrote the page before the redo point, or a hint bit in it: what is there now is not what it wrote.
#[test]
fn page_that_was_there_before_the_redo_point_is_damaged_when_nothing_is_left_of_it() {
    let change: Records = |scene| {
        scene.wal.change(scene.key);
    };
    // It says that the block was there; not, without an image, what was in it.
    let hint: Records = |scene| {
        scene.wal.hint(scene.key);
    };
    for (what, record, losses) in [("change", change, &LOSSES[..2]), ("hint", hint, &LOSSES[1..2])] {
        for (loss, word) in losses.iter().copied() {
            let mut scene = Scene::new();
            record(&mut scene);
            scene.checkpoint();
            scene.wal.noop(8);
            without_indexes(&scene);
            lose(&scene, loss);
            let checked = full(&scene);
            let row = Row::of(&checked, scene.key);
            assert_eq!((row.disk(), row.verdict(), row.on_start()), (word, "no_image", "later"), "{what}: {row}");
            let page = checked.page(scene.key).unwrap();
            assert_eq!(page["rebuildable"]["possible"], false, "nothing older is left of it");
            assert_eq!(page["damage_codes"], serde_json::json!(["lost_content"]), "{what}, {loss:?}");
        }
    }
}

/// Adds records to the WAL of a scene.
type Records = fn(&mut Scene);

#[test]
fn removal_of_something_else_excuses_nothing() {
    let removals: [(&str, Records); 4] = [
        ("dropped before", |scene| {
            scene.wal.commit_drops(&[scene.key]);
            scene.wal.change(scene.key);
        }),
        ("other relation", |scene| {
            scene.wal.change(scene.key);
            scene.wal.commit_drops(&[Key { rel: scene.key.rel + 1, ..scene.key }]);
        }),
        ("truncated after the page", |scene| {
            scene.wal.change(scene.key);
            scene.wal.truncate(scene.key, scene.key.block + 1);
        }),
        ("change after the truncation", |scene| {
            scene.wal.truncate(scene.key, scene.key.block);
            scene.wal.change(scene.key);
        }),
    ];
    for (what, records) in removals {
        for loss in [Loss::Zero, Loss::Cut] {
            let mut scene = Scene::new();
            records(&mut scene);
            lose(&scene, loss);
            let checked = full(&scene);
            let found = checked.page(scene.key);
            assert!(found.is_some_and(|page| page["on_start"]["what"] == "passed_over"), "{what}, {loss:?}: {found:?}");
        }
    }
}

/// The other page of a BRIN record.
fn map_of(scene: &Scene) -> Key {
    Key { block: 1, ..scene.key }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn replay_dies_of_a_brin_insert_without_its_page_even_when_the_index_goes_later() {
    for (loss, word) in LOSSES {
        for is_removed in [false, true] {
            let mut scene = Scene::new();
            // This one looks before it takes.
            scene.wal.brin_update_in_place(scene.key);
            let deadly = scene.wal.brin_insert(scene.key, map_of(&scene));
            if is_removed {
                scene.wal.commit_drops(&[scene.key]);
            }
            assert!(full(&scene).page(scene.key).is_none());
            lose(&scene, loss);
            let checked = full(&scene);
            let row = Row::of(&checked, scene.key);
            assert_eq!((row.disk(), row.on_start(), row.on_start_lsn()), (word, "dies", deadly.start), "{row}");
            assert_eq!(row.verdict(), if is_removed { "leave" } else { "no_image" }, "{row}");
            assert_eq!(row.0["on_start"]["removed"], is_removed);
            let on_start = &checked.summary["on_start"];
            assert_eq!(
                (&on_start["start"], lsn(on_start["stops_at"].as_str().unwrap())),
                (&"stops".into(), deadly.start)
            );
            assert_ne!(checked.ran.status, 0);
            let (relation, block) = (scene.key.file(), scene.key.block.to_string());
            let page = dwbinspect(&["page", "--format", "ndjson", arg(scene.copy.data()), &relation, &block]);
            assert_eq!(page.of_type("page")[0]["on_start"]["what"], "dies", "{}", page.stdout);
        }
    }
}

#[test]
fn brin_insert_into_a_page_that_is_there_by_then_is_in_order() {
    assert_in_order("built", |scene| {
        scene.wal.init(scene.key);
        scene.wal.brin_insert(scene.key, map_of(scene));
    });
    assert_in_order("other page of the record", |scene| {
        scene.wal.brin_insert(map_of(scene), scene.key);
        scene.wal.commit_drops(&[scene.key]);
    });
    // The first record passes over the page, the image brings it.
    let mut scene = Scene::new();
    let page = scene.old.clone();
    scene.wal.change(scene.key);
    scene.wal.image(scene.key, &page);
    scene.wal.brin_insert(scene.key, map_of(&scene));
    lose(&scene, Loss::Zero);
    assert_eq!(Row::of(&full(&scene), scene.key).on_start(), "passed_over");
}

#[test]
fn slot_of_a_missing_file_shows_that_the_relation_should_have_one() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.copy.remove(&scene.key.file());
    let row = scene.row();
    assert_eq!((row.disk(), row.verdict()), ("missing_file", "restore_unproven"), "{row}");
    assert_eq!(row.chosen_slot(), Some(slot.into()));
    assert!(row.has_reason("relation_has_no_file"), "{row}");
    // A relation that the catalog does not have.
    let mut scene = Scene::new();
    let gone = Key { rel: 60_000, ..scene.key };
    scene.slot_of(gone, scene.wal.end(), &scene.old.clone());
    assert!(scene.check().page(gone).is_none());
}

/// The page of a scene in which its first row is of transaction `xid`, which nobody knows to have ended.
fn with_row_of(scene: &Scene, xid: u32) -> Vec<u8> {
    let mut page = scene.old.clone();
    let word = u32::from_le_bytes(page[24..28].try_into().unwrap());
    let offset = (word & 0x7FFF) as usize;
    page[offset..offset + 4].copy_from_slice(&xid.to_le_bytes());
    // Neither committed nor aborted, as far as the row says; and deleted by nobody.
    page[offset + 21] = 0x08;
    page
}

#[test]
fn heap_page_without_checksum_that_is_ahead_of_its_lsn_is_found_without_a_slot() {
    for (is_late, checksums) in [(true, 0), (false, 0), (true, 1)] {
        let mut scene = Scene::new();
        scene.copy.set_control(&[(ControlField::ChecksumVersion, checksums)]);
        let change = scene.wal.change(scene.key);
        let mut page = with_row_of(&scene, scene.wal.xid);
        if !is_late {
            set_page_lsn(&mut page, change.end);
        }
        scene.set_disk(&sealed(&page, scene.key.block));
        let checked = full(&scene);
        let found = checked.page(scene.key);
        assert_eq!(found.is_some(), is_late && checksums == 0, "{is_late}, {checksums}: {found:?}");
        if let Some(row) = found {
            assert_eq!((&row["disk"], &row["strength"]), (&"torn".into(), &"proven".into()), "{row}");
        }
        assert_eq!(checked.summary["unproven_pages"].as_u64().is_some(), checksums == 0);
    }
}

#[test]
fn without_checksums_nothing_is_called_in_order() {
    let says = |checksums| {
        let scene = Scene::new();
        scene.copy.set_control(&[(ControlField::ChecksumVersion, checksums)]);
        for index in 0..127 {
            scene.copy.clear_slot(DWB_FILE, index);
        }
        dwbinspect(&["check", "--width", "400", arg(scene.copy.data())]).stdout
    };
    let text = says(0);
    assert!(!text.contains("Nothing to repair"), "{text}");
    assert!(text.contains("are not proven intact"), "{text}");
}
