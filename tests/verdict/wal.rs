//! WAL that is missing, damaged or of somebody else: what it would have said is never taken for granted.

use std::fs;

use super::scene::{Row, Scene, torn_after_redo, torn_before_redo};
use crate::common::edit::{ControlField, sealed, set_page_lsn, unsealed};
use crate::common::truth::check_with;
use crate::common::wal_tail::{SEGMENT, WalTail, segment_name};
use crate::common::{arg, dwbinspect};

/// File of the segment that holds an address.
fn segment_of(lsn: u64) -> String {
    format!("pg_wal/{}", segment_name(lsn - lsn % SEGMENT))
}

/// A torn page whose image lies one segment before the redo point, and the first segment after the redo point's is in
/// use too. The image's own segment is full but for it.
fn torn_a_segment_before_redo(between: impl FnOnce(&mut Scene)) -> (Scene, u32, u64) {
    let mut lsn = 0;
    let (scene, slot) = torn_before_redo(|scene| {
        lsn = scene.wal.end();
        scene.wal.fill_segment();
        between(scene);
        scene.wal.noop(100);
    });
    assert_ne!(segment_of(lsn), segment_of(scene.copy.control(ControlField::Redo)));
    (scene, slot, lsn)
}

#[test]
fn missing_segment_before_the_redo_point_is_made_up_for_by_an_archive() {
    let (scene, slot, lsn) = torn_a_segment_before_redo(|_| ());
    scene.row().assert_restores(slot);
    let archive = scene.copy.beside("archive");
    fs::create_dir(&archive).unwrap();
    let name = segment_of(lsn);
    scene.copy.move_out(&name, &archive.join(name.strip_prefix("pg_wal/").unwrap()));
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    assert_eq!((row.verdict(), row.chosen_slot()), ("restore_unproven", Some(slot.into())), "{row}");
    assert!(row.says("wal_until_redo_missing"), "{row}");
    let checked = scene.check_as_it_is(&["--wal", arg(&archive)]);
    Row::of(&checked, scene.key).assert_restores(slot);
}

#[test]
fn archive_shows_the_change_that_is_lost() {
    let mut change = 0..0;
    let (scene, slot, _) = torn_a_segment_before_redo(|scene| {
        change = scene.wal.change(scene.key);
        scene.wal.fill_segment();
    });
    scene.row().assert_verdict("loses_changes");
    let archive = scene.copy.beside("archive");
    fs::create_dir(&archive).unwrap();
    let name = segment_of(change.start);
    scene.copy.move_out(&name, &archive.join(name.strip_prefix("pg_wal/").unwrap()));
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    let checked = scene.check_as_it_is(&["--wal", arg(&archive)]);
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);
}

#[test]
fn redo_point_after_a_page_header_leaves_no_gap() {
    for fill in [WalTail::fill_page, WalTail::fill_segment] {
        let (scene, slot) = torn_before_redo(|scene| {
            scene.wal.noop(8);
            fill(&mut scene.wal);
        });
        let redo = scene.copy.control(ControlField::Redo);
        assert!([24, 40].contains(&(redo % 8192)));
        scene.row().assert_restores(slot);
    }
}

#[test]
fn missing_wal_from_the_redo_point_on_proves_nothing() {
    let (mut scene, slot, _) = torn_a_segment_before_redo(|_| ());
    scene.wal.init(scene.key);
    scene.row().assert_verdict("heals_in_replay");
    let name = segment_of(scene.copy.control(ControlField::Redo));
    let archive = scene.copy.beside("archive");
    fs::create_dir(&archive).unwrap();
    scene.copy.move_out(&name, &archive.join(name.strip_prefix("pg_wal/").unwrap()));
    // A server looks into `pg_wal` alone.
    for more in [vec![], vec!["--wal", arg(&archive)]] {
        let checked = scene.check_as_it_is(&more);
        let row = Row::of(&checked, scene.key);
        assert_eq!((row.verdict(), row.chosen_slot()), ("restore_unproven", Some(slot.into())), "{row}");
        assert_eq!(checked.summary["on_start"]["start"], "cannot_begin");
        assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"));
    }
}

