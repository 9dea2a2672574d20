//! The bytes of a page, on disk and in an image side by side; equal rows are folded.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::page::row_bytes;
use super::{Body, highlight};
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::output::escape::ascii_or_dot;
use crate::output::page_parts::part_at;
use crate::output::page_text::version_title;
use crate::tui::byte_rows::{ByteRow, byte_rows, line_of};
use crate::tui::facts::PageSheet;
use crate::tui::look::Look;
use crate::tui::state::State;

/// Width from which on bytes are shown as characters, too.
const WITH_TEXT: usize = 74;

pub(super) fn body<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let row_bytes = row_bytes(state);
    let (left, right) = sheet.sides(state.page.image);
    let title = sheet.images().get(state.page.image).map(version_title);
    let (first, second) = match (sheet.disk(), title) {
        (Some(disk), image) => (version_title(disk), image),
        (None, Some(image)) => (format!("image {image} (there is no page on disk)"), None),
        (None, None) => return Body::text(head, Vec::new(), 0),
    };
    // On a narrow screen the bytes of both sides are worth more than their characters.
    let side = row_bytes * if state.columns() >= WITH_TEXT { 4 } else { 3 };
    let right_title = second.as_ref().map_or_else(|| "no image".to_owned(), |image| format!("image {image}"));
    let words = if second.is_some() { "  (!: differ)" } else { "" };
    let heading = format!("      {}   {right_title}{words}", look.fit(&first, side));
    head.push(Line::styled(look.cut(&heading, state.columns()), look.heading()));
    let lines = byte_rows(left, right, row_bytes, state.page.is_unfolded);
    let cursor = state.page.cursor;
    let at = line_of(&lines, cursor / row_bytes);
    let count = lines.len();
    let line = move |index: usize| match lines.get(index) {
        Some(ByteRow::Bytes(row)) => {
            let start = row * row_bytes;
            let range = start..(start + row_bytes).min(left.len());
            let on_right = right.map(|right| right.get(range.clone()).unwrap_or_default());
            hex_line(look, start, left.get(range).unwrap_or_default(), on_right, side, cursor)
        }
        Some(ByteRow::Equal(rows)) => {
            let bytes = (rows.end * row_bytes).min(left.len()) - rows.start * row_bytes;
            let words =
                format!("{:04x}  {bytes} equal bytes in {} rows (z shows them)", rows.start * row_bytes, rows.len());
            highlight(look, index == at, Line::styled(words, look.faint()))
        }
        None => Line::default(),
    };
    let mut body = Body::list(head, count, at, line);
    let what = |bytes: &[u8]| part_at(bytes, sheet.report.page, cursor);
    let (on_left, on_right) = (what(left), right.map(what));
    let lead = format!("{cursor:#06x} in sector {}: ", cursor / SECTOR_BYTES);
    let mut foot = Vec::new();
    match on_right.zip(second).filter(|(on_right, _)| *on_right != on_left) {
        Some((on_right, image)) => {
            foot.push(format!("{lead}{on_left} on disk"));
            foot.push(format!("{:8}in image {image}: {on_right}", ""));
        }
        None => foot.push(format!("{lead}{on_left}")),
    }
    let wrapped = foot.iter().flat_map(|words| look.wrap(words, state.columns()));
    body.foot = wrapped.map(|words| Line::styled(words, look.heading())).collect();
    body
}

/// A row of bytes of one side, or of two beside each other; those that differ and the one under the cursor show.
pub(in crate::tui) fn hex_line(
    look: Look,
    start: usize,
    left: &[u8],
    right: Option<&[u8]>,
    side: usize,
    cursor: usize,
) -> Line<'static> {
    let differs = |at: usize| right.is_some_and(|right| right.get(at) != left.get(at));
    let any = (0..left.len()).any(differs);
    let mark = if any { '!' } else { ' ' };
    let mut spans = vec![Span::styled(format!("{start:04x}{mark} "), if any { look.bad() } else { look.faint() })];
    let show = |bytes: &[u8], style: Style, spans: &mut Vec<Span<'static>>| {
        for (at, byte) in bytes.iter().enumerate() {
            let style =
                if differs(at) { style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED) } else { Style::new() };
            let is_here = start + at == cursor;
            let style = if is_here { style.patch(look.selected()) } else { style };
            spans.push(Span::styled(format!("{byte:02x}"), style));
            spans.push(Span::raw(" "));
        }
        let text: String = bytes.iter().map(|byte| ascii_or_dot(*byte)).collect();
        spans.push(Span::styled(look.fit(&text, side.saturating_sub(bytes.len() * 3)), look.faint()));
    };
    show(left, look.bad(), &mut spans);
    if let Some(right) = right {
        spans.push(Span::raw(" | "));
        show(right, look.good(), &mut spans);
    }
    Line::from(spans)
}
