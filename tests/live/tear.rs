//! A live server that tears its own page writes and crashes: what that leaves on disk, and what recovery makes of it.

use std::collections::BTreeSet;

use crate::common::crash::{
    Recovered, assert_many, assert_recovers, crash_in_a_checkpoint, look, recover, repeat_until_crash, start_under_load,
};
use crate::common::tear::Plan;

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn full_page_writes_repair_a_torn_checkpoint() {
    let Some(tearing) = crash_in_a_checkpoint("full_page_writes = on", Plan { seed: 1, tears: 450 }) else { return };
    let (tears, kinds) = look(&tearing);
    assert_many(&kinds, 400);
    let files: BTreeSet<_> = tears.iter().map(|tear| &tear.path).collect();
    assert!(files.len() >= 3, "tears are in {files:?}");
    assert_recovers(&tearing.server);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_torn_checkpoint_without_full_page_writes_stays_damaged() {
    let Some(tearing) = crash_in_a_checkpoint("full_page_writes = off", Plan { seed: 2, tears: 450 }) else { return };
    let (tears, kinds) = look(&tearing);
    assert_many(&kinds, 400);
    match recover(&tearing.server) {
        Recovered::Not(server) => {
            assert!(server.log().contains("invalid page in block"), "{}", server.log());
            assert!(tears.iter().any(|tear| tear.fails_checksum(&server.data())), "no page is damaged");
        }
        Recovered::Started { is_clean, .. } => assert!(!is_clean, "pg_checksums finds no damage"),
    }
}

/// A completed checkpoint would move the start of recovery past the images of the torn pages.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn no_checkpoint_completes_over_torn_pages() {
    let Some(tearing) = crash_in_a_checkpoint("full_page_writes = on", Plan { seed: 3, tears: 10_000 }) else { return };
    let (_, kinds) = look(&tearing);
    assert_many(&kinds, 450);
    assert!(kinds.pages < 10_000, "{kinds:?}");
    assert_recovers(&tearing.server);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn synced_pages_are_whole() {
    let settings = "full_page_writes = on\nfsync = on\nsynchronous_commit = off\nshared_buffers = 64MB";
    let Some((tearing, load)) = start_under_load(settings, Plan { seed: 4, tears: 800 }) else { return };
    let before = tearing.server.log().matches("checkpoint complete").count();
    tearing.arm();
    repeat_until_crash(&tearing, &["checkpoint"]);
    drop(load);
    let after = tearing.server.log().matches("checkpoint complete").count();
    assert!(after > before, "{}", tearing.server.log());
    let (_, kinds) = look(&tearing);
    // How many were torn since the last checkpoint is a matter of chance.
    assert!(kinds.whole_later >= 100, "{kinds:?}");
    assert_recovers(&tearing.server);
}

/// Clients write pages to have room for others, and read them again; a file is cut off and grows again.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_torn_by_clients_are_read_whole_until_the_crash() {
    let settings = "full_page_writes = on\nshared_buffers = 2MB";
    let Some((tearing, load)) = start_under_load(settings, Plan { seed: 5, tears: 2000 }) else { return };
    tearing.arm();
    let fill = "insert into brief select repeat('x', 500) from generate_series(1, 2000)";
    repeat_until_crash(&tearing, &[fill, "delete from brief", "vacuum brief"]);
    drop(load);
    let (_, kinds) = look(&tearing);
    // Pages are written more than once, torn or whole, and only the last write counts.
    assert!(kinds.pages < 2000 && kinds.whole_later > 0, "{kinds:?}");
    assert!(kinds.visible >= 20 && kinds.failing >= 10, "{kinds:?}");
    let log = tearing.server.log();
    // Two clients that update several rows each can meet in a deadlock, which has nothing to do with pages.
    let failed = |line: &str| line.contains("ERROR") && !line.contains("deadlock detected");
    assert!(!log.lines().any(failed) && !log.contains("invalid page"), "{log}");
    assert_recovers(&tearing.server);
}
