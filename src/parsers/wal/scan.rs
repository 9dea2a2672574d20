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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::wal::testing::{PAGE, SEGMENT, WalWriter};

    const FIRST: u64 = 5 << 20;

    fn options() -> ReaderOptions {
        ReaderOptions::new(Geometry {
            block_size: 8192,
            rel_segment_blocks: 131_072,
            wal_block_size: PAGE as u32,
            wal_segment_size: SEGMENT as u32,
        })
    }

    /// Starts of the records in one stretch, and the summary.
    fn scan(writer: &WalWriter, from: u64, to: u64) -> (Vec<u64>, ScanSummary) {
        let mut scan = SegmentScan::new(options(), Lsn(from), Lsn(to)).unwrap();
        let mut starts = Vec::new();
        for mut piece in writer.bytes[(from - writer.first) as usize..].chunks(700) {
            while let Some(event) = scan.next(&mut piece) {
                if let Event::Record(record) = event {
                    starts.push(record.start_lsn.0);
                }
            }
            if scan.is_finished() {
                break;
            }
        }
        (starts, scan.finish())
    }

    fn stretches(writer: &WalWriter, length: u64) -> Vec<(Vec<u64>, ScanSummary)> {
        let end = writer.lsn();
        let ends = (writer.first..end).step_by(length as usize);
        ends.map(|from| scan(writer, from, from + length)).collect()
    }

    fn starts(writer: &WalWriter) -> Vec<u64> {
        writer.records.iter().map(|record| record.0).collect()
    }

    fn joined(parts: &[(Vec<u64>, ScanSummary)]) -> Result<Vec<u64>, JoinFault> {
        let mut joiner = Joiner::new();
        let mut all = Vec::new();
        for (starts, summary) in parts {
            joiner.push(summary)?;
            all.extend(starts);
        }
        Ok(all)
    }

    fn sample() -> WalWriter {
        let mut writer = WalWriter::new(FIRST);
        for length in [100, 9000, 0, 255, 4000, 900, 12000, 8, 60, 3000] {
            writer.heap(length);
        }
        writer
    }

    #[test]
    fn parts_of_any_length_add_up() {
        let writer = sample();
        for pages in [1, 2, 3, 5, 16] {
            assert_eq!(joined(&stretches(&writer, pages * PAGE as u64)), Ok(starts(&writer)), "{pages}");
        }
    }

    #[test]
    fn timelines_of_pages_after_the_limit_belong_to_the_next_part() {
        let mut writer = sample();
        // The second record goes through the first ten pages.
        for (page, tli) in
            [(5, 2), (6, 2), (7, 3)].into_iter().chain((8..writer.bytes.len().div_ceil(PAGE)).map(|p| (p, 4)))
        {
            writer.bytes[page * PAGE + 4] = tli;
        }
        assert_eq!(joined(&stretches(&writer, PAGE as u64)), Ok(starts(&writer)));
        writer.bytes[7 * PAGE + 4] = 1;
        assert!(joined(&stretches(&writer, PAGE as u64)).is_err());
    }

    #[test]
    fn a_record_longer_than_a_segment_leaves_a_part_without_records() {
        let mut writer = WalWriter::new(FIRST);
        writer.heap(500);
        writer.heap(2 * SEGMENT + 5000);
        writer.heap(10);
        let parts = stretches(&writer, SEGMENT as u64);
        assert_eq!(parts.iter().map(|(starts, _)| starts.len()).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(joined(&parts), Ok(starts(&writer)));
    }

    #[test]
    fn a_switch_is_followed_by_the_next_segment() {
        let mut writer = sample();
        writer.record(0, 0x40, &[]);
        writer.bytes.resize(SEGMENT, 0);
        writer.heap(10);
        let parts = stretches(&writer, SEGMENT as u64);
        assert_eq!(joined(&parts), Ok(starts(&writer)));
        assert_eq!(parts[0].1.next_position, Some(Lsn(FIRST + SEGMENT as u64 + 40)));
    }

    #[test]
    fn a_record_given_up_at_the_seam_is_checked_by_the_joiner() {
        let seam = FIRST + 4 * PAGE as u64;
        let with = |named: u64| {
            let mut writer = WalWriter::new(FIRST);
            writer.heap(3000);
            let last = writer.prev;
            let lost_record = writer.built(10, 0, &[0; 3000]);
            let lost = writer.raw(&lost_record);
            writer.bytes.truncate(4 * PAGE);
            writer.prev = last;
            writer.header(0, 0x08);
            writer.record(0, 0xD0, &[&[255, 16][..], &(lost + named).to_le_bytes(), &[0; 8]].concat());
            writer.heap(10);
            let parts = [scan(&writer, FIRST, seam), scan(&writer, seam, seam + 4 * PAGE as u64)];
            assert_eq!(parts[0].1.aborted, Some(Lsn(lost)));
            (joined(&parts), starts(&writer), lost)
        };
        let (found, expected, _) = with(0);
        assert_eq!(found, Ok(expected));
        let (found, _, lost) = with(8);
        assert_eq!(found, Err(JoinFault::Overwritten { expected: Lsn(lost) }));
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_refused() {
        let writer = sample();
        let parts = stretches(&writer, 4 * PAGE as u64);
        let with = |change: fn(&mut ScanSummary)| {
            let mut changed = parts.clone();
            // The first part with a record in it, after the first one.
            let part = changed[1..].iter_mut().find(|part| part.1.first_record.is_some()).unwrap();
            change(&mut part.1);
            joined(&changed).unwrap_err()
        };
        let at = |summary: &mut ScanSummary| summary.first_record.as_mut().unwrap().start_lsn = Lsn(8);
        assert!(matches!(with(at), JoinFault::Position { found: Lsn(8), .. }));
        let prev = |summary: &mut ScanSummary| summary.first_record.as_mut().unwrap().prev = Lsn(8);
        assert!(matches!(with(prev), JoinFault::PrevLink { found: Lsn(8), .. }));
        assert!(matches!(with(|summary| summary.start_lsn = Lsn(8)), JoinFault::Gap { found: Lsn(8), .. }));
        assert_eq!(with(|summary| summary.major = Some(Major::V15)), JoinFault::Foreign);
        assert_eq!(with(|summary| summary.timelines = Some((TimelineId(0), TimelineId(0)))), JoinFault::Foreign);
        assert_eq!(with(|summary| summary.end.reason = EndReason::ZeroLength), JoinFault::Ended);
    }

    proptest! {
        #[test]
        fn parts_add_up_or_the_joiner_objects(
            lengths in prop::collection::vec(0_usize..3500, 1..15), pages in 1_u64..6,
            offset in any::<usize>(), bit in 0_u8..8, damage in any::<bool>(),
        ) {
            let mut writer = WalWriter::new(FIRST);
            for length in lengths {
                writer.heap(length);
            }
            if damage {
                let offset = offset % writer.bytes.len();
                writer.bytes[offset] ^= 1 << bit;
            }
            let (in_order, whole) = scan(&writer, FIRST, writer.lsn().next_multiple_of(PAGE as u64));
            let parts = stretches(&writer, pages * PAGE as u64);
            let mut joiner = Joiner::new();
            let mut apart = Vec::new();
            let mut complete = true;
            for (starts, summary) in &parts {
                if joiner.push(summary).is_err() {
                    complete = false;
                    break;
                }
                apart.extend(starts);
            }
            // What was joined is always right; only damage keeps parts from joining.
            prop_assert!(in_order.starts_with(&apart), "{:?} {:?}", in_order, apart);
            if complete {
                prop_assert_eq!(&apart, &in_order);
            }
            prop_assert!(complete || damage);
            prop_assert!(damage || whole.end.reason != EndReason::ZeroLength);
        }
    }

    /// Only together with the part before it shows that no record continues.
    #[test]
    fn a_page_that_continues_nothing_is_refused() {
        let mut writer = WalWriter::new(FIRST);
        // A record that ends with its page.
        writer.heap(PAGE - 40 - 24 - 5);
        let seam = writer.lsn();
        assert_eq!(seam, FIRST + PAGE as u64);
        writer.heap(100);
        let parts = |writer: &WalWriter| [scan(writer, FIRST, seam), scan(writer, seam, seam + PAGE as u64)];
        assert_eq!(joined(&parts(&writer)), Ok(starts(&writer)));
        writer.bytes[PAGE + 2] |= 1;
        let (in_order, whole) = scan(&writer, FIRST, seam + PAGE as u64);
        assert_eq!((in_order.len(), whole.end.at), (starts(&writer).len() - 1, Lsn(seam)));
        assert_eq!(joined(&parts(&writer)), Err(JoinFault::Continuation { found: Lsn(seam + 24) }));
    }
}
