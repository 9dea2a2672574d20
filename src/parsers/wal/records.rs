//! Types of records: what `xl_rmid` and `xl_info` mean in a major, and what such a record does. Nothing else compares these
//! bytes: a new type is a new row here.

use super::names::{
    RM_BRIN, RM_BTREE, RM_CLOG, RM_COMMIT_TS, RM_DBASE, RM_GENERIC, RM_GIN, RM_GIST, RM_HASH, RM_HEAP, RM_HEAP2,
    RM_MESSAGE, RM_MULTIXACT, RM_ORIGIN, RM_RELMAP, RM_SEQUENCE, RM_SMGR, RM_SPGIST, RM_STANDBY, RM_TBLSPC, RM_XACT,
    RM_XLOG, RecordTypeName, rmgr_name, type_key,
};
use super::version::{FIRST_CUSTOM_RMGR, Major};
use crate::types::ForkNumber;

/// Category of a record in the usage of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Insert,
    /// Many rows at once, as `COPY` does.
    MultiInsert,
    Update,
    HotUpdate,
    Delete,
    /// Freezing, dead rows, the visibility map, deletions from an index; not pruning by whoever comes across the page.
    Vacuum,
    HintImage,
    WholePages,
    Other,
}

/// When the pages that a record names have an image, as the flags say with which a server registers them. They are not
/// written, but each type sets them always or never, alike in all majors from 10 on.
///
/// Sources, in `src/backend/access`: `gin/ginbtree.c` (split), `gin/ginvacuum.c` (leaf of an entry tree),
/// `hash/hashpage.c` (split), `hash/hashovfl.c` and `hash/hash.c` (`REGBUF_NO_IMAGE`), `transam/generic_xlog.c`,
/// `transam/xloginsert.c` (`log_newpage`, `log_newpages`, `log_newpage_range`, `XLogSaveBufferForHint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    /// At the first change after a redo point.
    First,
    /// Whatever the LSN of the page (`REGBUF_FORCE_IMAGE`).
    Always,
    /// Always, for the blocks before this one; the others at their first change.
    AlwaysBelow(u8),
    /// The first block, a bucket of a hash index, is only locked and never has one; the others at their first change.
    LocksFirst,
    /// For hint bits alone.
    Hint,
    /// The extension that wrote the record chose.
    Chosen,
}

/// `xl_info` of the record that does nothing (`XLOG_NOOP`, `src/include/catalog/pg_control.h`), in all majors.
pub(crate) const XLOG_NOOP: u8 = 0x20;
/// `xl_info` of the record that ends a segment early (`XLOG_SWITCH`, same file), in all majors.
pub(crate) const XLOG_SWITCH: u8 = 0x40;
/// Bit of `xl_info` in records of Heap, Heap2 and BRIN: the page is recreated (`XLOG_HEAP_INIT_PAGE`).
const INIT_PAGE: u8 = 0x80;

/// One name and the majors that use it.
struct Row {
    kind: RecordKind,
    rmgr_id: u8,
    key: u8,
    first: Major,
    last: Major,
    name: &'static str,
}

/// The newest major whose types were compared with this table. Those of a newer one have neither kind nor name.
const LAST_COMPARED: Major = Major::V19;

const _: () = assert!(
    LAST_COMPARED.number() == Major::NEWEST.number(),
    "compare the record types of the new major version with this table, then set LAST_COMPARED"
);

macro_rules! majors {
    (all) => {
        (Major::OLDEST, LAST_COMPARED)
    };
    ($first:ident ..= $last:ident) => {
        (Major::$first, Major::$last)
    };
}

macro_rules! record_kinds {
    ($($kind:ident, $work:ident, $images:ident $(($below:literal))? : $(($rmgr:ident, $key:literal, $majors:tt $(..= $last:ident)?, $name:literal)),+;)*) => {
        /// Kind of a record, the same for all types and majors that do the same in the same format.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum RecordKind {
            /// No type of its major.
            #[default]
            Unknown,
            /// Record of an extension's resource manager.
            Custom,
            /// Record of the resource manager Generic, which extensions use.
            Generic,
            $($kind,)*
        }

        impl RecordKind {
            pub(crate) const fn work(self) -> Work {
                match self {
                    Self::Unknown | Self::Custom | Self::Generic => Work::Other,
                    $(Self::$kind => Work::$work,)*
                }
            }

            pub(crate) const fn images(self) -> Images {
                match self {
                    Self::Unknown => Images::First,
                    Self::Custom | Self::Generic => Images::Chosen,
                    $(Self::$kind => Images::$images $(($below))?,)*
                }
            }
        }

        static ROWS: &[Row] = &[$($({
            let (first, last) = majors!($majors $(..= $last)?);
            Row { kind: RecordKind::$kind, rmgr_id: $rmgr, key: $key, first, last, name: $name }
        },)+)*];
    };
}

