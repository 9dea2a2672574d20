//! Which block references have an image whatever the page's LSN, and which have one only because of that LSN.
//!
//! The server decides by a flag with which the page is registered for the record (`REGBUF_FORCE_IMAGE`). The flag is not
//! written, but each type of record sets it always or never, alike in all majors from 10 on, with three exceptions:
//! records of `Generic`, where an extension chooses; records of custom resource managers; and `FPI_FOR_HINT` up to 14,
//! see [`never_forced`].
//!
//! Sources, in `src/backend/access`: `gin/ginbtree.c` (split), `gin/ginvacuum.c` (leaf of an entry tree),
//! `hash/hashpage.c` (split), `transam/generic_xlog.c`, `transam/xloginsert.c` (`log_newpage`, `log_newpages`,
//! `log_newpage_range`, `XLogSaveBufferForHint`, `XLogRecordAssemble`), `hash/hashovfl.c` (also `_hash_freeovflpage`) and `hash/hash.c` (`REGBUF_NO_IMAGE`).

use crate::parsers::wal::names::{
    RM_GENERIC, RM_GIN, RM_HASH, RM_XLOG, XLOG_FPI, XLOG_GIN_SPLIT, XLOG_GIN_VACUUM_PAGE, XLOG_HASH_DELETE,
    XLOG_HASH_MOVE_PAGE_CONTENTS, XLOG_HASH_SPLIT_PAGE, XLOG_HASH_SQUEEZE_PAGE, is_hint, type_key,
};
use crate::parsers::wal::version::{FIRST_CUSTOM_RMGR, Major};

/// The child whose split a record of GIN also finishes: the only page of `SPLIT` that is registered as any other.
const GIN_SPLIT_CHILD: u8 = 3;

/// True when a block reference of this record type has an image whatever the LSN of its page and whatever
/// `full_page_writes` says. The images that redo does not apply are of no account here.
#[must_use]
pub const fn always_images(_major: Major, rmgr_id: u8, info: u8, block_id: u8) -> bool {
    match (rmgr_id, type_key(rmgr_id, info)) {
        (RM_XLOG, XLOG_FPI) | (RM_GIN, XLOG_GIN_VACUUM_PAGE) | (RM_HASH, XLOG_HASH_SPLIT_PAGE) => true,
        (RM_GIN, XLOG_GIN_SPLIT) => block_id < GIN_SPLIT_CHILD,
        _ => false,
    }
}

/// True when an image that redo applies, of a block reference of this record type, proves that the page's LSN was not
/// after the redo point then in force.
///
/// False for what may be either: `Generic`, custom resource managers, and `FPI_FOR_HINT` up to 14, which decides by the
/// LSN but copies the page after that, when another backend may have set a newer one.
#[must_use]
pub fn never_forced(major: Major, rmgr_id: u8, info: u8, block_id: u8) -> bool {
    let may_be_forced = rmgr_id == RM_GENERIC
        || rmgr_id >= FIRST_CUSTOM_RMGR
        || (is_hint(rmgr_id, info) && major.facts().hints_force_images);
    !may_be_forced && !always_images(major, rmgr_id, info, block_id)
}

/// True when a hint image exists only because full-page writes were in force: up to 14 it is written without them, too.
pub(crate) const fn hints_need_page_writes(major: Major) -> bool {
    !major.facts().hints_force_images
}

/// True when the page of a block reference of this record type is initialised anew before it is logged, so that its LSN is 0
/// whatever changed it before: an overflow page of a hash index that is given up.
pub(crate) const fn initialises_before(rmgr_id: u8, info: u8, block_id: u8) -> bool {
    const FREED: u8 = 2;
    matches!((rmgr_id, type_key(rmgr_id, info)), (RM_HASH, XLOG_HASH_SQUEEZE_PAGE)) && block_id == FREED
}

/// True when a block reference of this record type never has an image that redo applies, because the page is not changed: a
/// bucket of a hash index that is only locked.
pub(crate) const fn never_images(rmgr_id: u8, info: u8, block_id: u8) -> bool {
    let is_locked = matches!(
        (rmgr_id, type_key(rmgr_id, info)),
        (RM_HASH, XLOG_HASH_MOVE_PAGE_CONTENTS | XLOG_HASH_SQUEEZE_PAGE | XLOG_HASH_DELETE)
    );
    is_locked && block_id == 0
}
