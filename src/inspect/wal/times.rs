//! WAL by the time at which it was written.
//! Also here: where in WAL a time lies: from times to LSNs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counting::{Reading, RunStep};
use super::names::NameLookup;
use super::request::{TimeBound, WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use super::stats::WalCounts;
use crate::analysis::wal::bill::RestCounter;
use crate::analysis::wal::clock::Told;
use crate::analysis::wal::group_key::Grouping;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::segment::{Undecoded, Visitor, read_segment};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::time_buckets::{Bucket, BucketCounter, TimeBuckets};
use crate::analysis::wal::time_groups::{Spike, TimeGroup, TimeGroupCounter, TimeGroups};
use crate::analysis::wal::unreadable::Resync;
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::inspect::page_target::RelationChoice;
use crate::inspect::wal::rules;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Which WAL is counted, in buckets of which length.
#[derive(Clone, Debug)]
pub(crate) struct WalTimesRequest {
    pub wal: WalRequest,
    /// Length of a bucket in microseconds; whole buckets since 2000-01-01 00:00 UTC. At least 1.
    pub bucket_us: i64,
    /// Counting continues after damage, at the next page that starts a record.
    pub resynchronise: bool,
    /// Relations that are counted alone; none: all.
    pub relations: Vec<RelationChoice>,
}

#[derive(Debug)]
pub(crate) struct WalTimes {
    /// The buckets with something in them, in the order of time; first what was written before any time was told.
    pub buckets: Vec<Bucket>,
    /// Length of a bucket, in microseconds.
    pub bucket_us: i64,
    /// Counts of the whole range.
    pub counts: WalCounts,
    pub wal: ReadWal,
}

fn open(request: &WalTimesRequest, watch: WatchWal<'_>) -> Result<(NameLookup, WalSource), InspectError> {
    let mut names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    source.take_relations(&request.relations, &mut names, request.wal.jobs)?;
    source.resync = Resync::of(request.resynchronise);
    Ok((names, source))
}

/// Counts records and images by time. A record counts at the time that it tells, or at the latest one told before it.
pub(crate) fn wal_times(request: &WalTimesRequest, watch: WatchWal<'_>) -> Result<WalTimes, InspectError> {
    let (names, mut source) = open(request, watch)?;
    let watched = source.watched(watch);
    let (plan, bucket_us) = (source.plan(), request.bucket_us.max(1));
    let (mut buckets, mut counts) = (TimeBuckets::new(bucket_us), WalCounts::of(&plan));
    let (geometry, mut undecoded) = (source.set.geometry(), Vec::new());
    let reading = Reading { plan: &plan, keep: Keep::Heads, jobs: request.wal.jobs, watched: &watched };
    let begin =
        |_: &Stretch<'_>, _| (BucketCounter::new(bucket_us, plan.relations.clone()), RestCounter::new(geometry));
    source.each_segment(&reading, begin, |stretch, step| {
        let RunStep::Segment(part, end_lsn) = step else { return Ok(()) };
        let start = stretch.set.segments()[part.index].start_lsn.max(plan.start_lsn);
        let (counter, rest) = &mut part.found;
        counts.follow(start, end_lsn, &part.extent, geometry);
        counts.take(&counter.tally, &rest.rest);
        buckets.push(counter);
        undecoded.extend(counter.undecoded.0.take());
        Ok(())
    });
    source.findings.extend(undecoded.into_iter().map(|error| rules::PAYLOAD.problem(error.to_string())));
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    source.note_unmet_relations();
    counts.damaged_bytes = request.resynchronise.then_some(source.damaged_bytes);
    let mut wal = ReadWal::of(source, names);
    wal.findings.extend(buckets.clock.findings());
    Ok(WalTimes { buckets: buckets.rows(), bucket_us, counts, wal })
}

/// Groups by stretches of time.
#[derive(Debug)]
pub(crate) struct WalTimeGroups {
    pub rows: Vec<TimeGroup>,
    pub spikes: Vec<Spike>,
    /// Counts of the whole range.
    pub counts: WalCounts,
    pub wal: ReadWal,
}

/// Counts records by time and by group, which is no cause, checkpoint or transaction.
pub(crate) fn wal_time_groups(
    request: &WalTimesRequest,
    by: Grouping,
    watch: WatchWal<'_>,
) -> Result<WalTimeGroups, InspectError> {
    let (mut names, mut source) = open(request, watch)?;
    let watched = source.watched(watch);
    let (plan, bucket_us) = (source.plan(), request.bucket_us.max(1));
    let geometry = source.set.geometry();
    let (mut groups, mut counts) = (TimeGroups::new(bucket_us), WalCounts::of(&plan));
    let reading = Reading { plan: &plan, keep: Keep::Heads, jobs: request.wal.jobs, watched: &watched };
    let begin = |_: &Stretch<'_>, _| {
        let counter = TimeGroupCounter::new(bucket_us, by, geometry.wal_segment_size, plan.relations.clone());
        ((counter, RestCounter::new(geometry)), Undecoded::default())
    };
    let mut undecoded = Vec::new();
    source.each_segment(&reading, begin, |stretch, step| {
        let RunStep::Segment(part, end_lsn) = step else { return Ok(()) };
        let start = stretch.set.segments()[part.index].start_lsn.max(plan.start_lsn);
        counts.follow(start, end_lsn, &part.extent, geometry);
        let ((counter, rest), wrong) = &mut part.found;
        counts.take(&counter.total(), &rest.rest);
        groups.push(counter);
        undecoded.extend(wrong.0.take());
        Ok(())
    });
    source.findings.extend(undecoded.into_iter().map(|error| rules::PAYLOAD.problem(error.to_string())));
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    source.note_unmet_relations();
    if !source.coverage.is_interrupted() && names.known().is_some() {
        source.find_names(&mut names, request.wal.jobs);
    }
    let rows = groups.rows();
    let spikes = if groups.clock.contradicts_itself() { Vec::new() } else { groups.spikes(&rows) };
    let mut wal = ReadWal::of(source, names);
    wal.findings.extend(groups.clock.findings());
    Ok(WalTimeGroups { rows, spikes, counts, wal })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimedRange {
    /// Start of the first record of it; `None`: all from the start on.
    pub(super) start: Option<Lsn>,
    /// Start of the first record after it; `None`: all up to the end.
    pub(super) end: Option<Lsn>,
    /// The start is the first record that tells a time, so that when those before it were written is unknown.
    pub(super) leaves_out_unknown: bool,
}

/// The LSNs between which the records from `since` on and before `until` lie. A record was written at the time that it tells,
/// or at the latest one told before it. Few segments are read: times are taken to grow from segment to segment.
pub(super) fn lsn_range(
    set: &WalSet,
    since: Option<TimeBound>,
    until: Option<TimeBound>,
) -> Result<TimedRange, InspectError> {
    let start = since.map(|bound| start_of(set, bound)).transpose()?;
    let end = until.map(|bound| end_of(set, bound)).transpose()?;
    let leaves_out_unknown = start.is_some() && first_told(set).map(|(lsn, _)| lsn) == start;
    Ok(TimedRange { start, end: end.flatten(), leaves_out_unknown })
}

/// Bytes of WAL from `from` up to `to` that the segments hold, from the first record on.
pub(super) fn bytes_between(set: &WalSet, from: Option<Lsn>, to: Lsn) -> u64 {
    let size = u64::from(set.geometry().wal_segment_size);
    let before = set.segments().iter().enumerate().filter(|(_, segment)| segment.start_lsn < to);
    let mut first_record = None;
    let mut bytes = 0_u64;
    for (index, segment) in before {
        if first_record.is_none() {
            first_record = read(set, index, Wanted::Start).start;
        }
        let Some(first) = first_record else { continue };
        let start = segment.start_lsn.max(first).max(from.unwrap_or_default());
        let end = segment.start_lsn.advanced_by(size).min(to);
        bytes = bytes.saturating_add(end.bytes_since(start).unwrap_or(0));
    }
    bytes
}

fn start_of(set: &WalSet, bound: TimeBound) -> Result<Lsn, InspectError> {
    let time = absolute(set, bound)?;
    match first_since(set, time) {
        Some(lsn) => Ok(lsn),
        None => {
            let last = last_told(set).ok_or(InspectError::NoTimes)?;
            Err(InspectError::AllBefore { time, last })
        }
    }
}

fn end_of(set: &WalSet, bound: TimeBound) -> Result<Option<Lsn>, InspectError> {
    let time = absolute(set, bound)?;
    let (_, first) = first_told(set).ok_or(InspectError::NoTimes)?;
    if first >= time {
        return Err(InspectError::AllAfter { time, first });
    }
    Ok(first_since(set, time))
}

fn absolute(set: &WalSet, bound: TimeBound) -> Result<PgTimestamp, InspectError> {
    match bound {
        TimeBound::At(time) => Ok(time),
        TimeBound::BeforeLast { us } => {
            let last = last_told(set).ok_or(InspectError::NoTimes)?;
            Ok(PgTimestamp(last.0.saturating_sub(us)))
        }
    }
}

/// The first record that tells `time` or a later one.
fn first_since(set: &WalSet, time: PgTimestamp) -> Option<Lsn> {
    let count = set.segments().len();
    // Segments before `low` are known to begin before the time, those from `high` on not to.
    let (mut low, mut high, mut last_before) = (0, count, 0);
    while low < high {
        let middle = low.midpoint(high);
        let telling = (middle..high).find_map(|index| Some((index, read(set, index, Wanted::FirstNow).first?.1)));
        match telling {
            Some((index, first)) if first < time => (low, last_before) = (index.saturating_add(1), index),
            _ => high = middle,
        }
    }
    (last_before..count).find_map(|index| read(set, index, Wanted::Since(time)).first.map(|(lsn, _)| lsn))
}

fn first_told(set: &WalSet) -> Option<(Lsn, PgTimestamp)> {
    (0..set.segments().len()).find_map(|index| read(set, index, Wanted::First).first)
}

fn last_told(set: &WalSet) -> Option<PgTimestamp> {
    (0..set.segments().len()).rev().find_map(|index| read(set, index, Wanted::Latest).latest)
}

#[derive(Clone, Copy)]
enum Wanted {
    FirstNow,
    First,
    Since(PgTimestamp),
    Latest,
    /// The first record, whether it tells a time or not.
    Start,
}

#[derive(Default)]
struct Times {
    start: Option<Lsn>,
    first: Option<(Lsn, PgTimestamp)>,
    latest: Option<PgTimestamp>,
}

struct Seeker<'a> {
    wanted: Wanted,
    times: Times,
    enough: &'a AtomicBool,
}

