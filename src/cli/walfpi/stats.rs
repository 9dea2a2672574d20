//! `pg_walfpi stats`: how much of the WAL is images, by checkpoint or by anything else.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::count::{Counted, count, count_causes};
use super::names::Names;
use super::source::{CommonArgs, WalSource};
use crate::analysis::wal::group::{GroupBy, Groups, Key};
use crate::analysis::wal::tally::Tally;
use crate::cli::context::Closing;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg, interrupt_flag};
use crate::output::json::wal::{Naming, group_row, interval_row, put_tally, stats_columns};
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::wal_text::{write_groups, write_intervals};

/// Show how much of the WAL is full-page images, and of what
///
/// By default one row per checkpoint interval, from redo point to redo point. Byte counts are those of pg_waldump
/// --stats: record bytes without images, image bytes as stored, both without page headers and padding; raw bytes are
/// the pages behind the images, before hole removal and compression.
///
/// By relation, fork, block, database and tablespace the bytes of a block's data go to its block and the rest of the
/// record to its first block. There a record counts in each group that it touches: bytes add up to the total, records to
/// more. By cause, "repeated" looks back to the redo point or to --start, whichever is later.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct StatsArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What rows stand for
    #[arg(long, value_enum, default_value_t = By::Checkpoint, value_name = "WHAT")]
    by: By,
    /// Show only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Order of rows [default: by key; for relation and block by image bytes]
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Checkpoint intervals, from redo point to redo point
    Checkpoint,
    /// Resource managers, as pg_waldump --stats
    Rmgr,
    /// Record types, as pg_waldump --stats=record
    Record,
    /// Relations
    Relation,
    /// Forks
    Fork,
    /// Blocks
    Block,
    /// Why images were written
    Cause,
    /// Segment files
    Segment,
    /// How images are compressed
    Compression,
    /// Databases
    Database,
    /// Tablespaces
    Tablespace,
}

impl By {
    const fn group(self) -> Option<GroupBy> {
        Some(match self {
            Self::Checkpoint => return None,
            Self::Rmgr => GroupBy::Rmgr,
            Self::Record => GroupBy::Record,
            Self::Relation => GroupBy::Relation,
            Self::Fork => GroupBy::Fork,
            Self::Block => GroupBy::Block,
            Self::Cause => GroupBy::Cause,
            Self::Segment => GroupBy::Segment,
            Self::Compression => GroupBy::Compression,
            Self::Database => GroupBy::Database,
            Self::Tablespace => GroupBy::Tablespace,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The group itself, or the place in WAL
    Key,
    Records,
    RecordBytes,
    FpiCount,
    FpiBytes,
    FpiRawBytes,
    CombinedBytes,
    FpiShare,
}

impl Sort {
    /// Orders rows, largest first.
    fn order<T>(self, rows: &mut [T], tally: impl Fn(&T) -> Tally) {
        let number = |row: &T| {
            let tally = tally(row);
            match self {
                Self::Key => 0,
                Self::Records => tally.records,
                Self::RecordBytes => tally.record_bytes,
                Self::FpiCount => tally.fpi_count,
                Self::FpiBytes => tally.fpi_bytes,
                Self::FpiRawBytes => tally.fpi_raw_bytes,
                Self::CombinedBytes => tally.combined_bytes(),
                Self::FpiShare => (tally.fpi_share() * 1e9) as u64,
            }
        };
        rows.sort_by_key(|row| std::cmp::Reverse(number(row)));
    }
}

pub(super) fn run(args: &StatsArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let names = Names::open(&args.common.names)?;
    let mut source = WalSource::open(&args.common.source)?.telling(args.progress);
    source.add_name_notes(&names);
    let jobs = args.jobs.count();
    let group = args.by.group();
    let plan = source.plan();
    let counted = match group {
        Some(GroupBy::Cause) => count_causes(&mut source, plan, jobs, &interrupt_flag()),
        _ => count(&mut source, plan, group, jobs, &interrupt_flag()),
    };
    show(args, source, counted, &names, out)
}

fn show(
    args: &StatsArgs,
    mut source: WalSource,
    mut counted: Counted,
    names: &Names,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    source.coverage.examined = counted.total.records;
    source.note_empty_range();
    let group = args.by.group();
    let mut rows: Vec<(Key, Tally)> = counted.groups.as_ref().map(Groups::rows).unwrap_or_default();
    let default = match group {
        Some(GroupBy::Relation | GroupBy::Block) => Sort::FpiBytes,
        _ => Sort::Key,
    };
    let sort = args.sort.unwrap_or(default);
    if sort != Sort::Key {
        sort.order(&mut rows, |(_, tally)| *tally);
        sort.order(&mut counted.intervals, |interval| interval.tally);
    }
    rows.truncate(args.top.unwrap_or(usize::MAX));
    counted.intervals.truncate(args.top.unwrap_or(usize::MAX));
    let relation = |rel| names.relation(rel);
    let database = |oid| names.database(oid);
    let geometry = source.set.geometry();
    let naming = Naming {
        major: source.set.major(),
        segment_size: geometry.wal_segment_size,
        relation: &relation,
        database: &database,
    };
    let closing = Closing::new(std::mem::take(&mut source.findings), &source.coverage);
    if let Some(format) = args.common.output.machine() {
        let shape = CsvShape::Rows { plural: "rows", columns: stats_columns(group) };
        let mut sink = source.begin(format, shape, out, "stats")?;
        let mut shown = 0;
        for (key, tally) in &rows {
            sink.item(&Item::Row(group_row(key, tally, &naming)))?;
            shown += 1;
        }
        for interval in counted.intervals.iter().filter(|_| group.is_none()) {
            sink.item(&Item::Row(interval_row(interval)))?;
            shown += 1;
        }
        return closing.end(sink, shown, totals(&source, &counted));
    }
    let layout = args.common.output.layout();
    match group {
        None => write_intervals(out, layout, &counted.intervals, &counted.total)?,
        Some(by) => write_groups(out, layout, by, &rows, &counted.total, &naming)?,
    }
    if let Some((from, to)) = counted.from.zip(counted.to) {
        let major = source.set.major().map_or_else(String::new, |major| format!("major {}, ", major.number()));
        writeln!(out, "\nWAL from {from} to {to}\n{major}system identifier {}", system(&source))?;
    } else {
        writeln!(out, "\nno records in this range")?;
    }
    closing.end_text(out, layout)
}

fn system(source: &WalSource) -> String {
    source.set.system_identifier().map_or_else(|| "unknown".to_owned(), |id| id.to_string())
}

fn totals(source: &WalSource, counted: &Counted) -> Map<String, Value> {
    let mut counts = Map::new();
    put_tally(&mut counts, &counted.total);
    for (name, value) in [
        ("start_lsn", json!(counted.from.map(lsn_text))),
        ("end_lsn", json!(counted.to.map(lsn_text))),
        ("major", json!(source.set.major().map(crate::parsers::wal::version::Major::number))),
        ("system_identifier", json!(system(source))),
        ("wal_segment_size", json!(source.set.geometry().wal_segment_size)),
    ] {
        counts.insert(name.to_owned(), value);
    }
    counts
}
