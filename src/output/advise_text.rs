//! One screen about some WAL: how much of it is images, what would have saved some, whose they are, and when they come.

use std::io::{self, Write};

use textwrap::core::display_width;

use super::figures::{duration, megabytes, percent, rate, signed_size, size, size_words};
use super::json::time_text;
use super::relation_columns::{kind_words, likely_cause_words};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use super::words::certainty::ForSameWork;
use crate::analysis::wal::group_rows::GroupRow;
use crate::analysis::wal::overview::Overview;
use crate::analysis::wal::savings::{NotFigured, Remedy, Saving, Savings};
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceRedo};

/// Writes what was read, in two lines.
pub(crate) fn write_overview(out: &mut dyn Write, layout: Layout, overview: &Overview) -> io::Result<()> {
    let Some((from, to)) = overview.range else { return writeln!(out, "no records in this range") };
    let seconds = overview.seconds();
    let when = match overview.times {
        Some((first, last)) => {
            format!("{} to {}", time_text(first.unix_seconds()), time_text(last.unix_seconds()))
        }
        None => format!("{from} to {to}, times unknown"),
    };
    let mut wal = format!("{} WAL", size(overview.wal_bytes));
    if let Some(seconds) = seconds {
        wal.push_str(&format!(", {} MB/s", rate(megabytes(overview.wal_bytes as f64 / seconds))));
    }
    if let Some(peak) = overview.peak.filter(|_| seconds.is_some()) {
        let at = time_text(peak.start.unix_seconds());
        let clock = at.get(11..19).unwrap_or(&at);
        wal.push_str(&format!(" (peak {} at {clock})", rate(megabytes(peak.bytes_per_s()))));
    }
    let checkpoints = match (overview.checkpoints, seconds) {
        (0, _) => "no checkpoint".to_owned(),
        (1, _) => "1 checkpoint".to_owned(),
        (number, Some(seconds)) => format!("{number} checkpoints, one per {}", duration(seconds / number as f64)),
        (number, None) => format!("{number} checkpoints"),
    };
    let line = format!("{when}   {wal}   {checkpoints}");
    match display_width(&line) <= usize::from(layout.width) {
        true => writeln!(out, "{}", layout.paint.heading(&line))?,
        false => {
            for part in [when, wal, checkpoints] {
                writeln!(out, "{}", layout.paint.heading(&part))?;
            }
        }
    }
    let total = &overview.total;
    let mut images = format!(
        "{} images, {} ({} % of the {} of all records)",
        total.fpi_count,
        size_words(total.fpi_bytes),
        percent(total.fpi_share()),
        size_words(total.combined_bytes())
    );
    let since = &overview.since_redo;
    if since.intervals > 0 {
        let within = size_words(since.fpi_bytes_within_60_s());
        images.push_str(&format!(", {within} of it within 60 s after a redo point{}", left_out(since)));
    }
    wrapped(out, layout, "", 0, &images)
}

/// Says what is not among the figures of seconds after a redo point.
fn left_out(since: &SinceRedo) -> String {
    match since.left_out_images {
        0 => String::new(),
        images => format!("; when {images} of them ({}) came is unknown", size_words(since.left_out_bytes)),
    }
}

/// Writes what each remedy would have saved.
pub(crate) fn write_savings(out: &mut dyn Write, layout: Layout, savings: &Savings, block_size: u32) -> io::Result<()> {
    writeln!(out)?;
    if !savings.rows.is_empty() {
        let mut table = plain_table(&["avoidable by", "saves", "how sure", "why and at what price"]);
        for saving in &savings.rows {
            table.add_row([
                remedy_words(&saving.remedy),
                signed_size(saving.image_bytes),
                ForSameWork(saving.certainty).to_string(),
                why(saving, block_size),
            ]);
        }
        write_fitted(out, layout, table, &Fit::default().numbers(1..2).words(3))?;
    }
    for left_out in &savings.left_out {
        let words = match left_out {
            NotFigured::NoRedoPoint => "checkpoints farther apart: no redo point lies in this WAL",
            NotFigured::NotCompressed => "wal_compression: images were not compressed again",
        };
        writeln!(out, "  {}", layout.paint.faint(words))?;
    }
    Ok(())
}

pub(crate) fn remedy_words(remedy: &Remedy) -> String {
    match remedy {
        Remedy::FewerCheckpoints { times, .. } => format!("checkpoints x{times} apart"),
        Remedy::Compression { best, .. } => format!("wal_compression={}", best.setting.code()),
        Remedy::DoubleWrite { .. } => "a double write buffer".to_owned(),
        Remedy::NoHints { .. } => "no checksums, no hints".to_owned(),
    }
}

