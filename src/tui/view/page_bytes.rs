//! The bytes of a page, on disk and in an image side by side, with a cursor: rows of bytes, and lines that stand for rows
//! which are the same on both sides.

use std::ops::Range;

use super::page::row_bytes;
use super::page_rows::{detail_lines, details};
use super::{Body, Line, Look, Modifier, Span, State, Style, highlight};
use crate::analysis::changes::sectors::SECTOR_BYTES;
use crate::analysis::pages::page_rows::PageItem;
use crate::output::escape::ascii_or_dot;
use crate::output::hexdump::part_at;
use crate::output::page_rows::RowDetail;
use crate::output::page_text::{header_fields, version_title};
use crate::tui::facts::PageSheet;
use crate::tui::state::{moved, next_index};

pub(super) fn body<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let (look, width, cursor) = (state.look, state.list_columns(), state.page.cursor);
    let bytes = sides(state, sheet);
    let ByteSides { left, right, row_bytes, .. } = bytes;
    let image = sheet.images().get(state.page.image).map(|image| format!("image {}", version_title(image)));
    // On a narrow screen the bytes of both sides are worth more than their characters.
    let side = row_bytes * if width >= 9 + 8 * row_bytes { 4 } else { 3 };
    let heading = match (sheet.disk().map(version_title), &image) {
        (Some(disk), Some(image)) => format!("{}   {image}  (!: differ)", look.fit(&disk, side)),
        (Some(disk), None) => format!("{}   no image", look.fit(&disk, side)),
        (None, Some(image)) => format!("{image} (there is no page on disk)"),
        (None, None) => {
            head.push(Line::raw("Nothing of the page could be read."));
            return Body::text(head, Vec::new(), 0);
        }
    };
    head.push(Line::styled(look.cut(&format!("      {heading}"), width), look.heading()));
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
    let mut body = Body::list(head, count, at, line);
    let what = |bytes: &[u8]| part_at(bytes, sheet.report.page, cursor);
    let (on_left, on_right) = (what(left), right.map(what));
    let lead = format!("{cursor:#06x} in sector {}: ", cursor / SECTOR_BYTES);
    let mut foot = Vec::new();
    match on_right.zip(image).filter(|(on_right, _)| *on_right != on_left) {
        Some((on_right, image)) => {
            foot.push(format!("{lead}{on_left} on disk"));
            foot.push(format!("{:8}in {image}: {on_right}", ""));
        }
        None => foot.push(format!("{lead}{on_left}")),
    }
    let wrapped = foot.iter().flat_map(|words| look.wrap(words, state.columns()));
    body.foot = wrapped.map(|words| Line::styled(words, look.heading())).collect();
    if state.detail_columns() > 0 {
        body.detail = under_cursor(state, sheet);
    }
    body
}

/// The row or the entry under the cursor, and the page header, decoded on both sides.
fn under_cursor(state: &State, sheet: &PageSheet) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.detail_columns());
    let image = sheet.images().get(state.page.image).map(version_title).unwrap_or_default();
    let is_here = |item: &Option<PageItem>| {
        item.as_ref().and_then(|item| item.tuple.as_ref()).is_some_and(|tuple| tuple.contains(&state.page.cursor))
    };
    let found = sheet.rows(state.page.image).and_then(|of| {
        let at = of.rows.pairs.iter().position(|pair| is_here(&pair.disk) || is_here(&pair.image))?;
        Some(details(look, &of, at, &image, width))
    });
    let mut lines = found.unwrap_or_else(|| {
        let words = "No row is under the cursor: ] goes to the next difference.";
        look.lines(words, width, look.faint())
    });
    lines.push(Line::default());
    lines.push(Line::styled("page header", look.heading()));
    let (left, right) = sheet.sides(state.page.image);
    let both: Vec<&[u8]> = [left].into_iter().chain(right).collect();
    let lead = if right.is_some() { image.as_str() } else { "" };
    for row in header_fields(sheet.report.page, &both) {
        let mut cells = row.into_iter();
        let detail = RowDetail { name: cells.next().unwrap_or_default(), disk: cells.next(), image: cells.next() };
        lines.extend(detail_lines(look, &detail, lead, width));
    }
    lines
}

pub(super) fn sides<'a>(state: &State, sheet: &'a PageSheet) -> ByteSides<'a> {
    let (left, right) = sheet.sides(state.page.image);
    let (is_unfolded, cursor) = (state.page.is_unfolded, state.page.cursor);
    ByteSides { left, right, row_bytes: row_bytes(state), is_unfolded, cursor }
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

