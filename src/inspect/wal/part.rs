//! Counts a part of some WAL, for [`super::merge`] to add up with the others.

use super::images::checkpoint_in_control;
use super::names::NameLookup;
use super::read_wal::ReadWal;
use super::request::WalRequest;
use super::segments::{Reading, RunStep};
use super::source::WalSource;
use super::stats::{WalCounts, count};
use super::times::{CountedTimes, count_times};
use super::watch::{WatchWal, Watched};
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::wal::group::Groups;
use crate::analysis::wal::group_key::{GroupBy, Grouping};
use crate::analysis::wal::image_log::{RecordChain, RunImages, SegmentImages};
use crate::analysis::wal::part_state::{PartBody, PartState};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::relation_use::RelationUses;
use crate::analysis::wal::seam::PartRun;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::unreadable::UnreadableImages;
use crate::analysis::wal::whatif::compression::SampleSize;
use crate::analysis::wal::whatif::touch_log::{RunTouches, SegmentTouchLog};
use crate::inspect::error::InspectError;
use crate::inspect::relation_name::RelationChoice;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::scan::ScanSummary;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

/// By what a part is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKey {
    /// By one or two keys, neither of them the redo point in force.
    Groups(Grouping),
    /// By periods of so many microseconds.
    Times(i64),
    /// Not at all: what other settings are replayed with is kept, and so many images are compressed again, if any.
    Touches(Option<SampleSize>),
}

/// Which part of some WAL is counted, and how.
#[derive(Clone, Debug)]
pub struct WalPartRequest {
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
    /// By what it is counted.
    pub key: PartKey,
    /// Records that start in this segment or later are not counted. It is read, for the end of the last record.
    pub before: Option<String>,
    /// Relations that are counted alone; none: all.
    pub relations: Vec<RelationChoice>,
}

/// A part that was counted.
#[derive(Debug)]
pub struct WalPart {
    /// What was counted.
    pub state: PartState,
    /// Runs of segments.
    pub runs: Vec<PartRun>,
    /// The WAL that was read.
    pub wal: ReadWal,
}

/// Counts a part of some WAL.
///
/// # Errors
/// As [`super::stats::wal_stats`], and when no segment has such a name.
pub fn wal_part(request: &WalPartRequest, watch: WatchWal<'_>) -> Result<WalPart, InspectError> {
    let WalPartRequest { wal, key, before, relations } = request;
    let (names, jobs) = (NameLookup::open(wal.names.as_deref())?, wal.jobs);
    let mut source = WalSource::open_watched(wal, watch)?;
    source.take_names(&names)?;
    source.take_known_relations(relations, &names)?;
    let segment_size = source.set.geometry().wal_segment_size;
    if let Some(name) = before.as_deref() {
        let start = WalSegment::from_file_name(name, segment_size).and_then(|segment| segment.start_lsn(segment_size));
        let wrong = || InspectError::NotASegment { name: name.to_owned(), segment_size };
        source.limit_at(start.ok_or_else(wrong)?);
    }
    let (watched, start_lsn) = (source.watched(watch), source.plan().start_lsn);
    let mut runs = Runs { runs: Vec::new(), start_lsn };
    let mut state = match *key {
        PartKey::Groups(by) if by.has(GroupBy::Cause) => count_images(&mut source, by, jobs, &watched, &mut runs),
        PartKey::Groups(by) => {
            let counts = count(&mut source, Some(by), jobs, &watched, |_, part| {
                runs.take(&part.summary);
            });
            let WalCounts { total, wal_bytes, from, to, groups, uses, .. } = counts;
            let groups = groups.unwrap_or_else(|| Groups::new(by, segment_size, std::sync::Arc::default()));
            counted((total, wal_bytes), (from, to), PartBody::Groups { by, groups, uses })
        }
        PartKey::Times(bucket_us) => {
            let times = count_times(&mut source, bucket_us, jobs, &watched, |summary| {
                runs.take(summary);
            });
            let CountedTimes { buckets, total, wal_bytes, from, to } = times;
            counted((total, wal_bytes), (from, to), PartBody::Times(buckets))
        }
        PartKey::Touches(_) => keep_touches(&mut source, jobs, &watched, &mut runs),
    };
    if let PartKey::Touches(Some(size)) = *key {
        state.sample = source.once_more(|source| source.sample(size, jobs, watch));
    }
    state.relations = source.plan().relations;
    source.coverage.examined = state.total.records;
    source.note_range_without_wal();
    // What the clock says of all parts together is judged by `merge`.
    let of_clock =
        |finding: &Finding| matches!(finding.kind, FindingKind::ClockSetBack(_) | FindingKind::ImpossibleTime { .. });
    source.findings.retain(|finding| !of_clock(finding));
    Ok(WalPart { state, runs: runs.runs, wal: ReadWal::of(source, names) })
}

/// What was counted of all relations.
const fn counted(
    (total, wal_bytes): (Tally, u64),
    (from, to): (Option<Lsn>, Option<Lsn>),
    body: PartBody,
) -> PartState {
    PartState { total, wal_bytes, from, to, relations: None, sample: None, body }
}

struct Runs {
    runs: Vec<PartRun>,
    start_lsn: Lsn,
}

impl Runs {
    /// Takes a segment; true when it begins a run.
    fn take(&mut self, summary: &ScanSummary) -> bool {
        let begins = !self.runs.last_mut().is_some_and(|run| run.push(summary));
        if begins {
            self.runs.push(PartRun::new(summary, self.start_lsn));
        }
        begins
    }
}

