//! WAL by the time at which it was written.

use super::names::NameLookup;
use super::read_wal::ReadWal;
use super::request::WalRequest;
use super::segments::{Reading, RunStep};
use super::source::WalSource;
use super::stats::WalCounts;
use super::watch::WatchWal;
use crate::analysis::wal::bill::RestCounter;
use crate::analysis::wal::group_key::Grouping;
use crate::analysis::wal::segment::Undecoded;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::time_buckets::{Bucket, BucketCounter, TimeBuckets};
use crate::analysis::wal::time_groups::{Spike, TimeGroup, TimeGroupCounter, TimeGroups};
use crate::analysis::wal::unreadable::Resync;
use crate::inspect::error::InspectError;
use crate::inspect::relation_name::RelationChoice;
use crate::inspect::wal::rules;
use crate::parsers::wal::block::Keep;

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
