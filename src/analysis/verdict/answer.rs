//! Answer of a check, shown as the exit status. `docs/verdicts.md` has the reasons.

use super::outlook::{Outlook, Start};
use super::survey::PageReport;
use crate::analysis::skipped::Coverage;
use crate::analysis::start::doubt::Doubt;
use crate::report::{Finding, Severity};

/// The answer, the more careful one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Startup works without data loss.
    Fine,
    /// Problems were found.
    Wrong,
    /// The result of startup is uncertain.
    Uncertain,
}

impl Answer {
    /// The answer for a cluster with these pages; that of findings and of what was not examined ([`Self::of_findings`]) comes
    /// on top. `outlook`: how a start will go, where that was asked for; `unseen_tears`:
    /// pages can be torn without a sign of it.
    pub fn of<'a>(
        pages: impl IntoIterator<Item = &'a PageReport>,
        doubts: &[Doubt],
        outlook: Option<&Outlook>,
        unseen_tears: bool,
    ) -> Self {
        let of_pages = if pages.into_iter().any(needs_something) { Self::Wrong } else { Self::Fine };
        let of_doubts = doubts.iter().map(Self::of_doubt).max().unwrap_or(Self::Fine);
        let of_start = outlook.map_or(Self::Fine, Self::of_start);
        let of_tears = if unseen_tears { Self::Uncertain } else { Self::Fine };
        of_pages.max(of_doubts).max(of_start).max(of_tears)
    }

    /// The answer of a run with so many problems among its findings, and so many things that were not examined.
    pub(crate) const fn of_counts(problems: usize, skipped: usize) -> Self {
        match (problems, skipped) {
            (0, 0) => Self::Fine,
            (_, 0) => Self::Wrong,
            _ => Self::Uncertain,
        }
    }

    /// The answer of a run with these findings, and with what was not examined.
    pub fn of_findings(findings: &[Finding], coverage: &Coverage) -> Self {
        let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
        Self::of_counts(problems, coverage.skipped.len())
    }

    /// The exit status that says it.
    pub const fn status(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Wrong => 1,
            Self::Uncertain => 2,
        }
    }

    pub(crate) const fn of_start(outlook: &Outlook) -> Self {
        match outlook.start {
            Start::Completes | Start::WithoutReplay if outlook.refused_by.is_some() => Self::Wrong,
            Start::Completes | Start::WithoutReplay => Self::Fine,
            Start::CannotBegin
            | Start::Refused
            | Start::NotUsable { .. }
            | Start::BackupIncomplete
            | Start::Stops { .. }
            | Start::InvalidPages { .. }
            | Start::MayStop { .. }
            | Start::DependsOnDwb => Self::Wrong,
            Start::Running
            | Start::Unknown
            | Start::UnknownControl { .. }
            | Start::UnknownWal { .. }
            | Start::NotAllRead
            | Start::WalDenied
            | Start::UnusualBuild
            | Start::ClosedToReplay
            | Start::EndsAtTarget
            | Start::WalFromElsewhere
            | Start::SomePagesOnly => Self::Uncertain,
        }
    }

    /// Most doubts make the result of startup uncertain. A few describe a state that is certain.
    const fn of_doubt(doubt: &Doubt) -> Self {
        match doubt {
            // Recovery of a base backup is what its server expects; whether its WAL is all there is another doubt.
            Doubt::BaseBackup => Self::Fine,
            Doubt::NoWalAtRedo { .. }
            | Doubt::NoRecordAtRedo { .. }
            | Doubt::EndsBeforeCheckpoint { .. }
            | Doubt::NotTheCheckpoint { .. }
            | Doubt::WalWasReset => Self::Wrong,
            _ => Self::Uncertain,
        }
    }
}

/// True for a damaged page that neither replay nor the server itself puts in order.
pub(crate) fn needs_something(page: &PageReport) -> bool {
    page.is_wrong && !page.verdict.verdict.needs_nothing()
}
