//! Checkpoint intervals: from redo point to redo point.
//!
//! Up to 16 nothing marks a redo point where it stands: it is known only from the checkpoint record that comes later.
//! The open interval is therefore kept in chunks; when a redo point turns out to lie inside one, that chunk's segments
//! are read again with a cut there. One that no record names is looked for when the interval ends.

use std::ops::Range;

use strum::IntoStaticStr;

use super::block_set::BlockSet;
use super::clock::{Clock, is_wrong_step};
use super::curve::{RecordCurve, TimeCurve, add_to_part, shares_of};
use super::hidden_redo::{HiddenRedo, HiddenRedos, ImageHints, NewerImage, RedoInForce};
use super::partial::{CheckpointKind, CheckpointSeen, Counts, Slice};
use super::since_redo::SinceRedo;
use super::tally::Tally;
use crate::cluster::wal::WalReadError;
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::Lsn;

/// Memory that the block sets of open chunks may take before the oldest are merged.
const OPEN_BLOCKS_BYTES: u64 = 16 << 20;

/// Chunks that may be open before the oldest are merged.
const OPEN_CHUNKS: usize = 4096;

/// Parts in which the decay inside an interval is shown.
pub(crate) const DECAY_BUCKETS: usize = 8;

/// What began an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum IntervalKind {
    /// A checkpoint at shutdown or at the end of recovery.
    Shutdown,
    /// A checkpoint while the server was running.
    Online,
    /// A redo point without a checkpoint record: the checkpoint did not finish, or its record lies after the range.
    Unfinished,
    /// A redo point that no record names: images show between which addresses it lies.
    Hidden,
    /// The range or a run of segments begins here; the redo point lies before it and is not known.
    Unknown,
}

impl IntervalKind {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Redo point; `None` when it is not known.
    pub redo_lsn: Option<Lsn>,
    /// Where counting starts: the redo point, or the start of the range.
    pub start_lsn: Lsn,
    /// Where it ends: the next redo point, or the end of the range. Before one that is hidden: the latest that can be.
    pub end_lsn: Lsn,
    /// Between which addresses its redo point lies, where no record names it; counting starts at the later one.
    pub hidden: Option<HiddenRedo>,
    /// It ends at the next redo point, whose place is known: no WAL of it is missing at its end.
    pub ends_at_redo: bool,
    /// The checkpoint whose redo point this is.
    pub checkpoint: Option<CheckpointSeen>,
    /// What began it.
    pub kind: IntervalKind,
    /// Counts.
    pub tally: Tally,
    /// Distinct blocks that records of the interval refer to.
    pub distinct_blocks: u64,
    /// The time of the redo point, or of the first record that tells one; `None` when none does.
    pub start_time: Option<PgTimestamp>,
    /// The time of the next redo point, or of the last record that tells one.
    pub end_time: Option<PgTimestamp>,
    /// Counts of equal parts of the interval.
    pub parts: Vec<Tally>,
    /// What the parts are equal by.
    pub decay_by: DecayBy,
}

/// What the parts of an interval are equal by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DecayBy {
    /// Each lasts as long as the others.
    Time,
    /// Each has as many records as the others: times are not known, or too coarse.
    #[default]
    Records,
}

impl DecayBy {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Interval {
    /// True when it begins before the WAL that was counted: its figures are those of a part of it.
    pub(crate) fn begins_before(&self) -> bool {
        self.redo_lsn != Some(self.start_lsn)
    }

    /// True when it was counted from its redo point to the next one.
    pub fn is_whole(&self) -> bool {
        self.ends_at_redo && !self.begins_before()
    }

    /// Bytes of WAL from its start to its end, page headers and padding included.
    pub fn wal_bytes(&self) -> u64 {
        self.end_lsn.bytes_since(self.start_lsn).unwrap_or(0)
    }

    /// Share of images in each of the equal parts; `None` for one without records.
    pub fn decay(&self) -> Vec<Option<f64>> {
        shares_of(&self.parts)
    }

    /// How long it lasts, in seconds; `None` where times are not known.
    pub fn duration_s(&self) -> Option<f64> {
        let (start, end) = self.start_time.zip(self.end_time)?;
        Some(end.us_since(start).max(0) as f64 / 1e6)
    }

    /// Its times are those of a clock that was wrong. `by_records`: its parts by records.
    fn forget_times(&mut self, by_records: Vec<Tally>) {
        (self.start_time, self.end_time) = (None, None);
        (self.parts, self.decay_by) = (by_records, DecayBy::Records);
    }

