//! The one table of keys: dispatch, help, the palette and the hints at the bottom are made from it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{Action, Command};
use super::state::{State, View};

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Names of the keys that do the same; those after a bar are not shown.
    pub keys: &'static str,
    pub command: Command,
    /// Views in which they work; all if empty.
    pub views: &'static [View],
    pub help: &'static str,
    /// One word for the bottom line; empty: not shown there.
    pub hint: &'static str,
}

/// Views of the window on WAL.
const WINDOWED: &[View] = &[View::Wal, View::Relations, View::Causes];

const LISTS: &[View] = &[View::Triage, View::Slots];

const FILTERED: &[View] =
    &[View::Triage, View::Findings, View::Batches, View::Slots, View::Page, View::Wal, View::Plan];

const SCROLLED: &[View] = &[
    View::Triage,
    View::Findings,
    View::Slots,
    View::Page,
    View::Wal,
    View::Plan,
    View::Apply,
    View::Undo,
    View::Pages,
    View::InnodbPage,
];

const STEPS: &[View] = &[
    View::Map,
    View::Wal,
    View::Triage,
    View::Findings,
    View::Batches,
    View::Plan,
    View::Apply,
    View::Undo,
    View::Pages,
    View::InnodbPage,
];

const FINDING: &[View] = &[View::Triage, View::Slots, View::Page, View::Pages, View::InnodbPage];

/// Views of a cluster or of a directory of MySQL or MariaDB, not of WAL alone.
const CLUSTER: &[View] = &[
    View::Map,
    View::Triage,
    View::Steps,
    View::Findings,
    View::Batches,
    View::Slots,
    View::Page,
    View::Plan,
    View::Pages,
    View::InnodbPage,
];

const fn row(
    keys: &'static str,
    command: Command,
    views: &'static [View],
    help: &'static str,
    hint: &'static str,
) -> Binding {
    Binding { keys, command, views, help, hint }
}

