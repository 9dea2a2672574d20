//! The only place where the state changes. Work is asked for by returning effects.

mod before;
mod command;
mod goto;
mod lists;
mod map;
mod navigate;
mod page;
mod repair;
mod ring;
mod triage;
mod wal;

use std::sync::Arc;
use std::time::Duration;

use super::action::{Action, Effect};
use super::checklist;
use super::facts::Survey;
use super::keymap::idle_words;
use super::look::pages;
use super::picker::{self, Choice};
use super::state::{MapState, PagePart, Prompt, PromptKind, State, View, moved, next_index};
use super::view::start_words;
use crate::types::PageId;
pub use before::apply_word;
use lists::{order_slots, search};
use navigate::{clamp, click, move_by};
pub use repair::UNDO_WORD;

/// Changes the state; returns the effects.
pub fn update(state: &mut State, action: Action) -> Vec<Effect> {
    let brings_lines = matches!(
        action,
        Action::Surveyed(_)
            | Action::InnodbSurveyed(_)
            | Action::WalRead(_)
            | Action::RecordsListed(_)
            | Action::PageRead(_)
            | Action::Planned(_)
            | Action::Applied(_)
            | Action::Undone(_)
    );
    if brings_lines {
        state.list_filter.forget();
    }
    let mut effects = act(state, action);
    lists::refresh(state);
    effects.extend(wal::wanted(state));
    effects
}

fn act(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Idle(_) if ring::stop(state) => {}
        Action::Idle(key) => state.tell(idle_words(key, state)),
        Action::Do(command) => return command::press(state, command),
        Action::Type('g') if is_second_g(state) => {
            state.prompt = None;
            move_by(state, isize::MIN);
        }
        Action::Type(c) => {
            if let Some(prompt) = &mut state.prompt {
                prompt.text.push(c);
            }
            typed(state);
        }
        Action::Erase => {
            if let Some(prompt) = &mut state.prompt
                && prompt.text.pop().is_none()
            {
                state.prompt = None;
            }
            typed(state);
        }
        Action::Enter => return enter(state),
        Action::Click(column, row) => return click(state, column, row),
        Action::Scroll(lines) => move_by(state, lines),
        Action::Resize(columns, rows) => {
            state.size = (columns, rows);
            clamp(state);
        }
        Action::Opened(opened) => state.cluster.opened = Some(opened),
        Action::Progressed(progress) => state.cluster.progress = Some(progress),
        Action::WalProgressed(progress) => state.wal.progress = Some(progress),
        Action::Found(found) => triage::found(state, &found),
        Action::Surveyed(survey) => return surveyed(state, survey),
        Action::InnodbSurveyed(survey) => {
            (state.cluster.progress, state.cluster.is_reading, state.cluster.has_changed) = (None, false, false);
            state.innodb.survey = Some(survey);
            clamp(state);
        }
        Action::SurveyFailed(why) => {
            state.cluster.is_reading = false;
            state.cluster.progress = None;
            if !state.has_survey() {
                return vec![Effect::Fail(why)];
            }
            (state.cluster.failed, state.message) = (Some(why), None);
            return page_again(state);
        }
        Action::WalRead(survey) => wal::read(state, survey),
        Action::RecordsListed(list) => wal::listed(state, list),
        Action::RecordRead(sheet) => wal::record_read(state, sheet.start_lsn, Ok(sheet)),
        Action::RecordFailed(at, words) => wal::record_read(state, at, Err(words)),
        Action::WalFailed(why) => {
            state.wal.is_reading = false;
            state.wal.progress = None;
            state.wal.error = Some(why);
        }
        Action::PageRead(sheet) => {
            let page = sheet.report.page;
            // A damaged page is judged with all others; one of an examination before says nothing of this one.
            let is_before =
                |survey: &Survey| survey.damaged(page).is_some() && !Arc::ptr_eq(&survey.examined, &sheet.examined);
            let is_of_now = !state.cluster.is_reading && !state.survey().is_some_and(is_before);
            if state.page.wanted == Some(page) && is_of_now {
                state.page.sheet = Some(sheet);
                clamp(state);
            }
        }
        Action::Planned(plan) => repair::planned(state, plan),
        Action::PlanSaved(path) => {
            state.plan.is_saved = true;
            state.tell(format!("plan saved: {}", path.display()));
        }
        Action::Exported(path) => state.tell(format!("written: {} and the same as .json", path.display())),
        Action::Reported(path) => state.tell(format!("crash report written: {} and the same as .md", path.display())),
        Action::Failed(words) => state.warn(words),
        Action::Refused(words) => {
            let mut effects = repair::failed(state, words);
            effects.extend(end_if_wanted(state));
            return effects;
        }
        Action::BrokenOff(words) => {
            // The cluster is read again, so nothing else is.
            drop(repair::failed(state, words));
            return written(state);
        }
        Action::Rehearsed(order) => before::rehearsed(state, &order),
        Action::LookedBefore(sheet) => before::looked(state, sheet),
        Action::UndoRehearsed(sheet) => repair::undo_rehearsed(state, sheet),
        Action::Undone(sheet) => {
            repair::undone(state, sheet);
            return written(state);
        }
        Action::Applied(applied) => {
            repair::applied(state, applied);
            return written(state);
        }
        Action::Tick => return ring::tick(state),
        Action::FilesChanged if state.wal.is_following => return wal::grown(state),
        Action::FilesChanged if state.cluster.is_reading || state.plan.is_applying || state.cluster.has_changed => {}
        Action::FilesChanged => {
            // What was told last may be of what was there before.
            (state.cluster.has_changed, state.message) = (true, None);
            return repair::look_again(state);
        }
        Action::Terminate => {
            state.is_ending = true;
            state.warn("asked to stop: the repair in progress is finished first");
            return end_if_wanted(state);
        }
    }
    Vec::new()
}

