//! Blocks that replay changes without having built them first: what it needs to find on disk.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::wal::block_set::{BlockSet, RecentBlocks};
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::is_all_zero;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::record::Record;
use crate::types::{ForkNumber, Lsn, Oid, PageId, RelFileLocator};

/// Pages that are listed one by one when they are missing.
const MAX_MISSING: usize = 100_000;

/// Distinct blocks by their first record from the redo point on. A block that later records remove is forgotten: there
/// need be nothing of it on disk.
#[derive(Debug, Default)]
pub struct Needed {
    redo_lsn: Lsn,
    seen: BlockSet,
    recent: RecentBlocks,
    changed: BlockSet,
    /// Blocks that redo expects, also those that later records remove.
    granted: BlockSet,
    copied: FxHashSet<(Oid, Oid)>,
    /// Changes of files, in order, after which blocks are forgotten.
    changes: Vec<LifeCycle>,
}

impl Needed {
    /// Nothing yet; records before `redo_lsn` will not count.
    pub fn from(redo_lsn: Lsn) -> Self {
        Self { redo_lsn, ..Self::default() }
    }

    /// Empty, for later records that will be [appended](Self::append).
    pub(crate) fn begin(&self) -> Self {
        Self::from(self.redo_lsn)
    }

    /// Adds what the records after these said.
    pub(crate) fn append(&mut self, next: Self) {
        for (rel, fork_code, block) in next.granted.iter() {
            if !self.copied.contains(&(rel.db_oid, rel.spc_oid)) {
                self.granted.insert(rel, fork_code, block);
            }
        }
        for change in &next.changes {
            self.apply(change);
        }
        // What was seen before stays what it is.
        self.changed.union_with_others(&next.changed, &self.seen);
        self.seen.union_with(&next.seen);
        self.changes.extend(next.changes);
    }

    /// Adds what a record says of its block `block_id`.
    #[inline]
    pub(crate) fn add_block(&mut self, record: &Record<'_>, block_id: u8, block: &BlockHead) {
        let fork = block.fork();
        // Missing maps are created.
        if record.start_lsn < self.redo_lsn || !matches!(fork, Some(ForkNumber::Main | ForkNumber::Init)) {
            return;
        }
        let fork_code = fork.map_or(0, ForkNumber::code);
        let Ok(code) = u8::try_from(fork_code) else { return };
        let is_hint = record.kind().is_hint();
        let builds = block.will_init() || block.has_image_to_apply(record.major);
        if record.record_type().takes_page_for_granted(block_id)
            && !builds
            && !self.copied.contains(&(block.rel.db_oid, block.rel.spc_oid))
        {
            self.granted.insert(block.rel, code, block.block);
        }
        if is_hint && !builds || !self.recent.is_new(block.rel, code, block.block) {
            return;
        }
        if self.seen.insert(block.rel, code, block.block) && !builds {
            self.changed.insert(block.rel, code, block.block);
        }
    }

    pub(crate) fn add_files(&mut self, start_lsn: Lsn, what: &LifeCycle) {
        if start_lsn < self.redo_lsn {
            return;
        }
        self.recent.clear();
        self.apply(what);
        self.changes.push(what.clone());
    }

    fn apply(&mut self, what: &LifeCycle) {
        match what {
            LifeCycle::Created { .. } | LifeCycle::DatabaseCreated { copied_from: None, .. } => {}
            LifeCycle::Truncated { flags, .. } if !LifeCycle::cuts(*flags, ForkNumber::Main) => {}
            LifeCycle::Truncated { rel, keeps_blocks, .. } => {
                let from = *keeps_blocks;
                self.forget(|other, fork_code| (other == *rel && fork_code == 0).then_some(from));
            }
            LifeCycle::Dropped { rels, .. } => self.forget(|other, _| rels.contains(&other).then_some(0)),
            LifeCycle::DatabaseCreated { db_oid, spc_oid, .. } => {
                self.forget(|other, _| ((other.db_oid, other.spc_oid) == (*db_oid, *spc_oid)).then_some(0));
                self.copied.insert((*db_oid, *spc_oid));
            }
            LifeCycle::DatabaseDropped { db_oid, spc_oids } => {
                self.forget(|other, _| (other.db_oid == *db_oid && spc_oids.contains(&other.spc_oid)).then_some(0));
                self.copied.retain(|(db, spc)| db != db_oid || !spc_oids.contains(spc));
            }
        }
    }

    /// Forgets the blocks of each fork from the one on that `from` gives.
    fn forget(&mut self, from: impl Fn(RelFileLocator, u8) -> Option<u32>) {
        self.seen.remove_from(&from);
        self.changed.remove_from(&from);
    }

