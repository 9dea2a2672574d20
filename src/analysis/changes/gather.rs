//! Facts about chosen pages from the records of one stretch of WAL, collected in order. Stretches are read several at a
//! time; [`super::history::WalHistory`] puts together what was gathered, in order.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::events::{BlockEvent, FileEvent, Touch, clears_map_bits};
use super::history::Interest;
use super::made::Made;
use super::needed::Needed;
use super::next_change::NextChange;
use super::page_chain::PageChange;
use super::prepared_xacts::XactOutcome;
use super::sectors::SectorMarks;
use super::sieve::{SievedPages, Sifted};
use crate::analysis::wal::page_action::{ActionKind, PageAction};
use crate::analysis::wal::segment::Visitor;
use crate::parsers::control::WAL_LEVEL_MINIMAL;
use crate::parsers::image::{BlockImage, ImageDecoder, ready_page};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::{BlockRef, Keep};
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::lifecycle::{LifeCycle, XactEnd};
use crate::parsers::wal::names::{RM_DBASE, RM_SMGR, RM_TBLSPC, RM_XACT, RM_XLOG};
use crate::parsers::wal::payload::{ParameterChange, XlogPayload};
use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, ForkNumber, Lsn, RelFileLocator, newer_xid};

/// Ends of transactions that are gathered before they must be put together with the others.
const MAX_ENDS: usize = 100_000;

/// Bytes of changes that are gathered before they must be put together with the others.
const MAX_CHANGE_BYTES: usize = 32 << 20;

/// The collected facts, each list in the order of the records.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Records that touch a page, by its index in the interest.
    pub(crate) events: Vec<(usize, BlockEvent)>,
    pub(crate) files: Vec<(RelFileLocator, FileEvent)>,
    pub(crate) databases: Vec<FileEvent>,
    /// The first change after a watched LSN, by index of the page and that LSN.
    pub(crate) next_changes: FxHashMap<(usize, Lsn), NextChange>,
    /// Stretches in which every record was understood. The first begins with the first record.
    pub(crate) covered: Vec<Range<Lsn>>,
    /// Start of the stretch that the last record belongs to.
    pub(crate) open: Option<Lsn>,
    /// Newest transaction that any record carries.
    pub(crate) newest_xid: Option<u32>,
    /// Checkpoint records: start, and where replay from it begins.
    pub(crate) checkpoints: Vec<(Lsn, CheckPoint)>,
    pub(crate) shutdowns: Vec<Lsn>,
    /// Ends of backups: redo point of the backup, and end of the record.
    pub(crate) backup_ends: Vec<(Lsn, Lsn)>,
    /// Records of changed settings: start, and whether from then on less was logged (`wal_level` minimal).
    pub(crate) levels: Vec<(Lsn, bool)>,
    /// Tablespaces and databases that were made.
    pub(crate) made: Made,
    pub(crate) needed: Option<Needed>,
    /// Changes of the pages by records, by index; collected only if requested.
    pub(crate) changes: Option<Vec<(usize, PageChange)>>,
    /// What the pages of a sieve are sifted by.
    pub(crate) sifted: Option<Sifted>,
    change_bytes: usize,
    /// Ends of all transactions; gathered only where details are asked for.
    pub(crate) ends: Option<Vec<XactOutcome>>,
}

/// Heap blocks whose bits one page of the visibility map holds: 2 bits each after the page header.
///
/// Source: `HEAPBLOCKS_PER_PAGE`, `src/backend/access/heap/visibilitymap.c`.
fn heap_blocks_per_map_page(block_size: u32) -> BlockNumber {
    let header = u32::try_from(PageHeader::SIZE).unwrap_or_default();
    block_size.saturating_sub(header).saturating_mul(4).max(1)
}

/// Action of a record inside a page; one that does not refer to it may clear bits of the visibility map.
fn action(record: &Record<'_>, own: Option<&BlockRef<'_>>) -> Option<PageAction> {
    own.map_or(Some(PageAction::bare(ActionKind::ClearMapBits)), |own| PageAction::of(record, own))
}

/// Takes what was gathered when there is much of it.
pub(crate) type Spill<'a> = &'a mut (dyn FnMut(Gathered) + Send);

pub(crate) struct Gather<'a> {
    interest: &'a Interest,
    block_size: usize,
    keep: Keep,
    room: usize,
    spill: Option<Spill<'a>>,
    restorer: Option<Restorer>,
    pub(crate) gathered: Gathered,
    /// There was too much, or the records were not kept whole where that is needed: they must be read again, by
    /// [`Gather::spilling`].
    pub(crate) is_incomplete: bool,
}