    fn lasts_for_years(&self) -> bool {
        let times = self.start_time.zip(self.end_time);
        times.is_some_and(|(start, end)| is_wrong_step(end.us_since(start)))
    }

    /// So much per second; `None` where that is not known.
    pub(crate) fn per_second(&self, amount: u64) -> Option<f64> {
        self.duration_s().filter(|duration| *duration > 0.0).map(|duration| amount as f64 / duration)
    }
}

/// An interval shorter than this is not divided by time: that of a checkpoint is told in whole seconds.
const MIN_DIVIDED_US: i64 = 1_000_000;

/// What the last interval that was closed still needs: the time at which the next one began.
#[derive(Debug)]
struct Unsettled {
    by_time: TimeCurve,
    by_records: RecordCurve,
    leaving: Option<PgTimestamp>,
}

pub(crate) trait Reread {
    /// With cuts; returns their slices in order.
    fn slices(&mut self, segments: Range<usize>, cuts: &[Lsn]) -> Result<Vec<Slice>, WalReadError>;

    /// For images that their records never force, which start in `range`, of pages that had an LSN after `known`; returns
    /// them in order.
    fn newer_images(
        &mut self,
        segments: Range<usize>,
        range: Range<Lsn>,
        known: Lsn,
    ) -> Result<Vec<NewerImage>, WalReadError>;
}

#[derive(Clone, Copy, Debug)]
enum Beginning {
    Redo(Lsn),
    Hidden(HiddenRedo),
    /// WAL that does not follow on what was read before.
    Run,
}

#[derive(Debug, Default)]
pub(crate) struct IntervalFold {
    redo_lsn: Option<Lsn>,
    hidden: Option<HiddenRedo>,
    checkpoint: Option<CheckpointSeen>,
    run_first: Option<Lsn>,
    chunks: Vec<Chunk>,
    done: Vec<Interval>,
    done_by_records: Vec<Vec<Tally>>,
    unsettled: Option<Unsettled>,
    clock: Clock,
    times: TimeCurve,
    since_redo: SinceRedo,
}

/// All intervals of some WAL, and what was counted beside them.
#[derive(Debug)]
pub(crate) struct Folded {
    pub intervals: Vec<Interval>,
    pub clock: Clock,
    pub times: TimeCurve,
    /// Images by how long after the redo point they were written.
    pub since_redo: SinceRedo,
}

impl IntervalFold {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next segment of a run, with its first record. `end_lsn`: where its WAL ends.
    ///
    /// # Errors
    /// When a segment that must be read again cannot be.
    pub fn push(
        &mut self,
        (index, first_lsn): (usize, Option<Lsn>),
        counts: &mut Counts,
        end_lsn: Lsn,
        again: &mut dyn Reread,
    ) -> Result<(), WalReadError> {
        let slices = std::mem::take(&mut counts.slices);
        let ends: Vec<Lsn> = slices.iter().skip(1).map(|slice| slice.start_lsn).chain([end_lsn]).collect();
        let mut checkpoints = counts.checkpoints.iter().peekable();
        let (mut now, mut result) = (self.clock.now(), Ok(()));
        self.clock.append(&counts.clock);
        self.run_first = self.run_first.or(first_lsn);
        for (at, (slice, slice_end)) in slices.into_iter().zip(ends).enumerate() {
            if at > 0 {
                let closed = self.close(slice.start_lsn, Beginning::Redo(slice.start_lsn), again);
                result = result.and(closed);
            }
            let segments = index..index.saturating_add(1);
            let mut chunk = Chunk::new(segments, slice.start_lsn, slice_end, now);
            chunk.add(slice);
            self.times.append(&chunk.by_time, now);
            now = chunk.leaving;
            self.chunks.push(chunk);
            while let Some(checkpoint) =
                checkpoints.next_if(|checkpoint| checkpoint.lsn < slice_end || slice_end == end_lsn)
            {
                // Later records are counted anyway.
                result = result.and(self.checkpoint(checkpoint, again));
            }
        }
        self.merge_old_chunks();
        result
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, again: &mut dyn Reread) -> Result<(), WalReadError> {
        let Some(end_lsn) = self.chunks.last().map(|last| last.end_lsn) else { return Ok(()) };
        let closed = self.close(end_lsn, Beginning::Run, again);
        self.run_first = None;
        closed
    }

