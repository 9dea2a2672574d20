//! `pg_walfpi stats`: how much of the WAL is images, by checkpoint or by anything else.

use std::io::Write;
use std::ops::ControlFlow;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::images::redo_points;
use super::names::Names;
use super::source::{CommonArgs, Source, note_interruption};
use crate::output::wal_text::{write_groups, write_intervals};
use crate::analysis::finding::Finding;
use crate::analysis::wal::cause::CauseTeller;
use crate::analysis::wal::collect::{collect_run, end_of_part};
use crate::analysis::wal::group::{GroupBy, Groups, Key};
use crate::analysis::wal::interval::{Interval, IntervalFold};
use crate::analysis::wal::partial::{ScanPlan, scan_segment};
use crate::analysis::wal::tally::Tally;
use crate::cli::context::Closing;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{JobsArg, interrupt_flag};
use crate::output::json::wal::{Naming, group_row, interval_row, put_tally, stats_columns};
use crate::output::json::{Item, lsn_text};
use crate::output::progress::Progress;
use crate::output::sink::CsvShape;
use crate::types::Lsn;

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

/// What was counted.
#[derive(Default)]
struct Counted {
    total: Tally,
    groups: Option<Groups>,
    intervals: Vec<Interval>,
    from: Option<Lsn>,
    to: Option<Lsn>,
}

impl Counted {
    fn reach(&mut self, from: Option<Lsn>, to: Option<Lsn>) {
        self.from = self.from.or(from);
        self.to = to.or(self.to);
    }
}

pub(super) fn run(args: &StatsArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let names = Names::open(&args.common.names)?;
    let mut source = Source::open(&args.common.source)?;
    source.add_name_notes(&names);
    let jobs = args.jobs.count();
    let group = args.by.group();
    let counted = match group {
        Some(GroupBy::Cause) => count_causes(&mut source, args, jobs),
        _ => count(&mut source, args, group, jobs),
    };
    show(args, source, counted, &names, out)
}

/// Counts with several threads.
fn count(source: &mut Source, args: &StatsArgs, group: Option<GroupBy>, jobs: usize) -> Counted {
    let plan = ScanPlan { group, blocks: group.is_none(), ..Source::plan(&args.common.source) };
    let interrupted = interrupt_flag();
    let progress = Progress::bytes(source.total_bytes());
    let mut counted = Counted::default();
    let mut fold = IntervalFold::new();
    let mut undecoded = Vec::new();
    for run in source.set.runs() {
        let set = &source.set;
        let end = collect_run(set, &run, &plan, jobs, &interrupted, |part| {
            progress.advance(part.bytes_read);
            counted.total.add(&part.total());
            counted.reach(part.counted_from, part.counted_to);
            undecoded.extend(part.undecoded.take());
            if let Some(groups) = part.groups.take() {
                match &mut counted.groups {
                    Some(all) => all.merge(&groups),
                    all => *all = Some(groups),
                }
            }
            if group.is_some() {
                return Ok(());
            }
            fold.push(part, end_of_part(part), &mut |segments, cuts| {
                let mut slices = Vec::new();
                for index in segments {
                    slices.extend(scan_segment(set, &run, index, index, &plan, cuts)?.slices);
                }
                Ok(slices)
            })
        });
        fold.end_run();
        if end.interrupted {
            note_interruption(&mut source.coverage);
            break;
        }
        let ended = end.end.filter(|_| !end.reached_end);
        source.judge_end(&run, ended.as_ref(), end.error);
        if end.reached_end {
            break;
        }
    }
    for error in undecoded {
        let why = "its checksum is right, but it is no record of its type: a checkpoint may be missing from the rows";
        source.findings.push(Finding::problem("payload", error.to_string(), why));
    }
    counted.intervals = fold.finish();
    counted
}

/// Counts by cause: redo points first, then every record in order.
fn count_causes(source: &mut Source, args: &StatsArgs, jobs: usize) -> Counted {
    let plan = Source::plan(&args.common.source);
    let geometry = source.set.geometry();
    let interrupted = interrupt_flag();
    let mut teller = CauseTeller::new(redo_points(&source.set, &plan, jobs, &interrupted), geometry.block_size);
    let mut counted = Counted::default();
    let mut groups = Groups::new(GroupBy::Cause, geometry.wal_segment_size);
    let mut causes = Vec::new();
    source.each_record(&plan, false, &interrupted, |_, record| {
        teller.causes(record, &mut causes);
        groups.add_cause(record, &causes);
        counted.total.add_record(record);
        counted.reach(Some(record.start_lsn), Some(record.end_lsn));
        ControlFlow::Continue(())
    });
    counted.groups = Some(groups);
    counted
}

fn show(
    args: &StatsArgs,
    mut source: Source,
    mut counted: Counted,
    names: &Names,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    source.coverage.examined = counted.total.records;
    source.note_empty_range(&args.common.source);
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

fn system(source: &Source) -> String {
    source.set.system_identifier().map_or_else(|| "unknown".to_owned(), |id| id.to_string())
}

fn totals(source: &Source, counted: &Counted) -> Map<String, Value> {
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