#[test]
fn record_at_the_redo_point_that_is_damaged_proves_nothing() {
    let (scene, _) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    scene.wal.write(&scene.copy);
    let redo = scene.copy.control(ControlField::Redo);
    scene.copy.patch(&segment_of(redo), redo % SEGMENT + 20, b"spoiled!");
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    assert!(checked.has_doubt("no_record_at_redo"), "{}", checked.doubts());
}

/// Servers of 15 and 18 did not start with any of these bytes changed, and did with those of `xlp_rem_len`.
#[test]
fn damaged_header_of_the_segment_with_the_redo_point_stops_a_start() {
    let (scene, _) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    scene.wal.write(&scene.copy);
    let redo = scene.copy.control(ControlField::Redo);
    let file = segment_of(redo);
    let sound = std::fs::read(scene.copy.data().join(&file)).unwrap();
    for offset in (0..16).chain(24..40) {
        scene.copy.patch(&file, offset, &[sound[usize::try_from(offset).unwrap()] ^ 0x55]);
        let checked = scene.check_as_it_is(&[]);
        let start = checked.summary["on_start"]["start"].as_str().unwrap().to_owned();
        assert_eq!(
            (checked.ran.status > 0, start.as_str()),
            (true, "cannot_begin"),
            "byte {offset}: {}",
            checked.doubts()
        );
        scene.copy.patch(&file, offset, &sound[usize::try_from(offset).unwrap()..][..1]);
    }
}

/// As servers of 10 and 17 did: "requested timeline 1 does not contain minimum recovery point".
#[test]
fn minimum_recovery_point_on_another_timeline_stops_a_start() {
    let (scene, _) = torn_before_redo(|_| {});
    scene.wal.write(&scene.copy);
    let redo = scene.copy.control(ControlField::Redo);
    scene.copy.set_control(&[(ControlField::MinRecoveryPoint, redo)]);
    for (timeline, is_refused) in [(0, true), (1, false)] {
        scene.copy.set_control(&[(ControlField::MinRecoveryTimeline, timeline)]);
        let checked = scene.check_as_it_is(&[]);
        let start = checked.summary["on_start"]["start"].as_str().unwrap().to_owned();
        let is_named = checked.ran.of_type("finding").iter().any(|found| found["kind"] == "minimum_elsewhere");
        assert_eq!((start == "cannot_begin", is_named), (is_refused, is_refused), "timeline {timeline}: {start}");
    }
}

/// As a server of 15 does: its history has the minimum on timeline 1 where the next one began after it.
#[test]
fn history_decides_on_which_timeline_the_minimum_lies() {
    let (scene, _) = torn_before_redo(|_| {});
    scene.wal.write(&scene.copy);
    let redo = scene.copy.control(ControlField::Redo);
    scene.copy.set_control(&[(ControlField::MinRecoveryPoint, redo), (ControlField::MinRecoveryTimeline, 2)]);
    for (switch, is_refused) in [(redo + 8, true), (redo, true), (redo - 1, false), (redo - 8, false)] {
        let text = format!("1\t{:X}/{:X}\tpromoted\n", switch >> 32, switch & 0xFFFF_FFFF);
        scene.copy.write("pg_wal/00000002.history", text.as_bytes());
        let checked = scene.check_as_it_is(&[]);
        let is_named = checked.ran.of_type("finding").iter().any(|found| found["kind"] == "minimum_elsewhere");
        assert_eq!(is_named, is_refused, "{text}");
        let start = checked.summary["on_start"]["start"].as_str().unwrap();
        assert!(checked.ran.status > 0 && (!is_refused || start == "cannot_begin"), "{text}: {start}");
    }
}

/// A server opens a segment by its name, and finds in this one another address than it looks for.
#[test]
fn segment_under_the_name_of_the_next_one_is_not_replayed() {
    let (mut scene, slot) = torn_before_redo(|scene| {
        scene.wal.noop(8);
    });
    scene.wal.fill_segment();
    let late = scene.wal.end();
    scene.wal.init(scene.key);
    scene.wal.noop(8);
    let row = scene.row();
    row.assert_verdict("heals_in_replay");
    let name = segment_of(late);
    let held = scene.copy.read(&name);
    scene.copy.remove(&name);
    // After it, one of before would have that name until it is written again; before it, nothing has.
    for (other, verdict, is_named) in [(late + SEGMENT, "restore", false), (late - SEGMENT, "restore_unproven", true)] {
        scene.copy.write(&segment_of(other), &held);
        let checked = scene.check_as_it_is(&[]);
        let row = Row::of(&checked, scene.key);
        assert_eq!((row.verdict(), row.chosen_slot()), (verdict, Some(slot.into())), "{row}");
        let findings = checked.ran.of_type("finding");
        assert_eq!(findings.iter().any(|found| found["kind"] == "wal_wrong_name"), is_named, "{findings:#?}");
        scene.copy.undo(&segment_of(other));
    }
}

