//! Reading segments apart from each other, and putting the answers together.
//!
//! A segment is read on its own from its first record start; records belong to the segment in which they start. The one
//! that starts last may need bytes of the segments that follow. Afterwards [`Joiner`] says whether the parts are what reading
//! in order would have given.

use std::ops::ControlFlow;

use super::end::{EndOfWal, EndReason};
use super::payload::overwritten_lsn;
use super::reader::{Event, FastRun, ReadStep, ReaderError, ReaderOptions, Taken, WalReader};
use super::record::Record;
use super::version::Major;
use crate::types::{Geometry, Lsn, TimelineId};

/// Reads the records that start in one stretch of WAL, usually a segment.
#[derive(Debug)]
pub struct SegmentScan {
    reader: WalReader,
    summary: ScanSummary,
}

/// Facts about a scan that joining needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSummary {
    /// Address of the first byte that was read.
    pub start_lsn: Lsn,
    /// Records that start here or later belong to the next scan.
    pub limit_lsn: Lsn,
    /// The first record that starts in the stretch.
    pub first_record: Option<FirstRecord>,
    /// Start of the last one.
    pub last_record: Option<Lsn>,
    /// Where the next record must start, after the last one or after what was given up.
    pub next_position: Option<Lsn>,
    /// Start of a record that was given up at the very end, to be named by the record that replaces it.
    pub aborted: Option<Lsn>,
    /// Number of records.
    pub records: u64,
    /// How reading ended: [`EndReason::Limit`] unless WAL ends here.
    pub end: EndOfWal,
    /// Where the rest of a record lies with which the first page says that it begins.
    pub continues: Option<Lsn>,
    /// Timelines of the first and of the last page of the stretch.
    pub timelines: Option<(TimelineId, TimelineId)>,
    /// Version of the pages.
    pub major: Option<Major>,
    /// System identifier in the long header.
    pub system_identifier: Option<u64>,
}

/// The first record of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRecord {
    /// Its start.
    pub start_lsn: Lsn,
    /// `xl_prev`.
    pub prev: Lsn,
    /// The record that it replaces, if it is `OVERWRITE_CONTRECORD`.
    pub overwrites: Option<Lsn>,
}

impl ScanSummary {
    #[inline]
    fn note_run(&mut self, geometry: Geometry, run: &FastRun) {
        self.last_record = Some(run.last_record);
        self.next_position = Some(record_position(geometry, run.end_lsn));
        self.aborted = None;
        self.records = self.records.saturating_add(run.records);
    }

    fn note(&mut self, geometry: Geometry, event: &Event<'_>) {
        match event {
            Event::Record(record) => {
                let overwrites = overwritten_lsn(&record.header, record.main_data());
                let first = FirstRecord { start_lsn: record.start_lsn, prev: record.header.prev, overwrites };
                self.first_record.get_or_insert(first);
                let (last_record, end_lsn) = (record.start_lsn, record.end_lsn);
                self.note_run(geometry, &FastRun { records: 1, last_record, end_lsn });
            }
            Event::Aborted(aborted) => {
                self.next_position = Some(record_position(geometry, aborted.missing_lsn));
                self.aborted = Some(aborted.start_lsn);
            }
            Event::Damage(_) => {}
            Event::End(end) => self.end = end.clone(),
        }
    }
}

impl SegmentScan {
    /// A scan of the records that start at or after `start_lsn`, a page boundary, and before `limit_lsn`.
    ///
    /// # Errors
    /// [`ReaderError`], as [`WalReader::new`].
    pub fn new(options: ReaderOptions, start_lsn: Lsn, limit_lsn: Lsn) -> Result<Self, ReaderError> {
        let end = EndOfWal {
            reason: EndReason::InputEnds,
            at: start_lsn,
            unfinished: None,
            last_record: None,
            end_of_last: None,
        };
        let summary = ScanSummary {
            start_lsn,
            limit_lsn,
            first_record: None,
            last_record: None,
            next_position: None,
            aborted: None,
            records: 0,
            end,
            continues: None,
            timelines: None,
            major: options.major,
            system_identifier: options.system_identifier,
        };
        let options = ReaderOptions { limit: Some(limit_lsn), ..options };
        Ok(Self { reader: WalReader::new(options, start_lsn)?, summary })
    }

