//! WAL under other settings, as tables.
//! Also here: sizes under other settings of `wal_compression`, as a table.

use std::io::{self, Write};

use super::figures::{duration, percent, signed_size, size, size_words};
use super::remedy_words::{setting_size, setting_time};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use super::words::cluster::ForSameWork;
use crate::analysis::plan::whatif::compression::{CompressionRow, CompressionWhatIf, Setting};
use crate::analysis::plan::whatif::protection::{Guard, Protection};
use crate::analysis::plan::whatif::{MIN_ASKED, NoKnee, Outcome, Spacing, SpacingRow, WhatIf, knee};
use crate::analysis::wal::likely_cause::{HintCost, HintImages};
use crate::analysis::wal::tally::Certainty;

const BAR: usize = 16;

/// Parts of a column that a bar can end in.
const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar of a part of the longest one.
fn bar(value: u64, longest: u64) -> String {
    let parts = (value as f64 / longest.max(1) as f64 * (BAR * PARTS.len()) as f64).round() as usize;
    let (whole, rest) = (parts / PARTS.len(), parts % PARTS.len());
    let mut bar = "█".repeat(whole);
    bar.extend(rest.checked_sub(1).map(|index| PARTS[index]));
    bar
}

pub(super) fn setting_name(spacing: Spacing) -> String {
    let value = setting_value(spacing);
    match spacing {
        Spacing::Every(_) => format!("every {value} checkpoint"),
        Spacing::MaxWalSize { .. } => format!("max_wal_size = {value}"),
        Spacing::Timeout { .. } => format!("checkpoint_timeout = {value}"),
        Spacing::Both { .. } => value,
    }
}

pub(super) fn setting_value(spacing: Spacing) -> String {
    match spacing {
        Spacing::Every(2) => "2nd".to_owned(),
        Spacing::Every(3) => "3rd".to_owned(),
        Spacing::Every(every) => format!("{every}th"),
        Spacing::MaxWalSize { bytes } => setting_size(bytes),
        Spacing::Timeout { seconds } => setting_time(seconds),
        Spacing::Both { bytes, seconds } => format!("{} and {}", setting_size(bytes), setting_time(seconds)),
    }
}

/// True for settings of one kind that lead to the same.
fn is_alike(one: &SpacingRow, next: &SpacingRow) -> bool {
    let is_own_row = matches!(one.spacing, Spacing::Every(_) | Spacing::Both { .. });
    !is_own_row && SpacingRow { spacing: one.spacing, ..*next } == *one && one.spacing.code() == next.spacing.code()
}

/// Writes what other distances of checkpoints would have made of the WAL.
pub(crate) fn write_spacing(out: &mut dyn Write, layout: Layout, what_if: &WhatIf) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("checkpoint spacing"))?;
    let Some(from) = what_if.replayed_from else {
        return wrapped(
            out,
            layout,
            "  ",
            2,
            "This WAL contains no redo point, so other distances cannot be replayed.",
        );
    };
    let longest = what_if.spacing.iter().map(|row| row.outcome.image_bytes).chain([what_if.actual.image_bytes]).max();
    let longest = longest.unwrap_or_default();
    let mut table = plain_table(&[
        "setting",
        "checkpoints",
        "images",
        "stored",
        "",
        "records",
        "confidence",
        "recovery reads",
        "mean",
        "",
    ]);
    let add = |table: &mut comfy_table::Table,
               name: String,
               outcome: &Outcome,
               certainty: &dyn std::fmt::Display,
               is_least: bool| {
        let read = |bytes: u64| format!("{}{}", if is_least { ">" } else { "" }, size(bytes));
        table.add_row([
            name,
            outcome.checkpoints.to_string(),
            outcome.images.to_string(),
            size(outcome.image_bytes),
            bar(outcome.image_bytes, longest),
            size(outcome.wal_bytes),
            certainty.to_string(),
            outcome.replay_bytes_max.map_or_else(|| "-".to_owned(), read),
            outcome.replay_bytes_mean.map_or_else(|| "-".to_owned(), size),
            outcome.replay_seconds_max.map_or_else(String::new, duration),
        ]);
    };
    add(
        &mut table,
        "as it is".to_owned(),
        &what_if.actual,
        &what_if.certainty,
        what_if.replay_certainty == Certainty::AtLeast,
    );
    let knee = knee(&what_if.spacing);
    // Settings with the same result share a row.
    for rows in what_if.spacing.chunk_by(is_alike) {
        let (Some(row), Some(last)) = (rows.first(), rows.last()) else { continue };
        let mut name = setting_name(row.spacing);
        if rows.len() > 1 {
            name.push_str(&format!(" to {}", setting_value(last.spacing)));
        }
        if matches!(row.spacing, Spacing::MaxWalSize { bytes } if knee == Ok(bytes)) {
            name.push_str(" (knee)");
        }
        add(&mut table, name, &row.outcome, &ForSameWork(row.certainty), row.replay_certainty == Certainty::AtLeast);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4).bars(4).numbers(5..6).numbers(7..10))?;
    let before = match what_if.not_replayed_bytes {
        0 => String::new(),
        bytes => format!("; {} of WAL before that and after gaps stay as they are", size_words(bytes)),
    };
    wrapped(out, layout, "  ", 2, &format!("Replayed from the redo point {from}{before}."))?;
    if what_if.spacing.iter().any(|row| row.outcome.replay_bytes_max.is_none()) {
        let unknown = format!(
            "-: under that setting fewer than {MIN_ASKED} checkpoints fall into this WAL: what recovery would read is unknown."
        );
        wrapped(out, layout, "  ", 2, &unknown)?;
    }
    if knee == Err(NoKnee::FewCheckpoints) {
        let few = "No knee is shown: too few values of max_wal_size request checkpoints in this WAL.";
        wrapped(out, layout, "  ", 2, few)?;
    }
    let assumed = format!(
        "What recovery reads at most and on average, and the time in which the server wrote as much, assume \
         checkpoint_completion_target = {}; for the WAL as it is they are measured.",
        what_if.completion_target
    );
    wrapped(out, layout, "  ", 2, &assumed)?;
    let busy = "A busy server may not end a checkpoint before the next one is due. It then has fewer checkpoints than its \
                settings ask for, and writes fewer images than are shown here.";
    wrapped(out, layout, "  ", 2, busy)
}

