//! Names of resource managers and record types, by major.

use std::fmt;

use super::version::{FIRST_CUSTOM_RMGR, Major};
use crate::types::ForkNumber;

/// Built-in resource managers in the order of their ids, the same in all majors.
///
/// Source: `src/include/access/rmgrlist.h`.
pub(crate) const RMGR_NAMES: [&str; 22] = [
    "XLOG",
    "Transaction",
    "Storage",
    "CLOG",
    "Database",
    "Tablespace",
    "MultiXact",
    "RelMap",
    "Standby",
    "Heap2",
    "Heap",
    "Btree",
    "Hash",
    "Gin",
    "Gist",
    "Sequence",
    "SPGist",
    "BRIN",
    "CommitTs",
    "ReplicationOrigin",
    "Generic",
    "LogicalMessage",
];

/// Id of the resource manager XLOG.
pub const RM_XLOG: u8 = 0;
/// Id of the resource manager Transaction.
pub const RM_XACT: u8 = 1;
/// Id of the resource manager Storage.
pub const RM_SMGR: u8 = 2;
/// Id of the resource manager Database.
pub const RM_DBASE: u8 = 4;
/// Id of the resource manager Tablespace.
pub(crate) const RM_TBLSPC: u8 = 5;
/// Id of the resource manager MultiXact.
pub(crate) const RM_MULTIXACT: u8 = 6;
/// Id of the resource manager Heap2.
pub const RM_HEAP2: u8 = 9;
/// Id of the resource manager Heap.
pub const RM_HEAP: u8 = 10;
/// Id of the resource manager Btree.
pub const RM_BTREE: u8 = 11;
/// Id of the resource manager Hash.
pub(crate) const RM_HASH: u8 = 12;
/// Id of the resource manager Gin.
pub(crate) const RM_GIN: u8 = 13;
/// Id of the resource manager Gist.
pub(crate) const RM_GIST: u8 = 14;
/// Id of the resource manager Sequence.
pub(crate) const RM_SEQUENCE: u8 = 15;
/// Id of the resource manager SPGist.
pub(crate) const RM_SPGIST: u8 = 16;
/// Id of the resource manager BRIN.
pub const RM_BRIN: u8 = 17;
/// Id of the resource manager Generic, which extensions use.
pub(crate) const RM_GENERIC: u8 = 20;

/// `xl_info` of the record of a shutdown checkpoint (`XLOG_CHECKPOINT_SHUTDOWN`, `src/include/catalog/pg_control.h`).
pub(crate) const XLOG_CHECKPOINT_SHUTDOWN: u8 = 0x00;
/// `xl_info` of the record that does nothing (`XLOG_NOOP`, same file).
pub(crate) const XLOG_NOOP: u8 = 0x20;
/// `xl_info` of the record that ends a segment early (`XLOG_SWITCH`, `src/include/catalog/pg_control.h`).
pub(crate) const XLOG_SWITCH: u8 = 0x40;
/// `xl_info` of an image of a page of which only hint bits changed (`XLOG_FPI_FOR_HINT`).
pub(crate) const XLOG_FPI_FOR_HINT: u8 = 0xA0;
/// `xl_info` of an image of a whole page (`XLOG_FPI`).
pub(crate) const XLOG_FPI: u8 = 0xB0;
/// `xl_info` of a split of a page of GIN (`XLOG_GIN_SPLIT`, `src/include/access/ginxlog.h`).
pub(crate) const XLOG_GIN_SPLIT: u8 = 0x30;
/// `xl_info` of a page of an entry tree of GIN that vacuum rewrote (`XLOG_GIN_VACUUM_PAGE`, same file).
pub(crate) const XLOG_GIN_VACUUM_PAGE: u8 = 0x40;
/// `xl_info` of a page that a split of a hash bucket filled (`XLOG_HASH_SPLIT_PAGE`, `src/include/access/hash_xlog.h`).
pub(crate) const XLOG_HASH_SPLIT_PAGE: u8 = 0x50;
/// `xl_info` of entries of a hash index that are moved to another page of their bucket (`XLOG_HASH_MOVE_PAGE_CONTENTS`).
pub(crate) const XLOG_HASH_MOVE_PAGE_CONTENTS: u8 = 0x70;
/// `xl_info` of a page of a hash bucket that is emptied and freed (`XLOG_HASH_SQUEEZE_PAGE`).
pub(crate) const XLOG_HASH_SQUEEZE_PAGE: u8 = 0x80;
/// `xl_info` of entries of a hash index that go away (`XLOG_HASH_DELETE`).
pub(crate) const XLOG_HASH_DELETE: u8 = 0x90;

