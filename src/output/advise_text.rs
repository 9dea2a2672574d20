//! One screen about some WAL: how much of it is images, what would have saved some, whose they are, and when they come.
//! Also here: the first lines of `advise` and `stats`: the share of images, and what matters most about it.

use std::io::{self, Write};

use textwrap::core::display_width;

use super::figures::{
    allows_defaults, duration, many, megabytes, percent, rate, remedy_words, signed_size_words, size, size_words,
};
use super::json::time_text;
use super::relation_columns::{cure_words, kind_words, likely_cause_words};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, wrapping};
use super::words::cluster::ForSameWork;
use crate::analysis::plan::savings::{NotFigured, Remedy, Saving, Savings};
use crate::analysis::wal::bill::{BillPart, BillRow, SwitchRhythm, WalBill};
use crate::analysis::wal::curve::Overview;
use crate::analysis::wal::group::GroupRow;
use crate::analysis::wal::likely_cause::LikelyCause;
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceRedo};
use crate::analysis::wal::tally::{Certainty, Tally};

const SECONDS_A_DAY: f64 = 86_400.0;

/// Shorter WAL says nothing about a day.
const LEAST_SECONDS_FOR_A_DAY: f64 = 60.0;

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
    let mut wal = format!("{} of WAL", size_words(overview.wal_bytes));
    if let Some(seconds) = seconds {
        wal.push_str(&format!(" in {}", duration(seconds)));
    }
    if let Some(mean) = overview.bytes_per_s {
        wal.push_str(&format!(", {} MB/s", rate(megabytes(mean))));
    }
    if let Some(mean) = overview.bytes_per_s.filter(|_| spans_a_day(overview)) {
        wal.push_str(&format!(", {} a day at this rate", size_words((mean * SECONDS_A_DAY) as u64)));
    }
    if let Some((peak, bytes_per_s)) = overview.peak.zip(overview.peak_bytes_per_s()) {
        let at = time_text(peak.start.unix_seconds());
        let clock = at.get(11..19).unwrap_or(&at);
        wal.push_str(&format!(" (peak {} MB/s at {clock})", rate(megabytes(bytes_per_s))));
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
                for line in textwrap::wrap(&part, wrapping(usize::from(layout.width))) {
                    writeln!(out, "{}", layout.paint.heading(&line))?;
                }
            }
        }
    }
    let total = &overview.total;
    let mut images = format!("{} images, {}", total.fpi_count, size_words(total.fpi_bytes));
    let since = &overview.since_redo;
    if since.intervals > 0 {
        // When images that are left out came is unknown.
        let least = if since.left_out_images > 0 { "at least " } else { "" };
        let within = size_words(since.fpi_bytes_within_60_s());
        images.push_str(&format!(", {least}{within} of it within 60 s after a redo point"));
    }
    wrapped(out, layout, "", 0, &images)
}

/// The WAL is long enough for a figure a day.
fn spans_a_day(overview: &Overview) -> bool {
    overview.seconds().is_some_and(|seconds| seconds >= LEAST_SECONDS_FOR_A_DAY)
}

/// So many bytes of the WAL in MB per second and GB a day; empty where times are not known, or too few for a day.
pub(super) fn rates(overview: &Overview, bytes: f64) -> [String; 2] {
    let per_second = overview.per_second(bytes);
    let a_day = |per_second: f64| megabytes(per_second * SECONDS_A_DAY) / 1024.0;
    let daily = per_second.filter(|_| spans_a_day(overview));
    [per_second.map(|bytes| rate(megabytes(bytes))), daily.map(|bytes| rate(a_day(bytes)))]
        .map(Option::unwrap_or_default)
}

/// Columns of rates, and their cells; no column a day for short WAL.
fn rate_columns(overview: &Overview) -> &'static [&'static str] {
    if spans_a_day(overview) { &["MB/s", "GB/day"] } else { &["MB/s"] }
}

fn rate_cells(overview: &Overview, bytes: f64) -> impl Iterator<Item = String> {
    rates(overview, bytes).into_iter().take(rate_columns(overview).len())
}

/// Writes every byte of the WAL by what it is.
pub(crate) fn write_bill(out: &mut dyn Write, layout: Layout, bill: &WalBill, overview: &Overview) -> io::Result<()> {
    writeln!(out)?;
    let mut rows: Vec<&BillRow> = bill.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    let rates = rate_columns(overview);
    let mut table = plain_table(&[&["WAL", "share"], rates, &["content"]].concat());
    let mut add = |bytes: u64, words: String| {
        let share = percent(bytes as f64 / overview.wal_bytes.max(1) as f64);
        let first = [size_words(bytes), format!("{share} %")].into_iter();
        table.add_row(first.chain(rate_cells(overview, bytes as f64)).chain([words]));
    };
    rows.into_iter().for_each(|row| add(row.bytes, bill_words(row, bill.rhythm)));
    add(overview.wal_bytes, "all".to_owned());
    let last = rates.len().saturating_add(2);
    write_fitted(out, layout, table, &Fit::default().numbers(0..last).words(last))
}