/// The bytes, and what of them is shown.
#[derive(Clone, Copy)]
pub(in crate::tui) struct ByteSides<'a> {
    left: &'a [u8],
    right: Option<&'a [u8]>,
    row_bytes: usize,
    is_unfolded: bool,
    cursor: usize,
}

impl ByteSides<'_> {
    fn lines(&self) -> Vec<ByteRow> {
        byte_rows(self.left, self.right, self.row_bytes, self.is_unfolded)
    }

    pub(in crate::tui) fn bytes_further(&self, by: isize) -> usize {
        moved(self.cursor, by, self.left.len())
    }

    /// The cursor so many lines further, of which one may stand for many equal rows. The first and the last line end at the
    /// first and the last byte.
    pub(in crate::tui) fn lines_further(&self, by: isize) -> usize {
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
    pub(in crate::tui) fn difference(&self, forward: bool) -> Option<usize> {
        let (left, right) = (self.left, self.right?);
        let differs = |at: usize| left.get(at) != right.get(at);
        let begins = |at: usize| differs(at) && (at == 0 || !differs(at - 1));
        next_index(self.cursor, left.len(), forward, false, &begins)
    }
}

/// Equal rows beside one that differs that are shown.
const CONTEXT: usize = 1;

/// Fewest rows that a line may stand for: one row needs as much room as the line.
const SHORTEST_FOLD: usize = 2;

/// A line of the bytes part.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ByteRow {
    Bytes(usize),
    Equal(Range<usize>),
}

impl ByteRow {
    /// Number of the first row that it stands for.
    const fn first(&self) -> usize {
        match self {
            Self::Bytes(row) => *row,
            Self::Equal(rows) => rows.start,
        }
    }
}

/// The lines for two versions of a page, with so many bytes in a row. Without a second version, and where both are the same,
/// every row is shown.
fn byte_rows(left: &[u8], right: Option<&[u8]>, row_bytes: usize, is_unfolded: bool) -> Vec<ByteRow> {
    let count = left.len().div_ceil(row_bytes.max(1));
    let bytes = |row: usize| row * row_bytes..((row + 1) * row_bytes).min(left.len());
    let differs = |row: usize| right.is_some_and(|right| right.get(bytes(row)) != left.get(bytes(row)));
    let mut is_shown = vec![false; count];
    for row in (0..count).filter(|row| differs(*row)) {
        is_shown[row.saturating_sub(CONTEXT)..(row + CONTEXT + 1).min(count)].fill(true);
    }
    if is_unfolded || !is_shown.contains(&true) {
        return (0..count).map(ByteRow::Bytes).collect();
    }
    let mut lines = Vec::new();
    let mut row = 0;
    for run in is_shown.chunk_by(|one, other| one == other) {
        let rows = row..row + run.len();
        row = rows.end;
        if run.first() == Some(&true) || rows.len() < SHORTEST_FOLD {
            lines.extend(rows.map(ByteRow::Bytes));
        } else {
            lines.push(ByteRow::Equal(rows));
        }
    }
    lines
}

/// Index of the line that shows the byte at this offset, or stands for it.
fn line_of(lines: &[ByteRow], row: usize) -> usize {
    lines.partition_point(|line| line.first() <= row).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_one_line_and_those_beside_a_difference_are_shown() {
        let left = vec![0; 80];
        let mut right = left.clone();
        right[40] = 1;
        let lines = byte_rows(&left, Some(&right), 8, false);
        let expected =
            [ByteRow::Equal(0..4), ByteRow::Bytes(4), ByteRow::Bytes(5), ByteRow::Bytes(6), ByteRow::Equal(7..10)];
        assert_eq!(lines, expected);
        assert_eq!([0, 3, 4, 6, 9].map(|row| line_of(&lines, row)), [0, 0, 1, 3, 4]);
        assert_eq!(byte_rows(&left, Some(&right), 8, true).len(), 10);
        assert_eq!(byte_rows(&left, Some(&left), 8, false).len(), 10, "nothing to look for");
        assert_eq!(byte_rows(&left, None, 8, false).len(), 10);
        assert_eq!(byte_rows(&left[..12], Some(&right), 8, false).len(), 2, "the rest of a short page");
        assert_eq!(byte_rows(&[], Some(&right), 8, false), []);
    }

    #[test]
    fn every_row_is_in_one_line() {
        let left: Vec<u8> = vec![0; 8192];
        let right: Vec<u8> = (0..8192_u32).map(|at| u8::from(at % 701 == 0)).collect();
        let rows: Vec<usize> = byte_rows(&left, Some(&right), 16, false)
            .into_iter()
            .flat_map(|line| match line {
                ByteRow::Bytes(row) => row..row + 1,
                ByteRow::Equal(rows) => rows,
            })
            .collect();
        assert!(rows.into_iter().eq(0..512));
    }
}
