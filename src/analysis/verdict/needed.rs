//! Blocks that replay changes without having built them first: what it needs to find on disk.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::sieve::PageOnDisk;
use super::slots::Suspicion;
use crate::analysis::coverage::Coverage;
use crate::analysis::skipped::{SkipReason, SkippedPart};
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
    pub(super) fn begin(&self) -> Self {
        Self::from(self.redo_lsn)
    }

    /// Adds what the records after these said.
    pub(super) fn append(&mut self, next: Self) {
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
    pub(super) fn add_block(&mut self, record: &Record<'_>, block_id: u8, block: &BlockHead) {
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

    pub(super) fn add_files(&mut self, start_lsn: Lsn, what: &LifeCycle) {
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

    /// The pages that records touch from the redo point on and that are there.
    pub(super) fn touched<'a>(
        &'a self,
        pages: &'a dyn PageSource,
        block_size: usize,
        next_xid: u32,
    ) -> impl Iterator<Item = PageOnDisk> + 'a {
        let mut buf = vec![0; block_size];
        let all = self.seen.iter().filter_map(|(rel, fork_code, block)| {
            ForkNumber::from_code(i32::from(fork_code)).map(|fork| PageId { rel, fork, block })
        });
        // Pages that cannot be read are reported where all pages are read.
        all.filter_map(move |page| {
            let is_whole = matches!(pages.read_page(page, &mut buf), Ok(PageRead::Whole)) && !is_all_zero(&buf);
            is_whole.then(|| PageOnDisk::of(page, &buf, next_xid)).flatten()
        })
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
