//! The list to pick from, instead of the open view.

use super::{Body, Line, Span, State};
use crate::tui::picker::Item;
use crate::tui::state::PromptKind;

const KEYS: usize = 18;

pub(super) fn body(state: &State, items: Vec<Item>) -> Body<'_> {
    let kind = state.prompt.as_ref().map(|prompt| prompt.kind);
    let kept = (kind == Some(PromptKind::Bookmarks)).then_some(state.bookmarks.len());
    let key_columns = if kind == Some(PromptKind::Relation) { 0 } else { KEYS };
    let (look, width, view, picked) = (state.look, state.columns(), state.view.name(), state.picked);
    let title = match kept {
        Some(0) => "Nothing was kept yet: b keeps the selected line".to_owned(),
        Some(_) => "History: enter opens it, esc closes this".to_owned(),
        None if kind == Some(PromptKind::Relation) => {
            format!("{} relations match: type letters of one, enter opens it, esc closes this", items.len())
        }
        None => format!("{} commands in {view}: type letters of one, enter runs it, esc closes this", items.len()),
    };
    let head = vec![Line::styled(look.cut(&title, width), look.heading()), Line::default()];
    let selected = picked.min(items.len().saturating_sub(1));
    let count = items.len();
    let line = move |at: usize| {
        let Some(item) = items.get(at) else { return Line::default() };
        Line::from(vec![
            Span::raw(" "),
            Span::styled(look.fit(&item.key, key_columns), look.heading()),
            Span::raw(look.cut(&item.words, width.saturating_sub(key_columns + 2))),
        ])
    };
    Body::rows(look, head, count, selected, line)
}
