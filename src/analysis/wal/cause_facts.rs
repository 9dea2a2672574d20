//! Facts about all WAL that the cause of an image rests on: redo points, the state of full-page writes, and later changes
//! of the pages.
//!
//! A page whose image was written for hint bits may be changed later. If that change has no image, no redo point is between
//! them: the image only came earlier. If it has one, or builds the page from scratch, the first image was for the hint bits
//! alone. So redo points need not be known here, and a segment is read without the bytes of its images.
//! Also here: whether full-page writes were in force: what the records say, and what they show; checkpoint
//! records carry the setting `full_page_writes`, and `FPW_CHANGE` says that it was changed; neither is all: with
//! `wal_level` minimal, and at a start, a change is not logged; and a server with a double write buffer writes no
//! images though the setting is on; the first changes after a redo point show what is in force.

use std::ops::ControlFlow;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rustc_hash::{FxHashMap, FxHashSet};

use super::block_set::{BlockMap, BlockSet, RecentBlocks};
use super::cause::{always_images, never_images};
use super::segment::Visitor;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::{RM_SMGR, RM_XLOG};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::types::{BlockNumber, ForkNumber, Lsn, RelFileLocator};

/// What is known of some WAL.
#[derive(Clone, Debug, Default)]
pub struct CauseFacts {
    /// Redo points, ascending.
    pub redo_points: Arc<[Lsn]>,
    /// Whether full-page writes were in force.
    pub page_writes: PageWrites,
    /// Where runs of segments begin.
    pub runs: Vec<RunStart>,
    /// Records that are not valid records of their type: a redo point may be missing.
    pub undecoded: Vec<ParseError>,
    hints_then_changed: RoaringTreemap,
    map_truncations: RoaringTreemap,
}

impl CauseFacts {
    /// True for the record of a hint image whose page is changed later in its interval.
    pub(crate) fn is_changed_later(&self, hint_lsn: Lsn) -> bool {
        self.hints_then_changed.contains(key_of(hint_lsn))
    }

    /// True for the record of an image of a map page that was written because the relation was about to be cut short.
    pub(crate) fn is_map_truncation(&self, image_lsn: Lsn) -> bool {
        self.map_truncations.contains(key_of(image_lsn))
    }
}

/// Where a run of segments begins: WAL is missing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Its first record.
    pub first: Lsn,
    /// The last record of the run before; redo points up to there need not be the last before this run.
    pub last_before: Option<Lsn>,
}

/// Records start at multiples of 8.
const fn key_of(lsn: Lsn) -> u64 {
    lsn.0 >> 3
}

type BlockKey = (RelFileLocator, u8, BlockNumber);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Hint,
    /// The first change since the start of the segment, or since such an image, without an image of its own.
    Changed,
    /// Like the one before, with an image or by building the page from scratch.
    Imaged,
    MapImage {
        xid: u32,
    },
    Truncated {
        xid: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Event {
    lsn: Lsn,
    block: BlockKey,
    kind: EventKind,
}

/// Gathers what one segment tells.
#[derive(Debug, Default)]
pub struct SegmentFacts {
    first: Option<Lsn>,
    last: Option<Lsn>,
    redo_points: Vec<Lsn>,
    page_writes: Vec<PageWritesPoint>,
    events: Vec<Event>,
    recent: RecentBlocks,
    seen: BlockSet,
    after_redo: Option<WritesAfterRedo>,
    /// The first record that is not a valid record of its type.
    pub undecoded: Option<ParseError>,
}

impl Visitor for SegmentFacts {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.first.get_or_insert(record.start_lsn);
        self.last = Some(record.start_lsn);
        match record.header.rmgr_id {
            RM_XLOG => self.xlog_record(&{ *record }),
            RM_SMGR => self.storage_record(&{ *record }),
            _ => {
                for (block_id, block) in record.block_heads() {
                    if self.recent.is_new(block.rel, block.fork_code(), block.block) {
                        self.touched(&{ *record }, block_id, &block);
                    }
                }
            }
        }
        if self.after_redo.is_some() {
            self.watch_page_writes(&{ *record });
        }
    }
}

impl SegmentFacts {
    #[inline(never)]
    fn touched(&mut self, record: &Record<'_>, block_id: u8, block: &BlockHead) {
        let kind = record.kind();
        let key = (block.rel, block.fork_code(), block.block);
        if never_images(kind, block_id) {
            // Not a change: the next one must not count as one that was seen.
            return self.recent.forget(key.0, key.1, key.2);
        }
        if self.seen.insert(key.0, key.1, key.2) {
            let has_own = block.has_image_to_apply(record.major) || block.will_init() || always_images(kind, block_id);
            let event = if has_own { EventKind::Imaged } else { EventKind::Changed };
            self.events.push(Event { lsn: record.start_lsn, block: key, kind: event });
        }
    }

