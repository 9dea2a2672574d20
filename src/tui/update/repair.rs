//! Marks, the plan, applying it, and taking a repair back.

use super::{Arc, Effect, PageId, Prompt, PromptKind, State, View, pages};
use crate::analysis::verdict::facts::RepairPlan;
use crate::analysis::verdict::judge::Verdict;
use crate::tui::action::UndoOrder;
use crate::tui::facts::{AppliedSheet, PlanSheet, UndoSheet, UndoneSheet};

/// Confirmation before old bytes are written back.
pub const UNDO_WORD: &str = "undo";

/// Marks the selected page for repair, or takes the mark away.
pub(super) fn mark(state: &mut State) {
    if state.view == View::Triage && state.selected_page().is_none() {
        return mark_group(state);
    }
    let Some((page, survey)) = state.selected_page().zip(state.survey()) else {
        return state.tell("nothing is marked: this line is not about one page");
    };
    let verdict = survey.damaged(page).map(|report| report.verdict.verdict);
    let refusal = match verdict.map(|verdict| verdict.facts().plan) {
        Some(RepairPlan::Write | RepairPlan::IfUnprovenAllowed) => None,
        Some(RepairPlan::IfLossAllowed) => {
            Some("every image lacks committed changes: only `repair --lose-changes` writes one")
        }
        Some(RepairPlan::NoImage) => Some("there is no image to restore"),
        Some(RepairPlan::NotNeeded) => Some("this page needs no repair"),
        None => Some("nothing wrong was found with this page"),
    };
    if let Some(refusal) = refusal {
        state.warn(refusal);
        return;
    }
    if !state.plan.marks.remove(&page) {
        state.plan.marks.insert(page);
    }
    tell_marks(state);
}

/// Marks all pages of the selected relation or verdict whose image is proven; when all of them are marked already, none.
/// Others are decided on one by one.
fn mark_group(state: &mut State) {
    let map = &state.triage.map;
    let Some((group, survey)) = map.group(state.triage.selected).zip(state.survey()) else {
        return state.tell("there is nothing to mark");
    };
    let can_be = |page: &PageId| {
        let verdict = survey.damaged(*page).map(|report| report.verdict.verdict);
        verdict.is_some_and(Verdict::is_proven)
    };
    let pages = group.pages.iter().filter_map(|at| map.pages.get(*at)).map(|one| one.page);
    let pages: Vec<PageId> = pages.filter(can_be).collect();
    if pages.is_empty() {
        return state.warn("none of these pages has a proven image: right shows them, m marks one");
    }
    let are_all = pages.iter().all(|page| state.plan.marks.contains(page));
    for page in pages {
        if are_all {
            state.plan.marks.remove(&page);
        } else {
            state.plan.marks.insert(page);
        }
    }
    tell_marks(state);
}

fn tell_marks(state: &mut State) {
    state.plan.sheet = None;
    state.plan.is_saved = false;
    state.plan.rehearsed = None;
    state.tell(match state.marked_counts() {
        (0, _) => "no page is marked: the plan contains every proven page".to_owned(),
        (1, 0) => "1 page is marked: the plan contains only this page".to_owned(),
        (1, _) => "1 page is marked (?): its image is not proven, changes may be lost".to_owned(),
        (count, 0) => format!("{count} pages are marked: the plan contains only these"),
        (count, unproven) => format!("{count} pages are marked, {unproven} of them unproven (?): changes may be lost"),
    });
}

/// A plan was made. One requested before the marks changed is discarded.
pub(super) fn planned(state: &mut State, plan: Arc<PlanSheet>) {
    let is_of_survey = state.survey().is_some_and(|survey| Arc::ptr_eq(&survey.examined, &plan.examined));
    if is_of_survey && plan.pages == state.plan.marked() {
        state.plan.sheet = Some(plan);
        super::clamp(state);
    }
}

pub(super) fn save(state: &mut State) -> Vec<Effect> {
    if let Some(sheet) = &state.plan.sheet {
        return vec![Effect::SavePlan(sheet.plan.clone())];
    }
    state.only_warn("there is no plan yet")
}

pub(super) fn applied(state: &mut State, applied: Arc<AppliedSheet>) {
    state.plan.is_applying = false;
    let journal = if applied.is_found_beside { "" } else { "; later, tui --journal finds its journal" };
    state.tell(format!("{} written; the cluster is being checked again{journal}", pages(applied.written)));
    if state.view == View::Apply {
        state.view = View::Plan;
    }
    state.plan.before = None;
    state.plan.applied = Some(applied);
    state.plan.undone = None;
    state.plan.marks.clear();
    state.plan.rehearsed = None;
    // The directory holds a journal by now: the next one needs another.
    state.plan.journal = None;
}

