//! What a repair would do, and what forbids it.

use ratatui::style::Style;
use ratatui::text::Line;

use super::{Body, fact, next_words, waiting};
use crate::repair::plan::{LeftPage, PlanPage, PlanStep};
use crate::tui::command_line::{command_line, undo_command};
use crate::tui::look::pages;
use crate::tui::state::State;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let Some(sheet) = state.plan.sheet.as_deref() else {
        let mut lines = vec![Line::default()];
        if state.cluster.survey.is_none() {
            lines.extend(waiting(state));
        } else {
            lines.push(Line::raw("the plan is being made"));
        }
        return Body::text(lines, Vec::new(), 0);
    };
    let plan = &sheet.plan;
    let mut head = Vec::new();
    if let Some(applied) = &state.plan.applied {
        let words = format!("{} written; the old bytes are in {}", pages(applied.written), applied.journal.display());
        head.extend(fact(look, width, "repaired", &words, look.good()));
        head.extend(fact(look, width, "undo", &undo_command(state.subject.program, applied), Style::new()));
    }
    let which = if state.plan.marks.is_empty() { "every proven page" } else { "the marked pages" };
    let count = plan.steps.len();
    let words = match count {
        0 => "no page would be written".to_owned(),
        _ => format!("{} would be overwritten ({which})", pages(count)),
    };
    head.extend(fact(look, width, "plan", &words, if count == 0 { look.doubt() } else { Style::new() }));
    for blocker in &sheet.blockers {
        head.extend(fact(look, width, "refused", &blocker.to_string(), look.bad()));
    }
    let how = match (count, sheet.blockers.is_empty()) {
        (0, _) => "",
        (_, true) => {
            "d: dry run; a: apply it, after you type the word apply (the old bytes go into a journal first); w: save it"
        }
        (_, false) => "w: save it; it cannot be applied while the reasons above hold",
    };
    if !how.is_empty() {
        head.extend(fact(look, width, "to do", how, Style::new()));
    }
    if count == 0
        && let Some(survey) = state.survey()
    {
        head.extend(fact(look, width, "next step", &next_words(survey, &state.subject.path), Style::new()));
    }
    head.extend(fact(look, width, "command", &command_line(state), look.faint()));
    head.push(Line::default());
    let mut lines = Vec::new();
    for step in &plan.steps {
        lines.extend(step_lines(state, step));
    }
    if !plan.left.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(format!("left as they are: {}", plan.left.len()), look.heading()));
        for left in &plan.left {
            lines.extend(left_lines(state, left));
        }
    }
    Body::text(head, lines, state.plan.top)
}

fn page_words(page: &PlanPage, relation: Option<&str>) -> String {
    let numbers = format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number);
    let fork = if page.fork == "main" { String::new() } else { format!("{} ", page.fork) };
    format!("{} block {fork}{}", relation.unwrap_or(&numbers), page.block)
}

fn step_lines(state: &State, step: &PlanStep) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let is_safe = step.warnings.is_empty();
    let words = format!("{}:{} {} from {}", step.path, step.page.block, step.verdict, step.image);
    let mut lines = vec![Line::styled(look.cut(&words, width), if is_safe { look.good() } else { look.doubt() })];
    let name = page_words(&step.page, step.relation.as_deref());
    let words = format!("    LSN {}, CRC {} becomes {}, {name}", step.page_lsn, step.before_crc, step.after_crc);
    lines.push(Line::styled(look.cut(&words, width), look.faint()));
    for warning in &step.warnings {
        let wrapped = look.wrap(&format!("not proven: {warning}"), width.saturating_sub(5));
        lines.extend(wrapped.into_iter().map(|line| Line::styled(format!("    {line}"), look.doubt())));
    }
    lines
}

fn left_lines(state: &State, left: &LeftPage) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let words = format!("{}: {}", page_words(&left.page, left.relation.as_deref()), left.verdict);
    let mut lines = vec![Line::raw(look.cut(&words, width))];
    for reason in &left.reasons {
        let wrapped = look.wrap(reason, width.saturating_sub(5));
        lines.extend(wrapped.into_iter().map(|line| Line::styled(format!("    {line}"), look.faint())));
    }
    lines
}
