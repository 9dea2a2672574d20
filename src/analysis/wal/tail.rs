//! Whether the end of a run of WAL is the end that a server leaves, or damage.

use std::ops::Range;

use super::partial::reader_options;
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::wal::end::{EndKind, EndOfWal};
use crate::parsers::wal::reader::{Event, WalReader};
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
    if end.reason.kind() == EndKind::Complete && end.unfinished.is_none() {
        return Ok(Tail::Complete);
    }
    if let Some(first_lsn) = record_behind(set, run, end.at)? {
        return Ok(Tail::RecordsFollow { first_lsn });
    }
    let known = set.control().map(|control| {
        let replayed = if control.is_in_archive_recovery() { control.min_recovery_lsn } else { Lsn::INVALID };
        control.checkpoint_lsn.max(replayed)
    });
    let written = end.end_of_last.unwrap_or_default();
    Ok(match known {
        Some(known_lsn) if known_lsn > written && known_lsn >= set.segments()[run.start].start_lsn => {
            Tail::BeforeKnownEnd { known_lsn }
        }
        _ => Tail::EndOfWal,
    })
}

/// First sound record behind `at`, found by going on at each next page that starts one.
fn record_behind(set: &WalSet, run: &Range<usize>, at: Lsn) -> Result<Option<Lsn>, WalReadError> {
    let geometry = set.geometry();
    let page = u64::from(geometry.wal_block_size).max(1);
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
        while let Ok(Some(piece)) = bytes.next_piece() {
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
