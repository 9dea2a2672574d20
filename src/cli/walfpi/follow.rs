//! `pg_walfpi stats --follow`: a line per checkpoint interval or period of time, as the server writes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::PROGRAM;
use super::args::{CommonArgs, length_of_time, path_texts};
use super::stats::totals_of_stats;
use crate::analysis::skipped::Coverage;
use crate::analysis::wal::interval_rows::IntervalRow;
use crate::analysis::wal::tally::Tally;
use crate::cli::context::Format;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{JobsArg, interrupt_flag};
use crate::inspect::wal::follow::{FollowBy, FollowRequest, FollowedLine, FollowedRow, Oddity, WalFollow};
use crate::inspect::wal::request::WalRequest;
use crate::output::closing::{Closing, begin};
use crate::output::json::wal::stats_columns;
use crate::output::json::{FindingJson, Item, SkippedJson};
use crate::output::sink::{CsvShape, Machine, Sink};
use crate::output::text::{Layout, MAX_NOTES, write_finding, write_further, write_skipped};
use crate::output::wal_columns::interval_row;
use crate::output::wal_text::{IntervalLines, write_interval_lines};
use crate::output::wal_times::{BucketLines, bucket_columns, bucket_row, write_bucket_lines};
use crate::report::{Finding, Severity};

/// How often a flag is checked while idle.
const NAP: Duration = Duration::from_millis(50);

/// WAL of a running server.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FollowArgs {
    /// Continue as a server writes: a line as each interval ends
    ///
    /// PATH is the data directory, its pg_wal, or an archive that grows. A line is a checkpoint interval, or with --by time a
    /// period of --bucket; the last line is what has not ended yet, as far as it was read, then come the totals. Periods
    /// without a record have no line. Ctrl-C and SIGTERM end it as --for does, with the exit status of what was read.
    ///
    /// A record that is being written and a file that is still arriving are not damage: a fault is reported when it has
    /// remained for --patience. When the server removed a segment before it was read, the missing bytes are reported
    /// (removed_before_read), and the lines next to the gap say "at least". Reading ends at damage.
    #[arg(long, conflicts_with_all = ["top", "sort", "resync", "end", "until", "names", "relation"])]
    pub follow: bool,
    /// With --follow: end after this time, such as 30s or 1h
    #[arg(long = "for", value_name = "LENGTH", requires = "follow", value_parser = length_of_time, hide_short_help = true)]
    lasts: Option<i64>,
    /// With --follow: how long to wait before WAL is read again
    #[arg(long, value_name = "LENGTH", requires = "follow", default_value = "1s", value_parser = length_of_time, hide_short_help = true)]
    poll: i64,
    /// With --follow: report a fault when it has remained this long
    #[arg(long, value_name = "LENGTH", requires = "follow", default_value = "10s", value_parser = length_of_time, hide_short_help = true)]
    patience: i64,
}

fn length(us: i64) -> Duration {
    Duration::from_micros(us.unsigned_abs())
}

/// Refuses what cannot be followed.
fn check(common: &CommonArgs, request: &WalRequest) -> Result<(), UsageError> {
    if common.output.format == Format::Prometheus {
        return Err(UsageError::FollowedForPrometheus);
    }
    if request.span.last != request.span.first {
        return Err(UsageError::FollowedToSegment);
    }
    for path in &request.paths {
        if path.as_os_str() == "-" {
            return Err(UsageError::FollowedOnce("standard input".to_owned()));
        }
        if fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
            return Err(UsageError::FollowedOnce(path.display().to_string()));
        }
    }
    Ok(())
}

pub(super) fn run_follow(
    common: &CommonArgs,
    jobs: JobsArg,
    (args, by): (FollowArgs, FollowBy),
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let mut wal = common.request(jobs)?;
    check(common, &wal)?;
    // A segment that is named alone is where it begins.
    wal.span.last = None;
    let paths = path_texts(&wal);
    let flag = interrupt_flag();
    let until = args.lasts.map(|us| Instant::now() + length(us));
    let is_over = || flag.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
    let mut follow = WalFollow::new(FollowRequest { wal, by, patience: length(args.patience) });
    let mut round = follow.round(&is_over)?;
    let (plural, mut columns) = match by {
        FollowBy::Checkpoint => ("intervals", stats_columns(None)),
        FollowBy::Time { .. } => ("buckets", bucket_columns()),
    };
    columns.push(CERTAINTY);
    let shape = CsvShape::Rows { plural, columns: &columns };
    let to = match common.output.machine() {
        Some(format) => To::Machine(begin(format, shape, out, (PROGRAM, "stats"), paths)?, format),
        None => To::Text(out, common.output.layout()),
    };
    let mut printer = Printer {
        to,
        by,
        shown: 0,
        checkpoints: 0,
        problems: 0,
        skipped: 0,
        notes: BTreeMap::new(),
        later: Vec::new(),
    };
    printer.heading()?;
    loop {
        printer.print(&round.lines, round.told)?;
        if round.is_last || is_over() {
            break;
        }
        let wake = Instant::now() + length(args.poll);
        while Instant::now() < wake && !is_over() {
            std::thread::sleep(NAP.min(length(args.poll)));
        }
        round = follow.round(&is_over)?;
    }
    let followed = follow.finish();
    printer.print(&followed.lines, Vec::new())?;
    let counts = &followed.counts;
    let (findings, coverage) = printer.last(followed.told, counts.total.records);
    let closing = Closing::new(findings, &coverage).after((printer.problems, printer.skipped));
    let shown = printer.shown;
    let answer = match printer.to {
        To::Machine(sink, _) => {
            let totals = followed.source.map(|origin| totals_of_stats(counts, &origin));
            closing.end(sink, shown, totals.unwrap_or_default())?
        }
        To::Text(out, layout) => {
            write_total(out, layout, by, (&counts.total, counts.wal_bytes, printer.checkpoints))?;
            match counts.from.zip(counts.to) {
                Some((from, to)) => writeln!(out, "\nWAL from {from} to {to}")?,
                None => writeln!(out, "\nno records in this range")?,
            }
            for (kind, count) in &printer.notes {
                if let Some(rest) = count.checked_sub(MAX_NOTES).filter(|rest| *rest > 0) {
                    write_further(out, layout, kind, rest)?;
                }
            }
            closing.end_text(out, layout)?
        }
    };
    Ok(answer.into())
}

