//! Whether the counts of two stretches of WAL that were read apart from each other may be added up.

use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::scan::{FirstRecord, ScanSummary};
use crate::types::Lsn;

/// Segments that follow each other, read as a part of more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRun {
    /// Start of the first segment, or where counting began in it.
    pub start_lsn: Lsn,
    /// End of the last segment: records that start there or later belong to the next part.
    pub limit_lsn: Lsn,
    /// Start of the first record.
    pub first_lsn: Option<Lsn>,
    /// The record that it names before it.
    pub first_prev: Option<Lsn>,
    /// Start of the last record.
    pub last_lsn: Option<Lsn>,
    /// Where the next record must start.
    pub next_lsn: Option<Lsn>,
    /// All records that start before the limit were read.
    pub is_whole: bool,
    /// Start of a record whose end lies past the end of what was given.
    pub unfinished: Option<Lsn>,
}

/// How a part lies to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seam {
    /// It goes on where that ends.
    Fits,
    /// Some WAL lies in both.
    Overlaps,
    /// Some WAL lies in neither.
    Gap,
    /// A record starts in the one and ends in the other, and neither counted it.
    RecordBetween(Lsn),
    /// WAL ended before the end of the first part, so that one process would have read none of the second.
    Ended,
    /// Its first record does not follow on the last one of the part before.
    DoesNotFollow,
}

impl PartRun {
    /// The run that begins with a segment. `start_lsn`: where counting began.
    #[must_use]
    pub fn new(summary: &ScanSummary, start_lsn: Lsn) -> Self {
        let first = summary.first_record;
        let mut run = Self {
            start_lsn: summary.start_lsn.max(start_lsn),
            limit_lsn: summary.start_lsn,
            first_lsn: first.map(|first: FirstRecord| first.start_lsn),
            first_prev: first.map(|first| first.prev),
            last_lsn: None,
            next_lsn: None,
            is_whole: true,
            unfinished: None,
        };
        run.take(summary);
        run
    }

    /// Takes the next segment; false when it does not follow.
    pub fn push(&mut self, summary: &ScanSummary) -> bool {
        let follows = self.is_whole && summary.start_lsn == self.limit_lsn;
        if follows {
            let first = summary.first_record.filter(|_| self.first_lsn.is_none());
            self.first_lsn = self.first_lsn.or(first.map(|first| first.start_lsn));
            self.first_prev = self.first_prev.or(first.map(|first| first.prev));
            self.take(summary);
        }
        follows
    }

    fn take(&mut self, summary: &ScanSummary) {
        self.limit_lsn = summary.limit_lsn;
        self.last_lsn = summary.last_record.or(self.last_lsn);
        self.next_lsn = summary.next_position.or(self.next_lsn);
        self.is_whole = summary.end.reason == EndReason::Limit;
        let cut_off = matches!(summary.end.reason, EndReason::InputEnds | EndReason::CutShort { .. });
        self.unfinished = summary.next_position.or(summary.end.unfinished).filter(|_| cut_off);
    }

    /// How the part after this one lies to it.
    #[must_use]
    pub fn seam(&self, next: &Self) -> Seam {
        if next.start_lsn < self.limit_lsn {
            return Seam::Overlaps;
        }
        if !self.is_whole {
            return match self.unfinished {
                Some(lsn) if next.start_lsn == self.limit_lsn => Seam::RecordBetween(lsn),
                _ => Seam::Ended,
            };
        }
        if next.start_lsn > self.limit_lsn {
            return Seam::Gap;
        }
        let differs = |one: Option<Lsn>, other: Option<Lsn>| one.zip(other).is_some_and(|(one, other)| one != other);
        match differs(self.next_lsn, next.first_lsn) || differs(self.last_lsn, next.first_prev) {
            true => Seam::DoesNotFollow,
            false => Seam::Fits,
        }
    }
}
