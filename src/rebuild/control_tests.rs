use std::fs;
use std::path::Path;

use super::*;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::version::Major;
use crate::types::TimelineId;

/// `pg_control` of a server of this major that was killed while running.
fn control_of(major: Major) -> ClusterControl {
    let name = if major == Major::V19 { "19rc1".to_owned() } else { major.number().to_string() };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/control/{name}/pg_control_running"));
    ClusterControl::read(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn control_of_every_major_begins_replay_at_the_checkpoint_that_never_was() {
    for major in Major::ALL {
        let cluster = control_of(major);
        let lsn = Lsn(0x7_0010_0028);
        let payload = cluster.checkpoint(lsn, cluster.full_xid(800));
        assert_eq!(payload.len(), major.facts().xlog.checkpoint_size(), "{major}");
        let bytes = cluster.for_sandbox(lsn, &payload);
        let made = ControlFile::decode(&bytes).unwrap().unwrap();
        assert!(made.crc_is_good() && bytes.len() == CONTROL_FILE_SIZE, "{major}");
        assert_eq!((made.prefix.state, made.checkpoint_lsn, made.checkpoint.redo_lsn), (DbState(6), lsn, lsn));
        assert_eq!(made.checkpoint, CheckPoint::decode(major.facts().xlog, 0, &payload).unwrap());
        assert_eq!((made.checkpoint.tli, made.checkpoint.prev_tli), (TimelineId(1), TimelineId(1)));
        assert_eq!((made.checkpoint.next_full_xid, made.checkpoint.oldest_xid), (32_768, 31_768), "{major}");
        assert_eq!((made.checkpoint.next_multi, made.checkpoint.oldest_multi), (1, 1));
        assert_eq!((made.checkpoint.oldest_xid_db, made.checkpoint.oldest_multi_db), (1, 1));
        assert_eq!((made.checkpoint.full_page_writes, made.checkpoint.oldest_active_xid), (0, 0));
        assert!(!made.is_in_archive_recovery() && !made.backup_end_required && !made.backup_end_lsn.is_valid());
        // All else is the cluster's.
        let own = &cluster.file;
        assert_eq!(made.prefix.system_identifier, own.prefix.system_identifier);
        assert_eq!(
            (made.geometry, made.checksums, made.wal_log_hints),
            (own.geometry, own.checksums, own.wal_log_hints)
        );
        assert_eq!(made.mock_authentication_nonce, own.mock_authentication_nonce);
        assert_eq!(made.prev_checkpoint_lsn.unwrap_or(lsn), lsn);
    }
}

#[test]
fn transactions_keep_their_epoch() {
    let mut cluster = control_of(Major::NEWEST);
    cluster.file.checkpoint.next_full_xid = 5 << 32 | 1000;
    assert_eq!(cluster.full_xid(999), 5 << 32 | 999);
    assert_eq!(cluster.full_xid(1200), 5 << 32 | 1200);
    // From before the numbers went around.
    assert_eq!(cluster.full_xid(u32::MAX - 9), (5 << 32) - 10);
    let next = |newest| {
        let payload = cluster.checkpoint(Lsn(40), newest);
        let made = CheckPoint::decode(Major::NEWEST.facts().xlog, 0, &payload).unwrap();
        (made.next_full_xid, made.oldest_xid)
    };
    assert_eq!(next(5 << 32 | 999), (5 << 32 | 32_768, 31_768));
    assert_eq!(next(5 << 32 | 32_767), (5 << 32 | 32_768, 31_768));
    assert_eq!(next(5 << 32 | 32_768), (5 << 32 | 65_536, 64_536));
    // The first page of an epoch holds numbers that mean something else.
    assert_eq!(next((5 << 32) - 10), (5 << 32 | 32_768, 31_768));
    assert_eq!(next(0), (32_768, 31_768));
}

#[test]
fn epoch_is_a_field_of_its_own_before_12() {
    let mut cluster = control_of(Major::OLDEST);
    cluster.file.checkpoint.next_full_xid = 3 << 32 | 700;
    let payload = cluster.checkpoint(Lsn(40), cluster.full_xid(600));
    assert_eq!((payload[20..24].to_vec(), payload[24..28].to_vec()), (vec![3, 0, 0, 0], vec![0, 0x80, 0, 0]));
}

#[test]
fn control_that_a_server_would_not_take_is_refused() {
    let good = control_of(Major::NEWEST).bytes;
    let problem = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        ClusterControl::read(&bytes).err()
    };
    assert_eq!(problem(&|_| {}), None);
    assert_eq!(problem(&|bytes| bytes[40] ^= 1), Some(ControlProblem::WrongCrc));
    assert_eq!(problem(&|bytes| bytes[8..12].fill(0x11)), Some(ControlProblem::UnknownVersion));
    assert!(matches!(problem(&|bytes| bytes.truncate(100)), Some(ControlProblem::Short(_))));
}