/// The column with the confidence of a line.
const CERTAINTY: &str = "certainty";

/// Where lines go.
enum To<'a> {
    Machine(Sink<'a>, Machine),
    Text(&'a mut dyn Write, Layout),
}

/// Prints lines and findings as they come.
struct Printer<'a> {
    to: To<'a>,
    by: FollowBy,
    shown: u64,
    checkpoints: u64,
    /// Printed already.
    problems: usize,
    skipped: usize,
    /// Notes by kind: text lists few of each.
    notes: BTreeMap<String, usize>,
    /// Not printed before the end: in a JSON document rows must follow each other, and CSV has only them.
    later: Vec<Oddity>,
}

impl Printer<'_> {
    fn heading(&mut self) -> io::Result<()> {
        let To::Text(out, layout) = &mut self.to else { return Ok(()) };
        match self.by {
            FollowBy::Checkpoint => write_interval_lines(*out, *layout, IntervalLines::Heading),
            FollowBy::Time { bucket_us } => write_bucket_lines(*out, bucket_us, BucketLines::Heading),
        }
    }

    /// Prints what a round gave, at once.
    fn print(&mut self, lines: &[FollowedLine], told: Vec<Oddity>) -> io::Result<()> {
        if lines.is_empty() && told.is_empty() && self.shown > 0 {
            return Ok(());
        }
        for line in lines {
            self.line(line)?;
        }
        for oddity in told {
            self.oddity(oddity)?;
        }
        match &mut self.to {
            To::Machine(sink, _) => sink.flush(),
            To::Text(out, _) => out.flush(),
        }
    }

    fn line(&mut self, line: &FollowedLine) -> io::Result<()> {
        let FollowedLine { row, certainty, is_over } = line;
        self.shown += 1;
        if let FollowedRow::Bucket(bucket) = row {
            self.checkpoints += bucket.checkpoints;
        }
        let bucket_us = if let FollowBy::Time { bucket_us } = self.by { bucket_us } else { 1 };
        match (&mut self.to, row) {
            (To::Machine(sink, _), row) => {
                let mut cells = match row {
                    FollowedRow::Interval(interval) => interval_row(interval),
                    FollowedRow::Bucket(bucket) => bucket_row(bucket, bucket_us),
                };
                cells.insert(CERTAINTY.to_owned(), json!(certainty.code()));
                sink.item(&match row {
                    FollowedRow::Interval(_) => Item::Interval(cells),
                    FollowedRow::Bucket(_) => Item::Bucket(cells),
                })
            }
            (To::Text(out, layout), FollowedRow::Interval(interval)) => write_interval_lines(
                *out,
                *layout,
                IntervalLines::Row(&IntervalRow::from(&**interval), *certainty, *is_over),
            ),
            (To::Text(out, _), FollowedRow::Bucket(bucket)) => {
                write_bucket_lines(*out, bucket_us, BucketLines::Row(bucket, *certainty, *is_over))
            }
        }
    }

    fn oddity(&mut self, oddity: Oddity) -> io::Result<()> {
        if let To::Machine(_, Machine::Json | Machine::Csv) = self.to {
            self.later.push(oddity);
            return Ok(());
        }
        match oddity {
            Oddity::Finding(finding) => {
                self.problems += usize::from(finding.severity == Severity::Problem);
                let finding = FindingJson::from(&finding);
                match &mut self.to {
                    To::Machine(sink, _) => sink.item(&Item::Finding(finding)),
                    To::Text(out, layout) => {
                        if finding.severity != "problem" {
                            let count = self.notes.entry(finding.kind.to_string()).or_default();
                            *count += 1;
                            if *count > MAX_NOTES {
                                return Ok(());
                            }
                        }
                        write_finding(*out, *layout, &finding, true)
                    }
                }
            }
            Oddity::Skipped(skipped) => {
                self.skipped += 1;
                let skipped = SkippedJson::from(&skipped);
                match &mut self.to {
                    To::Machine(sink, _) => sink.item(&Item::Skipped(skipped)),
                    To::Text(out, layout) => write_skipped(*out, *layout, &skipped),
                }
            }
        }
    }

    /// What is still to be printed at the end.
    fn last(&mut self, told: Vec<Oddity>, examined: u64) -> (Vec<Finding>, Coverage) {
        let (mut findings, mut coverage) = (Vec::new(), Coverage { examined, ..Coverage::default() });
        for oddity in std::mem::take(&mut self.later).into_iter().chain(told) {
            match oddity {
                Oddity::Finding(finding) => findings.push(finding),
                Oddity::Skipped(skipped) => coverage.skipped.push(skipped),
            }
        }
        (findings, coverage)
    }
}

fn write_total(
    out: &mut dyn Write,
    layout: Layout,
    by: FollowBy,
    (total, wal_bytes, checkpoints): (&Tally, u64, u64),
) -> io::Result<()> {
    match by {
        FollowBy::Checkpoint => write_interval_lines(out, layout, IntervalLines::Total(total, wal_bytes)),
        FollowBy::Time { bucket_us } => write_bucket_lines(out, bucket_us, BucketLines::Total(total, checkpoints)),
    }
}
