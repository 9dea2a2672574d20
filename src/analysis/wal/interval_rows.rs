//! Checkpoint intervals as rows of a table: each by itself, or neighbours put together where there are more than fit.

use super::curve::shares_of;
use super::interval::{Interval, IntervalKind};
use super::partial::CheckpointSeen;
use super::tally::Tally;
use crate::types::Lsn;

/// Intervals that follow each other, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalRow {
    /// How many they are.
    pub intervals: u64,
    /// Redo point of the first; `None` when it is not known.
    pub redo_lsn: Option<Lsn>,
    /// Where counting starts.
    pub start_lsn: Lsn,
    /// The first begins before the WAL that was counted.
    pub begins_before: bool,
    /// The checkpoint of the first.
    pub checkpoint: Option<CheckpointSeen>,
    /// What began each of them; `None` when they differ.
    pub kind: Option<IntervalKind>,
    /// Bytes of WAL, page headers and padding included, gaps between them left out.
    pub wal_bytes: u64,
    /// How long they last, in seconds, gaps left out; `None` where that is not known of all of them.
    pub duration_s: Option<f64>,
    /// Counts.
    pub tally: Tally,
    /// Distinct blocks of each of them, added up.
    pub distinct_blocks: u64,
    /// Counts of equal parts of each of them, added up.
    parts: Vec<Tally>,
}

impl From<&Interval> for IntervalRow {
    fn from(interval: &Interval) -> Self {
        Self {
            intervals: 1,
            redo_lsn: interval.redo_lsn,
            start_lsn: interval.start_lsn,
            begins_before: interval.begins_before(),
            checkpoint: interval.checkpoint,
            kind: Some(interval.kind),
            wal_bytes: interval.wal_bytes(),
            duration_s: interval.duration_s(),
            tally: interval.tally,
            distinct_blocks: interval.distinct_blocks,
            parts: interval.parts.clone(),
        }
    }
}

impl IntervalRow {
    /// Intervals in at most `max_rows` rows, as many in each but the last.
    pub fn of(intervals: &[Interval], max_rows: usize) -> Vec<Self> {
        let in_each = intervals.len().div_ceil(max_rows.max(1)).max(1);
        let row = |neighbours: &[Interval]| {
            let (first, others) = neighbours.split_first()?;
            let mut row = Self::from(first);
            others.iter().for_each(|interval| row.append(interval));
            Some(row)
        };
        intervals.chunks(in_each).filter_map(row).collect()
    }

    fn append(&mut self, interval: &Interval) {
        self.intervals = self.intervals.saturating_add(1);
        self.kind = self.kind.filter(|kind| *kind == interval.kind);
        self.wal_bytes = self.wal_bytes.saturating_add(interval.wal_bytes());
        self.duration_s = self.duration_s.zip(interval.duration_s()).map(|(sum, own)| sum + own);
        self.tally.add(&interval.tally);
        self.distinct_blocks = self.distinct_blocks.saturating_add(interval.distinct_blocks);
        self.parts.iter_mut().zip(&interval.parts).for_each(|(sum, own)| sum.add(own));
    }

    /// Share of images in the equal parts.
    pub fn decay(&self) -> Vec<Option<f64>> {
        shares_of(&self.parts)
    }

    /// So much per second; `None` where that is not known.
    pub(crate) fn per_second(&self, amount: u64) -> Option<f64> {
        self.duration_s.filter(|duration| *duration > 0.0).map(|duration| amount as f64 / duration)
    }
}
