//! What one segment counts.

use std::ops::Range;
use std::sync::Arc;

use super::bill::WalRest;
use super::block_set::{BlockSet, RecentBlocks};
use super::clock::{Clock, Told};
use super::curve::{RecordCurve, TimeCurve};
use super::group::Groups;
use super::group_key::{GroupBy, Grouping};
use super::hidden_redo::{ImageHints, RedoInForce, heads_with_offsets};
use super::relation_filter::RelationFilter;
use super::relation_use::RelationUses;
use super::segment::{SegmentRead, Visitor};
use super::stretch::Stretch;
use super::tally::Tally;
use crate::cluster::wal::WalSet;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::{BlockHead, Keep};
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::payload::{PgTimestamp, XlogPayload};
use crate::parsers::wal::record::Record;
use crate::types::{Geometry, Lsn, TimelineId};

/// What is counted, and over which records.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// Records that start before this are not counted.
    pub start_lsn: Lsn,
    /// Records that end after this are not counted, nor any that follows.
    pub end_lsn: Lsn,
    /// Grouping, if any.
    pub group: Option<Grouping>,
    /// Redo points that groups are made by, ascending; empty where none are.
    pub redo_points: Arc<[RedoInForce]>,
    /// Whether distinct blocks are counted.
    pub blocks: bool,
    /// Relations that are counted alone; `None`: all that records say.
    pub relations: Option<RelationFilter>,
}

impl ScanPlan {
    /// Everything, counted in no groups.
    pub fn totals() -> Self {
        Self {
            start_lsn: Lsn::INVALID,
            end_lsn: Lsn(u64::MAX),
            group: None,
            redo_points: Arc::default(),
            blocks: false,
            relations: None,
        }
    }

    /// True when what was done with each relation is counted: where rows stand for relations, or for their kinds.
    pub(crate) fn counts_uses(&self) -> bool {
        let with_records = Grouping::pair(GroupBy::Relation, GroupBy::Record);
        self.group.is_some_and(|by| by.is_of_relations() || by.has(GroupBy::Kind) || by == with_records)
    }

    /// The records of `run` that lie in the range.
    pub fn stretch<'a>(&self, set: &'a WalSet, run: &Range<usize>, keep: Keep) -> Stretch<'a> {
        Stretch { set, run: run.clone(), start_lsn: self.start_lsn, end_lsn: self.end_lsn, keep }
    }
}

/// Kind of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// At shutdown or at the end of recovery.
    Shutdown,
    /// While the server was running.
    Online,
}

/// A checkpoint record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSeen {
    /// Its start.
    pub lsn: Lsn,
    /// Its end.
    pub end_lsn: Lsn,
    /// Where replay from it starts.
    pub redo_lsn: Lsn,
    /// Kind.
    pub kind: CheckpointKind,
    /// When it was made, Unix seconds; `None` where no server can have made it then.
    pub time_s: Option<i64>,
    /// Its timeline.
    pub tli: TimelineId,
    /// The setting `full_page_writes` then.
    pub full_page_writes: bool,
}

/// Records from one cut to the next.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Where it starts: a redo point, or the start of the segment.
    pub start_lsn: Lsn,
    /// Counts; nothing where records are grouped, which counts them there.
    pub tally: Tally,
    /// The same along the records.
    pub by_records: RecordCurve,
    /// The same along time, as far as records of this segment tell it.
    pub by_time: TimeCurve,
    /// The latest time that was told in this segment up to the end of the slice.
    pub latest: Option<PgTimestamp>,
    /// Distinct blocks, if they are counted.
    pub blocks: BlockSet,
    /// The same of all relations, where some are counted alone.
    pub all_blocks: Option<BlockSet>,
    /// What images tell of redo points that no record names, if that is wanted.
    pub images: ImageHints,
    /// What `by_records` has of `tally`.
    in_records: Tally,
    /// What `by_time` has of `tally`.
    in_time: Tally,
}

