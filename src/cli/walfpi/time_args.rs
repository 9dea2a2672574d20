//! Times and lengths of time on the command line.

use std::io::Write;

use jiff::SpanRelativeTo;
use jiff::Timestamp;
use jiff::ToSpan;
use jiff::Unit;
use jiff::civil::Date;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::analysis::wal::bucket_rows::BucketRows;
use crate::cli::exit::Outcome;
use crate::cli::exit::Stop;
use crate::cli::walfpi::PROGRAM;
use crate::cli::walfpi::args::CommonArgs;
use crate::cli::walfpi::args::path_texts;
use crate::cli::walfpi::stats::ShownRows;
use crate::cli::walfpi::stats::Sort;
use crate::cli::walfpi::stats::totals_of_stats;
use crate::cli::work::ByteBar;
use crate::cli::work::JobsArg;
use crate::cli::work::ProgressArg;
use crate::inspect::relation_name::RelationChoice;
use crate::inspect::wal::request::TimeBound;
use crate::inspect::wal::stats::WalCounts;
use crate::inspect::wal::stats::WalStatsRequest;
use crate::inspect::wal::stats::wal_stats;
use crate::inspect::wal::times::WalTimesRequest;
use crate::inspect::wal::times::wal_times;
use crate::output::closing::Closing;
use crate::output::closing::begin;
use crate::output::json::Item;
use crate::output::sink::CsvShape;
use crate::output::wal_times::SINCE_COLUMNS;
use crate::output::wal_times::bucket_columns;
use crate::output::wal_times::bucket_row;
use crate::output::wal_times::since_rows;
use crate::output::wal_times::write_buckets;
use crate::output::wal_times::write_since;
use crate::parsers::wal::payload::PgTimestamp;

/// A time: with an offset or `Z`, without both in UTC, a date alone from its midnight on; or a length of time before the end.
pub(crate) fn time_bound(text: &str) -> Result<TimeBound, String> {
    let at = |time: Timestamp| TimeBound::At(PgTimestamp::from_unix_us(time.as_microsecond()));
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(at(time));
    }
    let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0)));
    if let Some(time) = civil.ok().and_then(|civil| civil.to_zoned(TimeZone::UTC).ok()) {
        return Ok(at(time.timestamp()));
    }
    length_of_time(text).map(|us| TimeBound::BeforeLast { us }).map_err(|_| {
        format!(
            "{text} is not a valid time: write it as 2026-11-21 14:00, 2026-11-21T14:00:00+02:00, or 2h before the end"
        )
    })
}

/// A length of time such as `30s`, `5m`, `1h30m` or `1d`, in microseconds.
pub(crate) fn length_of_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text} is not a valid length of time: write it as 30s, 5m, 1h30m or 1d");
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let day = SpanRelativeTo::days_are_24_hours();
    let us = span.total((Unit::Microsecond, day)).map_err(|_| wrong())?;
    let longest = 36_500.days().total((Unit::Microsecond, day)).map_err(|_| wrong())?;
    if (1000.0..=longest).contains(&us) { Ok(us as i64) } else { Err(wrong()) }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_unless_they_say_otherwise() {
        // 1,795,269,600 is 2026-11-21 14:00:00 UTC by date -d.
        let at = |seconds| Ok(TimeBound::At(PgTimestamp::from_unix_seconds(seconds)));
        for text in [
            "2026-11-21 14:00",
            "2026-11-21 14:00:00",
            "2026-11-21T14:00:00Z",
            "2026-11-21T16:00:00+02:00",
            "2026-11-21 16:00+02",
        ] {
            assert_eq!(time_bound(text), at(1_795_269_600), "{text}");
        }
        assert_eq!(time_bound("2026-11-21"), at(1_795_269_600 - 14 * 3600));
        assert_eq!(time_bound("2h"), Ok(TimeBound::BeforeLast { us: 7_200_000_000 }));
        for text in ["", "yesterday", "2026-13-01", "14:00", "2026-11-21 25:00"] {
            assert!(time_bound(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, seconds) in
            [("30s", 30), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1d", 86_400), ("90 min", 5400)]
        {
            assert_eq!(length_of_time(text), Ok(seconds * 1_000_000), "{text}");
        }
        for text in ["", "5", "0s", "-5m", "1 fortnight", "999999d", "1mo", "2y"] {
            assert!(length_of_time(text).is_err(), "{text}");
        }
    }
}
