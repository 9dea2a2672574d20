//! Going from view to view and from line to line.

use super::lists::{self, order_slots};
use super::{Effect, PageId, PagePart, PromptKind, State, View, map, moved, page, triage, wal};
use crate::tui::checklist::tasks;
use crate::tui::picker;
use crate::tui::query::Query;
use crate::tui::state::{PageState, WalLevel, stepped};
use crate::tui::view;

/// Pages that ctrl-o can go back to.
const MAX_VISITED: usize = 100;

pub(super) fn back(state: &mut State) {
    if let Some(prompt) = state.prompt.take() {
        // What was typed has filtered the list.
        if state.help.is_open {
            state.help.filter.clear();
        } else if prompt.kind == PromptKind::Search {
            let is_slots = state.view == View::Slots;
            state.slots.only &= !is_slots;
            if !lists::clear_filter(state) && state.list_kind().is_none() {
                clear(state);
            }
            if is_slots {
                order_slots(state);
            }
        }
        return;
    }
    if state.help.is_open {
        state.help.is_open = false;
    } else if state.view == View::Page && state.page.is_open {
        state.page.is_open = false;
    } else if state.view == View::Map && state.map.is_open {
        state.map.is_open = false;
    } else if lists::clear_filter(state) {
    } else if matches!(state.view, View::Findings | View::Steps | View::Apply | View::Undo) {
        state.view = state.view.tab(&state.subject.views);
    } else if state.view == View::InnodbPage {
        state.view = View::Pages;
    } else if state.view == View::Page {
        state.view = state.page.came_from;
    } else if state.view == View::Wal && wal::back(state) {
    } else if state.view == View::Slots && state.slots.only {
        state.slots.only = false;
        order_slots(state);
    } else if let Some(view) = state.trail.pop() {
        if state.slots.batch.take().is_some() {
            order_slots(state);
        }
        state.view = view;
        clamp(state);
    } else if state.view == View::Slots && state.slots.batch.take().is_some() {
        order_slots(state);
    } else {
        clear(state);
    }
}

fn clear(state: &mut State) {
    state.query = Query::default();
    triage::list(state);
}

pub(super) fn step_view(state: &mut State, step: isize) -> Vec<Effect> {
    let next = stepped(&state.subject.views, state.view.tab(&state.subject.views), step);
    show(state, next)
}

pub(super) fn show(state: &mut State, view: View) -> Vec<Effect> {
    state.help.is_open = false;
    if view == View::Page && state.page.wanted.is_none() {
        state.page.came_from = View::Triage;
        let worst = state.triage.map.worst_page(state.triage.selected);
        if let Some(page) = worst.filter(|_| state.survey().is_some()) {
            state.view = View::Triage;
            return open_page(state, page);
        }
    }
    state.view = view;
    state.innodb.top = 0;
    state.innodb.is_compared |= view == View::InnodbPage;
    clamp(state);
    let is_known = state.cluster.survey.is_some() && !state.cluster.is_reading;
    if view == View::Plan && state.plan.sheet.is_none() && is_known {
        return vec![Effect::MakePlan(state.plan.marked())];
    }
    if is_known { super::page_again(state) } else { Vec::new() }
}

pub(super) fn open(state: &mut State) -> Vec<Effect> {
    if state.view == View::Batches {
        return super::ring::open(state);
    }
    if state.view == View::Page && state.page.sheet.is_some() {
        page::open_line(state);
        return Vec::new();
    }
    if state.view == View::Map {
        return map::open(state);
    }
    if state.view == View::Pages {
        if state.shown_lines().is_some_and(<[usize]>::is_empty) {
            return state.only_tell("no page is selected");
        }
        return show(state, View::InnodbPage);
    }
    if state.view == View::Steps {
        let task = tasks(state).into_iter().nth(state.checklist.selected);
        return match task.as_ref().and_then(|task| task.view) {
            Some((view, ..)) => show(state, view),
            None => state.only_tell("this is done outside: y copies its command, space ticks it"),
        };
    }
    if state.view == View::Wal {
        return wal::open(state).map_or_else(Vec::new, |page| open_page(state, page));
    }
    let worst = || state.triage.map.worst_page(state.triage.selected).filter(|_| state.view == View::Triage);
    match state.selected_page().or_else(worst) {
        Some(page) if state.survey().is_some() => open_page(state, page),
        Some(_) => state.only_tell("this page is not judged yet: the check continues"),
        None if state.view == View::Triage => state.only_tell("there is no damaged page"),
        None if state.cluster.survey.is_some() => state.only_warn("this line is not about one page"),
        None => Vec::new(),
    }
}

