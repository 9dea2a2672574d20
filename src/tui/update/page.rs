//! Going about in one page: its parts, its bytes, its rows.

use super::navigate::{clamp, move_by, open_page, show};
use super::{Effect, PagePart, State, View, next_index};
use crate::analysis::pages::page_rows::RowFate;
use crate::output::page_text::version_title;
use crate::tui::view;

/// Moves the cursor by bytes.
pub(super) fn move_cursor(state: &mut State, by: isize) {
    state.page.cursor = view::byte_sides(state).map_or(0, |bytes| bytes.bytes_further(by));
}

/// Moves the cursor by lines, of which one may stand for many equal rows.
pub(super) fn move_lines(state: &mut State, by: isize) {
    state.page.cursor = view::byte_sides(state).map_or(0, |bytes| bytes.lines_further(by));
}

pub(super) fn next_image(state: &mut State) {
    let images = state.page.sheet.as_ref().map_or(0, |sheet| sheet.images().len());
    match images {
        0 => state.warn("there is no image to compare with"),
        1 => state.tell("there is only one image"),
        _ => state.page.image = (state.page.image + 1) % images,
    }
    clamp(state);
}

pub(super) fn fold(state: &mut State) {
    if !matches!(state.page.part, PagePart::Bytes | PagePart::Rows) {
        return state.tell("there is nothing to fold here: p goes to the rows and the bytes");
    }
    state.page.is_unfolded = !state.page.is_unfolded;
}

/// Shows everything about the selected line, or the list again.
pub(super) fn open_line(state: &mut State) {
    if !state.page.part.is_list() {
        return state.tell("there is nothing to open here: p goes to the rows and the records");
    }
    state.page.is_open = !state.page.is_open;
    state.page.top = 0;
}

/// Goes to the next damaged page, and past the last one to the first. The part that is open stays open.
pub(super) fn step_damaged(state: &mut State, forward: bool) -> Vec<Effect> {
    if state.view == View::InnodbPage {
        // Among the lines that match, where the list is filtered.
        state.view = View::Pages;
        super::lists::refresh(state);
        move_by(state, if forward { 1 } else { -1 });
        return show(state, View::InnodbPage);
    }
    let Some(survey) = state.cluster.survey.clone() else {
        return state.only_warn("the cluster has not been read yet");
    };
    let pages = survey.pages();
    let Some(wanted) = state.page.wanted.filter(|_| !pages.is_empty()) else {
        return state.only_warn("no damaged page");
    };
    // A page in order stands between two damaged ones.
    let at = pages.binary_search_by_key(&wanted, |report| report.page);
    let next = match (at, forward) {
        (Ok(at), true) => at + 1,
        (Err(at), true) => at,
        (Ok(at) | Err(at), false) => at + pages.len() - 1,
    } % pages.len();
    let Some(report) = pages.get(next) else { return Vec::new() };
    if report.page == wanted {
        return state.only_tell("this is the only damaged page");
    }
    let (part, came_from) = (state.page.part, state.page.came_from);
    let effects = open_page(state, report.page);
    state.page.part = part;
    state.page.came_from = came_from;
    if let Some(row) = state.triage.map.row_of(report.page) {
        state.triage.selected = row;
    }
    state.tell(format!("damaged page {} of {}", next + 1, pages.len()));
    effects
}

/// Goes to the next stretch of bytes, or in the list of rows to the next row, in which disk and image differ.
pub(super) fn find_difference(state: &mut State, forward: bool) {
    let Some(sheet) = state.page.sheet.clone() else { return };
    let Some(image) = sheet.images().get(state.page.image).filter(|_| sheet.disk().is_some()) else {
        return state.warn("there are not two versions to compare");
    };
    let title = version_title(image);
    if state.page.part == PagePart::Rows && !state.page.is_open {
        let pairs = sheet.rows(state.page.image).map_or(&[][..], |of| &of.rows.pairs);
        let differs = |at: usize| pairs.get(at).is_some_and(|pair| pair.fate != RowFate::Same);
        match next_index(state.page.row, pairs.len(), forward, false, &differs) {
            Some(at) => state.page.row = at,
            None => state.tell(format!("disk and image {title} have the same rows")),
        }
        return;
    }
    match view::byte_sides(state).and_then(|bytes| bytes.difference(forward)) {
        Some(at) => {
            state.page.cursor = at;
            state.page.part = PagePart::Bytes;
            state.page.is_open = false;
        }
        None => state.tell(format!("disk and image {title} are the same")),
    }
}
