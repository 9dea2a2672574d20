//! What is odd about the input, or was not examined.

use std::collections::BTreeMap;
use std::fmt;

use crate::types::Lsn;

/// Notes of one kind that are kept one by one; more are only counted.
pub const MAX_NOTES_OF_A_KIND: u64 = 200;

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteLevel {
    /// Worth knowing, normal.
    Note,
    /// Not what sound input looks like.
    Problem,
    /// Something was not examined that may hold WAL.
    Skipped,
}

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumIter)]
pub enum NoteKind {
    /// Segments are missing between two that are there.
    Gap,
    /// An earlier state of a segment, of which a later one is used.
    Duplicate,
    /// Two copies of a segment differ inside WAL.
    CopiesDiffer,
    /// WAL of another cluster, left out.
    ForeignSystem,
    /// WAL of another major, or of one that is not known, left out.
    ForeignVersion,
    /// Segment size or WAL page size differs from the others, left out.
    ForeignSize,
    /// The name contradicts the content.
    WrongName,
    /// A file of `pg_wal` that waits to be written again, left out.
    Leftover,
    /// A file of `pg_wal` that was renamed or removed since the directory was listed.
    Recycled,
    /// A file of zeros, left out.
    Unwritten,
    /// A `.partial` file is used.
    PartialUsed,
    /// Not as long as a segment.
    WrongSize,
    /// The input stops early.
    Truncated,
    /// The input goes on after its end.
    TrailingData,
    /// There is no history file of the timeline that is read.
    MissingHistory,
    /// A history file cannot be used.
    BadHistory,
    /// Segments of another timeline, left out.
    OtherTimeline,
    /// The system refused, or the file is of a kind that is not opened.
    Unreadable,
    /// Content that cannot be unpacked.
    CannotUnpack,
    /// Not WAL.
    NotWal,
    /// The first page is damaged, the segment used.
    FirstPageDamaged,
    /// No bytes.
    Empty,
    /// A file whose name the server does not give, not examined.
    Unrecognized,
    /// A limit of this program was reached.
    Limit,
    /// The control file cannot be used.
    Control,
}

impl NoteKind {
    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap => "wal_gap",
            Self::Duplicate => "wal_duplicate",
            Self::CopiesDiffer => "wal_copies_differ",
            Self::ForeignSystem => "wal_foreign_system",
            Self::ForeignVersion => "wal_foreign_version",
            Self::ForeignSize => "wal_foreign_size",
            Self::WrongName => "wal_wrong_name",
            Self::Leftover => "wal_leftover",
            Self::Recycled => "wal_recycled",
            Self::Unwritten => "wal_unwritten",
            Self::PartialUsed => "wal_partial_used",
            Self::WrongSize => "wal_wrong_size",
            Self::Truncated => "wal_truncated",
            Self::TrailingData => "wal_trailing_data",
            Self::MissingHistory => "wal_missing_history",
            Self::BadHistory => "wal_bad_history",
            Self::OtherTimeline => "wal_other_timeline",
            Self::Unreadable => "wal_unreadable",
            Self::CannotUnpack => "wal_cannot_unpack",
            Self::NotWal => "wal_not_wal",
            Self::FirstPageDamaged => "wal_first_page_damaged",
            Self::Empty => "wal_empty",
            Self::Unrecognized => "wal_stranger",
            Self::Limit => "wal_limit",
            Self::Control => "wal_control",
        }
    }

    /// Why it matters, in one line.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Gap => "what happened there is not counted; a server cannot recover across it",
            Self::Duplicate => "what it holds is the beginning of what the other holds",
            Self::CopiesDiffer => "one of the copies is damaged, or two servers wrote on one timeline",
            Self::ForeignSystem => "WAL of two clusters must not be mixed",
            Self::ForeignVersion => "WAL of two versions must not be mixed",
            Self::ForeignSize => "WAL of one cluster has one segment size",
            Self::WrongName => "a server would look for this WAL under another name",
            Self::Leftover => "an old segment waiting under the name of a future one, as servers keep them",
            Self::Recycled => "a running server gives old segments the names of future ones, or removes them",
            Self::Unwritten => "made in advance and never written",
            Self::PartialUsed => "it may end early",
            Self::WrongSize => "a segment file always has the whole size: it was cut, or never fully copied",
            Self::Truncated => "the rest of it is missing",
            Self::TrailingData => "the rest of it was not read",
            Self::MissingHistory => "segments of earlier timelines are not followed without it",
            Self::BadHistory => "segments of earlier timelines are not followed without it",
            Self::OtherTimeline => "one timeline and its ancestors are read; see --timeline",
            Self::Unreadable => "it may hold WAL that is missing here",
            Self::CannotUnpack => "it may hold WAL that is missing here",
            Self::NotWal => "it was not read",
            Self::FirstPageDamaged => "only its name says what it belongs to",
            Self::Empty => "a segment file is never empty",
            Self::Unrecognized => "it was not read",
            Self::Limit => "what comes after the limit was not read",
            Self::Control => "what the cluster expects of its WAL is unknown",
        }
    }
}

