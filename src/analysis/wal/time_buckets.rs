//! Counts by equal stretches of time.

use std::collections::BTreeMap;

use super::clock::{Clock, Told};
use super::curve::TimeCurve;
use super::relation_filter::RelationFilter;
use super::segment::{Undecoded, Visitor};
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;

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
