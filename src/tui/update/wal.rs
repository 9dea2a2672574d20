//! The WAL view: the window, and drilling down to records.

use super::{Arc, Effect, PageId, State, View, moved};
use std::ops::Range;

use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::analysis::wal::timeline::{Timeline, TimelineCell};
use crate::tui::facts::{WalSurvey, WindowSheet};
use crate::tui::state::WalLevel;
use crate::types::Lsn;

pub(super) fn read(state: &mut State, survey: Arc<WalSurvey>) {
    let wal = &mut state.wal;
    let has_all = wal.survey.as_ref().is_some_and(|before| before.is_complete);
    if wal.is_following && has_all && !survey.is_complete {
        // What is known stays on the screen until all of the newer WAL is.
        return;
    }
    let is_at_end = wal.survey.as_ref().is_none_or(|before| wal.selected + 1 >= before.intervals.len());
    let is_new = wal.survey.as_ref().is_none_or(|before| before.is_complete);
    wal.is_reading = !survey.is_complete;
    if !wal.is_reading {
        wal.progress = None;
    }
    wal.error = None;
    wal.selected = wal.selected.min(survey.intervals.len().saturating_sub(1));
    if is_new {
        (wal.window, wal.stretch) = (None, None);
        wal.zoom.clear();
        wal.level = WalLevel::Timeline;
        (wal.lists, wal.asked_list, wal.asked_record) = (Vec::new(), None, None);
    }
    // An earlier interval that was gone back to stays selected.
    if wal.is_following && is_at_end {
        wal.selected = survey.intervals.len().saturating_sub(1);
    }
    wal.survey = Some(survey);
    if state.wal.window.is_none() {
        take_interval(state);
    }
    select_cell(state, 0);
}

pub(super) fn take_interval(state: &mut State) {
    let Some((survey, timeline)) = known(state) else { return };
    let Some(interval) = survey.intervals.get(state.wal.selected) else { return };
    set_window(state, timeline.cells_between(interval.start_lsn, interval.end_lsn));
}

fn known(state: &State) -> Option<(Arc<WalSurvey>, Arc<Timeline>)> {
    let survey = state.wal.survey.clone()?;
    let timeline = survey.timeline.clone()?;
    Some((survey, timeline))
}

fn set_window(state: &mut State, cells: Range<usize>) {
    let Some((survey, timeline)) = known(state) else { return };
    if state.wal.window.as_ref().is_some_and(|window| window.cells == cells) {
        return;
    }
    let is_outside = |zoom: &Range<usize>| cells.start < zoom.start || cells.end > zoom.end;
    while state.wal.zoom.last().is_some_and(is_outside) {
        state.wal.zoom.pop();
    }
    let whole = survey.whole.as_ref().filter(|whole| whole.cells == cells);
    state.wal.window = Some(whole.map_or_else(|| Arc::new(WindowSheet::of(&survey, &timeline, cells)), Arc::clone));
}

/// Moves the window by half of its width, at least by one stretch.
pub(super) fn move_window(state: &mut State, by: isize) {
    let Some((cells, count)) = window_of(state) else { return };
    let width = cells.len();
    let step = (width / 2).max(1).cast_signed();
    let start = cells.start.saturating_add_signed(by * step).min(count.saturating_sub(width));
    if start == cells.start {
        state.tell(if by < 0 { "WAL begins here" } else { "WAL ends here" });
        return;
    }
    set_window(state, start..start + width);
    follow_window(state);
}

/// Makes the window twice or half as wide; its start stays where it can.
pub(super) fn resize_window(state: &mut State, is_wider: bool) {
    let Some((cells, count)) = window_of(state) else { return };
    let width = if is_wider { (cells.len() * 2).clamp(1, count) } else { (cells.len() / 2).max(1) };
    if width == cells.len() {
        state.tell(if is_wider { "the window holds all WAL" } else { "the window cannot be narrower" });
        return;
    }
    let start = cells.start.min(count.saturating_sub(width));
    set_window(state, start..start + width);
    follow_window(state);
}

/// All WAL in the window; the selected interval when it is that already.
pub(super) fn whole_window(state: &mut State) {
    let Some((cells, count)) = window_of(state) else { return };
    if cells == (0..count) { take_interval(state) } else { set_window(state, 0..count) }
}

/// Reads WAL again whenever it has grown, with the newest interval selected; or stops that.
pub(super) fn follow(state: &mut State) -> Vec<Effect> {
    if state.subject.views.contains(&View::Triage) {
        return state.only_tell("pg_walfpi tui follows a running server; this cluster should be stopped");
    }
    state.wal.is_following = !state.wal.is_following;
    let words = if state.wal.is_following {
        "following: new WAL is read as it is written (f: pause)"
    } else {
        "paused (f: follow)"
    };
    state.tell(words);
    if state.wal.is_following {
        state.wal.level = WalLevel::Timeline;
        move_by(state, isize::MAX);
        return grown(state);
    }
    Vec::new()
}

