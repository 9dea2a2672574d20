//! The keys, from the table that is dispatched by; and lists to pick from while typing.

use super::{Body, Line, Look, Span, State, Style, View};
use crate::tui::keymap::KEYS;
use crate::tui::picker::Item;
use crate::tui::state::PromptKind;

const LABEL: usize = 17;

/// Columns of the keys of what is picked from.
const PICKED: usize = 18;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let title = if state.help.filter.is_empty() {
        format!("Keys in {} (?, esc: close, /: search all views)", state.view.name())
    } else {
        format!("Keys of all views with \"{}\" (?, esc: close)", state.help.filter)
    };
    let head = vec![Line::styled(look.cut(&title, state.columns()), look.heading()), Line::default()];
    let mut lines = key_lines(look, state.columns(), &bindings(state));
    let faults = state.faults.iter().flat_map(|fault| look.wrap(fault, state.columns()));
    lines.splice(0..0, faults.map(|fault| Line::styled(fault, look.bad())));
    if !state.help.filter.is_empty() {
        return Body::text(head, lines, state.help.top);
    }
    lines.push(Line::default());
    let mouse = "Mouse: click a tab to open its view, a line or a cell of the buffer to select it, again to open it, a key in the \
            last line to press it; the wheel scrolls. With shift the terminal selects text; --no-mouse leaves it the mouse.";
    lines.extend(look.lines(mouse, state.columns().saturating_sub(1), Style::new()));
    lines.push(Line::raw(match state.subject.views.contains(&View::Plan) {
        true => "Only Plan writes into the data directory, and only after you type apply or undo.",
        false => "Nothing is written, and no page is repaired.",
    }));
    Body::text(head, lines, state.help.top)
}

/// The keys of the open view; with words to search for, those of all views that have them.
fn bindings(state: &State) -> Vec<(String, String)> {
    let (views, filter) = (&state.subject.views, state.help.filter.to_lowercase());
    let listed = KEYS.iter().filter_map(|one| {
        if one.applies(state.view, views) {
            return Some((state.keys.label(one), one.help.to_owned()));
        }
        let elsewhere = one.views.iter().filter(|view| views.contains(&view.tab(views)) && one.applies(**view, views));
        let names: Vec<&str> = elsewhere.map(|view| view.name()).collect();
        let is_listed = !names.is_empty() && !filter.is_empty();
        is_listed.then(|| (state.keys.label(one), format!("{} (in {})", one.help, names.join(", "))))
    });
    let fits = |(label, help): &(String, String)| {
        let text = format!("{label} {help}").to_lowercase();
        filter.split_whitespace().all(|word| text.contains(word))
    };
    listed.filter(fits).collect()
}

/// Labels of keys and what they do, in two columns where they have room.
fn key_lines(look: Look, columns: usize, bindings: &[(String, String)]) -> Vec<Line<'static>> {
    let double = columns >= 120;
    let rows = if double { bindings.len().div_ceil(2) } else { bindings.len() };
    let width = if double { columns / 2 } else { columns };
    // Words that do not fit next to the keys continue below.
    let cell = |at: usize| -> Vec<Vec<Span<'static>>> {
        let Some((own, help)) = bindings.get(at) else { return Vec::new() };
        let words = look.wrap(help, width.saturating_sub(LABEL + 1)).into_iter().enumerate();
        let label = |line: usize| if line == 0 { own.as_str() } else { "" };
        words
            .map(|(line, words)| {
                vec![
                    Span::styled(look.fit(label(line), LABEL), look.heading()),
                    Span::raw(look.fit(&words, width.saturating_sub(LABEL))),
                ]
            })
            .collect()
    };
    let mut lines: Vec<Line<'static>> = Vec::new();
    for at in 0..rows {
        let (left, right) = (cell(at), if double { cell(at + rows) } else { Vec::new() });
        for line in 0..left.len().max(right.len()) {
            let mut spans = left.get(line).cloned().unwrap_or_else(|| vec![Span::raw(" ".repeat(width))]);
            spans.extend(right.get(line).into_iter().flatten().cloned());
            lines.push(Line::from(spans));
        }
    }
    lines
}

/// The list to pick from, instead of the open view.
pub(super) fn picker(state: &State, items: Vec<Item>) -> Body<'_> {
    let kind = state.prompt.as_ref().map(|prompt| prompt.kind);
    let kept = (kind == Some(PromptKind::Bookmarks)).then_some(state.bookmarks.len());
    let key_columns = if kind == Some(PromptKind::Relation) { 0 } else { PICKED };
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
