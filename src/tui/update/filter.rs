//! Filtering a list by words of its lines while they are typed, and moving among the lines that match.

use super::{State, View, moved, ring, wal};
use crate::tui::list_filter::ListKind;
use crate::tui::state::WalLevel;
use crate::tui::view;

/// The words that are typed become the filter of the open list.
pub(super) fn typed(state: &mut State, text: &str) {
    let Some(kind) = state.list_kind() else { return };
    state.list_filter.set(kind, text);
    if kind == ListKind::Plan {
        state.plan.top = 0;
    }
    refresh(state);
}

/// Shows all of the open list again; false when nothing was hidden.
pub(super) fn clear(state: &mut State) -> bool {
    let Some((kind, _)) = state.filtered_list() else { return false };
    state.list_filter.set(kind, "");
    true
}

pub(super) fn refresh(state: &mut State) {
    state.find_shown(view::list_lines);
    if state.shown_lines().is_none() {
        return;
    }
    let selected = selected(state);
    let Some(lines) = state.shown_lines() else { return };
    if lines.binary_search(&selected).is_err() {
        let next = lines.iter().find(|line| **line > selected).or(lines.last()).copied();
        if let Some(next) = next {
            select(state, next);
        }
    }
}

/// The selected line of the open list.
pub(super) fn selected(state: &mut State) -> usize {
    let first = state.wal.window.as_ref().map_or(0, |window| window.cells.start);
    let cell = state.wal.cell.saturating_sub(first);
    state.selection().map_or(cell, |at| *at)
}

pub(super) fn select(state: &mut State, line: usize) {
    if state.view == View::Wal && matches!(state.wal.level, WalLevel::Timeline | WalLevel::Stretches) {
        let by = line.cast_signed() - selected(state).cast_signed();
        return wal::move_by(state, by);
    }
    if let Some(at) = state.selection() {
        *at = line;
    }
    if state.view == View::Batches {
        ring::cursor_to_batch(state);
    }
}

/// Moves among the lines that match; false where the open list is not filtered.
pub(super) fn move_by(state: &mut State, by: isize) -> bool {
    let selected = selected(state);
    let Some((kind, lines)) = state.list_kind().zip(state.shown_lines()) else { return false };
    if kind == ListKind::Plan {
        return false;
    }
    let at = lines.binary_search(&selected).unwrap_or_else(|at| at);
    let is_past = kind == ListKind::Records && by > 0 && at + 1 >= lines.len();
    if let Some(line) = lines.get(moved(at, by, lines.len())).copied().filter(|_| !is_past) {
        select(state, line);
    } else if is_past {
        // Records that follow are listed when the last one of this list is left.
        let last = state.wal.list.as_ref().filter(|list| list.next.is_some()).map(|list| list.lines.len());
        if let Some(last) = last {
            state.wal.record = last.saturating_sub(1);
            wal::move_by(state, 1);
        }
    }
    true
}
