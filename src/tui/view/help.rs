//! The keys, from the table that is dispatched by.

use ratatui::text::{Line, Span};

use super::Body;
use crate::tui::keymap::KEYS;
use crate::tui::state::State;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let head = vec![
        Line::styled(format!("Keys in {} (? or esc closes this)", state.view.name()), look.heading()),
        Line::default(),
    ];
    let bindings: Vec<_> = KEYS.iter().filter(|binding| binding.applies(state.view, &state.subject.views)).collect();
    let cell = |at: usize, width: usize| {
        let Some(binding) = bindings.get(at) else { return Vec::new() };
        vec![
            Span::styled(look.fit(binding.label, 17), look.heading()),
            Span::raw(look.fit(binding.help, width.saturating_sub(17))),
        ]
    };
    let double = state.columns() >= 120;
    let rows = if double { bindings.len().div_ceil(2) } else { bindings.len() };
    let width = if double { state.columns() / 2 } else { state.columns() };
    let mut lines: Vec<Line<'static>> = (0..rows)
        .map(|at| {
            let mut spans = cell(at, width);
            if double {
                spans.extend(cell(at + rows, width));
            }
            Line::from(spans)
        })
        .collect();
    lines.push(Line::default());
    let mouse =
        "Mouse: a tab opens its view, a line or a cell of the ring is selected, once more opens it, the wheel moves.";
    lines.extend(look.wrap(mouse, state.columns().saturating_sub(1)).into_iter().map(Line::raw));
    lines.push(Line::raw("Only Plan writes into the data directory, and only after you type apply."));
    Body::text(head, lines, state.help.top)
}
