//! Counts the segments of some WAL as they come in order: one of the things that one reading of it may be for.
//! Also here: reads what a request names segment by segment: several at a time, handed over in order.

use std::ops::{ControlFlow, Range};

use super::request::Watched;
use super::source::WalSource;
use super::stats::WalCounts;
use crate::analysis::wal::collect::{collect_resynchronised, collect_run, end_of_part};
use crate::analysis::wal::hidden_redo::{NewerImage, NewerImages};
use crate::analysis::wal::interval::{Folded, Interval, IntervalFold, Reread};
use crate::analysis::wal::partial::{Counter, Counts, ScanPlan, Slice};
use crate::analysis::wal::segment::{SegmentRead, Visitor, read_segment};
use crate::analysis::wal::stretch::{Extent, Stretch};
use crate::cluster::wal::WalReadError;
use crate::inspect::wal::rules;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::Keep;
use crate::report::Finding;
use crate::types::Lsn;

/// What was counted of the segments so far.
#[derive(Debug)]
pub(super) struct Counting<'p> {
    plan: &'p ScanPlan,
    /// Reading continues after damage.
    resynchronise: bool,
    counted: WalCounts,
    fold: IntervalFold,
    undecoded: Vec<ParseError>,
}

impl<'p> Counting<'p> {
    pub(super) fn new(plan: &'p ScanPlan, resynchronise: bool) -> Self {
        Self { plan, resynchronise, counted: WalCounts::of(plan), fold: IntervalFold::new(), undecoded: Vec::new() }
    }

    /// Takes what segment `index` of a run counts, whose WAL ends at `end_lsn`.
    pub(super) fn take(
        &mut self,
        stretch: &Stretch<'_>,
        (index, extent): (usize, &Extent),
        counts: &mut Counts,
        end_lsn: Lsn,
        watched: &Watched<'_>,
    ) -> Result<(), WalReadError> {
        let (set, plan, resynchronise, counted) = (stretch.set, self.plan, self.resynchronise, &mut self.counted);
        let start_lsn = set.segments()[index].start_lsn.max(plan.start_lsn);
        counted.follow(start_lsn, end_lsn, extent, set.geometry());
        if let Some(rest) = &mut counted.rest {
            rest.append(&counts.rest, self.fold.clock().now());
        }
        counted.total.add(&counts.total());
        self.undecoded.extend(counts.undecoded.take());
        if let Some(uses) = counts.uses.take() {
            counted.uses.get_or_insert_default().merge(&uses);
        }
        if let Some(groups) = counts.groups.take() {
            match &mut counted.groups {
                Some(all) => all.merge(&groups),
                all => *all = Some(groups),
            }
        }
        if plan.group.is_some() {
            return Ok(());
        }
        let mut again = Again { stretch, plan, resynchronise, watched };
        self.fold.push((index, extent.first_lsn), counts, end_lsn, &mut again)
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(super) fn end_run(&mut self, stretch: &Stretch<'_>, watched: &Watched<'_>) -> Result<(), WalReadError> {
        let (plan, resynchronise) = (self.plan, self.resynchronise);
        self.fold.end_run(&mut Again { stretch, plan, resynchronise, watched })
    }

    /// All that was counted; says what was odd about it.
    pub(super) fn finish(self, findings: &mut Vec<Finding>) -> WalCounts {
        let Self { plan, mut counted, fold, undecoded, .. } = self;
        findings.extend(undecoded.into_iter().map(|error| rules::PAYLOAD.problem(error.to_string())));
        let Folded { intervals, clock, times, since_redo } = fold.finish();
        findings.extend(clock.findings());
        let hidden = intervals.iter().filter_map(|interval| interval.hidden);
        findings.extend(hidden.map(rules::hidden_redo));
        if plan.group.is_none() {
            counted.lie_in(intervals.iter().map(Interval::wal_bytes).sum());
        }
        (counted.intervals, counted.times, counted.since_redo) = (intervals, times, since_redo);
        counted
    }
}

struct Again<'a> {
    stretch: &'a Stretch<'a>,
    plan: &'a ScanPlan,
    resynchronise: bool,
    watched: &'a Watched<'a>,
}

