//! Every finding of the check, and all about the selected one.

use super::triage::outdated_words;
use super::{Body, Line, Look, State, Style, fact, waiting};
use crate::tui::finding_list::{FindingLine, finding_lines};

/// Columns of the word in front of a finding.
pub(super) const LABEL: usize = 9;

/// Share of the rows for the selected finding if it is below the list.
const BELOW: usize = 3;

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
