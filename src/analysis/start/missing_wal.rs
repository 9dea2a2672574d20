//! Missing WAL segments, by file name, so that they can be looked for.
//! Also here: whether the WAL in `pg_wal` has lost its end: what is elsewhere, and what names in the data directory say
//! of it.

use std::ops::Range;

use super::doubt::{Doubt, WalWitness};
use super::replay::{Recovery, Replay, run_of};
use crate::analysis::wal::tail::{Tail, ends_in_last_file, failed_until, judge_tail, read_again};
use crate::cluster::wal::{WalReadError, WalSegmentFile, WalSet};
use crate::cluster::wal_marks::WalMarks;
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::{Geometry, Lsn, TimelineId};

/// Missing segments that are named; the others are counted.
const MAX_NAMED_SEGMENTS: usize = 8;

/// Names of missing segments, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingSegments {
    /// The first of them, by name.
    pub names: Vec<String>,
    /// Number of those not listed.
    pub more: u64,
}

impl MissingSegments {
    /// Adds those of another part of WAL, each once, as far as they are named.
    pub fn add(&mut self, other: &Self) {
        for name in &other.names {
            if let Err(at) = self.names.binary_search(name) {
                self.names.insert(at, name.clone());
            }
        }
        self.more = self.more.max(other.more);
        let beyond = self.names.len().saturating_sub(MAX_NAMED_SEGMENTS);
        self.names.truncate(MAX_NAMED_SEGMENTS);
        self.more = self.more.saturating_add(beyond as u64);
    }

    /// True when none is missing.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Which segments there are, and what others would be called.
#[derive(Clone, Debug)]
pub struct WalNames {
    segment_size: u32,
    numbers: Vec<u64>,
    history: TimelineHistory,
}

impl WalNames {
    /// Names of the segments of a set.
    pub fn of(set: &WalSet) -> Self {
        Self {
            segment_size: set.geometry().wal_segment_size,
            numbers: set.segments().iter().map(|file| file.segment.number).collect(),
            history: set.history().cloned().unwrap_or_else(|| TimelineHistory::root(set.timeline())),
        }
    }

    /// Names where no segment exists.
    pub(crate) fn without_files(geometry: Geometry, timeline: TimelineId) -> Self {
        Self { segment_size: geometry.wal_segment_size, numbers: Vec::new(), history: TimelineHistory::root(timeline) }
    }

    /// The segments between two addresses that are missing; the byte at `end` is not needed.
    pub fn missing(&self, start: Lsn, end: Lsn) -> MissingSegments {
        let mut missing = MissingSegments::default();
        let number_of = |lsn: Lsn| lsn.0.checked_div(u64::from(self.segment_size));
        let last_lsn = Lsn(end.0.saturating_sub(1));
        let (Some(first), Some(last)) = (number_of(start), number_of(last_lsn)) else { return missing };
        let there = self.numbers.iter().copied().filter(|number| (first..=last).contains(number));
        let mut next = Some(first);
        for number in there.chain(last.checked_add(1)) {
            if let Some(from) = next.filter(|from| *from < number) {
                self.name_all(from, number, &mut missing);
            }
            next = number.checked_add(1);
        }
        missing
    }

    /// The last missing segment before `lsn`: older WAL would have to begin with it.
    pub fn before(&self, lsn: Lsn) -> Option<String> {
        let first = lsn.0.checked_div(u64::from(self.segment_size))?;
        let is_there = |number: &u64| self.numbers.binary_search(number).is_ok();
        let mut number = first.checked_sub(1)?;
        while is_there(&number) {
            number = number.checked_sub(1)?;
        }
        self.name(number)
    }

    /// Names the segments from one number to the one before another, none of which is there.
    fn name_all(&self, first: u64, end: u64, missing: &mut MissingSegments) {
        let room = MAX_NAMED_SEGMENTS.saturating_sub(missing.names.len()) as u64;
        let named = end.min(first.saturating_add(room));
        missing.names.extend((first..named).filter_map(|number| self.name(number)));
        missing.more = missing.more.saturating_add(end.saturating_sub(named));
    }

