//! The lines of WAL that is followed: checkpoint intervals or periods of time, each given out when all of it is known.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::analysis::wal::bill::{RestCounter, WalRest};
use crate::analysis::wal::clock::Clock;
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::hidden_redo::{NewerImage, NewerImages};
use crate::analysis::wal::interval::{Folded, Interval, IntervalFold, Reread};
use crate::analysis::wal::partial::{Counter, ScanPlan, SegmentCounts, Slice};
use crate::analysis::wal::segment::{SegmentRead, Visitor, WatchRead, read_segment};
use crate::analysis::wal::stretch::{Extent, Stretch};
use crate::analysis::wal::tally::Certainty;
use crate::analysis::wal::time_buckets::{Bucket, BucketCounter, TimeBuckets};
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::inspect::wal::request::unwatched;
use crate::inspect::wal::stats::WalCounts;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::payload::PgTimestamp;
use crate::report::Finding;
use crate::types::{Geometry, Lsn};

/// What lines stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowBy {
    /// Checkpoint intervals.
    Checkpoint,
    /// Periods of time.
    Time {
        /// How long each is, in microseconds. At least 1.
        bucket_us: i64,
    },
}

/// A line, and how sure its counts are.
#[derive(Clone, Debug)]
pub struct FollowedLine {
    /// What it stands for, with the counts.
    pub row: FollowedRow,
    /// [`Certainty::AtLeast`] where WAL beside it could not be read.
    pub certainty: Certainty,
    /// All of it was read; `false` for the last line, which continues after it.
    pub is_over: bool,
}

/// What a line stands for.
#[derive(Clone, Debug)]
pub enum FollowedRow {
    /// A checkpoint interval.
    Interval(Box<Interval>),
    /// A period of time.
    Bucket(Bucket),
}

#[derive(Debug)]
pub(super) struct Lines {
    kind: Kind,
    /// Bytes of WAL of the intervals that were given out.
    interval_bytes: u64,
    counted: WalCounts,
    /// WAL that is missing and lies beside lines that were not given out yet.
    gaps: Vec<Range<Lsn>>,
    /// Where counting continues: the end of the last whole record.
    next: Option<Lsn>,
    undecoded: Vec<ParseError>,
    lost_redo: Option<WalReadError>,
    is_clock_told: bool,
}

#[derive(Debug)]
enum Kind {
    Intervals(Box<IntervalFold>),
    Buckets(Buckets),
}

#[derive(Debug)]
struct Buckets {
    width_us: i64,
    clock: Clock,
    open: BTreeMap<Option<PgTimestamp>, (Bucket, Certainty)>,
    is_after_gap: bool,
}

impl Buckets {
    /// Start of the period that is not over.
    fn open_since(&self) -> Option<PgTimestamp> {
        self.start_of(self.clock.now()?)
    }

    fn start_of(&self, time: PgTimestamp) -> Option<PgTimestamp> {
        let step = time.0.checked_div_euclid(self.width_us)?;
        Some(PgTimestamp(step.saturating_mul(self.width_us)))
    }

    fn push(&mut self, part: &mut BucketCounter) {
        let entered = self.open_since();
        let mut one = TimeBuckets::new(self.width_us);
        one.clock = std::mem::take(&mut self.clock);
        one.push(part);
        self.clock = std::mem::take(&mut one.clock);
        for mut bucket in one.rows() {
            // What a checkpoint says of its beginning comes when its line may have been given out.
            if entered.is_some() && bucket.start < entered {
                bucket.start = entered;
            }
            let is_first_since = self.is_after_gap && bucket.start != entered;
            let certainty = if self.is_after_gap { Certainty::AtLeast } else { Certainty::Exact };
            self.is_after_gap &= !is_first_since;
            let fresh = Bucket { start: bucket.start, ..Bucket::default() };
            let (open, sure) = self.open.entry(bucket.start).or_insert((fresh, Certainty::Exact));
            open.tally.add(&bucket.tally);
            open.checkpoints = open.checkpoints.saturating_add(bucket.checkpoints);
            *sure = sure.and(certainty);
        }
    }

    fn gap(&mut self) {
        self.is_after_gap = true;
        if let Some((_, sure)) = self.open.get_mut(&self.open_since()) {
            *sure = Certainty::AtLeast;
        }
    }

    fn take_settled(&mut self) -> Vec<FollowedLine> {
        let open = self.open.split_off(&self.open_since());
        lines_of(std::mem::replace(&mut self.open, open))
    }
}

fn lines_of(buckets: BTreeMap<Option<PgTimestamp>, (Bucket, Certainty)>) -> Vec<FollowedLine> {
    let line = |(bucket, certainty)| FollowedLine { row: FollowedRow::Bucket(bucket), certainty, is_over: true };
    buckets.into_values().map(line).collect()
}

