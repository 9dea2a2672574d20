//! What `pg_control`, the recovery files and the double write buffer's header say, and what they keep from being proven.

use std::fs;
use std::process::Command;

use super::scene::{Row, Scene, torn_after_redo, torn_before_redo};
use crate::common::arg;
use crate::common::edit::{ControlField, torn};
use crate::common::truth::Checked;

/// Asserts that the page, which would be restored, is not proven any more, and that the check says why.
fn assert_unproven(scene: &Scene, code: &str) -> Checked {
    let checked = scene.check();
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    assert!(row.says(code), "{code}: {row}");
    assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"), "{code}: it holds for every page");
    checked
}

#[test]
fn clean_shutdown_is_restored_from_when_nothing_came_after_the_image() {
    let (mut scene, slot) = torn_after_redo(|scene| {
        scene.wal.noop(100);
    });
    scene.wal.shut_down(&scene.copy);
    let checked = scene.check();
    let row = Row::of(&checked, scene.key);
    row.assert_restores(slot);
    // Other pages were not examined.
    assert_eq!(
        (&checked.summary["recovery"], &checked.summary["on_start"]["start"]),
        (&"none".into(), &"unknown".into())
    );
    assert_eq!(row.on_start(), "later");
}

#[test]
fn clean_shutdown_repeats_nothing() {
    let (mut scene, slot) = torn_after_redo(|_| ());
    // What a crash recovery would repeat or heal is over.
    let change = scene.wal.change(scene.key);
    let page = scene.version(b'#', 0);
    scene.wal.shut_down(&scene.copy);
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);

    let (mut scene, _) = torn_after_redo(|_| ());
    let image = scene.wal.image(scene.key, &page);
    scene.wal.shut_down(&scene.copy);
    let row = scene.row();
    assert_eq!((row.verdict(), row.chosen_record()), ("restore", Some(image.start)), "{row}");
}

#[test]
fn clean_shutdown_with_a_record_after_the_checkpoint_is_not_one() {
    let (mut scene, _) = torn_after_redo(|scene| {
        scene.wal.noop(100);
    });
    // "Shut down", but the checkpoint is one of a running server.
    let redo = scene.wal.next_start();
    scene.checkpoint_from(redo);
    scene.copy.set_control(&[(ControlField::State, 1)]);
    assert_unproven(&scene, "not_a_shutdown_checkpoint");
}

#[test]
fn server_replays_from_a_redo_point_before_the_checkpoint_whatever_the_state_says() {
    let (mut scene, slot) = torn_after_redo(|scene| {
        scene.wal.noop(100);
    });
    scene.checkpoint();
    scene.copy.set_control(&[(ControlField::State, 1)]);
    let checked = scene.check();
    assert_eq!(checked.summary["recovery"], "crash");
    Row::of(&checked, scene.key).assert_restores(slot);
}

#[test]
fn wal_that_goes_on_after_the_shutdown_is_not_replayed() {
    // An old pg_control over newer WAL: the server would start without replay, and lose what came after.
    let (mut scene, slot) = torn_after_redo(|scene| {
        scene.wal.noop(100);
    });
    scene.wal.shut_down(&scene.copy);
    scene.wal.noop(8);
    let checked = assert_unproven(&scene, "wal_after_shutdown");
    let steps: Vec<_> = (0..2).map(|at| &checked.summary["next"][at]["step"]).collect();
    assert_eq!(steps, ["copy_first", "bring_control"]);
    let change = scene.wal.change(scene.key);
    let row = scene.row();
    row.assert_verdict("loses_changes");
    assert_eq!(row.lost(slot), [change.end]);
}

#[test]
fn standby_is_consistent_only_from_its_least_recovery_point_on() {
    let (scene, slot) = torn_after_redo(|_| ());
    let end = scene.wal.end();
    // A restartpoint writes its redo point into the header of the double write buffer.
    scene.copy.set_dwb_header_lsn(scene.copy.control(ControlField::Redo));
    for (least, verdict) in [(end - 8, "restore"), (end, "restore"), (end + 8, "restore_unproven")] {
        scene.copy.set_control(&[
            (ControlField::State, 5),
            (ControlField::MinRecoveryPoint, least),
            (ControlField::MinRecoveryTimeline, 1),
        ]);
        let checked = scene.check();
        let row = Row::of(&checked, scene.key);
        row.assert_verdict(verdict);
        assert_eq!((row.chosen_slot(), &checked.summary["recovery"]), (Some(slot.into()), &"archive".into()));
    }
    assert_unproven(&scene, "ends_before_consistency");
}