/// Files of WAL have changed: reads them again while they are followed.
pub(super) fn grown(state: &mut State) -> Vec<Effect> {
    // While it is read, the next look at the files says it again. Below the timeline the picture stays.
    let is_wanted = state.wal.is_following && !state.wal.is_reading && state.wal.level == WalLevel::Timeline;
    state.cluster.has_changed &= !state.wal.is_following;
    state.wal.is_reading |= is_wanted;
    if is_wanted { vec![Effect::ReadWal] } else { Vec::new() }
}

pub(super) fn zoom(state: &mut State) {
    let Some((cells, count)) = window_of(state) else { return };
    let drawn = state.wal.zoom.last().cloned().unwrap_or(0..count);
    if state.wal.level != WalLevel::Timeline {
        state.tell("esc, then z zooms into the window");
    } else if cells.is_empty() || cells == drawn {
        state.tell("the window is all that is drawn: - makes it narrower");
    } else {
        state.wal.zoom.push(cells);
    }
}

pub(super) fn switch_axis(state: &mut State) {
    state.wal.by_address = !state.wal.by_address;
    let by = if state.wal.by_address { "by address: the share of images" } else { "by time, if records contain it" };
    state.tell(by);
}

fn window_of(state: &mut State) -> Option<(Range<usize>, usize)> {
    let found = known(state).and_then(|(_, timeline)| {
        let cells = state.wal.window.as_ref().map_or(0..1, |window| window.cells.clone());
        (!timeline.cells.is_empty()).then_some((cells, timeline.cells.len()))
    });
    if found.is_none() {
        let is_reading = state.wal.is_reading;
        state.tell(if is_reading { "WAL is being counted: wait a moment" } else { "no record in this WAL" });
    }
    found
}

fn follow_window(state: &mut State) {
    let Some((survey, _)) = known(state) else { return };
    let Some((start, _)) = state.wal.window.as_ref().and_then(|window| window.window.range) else { return };
    let after = survey.intervals.partition_point(|interval| interval.start_lsn <= start);
    state.wal.selected = after.saturating_sub(1);
}

/// Selects a stretch of the window, `by` from the selected one.
fn select_cell(state: &mut State, by: isize) {
    let Some((survey, timeline)) = known(state) else { return };
    let Some(cells) = state.wal.window.as_ref().map(|window| window.cells.clone()) else { return };
    if cells.is_empty() {
        return;
    }
    let at = state.wal.cell.saturating_add_signed(by).clamp(cells.start, cells.end - 1);
    state.wal.cell = at;
    if state.wal.stretch.as_ref().is_none_or(|stretch| stretch.cells != (at..at + 1)) {
        state.wal.stretch = Some(Arc::new(WindowSheet::of(&survey, &timeline, at..at + 1)));
    }
}

pub(super) fn move_by(state: &mut State, by: isize) {
    match state.wal.level {
        WalLevel::Timeline => {
            let count = state.wal.survey.as_ref().map_or(0, |wal| wal.intervals.len());
            let at = moved(state.wal.selected, by, count);
            if at != state.wal.selected {
                state.wal.selected = at;
                take_interval(state);
            }
        }
        WalLevel::Stretches => select_cell(state, by),
        WalLevel::Records => select_record(state, by),
        WalLevel::Record => {
            let (_, range) = crate::tui::view::extent(state);
            state.wal.top = moved(state.wal.top, by, range);
        }
    }
}

/// Selects a record; past the ends of the list, the list that follows or came before is wanted.
fn select_record(state: &mut State, by: isize) {
    let Some(list) = state.wal.list.clone() else { return };
    let count = list.lines.len();
    let wal = &mut state.wal;
    let at = wal.record.saturating_add_signed(by);
    if let Some(next) = list.next.filter(|_| by > 0 && wal.record + 1 >= count) {
        let images = wal.lists.last().map_or(0, |(_, images)| *images) + list.images;
        wal.lists.push((next, images));
        wal.record = 0;
    } else if by < 0 && wal.record == 0 && wal.lists.len() > 1 {
        wal.lists.pop();
        // The last one of it, as soon as it is there.
        wal.record = usize::MAX;
    } else {
        wal.record = at.min(count.saturating_sub(1));
    }
}

