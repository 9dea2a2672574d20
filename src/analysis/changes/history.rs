//! History of chosen pages in WAL: every record that touches them, and every change of their relations' files.
//! `Interest` lists these pages and relations.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::events::{BlockEvent, FileEvent, Touch};
use super::gather::{Gather, Gathered};
use super::made::Made;
use super::needed::Needed;
use super::next_change::NextChange;
use super::page_chain::ChangeLog;
use super::prepared_xacts::XactEnds;
use super::sieve::{PageOnDisk, Sieve};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::segment::{Stretch, WatchRead, read_segment};
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, ForkNumber, Lsn, Oid, PageId, RelFileLocator, newer_xid};

/// Events that are kept in all. What comes after them is not known.
const MAX_EVENTS: usize = 1_000_000;

/// Images of which sectors are kept, in all.
const MAX_IMAGES: usize = 100_000;

/// Events of one segment that are gathered before they must be put together with the others.
const ROOM: usize = 50_000;

/// Everything that was found.
#[derive(Debug, Default)]
pub struct WalHistory {
    /// By index in the interest: records that touch the page, by LSN.
    events: Vec<Vec<BlockEvent>>,
    files: FxHashMap<RelFileLocator, Vec<FileEvent>>,
    databases: Vec<FileEvent>,
    /// By index of the page and watched LSN.
    next_changes: FxHashMap<(usize, Lsn), NextChange>,
    /// Stretches of WAL in which every record was read.
    covered: Vec<Range<Lsn>>,
    /// Version of the WAL.
    pub major: Option<Major>,
    /// Newest transaction that any record carries.
    pub newest_xid: Option<u32>,
    /// Checkpoint records: start, and where replay from it begins.
    checkpoints: Vec<(Lsn, CheckPoint)>,
    /// Starts of those that a shutdown, or the end of recovery, wrote.
    shutdowns: Vec<Lsn>,
    /// Ends of backups: redo point of the backup, and end of the record.
    backup_ends: Vec<(Lsn, Lsn)>,
    /// Records of changed settings: start, and whether from then on less was logged than replay of single pages needs (`wal_level` minimal).
    levels: Vec<(Lsn, bool)>,
    made: Made,
    /// The server logged less at last, by its control file.
    pub is_minimal: bool,
    /// Pages that recovery needs on disk; collected only if requested.
    pub needed: Option<Needed>,
    /// Changes of the pages by records; kept only if requested.
    pub changes: Option<ChangeLog>,
    /// Sorts out pages that nothing contradicts.
    pub(crate) sieve: Option<Sieve>,
    /// When the transactions ended that touch the pages. Collected only where it is asked for, and with it what records do
    /// inside the pages.
    pub ends: Option<XactEnds>,
    kept: usize,
    images: usize,
    /// The first record for which there was no room: nothing is known from there on.
    full_from: Option<Lsn>,
    /// Events of one segment that are gathered before they are put together.
    room: usize,
}

impl WalHistory {
    /// An empty history of the pages of `interest`.
    pub fn new(interest: &Interest) -> Self {
        Self { events: vec![Vec::new(); interest.pages().len()], room: ROOM, ..Self::default() }
    }

    /// Uses less memory while segments are read several at a time: of one that has more events than this, what was
    /// gathered is put together as it is read again, by one thread.
    pub fn with_room(mut self, events: usize) -> Self {
        self.room = events.max(1);
        self
    }

