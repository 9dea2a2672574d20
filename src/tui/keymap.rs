//! The one table of keys: dispatch, help and the hints at the bottom are made from it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{Action, Command};
use super::state::{State, View};

/// A key, with or without control held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Without.
    Plain(KeyCode),
    /// With.
    Control(char),
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding<C: 'static = Command, V: 'static = View> {
    /// Keys that do the same.
    pub keys: &'static [Key],
    /// Their command.
    pub command: C,
    /// Views in which they work; all if empty.
    pub views: &'static [V],
    /// How the keys are written.
    pub label: &'static str,
    /// Their effect, in words.
    pub help: &'static str,
    /// One word for the bottom line; empty: not shown there.
    pub hint: &'static str,
}

pub(super) const fn char_key(c: char) -> Key {
    Key::Plain(KeyCode::Char(c))
}

/// Views of the window on WAL.
const WINDOWED: &[View] = &[View::Wal, View::Relations, View::Causes];

const LISTS: &[View] = &[View::Triage, View::Slots];

const FILTERED: &[View] =
    &[View::Triage, View::Findings, View::Batches, View::Slots, View::Page, View::Wal, View::Plan];

const SCROLLED: &[View] =
    &[View::Triage, View::Findings, View::Slots, View::Page, View::Wal, View::Plan, View::Apply, View::Undo];

const STEPS: &[View] = &[
    View::Map,
    View::Wal,
    View::Triage,
    View::Steps,
    View::Findings,
    View::Batches,
    View::Plan,
    View::Apply,
    View::Undo,
];

const FINDING: &[View] = &[View::Triage, View::Slots, View::Page];

/// Views of a cluster, not of WAL alone.
const CLUSTER: &[View] =
    &[View::Map, View::Triage, View::Steps, View::Findings, View::Batches, View::Slots, View::Page, View::Plan];

const fn enter(views: &'static [View], help: &'static str) -> Binding {
    bind(&[Key::Plain(KeyCode::Enter)], Command::Open, views, "enter", help, "open")
}

