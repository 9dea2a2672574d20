//! Ends of transactions: records of commits and aborts.
//! Also here: when a record was written, where it says so.

use super::lifecycle::items;
use super::payload::PgTimestamp;
use super::record::Record;
use super::records::RecordKind;
use crate::parsers::decode::{ParseError, ParseStep, decode_at, field, le_i64, le_u32, take};

/// Flag in `xl_info` of a commit or abort: `xinfo` follows the time (`XLOG_XACT_HAS_INFO`).
const XACT_HAS_INFO: u8 = 0x80;
/// Bits of `xinfo` that say what follows (`XACT_XINFO_HAS_*`); the same in all majors.
const XINFO_HAS_DBINFO: u32 = 0x01;
const XINFO_HAS_SUBXACTS: u32 = 0x02;
const XINFO_HAS_RELS: u32 = 0x04;
const XINFO_HAS_INVALS: u32 = 0x08;
const XINFO_HAS_TWOPHASE: u32 = 0x10;
const XINFO_HAS_DROPPED_STATS: u32 = 0x100;

/// Bytes of an invalidation message.
const INVAL_BYTES: usize = 16;

/// The end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XactEnd {
    /// True at commit, false at abort.
    pub committed: bool,
    /// When it ended.
    pub time: PgTimestamp,
    /// The transaction, where the record names it.
    pub xid: Option<u32>,
    /// Its subtransactions.
    pub subxids: Vec<u32>,
}

/// Beginning of a commit or abort record: the time, then, when it is there, what follows (`xinfo`), in this order.
///
/// | what                 | size                    | present           |
/// |----------------------|-------------------------|-------------------|
/// | time                 | `int64`                 | always            |
/// | `xinfo`              | `uint32`                | with the flag 0x80 in `xl_info` |
/// | database, tablespace | 2 `uint32`              | bit 0x01          |
/// | subtransactions      | `int32` n, n times 4    | bit 0x02          |
/// | dropped relations    | `int32` n, n times 12   | bit 0x04          |
/// | dropped statistics   | differs by major        | bit 0x100, from 15 on |
/// | invalidations        | `int32` n, n times 16   | bit 0x08, only at commit |
/// | prepared transaction | `uint32`                | bit 0x10          |
///
/// More follows, which is not needed here.
///
/// Source: `ParseCommitRecord`, `ParseAbortRecord`, `src/backend/access/rmgrdesc/xactdesc.c`.
pub(super) struct XactHead {
    /// When the transaction ended.
    pub(super) time: PgTimestamp,
    xinfo: u32,
}

pub(super) struct XactLists<'a> {
    subxids: &'a [u8],
    /// 12 bytes each.
    pub(super) rels: &'a [u8],
}

impl XactHead {
    pub(super) fn parse(info: u8, i: &[u8]) -> ParseStep<'_, Self> {
        let (mut i, time) = field(i, "xact_time", le_i64)?;
        let mut xinfo = 0;
        if info & XACT_HAS_INFO != 0 {
            (i, xinfo) = field(i, "xinfo", le_u32)?;
        }
        Ok((i, Self { time: PgTimestamp(time), xinfo }))
    }

    pub(super) const fn has_rels(&self) -> bool {
        self.has(XINFO_HAS_RELS)
    }

    const fn has(&self, bit: u32) -> bool {
        self.xinfo & bit != 0
    }

    pub(super) fn lists<'a>(&self, mut i: &'a [u8]) -> ParseStep<'a, XactLists<'a>> {
        let mut lists = XactLists { subxids: &[], rels: &[] };
        if self.has(XINFO_HAS_DBINFO) {
            (i, _) = field(i, "dbinfo", take(8))?;
        }
        if self.has(XINFO_HAS_SUBXACTS) {
            (i, lists.subxids) = items(i, "nsubxacts", 4)?;
        }
        if self.has(XINFO_HAS_RELS) {
            (i, lists.rels) = items(i, "nrels", 12)?;
        }
        Ok((i, lists))
    }

    /// The part after the lists: the transaction that was prepared before, unless the part in between differs by major version.
    fn prepared_xid<'a>(&self, mut i: &'a [u8]) -> ParseStep<'a, Option<u32>> {
        if !self.has(XINFO_HAS_TWOPHASE) || self.has(XINFO_HAS_DROPPED_STATS) {
            return Ok((i, None));
        }
        if self.has(XINFO_HAS_INVALS) {
            (i, _) = items(i, "nmsgs", INVAL_BYTES)?;
        }
        let (i, xid) = field(i, "xid", le_u32)?;
        Ok((i, Some(xid)))
    }
}

