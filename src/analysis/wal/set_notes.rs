//! What was odd about a set of WAL segments, as findings.

use crate::analysis::finding::{Coverage, Finding, SkipReason};
use crate::cluster::wal::{NoteKind, NoteLevel, WalSet};

/// Turns the notes of a set into findings, and what was left out of it into gaps of the coverage.
pub fn tell_notes(set: &WalSet, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for note in set.notes() {
        let file = note.file.clone().unwrap_or_else(|| "WAL".to_owned());
        let (kind, what, why) = (note.kind.name(), note.what.clone(), note.kind.why());
        let finding = match note.level {
            NoteLevel::Skipped => {
                let is_unreadable = note.kind == NoteKind::Unreadable;
                let reason = if is_unreadable { SkipReason::Unreadable(what) } else { SkipReason::NotExamined(what) };
                coverage.skip(file, reason);
                continue;
            }
            NoteLevel::Problem => Finding::problem(kind, what, why),
            NoteLevel::Note => Finding::note(kind, what, why),
        };
        let finding = finding.in_file(&file);
        findings.push(match note.offset {
            Some(offset) => finding.at(offset),
            None => finding,
        });
    }
}
