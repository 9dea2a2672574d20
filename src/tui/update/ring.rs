//! The ring: its cursor, opening a slot, and showing it as it was written.

use super::goto::select_slot;
use super::lists::order_slots;
use super::{Effect, State};
use crate::tui::state::Column;
use crate::tui::view;

/// Ticks that showing the whole ring takes.
const TICKS: usize = 160;

/// Puts the cursor on a slot; its batch is selected in the list.
pub(super) fn set_cursor(state: &mut State, slot: usize) {
    state.batches.cursor = slot;
    if let Some(batch) = state.survey().and_then(|survey| survey.ring.batch(slot)) {
        state.batches.selected = batch;
    }
}

pub(super) fn cursor_to_batch(state: &mut State) {
    let wanted = Some(state.batches.selected);
    let found = state.survey().and_then(|survey| survey.ring.batches.iter().position(|batch| *batch == wanted));
    state.batches.cursor = found.unwrap_or(state.batches.cursor);
}

pub(super) fn move_cells(state: &mut State, by: isize) {
    let Some(grid) = view::ring_grid(state).filter(|grid| grid.slots > 0) else { return };
    let cell = (state.batches.cursor / grid.per_cell).saturating_add_signed(by);
    let last = (grid.slots - 1) / grid.per_cell;
    if cell <= last {
        set_cursor(state, cell * grid.per_cell);
    }
}

pub(super) fn move_rows(state: &mut State, by: isize) {
    let Some(grid) = view::ring_grid(state) else { return };
    let row = state.batches.cursor / grid.per_cell / grid.columns;
    if row.checked_add_signed(by).is_some() {
        move_cells(state, by * grid.columns as isize);
    }
}

/// Lists the slots of the batch under the cursor, on the slot under the cursor.
pub(super) fn open(state: &mut State) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else { return Vec::new() };
    if survey.ring.count() == 0 {
        return Vec::new();
    }
    let slot = state.batches.cursor;
    state.slots.only = false;
    state.slots.column = Column::Slot;
    state.slots.descending = false;
    state.slots.batch = survey.ring.batch(slot);
    order_slots(state);
    select_slot(state, slot)
}

pub(super) fn play(state: &mut State) -> Vec<Effect> {
    if state.survey().is_none_or(|survey| survey.ring.order.is_empty()) {
        return state.only_tell("no slot was written");
    }
    state.batches.played = Some(0);
    vec![Effect::Tick]
}

pub(super) fn tick(state: &mut State) -> Vec<Effect> {
    let (Some(played), Some(survey)) = (state.batches.played, state.cluster.survey.clone()) else { return Vec::new() };
    let order = &survey.ring.order;
    let next = (played + order.len().div_ceil(TICKS)).min(order.len());
    if let Some(slot) = next.checked_sub(1).and_then(|last| order.get(last)) {
        set_cursor(state, *slot);
    }
    if next == order.len() {
        state.batches.played = None;
        return state.only_tell("shown to the end: what was overwritten since is not seen");
    }
    state.batches.played = Some(next);
    vec![Effect::Tick]
}

/// Stops that; true if it was running.
pub(super) fn stop(state: &mut State) -> bool {
    state.batches.played.take().is_some()
}
