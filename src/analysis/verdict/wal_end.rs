//! Whether the WAL in `pg_wal` has lost its end: what is elsewhere, and what names in the data directory say of it.

use std::ops::Range;

use super::doubt::{Doubt, WalWitness};
use super::replay::{Recovery, Replay, run_of};
use crate::analysis::wal::tail::{Tail, ends_in_last_file, failed_until, judge_tail, read_again};
use crate::cluster::wal::{WalReadError, WalSegmentFile, WalSet};
use crate::cluster::wal_marks::WalMarks;
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

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