/// What the bytes of a row of the bill are.
pub fn bill_words(row: &BillRow, rhythm: Option<SwitchRhythm>) -> String {
    let count = row.count.unwrap_or_default();
    let of = |what: &str| many(count, what);
    match row.part {
        BillPart::Images => of("full-page image"),
        BillPart::Records => format!("{}, without their images", of("record")),
        BillPart::OldRows => format!("old rows in {} (REPLICA IDENTITY FULL)", of("record")),
        BillPart::Unused => match rhythm {
            Some(SwitchRhythm { every_s, is_regular: true }) => {
                format!(
                    "unused after {}, one every {}: archive_timeout, probably",
                    of("segment switch"),
                    duration(every_s)
                )
            }
            Some(SwitchRhythm { every_s, .. }) => format!(
                "unused after {}, in no rhythm (middle distance {}): pg_switch_wal() or backups, probably",
                of("segment switch"),
                duration(every_s)
            ),
            None => format!("unused after {}: archive_timeout, pg_switch_wal() or backups", of("segment switch")),
        }
        .replace("switchs", "switches"),
        BillPart::PageHeaders => "headers of WAL pages".to_owned(),
        BillPart::Padding => "padding between records".to_owned(),
        BillPart::Cut => "records cut off at an end of this WAL, or unreadable".to_owned(),
    }
}

/// Writes what each remedy would have saved.
pub(crate) fn write_savings(
    out: &mut dyn Write,
    layout: Layout,
    savings: &Savings,
    overview: &Overview,
    block_size: u32,
) -> io::Result<()> {
    writeln!(out)?;
    if !savings.rows.is_empty() {
        let rates = rate_columns(overview);
        let header = [&["avoidable by", "saves"], rates, &["confidence", "why and at what price"]].concat();
        let mut table = plain_table(&header);
        for saving in &savings.rows {
            let first = [remedy_words(&saving.remedy), signed_size_words(saving.wal_bytes)].into_iter();
            let last = [how_sure(saving), why(saving, block_size)];
            table.add_row(first.chain(rate_cells(overview, saving.wal_bytes as f64)).chain(last));
        }
        let numbers = rates.len().saturating_add(2);
        write_fitted(out, layout, table, &Fit::default().numbers(1..numbers).words(header.len() - 1))?;
    }
    for left_out in &savings.left_out {
        let words = match left_out {
            NotFigured::NoRedoPoint => "checkpoints farther apart: this WAL contains no redo point",
            NotFigured::NotCompressed => "wal_compression: images were not compressed again",
        };
        writeln!(out, "  {}", layout.paint.faint(words))?;
    }
    Ok(())
}

/// Losses without images for hint bits.
const HINT_PRICE: &str = "then pg_rewind refuses, and damaged pages go unseen";

/// How sure the bytes of WAL are that would have been saved.
pub(super) fn how_sure(saving: &Saving) -> String {
    match (saving.and_fewer_checkpoints, saving.wal_certainty) {
        // Fewer checkpoints save images on top of it.
        (true, _) => Certainty::AtLeast.to_string(),
        (false, certainty) => ForSameWork(certainty).to_string(),
    }
}

pub fn why(saving: &Saving, block_size: u32) -> String {
    match &saving.remedy {
        Remedy::ArchiveTimeout { rhythm, .. } => {
            format!("a segment ends every {} now; up to that much later in the archive", duration(rhythm.every_s))
        }
        Remedy::ReplicaIdentity { records } => {
            format!("{records} records hold the whole old row; subscribers need a key")
        }
        Remedy::FewerCheckpoints { replay_bytes, replay_bytes_now, replay_seconds, max_wal_size, timeout, .. } => {
            let defaults = match allows_defaults(*max_wal_size, *timeout) {
                true => "; find what forces checkpoints: CHECKPOINT, backups, settings below the defaults",
                false => "",
            };
            let time = replay_seconds.map_or_else(String::new, |seconds| format!(" ({} of WAL)", duration(seconds)));
            let now = replay_bytes_now.map_or_else(|| "unknown".to_owned(), size_words);
            match replay_bytes {
                Some(bytes) => format!("recovery reads up to {}{time}, now {now}{defaults}", size_words(*bytes)),
                None => format!("recovery reads up to about {}, now {now}{defaults}", size_words(*max_wal_size)),
            }
        }
        Remedy::Compression { best, others } => {
            let all = || std::iter::once(best).chain(others);
            let stored =
                all().map(|row| format!("{} {}", row.setting.code(), size_words(row.bytes_after))).collect::<Vec<_>>();
            let seconds = all().map(|row| row.seconds_per_gb.map(rate)).collect::<Option<Vec<_>>>();
            let cost = seconds.map_or_else(String::new, |all| format!("; CPU {} s per GB", all.join(" / ")));
            format!("would store {}{cost}", stored.join(", "))
        }
        Remedy::DoubleWrite { stay_bytes, pages } => {
            let twice = size_words(pages.saturating_mul(u64::from(block_size)));
            format!("{} of images stay; about {twice} of pages are written twice", size_words(*stay_bytes))
        }
        Remedy::NoHints { all, then_changed } if then_changed.image_bytes == 0 => {
            format!(
                "{} are for hint bits, all of pages that nothing else changes; {HINT_PRICE}",
                size_words(all.image_bytes)
            )
        }
        Remedy::NoHints { all, then_changed } => format!(
            "{} are for hint bits, but {} are of pages that change later anyway; {HINT_PRICE}",
            size_words(all.image_bytes),
            size_words(then_changed.image_bytes)
        ),
    }
}

