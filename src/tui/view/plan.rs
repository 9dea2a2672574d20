//! Plan of a repair, and its blockers.

use super::before::journal_facts;
use super::damage_map::tear_of;
use super::triage::outdated_words;
use super::triage_detail::kind_words as relation_words;
use super::{Body, Facts, Line, Look, Span, State, Style, led, pages, start_words, waiting};
use crate::analysis::verdict::judge::Verdict;
use crate::repair::plan::{LeftPage, PlanPage, PlanStep, StepKind};
use crate::tui::command_line::{command_line, tui_command, undo_command};
use crate::tui::facts::{AppliedSheet, StepFacts};

/// Lines of the plan that are visible below its summary.
const LEAST_LINES: usize = 4;

/// All kinds, the harmless ones first.
pub(super) const KINDS: [StepKind; 5] =
    [StepKind::Proven, StepKind::Rebuilt, StepKind::Blank, StepKind::Unproven, StepKind::LosesChanges];

/// What a step of this kind does, and what it is called where it is counted.
pub(super) const fn kind_words(kind: StepKind) -> (&'static str, &'static str) {
    match kind {
        StepKind::Proven => ("restore from", "proven, no data is lost"),
        StepKind::Rebuilt => ("write the", "rebuilt and proven, no data is lost"),
        StepKind::Blank => ("write", "zeros over a map page, no data is lost"),
        StepKind::Unproven => ("restore, not proven, from", "not proven: changes may be lost"),
        StepKind::LosesChanges => ("restore, losing changes, from", "losing committed changes"),
    }
}

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let mut head = past(state);
    let Some(sheet) = state.plan.sheet.as_deref() else {
        head.push(Line::default());
        if state.cluster.survey.is_none() {
            head.extend(waiting(state));
        } else if state.cluster.is_reading {
            head.push(Line::raw("The plan is made when the cluster has been checked."));
        } else {
            head.push(Line::raw("The plan is being made."));
        }
        return Body::text(Vec::new(), head, state.plan.top);
    };
    let plan = &sheet.plan;
    let which = if state.plan.marks.is_empty() { "every proven page" } else { "the marked pages" };
    let count = plan.steps.len();
    let mut facts = Facts::new(look, width);
    if count == 0 {
        facts.add("plan", "no page would be written", look.doubt());
    } else {
        let counts = KINDS.into_iter().map(|kind| (kind, sheet.count(kind))).filter(|(_, count)| *count > 0);
        let counts: Vec<_> = counts.map(|(kind, count)| format!("{count} {}", kind_words(kind).1)).collect();
        let words = format!("{} would be overwritten ({which}): {}", pages(count), counts.join(", "));
        facts.add("plan", &words, if sheet.may_lose() { look.doubt() } else { Style::new() });
    }
    // Who has nothing to write needs no permission.
    for blocker in sheet.blockers.iter().filter(|_| count + plan.left.len() > 0) {
        facts.add("refused", &blocker.to_string(), look.bad());
    }
    let how = match (sheet.blockers.is_empty(), sheet.may_lose()) {
        (true, true) => "a apply (changes may be lost, see below)   d dry run   w save",
        (true, false) => "a apply (asks first, keeps a journal)   d dry run   w save",
        (false, _) => "a what refuses it, and what can be allowed   w save",
    };
    if count > 0 {
        facts.add("to do", how, Style::new());
        facts.add("command", &command_line(state), look.faint());
    } else {
        facts.lines.extend(super::steps::all_lines(state));
    }
    head.append(&mut facts.lines);
    head.push(Line::default());
    let mut lines = Vec::new();
    for (at, (step, facts)) in plan.steps.iter().zip(&sheet.facts).enumerate() {
        if is_shown(state, at) {
            lines.extend(step_lines(state, step, facts));
        }
    }
    if !plan.left.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(format!("left as they are: {}", plan.left.len()), look.heading()));
        for (at, left) in (count..).zip(&plan.left) {
            if is_shown(state, at) {
                lines.extend(left_lines(state, left));
            }
        }
    }
    if head.len() + LEAST_LINES > state.body_rows() {
        // What stands above the list would be cut off: it is scrolled with the list.
        lines.splice(0..0, std::mem::take(&mut head));
    }
    Body::text(head, lines, state.plan.top)
}

/// Earlier work: the last repair, an undo, journals, and what failed.
fn past(state: &State) -> Vec<Line<'static>> {
    let look = state.look;
    let mut facts = Facts::new(look, state.columns());
    if let Some(applied) = &state.plan.applied {
        let words = format!("{} written; the old bytes are in {}", pages(applied.written), applied.journal.display());
        facts.add("repaired", &words, look.good());
        let command = undo_command(state, &applied.journal);
        facts.add("undo", &format!("u, or the command: {command}"), Style::new());
        for (label, words, style) in journal_words(state, applied) {
            facts.add(label, &words, style);
        }
        match (outdated_words(state), state.survey()) {
            (Some(words), _) => facts.add("on startup", words, look.doubt()),
            (None, Some(survey)) if !state.cluster.is_reading => {
                facts.add("on startup", &start_words(survey), Style::new());
            }
            (None, _) => {}
        }
    }
    if let Some(undone) = &state.plan.undone {
        let back = pages(undone.facts.back + undone.facts.already);
        let words = format!("{back} as before the repair; its journal stays: {}", undone.journal.display());
        facts.add("undone", &words, look.good());
    }
    for (at, (label, words, style)) in (pages_listed(state)..).zip(journal_facts(state)) {
        if is_shown(state, at) {
            facts.add(label, &words, style);
        }
    }
    facts.add("failed", state.plan.failure.as_deref().unwrap_or_default(), look.bad());
    facts.lines
}

