//! Frame of every view: tabs above it, the status line and the keys below it; and labelled lines in it.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::look::{Look, columns};

/// Columns and rows that a terminal must have.
const MIN_SIZE: (u16, u16) = (60, 16);

pub(super) fn too_small(columns: u16, rows: u16) -> Option<String> {
    let (least_columns, least_rows) = MIN_SIZE;
    let words = format!("{columns} by {rows} is too small: at least {least_columns} by {least_rows} is needed");
    (columns < least_columns || rows < least_rows).then_some(words)
}

/// The first line: tabs, of which one may be open, and the end of the path, which says more than its beginning.
pub(super) fn tabs(look: Look, width: usize, labels: &[String], open: Option<usize>, path: &str) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, label) in labels.iter().enumerate() {
        let style = if open == Some(at) { look.selected().add_modifier(Modifier::BOLD) } else { Style::new() };
        spans.push(Span::styled(label.clone(), style));
    }
    let used: usize = labels.iter().map(|label| columns(label)).sum();
    let room = width.saturating_sub(used + 1);
    let path = look.fit_end(path, columns(&look.plain(path)).min(room.saturating_sub(1)));
    spans.push(Span::styled(look.fit_right(&path, room), look.faint()));
    Line::from(spans)
}

pub(super) fn tab_at(labels: &[String], column: u16) -> Option<usize> {
    let mut end = 0;
    labels.iter().position(|label| {
        end += columns(label);
        usize::from(column) < end
    })
}

/// The line above the keys; at its end the range of lines that is shown of a long list. `words`: makes what it says in so
/// many columns.
pub(super) fn status(
    look: Look,
    width: usize,
    range: &str,
    words: impl FnOnce(usize) -> Line<'static>,
) -> Line<'static> {
    let room = width.saturating_sub(columns(range) + 1);
    let mut line = words(room);
    if !range.is_empty() {
        let used = line.width();
        line.push_span(Span::raw(" ".repeat((room + 1).saturating_sub(used))));
        line.push_span(Span::styled(range.to_owned(), look.faint()));
    }
    line
}

/// The last line: keys, and a word for what each does, as many as there is room for.
pub(super) fn hints(
    look: Look,
    width: usize,
    keys: impl Iterator<Item = (&'static str, &'static str)>,
) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (label, hint) in keys.filter(|(_, hint)| !hint.is_empty()) {
        let words = format!(" {hint}  ");
        used += columns(label) + columns(&words);
        if used > width {
            break;
        }
        spans.push(Span::styled(label, look.heading()));
        spans.push(Span::raw(words));
    }
    Line::from(spans)
}

/// Words after a lead, in lines of so many columns of words; further lines begin below them.
pub(super) fn led(look: Look, mut lead: Span<'static>, text: &str, room: usize, style: Style) -> Vec<Line<'static>> {
    let blank = Span::styled(" ".repeat(lead.width()), lead.style);
    let lines = look.wrap(text, room).into_iter();
    lines
        .map(|words| Line::from(vec![std::mem::replace(&mut lead, blank.clone()), Span::styled(words, style)]))
        .collect()
}

pub(super) fn fact(look: Look, width: usize, label: &str, text: &str, style: Style) -> Vec<Line<'static>> {
    const LABEL: usize = 12;
    led(look, Span::styled(look.fit(label, LABEL), look.heading()), text, width.saturating_sub(LABEL + 1), style)
}