    /// The pages that records touch from the redo point on.
    pub(crate) fn touched(&self) -> impl Iterator<Item = PageId> {
        self.seen.iter().filter_map(|(rel, fork_code, block)| {
            ForkNumber::from_code(i32::from(fork_code)).map(|fork| PageId { rel, fork, block })
        })
    }

    /// True for a page that is there in the end and that the first of these records builds, whatever is on disk.
    pub(crate) fn builds(&self, page: PageId) -> bool {
        let Ok(code) = u8::try_from(page.fork.code()) else { return false };
        let is_in = |blocks: &BlockSet| blocks.contains(page.rel, code, page.block);
        is_in(&self.seen) && !is_in(&self.changed) && !is_in(&self.granted)
    }

    /// The blocks that recovery changes or expects and that are missing or zero-filled, with the fault of
    /// each. Unreadable parts, and parts beyond the limits, is added to `coverage`.
    pub fn missing(
        &self,
        pages: &dyn PageSource,
        block_size: usize,
        coverage: &mut Coverage,
    ) -> BTreeMap<PageId, Suspicion> {
        let mut found = BTreeMap::new();
        let mut buf = vec![0; block_size];
        let mut unlogged = None;
        let changed = self.changed.iter().filter(|(rel, ..)| !self.copied.contains(&(rel.db_oid, rel.spc_oid)));
        for (rel, fork_code, block) in changed.chain(self.granted.iter()) {
            let Some(fork) = ForkNumber::from_code(i32::from(fork_code)) else { continue };
            if unlogged.as_ref().is_none_or(|(known, _)| *known != rel) {
                let has_init = pages.has_fork(rel, ForkNumber::Init).unwrap_or_else(|error| {
                    coverage.skip_once(SkippedPart::InitFork(rel), error);
                    false
                });
                unlogged = Some((rel, has_init));
            }
            if fork == ForkNumber::Main && unlogged.is_some_and(|(_, is)| is) {
                continue;
            }
            let page = PageId { rel, fork, block };
            if found.contains_key(&page) {
                continue;
            }
            let suspicion = match pages.read_page(page, &mut buf) {
                Ok(PageRead::Whole) if is_all_zero(&buf) => Suspicion::Zeroed,
                Ok(PageRead::Whole) => continue,
                Ok(PageRead::Partial { .. }) => Suspicion::Cut,
                Ok(PageRead::BeyondEnd) => Suspicion::BeyondEnd,
                Ok(PageRead::NoFile) => Suspicion::MissingFile,
                Err(error) => {
                    coverage.skip_once(page, error);
                    continue;
                }
            };
            if found.len() >= MAX_MISSING {
                coverage.skip(SkippedPart::MorePagesNeeded, SkipReason::TooManyMissing { limit: MAX_MISSING });
                break;
            }
            found.insert(page, suspicion);
        }
        found
    }
}

/// Effect of the page on startup without a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStart {
    /// Replay overwrites or removes the page before anything reads it.
    Harmless,
    /// Replay reads the page at this record and finds it unreadable: the server takes an image of its own, or stops.
    Read {
        /// The record.
        lsn: Lsn,
    },
    /// Replay finds no page to change, or one that is all zero, and passes over this record and all that follow: the changes
    /// are lost. Crash recovery says nothing of it; recovery from an archive stops as soon as it would be consistent.
    PassedOver {
        /// The first record.
        lsn: Lsn,
    },
    /// Recovery expects the page to exist, and the server crashes with a segmentation fault.
    Dies {
        /// The record.
        lsn: Lsn,
        /// Its resource manager and type.
        record: String,
        /// A later record removes the page: nothing of it is needed but its block number.
        is_removed: bool,
    },
    /// A page of a map that replay does not read, and that servers take for an empty one. It stays damaged on disk, and what
    /// copies or checks files reports it, until a server writes it.
    TakenForEmpty,
    /// Replay does not read the page: whoever reads it later gets an error, or wrong data.
    Later,
    /// Replay reads the page and does not notice the damage.
    Unnoticed {
        /// The first record that does.
        lsn: Lsn,
    },
    /// Not known.
    Unknown,
}

/// Why a page is examined more closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// It fails its checks.
    Damaged,
    /// It is all zero, an image is not.
    Zeroed,
    /// The file ends inside it.
    Cut,
    /// The file ends before it.
    BeyondEnd,
    /// The relation has no file.
    MissingFile,
    /// An image is newer, yet from before the redo point: what it shows should have been on disk by then.
    LostWrite,
    /// It differs from an image, and there are no checksums to distinguish a torn page from another version.
    Differs,
}