    pub fn finish(mut self) -> Folded {
        if let Some(end_lsn) = self.chunks.last().map(|last| last.end_lsn) {
            self.end_interval(end_lsn, Beginning::Run);
        }
        self.settle(None);
        let Self { mut done, done_by_records, clock, mut times, mut since_redo, .. } = self;
        if clock.contradicts_itself() {
            // Which of the times are right is unknown.
            times.forget_times();
            since_redo = SinceRedo::default();
            done.iter().for_each(|interval| since_redo.leave_out(&interval.tally));
            for (interval, parts) in done.iter_mut().zip(done_by_records) {
                interval.forget_times(parts);
            }
        }
        Folded { intervals: done, clock, times, since_redo }
    }

    /// Takes out the intervals of which all is known. Where the clock contradicts itself, or is about to, they have no times: one
    /// that lasts for years ends with a time that was told wrongly, and which the next right one contradicts.
    pub(crate) fn take_settled(&mut self) -> Vec<Interval> {
        let settled = self.done.len().saturating_sub(usize::from(self.unsettled.is_some()));
        let is_wrong = self.clock.contradicts_itself();
        let by_records = self.done_by_records.drain(..settled);
        let mut taken = Vec::new();
        for (mut interval, parts) in self.done.drain(..settled).zip(by_records) {
            if is_wrong || interval.lasts_for_years() {
                interval.forget_times(parts);
            }
            taken.push(interval);
        }
        taken
    }

    /// What is odd about the times so far.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When the open interval began: the time of its redo point.
    fn start_time(&self) -> Option<PgTimestamp> {
        let entering = self.chunks.first().and_then(|chunk| chunk.entering);
        // A checkpoint tells its beginning in whole seconds; no record need have told a later time.
        let begun = self.checkpoint.and_then(|seen| seen.time_s).map(PgTimestamp::from_unix_seconds);
        entering.max(begun.filter(|_| self.redo_lsn.is_some()))
    }

    /// Completes the last interval that was closed. `next`: when the interval after it began, if that is known.
    fn settle(&mut self, next: Option<PgTimestamp>) {
        let (Some(open), Some(interval)) = (self.unsettled.take(), self.done.last_mut()) else { return };
        let Unsettled { by_time, by_records, leaving } = open;
        let parts_by_records = by_records.parts(DECAY_BUCKETS);
        if let Some(kept) = self.done_by_records.last_mut() {
            kept.clone_from(&parts_by_records);
        }
        interval.start_time = interval.start_time.or_else(|| by_time.steps().next().map(|(time, _)| time));
        interval.end_time = next.or(leaving).max(interval.start_time);
        let whole = interval.start_time.zip(interval.end_time).filter(|_| by_time.unknown().records == 0);
        match whole.filter(|(start, end)| end.us_since(*start) >= MIN_DIVIDED_US) {
            Some((start, end)) => {
                let mut sums = vec![Tally::default(); DECAY_BUCKETS];
                let lasts = end.us_since(start).unsigned_abs();
                for (time, tally) in by_time.steps() {
                    add_to_part(&mut sums, time.us_since(start).max(0).unsigned_abs(), lasts, tally);
                }
                (interval.parts, interval.decay_by) = (sums, DecayBy::Time);
            }
            None => (interval.parts, interval.decay_by) = (parts_by_records, DecayBy::Records),
        }
        match whole.filter(|_| interval.redo_lsn.is_some()) {
            Some((redo, end)) => self.since_redo.add(&by_time, redo, end),
            None => self.since_redo.leave_out(&interval.tally),
        }
    }

    fn checkpoint(&mut self, seen: &CheckpointSeen, again: &mut dyn Reread) -> Result<(), WalReadError> {
        let start = self.chunks.first().map_or(seen.redo_lsn, |chunk| chunk.start_lsn);
        let inside = seen.redo_lsn > start && self.redo_lsn != Some(seen.redo_lsn);
        if inside {
            self.split(Beginning::Redo(seen.redo_lsn), again)?;
        } else if seen.redo_lsn <= start && self.redo_lsn.is_none() {
            self.redo_lsn = Some(seen.redo_lsn);
        }
        if self.redo_lsn == Some(seen.redo_lsn) {
            self.checkpoint = Some(*seen);
            self.settle_before();
        }
        Ok(())
    }

    /// Completes the interval before the open one, which begins where that ends.
    fn settle_before(&mut self) {
        let start_lsn = self.chunks.first().map(|chunk| chunk.start_lsn);
        let follows = start_lsn.is_some() && self.done.last().map(|interval| interval.end_lsn) == start_lsn;
        let next = self.start_time().filter(|_| follows);
        self.settle(next);
    }