/// Widths from which on relations show all columns.
const WIDE: u16 = 120;

/// Writes whose the most bytes are. `others`: how many more relations there are, and their bytes.
pub(crate) fn write_relations(
    out: &mut dyn Write,
    layout: Layout,
    rows: &[RelationLine<'_>],
    wal_bytes: u64,
    others: (usize, u64),
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let is_wide = layout.width >= WIDE;
    let mut header = vec!["who", "WAL", "share", "images"];
    header.extend(if is_wide { &["old rows", "per 1000 changes", "HOT", "kind"][..] } else { &[] });
    header.extend(["mostly", "likely cause"]);
    let mut table = plain_table(&header);
    for RelationLine { name, row, record, .. } in rows {
        let figures = row.figures.as_ref();
        let bytes = row.tally.combined_bytes();
        let share = percent(bytes as f64 / wal_bytes.max(1) as f64);
        let mut cells = vec![name.clone(), size_words(bytes), format!("{share} %"), size_words(row.tally.fpi_bytes)];
        if is_wide {
            let old_rows = figures.map_or(0, |figures| figures.activity.all_old_rows().1);
            let per_1000 = figures.and_then(|figures| figures.activity.images_per_1000_changes());
            let hot = figures.and_then(|figures| figures.activity.hot_share());
            cells.extend([
                if old_rows > 0 { size_words(old_rows) } else { String::new() },
                per_1000.map(|number| format!("{number:.0}")).unwrap_or_default(),
                hot.map(|share| format!("{} %", percent(share))).unwrap_or_default(),
                figures.map(|figures| kind_words(figures.kind)).unwrap_or_default(),
            ]);
        }
        let cause = figures.and_then(|figures| figures.likely_cause);
        cells.extend([record.clone(), cause.map(|cause| likely_cause_words(&cause).to_owned()).unwrap_or_default()]);
        table.add_row(cells);
    }
    let numbers = if is_wide { 1..7 } else { 1..4 };
    write_fitted(out, layout, table, &Fit::default().numbers(numbers).words(header.len() - 1))?;
    match others {
        (0, _) => {}
        (1, bytes) => writeln!(out, "  and 1 more relation, {}", size_words(bytes))?,
        (more, bytes) => writeln!(out, "  and {more} more relations, {}", size_words(bytes))?,
    }
    let mut cures: Vec<(LikelyCause, Option<(u64, Certainty)>)> = Vec::new();
    for line in rows {
        let Some(cause) = line.row.figures.as_ref().and_then(|figures| figures.likely_cause) else { continue };
        match cures.iter_mut().find(|(known, _)| likely_cause_words(known) == likely_cause_words(&cause)) {
            Some((_, sum)) => {
                let both = sum.zip(line.gain).map(|(sum, own)| (sum.0.saturating_add(own.0), sum.1.and(own.1)));
                *sum = both.or(*sum).or(line.gain);
            }
            None => cures.push((cause, line.gain)),
        }
    }
    for (cause, gain) in cures {
        let gain = gain.filter(|(bytes, _)| *bytes > 0).map_or_else(String::new, |(bytes, certainty)| {
            let least = if certainty == Certainty::AtLeast { "at least" } else { "about" };
            format!(" ({least} {} less)", size_words(bytes))
        });
        wrapped(out, layout, "  ", 4, &format!("{}: {}{gain}", likely_cause_words(&cause), cure_words(&cause)))?;
    }
    Ok(())
}

/// A relation as it is shown: its name, and the type of record that most of its bytes are in.
pub(crate) struct RelationLine<'a> {
    pub name: String,
    pub row: &'a GroupRow,
    pub record: String,
    /// Bytes of WAL that the cure of its likely cause saves.
    pub gain: Option<(u64, Certainty)>,
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
