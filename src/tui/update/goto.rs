//! Going to a block, a slot or an LSN that was typed, and to bookmarks.

use super::lists::order_slots;
use super::navigate::{open_page, show};
use super::{Effect, PageId, Prompt, PromptKind, State, View, wal};
use crate::inspect::page_name::PageName;
use crate::inspect::page_target::RelationChoice;
use crate::tui::facts::Survey;
use crate::tui::state::{Bookmark, WalLevel};
use crate::types::{ForkNumber, Lsn, RelFileLocator};

const FORMS: &str = "paste a line of the server log, or type relation:block, slot 123 or an LSN";

/// Relations that can be picked from.
const MAX_PICKED: usize = 200;

pub(super) fn go_to(state: &mut State, typed: &str) -> Vec<Effect> {
    let typed = typed.trim();
    if let Some(Ok(index)) = typed.strip_prefix("slot").map(|number| number.trim().parse()) {
        return to_slot(state, index);
    }
    if let Ok(lsn) = typed.parse::<Lsn>() {
        return to_lsn(state, lsn);
    }
    let Some(survey) = state.cluster.survey.clone() else {
        return state.only_warn("the cluster has not been read yet");
    };
    match PageName::find(typed) {
        Some(mention) => to_mention(state, &survey, &mention),
        None => state.only_warn(FORMS),
    }
}

fn to_slot(state: &mut State, index: u64) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else {
        return state.only_warn("the cluster has not been read yet");
    };
    match survey.slots().iter().position(|row| row.index == index) {
        Some(at) => select_slot(state, at),
        None => state.only_warn(format!("no file of the double write buffer has a slot {index}")),
    }
}

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

/// Opens the page of a mention, the picker where several relations are called so, or the line of a relation.
fn to_mention(state: &mut State, survey: &Survey, mention: &PageName) -> Vec<Effect> {
    let found = match mention.relation() {
        None => state.selected_page().map(|page| page.rel).into_iter().collect(),
        Some(RelationChoice::Numbers(pattern)) => {
            let known: Vec<_> = all_relations(survey).into_iter().filter(|rel| pattern.matches(*rel)).collect();
            if known.is_empty() { pattern.exact().into_iter().collect() } else { known }
        }
        Some(RelationChoice::Name(name)) => named(state, survey, name),
    };
    let (fork, block) = (mention.fork(), mention.block(survey.examined.paths.rel_segment_blocks()));
    match (found.as_slice(), mention.relation()) {
        ([rel], _) => open_relation(state, survey, *rel, fork, block),
        ([], None) => state.only_warn("select a page first, or type the name of a relation"),
        ([], Some(RelationChoice::Name(name))) => state.only_warn(format!("no relation is called \"{name}\"")),
        ([], Some(RelationChoice::Numbers(pattern))) => {
            state.only_warn(format!("no known relation has the numbers {pattern}"))
        }
        (several, _) => {
            let name = |rel: &RelFileLocator| format!("{} ({rel})", called(survey, *rel));
            state.candidates = several.iter().take(MAX_PICKED).map(|rel| (*rel, name(rel))).collect();
            state.wanted_page = (fork, block);
            state.picked = 0;
            state.prompt = Some(Prompt { kind: PromptKind::Relation, text: String::new() });
            Vec::new()
        }
    }
}

pub(super) fn go_to_relation(state: &mut State, rel: RelFileLocator) -> Vec<Effect> {
    let (fork, block) = state.wanted_page;
    match state.cluster.survey.clone() {
        Some(survey) => open_relation(state, &survey, rel, fork, block),
        None => Vec::new(),
    }
}

/// Without a block: its line in the list of damage, else its first page.
fn open_relation(
    state: &mut State,
    survey: &Survey,
    rel: RelFileLocator,
    fork: ForkNumber,
    block: Option<u32>,
) -> Vec<Effect> {
    let damaged = survey.pages().iter().map(|report| report.page).find(|page| page.rel == rel && page.fork == fork);
    let line = damaged.filter(|_| block.is_none()).and_then(|page| state.triage.map.row_of(page));
    if let Some(line) = line {
        state.triage.selected = line;
        return leave_to(state, View::Triage);
    }
    open_page(state, PageId { rel, fork, block: block.unwrap_or(0) })
}

fn called(survey: &Survey, rel: RelFileLocator) -> String {
    survey.examined.relation_name(rel).unwrap_or_else(|| survey.relation(rel))
}

fn all_relations(survey: &Survey) -> Vec<RelFileLocator> {
    let of_catalog = survey.examined.names.iter().map(|(rel, _)| rel);
    let mut all: Vec<RelFileLocator> = survey.names.keys().copied().chain(of_catalog).collect();
    all.extend(survey.slots().iter().filter_map(|row| row.page).map(|page| page.rel));
    all.sort_unstable();
    all.dedup();
    all
}

/// Relations with this name or with one that ends with it, else those with a name that contains it: first those of the
/// database of the selected page.
fn named(state: &State, survey: &Survey, typed: &str) -> Vec<RelFileLocator> {
    let name = |rel: RelFileLocator| called(survey, rel).trim_end_matches('?').to_owned();
    let mut all: Vec<(RelFileLocator, String)> =
        all_relations(survey).into_iter().map(|rel| (rel, name(rel))).collect();
    let end = format!(".{typed}");
    let is_exact = |name: &str| name == typed || name.ends_with(&end);
    let has_exact = all.iter().any(|(_, name)| is_exact(name));
    let lower = typed.to_lowercase();
    all.retain(|(_, name)| if has_exact { is_exact(name) } else { name.to_lowercase().contains(&lower) });
    let here = state.selected_page().map(|page| page.rel.db_oid);
    all.sort_by_key(|(rel, name)| (Some(rel.db_oid) != here, name.clone()));
    all.into_iter().map(|(rel, _)| rel).collect()
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
        None if state.wal.is_reading => state.only_warn(format!("no slot has {lsn}; WAL is being read")),
        None => state.only_warn(format!("no slot has {lsn}, and it is not in the WAL that was read")),
    }
}

pub(super) fn bookmark(state: &mut State) {
    let slot = state.slots.order.get(state.slots.selected).copied();
    let survey = state.survey();
    // Of a relation with several damaged pages, the worst one.
    let of_group = || state.triage.map.worst_page(state.triage.selected).filter(|_| state.view == View::Triage);
    let page = state.selected_page().or_else(of_group);
    let (page, slot, name) = match (state.view, page, slot.zip(survey)) {
        (View::Slots, _, Some((slot, survey))) => {
            let row = survey.slots().get(slot);
            let name = row.map(|row| format!("slot {}", survey.slot_name(row.file, row.index)));
            (None, Some(slot), name)
        }
        (_, Some(page), _) => {
            let called = survey.map_or_else(|| page.rel.to_string(), |survey| survey.relation(page.rel));
            let is_group = state.selected_page().is_none();
            let name = if is_group { called } else { crate::output::check_text::page_title(&called, page) };
            (Some(page), None, Some(name))
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
        // The name of a page has its block.
        Some(Bookmark { view: View::Triage, page: Some(page), name, .. })
            if state.survey().is_some_and(|survey| survey.relation(page.rel) == name) =>
        {
            state.triage.selected = state.triage.map.row_of(page).unwrap_or(0);
            leave_to(state, View::Triage)
        }
        Some(Bookmark { page: Some(page), .. }) => open_page(state, page),
        Some(Bookmark { slot: Some(slot), .. }) => select_slot(state, slot),
        Some(Bookmark { view, .. }) => leave_to(state, view),
        None => Vec::new(),
    }
}
