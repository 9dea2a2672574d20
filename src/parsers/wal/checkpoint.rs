//! The `CheckPoint` struct: payload of checkpoint records, and part of pg_control.

use nom::Parser;
use nom::error::context;

use super::version::XlogFormat;
use crate::parsers::decode::{ParseError, ParseStep, decode_at, le_i32, le_i64, le_u8, le_u32, le_u64, take};
use crate::types::{Lsn, Oid, TimelineId};

/// State of the cluster at a checkpoint, little-endian. Its size is `XlogFormat::checkpoint_size`; offsets by major:
///
/// | field                    | C type              | 10, 11 | 12 to 16 | 17, 18 | 19 |
/// |--------------------------|---------------------|--------|----------|--------|----|
/// | `redo`                   | `XLogRecPtr`        | 0      | 0        | 0      | 0  |
/// | `ThisTimeLineID`         | `TimeLineID`        | 8      | 8        | 8      | 8  |
/// | `PrevTimeLineID`         | `TimeLineID`        | 12     | 12       | 12     | 12 |
/// | `fullPageWrites`         | `bool`              | 16     | 16       | 16     | 16 |
/// | `wal_level`              | `int`               | -      | -        | 20     | 20 |
/// | `logicalDecodingEnabled` | `bool`              | -      | -        | -      | 24 |
/// | `nextXidEpoch`           | `uint32`            | 20     | -        | -      | -  |
/// | `nextXid`                | `uint32`/`uint64`   | 24     | 24       | 24     | 32 |
/// | `nextOid`                | `Oid`               | 28     | 32       | 32     | 40 |
/// | `nextMulti`              | `MultiXactId`       | 32     | 36       | 36     | 44 |
/// | `nextMultiOffset`        | `uint32`, 19 `uint64` | 36   | 40       | 40     | 48 |
/// | `oldestXid`              | `TransactionId`     | 40     | 44       | 44     | 56 |
/// | `oldestXidDB`            | `Oid`               | 44     | 48       | 48     | 60 |
/// | `oldestMulti`            | `MultiXactId`       | 48     | 52       | 52     | 64 |
/// | `oldestMultiDB`          | `Oid`               | 52     | 56       | 56     | 68 |
/// | `time`                   | `pg_time_t`         | 56     | 64       | 64     | 72 |
/// | `oldestCommitTsXid`      | `TransactionId`     | 64     | 72       | 72     | 80 |
/// | `newestCommitTsXid`      | `TransactionId`     | 68     | 76       | 76     | 84 |
/// | `oldestActiveXid`        | `TransactionId`     | 72     | 80       | 80     | 88 |
///
/// Source: `CheckPoint`, `src/include/catalog/pg_control.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPoint {
    /// Where replay starts.
    pub redo_lsn: Lsn,
    /// Timeline of the checkpoint.
    pub tli: TimelineId,
    /// Timeline before; another one when the record begins a timeline.
    pub prev_tli: TimelineId,
    /// Setting `full_page_writes` at the redo point; 0 or 1.
    pub full_page_writes: u8,
    /// Setting `wal_level`: 0 minimal, 1 replica, 2 logical. From 17 on.
    pub wal_level: Option<i32>,
    /// Logical decoding is on; 0 or 1. From 19 on.
    pub logical_decoding_enabled: Option<u8>,
    /// Next transaction id, epoch in the high 32 bits.
    pub next_full_xid: u64,
    /// Next OID.
    pub next_oid: Oid,
    /// Next multixact id.
    pub next_multi: u32,
    /// Next offset for multixact members.
    pub next_multi_offset: u64,
    /// Oldest transaction id still in a table.
    pub oldest_xid: u32,
    /// Database that holds it.
    pub oldest_xid_db: Oid,
    /// Oldest multixact id still in a table.
    pub oldest_multi: u32,
    /// Database that holds it.
    pub oldest_multi_db: Oid,
    /// When the checkpoint was made, seconds since 1970-01-01 UTC.
    pub time_s: i64,
    /// Oldest transaction with a commit timestamp.
    pub oldest_commit_ts_xid: u32,
    /// Newest transaction with a commit timestamp.
    pub newest_commit_ts_xid: u32,
    /// Oldest transaction still running; 0 unless the server was online and wrote for standbys.
    pub oldest_active_xid: u32,
}

