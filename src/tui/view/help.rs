//! The keys, from the table that is dispatched by.

use super::{Body, Line, Look, Span, State, View};
use crate::tui::keymap::KEYS;

const LABEL: usize = 17;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let head = vec![
        Line::styled(format!("Keys in {} (? or esc closes this)", state.view.name()), look.heading()),
        Line::default(),
    ];
    let bindings = KEYS.iter().filter(|binding| binding.applies(state.view, &state.subject.views));
    let mut lines = key_lines(look, state.columns(), &bindings.map(|one| (one.label(), one.help)).collect::<Vec<_>>());
    lines.push(Line::default());
    let mouse = "Mouse: click a tab to open its view, a line or a cell of the buffer to select it, again to open it, a key in the \
            last line to press it; the wheel scrolls. With shift the terminal selects text; --no-mouse leaves it the mouse.";
    lines.extend(look.wrap(mouse, state.columns().saturating_sub(1)).into_iter().map(Line::raw));
    lines.push(Line::raw(match state.subject.views.contains(&View::Plan) {
        true => "Only Plan writes into the data directory, and only after you type apply or undo.",
        false => "Nothing is written, and no page is repaired.",
    }));
    Body::text(head, lines, state.help.top)
}

/// Labels of keys and what they do, in two columns where they have room.
fn key_lines(look: Look, columns: usize, bindings: &[(&'static str, &'static str)]) -> Vec<Line<'static>> {
    let double = columns >= 120;
    let rows = if double { bindings.len().div_ceil(2) } else { bindings.len() };
    let width = if double { columns / 2 } else { columns };
    // Words that do not fit next to the keys continue below.
    let cell = |at: usize| -> Vec<Vec<Span<'static>>> {
        let Some((own, help)) = bindings.get(at) else { return Vec::new() };
        let words = look.wrap(help, width.saturating_sub(LABEL + 1)).into_iter().enumerate();
        let label = |line: usize| if line == 0 { *own } else { "" };
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