    #[inline(never)]
    fn xlog_record(&mut self, record: &Record<'_>) {
        let lsn = record.start_lsn;
        if record.header.is_images() {
            let is_hint = record.kind().is_hint();
            for (block_id, block) in record.block_heads() {
                let key = (block.rel, block.fork_code(), block.block);
                let is_map = [Some(ForkNumber::Fsm), Some(ForkNumber::Vm)].contains(&block.fork());
                if is_hint && block.image.is_some() {
                    self.recent.forget(key.0, key.1, key.2);
                    self.seen.remove(key.0, key.1, key.2);
                    self.events.push(Event { lsn, block: key, kind: EventKind::Hint });
                } else if !is_hint {
                    self.touched(record, block_id, &block);
                    if is_map && record.layout.block_count == 1 {
                        let kind = EventKind::MapImage { xid: record.header.xid };
                        self.events.push(Event { lsn, block: key, kind });
                    }
                }
            }
            return;
        }
        let (redo_lsn, told_by, is_on) = match XlogPayload::of(record) {
            Ok(Some(XlogPayload::CheckpointShutdown(point))) => {
                (point.redo_lsn, ToldBy::Shutdown, point.full_page_writes != 0)
            }
            Ok(Some(XlogPayload::CheckpointOnline(point))) => {
                (point.redo_lsn, ToldBy::Online, point.full_page_writes != 0)
            }
            Ok(Some(XlogPayload::FullPageWritesChange(on))) => {
                self.page_writes.push(PageWritesPoint { lsn, told_by: ToldBy::Change, is_on: on != 0 });
                // What is seen next does not hold for the redo point.
                self.after_redo = None;
                return;
            }
            Ok(Some(XlogPayload::CheckpointRedo { .. })) => {
                self.redo_points.push(lsn);
                self.after_redo = Some(WritesAfterRedo::new(lsn));
                return;
            }
            Ok(_) => return,
            Err(error) => {
                self.undecoded.get_or_insert(error);
                return;
            }
        };
        self.redo_points.push(redo_lsn);
        self.page_writes.push(PageWritesPoint { lsn: redo_lsn, told_by, is_on });
        if redo_lsn == lsn {
            self.after_redo = Some(WritesAfterRedo::new(lsn));
        }
    }

    #[inline(never)]
    fn storage_record(&mut self, record: &Record<'_>) {
        if let Ok(Some(LifeCycle::Truncated { rel, keeps_blocks, .. })) = LifeCycle::of(record)
            && keeps_blocks > 0
        {
            let kind = EventKind::Truncated { xid: record.header.xid };
            self.events.push(Event { lsn: record.start_lsn, block: (rel, 0, 0), kind });
        }
    }

    #[inline(never)]
    fn watch_page_writes(&mut self, record: &Record<'_>) {
        let Some(after_redo) = &mut self.after_redo else { return };
        if let ControlFlow::Break(known) = after_redo.push(record) {
            self.page_writes.extend(known);
            self.after_redo = None;
        }
    }
}

/// Most bytes of WAL between two images for the same hint bits, written by two backends at once.
const MAX_RACE_BYTES: u64 = 16 << 20;

/// Puts together what segments tell, in order.
#[derive(Debug, Default)]
pub struct FactsFold {
    runs: Vec<RunStart>,
    is_inside_run: bool,
    last: Option<Lsn>,
    redo_points: Vec<Lsn>,
    page_writes: Vec<PageWritesPoint>,
    /// The last hint image of each page that was not changed since.
    hints: BlockMap<Lsn>,
    /// The one before that, where it is near: of few pages.
    hints_before: BlockMap<Lsn>,
    /// The last images of map pages of a relation, by transaction.
    map_images: FxHashMap<(RelFileLocator, u32), [Option<Lsn>; 2]>,
    /// Hint images of a page that another one follows, with that one: the same change holds for both, unless a redo point
    /// lies between.
    pairs: Vec<(Lsn, Lsn)>,
    hints_then_changed: RoaringTreemap,
    map_truncations: RoaringTreemap,
    undecoded: Vec<ParseError>,
}

