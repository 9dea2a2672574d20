use super::*;
use crate::parsers::wal::block::BodyLayout;
use crate::parsers::wal::tests::{VECTORS, bytes_of};

fn payload_of(name: &str) -> XlogPayload {
    let vector = VECTORS.iter().find(|vector| vector.name == name).unwrap();
    let bytes = bytes_of(vector.hex);
    let layout = BodyLayout::decode(vector.lsn, vector.major, 8192, &bytes[24..]).unwrap();
    XlogPayload::decode(vector.major, bytes[16], 0, layout.main_data(&bytes[24..])).unwrap()
}

fn decode(major: Major, info: u8, bytes: &[u8]) -> XlogPayload {
    XlogPayload::decode(major, info, 0, bytes).unwrap()
}

#[test]
fn real_records_say_what_the_server_meant() {
    assert_eq!(payload_of("NEXTOID"), XlogPayload::NextOid(0x4710));
    assert_eq!(payload_of("SWITCH"), XlogPayload::Switch);
    assert_eq!(payload_of("FPW_CHANGE"), XlogPayload::FullPageWritesChange(0));
    assert_eq!(payload_of("CHECKPOINT_REDO"), XlogPayload::CheckpointRedo { wal_level: 1 });
    assert_eq!(payload_of("FPI with hole"), XlogPayload::Fpi);
    assert_eq!(payload_of("zstd"), XlogPayload::FpiForHint);
    let XlogPayload::CheckpointOnline(checkpoint) = payload_of("CHECKPOINT_ONLINE") else { panic!() };
    assert_eq!(
        (checkpoint.redo_lsn, checkpoint.tli, checkpoint.prev_tli),
        (Lsn(0x173_DFD8), TimelineId(1), TimelineId(1))
    );
    assert_eq!((checkpoint.full_page_writes, checkpoint.wal_level), (1, Some(1)));
    assert_eq!((checkpoint.next_full_xid, checkpoint.next_oid, checkpoint.oldest_xid), (745, 20192, 744));
    assert_eq!((checkpoint.time_s, checkpoint.oldest_active_xid), (0x6B00_9BE2, 744));
    assert_eq!((checkpoint.next_multi, checkpoint.oldest_multi, checkpoint.oldest_multi_db), (1, 1, 1));
}

#[test]
fn parameters_have_one_more_field_from_12_on() {
    let mut bytes = Vec::new();
    for number in [100_i32, 8, 10, 2, 64, 1] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([1, 0, 0xEE, 0xEE]);
    let XlogPayload::ParameterChange(change) = decode(Major::V12, 0x60, &bytes) else { panic!() };
    assert_eq!((change.max_connections, change.max_wal_senders, change.max_prepared_xacts), (100, Some(10), 2));
    assert_eq!((change.max_locks_per_xact, change.wal_level), (64, 1));
    assert_eq!((change.wal_log_hints, change.track_commit_timestamp), (1, 0));
    bytes.drain(8..12);
    let XlogPayload::ParameterChange(old) = decode(Major::V11, 0x60, &bytes) else { panic!() };
    assert_eq!(old, ParameterChange { max_wal_senders: None, ..change });
    assert!(XlogPayload::decode(Major::V12, 0x60, 0, &bytes[..20]).is_err());
}

#[test]
fn restore_point_names_end_at_the_first_nul() {
    let mut bytes = vec![5, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(b"before\0garbage");
    bytes.resize(72, 0xEE);
    let expected = XlogPayload::RestorePoint { time: PgTimestamp(5), name: b"before".to_vec() };
    assert_eq!(decode(Major::V10, 0x70, &bytes), expected);
    bytes[8..].fill(b'x');
    let expected = XlogPayload::RestorePoint { time: PgTimestamp(5), name: vec![b'x'; 64] };
    assert_eq!(decode(Major::V18, 0x70, &bytes), expected);
    assert!(XlogPayload::decode(Major::V18, 0x70, 0, &bytes[..71]).is_err());
}

#[test]
fn end_of_recovery_grew_with_17() {
    let bytes: Vec<u8> = [9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0].to_vec();
    let expected = |wal_level| XlogPayload::EndOfRecovery {
        time: PgTimestamp(9),
        tli: TimelineId(3),
        prev_tli: TimelineId(2),
        wal_level,
    };
    assert_eq!(decode(Major::V16, 0x90, &bytes[..16]), expected(None));
    assert_eq!(decode(Major::V17, 0x90, &bytes), expected(Some(1)));
    assert!(XlogPayload::decode(Major::V17, 0x90, 0, &bytes[..16]).is_err());
}

#[test]
fn small_payloads_and_unknown_types() {
    let lsn = 0x1234_5678_u64.to_le_bytes();
    assert_eq!(decode(Major::V14, 0x50, &lsn), XlogPayload::BackupEnd { start_lsn: Lsn(0x1234_5678) });
    let both = [lsn, 7_u64.to_le_bytes()].concat();
    let expected = XlogPayload::OverwriteContrecord { overwritten_lsn: Lsn(0x1234_5678), time: PgTimestamp(7) };
    assert_eq!(decode(Major::V14, 0xD0, &both), expected);
    assert_eq!(decode(Major::V19, 0xF0, &[1]), XlogPayload::LogicalDecodingStatusChange(1));
    assert_eq!(decode(Major::V18, 0xF0, &[1]), XlogPayload::Unknown(0xF0));
    assert_eq!(decode(Major::V16, 0xE0, &[1]), XlogPayload::Unknown(0xE0));
    assert_eq!(decode(Major::V16, 0xC0, &[1]), XlogPayload::Unknown(0xC0));
    assert_eq!(decode(Major::V10, 0x2F, &[]), XlogPayload::Noop);
}