#[must_use]
pub fn why(saving: &Saving, block_size: u32) -> String {
    match &saving.remedy {
        Remedy::FewerCheckpoints { replay_bytes, replay_bytes_now, replay_seconds, .. } => {
            let time = replay_seconds.map_or_else(String::new, |seconds| format!(" ({} of WAL)", duration(seconds)));
            let now = replay_bytes_now.map_or_else(|| "unknown".to_owned(), size);
            match replay_bytes {
                Some(bytes) => format!("recovery reads up to {}{time}, now {now}", size(*bytes)),
                None => format!("what recovery would read is unknown (too few checkpoints); now {now}"),
            }
        }
        Remedy::Compression { best, others } => {
            let all = || std::iter::once(best).chain(others);
            let stored =
                all().map(|row| format!("{} {}", row.setting.code(), size(row.bytes_after))).collect::<Vec<_>>();
            let seconds = all().map(|row| row.seconds_per_gb.map(rate)).collect::<Option<Vec<_>>>();
            let cost = seconds.map_or_else(String::new, |all| format!("; CPU {} s per GB", all.join(" / ")));
            format!("would store {}{cost}", stored.join(", "))
        }
        Remedy::DoubleWrite { stay_bytes, pages } => {
            let twice = size(pages.saturating_mul(u64::from(block_size)));
            format!("{} of images stay; about {twice} of pages are written twice", size(*stay_bytes))
        }
        Remedy::NoHints { all, then_changed } if then_changed.image_bytes == 0 => {
            format!("{} are for hint bits, all of pages that nothing else changes", size(all.image_bytes))
        }
        Remedy::NoHints { all, then_changed } => format!(
            "{} are for hint bits, but {} are of pages that change later anyway",
            size(all.image_bytes),
            size(then_changed.image_bytes)
        ),
    }
}

/// Writes whose the most images are.
pub(crate) fn write_relations(
    out: &mut dyn Write,
    layout: Layout,
    rows: &[(String, &GroupRow)],
    image_bytes: u64,
    further: usize,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let header = ["who", "images", "share", "kind", "per 1000 changes", "HOT", "likely cause"];
    let mut table = plain_table(&header);
    for (name, row) in rows {
        let figures = row.figures.as_ref();
        let share = if image_bytes == 0 { 0.0 } else { row.tally.fpi_bytes as f64 / image_bytes as f64 };
        let per_1000 = figures.and_then(|figures| figures.activity.images_per_1000_changes());
        let cause = figures.and_then(|figures| figures.likely_cause);
        table.add_row([
            name.clone(),
            size(row.tally.fpi_bytes),
            format!("{} %", percent(share)),
            figures.map(|figures| kind_words(figures.kind)).unwrap_or_default(),
            per_1000.map(|number| format!("{number:.0}")).unwrap_or_default(),
            figures
                .and_then(|figures| figures.activity.hot_share())
                .map(|share| format!("{} %", percent(share)))
                .unwrap_or_default(),
            cause.map(|cause| likely_cause_words(&cause).to_owned()).unwrap_or_default(),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..3).numbers(4..6).words(6))?;
    match further {
        0 => Ok(()),
        1 => writeln!(out, "  and 1 more relation"),
        more => writeln!(out, "  and {more} more relations"),
    }
}

/// Writes at what rate images come after a redo point.
pub(crate) fn write_since_redo(out: &mut dyn Write, layout: Layout, since: &SinceRedo) -> io::Result<()> {
    if since.intervals == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let ends = SPAN_STARTS_S.iter().skip(1).map(Some).chain([None]);
    let spans = || SPAN_STARTS_S.iter().zip(ends.clone()).zip(&since.spans).filter(|(_, span)| span.observed_us > 0);
    let span_words = |start: &u32, end: Option<&u32>| match end {
        Some(end) => format!("{start}-{end}"),
        None => format!("{start} on"),
    };
    let heads = spans().map(|((start, end), _)| span_words(start, end));
    let header: Vec<String> = std::iter::once("seconds after redo".to_owned()).chain(heads).collect();
    let mut table = plain_table(&header);
    let per_second = spans().map(|(_, span)| span.images_per_s().map_or_else(String::new, rate));
    table.add_row(std::iter::once("images per second".to_owned()).chain(per_second).collect::<Vec<_>>());
    write_fitted(out, layout, table, &Fit::default().numbers(1..header.len()))?;
    if since.left_out_images > 0 {
        let images = since.left_out_images;
        let words = format!("without {images} images of intervals whose redo point or times are not known");
        wrapped(out, layout, "  ", 2, &words)?;
    }
    Ok(())
}