pub(super) fn open_page(state: &mut State, page: PageId) -> Vec<Effect> {
    state.help.is_open = false;
    if state.view != View::Page {
        state.page.came_from = state.view;
    }
    state.view = View::Page;
    if state.page.wanted != Some(page) {
        if state.visited.len() == MAX_VISITED {
            state.visited.remove(0);
        }
        state.visited.extend(state.page.wanted);
        state.ahead.clear();
        state.page = PageState { wanted: Some(page), came_from: state.page.came_from, ..PageState::default() };
    }
    if state.page.sheet.is_some() { Vec::new() } else { vec![Effect::ReadPage(page)] }
}

pub(super) fn step_part(state: &mut State, step: isize) {
    let page = &mut state.page;
    page.part = stepped(&PagePart::ALL, page.part, step);
    (page.top, page.left, page.is_open) = (0, 0, false);
}

/// Moves the cursor by bytes, or a wide part by columns.
pub(super) fn sideways(state: &mut State, by: isize) {
    const COLUMNS: isize = 8;
    if state.view == View::Batches {
        return super::ring::move_cells(state, by);
    }
    if state.view == View::Map {
        return map::go(state, (by, 0));
    }
    if state.view == View::Wal {
        return match state.wal.level {
            WalLevel::Timeline => wal::move_window(state, by),
            WalLevel::Stretches | WalLevel::Records => state.tell("esc, then left and right move the window"),
            WalLevel::Record => wal::step_block(state, by),
        };
    }
    if state.page.part == PagePart::Bytes {
        page::move_cursor(state, by);
    } else {
        state.page.left = state.page.left.saturating_add_signed(by * COLUMNS).min(view::widest(state));
    }
}

/// Moves the selection, or what is scrolled, by so many lines.
pub(super) fn move_by(state: &mut State, by: isize) {
    if let Some(items) = picker::items(state) {
        state.picked = moved(state.picked, by, items.len());
        return;
    }
    if state.help.is_open {
        state.help.top = moved(state.help.top, by, view::extent(state).1);
        return;
    }
    if lists::move_among(state, by) {
        return;
    }
    match state.view {
        View::Map if by == isize::MIN || by == isize::MAX => map::to_end(state, by > 0),
        View::Map if by != 0 => map::go(state, (0, by.signum())),
        View::Map => {}
        View::Wal => wal::move_by(state, by),
        View::Steps => state.checklist.selected = moved(state.checklist.selected, by, tasks(state).len()),
        View::Page if state.page.part == PagePart::Bytes => page::move_lines(state, by),
        _ => {
            let (count, range) = view::extent(state);
            let before = state.batches.selected;
            match state.selection() {
                Some(selected) => *selected = moved(*selected, by, count),
                None => state.top().into_iter().for_each(|top| *top = moved(*top, by, range)),
            }
            if state.batches.selected != before {
                super::ring::cursor_to_batch(state);
            }
        }
    }
}

pub(super) fn clamp(state: &mut State) {
    move_by(state, 0);
}

/// The mouse was pressed: opens a tab, selects a line, or opens the one that is selected.
pub(super) fn click(state: &mut State, column: u16, row: u16) -> Vec<Effect> {
    state.message = None;
    if row == 0 {
        return view::tab_at(state, column).map_or_else(Vec::new, |view| show(state, view));
    }
    if row + 1 == state.size.1 {
        return view::hint_at(state, column).map_or_else(Vec::new, |command| super::command::press(state, command));
    }
    if state.help.is_open {
        state.help.is_open = false;
        return Vec::new();
    }
    if state.view == View::Batches
        && let Some(slot) = view::slot_at(state, column, row)
    {
        let again = state.batches.cursor == slot;
        super::ring::set_cursor(state, slot);
        return if again { open(state) } else { Vec::new() };
    }
    if state.view == View::Map {
        return map::click(state, usize::from(column), usize::from(row).saturating_sub(1));
    }
    let is_beside = state.detail_columns() > 0 && usize::from(column) >= state.list_columns();
    let Some(at) = view::line_at(state, row).filter(|_| !is_beside) else { return Vec::new() };
    // A second press on the same line opens it.
    if lists::selected(state) == at && state.view != View::Findings {
        return open(state);
    }
    lists::select(state, at);
    Vec::new()
}
