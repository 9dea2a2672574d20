//! Some WAL in short stretches, each with its counts by relation and cause, so that any window of them can be summed up
//! without reading again.
//!
//! A stretch ends where the next redo point, or the next so many bytes of addresses, begin. Up to 200,000 rows are
//! kept; with more, neighbours inside an interval become one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::block_set::RecentBlocks;
use super::cause::Cause;
use super::group::Groups;
use super::group_key::{GroupBy, Key, RelationKind};
use super::likely_cause::LikelyCause;
use super::relation_use::{RelationUse, RelationUses};
use super::tally::Tally;
use crate::cluster::names::RelationNames;
use crate::parsers::wal::lifecycle::record_time;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;
use crate::types::{Lsn, TimelineId};

/// Stretches that some WAL is cut into, about.
const STRETCHES: u64 = 400;

/// Fewest bytes of a stretch.
const MIN_STRETCH_BYTES: u64 = 64 << 10;

/// Rows of relations that are kept over all stretches, about 200 bytes each.
const MAX_ROWS: usize = 200_000;

/// Images whose causes are kept one by one: a byte each.
const MAX_CAUSES: usize = 16 << 20;

#[derive(Clone, Copy, Debug)]
struct RelationPart {
    tally: Tally,
    activity: RelationUse,
    distinct_blocks: u64,
}

/// A short stretch of WAL inside one checkpoint interval.
#[derive(Clone, Debug)]
pub struct TimelineCell {
    /// Start of its first record.
    pub start_lsn: Lsn,
    /// End of its last record.
    pub end_lsn: Lsn,
    /// Timeline of its first record.
    pub tli: TimelineId,
    /// The redo point in force; `None` before the first that is known.
    pub redo_lsn: Option<Lsn>,
    /// The latest time told before it, or in it where none was told before.
    pub from_time: Option<PgTimestamp>,
    /// The latest time told up to its end.
    pub to_time: Option<PgTimestamp>,
    /// All records that start in it.
    pub tally: Tally,
    /// Causes of its images in order, a byte each; `None` where they were too many to be kept.
    image_causes: Option<Vec<u8>>,
    relations: FxHashMap<Key, RelationPart>,
    causes: BTreeMap<Key, Tally>,
}

impl TimelineCell {
    /// Causes of its images in order; `None` where they were too many to be kept.
    pub(crate) fn image_causes(&self) -> Option<Vec<Cause>> {
        let all: Vec<Cause> = Cause::all().collect();
        let codes = self.image_causes.as_ref()?;
        Some(codes.iter().filter_map(|code| all.get(usize::from(*code)).copied()).collect())
    }

    fn append(&mut self, next: Self) {
        self.end_lsn = next.end_lsn;
        self.to_time = next.to_time.or(self.to_time);
        self.from_time = self.from_time.or(next.from_time);
        self.tally.add(&next.tally);
        self.image_causes = self.image_causes.take().zip(next.image_causes).map(|(mut own, more)| {
            own.extend(more);
            own
        });
        for (key, part) in next.relations {
            self.relations.entry(key).and_modify(|own| own.append(&part)).or_insert(part);
        }
        for (key, tally) in next.causes {
            self.causes.entry(key).or_default().add(&tally);
        }
    }
}

impl RelationPart {
    /// Blocks of two stretches may be the same: there are at least as many as in one of them.
    fn append(&mut self, next: &Self) {
        self.tally.add(&next.tally);
        self.activity.add(&next.activity);
        self.distinct_blocks = self.distinct_blocks.max(next.distinct_blocks);
    }
}

/// A relation in a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowRelation {
    /// The group.
    pub key: Key,
    /// Its counts, the same as those of `stats --by relation`.
    pub tally: Tally,
    /// What it is; unknown of what is not a relation.
    pub kind: RelationKind,
    /// What most of its images probably come from. Rests on fewer distinct blocks than there may be.
    pub likely_cause: Option<LikelyCause>,
}

