//! Some WAL in a few figures.

use super::curve::{Peak, TimeCurve};
use super::interval::Interval;
use super::since_redo::SinceRedo;
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::Lsn;

/// A peak lasts so long at most, and a sixtieth of the whole at most, in microseconds.
const PEAK_US: i64 = 60_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Overview {
    pub total: Tally,
    /// Bytes of WAL that it lies in, page headers and padding included.
    pub wal_bytes: u64,
    pub range: Option<(Lsn, Lsn)>,
    /// The first and the last time that records tell, to the step of time that is kept.
    pub times: Option<(PgTimestamp, PgTimestamp)>,
    pub peak: Option<Peak>,
    /// Bytes of WAL per second, over the time that records tell.
    pub bytes_per_s: Option<f64>,
    /// Redo points that lie in it, those of checkpoints that did not finish included: as many as are replayed.
    pub checkpoints: u64,
    /// Images by how long after the redo point they were written.
    pub since_redo: SinceRedo,
}

impl Overview {
    pub fn new(
        total: Tally,
        wal_bytes: u64,
        range: Option<(Lsn, Lsn)>,
        intervals: &[Interval],
        times: &TimeCurve,
        since_redo: SinceRedo,
    ) -> Self {
        let mut steps = times.steps().map(|(time, _)| time);
        let first = steps.next();
        let bounds = first.map(|first| (first, steps.last().unwrap_or(first)));
        let lasts_us = bounds.map_or(0, |(first, last)| last.us_since(first));
        let is_inside = |interval: &&Interval| {
            interval.redo_lsn.is_some_and(|redo_lsn| redo_lsn >= interval.start_lsn) || interval.hidden.is_some()
        };
        // A step is as long as it is wide: the last one lasts, too.
        let known: u64 = times.steps().map(|(_, tally)| tally.span_bytes.max(tally.combined_bytes())).sum();
        let seconds = lasts_us.saturating_add(times.width_us()) as f64 / 1e6;
        Self {
            bytes_per_s: (lasts_us > 0).then(|| known as f64 / seconds),
            total,
            wal_bytes,
            range,
            times: bounds,
            peak: times.peak((lasts_us / 60).clamp(times.width_us(), PEAK_US.max(times.width_us()))),
            checkpoints: u64::try_from(intervals.iter().filter(is_inside).count()).unwrap_or(u64::MAX),
            since_redo,
        }
    }

    /// Seconds from the first to the last time; `None` where they are not known or the same.
    pub fn seconds(&self) -> Option<f64> {
        let (first, last) = self.times?;
        let us = last.us_since(first);
        (us > 0).then(|| us as f64 / 1e6)
    }

    /// The most bytes per second of any stretch of time; the mean where no whole stretch has more.
    pub fn peak_bytes_per_s(&self) -> Option<f64> {
        Some(self.peak?.bytes_per_s().max(self.bytes_per_s?))
    }

    /// A part of the WAL in bytes per second.
    pub fn per_second(&self, bytes: f64) -> Option<f64> {
        self.bytes_per_s.filter(|_| self.wal_bytes > 0).map(|all| bytes / self.wal_bytes as f64 * all)
    }
}
