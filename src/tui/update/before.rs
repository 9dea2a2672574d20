//! The last check before a plan is applied: journal, guards, dry run, and the word.

use super::{Arc, Effect, Prompt, PromptKind, State, View, pages};
use std::path::PathBuf;

use super::repair::plan_to_write;
use crate::tui::action::RepairOrder;
use crate::tui::facts::BeforeSheet;
use crate::tui::state::PlanState;

/// Confirmation before anything is written.
const APPLY_WORD: &str = "apply";

/// Confirmation if an image is not proven.
const APPLY_UNPROVEN_WORDS: &str = "apply unproven";

/// Confirmation of this plan.
pub const fn apply_word(may_lose: bool) -> &'static str {
    if may_lose { APPLY_UNPROVEN_WORDS } else { APPLY_WORD }
}

fn order(state: &mut State) -> Option<RepairOrder> {
    let sheet = plan_to_write(state)?;
    Some(RepairOrder {
        plan: sheet.plan.clone(),
        pages: sheet.pages.clone(),
        journal: state.plan.journal.clone(),
        allowed: state.plan.allowed,
    })
}

pub(super) fn open(state: &mut State) -> Vec<Effect> {
    let Some(order) = order(state) else { return Vec::new() };
    state.view = View::Apply;
    state.help.is_open = false;
    state.plan.before = None;
    state.plan.before_top = 0;
    vec![Effect::LookBefore(order)]
}

/// The order is the one that would be applied now: the same plan, journal and permissions.
fn is_current(state: &State, order: &RepairOrder) -> bool {
    let PlanState { sheet, journal, allowed, .. } = &state.plan;
    let is_of_plan = sheet.as_ref().is_some_and(|sheet| sheet.plan == order.plan && sheet.pages == order.pages);
    is_of_plan && order.journal == *journal && order.allowed == *allowed
}

/// The check is complete. A result from before another choice is discarded.
pub(super) fn looked(state: &mut State, sheet: Arc<BeforeSheet>) {
    if is_current(state, &sheet.order) {
        state.plan.before = Some(sheet);
        super::clamp(state);
    }
}

pub(super) fn rehearse(state: &mut State) -> Vec<Effect> {
    let Some(order) = order(state) else { return Vec::new() };
    let mut effects = if state.view == View::Apply { Vec::new() } else { open(state) };
    state.plan.is_rehearsing = true;
    state.plan.failure = None;
    state.plan.rehearsed = None;
    state.tell("dry run: checking again; nothing is written");
    effects.push(Effect::DryRun(order));
    effects
}

/// A dry run has ended well. It does not cover choices made while it ran.
pub(super) fn rehearsed(state: &mut State, order: &RepairOrder) {
    state.plan.is_rehearsing = false;
    if !is_current(state, order) {
        return state.warn("the dry run passed, but something else was chosen meanwhile: d rehearses that");
    }
    let count = order.plan.steps.len();
    state.plan.rehearsed = Some(count);
    state.tell(format!("dry run: {} could be written now; nothing was written", pages(count)));
}

pub(super) fn ask_for_word(state: &mut State) {
    if plan_to_write(state).is_none() {
        return;
    }
    match &state.plan.before {
        None => state.warn("still checking what it needs"),
        Some(before) if !before.is_ready() => state.warn("refused: see the lines in red; c and o may help"),
        Some(_) => state.prompt = Some(Prompt { kind: PromptKind::Apply, text: String::new() }),
    }
}

pub(super) fn apply(state: &mut State, typed: &str) -> Vec<Effect> {
    let Some(sheet) = plan_to_write(state) else { return Vec::new() };
    let wanted = apply_word(sheet.may_lose());
    // The key that opens the prompt may be the first letter of the word.
    if typed != wanted && typed != &wanted[1..] {
        return state.only_tell(format!("nothing was written: type {wanted} to confirm"));
    }
    let Some(order) = order(state) else { return Vec::new() };
    state.plan.is_applying = true;
    state.plan.failure = None;
    state.tell("checking again, then writing");
    vec![Effect::ApplyPlan(order)]
}

pub(super) fn ask_for_journal(state: &mut State) {
    let journal = state.plan.before.as_ref().and_then(|before| before.found.as_ref().ok()?.ready.as_ref().ok());
    let text = journal.map_or_else(String::new, |ready| ready.journal.display().to_string());
    state.prompt = Some(Prompt { kind: PromptKind::Journal, text });
}

/// Another directory was typed: it is examined at once. Nothing typed: the one beside the data directory.
pub(super) fn choose_journal(state: &mut State, typed: &str) -> Vec<Effect> {
    state.plan.journal = (!typed.is_empty()).then(|| PathBuf::from(typed));
    state.plan.rehearsed = None;
    let effects = open(state);
    if state.plan.journal.is_some() {
        state.tell("a journal elsewhere is found again by tui --journal DIR: the plan and leaving say the command");
    }
    effects
}

/// Flags that allow what the open view says is refused; `None` as long as that is unknown.
fn refused_flags(state: &State) -> Option<Vec<&'static str>> {
    match state.view {
        View::Undo => state.plan.undo.as_ref().map(|sheet| sheet.flags.clone()),
        _ => state.plan.before.as_ref().map(|before| before.flags()),
    }
}

pub(super) fn ask_for_flag(state: &mut State) {
    match refused_flags(state) {
        None => state.warn("still checking what it needs"),
        Some(flags) if flags.is_empty() => state.warn("nothing that refuses can be allowed by a flag"),
        Some(_) => state.prompt = Some(Prompt { kind: PromptKind::Allow, text: String::new() }),
    }
}

pub(super) fn allow(state: &mut State, typed: &str) -> Vec<Effect> {
    let flags = refused_flags(state).unwrap_or_default();
    if !flags.contains(&typed) {
        return state.only_tell(format!("nothing was allowed: type {} to confirm", flags.join(" or ")));
    }
    state.plan.allowed = state.plan.allowed.with_flag(typed);
    state.plan.rehearsed = None;
    if state.view == View::Undo { super::repair::open_undo(state) } else { open(state) }
}
