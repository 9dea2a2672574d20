//! Reads all segments of a set, several at a time, and hands the parts over in order.
//!
//! Each segment is read on its own. In order, [`Joiner`] holds each part against the one before; where they do not fit,
//! that segment is read again together with the one before it, which gives what reading in order gives.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::partial::{ScanPlan, SegmentPartial, scan_segment};
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::scan::Joiner;
use crate::types::Lsn;

/// Segments that may be finished ahead of the one that is handed over next, per worker.
const AHEAD_PER_WORKER: usize = 4;

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

/// Shared state of the workers.
struct Shared {
    next: usize,
    handed_over: usize,
    done: BTreeMap<usize, Result<SegmentPartial, WalReadError>>,
    stop: bool,
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
    let shared = Mutex::new(Shared { next: range.start, handed_over: range.start, done: BTreeMap::new(), stop: false });
    let changed = Condvar::new();
    let mut result = RunEnd {
        run: run.clone(),
        segment: range.start,
        end: None,
        error: None,
        reached_end: false,
        interrupted: false,
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(set, run, plan, &range, &shared, &changed, jobs * AHEAD_PER_WORKER));
        }
        let mut joiner = Joiner::new();
        for index in range.clone() {
            let part = take(&shared, &changed, index, interrupted);
            let Some(part) = part else {
                result.interrupted = true;
                break;
            };
            result.segment = index;
            let part = part.and_then(|part| joined(set, run, plan, &mut joiner, part, &range));
            let mut part = match part {
                Ok(part) => part,
                Err(error) => {
                    result.error = Some(error);
                    break;
                }
            };
            let visited = visit(&mut part);
            result.error = part.error.take().or(visited.err());
            result.reached_end = part.reached_end;
            let ended = !matches!(part.summary.end.reason, crate::parsers::wal::end::EndReason::Limit);
            result.end = Some(part.summary.end);
            if ended || result.reached_end || result.error.is_some() {
                break;
            }
        }
        lock(&shared).stop = true;
        changed.notify_all();
    });
    result
}

/// Where the WAL that a part counted ends: the start of the next segment, or its last record's end.
#[must_use]
pub fn end_of_part(part: &SegmentPartial) -> Lsn {
    let whole = matches!(part.summary.end.reason, crate::parsers::wal::end::EndReason::Limit) && !part.reached_end;
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
    scan_segment(set, run, part.index, from, plan, &[])
}

fn work(
    set: &WalSet,
    run: &Range<usize>,
    plan: &ScanPlan,
    range: &Range<usize>,
    shared: &Mutex<Shared>,
    changed: &Condvar,
    ahead: usize,
) {
    loop {
        let index = {
            let mut state = lock(shared);
            loop {
                if state.stop || state.next >= range.end {
                    return;
                }
                if state.next < state.handed_over + ahead {
                    break;
                }
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.next += 1;
            state.next - 1
        };
        let part = scan_segment(set, run, index, index, plan, &[]);
        lock(shared).done.insert(index, part);
        changed.notify_all();
    }
}

/// Waits for the part of a segment; `None` when the user breaks off.
fn take(
    shared: &Mutex<Shared>,
    changed: &Condvar,
    index: usize,
    interrupted: &AtomicBool,
) -> Option<Result<SegmentPartial, WalReadError>> {
    let pause = std::time::Duration::from_millis(100);
    let mut state = lock(shared);
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(part) = state.done.remove(&index) {
            state.handed_over = index + 1;
            changed.notify_all();
            return Some(part);
        }
        state = changed.wait_timeout(state, pause).map_or_else(|poison| poison.into_inner().0, |(state, _)| state);
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