fn typed(state: &mut State) {
    (state.picked, state.message) = (0, None);
    let is_search = state.prompt.as_ref().is_some_and(|prompt| prompt.kind == PromptKind::Search);
    match state.view {
        _ if is_search && state.help.is_open => {
            (state.help.filter, state.help.top) =
                (state.prompt.as_ref().map_or_else(String::new, |one| one.text.clone()), 0);
        }
        View::Slots if is_search => lists::filter_slots(state),
        View::Triage if is_search => triage::filter(state),
        _ if is_search => {
            let text = state.prompt.as_ref().map_or_else(String::new, |prompt| prompt.text.clone());
            lists::filter(state, &text);
        }
        _ => {}
    }
}

pub fn begin(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    if state.subject.views.contains(&View::Wal) && !std::mem::replace(&mut state.wal.is_reading, true) {
        effects.push(Effect::ReadWal);
    }
    if state.subject.views.contains(&View::Relations) {
        state.cluster.has_changed = false;
    } else if let Some(read) = read_cluster(state) {
        effects.insert(0, read);
    }
    effects
}

fn read_cluster(state: &mut State) -> Option<Effect> {
    (state.cluster.has_changed, state.cluster.failed) = (false, None);
    state.page.sheet = None;
    state.plan.sheet = None;
    state.plan.rehearsed = None;
    let is_reading = std::mem::replace(&mut state.cluster.is_reading, true);
    (!is_reading).then_some(Effect::Survey)
}

/// Pages were written: known facts are outdated.
fn written(state: &mut State) -> Vec<Effect> {
    state.cluster.is_outdated = true;
    let mut effects = end_if_wanted(state);
    effects.extend(read_cluster(state));
    effects
}

fn end_if_wanted(state: &State) -> Vec<Effect> {
    if state.is_ending && !state.plan.is_applying { vec![Effect::Quit] } else { Vec::new() }
}

