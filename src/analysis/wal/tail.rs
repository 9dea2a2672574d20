//! Distinguishes the normal end of a run of WAL from damage.
//!
//! Bytes after the end prove something only when they belong to the same stream. A recycled segment holds old WAL with its
//! old addresses until the server overwrites it. So a record after the end counts when its predecessor is at or after the
//! end, or is the last good record. In pages after that of the end, the page must also have its own address.
//!
//! The server writes its last page as a whole while sessions still add records to it. Bytes of that page after the flushed
//! address may be incomplete: a crash under load leaves zeros instead of a record, valid records after them in the same
//! page, and nothing in later pages.
//!
//! Source: `XLogWrite`, `CopyXLogRecordToWAL`, `src/backend/access/transam/xlog.c`.
//! Also here: the chain of WAL records in one run of segments: what was counted, and what its end is.

use std::ops::Range;

use strum::IntoStaticStr;

use super::segment::{Extent, Visitor, reader_options};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::wal::end::{EndKind, EndOfWal, EndReason};
use crate::parsers::wal::reader::{Event, WalReader};
use crate::parsers::wal::record::{Record, RecordHeader, record_crc};
use crate::types::{Lsn, TimelineId};

/// How often the end is examined again while WAL changes.
const MAX_LOOKS: usize = 20;

/// Meaning of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// All that was asked for was read.
    Complete,
    /// Nothing newer follows: the end that a running or crashed server leaves.
    EndOfWal,
    /// WAL was written or its files were renamed between two looks at the end: a server is at work.
    Changing {
        /// Where reading ended the last time.
        end_lsn: Lsn,
    },
    /// Sound records follow later: what lies between is damaged, or was never synced.
    RecordsFollow {
        /// Start of the first of them.
        first_lsn: Lsn,
        /// What lies between had been synced, so it is damaged. Else it can be what a power cut leaves.
        was_synced: bool,
    },
    /// Sound records follow in the page that was written last, after one that was not finished: a server that works, or
    /// that stopped at once under load. None of them was flushed.
    UnfinishedPage {
        /// Start of the first of them.
        first_lsn: Lsn,
    },
    /// The next run of segments lies after a gap; reading ended where the files do.
    Gap,
    /// `pg_control` says that WAL was written further.
    BeforeKnownEnd {
        /// Address up to which WAL must exist.
        known_lsn: Lsn,
    },
}

impl Tail {
    /// True when WAL is damaged or missing at the end.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::RecordsFollow { .. } | Self::BeforeKnownEnd { .. })
    }
}