/// True for an image of a page of which only hint bits changed: a page without them lacks nothing.
#[must_use]
pub const fn is_hint(rmgr_id: u8, info: u8) -> bool {
    rmgr_id == RM_XLOG && type_key(rmgr_id, info) == XLOG_FPI_FOR_HINT
}

/// True for a record that is sure to set the LSN of each page of this fork that it names and does not build.
///
/// Others may or may not: an image for hint bits that was not needed; Heap2 `VISIBLE`, and what does the same from 19 on,
/// which set the LSN of the table's page under some settings only; Hash but for `INSERT`, which names pages that it only locks; bits of maps.
///
/// Sources: `heap_multi_insert`, `src/backend/access/heap/heapam.c`; `_hash_doinsert`, `src/backend/access/hash/hashinsert.c`.
pub(crate) fn surely_sets_lsn(major: Major, rmgr_id: u8, info: u8, fork: ForkNumber) -> bool {
    /// `XLOG_HEAP_OPMASK` and `XLOG_HEAP2_VISIBLE`, `src/include/access/heapam_xlog.h`.
    const HEAP_OPERATION: u8 = 0x70;
    const VISIBLE: u8 = 0x40;
    const MULTI_INSERT: u8 = 0x50;
    /// `XLOG_HASH_INSERT`, `src/include/access/hash_xlog.h`.
    const HASH_INSERT: u8 = 0x20;
    let may_be_visible = major.facts().prunes_set_map_bits || info & HEAP_OPERATION == VISIBLE;
    match rmgr_id {
        RM_XLOG | FIRST_CUSTOM_RMGR.. => false,
        RM_HASH if type_key(rmgr_id, info) != HASH_INSERT => false,
        RM_HEAP2 if may_be_visible && info & HEAP_OPERATION != MULTI_INSERT => false,
        _ => fork == ForkNumber::Main,
    }
}

/// Name of a resource manager; displays as pg_waldump prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RmgrName {
    /// Built into the server.
    BuiltIn(&'static str),
    /// Brought by an extension, 128 to 255.
    Custom(u8),
    /// Neither: no server accepts this id.
    Unknown(u8),
}

/// Name of a record type; displays as pg_waldump prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordTypeName {
    /// A type of this major.
    Known(&'static str),
    /// No type of this major; holds the bits of `xl_info` that give the type.
    Unknown(u8),
}

impl fmt::Display for RmgrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(name) => f.pad(name),
            Self::Custom(id) => f.pad(&format!("custom{id:03}")),
            Self::Unknown(id) => f.pad(&format!("unknown{id:03}")),
        }
    }
}

impl fmt::Display for RecordTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => f.pad(name),
            Self::Unknown(info) => f.pad(&format!("UNKNOWN ({info:x})")),
        }
    }
}

/// Name of the resource manager with this id.
#[must_use]
pub fn rmgr_name(rmgr_id: u8) -> RmgrName {
    match RMGR_NAMES.get(usize::from(rmgr_id)) {
        Some(name) => RmgrName::BuiltIn(name),
        None if rmgr_id >= FIRST_CUSTOM_RMGR => RmgrName::Custom(rmgr_id),
        None => RmgrName::Unknown(rmgr_id),
    }
}

/// The bits of `xl_info` that give the record type: the high 4, but in Transaction bit 0x80 is a flag.
pub(crate) const fn type_key(rmgr_id: u8, info: u8) -> u8 {
    if rmgr_id == RM_XACT { info & 0x70 } else { info & 0xF0 }
}

/// Name of the record type that `xl_info` gives.
///
/// Source: the `*_identify` functions under `src/backend/access/rmgrdesc/`.
pub(crate) fn record_type_name(major: Major, rmgr_id: u8, info: u8) -> RecordTypeName {
    let key = type_key(rmgr_id, info);
    if rmgr_id == RM_GENERIC {
        return RecordTypeName::Known("Generic");
    }
    TABLE
        .iter()
        .find(|row| row.rmgr_id == rmgr_id && row.key == key && row.first <= major && major <= row.last)
        .map_or(RecordTypeName::Unknown(key), |row| RecordTypeName::Known(row.name))
}

/// One name and the majors that use it.
struct Row {
    rmgr_id: u8,
    key: u8,
    first: Major,
    last: Major,
    name: &'static str,
}

