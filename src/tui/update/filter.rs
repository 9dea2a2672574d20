//! Filtering a list by words of its lines while they are typed, and moving among the lines that match.

use super::{ring, wal};
use crate::tui::list_filter::ListKind;
use crate::tui::list_moves::moved;
use crate::tui::state::State;
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
    let Some(lines) = state.shown_lines() else { return };
    let selected = selected(state);
    if lines.binary_search(&selected).is_err() {
        let next = lines.iter().find(|line| **line > selected).or(lines.last()).copied();
        if let Some(next) = next {
            select(state, next);
        }
    }
}

fn selected(state: &State) -> usize {
    match state.list_kind() {
        Some(ListKind::Findings) => state.triage.finding,
        Some(ListKind::Batches) => state.batches.selected,
        Some(ListKind::Rows) => state.page.row,
        Some(ListKind::History) => state.page.record,
        Some(ListKind::Intervals) => state.wal.selected,
        Some(ListKind::Stretches) => {
            let first = state.wal.window.as_ref().map_or(0, |window| window.cells.start);
            state.wal.cell.saturating_sub(first)
        }
        Some(ListKind::Records) => state.wal.record,
        Some(ListKind::Pages) => state.innodb.selected,
        Some(ListKind::Plan) | None => 0,
    }
}

fn select(state: &mut State, line: usize) {
    let by = line.cast_signed() - selected(state).cast_signed();
    match state.list_kind() {
        Some(ListKind::Findings) => state.triage.finding = line,
        Some(ListKind::Batches) => {
            state.batches.selected = line;
            ring::cursor_to_batch(state);
        }
        Some(ListKind::Rows) => state.page.row = line,
        Some(ListKind::History) => state.page.record = line,
        Some(ListKind::Intervals | ListKind::Stretches) => wal::move_by(state, by),
        Some(ListKind::Records) => state.wal.record = line,
        Some(ListKind::Pages) => state.innodb.selected = line,
        Some(ListKind::Plan) | None => {}
    }
}

/// Moves among the lines that match; false where the open list is not filtered.
pub(super) fn move_by(state: &mut State, by: isize) -> bool {
    let Some((kind, lines)) = state.list_kind().zip(state.shown_lines()) else { return false };
    if kind == ListKind::Plan {
        return false;
    }
    let at = lines.binary_search(&selected(state)).unwrap_or_else(|at| at);
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
