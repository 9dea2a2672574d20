//! Facts about all WAL that the cause of an image rests on: redo points, the state of full-page writes, and later changes
//! of the pages.
//!
//! A page whose image was written for hint bits may be changed later. If that change has no image, no redo point is between
//! them: the image only came earlier. If it has one, or builds the page from scratch, the first image was for the hint bits
//! alone. So redo points need not be known here, and a segment is read without the bytes of its images.

use std::ops::ControlFlow;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use super::block_map::BlockMap;
use super::block_set::{BlockSet, RecentBlocks};
use super::cause::{always_images, never_images};
use super::page_writes::{PageWrites, PageWritesPoint, ToldBy, WritesAfterRedo};
use super::segment::Visitor;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::{RM_SMGR, RM_XLOG};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
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