impl Lines {
    pub(super) fn new(by: FollowBy) -> Self {
        let kind = match by {
            FollowBy::Checkpoint => Kind::Intervals(Box::new(IntervalFold::new())),
            FollowBy::Time { bucket_us } => Kind::Buckets(Buckets {
                width_us: bucket_us.max(1),
                clock: Clock::default(),
                open: BTreeMap::new(),
                is_after_gap: false,
            }),
        };
        let counted = WalCounts { rest: Some(WalRest::default()), ..WalCounts::default() };
        Self {
            kind,
            interval_bytes: 0,
            counted,
            gaps: Vec::new(),
            next: None,
            undecoded: Vec::new(),
            lost_redo: None,
            is_clock_told: false,
        }
    }

    /// Where counting continues; `None` before the first record.
    pub(super) const fn next(&self) -> Option<Lsn> {
        self.next
    }

    pub(super) fn read(
        &mut self,
        stretch: &Stretch<'_>,
        jobs: usize,
        watch: WatchRead<'_>,
        plan: &ScanPlan,
    ) -> Result<WalkEnd, WalReadError> {
        let set = stretch.set;
        match &self.kind {
            Kind::Intervals(_) => {
                let begin = |index| Counter::new(set, index, plan, &[]);
                collect_run(stretch, jobs, watch, begin, |part| {
                    self.take_segment(set, plan, part);
                    Ok(())
                })
            }
            Kind::Buckets(buckets) => {
                let width_us = buckets.width_us;
                collect_run(
                    stretch,
                    jobs,
                    watch,
                    |_| (BucketCounter::new(width_us, None), RestCounter::new(set.geometry())),
                    |part| {
                        let begin = set.segments()[part.index].start_lsn.max(plan.start_lsn);
                        self.take_times(begin, part, set.geometry());
                        Ok(())
                    },
                )
            }
        }
    }

    /// Takes the whole records that start in a segment: where they end, if there are any.
    fn reach(&mut self, extent: &Extent) -> Option<Lsn> {
        self.counted.reach(extent.first_lsn, extent.last_end_lsn);
        self.next = extent.last_end_lsn.or(self.next);
        extent.last_end_lsn
    }

    fn take_segment(&mut self, set: &WalSet, plan: &ScanPlan, part: &mut SegmentCounts<'_>) {
        let start = self.next.unwrap_or(set.segments()[part.index].start_lsn.max(plan.start_lsn));
        let Some(end_lsn) = self.reach(&part.extent) else { return };
        let counts = &mut part.found.counts;
        self.counted.take(&counts.total(), &counts.rest);
        self.counted.add_stretch(start, end_lsn, set.geometry());
        self.undecoded.extend(counts.undecoded.take());
        // Numbers of segments stay what they are from round to round.
        let number = number_of(set, part.index);
        let Kind::Intervals(fold) = &mut self.kind else { return };
        if let Err(error) = fold.push((number, part.extent.first_lsn), counts, end_lsn, &mut Again { set }) {
            // The redo point lies in a segment that is gone: two intervals stay one.
            self.lost_redo.get_or_insert(error);
        }
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(super) fn end_run(&mut self, set: &WalSet) {
        if let Kind::Intervals(fold) = &mut self.kind
            && let Err(error) = fold.end_run(&mut Again { set })
        {
            self.lost_redo.get_or_insert(error);
        }
    }

    fn take_times(&mut self, begin: Lsn, part: &mut SegmentRead<(BucketCounter, RestCounter)>, geometry: Geometry) {
        let start = self.next.unwrap_or(begin);
        let Some(end_lsn) = self.reach(&part.extent) else { return };
        let (counter, rest) = &mut part.found;
        self.counted.take(&counter.tally, &rest.rest);
        self.counted.add_stretch(start, end_lsn, geometry);
        self.undecoded.extend(counter.undecoded.0.take());
        if let Kind::Buckets(buckets) = &mut self.kind {
            buckets.push(counter);
        }
    }

    /// Continues at `lsn`, after WAL that is missing.
    pub(super) fn skip_to(&mut self, lsn: Lsn, set: &WalSet) {
        let from = self.next.replace(lsn).unwrap_or(lsn);
        self.gaps.push(from..lsn);
        self.end_run(set);
        if let Kind::Buckets(buckets) = &mut self.kind {
            buckets.gap();
        }
    }

    /// Continues at `lsn`, where another timeline begins.
    pub(super) fn go_on_at(&mut self, lsn: Lsn, set: &WalSet) {
        self.next = Some(lsn);
        self.end_run(set);
    }

    /// Records with a right checksum whose payload is not that of their type, since it was asked before.
    pub(super) fn take_undecoded(&mut self) -> Vec<ParseError> {
        std::mem::take(&mut self.undecoded)
    }

    /// What is odd about the times, once they contradict each other.
    pub(super) fn take_wrong_clock(&mut self) -> Vec<Finding> {
        let clock = match &self.kind {
            Kind::Intervals(fold) => fold.clock(),
            Kind::Buckets(buckets) => &buckets.clock,
        };
        if self.is_clock_told || !clock.contradicts_itself() {
            return Vec::new();
        }
        self.is_clock_told = true;
        clock.findings()
    }

    /// Why a redo point could not be found, since it was asked before.
    pub(super) const fn take_lost_redo(&mut self) -> Option<WalReadError> {
        self.lost_redo.take()
    }

    pub(super) fn take_settled(&mut self) -> Vec<FollowedLine> {
        match &mut self.kind {
            Kind::Intervals(fold) => {
                let intervals = fold.take_settled();
                let last = intervals.last().map(|interval| interval.end_lsn);
                let lines = intervals.into_iter().map(|interval| self.line(interval)).collect();
                self.gaps.retain(|gap| last.is_none_or(|last| gap.end >= last));
                lines
            }
            Kind::Buckets(buckets) => {
                self.gaps.clear();
                buckets.take_settled()
            }
        }
    }

    fn line(&mut self, interval: Interval) -> FollowedLine {
        self.interval_bytes = self.interval_bytes.saturating_add(interval.wal_bytes());
        let is_beside = |gap: &Range<Lsn>| interval.end_lsn >= gap.start && interval.start_lsn <= gap.end;
        let certainty = if self.gaps.iter().any(is_beside) { Certainty::AtLeast } else { Certainty::Exact };
        FollowedLine { row: FollowedRow::Interval(Box::new(interval)), certainty, is_over: true }
    }

    /// The lines that are left, as far as they were read, all counts, and what is odd about the times.
    pub(super) fn finish(mut self) -> (Vec<FollowedLine>, WalCounts, Vec<Finding>) {
        let placeholder = Kind::Intervals(Box::new(IntervalFold::new()));
        let (mut lines, clock): (Vec<FollowedLine>, Clock) = match std::mem::replace(&mut self.kind, placeholder) {
            Kind::Intervals(fold) => {
                let Folded { intervals, clock, times, since_redo } = fold.finish();
                (self.counted.times, self.counted.since_redo) = (times, since_redo);
                let lines = intervals.into_iter().map(|interval| self.line(interval)).collect();
                self.counted.lie_in(self.interval_bytes);
                (lines, clock)
            }
            Kind::Buckets(buckets) => (lines_of(buckets.open), buckets.clock),
        };
        lines.last_mut().into_iter().for_each(|last| last.is_over = false);
        let odd = if self.is_clock_told { Vec::new() } else { clock.findings() };
        (lines, self.counted, odd)
    }
}

fn number_of(set: &WalSet, index: usize) -> usize {
    usize::try_from(set.segments()[index].segment.number).unwrap_or(usize::MAX)
}

/// Reads segments, by their numbers, again.
struct Again<'a> {
    set: &'a WalSet,
}