/// Counts all but the images, and keeps what their causes are told by.
fn count_images(
    source: &mut WalSource,
    by: Grouping,
    jobs: usize,
    watched: &Watched<'_>,
    runs: &mut Runs,
) -> PartState {
    let (plan, geometry) = (source.plan(), source.set.geometry());
    let counts_uses = ScanPlan { group: Some(by), ..plan.clone() }.counts_uses();
    let new_groups =
        || Groups::new(by, geometry.wal_segment_size, std::sync::Arc::default()).of(plan.relations.clone());
    let mut groups = new_groups();
    let mut uses = counts_uses.then(RelationUses::default);
    let (mut unreadable, mut undecoded) = (UnreadableImages::default(), Vec::new());
    let (mut images, mut total, mut chain) = (Vec::<RunImages>::new(), Tally::default(), RecordChain::default());
    let reading = Reading { plan: &plan, keep: Keep::Blocks, jobs, watched };
    let begin = |_: &Stretch<'_>, _| SegmentImages::new(new_groups(), counts_uses, geometry.block_size);
    source.each_segment(&reading, begin, |stretch, step| {
        let RunStep::Segment(part, _) = step else { return Ok(()) };
        if stretch.set.segments()[part.index].start_lsn >= plan.limit_lsn {
            return Ok(());
        }
        if runs.take(&part.summary) {
            images.push(RunImages::default());
        }
        let found = &mut part.found;
        chain.append(&found.chain);
        total.add(&found.total);
        groups.merge(&found.groups);
        if let Some((uses, found)) = uses.as_mut().zip(found.uses.as_ref()) {
            uses.merge(found);
        }
        unreadable.append(std::mem::take(&mut found.unreadable));
        undecoded.extend(found.facts.undecoded.take());
        images.last_mut().into_iter().for_each(|run| run.push(found));
        Ok(())
    });
    source.findings.extend(unreadable.findings());
    source.findings.extend(undecoded.into_iter().map(|error| Finding::problem(FindingKind::Payload(error))));
    let in_control = checkpoint_in_control(&source.set).map(|point| (point.redo_lsn, point.full_page_writes != 0));
    let range = (chain.first.map(|(start, _)| start), chain.last.map(|(_, end)| end));
    counted((total, chain.bytes), range, PartBody::Causes { by, groups, uses, runs: images, in_control })
}

/// Keeps what other settings are replayed with.
fn keep_touches(source: &mut WalSource, jobs: usize, watched: &Watched<'_>, runs: &mut Runs) -> PartState {
    let plan = source.plan();
    let (mut kept, mut counts, mut undecoded) = (Vec::<RunTouches>::new(), WalCounts::default(), Vec::new());
    let reading = Reading { plan: &plan, keep: Keep::Heads, jobs, watched };
    source.each_segment(&reading, SegmentTouchLog::new, |stretch, step| {
        let RunStep::Segment(part, end_lsn) = step else { return Ok(()) };
        let start_lsn = stretch.set.segments()[part.index].start_lsn;
        if start_lsn >= plan.limit_lsn {
            return Ok(());
        }
        if runs.take(&part.summary) {
            kept.push(RunTouches::default());
        }
        counts.follow(start_lsn.max(plan.start_lsn), end_lsn, &part.extent);
        if let Some(run) = kept.last_mut() {
            let (total, error) = run.push(&mut part.found, end_lsn);
            counts.total.add(&total);
            undecoded.extend(error);
        }
        Ok(())
    });
    source.findings.extend(undecoded.into_iter().map(|error| Finding::problem(FindingKind::Payload(error))));
    let WalCounts { total, wal_bytes, from, to, .. } = counts;
    counted((total, wal_bytes), (from, to), PartBody::Touches(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::wal::whatif::WhatIfPlan;
    use crate::analysis::wal::whatif::collect::WhatIfReplay;
    use crate::inspect::wal::archives;
    use crate::inspect::wal::watch::unwatched;
    use crate::inspect::wal::whatif::{WhatIfRequest, usual_spacings, what_if};

    /// Lists are so short in unit tests that each segment fills many.
    #[test]
    fn touches_that_were_written_are_replayed_as_those_that_were_read() {
        for (major, archive) in archives(&[10, 15, 18]) {
            let wal = WalRequest { jobs: 2, ..WalRequest::of_paths(vec![archive]) };
            let plan = WhatIfPlan { spacings: usual_spacings(), completion_target: None };
            let request = WalPartRequest { wal, key: PartKey::Touches(None), before: None, relations: Vec::new() };
            let part = wal_part(&request, &unwatched).unwrap();
            let bytes = part.state.to_bytes();
            let state = PartState::of_bytes(&bytes, part.wal.origin.geometry.wal_segment_size).unwrap();
            assert_eq!(state.to_bytes(), bytes);
            let PartBody::Touches(runs) = state.body else { panic!("{:?}", state.body) };
            let mut replay = WhatIfReplay::new(&plan, part.wal.origin.geometry, part.wal.origin.major);
            for run in &runs {
                run.replay(&mut replay).unwrap();
                replay.end_run(run.end_lsn());
            }
            let (found, tally, _) = replay.finish();
            assert_eq!(tally, state.total);
            let read = what_if(&WhatIfRequest { wal: request.wal, plan, compression: None }, &unwatched).unwrap();
            assert_eq!(format!("{found:?}"), format!("{:?}", read.what_if), "{major}");
        }
    }
}
