//! `pg_dwbinspect info` and `batches` on real crashed clusters.

use crate::common;
use crate::common::{DWB_CASES, arg, before_findings, cluster, dwbinspect, small_copy};

/// The text without what depends on the machine: paths, and whether the number of the killed server is in use again.
fn stable(text: &str, path: &std::path::Path) -> String {
    let mut kept = String::new();
    let mut dropping = false;
    for line in text.lines() {
        let continued = line.starts_with("    ");
        dropping = line.starts_with("  - postmaster.pid:") || (dropping && continued);
        if !dropping {
            kept.push_str(&line.replace(arg(path), "[DATADIR]"));
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn text_of_each_cluster() {
    for case in DWB_CASES {
        let path = cluster(case);
        let ran = dwbinspect(&["info", arg(&path)]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{case}");
        insta::with_settings!({ filters => vec![
            (r"data directory .*(\n {27}.*)*", "data directory [DATADIR]"),
        ] }, {
            insta::assert_snapshot!(format!("info_{case}"), stable(&ran.stdout, &path));
        });
    }
}

#[test]
fn json_gives_state_geometry_and_counts() {
    let ran = dwbinspect(&["info", "--format", "json", arg(&cluster("evict"))]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let (control, file) = (&document["clusters"][0]["control"], &document["files"][0]);
    assert_eq!(control["state"], "in production");
    assert_eq!(control["redo_lsn"], "0/021A4D58");
    assert_eq!(control["checkpoint_lsn"], "0/021A4DB0");
    assert_eq!((&file["layout"], &file["slots"], &file["good"]), (&"B".into(), &1019.into(), &1019.into()));
    assert_eq!((&file["batch_id"], &file["checkpoint_lsn"]), (&"1".into(), &"0/021A4E30".into()));
    // The server's log of this run: the only checkpoint wrote 422 buffers.
    assert_eq!((&file["from_checkpoint"], &file["from_eviction"]), (&422.into(), &597.into()));
    assert_eq!(document["summary"]["horizon_lsn"], "0/021A4E30");
}

#[test]
fn batches_of_each_cluster() {
    for case in DWB_CASES {
        let ran = dwbinspect(&["batches", arg(&cluster(case))]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{case}");
        let table = before_findings(&ran.stdout);
        insta::assert_snapshot!(format!("batches_{case}"), table);
    }
}

#[test]
fn checkpoint_runs_have_the_length_of_the_servers_log() {
    // Server logs: "wrote 422 buffers" (aligned, evict), 426 (tablespace).
    for (case, run) in [("aligned", 422), ("evict", 422), ("tablespace", 426)] {
        let batches = dwbinspect(&["batches", "--format", "ndjson", arg(&cluster(case))]).of_type("batch");
        let longest = batches.iter().map(|batch| batch["longest_checkpoint_run"].as_u64().unwrap()).max();
        assert_eq!(longest, Some(run), "{case}");
    }
}

#[test]
fn header_older_or_newer_than_the_control_file_is_a_finding() {
    for (shift, kind, batch) in
        [(-128_i64, "header_older_than_control", "undecided"), (128, "header_newer_than_control", "undecided")]
    {
        let (_keep, data) = small_copy("evict");
        let file = data.join("pg_dwbuf/dwbuf_000");
        let mut bytes = std::fs::read(&file).unwrap();
        let lsn = u64::from_le_bytes(bytes[24..32].try_into().unwrap()).wrapping_add_signed(shift);
        bytes[24..32].copy_from_slice(&lsn.to_le_bytes());
        let crc = pgforensics::parsers::crc::crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&file, bytes).unwrap();
        let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
        assert_eq!(ran.status, 1, "{kind}");
        assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == kind), "{kind}: {}", ran.stdout);
        let slots = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]).of_type("slot");
        let last = slots.last().unwrap();
        assert_eq!(last["batch"], batch);
        let newest_is_current = slots[20]["batch"] == "current";
        assert_eq!(newest_is_current, kind == "header_older_than_control", "{kind}");
    }
}

#[test]
fn leftovers_of_a_larger_setting_are_stale() {
    // A second file whose header was not rewritten by the newest resets, as after shrinking the setting.
    let (_keep, data) = small_copy("tablespace");
    let file = data.join("pg_dwbuf/dwbuf_001");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[24..32].copy_from_slice(&0x100_0000_u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&7_u64.to_le_bytes());
    let crc = pgforensics::parsers::crc::crc32c(&bytes[..32]);
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
    assert_eq!(ran.status, 1);
    let second: Vec<_> = ran.of_type("slot").into_iter().filter(|slot| slot["file"] == "dwbuf_001").collect();
    assert!(second.iter().filter(|slot| slot["state"] == "used").all(|slot| slot["batch"] == "stale"));
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "header_behind"));
}