struct Restorer {
    decoder: ImageDecoder,
    page: Vec<u8>,
}

impl Restorer {
    fn new(block_size: usize) -> Self {
        Self { decoder: ImageDecoder::new(), page: vec![0; block_size] }
    }

    /// The page that redo makes of an image. Redo stops at one that it cannot unpack, as it does at a page that it cannot read: nothing is known of
    /// the page then, which an empty one says.
    fn restore(&mut self, image: &BlockImage<'_>) -> &[u8] {
        if self.decoder.restore(image, &mut self.page).is_ok() { &self.page } else { &[] }
    }
}

impl<'a> Gather<'a> {
    /// Nothing gathered yet. `block_size`: bytes of a page; `keep`: how records are read; `room`: events that are gathered
    /// at most.
    pub(crate) fn new(interest: &'a Interest, block_size: usize, keep: Keep, room: usize) -> Self {
        let gathered = Gathered::default();
        Self { interest, block_size, keep, room, spill: None, restorer: None, gathered, is_incomplete: false }
    }

    /// Also notes pages that recovery needs on disk, if that is asked for.
    pub(crate) fn with_needed(mut self, needed: Option<&Needed>) -> Self {
        self.gathered.needed = needed.map(Needed::begin);
        self
    }

    /// Also keeps what records put into the pages, if that is asked for.
    pub(crate) fn with_changes(mut self, is_asked: bool) -> Self {
        self.gathered.changes = is_asked.then(Vec::new);
        self
    }

    /// Also notes what sifts the pages of a sieve, if that is asked for.
    pub(crate) fn with_sieve(mut self, wanted: Option<&Arc<SievedPages>>) -> Self {
        self.gathered.sifted = wanted.map(|wanted| Sifted::new(Arc::clone(wanted)));
        self
    }

    /// Also notes what records do inside the pages, and when transactions ended, if that is asked for.
    pub(crate) fn with_details(mut self, is_asked: bool) -> Self {
        self.gathered.ends = is_asked.then(Vec::new);
        self
    }

    /// Gives what was gathered to `spill` whenever there is much of it: it is never incomplete.
    pub(crate) fn spilling(mut self, spill: Spill<'a>) -> Self {
        self.spill = Some(spill);
        self
    }

    /// Adds one record; false when it cannot be known what it did to the pages of interest.
    #[inline(always)]
    fn add(&mut self, record: &Record<'_>) -> bool {
        let mut known = true;
        match record.header.rmgr_id {
            RM_XLOG => self.note_checkpoint(&{ *record }),
            RM_TBLSPC => self.note_tablespace(&{ *record }),
            RM_SMGR | RM_XACT | RM_DBASE => {
                known = self.add_files(&{ *record });
                self.note_end(&{ *record });
            }
            _ => {}
        }
        self.note_xid(record.header.xid);
        let is_asked = self.gathered.needed.is_some() || !self.interest.is_empty();
        if record.layout.block_count == 0 || !is_asked {
            return known;
        }
        let mut concerns = false;
        for (block_id, block) in record.block_heads() {
            if let Some(needed) = &mut self.gathered.needed {
                needed.add_block(record, block_id, &block);
            }
            concerns |= self.interest.has_relation(block.rel);
        }
        if concerns { self.add_blocks(&{ *record }) && known } else { known }
    }

    /// Adds what a record does to the pages of interest.
    #[inline(never)]
    fn add_blocks(&mut self, record: &Record<'_>) -> bool {
        let mut known = true;
        for block in record.blocks() {
            if !self.interest.has_relation(block.rel) {
                continue;
            }
            let Some(page) = block.page_id() else {
                known = false;
                continue;
            };
            if let Some(index) = self.interest.sieved_index(page) {
                self.sift(index, record, &block);
                continue;
            }
            if let Some(index) = self.interest.index_of(page) {
                let touch = self.touch(index, record, &block);
                for lsn in self.interest.watched(index) {
                    if *lsn <= record.start_lsn && touch != Touch::Hint {
                        self.gathered
                            .next_changes
                            .entry((index, *lsn))
                            .or_insert_with(|| NextChange::of(record, &block, touch == Touch::Change));
                    }
                }
                // Its flags come last.
                self.is_incomplete |= page.fork == ForkNumber::Vm && record.is_cut() && self.keep == Keep::Heads;
                self.push(index, record, touch, Some(&block));
            }
            let is_heap = record.record_type().is_heap();
            if is_heap && page.fork == ForkNumber::Main {
                let map_block = page.block.checked_div(heap_blocks_per_map_page(record.block_size)).unwrap_or_default();
                if let Some(index) = self.interest.map_index(page.rel, map_block) {
                    let own = record.blocks().any(|other| {
                        other.rel == page.rel && other.fork() == Some(ForkNumber::Vm) && other.block == map_block
                    });
                    if !own {
                        self.push(index, record, Touch::MapBits, None);
                    }
                }
            }
        }
        known
    }

