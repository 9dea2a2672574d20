//! Images by how long after the redo point they were written.
//! Also here: the redo points that records name.

use super::curve::TimeCurve;
use super::segment::Visitor;
use super::tally::Tally;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::payload::{PgTimestamp, XlogPayload};
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Seconds after the redo point at which the spans begin.
pub(crate) const SPAN_STARTS_S: [u32; 5] = [0, 30, 60, 120, 300];

/// One span of seconds after redo points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinceSpan {
    /// Full-page images.
    pub fpi_count: u64,
    /// Their bytes as stored.
    pub fpi_bytes: u64,
    /// Bytes of all records, with images.
    pub combined_bytes: u64,
    /// How long WAL of this span was seen, over all intervals, in microseconds.
    pub observed_us: i64,
}

impl SinceSpan {
    /// Images per second; `None` where nothing was seen.
    pub(crate) fn images_per_s(&self) -> Option<f64> {
        (self.observed_us > 0).then(|| self.fpi_count as f64 / (self.observed_us as f64 / 1e6))
    }
}

/// Images of all intervals whose redo point has a known time, by seconds since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinceRedo {
    /// By span, see [`SPAN_STARTS_S`].
    pub spans: [SinceSpan; 5],
    /// Checkpoint intervals.
    pub intervals: u64,
    /// Intervals that were not, for want of times or of a redo point.
    pub left_out: u64,
    /// Images of unknown age.
    pub left_out_images: u64,
    /// Their bytes as stored.
    pub left_out_bytes: u64,
    /// How exact the seconds are: the coarsest step of time among the intervals, in microseconds.
    pub step_us: i64,
}

impl SinceRedo {
    /// Counts an interval that lasts from `redo` to `end`.
    pub(crate) fn add(&mut self, curve: &TimeCurve, redo: PgTimestamp, end: PgTimestamp) {
        self.intervals = self.intervals.saturating_add(1);
        self.step_us = self.step_us.max(curve.width_us());
        for (time, tally) in curve.steps() {
            let span = span_of(time.us_since(redo));
            if let Some(span) = self.spans.get_mut(span) {
                span.fpi_count = span.fpi_count.saturating_add(tally.fpi_count);
                span.fpi_bytes = span.fpi_bytes.saturating_add(tally.fpi_bytes);
                span.combined_bytes = span.combined_bytes.saturating_add(tally.combined_bytes());
            }
        }
        let lasts = end.us_since(redo).max(0);
        let ends = SPAN_STARTS_S.iter().skip(1).map(|start| us(*start)).chain([i64::MAX]);
        for ((start, end), span) in SPAN_STARTS_S.iter().map(|start| us(*start)).zip(ends).zip(&mut self.spans) {
            let seen = lasts.min(end).saturating_sub(start).max(0);
            span.observed_us = span.observed_us.saturating_add(seen);
        }
    }

    pub(crate) fn leave_out(&mut self, tally: &Tally) {
        self.left_out = self.left_out.saturating_add(1);
        self.left_out_images = self.left_out_images.saturating_add(tally.fpi_count);
        self.left_out_bytes = self.left_out_bytes.saturating_add(tally.fpi_bytes);
    }

    /// Bytes of images written within 60 s after a redo point.
    pub(crate) fn fpi_bytes_within_60_s(&self) -> u64 {
        self.spans.iter().zip(SPAN_STARTS_S).filter(|(_, start)| *start < 60).map(|(span, _)| span.fpi_bytes).sum()
    }
}

const fn us(seconds: u32) -> i64 {
    (seconds as i64).saturating_mul(1_000_000)
}

/// The span of so many microseconds after the redo point.
fn span_of(since_us: i64) -> usize {
    SPAN_STARTS_S.iter().rposition(|start| us(*start) <= since_us).unwrap_or(0)
}

/// Gathers the redo points that the records of one segment name, in the order of the records.
#[derive(Debug, Default)]
pub(crate) struct RedoPoints {
    /// They may lie in segments before.
    pub points: Vec<Lsn>,
}

impl Visitor for RedoPoints {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.header.rmgr_id == RM_XLOG && !record.header.is_images() {
            self.points.extend(redo_point(&{ *record }));
        }
    }
}

/// What cannot be decoded is told by the walk that follows.
#[inline(never)]
fn redo_point(record: &Record<'_>) -> Option<Lsn> {
    match XlogPayload::of(record).ok()?? {
        XlogPayload::CheckpointShutdown(point) | XlogPayload::CheckpointOnline(point) => Some(point.redo_lsn),
        XlogPayload::CheckpointRedo { .. } => Some(record.start_lsn),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_fall_into_the_span_of_their_second() {
        let (mut curve, mut since) = (TimeCurve::default(), SinceRedo::default());
        let at = |seconds: i64| PgTimestamp(seconds * 1_000_000);
        for (seconds, images) in [(1000, 1), (1029, 2), (1030, 4), (1059, 8), (1060, 16), (1121, 32), (1310, 64)] {
            let tally = Tally { records: 1, fpi_count: images, fpi_bytes: images * 10, ..Tally::default() };
            curve.add(Some(at(seconds)), &tally);
        }
        since.add(&curve, at(1000), at(1400));
        assert_eq!(since.spans.map(|span| span.fpi_count), [3, 12, 16, 32, 64]);
        assert_eq!(since.spans.map(|span| span.observed_us / 1_000_000), [30, 30, 60, 180, 100]);
        assert_eq!(since.fpi_bytes_within_60_s(), 150);
        // A short interval has been seen in its first spans alone.
        since.add(&TimeCurve::default(), at(0), at(45));
        assert_eq!(since.spans.map(|span| span.observed_us / 1_000_000), [60, 45, 60, 180, 100]);
    }
}
