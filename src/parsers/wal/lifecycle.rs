//! Records after which a page need not exist any more, or exists again: files of relations and databases are created, removed
//! and shrink.
//!
//! `TRUNCATE` of the resource manager Heap is not among them: it serves logical decoding alone; the new file shows up as
//! a Storage `CREATE`, the old one in the commit's list of dropped files.
//! Also here: records that make tablespaces.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use strum::IntoStaticStr;

use nom::Parser;
use nom::error::context;

use super::payload::PgTimestamp;
use super::record::Record;
use super::records::RecordKind;
use super::version::{DatabaseRecords, Major};
use super::xact_end::XactHead;
use crate::parsers::decode::{ParseError, ParseStep, decode_at, invalid, le_i32, le_u32, take};
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
