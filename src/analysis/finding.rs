//! What a report says besides plain facts: things that look wrong, and what was examined.

use super::finding_kind::FindingKind;
use super::skipped::{ByteRange, SkipClass, SkipReason, Skipped, SkippedPart};

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
    /// Offset in that file, where there is one.
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

    pub(crate) fn in_file(self, file: &str) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// The same, at an offset of its file.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
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
    /// Counts something that was not examined.
    pub fn skip(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Counts bytes of a file that were not examined.
    pub(crate) fn skip_bytes(&mut self, what: impl Into<SkippedPart>, bytes: ByteRange, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: Some(bytes), reason: reason.into() });
    }

    /// Counts something that was not examined, unless the same was counted before.
    pub(crate) fn skip_once(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.add_once(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Takes over what another part did not examine, without what was counted before.
    pub(crate) fn append_once(&mut self, other: Self) {
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
        self.skipped.iter().any(|skipped| skipped.reason.class() == SkipClass::Interrupted)
    }
}