/// What is in a window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Start of its first record and end of its last; `None`: nothing is in it.
    pub range: Option<(Lsn, Lsn)>,
    /// When it begins and ends, where that is known.
    pub times: Option<(PgTimestamp, PgTimestamp)>,
    /// All its records.
    pub tally: Tally,
    /// Relations, and what belongs to none; those with the most image bytes first.
    pub relations: Vec<WindowRelation>,
    /// Causes, and records without an image; those with the most image bytes first.
    pub causes: Vec<(Key, Tally)>,
}

/// Some WAL in short stretches.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The stretches in order.
    pub cells: Vec<TimelineCell>,
}

impl Timeline {
    /// The stretches that begin in this range of addresses.
    pub(crate) fn cells_between(&self, start: Lsn, end: Lsn) -> Range<usize> {
        let before = |lsn: Lsn| self.cells.partition_point(|cell| cell.start_lsn < lsn);
        before(start)..before(end)
    }

    /// All that these stretches have.
    pub fn window(&self, range: Range<usize>, names: Option<&RelationNames>) -> Window {
        let cells = self.cells.get(range).unwrap_or_default();
        let mut window = Window {
            range: cells.first().zip(cells.last()).map(|(first, last)| (first.start_lsn, last.end_lsn)),
            times: cells.first().zip(cells.last()).and_then(|(first, last)| first.from_time.zip(last.to_time)),
            ..Window::default()
        };
        let mut relations: FxHashMap<Key, RelationPart> = FxHashMap::default();
        let mut causes: FxHashMap<Key, Tally> = FxHashMap::default();
        for cell in cells {
            window.tally.add(&cell.tally);
            for (key, part) in &cell.relations {
                relations.entry(*key).and_modify(|own| own.append(part)).or_insert(*part);
            }
            for (key, tally) in &cell.causes {
                causes.entry(*key).or_default().add(tally);
            }
        }
        let rows = relations.into_iter().map(|(key, part)| {
            let name = if let Key::Relation(rel) = key { names.and_then(|names| names.get(rel)) } else { None };
            let (named, method) = (name.and_then(|name| name.kind), name.and_then(|name| name.access_method_oid));
            let kind = RelationKind::new(named, method, &part.activity);
            let likely_cause = LikelyCause::of(kind, &part.activity, part.distinct_blocks);
            WindowRelation { key, tally: part.tally, kind, likely_cause }
        });
        window.relations = rows.collect();
        window.relations.sort_unstable_by_key(|row| (std::cmp::Reverse(row.tally.fpi_bytes), row.key));
        window.causes = causes.into_iter().collect();
        window.causes.sort_unstable_by_key(|(key, tally)| (std::cmp::Reverse(tally.fpi_bytes), *key));
        window
    }
}

/// Cuts WAL into stretches, record by record.
#[derive(Debug)]
pub(crate) struct TimelineCounter {
    redo_points: Arc<[Lsn]>,
    segment_size: u32,
    /// Bytes of addresses of a stretch.
    stretch_bytes: u64,
    cells: Vec<TimelineCell>,
    open: Option<Open>,
    recent: RecentBlocks,
    now: Option<PgTimestamp>,
    rows: usize,
    kept_causes: usize,
}

#[derive(Debug)]
struct Open {
    cell: TimelineCell,
    at: (u64, usize),
    by_relation: Groups,
    by_cause: Groups,
    uses: RelationUses,
}

impl TimelineCounter {
    /// Nothing yet. `redo_points`: all, ascending. `total_bytes`: of all WAL.
    pub fn new(redo_points: Arc<[Lsn]>, segment_size: u32, total_bytes: u64) -> Self {
        let wanted = total_bytes.checked_div(STRETCHES).unwrap_or_default().max(MIN_STRETCH_BYTES);
        Self {
            redo_points,
            segment_size,
            stretch_bytes: wanted.checked_next_power_of_two().unwrap_or(wanted),
            cells: Vec::new(),
            open: None,
            recent: RecentBlocks::default(),
            now: None,
            rows: 0,
            kept_causes: 0,
        }
    }

