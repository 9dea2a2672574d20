//! Oddities of the input, and parts that were not checked.

use std::collections::BTreeMap;
use std::fmt;

use strum::IntoEnumIterator;

use crate::report::{Rule, rules};
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

/// Subject of a note.
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
    /// The input continues after its end.
    TrailingData,
    /// There is no history file of the timeline that is read.
    MissingHistory,
    /// A history file cannot be used.
    BadHistory,
    /// Segments of another timeline, left out.
    OtherTimeline,
    /// The system refused, or files of this kind are not opened.
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
    pub const fn name(self) -> &'static str {
        self.rule().code
    }

    /// The kind whose findings go by this rule.
    pub(crate) fn of_rule(rule: &Rule) -> Option<Self> {
        Self::iter().find(|kind| kind.rule() == rule)
    }

    /// The rule by which it is a finding.
    pub(crate) const fn rule(self) -> &'static Rule {
        match self {
            Self::Gap => &GAP,
            Self::Duplicate => &DUPLICATE,
            Self::CopiesDiffer => &COPIES_DIFFER,
            Self::ForeignSystem => &FOREIGN_SYSTEM,
            Self::ForeignVersion => &FOREIGN_VERSION,
            Self::ForeignSize => &FOREIGN_SIZE,
            Self::WrongName => &WRONG_NAME,
            Self::Leftover => &LEFTOVER,
            Self::Recycled => &RECYCLED,
            Self::Unwritten => &UNWRITTEN,
            Self::PartialUsed => &PARTIAL_USED,
            Self::WrongSize => &WRONG_SIZE,
            Self::Truncated => &TRUNCATED,
            Self::TrailingData => &TRAILING_DATA,
            Self::MissingHistory => &MISSING_HISTORY,
            Self::BadHistory => &BAD_HISTORY,
            Self::OtherTimeline => &OTHER_TIMELINE,
            Self::Unreadable => &UNREADABLE,
            Self::CannotUnpack => &CANNOT_UNPACK,
            Self::NotWal => &NOT_WAL,
            Self::FirstPageDamaged => &FIRST_PAGE_DAMAGED,
            Self::Empty => &EMPTY,
            Self::Unrecognized => &UNRECOGNIZED,
            Self::Limit => &LIMIT,
            Self::Control => &CONTROL,
        }
    }
}

/// One odd thing. Displays as `file: what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetNote {
    /// Its subject.
    pub kind: NoteKind,
    /// How much it matters.
    pub level: NoteLevel,
    /// The file, as a path or `archive:member`.
    pub file: Option<String>,
    /// Offset in the file, where there is one.
    pub offset: Option<u64>,
    /// The finding in words.
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

rules! {
    GAP: Wal "wal_gap",
        why: "records there are not counted; the server cannot recover across the gap",
        means: "Segments are missing between others",
        action: "Find them: the server cannot recover across the gap";
    DUPLICATE: Wal "wal_duplicate",
        why: "its content is the beginning of the content of the other",
        means: "An earlier state of a segment, of which a later one is used",
        action: "Nothing";
    COPIES_DIFFER: Wal "wal_copies_differ",
        why: "one of the copies is damaged, or two servers wrote on one timeline",
        means: "Two copies of a segment differ inside WAL; the one with valid records to a later LSN is used",
        action: "Replace the damaged copy. If both have valid records, find out which server wrote each";
    FOREIGN_SYSTEM: Wal "wal_foreign_system",
        why: "WAL of two clusters must not be mixed",
        means: "WAL from another cluster",
        action: "Remove it from the input";
    FOREIGN_VERSION: Wal "wal_foreign_version",
        why: "WAL of two versions must not be mixed",
        means: "WAL from another or an unknown major version",
        action: "Remove it from the input";
    FOREIGN_SIZE: Wal "wal_foreign_size",
        why: "WAL of one cluster has one segment size",
        means: "Segment or page size differs",
        action: "Remove it from the input";
    WRONG_NAME: Wal "wal_wrong_name",
        why: "the server would look for this WAL under another name",
        means: "The name contradicts the content",
        action: "The server would look for it under another name";
    LEFTOVER: Wal "wal_leftover",
        why: "an old segment under the name of a future one, as servers keep them",
        means: "An old segment that waits to be overwritten",
        action: "Nothing";
    RECYCLED: Wal "wal_recycled",
        why: "a running server renames old segments to future ones, or removes them",
        means: "A segment was renamed or removed while files were listed",
        action: "Nothing: a server is running";
    UNWRITTEN: Wal "wal_unwritten",
        why: "created in advance and never written",
        means: "A segment created in advance",
        action: "Nothing";
    PARTIAL_USED: Wal "wal_partial_used",
        why: "it may end early",
        means: "A `.partial` file is used",
        action: "It may end early";
    WRONG_SIZE: Wal "wal_wrong_size",
        why: "a segment file always has the full size: it was cut, or never copied completely",
        means: "Not as long as a segment",
        action: "Find a complete copy";
    TRUNCATED: Wal "wal_truncated",
        why: "the rest of it is missing",
        means: "The input stops early",
        action: "Find a complete copy";
    TRAILING_DATA: Wal "wal_trailing_data",
        why: "the rest of it was not read",
        means: "The input continues after its end",
        action: "The rest was not read";
    MISSING_HISTORY: Wal "wal_missing_history",
        why: "segments of earlier timelines are not followed without it",
        means: "The history file of a timeline is missing",
        action: "Add it: earlier timelines are not followed without it";
    BAD_HISTORY: Wal "wal_bad_history",
        why: "segments of earlier timelines are not followed without it",
        means: "A history file cannot be used",
        action: "Add it: earlier timelines are not followed without it";
    OTHER_TIMELINE: Wal "wal_other_timeline",
        why: "one timeline and its ancestors are read; see --timeline",
        means: "Segments from another timeline. Not checked if a missing history file, or a missing segment of the \
            timeline that is read, leaves open whether they belong to it",
        action: "Add the history file or the segment; for another timeline use `--timeline`";
    UNREADABLE: Wal "wal_unreadable",
        why: "it may contain WAL that is missing here",
        means: "The system denied access, or files of this kind are not opened",
        action: "See the reason";
    CANNOT_UNPACK: Wal "wal_cannot_unpack",
        why: "it may contain WAL that is missing here",
        means: "Content that cannot be decompressed",
        action: "Decompress it by other means";
    NOT_WAL: Wal "wal_not_wal",
        why: "it was not read",
        means: "The file is not WAL",
        action: "Nothing";
    FIRST_PAGE_DAMAGED: Wal "wal_first_page_damaged",
        why: "only its name identifies it",
        means: "The first page of a segment is damaged",
        action: "Only its name identifies it";
    EMPTY: Wal "wal_empty",
        why: "a segment file is never empty",
        means: "A segment without bytes",
        action: "Find a complete copy";
    UNRECOGNIZED: Wal "wal_stranger",
        why: "a segment has a name of 24 hexadecimal digits, then nothing, .partial or the ending of a codec; any other file is \
            read only when it is given itself",
        means: "A file with a name that the server never uses, such as a segment renamed by hand",
        action: "Pass the file itself, or rename it in a copy of the directory";
    LIMIT: Wal "wal_limit",
        why: "later WAL was not read",
        means: "A limit of this program was reached",
        action: "The rest was not read";
    CONTROL: Wal "wal_control",
        why: "the WAL that the cluster needs is unknown",
        means: "`pg_control` cannot be used",
        action: "The WAL that the cluster needs is unknown";
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
