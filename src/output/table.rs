//! Tables for people.

use std::io::{self, Write};
use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A table without lines, as wide as its content.
#[must_use]
pub fn plain_table<T: AsRef<str>>(header: &[T]) -> Table {
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

/// Aligns numbers.
pub fn right_align(table: &mut Table, columns: Range<usize>) {
    for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| columns.contains(index)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Writes a table, indented.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_table(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    for line in table.lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}
