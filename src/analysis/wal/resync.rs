//! Reads the segments of a run in order and continues after damage. Gives the same parts as [`super::collect`], segment by
//! segment.

use super::segment::{SegmentRead, Visitor, WatchRead};
use super::stretch::Stretch;
use super::walk::{WalkEnd, walk_run};
use crate::cluster::wal::WalReadError;
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::scan::SegmentScan;
use crate::types::Lsn;
use std::ops::ControlFlow;

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
