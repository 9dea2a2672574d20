//! The list of damaged pages: its order, its groups, its filter, and pages that are found while the check runs.

use super::{PageId, State};
use crate::tui::damage_map::{DamageMap, Grouping, MapPage, RowKey};
use crate::tui::facts::FoundPage;
use crate::tui::query::Query;
use crate::tui::state::stepped;

/// Lists the known damaged pages again; the selected row stays selected.
pub(super) fn list(state: &mut State) {
    let selected = state.triage.map.key(state.triage.selected);
    let map = match state.cluster.survey.clone() {
        Some(survey) => {
            let fits = state.query.pages(survey.lists());
            let any = state.query.is_empty();
            let listed = survey.pages().iter().filter(|report| any || fits(report));
            let pages = listed.map(|report| MapPage { page: report.page, verdict: Some(report.verdict.verdict) });
            DamageMap::of(pages.collect(), survey.pages().len(), &state.triage.order, &|rel| survey.relation(rel))
        }
        None => {
            let found = &state.triage.found;
            let fits = state.query.found_pages();
            let listed = found.iter().filter(|(page, one)| fits(**page, &one.called));
            let pages = listed.map(|(page, _)| MapPage { page: *page, verdict: None }).collect();
            DamageMap::of(pages, found.len(), &state.triage.order, &|rel| state.triage.called(rel))
        }
    };
    let last = map.rows.len().saturating_sub(1);
    // Who has not moved looks at the worst, wherever the row goes that was the worst so far.
    let kept = selected.filter(|_| state.triage.selected > 0).and_then(|key| map.row_of_key(key));
    state.triage.selected = kept.unwrap_or_else(|| state.triage.selected.min(last));
    state.triage.map = map;
}

/// Damaged pages were found; they are not judged yet. Those of a cluster that was read before stay as they are shown.
pub(super) fn found(state: &mut State, found: &[(PageId, FoundPage)]) {
    if state.cluster.survey.is_none() {
        state.triage.found.extend(found.iter().cloned());
        list(state);
    }
}

/// Gathers pages by something else.
pub(super) fn sort(state: &mut State) {
    state.triage.order.grouping = stepped(&Grouping::ALL, state.triage.order.grouping, 1);
    relist(state);
    let grouping = state.triage.order.grouping.name();
    state.tell(format!("by {grouping} (s: next, S: the other way round)"));
}

pub(super) fn reverse(state: &mut State) {
    state.triage.order.is_reversed = !state.triage.order.is_reversed;
    relist(state);
}

/// Lists again; the page that is selected, or the worst of the selected group, stays selected. Who has not moved stays at the top.
fn relist(state: &mut State) {
    let page = state.triage.map.worst_page(state.triage.selected).filter(|_| state.triage.selected > 0);
    list(state);
    state.triage.selected = page.and_then(|page| state.triage.map.row_of(page)).unwrap_or(0);
}

pub(super) fn unfold(state: &mut State) {
    let map = &state.triage.map;
    match map.key(state.triage.selected) {
        Some(RowKey::Group(key)) if map.page(state.triage.selected).is_none() => {
            if state.triage.order.opened.insert(key) {
                list(state);
            } else {
                state.triage.selected += 1;
            }
        }
        Some(_) => state.tell("this line is one page: enter opens it"),
        None => state.tell("there is no damaged page"),
    }
}

/// Hides the pages of the group that is selected, or among whose pages the selected one is.
pub(super) fn fold(state: &mut State) {
    let map = &state.triage.map;
    let group = match map.key(state.triage.selected) {
        Some(RowKey::Group(_)) => Some(state.triage.selected),
        Some(RowKey::Page(_)) => map.parent(state.triage.selected),
        None => None,
    };
    let key = group.and_then(|row| map.group(row)).map(|group| group.key);
    let is_closed = key.is_some_and(|key| state.triage.order.opened.remove(&key));
    if let Some(row) = group.filter(|_| is_closed) {
        state.triage.selected = row;
        list(state);
    } else {
        state.tell("nothing is unfolded here: right shows the pages of a relation");
    }
}

/// Something was typed: the list shows what matches so far. What cannot be understood yet changes nothing.
pub(super) fn filter(state: &mut State) {
    let Some(prompt) = &state.prompt else { return };
    if let Ok(query) = Query::parse(&prompt.text) {
        state.query = query;
        list(state);
    }
}
