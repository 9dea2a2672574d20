//! How much of the WAL is full-page images: by checkpoint interval, or by anything else.

use std::ops::ControlFlow;

use super::counting::{Counting, Reading, RunStep};
use super::images::{cause_facts, redo_points};
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal, Watched};
use super::source::{ReadWal, WalSource};
use crate::analysis::wal::bill::{WalBill, WalRest};
use crate::analysis::wal::block_set::RecentBlocks;
use crate::analysis::wal::cause::CauseClassifier;
use crate::analysis::wal::curve::TimeCurve;
use crate::analysis::wal::group::{GroupRow, Groups, group_rows};
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key, RowKey};
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::relation_use::RelationUses;
use crate::analysis::wal::since_redo::SinceRedo;
use crate::analysis::wal::stretch::{Extent, Stretch};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::unreadable::Resync;
use crate::inspect::error::InspectError;
use crate::inspect::page_target::RelationChoice;
use crate::parsers::wal::block::Keep;
use crate::types::{Geometry, Lsn};

/// What is counted.
#[derive(Clone, Debug)]
pub struct WalStatsRequest {
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
    /// What rows stand for; `None`: checkpoint intervals.
    pub group: Option<Grouping>,
    /// Counting continues after damage, at the next page that starts a record.
    pub resynchronise: bool,
    /// Relations that are counted alone; none: all.
    pub relations: Vec<RelationChoice>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct WalCounts {
    /// All of it.
    pub total: Tally,
    /// Bytes of WAL that it lies in, page headers and padding included.
    pub wal_bytes: u64,
    /// Those of them between good records that could not be read; known where counting continues after damage.
    pub damaged_bytes: Option<u64>,
    /// Those of them that no record has; `None` where some relations are counted alone.
    pub rest: Option<WalRest>,
    /// By group, if one was asked for.
    pub groups: Option<Groups>,
    /// What was done with each relation, if rows stand for relations or their kinds.
    pub uses: Option<RelationUses>,
    /// By checkpoint interval, if no group was asked for.
    pub intervals: Vec<Interval>,
    /// All records by time, if no group was asked for.
    pub times: TimeCurve,
    /// Images by how long after the redo point they were written, if no group was asked for.
    pub since_redo: SinceRedo,
    /// Start of the first record.
    pub from: Option<Lsn>,
    /// End of the last.
    pub to: Option<Lsn>,
}

impl WalCounts {
    /// Nothing yet of what `plan` counts.
    pub(super) fn of(plan: &ScanPlan) -> Self {
        Self { rest: plan.relations.is_none().then(WalRest::default), ..Self::default() }
    }

    /// Groups in the order of their keys; none where none were asked for.
    pub fn rows(&self) -> Vec<(RowKey, Tally)> {
        self.groups.as_ref().map(Groups::rows).unwrap_or_default()
    }

    /// Counts the bytes of a segment whose WAL goes from `start_lsn` to `end_lsn`, and its records.
    pub(super) fn follow(&mut self, start_lsn: Lsn, end_lsn: Lsn, extent: &Extent, geometry: Geometry) {
        // The last record of the segment before may reach into this one.
        self.add_stretch(start_lsn.max(self.to.unwrap_or(start_lsn)), end_lsn, geometry);
        self.reach(extent.first_lsn, extent.last_end_lsn);
    }

    /// Says that it lies in so many bytes, those of intervals: the header of a first page whose first record is a redo point is
    /// in none.
    pub(super) fn lie_in(&mut self, bytes: u64) {
        let more = self.wal_bytes.saturating_sub(bytes);
        self.rest.iter_mut().for_each(|rest| rest.leave_out_headers(more));
        self.wal_bytes = bytes;
    }

    /// Adds what records of a segment count, and what lies between them.
    pub(super) fn take(&mut self, tally: &Tally, rest: &WalRest) {
        self.total.add(tally);
        self.rest.iter_mut().for_each(|own| own.append(rest, None));
    }

    pub(super) fn add_stretch(&mut self, start: Lsn, end: Lsn, geometry: Geometry) {
        self.rest.iter_mut().for_each(|rest| rest.add_headers(start, end, geometry));
        self.wal_bytes = self.wal_bytes.saturating_add(end.bytes_since(start).unwrap_or(0));
    }

