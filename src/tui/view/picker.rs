//! The list to pick from, in the place of the open view.

use ratatui::text::{Line, Span};

use super::{Body, highlight};
use crate::tui::picker::Item;
use crate::tui::state::{PromptKind, State};

/// Columns of keys.
const KEYS: usize = 18;

pub(super) fn body(state: &State, items: Vec<Item>) -> Body<'_> {
    let look = state.look;
    let title = match state.prompt.as_ref().map(|prompt| prompt.kind) {
        Some(PromptKind::Bookmarks) if state.bookmarks.is_empty() => {
            "Nothing was kept yet: b keeps the selected line".to_owned()
        }
        Some(PromptKind::Bookmarks) => "What was kept: enter goes there, esc closes this".to_owned(),
        _ => format!(
            "{} commands in {}: type letters of one, enter runs it, esc closes this",
            items.len(),
            state.view.name()
        ),
    };
    let head = vec![Line::styled(look.cut(&title, state.columns()), look.heading()), Line::default()];
    let selected = state.picked.min(items.len().saturating_sub(1));
    let count = items.len();
    let width = state.columns();
    let line = move |at: usize| {
        let Some(item) = items.get(at) else { return Line::default() };
        let lead = if at == selected { look.pointer() } else { " " };
        let line = Line::from(vec![
            Span::raw(look.fit(lead, 2)),
            Span::styled(look.fit(&item.key, KEYS), look.heading()),
            Span::raw(look.cut(&item.words, width.saturating_sub(KEYS + 2))),
        ]);
        highlight(look, at == selected, line)
    };
    Body::list(head, count, selected, line)
}
