//! The bytes of a page on disk and of an image of it, side by side, with a cursor; equal rows are folded.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::body::{Body, highlight};
use super::byte_rows::{ByteRow, byte_rows, line_of};
use super::list_moves::{moved, next_index};
use super::look::Look;
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::output::escape::ascii_or_dot;

/// The bytes, and what of them is shown.
#[derive(Clone, Copy)]
pub(super) struct ByteSides<'a> {
    pub(super) left: &'a [u8],
    pub(super) right: Option<&'a [u8]>,
    pub(super) row_bytes: usize,
    pub(super) is_unfolded: bool,
    pub(super) cursor: usize,
}

impl ByteSides<'_> {
    fn lines(&self) -> Vec<ByteRow> {
        byte_rows(self.left, self.right, self.row_bytes, self.is_unfolded)
    }

    pub(super) fn bytes_further(&self, by: isize) -> usize {
        moved(self.cursor, by, self.left.len())
    }

    /// The cursor so many lines further, of which one may stand for many equal rows. The first and the last line end at the
    /// first and the last byte.
    pub(super) fn lines_further(&self, by: isize) -> usize {
        let row_bytes = self.row_bytes;
        let lines = self.lines();
        let at = line_of(&lines, self.cursor / row_bytes);
        let to = moved(at, by, lines.len());
        let cursor = match (lines.get(to), by) {
            _ if to == at => match by {
                0 => self.cursor,
                ..0 => 0,
                _ => self.left.len(),
            },
            (None, _) | (_, isize::MIN) => 0,
            (Some(ByteRow::Equal(rows)), isize::MAX) => rows.end * row_bytes - 1,
            (Some(line), isize::MAX) => (line.first() + 1) * row_bytes - 1,
            (Some(line), _) => line.first() * row_bytes + self.cursor % row_bytes,
        };
        cursor.min(self.left.len().saturating_sub(1))
    }

    /// Where the next stretch begins that differs, or the one before; past the last one, the first.
    pub(super) fn difference(&self, forward: bool) -> Option<usize> {
        let (left, right) = (self.left, self.right?);
        let differs = |at: usize| left.get(at) != right.get(at);
        let begins = |at: usize| differs(at) && (at == 0 || !differs(at - 1));
        next_index(self.cursor, left.len(), forward, false, &begins)
    }
}

/// `0x0010 in sector 0: `, before what the byte under the cursor is.
pub(super) fn cursor_lead(cursor: usize) -> String {
    format!("{cursor:#06x} in sector {}: ", cursor / SECTOR_BYTES)
}

/// The list of rows. `disk`, `image`: how the versions are called that there are.
pub(super) fn byte_list<'a>(
    look: Look,
    columns: usize,
    bytes: ByteSides<'a>,
    (disk, image): (Option<String>, Option<String>),
    mut head: Vec<Line<'static>>,
) -> Body<'a> {
    let ByteSides { left, right, row_bytes, cursor, .. } = bytes;
    let (first, second) = match (disk, image) {
        (Some(disk), Some(image)) => (disk, format!("{image}  (!: differ)")),
        (Some(disk), None) => (disk, "no image".to_owned()),
        (None, Some(image)) => (format!("{image} (there is no page on disk)"), String::new()),
        (None, None) => {
            head.push(Line::raw("Nothing of the page could be read."));
            return Body::text(head, Vec::new(), 0);
        }
    };
    // On a narrow screen the bytes of both sides are worth more than their characters.
    let side = row_bytes * if columns >= 9 + 8 * row_bytes { 4 } else { 3 };
    let heading = if second.is_empty() {
        format!("      {first}")
    } else {
        format!("      {}   {second}", look.fit(&first, side))
    };
    head.push(Line::styled(look.cut(&heading, columns), look.heading()));
    let lines = bytes.lines();
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
            let start = rows.start * row_bytes;
            let bytes = (rows.end * row_bytes).min(left.len()) - start;
            let words = format!("{start:04x}  {bytes} equal bytes in {} rows (z shows them)", rows.len());
            highlight(look, index == at, Line::styled(words, look.faint()))
        }
        None => Line::default(),
    };
    Body::list(head, count, at, line)
}

/// A row of bytes of one side, or of two beside each other; those that differ and the one under the cursor show.
fn hex_line(look: Look, start: usize, left: &[u8], right: Option<&[u8]>, side: usize, cursor: usize) -> Line<'static> {
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
