//! The one table of keys of this screen: dispatch, help and hints are made from it. Keys mean what they mean on the other screens.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::action::{InnodbAction, InnodbCommand as Command};
use super::state::{InnodbState, InnodbView as View};
use crate::tui::keymap::{Binding, Key, PromptKey, bind, char_key, idle_in, key_of};

/// A line of the table.
pub type InnodbBinding = Binding<Command, View>;

const LISTS: &[View] = &[View::Triage, View::Batches, View::Slots];

const SORTED: &[View] = &[View::Triage, View::Slots];

const SIDEWAYS: &[View] = &[View::Triage, View::Page];

const STEPPING: &[View] = &[View::Triage, View::Page];

/// Every key.
pub const INNODB_KEYS: &[InnodbBinding] = &[
    bind(&[char_key('?'), Key::Plain(KeyCode::F(1))], Command::Help, &[], "?", "this help", "help"),
    bind(&[char_key('q'), Key::Control('c')], Command::Quit, &[], "q", "quit", "quit"),
    bind(&[Key::Plain(KeyCode::Tab)], Command::NextView, &[], "tab", "next view", "view"),
    bind(&[Key::Plain(KeyCode::BackTab)], Command::PreviousView, &[], "shift-tab", "previous view", ""),
    bind(&[char_key('1')], Command::Show(View::Triage), &[], "1", "Triage: what is wrong, what to do", ""),
    bind(&[char_key('2')], Command::Show(View::Batches), &[], "2", "Batches: groups of slots", ""),
    bind(&[char_key('3')], Command::Show(View::Slots), &[], "3", "Slots: every slot, and entries without images", ""),
    bind(&[char_key('4')], Command::Show(View::Page), &[], "4", "Page: one page and its images", ""),
    bind(
        &[Key::Plain(KeyCode::Enter)],
        Command::Open,
        LISTS,
        "enter",
        "open the page, the pages of a tablespace, or the slots of the batch",
        "open",
    ),
    bind(&[Key::Plain(KeyCode::Esc)], Command::Back, &[], "esc", "close or go back", ""),
    bind(&[Key::Plain(KeyCode::Up), char_key('k')], Command::Up, &[], "up, k", "one line up", ""),
    bind(&[Key::Plain(KeyCode::Down), char_key('j')], Command::Down, &[], "down, j", "one line down", ""),
    bind(&[Key::Plain(KeyCode::PageUp), Key::Control('b')], Command::PageUp, &[], "page up", "one screen up", ""),
    bind(
        &[Key::Plain(KeyCode::PageDown), Key::Control('f'), char_key(' ')],
        Command::PageDown,
        &[],
        "page down, space",
        "one screen down",
        "",
    ),
    bind(&[Key::Plain(KeyCode::Home)], Command::First, &[], "home", "first line", ""),
    bind(&[Key::Plain(KeyCode::End), char_key('G')], Command::Last, &[], "end, G", "last line", ""),
    bind(&[char_key('p')], Command::NextPart, &[View::Page], "p", "next part: verdict, bytes, header", "part"),
    bind(&[char_key('P')], Command::PreviousPart, &[View::Page], "P", "previous part", ""),
    bind(&[char_key('i')], Command::NextImage, &[View::Page], "i", "compare the page with the next image", "image"),
    bind(
        &[char_key(']')],
        Command::NextDifference,
        &[View::Page],
        "]",
        "next bytes that differ between disk and image",
        "differs",
    ),
    bind(&[char_key('[')], Command::PreviousDifference, &[View::Page], "[", "the ones before", ""),
    bind(&[char_key('}')], Command::NextDamaged, STEPPING, "}", "next damaged page", "page"),
    bind(&[char_key('{')], Command::PreviousDamaged, STEPPING, "{", "damaged page before", ""),
    bind(&[char_key('z')], Command::Fold, &[View::Page], "z", "in bytes: show equal bytes, or fold them", "fold"),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::Left,
        SIDEWAYS,
        "left, h",
        "hide the pages of the group; in bytes: one byte left",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::Right,
        SIDEWAYS,
        "right, l",
        "show the pages of the group; in bytes: one byte right",
        "",
    ),
    bind(&[char_key('/')], Command::Filter, LISTS, "/", "filter while typing: words of lines", "filter"),
    bind(
        &[char_key('F')],
        Command::Show(View::Findings),
        &[View::Triage],
        "F",
        "every finding: problems, what was not examined, notes",
        "findings",
    ),
    bind(
        &[char_key('s')],
        Command::Sort,
        SORTED,
        "s",
        "sort by the next column; in Triage: by tablespace, verdict, page",
        "sort",
    ),
    bind(&[char_key('S')], Command::Reverse, SORTED, "S", "reverse the order", ""),
    bind(&[char_key('g')], Command::GoTo, &[], "g", "go to a page or slot: shop/orders:7, 12:7, slot 3", "go to"),
    bind(&[char_key('b')], Command::Bookmark, &[], "b", "keep the selected line", ""),
    bind(&[char_key('\'')], Command::Bookmarks, &[], "'", "go to one that was kept", ""),
    bind(&[char_key(':')], Command::Palette, &[], ":", "pick a command while typing", ""),
    bind(&[char_key('y')], Command::Copy, &[], "y", "copy the command that shows the same", "copy"),
    bind(&[char_key('e')], Command::Export, &[], "e", "export this view to new files, as text and JSON", "export"),
    bind(&[char_key('R')], Command::Report, &[], "R", "write the crash report to new files, as text and JSON", ""),
    bind(&[char_key('r')], Command::Reload, &[], "r", "read everything again", ""),
    bind(
        &[char_key('a'), char_key('c'), char_key('d'), char_key('m'), char_key('o'), char_key('u'), char_key('w')],
        Command::Repair,
        &[],
        "a, d, m, u, w",
        "repair PostgreSQL; this engine's pages are not repaired here",
        "",
    ),
    bind(&[Key::Control('z')], Command::Suspend, &[], "ctrl-z", "suspend", ""),
    bind(&[Key::Control('l')], Command::Redraw, &[], "ctrl-l", "redraw the screen", ""),
];