#[test]
fn live_process_in_the_directory_is_a_finding() {
    let (_keep, data) = small_copy("wrapped");
    let mut child = std::process::Command::new("sleep").arg("60").current_dir(&data).spawn().unwrap();
    std::fs::write(data.join("postmaster.pid"), format!("{}\n{}\n", child.id(), arg(&data))).unwrap();
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ran.status, 1);
    assert_eq!(ran.of_type("cluster")[0]["server"], "running");
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "server_running"));
    let after = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert_eq!((after.status, &after.of_type("cluster")[0]["server"]), (0, &"gone".into()));
}

#[test]
fn restored_backup_is_a_finding() {
    let (_keep, data) = small_copy("wrapped");
    std::fs::write(data.join("backup_label"), "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n")
        .unwrap();
    std::fs::write(data.join("standby.signal"), "").unwrap();
    let ran = dwbinspect(&["info", arg(&data)]);
    // It is in order that they are there.
    assert_eq!(ran.status, 0);
    assert!(ran.stdout.contains("recovery starts at 0/02000028"), "{}", ran.stdout);
    assert!(ran.stdout.contains("standby.signal: present"), "{}", ran.stdout);
}

#[test]
fn cluster_without_a_buffer_is_no_error() {
    let (_keep, data) = small_copy("wrapped");
    std::fs::remove_dir_all(data.join("pg_dwbuf")).unwrap();
    for command in ["info", "dump", "batches"] {
        let ran = dwbinspect(&[command, arg(&data)]);
        assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
        assert!(ran.stdout.contains("has no double write buffer"), "{command}: {}", ran.stdout);
    }
}

/// The verdict of every slot, by the words of its reason.
fn reasons(data: &std::path::Path) -> Vec<String> {
    let slots = dwbinspect(&["dump", "--format", "ndjson", "--state", "used", arg(data)]).of_type("slot");
    slots.iter().map(|slot| format!("{}/{}", slot["batch"], slot["batch_reason"]).replace('"', "")).collect()
}

/// Changes bytes of a slot and makes its CRC right again.
fn change_slot(file: &std::path::Path, index: usize, at: usize, new: &[u8]) {
    let mut bytes = std::fs::read(file).unwrap();
    let slot = &mut bytes[40 + index * 8232..][..8232];
    slot[at..at + new.len()].copy_from_slice(new);
    let crc = pgforensics::parsers::crc::crc32c(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_changed_setting_makes_no_slot_stale() {
    let (_keep, data) = small_copy("checkpoint");
    let before = reasons(&data);
    let conf = data.join("postgresql.auto.conf");
    std::fs::write(&conf, "double_write_buffer_size = 1\n").unwrap();
    assert_eq!(reasons(&data), before);
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "other_size"), "{}", ran.stdout);
}

#[test]
fn impossible_slot_numbers_are_a_problem() {
    let (_keep, data) = small_copy("wrapped");
    let file = data.join("pg_dwbuf/dwbuf_000");
    change_slot(&file, 20, 32, &u32::MAX.to_le_bytes());
    change_slot(&file, 100, 32, &7_u32.to_le_bytes());
    let reasons = reasons(&data);
    // Newer than the checkpoint by its LSN, whatever its number says.
    assert_eq!(
        (reasons[20].as_str(), reasons[100].as_str()),
        ("current/newer_than_checkpoint", "undecided/other_geometry")
    );
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert!(ran.status == 1 && ran.stdout.contains("no server writes such numbers"), "{}", ran.stdout);
    change_slot(&file, 30, 16, &(-5_i32).to_le_bytes());
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "implausible_headers"), "{}", ran.stdout);
}

#[test]
fn counters_of_unlogged_relations_are_no_lsn() {
    let (_keep, data) = small_copy("wrapped");
    let file = data.join("pg_dwbuf/dwbuf_000");
    // 40 slots in the middle of the batch with numbers as unlogged indexes carry them.
    for index in 14..54 {
        change_slot(&file, index, 24, &0x6DA9_u64.to_le_bytes());
        change_slot(&file, index, 40, &[0, 0, 0, 0, 0xA9, 0x6D, 0, 0]);
    }
    let reasons = reasons(&data);
    assert!(reasons[14..54].iter().all(|reason| reason == "current/below_newer"), "{reasons:?}");
    assert!(reasons[54..64].iter().all(|reason| reason == "current/newer_than_checkpoint"));
}

