//! Rules, each declared next to its detector, and findings made by them.

use std::fmt;

use crate::types::Lsn;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; normal after a crash or a change of settings.
    Note,
    /// Not what a sound cluster looks like.
    Problem,
}

/// Subject of a rule: its table in `docs/findings.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
pub enum Part {
    /// The cluster as a whole.
    Cluster,
    /// A file or directory of the server is missing or damaged, other than those with pages and WAL: to be brought back from a copy.
    ServerFiles,
    /// The double write buffer.
    DoubleWriteBuffer,
    /// A double write buffer with a control file.
    Ring,
    /// Data directories of MySQL and MariaDB.
    Innodb,
    /// Pages of relations.
    Pages,
    /// WAL.
    Wal,
}

/// Problems that are not about damaged pages, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherProblems {
    /// Of rows, pages and files of the server.
    pub of_data: usize,
    /// Of WAL and double write buffers.
    pub others: usize,
}

/// A kind of finding. One is another only if it is the same declaration.
#[derive(Debug)]
pub struct Rule {
    /// Stable name for programs.
    pub code: &'static str,
    /// Its subject.
    pub part: Part,
    /// Why it matters, in one line; a finding may have a more exact reason.
    pub why: &'static str,
    /// Meaning, for `docs/findings.md`.
    pub means: &'static str,
    /// Action, for `docs/findings.md`.
    pub action: &'static str,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Rule {}

impl Rule {
    /// Something that a sound cluster does not show.
    pub fn problem(&'static self, what: impl Into<String>) -> Finding {
        self.finding(Severity::Problem, what.into())
    }

    /// Something worth knowing.
    pub fn note(&'static self, what: impl Into<String>) -> Finding {
        self.finding(Severity::Note, what.into())
    }

    const fn finding(&'static self, severity: Severity, what: String) -> Finding {
        Finding { rule: self, severity, why: self.why, file: None, offset: None, lsns: None, what }
    }
}

/// Declares rules, and `RULES` of them all, in the order of their tables.
macro_rules! rules {
    ($($name:ident: $part:ident $code:literal, why: $why:expr, means: $means:expr, action: $action:expr;)+) => {
        $(pub(crate) static $name: $crate::report::Rule = $crate::report::Rule {
            code: $code,
            part: $crate::report::Part::$part,
            why: $why,
            means: $means,
            action: $action,
        };)+

        pub(crate) static RULES: &[&$crate::report::Rule] = &[$(&$name),+];
    };
}
pub(crate) use rules;

/// One thing worth saying. Displays as what was found; programs and decisions go by its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub rule: &'static Rule,
    /// How much it matters.
    pub severity: Severity,
    /// Why it matters, in one line.
    pub why: &'static str,
    /// File that it is about, relative to the data directory or as given.
    pub file: Option<String>,
    /// Offset in that file, where there is one.
    pub offset: Option<u64>,
    /// Addresses in WAL from and to which it is about, where that is asked for.
    pub lsns: Option<(Lsn, Lsn)>,
    what: String,
}

impl Finding {
    /// True for a finding of this rule.
    pub(crate) fn is(&self, rule: &'static Rule) -> bool {
        self.rule == rule
    }

    /// Sets a more exact reason than that of the rule.
    pub(crate) fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    pub(crate) fn in_file(self, file: &str) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// Sets the offset in its file.
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// Sets the range of WAL that it is about.
    pub(crate) fn of_wal(self, from: Lsn, to: Lsn) -> Self {
        Self { lsns: Some((from, to)), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.what)
    }
}
