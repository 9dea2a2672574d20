//! Tables for people.
//! Also here: files of a double write buffer as a table.

use std::io::{self, Write};
use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Row, Table};
use textwrap::core::display_width;

use super::escape::printable;
use super::json::FileJson;
use super::text::{Layout, wrapping};

/// A table without lines, as wide as its content.
pub(crate) fn plain_table<T: AsRef<str>>(header: &[T]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    // A number or name broken in two reads as another one: a table may be wider than the screen, never wrong.
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(AsRef::as_ref));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table
}

pub(crate) fn right_align(table: &mut Table, columns: Range<usize>) {
    for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| columns.contains(index)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Writes a table, indented.
pub(crate) fn write_table(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    for line in table.lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

/// Columns of a table, for a terminal that is too narrow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fit {
    numbers: Vec<Range<usize>>,
    bars: Vec<usize>,
    words: Option<usize>,
}

impl Fit {
    /// Columns of numbers, aligned at their right.
    pub fn numbers(mut self, columns: Range<usize>) -> Self {
        self.numbers.push(columns);
        self
    }

    /// A column that shows what another one says: the first to go.
    pub fn bars(mut self, column: usize) -> Self {
        self.bars.push(column);
        self
    }

    /// A column of words, which can be broken over lines.
    pub const fn words(mut self, column: usize) -> Self {
        self.words = Some(column);
        self
    }

    fn is_number(&self, column: usize) -> bool {
        self.numbers.iter().any(|columns| columns.contains(&column))
    }
}

/// Least columns in which words are worth breaking.
const LEAST_WORDS: usize = 24;

/// Columns by which what belongs to a row is indented under its name.
const INDENT: usize = 4;

/// Writes a table, indented, in no more columns than the screen has: headings are broken over lines, bars are left out, words
/// are broken; then the first column has a line of its own, and at last the others follow in several lines. No number or name is
/// cut.
pub(crate) fn write_fitted(out: &mut dyn Write, layout: Layout, mut table: Table, fit: &Fit) -> io::Result<()> {
    for columns in &fit.numbers {
        right_align(&mut table, columns.clone());
    }
    let width = usize::from(layout.width);
    let fits = |line: String| display_width(line.trim_end()) + 2 <= width;
    if table.lines().all(fits) {
        return write_table(out, &table);
    }
    let cells = |row: &Row| row.cell_iter().map(|cell| cell.content().to_string()).collect::<Vec<_>>();
    let header = table.header().map(cells).unwrap_or_default();
    let rows: Vec<Vec<String>> = table.row_iter().map(cells).collect();
    Folded { header, rows, fit, width }.write(out)
}

struct Folded<'a> {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    fit: &'a Fit,
    width: usize,
}

/// Some columns, with the width of each.
type Columns = Vec<(usize, usize)>;