// Kind, what it counts as, when it has images: resource manager, `xl_info`, majors, name.
//
// Source: the `*_identify` functions under `src/backend/access/rmgrdesc/`.
#[rustfmt::skip]
record_kinds! {
    XlogCheckpointShutdown, Other, First: (RM_XLOG, 0x00, all, "CHECKPOINT_SHUTDOWN");
    XlogCheckpointOnline, Other, First: (RM_XLOG, 0x10, all, "CHECKPOINT_ONLINE");
    XlogNoop, Other, First: (RM_XLOG, 0x20, all, "NOOP");
    XlogNextoid, Other, First: (RM_XLOG, 0x30, all, "NEXTOID");
    XlogSwitch, Other, First: (RM_XLOG, 0x40, all, "SWITCH");
    XlogBackupEnd, Other, First: (RM_XLOG, 0x50, all, "BACKUP_END");
    XlogParameterChange, Other, First: (RM_XLOG, 0x60, all, "PARAMETER_CHANGE");
    XlogRestorePoint, Other, First: (RM_XLOG, 0x70, all, "RESTORE_POINT");
    XlogFpwChange, Other, First: (RM_XLOG, 0x80, all, "FPW_CHANGE");
    XlogEndOfRecovery, Other, First: (RM_XLOG, 0x90, all, "END_OF_RECOVERY");
    XlogFpiForHint, HintImage, Hint: (RM_XLOG, 0xA0, all, "FPI_FOR_HINT");
    XlogFpi, WholePages, Always: (RM_XLOG, 0xB0, all, "FPI");
    XlogAssignLsn, Other, First: (RM_XLOG, 0xC0, V19..=V19, "ASSIGN_LSN");
    XlogOverwriteContrecord, Other, First: (RM_XLOG, 0xD0, all, "OVERWRITE_CONTRECORD");
    XlogCheckpointRedo, Other, First: (RM_XLOG, 0xE0, V17..=V19, "CHECKPOINT_REDO");
    XlogLogicalDecodingStatusChange, Other, First: (RM_XLOG, 0xF0, V19Devel..=V19, "LOGICAL_DECODING_STATUS_CHANGE");
    XactCommit, Other, First: (RM_XACT, 0x00, all, "COMMIT");
    XactPrepare, Other, First: (RM_XACT, 0x10, all, "PREPARE");
    XactAbort, Other, First: (RM_XACT, 0x20, all, "ABORT");
    XactCommitPrepared, Other, First: (RM_XACT, 0x30, all, "COMMIT_PREPARED");
    XactAbortPrepared, Other, First: (RM_XACT, 0x40, all, "ABORT_PREPARED");
    XactAssignment, Other, First: (RM_XACT, 0x50, all, "ASSIGNMENT");
    XactInvalidation, Other, First: (RM_XACT, 0x60, V14..=V19, "INVALIDATION");
    SmgrCreate, Other, First: (RM_SMGR, 0x10, all, "CREATE");
    SmgrTruncate, Other, First: (RM_SMGR, 0x20, all, "TRUNCATE");
    ClogZeropage, Other, First: (RM_CLOG, 0x00, all, "ZEROPAGE");
    ClogTruncate, Other, First: (RM_CLOG, 0x10, all, "TRUNCATE");
    DbaseCreateFileCopy, Other, First: (RM_DBASE, 0x00, V10..=V14, "CREATE"), (RM_DBASE, 0x00, V15..=V19, "CREATE_FILE_COPY");
    DbaseDrop, Other, First: (RM_DBASE, 0x10, V10..=V14, "DROP"), (RM_DBASE, 0x20, V15..=V19, "DROP");
    DbaseCreateWalLog, Other, First: (RM_DBASE, 0x10, V15..=V19, "CREATE_WAL_LOG");
    TblspcCreate, Other, First: (RM_TBLSPC, 0x00, all, "CREATE");
    TblspcDrop, Other, First: (RM_TBLSPC, 0x10, all, "DROP");
    MultixactZeroOffPage, Other, First: (RM_MULTIXACT, 0x00, all, "ZERO_OFF_PAGE");
    MultixactZeroMemPage, Other, First: (RM_MULTIXACT, 0x10, all, "ZERO_MEM_PAGE");
    MultixactCreateId, Other, First: (RM_MULTIXACT, 0x20, all, "CREATE_ID");
    MultixactTruncateId, Other, First: (RM_MULTIXACT, 0x30, all, "TRUNCATE_ID");
    RelmapUpdate, Other, First: (RM_RELMAP, 0x00, all, "UPDATE");
    StandbyLock, Other, First: (RM_STANDBY, 0x00, all, "LOCK");
    StandbyRunningXacts, Other, First: (RM_STANDBY, 0x10, all, "RUNNING_XACTS");
    StandbyInvalidations, Other, First: (RM_STANDBY, 0x20, all, "INVALIDATIONS");
    Heap2Rewrite, Other, First: (RM_HEAP2, 0x00, all, "REWRITE");
    Heap2Prune, Other, First: (RM_HEAP2, 0x10, V10..=V13, "CLEAN"), (RM_HEAP2, 0x10, V14..=V16, "PRUNE");
    Heap2PruneOnAccess, Other, First: (RM_HEAP2, 0x10, V17..=V19, "PRUNE_ON_ACCESS");
    Heap2FreezePage, Vacuum, First: (RM_HEAP2, 0x20, V10..=V13, "FREEZE_PAGE"), (RM_HEAP2, 0x30, V14..=V16, "FREEZE_PAGE");
    Heap2Vacuum, Vacuum, First: (RM_HEAP2, 0x20, V14..=V16, "VACUUM");
    Heap2PruneVacuumScan, Vacuum, First: (RM_HEAP2, 0x20, V17..=V19, "PRUNE_VACUUM_SCAN");
    Heap2CleanupInfo, Vacuum, First: (RM_HEAP2, 0x30, V10..=V13, "CLEANUP_INFO");
    Heap2PruneVacuumCleanup, Vacuum, First: (RM_HEAP2, 0x30, V17..=V19, "PRUNE_VACUUM_CLEANUP");
    Heap2Visible, Vacuum, First: (RM_HEAP2, 0x40, V10..=V19Devel, "VISIBLE");
    Heap2MultiInsert, MultiInsert, First: (RM_HEAP2, 0x50, all, "MULTI_INSERT"), (RM_HEAP2, 0xD0, all, "MULTI_INSERT+INIT");
    Heap2LockUpdated, Other, First: (RM_HEAP2, 0x60, all, "LOCK_UPDATED");
    Heap2NewCid, Other, First: (RM_HEAP2, 0x70, all, "NEW_CID");
    HeapInsert, Insert, First: (RM_HEAP, 0x00, all, "INSERT"), (RM_HEAP, 0x80, all, "INSERT+INIT");
    HeapDelete, Delete, First: (RM_HEAP, 0x10, all, "DELETE");
    HeapUpdate, Update, First: (RM_HEAP, 0x20, all, "UPDATE"), (RM_HEAP, 0xA0, all, "UPDATE+INIT");
    HeapTruncate, Other, First: (RM_HEAP, 0x30, V11..=V19, "TRUNCATE");
    HeapHotUpdate, HotUpdate, First: (RM_HEAP, 0x40, all, "HOT_UPDATE"), (RM_HEAP, 0xC0, all, "HOT_UPDATE+INIT");
    HeapHeapConfirm, Other, First: (RM_HEAP, 0x50, all, "HEAP_CONFIRM");
    HeapLock, Other, First: (RM_HEAP, 0x60, all, "LOCK");
    HeapInplace, Other, First: (RM_HEAP, 0x70, all, "INPLACE");
    BtreeInsertLeaf, Other, First: (RM_BTREE, 0x00, all, "INSERT_LEAF");
    BtreeInsertUpper, Other, First: (RM_BTREE, 0x10, all, "INSERT_UPPER");
    BtreeInsertMeta, Other, First: (RM_BTREE, 0x20, all, "INSERT_META");
    BtreeSplitL, Other, First: (RM_BTREE, 0x30, all, "SPLIT_L");
    BtreeSplitR, Other, First: (RM_BTREE, 0x40, all, "SPLIT_R");
    BtreeSplitOld, Other, First: (RM_BTREE, 0x50, V10..=V10, "SPLIT_L_ROOT"), (RM_BTREE, 0x50, V11..=V11, "SPLIT_L_HIGHKEY"), (RM_BTREE, 0x60, V10..=V10, "SPLIT_R_ROOT"), (RM_BTREE, 0x60, V11..=V11, "SPLIT_R_HIGHKEY");
    BtreeInsertPost, Other, First: (RM_BTREE, 0x50, V13..=V19, "INSERT_POST");
    BtreeDedup, Other, First: (RM_BTREE, 0x60, V13..=V19, "DEDUP");
    BtreeDelete, Vacuum, First: (RM_BTREE, 0x70, all, "DELETE");
    BtreeUnlinkPage, Vacuum, First: (RM_BTREE, 0x80, all, "UNLINK_PAGE");
    BtreeUnlinkPageMeta, Vacuum, First: (RM_BTREE, 0x90, all, "UNLINK_PAGE_META");
    BtreeNewroot, Other, First: (RM_BTREE, 0xA0, all, "NEWROOT");
    BtreeMarkPageHalfdead, Vacuum, First: (RM_BTREE, 0xB0, all, "MARK_PAGE_HALFDEAD");
    BtreeVacuum, Vacuum, First: (RM_BTREE, 0xC0, all, "VACUUM");
    BtreeReusePage, Other, First: (RM_BTREE, 0xD0, all, "REUSE_PAGE");
    BtreeMetaCleanup, Other, First: (RM_BTREE, 0xE0, V11..=V19, "META_CLEANUP");
    HashInitMetaPage, Other, First: (RM_HASH, 0x00, all, "INIT_META_PAGE");
    HashInitBitmapPage, Other, First: (RM_HASH, 0x10, all, "INIT_BITMAP_PAGE");
    HashInsert, Other, First: (RM_HASH, 0x20, all, "INSERT");
    HashAddOvflPage, Other, First: (RM_HASH, 0x30, all, "ADD_OVFL_PAGE");
    HashSplitAllocatePage, Other, First: (RM_HASH, 0x40, all, "SPLIT_ALLOCATE_PAGE");
    HashSplitPage, Other, Always: (RM_HASH, 0x50, all, "SPLIT_PAGE");
    HashSplitComplete, Other, First: (RM_HASH, 0x60, all, "SPLIT_COMPLETE");
    HashMovePageContents, Other, LocksFirst: (RM_HASH, 0x70, all, "MOVE_PAGE_CONTENTS");
    HashSqueezePage, Other, LocksFirst: (RM_HASH, 0x80, all, "SQUEEZE_PAGE");
    HashDelete, Vacuum, LocksFirst: (RM_HASH, 0x90, all, "DELETE");
    HashSplitCleanup, Other, First: (RM_HASH, 0xA0, all, "SPLIT_CLEANUP");
    HashUpdateMetaPage, Other, First: (RM_HASH, 0xB0, all, "UPDATE_META_PAGE");
    HashVacuumOnePage, Vacuum, First: (RM_HASH, 0xC0, all, "VACUUM_ONE_PAGE");
    GinCreateIndex, Other, First: (RM_GIN, 0x00, V10..=V11, "CREATE_INDEX");
    GinCreatePtree, Other, First: (RM_GIN, 0x10, all, "CREATE_PTREE");
    GinInsert, Other, First: (RM_GIN, 0x20, all, "INSERT");
    GinSplit, Other, AlwaysBelow(3): (RM_GIN, 0x30, all, "SPLIT");
    GinVacuumPage, Vacuum, Always: (RM_GIN, 0x40, all, "VACUUM_PAGE");
    GinDeletePage, Vacuum, First: (RM_GIN, 0x50, all, "DELETE_PAGE");
    GinUpdateMetaPage, Other, First: (RM_GIN, 0x60, all, "UPDATE_META_PAGE");
    GinInsertListpage, Other, First: (RM_GIN, 0x70, all, "INSERT_LISTPAGE");
    GinDeleteListpage, Other, First: (RM_GIN, 0x80, all, "DELETE_LISTPAGE");
    GinVacuumDataLeafPage, Vacuum, First: (RM_GIN, 0x90, all, "VACUUM_DATA_LEAF_PAGE");
    GistPageUpdate, Other, First: (RM_GIST, 0x00, all, "PAGE_UPDATE");
    GistDelete, Other, First: (RM_GIST, 0x10, V12..=V19, "DELETE");
    GistPageReuse, Other, First: (RM_GIST, 0x20, V12..=V19, "PAGE_REUSE");
    GistPageSplit, Other, First: (RM_GIST, 0x30, all, "PAGE_SPLIT");
    GistCreateIndex, Other, First: (RM_GIST, 0x50, V10..=V11, "CREATE_INDEX");
    GistPageDelete, Other, First: (RM_GIST, 0x60, V12..=V19, "PAGE_DELETE");
    GistAssignLsn, Other, First: (RM_GIST, 0x70, V13..=V19Devel, "ASSIGN_LSN");
    SeqLog, Other, First: (RM_SEQUENCE, 0x00, all, "LOG");
    SpgistCreateIndex, Other, First: (RM_SPGIST, 0x00, V10..=V11, "CREATE_INDEX");
    SpgistAddLeaf, Other, First: (RM_SPGIST, 0x10, all, "ADD_LEAF");
    SpgistMoveLeafs, Other, First: (RM_SPGIST, 0x20, all, "MOVE_LEAFS");
    SpgistAddNode, Other, First: (RM_SPGIST, 0x30, all, "ADD_NODE");
    SpgistSplitTuple, Other, First: (RM_SPGIST, 0x40, all, "SPLIT_TUPLE");
    SpgistPicksplit, Other, First: (RM_SPGIST, 0x50, all, "PICKSPLIT");
    SpgistVacuumLeaf, Vacuum, First: (RM_SPGIST, 0x60, all, "VACUUM_LEAF");
    SpgistVacuumRoot, Vacuum, First: (RM_SPGIST, 0x70, all, "VACUUM_ROOT");
    SpgistVacuumRedirect, Vacuum, First: (RM_SPGIST, 0x80, all, "VACUUM_REDIRECT");
    BrinCreateIndex, Other, First: (RM_BRIN, 0x00, all, "CREATE_INDEX");
    BrinInsert, Other, First: (RM_BRIN, 0x10, all, "INSERT"), (RM_BRIN, 0x90, all, "INSERT+INIT");
    BrinUpdate, Other, First: (RM_BRIN, 0x20, all, "UPDATE"), (RM_BRIN, 0xA0, all, "UPDATE+INIT");
    BrinSamepageUpdate, Other, First: (RM_BRIN, 0x30, all, "SAMEPAGE_UPDATE");
    BrinRevmapExtend, Other, First: (RM_BRIN, 0x40, all, "REVMAP_EXTEND");
    BrinDesummarize, Other, First: (RM_BRIN, 0x50, all, "DESUMMARIZE");
    CommitTsZeropage, Other, First: (RM_COMMIT_TS, 0x00, all, "ZEROPAGE");
    CommitTsTruncate, Other, First: (RM_COMMIT_TS, 0x10, all, "TRUNCATE");
    CommitTsSetts, Other, First: (RM_COMMIT_TS, 0x20, V10..=V13, "SETTS");
    OriginSet, Other, First: (RM_ORIGIN, 0x00, all, "SET");
    OriginDrop, Other, First: (RM_ORIGIN, 0x10, all, "DROP");
    MessageMessage, Other, First: (RM_MESSAGE, 0x00, all, "MESSAGE");
}