/// Every key.
pub const KEYS: &[Binding] = &[
    bind(&[char_key('?'), Key::Plain(KeyCode::F(1))], Command::Help, &[], "?", "this help", "help"),
    bind(&[char_key('q'), Key::Control('c')], Command::Quit, &[], "q", "quit", "quit"),
    bind(&[Key::Plain(KeyCode::Tab)], Command::NextView, &[], "tab", "next view", "view"),
    bind(&[Key::Plain(KeyCode::BackTab)], Command::PreviousView, &[], "shift-tab", "previous view", ""),
    bind(&[char_key('1')], Command::Show(View::Triage), &[], "1", "Triage: what is wrong, what to do", ""),
    bind(&[char_key('2')], Command::Show(View::Batches), &[], "2", "Batches: what was written between checkpoints", ""),
    bind(&[char_key('3')], Command::Show(View::Slots), &[], "3", "Slots: every slot of the double write buffer", ""),
    bind(&[char_key('4')], Command::Show(View::Page), &[], "4", "Page: one page and its images", ""),
    bind(&[char_key('5')], Command::Show(View::Wal), &[], "5", "WAL: full-page images", ""),
    bind(&[char_key('6')], Command::Show(View::Plan), &[], "6", "Plan: what a repair would do", ""),
    bind(
        &[char_key('7'), char_key('M')],
        Command::Show(View::Map),
        &[],
        "7, M",
        "Map: every relation of the cluster",
        "",
    ),
    enter(&[View::Triage], "open the page, or the pages of the relation"),
    enter(&[View::Steps], "go where the step is done"),
    enter(&[View::Map], "open the blocks of the relation, then the page"),
    enter(&[View::Batches], "open the slots of the batch"),
    enter(&[View::Slots], "open the page of the slot"),
    enter(&[View::Page], "all about the row or the record"),
    enter(&[View::Wal], "go into the window: stretches, records, one record, its page"),
    bind(&[Key::Plain(KeyCode::Esc)], Command::Back, &[], "esc", "close or go back", ""),
    bind(&[Key::Plain(KeyCode::Up), char_key('k')], Command::Up, &[], "up, k", "one line up", ""),
    bind(&[Key::Plain(KeyCode::Down), char_key('j')], Command::Down, &[], "down, j", "one line down", ""),
    bind(&[Key::Plain(KeyCode::PageUp), Key::Control('b')], Command::PageUp, &[], "page up", "one screen up", ""),
    bind(
        &[Key::Plain(KeyCode::PageDown), Key::Control('f')],
        Command::PageDown,
        &[],
        "page down",
        "one screen down",
        "",
    ),
    bind(&[Key::Control('u')], Command::HalfUp, &[], "ctrl-u", "half a screen up", ""),
    bind(&[Key::Control('d')], Command::HalfDown, &[], "ctrl-d", "half a screen down", ""),
    bind(&[char_key('H')], Command::Top, &[], "H", "first visible line", ""),
    bind(&[char_key('L')], Command::Bottom, &[], "L", "last visible line", ""),
    bind(&[Key::Control('o')], Command::LastPage, CLUSTER, "ctrl-o", "the page that was open before", ""),
    bind(&[char_key(' ')], Command::PageDown, SCROLLED, "space", "one screen down", ""),
    bind(
        &[char_key(' ')],
        Command::Play,
        &[View::Batches],
        "space",
        "show the ring as it was written; any key stops",
        "play",
    ),
    bind(&[Key::Plain(KeyCode::Home)], Command::First, &[], "home, gg", "first line", ""),
    bind(&[Key::Plain(KeyCode::End), char_key('G')], Command::Last, &[], "end, G", "last line", ""),
    bind(
        &[char_key('p')],
        Command::NextPart,
        &[View::Page],
        "p",
        "next part: verdict, rows, bytes, header, records",
        "part",
    ),
    bind(&[char_key('P')], Command::PreviousPart, &[View::Page], "P", "previous part", ""),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::Left,
        &[View::Batches],
        "left, h",
        "one cell of the ring left",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::Right,
        &[View::Batches],
        "right, l",
        "one cell of the ring right",
        "",
    ),
    bind(&[char_key('K')], Command::RowUp, &[View::Batches], "K", "one row of the ring up", ""),
    bind(&[char_key('J')], Command::RowDown, &[View::Batches], "J", "one row of the ring down", ""),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::Left,
        &[View::Map],
        "left, h",
        "the tile or cell to the left",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::Right,
        &[View::Map],
        "right, l",
        "the tile or cell to the right",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::Left,
        &[View::Page],
        "left, h",
        "one byte left, or scroll",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::Right,
        &[View::Page],
        "right, l",
        "one byte right, or scroll",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::Left,
        &[View::Wal],
        "left, h",
        "move the window left, or the block of the record before",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::Right,
        &[View::Wal],
        "right, l",
        "move the window right, or the next block of the record",
        "",
    ),
    bind(
        &[char_key('+'), char_key('=')],
        Command::Wider,
        WINDOWED,
        "+",
        "make the window on WAL twice as wide",
        "wider",
    ),
    bind(&[char_key('-')], Command::Narrower, WINDOWED, "-", "make it half as wide", "narrower"),
    bind(&[char_key('w')], Command::WholeWindow, WINDOWED, "w", "all WAL in the window, or the interval", "all"),
    bind(&[], Command::Show(View::Relations), &[], "2", "Relations: whose images are in the window", ""),
    bind(&[], Command::Show(View::Causes), &[], "3", "Causes: why images were written", ""),
    bind(&[], Command::Show(View::WhatIf), &[], "4", "What if: savings of other settings", ""),
    bind(
        &[char_key('f')],
        Command::Follow,
        &[View::Wal, View::Relations, View::Causes],
        "f",
        "follow WAL as it is written, or pause",
        "follow",
    ),
    bind(&[char_key('z')], Command::Zoom, &[View::Wal], "z", "draw only the window; esc goes back", "zoom"),
    bind(&[char_key('t')], Command::Axis, &[View::Wal], "t", "draw by time or by address", "time"),
    bind(&[char_key('s')], Command::Scale, &[View::Wal], "s", "scale of the chart: square root, linear, log", "scale"),
    bind(
        &[char_key('i')],
        Command::NextImage,
        &[View::Page],
        "i",
        "compare the page on disk with the next image",
        "image",
    ),
    bind(
        &[char_key(']')],
        Command::NextDifference,
        &[View::Page],
        "]",
        "next bytes, or in rows the next row, that differ between disk and image",
        "differs",
    ),
    bind(&[char_key('[')], Command::PreviousDifference, &[View::Page], "[", "the ones before", ""),
    bind(&[char_key('}')], Command::NextDamaged, &[View::Page], "}", "next damaged page", "page"),
    bind(&[char_key('{')], Command::PreviousDamaged, &[View::Page], "{", "damaged page before", ""),
    bind(&[char_key('z')], Command::Fold, &[View::Page], "z", "show equal bytes or rows, or fold them", "fold"),
    bind(
        &[char_key('/')],
        Command::Search,
        FILTERED,
        "/",
        "filter while typing: words of lines; in Triage and Slots also 5/1259:0 and options of dump",
        "filter",
    ),
    bind(
        &[char_key('n')],
        Command::NextMatch,
        FINDING,
        "n",
        "next match or damaged page; in Page: next difference",
        "next",
    ),
    bind(&[char_key('N')], Command::PreviousMatch, &[View::Slots, View::Page], "N", "the previous one", ""),
    bind(
        &[char_key('N')],
        Command::Show(View::Steps),
        STEPS,
        "N",
        "next steps with their commands, ticked as they are done",
        "steps",
    ),
    bind(&[char_key(' ')], Command::Tick, &[View::Steps], "space", "tick the step, or take that back", "tick"),
    bind(
        &[Key::Plain(KeyCode::Right), char_key('l')],
        Command::OpenGroup,
        &[View::Triage],
        "right, l",
        "show the pages of the relation or verdict",
        "",
    ),
    bind(
        &[Key::Plain(KeyCode::Left), char_key('h')],
        Command::CloseGroup,
        &[View::Triage],
        "left, h",
        "hide them again",
        "",
    ),
    bind(
        &[char_key('F')],
        Command::Show(View::Findings),
        &[View::Triage],
        "F",
        "every finding: problems, skipped parts, notes",
        "findings",
    ),
    bind(&[char_key('f')], Command::OnlyMatches, &[View::Slots], "f", "show only matches, or all", "all"),
    bind(
        &[char_key('s')],
        Command::Sort,
        LISTS,
        "s",
        "sort by the next column; in Triage: by relation, verdict, block",
        "sort",
    ),
    bind(&[char_key('S')], Command::Reverse, LISTS, "S", "reverse the order", ""),
    bind(
        &[char_key('m')],
        Command::Mark,
        &[View::Triage, View::Slots, View::Page],
        "m",
        "mark or unmark the page for repair",
        "mark",
    ),
    bind(
        &[char_key('d')],
        Command::DryRun,
        &[View::Plan, View::Apply, View::Undo],
        "d",
        "dry run: every check, but nothing is written",
        "dry run",
    ),
    bind(&[char_key('w')], Command::Save, &[View::Plan], "w", "save the plan as a new JSON file", "save"),
    bind(
        &[char_key('a')],
        Command::Apply,
        &[View::Plan, View::Apply],
        "a",
        "apply the plan: checks it, then asks for confirmation",
        "apply",
    ),
    bind(
        &[char_key('c')],
        Command::ChooseJournal,
        &[View::Apply],
        "c",
        "another directory for the journal, found again by tui --journal DIR",
        "journal",
    ),
    bind(
        &[char_key('o')],
        Command::Allow,
        &[View::Apply, View::Undo],
        "o",
        "allow what a guard refuses, by typing its flag",
        "allow",
    ),
    bind(
        &[char_key('u')],
        Command::Undo,
        &[View::Plan, View::Undo],
        "u",
        "undo the last repair: checks it, then asks for confirmation",
        "undo",
    ),
    bind(&[char_key('y')], Command::Copy, &[], "y", "copy the command that shows the same", "copy"),
    bind(&[char_key('e')], Command::Export, &[], "e", "export this view to new files, as text and JSON", "export"),
    bind(
        &[char_key('g')],
        Command::GoTo,
        &[],
        "g",
        "go to a page, slot or LSN: paste a line of the server log, or type relation:block, (7,3), slot 123",
        "go to",
    ),
    bind(&[char_key('b')], Command::Bookmark, &[], "b", "keep the selected line", ""),
    bind(&[char_key('\'')], Command::Bookmarks, &[], "'", "go to one that was kept", ""),
    bind(&[char_key(':')], Command::Palette, &[], ":", "pick a command by letters of its words", ""),
    bind(&[char_key('r')], Command::Reload, &[], "r", "read everything again", ""),
    bind(&[Key::Control('z')], Command::Suspend, &[], "ctrl-z", "suspend", ""),
    bind(&[char_key('R')], Command::Report, CLUSTER, "R", "write the crash report, as a page and as Markdown", ""),
    bind(&[char_key('W')], Command::Guide, CLUSTER, "W", "guided mode: the step, and the next key", ""),
    bind(&[Key::Control('l')], Command::Redraw, &[], "ctrl-l", "redraw", ""),
];