    /// Reads the records of `run` that start at or after the first address and end at or before the second, with `jobs`
    /// threads, and adds what they say. Call it for lower addresses first. `watch` is given the bytes read.
    ///
    /// # Errors
    /// When the first segment cannot be opened.
    pub fn read(
        &mut self,
        set: &WalSet,
        run: &Range<usize>,
        (start_lsn, end_lsn): (Lsn, Lsn),
        interest: &Interest,
        jobs: usize,
        watch: WatchRead<'_>,
    ) -> Result<WalkEnd, WalReadError> {
        self.major = self.major.or(set.major());
        let block_size = usize::try_from(set.geometry().block_size).unwrap_or_default();
        // Of pages nobody wants to know of, the heads of the records say enough.
        let keep = if interest.is_empty() { Keep::Heads } else { Keep::Blocks };
        let stretch = Stretch { set, run: run.clone(), start_lsn, end_lsn, keep };
        let needed = self.needed.as_ref().map(Needed::begin);
        let (room, changes, details) = (self.room, self.changes.is_some(), self.ends.is_some());
        let sieve = self.sieve.as_ref().map(Sieve::wanted);
        let begin = |_| {
            let gather = Gather::new(interest, block_size, keep, room);
            let gather = gather.with_needed(needed.as_ref());
            gather.with_changes(changes).with_details(details).with_sieve(sieve.as_ref())
        };
        let mut open = None;
        let walk = collect_run(&stretch, jobs, watch, begin, |part| {
            if !part.found.is_incomplete {
                self.put(std::mem::take(&mut part.found.gathered), &mut open);
                return Ok(());
            }
            let whole = Stretch { keep: Keep::Blocks, ..stretch.clone() };
            let mut spill = |gathered| self.put(gathered, &mut open);
            let gather = Gather::new(interest, block_size, Keep::Blocks, room);
            let gather = gather.with_needed(needed.as_ref());
            let gather = gather.with_changes(changes).with_details(details).with_sieve(sieve.as_ref());
            let gather = gather.spilling(&mut spill);
            let again = read_segment(&whole, part.index, part.from, gather, &|_| watch(0), &mut Vec::new())?;
            part.extent = again.extent;
            part.interrupted |= again.interrupted;
            let rest = again.found.gathered;
            self.put(rest, &mut open);
            Ok(())
        })?;
        if let Some((start, end)) = open.zip(walk.extent.last_end_lsn) {
            self.cover(start..end);
        }
        Ok(walk)
    }

    /// Adds what was gathered after what is there. `open` is the start of the stretch that the record before belongs to.
    fn put(&mut self, gathered: Gathered, open: &mut Option<Lsn>) {
        for (index, mut event) in gathered.events {
            if self.kept >= MAX_EVENTS {
                self.full_from.get_or_insert(event.start_lsn);
                break;
            }
            self.kept = self.kept.saturating_add(1);
            if let Touch::Image { marks, .. } = &mut event.touch {
                if self.images >= MAX_IMAGES {
                    *marks = None;
                }
                self.images = self.images.saturating_add(usize::from(marks.is_some()));
            }
            if let Some(ends) = &mut self.ends {
                ends.expect(event.xid);
            }
            if let Some(list) = self.events.get_mut(index) {
                list.push(event);
            }
        }
        if let Some((log, changes)) = self.changes.as_mut().zip(gathered.changes) {
            for (index, change) in changes {
                log.push(index, change);
            }
        }
        if let Some((sieve, sifted)) = self.sieve.as_mut().zip(gathered.sifted) {
            sieve.add(sifted);
        }
        if let Some((ends, found)) = self.ends.as_mut().zip(gathered.ends) {
            found.into_iter().for_each(|outcome| ends.add(outcome));
        }
        for (rel, event) in gathered.files {
            self.files.entry(rel).or_default().push(event);
        }
        self.databases.extend(gathered.databases);
        for (key, change) in gathered.next_changes {
            self.next_changes.entry(key).or_insert(change);
        }
        self.newest_xid = newer_xid(self.newest_xid, gathered.newest_xid);
        self.checkpoints.extend(gathered.checkpoints);
        self.shutdowns.extend(gathered.shutdowns);
        self.backup_ends.extend(gathered.backup_ends);
        self.levels.extend(gathered.levels);
        self.made.append(gathered.made);
        if let Some((whole, part)) = self.needed.as_mut().zip(gathered.needed) {
            whole.append(part);
        }
        // The first stretch continues the last one before, however many pages lie between.
        let stretches = gathered.covered.into_iter().map(|stretch| (stretch.start, Some(stretch.end)));
        for (start, end) in stretches.chain(gathered.open.map(|start| (start, None))) {
            let start = open.take().unwrap_or(start);
            match end {
                Some(end) => self.cover(start..end),
                None => *open = Some(start),
            }
        }
    }

    /// Adds a stretch, as part of the one before when it follows on.
    fn cover(&mut self, mut stretch: Range<Lsn>) {
        if let Some(full_from) = self.full_from {
            stretch.end = stretch.end.min(full_from);
            if stretch.is_empty() {
                return;
            }
        }
        match self.covered.last_mut().filter(|last| last.end == stretch.start) {
            Some(last) => last.end = stretch.end,
            None => self.covered.push(stretch),
        }
    }