/// Kinds by major, resource manager and the high four bits of `xl_info`.
static KINDS: [[[RecordKind; 16]; RMGRS]; Major::ALL.len()] = kinds();
/// Built-in resource managers, used or not.
const RMGRS: usize = 22;

// The compiler runs it, and stops at what would panic.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn kinds() -> [[[RecordKind; 16]; RMGRS]; Major::ALL.len()] {
    let mut kinds = [[[RecordKind::Unknown; 16]; RMGRS]; Major::ALL.len()];
    let mut major = 0;
    while major < kinds.len() {
        let mut at = 0;
        while at < ROWS.len() {
            let row = &ROWS[at];
            if row.first as usize <= major && major <= row.last as usize {
                let (rmgr, key) = (row.rmgr_id as usize, (row.key >> 4) as usize);
                kinds[major][rmgr][key] = row.kind;
                // A flag that redo does not look at together with the operation.
                let has_flag = matches!(row.rmgr_id, RM_XACT | RM_HEAP | RM_HEAP2 | RM_BRIN);
                if has_flag && key < 8 {
                    kinds[major][rmgr][key | 8] = row.kind;
                }
            }
            at += 1;
        }
        major += 1;
    }
    kinds
}

impl RecordKind {
    /// The kind of records with this `xl_rmid` and `xl_info`.
    #[inline]
    pub fn of(major: Major, rmgr_id: u8, info: u8) -> Self {
        match rmgr_id {
            RM_GENERIC => Self::Generic,
            FIRST_CUSTOM_RMGR.. => Self::Custom,
            _ => {
                let of_rmgr = KINDS.get(major as usize).and_then(|kinds| kinds.get(usize::from(rmgr_id)));
                of_rmgr.and_then(|kinds| kinds.get(usize::from(info >> 4))).copied().unwrap_or_default()
            }
        }
    }