/// A dry run, a repair or an undo did not finish: the earlier check did not predict that, and is repeated.
pub(super) fn failed(state: &mut State, words: String) -> Vec<Effect> {
    state.plan.is_applying = false;
    state.plan.is_rehearsing = false;
    state.warn(words.lines().next().unwrap_or_default());
    state.plan.failure = Some(words);
    (state.plan.top, state.plan.before_top) = (0, 0);
    state.plan.rehearsed = None;
    let (message, failure) = (state.message.take(), state.plan.failure.take());
    let effects = look_again(state);
    (state.message, state.plan.failure) = (message, failure);
    effects
}

/// Files have changed, a server was started perhaps: what was rehearsed and examined before says nothing any more.
pub(super) fn look_again(state: &mut State) -> Vec<Effect> {
    state.plan.rehearsed = None;
    match state.view {
        View::Apply if !state.plan.is_rehearsing => super::before::open(state),
        View::Undo => open_undo(state),
        _ => Vec::new(),
    }
}

/// The plan, when a repair may be begun; else says why not.
pub(super) fn plan_to_write(state: &mut State) -> Option<Arc<PlanSheet>> {
    let refusal = match &state.plan.sheet {
        _ if state.plan.is_applying || state.plan.is_rehearsing => "that is already in progress",
        None => "there is no plan yet",
        Some(sheet) if sheet.plan.steps.is_empty() => "the plan writes nothing",
        Some(sheet) => return Some(Arc::clone(sheet)),
    };
    state.warn(refusal);
    None
}

/// The undo that is possible now; else says why not.
fn undo_order(state: &mut State) -> Option<UndoOrder> {
    let refusal = match state.journal_in_force() {
        _ if state.plan.is_applying || state.plan.is_rehearsing => "that is already in progress",
        _ if state.cluster.is_reading => "the cluster is being checked: wait until that has ended",
        None => {
            "no journal next to the data directory has pages as a repair wrote them; pass another with tui --journal \
                DIR"
        }
        Some(journal) => return Some(UndoOrder { journal: journal.to_owned(), allowed: state.plan.allowed }),
    };
    state.warn(refusal);
    None
}

pub(super) fn open_undo(state: &mut State) -> Vec<Effect> {
    let Some(order) = undo_order(state) else { return Vec::new() };
    state.view = View::Undo;
    state.help.is_open = false;
    state.plan.undo = None;
    state.plan.failure = None;
    state.plan.before_top = 0;
    vec![Effect::RehearseUndo(order)]
}

/// The rehearsal has ended. A result from before another permission is discarded.
pub(super) fn undo_rehearsed(state: &mut State, sheet: Arc<UndoSheet>) {
    let is_of_journal = state.journal_in_force() == Some(sheet.order.journal.as_path());
    if is_of_journal && sheet.order.allowed == state.plan.allowed {
        state.plan.undo = Some(sheet);
        super::clamp(state);
    }
}

pub(super) fn ask_for_undo(state: &mut State) {
    match &state.plan.undo {
        _ if state.plan.is_applying => state.warn("that is already in progress"),
        None => state.warn("the undo is still being rehearsed"),
        Some(sheet) if sheet.found.is_err() => state.warn("refused: see the lines in red"),
        Some(_) => state.prompt = Some(Prompt { kind: PromptKind::Undo, text: String::new() }),
    }
}

/// Begins to put the old bytes back when the word was typed.
pub(super) fn undo(state: &mut State, typed: &str) -> Vec<Effect> {
    // The key that opens the prompt may be the first letter of the word.
    if typed != UNDO_WORD && typed != &UNDO_WORD[1..] {
        return state.only_tell(format!("nothing was written: type {UNDO_WORD} to confirm"));
    }
    let Some(order) = undo_order(state) else { return Vec::new() };
    state.plan.is_applying = true;
    state.plan.failure = None;
    state.tell("checking again, then writing the old bytes back");
    vec![Effect::Undo(order)]
}

pub(super) fn undone(state: &mut State, sheet: Arc<UndoneSheet>) {
    state.plan.is_applying = false;
    state.tell(format!("{} as before the repair; the cluster is being checked again", pages(sheet.facts.back)));
    if state.view == View::Undo {
        state.view = View::Plan;
    }
    state.plan.undo = None;
    state.plan.applied = None;
    state.plan.undone = Some(sheet);
}
