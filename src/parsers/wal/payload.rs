//! Content of records of the resource manager XLOG.

use super::records::RecordKind;
use nom::Parser;
use nom::error::context;

use super::checkpoint::CheckPoint;
use super::names::RM_XLOG;
use super::record::{RMGR_INFO_MASK, Record, RecordHeader};
use super::version::{Major, XlogFormat};
use crate::parsers::decode::{
    ParseError, ParseErrorKind, ParseStep, decode_at, le_i32, le_i64, le_u8, le_u32, le_u64, take,
};
use crate::types::{Lsn, Oid, TimelineId};

/// Microseconds since 2000-01-01 00:00 UTC (`TimestampTz`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgTimestamp(pub i64);

impl PgTimestamp {
    /// Seconds from 1970-01-01 to 2000-01-01.
    const EPOCH_S: i64 = 946_684_800;

    /// Whole seconds since 1970-01-01 00:00 UTC.
    pub(crate) const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000).saturating_add(Self::EPOCH_S)
    }

    /// Microseconds since 1970-01-01 00:00 UTC.
    pub(crate) const fn unix_microseconds(self) -> i64 {
        self.0.saturating_add(Self::EPOCH_S.saturating_mul(1_000_000))
    }

    /// The start of a second since 1970-01-01 00:00 UTC.
    pub(crate) const fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_sub(Self::EPOCH_S).saturating_mul(1_000_000))
    }

    /// Microseconds since 1970-01-01 00:00 UTC as a time.
    pub(crate) const fn from_unix_us(us: i64) -> Self {
        Self(us.saturating_sub(Self::EPOCH_S.saturating_mul(1_000_000)))
    }

    /// True for a time that the clock of a server can show. No such server ran before 1970 or is to run from 2100 on: its
    /// bytes are damaged, or its clock told nothing of the time.
    pub const fn is_possible(self) -> bool {
        /// 2100-01-01 00:00 UTC.
        const END_S: i64 = 4_102_444_800;
        let seconds = self.unix_seconds();
        seconds >= 0 && seconds < END_S
    }

    /// Microseconds from `earlier` to this time; negative when it is later.
    pub(crate) const fn us_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A record of the resource manager XLOG, decoded. Flags that C keeps in a `bool` are bytes here: 0, 1, or damage.
///
/// Source: `src/include/catalog/pg_control.h` (types), `src/include/access/xlog_internal.h` (structs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XlogPayload {
    /// `CHECKPOINT_SHUTDOWN`: the server shut down, or ended recovery.
    CheckpointShutdown(CheckPoint),
    /// `CHECKPOINT_ONLINE`.
    CheckpointOnline(CheckPoint),
    /// `NOOP`.
    Noop,
    /// `NEXTOID`, 4 bytes: OIDs up to here may be in use.
    NextOid(Oid),
    /// `SWITCH`: the rest of the segment is empty.
    Switch,
    /// `BACKUP_END`, 8 bytes: the redo pointer from which the backup must be replayed.
    BackupEnd {
        /// Redo pointer of the backup's checkpoint.
        start_lsn: Lsn,
    },
    /// `PARAMETER_CHANGE`.
    ParameterChange(ParameterChange),
    /// `RESTORE_POINT`, 72 bytes.
    RestorePoint {
        /// When it was made.
        time: PgTimestamp,
        /// Bytes of the name up to the first NUL, at most 64; not necessarily UTF-8.
        name: Vec<u8>,
    },
    /// `FPW_CHANGE`, 1 byte: the new setting of `full_page_writes`.
    FullPageWritesChange(u8),
    /// `END_OF_RECOVERY`.
    EndOfRecovery {
        /// When recovery ended.
        time: PgTimestamp,
        /// The timeline that begins.
        tli: TimelineId,
        /// The timeline that was replayed.
        prev_tli: TimelineId,
        /// Setting `wal_level`, from 17 on.
        wal_level: Option<i32>,
    },
    /// `FPI_FOR_HINT`: image of a page of which only hint bits changed.
    FpiForHint,
    /// `FPI`: images alone.
    Fpi,
    /// `OVERWRITE_CONTRECORD`, 16 bytes: replaces a record that a crash cut off.
    OverwriteContrecord {
        /// Start of the record that was cut off.
        overwritten_lsn: Lsn,
        /// When this was noticed.
        time: PgTimestamp,
    },
    /// `CHECKPOINT_REDO`, 4 bytes, from 17 on: an online checkpoint's redo pointer is this record's LSN.
    CheckpointRedo {
        /// Setting `wal_level`.
        wal_level: i32,
    },
    /// `LOGICAL_DECODING_STATUS_CHANGE`, 1 byte, from 19 on.
    LogicalDecodingStatusChange(u8),
    /// No type of this major; the bits of `xl_info` that give it.
    Unknown(u8),
}

