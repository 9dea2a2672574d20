//! Whether the end of a run of WAL is the end that a server leaves, or damage.

use std::ops::Range;

use super::partial::reader_options;
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::wal::end::{EndKind, EndOfWal};
use crate::parsers::wal::reader::{Event, WalReader};
use crate::parsers::wal::record::{RecordHeader, record_crc};
use crate::types::Lsn;

/// How the end of a run is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// All that was asked for was read.
    Complete,
    /// Nothing newer follows: the end that a running or crashed server leaves.
    EndOfWal,
    /// Sound records follow behind the place: what lies between is damaged.
    RecordsFollow {
        /// Start of the first of them.
        first_lsn: Lsn,
    },
    /// The next run of segments lies behind a gap; reading ended where the files do.
    Gap,
    /// `pg_control` says that WAL was written further.
    BeforeKnownEnd {
        /// Address up to which WAL must exist.
        known_lsn: Lsn,
    },
}

impl Tail {
    /// True when WAL is damaged or missing at the end.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::RecordsFollow { .. } | Self::BeforeKnownEnd { .. })
    }
}

/// Judges how a run ended: looks behind the end for records of the same stream.
///
/// # Errors
/// When a segment behind the end cannot be read.
pub fn judge_tail(set: &WalSet, run: &Range<usize>, end: &EndOfWal) -> Result<Tail, WalReadError> {
    let complete = end.reason.kind() == EndKind::Complete && end.unfinished.is_none();
    if !complete && let Some(first_lsn) = record_behind(set, run, end.at)? {
        return Ok(Tail::RecordsFollow { first_lsn });
    }
    // Segments behind a gap prove that WAL went on: only the end of the files themselves is then no damage.
    if let Some(next) = set.segments().get(run.end) {
        return Ok(match end.reason.kind() {
            EndKind::Complete | EndKind::Torn => Tail::Gap,
            EndKind::Unwritten | EndKind::Stale | EndKind::Damaged => Tail::RecordsFollow { first_lsn: next.start_lsn },
        });
    }
    if let Some(known_lsn) = missing_by_control(set, end.end_of_last.unwrap_or_default()) {
        return Ok(Tail::BeforeKnownEnd { known_lsn });
    }
    Ok(if complete { Tail::Complete } else { Tail::EndOfWal })
}

/// An address that `pg_control` knows to be written and that lies at or behind the last good record's end. It speaks of
/// its own timelines only.
fn missing_by_control(set: &WalSet, end_of_last: Lsn) -> Option<Lsn> {
    let control = set.control()?;
    let checkpoint = (control.checkpoint.tli == set.timeline()).then_some(control.checkpoint_lsn);
    let replayed = (control.min_recovery_timeline == set.timeline()).then_some(control.min_recovery_lsn);
    // The checkpoint's LSN is the start of a record that must be whole; the other is an end.
    let checkpoint = checkpoint.filter(|start| *start >= end_of_last);
    let replayed = replayed.filter(|end| *end > end_of_last);
    checkpoint.max(replayed)
}

/// First sound record behind `at`: in the rest of its page at any place where one can start, in later pages by going on
/// at each that starts one.
fn record_behind(set: &WalSet, run: &Range<usize>, at: Lsn) -> Result<Option<Lsn>, WalReadError> {
    let geometry = set.geometry();
    let page = u64::from(geometry.wal_block_size).max(1);
    if let Some(found) = record_in_rest_of_page(set, run, at)? {
        return Ok(Some(found));
    }
    let next_page = Lsn(at.0.saturating_sub(at.0 % page).saturating_add(page));
    let size = u64::from(geometry.wal_segment_size);
    let mut options = reader_options(set);
    options.resynchronise = true;
    for index in run.clone() {
        let start = set.segments()[index].start_lsn;
        if start.advanced_by(size) <= next_page {
            continue;
        }
        let first = start.max(next_page);
        let mut reader = WalReader::new(options.clone(), first).map_err(WalReadError::Sizes)?;
        let mut bytes = set.reader(index)?;
        let mut skip = first.0 - start.0;
        while let Some(piece) = present(bytes.next_piece())? {
            let passed = skip.min(piece.len() as u64);
            skip -= passed;
            let mut input = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            while let Some(event) = reader.next(&mut input) {
                if let Event::Record(record) = event
                    && record.start_lsn > at
                {
                    return Ok(Some(record.start_lsn));
                }
            }
        }
    }
    Ok(None)
}

/// The piece if there is one; the end for a file that just ends early, as was said when it was found. Any other error
/// stays one: without these bytes an end of WAL must not be called a normal one.
fn present(piece: Result<Option<&[u8]>, WalReadError>) -> Result<Option<&[u8]>, WalReadError> {
    match piece {
        Err(error) if error.is_short() || error.is_behind_the_segment() => Ok(None),
        other => other,
    }
}

/// A record behind `at` that lies inside the same page, told by its checksum.
fn record_in_rest_of_page(set: &WalSet, run: &Range<usize>, at: Lsn) -> Result<Option<Lsn>, WalReadError> {
    let geometry = set.geometry();
    let (page, size) = (u64::from(geometry.wal_block_size).max(1), u64::from(geometry.wal_segment_size));
    let holds = |index: &usize| {
        let start = set.segments()[*index].start_lsn;
        start <= at && at < start.advanced_by(size)
    };
    let Some(index) = run.clone().find(holds) else { return Ok(None) };
    let page_start = at.0 - at.0 % page;
    let from = page_start - set.segments()[index].start_lsn.0;
    let mut bytes = set.reader(index)?;
    let (mut passed, mut content) = (0, Vec::new());
    while passed < from + page
        && let Some(piece) = present(bytes.next_piece())?
    {
        let skip = usize::try_from(from.saturating_sub(passed)).unwrap_or(usize::MAX).min(piece.len());
        passed += piece.len() as u64;
        content.extend_from_slice(&piece[skip..]);
        content.truncate(usize::try_from(page).unwrap_or_default());
    }
    let first = usize::try_from(at.aligned().0 - page_start).unwrap_or(usize::MAX).saturating_add(8);
    let found = (first..content.len()).step_by(8).find(|place| {
        let rest = &content[*place..];
        let Some(length) = rest.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else { return false };
        let whole = usize::try_from(length).ok().filter(|length| *length >= RecordHeader::SIZE);
        let Some(record) = whole.and_then(|length| rest.get(..length)) else { return false };
        RecordHeader::decode(Lsn(0), record).is_ok_and(|header| header.crc == record_crc(record))
    });
    Ok(found.map(|place| Lsn(page_start + place as u64)))
}
