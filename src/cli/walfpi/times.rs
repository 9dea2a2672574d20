//! `pg_walfpi stats --by time` and `--by since-redo`.

use std::io::Write;

use super::PROGRAM;
use super::args::{CommonArgs, path_texts};
use super::stats::{ShownRows, Sort, totals_of_stats};
use crate::analysis::wal::bucket_rows::BucketRows;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::relation_name::RelationChoice;
use crate::inspect::wal::stats::{WalCounts, WalStatsRequest, wal_stats};
use crate::inspect::wal::times::{WalTimesRequest, wal_times};
use crate::output::closing::{Closing, begin};
use crate::output::json::Item;
use crate::output::sink::CsvShape;
use crate::output::wal_times::{SINCE_COLUMNS, bucket_columns, bucket_row, since_rows, write_buckets, write_since};

/// Counts by periods of `bucket_us`.
pub(super) fn run_times(
    common: &CommonArgs,
    (jobs, progress): (JobsArg, ProgressArg),
    (bucket_us, resynchronise): (i64, bool),
    relations: &[RelationChoice],
    ShownRows { sort, top, max_rows }: ShownRows,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let request =
        WalTimesRequest { wal: common.request(jobs)?, bucket_us, resynchronise, relations: relations.to_vec() };
    let bar = ByteBar::new(progress);
    let mut times = wal_times(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let sort = sort.filter(|sort| *sort != Sort::Key);
    if let Some(sort) = sort {
        sort.order(&mut times.buckets, |bucket| bucket.tally);
    }
    times.buckets.truncate(top.unwrap_or(usize::MAX));
    let closing = Closing::new(times.wal.findings, &times.wal.coverage);
    if let Some(format) = common.output.machine() {
        let columns = bucket_columns();
        let shape = CsvShape::Rows { plural: "buckets", columns: &columns };
        let mut sink = begin(format, shape, out, (PROGRAM, "stats"), path_texts(&request.wal))?;
        for bucket in &times.buckets {
            sink.item(&Item::Bucket(bucket_row(bucket, times.bucket_us)))?;
        }
        let (total, wal_bytes, from, to) = (times.total, times.wal_bytes, times.from, times.to);
        let damaged_bytes = times.damaged_bytes;
        let counts = WalCounts { total, wal_bytes, from, to, damaged_bytes, ..WalCounts::default() };
        let totals = totals_of_stats(&counts, &times.wal.origin);
        return Ok(closing.end(sink, times.buckets.len() as u64, totals)?.into());
    }
    let rows = match sort {
        Some(_) => BucketRows::each(&times.buckets),
        None => BucketRows::by_time(&times.buckets, times.bucket_us, max_rows),
    };
    let layout = common.output.layout();
    write_buckets(out, layout, &rows, times.bucket_us, &times.total)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// Counts by seconds after redo points.
pub(super) fn run_since_redo(
    common: &CommonArgs,
    (jobs, progress): (JobsArg, ProgressArg),
    (resynchronise, relations): (bool, &[RelationChoice]),
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let request =
        WalStatsRequest { wal: common.request(jobs)?, group: None, resynchronise, relations: relations.to_vec() };
    let bar = ByteBar::new(progress);
    let stats = wal_stats(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(stats.wal.findings, &stats.wal.coverage);
    if let Some(format) = common.output.machine() {
        let shape = CsvShape::Rows { plural: "since_redo", columns: SINCE_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "stats"), path_texts(&request.wal))?;
        let rows = since_rows(&stats.counts.since_redo);
        let shown = rows.len() as u64;
        for row in rows {
            sink.item(&Item::SinceRedo(row))?;
        }
        let totals = totals_of_stats(&stats.counts, &stats.wal.origin);
        return Ok(closing.end(sink, shown, totals)?.into());
    }
    let layout = common.output.layout();
    write_since(out, layout, &stats.counts.since_redo)?;
    Ok(closing.end_text(out, layout)?.into())
}
