//! What a repair would do, and what forbids it.

use ratatui::style::Style;
use ratatui::text::Line;

use super::{Body, fact, next_words, start_words, waiting};
use crate::analysis::verdict::judge::Verdict;
use crate::repair::plan::{LeftPage, PlanPage, PlanStep, StepKind};
use crate::tui::command_line::{command_line, undo_command};
use crate::tui::facts::StepFacts;
use crate::tui::look::{Look, pages};
use crate::tui::state::State;

/// Lines of the plan that are seen below what is said of it as a whole.
const LEAST_LINES: usize = 4;

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
        head.extend(fact(
            look,
            width,
            "undo",
            &format!("u, or the command: {}", undo_command(state, &applied.journal)),
            Style::new(),
        ));
        if let Some(survey) = state.survey().filter(|_| !state.cluster.is_reading) {
            head.extend(fact(look, width, "if started", &start_words(survey), Style::new()));
        }
    }
    if let Some(undone) = &state.plan.undone {
        let words = format!(
            "{} as before the repair; its journal stays: {}",
            pages(undone.facts.back + undone.facts.already),
            undone.journal.display()
        );
        head.extend(fact(look, width, "undone", &words, look.good()));
    }
    if let Some(survey) = state.survey() {
        let shown = state.plan.applied.as_ref().map(|applied| applied.journal.as_path());
        let shown = shown.or(state.plan.undone.as_ref().map(|undone| undone.journal.as_path()));
        head.extend(super::undo::journal_lines(look, width, survey, shown));
    }
    for (at, line) in state.plan.failure.iter().flat_map(|words| words.lines()).enumerate() {
        head.extend(fact(look, width, if at == 0 { "failed" } else { "" }, line, look.bad()));
    }
    let which = if state.plan.marks.is_empty() { "every proven page" } else { "the marked pages" };
    let count = plan.steps.len();
    let words = match count {
        0 => "no page would be written".to_owned(),
        _ => format!("{} would be overwritten ({which})", pages(count)),
    };
    head.extend(fact(look, width, "plan", &words, if count == 0 { look.doubt() } else { Style::new() }));
    if count > 0 {
        let of = |kind| sheet.count(kind);
        let words = format!(
            "proven {}, rebuilt {}, unproven {}, losing changes {}",
            of(StepKind::Proven) + of(StepKind::Blank),
            of(StepKind::Rebuilt),
            of(StepKind::Unproven),
            of(StepKind::LosesChanges)
        );
        head.extend(fact(look, width, "of these", &words, if sheet.may_lose() { look.doubt() } else { Style::new() }));
    }
    for blocker in &sheet.blockers {
        head.extend(fact(look, width, "refused", &blocker.to_string(), look.bad()));
    }
    let how = match (count, sheet.blockers.is_empty()) {
        (0, _) => "",
        (_, true) if sheet.may_lose() => {
            "a: what it would meet, then the words apply unproven: changes may be lost, the reasons stand below; d: dry run; w: save it"
        }
        (_, true) => {
            "a: what it would meet, then the word apply (the old bytes go into a journal first); d: dry run; w: save it"
        }
        (_, false) => "a: what refuses it, and what can be allowed; w: save it",
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
    for (step, facts) in plan.steps.iter().zip(&sheet.facts) {
        lines.extend(step_lines(state, step, facts));
    }
    if !plan.left.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(format!("left as they are: {}", plan.left.len()), look.heading()));
        for left in &plan.left {
            lines.extend(left_lines(state, left));
        }
    }
    if head.len() + LEAST_LINES > state.body_rows() {
        // What stands above the list would be cut off: it is scrolled with the list.
        lines.splice(0..0, std::mem::take(&mut head));
    }
    Body::text(head, lines, state.plan.top)
}

fn page_words(page: &PlanPage, relation: Option<&str>) -> String {
    let numbers = format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number);
    let fork = if page.fork == "main" { String::new() } else { format!("{} ", page.fork) };
    format!("{} block {fork}{}", relation.unwrap_or(&numbers), page.block)
}

fn step_lines(state: &State, step: &PlanStep, facts: &StepFacts) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let (sign, style) = match facts.kind {
        StepKind::Proven | StepKind::Blank => ("*", look.good()),
        StepKind::Rebuilt => ("*", look.verdict(Verdict::Rebuild)),
        StepKind::Unproven => ("?", look.doubt()),
        StepKind::LosesChanges => ("?", look.verdict(Verdict::LosesChanges)),
    };
    let words = format!("{sign} {}:{} {} from {}", step.path, step.page.block, step.verdict, step.image);
    let mut lines = wrapped(look, &words, width, "", style);
    let name = page_words(&step.page, step.relation.as_deref());
    let words = format!("{name}: LSN {}, CRC {} becomes {}", step.page_lsn, step.before_crc, step.after_crc);
    lines.extend(wrapped(look, &words, width, "    ", look.faint()));
    for reason in &facts.reasons {
        lines.extend(wrapped(look, &format!("may be lost or wrong: {reason}"), width, "    ", style));
    }
    lines
}

/// A sentence in as many lines as it needs, each after `lead`.
fn wrapped(look: Look, words: &str, width: usize, lead: &str, style: Style) -> Vec<Line<'static>> {
    let lines = look.wrap(words, width.saturating_sub(lead.len() + 1));
    lines.into_iter().map(|line| Line::styled(format!("{lead}{line}"), style)).collect()
}

fn left_lines(state: &State, left: &LeftPage) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let words = format!("{}: {}", page_words(&left.page, left.relation.as_deref()), left.verdict);
    let mut lines = wrapped(look, &words, width, "", Style::new());
    for reason in &left.reasons {
        lines.extend(wrapped(look, reason, width, "    ", look.faint()));
    }
    lines
}