pub(super) const fn bind<C: Copy, V>(
    keys: &'static [Key],
    command: C,
    views: &'static [V],
    label: &'static str,
    help: &'static str,
    hint: &'static str,
) -> Binding<C, V> {
    Binding { keys, command, views, label, help, hint }
}

impl Binding {
    /// It only moves: such keys need no palette.
    pub(crate) const fn is_move(&self) -> bool {
        use Command::{
            Bottom, Down, First, HalfDown, HalfUp, Last, Left, PageDown, PageUp, Right, RowDown, RowUp, Top, Up,
        };
        matches!(
            self.command,
            Bottom
                | Down
                | First
                | HalfDown
                | HalfUp
                | Last
                | Left
                | PageDown
                | PageUp
                | Right
                | RowDown
                | RowUp
                | Top
                | Up
        )
    }

    /// Whether the keys do something in a program with these views, this one being open.
    #[must_use]
    pub fn applies(&self, view: View, views: &[View]) -> bool {
        let here = self.views.is_empty() || self.views.contains(&view);
        let there = match self.command {
            Command::Show(shown) => views.contains(&shown.tab()),
            _ => self.views.is_empty() || self.views.iter().any(|view| views.contains(&view.tab())),
        };
        here && there
    }
}

pub(super) fn key_of(event: KeyEvent) -> Key {
    match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Control(c.to_ascii_lowercase()),
        code => Key::Plain(code),
    }
}