    fn name(&self, number: u64) -> Option<String> {
        let newest = self.history.candidates(number, self.segment_size).first().copied();
        let tli: TimelineId = newest.unwrap_or(self.history.tli);
        WalSegment { tli, number }.file_name(self.segment_size)
    }
}

/// Doubt about WAL after the end that recovery of `own` will find. `elsewhere`: WAL that includes other places.
///
/// `None` if the server fetches the rest itself, and for a base backup, which is recovered to its own end.
pub(crate) fn doubt_of_end(
    replay: &Replay,
    own: &WalSet,
    elsewhere: Option<&WalSet>,
    marks: &WalMarks,
) -> Result<Option<Doubt>, WalReadError> {
    let is_last_word = matches!(replay.recovery, Recovery::None | Recovery::Crash | Recovery::Archive);
    let Some(end) = replay.end.as_ref().filter(|_| is_last_word && replay.can_begin && !replay.fetches_wal) else {
        return Ok(None);
    };
    let Some(run) = run_of(own, end.last_record.unwrap_or(end.at)) else { return Ok(None) };
    if let Some(all) = elsewhere
        && let Some(witness) = going_on(replay, all, end)?
    {
        return Ok(Some(Doubt::EndMissing { end: end.clone(), witness }));
    }
    let failed_until = failed_until(own, &run, end)?;
    if let Some(mark) = marks.marks.iter().filter(|mark| mark.reaches > failed_until).max_by_key(|mark| mark.reaches) {
        return Ok(Some(Doubt::EndMissing { end: end.clone(), witness: WalWitness::Mark(mark.clone()) }));
    }
    Ok(cut_off(replay, own, &run, end, marks))
}

/// The segment of `all` that shows that WAL continues.
fn going_on(replay: &Replay, all: &WalSet, end: &EndOfWal) -> Result<Option<WalWitness>, WalReadError> {
    let Some(whole_run) = run_of(all, end.last_record.unwrap_or(end.at)) else { return Ok(None) };
    let holds = |index: &usize, lsn: Lsn| {
        all.segments().get(*index).is_some_and(|file| file.start_lsn <= lsn && lsn < end_of(all, file))
    };
    // The segment of the end and the next one show whether it continues; names alone show how far.
    let last = whole_run.clone().find(|index| holds(index, end.at)).unwrap_or(whole_run.start);
    let run = whole_run.start..whole_run.end.min(last.saturating_add(2));
    let is_known = |of: fn(&Doubt) -> bool| replay.doubts.iter().any(of);
    let lsn = match judge_tail(all, &run, end)? {
        Tail::Changing { end_lsn } if Some(end_lsn) > end.end_of_last => Lsn(end_lsn.0.saturating_sub(1)),
        Tail::RecordsFollow { first_lsn, was_synced: true }
            if !is_known(|doubt| matches!(doubt, Doubt::RecordsFollow { .. })) =>
        {
            first_lsn
        }
        Tail::Gap if !is_known(|doubt| matches!(doubt, Doubt::SegmentMissing { .. })) => {
            let next = all.segments().get(run.end).map(|file| file.start_lsn);
            next.unwrap_or(end.at)
        }
        // Files that end between two records look complete; the next file tells.
        Tail::Complete => match read_again(all, &run, end)?.last_record {
            Some(last) if end.last_record.is_some_and(|known| last > known) => last,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let file = all.segments().iter().find(|file| file.start_lsn <= lsn && lsn < end_of(all, file));
    Ok(file.map(|file| WalWitness::Segment { file: file.label.clone(), lsn }))
}

/// WAL ends in the middle of a record, and with the files.
fn cut_off(replay: &Replay, own: &WalSet, run: &Range<usize>, end: &EndOfWal, marks: &WalMarks) -> Option<Doubt> {
    let is_input_end = matches!(end.reason, EndReason::InputEnds | EndReason::CutShort { .. });
    let is_inside = end.unfinished.is_some() || matches!(end.reason, EndReason::CutShort { .. });
    let is_named = replay.doubts.iter().any(Doubt::shows_missing_end);
    if !is_input_end || !is_inside || is_named || !ends_in_last_file(own, run, end) {
        return None;
    }
    let last = own.segments().get(run.end.checked_sub(1)?)?;
    let size = own.geometry().wal_segment_size;
    let next = WalSegment { number: last.segment.number.checked_add(1)?, ..last.segment };
    // A file that is cut short lacks its own rest first.
    let is_whole = last.size_bytes.is_none_or(|bytes| bytes == u64::from(size));
    let segment = if is_whole { next } else { last.segment };
    // A file of the server that waits to be written again, or that was being made: nothing was written to it yet.
    if is_whole && (marks.segments.contains(&next.number) || marks.has_unfinished_segment) {
        return None;
    }
    let (name, start_lsn) = (segment.file_name(size)?, segment.start_lsn(size)?);
    Some(Doubt::EndCutOff { end: end.clone(), segment: name, start_lsn, is_there: !is_whole })
}

fn end_of(set: &WalSet, file: &WalSegmentFile) -> Lsn {
    file.start_lsn.advanced_by(u64::from(set.geometry().wal_segment_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::timeline::Ancestor;

    const MIB: u64 = 1 << 20;

    /// Segments of 1 MiB; timeline 2 began in segment 6, timeline 1 ends there.
    fn names(numbers: &[u64]) -> WalNames {
        let ancestor = Ancestor { tli: TimelineId(1), switch_lsn: Lsn(6 * MIB + 100), reason: String::new() };
        let history = TimelineHistory { tli: TimelineId(2), ancestors: vec![ancestor] };
        WalNames { segment_size: 1 << 20, numbers: numbers.to_vec(), history }
    }

    #[test]
    fn gaps_are_named_by_the_timeline_that_wrote_them() {
        let missing = names(&[3, 4, 7, 9]).missing(Lsn(4 * MIB + 40), Lsn(9 * MIB + 40));
        let expected = ["000000010000000000000005", "000000020000000000000006", "000000020000000000000008"];
        assert_eq!((&missing.names[..], missing.more), (&expected.map(str::to_owned)[..], 0));
        assert!(names(&[3, 4, 5]).missing(Lsn(3 * MIB), Lsn(6 * MIB)).is_empty(), "the byte at the end is not needed");
        assert_eq!(names(&[3, 4, 5]).missing(Lsn(3 * MIB), Lsn(6 * MIB + 1)).names, ["000000020000000000000006"]);
    }

    #[test]
    fn many_missing_segments_are_counted() {
        let missing = names(&[]).missing(Lsn(0), Lsn(u64::MAX));
        assert_eq!(missing.names.len(), MAX_NAMED_SEGMENTS);
        assert_eq!(missing.more, (u64::MAX - 1) / MIB + 1 - MAX_NAMED_SEGMENTS as u64);
    }

    #[test]
    fn older_wal_is_named_before_what_is_there() {
        assert_eq!(names(&[3, 4]).before(Lsn(4 * MIB)), Some("000000010000000000000002".to_owned()));
        assert_eq!(names(&[0]).before(Lsn(40)), None);
        assert_eq!(names(&[0, 1]).before(Lsn(MIB)), None);
    }
}
