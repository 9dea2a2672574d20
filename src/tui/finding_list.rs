//! Findings of `check` other than damaged pages, as the lines of one list: problems, skipped parts, notes.

use crate::analysis::skipped::Skipped;
use crate::report::{Finding, Severity};
use crate::tui::state::State;

#[derive(Clone, Copy, Debug)]
pub(crate) enum FindingLine<'a> {
    Problem(&'a Finding),
    Skipped(&'a Skipped),
    Note(&'a Finding),
}

/// All lines, in the order in which they are listed; `None` while nothing was read.
pub(crate) fn finding_lines(state: &State) -> Option<Vec<FindingLine<'_>>> {
    let (findings, coverage) = match (state.survey(), state.innodb.survey.as_deref()) {
        (Some(survey), _) => (&survey.examined.findings, &survey.examined.coverage),
        (None, Some(survey)) => (&survey.examined.findings, &survey.examined.coverage),
        (None, None) => return None,
    };
    let of = |severity| findings.iter().filter(move |finding| finding.severity == severity);
    let problems = of(Severity::Problem).map(FindingLine::Problem);
    let skipped = coverage.skipped.iter().map(FindingLine::Skipped);
    Some(problems.chain(skipped).chain(of(Severity::Note).map(FindingLine::Note)).collect())
}

impl FindingLine<'_> {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Problem(_) => "problem",
            Self::Skipped(_) => "skipped",
            Self::Note(_) => "note",
        }
    }

    /// Where it is: the file, and the offset in it where there is one.
    pub(crate) fn location(self) -> Option<String> {
        let (Self::Problem(finding) | Self::Note(finding)) = self else { return None };
        let file = finding.file.as_ref()?;
        Some(finding.offset.map_or_else(|| file.clone(), |offset| format!("{file} at {offset:#X}")))
    }

    pub fn what(self) -> String {
        match self {
            Self::Problem(finding) | Self::Note(finding) => finding.to_string(),
            Self::Skipped(skipped) => skipped.what.to_string(),
        }
    }

    pub fn why(self) -> String {
        match self {
            Self::Problem(finding) | Self::Note(finding) => finding.why.to_owned(),
            Self::Skipped(skipped) => skipped.why(),
        }
    }

    pub fn words(self) -> String {
        let location = self.location().map_or_else(String::new, |location| format!("{location}: "));
        let between = if matches!(self, Self::Skipped(_)) { ": " } else { "; " };
        format!("{location}{}{between}{}", self.what(), self.why())
    }
}
