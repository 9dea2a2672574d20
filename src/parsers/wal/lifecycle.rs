//! Records after which a page need not exist any more, or exists again: files of relations and databases are created, removed
//! and shrink.
//!
//! `TRUNCATE` of the resource manager Heap is not among them: it serves logical decoding alone; the new file shows up as
//! a Storage `CREATE`, the old one in the commit's list of dropped files.
//! Also here: records that make tablespaces, and those that end transactions: commits and aborts; when a record was written, where it
//! says so.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nom::Parser;
use nom::error::context;
use strum::IntoStaticStr;

use super::payload::PgTimestamp;
use super::record::Record;
use super::records::RecordKind;
use super::version::{DatabaseRecords, Major};
use crate::parsers::decode::{ParseError, ParseStep, decode_at, field, invalid, le_i32, le_i64, le_u32, take};
use crate::types::{BlockNumber, ForkNumber, Lsn, Oid, RelFileLocator};

/// A change of files that a record describes without block references.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LifeCycle {
    /// A fork's file was created: Storage `CREATE`, 16 bytes (`xl_smgr_create`, `src/include/catalog/storage_xlog.h`).
    Created {
        /// The relation.
        rel: RelFileLocator,
        /// Code of the fork.
        fork_code: i32,
    },
    /// Forks lost their ends: Storage `TRUNCATE`, 20 bytes (`xl_smgr_truncate`, same file).
    Truncated {
        /// The relation.
        rel: RelFileLocator,
        /// Blocks that the main fork keeps. How many the maps keep follows from it.
        keeps_blocks: BlockNumber,
        /// Which forks: 1 main, 2 visibility map, 4 free space map.
        flags: i32,
    },
    /// A transaction ended and files went away: all forks of these relations.
    Dropped {
        /// True at commit: dropped by the transaction; false at abort: created by it.
        committed: bool,
        /// When the transaction ended.
        time: PgTimestamp,
        /// The relations.
        rels: Vec<RelFileLocator>,
    },
    /// A database was created: Database `CREATE`, `CREATE_FILE_COPY` or `CREATE_WAL_LOG`.
    DatabaseCreated {
        /// The database.
        db_oid: Oid,
        /// Tablespace of its directory.
        spc_oid: Oid,
        /// Database and tablespace whose files were copied without further records; `None` for `CREATE_WAL_LOG`.
        copied_from: Option<(Oid, Oid)>,
    },
    /// A database's directories went away: Database `DROP`.
    DatabaseDropped {
        /// The database.
        db_oid: Oid,
        /// Tablespaces of the directories.
        spc_oids: Vec<Oid>,
    },
}

impl LifeCycle {
    /// True when a Storage `TRUNCATE` with these flags cuts that fork. `pg_truncate_visibility_map` and repairs of a map cut maps alone.
    ///
    /// Source: `SMGR_TRUNCATE_HEAP`, `SMGR_TRUNCATE_VM` and `SMGR_TRUNCATE_FSM`, `src/include/catalog/storage_xlog.h`.
    pub const fn cuts(flags: i32, fork: ForkNumber) -> bool {
        let bit = match fork {
            ForkNumber::Main => 1,
            ForkNumber::Vm => 2,
            ForkNumber::Fsm => 4,
            ForkNumber::Init => 0,
        };
        flags & bit != 0
    }

    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// True for what concerns all relations of a database.
    pub(crate) const fn is_of_database(&self) -> bool {
        matches!(self, Self::DatabaseCreated { .. } | Self::DatabaseDropped { .. })
    }

    /// The change of files by `record`, or `None`.
    ///
    /// # Errors
    /// `Truncated` or `Invalid` when the main data is not what its type says.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        let base = record.main_data_lsn().0;
        Self::decode(record.major, record.header.rmgr_id, record.header.info, base, record.main_data())
    }

    /// Decodes main data of the type that `rmgr_id` and `info` give. `base` is the LSN of `buf[0]`, for error messages
    /// only.
    ///
    /// # Errors
    /// `Truncated` or `Invalid` when `buf` is not what its type says.
    pub fn decode(major: Major, rmgr_id: u8, info: u8, base: u64, buf: &[u8]) -> Result<Option<Self>, ParseError> {
        let kind = RecordKind::of(major, rmgr_id, info);
        match kind {
            RecordKind::SmgrCreate => decode_at("xl_smgr_create", base, buf, |i| {
                let (i, rel) = locator(i)?;
                let (i, fork_code) = context("forkNum", le_i32).parse(i)?;
                Ok((i, Some(Self::Created { rel, fork_code })))
            }),
            RecordKind::SmgrTruncate => decode_at("xl_smgr_truncate", base, buf, |i| {
                let (i, keeps_blocks) = context("blkno", le_u32).parse(i)?;
                let (i, rel) = locator(i)?;
                let (i, flags) = context("flags", le_i32).parse(i)?;
                Ok((i, Some(Self::Truncated { rel, keeps_blocks, flags })))
            }),
            _ if kind.ends_xact() => {
                let committed = kind.commits();
                let structure = if committed { "xl_xact_commit" } else { "xl_xact_abort" };
                decode_at(structure, base, buf, |i| dropped(committed, info, i))
            }
            RecordKind::DbaseCreateFileCopy => decode_at("xl_dbase_create_file_copy_rec", base, buf, |i| {
                let (i, db_oid) = context("db_id", le_u32).parse(i)?;
                let (i, spc_oid) = context("tablespace_id", le_u32).parse(i)?;
                let (i, from_db) = context("src_db_id", le_u32).parse(i)?;
                let (i, from_spc) = context("src_tablespace_id", le_u32).parse(i)?;
                Ok((i, Some(Self::DatabaseCreated { db_oid, spc_oid, copied_from: Some((from_db, from_spc)) })))
            }),
            RecordKind::DbaseCreateWalLog => decode_at("xl_dbase_create_wal_log_rec", base, buf, |i| {
                let (i, db_oid) = context("db_id", le_u32).parse(i)?;
                let (i, spc_oid) = context("tablespace_id", le_u32).parse(i)?;
                Ok((i, Some(Self::DatabaseCreated { db_oid, spc_oid, copied_from: None })))
            }),
            RecordKind::DbaseDrop => database_drop(major.facts().database, base, buf),
            _ => Ok(None),
        }
    }
}