    /// Makes the stretch that ends at `before` end at `after`, where the next record starts: between them lies nothing but
    /// the header of a page.
    pub fn extend(&mut self, before: Lsn, after: Lsn) {
        if let Some(stretch) = self.covered.iter_mut().find(|stretch| stretch.end == before) {
            stretch.end = after;
        }
    }

    /// True when every record between the two addresses was read.
    pub fn covers(&self, from: Lsn, to: Lsn) -> bool {
        from <= to && self.covered.iter().any(|stretch| stretch.start <= from && to <= stretch.end)
    }

    /// A history that had no room for the records from this one on.
    #[cfg(test)]
    pub(crate) fn full(full_from: Lsn) -> Self {
        Self { full_from: Some(full_from), ..Self::default() }
    }

    /// The first record for which there was no room: nothing is known from there on.
    pub(crate) const fn full_from(&self) -> Option<Lsn> {
        self.full_from
    }

    /// True when between the two addresses less was logged than replay of single pages needs (`wal_level` minimal), for certain.
    pub(crate) fn is_minimal_between(&self, from: Lsn, to: Lsn) -> bool {
        self.is_minimal || self.levels.iter().any(|(lsn, is_minimal)| *is_minimal && (from..to).contains(lsn))
    }

    /// True when a record from this address on says that less was logged after it.
    pub(crate) fn is_minimal_from(&self, from: Lsn) -> bool {
        self.levels.iter().any(|(lsn, is_minimal)| *is_minimal && *lsn >= from)
    }

    /// True when after this address rows may have been put into a page without a record and without a new LSN: up to 12, `COPY` into a table of
    /// the same transaction with `wal_level` minimal. Settings before the first record about it are unknown.
    ///
    /// Source: `HEAP_INSERT_SKIP_WAL`, `src/backend/access/heap/heapam.c` of these majors; a server of 12 that did so.
    pub(crate) fn may_lack_copies(&self, after: Lsn) -> bool {
        let is_old = self.major.is_none_or(|major| major.facts().copies_without_wal);
        is_old && (self.is_minimal || self.levels.iter().any(|(lsn, _)| *lsn >= after))
    }

    /// Tablespaces and databases that records make.
    pub const fn made(&self) -> &Made {
        &self.made
    }

    /// The stretches of WAL that were read without a gap.
    pub fn stretches(&self) -> &[Range<Lsn>] {
        &self.covered
    }

    /// True when the record at `start_lsn` is that of a checkpoint with this redo point.
    pub fn has_checkpoint(&self, start_lsn: Lsn, redo_lsn: Lsn) -> bool {
        self.checkpoints.iter().any(|(start, checkpoint)| (*start, checkpoint.redo_lsn) == (start_lsn, redo_lsn))
    }

    /// True when the record at `start_lsn` is a checkpoint other than `copy`, which a `pg_control` has of it: the two are of
    /// different lines of history.
    pub(crate) fn contradicts_checkpoint(&self, start_lsn: Lsn, copy: &CheckPoint) -> bool {
        let key = |of: &CheckPoint| (of.redo_lsn, of.time_s, of.next_full_xid, of.next_oid, of.next_multi);
        self.checkpoints.iter().any(|(start, found)| *start == start_lsn && key(found) != key(copy))
    }

    /// True when the record at `start_lsn` is that of the checkpoint of a shutdown, or of the end of recovery.
    pub(crate) fn has_shutdown(&self, start_lsn: Lsn) -> bool {
        self.shutdowns.contains(&start_lsn)
    }

    /// End of the record that ends the backup with this redo point.
    pub(crate) fn backup_end(&self, redo_lsn: Lsn) -> Option<Lsn> {
        self.backup_ends.iter().find(|(start, _)| *start == redo_lsn).map(|(_, end)| *end)
    }

    /// Records that touch the page at this index, by LSN.
    pub fn events(&self, index: usize) -> &[BlockEvent] {
        self.events.get(index).map_or(&[], Vec::as_slice)
    }

    /// The first record after `lsn`, an LSN that was watched, that changes the page.
    pub(crate) fn next_change(&self, index: usize, lsn: Lsn) -> Option<&NextChange> {
        self.next_changes.get(&(index, lsn))
    }