/// Effect of a key while something is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKey {
    Type(char),
    Erase,
    Enter,
    Leave,
    Up,
    Down,
    Suspend,
}

impl PromptKey {
    /// `None` for a key that cannot be typed.
    pub(super) const fn of(key: Key) -> Option<Self> {
        match key {
            Key::Plain(KeyCode::Char(c)) => Some(Self::Type(c)),
            Key::Plain(KeyCode::Backspace) | Key::Control('h') => Some(Self::Erase),
            Key::Plain(KeyCode::Enter) => Some(Self::Enter),
            Key::Plain(KeyCode::Esc) | Key::Control('c') => Some(Self::Leave),
            Key::Plain(KeyCode::Up) => Some(Self::Up),
            Key::Plain(KeyCode::Down) => Some(Self::Down),
            Key::Control('z') => Some(Self::Suspend),
            _ => None,
        }
    }
}

/// The action of a key; `None` for one that cannot be typed into a prompt.
#[must_use]
pub fn action_of(event: KeyEvent, state: &State) -> Option<Action> {
    let key = key_of(event);
    if state.prompt.is_some() {
        return PromptKey::of(key).map(|key| match key {
            PromptKey::Type(c) => Action::Type(c),
            PromptKey::Erase => Action::Erase,
            PromptKey::Enter => Action::Enter,
            PromptKey::Leave => Action::Do(Command::Back),
            PromptKey::Up => Action::Do(Command::Up),
            PromptKey::Down => Action::Do(Command::Down),
            PromptKey::Suspend => Action::Do(Command::Suspend),
        });
    }
    // The tabs of WAL alone have numbers of their own.
    if let (Key::Plain(KeyCode::Char(c)), false) = (key, state.subject.views.contains(&View::Triage))
        && let Some(view) = c.to_digit(10).and_then(|digit| state.subject.views.get(digit.checked_sub(1)? as usize))
    {
        return Some(Action::Do(Command::Show(*view)));
    }
    let binding =
        KEYS.iter().find(|binding| binding.keys.contains(&key) && binding.applies(state.view, &state.subject.views));
    Some(binding.map_or(Action::Idle(event), |binding| Action::Do(binding.command)))
}