#[test]
fn standby_signal_alone_makes_it_archive_recovery() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.copy.write("standby.signal", b"");
    let checked = scene.check();
    assert_eq!(checked.summary["recovery"], "archive");
    Row::of(&checked, scene.key).assert_restores(slot);
}

#[test]
fn standby_shut_down_in_recovery_replays_again() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.copy.set_dwb_header_lsn(scene.copy.control(ControlField::Redo));
    scene.copy.set_control(&[
        (ControlField::State, 2),
        (ControlField::MinRecoveryPoint, scene.wal.end()),
        (ControlField::MinRecoveryTimeline, 1),
    ]);
    let checked = scene.check();
    assert_eq!(checked.summary["recovery"], "archive");
    Row::of(&checked, scene.key).assert_restores(slot);
}

#[test]
fn backup_proves_nothing_and_begins_where_its_label_says() {
    let (scene, slot) = torn_after_redo(|_| ());
    let redo = scene.copy.control(ControlField::Redo);
    // A later redo point in pg_control must not count.
    let label = format!(
        "START WAL LOCATION: {:X}/{:X} (file 000000010000000000000021)\nCHECKPOINT LOCATION: 0/21A4DB0\n",
        redo >> 32,
        redo & 0xFFFF_FFFF
    );
    scene.copy.write("backup_label", label.as_bytes());
    let checked = assert_unproven(&scene, "base_backup");
    assert_eq!((&checked.summary["recovery"], &checked.summary["redo_lsn"]), (&"backup".into(), &"0/021A4D58".into()));
    assert_eq!(Row::of(&checked, scene.key).chosen_slot(), Some(slot.into()));

    let (mut scene, _) = torn_before_redo(|scene| {
        scene.wal.change(scene.key);
    });
    scene.wal.init(scene.key);
    scene.copy.write("backup_label", label.as_bytes());
    let row = scene.row();
    assert_ne!(row.verdict(), "heals_in_replay", "replay of the backup reads the page before it is built anew");
}

#[test]
fn recovery_that_goes_elsewhere_than_pg_control_proves_nothing() {
    let (scene, slot) = torn_after_redo(|_| ());
    scene.copy.write("standby.signal", b"");
    Row::of(&scene.check(), scene.key).assert_restores(slot);
    // It follows the newest timeline, of which no WAL is read here.
    scene.copy.write("pg_wal/00000002.history", b"1\t0/1000000\tno recovery target specified\n");
    assert_unproven(&scene, "other_signals");
    scene.copy.remove("pg_wal/00000002.history");
    Row::of(&scene.check(), scene.key).assert_restores(slot);
    scene.copy.write("tablespace_map", b"16384 /elsewhere\n");
    assert_unproven(&scene, "other_signals");
}

#[test]
fn backup_label_that_cannot_be_read_leaves_nothing_known() {
    let (scene, _) = torn_after_redo(|_| ());
    fs::create_dir(scene.copy.data().join("backup_label")).unwrap();
    let checked = assert_unproven(&scene, "backup_label_unreadable");
    assert_eq!(
        (&checked.summary["recovery"], &checked.summary["on_start"]["start"]),
        (&"unknown".into(), &"unknown".into())
    );
}

#[test]
fn backup_that_has_not_reached_its_end_proves_nothing() {
    let (scene, _) = torn_after_redo(|_| ());
    scene.copy.set_control(&[(ControlField::BackupStartPoint, scene.copy.control(ControlField::Redo))]);
    assert_unproven(&scene, "backup_end_not_reached");
}

#[test]
fn control_file_with_a_wrong_crc_proves_nothing() {
    for built_anew in [false, true] {
        let (mut scene, _) = torn_before_redo(|scene| {
            scene.wal.noop(8);
        });
        if built_anew {
            scene.wal.init(scene.key);
        }
        scene.copy.patch("global/pg_control", 60, &[0xFF]);
        let checked = assert_unproven(&scene, "redo_point_unknown");
        assert_eq!(
            (&checked.summary["recovery"], &checked.summary["redo_lsn"]),
            (&"unknown".into(), &serde_json::Value::Null)
        );
    }
}

#[test]
fn control_file_of_pg_resetwal_proves_nothing() {
    let (scene, _) = torn_after_redo(|_| ());
    // As pg_resetwal leaves it: "shut down", a checkpoint at the first record of a segment, minimal settings.
    let first_record = scene.wal.end().next_multiple_of(crate::common::wal_tail::SEGMENT) + 40;
    scene.copy.set_control(&[
        (ControlField::State, 1),
        (ControlField::Checkpoint, first_record),
        (ControlField::Redo, first_record),
        (ControlField::WalLevel, 0),
        (ControlField::WalLogHints, 0),
        (ControlField::MaxConnections, 100),
        (ControlField::MaxWorkerProcesses, 8),
    ]);
    let checked = assert_unproven(&scene, "wal_was_reset");
    assert_eq!(checked.summary["recovery"], "after_reset");
}

