//! WAL by time: rows of buckets, and of seconds after redo points.

use std::io::{self, Write};

use serde_json::json;

use super::figures::{duration, megabytes, percent, rate, size};
use super::json::time_words;
use super::json::wal::Row;
use super::table::{plain_table, right_align, write_table};
use super::wal_columns::{COUNTS, put_tally, rounded};
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceRedo};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::time_buckets::Bucket;
use crate::parsers::wal::payload::PgTimestamp;

/// Most rows of a table in which buckets without records are shown too.
const MAX_ROWS_WITH_EMPTY: u64 = 60;

/// Columns of a bucket in CSV, in order.
#[must_use]
pub fn bucket_columns() -> Vec<&'static str> {
    let own = ["start_time", "bucket_s", "checkpoints", "mb_per_s", "images_per_s"];
    own.into_iter().chain(COUNTS.iter().map(|column| column.field)).collect()
}

/// Columns of a span of seconds after redo points in CSV, in order.
pub const SINCE_COLUMNS: &[&str] =
    &["from_s", "to_s", "fpi_count", "fpi_bytes", "combined_bytes", "observed_s", "images_per_s", "resolution_s"];

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// A bucket as a row.
#[must_use]
pub fn bucket_row(bucket: &Bucket, bucket_us: i64) -> Row {
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

/// Writes buckets and their total. Those without records are shown where that needs few rows, else counted.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_buckets(out: &mut dyn Write, buckets: &[Bucket], bucket_us: i64, total: &Tally) -> io::Result<()> {
    let heading = ["begins (UTC)", "records", "images", "stored", "bytes", "MB/s", "img/s", "share", "checkpoints"];
    let mut table = plain_table(&heading);
    let lasts = seconds(bucket_us);
    let cells = |begins: String, tally: &Tally, rates: [String; 2], checkpoints: u64| {
        let [bytes, images] = rates;
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
    };
    let times = || buckets.iter().filter_map(|bucket| bucket.start);
    let span =
        times().next().zip(times().next_back()).map_or(0, |(first, last)| last.us_since(first) / bucket_us.max(1) + 1);
    let empty = u64::try_from(span).unwrap_or(0).saturating_sub(times().count() as u64);
    let show_empty = span.unsigned_abs() <= MAX_ROWS_WITH_EMPTY;
    let mut next: Option<PgTimestamp> = None;
    for bucket in buckets {
        if let (true, Some(mut at), Some(start)) = (show_empty, next, bucket.start) {
            while at < start {
                table.add_row(cells(short_time(at), &Tally::default(), [rate(0.0), rate(0.0)], 0));
                at = PgTimestamp(at.0.saturating_add(bucket_us.max(1)));
            }
        }
        next = bucket.start.map(|start| PgTimestamp(start.0.saturating_add(bucket_us)));
        let rates = match bucket.start {
            Some(_) => [
                rate(megabytes(bucket.tally.combined_bytes() as f64) / lasts),
                rate(bucket.tally.fpi_count as f64 / lasts),
            ],
            None => ["-".to_owned(), "-".to_owned()],
        };
        let begins = bucket.start.map_or_else(|| "unknown".to_owned(), short_time);
        table.add_row(cells(begins, &bucket.tally, rates, bucket.checkpoints));
    }
    let checkpoints = buckets.iter().map(|bucket| bucket.checkpoints).sum();
    table.add_row(cells("total".to_owned(), total, [String::new(), String::new()], checkpoints));
    right_align(&mut table, 1..heading.len());
    write_table(out, &table)?;
    if empty > 0 && !show_empty {
        writeln!(out, "\n{empty} further periods of {} without a record", duration(lasts))?;
    }
    Ok(())
}

/// A time without its zone.
fn short_time(time: PgTimestamp) -> String {
    time_words(time).replace('T', " ").trim_end_matches('Z').to_owned()
}

/// Seconds after redo points as rows.
#[must_use]
pub fn since_rows(since: &SinceRedo) -> Vec<Row> {
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
///
/// # Errors
/// When the output cannot be written to.
pub fn write_since(out: &mut dyn Write, since: &SinceRedo) -> io::Result<()> {
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
    right_align(&mut table, 1..heading.len());
    write_table(out, &table)?;
    writeln!(
        out,
        "\n{} checkpoint intervals; {} left out, whose redo point or times are not known",
        since.intervals, since.left_out
    )
}
