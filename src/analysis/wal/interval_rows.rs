//! Checkpoint intervals as rows of a table: each by itself, or neighbours put together where there are more than fit.
//! Also here: the same for periods of time.

use super::curve::shares_of;
use super::interval::{Interval, IntervalKind};
use super::partial::CheckpointSeen;
use super::tally::Tally;
use super::time_buckets::Bucket;
use crate::parsers::wal::payload::PgTimestamp;
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

/// Most rows of a table in which periods without records are shown by themselves.
const MAX_ROWS_WITH_EMPTY: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketRow {
    /// How many they are; none for what was written before any time was told.
    pub periods: u64,
    /// What was counted in them; its start is that of the first.
    pub bucket: Bucket,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketRows {
    pub rows: Vec<BucketRow>,
    /// Periods without records that no row stands for.
    pub left_out: u64,
}

impl BucketRows {
    pub fn each(buckets: &[Bucket]) -> Self {
        let row = |bucket: &Bucket| BucketRow { periods: u64::from(bucket.start.is_some()), bucket: *bucket };
        Self { rows: buckets.iter().map(row).collect(), left_out: 0 }
    }

    /// Buckets of `bucket_us` in the order of time, in at most `max_rows` rows and one for what has no time. Those without
    /// records between them are shown as far as that needs few rows, else counted.
    pub fn by_time(buckets: &[Bucket], bucket_us: i64, max_rows: usize) -> Self {
        let times = || buckets.iter().filter_map(|bucket| bucket.start);
        let Some((first, last)) = times().next().zip(times().next_back()) else { return Self::each(buckets) };
        let bucket_us = bucket_us.max(1);
        let steps = |time: PgTimestamp| time.us_since(first).checked_div(bucket_us).unwrap_or(0).max(0).unsigned_abs();
        let span = steps(last).saturating_add(1);
        let told = times().count() as u64;
        let max_rows = (max_rows as u64).max(1);
        let show_empty = span <= MAX_ROWS_WITH_EMPTY;
        let needed = if show_empty { span } else { told };
        let in_each = if needed > max_rows { span.div_ceil(max_rows) } else { 1 };
        let mut all = Self { rows: Vec::new(), left_out: 0 };
        let start_of = |row: u64| {
            let us = row.saturating_mul(in_each).saturating_mul(bucket_us.unsigned_abs());
            PgTimestamp(first.0.saturating_add_unsigned(us))
        };
        let row_at = |row: u64| {
            let periods = in_each.min(span.saturating_sub(row.saturating_mul(in_each)));
            BucketRow { periods, bucket: Bucket { start: Some(start_of(row)), ..Bucket::default() } }
        };
        let mut next = 0_u64;
        for bucket in buckets {
            let Some(start) = bucket.start else {
                all.rows.push(BucketRow { periods: 0, bucket: *bucket });
                continue;
            };
            let row = steps(start).checked_div(in_each).unwrap_or(0);
            if in_each > 1 || show_empty {
                while next < row {
                    all.rows.push(row_at(next));
                    next = next.saturating_add(1);
                }
            }
            if row >= next {
                all.rows.push(row_at(row));
                next = row.saturating_add(1);
            }
            if let Some(sum) = all.rows.last_mut() {
                sum.bucket.tally.add(&bucket.tally);
                sum.bucket.checkpoints = sum.bucket.checkpoints.saturating_add(bucket.checkpoints);
            }
        }
        let shown: u64 = all.rows.iter().map(|row| row.periods).sum();
        all.left_out = span.saturating_sub(shown);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::wal::tally::Tally;

    fn bucket(at: Option<i64>, records: u64) -> Bucket {
        let tally = Tally { records, ..Tally::default() };
        Bucket { start: at.map(|at| PgTimestamp(at * 10)), tally, checkpoints: 1 }
    }

    fn shown(rows: &BucketRows) -> Vec<(Option<i64>, u64, u64)> {
        let row = |row: &BucketRow| (row.bucket.start.map(|at| at.0 / 10), row.periods, row.bucket.tally.records);
        rows.rows.iter().map(row).collect()
    }

    #[test]
    fn neighbours_are_put_together_until_they_fit() {
        let buckets =
            [bucket(None, 7), bucket(Some(-2), 1), bucket(Some(-1), 2), bucket(Some(3), 4), bucket(Some(4), 8)];
        let each = BucketRows::by_time(&buckets, 10, 7);
        let expected = [
            (None, 0, 7),
            (Some(-2), 1, 1),
            (Some(-1), 1, 2),
            (Some(0), 1, 0),
            (Some(1), 1, 0),
            (Some(2), 1, 0),
            (Some(3), 1, 4),
            (Some(4), 1, 8),
        ];
        assert_eq!((shown(&each), each.left_out), (expected.to_vec(), 0));
        let few = BucketRows::by_time(&buckets, 10, 3);
        assert_eq!(shown(&few), [(None, 0, 7), (Some(-2), 3, 3), (Some(1), 3, 4), (Some(4), 1, 8)]);
        assert_eq!(few.rows.iter().map(|row| row.bucket.checkpoints).sum::<u64>(), 5);
        let one = BucketRows::by_time(&buckets, 10, 0);
        assert_eq!(shown(&one), [(None, 0, 7), (Some(-2), 7, 15)]);
    }

    #[test]
    fn long_pauses_are_counted_where_each_period_is_shown() {
        let buckets = [bucket(Some(0), 1), bucket(Some(1_000_000), 2)];
        let all = BucketRows::by_time(&buckets, 10, usize::MAX);
        assert_eq!((shown(&all), all.left_out), (vec![(Some(0), 1, 1), (Some(1_000_000), 1, 2)], 999_999));
        assert_eq!(BucketRows::by_time(&buckets, 10, 2), all);
        let summed = BucketRows::by_time(&buckets, 10, 1);
        assert_eq!((shown(&summed), summed.left_out), (vec![(Some(0), 1_000_001, 3)], 0));
        assert_eq!(BucketRows::by_time(&[], 10, 5), BucketRows::default());
    }
}