impl FactsFold {
    /// Takes the next segment of a run.
    pub fn push(&mut self, segment: &SegmentFacts) {
        if let Some(first) = segment.first.filter(|_| !self.is_inside_run) {
            self.runs.push(RunStart { first, last_before: self.last });
            self.is_inside_run = true;
        }
        self.last = segment.last.or(self.last);
        self.undecoded.extend(segment.undecoded.clone());
        self.redo_points.extend_from_slice(&segment.redo_points);
        self.page_writes.extend_from_slice(&segment.page_writes);
        for event in &segment.events {
            self.event(event);
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { lsn, block: (rel, fork_code, block), kind } = *event;
        match kind {
            EventKind::Hint => {
                let fork = self.hints.fork(rel, fork_code);
                let before = self.hints.insert(fork, block, lsn);
                match before.filter(|before| lsn.bytes_since(*before).is_some_and(|bytes| bytes <= MAX_RACE_BYTES)) {
                    Some(before) => self.hints_before.insert(fork, block, before),
                    None => self.hints_before.remove(fork, block),
                };
            }
            EventKind::Changed | EventKind::Imaged => {
                let Some(fork) = self.hints.known_fork(rel, fork_code) else { return };
                let (Some(hint), before) = (self.hints.remove(fork, block), self.hints_before.remove(fork, block))
                else {
                    return;
                };
                if kind == EventKind::Changed {
                    self.hints_then_changed.insert(key_of(hint));
                    self.pairs.extend(before.map(|before| (before, hint)));
                }
            }
            EventKind::MapImage { xid } => {
                let images = self.map_images.entry((rel, xid)).or_default();
                *images = [images[1], Some(lsn)];
            }
            EventKind::Truncated { xid } => {
                let images = self.map_images.remove(&(rel, xid)).unwrap_or_default();
                self.map_truncations.extend(images.into_iter().flatten().map(key_of));
            }
        }
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self) {
        self.is_inside_run = false;
        self.hints.clear();
        self.hints_before.clear();
        self.map_images.clear();
    }

    /// Takes a redo point.
    pub fn add_redo_point(&mut self, redo_lsn: Lsn) {
        self.redo_points.push(redo_lsn);
    }

    /// All that is known. `in_control`: redo point of the checkpoint that `pg_control` names, and whether full-page writes
    /// were on.
    pub fn finish(mut self, in_control: Option<(Lsn, bool)>) -> CauseFacts {
        if let Some((lsn, is_on)) = in_control {
            self.redo_points.push(lsn);
            // What a record says of it comes first, and says whether it was one of a shutdown.
            if !self.page_writes.iter().any(|point| point.lsn == lsn) {
                self.page_writes.push(PageWritesPoint { lsn, told_by: ToldBy::Online, is_on });
            }
        }
        self.redo_points.sort_unstable();
        self.redo_points.dedup();
        for (first, second) in &self.pairs {
            let at = self.redo_points.partition_point(|redo| redo <= first);
            if self.redo_points.get(at).is_none_or(|redo| redo > second) {
                self.hints_then_changed.insert(key_of(*first));
            }
        }
        CauseFacts {
            redo_points: self.redo_points.into(),
            page_writes: PageWrites::new(self.page_writes),
            runs: self.runs,
            undecoded: self.undecoded,
            hints_then_changed: self.hints_then_changed,
            map_truncations: self.map_truncations,
        }
    }
}

/// Source of the setting `full_page_writes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToldBy {
    /// A shutdown checkpoint: a server that starts after it may have another setting.
    Shutdown,
    /// An online checkpoint.
    Online,
    /// A record of a change of the setting.
    Change,
    /// The first changes after a redo point.
    Shown,
}

/// The setting at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageWritesPoint {
    /// The address: a redo point, or that of the change.
    pub lsn: Lsn,
    /// Its source.
    pub told_by: ToldBy,
    /// Full-page writes are on.
    pub is_on: bool,
}

/// The setting `full_page_writes` over some WAL.
#[derive(Clone, Debug, Default)]
pub struct PageWrites {
    points: Vec<PageWritesPoint>,
}

impl PageWrites {
    /// Puts together what is known, in any order.
    pub fn new(mut points: Vec<PageWritesPoint>) -> Self {
        points.sort_unstable();
        points.dedup();
        // What is in force instead of images needs a start to be turned on or off: it holds from shutdown to shutdown.
        for life in points.chunk_by_mut(|_, next| next.told_by != ToldBy::Shutdown) {
            let shows = |is_on: bool| life.iter().any(|point| point.told_by == ToldBy::Shown && point.is_on == is_on);
            if shows(false) && !shows(true) {
                life.iter_mut().for_each(|point| point.is_on = false);
            }
        }
        Self { points }
    }

    /// Whether images were written at this address; `None` where that is not known.
    pub fn at(&self, lsn: Lsn) -> Option<bool> {
        let next = self.points.partition_point(|point| point.lsn <= lsn);
        let before = next.checked_sub(1).and_then(|index| self.points.get(index));
        let (before, next) = match (before, self.points.get(next)) {
            (Some(before), Some(next)) => (before, next),
            (Some(before), None) => return Some(before.is_on),
            (None, next) => return next.map(|next| next.is_on != (next.told_by == ToldBy::Change)),
        };
        if next.told_by == ToldBy::Change || next.is_on == before.is_on {
            return Some(before.is_on);
        }
        // It changed at a start, which is either at the one or at the other.
        match (before.told_by, next.told_by) {
            (ToldBy::Shutdown, told) if told != ToldBy::Shutdown => Some(next.is_on),
            (told, ToldBy::Shutdown) if told != ToldBy::Shutdown => Some(before.is_on),
            _ => None,
        }
    }
}

