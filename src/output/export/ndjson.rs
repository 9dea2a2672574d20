//! Rows as NDJSON: an object a line.

use std::io::{self, Write};

use super::{Cell, Column};

/// The beginning of each member, its name included.
pub(super) fn openings(columns: &[Column]) -> Vec<String> {
    (0..).zip(columns).map(|(at, column)| format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, column.name)).collect()
}

pub(super) fn write_row(out: &mut dyn Write, openings: &[String], cells: &[Cell<'_>]) -> io::Result<()> {
    for (opening, cell) in openings.iter().zip(cells) {
        out.write_all(opening.as_bytes())?;
        match cell {
            Cell::Null => out.write_all(b"null")?,
            Cell::Int(number) => write!(out, "{number}")?,
            Cell::Bool(value) => write!(out, "{value}")?,
            Cell::Text(text) => serde_json::to_writer(&mut *out, text)?,
        }
    }
    out.write_all(b"}\n")
}