/// Settings that matter to replay: payload of `PARAMETER_CHANGE`, little-endian, 28 bytes (24 in 10 and 11).
///
/// | bytes  | 10, 11 | field                    | C type |
/// |--------|--------|--------------------------|--------|
/// | 0..4   | 0..4   | `MaxConnections`         | `int`  |
/// | 4..8   | 4..8   | `max_worker_processes`   | `int`  |
/// | 8..12  | -      | `max_wal_senders`        | `int`  |
/// | 12..16 | 8..12  | `max_prepared_xacts`     | `int`  |
/// | 16..20 | 12..16 | `max_locks_per_xact`     | `int`  |
/// | 20..24 | 16..20 | `wal_level`              | `int`  |
/// | 24..25 | 20..21 | `wal_log_hints`          | `bool` |
/// | 25..26 | 21..22 | `track_commit_timestamp` | `bool` |
/// | 26..28 | 22..24 | padding                  | -      |
///
/// Source: `xl_parameter_change`, `src/include/access/xlog_internal.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterChange {
    /// Setting `max_connections`.
    pub max_connections: i32,
    /// Setting `max_worker_processes`.
    pub max_worker_processes: i32,
    /// Setting `max_wal_senders`, from 12 on.
    pub max_wal_senders: Option<i32>,
    /// Setting `max_prepared_transactions`.
    pub max_prepared_xacts: i32,
    /// Setting `max_locks_per_transaction`.
    pub max_locks_per_xact: i32,
    /// Setting `wal_level`: 0 minimal, 1 replica, 2 logical.
    pub wal_level: i32,
    /// Setting `wal_log_hints`.
    pub wal_log_hints: u8,
    /// Setting `track_commit_timestamp`.
    pub track_commit_timestamp: u8,
}

impl XlogPayload {
    /// Decodes the main data of `record`, or `None` when another resource manager wrote it. Bytes after the fields are
    /// not examined.
    ///
    /// # Errors
    /// `Truncated` when the main data is shorter than its type says; `Invalid` for a checkpoint whose redo point no server
    /// can have chosen.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        if record.header.rmgr_id != RM_XLOG {
            return Ok(None);
        }
        let base = record.main_data_lsn().0;
        let payload = Self::decode(record.major, record.header.info, base, record.main_data())?;
        if let Self::CheckpointShutdown(checkpoint) | Self::CheckpointOnline(checkpoint) = &payload {
            let is_shutdown = matches!(payload, Self::CheckpointShutdown(_));
            let expected = impossible_redo(checkpoint.redo_lsn, record.start_lsn, is_shutdown);
            if let Some(expected) = expected {
                let kind = ParseErrorKind::Invalid { found: checkpoint.redo_lsn.0, expected };
                return Err(ParseError { structure: "CheckPoint", field: "redo", offset: base, kind });
            }
        }
        Ok(Some(payload))
    }

    /// Decodes main data whose type the high bits of `info` give. `base` is the LSN of `buf[0]`, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than its type says.
    pub fn decode(major: Major, info: u8, base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        let format = major.facts().xlog;
        match RecordKind::of(major, RM_XLOG, info) {
            RecordKind::XlogCheckpointShutdown => CheckPoint::decode(format, base, buf).map(Self::CheckpointShutdown),
            RecordKind::XlogCheckpointOnline => CheckPoint::decode(format, base, buf).map(Self::CheckpointOnline),
            RecordKind::XlogNoop => Ok(Self::Noop),
            RecordKind::XlogNextoid => decode_at("XLOG_NEXTOID", base, buf, |i| {
                let (i, oid) = context("nextOid", le_u32).parse(i)?;
                Ok((i, Self::NextOid(oid)))
            }),
            RecordKind::XlogSwitch => Ok(Self::Switch),
            RecordKind::XlogBackupEnd => decode_at("XLOG_BACKUP_END", base, buf, |i| {
                let (i, lsn) = context("startpoint", le_u64).parse(i)?;
                Ok((i, Self::BackupEnd { start_lsn: Lsn(lsn) }))
            }),
            RecordKind::XlogParameterChange => {
                decode_at("xl_parameter_change", base, buf, |i| parameter_change(major, i))
            }
            RecordKind::XlogRestorePoint => decode_at("xl_restore_point", base, buf, restore_point),
            RecordKind::XlogFpwChange => decode_at("XLOG_FPW_CHANGE", base, buf, |i| {
                let (i, on) = context("fullPageWrites", le_u8).parse(i)?;
                Ok((i, Self::FullPageWritesChange(on)))
            }),
            RecordKind::XlogEndOfRecovery => decode_at("xl_end_of_recovery", base, buf, |i| end_of_recovery(format, i)),
            RecordKind::XlogFpiForHint => Ok(Self::FpiForHint),
            RecordKind::XlogFpi => Ok(Self::Fpi),
            RecordKind::XlogOverwriteContrecord => decode_at("xl_overwrite_contrecord", base, buf, |i| {
                let (i, lsn) = context("overwritten_lsn", le_u64).parse(i)?;
                let (i, time) = context("overwrite_time", le_i64).parse(i)?;
                Ok((i, Self::OverwriteContrecord { overwritten_lsn: Lsn(lsn), time: PgTimestamp(time) }))
            }),
            RecordKind::XlogCheckpointRedo => decode_at("XLOG_CHECKPOINT_REDO", base, buf, |i| {
                let (i, wal_level) = context("wal_level", le_i32).parse(i)?;
                Ok((i, Self::CheckpointRedo { wal_level }))
            }),
            RecordKind::XlogLogicalDecodingStatusChange => {
                decode_at("XLOG_LOGICAL_DECODING_STATUS_CHANGE", base, buf, |i| {
                    let (i, on) = context("logical_decoding", le_u8).parse(i)?;
                    Ok((i, Self::LogicalDecodingStatusChange(on)))
                })
            }
            _ => Ok(Self::Unknown(info & RMGR_INFO_MASK)),
        }
    }
}