    /// Every byte by what it is; `None` where some relations are counted alone. `old_rows`: records with an old row, and the
    /// bytes of these.
    pub fn bill(&self, old_rows: (u64, u64)) -> Option<WalBill> {
        self.rest.as_ref().map(|rest| WalBill::new(&self.total, self.wal_bytes, rest, old_rows))
    }

    /// True when rows stand for relations or databases of which some have no name.
    pub(super) fn has_unnamed(&self, names: &NameLookup) -> bool {
        let Some(known) = names.known() else { return false };
        let is_unnamed = |key: &Key| match key {
            Key::Relation(rel) | Key::Block(rel, ..) | Key::Table(rel) | Key::RelationFork(rel, _) => {
                known.get(*rel).is_none()
            }
            Key::Database(oid) => *oid > 0 && known.database(*oid).is_none(),
            _ => false,
        };
        self.rows().iter().any(|(row, _)| is_unnamed(&row.first) || row.second.as_ref().is_some_and(is_unnamed))
    }

    pub(super) fn reach(&mut self, from: Option<Lsn>, to: Option<Lsn>) {
        self.from = self.from.or(from);
        self.to = to.or(self.to);
    }
}

/// How much of some WAL is images.
#[derive(Debug)]
pub struct WalStats {
    /// What was counted.
    pub counts: WalCounts,
    /// The WAL that was read.
    pub wal: ReadWal,
}

impl WalStats {
    /// Groups in the order of their keys, relations under their tables and kinds where those were asked for; none where no
    /// groups were asked for.
    pub fn rows(&self) -> Vec<GroupRow> {
        self.counts
            .groups
            .as_ref()
            .map_or_else(Vec::new, |groups| group_rows(groups, self.counts.uses.as_ref(), self.wal.names.known()))
    }
}

/// Counts the records and full-page images of some WAL. Damage is a finding, and what could not be read is part of the
/// coverage; when `watch` interrupts it, the counts are those so far and the coverage says so.
///
/// # Errors
/// When there is no such WAL, the range is empty, or names were asked for that cannot be read.
pub fn wal_stats(request: &WalStatsRequest, watch: WatchWal<'_>) -> Result<WalStats, InspectError> {
    let mut names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    source.resync = Resync::of(request.resynchronise);
    source.take_relations(&request.relations, &mut names, request.wal.jobs)?;
    let counts = source.count(request.group, request.wal.jobs, watch);
    if !source.coverage.is_interrupted() && counts.has_unnamed(&names) {
        source.find_names(&mut names, request.wal.jobs);
    }
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    source.note_unmet_relations();
    Ok(WalStats { counts, wal: ReadWal::of(source, names) })
}

impl WalSource {
    /// Counts all records of the range by `group`, or by checkpoint interval.
    pub fn count(&mut self, group: Option<Grouping>, jobs: usize, watch: WatchWal<'_>) -> WalCounts {
        let watched = self.watched(watch);
        let counted = match group {
            Some(by) if by.has(GroupBy::Cause) => count_causes(self, by, jobs, &watched),
            _ => count(self, group, jobs, &watched),
        };
        WalCounts { damaged_bytes: self.resync.is_on().then_some(self.damaged_bytes), ..counted }
    }
}

/// Counts with several threads.
fn count(source: &mut WalSource, group: Option<Grouping>, jobs: usize, watched: &Watched<'_>) -> WalCounts {
    let mut plan = ScanPlan { group, blocks: group.is_none(), ..source.plan() };
    if group.is_some_and(|by| by.has(GroupBy::Checkpoint)) {
        plan.redo_points = redo_points(source, &plan, jobs, watched).into();
    }
    // Which subtransactions a transaction had is in the main data.
    let keep = if group.is_some_and(|by| by.has(GroupBy::Xid)) { Keep::Blocks } else { Keep::Heads };
    let mut counting = Counting::new(&plan, source.resync.is_on());
    let reading = Reading { plan: &plan, keep, jobs, watched };
    let begin = |stretch: &Stretch<'_>, index| Counter::new(stretch.set, index, &plan, &[]);
    source.each_segment(&reading, begin, |stretch, step| match step {
        RunStep::Segment(part, end_lsn) => {
            counting.take(stretch, (part.index, &part.extent), &mut part.found.counts, end_lsn, watched)
        }
        RunStep::End(_) => counting.end_run(stretch, watched),
    });
    counting.finish(&mut source.findings)
}

/// Counts by cause, and perhaps another key: redo points first, then every record in order.
fn count_causes(source: &mut WalSource, by: Grouping, jobs: usize, watched: &Watched<'_>) -> WalCounts {
    let (geometry, plan) = (source.set.geometry(), source.plan());
    let facts = cause_facts(&source.set, &plan, jobs, watched);
    let redo_points = match by.has(GroupBy::Checkpoint) {
        true => redo_points(source, &plan, jobs, watched),
        false => Vec::new(),
    };
    let mut classifier = CauseClassifier::new(facts, geometry.block_size);
    let mut counted = WalCounts::of(&plan);
    let mut groups = Groups::new(by, geometry.wal_segment_size, redo_points.into()).of(plan.relations.clone());
    let mut causes = Vec::new();
    let mut before: Option<(Lsn, Lsn)> = None;
    let counts_uses = ScanPlan { group: Some(by), ..plan.clone() }.counts_uses();
    let (mut uses, mut recent) = (counts_uses.then(RelationUses::default), RecentBlocks::default());
    source.each_record(&plan, watched, |_, record| {
        let goes_on = before.filter(|(start, _)| *start == record.header.prev);
        counted.add_stretch(goes_on.map_or(record.start_lsn, |(_, end)| end), record.end_lsn, geometry);
        let is_switch = record.header.is_switch();
        counted.rest.iter_mut().for_each(|rest| rest.add(record, is_switch, geometry, None));
        before = Some((record.start_lsn, record.end_lsn));
        classifier.causes(record, &mut causes);
        groups.add_with_causes(record, &causes);
        if let Some(uses) = &mut uses {
            uses.add(record, &mut recent);
        }
        counted.reach(Some(record.start_lsn), Some(record.end_lsn));
        ControlFlow::Continue(())
    });
    source.note_causes(&classifier);
    counted.total = groups.total();
    (counted.groups, counted.uses) = (Some(groups), uses);
    counted
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::inspect::wal::chain::{WalChainRequest, wal_chain};
    use crate::inspect::wal::images::ImageSelection;
    use crate::inspect::wal::request::unwatched;

    fn request() -> WalRequest {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wal/pg16.tar.zst");
        WalRequest { jobs: 2, ..WalRequest::of_paths(vec![archive]) }
    }

    /// `expected/stats.txt` of the archive ends with 10607 records.
    const RECORDS: u64 = 10_607;

    #[test]
    fn result_of_work_that_was_broken_off_says_so() {
        let at_once = |_: u64, _: u64| ControlFlow::Break(());
        for group in [None, Some(GroupBy::Rmgr.into()), Some(GroupBy::Cause.into())] {
            let whole = wal_stats(
                &WalStatsRequest { wal: request(), group, resynchronise: false, relations: Vec::new() },
                &unwatched,
            )
            .unwrap();
            assert!(!whole.wal.coverage.is_interrupted() && whole.wal.coverage.examined == RECORDS, "{group:?}");
            let broken = wal_stats(
                &WalStatsRequest { wal: request(), group, resynchronise: false, relations: Vec::new() },
                &at_once,
            )
            .unwrap();
            assert!(broken.wal.coverage.is_interrupted() && broken.counts.total.records < RECORDS, "{group:?}");
        }
        for resynchronise in [false, true] {
            let broken = wal_chain(&WalChainRequest { wal: request(), resynchronise }, &at_once).unwrap();
            assert!(broken.wal.coverage.is_interrupted() && broken.wal.coverage.examined < RECORDS, "{resynchronise}");
        }
        let mut source = WalSource::open(&request()).unwrap();
        source.each_image_head(&ImageSelection::default(), 2, &at_once, |_| Ok::<(), ()>(())).unwrap();
        assert!(source.coverage.is_interrupted());
    }

    #[test]
    fn bytes_done_grow_to_those_in_all() {
        let told = std::sync::Mutex::new(Vec::new());
        let watch = |done, total| {
            told.lock().unwrap().push((done, total));
            ControlFlow::Continue(())
        };
        wal_stats(
            &WalStatsRequest { wal: request(), group: None, resynchronise: false, relations: Vec::new() },
            &watch,
        )
        .unwrap();
        let told = told.into_inner().unwrap();
        let total = told[0].1;
        assert!(told.iter().all(|(done, all)| *all == total && done <= all) && total.is_multiple_of(1 << 20));
        assert!(told.iter().any(|(done, _)| *done > total / 2));
    }
}