#[test]
fn missing_file_is_a_problem_and_makes_nothing_surer() {
    let (_keep, data) = small_copy("tablespace");
    std::fs::remove_file(data.join("pg_dwbuf/dwbuf_000")).unwrap();
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert!(ran.status == 1 && ran.of_type("finding").iter().any(|finding| finding["kind"] == "missing_file"));
    assert!(reasons(&data).iter().all(|reason| reason == "undecided/no_evidence"));
}

#[test]
fn control_file_of_pg_resetwal_is_not_believed() {
    let (_keep, data) = small_copy("evict");
    let path = data.join("global/pg_control");
    let mut bytes = std::fs::read(&path).unwrap();
    // What pg_resetwal writes, by its fact sheet: state, checkpoint and redo at the first record of a new segment,
    // wal_level minimal, hints off, 100 connections, 8 workers.
    let lsn = 0x0400_0028_u64.to_le_bytes();
    for (at, new) in [
        (16, &1_i32.to_le_bytes()[..]),
        (32, &lsn),
        (40, &lsn),
        (180, &0_i32.to_le_bytes()),
        (184, &[0]),
        (188, &100_i32.to_le_bytes()),
        (192, &8_i32.to_le_bytes()),
    ] {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    let crc = pgforensics::parsers::crc::crc32c(&bytes[..304]);
    bytes[304..308].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let ran = dwbinspect(&["info", "--width", "200", arg(&data)]);
    assert!(ran.status == 1 && ran.stdout.contains("pg_resetwal was run"), "{}", ran.stdout);
    assert!(reasons(&data).iter().all(|reason| reason == "undecided/wal_was_reset"));
}

#[test]
fn backup_makes_every_slot_undecided() {
    let (_keep, data) = small_copy("evict");
    std::fs::write(data.join("backup_label"), "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n")
        .unwrap();
    assert!(reasons(&data).iter().all(|reason| reason == "undecided/backup"));
    let ran = dwbinspect(&["info", "--width", "200", arg(&data)]);
    assert!(ran.stdout.contains("base backup, not recovered yet"), "{}", ran.stdout);
}

#[test]
fn damaged_control_file_leaves_every_slot_undecided() {
    let (_keep, data) = small_copy("evict");
    let path = data.join("global/pg_control");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(reasons(&data).iter().all(|reason| reason == "undecided/header_only"));
}

#[test]
fn newer_slots_of_another_ring_make_the_others_stale() {
    // As after a restart with a smaller ring: newer slots of the second file count 2000 slots a file, not 2547.
    let (_keep, data) = small_copy("tablespace");
    let file = data.join("pg_dwbuf/dwbuf_001");
    for index in 0..4_u32 {
        let lsn = 0x0300_0000 + index * 64;
        change_slot(&file, index as usize, 24, &u64::from(lsn).to_le_bytes());
        change_slot(&file, index as usize, 32, &(2000 + index).to_le_bytes());
        change_slot(&file, index as usize, 40, &[&[0; 4][..], &lsn.to_le_bytes()].concat());
    }
    let ran = dwbinspect(&["dump", "--file", "1", "--state", "used", "--format", "ndjson", arg(&data)]);
    let reasons: Vec<_> =
        ran.of_type("slot").iter().map(|slot| slot["batch_reason"].as_str().unwrap().to_owned()).collect();
    assert!(reasons[..4].iter().all(|reason| reason == "possible_window"), "{:?}", &reasons[..6]);
    assert!(reasons[4..].iter().all(|reason| reason == "other_geometry"));
    assert!(ran.of_type("slot")[4..].iter().all(|slot| slot["batch"] == "stale"));
}

#[test]
fn torn_slot_in_a_base_backup_is_no_damage_of_it() {
    for is_backup in [false, true] {
        let copy = common::edit::ClusterCopy::of("wrapped");
        copy.spoil_slot(3);
        if is_backup {
            copy.write("backup_label", b"START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n");
        }
        let ran = dwbinspect(&["info", "--format", "ndjson", arg(copy.data())]);
        let findings = ran.of_type("finding");
        let slots = findings.iter().find(|finding| finding["kind"] == "bad_slots").unwrap();
        assert_eq!(slots["severity"], if is_backup { "note" } else { "problem" }, "{}", ran.stdout);
        assert_eq!(ran.status, i32::from(!is_backup), "{}", ran.stdout);
    }
}