impl Slice {
    fn new(start_lsn: Lsn, latest: Option<PgTimestamp>, keeps_all_blocks: bool) -> Self {
        let all_blocks = keeps_all_blocks.then(BlockSet::default);
        Self { start_lsn, latest, all_blocks, ..Self::default() }
    }

    /// Takes a block that was not met of late; true when it is new in this slice.
    #[inline(always)]
    fn add_block(&mut self, block: &BlockHead, relations: Option<&RelationFilter>) -> bool {
        let (rel, fork_code, number) = (block.rel, block.fork_code(), block.block);
        let is_new = self.all_blocks.as_mut().map(|all| all.insert(rel, fork_code, number));
        match relations.is_none_or(|filter| filter.takes(rel)) {
            true => is_new.unwrap_or(true) & self.blocks.insert(rel, fork_code, number),
            false => is_new.unwrap_or(true),
        }
    }

    /// Takes the blocks of a record with images.
    #[inline(never)]
    fn add_images(&mut self, record: &Record<'_>, recent: &mut RecentBlocks, relations: Option<&RelationFilter>) {
        for (block_id, block, offset) in heads_with_offsets(record) {
            let is_new = recent.is_new(block.rel, block.fork_code(), block.block) && self.add_block(&block, relations);
            self.images.add(record, (block_id, &block), offset, !is_new);
        }
    }

    #[inline(always)]
    fn add(&mut self, record: &Record<'_>, relations: Option<&RelationFilter>) {
        self.tally.add_part(record, relations);
        if self.tally.records.saturating_sub(self.in_records.records) >= self.by_records.per_point() {
            self.mark_records();
        }
    }

    fn mark_records(&mut self) {
        self.by_records.add(&self.tally.since(&self.in_records));
        self.in_records = self.tally;
    }

    /// What was counted since the last time was told belongs to that time.
    fn mark_time(&mut self) {
        self.by_time.add(self.latest, &self.tally.since(&self.in_time));
        self.in_time = self.tally;
    }

    /// Puts what was counted last into the curves.
    pub(crate) fn finish(&mut self) {
        self.mark_records();
        self.mark_time();
    }
}

/// What one segment counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// Cut at redo points that the records themselves mark, and at the cuts that were asked for.
    pub slices: Vec<Slice>,
    /// Groups, if records are grouped.
    pub groups: Option<Groups>,
    /// The time, where records are not grouped.
    pub clock: Clock,
    /// What was done with each relation, if that is counted.
    pub uses: Option<RelationUses>,
    /// Bytes between the records, without page headers.
    pub rest: WalRest,
    /// Checkpoint records, in order.
    pub checkpoints: Vec<CheckpointSeen>,
    /// The first record with a right checksum whose payload is not that of its type, so that a checkpoint may be missing.
    pub undecoded: Option<ParseError>,
    keeps_all_blocks: bool,
}

pub(crate) type SegmentCounts<'a> = SegmentRead<Counter<'a>>;

#[derive(Debug)]
pub(crate) struct Counter<'a> {
    blocks: bool,
    /// A redo point may lie where no record says so.
    hides_redo: bool,
    cuts: &'a [Lsn],
    geometry: Geometry,
    relations: Option<RelationFilter>,
    recent: RecentBlocks,
    pub counts: Counts,
}

impl<'a> Counter<'a> {
    /// Counts what starts in segment `index`, cut at `cuts` (ascending).
    pub fn new(set: &WalSet, index: usize, plan: &ScanPlan, cuts: &'a [Lsn]) -> Self {
        let segment_size = set.geometry().wal_segment_size;
        let start_lsn = set.segments()[index].start_lsn.max(plan.start_lsn);
        let hides_redo = plan.blocks && set.major().is_none_or(|major| !major.facts().marks_redo_points);
        let keeps_all_blocks = hides_redo && plan.relations.is_some();
        let counts = Counts {
            slices: vec![Slice::new(start_lsn, None, keeps_all_blocks)],
            keeps_all_blocks,
            uses: plan.counts_uses().then(RelationUses::default),
            groups: plan
                .group
                .map(|by| Groups::new(by, segment_size, Arc::clone(&plan.redo_points)).of(plan.relations.clone())),
            ..Counts::default()
        };
        let relations = plan.relations.clone();
        let geometry = set.geometry();
        Self { blocks: plan.blocks, hides_redo, cuts, geometry, relations, recent: RecentBlocks::default(), counts }
    }
}