/// Why a key does nothing in the open view: where it does something, and what.
pub(crate) fn idle_words(event: KeyEvent, state: &State) -> String {
    let views = &state.subject.views;
    idle_in(event, KEYS, state.view, views, &|binding, view| binding.applies(view, views), View::name)
}

/// Like [`idle`], for any table. `applies`: whether a binding works in a view.
pub(super) fn idle_in<C: 'static, V: Copy + PartialEq + 'static>(
    event: KeyEvent,
    table: &[Binding<C, V>],
    open: V,
    views: &[V],
    applies: &dyn Fn(&Binding<C, V>, V) -> bool,
    name_of: fn(V) -> &'static str,
) -> String {
    let key = key_of(event);
    let elsewhere = views.iter().filter(|view| **view != open);
    let found: Vec<(&Binding<C, V>, V)> = elsewhere
        .filter_map(|view| {
            let mut bindings = table.iter().filter(|binding| binding.keys.contains(&key));
            Some((bindings.find(|binding| applies(binding, *view))?, *view))
        })
        .collect();
    let name = key_name(key);
    let Some((first, _)) = found.first() else { return format!("unknown key {name} (? for help)") };
    let same = found.iter().filter(|(binding, _)| std::ptr::eq(*binding, *first));
    let names: Vec<&str> = same.map(|(_, view)| name_of(*view)).collect();
    let names = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.join(""),
    };
    format!("{name} does nothing in {}; in {names}: {}", name_of(open), first.help)
}

fn key_name(key: Key) -> String {
    match key {
        Key::Control(c) => format!("ctrl-{c}"),
        Key::Plain(KeyCode::Char(' ')) => "space".to_owned(),
        Key::Plain(KeyCode::Char(c)) => c.to_string(),
        Key::Plain(KeyCode::F(number)) => format!("F{number}"),
        Key::Plain(code) => code.to_string().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_view() {
        for view in View::ALL.into_iter().chain([View::Findings, View::Steps, View::Apply, View::Undo]) {
            let mut seen = Vec::new();
            for binding in KEYS.iter().filter(|binding| binding.applies(view, &View::ALL)) {
                for key in binding.keys {
                    assert!(!seen.contains(key), "{view:?}: {key:?}");
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn every_key_is_explained() {
        assert!(KEYS.iter().all(|binding| !binding.help.is_empty() && !binding.label.is_empty()));
    }
}