/// Judges how a run ended: looks after the end for records of the same stream. Before anything is called damage, the end
/// is read again: a server may have gone on writing since.
pub(crate) fn judge_tail(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<Tail, WalReadError> {
    let mut last = end.clone();
    for _ in 0..MAX_LOOKS {
        let judged = judge_once(set, run, &last).and_then(|tail| {
            let again = if tail.is_damage() { Some(read_again(set, run, &last)?) } else { None };
            Ok((tail, again.filter(|again| *again != last)))
        });
        match judged {
            Ok((_, Some(again))) => last = again,
            Ok((tail, None)) if last == *end => return Ok(tail),
            Ok(_) => break,
            Err(error) if error.is_gone() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Tail::Changing { end_lsn: last.end_of_last.unwrap_or(last.at) })
}

/// True when reading ended in the last file of a run. A file before it that ends too early, perhaps between two records,
/// looks complete: what the segments after it hold tells.
pub(crate) fn ends_in_last_file(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> bool {
    let last = run.clone().next_back().and_then(|last| set.segments().get(last));
    last.is_none_or(|last| last.start_lsn <= end.at)
}

/// How far that reaches which could not be read: where reading failed, or the end that a record of which the checksum is wrong
/// gives itself.
pub(crate) fn failed_until(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<Lsn, WalReadError> {
    Ok(in_rest_of_page(set, run, end)?.failed_to.max(end.at))
}

fn judge_once(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<Tail, WalReadError> {
    let complete =
        end.reason.kind() == EndKind::Complete && end.unfinished.is_none() && ends_in_last_file(set, run, end);
    let known_lsn = missing_by_control(set, end.end_of_last.unwrap_or(failure_lsn(end)));
    if !complete && let Some(found) = find_after(set, run, end)? {
        let first_lsn = found.first_lsn;
        if found.place == LaterPlace::UnfinishedPage && known_lsn.is_none() {
            return Ok(Tail::UnfinishedPage { first_lsn });
        }
        let was_synced = found.place == LaterPlace::LaterSegment || known_lsn.is_some();
        return Ok(Tail::RecordsFollow { first_lsn, was_synced });
    }
    // Segments after a gap prove that WAL continued: only the end of the files themselves is then no damage.
    if let Some(next) = set.segments().get(run.end) {
        return Ok(match end.reason.kind() {
            EndKind::Complete | EndKind::Torn => Tail::Gap,
            EndKind::Unwritten | EndKind::Stale | EndKind::Damaged => {
                Tail::RecordsFollow { first_lsn: next.start_lsn, was_synced: true }
            }
        });
    }
    if let Some(known_lsn) = known_lsn {
        return Ok(Tail::BeforeKnownEnd { known_lsn });
    }
    Ok(if complete { Tail::Complete } else { Tail::EndOfWal })
}

/// An address at or after the end of the last good record that, according to `pg_control`, was written. It only holds for
/// the timelines of `pg_control`.
fn missing_by_control(set: &WalSet, end_of_last: Lsn) -> Option<Lsn> {
    let control = set.control()?;
    let checkpoint = (control.checkpoint.tli == set.timeline()).then_some(control.checkpoint_lsn);
    let replayed = (control.min_recovery_timeline == set.timeline()).then_some(control.min_recovery_lsn);
    // The checkpoint's LSN is the start of a record that must be whole; the other is an end.
    let checkpoint = checkpoint.filter(|start| *start >= end_of_last);
    let replayed = replayed.filter(|end| *end > end_of_last);
    checkpoint.max(replayed)
}

/// Start of what could not be read: the record that was being collected, or the LSN of the failure itself.
fn failure_lsn(end: &EndOfWal) -> Lsn {
    end.unfinished.unwrap_or(end.at)
}

/// The segment of the run that holds an address.
fn segment_of(set: &WalSet, run: &Range<usize>, lsn: Lsn) -> Option<usize> {
    let size = u64::from(set.geometry().wal_segment_size);
    run.clone().find(|index| {
        let start = set.segments()[*index].start_lsn;
        start <= lsn && lsn < start.advanced_by(size)
    })
}

/// WAL of the same stream after the end.
struct LaterWal {
    first_lsn: Lsn,
    place: LaterPlace,
}

/// Where WAL after the end lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaterPlace {
    /// In the page of the end alone, and zeros are where a record would start.
    UnfinishedPage,
    SameSegment,
    /// Some of it lies in a later segment than all that could not be read. A server syncs a segment before it writes into
    /// the next, so what could not be read had been synced.
    ///
    /// Source: `XLogWrite`, `src/backend/access/transam/xlog.c`; `XLogWalRcvWrite`, `src/backend/replication/walreceiver.c`.
    LaterSegment,
}

/// True when a record that starts at `start` and names `prev` as the one before it belongs to the stream that ends at `end`.
fn is_of_stream(end: &EndOfWal, start: Lsn, prev: Lsn, segment_size: u64) -> bool {
    if prev >= start {
        return false;
    }
    match end.last_record {
        Some(last) => prev == last || prev >= failure_lsn(end),
        // Old content of a recycled segment lies a whole segment or more before its address.
        None => start.bytes_since(prev).is_some_and(|distance| distance < segment_size),
    }
}

/// Looks for WAL of the same stream after the end: in the rest of its page at any address where a record can start, in later
/// pages by continuing at each that starts one.
fn find_after(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<Option<LaterWal>, WalReadError> {
    let geometry = set.geometry();
    let size = u64::from(geometry.wal_segment_size);
    let page = u64::from(geometry.wal_block_size).max(1);
    let PageRest { mut first_lsn, failed_to, is_unfinished } = in_rest_of_page(set, run, end)?;
    let mut in_later_page = false;
    let next_page = Lsn(end.at.0.saturating_sub(end.at.0.checked_rem(page).unwrap_or_default()).saturating_add(page));
    let mut options = reader_options(set);
    options.resynchronise = true;
    // Records that follow on each other belong together: the first of them shows of which stream they are.
    let mut stretch = None;
    for index in run.clone() {
        let start = set.segments()[index].start_lsn;
        let is_later = start > end.at && start >= failed_to;
        // Where nothing can be unfinished, one record is enough.
        let is_known = first_lsn.is_some() && (in_later_page || !is_unfinished);
        if start.advanced_by(size) <= next_page || is_known && !is_later {
            continue;
        }
        let from = start.max(next_page);
        let mut reader = WalReader::new(options.clone(), from).map_err(WalReadError::Sizes)?;
        let mut bytes = set.reader(index)?;
        let (mut skip, mut delivered) = (from.0.saturating_sub(start.0), 0_u64);
        'segment: while let Some(piece) = present(bytes.next_piece())? {
            delivered = delivered.saturating_add(piece.len() as u64);
            let passed = skip.min(piece.len() as u64);
            skip = skip.saturating_sub(passed);
            let mut input = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            while let Some(event) = reader.next(&mut input) {
                match event {
                    Event::Record(record) if record.start_lsn > end.at => {
                        let (own_start, prev) = (record.start_lsn, record.header.prev);
                        if *stretch.get_or_insert_with(|| is_of_stream(end, own_start, prev, size)) {
                            first_lsn.get_or_insert(own_start);
                            in_later_page = true;
                            break 'segment;
                        }
                    }
                    Event::Damage(_) => stretch = None,
                    Event::Record(_) | Event::Aborted(_) | Event::End(_) => {}
                }
            }
        }
        if delivered < size {
            stretch = None;
        }
        // A page with its own address was written, whether a record starts in it or not.
        let was_written = reader.timelines().is_some();
        if is_later && was_written {
            return Ok(Some(LaterWal { first_lsn: first_lsn.unwrap_or(from), place: LaterPlace::LaterSegment }));
        }
        in_later_page |= was_written;
    }
    let place = if is_unfinished && !in_later_page { LaterPlace::UnfinishedPage } else { LaterPlace::SameSegment };
    Ok(first_lsn.map(|first_lsn| LaterWal { first_lsn, place }))
}

/// The piece, or the end for a file that ends early (reported when it was found). Other errors remain errors: without
/// these bytes, an end of WAL must not be called normal.
fn present(piece: Result<Option<&[u8]>, WalReadError>) -> Result<Option<&[u8]>, WalReadError> {
    match piece {
        Err(error) if error.is_short() || error.is_past_the_segment() => Ok(None),
        other => other,
    }
}

/// What the page of the end holds after it.
struct PageRest {
    /// Start of a record of the same stream, known by its checksum.
    first_lsn: Option<Lsn>,
    failed_to: Lsn,
    /// Zeros are where a record would start, so a server may not have put it there yet.
    is_unfinished: bool,
}

/// Looks for a record of the same stream after the end and inside the same page.
fn in_rest_of_page(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<PageRest, WalReadError> {
    let geometry = set.geometry();
    let (page, size) = (u64::from(geometry.wal_block_size).max(1), u64::from(geometry.wal_segment_size));
    let at = end.at;
    let Some(index) = segment_of(set, run, at) else {
        return Ok(PageRest { first_lsn: None, failed_to: at, is_unfinished: false });
    };
    let page_start = at.0.saturating_sub(at.0.checked_rem(page).unwrap_or_default());
    let from = page_start.saturating_sub(set.segments()[index].start_lsn.0);
    let mut bytes = set.reader(index)?;
    let (mut passed, mut content) = (0, Vec::new());
    while passed < from.saturating_add(page)
        && let Some(piece) = present(bytes.next_piece())?
    {
        let skip = usize::try_from(from.saturating_sub(passed)).unwrap_or(usize::MAX).min(piece.len());
        passed = passed.saturating_add(piece.len() as u64);
        content.extend_from_slice(&piece[skip..]);
        content.truncate(usize::try_from(page).unwrap_or_default());
    }
    let length_at = |offset: usize| {
        let bytes = content.get(offset..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let end_offset = usize::try_from(at.0.saturating_sub(page_start)).unwrap_or(usize::MAX);
    // A record that failed as a whole may have failed in its last byte.
    let failed_to = match end.reason {
        EndReason::Checksum { .. } | EndReason::Body(_) if end.at != Lsn(page_start) => {
            geometry.wal_record_end(at, length_at(end_offset).map_or(0, u64::from))
        }
        EndReason::Header(_) => geometry.wal_record_end(at, RecordHeader::SIZE as u64),
        _ => at,
    };
    let first = usize::try_from(at.aligned().0.saturating_sub(page_start)).unwrap_or(usize::MAX).saturating_add(8);
    let found = (first..content.len()).step_by(8).find(|offset| {
        let rest = &content[*offset..];
        let whole = length_at(*offset).and_then(|length| usize::try_from(length).ok());
        let whole = whole.filter(|length| *length >= RecordHeader::SIZE);
        let Some(record) = whole.and_then(|length| rest.get(..length)) else { return false };
        let start = Lsn(page_start.saturating_add(*offset as u64));
        RecordHeader::decode(start, record)
            .is_ok_and(|header| is_of_stream(end, start, header.prev, size) && header.crc == record_crc(record))
    });
    let header = content.get(end_offset..).and_then(|rest| rest.first_chunk::<{ RecordHeader::SIZE }>());
    let is_zero = header.is_some_and(|header| header.iter().all(|byte| *byte == 0));
    Ok(PageRest {
        first_lsn: found.map(|offset| Lsn(page_start.saturating_add(offset as u64))),
        failed_to,
        is_unfinished: is_zero && end.unfinished.is_none() && end.last_record.is_some(),
    })
}

/// True when reading still fails at `at` or before, after the good record that starts at `last_record`: nobody has written
/// there since. What cannot be read again is believed to be as it was.
pub(crate) fn still_fails(set: &WalSet, run: &Range<usize>, at: Lsn, last_record: Option<Lsn>) -> bool {
    let end = EndOfWal { reason: EndReason::InputEnds, at, unfinished: None, last_record, end_of_last: None };
    match read_again(set, run, &end) {
        Ok(again) => again.at <= at,
        Err(error) => !error.is_gone(),
    }
}

/// Reads again from the last good record on: where WAL ends now, or in another set.
///
/// # Errors
/// When a segment cannot be read.
pub fn read_again(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<EndOfWal, WalReadError> {
    let geometry = set.geometry();
    let page = u64::from(geometry.wal_block_size).max(1);
    let context = end.last_record.unwrap_or(failure_lsn(end));
    let Some(index) = segment_of(set, run, context) else { return Ok(end.clone()) };
    let segment_start = set.segments()[index].start_lsn;
    // Without a record to begin with, everything that the first reading knew of this segment is needed.
    let first = if end.last_record.is_some() {
        Lsn(context.0.saturating_sub(context.0.checked_rem(page).unwrap_or_default()))
    } else {
        segment_start
    };
    let mut reader = WalReader::new(reader_options(set), first).map_err(WalReadError::Sizes)?;
    let mut skip = first.0.saturating_sub(segment_start.0);
    for index in index..run.end {
        let mut bytes = set.reader(index)?;
        let mut delivered = 0_u64;
        while let Some(piece) = present(bytes.next_piece())? {
            delivered = delivered.saturating_add(piece.len() as u64);
            let passed = skip.min(piece.len() as u64);
            skip = skip.saturating_sub(passed);
            let mut input = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            while reader.next(&mut input).is_some() {}
            if reader.is_stopped() {
                return Ok(reader.finish());
            }
        }
        if delivered < u64::from(geometry.wal_segment_size) {
            break;
        }
    }
    Ok(reader.finish())
}

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
