//! Reads all segments of a set, several at a time, and hands the parts over in order.
//!
//! Each segment is read on its own. In order, [`Joiner`] holds each part against the one before; where they do not fit,
//! that segment is read again together with the one before it, which gives what reading in order gives.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use super::partial::{ScanPlan, SegmentPartial, scan_segment};
use crate::analysis::in_order::in_order;
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::scan::Joiner;
use crate::types::Lsn;

/// How reading a run of segments ended.
#[derive(Debug)]
pub struct RunEnd {
    /// The run.
    pub run: Range<usize>,
    /// Segment in which reading ended.
    pub segment: usize,
    /// How; [`crate::parsers::wal::end::EndReason::Limit`] or `InputEnds` when all of it was read.
    pub end: Option<EndOfWal>,
    /// Why bytes could not be read.
    pub error: Option<WalReadError>,
    /// The end of the plan was reached.
    pub reached_end: bool,
    /// The user broke the run off.
    pub interrupted: bool,
}

/// Segments of a run that the plan's range touches.
#[must_use]
pub fn touched(set: &WalSet, run: &Range<usize>, plan: &ScanPlan) -> Range<usize> {
    let size = u64::from(set.geometry().wal_segment_size);
    let start_of = |index: usize| set.segments()[index].start_lsn;
    let first = run.clone().find(|index| start_of(*index).advanced_by(size) > plan.start_lsn).unwrap_or(run.end);
    let last = run.clone().rev().find(|index| start_of(*index) < plan.end_lsn).map_or(run.start, |index| index + 1);
    first..last.max(first)
}

/// Reads a run with `jobs` threads. `visit` gets each part in order and says whether to go on.
pub fn collect_run(
    set: &WalSet,
    run: &Range<usize>,
    plan: &ScanPlan,
    jobs: usize,
    interrupted: &AtomicBool,
    mut visit: impl FnMut(&mut SegmentPartial) -> Result<(), WalReadError>,
) -> RunEnd {
    let range = touched(set, run, plan);
    let jobs = jobs.clamp(1, range.len().max(1));
    let mut result = RunEnd {
        run: run.clone(),
        segment: range.start,
        end: None,
        error: None,
        reached_end: false,
        interrupted: false,
    };
    let worker = || {
        let mut buffer = Vec::new();
        move |index| {
            let go_on = !interrupted.load(Ordering::Relaxed);
            go_on.then(|| scan_segment(set, run, index, index, plan, &[], &mut buffer))
        }
    };
    let mut joiner = Joiner::new();
    let mut segments = range.clone();
    in_order(range.clone(), (0..jobs).map(|_| worker()).collect(), |part| {
        let Some(part) = part.filter(|_| !interrupted.load(Ordering::Relaxed)) else {
            result.interrupted = true;
            return ControlFlow::Break(());
        };
        result.segment = segments.next().unwrap_or(range.end);
        let mut part = match part.and_then(|part| joined(set, run, plan, &mut joiner, part, &range)) {
            Ok(part) => part,
            Err(error) => {
                result.error = Some(error);
                return ControlFlow::Break(());
            }
        };
        let visited = visit(&mut part);
        result.error = part.error.take().or(visited.err());
        result.reached_end = part.reached_end;
        let ended = !matches!(part.summary.end.reason, EndReason::Limit);
        result.end = Some(part.summary.end);
        if ended || result.reached_end || result.error.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    result
}

/// Where the WAL that a part counted ends: the start of the next segment, or its last record's end.
#[must_use]
pub fn end_of_part(part: &SegmentPartial) -> Lsn {
    let whole = matches!(part.summary.end.reason, EndReason::Limit) && !part.reached_end;
    let counted = part.counted_to.unwrap_or(part.summary.start_lsn);
    if whole { part.summary.limit_lsn.max(counted) } else { counted }
}

fn joined(
    set: &WalSet,
    run: &Range<usize>,
    plan: &ScanPlan,
    joiner: &mut Joiner,
    part: SegmentPartial,
    range: &Range<usize>,
) -> Result<SegmentPartial, WalReadError> {
    if joiner.push(&part.summary).is_ok() {
        return Ok(part);
    }
    let from = part.index.saturating_sub(1).max(range.start);
    scan_segment(set, run, part.index, from, plan, &[], &mut Vec::new())
}
