//! Where in WAL a time lies: from times to LSNs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::request::TimeBound;
use crate::analysis::wal::clock::Told;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::segment::{Visitor, read_segment};
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

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
