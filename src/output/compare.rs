//! Sets of WAL that are compared: rows for programs, and a table for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::escape::printable;
use super::figures::{percent, size};
use super::json::wal::Row;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use crate::analysis::plan::compare::{Cell, Line, Part, SetCounts, Unit};
use crate::analysis::wal::tally::Certainty;

pub(crate) const FIGURE_COLUMNS: [&str; 9] =
    ["set", "by", "key", "figure", "unit", "value", "difference_percent", "difference_points", "certainty"];

/// A figure of the set with this name as a row.
pub(crate) fn figure_row(name: &str, is_whole: bool, line: &Line, cell: &Cell) -> Row {
    let unit = line.figure.unit;
    // What is missing can only make sums larger, but shares and averages anything.
    let certainty = match unit {
        _ if is_whole => Certainty::Exact,
        Unit::Count | Unit::Bytes | Unit::Seconds => Certainty::AtLeast,
        Unit::Average | Unit::AverageBytes | Unit::Share => Certainty::Estimate,
    };
    let number = |value: f64| match unit {
        Unit::Count | Unit::Bytes => json!(value.round() as u64),
        Unit::AverageBytes | Unit::Average => rounded(value, 1e3),
        Unit::Share | Unit::Seconds => rounded(value, 1e6),
    };
    let values = [
        json!(name),
        json!(line.part.by()),
        json!(line.part.key()),
        json!(line.figure.code),
        json!(<&str>::from(unit)),
        json!(cell.value.map(number)),
        json!(cell.percent.map(|percent| rounded(percent, 1e3))),
        json!(cell.points.map(|points| rounded(points, 1e3))),
        json!(certainty.code()),
    ];
    FIGURE_COLUMNS.iter().map(|column| (*column).to_owned()).zip(values).collect()
}

fn rounded(value: f64, factor: f64) -> Value {
    json!((value * factor).round() / factor)
}

/// Writes a table for everything, and one for each way to divide the images. The name of a set that was not read completely has a
/// question mark.
pub(crate) fn write_comparison(
    out: &mut dyn Write,
    layout: Layout,
    sets: &[(&str, &SetCounts)],
    lines: &[Line],
) -> io::Result<()> {
    for (index, lines) in lines.chunk_by(|one, other| one.part.by() == other.part.by()).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let by = lines.first().and_then(|line| line.part.by());
        let by = by
            .map(|by| format!("image bytes by {by}{}", if by == "relation" { ", those that differ most" } else { "" }));
        let mut header = vec![by.unwrap_or_default()];
        for (column, (name, set)) in sets.iter().enumerate() {
            header.push(format!("{}{}", printable(name), if set.is_whole { "" } else { "?" }));
            header.extend((column > 0).then(|| "%".to_owned()));
        }
        let mut table = plain_table(&header);
        // Of a part the bytes tell enough.
        for line in lines.iter().filter(|line| line.part == Part::All || line.figure.unit == Unit::Bytes) {
            let mut row = vec![line.part.key().map_or_else(|| label(line.figure.code), |key| printable(&key))];
            for (column, Cell { value, percent, points }) in line.cells.iter().enumerate() {
                row.push(value.map_or_else(|| "-".to_owned(), |value| text(value, line.figure.unit)));
                // Of a share percent would be read as points.
                let difference = match line.figure.unit {
                    Unit::Share => points.map(|points| format!("{points:+.1} points")),
                    _ => percent.map(|percent| format!("{percent:+.1}")),
                };
                row.extend((column > 0).then(|| difference.unwrap_or_else(|| "-".to_owned())));
            }
            table.add_row(row);
        }
        write_fitted(out, layout, table, &Fit::default().numbers(1..header.len()))?;
    }
    let unnamed = "relations without a name are not compared: numbers mean nothing in another cluster; see --names";
    let not_whole = "?: not read completely, or damaged: at least so much, and not compared in percent";
    let has_unnamed = sets.iter().any(|(_, set)| set.has_unnamed());
    let has_not_whole = sets.iter().any(|(_, set)| !set.is_whole);
    for (_, note) in [(has_unnamed, unnamed), (has_not_whole, not_whole)].into_iter().filter(|(is_so, _)| *is_so) {
        writeln!(out)?;
        wrapped(out, layout, "", 0, note)?;
    }
    Ok(())
}

fn label(code: &str) -> String {
    match code {
        "wal_bytes" => "WAL records, bytes".to_owned(),
        "record_bytes" => "bytes without images".to_owned(),
        "image_share" => "share of images, %".to_owned(),
        "whole_intervals" => "complete checkpoint intervals".to_owned(),
        "bytes_per_interval" => "WAL per interval, bytes".to_owned(),
        code => code.replace('_', " "),
    }
}

fn text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes | Unit::AverageBytes => size(value.round() as u64),
        Unit::Count => (value.round() as u64).to_string(),
        Unit::Average | Unit::Seconds => format!("{value:.1}"),
        Unit::Share => percent(value),
    }
}