#[test]
fn hole_after_the_redo_point_proves_nothing() {
    let mut hole = 0;
    let (mut scene, _) = torn_after_redo(|scene| {
        scene.wal.fill_segment();
        hole = scene.wal.end();
        scene.wal.fill_segment();
        scene.wal.noop(100);
    });
    scene.wal.noop(100);
    scene.wal.write(&scene.copy);
    scene.copy.remove(&segment_of(hole));
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"));
}

#[test]
fn damaged_wal_before_the_redo_point_hides_what_follows() {
    for with_change in [false, true] {
        let mut damaged = 0..0;
        let (scene, slot) = torn_before_redo(|scene| {
            damaged = scene.wal.noop(100);
            scene.wal.noop(100);
            if with_change {
                scene.wal.change(scene.key);
            }
            scene.wal.noop(100);
        });
        scene.wal.write(&scene.copy);
        scene.copy.patch(&segment_of(damaged.start), damaged.start % SEGMENT + 60, &[0]);
        let checked = scene.check_as_it_is(&[]);
        let row = Row::of(&checked, scene.key);
        assert!(["restore_unproven", "loses_changes"].contains(&row.verdict()), "{row}");
        assert_ne!(row.outcome_of(slot), "safe");
    }
}

#[test]
fn last_record_of_wal_is_cut_off() {
    // A crash leaves such an end; what lies before it is replayed.
    let mut last = 0..0;
    let (scene, slot) = torn_after_redo(|scene| last = scene.wal.noop(100));
    scene.wal.write(&scene.copy);
    scene.copy.patch(&segment_of(last.start), last.start % SEGMENT + 40, &[0; 64]);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_restores(slot);
    assert_eq!(checked.doubts(), "");
}

#[test]
fn page_on_disk_that_is_newer_than_all_wal_shows_that_wal_is_missing() {
    let mut scene = Scene::new();
    let first = scene.wal.change(scene.key);
    let image = scene.version(b'!', first.end);
    let slot = scene.slot(&image);
    // The head of a version of which WAL knows nothing.
    scene.tear(&scene.version(b'#', first.end + 0x1000));
    let row = scene.row();
    assert_eq!((row.verdict(), row.chosen_slot()), ("restore_unproven", Some(slot.into())), "{row}");
    assert!(row.has_reason("disk_after_wal_end"), "{row}");
}

#[test]
fn sound_page_that_is_newer_than_all_wal_shows_the_same_for_every_page() {
    let (scene, _) = torn_after_redo(|_| ());
    scene.row().assert_verdict("restore");
    let other = scene.key.at(scene.key.block + 1);
    let mut page = scene.copy.page(other);
    set_page_lsn(&mut page, scene.wal.end() + 0x1000);
    scene.copy.set_page(other, &sealed(&page, other.block));
    // Whoever asks for less than all pages hears the same of this one.
    for more in [&[][..], &["--dwb-only"]] {
        let checked = check_with(scene.copy.data(), more);
        Row::of(&checked, scene.key).assert_verdict("restore_unproven");
        assert!(checked.has_doubt("page_after_end"), "{}", checked.doubts());
        assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"));
    }
    let (relation, block) = (scene.key.file(), scene.key.block.to_string());
    let page = dwbinspect(&["page", "--format", "ndjson", arg(scene.copy.data()), &relation, &block]);
    assert_eq!(page.of_type("page")[0]["verdict"], "restore_unproven", "{}", page.stdout);
}