/// Notes on the journal of the last repair: it cannot be used, and how to find it again.
fn journal_words(state: &State, applied: &AppliedSheet) -> Vec<(&'static str, String, Style)> {
    let mut words = Vec::new();
    let seen = state.survey().filter(|_| !state.cluster.is_outdated).and_then(|survey| {
        let journals = survey.journals.journals.as_ref().ok()?;
        journals.iter().find(|seen| seen.directory == applied.journal)
    });
    match seen.map(|seen| &seen.state) {
        Some(Err(why)) => words.push(("", format!("but the journal cannot be used: {why}"), state.look.bad())),
        Some(Ok(found)) if !found.is_in_force() => {
            words.push(("", format!("but no page is as the repair wrote it: {found}"), state.look.doubt()));
        }
        _ => {}
    }
    if !applied.is_found_beside {
        words.push(("restored", tui_command(state, &applied.journal), Style::new()));
    }
    words
}

fn pages_listed(state: &State) -> usize {
    state.plan.sheet.as_deref().map_or(0, |sheet| sheet.plan.steps.len() + sheet.plan.left.len())
}

/// Whether a page, or a journal, matches what was typed; indexes as in [`texts`].
fn is_shown(state: &State, at: usize) -> bool {
    state.shown_lines().is_none_or(|shown| shown.binary_search(&at).is_ok())
}

/// Every page of the plan as text: those that would be written, then those that are left; then journals.
pub(super) fn texts(state: &State) -> Vec<String> {
    let mut texts = page_texts(state);
    texts.extend(journal_facts(state).into_iter().map(|(label, words, _)| format!("{label} {words}")));
    texts
}

fn page_texts(state: &State) -> Vec<String> {
    let Some(sheet) = state.plan.sheet.as_deref() else { return Vec::new() };
    let joined = |lines: Vec<Line<'_>>| lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let steps = sheet.plan.steps.iter().zip(&sheet.facts);
    let steps = steps.map(|(step, facts)| joined(step_lines(state, step, facts)));
    steps.chain(sheet.plan.left.iter().map(|left| joined(left_lines(state, left)))).collect()
}

fn page_words(page: &PlanPage, relation: Option<&str>) -> String {
    let numbers = format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number);
    let fork = if page.fork == "main" { String::new() } else { format!("{} ", page.fork) };
    format!("{} block {fork}{}", relation.unwrap_or(&numbers), page.block)
}

fn step_lines(state: &State, step: &PlanStep, facts: &StepFacts) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let style = match facts.kind {
        StepKind::Proven | StepKind::Blank => look.good(),
        StepKind::Rebuilt => look.verdict(Verdict::Rebuild),
        StepKind::Unproven => look.doubt(),
        StepKind::LosesChanges => look.verdict(Verdict::LosesChanges),
    };
    let sign = if facts.kind.may_lose() { "? " } else { "* " };
    let name = page_words(&step.page, step.relation.as_deref());
    let words = format!("{name}: {} {}", kind_words(facts.kind).0, step.image);
    let mut lines = wrapped(look, &words, width, sign, style);
    let known = state.survey().zip(step.page.page_id());
    let kind = known.and_then(|(survey, page)| survey.damaged_relations.get(&page.rel)).map(relation_words);
    let tear = known.and_then(|(survey, page)| survey.damaged(page)).map(tear_of);
    let place = format!("{}:{}, LSN {} after it", step.path, step.page.block, step.page_lsn);
    let words: Vec<String> = kind.into_iter().chain(tear).chain([place]).collect();
    lines.extend(wrapped(look, &words.join("; "), width, "    ", look.faint()));
    for reason in &facts.reasons {
        lines.extend(wrapped(look, &format!("may be lost or wrong: {reason}"), width, "    ", style));
    }
    lines
}

fn wrapped(look: Look, words: &str, width: usize, lead: &'static str, style: Style) -> Vec<Line<'static>> {
    led(look, Span::styled(lead, style), words, width.saturating_sub(lead.len() + 1), style)
}

fn left_lines(state: &State, left: &LeftPage) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == left.verdict);
    let label = verdict.map_or(left.verdict.as_str(), |verdict| verdict.facts().label);
    let words = format!("{}: {label}", page_words(&left.page, left.relation.as_deref()));
    let mut lines = wrapped(look, &words, width, "", Style::new());
    for reason in &left.reasons {
        lines.extend(wrapped(look, reason, width, "    ", look.faint()));
    }
    lines
}
