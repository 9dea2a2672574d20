//! The bytes of a page on disk and of an image of it, with a cursor: rows of bytes, and lines that stand for rows which are the
//! same on both sides.

use std::ops::Range;

use super::list_moves::{moved, next_index};

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
    pub(super) fn lines(&self) -> Vec<ByteRow> {
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

/// Equal rows beside one that differs that are shown.
const CONTEXT: usize = 1;

/// Fewest rows that a line may stand for: one row needs as much room as the line.
const SHORTEST_FOLD: usize = 2;

/// A line of the bytes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ByteRow {
    Bytes(usize),
    Equal(Range<usize>),
}

impl ByteRow {
    /// Number of the first row that it stands for.
    pub const fn first(&self) -> usize {
        match self {
            Self::Bytes(row) => *row,
            Self::Equal(rows) => rows.start,
        }
    }
}

/// The lines for two versions of a page, with so many bytes in a row. Without a second version, and where both are the same,
/// every row is shown.
pub(crate) fn byte_rows(left: &[u8], right: Option<&[u8]>, row_bytes: usize, is_unfolded: bool) -> Vec<ByteRow> {
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
pub(crate) fn line_of(lines: &[ByteRow], row: usize) -> usize {
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