fn surveyed(state: &mut State, survey: Arc<Survey>) -> Vec<Effect> {
    state.cluster.progress = None;
    state.cluster.is_reading = false;
    state.cluster.has_changed = false;
    state.cluster.is_outdated = false;
    state.cluster.opened = Some(survey.examined.state.clone());
    state.batches.selected = state.batches.selected.min(survey.batches.len().saturating_sub(1));
    state.plan.marks.retain(|page| survey.damaged(*page).is_some());
    state.plan.sheet = None;
    state.map = MapState::default();
    // Most servers have no double write buffer.
    let is_dead = |view: View| matches!(view, View::Batches | View::Slots) && survey.slots().is_empty();
    state.subject.views = View::ALL.into_iter().filter(|view| !is_dead(*view)).collect();
    if is_dead(state.view) {
        state.view = View::Triage;
    }
    state.batches.cursor = state.batches.cursor.min(survey.ring.count().saturating_sub(1));
    state.batches.played = None;
    state.slots.batch = None;
    if state.survey().is_some() {
        state.tell(format!("checked again: {}", start_words(&survey)));
    }
    checklist::checked_again(state, &survey);
    state.cluster.survey = Some(survey);
    state.triage.found.clear();
    triage::list(state);
    order_slots(state);
    let mut effects = page_again(state);
    if matches!(state.view, View::Apply | View::Undo) {
        state.view = View::Plan;
    }
    if state.view == View::Plan {
        effects.push(Effect::MakePlan(state.plan.marked()));
    }
    effects
}

/// Reads the open page where nothing of it is shown.
fn page_again(state: &State) -> Vec<Effect> {
    let page = state.page.wanted.filter(|_| state.view == View::Page && state.page.sheet.is_none());
    page.map(Effect::ReadPage).into_iter().collect()
}

fn enter(state: &mut State) -> Vec<Effect> {
    let Some(prompt) = state.prompt.take() else { return Vec::new() };
    match prompt.kind {
        PromptKind::Search if state.help.is_open => Vec::new(),
        PromptKind::Search if state.list_kind().is_some() => {
            lists::filter(state, &prompt.text);
            Vec::new()
        }
        PromptKind::Search => {
            search(state, &prompt.text);
            Vec::new()
        }
        PromptKind::GoTo => {
            state.message = None;
            let effects = goto::go_to(state, &prompt.text);
            // What was refused can be changed.
            if state.message.as_ref().is_some_and(|message| message.is_bad) {
                state.prompt = Some(prompt);
            }
            effects
        }
        PromptKind::Palette | PromptKind::Bookmarks | PromptKind::Relation => {
            state.prompt = Some(prompt);
            let picked = picker::items(state).and_then(|items| items.into_iter().nth(state.picked));
            state.prompt = None;
            match picked.map(|item| item.choice) {
                Some(Choice::Command(view, command)) => {
                    let mut effects = view.map_or_else(Vec::new, |view| navigate::show(state, view));
                    effects.extend(command::press(state, command));
                    effects
                }
                Some(Choice::Bookmark(at)) => goto::go_to_bookmark(state, at),
                Some(Choice::Relation(rel)) => goto::go_to_relation(state, rel),
                None => Vec::new(),
            }
        }
        PromptKind::Apply => before::apply(state, &prompt.text),
        PromptKind::Journal => before::choose_journal(state, &prompt.text),
        PromptKind::Allow => before::allow(state, &prompt.text),
        PromptKind::Undo => repair::undo(state, &prompt.text),
    }
}

/// The first letter after `g`, so soon that it is not the begin of a name.
fn is_second_g(state: &State) -> bool {
    const SOON: Duration = Duration::from_millis(300);
    let is_empty = |prompt: &Prompt| prompt.kind == PromptKind::GoTo && prompt.text.is_empty();
    state.prompt.as_ref().is_some_and(is_empty) && state.asked_at.is_some_and(|at| at.elapsed() < SOON)
}