    /// Counts a record whose images have these causes.
    pub fn add(&mut self, record: &Record<'_>, causes: &[Cause]) {
        let stretch = record.start_lsn.0.checked_div(self.stretch_bytes).unwrap_or_default();
        let at = (stretch, self.redo_points.partition_point(|redo| *redo <= record.start_lsn));
        if self.open.as_ref().is_some_and(|open| open.at != at) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open {
            cell: TimelineCell {
                start_lsn: record.start_lsn,
                end_lsn: record.end_lsn,
                tli: record.tli,
                redo_lsn: at.1.checked_sub(1).and_then(|index| self.redo_points.get(index)).copied(),
                from_time: self.now,
                to_time: self.now,
                tally: Tally::default(),
                image_causes: Some(Vec::new()),
                relations: FxHashMap::default(),
                causes: BTreeMap::new(),
            },
            at,
            by_relation: Groups::new(GroupBy::Relation.into(), self.segment_size, Arc::default()),
            by_cause: Groups::new(GroupBy::Cause.into(), self.segment_size, Arc::default()),
            uses: RelationUses::default(),
        });
        open.cell.end_lsn = record.end_lsn;
        open.cell.tally.add_record(record);
        open.by_relation.add_with_causes(record, causes);
        open.by_cause.add_with_causes(record, causes);
        open.uses.add(record, &mut self.recent);
        if let Some(kept) = &mut open.cell.image_causes {
            if self.kept_causes.saturating_add(causes.len()) > MAX_CAUSES {
                open.cell.image_causes = None;
            } else {
                kept.extend(causes.iter().map(|cause| *cause as u8));
                self.kept_causes = self.kept_causes.saturating_add(causes.len());
            }
        }
        if let Some(told) = record_time(record) {
            // Clocks can be set back: the latest time counts.
            self.now = Some(self.now.map_or(told, |now| now.max(told)));
            open.cell.from_time = open.cell.from_time.or(self.now);
            open.cell.to_time = self.now;
        }
    }

    fn close(&mut self) {
        let Some(Open { mut cell, by_relation, by_cause, uses, .. }) = self.open.take() else { return };
        self.recent.clear();
        let blocks = uses.distinct_blocks();
        for (key, tally) in by_relation.rows() {
            let rel = if let Key::Relation(rel) = key.first { Some(rel) } else { None };
            let activity = rel.map(|rel| uses.of(rel)).unwrap_or_default();
            let distinct_blocks = rel.and_then(|rel| blocks.get(&rel)).copied().unwrap_or_default();
            cell.relations.insert(key.first, RelationPart { tally, activity, distinct_blocks });
        }
        cell.causes = by_cause.rows().into_iter().map(|(key, tally)| (key.first, tally)).collect();
        self.rows = self.rows.saturating_add(cell.relations.len());
        self.cells.push(cell);
        if self.rows > MAX_ROWS {
            self.coarsen();
        }
    }

    /// Puts neighbours inside an interval together, two at a time, and cuts what follows into longer stretches.
    fn coarsen(&mut self) {
        self.stretch_bytes = self.stretch_bytes.saturating_mul(2);
        let mut kept: Vec<TimelineCell> = Vec::new();
        let number =
            |cell: &TimelineCell| (cell.start_lsn.0.checked_div(self.stretch_bytes).unwrap_or_default(), cell.redo_lsn);
        for cell in std::mem::take(&mut self.cells) {
            match kept.last_mut().filter(|last| number(last) == number(&cell)) {
                Some(last) => last.append(cell),
                None => kept.push(cell),
            }
        }
        self.rows = kept.iter().map(|cell| cell.relations.len()).sum();
        self.cells = kept;
    }

    pub fn finish(mut self) -> Timeline {
        self.close();
        Timeline { cells: self.cells }
    }
}
