//! `pg_walfpi stats`: how much of the WAL is images, by checkpoint or by anything else.
//! Also here: `pg_walfpi stats --by time` and `--by since-redo`.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::PROGRAM;
use super::args::{CommonArgs, length_of_time, path_texts};
use super::follow::{FollowArgs, run_follow};
use crate::analysis::wal::bill::BillPart;
use crate::analysis::wal::group::GroupRow;
use crate::analysis::wal::group_key::{GroupBy, Grouping};
use crate::analysis::wal::interval_rows::{BucketRows, IntervalRow};
use crate::analysis::wal::tally::Tally;
use crate::cli::context::{Format, OutputArgs, with_prometheus};
use crate::cli::exit::{Outcome, Stop, UsageError};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::cluster::wal::WalOrigin;
use crate::inspect::page_target::RelationChoice;
use crate::inspect::wal::follow::FollowBy;
use crate::inspect::wal::source::ReadWal;
use crate::inspect::wal::stats::{WalCounts, WalStats, WalStatsRequest, wal_stats};
use crate::inspect::wal::times::{WalTimeGroups, WalTimesRequest, wal_time_groups, wal_times};
use crate::output::advise_text::write_share;
use crate::output::closing::{Closing, begin};
use crate::output::json::wal::{Naming, Row, group_row, stats_columns};
use crate::output::json::{Item, lsn_text, time_words};
use crate::output::prometheus::{Metrics, Parts, write_metrics};
use crate::output::sink::CsvShape;
use crate::output::wal_columns::{interval_row, put_tally};
use crate::output::wal_text::{write_groups, write_intervals, write_rest};
use crate::output::wal_times::{
    SINCE_COLUMNS, bucket_columns, bucket_row, since_rows, write_buckets, write_since, write_time_groups,
};
use crate::parsers::wal::version::Major;

/// Show how much of the WAL is full-page images, and of what
///
/// By default there is one row per checkpoint interval, from redo point to redo point. Byte counts are those of
/// pg_waldump --stats: record bytes without images, image bytes as stored, both without page headers and padding. Raw
/// bytes are whole pages, before holes are removed and images compressed.
///
/// Columns of checkpoint intervals: WAL is the distance between two redo points, page headers and padding included, so it
/// is more than the bytes of the records; lasts is the time from one redo point to the next, according to commits
/// and checkpoints, and MB/s (of 1,048,576 bytes) and img/s are WAL and images in that time; stored is what the images
/// take up, share what part of the bytes of the records that is, in percent; blocks are the distinct blocks that records
/// refer to; decay is the share of images in eight equal parts of the interval, from left to right, each a bar from 0 to
/// 100 %. The parts last equally long, or have as many records each where times are not known or the interval is shorter
/// than a second (decay_by in JSON). The total is the sum of its column.
///
/// With --by relation, fork, block, database or tablespace, data of a block counts for that block, and the rest of a
/// record for its first block. A record counts once in each group that it touches, so bytes add up to the total and
/// records to more than that. With --by cause, "repeated" means since the redo point or since --start, whichever is
/// later; images that cannot be judged without the redo point before --start are unknown_before_start. hint_only says that
/// nothing else changed the page up to the next redo point, as far as there is WAL.
///
/// With --by time, a record counts at its own time (commits and aborts have one) or at the latest time before it. Rows are whole periods of
/// --bucket, in UTC; rates are those over the whole period, of the bytes of records. With --by since-redo, images are
/// counted by how long after the redo point they were written, over all intervals whose times are known. With --by
/// time,relation (or rmgr, record, database, tablespace, fork) each period has its largest groups, three or --top N, and
/// spikes are listed below: periods with more than three times the bytes of the middle one, and whose they are.
///
/// With two keys the finer one decides what counts where. With relation,cause an image counts for its relation and its
/// cause, all else that a record says of a block for the relation and no cause, and the rest of the record with its first
/// block. With checkpoint as a key, a record counts for the last redo point at or before it. With xid, subtransactions count
/// for the transaction above them where a record says which one that is.
///
/// With --format prometheus, the output is for the textfile collector of the node exporter: sums of the range read, and a
/// series for each group (--top bounds them), or by checkpoint the last whole interval.
///
/// By relation, wide screens, JSON and CSV also show what was done with it: "per 1000" is images per 1000 changes (block
/// references of records that are more than images), "HOT" the share of HOT updates in all updates. "likely cause" is what
/// most of the images probably come from, and is left empty where no rule clearly fits: hint bits, built or rewritten,
/// vacuum, freezing, random keys (of an index: most changes hit another page than the change before), hash index, GIN index,
/// fillfactor (updates go to another page), indexed columns updated (updates stay in their page and are not HOT).
///
/// Below the rows are the bytes of WAL that are not records: space unused after segment switches, page headers, padding.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS, mut_arg("format", with_prometheus))]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Content of a row: one key, or two at once, such as relation,cause
    #[arg(long, value_enum, default_value = "checkpoint", value_delimiter = ',', value_name = "WHAT")]
    by: Vec<By>,
    /// Count these relations alone: by name (with --names), number, DB/REL, SPC/DB/REL or path of the file
    ///
    /// relation, schema.relation or database.schema.relation. A number is a file number, or an OID when names are known and no
    /// file has the number. As with --by relation, images and data count with their block, and the rest of a record with its
    /// first block. WAL, lasts and MB/s of checkpoint intervals stay those of all WAL.
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// With --by time: length of a row's period, such as 30s, 5m, 1h or 1d [default: 5m]
    #[arg(long, value_name = "LENGTH", value_parser = length_of_time)]
    bucket: Option<i64>,
    /// Show only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Order of rows [default: by key; for relation, table, block and xid by image bytes]
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,
    /// Show every row
    ///
    /// In text, consecutive checkpoint intervals and periods are merged when there are more than fit the terminal, or more
    /// than 24 without one. --top, --sort, JSON and CSV show every row.
    #[arg(long)]
    all: bool,
    /// Continue after damage, at the next page on which a record starts
    #[arg(long)]
    resync: bool,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