impl CheckPoint {
    /// The next transaction, as rows name it: without its epoch.
    pub fn next_xid(&self) -> u32 {
        u32::try_from(self.next_full_xid & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// Decodes without judging. `base` is the offset of `buf[0]`, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than `XlogFormat::checkpoint_size`.
    pub fn decode(format: XlogFormat, base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("CheckPoint", base, buf, |i| Self::parse(format, i))
    }

    fn parse(format: XlogFormat, i: &[u8]) -> ParseStep<'_, Self> {
        let (i, redo) = context("redo", le_u64).parse(i)?;
        let (i, tli) = context("ThisTimeLineID", le_u32).parse(i)?;
        let (i, prev_tli) = context("PrevTimeLineID", le_u32).parse(i)?;
        let (i, full_page_writes) = context("fullPageWrites", le_u8).parse(i)?;
        let (mut i, _) = context("padding", take(3)).parse(i)?;
        let mut wal_level = None;
        if format >= XlogFormat::To18 {
            let (rest, level) = context("wal_level", le_i32).parse(i)?;
            (i, wal_level) = (rest, Some(level));
        }
        let mut logical_decoding_enabled = None;
        if format >= XlogFormat::Since19 {
            let (rest, enabled) = context("logicalDecodingEnabled", le_u8).parse(i)?;
            (i, logical_decoding_enabled) = (rest, Some(enabled));
            (i, _) = context("padding", take(7)).parse(i)?;
        } else if format == XlogFormat::To16 {
            (i, _) = context("padding", take(4)).parse(i)?;
        }
        let (i, next_full_xid) = if format == XlogFormat::To11 {
            let (i, epoch) = context("nextXidEpoch", le_u32).parse(i)?;
            let (i, xid) = context("nextXid", le_u32).parse(i)?;
            (i, u64::from(epoch) << 32 | u64::from(xid))
        } else {
            context("nextXid", le_u64).parse(i)?
        };
        let (i, next_oid) = context("nextOid", le_u32).parse(i)?;
        let (i, next_multi) = context("nextMulti", le_u32).parse(i)?;
        let (i, next_multi_offset) = if format >= XlogFormat::Since19 {
            context("nextMultiOffset", le_u64).parse(i)?
        } else {
            let (i, offset) = context("nextMultiOffset", le_u32).parse(i)?;
            (i, u64::from(offset))
        };
        let (i, oldest_xid) = context("oldestXid", le_u32).parse(i)?;
        let (i, oldest_xid_db) = context("oldestXidDB", le_u32).parse(i)?;
        let (i, oldest_multi) = context("oldestMulti", le_u32).parse(i)?;
        let (mut i, oldest_multi_db) = context("oldestMultiDB", le_u32).parse(i)?;
        if matches!(format, XlogFormat::To16 | XlogFormat::To18) {
            (i, _) = context("padding", take(4)).parse(i)?;
        }
        let (i, time_s) = context("time", le_i64).parse(i)?;
        let (i, oldest_commit_ts_xid) = context("oldestCommitTsXid", le_u32).parse(i)?;
        let (i, newest_commit_ts_xid) = context("newestCommitTsXid", le_u32).parse(i)?;
        let (i, oldest_active_xid) = context("oldestActiveXid", le_u32).parse(i)?;
        let (i, _) = context("padding", take(4)).parse(i)?;
        let checkpoint = Self {
            redo_lsn: Lsn(redo),
            tli: TimelineId(tli),
            prev_tli: TimelineId(prev_tli),
            full_page_writes,
            wal_level,
            logical_decoding_enabled,
            next_full_xid,
            next_oid,
            next_multi,
            next_multi_offset,
            oldest_xid,
            oldest_xid_db,
            oldest_multi,
            oldest_multi_db,
            time_s,
            oldest_commit_ts_xid,
            newest_commit_ts_xid,
            oldest_active_xid,
        };
        Ok((i, checkpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::version::Major;

    /// Offset and length of the fields that one byte pattern per field can distinguish, by major.
    fn offsets(major: Major) -> [(usize, usize); 10] {
        match major {
            Major::V10 | Major::V11 => {
                [(28, 4), (32, 4), (36, 4), (40, 4), (44, 4), (48, 4), (52, 4), (56, 8), (64, 4), (72, 4)]
            }
            Major::V19Devel | Major::V19 => {
                [(40, 4), (44, 4), (48, 8), (56, 4), (60, 4), (64, 4), (68, 4), (72, 8), (80, 4), (88, 4)]
            }
            _ => [(32, 4), (36, 4), (40, 4), (44, 4), (48, 4), (52, 4), (56, 4), (64, 8), (72, 4), (80, 4)],
        }
    }

    #[test]
    fn fields_lie_where_the_fact_sheet_says() {
        for major in Major::ALL {
            let mut bytes = vec![0; major.facts().xlog.checkpoint_size()];
            for (index, (offset, length)) in offsets(major).into_iter().enumerate() {
                bytes[offset..offset + length].fill(index as u8 + 1);
            }
            let c = CheckPoint::decode(major.facts().xlog, 0, &bytes).unwrap();
            let wide = |n: u64, length: usize| n * if length == 8 { 0x0101_0101_0101_0101 } else { 0x0101_0101 };
            let expected: Vec<u64> = (1..=10).map(|n| wide(n, offsets(major)[n as usize - 1].1)).collect();
            let found = [
                u64::from(c.next_oid),
                u64::from(c.next_multi),
                c.next_multi_offset,
                u64::from(c.oldest_xid),
                u64::from(c.oldest_xid_db),
                u64::from(c.oldest_multi),
                u64::from(c.oldest_multi_db),
                c.time_s as u64,
                u64::from(c.oldest_commit_ts_xid),
                u64::from(c.oldest_active_xid),
            ];
            assert_eq!(found[..], expected[..], "{major}");
        }
    }

    #[test]
    fn sizes_are_exact() {
        for major in Major::ALL {
            let bytes = vec![0; major.facts().xlog.checkpoint_size()];
            assert!(CheckPoint::decode(major.facts().xlog, 0, &bytes).is_ok(), "{major}");
            for cut in 0..bytes.len() {
                assert!(CheckPoint::decode(major.facts().xlog, 0, &bytes[..cut]).is_err(), "{major} {cut}");
            }
        }
    }

    #[test]
    fn epoch_and_xid_are_joined_before_12() {
        let mut bytes = vec![0; 80];
        bytes[20] = 2;
        bytes[24] = 3;
        assert_eq!(CheckPoint::decode(XlogFormat::To11, 0, &bytes).unwrap().next_full_xid, 2 << 32 | 3);
    }
}
