//! Arguments that say which WAL is read and what its relations are called.
//! Also here: values of options: settings written as in `postgresql.conf`, and sizes of samples; times and lengths of
//! time on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, ToSpan, Unit};

use crate::analysis::plan::whatif::compression::{MAX_SAMPLE, SampleSize};
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::pgdata_of_environment;
use crate::cli::usage::UsageError;
use crate::cli::work::JobsArg;
use crate::inspect::wal::request::{SegmentSpan, TimeBound, WalRequest, is_segment_name};
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::{Lsn, TimelineId};

/// Which WAL is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Data directory, pg_wal or archive directory, segments, tar archives, a pattern in quotes, or "-"; with -p or -D:
    /// first and last segment, as for pg_waldump [default: $PGDATA]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Directory with the segments; PATH may be the first and the last
    #[arg(short = 'p', long = "path", value_name = "PATH")]
    path: Option<PathBuf>,
    /// Data directory to read, instead of -p
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", conflicts_with = "path")]
    pgdata: Option<PathBuf>,
    /// Count no record that starts before this LSN
    #[arg(short = 's', long, value_name = "LSN", help_heading = "Range")]
    start: Option<Lsn>,
    /// Count no record that ends after this LSN
    #[arg(short = 'e', long, value_name = "LSN", help_heading = "Range")]
    end: Option<Lsn>,
    /// Count nothing written before this time
    ///
    /// 2026-11-21, "2026-11-21 14:00" (both in UTC), 2026-11-21T14:00:00+02:00, or 2h: so long before the last time in
    /// this WAL. Commits, aborts and checkpoints have a time; the records between them count at the time before them.
    /// Records before the first time are left out, and a note shows their bytes.
    #[arg(long, value_name = "TIME", help_heading = "Range", value_parser = time_bound)]
    since: Option<TimeBound>,
    /// Count nothing written at this time or later
    #[arg(long, value_name = "TIME", help_heading = "Range", value_parser = time_bound)]
    until: Option<TimeBound>,
    /// Follow this timeline [default: newest, or that of the first segment named]
    #[arg(short = 't', long, value_name = "TLI", help_heading = "Range", value_parser = clap::value_parser!(u32).range(1..))]
    timeline: Option<u32>,
}

impl SourceArgs {
    /// What is asked for, without names of relations.
    ///
    /// # Errors
    /// When no path is given, or `-p` with a path that is not a segment.
    pub fn request(&self, jobs: JobsArg) -> Result<WalRequest, UsageError> {
        let (paths, span) = self.named()?;
        Ok(WalRequest {
            paths,
            span,
            start: self.start,
            end: self.end,
            since: self.since,
            until: self.until,
            timeline: self.timeline.map(TimelineId),
            names: None,
            jobs: jobs.count(),
        })
    }

    /// What is read, and the segments that limit it.
    fn named(&self) -> Result<(Vec<PathBuf>, SegmentSpan), UsageError> {
        let Some(base) = self.path.as_ref().or(self.pgdata.as_ref()) else {
            if !self.paths.is_empty() {
                return Ok((self.paths.clone(), SegmentSpan::default()));
            }
            let data_dir = pgdata_of_environment().ok_or(UsageError::NoWal)?;
            return Ok((vec![data_dir], SegmentSpan::default()));
        };
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        if let Some(other) = names.iter().find(|name| !is_segment_name(name)) {
            return Err(UsageError::NotASegmentName(other.clone()));
        }
        let (first, last) = match &names[..] {
            [] => (None, None),
            [only] => (Some(only.clone()), Some(only.clone())),
            [first, last] => (Some(first.clone()), Some(last.clone())),
            _ => return Err(UsageError::ManySegments),
        };
        Ok((vec![base.clone()], SegmentSpan { first, last }))
    }
}

/// Names that replace numbers.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Show names of relations: from a stopped data directory, from a file (see --help), or from the WAL alone: wal
    ///
    /// A file is a JSON array of objects with spc_oid, db_oid, rel_number, database, schema and relation. `pg_walfpi
    /// names-query` prints the query that makes it: run it in each database and write all outputs one after the other. Names of
    /// another cluster than that of the WAL are refused.
    ///
    /// Relations without a name there, which were dropped or rewritten since, are looked up in rows of pg_class in the WAL,
    /// which is read again for that. "wal" takes all names from there. A question mark follows such a name: the row may
    /// never have been committed. A directory of that name is ./wal.
    #[arg(long, value_name = "DATADIR|FILE|wal")]
    pub names: Option<PathBuf>,
}

/// Arguments that every command takes.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl CommonArgs {
    /// What is asked for.
    ///
    /// # Errors
    /// When no path is given, or `-p` with a path that is not a segment.
    pub fn request(&self, jobs: JobsArg) -> Result<WalRequest, UsageError> {
        Ok(WalRequest { names: self.names.names.clone(), ..self.source.request(jobs)? })
    }
}

/// The paths that are read, for the beginning of an output.
pub(crate) fn path_texts(request: &WalRequest) -> Vec<String> {
    request.paths.iter().map(|path| path.display().to_string()).collect()
}

/// A size; without a unit it is in MB, as for `max_wal_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub u64);

/// A time in seconds; without a unit it is in seconds, as for `checkpoint_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub u32);

/// A number greater than 0 and its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    number.parse().ok().filter(|number| *number > 0).map(|number| (number, unit.trim_start()))
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = number_and_unit(text).and_then(|(number, unit)| {
            let shift = match unit {
                "kB" => 10,
                "" | "MB" => 20,
                "GB" => 30,
                "TB" => 40,
                _ => return None,
            };
            number.checked_mul(1 << shift)
        });
        size.map(Self).ok_or_else(|| "expected a size such as 512MB, 4GB or 1TB".to_owned())
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = number_and_unit(text).and_then(|(number, unit)| {
            let seconds: u64 = match unit {
                "" | "s" => 1,
                "min" => 60,
                "h" => 3600,
                "d" => 86_400,
                _ => return None,
            };
            number.checked_mul(seconds).and_then(|seconds| u32::try_from(seconds).ok())
        });
        seconds.map(Self).ok_or_else(|| "expected a time such as 30s, 15min or 1h".to_owned())
    }
}

/// How many images are compressed again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample(pub SampleSize);

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(SampleSize::All));
        }
        let number = text.parse().ok().filter(|number| (1..=MAX_SAMPLE).contains(number));
        number.map(|number| Self(SampleSize::UpTo(number))).ok_or_else(|| format!("expected 1 to {MAX_SAMPLE}, or all"))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SampleSize::All => f.pad("all"),
            SampleSize::UpTo(number) => number.fmt(f),
        }
    }
}

/// A time with an offset or `Z`, in UTC without both, at midnight for a date alone; or a length of time before the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_server_reads_them() {
        for (text, bytes) in [("64", 64 << 20), ("1GB", 1 << 30), ("1536 MB", 1536 << 20), ("2TB", 2 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for (text, seconds) in [("300", 300), ("30s", 30), ("5min", 300), ("1h", 3600), ("1d", 86_400)] {
            assert_eq!(text.parse(), Ok(Duration(seconds)), "{text}");
        }
        for text in ["", "0", "-1", "GB", "1gb", "1 XB", "99999999999TB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        for text in ["", "0s", "5m", "1ms", "99999999999h"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

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
