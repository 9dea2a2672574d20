//! Reads all segments of a run, several at a time, and hands the parts over in order.
//!
//! Each segment is read on its own. In order, [`Joiner`] holds each part against the one before; where they do not fit,
//! that segment is read again together with those before it, which gives what reading in order gives.
//! Also here: the same in order, continuing after damage.

use std::ops::{ControlFlow, Range};

use super::segment::{SegmentRead, Visitor, WatchRead, read_segment};
use super::stretch::Stretch;
use super::walk::{WalkEnd, walk_run};
use crate::analysis::in_order::in_order;
use crate::cluster::wal::WalReadError;
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::scan::{Joiner, SegmentScan};
use crate::types::Lsn;

/// Reads a stretch with `jobs` threads. Each segment gets a visitor from `begin`; `take_up` gets each part in order, and
/// stops with an error. What they are shown, and how it ends, is what [`super::walk::walk_run`] gives.
pub(crate) fn collect_run<V: Visitor + Send>(
    stretch: &Stretch<'_>,
    jobs: usize,
    watch: WatchRead<'_>,
    begin: impl Fn(usize) -> V + Sync,
    mut take_up: impl FnMut(&mut SegmentRead<V>) -> Result<(), WalReadError>,
) -> Result<WalkEnd, WalReadError> {
    let mut range = stretch.touched();
    let mut result = WalkEnd::default();
    if range.is_empty() {
        return Ok(result);
    }
    // Only the first record after the range shows that the range was read to its end.
    range.end = stretch.run.end.min(range.end.saturating_add(1));
    let worker = || {
        let (mut buffer, begin) = (Vec::new(), &begin);
        move |index| {
            let go_on = watch(0).is_continue();
            go_on.then(|| read_segment(stretch, index, index, begin(index), watch, &mut buffer))
        }
    };
    let mut joiner = Joiner::new();
    let (mut first_error, mut segments) = (None, range.clone());
    in_order(range.clone(), (0..jobs.clamp(1, range.len())).map(|_| worker()).collect(), |part| {
        let index = segments.next().unwrap_or(range.end);
        let part = part.map(|part| part.and_then(|part| joined(stretch, &mut joiner, part, &range, &begin, watch)));
        let mut part = match part {
            Some(Ok(part)) => part,
            Some(Err(error)) if index == range.start => {
                first_error = Some(error);
                return ControlFlow::Break(());
            }
            Some(Err(error)) => {
                result.error = Some(error);
                return ControlFlow::Break(());
            }
            None => {
                result.interrupted = true;
                return ControlFlow::Break(());
            }
        };
        let taken = take_up(&mut part);
        result.extent.append(&part.extent);
        result.aborted.append(&mut part.aborted);
        result.past_end.extend(part.past_end);
        result.error = part.error.or(taken.err());
        result.interrupted = part.interrupted;
        result.reached_end = part.reached_end;
        let before = result.end.take();
        let mut end = part.summary.end;
        let goes_on = end.reason == EndReason::Limit && result.error.is_none();
        // A segment inside a long record has no record of its own.
        end.last_record = end.last_record.or(before.as_ref().and_then(|end| end.last_record));
        end.end_of_last = end.end_of_last.or(before.and_then(|end| end.end_of_last));
        result.end = Some(end).filter(|_| !part.reached_end && !part.interrupted);
        if goes_on && result.end.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Some(error) = first_error {
        return Err(error);
    }
    if result.interrupted {
        result.end = None;
    }
    // The limit of the last segment is where the files end.
    if let Some(end) = result.end.as_mut().filter(|end| end.reason == EndReason::Limit) {
        end.reason = EndReason::InputEnds;
    }
    Ok(result)
}

/// Where the WAL that a part shows ends: the start of the next segment, or its last record's end.
pub(crate) fn end_of_part<V>(part: &SegmentRead<V>) -> Lsn {
    let whole = matches!(part.summary.end.reason, EndReason::Limit) && !part.reached_end;
    let counted = part.extent.last_end_lsn.unwrap_or(part.summary.start_lsn);
    if whole { part.summary.limit_lsn.max(counted) } else { counted }
}

/// The part if it fits those before it, else what reading in order gives.
fn joined<V: Visitor>(
    stretch: &Stretch<'_>,
    joiner: &mut Joiner,
    part: SegmentRead<V>,
    range: &Range<usize>,
    begin: impl Fn(usize) -> V,
    watch: WatchRead<'_>,
) -> Result<SegmentRead<V>, WalReadError> {
    // Why WAL ends before the first record of a segment is known only together with the record before.
    let ends_at_once = part.summary.first_record.is_none() && part.summary.end.reason != EndReason::Limit;
    let is_first = part.index == range.start;
    if (is_first || !ends_at_once) && joiner.push(&part.summary).is_ok() {
        return Ok(part);
    }
    let last_record = joiner.last_record().unwrap_or_default();
    let holds_it = |index: &usize| stretch.set.segments()[*index].start_lsn <= last_record;
    let from = (range.start..part.index).rev().find(holds_it).unwrap_or(range.start);
    let (index, quiet) = (part.index, |_| watch(0));
    let part = read_segment(stretch, index, from, begin(index), &quiet, &mut Vec::new())?;
    joiner.follow(&part.summary);
    Ok(part)
}

/// The segments that are shown of a stretch, as they come.
struct Parts<'s, B, T, V> {
    stretch: &'s Stretch<'s>,
    begin: B,
    take_up: T,
    open: Option<SegmentRead<V>>,
    /// The segment after it.
    next: usize,
}

impl<B, T, V> Parts<'_, B, T, V>
where
    V: Visitor,
    B: Fn(usize) -> V,
    T: FnMut(&mut SegmentRead<V>) -> Result<(), WalReadError>,
{
    /// Ends the open segment, whose WAL continues in the next.
    fn close(&mut self) -> Result<(), WalReadError> {
        let Some(mut part) = self.open.take() else { return Ok(()) };
        part.summary.end.reason = EndReason::Limit;
        (self.take_up)(&mut part)
    }

    /// Opens the segment that holds `lsn`, after all before it; those in which no record starts are shown, too.
    fn advance_to(&mut self, lsn: Lsn) -> Result<(), WalReadError> {
        while self.open.as_ref().is_none_or(|part| part.summary.limit_lsn <= lsn) && self.next < self.stretch.run.end {
            self.close()?;
            self.open = Some(self.part(self.next)?);
            self.next = self.next.saturating_add(1);
        }
        Ok(())
    }

    fn part(&self, index: usize) -> Result<SegmentRead<V>, WalReadError> {
        let set = self.stretch.set;
        let start = set.segments()[index].start_lsn;
        let limit = start.advanced_by(u64::from(set.geometry().wal_segment_size));
        let (first, _) = self.stretch.first_page(index);
        let scan = SegmentScan::new(self.stretch.reader_options(), first, limit).map_err(WalReadError::Sizes)?;
        Ok(SegmentRead::new(index, index, scan.summary().clone(), (self.begin)(index)))
    }
}

/// Reads a stretch up to segment `last`, continuing after damage. Each segment gets a visitor from `begin`; `take_up` gets
/// each part in order, and stops with an error.
pub(crate) fn collect_resynchronised<V: Visitor>(
    stretch: &Stretch<'_>,
    last: usize,
    watch: WatchRead<'_>,
    begin: impl Fn(usize) -> V,
    take_up: impl FnMut(&mut SegmentRead<V>) -> Result<(), WalReadError>,
) -> Result<WalkEnd, WalReadError> {
    let first = stretch.touched().start;
    if first >= stretch.run.end {
        return Ok(WalkEnd::default());
    }
    let mut parts = Parts { stretch, begin, take_up, open: None, next: first };
    let mut failed = None;
    let mut walked = walk_run(stretch, true, &mut |bytes| watch(bytes), |record| {
        if let Err(error) = parts.advance_to(record.start_lsn) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        match &mut parts.open {
            Some(part) if part.index <= last => {
                part.extent.add(record);
                part.found.record(record);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        }
    })?;
    let Parts { open, next, .. } = &mut parts;
    if open.is_none() && *next == first {
        // Not a single record starts there.
        failed = failed.or(parts.advance_to(stretch.set.segments()[first].start_lsn).err());
    }
    if let Some(mut part) = parts.open.take().filter(|part| part.index <= last) {
        let ends_whole =
            walked.end.as_ref().is_some_and(|end| end.reason == EndReason::InputEnds && end.unfinished.is_none());
        if ends_whole {
            part.summary.end.reason = EndReason::Limit;
        }
        part.reached_end = walked.reached_end;
        failed = failed.or((parts.take_up)(&mut part).err());
    }
    walked.error = walked.error.or(failed);
    Ok(walked)
}
