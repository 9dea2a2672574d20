//! Lists: their order, and going from match to match.

use super::facts::Survey;
use super::query::slot_words;
use super::state::{Column, State, View};
use crate::analysis::slot_row::SlotRow;

/// Puts slots into the order that was asked for; the selected one stays selected.
pub(super) fn order_slots(state: &mut State) {
    let Some(survey) = state.survey.clone() else { return };
    let selected = state.slots.order.get(state.slots.at).copied();
    let slots = &survey.slots;
    let fits = state.query.slots(&survey);
    let only = state.slots.only;
    let mut order: Vec<usize> = (0..).zip(slots).filter(|(_, row)| !only || fits(row)).map(|(at, _)| at).collect();
    let row = |at: usize| slots.get(at);
    match Column::ALL.get(state.slots.column).copied().unwrap_or(Column::Slot) {
        Column::Slot => {}
        Column::Page => order.sort_by_cached_key(|at| row(*at).map(|row| (row.rel, row.fork, row.block))),
        Column::PageLsn => order.sort_by_cached_key(|at| row(*at).map(|row| row.page_lsn)),
        Column::Condition => order.sort_by_cached_key(|at| row(*at).map(|row| row.condition)),
        Column::Batch => order.sort_by_cached_key(|at| row(*at).map(|row| row.batch)),
        Column::Disk => order.sort_by_cached_key(|at| row(*at).map(|row| slot_words(row)[2])),
    }
    if state.slots.descending {
        order.reverse();
    }
    state.slots.at = selected.and_then(|wanted| order.iter().position(|at| *at == wanted)).unwrap_or(0);
    state.slots.order = order;
}

/// Turns the order round; the selected slot stays selected.
pub(super) fn reverse_slots(state: &mut State) {
    let list = &mut state.slots;
    list.descending = !list.descending;
    list.order.reverse();
    list.at = list.order.len().saturating_sub(list.at + 1);
}

/// Goes to the next line or byte that fits, round the end. Without a search: to the next damaged page. `here`: the
/// selected line may be it.
pub(super) fn find(state: &mut State, forward: bool, here: bool) {
    if state.view == View::Page {
        return find_difference(state, forward);
    }
    let Some(survey) = state.survey.clone() else { return };
    let found = match state.view {
        View::Triage => {
            let fits = state.query.pages(&survey);
            let any = state.query.is_empty();
            let fits = |at: usize| survey.pages.get(at).is_some_and(|line| any || fits(line));
            next_place(state.triage_at, survey.pages.len(), forward, here, &fits)
        }
        View::Slots => {
            let fits = state.query.slots(&survey);
            let any = state.query.is_empty();
            let row = |at: usize| state.slots.order.get(at).and_then(|at| survey.slots.get(*at));
            let fits = |at: usize| row(at).is_some_and(|row| if any { is_damaged(row, &survey) } else { fits(row) });
            next_place(state.slots.at, state.slots.order.len(), forward, here, &fits)
        }
        _ => return,
    };
    match found {
        Some(found) if state.view == View::Triage => state.triage_at = found,
        Some(found) => state.slots.at = found,
        None if state.query.is_empty() => state.message = Some((true, "no damaged page".to_owned())),
        None => state.message = Some((true, format!("nothing fits {}", state.query.text()))),
    }
}

/// A slot of a page that triage lists.
fn is_damaged(row: &SlotRow, survey: &Survey) -> bool {
    row.page.is_some_and(|page| survey.damaged(page).is_some())
}

fn next_place(at: usize, count: usize, forward: bool, here: bool, fits: &dyn Fn(usize) -> bool) -> Option<usize> {
    let mut steps = if here { 0..count } else { 1..count + 1 };
    let place = |step: usize| if forward { (at + step) % count } else { (at + count - step % count) % count };
    steps.find_map(|step| Some(place(step)).filter(|at| fits(*at)))
}

/// Puts the cursor on the next stretch of bytes in which disk and image differ.
fn find_difference(state: &mut State, forward: bool) {
    let Some(sheet) = state.sheet.clone() else { return };
    let pair = sheet.versions.first().zip(sheet.versions.get(state.image + 1));
    let Some((disk, image)) = pair else {
        state.message = Some((true, "there is no image to compare with".to_owned()));
        return;
    };
    let differs = |at: usize| disk.bytes.get(at) != image.bytes.get(at);
    let begins = |at: usize| differs(at) && (at == 0 || !differs(at - 1));
    match next_place(state.cursor, disk.bytes.len(), forward, false, &begins) {
        Some(at) => {
            state.cursor = at;
            state.part = super::state::PagePart::Bytes;
        }
        None => state.message = Some((false, format!("disk and image {} are the same", image.title))),
    }
}
