//! The first lines of `advise` and `stats`: the share of images, and what matters most about it.

use std::io::{self, Write};

use super::advise_text::{RelationLine, how_sure};
use super::figures::{percent, signed_size_words, size, size_words};
use super::remedy_words::remedy_words;
use super::text::{Layout, wrapped};
use crate::analysis::plan::savings::Saving;
use crate::analysis::wal::overview::Overview;
use crate::analysis::wal::tally::Tally;

/// The share of images in all WAL, the remedy that saves most, and the relation with most WAL.
pub(crate) fn write_advice(
    out: &mut dyn Write,
    layout: Layout,
    overview: &Overview,
    savings: &[Saving],
    relations: &[RelationLine<'_>],
) -> io::Result<()> {
    let share = |bytes: u64| percent(bytes as f64 / overview.wal_bytes.max(1) as f64);
    let badge = format!("{} % OF THE WAL IS IMAGES", share(overview.total.fpi_bytes));
    writeln!(out, "{}", layout.paint.heading(&badge))?;
    let best = savings.iter().filter(|saving| saving.wal_bytes > 0).max_by_key(|saving| saving.wal_bytes);
    if let Some(saving) = best {
        let part = share(saving.wal_bytes.unsigned_abs());
        let (remedy, saves) = (remedy_words(&saving.remedy), signed_size_words(saving.wal_bytes));
        let words = format!("{remedy} would have saved most: {saves}, {part} % ({})", how_sure(saving));
        wrapped(out, layout, "  ", 2, &words)?;
    }
    if let Some(first) = relations.first() {
        let bytes = first.row.tally.combined_bytes();
        let words = format!("most WAL was written for {}: {}, {} %", first.name, size_words(bytes), share(bytes));
        wrapped(out, layout, "  ", 2, &words)?;
    }
    writeln!(out)
}

/// The share of images in all records.
pub(crate) fn write_share(out: &mut dyn Write, layout: Layout, total: &Tally) -> io::Result<()> {
    let noun = if total.fpi_count == 1 { "image" } else { "images" };
    let badge = format!("{} % OF RECORD BYTES ARE IMAGES", percent(total.fpi_share()));
    let counts = format!("{} {noun}, {} of {}", total.fpi_count, size(total.fpi_bytes), size(total.combined_bytes()));
    // Beside the badge where there is room.
    let fits = badge.len().saturating_add(counts.len()).saturating_add(3) <= usize::from(layout.width);
    let gap = if fits { "   " } else { "\n  " };
    writeln!(out, "{}{gap}{counts}\n", layout.paint.heading(&badge))
}