/// Headings of the table of guards against torn pages.
pub(super) const GUARD_HEADINGS: [&str; 8] =
    ["guard", "WAL size", "FPI count", "FPI size", "share", "confidence", "buffer pages, about", "buffer bytes, about"];

/// Writes guards against torn pages beside each other.
pub(crate) fn write_protection(
    out: &mut dyn Write,
    layout: Layout,
    protection: &Protection,
    block_size: u32,
) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("torn page protection"))?;
    let mut table = plain_table(&GUARD_HEADINGS);
    for column in &protection.columns {
        let name = match column.guard {
            Guard::FullPageWrites => "full-page writes",
            Guard::DoubleWrite => "double write buffer",
            Guard::Off => "off",
        };
        let pages = column.buffer_pages;
        table.add_row([
            name.to_owned(),
            size(column.wal_bytes),
            column.images.to_string(),
            size(column.image_bytes),
            format!("{}%", percent(column.share())),
            if column.is_actual { "as it is".to_owned() } else { ForSameWork(column.certainty).to_string() },
            pages.map_or_else(String::new, |pages| pages.to_string()),
            pages.map_or_else(String::new, |pages| size(pages.saturating_mul(u64::from(block_size)))),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..5).numbers(6..8))?;
    let always = protection.always;
    let words = format!(
        "{} images ({}) are written whatever the guard: records require them, or they log a full page.",
        always.images,
        size_words(always.image_bytes)
    );
    wrapped(out, layout, "  ", 2, &words)?;
    let size = "WAL size: bytes of all records, without page headers and what segments leave unused.";
    wrapped(out, layout, "  ", 2, size)
}

/// Writes what images for hint bits cost.
pub(crate) fn write_hints(out: &mut dyn Write, layout: Layout, hints: &HintCost) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("hints"))?;
    if hints.all.images == 0 {
        return writeln!(out, "  No image was written for hint bits.");
    }
    let mut table = plain_table(&["images for hint bits", "images", "stored", "confidence"]);
    for (name, part, certainty) in [
        ("all", hints.all, hints.all_certainty),
        ("nothing else changed the page", hints.only, hints.certainty),
        ("the page changed later anyway", hints.then_changed, hints.certainty),
        ("the interval is not over", hints.undecided, hints.certainty),
    ] {
        let HintImages { images, image_bytes } = part;
        table.add_row([name.to_owned(), images.to_string(), size(image_bytes), certainty.to_string()]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..3))?;
    let words = "Without checksums and wal_log_hints those of the second line would not exist. On pages that changed \
                 later, that change would have had the image.";
    wrapped(out, layout, "  ", 2, words)
}

/// Writes a row for each setting, and what the figures mean.
pub(crate) fn write_compression(out: &mut dyn Write, layout: Layout, what_if: &CompressionWhatIf) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("wal_compression"))?;
    let header = ["setting", "images", "+/- %", "ratio", "WAL", "saves", "CPU s/GB", "confidence"];
    let mut table = plain_table(&header);
    for row in &what_if.rows {
        table.add_row([
            row.setting.to_string(),
            size(row.bytes_after),
            error_percent(row),
            row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            size(row.wal_bytes),
            signed_size(row.saved(&what_if.written)),
            row.seconds_per_gb.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
            certainty_words(row),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..header.len() - 1))?;
    wrapped(out, layout, "  ", 2, "ratio: page bytes without holes / stored bytes")?;
    if what_if.rows.iter().all(|row| row.seconds_per_gb.is_none()) {
        return Ok(());
    }
    let cpu = "CPU: one processor of this machine, with this program's compressors, for 10^9 bytes of such pages";
    wrapped(out, layout, "  ", 2, cpu)
}

/// How sure a row is: what is stored is counted, the rest is supposed.
pub(super) fn certainty_words(row: &CompressionRow) -> String {
    match row.setting {
        Setting::AsWritten => row.certainty.to_string(),
        Setting::Off | Setting::On(_) => ForSameWork(row.certainty).to_string(),
    }
}

/// Standard error in percent of the bytes stored.
fn error_percent(row: &CompressionRow) -> String {
    match row.standard_error {
        Some(error) if row.bytes_after > 0 => percent(error as f64 / row.bytes_after as f64),
        _ => "-".to_owned(),
    }
}