#[rustfmt::skip]
pub const KEYS: &[Binding] = &[
    row("?|F1", Command::Help, &[], "this help", "help"),
    row("q|ctrl-c", Command::Quit, &[], "quit", "quit"),
    row("tab", Command::NextView, &[], "next view", "view"),
    row("shift-tab", Command::PreviousView, &[], "previous view", ""),
    // The number of a tab is its place among the tabs of the program.
    row("1", Command::Show(View::Triage), &[], "Triage: what is wrong, what to do", ""),
    row("2", Command::Show(View::Batches), &[], "Batches: what was written between checkpoints", ""),
    row("3", Command::Show(View::Slots), &[], "Slots: every slot of the double write buffer", ""),
    row("4", Command::Show(View::Page), &[], "Page: one page and its images", ""),
    row("5", Command::Show(View::Wal), &[], "WAL: full-page images", ""),
    row("6", Command::Show(View::Plan), &[], "Plan: what a repair would do", "plan"),
    row("7, M", Command::Show(View::Map), &[], "Map: every relation of the cluster", ""),
    row("1", Command::Show(View::Wal), &[], "Timeline: WAL and its full-page images", ""),
    row("2", Command::Show(View::Relations), &[], "Relations: whose images are in the window", ""),
    row("3", Command::Show(View::Causes), &[], "Causes: why images were written", ""),
    row("4", Command::Show(View::WhatIf), &[], "What if: savings of other settings", ""),
    row("5", Command::Show(View::Kept), &[], "Kept: what keeps the segments of pg_wal, and how to release them", ""),
    row("1", Command::Show(View::Pages), &[], "Pages: damage, and what to do", ""),
    row("2", Command::Show(View::InnodbPage), &[], "Page: one page and its image", ""),
    row("enter", Command::Open, &[View::Triage], "open the page; of a relation, its worst one", "open"),
    row("enter", Command::Open, &[View::Steps], "go where the step is done", "open"),
    row("enter", Command::Open, &[View::Map], "open the blocks of the relation, then the page", "open"),
    row("enter", Command::Open, &[View::Batches], "open the slots of the batch", "open"),
    row("enter", Command::Open, &[View::Slots], "open the page of the slot", "open"),
    row("enter", Command::Open, &[View::Page], "all about the row or the record", "open"),
    row("enter", Command::Open, &[View::Wal], "go into the window: stretches, records, one record, its page", "open"),
    row("enter", Command::Open, &[View::Pages], "open the page", "open"),
    row("esc", Command::Back, &[], "close or go back", ""),
    row("up, k", Command::Up, &[], "one line up", ""),
    row("down, j", Command::Down, &[], "one line down", ""),
    row("page up|ctrl-b", Command::PageUp, &[], "one screen up", ""),
    row("page down|ctrl-f", Command::PageDown, &[], "one screen down", ""),
    row("ctrl-u", Command::HalfUp, &[], "half a screen up", ""),
    row("ctrl-d", Command::HalfDown, &[], "half a screen down", ""),
    row("H", Command::Top, &[], "first visible line", ""),
    row("L", Command::Bottom, &[], "last visible line", ""),
    row("ctrl-o", Command::LastPage, CLUSTER, "the page that was open before", ""),
    row("ctrl-n|ctrl-i", Command::PageAfter, CLUSTER, "the page after it, after ctrl-o", ""),
    row("space", Command::PageDown, SCROLLED, "one screen down", ""),
    row("space", Command::Play, &[View::Batches], "show the ring as it was written; any key stops", "play"),
    row("home, gg", Command::First, &[], "first line", ""),
    row("end, G", Command::Last, &[], "last line", ""),
    row("p", Command::NextPart, &[View::Page], "next part: verdict, rows, bytes, header, records", "part"),
    row("P", Command::PreviousPart, &[View::Page], "previous part", ""),
    row("left, h", Command::Left, &[View::Batches], "one cell of the ring left", ""),
    row("right, l", Command::Right, &[View::Batches], "one cell of the ring right", ""),
    row("K", Command::RowUp, &[View::Batches], "one row of the ring up", ""),
    row("J", Command::RowDown, &[View::Batches], "one row of the ring down", ""),
    row("left, h", Command::Left, &[View::Map], "the tile or cell to the left", ""),
    row("right, l", Command::Right, &[View::Map], "the tile or cell to the right", ""),
    row("left, h", Command::Left, &[View::Page], "one byte left, or scroll", ""),
    row("right, l", Command::Right, &[View::Page], "one byte right, or scroll", ""),
    row("left, h", Command::Left, &[View::Wal], "move the window left, or the block of the record before", ""),
    row("right, l", Command::Right, &[View::Wal], "move the window right, or the next block of the record", ""),
    row("+|=", Command::Wider, WINDOWED, "make the window on WAL twice as wide", "wider"),
    row("-", Command::Narrower, WINDOWED, "make it half as wide", "narrower"),
    row("w", Command::WholeWindow, WINDOWED, "all WAL in the window, or the interval", "all"),
    row("f", Command::Follow, WINDOWED, "follow WAL as it is written, or pause", "follow"),
    row("z", Command::Zoom, &[View::Wal], "draw only the window; esc goes back", "zoom"),
    row("t", Command::Axis, &[View::Wal], "draw by time or by address", "time"),
    row("s", Command::Scale, &[View::Wal], "scale of the chart: square root, linear, log", "scale"),
    row("i", Command::NextImage, &[View::Page], "compare the page on disk with the next image", "image"),
    row("]", Command::NextDifference, &[View::Page], "next bytes, or in rows the next row, that differ between disk and image", "differs"),
    row("[", Command::PreviousDifference, &[View::Page], "the ones before", ""),
    row("}", Command::NextDamaged, &[View::Page], "next damaged page", "page"),
    row("{", Command::PreviousDamaged, &[View::Page], "damaged page before", ""),
    row("}", Command::NextDamaged, &[View::InnodbPage], "next page of the list", "next"),
    row("{", Command::PreviousDamaged, &[View::InnodbPage], "page before", ""),
    row("z", Command::Fold, &[View::Page], "show equal bytes or rows, or fold them", "fold"),
    row("/", Command::Search, FILTERED, "filter while typing: words of lines; in Triage and Slots also 5/1259:0 and options of dump", "filter"),
    row("/", Command::Search, &[View::Pages], "filter while typing: words of lines", "filter"),
    row("n", Command::NextMatch, FINDING, "next match or damaged page; in Page of a cluster: next difference", "next"),
    row("N", Command::PreviousMatch, &[View::Slots, View::Page], "the previous one", ""),
    row("N", Command::Show(View::Steps), STEPS, "next steps with their commands, ticked as they are done", "steps"),
    row("space", Command::Tick, &[View::Steps], "tick the step, or take that back", "tick"),
    row("right, l", Command::OpenGroup, &[View::Triage], "show the pages of the relation or verdict", ""),
    row("left, h", Command::CloseGroup, &[View::Triage], "hide them again", ""),
    row("F", Command::Show(View::Findings), &[View::Triage, View::Steps, View::Pages, View::InnodbPage], "every finding: problems, skipped parts, notes", "findings"),
    row("f", Command::OnlyMatches, &[View::Slots], "show only matches, or all", "all"),
    row("s", Command::Sort, LISTS, "sort by the next column; in Triage: by relation, verdict, block", "sort"),
    row("S", Command::Reverse, LISTS, "reverse the order", ""),
    row("m", Command::Mark, &[View::Triage, View::Slots, View::Page], "mark or unmark the page for repair", "mark"),
    row("d", Command::DryRun, &[View::Plan, View::Apply, View::Undo], "dry run: every check, but nothing is written", "dry run"),
    row("w", Command::Save, &[View::Plan], "save the plan as a new JSON file", "save"),
    row("a", Command::Apply, &[View::Plan, View::Apply], "apply the plan: checks it, then asks for confirmation", "apply"),
    row("c", Command::ChooseJournal, &[View::Apply], "another directory for the journal, found again by tui --journal DIR", "journal"),
    row("o", Command::Allow, &[View::Apply, View::Undo], "allow what a guard refuses, by typing its flag", "allow"),
    row("u", Command::Undo, &[View::Plan, View::Undo], "undo the last repair: checks it, then asks for confirmation", "undo"),
    row("y", Command::Copy, &[], "copy the command of the next step, the selected row, or the command that shows the same", "copy"),
    row("e", Command::Export, &[], "export this view to new files, as text and JSON", "export"),
    row("g", Command::GoTo, &[], "go to a page, slot or LSN: paste a line of the server log, or type relation:block, (7,3), slot 123", "go to"),
    row("b", Command::Bookmark, &[], "keep the selected line", ""),
    row("'", Command::Bookmarks, &[], "go to one that was kept", ""),
    row(":", Command::Palette, &[], "pick a command by letters of its words", "commands"),
    row("r", Command::Reload, &[], "read everything again", ""),
    row("ctrl-z", Command::Suspend, &[], "suspend", ""),
    row("R", Command::Report, CLUSTER, "write the crash report, as a page and as Markdown", "report"),
    row("W", Command::Guide, CLUSTER, "guided mode: the step, and the next key", "guide"),
    row("ctrl-l", Command::Redraw, &[], "redraw", ""),
];

