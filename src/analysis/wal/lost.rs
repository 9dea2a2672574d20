//! WAL that should be there and of which no record could be read: the one rule by which damage and missing segments count as
//! not examined, whatever is asked of the WAL.

use crate::analysis::skipped::{SkipReason, Skipped, SkippedPart};
use crate::analysis::wal::walk::DamageReason;
use crate::cluster::wal::{NoteKind, NoteLevel, SetNote};
use crate::parsers::wal::end::EndOfWal;
use crate::types::Lsn;

/// Whether reading continues after damage, at the next page that starts a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resync {
    /// It does not, and cannot be asked to.
    #[default]
    Never,
    /// It does not; it would if it was asked to.
    Off,
    /// It does.
    On,
}

impl Resync {
    /// A request for work that can continue.
    pub const fn of(asked: bool) -> Self {
        if asked { Self::On } else { Self::Off }
    }

    /// True when reading continues.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// WAL that cannot be read up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalDamage {
    /// Reading failed and continued later.
    Gap {
        /// What was found.
        reason: DamageReason,
        /// Where.
        at: Lsn,
        /// End of the last good record before it.
        from: Lsn,
        /// The first good record after it.
        resumed: Option<Lsn>,
    },
    /// More such findings than are kept.
    Further(u64),
    /// Sound records follow the end.
    RecordsFollow {
        /// The end.
        end: EndOfWal,
        /// The first of them.
        first_lsn: Lsn,
        /// WAL between was on disk once.
        was_synced: bool,
    },
    /// `pg_control` knows of later WAL.
    BeforeKnownEnd {
        /// The end.
        end: EndOfWal,
        /// What `pg_control` knows of.
        known_lsn: Lsn,
    },
}

/// What was not read because of damage. `run_end`: the end of the segments that follow each other there.
pub(crate) fn lost_by_damage(damage: &WalDamage, run_end: Lsn) -> Skipped {
    let range = |start: Lsn, end: Option<Lsn>| SkippedPart::LsnRange { start: Some(start), end };
    let what = match damage {
        WalDamage::Gap { from, resumed, .. } => range(*from, Some(resumed.unwrap_or(run_end))),
        WalDamage::Further(_) => SkippedPart::Wal,
        WalDamage::RecordsFollow { end, .. } => range(end.end_of_last.unwrap_or(end.at), Some(run_end)),
        WalDamage::BeforeKnownEnd { end, known_lsn } => range(end.end_of_last.unwrap_or(end.at), Some(*known_lsn)),
    };
    Skipped { what, bytes: None, reason: SkipReason::DamagedWal }
}

/// What is missing by a note of the set, if it says that: segments between others, or the rest of a file. `from`, `to`: where
/// the range begins and ends that is read.
pub(crate) fn lost_by_note(note: &SetNote, from: Option<Lsn>, to: Option<Lsn>) -> Option<Skipped> {
    let lacks_wal = matches!(note.kind, NoteKind::Gap | NoteKind::WrongSize | NoteKind::Truncated | NoteKind::Empty);
    let ends_before = note.wal_end.zip(from).is_some_and(|(end, from)| end <= from);
    let starts_after = note.wal_start.zip(to).is_some_and(|(start, to)| start >= to);
    if note.level != NoteLevel::Problem || !lacks_wal || ends_before || starts_after {
        return None;
    }
    let range = SkippedPart::LsnRange { start: note.wal_start, end: note.wal_end };
    if note.wal_start.is_some() {
        return Some(Skipped { what: range, bytes: None, reason: SkipReason::SegmentsMissing });
    }
    let what = note.file.as_ref().map_or(SkippedPart::Wal, SkippedPart::file);
    Some(Skipped { what, bytes: None, reason: SkipReason::Wal { kind: note.kind, what: note.what.clone() } })
}
