//! What a report says besides plain facts: things that look wrong, and things that could not be looked at.

use std::fmt;

use super::finding_kind::FindingKind;
use crate::cluster::dwb_files::SlotReadError;
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSetError};
use crate::parsers::error::ParseError;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; normal after a crash or a change of settings.
    Note,
    /// Not what a sound cluster looks like.
    Problem,
}

/// One thing worth saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub kind: FindingKind,
    /// How much it matters.
    pub severity: Severity,
    /// File that it is about, relative to the data directory or as given.
    pub file: Option<String>,
    /// Offset in that file, where there is one place.
    pub offset: Option<u64>,
}

impl Finding {
    /// Something that a sound cluster does not show.
    #[must_use]
    pub const fn problem(kind: FindingKind) -> Self {
        Self { kind, severity: Severity::Problem, file: None, offset: None }
    }

    /// Something worth knowing.
    #[must_use]
    pub const fn note(kind: FindingKind) -> Self {
        Self { kind, severity: Severity::Note, file: None, offset: None }
    }

    /// The same, about a file.
    #[must_use]
    pub fn in_file(self, file: &str) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// The same, at an offset of its file.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }
}

/// Something that was not looked at, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// File or part of one.
    pub what: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why something was not looked at. Reports print the sentence; programs compare the variant or its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The user broke it off. What the result lacks.
    Interrupted(&'static str),
    /// The system refused, or it is no file of the kind that belongs there. The error's words.
    Unreadable(String),
    /// It could be read, yet not be made sense of, or was left out for another reason.
    NotExamined(String),
}

impl SkipReason {
    /// The same, said of a part.
    #[must_use]
    pub fn about(self, part: &str) -> Self {
        match self {
            Self::Interrupted(_) => self,
            Self::Unreadable(words) => Self::Unreadable(format!("{part}: {words}")),
            Self::NotExamined(words) => Self::NotExamined(format!("{part}: {words}")),
        }
    }

    /// Stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Interrupted(_) => "interrupted",
            Self::Unreadable(_) => "unreadable",
            Self::NotExamined(_) => "not_examined",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted(what) => write!(f, "interrupted: {what}"),
            Self::Unreadable(words) | Self::NotExamined(words) => f.write_str(words),
        }
    }
}

impl From<&str> for SkipReason {
    fn from(words: &str) -> Self {
        Self::NotExamined(words.to_owned())
    }
}

impl From<String> for SkipReason {
    fn from(words: String) -> Self {
        Self::NotExamined(words)
    }
}

impl From<&AccessError> for SkipReason {
    fn from(error: &AccessError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<AccessError> for SkipReason {
    fn from(error: AccessError) -> Self {
        Self::from(&error)
    }
}

impl From<SlotReadError> for SkipReason {
    fn from(error: SlotReadError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<WalReadError> for SkipReason {
    fn from(error: WalReadError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<WalSetError> for SkipReason {
    fn from(error: WalSetError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<&ParseError> for SkipReason {
    fn from(error: &ParseError) -> Self {
        Self::NotExamined(error.to_string())
    }
}

/// What was examined and what could not be; part of every report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Items that were examined: slots, pages or records, as the report says.
    pub examined: u64,
    /// What was not.
    pub skipped: Vec<Skipped>,
}

impl Coverage {
    /// Counts something that was not looked at.
    pub fn skip(&mut self, what: impl Into<String>, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), reason: reason.into() });
    }

    /// Counts something that was not looked at, unless the same was counted before.
    pub fn skip_once(&mut self, what: impl Into<String>, reason: impl Into<SkipReason>) {
        self.add_once(Skipped { what: what.into(), reason: reason.into() });
    }

    /// Takes over what another part did not look at, without what was counted before.
    pub fn append_once(&mut self, other: Self) {
        other.skipped.into_iter().for_each(|skipped| self.add_once(skipped));
    }

    fn add_once(&mut self, skipped: Skipped) {
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// The user broke it off: the result is partial.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.skipped.iter().any(|skipped| matches!(skipped.reason, SkipReason::Interrupted(_)))
    }
}