/// Goes one level down. `Some`: open the page of the selected block reference.
pub(super) fn open(state: &mut State) -> Option<PageId> {
    match state.wal.level {
        WalLevel::Timeline => {
            let (cells, _) = window_of(state)?;
            if cells.is_empty() {
                state.warn("no record in this window");
                return None;
            }
            state.wal.level = WalLevel::Stretches;
            select_cell(state, 0);
        }
        WalLevel::Stretches => {
            let (_, timeline) = known(state)?;
            let start = timeline.cells.get(state.wal.cell)?.start_lsn;
            let wal = &mut state.wal;
            wal.level = WalLevel::Records;
            if wal.lists.first() != Some(&(start, 0)) {
                (wal.lists, wal.list, wal.asked_list, wal.record) = (vec![(start, 0)], None, None, 0);
            }
        }
        WalLevel::Records => {
            state.wal.list.as_ref()?.lines.get(state.wal.record)?;
            (state.wal.level, state.wal.top, state.wal.block) = (WalLevel::Record, 0, 0);
        }
        WalLevel::Record => {
            let block = selected_sheet(state).and_then(|sheet| sheet.blocks.get(state.wal.block).cloned());
            let Some(block) = block else {
                state.warn("this record refers to no block");
                return None;
            };
            if !state.subject.views.contains(&View::Page) {
                state.warn("pages are shown by pg_dwbinspect tui, which has the data directory");
                return None;
            }
            if block.page.is_none() {
                state.warn("this fork is unknown");
            }
            return block.page;
        }
    }
    None
}

/// Goes one level up; false at the top.
pub(super) fn back(state: &mut State) -> bool {
    state.wal.level = match state.wal.level {
        WalLevel::Timeline => return state.wal.zoom.pop().is_some(),
        WalLevel::Stretches => WalLevel::Timeline,
        WalLevel::Records => WalLevel::Stretches,
        WalLevel::Record => WalLevel::Records,
    };
    true
}

/// The next block reference of the record, or the one before.
pub(super) fn step_block(state: &mut State, by: isize) {
    let count = selected_sheet(state).map_or(0, |sheet| sheet.blocks.len());
    if count == 0 {
        state.tell("this record refers to no block");
        return;
    }
    state.wal.block = moved(state.wal.block, by, count);
}

fn selected_sheet(state: &State) -> Option<Arc<RecordSheet>> {
    let line = state.wal.list.as_ref()?.lines.get(state.wal.record)?;
    let sheet = state.wal.sheet.as_ref()?.as_ref().ok()?;
    (sheet.start_lsn == line.start_lsn).then(|| Arc::clone(sheet))
}

pub(super) fn listed(state: &mut State, list: Arc<RecordList>) {
    if state.wal.asked_list == Some(list.from) {
        state.wal.record = state.wal.record.min(list.lines.len().saturating_sub(1));
        state.wal.list = Some(list);
    }
}

pub(super) fn record_read(state: &mut State, at: Lsn, sheet: Result<Arc<RecordSheet>, String>) {
    if state.wal.asked_record == Some(at) {
        state.wal.sheet = Some(sheet);
    }
}

/// The work that the open level wants done and that was not asked for yet.
pub(super) fn wanted(state: &mut State) -> Option<Effect> {
    let is_open = state.view == View::Wal && matches!(state.wal.level, WalLevel::Records | WalLevel::Record);
    if !is_open {
        return None;
    }
    let (_, timeline) = known(state)?;
    let cell = timeline.cells.get(state.wal.cell)?;
    let (from, images) = *state.wal.lists.last()?;
    if state.wal.asked_list != Some(from) {
        (state.wal.asked_list, state.wal.list) = (Some(from), None);
        let to = timeline.cells.get(state.wal.cell + 1).map_or(Lsn(u64::MAX), |next| next.start_lsn);
        return Some(Effect::ListRecords { from, to, causes: causes_from(cell, images) });
    }
    let list = state.wal.list.as_ref().filter(|list| list.from == from)?;
    let line = list.lines.get(state.wal.record)?;
    let is_shown = state.wal.level == WalLevel::Record || state.detail_columns() > 0;
    if !is_shown || state.wal.asked_record == Some(line.start_lsn) {
        return None;
    }
    let before: usize = list.lines.iter().take(state.wal.record).map(|line| usize::from(line.images)).sum();
    let causes = causes_from(cell, images + before).unwrap_or_default();
    let causes = causes.into_iter().take(usize::from(line.images)).collect();
    let at = line.start_lsn;
    (state.wal.asked_record, state.wal.block) = (Some(at), 0);
    Some(Effect::ReadRecord { at, causes })
}

fn causes_from(cell: &TimelineCell, images: usize) -> Option<Vec<Cause>> {
    cell.image_causes()?.get(images..).map(<[Cause]>::to_vec)
}
