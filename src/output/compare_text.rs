//! Sets of WAL beside each other, as a table.

use std::io::{self, Write};

use super::escape::printable;
use super::figures::{percent, size};
use super::json::compare::key_text;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use crate::analysis::wal::compare::{Figure, Part, SetFigures, Unit};

/// Writes a table for everything, and one for each way to divide the images. `sets`: names and figures; the first one is
/// what the others are compared with. Of a set that was not read whole the name has a question mark.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_comparison(
    out: &mut dyn Write,
    layout: Layout,
    sets: &[(&str, &SetFigures)],
    parts: &[Part],
) -> io::Result<()> {
    let Some((_, first)) = sets.first() else { return Ok(()) };
    for (index, parts) in parts.chunk_by(|one, other| one.by() == other.by()).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let title = parts.first().map_or("", heading);
        let mut header = vec![title.to_owned()];
        for (column, (name, figures)) in sets.iter().enumerate() {
            header.push(format!("{}{}", printable(name), if figures.is_whole { "" } else { "?" }));
            header.extend((column > 0).then(|| "%".to_owned()));
        }
        let mut table = plain_table(&header);
        for part in parts {
            // Of a part the bytes tell enough.
            let figures: &[Figure] = if *part == Part::All { &Figure::OF_ALL } else { &[Figure::ImageBytes] };
            for figure in figures {
                let mut row = vec![key_text(part).map_or_else(|| label(*figure).to_owned(), |key| printable(&key))];
                for (column, (_, set)) in sets.iter().enumerate() {
                    row.push(
                        set.value(part, *figure).map_or_else(|| "-".to_owned(), |value| text(value, figure.unit())),
                    );
                    // Of a share percent would be read as points.
                    let difference = match figure.unit() {
                        Unit::Share => {
                            set.difference_points(first, part, *figure).map(|own| format!("{own:+.1} points"))
                        }
                        _ => set.difference_percent(first, part, *figure).map(|own| format!("{own:+.1}")),
                    };
                    let difference = difference.unwrap_or_else(|| "-".to_owned());
                    row.extend((column > 0).then_some(difference));
                }
                table.add_row(row);
            }
        }
        write_fitted(out, layout, table, &Fit::default().numbers(1..header.len()))?;
    }
    if sets.iter().any(|(_, figures)| figures.has_unnamed()) {
        let note = "relations without a name are not compared: numbers mean nothing in another cluster; see --names";
        writeln!(out)?;
        wrapped(out, layout, "", 0, note)?;
    }
    let sets_in_part = sets.iter().filter(|(_, figures)| !figures.is_whole).count();
    if sets_in_part > 0 {
        let note = "?: not read whole, or damaged: at least so much, and not compared in percent";
        writeln!(out)?;
        wrapped(out, layout, "", 0, note)?;
    }
    Ok(())
}

/// What a table shows.
const fn heading(part: &Part) -> &'static str {
    match part {
        Part::All => "",
        Part::Cause(_) => "image bytes by cause",
        Part::Compression(_) => "image bytes by compression",
        Part::Relation(_) => "image bytes by relation, those that differ most",
    }
}

/// What a row shows.
const fn label(figure: Figure) -> &'static str {
    match figure {
        Figure::WalBytes => "WAL records, bytes",
        Figure::Records => "records",
        Figure::RecordBytes => "bytes without images",
        Figure::Images => "images",
        Figure::ImageBytes => "image bytes",
        Figure::ImageShare => "share of images, %",
        Figure::WholeIntervals => "whole checkpoint intervals",
        Figure::BytesPerInterval => "WAL per interval, bytes",
        Figure::ImagesPerInterval => "images per interval",
        Figure::Seconds => "seconds",
        Figure::BytesPerSecond => "bytes per second",
        Figure::ImagesPerSecond => "images per second",
        Figure::Commits => "commits",
        Figure::BytesPerCommit => "bytes per commit",
        Figure::ImagesPerThousandCommits => "images per 1000 commits",
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