    /// True for an image of a page of which only hint bits changed: a page without them lacks nothing.
    pub const fn is_hint(self) -> bool {
        matches!(self, Self::XlogFpiForHint)
    }

    /// True for records that are nothing but images.
    pub(crate) const fn is_images(self) -> bool {
        matches!(self, Self::XlogFpiForHint | Self::XlogFpi)
    }

    /// True for records that write rows of tables and sequences, and for images.
    pub(crate) const fn writes_rows(self) -> bool {
        use RecordKind as Kind;
        let inserts = matches!(self, Kind::HeapInsert | Kind::Heap2MultiInsert | Kind::SeqLog | Kind::HeapHeapConfirm);
        let changes = matches!(self, Kind::HeapUpdate | Kind::HeapHotUpdate | Kind::HeapInplace | Kind::HeapDelete);
        let locks = matches!(self, Kind::HeapLock | Kind::Heap2LockUpdated);
        let vacuums = matches!(self, Kind::Heap2Prune | Kind::Heap2FreezePage | Kind::Heap2Vacuum | Kind::Heap2Visible);
        inserts || changes || locks || vacuums || self.is_images() || self.is_prune_and_freeze()
    }

    /// True for the end of a transaction, whether it was prepared or not.
    pub(crate) const fn ends_xact(self) -> bool {
        self.commits() || matches!(self, Self::XactAbort | Self::XactAbortPrepared)
    }

