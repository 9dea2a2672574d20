//! Effect of one WAL record on a page, or on its files.

use strum::IntoStaticStr;

use super::sectors::SectorMarks;
use crate::analysis::wal::page_action::PageAction;
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::{RM_HEAP, rmgr_name};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::{RecordKind, RecordType};
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId};

/// True for records that name a visibility map page to clear bits of it. Where the record was cut, its flags are not known.
///
/// Source: `heap_xlog_delete` and its kin, `src/backend/access/heap/heapam_xlog.c` of 17.11, 18.6 and 19.
pub(crate) fn clears_map_bits(record: &Record<'_>, block: &BlockRef<'_>) -> bool {
    const SETS_ALL_FROZEN: u8 = 0x20;
    if block.fork() != Some(ForkNumber::Vm) {
        return false;
    }
    match record.kind() {
        RecordKind::Heap2LockUpdated => true,
        _ if record.header.rmgr_id == RM_HEAP => true,
        RecordKind::Heap2MultiInsert => record.main_data().first().is_none_or(|flags| flags & SETS_ALL_FROZEN == 0),
        _ => false,
    }
}

/// Effect of a record on a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Touch {
    /// Redo restores the image without reading the page.
    Image {
        /// The image's sectors with the LSN that redo sets; `None` when there are too many.
        marks: Option<Box<SectorMarks>>,
        /// The LSN inside the image, before redo sets it: what the page had before this record.
        prior_lsn: Lsn,
    },
    /// Redo recreates the page without reading it.
    Init,
    /// Redo reads the page and changes it.
    #[default]
    Change,
    /// Only hint bits were set; redo does nothing, but the page's LSN moved on.
    Hint,
    /// A heap record that may clear bits of this visibility map page, without moving its LSN.
    MapBits,
}

impl Touch {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// A record that touches a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockEvent {
    /// Start of the record.
    pub start_lsn: Lsn,
    /// Its end: what the page's LSN becomes.
    pub end_lsn: Lsn,
    /// Transaction, 0 for none.
    pub xid: u32,
    /// Kind of record.
    pub record: RecordType,
    /// Its effect.
    pub touch: Touch,
    /// Index of the page in the record.
    pub block_id: u8,
    /// Other blocks of the same fork that the record changes, with their index: they get the same LSN.
    pub partners: Box<[(u8, BlockNumber)]>,
    /// The record changes a page of another fork or relation, too, and gives it the same LSN.
    pub has_other_fork: bool,
    /// Redo clears bits of this visibility map page, and stops at one that it cannot read; where it sets bits, it takes such
    /// a page for an empty one.
    pub clears_map: bool,
    /// Its action inside the page according to its payload, if requested.
    pub action: Option<Box<PageAction>>,
}

impl BlockEvent {
    /// True when a page from before this record lacks a change that somebody may have committed. Hint bits can be lost,
    /// with or without an image of the page in the record.
    pub(crate) const fn matters(&self) -> bool {
        !self.record.kind.is_hint() && !matches!(self.touch, Touch::Hint)
    }

    /// True when redo overwrites the page without reading it.
    pub(crate) const fn heals(&self) -> bool {
        matches!(self.touch, Touch::Image { .. } | Touch::Init)
    }

    /// True when redo reads the page, and so fails on one that it cannot read. A visibility map page that cannot be read is taken
    /// for an empty one, unless the record [clears bits](Self::clears_map) of it.
    pub(crate) const fn reads(&self) -> bool {
        matches!(self.touch, Touch::Change)
    }

    /// True when redo dies if it finds no page here, or one that is all zero.
    pub(crate) fn dies_without_page(&self, major: Option<Major>) -> bool {
        self.reads()
            && self.record.takes_page_for_granted(self.block_id)
            && major.is_none_or(|major| major.facts().dies_without_brin_page)
    }

    /// Resource manager and type, as `pg_waldump` prints them.
    pub fn name(&self, major: Option<Major>) -> String {
        major.map_or_else(|| rmgr_name(self.record.rmgr_id).to_string(), |major| self.record.name(major))
    }
}

/// A change of a relation's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEvent {
    /// Start of the record.
    pub start_lsn: Lsn,
    /// Its end.
    pub end_lsn: Lsn,
    /// Its change.
    pub what: LifeCycle,
}

