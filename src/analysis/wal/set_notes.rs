//! What was odd about a set of WAL segments, as findings.

use crate::analysis::coverage::Coverage;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cluster::wal::{NoteLevel, SetNote, WalSet};
use crate::report::Finding;
use crate::types::Lsn;

/// Which WAL is needed; `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeededWal {
    /// A gap that ends before is a note.
    pub gaps_from: Option<Lsn>,
    /// A gap that starts here or after is a note.
    pub gaps_to: Option<Lsn>,
    /// Segments that end before and were left out are a note.
    pub segments_from: Option<Lsn>,
}

impl NeededWal {
    /// Needed from where replay begins. What is missing before is a note: servers remove old segments one by one in any
    /// order, and a crash stops them in between.
    pub(crate) const fn by_replay(redo_lsn: Option<Lsn>) -> Self {
        Self { gaps_from: redo_lsn, gaps_to: None, segments_from: redo_lsn }
    }
}

/// Turns the notes of a set into findings, and what was left out of it into gaps of the coverage.
pub(crate) fn note_set(set: &WalSet, needed: NeededWal, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    note_all(set.notes(), needed, findings, coverage);
}

/// The same of notes of which there may be no set.
pub(crate) fn note_all(notes: &[SetNote], needed: NeededWal, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for note in notes {
        let ends_before = |needed: Option<Lsn>| note.wal_end.zip(needed).is_some_and(|(end, needed)| end <= needed);
        let starts_after = note.wal_start.zip(needed.gaps_to).is_some_and(|(start, needed)| start >= needed);
        let part = note.file.as_ref().map_or(SkippedPart::Wal, SkippedPart::file);
        let what = note.what.clone();
        let finding = match note.level {
            NoteLevel::Skipped if !ends_before(needed.segments_from) => {
                coverage.skip(part, SkipReason::Wal { kind: note.kind, what });
                continue;
            }
            NoteLevel::Problem if !ends_before(needed.gaps_from) && !starts_after => note.kind.rule().problem(what),
            NoteLevel::Skipped | NoteLevel::Problem | NoteLevel::Note => note.kind.rule().note(what),
        };
        let finding = finding.in_file(note.file.as_deref().unwrap_or("WAL"));
        findings.push(match note.offset {
            Some(offset) => finding.at(offset),
            None => finding,
        });
    }
}