impl Visitor for Seeker<'_> {
    fn record(&mut self, record: &Record<'_>) {
        self.times.start.get_or_insert(record.start_lsn);
        if matches!(self.wanted, Wanted::Start) {
            return self.enough.store(true, Ordering::Relaxed);
        }
        let Some(told) = Told::by(record).filter(|_| self.times.first.is_none()) else { return };
        let Some(time) = told.time() else { return };
        let is_it = match self.wanted {
            Wanted::FirstNow => matches!(told, Told::Now(_)),
            Wanted::First => true,
            Wanted::Since(wanted) => time >= wanted,
            Wanted::Latest => {
                self.times.latest = self.times.latest.max(Some(time));
                false
            }
            Wanted::Start => false,
        };
        if is_it {
            self.times.first = Some((record.start_lsn, time));
            self.enough.store(true, Ordering::Relaxed);
        }
    }
}

/// Reads a segment by itself as far as needed. One that cannot be read tells nothing: reading the range says why.
fn read(set: &WalSet, index: usize, wanted: Wanted) -> Times {
    let Some(run) = set.runs().into_iter().find(|run| run.contains(&index)) else { return Times::default() };
    let stretch = ScanPlan::totals().stretch(set, &run, Keep::Heads);
    let enough = AtomicBool::new(false);
    let watch = |_| if enough.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let seeker = Seeker { wanted, times: Times::default(), enough: &enough };
    read_segment(&stretch, index, index, seeker, &watch, &mut Vec::new())
        .map_or_else(|_| Times::default(), |read| read.found.times)
}
