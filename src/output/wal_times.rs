//! WAL by time: rows of buckets, and of seconds after redo points.

use std::io::{self, Write};

use serde_json::json;

use super::figures::{duration, megabytes, percent, rate, size};
use super::json::time_words;
use super::json::wal::{Naming, Row};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use super::wal_columns::{COUNTS, put_tally, rounded};
use super::wal_text::{name_of, unsure};
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::interval_rows::{BucketRow, BucketRows};
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceRedo};
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::analysis::wal::time_buckets::Bucket;
use crate::analysis::wal::time_groups::{Spike, TimeGroup};
use crate::parsers::wal::payload::PgTimestamp;

/// Columns of a bucket in CSV, in order.
pub(crate) fn bucket_columns() -> Vec<&'static str> {
    let own = ["start_time", "bucket_s", "checkpoints", "mb_per_s", "images_per_s"];
    own.into_iter().chain(COUNTS.iter().map(|column| column.field)).collect()
}

/// Columns of a span of seconds after redo points in CSV, in order.
pub(crate) const SINCE_COLUMNS: &[&str] =
    &["from_s", "to_s", "fpi_count", "fpi_bytes", "combined_bytes", "observed_s", "images_per_s", "resolution_s"];

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

pub(crate) fn bucket_row(bucket: &Bucket, bucket_us: i64) -> Row {
    let lasts = seconds(bucket_us);
    let known = bucket.start.is_some();
    let mut row = Row::new();
    for (name, value) in [
        ("start_time", json!(bucket.start.map(time_words))),
        ("bucket_s", json!(lasts)),
        ("checkpoints", json!(bucket.checkpoints)),
        ("mb_per_s", json!(known.then(|| rounded(megabytes(bucket.tally.combined_bytes() as f64) / lasts)))),
        ("images_per_s", json!(known.then(|| rounded(bucket.tally.fpi_count as f64 / lasts)))),
    ] {
        row.insert(name.to_owned(), value);
    }
    put_tally(&mut row, &bucket.tally);
    row
}

/// Writes buckets and their total.
pub(crate) fn write_buckets(
    out: &mut dyn Write,
    layout: Layout,
    rows: &BucketRows,
    bucket_us: i64,
    total: &Tally,
) -> io::Result<()> {
    let is_summed = rows.rows.iter().any(|row| row.periods > 1);
    let with_periods = |cells: [String; 9], periods: String| {
        let mut cells = cells.to_vec();
        if is_summed {
            cells.insert(1, periods);
        }
        cells
    };
    let heading = with_periods(BUCKET_HEADING.map(str::to_owned), "n".to_owned());
    let mut table = plain_table(&heading);
    for BucketRow { periods, bucket } in &rows.rows {
        let lasts = seconds(bucket_us) * *periods as f64;
        let periods = bucket.start.map_or_else(|| "-".to_owned(), |_| periods.to_string());
        table.add_row(with_periods(bucket_cells(bucket, lasts), periods));
    }
    let checkpoints = rows.rows.iter().map(|row| row.bucket.checkpoints).sum();
    let periods: u64 = rows.rows.iter().map(|row| row.periods).sum();
    table.add_row(with_periods(total_cells(total, checkpoints), periods.to_string()));
    write_fitted(out, layout, table, &Fit::default().numbers(1..heading.len()))?;
    let length = duration(seconds(bucket_us));
    if is_summed {
        writeln!(out)?;
        let words = format!("rows hold several periods of {length} (n); --all shows each");
        wrapped(out, layout, "", 0, &words)?;
    }
    if rows.left_out > 0 {
        writeln!(out, "\n{} more periods of {length} without a record", rows.left_out)?;
    }
    Ok(())
}

