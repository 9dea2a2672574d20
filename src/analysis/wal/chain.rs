//! The chain of WAL records in one run of segments: what was counted, and what its end is.

use strum::IntoStaticStr;

use super::segment::Visitor;
use super::stretch::Extent;
use super::tail::Tail;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::types::TimelineId;

/// What was met in one run of segments.
#[derive(Clone, Debug)]
pub struct CheckedRun {
    /// Name of the first segment, where it can have one.
    pub first_segment: Option<String>,
    /// Name of the last.
    pub last_segment: Option<String>,
    /// How many they are.
    pub segments: usize,
    /// Which records were read.
    pub extent: Extent,
    /// How many records.
    pub records: u64,
    /// Those of them that were found again after damage.
    pub recovered: u64,
    /// Timelines in the order of the records.
    pub timelines: Vec<TimelineId>,
    /// How reading ended; `None` when it was interrupted or the end of the range was reached.
    pub end: Option<EndOfWal>,
    /// What that end is.
    pub verdict: ChainVerdict,
}

/// What the end of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ChainVerdict {
    /// Valid records follow it, or `pg_control` knows of later WAL, or reading continued after damage.
    Damage,
    /// All that is there was read.
    Complete,
    /// The end that a running or crashed server leaves.
    EndOfWal,
    /// WAL changed while it was read.
    Changing,
    /// The next segment is missing, and later ones are there.
    Gap,
    /// It was not reached, or could not be judged.
    NotJudged,
}

impl ChainVerdict {
    /// What an end is. `damaged`: reading continued after damage before it.
    pub const fn of(tail: Option<&Tail>, damaged: bool) -> Self {
        match tail {
            _ if damaged => Self::Damage,
            Some(Tail::Complete) => Self::Complete,
            Some(Tail::EndOfWal | Tail::UnfinishedPage { .. }) => Self::EndOfWal,
            Some(Tail::Changing { .. }) => Self::Changing,
            Some(Tail::Gap) => Self::Gap,
            Some(Tail::RecordsFollow { .. } | Tail::BeforeKnownEnd { .. }) => Self::Damage,
            None => Self::NotJudged,
        }
    }

    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Counts the records of a run of segments, or of a part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCounter {
    pub records: u64,
    /// Those of them that were found again after damage.
    pub recovered: u64,
    pub timelines: Vec<TimelineId>,
}

impl RunCounter {
    pub fn append(&mut self, next: &Self) {
        self.records = self.records.saturating_add(next.records);
        self.recovered = self.recovered.saturating_add(next.recovered);
        let goes_on = self.timelines.last() == next.timelines.first();
        self.timelines.extend(next.timelines.iter().skip(usize::from(goes_on)));
    }
}

impl Visitor for RunCounter {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.records = self.records.saturating_add(1);
        self.recovered = self.recovered.saturating_add(u64::from(record.recovered));
        if self.timelines.last() != Some(&record.tli) {
            self.timelines.push(record.tli);
        }
    }
}
