//! Counts the segments of some WAL as they come in order: one of the things that one reading of it may be for.

use super::stats::WalCounts;
use super::watch::Watched;
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::wal::interval::{Folded, Interval, IntervalFold};
use crate::analysis::wal::partial::{Counter, Counts, ScanPlan};
use crate::analysis::wal::resync::collect_resynchronised;
use crate::analysis::wal::segment::read_segment;
use crate::analysis::wal::stretch::{Extent, Stretch};
use crate::cluster::wal::WalReadError;
use crate::parsers::error::ParseError;
use crate::types::Lsn;

/// What was counted of the segments so far.
#[derive(Debug)]
pub(super) struct Counting<'p> {
    plan: &'p ScanPlan,
    /// Reading goes on after damage.
    resynchronise: bool,
    counted: WalCounts,
    fold: IntervalFold,
    undecoded: Vec<ParseError>,
}

impl<'p> Counting<'p> {
    /// Nothing yet.
    pub(super) fn new(plan: &'p ScanPlan, resynchronise: bool) -> Self {
        Self { plan, resynchronise, counted: WalCounts::default(), fold: IntervalFold::new(), undecoded: Vec::new() }
    }

    /// Takes what segment `index` of a run counts, whose WAL ends at `end_lsn`.
    ///
    /// # Errors
    /// When a segment that must be read again cannot be.
    pub(super) fn take(
        &mut self,
        stretch: &Stretch<'_>,
        (index, extent): (usize, &Extent),
        counts: &mut Counts,
        end_lsn: Lsn,
        watched: &Watched<'_>,
    ) -> Result<(), WalReadError> {
        let (set, plan, resynchronise, counted) = (stretch.set, self.plan, self.resynchronise, &mut self.counted);
        counted.follow(set.segments()[index].start_lsn.max(plan.start_lsn), end_lsn, extent);
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
        self.fold.push(index, counts, end_lsn, &mut |segments, cuts| {
            let (mut slices, mut buffer) = (Vec::new(), Vec::new());
            let quiet = |_| watched.advance(0);
            for index in segments {
                let counter = |index| Counter::new(set, index, plan, cuts);
                if resynchronise {
                    let rest = Stretch { run: index..stretch.run.end, ..stretch.clone() };
                    let walked = collect_resynchronised(&rest, index, &quiet, counter, |part| {
                        slices.append(&mut part.found.counts.slices);
                        Ok(())
                    });
                    // What cannot be read was said already.
                    drop(walked);
                    continue;
                }
                let part = read_segment(stretch, index, index, counter(index), &quiet, &mut buffer)?;
                slices.extend(part.found.counts.slices);
            }
            Ok(slices)
        })
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(super) fn end_run(&mut self) {
        self.fold.end_run();
    }

    /// All that was counted; says what was odd about it.
    pub(super) fn finish(self, findings: &mut Vec<Finding>) -> WalCounts {
        let Self { plan, mut counted, fold, undecoded, .. } = self;
        findings.extend(undecoded.into_iter().map(|error| Finding::problem(FindingKind::Payload(error))));
        let Folded { intervals, clock, times, since_redo } = fold.finish();
        findings.extend(clock.findings());
        (counted.intervals, counted.times, counted.since_redo) = (intervals, times, since_redo);
        if plan.group.is_none() {
            counted.wal_bytes = counted.intervals.iter().map(Interval::wal_bytes).sum();
        }
        counted
    }
}
