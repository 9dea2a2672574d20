//! Groups by equal stretches of time, and the stretches in which far more WAL is written than in others.
//! Also here: counts by equal stretches of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{Clock, Told};
use super::curve::TimeCurve;
use super::group::{Groups, RelationFilter};
use super::group_key::{Grouping, RowKey};
use super::segment::{Undecoded, Visitor};
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;

/// Counts the records of one segment, by the times that it tells and by group.
#[derive(Clone, Debug)]
pub(crate) struct TimeGroupCounter {
    bucket_us: i64,
    by: Grouping,
    segment_size: u32,
    relations: Option<RelationFilter>,
    clock: Clock,
    /// In the order of time; the first may be earlier than the segment.
    parts: Vec<(Option<i64>, Groups)>,
    /// When the checkpoints began whose records are here.
    checkpoints: Vec<PgTimestamp>,
}

impl TimeGroupCounter {
    pub(crate) fn new(bucket_us: i64, by: Grouping, segment_size: u32, relations: Option<RelationFilter>) -> Self {
        let (parts, checkpoints) = (Vec::new(), Vec::new());
        Self { bucket_us: bucket_us.max(1), by, segment_size, relations, clock: Clock::default(), parts, checkpoints }
    }

    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.parts.iter().for_each(|(_, groups)| total.add(&groups.total()));
        total
    }
}

impl Visitor for TimeGroupCounter {
    fn record(&mut self, record: &Record<'_>) {
        // A record with a time belongs to that time.
        if let Some(told) = Told::by(record) {
            self.clock.tell(record.start_lsn, told);
            if let Told::Since(begun) = told {
                self.checkpoints.push(begun);
            }
        }
        let bucket = self.clock.now().map(|now| now.0.div_euclid(self.bucket_us));
        if self.parts.last().is_none_or(|(last, _)| *last != bucket) {
            let groups = Groups::new(self.by, self.segment_size, Arc::default()).of(self.relations.clone());
            self.parts.push((bucket, groups));
        }
        if let Some((_, groups)) = self.parts.last_mut() {
            groups.add(record);
        }
    }
}

/// All segments, put together.
#[derive(Clone, Debug)]
pub(crate) struct TimeGroups {
    bucket_us: i64,
    parts: BTreeMap<Option<i64>, Groups>,
    checkpoints: Vec<PgTimestamp>,
    pub(crate) clock: Clock,
}

/// One stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct TimeGroup {
    /// When it begins; `None` for what was written before any time was told.
    pub(crate) start: Option<PgTimestamp>,
    pub(crate) total: Tally,
    /// Its groups, those with the most bytes first.
    pub(crate) rows: Vec<(RowKey, Tally)>,
}

/// Stretches of time that follow each other, with far more WAL than others.
#[derive(Clone, Debug)]
pub(crate) struct Spike {
    pub(crate) start: PgTimestamp,
    /// Where the last of them ends.
    pub(crate) end: PgTimestamp,
    pub(crate) total: Tally,
    /// The group with the most bytes in them.
    pub(crate) most: Option<(RowKey, Tally)>,
    /// When the last checkpoint at or before its end began.
    pub(crate) checkpoint: Option<PgTimestamp>,
}

impl TimeGroups {
    pub(crate) fn new(bucket_us: i64) -> Self {
        let (parts, checkpoints) = (BTreeMap::new(), Vec::new());
        Self { bucket_us: bucket_us.max(1), parts, checkpoints, clock: Clock::default() }
    }

    /// Adds the segment that follows. What stands before its first time belongs to the time before.
    pub(crate) fn push(&mut self, part: &mut TimeGroupCounter) {
        let before = self.clock.now().map(|now| now.0.div_euclid(self.bucket_us));
        for (bucket, groups) in part.parts.drain(..) {
            match self.parts.get_mut(&bucket.max(before)) {
                Some(known) => known.merge(&groups),
                None => drop(self.parts.insert(bucket.max(before), groups)),
            }
        }
        self.checkpoints.append(&mut part.checkpoints);
        self.clock.append(&part.clock);
    }

    /// All stretches with a record, in the order of time. Where the clock contradicts itself, they are one without a time.
    pub(crate) fn rows(&self) -> Vec<TimeGroup> {
        let mut parts = self.parts.clone();
        if self.clock.contradicts_itself() {
            let mut all = std::mem::take(&mut parts).into_values();
            if let Some(mut first) = all.next() {
                all.for_each(|next| first.merge(&next));
                parts.insert(None, first);
            }
        }
        let row = |(bucket, groups): (Option<i64>, Groups)| {
            let mut rows: Vec<(RowKey, Tally)> =
                groups.rows().into_iter().filter(|(_, tally)| tally.records > 0).collect();
            rows.sort_by_key(|(key, tally)| (std::cmp::Reverse(tally.combined_bytes()), *key));
            let start = bucket.map(|bucket| PgTimestamp(bucket.saturating_mul(self.bucket_us)));
            TimeGroup { start, total: groups.total(), rows }
        };
        parts.into_iter().map(row).collect()
    }