impl StatsArgs {
    /// Length of a period.
    fn bucket_us(&self) -> i64 {
        self.bucket.unwrap_or(USUAL_BUCKET_US)
    }

    /// Most rows in the order of time before neighbours are put together.
    fn max_rows(&self) -> usize {
        let each = self.all || self.top.is_some() || self.sort.is_some_and(|sort| sort != Sort::Key);
        if each { usize::MAX } else { self.common.output.rows_that_fit() }
    }
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
    /// Periods of time, see --bucket
    Time,
    /// Seconds after redo points
    SinceRedo,
    /// Transactions, with the subtransactions that the WAL assigns to them
    Xid,
    /// Kinds of relations: table, index, TOAST table, visibility map and so on
    Kind,
    /// Tables, each with its indexes and its TOAST table; needs --names
    Table,
}

impl By {
    const fn key(self) -> Option<GroupBy> {
        Some(match self {
            Self::Time | Self::SinceRedo => return None,
            Self::Checkpoint => GroupBy::Checkpoint,
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
            Self::Xid => GroupBy::Xid,
            Self::Kind => GroupBy::Kind,
            Self::Table => GroupBy::Table,
        })
    }

    /// True for what periods of time can be divided by.
    const fn goes_with_time(self) -> bool {
        matches!(self, Self::Relation | Self::Rmgr | Self::Record | Self::Database | Self::Tablespace | Self::Fork)
    }

    /// What rows are grouped by; `None`: checkpoint intervals.
    fn grouping(keys: &[Self]) -> Result<Option<Grouping>, UsageError> {
        match keys {
            [Self::Checkpoint] => return Ok(None),
            [only] => only.key().map(Grouping::from),
            [first, second] if first == second => return Err(UsageError::SameKeys),
            [first, second] => first.key().zip(second.key()).map(|(first, second)| Grouping::pair(first, second)),
            _ => return Err(UsageError::ManyKeys(keys.len())),
        }
        .map(Some)
        .ok_or(UsageError::LoneKey)
    }
}