    pub(crate) const fn commits(self) -> bool {
        matches!(self, Self::XactCommit | Self::XactCommitPrepared)
    }

    /// True for the record that ends a prepared transaction.
    pub(crate) const fn ends_prepared(self) -> bool {
        matches!(self, Self::XactCommitPrepared | Self::XactAbortPrepared)
    }

    /// True for pruning, freezing and the removal of dead items by vacuum from 17 on, which share a format.
    pub(crate) const fn is_prune_and_freeze(self) -> bool {
        matches!(self, Self::Heap2PruneOnAccess | Self::Heap2PruneVacuumScan | Self::Heap2PruneVacuumCleanup)
    }
}

/// Name of the record type that `xl_info` gives.
pub(crate) fn record_type_name(major: Major, rmgr_id: u8, info: u8) -> RecordTypeName {
    let key = type_key(rmgr_id, info);
    if rmgr_id == RM_GENERIC {
        return RecordTypeName::Known("Generic");
    }
    ROWS.iter()
        .find(|row| row.rmgr_id == rmgr_id && row.key == key && row.first <= major && major <= row.last)
        .map_or(RecordTypeName::Unknown(key), |row| RecordTypeName::Known(row.name))
}

/// The type of one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordType {
    /// `xl_rmid`.
    pub rmgr_id: u8,
    /// `xl_info`, with all its flags.
    pub info: u8,
    /// Their meaning in the record's major version.
    pub kind: RecordKind,
}