impl Visitor for Counter<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        let counts = &mut self.counts;
        while let Some((cut, rest)) = self.cuts.split_first().filter(|(cut, _)| **cut <= record.start_lsn) {
            counts.cut(*cut);
            self.recent.clear();
            self.cuts = rest;
        }
        let is_xlog = record.header.rmgr_id == RM_XLOG;
        let is_switch = is_xlog && record.header.is_switch();
        counts.rest.add(record, is_switch, self.geometry, counts.clock.now());
        if is_xlog {
            let slices = counts.slices.len();
            // A copy, so that other records need not be in memory as a whole.
            counts.xlog_record(&{ *record });
            if counts.slices.len() > slices {
                self.recent.clear();
            }
        }
        if let Some(groups) = &mut counts.groups {
            if let Some(uses) = &mut counts.uses {
                uses.add(&{ *record }, &mut self.recent);
            }
            return groups.add(record);
        }
        if let Some(told) = Told::by(record) {
            counts.tell(record.start_lsn, told);
        }
        let Some(slice) = counts.slices.last_mut() else { return };
        let relations = self.relations.as_ref();
        slice.add(record, relations);
        if self.blocks && record.layout.block_count > 0 {
            if self.hides_redo && record.layout.image_count > 0 {
                return slice.add_images(&{ *record }, &mut self.recent, relations);
            }
            for (_, block) in record.block_heads() {
                if self.recent.is_new(block.rel, block.fork_code(), block.block) {
                    slice.add_block(&block, relations);
                }
            }
        }
    }
}

impl Counts {
    fn cut(&mut self, at: Lsn) {
        match self.slices.last_mut() {
            Some(last) if last.start_lsn == at => {}
            _ => {
                let latest = self.clock.now();
                self.slices.last_mut().into_iter().for_each(Slice::finish);
                self.slices.push(Slice::new(at, latest, self.keeps_all_blocks));
            }
        }
    }

    /// A record of this slice tells the time.
    fn tell(&mut self, lsn: Lsn, told: Told) {
        let before = self.clock.now();
        self.clock.tell(lsn, told);
        if let Some(slice) = self.slices.last_mut().filter(|_| self.clock.now() != before) {
            slice.mark_time();
            slice.latest = self.clock.now();
        }
    }

    /// Notes checkpoints, and cuts at the redo points that records mark where they stand.
    fn xlog_record(&mut self, record: &Record<'_>) {
        let payload = match XlogPayload::of(record) {
            Ok(Some(payload)) => payload,
            Ok(None) => return,
            Err(error) => {
                self.undecoded.get_or_insert(error);
                return;
            }
        };
        let (kind, checkpoint) = match payload {
            XlogPayload::CheckpointShutdown(checkpoint) => (CheckpointKind::Shutdown, checkpoint),
            XlogPayload::CheckpointOnline(checkpoint) => (CheckpointKind::Online, checkpoint),
            XlogPayload::CheckpointRedo { .. } => return self.cut(record.start_lsn),
            _ => return,
        };
        if checkpoint.redo_lsn == record.start_lsn {
            self.cut(record.start_lsn);
        }
        self.checkpoints.push(CheckpointSeen {
            lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            redo_lsn: checkpoint.redo_lsn,
            kind,
            time_s: Told::since(checkpoint.time_s).time().map(PgTimestamp::unix_seconds),
            tli: checkpoint.tli,
            full_page_writes: checkpoint.full_page_writes != 0,
        });
    }

    /// All that was counted.
    pub fn total(&self) -> Tally {
        let mut total = self.groups.as_ref().map(Groups::total).unwrap_or_default();
        self.slices.iter().for_each(|slice| total.add(&slice.tally));
        total
    }
}
