//! Going to a block, a slot or an LSN that was typed, and to bookmarks.

use super::lists::order_slots;
use super::navigate::{open_page, show};
use super::wal;
use crate::analysis::select::RelationPattern;
use crate::tui::action::Effect;
use crate::tui::facts::Survey;
use crate::tui::state::{Bookmark, State, View, WalLevel};
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

const FORMS: &str = "type a block (5/1259:7, schema.name:7), slot 123, or an LSN (0/1F00000)";

/// Relations that are named when a name means several.
const MAX_NAMED: usize = 3;

pub(super) fn go_to(state: &mut State, typed: &str) -> Vec<Effect> {
    let typed = typed.trim();
    if let Some(number) = typed.strip_prefix("slot") {
        return match number.trim().parse() {
            Ok(index) => to_slot(state, index),
            Err(_) => refuse(state, FORMS),
        };
    }
    match (typed.rsplit_once(':'), typed.parse::<Lsn>()) {
        (Some((relation, block)), _) => match block.trim().parse() {
            Ok(block) => to_block(state, relation.trim(), block),
            Err(_) => refuse(state, FORMS),
        },
        (None, Ok(lsn)) => to_lsn(state, lsn),
        (None, Err(_)) => refuse(state, FORMS),
    }
}

fn refuse(state: &mut State, why: &str) -> Vec<Effect> {
    state.warn(why);
    Vec::new()
}

fn to_slot(state: &mut State, index: u64) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else { return refuse(state, "the cluster has not been read yet") };
    match survey.slots().iter().position(|row| row.index == index) {
        Some(at) => select_slot(state, at),
        None => refuse(state, &format!("no file of the double write buffer has a slot {index}")),
    }
}

/// Opens the list of all slots on this one.
pub(super) fn select_slot(state: &mut State, slot: usize) -> Vec<Effect> {
    if !state.slots.order.contains(&slot) {
        state.slots.only = false;
        state.slots.batch = None;
        order_slots(state);
    }
    state.slots.selected = state.slots.order.iter().position(|at| *at == slot).unwrap_or(0);
    leave_to(state, View::Slots)
}

/// Opens a view from which `esc` comes back.
fn leave_to(state: &mut State, view: View) -> Vec<Effect> {
    if state.view != view {
        state.trail.push(state.view);
    }
    show(state, view)
}

fn to_block(state: &mut State, relation: &str, block: u32) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else { return refuse(state, "the cluster has not been read yet") };
    let (name, fork) = match relation.rsplit_once(' ') {
        Some((name, fork)) if fork.parse::<ForkNumber>().is_ok() => (name, fork.parse().unwrap_or(ForkNumber::Main)),
        _ => (relation, ForkNumber::Main),
    };
    let found = relations(&survey, name);
    match found.as_slice() {
        [] => refuse(state, &format!("no relation is called \"{name}\"")),
        [rel] => open_page(state, PageId { rel: *rel, fork, block }),
        several => {
            let named: Vec<String> = several.iter().take(MAX_NAMED).map(|rel| survey.relation(*rel)).collect();
            let more = if several.len() > MAX_NAMED { " and others" } else { "" };
            refuse(state, &format!("\"{name}\" is {}{more}: type more of the name", named.join(", ")))
        }
    }
}

/// Relations with these numbers, or whose name this is or ends with.
fn relations(survey: &Survey, typed: &str) -> Vec<RelFileLocator> {
    let pattern: Option<RelationPattern> = typed.parse().ok();
    let of_catalog = survey.examined.names.iter().map(|(rel, _)| rel);
    let mut all: Vec<RelFileLocator> = survey.names.keys().copied().chain(of_catalog).collect();
    all.extend(survey.slots().iter().filter_map(|row| row.page).map(|page| page.rel));
    all.sort_unstable();
    all.dedup();
    if let Some(pattern) = pattern {
        all.retain(|rel| pattern.matches(*rel));
        return all;
    }
    let end = format!(".{typed}");
    let called = |rel: &RelFileLocator| survey.examined.relation_name(*rel).or_else(|| survey.names.get(rel).cloned());
    all.retain(|rel| called(rel).is_some_and(|name| name == typed || name.ends_with(&end)));
    all
}

/// To the slot with this LSN, else to the checkpoint interval that it is in.
fn to_lsn(state: &mut State, lsn: Lsn) -> Vec<Effect> {
    let slots = state.survey().map_or(&[][..], Survey::slots);
    let slot = slots.iter().position(|row| row.page.is_some() && (row.page_lsn == lsn || row.slot_lsn == lsn));
    if let Some(slot) = slot.filter(|_| state.view != View::Wal) {
        return select_slot(state, slot);
    }
    let intervals = state.wal.survey.as_ref().map_or(&[][..], |wal| &wal.intervals);
    match intervals.iter().position(|interval| (interval.start_lsn..interval.end_lsn).contains(&lsn)) {
        Some(at) => {
            state.wal.selected = at;
            state.wal.level = WalLevel::Timeline;
            wal::take_interval(state);
            let effects = leave_to(state, View::Wal);
            state.tell(format!("{lsn} is in the selected interval"));
            effects
        }
        None if state.wal.is_reading => refuse(state, &format!("no slot has {lsn}; WAL is being read")),
        None => refuse(state, &format!("no slot has {lsn}, and it is not in the WAL that was read")),
    }
}

pub(super) fn bookmark(state: &mut State) {
    let slot = state.slots.order.get(state.slots.selected).copied();
    let survey = state.survey();
    // Of a relation with several damaged pages, the first one.
    let of_group = || state.triage.map.first_page(state.triage.selected).filter(|_| state.view == View::Triage);
    let page = state.selected_page().or_else(of_group);
    let (page, slot, name) = match (state.view, page, slot.zip(survey)) {
        (View::Slots, _, Some((slot, survey))) => {
            let row = survey.slots().get(slot);
            let name = row.map(|row| format!("slot {}:{}", survey.file_name(row.file).unwrap_or("?"), row.index));
            (None, Some(slot), name)
        }
        (_, Some(page), _) => {
            let called = survey.map_or_else(|| page.rel.to_string(), |survey| survey.relation(page.rel));
            (Some(page), None, Some(crate::output::check_text::page_title(&called, page)))
        }
        _ => (None, None, Some(format!("the view {}", state.view.name()))),
    };
    let Some(name) = name else { return state.warn("there is nothing to keep") };
    let bookmark = Bookmark { view: state.view, page, slot, name };
    state.bookmarks.retain(|one| *one != bookmark);
    state.tell(format!("kept: {}; ' lists what is kept", bookmark.name));
    state.bookmarks.push(bookmark);
}

pub(super) fn go_to_bookmark(state: &mut State, at: usize) -> Vec<Effect> {
    match state.bookmarks.get(at).cloned() {
        Some(Bookmark { page: Some(page), .. }) => open_page(state, page),
        Some(Bookmark { slot: Some(slot), .. }) => select_slot(state, slot),
        Some(Bookmark { view, .. }) => leave_to(state, view),
        None => Vec::new(),
    }
}
