//! Every finding of the check other than damaged pages, and all about the selected one.

use super::triage::outdated_words;
use super::{Body, Line, Look, State, Style, fact, waiting};
use crate::analysis::skipped::Skipped;
use crate::report::{Finding, Severity};

/// Columns of the word in front of a finding.
pub(super) const LABEL: usize = 9;

/// Share of the rows for the selected finding if it is below the list.
const BELOW: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum FindingLine<'a> {
    Problem(&'a Finding),
    Skipped(&'a Skipped),
    Note(&'a Finding),
}

/// All lines, in the order in which they are listed; `None` while nothing was read.
pub(super) fn finding_lines(state: &State) -> Option<Vec<FindingLine<'_>>> {
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
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Problem(_) => "problem",
            Self::Skipped(_) => "skipped",
            Self::Note(_) => "note",
        }
    }

    /// Where it is: the file, and the offset in it where there is one.
    fn location(self) -> Option<String> {
        let (Self::Problem(finding) | Self::Note(finding)) = self else { return None };
        let file = finding.file.as_ref()?;
        Some(finding.offset.map_or_else(|| file.clone(), |offset| format!("{file} at {offset:#X}")))
    }

    fn what(self) -> String {
        match self {
            Self::Problem(finding) | Self::Note(finding) => finding.to_string(),
            Self::Skipped(skipped) => skipped.what.to_string(),
        }
    }

    fn why(self) -> String {
        match self {
            Self::Problem(finding) | Self::Note(finding) => finding.why.to_owned(),
            Self::Skipped(skipped) => skipped.why(),
        }
    }

    pub(super) fn words(self) -> String {
        let location = self.location().map_or_else(String::new, |location| format!("{location}: "));
        let between = if matches!(self, Self::Skipped(_)) { ": " } else { "; " };
        format!("{location}{}{between}{}", self.what(), self.why())
    }
}

pub(super) fn body(state: &State) -> Body<'_> {
    let Some(all) = finding_lines(state) else { return Body::text(Vec::new(), waiting(state), 0) };
    let look = state.look;
    let mut head: Vec<Line<'static>> = Vec::new();
    if let Some(words) = outdated_words(state) {
        head.extend(fact(look, state.columns(), "findings", words, look.doubt()));
    }
    head.extend([Line::styled(counts(&all), look.heading()), Line::default()]);
    let selected = state.triage.finding.min(all.len().saturating_sub(1));
    let detail = |width| all.get(selected).map_or_else(Vec::new, |one| detail(look, *one, width));
    let (beside, below) = match state.detail_columns() {
        0 => (Vec::new(), detail(state.columns())),
        columns => (detail(columns), Vec::new()),
    };
    let count = all.len();
    let width = state.list_columns();
    let line = move |at: usize| all.get(at).map_or_else(Line::default, |one| row(look, *one, width));
    let mut body = Body::rows(look, head, count, selected, line);
    body.detail = beside;
    if !below.is_empty() {
        let room = (state.body_rows() / BELOW).max(2);
        body.foot = std::iter::once(Line::default()).chain(below).collect();
        if body.foot.len() > room.max(state.body_rows().saturating_sub(count + 3)) {
            body.foot.truncate(room);
            look.mark_cut(&mut body.foot);
        }
    }
    body
}

fn counts(all: &[FindingLine<'_>]) -> String {
    let of = |label: &str| all.iter().filter(|one| one.label() == label).count();
    format!("problems {}, not checked {}, notes {}", of("problem"), of("skipped"), of("note"))
}

pub(super) fn style(look: Look, one: FindingLine<'_>) -> Style {
    match one {
        FindingLine::Problem(_) => look.bad(),
        FindingLine::Skipped(_) => look.doubt(),
        FindingLine::Note(_) => look.faint(),
    }
}

fn row(look: Look, one: FindingLine<'_>, width: usize) -> Line<'static> {
    let words = look.cut(&one.words(), width.saturating_sub(LABEL + 2));
    Line::styled(format!(" {}{words}", look.fit(one.label(), LABEL)), style(look, one))
}

fn detail(look: Look, one: FindingLine<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = fact(look, width, one.label(), &one.what(), style(look, one));
    if let Some(location) = one.location() {
        lines.extend(fact(look, width, "in file", &location, Style::new()));
    }
    lines.extend(fact(look, width, "why", &one.why(), Style::new()));
    lines
}