impl Binding {
    pub fn label(&self) -> &'static str {
        self.keys.split('|').next().unwrap_or_default()
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.split(['|', ',']).map(str::trim)
    }

    /// It only moves: such keys need no palette.
    pub(crate) fn is_move(&self) -> bool {
        use Command::{
            Bottom, Down, First, HalfDown, HalfUp, Last, Left, PageDown, PageUp, Right, RowDown, RowUp, Top, Up,
        };
        [Bottom, Down, First, HalfDown, HalfUp, Last, Left, PageDown, PageUp, Right, RowDown, RowUp, Top, Up]
            .contains(&self.command)
    }

    /// Whether the keys do something in a program with these views, this one being open.
    pub fn applies(&self, view: View, views: &[View]) -> bool {
        let here = self.views.is_empty() || self.views.contains(&view);
        let there = match self.command {
            Command::Show(shown) => {
                let number = View::tabs_of(views).iter().position(|tab| *tab == shown).map_or(0, |at| at + 1);
                let is_number = self.keys.starts_with(|c: char| c.is_ascii_digit());
                views.contains(&shown.tab(views)) && (!is_number || self.keys.starts_with(&number.to_string()))
            }
            Command::GoTo | Command::Bookmark | Command::Bookmarks | Command::LastPage | Command::PageAfter => {
                !views.contains(&View::Pages)
            }
            _ => self.views.is_empty() || self.views.iter().any(|view| views.contains(&view.tab(views))),
        };
        here && there
    }
}

/// The action of a key; `None` for one that cannot be typed into a prompt.
pub fn action_of(event: KeyEvent, state: &State) -> Option<Action> {
    let name = key_name(event);
    if state.prompt.is_some() {
        return match (event.code, name.as_str()) {
            (_, "backspace" | "ctrl-h") => Some(Action::Erase),
            (_, "enter") => Some(Action::Enter),
            (_, "esc" | "ctrl-c") => Some(Action::Do(Command::Back)),
            (_, "up") => Some(Action::Do(Command::Up)),
            (_, "down") => Some(Action::Do(Command::Down)),
            (_, "ctrl-z") => Some(Action::Do(Command::Suspend)),
            (KeyCode::Char(c), _) if !event.modifiers.contains(KeyModifiers::CONTROL) => Some(Action::Type(c)),
            _ => None,
        };
    }
    if state.help.is_open && name == "/" {
        return Some(Action::Do(Command::Search));
    }
    let binding = state.keys.binding(&name, state.view, &state.subject.views);
    Some(binding.map_or(Action::Idle(event), |binding| Action::Do(binding.command)))
}

/// The keys of the table, and those that the user has added to them.
#[derive(Clone, Debug, Default)]
pub struct Keymap(Vec<(Command, String)>);