impl XactEnd {
    /// The end of a transaction that `record` tells, or `None` when it tells none.
    ///
    /// # Errors
    /// `Truncated` or `Invalid` when the main data is not what its type says.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        let kind = record.kind();
        if !kind.ends_xact() {
            return Ok(None);
        }
        let base = record.main_data_lsn().0;
        decode_at("xl_xact_commit", base, record.main_data(), |i| {
            let (i, head) = XactHead::parse(record.header.info, i)?;
            let (i, lists) = head.lists(i)?;
            let (i, prepared) = head.prepared_xid(i)?;
            let xid = if kind.ends_prepared() { prepared } else { Some(record.header.xid).filter(|xid| *xid != 0) };
            Ok((i, Some(Self { committed: kind.commits(), time: head.time, xid, subxids: xids(lists.subxids) })))
        })
    }
}

/// Subtransactions, and the transaction that they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubXacts {
    /// The transaction above them: that at the top, but of an abort the one that was rolled back.
    pub xid: u32,
    /// Those below it.
    pub subxids: Vec<u32>,
}

impl SubXacts {
    /// The event in `record`: a commit, an abort, or an `ASSIGNMENT`, which is written once for every 64 subtransactions of a
    /// transaction that is still running. `None` when it tells of none.
    ///
    /// | bytes of `ASSIGNMENT` | field       | C type            |
    /// |-----------------------|-------------|-------------------|
    /// | 0..4                  | `xtop`      | `TransactionId`   |
    /// | 4..8                  | `nsubxacts` | `int`             |
    /// | 8..                   | `xsub`      | `TransactionId[]` |
    ///
    /// Source: `xl_xact_assignment`, `src/include/access/xact.h`.
    ///
    /// # Errors
    /// `Truncated` or `Invalid` when the main data is not what its type says.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        if record.kind() == RecordKind::XactAssignment {
            let base = record.main_data_lsn().0;
            return decode_at("xl_xact_assignment", base, record.main_data(), |i| {
                let (i, xid) = field(i, "xtop", le_u32)?;
                let (i, subxids) = items(i, "nsubxacts", 4)?;
                Ok((i, Some(Self { xid, subxids: xids(subxids) })))
            });
        }
        let Some(end) = XactEnd::of(record)? else { return Ok(None) };
        Ok(end.xid.filter(|_| !end.subxids.is_empty()).map(|xid| Self { xid, subxids: end.subxids }))
    }
}

fn xids(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Bytes before `prepared_at` in the state of a prepared transaction: magic, length, transaction, database.
///
/// Source: `TwoPhaseFileHeader`, `src/backend/access/transam/twophase.c` (`src/include/access/xact.h` before).
const PREPARED_AT: usize = 16;

/// The clock of the server as it wrote a record; `None` for a record that tells no time, or is too short to.
///
/// Commits, aborts, prepared transactions, restore points and the end of recovery tell it. Those of checkpoints are left
/// out: they tell when the checkpoint began, in whole seconds, which is long before their record.
///
/// Clocks can be set back: a later record may tell an earlier time.
#[inline]
pub fn record_time(record: &Record<'_>) -> Option<PgTimestamp> {
    let at = match record.kind() {
        RecordKind::XactPrepare => PREPARED_AT,
        RecordKind::XlogRestorePoint | RecordKind::XlogEndOfRecovery => 0,
        kind if kind.ends_xact() => 0,
        _ => return None,
    };
    let bytes = record.main_data().get(at..)?.first_chunk()?;
    Some(PgTimestamp(i64::from_le_bytes(*bytes)))
}