/// No segment of WAL begins before: the first one is never written, and none is shorter.
const FIRST_LSN: Lsn = Lsn(1 << 20);

/// Why the checkpoint in a record that starts at `start_lsn` cannot have this redo point; `None`: it can.
///
/// Source: `CreateCheckPoint`, `src/backend/access/transam/xlog.c`: the redo point is chosen before the record is written; at a
/// shutdown, when nothing else is, it is the record itself.
const fn impossible_redo(redo_lsn: Lsn, start_lsn: Lsn, is_shutdown: bool) -> Option<&'static str> {
    if redo_lsn.0 > start_lsn.0 {
        Some("not after the checkpoint record itself")
    } else if redo_lsn.0 < FIRST_LSN.0 {
        Some("not before the first segment of all WAL")
    } else if is_shutdown && redo_lsn.0 != start_lsn.0 {
        Some("the record itself, for the server shut down")
    } else {
        None
    }
}

/// `xl_parameter_change`.
fn parameter_change(major: Major, i: &[u8]) -> ParseStep<'_, XlogPayload> {
    let (i, max_connections) = context("MaxConnections", le_i32).parse(i)?;
    let (mut i, max_worker_processes) = context("max_worker_processes", le_i32).parse(i)?;
    let mut max_wal_senders = None;
    if major.facts().xlog >= XlogFormat::To16 {
        let (rest, senders) = context("max_wal_senders", le_i32).parse(i)?;
        (i, max_wal_senders) = (rest, Some(senders));
    }
    let (i, max_prepared_xacts) = context("max_prepared_xacts", le_i32).parse(i)?;
    let (i, max_locks_per_xact) = context("max_locks_per_xact", le_i32).parse(i)?;
    let (mut i, wal_level) = context("wal_level", le_i32).parse(i)?;
    if major.facts().keeps_ring {
        (i, _) = context("io_torn_pages_protection", le_i32).parse(i)?;
    }
    let (i, wal_log_hints) = context("wal_log_hints", le_u8).parse(i)?;
    let (i, track_commit_timestamp) = context("track_commit_timestamp", le_u8).parse(i)?;
    let change = ParameterChange {
        max_connections,
        max_worker_processes,
        max_wal_senders,
        max_prepared_xacts,
        max_locks_per_xact,
        wal_level,
        wal_log_hints,
        track_commit_timestamp,
    };
    Ok((i, XlogPayload::ParameterChange(change)))
}

/// `xl_restore_point`: time, then 64 bytes of which those after the first NUL mean nothing.
fn restore_point(i: &[u8]) -> ParseStep<'_, XlogPayload> {
    let (i, time) = context("rp_time", le_i64).parse(i)?;
    let (i, name) = context("rp_name", take(64)).parse(i)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    Ok((i, XlogPayload::RestorePoint { time: PgTimestamp(time), name }))
}

/// `xl_end_of_recovery`: 16 bytes, 24 from 17 on.
fn end_of_recovery(format: XlogFormat, i: &[u8]) -> ParseStep<'_, XlogPayload> {
    let (i, time) = context("end_time", le_i64).parse(i)?;
    let (i, tli) = context("ThisTimeLineID", le_u32).parse(i)?;
    let (mut i, prev_tli) = context("PrevTimeLineID", le_u32).parse(i)?;
    let mut wal_level = None;
    if format >= XlogFormat::To18 {
        let (rest, level) = context("wal_level", le_i32).parse(i)?;
        (i, wal_level) = (rest, Some(level));
    }
    let (tli, prev_tli) = (TimelineId(tli), TimelineId(prev_tli));
    Ok((i, XlogPayload::EndOfRecovery { time: PgTimestamp(time), tli, prev_tli, wal_level }))
}

/// LSN of the record that this one replaces, if its header is that of `OVERWRITE_CONTRECORD`.
pub(crate) fn overwritten_lsn(header: &RecordHeader, main_data: &[u8]) -> Option<Lsn> {
    if header.kind_in_all_majors() != RecordKind::XlogOverwriteContrecord {
        return None;
    }
    main_data.first_chunk().map(|&bytes| Lsn(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
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
}