/// One odd thing. Displays as `file: what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetNote {
    /// What it is about.
    pub kind: NoteKind,
    /// How much it matters.
    pub level: NoteLevel,
    /// The file, as a path or `archive:member`.
    pub file: Option<String>,
    /// Offset in the file, where there is one.
    pub offset: Option<u64>,
    /// What was found, in words.
    pub what: String,
    /// Where the WAL begins that is missing, where segments are.
    pub wal_start: Option<Lsn>,
    /// Where the WAL ends that is missing, or that was left out and may belong to what is read.
    pub wal_end: Option<Lsn>,
}

impl SetNote {
    pub(super) fn new(kind: NoteKind, level: NoteLevel, file: Option<&str>, what: impl fmt::Display) -> Self {
        Self {
            kind,
            level,
            file: file.map(ToOwned::to_owned),
            offset: None,
            what: what.to_string(),
            wal_start: None,
            wal_end: None,
        }
    }
}

impl fmt::Display for SetNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        f.write_str(&self.what)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " at offset {offset:#x}"))
    }
}

/// Collects notes, so many of each kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    kept: Vec<SetNote>,
    counts: BTreeMap<(NoteKind, NoteLevel), u64>,
}

impl Notes {
    pub(super) fn push(&mut self, note: SetNote) {
        let count = self.counts.entry((note.kind, note.level)).or_default();
        *count = count.saturating_add(1);
        if *count <= MAX_NOTES_OF_A_KIND {
            self.kept.push(note);
        }
    }

    pub(super) fn add(&mut self, level: NoteLevel, kind: NoteKind, file: &str, what: impl fmt::Display) {
        self.push(SetNote::new(kind, level, Some(file), what));
    }

    pub(super) fn add_at(
        &mut self,
        level: NoteLevel,
        kind: NoteKind,
        file: &str,
        offset: u64,
        what: impl fmt::Display,
    ) {
        self.push(SetNote { offset: Some(offset), ..SetNote::new(kind, level, Some(file), what) });
    }

    /// All notes; for a kind of which there were too many, one says how many more.
    pub(super) fn finish(self) -> Vec<SetNote> {
        let mut kept = self.kept;
        for ((kind, level), count) in self.counts {
            if let Some(more) = count.checked_sub(MAX_NOTES_OF_A_KIND).filter(|&more| more > 0) {
                let what = format!("{more} more notes of the kind {}", kind.name());
                kept.push(SetNote::new(kind, level, None, what));
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_a_kind_are_counted_when_there_are_too_many() {
        let mut notes = Notes::default();
        for index in 0..1_000_000 {
            notes.add(NoteLevel::Skipped, NoteKind::Unrecognized, "a", index);
        }
        notes.add_at(NoteLevel::Problem, NoteKind::Truncated, "b.tar", 512, "cut");
        let notes = notes.finish();
        assert_eq!(notes.len(), 202);
        assert_eq!(notes[200].to_string(), "b.tar: cut at offset 0x200");
        assert_eq!(notes[201].to_string(), "999800 more notes of the kind wal_stranger");
    }
}
