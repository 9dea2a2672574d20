//! What WAL says about chosen pages: every record that touches them, and every change of their relations' files.

use std::ops::{ControlFlow, Range};

use rustc_hash::{FxHashMap, FxHashSet};

use super::events::{BlockEvent, FPI_FOR_HINT, FileEvent, Touch};
use super::needed::Needed;
use super::next_change::NextChange;
use super::sectors::SectorMarks;
use super::unchecked::FirstTouches;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::walk::{WalkEnd, walk_run};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::image::ImageDecoder;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::{BlockRef, Keep};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::{RM_HEAP, RM_HEAP2, RM_XLOG};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Events that are kept in all. Behind that, what lies further is not known.
const MAX_EVENTS: usize = 1_000_000;

/// Images of which sectors are kept, in all.
const MAX_IMAGES: usize = 100_000;

/// The pages and relations that a history is wanted of.
#[derive(Debug, Default)]
pub struct Interest {
    pages: FxHashMap<PageId, usize>,
    list: Vec<PageId>,
    rels: FxHashSet<RelFileLocator>,
    /// By place: LSNs of images that were copied without a lock.
    copied: Vec<Vec<Lsn>>,
    /// Visibility map pages, by their relation.
    maps: FxHashMap<RelFileLocator, Vec<(BlockNumber, usize)>>,
}

impl Interest {
    /// Adds a page; returns its place in the history.
    pub fn add(&mut self, page: PageId) -> usize {
        let next = self.list.len();
        let place = *self.pages.entry(page).or_insert(next);
        if place == next {
            self.list.push(page);
            self.copied.push(Vec::new());
            self.rels.insert(page.rel);
            if page.fork == ForkNumber::Vm {
                self.maps.entry(page.rel).or_default().push((page.block, place));
            }
        }
        place
    }

    /// Adds a relation of which only creation, truncation and removal matter.
    pub fn add_relation(&mut self, rel: RelFileLocator) {
        self.rels.insert(rel);
    }

    /// Asks for what the first change behind `lsn` puts into the page at `place`: an image with that LSN which was
    /// copied without a lock must not hold it yet.
    pub fn watch(&mut self, place: usize, lsn: Lsn) {
        if let Some(list) = self.copied.get_mut(place).filter(|list| !list.contains(&lsn)) {
            list.push(lsn);
        }
    }

    /// Place of a page, if it was added.
    #[must_use]
    pub fn place(&self, page: PageId) -> Option<usize> {
        self.pages.get(&page).copied()
    }

    /// The pages, in the order in which they were added.
    #[must_use]
    pub fn pages(&self) -> &[PageId] {
        &self.list
    }
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct WalHistory {
    /// By place in the interest: records that touch the page, by LSN.
    events: Vec<Vec<BlockEvent>>,
    files: FxHashMap<RelFileLocator, Vec<FileEvent>>,
    databases: Vec<FileEvent>,
    /// By place and watched LSN.
    next_changes: FxHashMap<(usize, Lsn), NextChange>,
    /// Stretches of WAL in which every record was read.
    covered: Vec<Range<Lsn>>,
    /// Version of the WAL.
    pub major: Option<Major>,
    /// Newest transaction that any record carries.
    pub newest_xid: Option<u32>,
    /// Checkpoint records: start, and where replay from it begins.
    checkpoints: Vec<(Lsn, Lsn)>,
    /// What replay needs on disk; collected only where it is asked for.
    pub needed: Option<Needed>,
    /// Which transaction came to which page when; collected only where it is asked for.
    pub first_touches: Option<FirstTouches>,
    kept: usize,
    images: usize,
}

/// How a walk over a part ended.
#[derive(Debug)]
pub struct Part {
    /// Bytes that were read.
    pub bytes_read: u64,
    /// The rest.
    pub walk: WalkEnd,
}

impl WalHistory {
    /// An empty history of the pages of `interest`.
    #[must_use]
    pub fn new(interest: &Interest) -> Self {
        Self { events: vec![Vec::new(); interest.list.len()], ..Self::default() }
    }

    /// Reads the records of `run` that start at or behind `start_lsn` and end at or before `end_lsn`, and adds what they
    /// say. Call it for lower addresses first. `progress` is told the bytes read.
    ///
    /// # Errors
    /// When the first segment cannot be opened.
    pub fn read(
        &mut self,
        set: &WalSet,
        run: &Range<usize>,
        (start_lsn, end_lsn): (Lsn, Lsn),
        interest: &Interest,
        progress: &dyn Fn(u64) -> ControlFlow<()>,
    ) -> Result<Part, WalReadError> {
        self.major = self.major.or(set.major());
        let plan = ScanPlan { start_lsn, end_lsn, ..ScanPlan::totals() };
        let block_size = usize::try_from(set.geometry().block_size).unwrap_or_default();
        let mut worker = Worker { decoder: ImageDecoder::new(), page: vec![0; block_size] };
        let mut open = None::<Lsn>;
        let mut bytes_read = 0;
        let mut watch = |bytes| {
            bytes_read += bytes;
            progress(bytes_read)
        };
        let walk = walk_run(&plan.stretch(set, run, Keep::Blocks), false, &mut watch, |record| {
            let start = *open.get_or_insert(record.start_lsn);
            if !self.add(record, interest, &mut worker) {
                // Nothing is known of what this record did: the stretch ends before it.
                self.cover(start..record.start_lsn);
                open = None;
            }
            ControlFlow::Continue(())
        })?;
        if let Some((start, end)) = open.zip(walk.extent.last_end_lsn) {
            self.cover(start..end);
        }
        Ok(Part { bytes_read, walk })
    }

