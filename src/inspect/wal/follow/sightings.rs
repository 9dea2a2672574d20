//! Findings about WAL that is being written: reported once, when they are known to remain.
//!
//! A file that arrives in an archive looks like one that was cut, until it is whole. So a problem is believed when look
//! after look finds the same, for a while, in a file that does not grow. A note is reported immediately.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::analysis::skipped::{SkipReason, Skipped, SkippedPart};
use crate::cluster::wal::NoteKind;
use crate::inspect::wal::rules::AFTER_SEGMENT;
use crate::report::{Finding, Severity};

/// Looks that must find the same until it is believed.
pub(super) const MIN_LOOKS: u32 = 3;

/// Notes of one kind that are reported; more are only counted.
const MAX_NOTES: u64 = 200;

/// Something that looks wrong or is worth knowing, or that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// A finding.
    Finding(Finding),
    /// What was not examined.
    Skipped(Skipped),
}

impl Oddity {
    /// A note, or what is certain at once.
    fn is_certain(&self) -> bool {
        match self {
            Self::Finding(Finding { severity: Severity::Note, .. }) => true,
            Self::Finding(finding) => finding.is(&AFTER_SEGMENT),
            Self::Skipped(_) => false,
        }
    }

    /// A statement about the set of segments: its subject and the file.
    fn subject(&self) -> Option<(NoteKind, Option<&str>)> {
        match self {
            Self::Finding(Finding { rule, file, .. }) => Some((NoteKind::of_rule(rule)?, file.as_deref())),
            Self::Skipped(Skipped { what, reason: SkipReason::Wal { kind, .. }, .. }) => {
                let file = if let SkippedPart::File(file) = what { Some(file.as_str()) } else { None };
                Some((*kind, file))
            }
            _ => None,
        }
    }

    /// Whether it is the same thing, which may have changed since.
    fn is_about_the_same(&self, other: &Self) -> bool {
        let are_findings = matches!(self, Self::Finding(_)) == matches!(other, Self::Finding(_));
        match (self.subject(), other.subject()) {
            (Some(one), Some(other)) => are_findings && one == other,
            _ => self == other,
        }
    }

    /// Bytes of the file that it is about, as it is stored now.
    fn file_bytes(&self) -> Option<u64> {
        let file = self.subject()?.1?;
        fs::metadata(file).ok().map(|metadata| metadata.len())
    }
}

/// Something odd, as the last look found it.
#[derive(Debug)]
struct Sighting {
    oddity: Oddity,
    bytes: Option<u64>,
    since: Instant,
    looks: u32,
    is_told: bool,
}

/// All that is odd now. What is odd no more is forgotten.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    seen: Vec<Sighting>,
    notes: BTreeMap<NoteKind, u64>,
}

