//! Lists: their order, going from match to match, and filtering by words of their lines while they are typed.

use super::{State, View, moved, next_index, ring, triage, wal};
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::tui::facts::Survey;
use crate::tui::list_filter::ListKind;
use crate::tui::query::Query;
use crate::tui::state::WalLevel;
use crate::tui::view;

/// Puts slots into the order that was asked for; the selected one stays selected.
pub(super) fn order_slots(state: &mut State) {
    let Some(survey) = state.cluster.survey.clone() else { return };
    let selected = state.slots.order.get(state.slots.selected).copied();
    let (only, batch) = (state.slots.only, state.slots.batch);
    let fits = state.query.slots(survey.lists());
    let is_listed = |at: usize| (batch.is_none() || survey.ring.batch(at) == batch) && (!only || fits(at));
    let index = &survey.slot_index;
    let mut order: Vec<usize> = index.by(state.slots.column).iter().copied().filter(|at| is_listed(*at)).collect();
    if state.slots.descending {
        order.reverse();
    }
    state.slots.name_columns = index.name_columns(&order, &survey.names);
    state.slots.selected = selected.and_then(|wanted| order.iter().position(|at| *at == wanted)).unwrap_or(0);
    state.slots.order = order;
}

/// Reverses the order; the selected slot stays selected.
pub(super) fn reverse_slots(state: &mut State) {
    let list = &mut state.slots;
    list.descending = !list.descending;
    list.order.reverse();
    list.selected = list.order.len().saturating_sub(list.selected + 1);
}

/// Lists the slots that match what is being typed; while it cannot be read, what matched before.
pub(super) fn filter_slots(state: &mut State) {
    let typed = state.prompt.as_ref().map_or("", |prompt| &prompt.text);
    if let Ok(query) = Query::parse(typed) {
        state.slots.only = !query.is_empty();
        state.query = query;
        order_slots(state);
    }
}

/// Takes what was typed as the new search and goes to the first match.
pub(super) fn search(state: &mut State, typed: &str) {
    match Query::parse(typed) {
        Ok(query) => {
            state.query = query;
            triage::list(state);
            if state.view == View::Slots {
                state.slots.only = !state.query.is_empty();
            }
            if state.slots.only || state.view == View::Slots {
                order_slots(state);
            }
            if state.view == View::Triage && state.triage.map.pages.is_empty() && state.triage.map.total > 0 {
                state.warn(format!("nothing matches {}", state.query.text()));
            }
            if !state.query.is_empty() && state.view != View::Triage {
                find(state, true, true);
            }
        }
        Err(why) => {
            // A filter that follows what is typed is not left half typed.
            if state.view == View::Triage {
                state.query = Query::default();
                triage::list(state);
            }
            state.warn(why);
        }
    }
}

/// Goes to the next line or byte that fits, and past the end from the start. Without a search: to the next damaged page. `here`: the
/// selected line may be it.
pub(super) fn find(state: &mut State, forward: bool, here: bool) {
    if state.view == View::Page {
        return super::page::find_difference(state, forward);
    }
    if state.view == View::Pages {
        // What does not match is not listed.
        let before = state.innodb.selected;
        super::move_by(state, if forward { 1 } else { -1 });
        if state.innodb.selected == before {
            super::move_by(state, if forward { isize::MIN } else { isize::MAX });
        }
        return;
    }
    let Some(survey) = state.cluster.survey.clone() else { return };
    let found = match state.view {
        // What does not match is not listed.
        View::Triage => next_index(state.triage.selected, state.triage.map.rows.len(), forward, here, &|_| true),
        View::Slots => {
            let fits = state.query.slots(survey.lists());
            let any = state.query.is_empty();
            let is_damaged = |at: usize| survey.slots().get(at).is_some_and(|row| is_damaged(row, &survey));
            let slot = |at: usize| state.slots.order.get(at).copied();
            let fits = |at: usize| slot(at).is_some_and(|at| if any { is_damaged(at) } else { fits(at) });
            next_index(state.slots.selected, state.slots.order.len(), forward, here, &fits)
        }
        _ => return,
    };
    match found {
        Some(found) if state.view == View::Triage => state.triage.selected = found,
        Some(found) => state.slots.selected = found,
        None if state.query.is_empty() => state.warn("no damaged page"),
        None => {
            let words = format!("nothing matches {}", state.query.text());
            state.warn(words);
        }
    }
}

fn is_damaged(row: &SlotRow, survey: &Survey) -> bool {
    row.page.is_some_and(|page| survey.damaged(page).is_some())
}

/// The words that are typed become the filter of the open list.
pub(super) fn filter(state: &mut State, text: &str) {
    let Some(kind) = state.list_kind() else { return };
    state.list_filter.set(kind, text);
    if kind == ListKind::Plan {
        state.plan.top = 0;
    }
    refresh(state);
}

/// Shows all of the open list again; false when nothing was hidden.
pub(super) fn clear_filter(state: &mut State) -> bool {
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
pub(super) fn move_among(state: &mut State, by: isize) -> bool {
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
