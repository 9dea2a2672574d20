//! A list to pick from while typing: the commands of the open view, or what was kept.

use super::action::Command;
use super::keymap::{Binding, KEYS, Keymap};
use super::state::{PromptKind, State, View};
use crate::types::RelFileLocator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Command(Option<View>, Command),
    Bookmark(usize),
    Relation(RelFileLocator),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: String,
    pub words: String,
    pub choice: Choice,
}

/// The lines that match what was typed so far, the best first; `None` when nothing is picked from.
pub fn items(state: &State) -> Option<Vec<Item>> {
    let prompt = state.prompt.as_ref()?;
    match prompt.kind {
        PromptKind::Palette => {
            let views = &state.subject.views;
            let is_listed = |one: &&Binding| !one.is_move() && one.command != Command::Palette;
            let own = KEYS.iter().filter(|one| one.applies(state.view, views)).map(|one| (one, None));
            let others = KEYS.iter().filter(|one| !one.applies(state.view, views));
            let others =
                others.filter_map(|one| Some((one, Some(views.iter().find(|view| one.applies(**view, views))?))));
            let all = own.chain(others.map(|(one, view)| (one, view.copied())));
            Some(commands(&state.keys, all.filter(|(one, _)| is_listed(one)), &prompt.text))
        }
        PromptKind::Bookmarks => {
            let names = state.bookmarks.iter().map(|one| format!("{}, in {}", one.name, one.view.name()));
            Some(bookmarks(names, &prompt.text))
        }
        PromptKind::Relation => {
            let item = |(rel, name): &(RelFileLocator, String)| {
                let item = Item { key: String::new(), words: name.clone(), choice: Choice::Relation(*rel) };
                Some((rank(&prompt.text, name)?, item))
            };
            Some(best(state.candidates.iter().filter_map(item).collect()))
        }
        _ => None,
    }
}

fn commands(keys: &Keymap, bindings: impl Iterator<Item = (&'static Binding, Option<View>)>, typed: &str) -> Vec<Item> {
    let item = |(binding, view): (&Binding, Option<View>)| {
        let place = view.map_or_else(String::new, |view| format!(" (in {})", view.name()));
        let (key, words) = (keys.label(binding), format!("{}{place}", binding.help));
        Item { key, words, choice: Choice::Command(view, binding.command) }
    };
    best(bindings.map(item).filter_map(|item| Some((rank(typed, &item.words)?, item))).collect())
}

fn bookmarks(names: impl Iterator<Item = String>, typed: &str) -> Vec<Item> {
    let items =
        names.enumerate().map(|(at, words)| Item { key: (at + 1).to_string(), words, choice: Choice::Bookmark(at) });
    best(items.filter_map(|item| Some((rank(typed, &format!("{} {}", item.key, item.words))?, item))).collect())
}

fn best(mut items: Vec<(usize, Item)>) -> Vec<Item> {
    // Stable: equals stay in the order of the table.
    items.sort_by_key(|(rank, _)| *rank);
    items.into_iter().map(|(_, item)| item).collect()
}

/// How well letters fit some words: at the start, at the start of a word, else the span in which they stand one after the
/// other, the shortest first. `None`: they do not.
fn rank(typed: &str, words: &str) -> Option<usize> {
    let words: Vec<char> = words.to_lowercase().chars().collect();
    let typed: Vec<char> = typed.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let Some((first, rest)) = typed.split_first() else { return Some(0) };
    let plain: Vec<char> = words.iter().copied().filter(|c| !c.is_whitespace()).collect();
    if plain.starts_with(&typed) {
        return Some(0);
    }
    let text: String = words.iter().collect();
    if text.split(|c: char| !c.is_alphanumeric()).any(|word| word.chars().collect::<Vec<_>>().starts_with(&typed)) {
        return Some(1);
    }
    let starts = words.iter().enumerate().filter(|(_, c)| *c == first).map(|(at, _)| at);
    let span = |start: usize| {
        let mut at = start;
        for wanted in rest {
            at = (at + 1..words.len()).find(|next| words.get(*next) == Some(wanted))?;
        }
        Some(at - start)
    };
    starts.filter_map(span).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_a_row_are_the_best_match() {
        assert_eq!(rank("", "anything"), Some(0));
        assert_eq!(rank("dry", "dry run: every check"), Some(0));
        assert_eq!(rank("Dry RUN", "dry run: every check"), Some(0));
        assert_eq!(rank("undo", "undo the last repair"), Some(0));
        assert!(rank("apply", "asks to apply it") < rank("apply", "a page or plan yields"));
        assert!(rank("sort", "sort by the next column") < rank("sort", "show other rest"));
        assert_eq!(rank("xyz", "dry run"), None);
    }
}