impl FileEvent {
    /// True when the page is gone, or is another one, after this record.
    pub fn removes(&self, page: PageId) -> bool {
        match &self.what {
            LifeCycle::Created { rel, fork_code } => *rel == page.rel && *fork_code == page.fork.code(),
            LifeCycle::Truncated { rel, keeps_blocks, flags } => {
                // How much the maps lose follows from the main fork; any loss counts for all of their pages.
                let is_in_reach = page.fork != ForkNumber::Main || page.block >= *keeps_blocks;
                *rel == page.rel && is_in_reach && LifeCycle::cuts(*flags, page.fork)
            }
            LifeCycle::Dropped { rels, .. } => rels.contains(&page.rel),
            LifeCycle::DatabaseCreated { db_oid, spc_oid, copied_from } => {
                copied_from.is_some() && (*db_oid, *spc_oid) == (page.rel.db_oid, page.rel.spc_oid)
            }
            LifeCycle::DatabaseDropped { db_oid, spc_oids } => {
                *db_oid == page.rel.db_oid && spc_oids.contains(&page.rel.spc_oid)
            }
        }
    }

    /// True when redo of this record does to the page what the server did: of a visibility map it clears the bits of what is
    /// cut off.
    ///
    /// Source: `visibilitymap_prepare_truncate`, `src/backend/access/heap/visibilitymap.c`.
    pub(crate) fn is_replayed_on(&self, page: PageId) -> bool {
        page.fork == ForkNumber::Vm
            && matches!(self.what, LifeCycle::Truncated { flags, .. } if LifeCycle::cuts(flags, page.fork))
    }

    /// True when replay of this record brings the page into being by copying its whole database.
    pub(crate) fn brings(&self, page: PageId) -> bool {
        matches!(self.what, LifeCycle::DatabaseCreated { .. }) && self.removes(page)
    }

    /// True when the page's file, or the page itself, no longer exists after this record.
    pub fn ends(&self, page: PageId) -> bool {
        match &self.what {
            LifeCycle::Created { .. } | LifeCycle::DatabaseCreated { .. } => false,
            LifeCycle::Truncated { .. } => page.fork == ForkNumber::Main && self.removes(page),
            LifeCycle::Dropped { .. } | LifeCycle::DatabaseDropped { .. } => self.removes(page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RelFileLocator;

    /// Servers that were killed and started without the page: 10 to 15 continued, 16 to 19devel died.
    #[test]
    fn brin_inserts_kill_servers_from_16_on() {
        use Major::{V10, V11, V12, V13, V14, V15, V16, V17, V18, V19};
        let of = |rmgr_id, info, block_id| {
            let record = RecordType::new(V19, rmgr_id, info);
            BlockEvent { record, block_id, ..BlockEvent::default() }
        };
        for (info, deadly) in [(0x10, true), (0x20, true), (0x90, false), (0x30, false), (0x40, false), (0x50, false)] {
            for (major, dies) in [(V10, false), (V11, false), (V12, false), (V13, false), (V14, false), (V15, false)]
                .into_iter()
                .chain([(V16, true), (V17, true), (V18, true), (V19, true)])
            {
                assert_eq!(of(17, info, 0).dies_without_page(Some(major)), deadly && dies, "{info:#x} {major:?}");
            }
        }
        assert!(!of(17, 0x10, 1).dies_without_page(Some(V19)) && !of(10, 0x10, 0).dies_without_page(Some(V19)));
        // Better warned for nothing.
        assert!(of(17, 0x10, 0).dies_without_page(None));
    }

    /// Truncations of the visibility map alone, as `pg_truncate_visibility_map` logs them, and of all forks.
    #[test]
    fn truncation_removes_pages_of_the_forks_that_it_cuts() {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16384 };
        let event = |keeps_blocks, flags| FileEvent {
            start_lsn: Lsn(8),
            end_lsn: Lsn(16),
            what: LifeCycle::Truncated { rel, keeps_blocks, flags },
        };
        let page = |fork, block| PageId { rel, fork, block };
        let (map_alone, all) = (event(0, 2), event(3, 7));
        assert!(!map_alone.removes(page(ForkNumber::Main, 0)) && !map_alone.ends(page(ForkNumber::Main, 9)));
        assert!(map_alone.removes(page(ForkNumber::Vm, 0)) && !map_alone.removes(page(ForkNumber::Fsm, 0)));
        assert!(!all.removes(page(ForkNumber::Main, 2)) && all.ends(page(ForkNumber::Main, 3)));
        assert!(all.removes(page(ForkNumber::Vm, 0)) && all.removes(page(ForkNumber::Fsm, 2)));
    }
}
