//! What a report says besides plain facts: things that look wrong, and things that could not be looked at.

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; normal after a crash or a change of settings.
    Note,
    /// Not what a sound cluster looks like.
    Problem,
}

/// One thing worth saying, and why it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable name for programs.
    pub kind: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// File that it is about, relative to the data directory or as given.
    pub file: Option<String>,
    /// Offset in that file, where there is one place.
    pub offset: Option<u64>,
    /// What was found.
    pub what: String,
    /// Why it matters, in one line.
    pub why: &'static str,
}

impl Finding {
    /// Something that a sound cluster does not show.
    #[must_use]
    pub fn problem(kind: &'static str, what: String, why: &'static str) -> Self {
        Self { kind, severity: Severity::Problem, file: None, offset: None, what, why }
    }

    /// Something worth knowing.
    #[must_use]
    pub fn note(kind: &'static str, what: String, why: &'static str) -> Self {
        Self { severity: Severity::Note, ..Self::problem(kind, what, why) }
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
    pub reason: String,
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
    pub fn skip(&mut self, what: impl Into<String>, reason: impl ToString) {
        self.skipped.push(Skipped { what: what.into(), reason: reason.to_string() });
    }
}
