//! Picking a command or a bookmark while typing, and keeping the selected line.

use super::action::InnodbCommand as Command;
use super::facts::{InnodbSurvey, SlotLine};
use super::keymap::{INNODB_KEYS, applies};
use super::state::{InnodbPromptKind as PromptKind, InnodbState as State, InnodbView as View};
use crate::parsers::innodb::InnodbPageId;
use crate::tui::picker::{Item, bookmarks, commands};

/// What a line that was kept is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A page.
    Page(InnodbPageId),
    /// The slot or entry of this name.
    Slot(String),
    /// Nothing but its view.
    View,
}

/// A line that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbBookmark {
    /// The view that it was in.
    pub view: View,
    /// What it is about.
    pub kept: Kept,
    /// How it is called.
    pub name: String,
}

/// The lines that match what was typed so far, the best first; `None` when nothing is picked from.
#[must_use]
pub fn items(state: &State) -> Option<Vec<Item<Command>>> {
    let (kind, typed) = state.prompt.as_ref()?;
    match kind {
        PromptKind::Palette => {
            let own = INNODB_KEYS.iter().filter(|binding| applies(binding, state.view));
            Some(commands(own.filter(|binding| binding.command != Command::Palette), typed))
        }
        PromptKind::Bookmarks => {
            let names = state.bookmarks.iter().map(|one| format!("{}, in {}", one.name, one.view.name()));
            Some(bookmarks(names, typed))
        }
        PromptKind::Filter | PromptKind::GoTo => None,
    }
}

/// Keeps the selected line.
pub(super) fn keep(state: &mut State) {
    let bookmark = bookmark(state);
    state.bookmarks.retain(|one| *one != bookmark);
    state.tell(format!("kept: {}; ' lists what is kept", bookmark.name));
    state.bookmarks.push(bookmark);
}

fn bookmark(state: &State) -> InnodbBookmark {
    let view = state.view;
    let survey = state.survey.as_deref();
    let slot = survey.filter(|_| view == View::Slots).and_then(|survey| Some((survey, state.selected_slot(survey)?)));
    if let Some((survey, line)) = slot {
        let called = survey.slot_name(line);
        return InnodbBookmark { view, name: format!("slot {called}"), kept: Kept::Slot(called) };
    }
    match survey.zip(state.selected_page().or_else(|| state.first_of_group())) {
        Some((survey, target)) => {
            let page = target.page;
            let name = format!("{} page {}", survey.space_name(Some(page.space_id)), page.page_no);
            InnodbBookmark { view, kept: Kept::Page(page), name }
        }
        None => InnodbBookmark { view, kept: Kept::View, name: format!("the view {}", view.name()) },
    }
}

impl State {
    /// The selected line of the slots.
    fn selected_slot<'a>(&self, survey: &'a InnodbSurvey) -> Option<SlotLine<'a>> {
        survey.slot_line(*self.slots.order.get(self.slots.selected)?)
    }
}
