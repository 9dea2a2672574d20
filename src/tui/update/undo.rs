//! Taking a repair back: its rehearsal, and the word.

use super::{Arc, Effect, Prompt, PromptKind, State, View, pages};
use crate::tui::action::UndoOrder;
use crate::tui::facts::{UndoSheet, UndoneSheet};

/// Confirmation before old bytes are written back.
pub const UNDO_WORD: &str = "undo";

/// The undo that is possible now; else says why not.
fn order(state: &mut State) -> Option<UndoOrder> {
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

pub(super) fn open(state: &mut State) -> Vec<Effect> {
    let Some(order) = order(state) else { return Vec::new() };
    state.view = View::Undo;
    state.help.is_open = false;
    state.plan.undo = None;
    state.plan.failure = None;
    state.plan.before_top = 0;
    vec![Effect::RehearseUndo(order)]
}

/// The rehearsal has ended. A result from before another permission is discarded.
pub(super) fn rehearsed(state: &mut State, sheet: Arc<UndoSheet>) {
    let is_of_journal = state.journal_in_force() == Some(sheet.order.journal.as_path());
    if is_of_journal && sheet.order.allowed == state.plan.allowed {
        state.plan.undo = Some(sheet);
        super::clamp(state);
    }
}

pub(super) fn ask_for_word(state: &mut State) {
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
        state.tell(format!("nothing was written: type {UNDO_WORD} to confirm"));
        return Vec::new();
    }
    let Some(order) = order(state) else { return Vec::new() };
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