    /// Stretches with at least three times the bytes of the middle one, counted over all from the first to the last time.
    pub(crate) fn spikes(&self, rows: &[TimeGroup]) -> Vec<Spike> {
        const TIMES: u64 = 3;
        const MIN_STRETCHES: u64 = 5;
        let timed = || rows.iter().filter_map(|row| Some((row.start?, row)));
        let Some((first, last)) = timed().next().zip(timed().next_back()) else { return Vec::new() };
        let all = last.0.us_since(first.0).checked_div(self.bucket_us).unwrap_or(0).unsigned_abs().saturating_add(1);
        let mut bytes: Vec<u64> = timed().map(|(_, row)| row.total.combined_bytes()).collect();
        bytes.sort_unstable();
        // Stretches without a record have none; they come before the others.
        let empty = all.saturating_sub(bytes.len() as u64);
        let middle = usize::try_from((all / 2).saturating_sub(empty)).unwrap_or(usize::MAX);
        let median = if all / 2 < empty { 0 } else { bytes.get(middle).copied().unwrap_or_default() };
        if all < MIN_STRETCHES {
            return Vec::new();
        }
        let mut spikes: Vec<(Spike, BTreeMap<RowKey, Tally>)> = Vec::new();
        for (start, row) in timed().filter(|(_, row)| row.total.combined_bytes() > median.saturating_mul(TIMES)) {
            let end = PgTimestamp(start.0.saturating_add(self.bucket_us));
            let (spike, groups) = match spikes.last_mut().filter(|(last, _)| last.end == start) {
                Some(last) => last,
                None => {
                    let spike = Spike { start, end, total: Tally::default(), most: None, checkpoint: None };
                    spikes.push((spike, BTreeMap::new()));
                    let Some(last) = spikes.last_mut() else { continue };
                    last
                }
            };
            spike.end = end;
            spike.total.add(&row.total);
            row.rows.iter().for_each(|(key, tally)| groups.entry(*key).or_default().add(tally));
        }
        let finished = spikes.into_iter().map(|(mut spike, groups)| {
            spike.most = groups.into_iter().max_by_key(|(_, tally)| tally.combined_bytes());
            spike.checkpoint = self.checkpoints.iter().copied().filter(|begun| *begun < spike.end).max();
            spike
        });
        finished.collect()
    }
}

/// Counts the records of one segment by the times that it tells.
#[derive(Clone, Debug)]
pub(crate) struct BucketCounter {
    pub tally: Tally,
    in_curve: Tally,
    clock: Clock,
    curve: TimeCurve,
    /// When the checkpoints began whose records are here.
    checkpoints: Vec<PgTimestamp>,
    /// The first record that is not a valid record of its type.
    pub undecoded: Undecoded,
    relations: Option<RelationFilter>,
}

impl BucketCounter {
    /// Nothing yet, in buckets of `width_us`. `relations`: those that are counted alone.
    pub fn new(width_us: i64, relations: Option<RelationFilter>) -> Self {
        let curve = TimeCurve::of_width(width_us);
        Self {
            tally: Tally::default(),
            in_curve: Tally::default(),
            clock: Clock::default(),
            curve,
            checkpoints: Vec::new(),
            undecoded: Undecoded::default(),
            relations,
        }
    }

    fn mark(&mut self) {
        self.curve.add(self.clock.now(), &self.tally.since(&self.in_curve));
        self.in_curve = self.tally;
    }
}

impl Visitor for BucketCounter {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.undecoded.record(record);
        if let Some(told) = Told::by(record) {
            self.mark();
            self.clock.tell(record.start_lsn, told);
            match told {
                Told::Since(begun) => self.checkpoints.push(begun),
                Told::Now(_) | Told::Impossible(_) => {}
            }
        }
        self.tally.add_part(record, self.relations.as_ref());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When it begins; `None` for what was written before any time was told.
    pub start: Option<PgTimestamp>,
    pub tally: Tally,
    pub checkpoints: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct TimeBuckets {
    curve: TimeCurve,
    checkpoints: BTreeMap<i64, u64>,
    pub clock: Clock,
}

impl TimeBuckets {
    pub fn new(width_us: i64) -> Self {
        Self { curve: TimeCurve::of_width(width_us), checkpoints: BTreeMap::new(), clock: Clock::default() }
    }

    /// Adds the segment that follows. What stands before its first time belongs to the time before.
    pub fn push(&mut self, part: &mut BucketCounter) {
        part.mark();
        self.curve.append(&part.curve, self.clock.now());
        self.clock.append(&part.clock);
        for begun in &part.checkpoints {
            let count = self.checkpoints.entry(self.curve.step_of(*begun)).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// How long a bucket is, in microseconds.
    pub(crate) const fn width_us(&self) -> i64 {
        self.curve.width_us()
    }

    /// The buckets with a record or the beginning of a checkpoint, in the order of time, that without a time first.
    pub fn rows(&self) -> Vec<Bucket> {
        if self.clock.contradicts_itself() {
            let (mut curve, checkpoints) = (self.curve.clone(), self.checkpoints.values().sum());
            curve.forget_times();
            return vec![Bucket { start: None, tally: *curve.unknown(), checkpoints }];
        }
        let mut rows: BTreeMap<i64, Bucket> = BTreeMap::new();
        let start = |step: i64| Some(PgTimestamp(step.saturating_mul(self.width_us())));
        for (time, tally) in self.curve.steps() {
            let bucket = Bucket { start: Some(time), tally: *tally, checkpoints: 0 };
            rows.insert(self.curve.step_of(time), bucket);
        }
        for (step, checkpoints) in &self.checkpoints {
            let row = rows.entry(*step).or_insert_with(|| Bucket { start: start(*step), ..Bucket::default() });
            row.checkpoints = *checkpoints;
        }
        let unknown = self.curve.unknown();
        let first = (unknown.records > 0).then_some(Bucket { start: None, tally: *unknown, checkpoints: 0 });
        first.into_iter().chain(rows.into_values()).collect()
    }
}
