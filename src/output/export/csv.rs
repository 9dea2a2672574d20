//! Rows as CSV, after a line of names. What does not apply is empty; characters that control something or mislead are
//! written as escapes.

use std::io::{self, Write};

use super::{Cell, Column};
use crate::output::escape::printable;

pub(super) fn write_header(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))
}

pub(super) fn write_row(out: &mut dyn Write, cells: &[Cell<'_>]) -> io::Result<()> {
    for (at, cell) in (0..).zip(cells) {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Null => {}
            Cell::Int(number) => write!(out, "{number}")?,
            Cell::Bool(value) => write!(out, "{value}")?,
            Cell::Text(text) => {
                let text = printable(text);
                match text.contains(['"', ',']) {
                    true => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
                    false => out.write_all(text.as_bytes())?,
                }
            }
        }
    }
    out.write_all(b"\n")
}