    /// Ends the open interval where the next begins, somewhere inside it.
    fn split(&mut self, next: Beginning, again: &mut dyn Reread) -> Result<(), WalReadError> {
        let redo_lsn = match next {
            Beginning::Redo(redo_lsn) => redo_lsn,
            Beginning::Hidden(hidden) => hidden.before,
            Beginning::Run => return Ok(()),
        };
        let first_after = self.chunks.partition_point(|chunk| chunk.start_lsn < redo_lsn);
        let mut after: Vec<Chunk> = self.chunks.drain(first_after..).collect();
        let cut = self.chunks.pop_if(|chunk| chunk.end_lsn > redo_lsn);
        if let Some(chunk) = cut {
            let slices = match again.slices(chunk.segments.clone(), &[chunk.start_lsn, redo_lsn, chunk.end_lsn]) {
                Ok(slices) => slices,
                Err(error) => {
                    // Nothing is lost: the interval continues.
                    self.chunks.push(chunk);
                    self.chunks.append(&mut after);
                    return Err(error);
                }
            };
            let mut first = Chunk::new(chunk.segments.clone(), chunk.start_lsn, redo_lsn, chunk.entering);
            let mut second = Chunk::new(chunk.segments.clone(), redo_lsn, chunk.end_lsn, chunk.entering);
            let mut second_begun = false;
            for slice in slices {
                match slice.start_lsn {
                    lsn if lsn < chunk.start_lsn || lsn >= chunk.end_lsn => {}
                    lsn if lsn < redo_lsn => first.add(slice),
                    _ => {
                        if !std::mem::replace(&mut second_begun, true) {
                            second.entering = first.leaving;
                            second.leaving = first.leaving;
                        }
                        second.add(slice);
                    }
                }
            }
            self.chunks.push(first);
            after.insert(0, second);
        }
        let closed = match next {
            // The first one of this interval.
            Beginning::Hidden(_) => {
                self.end_interval(redo_lsn, next);
                Ok(())
            }
            _ => self.close(redo_lsn, next, again),
        };
        self.chunks = after;
        closed
    }

    /// Ends the open interval at `end_lsn` and opens the next, redo points inside it that no record names before.
    fn close(&mut self, end_lsn: Lsn, next: Beginning, again: &mut dyn Reread) -> Result<(), WalReadError> {
        let result = self.hidden_redos(again).and_then(|hidden| {
            hidden.points.into_iter().try_for_each(|point| self.split(Beginning::Hidden(point), again))
        });
        self.end_interval(end_lsn, next);
        result
    }

    /// Redo points inside the open interval that no record names.
    fn hidden_redos(&self, again: &mut dyn Reread) -> Result<HiddenRedos, WalReadError> {
        let mut found = HiddenRedos::default();
        let Some(begins) = self.redo_lsn.or(self.run_first) else { return Ok(found) };
        let starts = self.chunks.first().map_or(begins, |chunk| chunk.start_lsn);
        // Blocks that were met before the WAL that was read are not known.
        let is_seen_whole = begins >= starts;
        let needs_blocks = is_seen_whole && self.chunks.iter().any(|chunk| chunk.images.needs_blocks());
        let (mut touched, mut redo) = (BlockSet::default(), RedoInForce::known(begins));
        for chunk in &self.chunks {
            if chunk.images.may_show(begins, is_seen_whole.then_some(&touched)) {
                let range = chunk.start_lsn..chunk.end_lsn;
                for image in again.newer_images(chunk.segments.clone(), range, begins)? {
                    found.note(redo.judge(image.old, image.start_lsn), redo);
                }
            }
            if needs_blocks {
                touched.union_with(chunk.all_blocks());
            }
        }
        Ok(found)
    }

    /// Ends the open interval at `end_lsn` and opens the next.
    fn end_interval(&mut self, end_lsn: Lsn, next: Beginning) {
        self.settle_before();
        let start_time = self.start_time();
        let mut chunks = std::mem::take(&mut self.chunks).into_iter();
        let (next_redo, next_hidden) = match next {
            Beginning::Redo(redo_lsn) => (Some(redo_lsn), None),
            Beginning::Hidden(hidden) => (None, Some(hidden)),
            Beginning::Run => (None, None),
        };
        let redo_lsn = std::mem::replace(&mut self.redo_lsn, next_redo);
        let hidden = std::mem::replace(&mut self.hidden, next_hidden);
        let checkpoint = self.checkpoint.take();
        let Some(mut whole) = chunks.next() else { return };
        chunks.for_each(|chunk| whole.append(&chunk));
        if whole.tally.records == 0 && redo_lsn.is_none() {
            return;
        }
        let kind = match (checkpoint.map(|checkpoint| checkpoint.kind), redo_lsn) {
            (Some(CheckpointKind::Shutdown), _) => IntervalKind::Shutdown,
            (Some(CheckpointKind::Online), _) => IntervalKind::Online,
            (None, Some(_)) => IntervalKind::Unfinished,
            (None, None) if hidden.is_some() => IntervalKind::Hidden,
            (None, None) => IntervalKind::Unknown,
        };
        self.done.push(Interval {
            redo_lsn,
            start_lsn: whole.start_lsn,
            end_lsn,
            hidden,
            ends_at_redo: next_redo.is_some(),
            checkpoint,
            kind,
            tally: whole.tally,
            distinct_blocks: whole.blocks.len(),
            start_time,
            end_time: None,
            parts: Vec::new(),
            decay_by: DecayBy::Records,
        });
        self.done_by_records.push(Vec::new());
        self.unsettled =
            Some(Unsettled { by_time: whole.by_time, by_records: whole.by_records, leaving: whole.leaving });
    }