    /// Start of the last record that makes the main fork of a relation.
    pub fn created(&self, rel: RelFileLocator) -> Option<Lsn> {
        let is_made = |event: &&FileEvent| match event.what {
            LifeCycle::Created { fork_code, .. } => fork_code == ForkNumber::Main.code(),
            _ => false,
        };
        self.files.get(&rel)?.iter().filter(is_made).map(|event| event.start_lsn).max()
    }

    /// Changes of the files that hold a page, by LSN.
    pub fn file_events(&self, page: PageId) -> impl Iterator<Item = &FileEvent> {
        let own = self.files.get(&page.rel).into_iter().flatten();
        let mut all: Vec<&FileEvent> = own.chain(&self.databases).filter(|event| event.removes(page)).collect();
        all.sort_by_key(|event| event.start_lsn);
        all.into_iter()
    }
}

/// The pages and relations that a history is wanted of.
#[derive(Debug, Default)]
pub struct Interest {
    pages: FxHashMap<PageId, usize>,
    list: Vec<PageId>,
    rels: FxHashSet<RelFileLocator>,
    /// By index of the page: LSNs of images that were copied without a lock.
    copied: Vec<Vec<Lsn>>,
    maps: FxHashMap<RelFileLocator, Vec<(BlockNumber, usize)>>,
    /// Pages that are sieved, by their index in the sieve.
    sieved: FxHashMap<PageId, usize>,
}

impl Interest {
    /// Adds a page; returns its index in the history.
    pub fn add(&mut self, page: PageId) -> usize {
        let next = self.list.len();
        let index = *self.pages.entry(page).or_insert(next);
        if index == next {
            self.list.push(page);
            self.copied.push(Vec::new());
            self.rels.insert(page.rel);
            if page.fork == ForkNumber::Vm {
                self.maps.entry(page.rel).or_default().push((page.block, index));
            }
        }
        index
    }

    /// Adds the pages of a sieve. What records do to them is not kept.
    pub(crate) fn add_sieved<'p>(&mut self, pages: impl IntoIterator<Item = &'p PageOnDisk>) {
        for (index, own) in pages.into_iter().enumerate() {
            self.sieved.insert(own.page, index);
            self.rels.insert(own.page.rel);
        }
    }

    /// Index of a page in the sieve.
    pub(crate) fn sieved_index(&self, page: PageId) -> Option<usize> {
        self.sieved.get(&page).copied()
    }

    /// Adds a relation of which only creation, truncation and removal matter.
    pub(crate) fn add_relation(&mut self, rel: RelFileLocator) {
        self.rels.insert(rel);
    }

    /// Asks for what the first change after `lsn` puts into the page at `index`: an image with that LSN which was
    /// copied without a lock must not hold it yet.
    pub fn watch(&mut self, index: usize, lsn: Lsn) {
        if let Some(list) = self.copied.get_mut(index).filter(|list| !list.contains(&lsn)) {
            list.push(lsn);
        }
    }

    /// Index of a page, if it was added.
    pub fn index_of(&self, page: PageId) -> Option<usize> {
        self.pages.get(&page).copied()
    }

    /// The pages, in the order in which they were added.
    pub fn pages(&self) -> &[PageId] {
        &self.list
    }

    /// True when nothing is wanted of any page or relation.
    pub fn is_empty(&self) -> bool {
        self.rels.is_empty()
    }

    /// True for a relation of a page, or one that was added by itself.
    #[inline]
    pub(crate) fn has_relation(&self, rel: RelFileLocator) -> bool {
        self.rels.contains(&rel)
    }

    /// True when one of the relations belongs to the database.
    pub(crate) fn has_database(&self, db_oid: Oid) -> bool {
        self.rels.iter().any(|rel| rel.db_oid == db_oid)
    }

    /// LSNs of images of the page at `index` that were copied without a lock.
    pub(crate) fn watched(&self, index: usize) -> &[Lsn] {
        self.copied.get(index).map_or(&[], Vec::as_slice)
    }

    /// Index of a page of the visibility map, if it was added.
    pub(crate) fn map_index(&self, rel: RelFileLocator, block: BlockNumber) -> Option<usize> {
        self.maps.get(&rel)?.iter().find_map(|(map, index)| (*map == block).then_some(*index))
    }
}