impl Again<'_> {
    /// Has a visitor from `begin` for each segment shown its records, and `take` given what it found.
    fn read<V: Visitor>(
        &self,
        segments: Range<usize>,
        keep: Keep,
        begin: impl Fn(usize) -> V,
        mut take: impl FnMut(V),
    ) -> Result<(), WalReadError> {
        let (stretch, mut buffer) = (Stretch { keep, ..self.stretch.clone() }, Vec::new());
        let quiet = |_| self.watched.advance(0);
        for index in segments {
            if self.resynchronise {
                let rest = Stretch { run: index..stretch.run.end, ..stretch.clone() };
                let begin = |index| Some(begin(index));
                let walked = collect_resynchronised(&rest, index, &quiet, begin, |part| {
                    part.found.take().into_iter().for_each(&mut take);
                    Ok(())
                });
                // Unreadable files were reported already.
                drop(walked);
                continue;
            }
            take(read_segment(&stretch, index, index, begin(index), &quiet, &mut buffer)?.found);
        }
        Ok(())
    }
}

impl Reread for Again<'_> {
    fn slices(&mut self, segments: Range<usize>, cuts: &[Lsn]) -> Result<Vec<Slice>, WalReadError> {
        let (set, plan, mut slices) = (self.stretch.set, self.plan, Vec::new());
        let begin = |index| Counter::new(set, index, plan, cuts);
        self.read(segments, self.stretch.keep, begin, |mut found| slices.append(&mut found.counts.slices))?;
        Ok(slices)
    }

    fn newer_images(
        &mut self,
        segments: Range<usize>,
        range: Range<Lsn>,
        known: Lsn,
    ) -> Result<Vec<NewerImage>, WalReadError> {
        let (block_size, mut images) = (self.stretch.set.geometry().block_size, Vec::new());
        let begin = |_| NewerImages::new(range.clone(), known, block_size);
        self.read(segments, Keep::Blocks, begin, |mut found| images.append(&mut found.images))?;
        Ok(images)
    }
}

pub(super) struct Reading<'a> {
    pub(super) plan: &'a ScanPlan,
    pub(super) keep: Keep,
    pub(super) jobs: usize,
    pub(super) watched: &'a Watched<'a>,
}

pub(super) enum RunStep<'a, V> {
    /// The next segment of a run, whose WAL ends at this LSN.
    Segment(&'a mut SegmentRead<V>, Lsn),
    /// The run is over; what follows does not follow in WAL. Where its WAL ends; `None`: nothing of it was read.
    End(Option<Lsn>),
}

impl WalSource {
    /// Has a visitor from `begin` for each segment shown its records, and `take` given the segments of each run in order,
    /// until the end of the range, or the user, ends it. Where reading continues after damage, one thread reads.
    pub(super) fn each_segment<V: Visitor + Send>(
        &mut self,
        reading: &Reading<'_>,
        begin: impl Fn(&Stretch<'_>, usize) -> V + Sync,
        mut take: impl FnMut(&Stretch<'_>, RunStep<'_, V>) -> Result<(), WalReadError>,
    ) {
        let Reading { plan, keep, jobs, watched } = *reading;
        let resync = self.resync;
        self.each_run(
            watched,
            |set, run, _| {
                let stretch = plan.stretch(set, run, keep);
                let begin = |index| begin(&stretch, index);
                let watch = |bytes| watched.advance(bytes);
                let mut run_end = None;
                let mut take_up = |part: &mut SegmentRead<V>| {
                    let end_lsn = end_of_part(part);
                    run_end = Some(end_lsn);
                    take(&stretch, RunStep::Segment(part, end_lsn))
                };
                let read = if resync.is_on() {
                    // After damage, where to continue is only known in order.
                    collect_resynchronised(&stretch, run.end, &watch, begin, &mut take_up)
                } else {
                    collect_run(&stretch, jobs, &watch, begin, &mut take_up)
                };
                let ended = take(&stretch, RunStep::End(run_end));
                (read.and_then(|walked| ended.map(|()| walked)), ())
            },
            |_, _, run, ()| if run.walked.reached_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
        );
    }
}