    /// Notes what a page that is sifted is compared with.
    fn sift(&mut self, index: usize, record: &Record<'_>, block: &BlockRef<'_>) {
        let Some(sifted) = &mut self.gathered.sifted else { return };
        let image = block.image.filter(BlockImage::applies);
        let restorer = self.restorer.get_or_insert_with(|| Restorer::new(self.block_size));
        let restored = image.as_ref().map(|image| restorer.restore(image));
        sifted.add(index, record, block, restored);
        match restored {
            Some([]) => sifted.add_unclear(index),
            Some(_) => {
                ready_page(&mut restorer.page, record.end_lsn, block.block, false);
                sifted.add_image(index, &restorer.page);
            }
            None => {}
        }
    }

    fn push(&mut self, index: usize, record: &Record<'_>, touch: Touch, own: Option<&BlockRef<'_>>) {
        let is_partner = |other: &BlockRef<'_>| {
            own.is_some_and(|own| {
                (own.rel, own.fork_code()) == (other.rel, other.fork_code()) && own.block_id != other.block_id
            })
        };
        let others = record.blocks().filter(is_partner).map(|other| (other.block_id, other.block));
        let is_several = record.layout.block_count > 1;
        let partners = if is_several { others.collect() } else { Box::default() };
        let is_other_fork =
            |own: &BlockRef<'_>, other: &BlockRef<'_>| (own.rel, own.fork_code()) != (other.rel, other.fork_code());
        let has_other_fork =
            is_several && own.is_some_and(|own| record.blocks().any(|other| is_other_fork(own, &other)));
        let event = BlockEvent {
            start_lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            xid: record.header.xid,
            record: record.record_type(),
            touch,
            block_id: own.map_or(0, |own| own.block_id),
            partners,
            has_other_fork,
            clears_map: own.is_some_and(|own| clears_map_bits(record, own)),
            action: self.gathered.ends.as_ref().and_then(|_| action(record, own)).map(Box::new),
        };
        self.gathered.events.push((index, event));
    }

    /// What a record does to a page, whose change is kept where that is asked for.
    fn touch(&mut self, index: usize, record: &Record<'_>, block: &BlockRef<'_>) -> Touch {
        let image = block.image.filter(BlockImage::applies);
        let restorer = self.restorer.get_or_insert_with(|| Restorer::new(self.block_size));
        let restored = image.as_ref().map(|image| restorer.restore(image));
        if let Some(changes) = &mut self.gathered.changes
            && let Some(change) = PageChange::of(record, block, restored)
        {
            let change = change.map(Box::from);
            self.gathered.change_bytes = self.gathered.change_bytes.saturating_add(change.bytes());
            changes.push((index, change));
        }
        match restored {
            Some([]) => Touch::Change,
            Some(page) => {
                let prior_lsn = PageHeader::decode(0, page).map_or(Lsn::INVALID, |header| header.lsn);
                ready_page(&mut restorer.page, record.end_lsn, block.block, false);
                Touch::Image { marks: Some(Box::new(SectorMarks::of(&restorer.page))), prior_lsn }
            }
            None if block.will_init() => Touch::Init,
            None if record.kind().is_hint() => Touch::Hint,
            None => Touch::Change,
        }
    }

    /// In a record that was cut, the end of its list of subtransactions may be missing: their ends are unknown.
    fn note_end(&mut self, record: &Record<'_>) {
        let Some(ends) = &mut self.gathered.ends else { return };
        let Ok(Some(XactEnd { committed, time, xid, subxids })) = XactEnd::of(record) else { return };
        let start_lsn = record.start_lsn;
        ends.extend(xid.into_iter().chain(subxids).map(|xid| XactOutcome { xid, start_lsn, committed, time }));
    }

    #[inline(always)]
    fn note_xid(&mut self, xid: u32) {
        // Those up to 2 are not transactions, and records come in bunches of one.
        if xid > 2 && self.gathered.newest_xid != Some(xid) {
            self.gathered.newest_xid = newer_xid(self.gathered.newest_xid, Some(xid));
        }
    }

    #[inline(never)]
    fn note_tablespace(&mut self, record: &Record<'_>) {
        if record.is_cut() && self.keep == Keep::Heads {
            self.is_incomplete = true;
        }
        self.gathered.made.add_tablespace(record);
    }

    #[inline(never)]
    fn note_checkpoint(&mut self, record: &Record<'_>) {
        let payload = XlogPayload::of(record);
        if let Ok(Some(XlogPayload::BackupEnd { start_lsn })) = payload {
            self.gathered.backup_ends.push((start_lsn, record.end_lsn));
        }
        if let Ok(Some(XlogPayload::ParameterChange(ParameterChange { wal_level, .. }))) = payload {
            self.gathered.levels.push((record.start_lsn, wal_level == WAL_LEVEL_MINIMAL));
        }
        if matches!(payload, Ok(Some(XlogPayload::CheckpointShutdown(_)))) {
            self.gathered.shutdowns.push(record.start_lsn);
        }
        if let Ok(Some(XlogPayload::CheckpointShutdown(checkpoint) | XlogPayload::CheckpointOnline(checkpoint))) =
            payload
        {
            self.gathered.checkpoints.push((record.start_lsn, checkpoint));
            // The next transaction has not been handed out yet.
            let newest = checkpoint.next_xid().wrapping_sub(1);
            self.gathered.newest_xid = newer_xid(self.gathered.newest_xid, Some(newest));
        }
    }

    #[inline(never)]
    fn add_files(&mut self, record: &Record<'_>) -> bool {
        if record.is_cut() && self.keep == Keep::Heads {
            self.is_incomplete = true;
        }
        let what = match LifeCycle::of(record) {
            Ok(None) => return true,
            Ok(Some(what)) => what,
            Err(_) => {
                if record.header.rmgr_id == RM_DBASE {
                    self.gathered.made.leave_out(record.start_lsn);
                }
                return false;
            }
        };
        if let Some(needed) = &mut self.gathered.needed {
            needed.add_files(record.start_lsn, &what);
        }
        let (start_lsn, end_lsn) = (record.start_lsn, record.end_lsn);
        let event = |what| FileEvent { start_lsn, end_lsn, what };
        match what {
            LifeCycle::Created { rel, .. } | LifeCycle::Truncated { rel, .. } => {
                if self.interest.has_relation(rel) {
                    self.gathered.files.push((rel, event(what)));
                }
            }
            LifeCycle::Dropped { committed, time, rels } => {
                for rel in rels.into_iter().filter(|rel| self.interest.has_relation(*rel)) {
                    let what = LifeCycle::Dropped { committed, time, rels: vec![rel] };
                    self.gathered.files.push((rel, event(what)));
                }
            }
            LifeCycle::DatabaseCreated { db_oid, .. } | LifeCycle::DatabaseDropped { db_oid, .. } => {
                self.gathered.made.add_database(event(what.clone()));
                if self.interest.has_database(db_oid) {
                    self.gathered.databases.push(event(what));
                }
            }
        }
        !record.is_cut()
    }

    /// Hands over what was gathered when there is much of it; false when nobody takes it.
    #[cold]
    fn make_room(&mut self) -> bool {
        let Some(spill) = &mut self.spill else { return false };
        let full = std::mem::take(&mut self.gathered);
        self.gathered.needed = full.needed.as_ref().map(Needed::begin);
        self.gathered.changes = full.changes.as_ref().map(|_| Vec::new());
        self.gathered.sifted = full.sifted.as_ref().map(Sifted::next);
        self.gathered.ends = full.ends.as_ref().map(|_| Vec::new());
        spill(full);
        true
    }
}

impl Visitor for Gather<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if self.is_incomplete {
            return;
        }
        let is_full = self.gathered.events.len() >= self.room
            || self.gathered.change_bytes >= MAX_CHANGE_BYTES
            || self.gathered.sifted.as_ref().is_some_and(|sifted| sifted.bytes() >= MAX_CHANGE_BYTES)
            || self.gathered.ends.as_ref().is_some_and(|ends| ends.len() >= MAX_ENDS);
        if is_full && !self.make_room() {
            self.is_incomplete = true;
            return;
        }
        let start = *self.gathered.open.get_or_insert(record.start_lsn);
        if !self.add(record) {
            // Nothing is known of what this record did: the stretch ends before it.
            self.gathered.covered.push(start..record.start_lsn);
            self.gathered.open = None;
        }
    }
}