impl RecordType {
    /// Meaning of `rmgr_id` and `info` in `major`.
    pub fn new(major: Major, rmgr_id: u8, info: u8) -> Self {
        Self { rmgr_id, info, kind: RecordKind::of(major, rmgr_id, info) }
    }

    /// Resource manager and type, as `pg_waldump` prints them.
    pub(crate) fn name(self, major: Major) -> String {
        format!("{}/{}", rmgr_name(self.rmgr_id), record_type_name(major, self.rmgr_id, self.info))
    }

    pub(crate) const fn is_heap(self) -> bool {
        matches!(self.rmgr_id, RM_HEAP | RM_HEAP2)
    }

    /// True for records whose redo asks the buffer of this block for its number before it looks whether there is one: BRIN
    /// `INSERT` and `UPDATE`, unless they build the page. Redo of all other access methods looks first.
    ///
    /// Source: `brin_xlog_insert_update`, `src/backend/access/brin/brin_xlog.c`.
    pub(crate) const fn takes_page_for_granted(self, block_id: u8) -> bool {
        let is_insert = matches!(self.kind, RecordKind::BrinInsert | RecordKind::BrinUpdate);
        is_insert && block_id == 0 && self.info & INIT_PAGE == 0
    }

    /// True for a record that is sure to set the LSN of each page of this fork that it names and does not build.
    ///
    /// Others may or may not: an image for hint bits that was not needed; Heap2 `VISIBLE`, and what does the same from 19 on,
    /// which set the LSN of the table's page under some settings only; Hash but for `INSERT`, which names pages that it only
    /// locks; bits of maps.
    ///
    /// Sources: `heap_multi_insert`, `src/backend/access/heap/heapam.c`; `_hash_doinsert`, `src/backend/access/hash/hashinsert.c`.
    pub(crate) fn surely_sets_lsn(self, major: Major, fork: ForkNumber) -> bool {
        let may_be_visible = major.facts().prunes_set_map_bits || self.kind == RecordKind::Heap2Visible;
        match self.rmgr_id {
            RM_XLOG | FIRST_CUSTOM_RMGR.. => false,
            RM_HASH if self.kind != RecordKind::HashInsert => false,
            RM_HEAP2 if may_be_visible && self.kind != RecordKind::Heap2MultiInsert => false,
            _ => fork == ForkNumber::Main,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_name_in_a_major() {
        for major in Major::ALL {
            let mut seen = std::collections::BTreeSet::new();
            for row in ROWS.iter().filter(|row| row.first <= major && major <= row.last) {
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
        assert_eq!(record_type_name(Major::V18, 200, 0x10).to_string(), "UNKNOWN (10)");
        assert_eq!(record_type_name(Major::V14, RM_XACT, 0xA0).to_string(), "ABORT");
        assert_eq!(record_type_name(Major::V13, RM_XACT, 0x60).to_string(), "UNKNOWN (60)");
    }

    #[test]
    fn kinds_are_those_of_the_major() {
        let kind = |major, rmgr_id, info| RecordKind::of(major, rmgr_id, info);
        assert_eq!(kind(Major::V11, RM_BTREE, 0x60), RecordKind::BtreeSplitOld);
        assert_eq!(kind(Major::V12, RM_BTREE, 0x60), RecordKind::Unknown);
        assert_eq!(kind(Major::V13, RM_BTREE, 0x60), RecordKind::BtreeDedup);
        assert_eq!(kind(Major::V13, RM_HEAP2, 0x20), RecordKind::Heap2FreezePage);
        assert_eq!(kind(Major::V16, RM_HEAP2, 0x20), RecordKind::Heap2Vacuum);
        // The flag for a new page is not part of the operation.
        assert_eq!(kind(Major::V17, RM_HEAP2, 0x90), RecordKind::Heap2PruneOnAccess);
        assert_eq!(kind(Major::V10, RM_HEAP, 0xC5), RecordKind::HeapHotUpdate);
        assert_eq!(kind(Major::V18, RM_XACT, 0x80), RecordKind::XactCommit);
        assert_eq!(kind(Major::V18, 22, 0), RecordKind::Unknown);
        assert_eq!(kind(Major::V18, 128, 0xF0), RecordKind::Custom);
    }
}
