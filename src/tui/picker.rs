//! A list to pick from while typing: the commands of the open view, or what was kept.

use super::action::Command;
use super::keymap::{Binding, KEYS, Keymap};
use super::state::{Bookmark, Prompt, PromptKind, State, View};
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
    let Prompt { kind, text } = state.prompt.as_ref()?;
    let all: Vec<Item> = match kind {
        PromptKind::Palette => {
            let views = &state.subject.views;
            let listed = KEYS.iter().filter(|one| !one.is_move() && one.command != Command::Palette);
            let (own, others): (Vec<&Binding>, Vec<_>) = listed.partition(|one| one.applies(state.view, views));
            let elsewhere = |one: &&Binding| views.iter().find(|view| one.applies(**view, views)).copied();
            let others = others.into_iter().filter_map(|one| Some((one, Some(elsewhere(&one)?))));
            let all = own.into_iter().map(|one| (one, None)).chain(others);
            all.map(|(one, view)| command(&state.keys, one, view)).collect()
        }
        PromptKind::Bookmarks => {
            let item = |(at, one): (usize, &Bookmark)| {
                let words = format!("{}, in {}", one.name, one.view.name());
                Item { key: (at + 1).to_string(), words, choice: Choice::Bookmark(at) }
            };
            state.bookmarks.iter().enumerate().map(item).collect()
        }
        PromptKind::Relation => {
            let item = |(rel, name): &(RelFileLocator, String)| Item {
                key: String::new(),
                words: name.clone(),
                choice: Choice::Relation(*rel),
            };
            state.candidates.iter().map(item).collect()
        }
        _ => return None,
    };
    let rank_of = |item: &Item| match item.choice {
        Choice::Bookmark(_) => rank(text, &format!("{} {}", item.key, item.words)),
        _ => rank(text, &item.words),
    };
    let mut ranked: Vec<(usize, Item)> = all.into_iter().filter_map(|item| Some((rank_of(&item)?, item))).collect();
    // Stable: equals stay in the order of the table.
    ranked.sort_by_key(|(rank, _)| *rank);
    Some(ranked.into_iter().map(|(_, item)| item).collect())
}

fn command(keys: &Keymap, binding: &Binding, view: Option<View>) -> Item {
    let place = view.map_or_else(String::new, |view| format!(" (in {})", view.name()));
    let words = format!("{}{place}", binding.help);
    Item { key: keys.label(binding), words, choice: Choice::Command(view, binding.command) }
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