const fn row(rmgr_id: u8, key: u8, first: Major, last: Major, name: &'static str) -> Row {
    Row { rmgr_id, key, first, last, name }
}

/// The newest major whose names were compared with this table. The types of a newer one have no names.
const LAST_COMPARED: Major = Major::V19;

const _: () = assert!(
    LAST_COMPARED.number() == Major::NEWEST.number(),
    "compare the record types of the new major with this table, then name it in LAST_COMPARED"
);

const fn all(rmgr_id: u8, key: u8, name: &'static str) -> Row {
    row(rmgr_id, key, Major::OLDEST, LAST_COMPARED, name)
}

const fn since(rmgr_id: u8, key: u8, first: Major, name: &'static str) -> Row {
    row(rmgr_id, key, first, LAST_COMPARED, name)
}

const fn until(rmgr_id: u8, key: u8, last: Major, name: &'static str) -> Row {
    row(rmgr_id, key, Major::OLDEST, last, name)
}

/// Ordered by resource manager and key.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    all(0, 0x00, "CHECKPOINT_SHUTDOWN"),
    all(0, 0x10, "CHECKPOINT_ONLINE"),
    all(0, 0x20, "NOOP"),
    all(0, 0x30, "NEXTOID"),
    all(0, XLOG_SWITCH, "SWITCH"),
    all(0, 0x50, "BACKUP_END"),
    all(0, 0x60, "PARAMETER_CHANGE"),
    all(0, 0x70, "RESTORE_POINT"),
    all(0, 0x80, "FPW_CHANGE"),
    all(0, 0x90, "END_OF_RECOVERY"),
    all(0, XLOG_FPI_FOR_HINT, "FPI_FOR_HINT"),
    all(0, XLOG_FPI, "FPI"),
    since(0, 0xC0, Major::V19, "ASSIGN_LSN"),
    all(0, 0xD0, "OVERWRITE_CONTRECORD"),
    since(0, 0xE0, Major::V17, "CHECKPOINT_REDO"),
    since(0, 0xF0, Major::V19Devel, "LOGICAL_DECODING_STATUS_CHANGE"),
    all(1, 0x00, "COMMIT"),
    all(1, 0x10, "PREPARE"),
    all(1, 0x20, "ABORT"),
    all(1, 0x30, "COMMIT_PREPARED"),
    all(1, 0x40, "ABORT_PREPARED"),
    all(1, 0x50, "ASSIGNMENT"),
    since(1, 0x60, Major::V14, "INVALIDATION"),
    all(2, 0x10, "CREATE"),
    all(2, 0x20, "TRUNCATE"),
    all(3, 0x00, "ZEROPAGE"),
    all(3, 0x10, "TRUNCATE"),
    until(4, 0x00, Major::V14, "CREATE"),
    since(4, 0x00, Major::V15, "CREATE_FILE_COPY"),
    until(4, 0x10, Major::V14, "DROP"),
    since(4, 0x10, Major::V15, "CREATE_WAL_LOG"),
    since(4, 0x20, Major::V15, "DROP"),
    all(5, 0x00, "CREATE"),
    all(5, 0x10, "DROP"),
    all(6, 0x00, "ZERO_OFF_PAGE"),
    all(6, 0x10, "ZERO_MEM_PAGE"),
    all(6, 0x20, "CREATE_ID"),
    all(6, 0x30, "TRUNCATE_ID"),
    all(7, 0x00, "UPDATE"),
    all(8, 0x00, "LOCK"),
    all(8, 0x10, "RUNNING_XACTS"),
    all(8, 0x20, "INVALIDATIONS"),
    all(9, 0x00, "REWRITE"),
    until(9, 0x10, Major::V13, "CLEAN"),
    row(9, 0x10, Major::V14, Major::V16, "PRUNE"),
    since(9, 0x10, Major::V17, "PRUNE_ON_ACCESS"),
    until(9, 0x20, Major::V13, "FREEZE_PAGE"),
    row(9, 0x20, Major::V14, Major::V16, "VACUUM"),
    since(9, 0x20, Major::V17, "PRUNE_VACUUM_SCAN"),
    until(9, 0x30, Major::V13, "CLEANUP_INFO"),
    row(9, 0x30, Major::V14, Major::V16, "FREEZE_PAGE"),
    since(9, 0x30, Major::V17, "PRUNE_VACUUM_CLEANUP"),
    until(9, 0x40, Major::V19Devel, "VISIBLE"),
    all(9, 0x50, "MULTI_INSERT"),
    all(9, 0x60, "LOCK_UPDATED"),
    all(9, 0x70, "NEW_CID"),
    all(9, 0xD0, "MULTI_INSERT+INIT"),
    all(10, 0x00, "INSERT"),
    all(10, 0x10, "DELETE"),
    all(10, 0x20, "UPDATE"),
    since(10, 0x30, Major::V11, "TRUNCATE"),
    all(10, 0x40, "HOT_UPDATE"),
    all(10, 0x50, "HEAP_CONFIRM"),
    all(10, 0x60, "LOCK"),
    all(10, 0x70, "INPLACE"),
    all(10, 0x80, "INSERT+INIT"),
    all(10, 0xA0, "UPDATE+INIT"),
    all(10, 0xC0, "HOT_UPDATE+INIT"),
    all(11, 0x00, "INSERT_LEAF"),
    all(11, 0x10, "INSERT_UPPER"),
    all(11, 0x20, "INSERT_META"),
    all(11, 0x30, "SPLIT_L"),
    all(11, 0x40, "SPLIT_R"),
    until(11, 0x50, Major::V10, "SPLIT_L_ROOT"),
    row(11, 0x50, Major::V11, Major::V11, "SPLIT_L_HIGHKEY"),
    since(11, 0x50, Major::V13, "INSERT_POST"),
    until(11, 0x60, Major::V10, "SPLIT_R_ROOT"),
    row(11, 0x60, Major::V11, Major::V11, "SPLIT_R_HIGHKEY"),
    since(11, 0x60, Major::V13, "DEDUP"),
    all(11, 0x70, "DELETE"),
    all(11, 0x80, "UNLINK_PAGE"),
    all(11, 0x90, "UNLINK_PAGE_META"),
    all(11, 0xA0, "NEWROOT"),
    all(11, 0xB0, "MARK_PAGE_HALFDEAD"),
    all(11, 0xC0, "VACUUM"),
    all(11, 0xD0, "REUSE_PAGE"),
    since(11, 0xE0, Major::V11, "META_CLEANUP"),
    all(12, 0x00, "INIT_META_PAGE"),
    all(12, 0x10, "INIT_BITMAP_PAGE"),
    all(12, 0x20, "INSERT"),
    all(12, 0x30, "ADD_OVFL_PAGE"),
    all(12, 0x40, "SPLIT_ALLOCATE_PAGE"),
    all(12, 0x50, "SPLIT_PAGE"),
    all(12, 0x60, "SPLIT_COMPLETE"),
    all(12, 0x70, "MOVE_PAGE_CONTENTS"),
    all(12, 0x80, "SQUEEZE_PAGE"),
    all(12, 0x90, "DELETE"),
    all(12, 0xA0, "SPLIT_CLEANUP"),
    all(12, 0xB0, "UPDATE_META_PAGE"),
    all(12, 0xC0, "VACUUM_ONE_PAGE"),
    until(13, 0x00, Major::V11, "CREATE_INDEX"),
    all(13, 0x10, "CREATE_PTREE"),
    all(13, 0x20, "INSERT"),
    all(13, 0x30, "SPLIT"),
    all(13, 0x40, "VACUUM_PAGE"),
    all(13, 0x50, "DELETE_PAGE"),
    all(13, 0x60, "UPDATE_META_PAGE"),
    all(13, 0x70, "INSERT_LISTPAGE"),
    all(13, 0x80, "DELETE_LISTPAGE"),
    all(13, 0x90, "VACUUM_DATA_LEAF_PAGE"),
    all(14, 0x00, "PAGE_UPDATE"),
    since(14, 0x10, Major::V12, "DELETE"),
    since(14, 0x20, Major::V12, "PAGE_REUSE"),
    all(14, 0x30, "PAGE_SPLIT"),
    until(14, 0x50, Major::V11, "CREATE_INDEX"),
    since(14, 0x60, Major::V12, "PAGE_DELETE"),
    row(14, 0x70, Major::V13, Major::V19Devel, "ASSIGN_LSN"),
    all(15, 0x00, "LOG"),
    until(16, 0x00, Major::V11, "CREATE_INDEX"),
    all(16, 0x10, "ADD_LEAF"),
    all(16, 0x20, "MOVE_LEAFS"),
    all(16, 0x30, "ADD_NODE"),
    all(16, 0x40, "SPLIT_TUPLE"),
    all(16, 0x50, "PICKSPLIT"),
    all(16, 0x60, "VACUUM_LEAF"),
    all(16, 0x70, "VACUUM_ROOT"),
    all(16, 0x80, "VACUUM_REDIRECT"),
    all(17, 0x00, "CREATE_INDEX"),
    all(17, 0x10, "INSERT"),
    all(17, 0x20, "UPDATE"),
    all(17, 0x30, "SAMEPAGE_UPDATE"),
    all(17, 0x40, "REVMAP_EXTEND"),
    all(17, 0x50, "DESUMMARIZE"),
    all(17, 0x90, "INSERT+INIT"),
    all(17, 0xA0, "UPDATE+INIT"),
    all(18, 0x00, "ZEROPAGE"),
    all(18, 0x10, "TRUNCATE"),
    until(18, 0x20, Major::V13, "SETTS"),
    all(19, 0x00, "SET"),
    all(19, 0x10, "DROP"),
    all(21, 0x00, "MESSAGE"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_name_in_a_major() {
        for major in Major::ALL {
            let mut seen = std::collections::BTreeSet::new();
            for row in TABLE.iter().filter(|row| row.first <= major && major <= row.last) {
                assert!(seen.insert((row.rmgr_id, row.key)), "{major} {} {:#x} {}", row.rmgr_id, row.key, row.name);
                assert_eq!(row.key, type_key(row.rmgr_id, row.key));
            }
        }
    }

    #[test]
    fn names_change_with_the_major() {
        let name = |major, rmgr_id, info| record_type_name(major, rmgr_id, info).to_string();
        assert_eq!(name(Major::V10, 11, 0x50), "SPLIT_L_ROOT");
        assert_eq!(name(Major::V11, 11, 0x50), "SPLIT_L_HIGHKEY");
        assert_eq!(name(Major::V12, 11, 0x50), "UNKNOWN (50)");
        assert_eq!(name(Major::V13, 11, 0x50), "INSERT_POST");
        assert_eq!(name(Major::V14, 4, 0x10), "DROP");
        assert_eq!(name(Major::V15, 4, 0x10), "CREATE_WAL_LOG");
        assert_eq!(name(Major::V13, 9, 0x10), "CLEAN");
        assert_eq!(name(Major::V16, 9, 0x10), "PRUNE");
        assert_eq!(name(Major::V17, 9, 0x10), "PRUNE_ON_ACCESS");
        assert_eq!(name(Major::V18, 0, 0xF0), "UNKNOWN (f0)");
        assert_eq!(name(Major::V19, 0, 0xF0), "LOGICAL_DECODING_STATUS_CHANGE");
        assert_eq!(name(Major::V16, 20, 0x30), "Generic");
        assert_eq!(name(Major::V12, 14, 0x70), "UNKNOWN (70)");
        assert_eq!(name(Major::V13, 14, 0x70), "ASSIGN_LSN");
        assert_eq!(name(Major::V11, 14, 0x10), "UNKNOWN (10)");
        assert_eq!(name(Major::V13, 18, 0x20), "SETTS");
        assert_eq!(name(Major::V14, 18, 0x20), "UNKNOWN (20)");
        assert_eq!(name(Major::V10, 10, 0x30), "UNKNOWN (30)");
        assert_eq!(name(Major::V11, 10, 0x30), "TRUNCATE");
        assert_eq!(name(Major::V18, 3, 0x20), "UNKNOWN (20)");
        assert_eq!(name(Major::V18, 3, 0x0F), "ZEROPAGE");
    }

    #[test]
    fn transaction_types_ignore_their_flag() {
        assert_eq!(record_type_name(Major::V14, RM_XACT, 0xA0).to_string(), "ABORT");
        assert_eq!(record_type_name(Major::V13, RM_XACT, 0x60).to_string(), "UNKNOWN (60)");
    }

    #[test]
    fn every_built_in_rmgr_has_a_name() {
        for major in Major::ALL {
            for id in 0..=major.facts().last_rmgr {
                assert!(matches!(rmgr_name(id), RmgrName::BuiltIn(_)), "{major}: {id}");
            }
        }
    }

    #[test]
    fn custom_rmgrs_are_numbered() {
        assert_eq!(rmgr_name(0).to_string(), "XLOG");
        assert_eq!(rmgr_name(21).to_string(), "LogicalMessage");
        assert_eq!(rmgr_name(22).to_string(), "unknown022");
        assert_eq!(rmgr_name(128).to_string(), "custom128");
        assert_eq!(record_type_name(Major::V18, 200, 0x10).to_string(), "UNKNOWN (10)");
    }
}