#[test]
fn double_write_buffer_newer_than_the_control_file_proves_nothing() {
    let (scene, _) = torn_after_redo(|_| ());
    scene.copy.set_dwb_header_lsn(0x021A_4E30 + 128);
    assert_unproven(&scene, "dwb_newer_than_control");
}

#[test]
fn double_write_buffer_older_than_the_control_file_is_judged_by_wal() {
    for shift in [128, 0x10_0000] {
        let (scene, slot) = torn_after_redo(|_| ());
        scene.copy.set_dwb_header_lsn(0x021A_4E30 - shift);
        scene.row().assert_restores(slot);
    }
}

#[test]
fn server_that_may_be_running_leaves_nothing_proven() {
    let (scene, _) = torn_after_redo(|_| ());
    let mut child = Command::new("sleep").arg("60").current_dir(scene.copy.data()).spawn().unwrap();
    scene.copy.write("postmaster.pid", format!("{}\n{}\n", child.id(), arg(scene.copy.data())).as_bytes());
    let checked = scene.check();
    child.kill().unwrap();
    child.wait().unwrap();
    let row = Row::of(&checked, scene.key);
    row.assert_verdict("restore_unproven");
    assert!(row.says("may_be_running"), "{row}");
    assert_eq!(checked.summary["on_start"]["start"], "running");
    assert!(checked.pages.iter().all(|page| page["verdict"] != "restore"));
}

#[test]
fn postmaster_pid_that_makes_no_sense_leaves_nothing_proven() {
    let (scene, _) = torn_after_redo(|_| ());
    scene.copy.write("postmaster.pid", b"who knows\n");
    assert_unproven(&scene, "may_be_running");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damaged_page_of_a_cluster_without_checksums_is_found_only_by_evidence() {
    let without_checksums = |scene: &Scene| scene.copy.set_control(&[(ControlField::ChecksumVersion, 0)]);
    // Front and back are two images that are there.
    let mut scene = Scene::new();
    without_checksums(&scene);
    let (first, second) = (scene.wal.change(scene.key), scene.wal.change(scene.key));
    let (older, newer) = (scene.version(b'!', first.end), scene.version(b'#', second.end));
    scene.slot(&older);
    let slot = scene.slot(&newer);
    for (front, back) in [(&newer, &older), (&older, &newer)] {
        scene.set_disk(&torn(front, back, 4096));
        let row = scene.row();
        row.assert_restores(slot);
        assert_eq!((row.disk(), &row.0["strength"], row.on_start()), ("torn", &"proven".into(), "unnoticed"));
    }
    // Whole versions are not torn, old or new.
    for whole in [&older, &newer, &scene.old.clone(), &scene.version(b'%', second.end + 8)] {
        scene.set_disk(whole);
        assert!(scene.is_silent());
    }
    // A header without sense needs no other evidence.
    let mut insane = newer.clone();
    insane[14..16].copy_from_slice(&9000_u16.to_le_bytes());
    scene.set_disk(&insane);
    scene.row().assert_restores(slot);
}

#[test]
fn wal_of_another_system_is_no_wal_of_this_cluster() {
    // The control file of another cluster: its WAL is not that in `pg_wal`.
    let (scene, _) = torn_after_redo(|_| ());
    let own = scene.copy.control(ControlField::SystemIdentifier);
    scene.copy.set_control(&[(ControlField::SystemIdentifier, own + 1)]);
    let checked = assert_unproven(&scene, "redo_point_unreadable");
    assert!(checked.has_doubt("no_wal"), "{}", checked.doubts());
}

#[test]
fn control_file_of_another_moment_proves_nothing() {
    // Its redo point is the start of a sound record, but not what the checkpoint record says.
    let (mut scene, _) = torn_after_redo(|_| ());
    let redo = scene.wal.noop(8).start;
    scene.wal.noop(8);
    scene.checkpoint();
    scene.copy.set_control(&[(ControlField::Redo, redo)]);
    assert_unproven(&scene, "not_the_checkpoint");
    // The record that it takes for the checkpoint is another one.
    let (mut scene, _) = torn_after_redo(|_| ());
    let other = scene.wal.noop(8).start;
    scene.wal.noop(8);
    scene.copy.set_control(&[(ControlField::Checkpoint, other)]);
    assert_unproven(&scene, "not_the_checkpoint");
}