impl Sightings {
    /// Takes the findings of a look. Returns those that were not reported before and are certain, or have remained for
    /// `patience`.
    pub(super) fn look(&mut self, found: Vec<Oddity>, patience: Duration) -> Vec<Oddity> {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.seen);
        let mut told = Vec::new();
        for oddity in found {
            let same = before.iter().position(|seen| seen.oddity.is_about_the_same(&oddity));
            let bytes = if oddity.is_certain() { None } else { oddity.file_bytes() };
            let mut seen = match same.map(|index| before.swap_remove(index)) {
                Some(seen) if seen.is_told => Sighting { oddity, ..seen },
                Some(seen) if seen.oddity == oddity && seen.bytes == bytes => {
                    Sighting { looks: seen.looks.saturating_add(1), ..seen }
                }
                _ => Sighting { oddity, bytes, since: now, looks: 1, is_told: false },
            };
            let stays = seen.looks >= MIN_LOOKS && now.duration_since(seen.since) >= patience;
            if !seen.is_told && (seen.oddity.is_certain() || stays) {
                seen.is_told = true;
                if self.is_one_of_few(&seen.oddity) {
                    told.push(seen.oddity.clone());
                }
            }
            self.seen.push(seen);
        }
        told
    }

    /// Counts notes of segments: a server makes many in the course of time.
    fn is_one_of_few(&mut self, oddity: &Oddity) -> bool {
        match oddity {
            Oddity::Finding(Finding { severity: Severity::Note, rule, .. }) => {
                let Some(kind) = NoteKind::of_rule(rule) else { return true };
                let count = self.notes.entry(kind).or_default();
                *count = count.saturating_add(1);
                *count <= MAX_NOTES
            }
            _ => true,
        }
    }

    /// True while something may still turn out to be wrong.
    pub(super) fn is_waiting(&self) -> bool {
        self.seen.iter().any(|seen| !seen.is_told)
    }

    /// Bytes of the files that may still turn out to be wrong.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.seen.iter().filter(|seen| !seen.is_told).filter_map(|seen| seen.bytes).sum()
    }

    pub(super) fn further(&self) -> Vec<Oddity> {
        let further = self.notes.iter().filter_map(|(kind, count)| {
            let more = count.checked_sub(MAX_NOTES).filter(|more| *more > 0)?;
            let what = format!("{more} more notes of the kind {}", kind.name());
            Some(Oddity::Finding(kind.rule().note(what).in_file("WAL")))
        });
        further.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn note(kind: NoteKind, file: &str, what: &str) -> Oddity {
        Oddity::Finding(kind.rule().note(what).in_file(file))
    }

    fn problem(file: &str, what: &str) -> Oddity {
        Oddity::Finding(NoteKind::WrongSize.rule().problem(what).in_file(file))
    }

    #[test]
    fn note_is_said_at_once_and_once_for_each_file() {
        let mut sightings = Sightings::default();
        let old = |file: &str| note(NoteKind::Leftover, file, "old");
        let long = Duration::from_secs(1000);
        assert_eq!(sightings.look(vec![old("1"), old("2")], long), [old("1"), old("2")]);
        assert_eq!(sightings.look(vec![old("2"), old("1"), old("3")], long), [old("3")]);
        assert_eq!(sightings.look(vec![note(NoteKind::Leftover, "2", "older")], long), [], "in other words");
        assert!(!sightings.is_waiting());
    }

    #[test]
    fn problem_is_said_when_it_stays_and_counts_from_its_last_change() {
        let mut sightings = Sightings::default();
        let now = Duration::ZERO;
        for what in ["ends after 1", "ends after 1", "ends after 2", "ends after 2"] {
            assert_eq!(sightings.look(vec![problem("a", what)], now), [], "{what}");
            assert!(sightings.is_waiting());
        }
        assert_eq!(sightings.look(vec![problem("a", "ends after 2")], now), [problem("a", "ends after 2")]);
        assert!(sightings.look(vec![problem("a", "ends after 3")], now).is_empty() && !sightings.is_waiting());
        sightings.look(Vec::new(), now);
        for _ in 0..100 {
            let found = vec![problem("a", "ends after 3")];
            assert_eq!(sightings.look(found, Duration::from_secs(1000)), [], "it was whole between");
        }
    }

    #[test]
    fn file_that_grows_is_not_judged() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let mut sightings = Sightings::default();
        for size in 1..20 {
            file.write_all(&[1]).unwrap();
            assert_eq!(file.path().metadata().unwrap().len(), size);
            assert_eq!(sightings.look(vec![problem(&path, "cut")], Duration::ZERO), [], "{size}");
        }
        assert_eq!(sightings.waiting_bytes(), 19);
        sightings.look(vec![problem(&path, "cut")], Duration::ZERO);
        assert_eq!(sightings.look(vec![problem(&path, "cut")], Duration::ZERO).len(), 1);
    }

    #[test]
    fn more_notes_than_anyone_reads_are_counted() {
        let mut sightings = Sightings::default();
        let told: usize = (0..450)
            .map(|file| sightings.look(vec![note(NoteKind::Leftover, &file.to_string(), "old")], Duration::ZERO).len())
            .sum();
        assert_eq!((told, sightings.seen.len()), (200, 1));
        let further = sightings.further();
        assert_eq!(further, [note(NoteKind::Leftover, "WAL", "250 more notes of the kind wal_leftover")]);
    }
}