#[test]
fn image_that_is_newer_than_all_wal_shows_that_wal_is_missing() {
    // A server writes WAL up to a page's LSN before it gives the page out, to a slot as to its place.
    for is_under_lock in [true, false] {
        let (mut scene, slot) = torn_after_redo(|_| ());
        let end = scene.wal.end();
        let image = scene.version(b'%', end + 0x1000);
        let image = if is_under_lock { sealed(&image, 6) } else { unsealed(&image) };
        scene.slot_of(scene.key.at(6), end + 0x1000, &image);
        let checked = scene.check();
        let row = Row::of(&checked, scene.key);
        assert_eq!(row.chosen_slot(), Some(slot.into()));
        row.assert_verdict(if is_under_lock { "restore_unproven" } else { "restore" });
        assert_eq!(checked.has_doubt("page_after_end"), is_under_lock);
        let (relation, block) = (scene.key.file(), scene.key.block.to_string());
        let page = dwbinspect(&["page", "--format", "ndjson", arg(scene.copy.data()), &relation, &block]);
        assert_eq!(page.of_type("page")[0]["verdict"], row.verdict(), "{}", page.stdout);
    }
}

#[test]
fn wal_that_ends_before_the_checkpoint_proves_nothing() {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    scene.slot(&image);
    scene.tear(&image);
    let redo = scene.wal.noop(8).start;
    scene.wal.init(scene.key);
    scene.checkpoint_from(redo);
    scene.row().assert_verdict("heals_in_replay");
    // The record that the server reads first, before it replays anything.
    let checkpoint = scene.copy.control(ControlField::Checkpoint);
    scene.copy.patch(&segment_of(checkpoint), checkpoint % SEGMENT, &[0; 256]);
    let checked = scene.check_as_it_is(&[]);
    Row::of(&checked, scene.key).assert_verdict("restore_unproven");
    assert!(checked.has_doubt("ends_before_checkpoint"), "{}", checked.doubts());
    assert_eq!(checked.summary["on_start"]["start"], "cannot_begin");
}

#[test]
fn segment_that_was_cut_short_proves_nothing_about_what_followed() {
    // The image lies after the cut; all that is known of it is that WAL does not reach it.
    let (scene, slot) = torn_after_redo(|_| ());
    scene.wal.write(&scene.copy);
    let end = scene.wal.end();
    scene.copy.cut(&segment_of(end), 8192);
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    assert!(!["restore", "heals_in_replay"].contains(&row.verdict()) && row.outcome_of(slot) != "safe", "{row}");
    // The segment before, cut while the next is there.
    let (scene, _) = torn_after_redo(|_| ());
    scene.wal.write(&scene.copy);
    scene.copy.cut(&segment_of(end - SEGMENT), 0xA_6000);
    let checked = scene.check_as_it_is(&[]);
    assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"), "{}", checked.doubts());
}

#[test]
fn segment_of_another_system_is_as_good_as_missing() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.wal.write(&scene.copy);
    // The system identifier in the header of the segment's first page.
    scene.copy.patch(&segment_of(scene.wal.end()), 24, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    assert!(!["restore", "heals_in_replay"].contains(&row.verdict()) && row.outcome_of(slot) != "safe", "{row}");

    let (scene, slot, lsn) = torn_a_segment_before_redo(|_| ());
    scene.wal.write(&scene.copy);
    scene.copy.patch(&segment_of(lsn), 24, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    assert_eq!((row.verdict(), row.chosen_slot()), ("restore_unproven", Some(slot.into())), "{row}");
}

#[test]
fn archive_of_another_system_is_no_evidence() {
    let (scene, _, lsn) = torn_a_segment_before_redo(|_| ());
    scene.wal.write(&scene.copy);
    let archive = scene.copy.beside("archive");
    fs::create_dir(&archive).unwrap();
    let name = segment_of(lsn);
    scene.copy.patch(&name, 24, &[1, 2, 3, 4, 5, 6, 7, 8]);
    scene.copy.move_out(&name, &archive.join(name.strip_prefix("pg_wal/").unwrap()));
    let checked = scene.check_as_it_is(&["--wal", arg(&archive)]);
    Row::of(&checked, scene.key).assert_verdict("restore_unproven");
}

#[test]
fn empty_pg_wal_proves_nothing() {
    let (scene, _) = torn_after_redo(|_| ());
    for name in scene.copy.names_in("pg_wal") {
        scene.copy.remove(&format!("pg_wal/{name}"));
    }
    let checked = scene.check_as_it_is(&[]);
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    assert_eq!(checked.summary["on_start"]["start"], "cannot_begin");
    assert!(checked.pages.iter().all(|page| page["verdict"] != "restore" && page["verdict"] != "heals_in_replay"));
}
