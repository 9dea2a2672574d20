//! Where WAL ends before its files do: stale bytes of recycled segments, what a power cut leaves, and damage.

use super::scene::{Row, Scene, torn_after_redo};
use crate::common::edit::{ClusterCopy, ControlField, sealed, set_page_lsn, unsealed};
use crate::common::truth::{Checked, check_with};
use crate::common::wal_tail::{SEGMENT, segment_name};
use crate::common::{arg, dwbinspect};

const WAL_PAGE: u64 = 8192;
const SECTOR: u64 = 512;

fn segment_of(lsn: u64) -> String {
    format!("pg_wal/{}", segment_name(lsn - lsn % SEGMENT))
}

fn codes(checked: &Checked) -> Vec<&str> {
    checked.summary["doubt_codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect()
}

/// What a sector holds that was never written: zeros in a new segment, older WAL in a recycled one.
#[derive(Clone, Copy, Debug)]
enum Unwritten {
    Zero,
    Recycled,
}

/// Takes back what was written to `length` bytes of WAL from `from` on.
fn unwrite(copy: &ClusterCopy, from: u64, length: u64, content: Unwritten) {
    let bytes = match content {
        Unwritten::Zero => vec![0; length as usize],
        Unwritten::Recycled => {
            let older = copy.read(&segment_of(from - SEGMENT));
            older[(from % SEGMENT) as usize..][..length as usize].to_vec()
        }
    };
    copy.patch(&segment_of(from), from % SEGMENT, &bytes);
}

/// A torn page with an image, and several pages of WAL after the change that it holds, all in one segment. Returns the
/// start of the second of those pages.
fn with_pages_of_wal(more: impl FnOnce(&mut Scene)) -> (Scene, u32, u64) {
    let mut second = 0;
    let (scene, slot) = torn_after_redo(|scene| {
        let start = scene.wal.end();
        scene.wal.fill_page();
        second = scene.wal.end() + WAL_PAGE;
        for _ in 0..4 {
            for _ in 0..40 {
                scene.wal.noop(100);
            }
            scene.wal.fill_page();
        }
        assert_eq!(start / SEGMENT, scene.wal.end() / SEGMENT);
        more(scene);
    });
    scene.wal.write(&scene.copy);
    (scene, slot, second)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn hole_in_wal_that_was_never_synced_keeps_the_images_before_it() {
    for content in [Unwritten::Zero, Unwritten::Recycled] {
        for (offset, length) in [(0, SECTOR), (2 * SECTOR, SECTOR), (0, 4096), (4096, 4096), (0, WAL_PAGE)] {
            // A page whose image was copied without a lock before its change was synced.
            let mut later = 0..0;
            let (mut scene, slot, page) = with_pages_of_wal(|scene| {
                later = scene.wal.change(scene.key.at(6));
                scene.wal.noop(100);
            });
            let image = unsealed(&scene.version(b'%', later.end));
            scene.slot_of(scene.key.at(6), later.end, &image);
            unwrite(&scene.copy, page + offset, length, content);
            let checked = scene.check_as_it_is(&[]);
            let row = Row::of(&checked, scene.key);
            row.assert_restores(slot);
            assert_eq!(codes(&checked), ["hole_at_end"], "{content:?} {offset} {length}");
            assert!(row.says("hole_at_end"), "{row}");
            assert_ne!(checked.ran.status, 0, "{content:?} {offset} {length}");
            let ahead = scene.check_as_it_is(&["--all"]);
            let ahead = ahead.page(scene.key.at(6)).unwrap_or_else(|| panic!("block 6 is shown"));
            assert_ne!(ahead["verdict"], "restore", "{ahead}");
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn hole_in_wal_that_had_been_synced_proves_nothing() {
    type LsnWitness = fn(&mut Scene, u64);
    let witnesses: [(&str, LsnWitness); 5] = [
        ("sound page", |scene, lsn| {
            let other = scene.key.at(7);
            let mut page = scene.copy.page(other);
            set_page_lsn(&mut page, lsn);
            scene.copy.set_page(other, &sealed(&page, other.block));
        }),
        ("torn page", |scene, lsn| {
            // Its head was written, so WAL up to its LSN had been synced.
            let other = scene.key.at(7);
            let mut page = scene.copy.page(other);
            set_page_lsn(&mut page, lsn);
            scene.copy.set_page(other, &page);
        }),
        ("image copied under a lock", |scene, lsn| {
            let image = sealed(&scene.version(b'%', lsn), 6);
            scene.slot_of(scene.key.at(6), lsn, &image);
        }),
        ("recovery point of a standby", |scene, lsn| {
            scene.copy.set_control(&[(ControlField::MinRecoveryPoint, lsn), (ControlField::MinRecoveryTimeline, 1)]);
        }),
        ("next segment", |scene, _| {
            scene.wal.fill_segment();
            scene.wal.noop(100);
            scene.wal.write(&scene.copy);
        }),
    ];
    for (what, witness) in witnesses {
        for content in [Unwritten::Zero, Unwritten::Recycled] {
            let (mut scene, _, page) = with_pages_of_wal(|_| ());
            let lsn = scene.wal.end();
            witness(&mut scene, lsn);
            unwrite(&scene.copy, page, WAL_PAGE, content);
            // All pages are read, or those alone that are asked for.
            for more in [&[][..], &["--dwb-only"]] {
                let checked = check_with(scene.copy.data(), more);
                if what == "torn page" && more == ["--dwb-only"] {
                    // Nobody examined that page.
                    continue;
                }
                Row::of(&checked, scene.key).assert_verdict("restore_unproven");
                assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"), "{what} {content:?}");
                assert_ne!(checked.ran.status, 0);
            }
        }
    }
}

#[test]
fn damage_in_the_last_page_of_wal_is_told_by_the_records_after_it() {
    let mut damaged = 0..0;
    let (scene, slot) = torn_after_redo(|scene| {
        damaged = scene.wal.noop(100);
        scene.wal.noop(100);
    });
    scene.wal.write(&scene.copy);
    scene.copy.patch(&segment_of(damaged.start), damaged.start % SEGMENT + 60, &[0]);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_restores(slot);
    assert_eq!(codes(&checked), ["hole_at_end"]);
}

#[test]
fn checkpoint_after_a_hole_shows_that_it_had_been_synced() {
    let mut redo = 0;
    let (mut scene, _, page) = with_pages_of_wal(|scene| redo = scene.copy.control(ControlField::Redo));
    scene.checkpoint_from(redo);
    scene.wal.write(&scene.copy);
    unwrite(&scene.copy, page, SECTOR, Unwritten::Zero);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_verdict("restore_unproven");
    assert!(codes(&checked).contains(&"ends_before_checkpoint"), "{}", checked.doubts());
    assert!(!codes(&checked).contains(&"hole_at_end"), "{}", checked.doubts());
}

#[test]
fn hole_at_the_start_of_a_segment_is_not_taken_for_an_unused_one() {
    // So long that a look at the first pages sees nothing else.
    let hole = 16 * WAL_PAGE;
    let mut segment = 0;
    let (scene, slot) = torn_after_redo(|scene| {
        scene.wal.fill_segment();
        segment = scene.wal.end();
        for _ in 0..20 {
            scene.wal.noop(5000);
            scene.wal.fill_page();
        }
    });
    scene.wal.write(&scene.copy);
    unwrite(&scene.copy, segment, hole, Unwritten::Zero);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_restores(slot);
    assert_eq!(codes(&checked), ["hole_at_end"]);
    // Zeros to the end: made beforehand.
    unwrite(&scene.copy, segment, SEGMENT, Unwritten::Zero);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_restores(slot);
    assert_eq!(codes(&checked), [""; 0]);
}

#[test]
fn older_wal_after_the_end_says_nothing() {
    // From the end on, from the next sector on as a torn write leaves it, or from the next page on.
    for unit in [8, SECTOR, WAL_PAGE] {
        let (scene, slot) = torn_after_redo(|scene| {
            for _ in 0..3 {
                scene.wal.noop(3000);
            }
        });
        scene.wal.write(&scene.copy);
        let from = scene.wal.end().next_multiple_of(unit);
        unwrite(&scene.copy, from, SEGMENT - from % SEGMENT, Unwritten::Recycled);
        let checked = scene.check_as_it_is(&[]);
        Row::of(&checked, scene.key).assert_restores(slot);
        assert_eq!(codes(&checked), [""; 0], "{unit}: {}", checked.doubts());
    }
}

#[test]
fn page_of_a_recycled_segment_after_the_end_is_as_good_as_none() {
    let copy = ClusterCopy::of_archive("cases/stale-tail");
    let verdicts = |checked: &Checked| {
        let row =
            |page: &serde_json::Value| (page["path"].to_string(), page["block"].as_u64(), page["verdict"].to_string());
        let mut rows: Vec<_> = checked.pages.iter().map(row).collect();
        rows.sort();
        rows
    };
    let as_it_is = check_with(copy.data(), &[]);
    assert_eq!(codes(&as_it_is), [""; 0], "{}", as_it_is.doubts());
    let restores = as_it_is.pages.iter().filter(|page| page["verdict"] == "restore").count();
    assert!(restores >= 97, "{restores}");
    // 16 MiB a segment: the end of WAL is the start of this page.
    copy.patch("pg_wal/000000010000000000000003", 0x70_0000, &[0; WAL_PAGE as usize]);
    assert_eq!(verdicts(&check_with(copy.data(), &[])), verdicts(&as_it_is));
}

#[test]
fn buffer_that_came_with_a_base_backup_belongs_to_the_standby() {
    let copy = ClusterCopy::of_archive("cases/standby-fresh");
    let checked = check_with(copy.data(), &[]);
    assert_eq!(codes(&checked), [""; 0]);
    assert!(!checked.pages.is_empty() && checked.pages.iter().all(|page| page["verdict"] == "restore"));
    let info = dwbinspect(&["info", "--format", "ndjson", arg(copy.data())]);
    let findings = info.of_type("finding");
    assert!(findings.iter().all(|finding| finding["kind"] != "header_newer_than_control"), "{}", info.stdout);
    // Eight bytes more are of another checkpoint.
    copy.set_dwb_header_lsn(0x0300_0108);
    let checked = check_with(copy.data(), &[]);
    assert!(!checked.pages.is_empty() && checked.pages.iter().all(|page| page["verdict"] != "restore"));
}