impl Again<'_> {
    /// Has a visitor from `begin` for each segment shown its records from `start_lsn` on, and `take` given what it found.
    fn read<V: Visitor>(
        &self,
        numbers: Range<usize>,
        (plan, keep): (&ScanPlan, Keep),
        begin: impl Fn(usize) -> V,
        mut take: impl FnMut(V),
    ) -> Result<(), WalReadError> {
        let (set, mut buffer) = (self.set, Vec::new());
        let quiet = |_| unwatched(0, 0);
        for number in numbers {
            let index = (0..set.segments().len()).find(|index| number_of(set, *index) == number);
            let run = index.and_then(|index| set.runs().into_iter().find(|run| run.contains(&index)));
            let Some((index, run)) = index.zip(run) else {
                let gone = io::Error::from(io::ErrorKind::NotFound);
                let name = format!("segment number {number}");
                return Err(WalReadError::Access(AccessError::io("read", Path::new(&name), gone)));
            };
            let stretch = plan.stretch(set, &run, keep);
            take(read_segment(&stretch, index, index, begin(index), &quiet, &mut buffer)?.found);
        }
        Ok(())
    }
}

impl Reread for Again<'_> {
    fn slices(&mut self, segments: Range<usize>, cuts: &[Lsn]) -> Result<Vec<Slice>, WalReadError> {
        let start_lsn = cuts.first().copied().unwrap_or_default();
        let (plan, mut slices) = (ScanPlan { start_lsn, blocks: true, ..ScanPlan::totals() }, Vec::new());
        let begin = |index| Counter::new(self.set, index, &plan, cuts);
        self.read(segments, (&plan, Keep::Heads), begin, |mut found| slices.append(&mut found.counts.slices))?;
        Ok(slices)
    }

    fn newer_images(
        &mut self,
        segments: Range<usize>,
        range: Range<Lsn>,
        known: Lsn,
    ) -> Result<Vec<NewerImage>, WalReadError> {
        let (block_size, mut images) = (self.set.geometry().block_size, Vec::new());
        let plan = ScanPlan { start_lsn: range.start, ..ScanPlan::totals() };
        let begin = |_| NewerImages::new(range.clone(), known, block_size);
        self.read(segments, (&plan, Keep::Blocks), begin, |mut found| images.append(&mut found.images))?;
        Ok(images)
    }
}