    fn merge_old_chunks(&mut self) {
        loop {
            let bytes: u64 = self.chunks.iter().map(Chunk::approximate_bytes).sum();
            let count = self.chunks.len();
            if count < 3 || (bytes <= OPEN_BLOCKS_BYTES && count <= OPEN_CHUNKS) {
                return;
            }
            // The oldest pairs become one each, so that sizes double towards the start.
            let mut merged: Vec<Chunk> = Vec::with_capacity(count);
            let last = self.chunks.pop();
            for chunk in self.chunks.drain(..) {
                match merged.last_mut() {
                    Some(before) if before.segments.len() <= chunk.segments.len() => before.append(&chunk),
                    _ => merged.push(chunk),
                }
            }
            merged.extend(last);
            if merged.len() == count {
                let second = merged.remove(1);
                merged[0].append(&second);
            }
            self.chunks = merged;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) segments: Range<usize>,
    pub(crate) start_lsn: Lsn,
    pub(crate) end_lsn: Lsn,
    pub(crate) entering: Option<PgTimestamp>,
    pub(crate) leaving: Option<PgTimestamp>,
    pub(crate) tally: Tally,
    pub(crate) by_records: RecordCurve,
    pub(crate) by_time: TimeCurve,
    pub(crate) blocks: BlockSet,
    pub(crate) all_blocks: Option<BlockSet>,
    pub(crate) images: ImageHints,
}

impl Chunk {
    /// One without records yet.
    pub(crate) fn new(segments: Range<usize>, start_lsn: Lsn, end_lsn: Lsn, entering: Option<PgTimestamp>) -> Self {
        Self { segments, start_lsn, end_lsn, entering, leaving: entering, ..Self::default() }
    }

    /// Adds a slice that was read by itself.
    pub(crate) fn add(&mut self, mut slice: Slice) {
        slice.finish();
        self.tally.add(&slice.tally);
        self.by_records.append(&slice.by_records);
        self.by_time.append(&slice.by_time, self.leaving);
        self.leaving = self.leaving.max(slice.latest);
        self.images.append(&slice.images, self.all_blocks.as_ref().unwrap_or(&self.blocks));
        match &mut self.all_blocks {
            Some(all) => slice.all_blocks.iter().for_each(|own| all.union_with(own)),
            all => *all = slice.all_blocks,
        }
        if self.blocks.is_empty() {
            self.blocks = slice.blocks;
        } else {
            self.blocks.union_with(&slice.blocks);
        }
    }

    pub(crate) fn append(&mut self, next: &Self) {
        self.segments.end = self.segments.end.max(next.segments.end);
        self.end_lsn = next.end_lsn;
        self.leaving = self.leaving.max(next.leaving);
        self.tally.add(&next.tally);
        self.by_records.append(&next.by_records);
        self.by_time.append(&next.by_time, next.entering);
        self.images.append(&next.images, self.all_blocks.as_ref().unwrap_or(&self.blocks));
        self.blocks.union_with(&next.blocks);
        if let Some((all, own)) = self.all_blocks.as_mut().zip(next.all_blocks.as_ref()) {
            all.union_with(own);
        }
    }

    /// Blocks that were met, those of relations that are not counted included.
    pub(crate) fn all_blocks(&self) -> &BlockSet {
        self.all_blocks.as_ref().unwrap_or(&self.blocks)
    }

    pub(crate) fn approximate_bytes(&self) -> u64 {
        let all = self.all_blocks.as_ref().map_or(0, BlockSet::approximate_bytes);
        let sets = self.blocks.approximate_bytes().saturating_add(all).saturating_add(self.images.approximate_bytes());
        sets.saturating_add(self.by_time.approximate_bytes())
    }
}
