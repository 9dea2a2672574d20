//! `pg_walfpi stats --by time` and `--by since-redo`.

use std::io::Write;

use serde_json::json;

use super::PROGRAM;
use super::args::{CommonArgs, path_texts};
use super::stats::{ShownRows, Sort, totals_of_stats};
use crate::analysis::wal::group::GroupRow;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::interval_rows::BucketRows;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::page_target::RelationChoice;
use crate::inspect::wal::source::ReadWal;
use crate::inspect::wal::stats::{WalStatsRequest, wal_stats};
use crate::inspect::wal::times::{WalTimeGroups, WalTimesRequest, wal_time_groups, wal_times};
use crate::output::closing::{Closing, begin};
use crate::output::json::wal::{Naming, group_row, stats_columns};
use crate::output::json::{Item, time_words};
use crate::output::sink::CsvShape;
use crate::output::wal_times::{
    SINCE_COLUMNS, bucket_columns, bucket_row, since_rows, write_buckets, write_since, write_time_groups,
};

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
        let totals = totals_of_stats(&times.counts, &times.wal.origin);
        return Ok(closing.end(sink, times.buckets.len() as u64, totals)?.into());
    }
    let rows = match sort {
        Some(_) => BucketRows::each(&times.buckets),
        None => BucketRows::by_time(&times.buckets, times.bucket_us, max_rows),
    };
    let layout = common.output.layout();
    write_buckets(out, layout, &rows, times.bucket_us, &times.counts.total)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// Counts by periods of `bucket_us` and by group.
pub(super) fn run_time_groups(
    common: &CommonArgs,
    (jobs, progress): (JobsArg, ProgressArg),
    (bucket_us, resynchronise): (i64, bool),
    (by, relations): (GroupBy, &[RelationChoice]),
    top: Option<usize>,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let request =
        WalTimesRequest { wal: common.request(jobs)?, bucket_us, resynchronise, relations: relations.to_vec() };
    let bar = ByteBar::new(progress);
    let found = wal_time_groups(&request, by.into(), &|done, total| bar.at(done, total))?;
    drop(bar);
    let WalTimeGroups { rows, spikes, counts, wal } = found;
    let ReadWal { origin, names, findings, coverage } = wal;
    let naming = Naming::new(&origin, names.known());
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = common.output.machine() {
        let columns: Vec<&str> = ["start_time", "bucket_s"].into_iter().chain(stats_columns(Some(by.into()))).collect();
        let shape = CsvShape::Rows { plural: "groups", columns: &columns };
        let mut sink = begin(format, shape, out, (PROGRAM, "stats"), path_texts(&request.wal))?;
        let mut shown = 0;
        for period in &rows {
            for (key, tally) in period.rows.iter().take(top.unwrap_or(usize::MAX)) {
                let group = GroupRow { key: *key, tally: *tally, figures: None };
                let mut row = group_row(by.into(), &group, &naming);
                row.insert("start_time".to_owned(), json!(period.start.map(time_words)));
                row.insert("bucket_s".to_owned(), json!(bucket_us as f64 / 1e6));
                sink.item(&Item::Group(row))?;
                shown += 1;
            }
        }
        return Ok(closing.end(sink, shown, totals_of_stats(&counts, &origin))?.into());
    }
    let layout = common.output.layout();
    write_time_groups(out, layout, (&rows, &spikes), (by, top), &naming)?;
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