    /// As [`WalReader::read`]. Give bytes after the limit too, until [`Self::is_finished`].
    #[inline]
    pub fn read(&mut self, input: &mut &[u8], visit: impl FnMut(&Record<'_>) -> ControlFlow<()>) -> ReadStep {
        let (geometry, summary) = (self.reader.geometry(), &mut self.summary);
        self.reader.read_noting(input, visit, |taken| match taken {
            Taken::Fast(run) => summary.note_run(geometry, &run),
            Taken::Event(event) => summary.note(geometry, event),
        })
    }

    /// As [`WalReader::next`]. Give bytes after the limit too, until [`Self::is_finished`].
    pub fn next<'a, 'c: 'a>(&'a mut self, input: &mut &'c [u8]) -> Option<Event<'a>> {
        let geometry = self.reader.geometry();
        let event = self.reader.next(input)?;
        self.summary.note(geometry, &event);
        Some(event)
    }

    /// Address of the next byte of input.
    pub const fn position(&self) -> Lsn {
        self.reader.position()
    }

    /// The result so far.
    pub const fn summary(&self) -> &ScanSummary {
        &self.summary
    }

    /// True once no more input is needed.
    pub const fn is_finished(&self) -> bool {
        self.reader.is_stopped()
    }

    /// Says that no more input comes.
    pub fn finish(mut self) -> ScanSummary {
        self.summary.end = self.reader.finish();
        self.summary.continues = self.reader.continues();
        self.summary.timelines = self.reader.timelines();
        self.summary.major = self.reader.major();
        self.summary.system_identifier = self.reader.system_identifier();
        self.summary
    }
}

/// Where a record starts that follows one with this end: after the page header when that is a page boundary.
pub fn record_position(geometry: Geometry, end_lsn: Lsn) -> Lsn {
    end_lsn.advanced_by(geometry.wal_header_bytes(end_lsn))
}

/// Why scans do not fit together. What follows must be read in order instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinFault {
    /// Reading ended before this scan.
    #[error("WAL ended before")]
    Ended,
    /// The scans do not touch.
    #[error("scan starts at {found}, the one before stopped at {expected}")]
    Gap {
        /// Start of this scan.
        found: Lsn,
        /// Limit of the one before.
        expected: Lsn,
    },
    /// The first record does not start where the one before says.
    #[error("first record at {found}, expected at {expected}")]
    Position {
        /// Where it starts.
        found: Lsn,
        /// Where the one before ends.
        expected: Lsn,
    },
    /// The first page continues a record, but the one before is complete.
    #[error("a record continues at {found}, but the one before is complete")]
    Continuation {
        /// Where the page says so.
        found: Lsn,
    },
    /// The first record does not name the one before.
    #[error("first record follows {found}, but the one before is {expected}")]
    PrevLink {
        /// `xl_prev`.
        found: Lsn,
        /// Start of the last record before.
        expected: Lsn,
    },
    /// The first record replaces another one than was given up.
    #[error("first record does not refer to the record discarded at {expected}")]
    Overwritten {
        /// Start of the record given up.
        expected: Lsn,
    },
    /// Timeline, version or cluster change in a way that reading in order does not accept.
    #[error("pages from another version, cluster or older timeline")]
    Foreign,
}

/// Joins scans in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    limit: Option<Lsn>,
    ended: bool,
    last_record: Option<Lsn>,
    next_position: Option<Lsn>,
    aborted: Option<Lsn>,
    last_tli: Option<TimelineId>,
    major: Option<Major>,
    system_identifier: Option<u64>,
}

impl Joiner {
    /// A joiner that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next scan. When this succeeds for all, reading in order gives the same records and the same end.
    ///
    /// # Errors
    /// [`JoinFault`]; the joiner is then as before, and can take a scan of the same stretch read in order.
    pub fn push(&mut self, scan: &ScanSummary) -> Result<(), JoinFault> {
        if self.ended {
            return Err(JoinFault::Ended);
        }
        if let Some(expected) = self.limit.filter(|&limit| limit != scan.start_lsn) {
            return Err(JoinFault::Gap { found: scan.start_lsn, expected });
        }
        let differs = |before: Option<u64>, after: Option<u64>| before.is_some() && after.is_some() && before != after;
        let backwards = self.last_tli.zip(scan.timelines).is_some_and(|(last, (first, _))| first < last);
        let number = |major: Option<Major>| major.map(|major| u64::from(major.number()));
        if backwards
            || differs(number(self.major), number(scan.major))
            || differs(self.system_identifier, scan.system_identifier)
        {
            return Err(JoinFault::Foreign);
        }
        if let Some(found) = scan.continues.filter(|rest| self.next_position == Some(*rest)) {
            return Err(JoinFault::Continuation { found });
        }
        match &scan.first_record {
            Some(first) => self.check_first(first)?,
            // Nothing starts here: fine while the last record before reaches over it, else WAL ends here.
            None if scan.end.reason == EndReason::Limit => {
                if let Some(expected) = self.next_position.filter(|&next| next < scan.limit_lsn) {
                    return Err(JoinFault::Position { found: scan.limit_lsn, expected });
                }
            }
            None => {}
        }
        self.follow(scan);
        Ok(())
    }

    /// Takes a scan of the next stretch that was begun before it, and so was read in order.
    pub fn follow(&mut self, scan: &ScanSummary) {
        self.limit = Some(scan.limit_lsn);
        self.ended = scan.end.reason != EndReason::Limit;
        if scan.next_position.is_some() {
            self.next_position = scan.next_position;
            self.aborted = scan.aborted;
        }
        self.last_record = scan.last_record.or(self.last_record);
        self.last_tli = scan.timelines.map(|(_, last)| last).or(self.last_tli);
        self.major = scan.major.or(self.major);
        self.system_identifier = scan.system_identifier.or(self.system_identifier);
    }

    /// Start of the last record so far.
    pub const fn last_record(&self) -> Option<Lsn> {
        self.last_record
    }

    fn check_first(&self, first: &FirstRecord) -> Result<(), JoinFault> {
        let found = first.start_lsn;
        if let Some(expected) = self.next_position.filter(|&next| next != found) {
            return Err(JoinFault::Position { found, expected });
        }
        let found = first.prev;
        if let Some(expected) = self.last_record.filter(|&last| last != found) {
            return Err(JoinFault::PrevLink { found, expected });
        }
        match (self.aborted, first.overwrites) {
            (Some(expected), Some(found)) if found != expected => Err(JoinFault::Overwritten { expected }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