/// `RelFileLocator` as C lays it out: 12 bytes.
fn locator(i: &[u8]) -> ParseStep<'_, RelFileLocator> {
    let (i, spc_oid) = context("spcOid", le_u32).parse(i)?;
    let (i, db_oid) = context("dbOid", le_u32).parse(i)?;
    let (i, rel_number) = context("relNumber", le_u32).parse(i)?;
    Ok((i, RelFileLocator { spc_oid, db_oid, rel_number }))
}

/// Reads a count and cuts off that many items of `size` bytes, so that nothing is allocated for a count that lies.
pub(super) fn items<'a>(i: &'a [u8], field: &'static str, size: usize) -> ParseStep<'a, &'a [u8]> {
    let (rest, count) = context(field, le_i32).parse(i)?;
    match usize::try_from(count) {
        // More than there can be bytes is too many in any case.
        Ok(count) => context(field, take(count.saturating_mul(size))).parse(rest),
        Err(_) => invalid(i, field, u64::from(count.cast_unsigned()), "a count is not negative"),
    }
}

/// Relations whose files go away at a commit or abort.
fn dropped(committed: bool, info: u8, i: &[u8]) -> ParseStep<'_, Option<LifeCycle>> {
    let (i, head) = XactHead::parse(info, i)?;
    if !head.has_rels() {
        return Ok((i, None));
    }
    let (i, mut list) = head.lists(i).map(|(i, lists)| (i, lists.rels))?;
    let mut rels = Vec::new();
    while !list.is_empty() {
        let (rest, rel) = locator(list)?;
        rels.push(rel);
        list = rest;
    }
    Ok((i, Some(LifeCycle::Dropped { committed, time: head.time, rels })))
}