/// Which rows are shown, in which order.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRows {
    /// Their order; `None`: the usual one.
    pub(super) sort: Option<Sort>,
    /// So many of them at most.
    pub(super) top: Option<usize>,
    /// More are put together in text.
    pub(super) max_rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// The group itself, or the position in WAL
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
    /// The order of rows where none was asked for.
    const fn usual_of(by: GroupBy) -> Self {
        match by {
            GroupBy::Relation | GroupBy::Table | GroupBy::Block | GroupBy::Xid => Self::FpiBytes,
            _ => Self::Key,
        }
    }

    /// Orders rows, largest first.
    pub(super) fn order<T>(self, rows: &mut [T], tally: impl Fn(&T) -> Tally) {
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

/// Length of a period where none was asked for.
const USUAL_BUCKET_US: i64 = 300_000_000;

pub(super) fn run(args: &StatsArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    if args.bucket.is_some() && !matches!(args.by[..], [By::Time] | [By::Time, _]) {
        return Err(UsageError::BucketWithoutTime.into());
    }
    if args.follow.follow {
        let by = match args.by[..] {
            [By::Checkpoint] => FollowBy::Checkpoint,
            [By::Time] => FollowBy::Time { bucket_us: args.bucket_us() },
            _ => return Err(UsageError::FollowedByOther.into()),
        };
        return run_follow(&args.common, args.jobs, (args.follow, by), out);
    }
    let work = (args.jobs, args.progress);
    let for_prometheus = args.common.output.format == Format::Prometheus;
    if for_prometheus && args.by.iter().any(|by| by.key().is_none()) {
        return Err(UsageError::NotForPrometheus.into());
    }
    match args.by[..] {
        [By::Time] => {
            let shown = ShownRows { sort: args.sort, top: args.top, max_rows: args.max_rows() };
            return run_times(&args.common, work, (args.bucket_us(), args.resync), &args.relation, shown, out);
        }
        [By::Time, second] if second.goes_with_time() => {
            let Some(key) = second.key() else { return Err(UsageError::LoneKey.into()) };
            let times = (args.bucket_us(), args.resync);
            return run_time_groups(&args.common, work, times, (key, &args.relation), args.top, out);
        }
        [By::SinceRedo] if args.top.is_some() || args.sort.is_some() => return Err(UsageError::FixedRows.into()),
        [By::SinceRedo] => return run_since_redo(&args.common, work, (args.resync, &args.relation), out),
        _ => {}
    }
    let request = WalStatsRequest {
        wal: args.common.request(args.jobs)?,
        group: By::grouping(&args.by)?,
        resynchronise: args.resync,
        relations: args.relation.clone(),
    };
    if request.wal.names.is_none() && request.group.is_some_and(|by| by.has(GroupBy::Table)) {
        return Err(UsageError::TablesWithoutNames.into());
    }
    let bar = ByteBar::new(args.progress);
    let stats = wal_stats(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    if for_prometheus {
        return prometheus(args, &request, stats, out);
    }
    let rows = ShownRows { sort: args.sort, top: args.top, max_rows: args.max_rows() };
    show(&request, stats, rows, &args.common.output, out)
}

/// The order of rows, and the first of them in it.
fn ordered_rows(
    by: Option<Grouping>,
    (asked, top): (Option<Sort>, Option<usize>),
    stats: &WalStats,
) -> (Sort, Vec<GroupRow>) {
    let mut rows = stats.rows();
    let sort = asked.unwrap_or_else(|| by.map_or(Sort::Key, |by| Sort::usual_of(by.first)));
    if let (Sort::Key, None, Some(by)) = (sort, asked, by.and_then(|by| by.second)) {
        // Within one first key, in the order that is usual for the second.
        Sort::usual_of(by).order(&mut rows, |row| row.tally);
        rows.sort_by_key(|row| row.key.first);
    }
    if sort != Sort::Key {
        sort.order(&mut rows, |row| row.tally);
    }
    rows.truncate(top.unwrap_or(usize::MAX));
    (sort, rows)
}

/// Writes sums, and groups or the last whole interval, for Prometheus.
fn prometheus(
    args: &StatsArgs,
    request: &WalStatsRequest,
    stats: WalStats,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let (_, rows) = ordered_rows(request.group, (args.sort, args.top), &stats);
    let WalStats { counts, wal: ReadWal { origin, names, findings, coverage } } = stats;
    let naming = Naming::new(&origin, names.known());
    let parts = match request.group {
        Some(by) => Parts::Groups(by, &rows, &naming),
        None => Parts::Intervals(&counts.intervals),
    };
    let (total, wal_bytes, damaged_bytes) = (&counts.total, counts.wal_bytes, counts.damaged_bytes);
    let bill = counts.bill((0, 0));
    let metrics = Metrics { bill: bill.as_ref(), total, wal_bytes, damaged_bytes, origin, parts };
    Ok(write_metrics(out, &metrics, &Closing::new(findings, &coverage))?.into())
}

/// Sums for the end of an output of `stats`.
pub(super) fn totals_of_stats(counts: &WalCounts, origin: &WalOrigin) -> Row {
    let mut totals = totals_row(counts, origin);
    totals.insert("damaged_bytes".to_owned(), json!(counts.damaged_bytes));
    let bill = counts.bill((0, 0));
    let bytes = |part| json!(bill.as_ref().map(|bill| bill.bytes(part)));
    for (name, value) in [
        ("unused_bytes", bytes(BillPart::Unused)),
        ("segment_switches", json!(counts.rest.as_ref().map(|rest| rest.switches.len()))),
        ("page_header_bytes", bytes(BillPart::PageHeaders)),
        ("padding_bytes", bytes(BillPart::Padding)),
        ("cut_bytes", bytes(BillPart::Cut)),
    ] {
        totals.insert(name.to_owned(), value);
    }
    totals
}

/// Sums, and of which WAL they are.
pub(super) fn totals_row(counts: &WalCounts, origin: &WalOrigin) -> Row {
    let mut totals = Row::new();
    put_tally(&mut totals, &counts.total);
    for (name, value) in [
        ("wal_bytes", json!(counts.wal_bytes)),
        ("start_lsn", json!(counts.from.map(lsn_text))),
        ("end_lsn", json!(counts.to.map(lsn_text))),
        ("major", json!(origin.major.map(Major::number))),
        ("system_identifier", json!(origin.system_identifier.map(|id| id.to_string()))),
        ("wal_segment_size", json!(origin.geometry.wal_segment_size)),
    ] {
        totals.insert(name.to_owned(), value);
    }
    totals
}

/// A system identifier in words.
fn system_text(id: Option<u64>) -> String {
    id.map_or_else(|| "unknown".to_owned(), |id| id.to_string())
}

/// Shows what was counted.
fn show(
    request: &WalStatsRequest,
    stats: WalStats,
    ShownRows { sort, top, max_rows }: ShownRows,
    output: &OutputArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let group = request.group;
    let (sort, rows) = ordered_rows(group, (sort, top), &stats);
    let WalStats { mut counts, wal: ReadWal { origin, names, findings, coverage } } = stats;
    let system = system_text(origin.system_identifier);
    if sort != Sort::Key {
        sort.order(&mut counts.intervals, |interval| interval.tally);
    }
    counts.intervals.truncate(top.unwrap_or(usize::MAX));
    let naming = Naming::new(&origin, names.known());
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = output.machine() {
        let columns = stats_columns(group);
        let shape = CsvShape::Rows { plural: if group.is_some() { "groups" } else { "intervals" }, columns: &columns };
        let mut sink = begin(format, shape, out, (PROGRAM, "stats"), path_texts(&request.wal))?;
        let mut shown = 0;
        match group {
            Some(by) => {
                for row in &rows {
                    sink.item(&Item::Group(group_row(by, row, &naming)))?;
                    shown += 1;
                }
            }
            None => {
                for interval in &counts.intervals {
                    sink.item(&Item::Interval(interval_row(interval)))?;
                    shown += 1;
                }
            }
        }
        return Ok(closing.end(sink, shown, totals_of_stats(&counts, &origin))?.into());
    }
    let layout = output.layout();
    if counts.from.is_some() {
        write_share(out, layout, &counts.total)?;
    }
    match group {
        None => {
            let rows = IntervalRow::of(&counts.intervals, max_rows);
            write_intervals(out, layout, &rows, (&counts.total, counts.wal_bytes))?;
        }
        Some(by) => write_groups(out, layout, by, &rows, &counts.total, &naming)?,
    }
    if let Some((from, to)) = counts.from.zip(counts.to) {
        let major = origin.major.map_or_else(String::new, |major| format!("major {}, ", major.number()));
        writeln!(out, "\nWAL from {from} to {to}\n{major}system identifier {system}")?;
        if let Some(bill) = counts.bill((0, 0)) {
            write_rest(out, layout, &bill, counts.wal_bytes)?;
        }
        if let Some(bytes) = counts.damaged_bytes.filter(|bytes| *bytes > 0) {
            writeln!(out, "{bytes} bytes between good records could not be read")?;
        }
    } else {
        writeln!(out, "\nno records in this range")?;
    }
    Ok(closing.end_text(out, layout)?.into())
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