impl Keymap {
    /// Adds a key for an action, where it does nothing else.
    ///
    /// # Errors
    /// The reason why it is not added.
    pub fn add(&mut self, action: &str, key: &str) -> Result<(), String> {
        let mut commands: Vec<Command> = KEYS.iter().map(|one| one.command).collect();
        commands.retain(|command| command.name() == action);
        if commands.is_empty() {
            return Err(format!("unknown action {action}"));
        }
        if !is_key(key) {
            return Err(format!("unknown key {key:?}"));
        }
        for (view, views) in places() {
            let is_there = |one: &&Binding| commands.contains(&one.command) && one.applies(view, views);
            match (KEYS.iter().find(is_there), self.binding(key, view, views)) {
                (Some(own), Some(other)) if own.command != other.command => {
                    return Err(format!("{key} is taken in {}: {}", view.name(), other.help));
                }
                _ => {}
            }
        }
        self.0.extend(commands.into_iter().map(|command| (command, key.to_owned())));
        Ok(())
    }

    fn binding(&self, key: &str, view: View, views: &[View]) -> Option<&'static Binding> {
        let has = |one: &Binding| one.names().any(|name| name == key) || self.own(one).any(|name| name == key);
        KEYS.iter().find(|one| has(one) && one.applies(view, views))
    }

    fn own(&self, binding: &Binding) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(command, _)| *command == binding.command).map(|(_, key)| key.as_str())
    }

    /// Keys of a line, those of the user first.
    pub(crate) fn label(&self, binding: &Binding) -> String {
        self.own(binding).chain([binding.label()]).collect::<Vec<_>>().join(", ")
    }
}

/// Every view, with the tabs that it is among.
fn places() -> impl Iterator<Item = (View, &'static [View])> {
    let others = [View::Findings, View::Steps, View::Apply, View::Undo];
    let of_cluster = View::ALL.into_iter().chain(others).map(|view| (view, &View::ALL[..]));
    let of_wal = View::OF_WAL.into_iter().map(|view| (view, &View::OF_WAL[..]));
    let of_innodb = View::OF_INNODB.into_iter().chain([View::Findings, View::Steps]);
    of_cluster.chain(of_wal).chain(of_innodb.map(|view| (view, &View::OF_INNODB[..])))
}

/// Why a key does nothing in the open view: where it does something, and what.
pub(crate) fn idle_words(event: KeyEvent, state: &State) -> String {
    let (views, key) = (&state.subject.views, key_name(event));
    let elsewhere = views.iter().filter(|view| **view != state.view);
    let found: Vec<(&Binding, View)> =
        elsewhere.filter_map(|view| Some((state.keys.binding(&key, *view, views)?, *view))).collect();
    let Some((first, _)) = found.first() else { return format!("unknown key {key} (? for help)") };
    let same = found.iter().filter(|(binding, _)| std::ptr::eq(*binding, *first));
    let names: Vec<&str> = same.map(|(_, view)| view.name()).collect();
    let names = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.join(""),
    };
    format!("{key} does nothing in {}; in {names}: {}", state.view.name(), first.help)
}

fn key_name(event: KeyEvent) -> String {
    match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            format!("ctrl-{}", c.to_ascii_lowercase())
        }
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::BackTab => "shift-tab".to_owned(),
        code => code.to_string().to_lowercase(),
    }
}

/// A key as [`key_name`] calls it.
fn is_key(name: &str) -> bool {
    use KeyCode::{Backspace, Delete, Down, End, Enter, Esc, Home, Insert, Left, PageDown, PageUp, Right, Tab, Up};
    let named = [Backspace, Delete, Down, End, Enter, Esc, Home, Insert, Left, PageDown, PageUp, Right, Tab, Up];
    let is_one = |text: &str| text.chars().count() == 1 && text.chars().all(|c| !c.is_control() && c != ' ');
    let number = name.strip_prefix('F').and_then(|number| number.parse::<u8>().ok());
    is_one(name.strip_prefix("ctrl-").unwrap_or(name))
        || number.is_some_and(|number| (1..=12).contains(&number))
        || matches!(name, "space" | "shift-tab")
        || named.iter().any(|code| code.to_string().to_lowercase() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_view() {
        for (view, views) in places() {
            let mut seen = Vec::new();
            for binding in KEYS.iter().filter(|binding| binding.applies(view, views)) {
                for key in binding.names() {
                    assert!(!seen.contains(&key), "{view:?}: {key:?}");
                    seen.push(key);
                }
            }
        }
    }

    #[test]
    fn every_key_is_explained() {
        assert!(KEYS.iter().all(|binding| !binding.help.is_empty() && !binding.keys.is_empty()));
    }
}