/// `xl_dbase_drop_rec`: database, then one tablespace; from 13 on a count of tablespaces, then each.
fn database_drop(format: DatabaseRecords, base: u64, buf: &[u8]) -> Result<Option<LifeCycle>, ParseError> {
    decode_at("xl_dbase_drop_rec", base, buf, |i| {
        let (i, db_oid) = context("db_id", le_u32).parse(i)?;
        let (i, mut list) = if format >= DatabaseRecords::To14 {
            items(i, "ntablespaces", 4)?
        } else {
            context("tablespace_id", take(4)).parse(i)?
        };
        let mut spc_oids = Vec::new();
        while !list.is_empty() {
            let (rest, spc_oid) = context("tablespace_ids", le_u32).parse(list)?;
            spc_oids.push(spc_oid);
            list = rest;
        }
        Ok((i, Some(LifeCycle::DatabaseDropped { db_oid, spc_oids })))
    })
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decode(major: Major, rmgr_id: u8, info: u8, numbers: &[u32]) -> Option<LifeCycle> {
        LifeCycle::decode(major, rmgr_id, info, 0, &words(numbers)).unwrap()
    }

    const REL: RelFileLocator = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16384 };

    #[test]
    fn storage_records() {
        assert_eq!(
            decode(Major::V10, 2, 0x10, &[1663, 5, 16384, 3]),
            Some(LifeCycle::Created { rel: REL, fork_code: 3 })
        );
        assert_eq!(
            decode(Major::V19, 2, 0x21, &[42, 1663, 5, 16384, 7]),
            Some(LifeCycle::Truncated { rel: REL, keeps_blocks: 42, flags: 7 })
        );
        assert!(LifeCycle::decode(Major::V19, 2, 0x20, 0, &words(&[42, 1663, 5, 16384])).is_err());
    }

    #[test]
    fn dropped_relations_follow_what_comes_before_them() {
        let other = RelFileLocator { rel_number: 16390, ..REL };
        let rels = [2, 1663, 5, 16384, 1663, 5, 16390];
        let dropped = |committed| Some(LifeCycle::Dropped { committed, time: PgTimestamp(11), rels: vec![REL, other] });
        let only = [&[11, 0, 0x04][..], &rels].concat();
        let all = [&[11, 0, 0x187, 5, 1663, 2, 800, 801][..], &rels, &[1, 2, 3]].concat();
        for (info, committed) in [(0x80, true), (0xA0, false), (0xB0, true), (0xC0, false)] {
            for major in [Major::V10, Major::V14, Major::V19] {
                assert_eq!(decode(major, 1, info, &only), dropped(committed), "{info:#x}");
                assert_eq!(decode(major, 1, info, &all), dropped(committed), "{info:#x}");
            }
        }
        // Without the flag there is no xinfo, whatever bytes follow; other transaction records drop nothing.
        assert_eq!(decode(Major::V18, 1, 0x00, &only), None);
        assert_eq!(decode(Major::V18, 1, 0x90, &only), None);
        assert_eq!(decode(Major::V18, 1, 0x80, &[11, 0, 0x03, 5, 1663, 0]), None);
    }

    #[test]
    fn counts_that_lie_are_errors() {
        let error = |numbers: &[u32]| LifeCycle::decode(Major::V18, 1, 0x80, 0x1000, &words(numbers)).unwrap_err();
        assert_eq!(
            error(&[11, 0, 4, 0x7FFF_FFFF, 1]).to_string(),
            "xl_xact_commit.nrels at offset 0x1010: input ends, 4 bytes left"
        );
        assert_eq!(
            error(&[11, 0, 4, u32::MAX, 1]).to_string(),
            "xl_xact_commit.nrels at offset 0x100C: found 0xFFFFFFFF, a count is not negative"
        );
    }

    #[test]
    fn databases_by_major() {
        let copied = Some(LifeCycle::DatabaseCreated { db_oid: 9, spc_oid: 1663, copied_from: Some((1, 1664)) });
        for major in [Major::V10, Major::V14, Major::V15, Major::V19] {
            assert_eq!(decode(major, 4, 0x00, &[9, 1663, 1, 1664]), copied);
        }
        let logged = Some(LifeCycle::DatabaseCreated { db_oid: 9, spc_oid: 1663, copied_from: None });
        assert_eq!(decode(Major::V15, 4, 0x10, &[9, 1663]), logged);
        let dropped = |spc_oids: &[u32]| Some(LifeCycle::DatabaseDropped { db_oid: 9, spc_oids: spc_oids.to_vec() });
        assert_eq!(decode(Major::V12, 4, 0x10, &[9, 1663]), dropped(&[1663]));
        assert_eq!(decode(Major::V13, 4, 0x10, &[9, 2, 1663, 16400]), dropped(&[1663, 16400]));
        assert_eq!(decode(Major::V15, 4, 0x20, &[9, 1, 1663]), dropped(&[1663]));
        assert_eq!(decode(Major::V14, 4, 0x20, &[9, 1, 1663]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_inside(
            bytes in prop::collection::vec(any::<u8>(), 0..100), rmgr_id in 0_u8..6, info in any::<u8>(),
            major in prop::sample::select(Major::ALL.to_vec()),
        ) {
            if let Err(error) = LifeCycle::decode(major, rmgr_id, info, 0, &bytes) {
                prop_assert!(error.offset <= bytes.len() as u64);
            }
        }
    }
}

/// Bytes of a path of which nothing is read after them.
///
/// Source: `MAXPGPATH`, `src/include/pg_config_manual.h`.
const MAX_PATH_BYTES: usize = 1024;

/// A tablespace that replay makes: Tablespace `CREATE`.
///
/// | bytes | field     | type          |
/// |---|---|---|
/// | 0..4  | `ts_id`   | `Oid`         |
/// | 4..   | `ts_path` | text and a NUL |
///
/// Source: `xl_tblspc_create_rec`, `src/include/commands/tablespace.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablespaceCreated {
    /// Start of the record.
    pub record_lsn: Lsn,
    /// The tablespace.
    pub spc_oid: Oid,
    /// Where it lies.
    pub location: PathBuf,
}

impl TablespaceCreated {
    /// The tablespace that `record` creates, if any.
    ///
    /// # Errors
    /// `Truncated` when the main data is not what its type says.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        if record.kind() != RecordKind::TblspcCreate {
            return Ok(None);
        }
        let base = record.main_data_lsn().0;
        let buf = record.main_data();
        let spc_oid = decode_at("xl_tblspc_create_rec", base, buf, |i| context("ts_id", le_u32).parse(i))?;
        let path = buf.iter().skip(4).take(MAX_PATH_BYTES).copied().take_while(|byte| *byte != 0).collect();
        let location = PathBuf::from(OsString::from_vec(path));
        Ok(Some(Self { record_lsn: record.start_lsn, spc_oid, location }))
    }
}
