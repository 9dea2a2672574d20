//! Which block references have an image whatever the page's LSN, and which have one only because of that LSN.
//! The table of record types says how their pages are registered.

use crate::parsers::wal::records::{Images, RecordKind};
use crate::parsers::wal::version::Major;

/// True when a block reference of this record type has an image whatever the LSN of its page and whatever
/// `full_page_writes` says. Images that redo does not apply do not count here.
pub const fn always_images(kind: RecordKind, block_id: u8) -> bool {
    match kind.images() {
        Images::Always => true,
        Images::AlwaysBelow(first) => block_id < first,
        Images::First | Images::LocksFirst | Images::Hint | Images::Chosen => false,
    }
}

/// True when an image that redo applies, of a block reference of this record type, proves that the page's LSN was not
/// after the redo point then in force.
///
/// False for what may be either: `Generic`, custom resource managers, and `FPI_FOR_HINT` up to 14, which decides by the
/// LSN but copies the page after that, when another backend may have set a newer one.
pub fn never_forced(major: Major, kind: RecordKind, block_id: u8) -> bool {
    match kind.images() {
        Images::Chosen => false,
        Images::Hint => !major.facts().hints_force_images,
        Images::First | Images::LocksFirst | Images::Always | Images::AlwaysBelow(_) => !always_images(kind, block_id),
    }
}

/// True when a hint image exists only because full-page writes were in force: up to 14 it is written without them, too.
pub(crate) const fn hints_need_page_writes(major: Major) -> bool {
    !major.facts().hints_force_images
}

/// True when the page of a block reference of this record type is initialised again before it is logged, so that its LSN is 0
/// whatever changed it before: an overflow page of a hash index that is given up.
pub(crate) const fn initialises_before(kind: RecordKind, block_id: u8) -> bool {
    const FREED: u8 = 2;
    matches!(kind, RecordKind::HashSqueezePage) && block_id == FREED
}

/// True when a block reference of this record type never has an image that redo applies, because the page is not changed: a
/// bucket of a hash index that is only locked.
pub(crate) const fn never_images(kind: RecordKind, block_id: u8) -> bool {
    matches!(kind.images(), Images::LocksFirst) && block_id == 0
}