/// A line of periods that are printed as they end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BucketLines<'a> {
    Heading,
    Row(&'a Bucket, Certainty, bool),
    Total(&'a Tally, u64),
}

/// Writes one line, in columns that are as wide in every line.
pub(crate) fn write_bucket_lines(out: &mut dyn Write, bucket_us: i64, what: BucketLines<'_>) -> io::Result<()> {
    let (cells, certainty, is_over) = match what {
        BucketLines::Heading => (BUCKET_HEADING.map(str::to_owned), Certainty::Exact, true),
        BucketLines::Row(bucket, certainty, is_over) => (bucket_cells(bucket, seconds(bucket_us)), certainty, is_over),
        BucketLines::Total(total, checkpoints) => (total_cells(total, checkpoints), Certainty::Exact, true),
    };
    let widths = [TIME_WIDTH, 8, 8, 8, 8, 8, 8, 8, 11];
    let row = cells.iter().zip(widths).enumerate();
    let line: String = row
        .map(|(at, (text, width))| if at == 0 { format!("  {text:<width$}") } else { format!("  {text:>width$}") })
        .collect();
    writeln!(out, "{}{}", line.trim_end(), unsure(certainty, is_over))
}

const BUCKET_HEADING: [&str; 9] =
    ["begins (UTC)", "records", "images", "stored", "bytes", "MB/s", "img/s", "share", "checkpoints"];

/// Columns of a time with a fraction of a second.
const TIME_WIDTH: usize = 19;

fn bucket_cells(bucket: &Bucket, lasts: f64) -> [String; 9] {
    let tally = &bucket.tally;
    let rates = match bucket.start {
        Some(_) => [rate(megabytes(tally.combined_bytes() as f64) / lasts), rate(tally.fpi_count as f64 / lasts)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let begins = bucket.start.map_or_else(|| "unknown".to_owned(), short_time);
    count_cells(begins, tally, rates, bucket.checkpoints)
}

fn total_cells(total: &Tally, checkpoints: u64) -> [String; 9] {
    count_cells("total".to_owned(), total, [String::new(), String::new()], checkpoints)
}

fn count_cells(begins: String, tally: &Tally, [bytes, images]: [String; 2], checkpoints: u64) -> [String; 9] {
    [
        begins,
        tally.records.to_string(),
        tally.fpi_count.to_string(),
        size(tally.fpi_bytes),
        size(tally.combined_bytes()),
        bytes,
        images,
        percent(tally.fpi_share()),
        checkpoints.to_string(),
    ]
}

/// A time without its zone.
fn short_time(time: PgTimestamp) -> String {
    time_words(time).replace('T', " ").trim_end_matches('Z').to_owned()
}

/// Seconds after redo points as rows.
pub(crate) fn since_rows(since: &SinceRedo) -> Vec<Row> {
    let ends = SPAN_STARTS_S.iter().skip(1).map(|end| json!(end)).chain([json!(null)]);
    let spans = since.spans.iter().zip(SPAN_STARTS_S).zip(ends);
    let row = |((span, from), to): ((&crate::analysis::wal::since_redo::SinceSpan, u32), serde_json::Value)| {
        let mut row = Row::new();
        for (name, value) in [
            ("from_s", json!(from)),
            ("to_s", to),
            ("fpi_count", json!(span.fpi_count)),
            ("fpi_bytes", json!(span.fpi_bytes)),
            ("combined_bytes", json!(span.combined_bytes)),
            ("observed_s", json!(rounded(seconds(span.observed_us)))),
            ("images_per_s", json!(span.images_per_s().map(rounded))),
            ("resolution_s", json!(seconds(since.step_us))),
        ] {
            row.insert(name.to_owned(), value);
        }
        row
    };
    spans.map(row).collect()
}

/// Writes images by seconds after redo points.
pub(crate) fn write_since(out: &mut dyn Write, layout: Layout, since: &SinceRedo) -> io::Result<()> {
    let heading = ["seconds after redo", "images", "stored", "bytes", "observed", "img/s"];
    let mut table = plain_table(&heading);
    let ends = SPAN_STARTS_S.iter().skip(1).map(|end| Some(*end)).chain([None]);
    for ((span, from), to) in since.spans.iter().zip(SPAN_STARTS_S).zip(ends) {
        table.add_row([
            to.map_or_else(|| format!("{from} and more"), |to| format!("{from} to {to}")),
            span.fpi_count.to_string(),
            size(span.fpi_bytes),
            size(span.combined_bytes),
            duration(seconds(span.observed_us)),
            span.images_per_s().map_or_else(|| "-".to_owned(), rate),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..heading.len()))?;
    writeln!(out)?;
    let words = format!(
        "{} checkpoint intervals; {} left out, whose redo point or times are not known",
        since.intervals, since.left_out
    );
    wrapped(out, layout, "", 0, &words)
}

/// Groups shown of each period, unless more are asked for.
const USUAL_GROUPS: usize = 3;

/// Writes periods, each with its largest groups, and the spikes among them.
pub(crate) fn write_time_groups(
    out: &mut dyn Write,
    layout: Layout,
    (rows, spikes): (&[TimeGroup], &[Spike]),
    (by, top): (GroupBy, Option<usize>),
    naming: &Naming<'_>,
) -> io::Result<()> {
    let mut table = plain_table(&["time (UTC)", "bytes", "images", "share", "of the period by"]);
    for TimeGroup { start, total, rows } in rows {
        let time = start.map_or_else(|| "before the first time".to_owned(), time_words);
        let sizes = |tally: &Tally| [size(tally.combined_bytes()), size(tally.fpi_bytes)];
        let [bytes, images] = sizes(total);
        table.add_row([time, bytes, images, String::new(), String::new()]);
        for (key, tally) in rows.iter().take(top.unwrap_or(USUAL_GROUPS)) {
            let share = percent(tally.combined_bytes() as f64 / total.combined_bytes().max(1) as f64);
            let [bytes, images] = sizes(tally);
            table.add_row([String::new(), bytes, images, format!("{share} %"), name_of(by, &key.first, naming)]);
        }
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4))?;
    if !spikes.is_empty() {
        writeln!(out, "\nSpikes: more than three times the bytes of the middle period")?;
    }
    spikes.iter().try_for_each(|spike| wrapped(out, layout, "  ", 4, &spike_words(spike, by, naming)))
}

fn spike_words(spike: &Spike, by: GroupBy, naming: &Naming<'_>) -> String {
    let bytes = spike.total.combined_bytes();
    let mut words = format!("{} to {}: {}", time_words(spike.start), time_words(spike.end), size(bytes));
    if let Some((key, tally)) = &spike.most {
        let share = percent(tally.combined_bytes() as f64 / bytes.max(1) as f64);
        let images = percent(tally.fpi_share());
        let name = name_of(by, &key.first, naming);
        words.push_str(&format!(", {share} % of it by {name} ({images} % images)"));
    }
    if let Some(checkpoint) = spike.checkpoint {
        words.push_str(&format!("; the last checkpoint began at {}", time_words(checkpoint)));
    }
    words
}