    /// Adds a stretch, as part of the one before when it follows on.
    fn cover(&mut self, stretch: Range<Lsn>) {
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
    #[must_use]
    pub fn covers(&self, from: Lsn, to: Lsn) -> bool {
        from <= to && self.covered.iter().any(|stretch| stretch.start <= from && to <= stretch.end)
    }

    /// The stretches of WAL that were read without a gap.
    #[must_use]
    pub fn stretches(&self) -> &[Range<Lsn>] {
        &self.covered
    }

    /// True when the record at `start_lsn` is that of a checkpoint with this redo point.
    #[must_use]
    pub fn has_checkpoint(&self, start_lsn: Lsn, redo_lsn: Lsn) -> bool {
        self.checkpoints.contains(&(start_lsn, redo_lsn))
    }

    /// Records that touch the page at this place, by LSN.
    #[must_use]
    pub fn events(&self, place: usize) -> &[BlockEvent] {
        self.events.get(place).map_or(&[], Vec::as_slice)
    }

    /// The first record behind `lsn`, an LSN that was watched, that changes the page.
    #[must_use]
    pub fn next_change(&self, place: usize, lsn: Lsn) -> Option<&NextChange> {
        self.next_changes.get(&(place, lsn))
    }

    /// Changes of the files that hold a page, by LSN.
    pub fn file_events(&self, page: PageId) -> impl Iterator<Item = &FileEvent> {
        let own = self.files.get(&page.rel).into_iter().flatten();
        let mut all: Vec<&FileEvent> = own.chain(&self.databases).filter(|event| event.removes(page)).collect();
        all.sort_by_key(|event| event.start_lsn);
        all.into_iter()
    }

    /// Adds one record; false when it cannot be known what it did to the pages of interest.
    fn add(&mut self, record: &Record<'_>, interest: &Interest, worker: &mut Worker) -> bool {
        self.note_xid(record);
        let mut known = self.add_files(record, interest);
        if record.layout.block_count == 0 {
            return known;
        }
        for block in record.blocks() {
            if let Some(needed) = &mut self.needed {
                needed.add_block(record, &block);
            }
            if let Some(touches) = &mut self.first_touches {
                touches.add_block(record, &block);
            }
            if !interest.rels.contains(&block.rel) {
                continue;
            }
            let Some(page) = block.page_id() else {
                known = false;
                continue;
            };
            if let Some(place) = interest.place(page) {
                let touch = self.touch(record, &block, worker);
                for lsn in interest.copied[place].iter().filter(|lsn| **lsn <= record.start_lsn && touch != Touch::Hint)
                {
                    self.next_changes
                        .entry((place, *lsn))
                        .or_insert_with(|| NextChange::of(record, &block, touch == Touch::Change));
                }
                known &= self.push(place, record, touch, Some(&block));
            }
            let is_heap = matches!(record.header.rmgr_id, RM_HEAP | RM_HEAP2);
            if let Some(maps) = interest.maps.get(&page.rel).filter(|_| is_heap && page.fork == ForkNumber::Main) {
                let pages_per_map = heap_blocks_per_map_page(record.block_size);
                for (map_block, place) in maps.iter().filter(|(map, _)| *map == page.block / pages_per_map) {
                    let own = record.blocks().any(|other| {
                        other.rel == page.rel && other.fork() == Some(ForkNumber::Vm) && other.block == *map_block
                    });
                    if !own {
                        known &= self.push(*place, record, Touch::MapBits, None);
                    }
                }
            }
        }
        known
    }

    fn push(&mut self, place: usize, record: &Record<'_>, touch: Touch, own: Option<&BlockRef<'_>>) -> bool {
        if self.kept >= MAX_EVENTS {
            return false;
        }
        self.kept += 1;
        let Some(list) = self.events.get_mut(place) else { return false };
        let is_partner = |other: &BlockRef<'_>| {
            own.is_some_and(|own| {
                (own.rel, own.fork_code()) == (other.rel, other.fork_code()) && own.block_id != other.block_id
            })
        };
        let others = record.blocks().filter(is_partner).map(|other| (other.block_id, other.block));
        let is_several = record.layout.block_count > 1;
        let partners = if is_several { others.collect() } else { Box::default() };
        let is_stranger =
            |own: &BlockRef<'_>, other: &BlockRef<'_>| (own.rel, own.fork_code()) != (other.rel, other.fork_code());
        let has_stranger = is_several && own.is_some_and(|own| record.blocks().any(|other| is_stranger(own, &other)));
        list.push(BlockEvent {
            start_lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            xid: record.header.xid,
            rmgr_id: record.header.rmgr_id,
            info: record.header.info,
            touch,
            block_id: own.map_or(0, |own| own.block_id),
            partners,
            has_stranger,
        });
        true
    }

