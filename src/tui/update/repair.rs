//! Marks, the plan, and carrying it out.

use std::sync::Arc;

use crate::analysis::verdict::judge::Verdict;
use crate::tui::action::Effect;
use crate::tui::facts::{AppliedSheet, PlanSheet};
use crate::tui::look::pages;
use crate::tui::state::{Prompt, PromptKind, State};

/// What has to be typed before anything is written.
const APPLY_WORD: &str = "apply";

/// The same where an image is not proven.
const APPLY_UNPROVEN_WORDS: &str = "apply unproven";

/// Marks the selected page for repair, or takes the mark away.
pub(super) fn mark(state: &mut State) {
    let Some((page, survey)) = state.selected_page().zip(state.survey()) else { return };
    let verdict = survey.damaged(page).map(|report| report.verdict.verdict);
    let refusal = match verdict {
        Some(Verdict::Restore | Verdict::Rebuild | Verdict::RestoreUnproven) => None,
        Some(Verdict::LosesChanges) => {
            Some("every image lacks committed changes: only `repair --lose-changes` writes one")
        }
        Some(Verdict::NoImage) => Some("there is no image to restore"),
        Some(Verdict::HealsInReplay | Verdict::Leave) => Some("this page needs no repair"),
        None => Some("nothing wrong was found with this page"),
    };
    if let Some(refusal) = refusal {
        state.warn(refusal);
        return;
    }
    if !state.plan.marks.remove(&page) {
        state.plan.marks.insert(page);
    }
    state.plan.sheet = None;
    state.plan.is_saved = false;
    state.tell(match state.marked_counts() {
        (0, _) => "no page is marked: the plan contains every proven page".to_owned(),
        (1, 0) => "1 page is marked: the plan contains only this page".to_owned(),
        (1, _) => "1 page is marked (?): its image is not proven, changes may be lost".to_owned(),
        (count, 0) => format!("{count} pages are marked: the plan contains only these"),
        (count, unproven) => format!("{count} pages are marked, {unproven} of them unproven (?): changes may be lost"),
    });
}

/// A plan was made. One that was asked for before the marks changed is of no use.
pub(super) fn planned(state: &mut State, plan: Arc<PlanSheet>) {
    if plan.pages == state.plan.marked() {
        state.plan.sheet = Some(plan);
        super::clamp(state);
    }
}

pub(super) fn save(state: &mut State) -> Vec<Effect> {
    if let Some(sheet) = &state.plan.sheet {
        return vec![Effect::SavePlan(sheet.plan.clone())];
    }
    state.warn("there is no plan yet");
    Vec::new()
}

/// Begins a dry run.
pub(super) fn rehearse(state: &mut State) -> Vec<Effect> {
    let Some(sheet) = plan_to_write(state) else { return Vec::new() };
    state.plan.is_rehearsing = true;
    state.plan.failure = None;
    state.tell("dry run: checking once more; nothing is written");
    vec![Effect::DryRun(sheet.plan.clone(), sheet.pages.clone())]
}

/// A dry run has ended well.
pub(super) fn rehearsed(state: &mut State, count: usize) {
    state.plan.is_rehearsing = false;
    state.tell(format!("dry run: {} could be written now; nothing was written", pages(count)));
}

/// Opens the prompt for the word that has to be typed.
pub(super) fn ask_for_word(state: &mut State) {
    if plan_to_write(state).is_some() {
        state.prompt = Some(Prompt { kind: PromptKind::Apply, text: String::new() });
    }
}

/// Begins to carry out the plan when the word was typed.
pub(super) fn apply(state: &mut State, typed: &str) -> Vec<Effect> {
    let Some(sheet) = plan_to_write(state) else { return Vec::new() };
    let wanted = if sheet.may_lose() { APPLY_UNPROVEN_WORDS } else { APPLY_WORD };
    if typed != wanted {
        state.tell(format!("nothing was written: what to type is {wanted}"));
        return Vec::new();
    }
    state.plan.is_applying = true;
    state.plan.failure = None;
    state.tell("checking once more, then writing");
    vec![Effect::ApplyPlan(sheet.plan.clone(), sheet.pages.clone())]
}

/// Pages were written.
pub(super) fn applied(state: &mut State, applied: Arc<AppliedSheet>) {
    state.plan.is_applying = false;
    state.tell(format!("{} written; press 6 for the command that undoes it", pages(applied.written)));
    state.plan.applied = Some(applied);
    state.plan.marks.clear();
}

/// The plan, when a repair may be begun; else says why not.
fn plan_to_write(state: &mut State) -> Option<Arc<PlanSheet>> {
    let refusal = match &state.plan.sheet {
        _ if state.plan.is_applying || state.plan.is_rehearsing => "that is already in progress",
        None => "there is no plan yet",
        Some(sheet) if sheet.plan.steps.is_empty() => "the plan writes nothing",
        Some(sheet) if !sheet.blockers.is_empty() => "refused: see the reasons above the plan",
        Some(sheet) => return Some(Arc::clone(sheet)),
    };
    state.warn(refusal);
    None
}