/// The action of a key; `None` for one that cannot be typed into a prompt.
#[must_use]
pub fn action_of(event: KeyEvent, state: &InnodbState) -> Option<InnodbAction> {
    let key = key_of(event);
    if state.prompt.is_some() {
        return PromptKey::of(key).map(|key| match key {
            PromptKey::Type(c) => InnodbAction::Type(c),
            PromptKey::Erase => InnodbAction::Erase,
            PromptKey::Enter => InnodbAction::Enter,
            PromptKey::Leave => InnodbAction::Do(Command::Back),
            PromptKey::Up => InnodbAction::Do(Command::Up),
            PromptKey::Down => InnodbAction::Do(Command::Down),
            PromptKey::Suspend => InnodbAction::Do(Command::Suspend),
        });
    }
    let binding = INNODB_KEYS.iter().find(|binding| binding.keys.contains(&key) && applies(binding, state.view));
    Some(binding.map_or(InnodbAction::Idle(event), |binding| InnodbAction::Do(binding.command)))
}

/// Whether the keys do something in this view.
#[must_use]
pub fn applies(binding: &InnodbBinding, view: View) -> bool {
    binding.views.is_empty() || binding.views.contains(&view)
}

/// Why a key does nothing in the open view: where it does something, and what.
#[must_use]
pub fn idle_words(event: KeyEvent, view: View) -> String {
    idle_in(event, INNODB_KEYS, view, &View::ALL, &applies, View::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_view() {
        for view in View::ALL.into_iter().chain([View::Findings]) {
            let mut seen = Vec::new();
            for binding in INNODB_KEYS.iter().filter(|binding| applies(binding, view)) {
                for key in binding.keys {
                    assert!(!seen.contains(key), "{view:?}: {key:?}");
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn keys_that_both_screens_have_are_called_the_same() {
        for binding in INNODB_KEYS.iter().filter(|binding| binding.command != Command::Repair) {
            for key in binding.keys {
                assert!(crate::tui::keymap::KEYS.iter().any(|other| other.keys.contains(key)), "{key:?}");
            }
        }
    }
}