    fn touch(&mut self, record: &Record<'_>, block: &BlockRef<'_>, worker: &mut Worker) -> Touch {
        if let Some(image) = block.image.filter(crate::parsers::image::BlockImage::applies) {
            // Redo stops at an image that it cannot unpack, as it does at a page that it cannot read.
            if worker.decoder.restore(&image, &mut worker.page).is_err() {
                return Touch::Change;
            }
            let keep = self.images < MAX_IMAGES;
            self.images += usize::from(keep);
            crate::parsers::restore::ready_page(&mut worker.page, record.end_lsn, block.block, false);
            return Touch::Image { marks: keep.then(|| Box::new(SectorMarks::of(&worker.page))) };
        }
        if block.will_init() {
            return Touch::Init;
        }
        let hint = record.header.rmgr_id == RM_XLOG && record.rmgr_info() == FPI_FOR_HINT;
        if hint { Touch::Hint } else { Touch::Change }
    }

    fn note_xid(&mut self, record: &Record<'_>) {
        let own = Some(record.header.xid).filter(|xid| *xid > 2);
        let next = match record.header.rmgr_id {
            RM_XLOG => match XlogPayload::of(record) {
                Ok(Some(XlogPayload::CheckpointShutdown(checkpoint) | XlogPayload::CheckpointOnline(checkpoint))) => {
                    self.checkpoints.push((record.start_lsn, checkpoint.redo_lsn));
                    // The next transaction has not been handed out yet.
                    u32::try_from(checkpoint.next_full_xid & 0xFFFF_FFFF).ok().map(|next| next.wrapping_sub(1))
                }
                _ => None,
            },
            _ => None,
        };
        for xid in own.into_iter().chain(next) {
            if self.newest_xid.is_none_or(|newest| is_newer_xid(xid, newest)) {
                self.newest_xid = Some(xid);
            }
        }
    }

    fn add_files(&mut self, record: &Record<'_>, interest: &Interest) -> bool {
        let what = match LifeCycle::of(record) {
            Ok(None) => return true,
            Ok(Some(what)) => what,
            Err(_) => return false,
        };
        if let Some(needed) = &mut self.needed {
            needed.add_files(record.start_lsn, &what);
        }
        let (start_lsn, end_lsn) = (record.start_lsn, record.end_lsn);
        let event = |what| FileEvent { start_lsn, end_lsn, what };
        match what {
            LifeCycle::Created { rel, .. } | LifeCycle::Truncated { rel, .. } => {
                if interest.rels.contains(&rel) {
                    self.files.entry(rel).or_default().push(event(what));
                }
            }
            LifeCycle::Dropped { committed, time, rels } => {
                for rel in rels.into_iter().filter(|rel| interest.rels.contains(rel)) {
                    let what = LifeCycle::Dropped { committed, time, rels: vec![rel] };
                    self.files.entry(rel).or_default().push(event(what));
                }
            }
            LifeCycle::DatabaseCreated { db_oid, .. } | LifeCycle::DatabaseDropped { db_oid, .. } => {
                if interest.rels.iter().any(|rel| rel.db_oid == db_oid) {
                    self.databases.push(event(what));
                }
            }
        }
        !record.is_cut()
    }
}

/// What restoring images needs.
struct Worker {
    decoder: ImageDecoder,
    page: Vec<u8>,
}

/// Heap blocks whose bits one page of the visibility map holds: 2 bits each behind the page header.
///
/// Source: `HEAPBLOCKS_PER_PAGE`, `src/backend/access/heap/visibilitymap.c`.
#[must_use]
pub fn heap_blocks_per_map_page(block_size: u32) -> BlockNumber {
    let header = u32::try_from(PageHeader::SIZE).unwrap_or_default();
    block_size.saturating_sub(header).saturating_mul(4).max(1)
}

/// True when `xid` was handed out after `other`: numbers wrap around, so this is about distance.
///
/// Source: `TransactionIdFollows`, `src/backend/access/transam/transam.c`.
#[must_use]
pub const fn is_newer_xid(xid: u32, other: u32) -> bool {
    xid.wrapping_sub(other).cast_signed() > 0
}