impl Folded<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let all: Vec<usize> = (0..self.header.len()).filter(|column| !self.fit.bars.contains(column)).collect();
        if let Some(columns) = self.arranged(&all, 2) {
            return self.write_lines(out, &columns, 2, None);
        }
        let (Some(first), rest) = (all.first().copied(), all.get(1..).unwrap_or_default()) else { return Ok(()) };
        if let Some(columns) = self.arranged(rest, INDENT) {
            return self.write_lines(out, &columns, INDENT, Some(first));
        }
        // As many as there is room for, then the next ones.
        let mut left = rest;
        while !left.is_empty() {
            let most = (1..=left.len()).rev().find_map(|most| Some((most, self.arranged(left.get(..most)?, INDENT)?)));
            let (taken, columns) =
                most.unwrap_or_else(|| (1, left.iter().take(1).map(|own| (*own, self.width)).collect()));
            self.write_lines(out, &columns, INDENT, Some(first))?;
            left = left.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(column)).map(String::as_str)
    }

    /// Widths with which these columns fit; `None`: they do not.
    fn arranged(&self, columns: &[usize], indent: usize) -> Option<Columns> {
        let width_of = |column: usize| {
            let heading = self.header.get(column).map(String::as_str).unwrap_or_default();
            let word = heading.split(' ').map(display_width).max().unwrap_or_default();
            self.cells(column).map(display_width).max().unwrap_or_default().max(word)
        };
        let mut arranged: Columns = columns.iter().map(|column| (*column, width_of(*column))).collect();
        let total = |arranged: &Columns| indent + arranged.iter().map(|(_, width)| width + 1).sum::<usize>();
        let all = total(&arranged).saturating_sub(1);
        if let Some(over) = all.checked_sub(self.width).filter(|over| *over > 0) {
            let words = arranged.iter_mut().find(|(column, _)| self.fit.words == Some(*column))?;
            words.1 = words.1.checked_sub(over).filter(|left| *left >= LEAST_WORDS)?;
        }
        Some(arranged)
    }

    /// Writes these columns, under the name of each row where `named` has a line of its own.
    fn write_lines(
        &self,
        out: &mut dyn Write,
        columns: &Columns,
        indent: usize,
        named: Option<usize>,
    ) -> io::Result<()> {
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let cell = |column: usize| row.get(column).map(String::as_str).unwrap_or_default();
            let name = named.map(cell).filter(|name| !name.is_empty());
            if let Some(name) = name {
                for line in textwrap::wrap(name, wrapping(self.width.saturating_sub(2).max(1))) {
                    writeln!(out, "  {line}")?;
                }
            }
            let broken: Vec<_> = columns
                .iter()
                .map(|(column, width)| textwrap::wrap(cell(*column), wrapping((*width).max(1))))
                .collect();
            for index in 0..broken.iter().map(Vec::len).max().unwrap_or_default() {
                let mut line = " ".repeat(indent);
                for ((column, width), lines) in columns.iter().zip(&broken) {
                    let text = lines.get(index).map(AsRef::as_ref).unwrap_or_default();
                    let room = " ".repeat(width.saturating_sub(display_width(text)));
                    line +=
                        &if self.fit.is_number(*column) { format!("{room}{text} ") } else { format!("{text}{room} ") };
                }
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

/// Content of each file, a row each.
pub(crate) fn write_files(out: &mut dyn Write, files: &[FileJson]) -> io::Result<()> {
    let header = ["file", "layout", "batch", "reset at", "slots", "used", "bad", "current", "stale", "undecided"];
    let mut table = plain_table(&header);
    for file in files {
        let unknown = if file.header == "good" { "-" } else { "header bad" };
        table.add_row(vec![
            printable(&file.file),
            if file.layout_by == "guess" { format!("{}?", file.layout) } else { file.layout.to_owned() },
            file.batch_id.clone().unwrap_or_else(|| "-".to_owned()),
            file.checkpoint_lsn.clone().unwrap_or_else(|| unknown.to_owned()),
            file.slots.to_string(),
            file.used.to_string(),
            if file.unverifiable > 0 { "?".to_owned() } else { file.bad.to_string() },
            file.current.to_string(),
            file.stale.to_string(),
            file.undecided.to_string(),
        ]);
    }
    right_align(&mut table, 2..header.len());
    write_table(out, &table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::text::Paint;

    fn written(width: u16) -> String {
        let mut table = plain_table(&["name", "bytes now", "", "bytes then", "why"]);
        table.add_row([
            "a_long_name_of_a_relation",
            "123456",
            "####",
            "99",
            "words that are broken over lines where need be",
        ]);
        table.add_row(["b", "7", "#", "1234567890", "few"]);
        let fit = Fit::default().numbers(1..2).numbers(3..4).bars(2).words(4);
        let mut out = Vec::new();
        write_fitted(&mut out, Layout { width, paint: Paint::new(false) }, table, &fit).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_gets_narrower_and_loses_no_cell() {
        for width in 30..140 {
            let text = written(width);
            assert!(text.lines().all(|line| display_width(line) <= usize::from(width)), "{width}:\n{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for word in ["a_long_name_of_a_relation", "123456", "99", "1234567890", "7", "few", "need"] {
                assert!(words.contains(&word), "{width}: {word}\n{text}");
            }
        }
        assert!(written(120).contains("####") && !written(80).contains("####"));
    }
}