/// Changes of blocks without an image that show that none are written: a single one might hit a page from the future.
const MIN_WITHOUT_IMAGE: u8 = 3;

/// Blocks after which a redo point is given up.
const MAX_TOUCHED: usize = 1024;

/// Finds out from the first changes after a redo point whether images are written.
#[derive(Debug)]
pub(crate) struct WritesAfterRedo {
    redo_lsn: Lsn,
    touched: FxHashSet<(RelFileLocator, u8, BlockNumber)>,
    without_image: u8,
}

impl WritesAfterRedo {
    pub fn new(redo_lsn: Lsn) -> Self {
        Self { redo_lsn, touched: FxHashSet::default(), without_image: 0 }
    }

    /// Takes the next record; breaks with what is known as soon as no further record is needed.
    pub fn push(&mut self, record: &Record<'_>) -> std::ops::ControlFlow<Option<PageWritesPoint>> {
        use std::ops::ControlFlow::{Break, Continue};
        let point = |is_on| PageWritesPoint { lsn: self.redo_lsn, told_by: ToldBy::Shown, is_on };
        for (block_id, block) in record.block_heads() {
            let is_new = self.touched.insert((block.rel, block.fork_code(), block.block));
            if !is_new || block_id != 0 || block.will_init() || !is_plain_change(record) {
                continue;
            }
            if block.has_image_to_apply(record.major) {
                // A backup forces images, whatever is in force without it.
                return Break((record.during_backup() == Some(false)).then(|| point(true)));
            }
            self.without_image = self.without_image.saturating_add(1);
            if self.without_image == MIN_WITHOUT_IMAGE {
                return Break(Some(point(false)));
            }
        }
        if self.touched.len() > MAX_TOUCHED { Break(None) } else { Continue(()) }
    }
}

/// True for a record whose first block has an image whenever the page was not changed since the redo point: an inserted,
/// deleted or updated row, an entry of a btree leaf.
fn is_plain_change(record: &Record<'_>) -> bool {
    matches!(
        record.kind(),
        RecordKind::HeapInsert
            | RecordKind::HeapDelete
            | RecordKind::HeapUpdate
            | RecordKind::HeapHotUpdate
            | RecordKind::BtreeInsertLeaf
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(points: &[(u64, ToldBy, bool)]) -> PageWrites {
        let point = |&(lsn, told_by, is_on): &_| PageWritesPoint { lsn: Lsn(lsn), told_by, is_on };
        PageWrites::new(points.iter().map(point).collect())
    }

    fn at(writes: &PageWrites, lsns: &[u64]) -> Vec<Option<bool>> {
        lsns.iter().map(|lsn| writes.at(Lsn(*lsn))).collect()
    }

    #[test]
    fn state_changes_where_a_record_says_so() {
        use ToldBy::{Change, Online};
        let logged = writes(&[(10, Online, true), (20, Change, false), (30, Online, false), (40, Change, true)]);
        let (on, off) = (Some(true), Some(false));
        assert_eq!(at(&logged, &[5, 10, 19, 20, 35, 40, 99]), [on, on, on, off, off, on, on]);
        assert_eq!(at(&writes(&[(20, Change, false)]), &[10, 20]), [on, off]);
        assert_eq!(at(&writes(&[]), &[10]), [None]);
    }

    #[test]
    fn change_that_was_not_logged_happened_at_a_start() {
        use ToldBy::{Online, Shutdown};
        let (on, off) = (Some(true), Some(false));
        // A clean stop, and another setting after it.
        assert_eq!(at(&writes(&[(10, Shutdown, true), (20, Online, false)]), &[9, 15, 20]), [on, off, off]);
        // A crash, and another setting after recovery.
        assert_eq!(at(&writes(&[(10, Online, true), (20, Shutdown, false)]), &[15, 20]), [on, off]);
        // Without a stop: nobody knows where.
        assert_eq!(at(&writes(&[(10, Online, true), (20, Online, false)]), &[15, 20]), [None, off]);
    }

    #[test]
    fn what_the_first_changes_show_holds_until_the_next_stop() {
        use ToldBy::{Online, Shown, Shutdown};
        let points =
            [(10, Online, true), (20, Online, true), (20, Shown, false), (30, Online, true), (40, Shutdown, true)];
        assert_eq!(at(&writes(&points), &[10, 25, 35, 40]), [Some(false), Some(false), Some(false), Some(true)]);
    }
}
