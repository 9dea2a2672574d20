//! What was odd about a set of WAL segments, as findings.

use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::{FindingKind, WalRemark};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cluster::wal::{NoteKind, NoteLevel, WalSet};
use crate::types::Lsn;

/// Turns the notes of a set into findings, and what was left out of it into gaps of the coverage. What is missing before
/// `needed_from` is a note: servers remove old segments one by one in any order, and a crash stops them in between.
pub fn note_set(set: &WalSet, needed_from: Option<Lsn>, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for note in set.notes() {
        let is_old = note.gap_end.zip(needed_from).is_some_and(|(end, needed)| end <= needed);
        let part = note.file.as_ref().map_or(SkippedPart::Wal, SkippedPart::file);
        let what = note.what.clone();
        let finding = match note.level {
            NoteLevel::Skipped => {
                coverage.skip(part, SkipReason::Wal { kind: note.kind, what });
                continue;
            }
            NoteLevel::Problem if !is_old => Finding::problem(remark(note.kind, what)),
            NoteLevel::Problem | NoteLevel::Note => Finding::note(remark(note.kind, what)),
        };
        let finding = finding.in_file(note.file.as_deref().unwrap_or("WAL"));
        findings.push(match note.offset {
            Some(offset) => finding.at(offset),
            None => finding,
        });
    }
}

const fn remark(kind: NoteKind, what: String) -> FindingKind {
    FindingKind::Wal(WalRemark::Note { kind, what })
}
