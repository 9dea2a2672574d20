//! Batches: what was written into the DWB between two resets, as far as they can be distinguished.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use strum::IntoStaticStr;

use super::slot_facts::{SlotFacts, WritePath};
use super::staleness::{BatchReason, BatchVerdict, Confidence, Staleness};
use super::trace::{ClusterFacts, trace_file};
use crate::analysis::skipped::Coverage;
use crate::cluster::dwb_files::DwbSet;
use crate::types::{Lsn, RelFileLocator};

/// One batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Verdict of its slots.
    pub verdict: BatchVerdict,
    /// Reasons of its slots, with how many have each.
    pub reasons: BTreeMap<BatchReason, u64>,
    /// How sure it is that these slots are one batch with this verdict.
    pub confidence: Confidence,
    /// First slot: file (index in the set) and slot index.
    pub first: (usize, u64),
    /// Last slot.
    pub last: (usize, u64),
    /// Slots.
    pub slots: u64,
    /// Lowest LSN of a slot that has one.
    pub lowest_lsn: Lsn,
    /// Highest.
    pub highest_lsn: Lsn,
    /// Relations, with slots of each.
    pub relations: BTreeMap<RelFileLocator, u64>,
    /// Slots that an eviction wrote.
    pub from_eviction: u64,
    /// Slots that a checkpoint wrote.
    pub from_checkpoint: u64,
    /// Longest run of slots that a checkpoint wrote.
    pub longest_checkpoint_run: u64,
    /// Longest run of slots that ascend by relation and block: a checkpoint writes in that order, but so does a load.
    pub longest_ascending_run: u64,
}

/// Key of a batch: verdict, then the part within it.
type BatchKey = (BatchVerdict, usize);

/// Finds the batches and describes each. Reads every slot again, with `jobs` threads. `None` when `watch`, called at each
/// slot, interrupted.
pub(crate) fn find_batches(
    set: &DwbSet,
    staleness: &Staleness,
    cluster: &ClusterFacts,
    jobs: usize,
    coverage: &mut Coverage,
    watch: &dyn Fn() -> ControlFlow<()>,
) -> Option<Vec<Batch>> {
    let parts = staleness.split();
    let mut is_wanted = true;
    let mut batches: BTreeMap<BatchKey, (Batch, Run)> = BTreeMap::new();
    for (file_index, file) in set.files.iter().enumerate() {
        trace_file(file, cluster, jobs, coverage, |facts| {
            is_wanted = is_wanted && watch().is_continue();
            if !is_wanted {
                return ControlFlow::Break(());
            }
            let Some((verdict, reason)) = staleness.verdict(file_index, facts.index) else {
                return ControlFlow::Continue(());
            };
            if reason == BatchReason::Unreliable {
                return ControlFlow::Continue(());
            }
            let at = usize::try_from(facts.index).unwrap_or(usize::MAX);
            let part = parts.get(file_index).and_then(|parts| parts.get(at)).copied().unwrap_or_default();
            let slot = (file_index, facts.index);
            let (batch, run) = batches
                .entry((verdict, part.number))
                .or_insert_with(|| (Batch::new(verdict, slot, part.confidence), Run::default()));
            batch.add(slot, reason, facts, cluster.lowest_wal_lsn);
            run.add(batch, facts);
            ControlFlow::Continue(())
        });
        if !is_wanted {
            return None;
        }
    }
    let mut batches: Vec<Batch> = batches.into_values().map(|(batch, _)| batch).collect();
    batches.sort_by_key(|batch| (batch.verdict, batch.first));
    Some(batches)
}

/// Who wrote the images of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BatchWriter {
    /// A checkpoint.
    Checkpoint,
    /// Evictions.
    Eviction,
    /// Both.
    Mixed,
    /// Unknown: images without checksums do not show it.
    Unknown,
}

impl BatchWriter {
    /// Stable name for programs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Batch {
    /// Who wrote it.
    pub const fn writer(&self) -> BatchWriter {
        match (self.from_checkpoint, self.from_eviction) {
            (0, 0) => BatchWriter::Unknown,
            (0, _) => BatchWriter::Eviction,
            (_, 0) => BatchWriter::Checkpoint,
            _ => BatchWriter::Mixed,
        }
    }

    /// The relations with the most slots, at most `count`, the largest first.
    pub(crate) fn top_relations(&self, count: usize) -> Vec<RelFileLocator> {
        let mut relations: Vec<_> = self.relations.iter().collect();
        relations.sort_by_key(|(rel, slots)| (std::cmp::Reverse(**slots), **rel));
        relations.into_iter().take(count).map(|(rel, _)| *rel).collect()
    }

    fn new(verdict: BatchVerdict, slot: (usize, u64), confidence: Confidence) -> Self {
        Self {
            verdict,
            reasons: BTreeMap::new(),
            confidence,
            first: slot,
            last: slot,
            slots: 0,
            lowest_lsn: Lsn::INVALID,
            highest_lsn: Lsn::INVALID,
            relations: BTreeMap::new(),
            from_eviction: 0,
            from_checkpoint: 0,
            longest_checkpoint_run: 0,
            longest_ascending_run: 0,
        }
    }

    fn add(&mut self, slot: (usize, u64), reason: BatchReason, facts: &SlotFacts, lowest_wal_lsn: Lsn) {
        let count = self.reasons.entry(reason).or_default();
        *count = count.saturating_add(1);
        self.confidence = self.confidence.min(match self.verdict {
            BatchVerdict::Undecided => self.confidence,
            _ => reason.confidence(),
        });
        self.last = slot;
        self.slots = self.slots.saturating_add(1);
        let lsn = facts.newest_lsn();
        if lsn >= lowest_wal_lsn {
            self.lowest_lsn = if self.lowest_lsn.is_valid() { self.lowest_lsn.min(lsn) } else { lsn };
            self.highest_lsn = self.highest_lsn.max(lsn);
        }
        let count = self.relations.entry(facts.header.rel).or_default();
        *count = count.saturating_add(1);
    }
}

/// Key by which a checkpoint sorts the pages that it writes; the database is not part of it.
type SortKey = (u32, u32, i32, u32);

#[derive(Debug, Default)]
struct Run {
    checkpoint: u64,
    ascending: u64,
    last_key: Option<SortKey>,
}

impl Run {
    fn add(&mut self, batch: &mut Batch, facts: &SlotFacts) {
        let rel = facts.header.rel;
        let key = (rel.spc_oid, rel.rel_number, facts.header.fork_code, facts.header.block);
        self.ascending =
            if self.last_key.is_some_and(|last| last < key) { self.ascending.saturating_add(1) } else { 1 };
        self.last_key = Some(key);
        batch.longest_ascending_run = batch.longest_ascending_run.max(self.ascending);
        match facts.path {
            Some(WritePath::Checkpoint) => {
                batch.from_checkpoint = batch.from_checkpoint.saturating_add(1);
                self.checkpoint = self.checkpoint.saturating_add(1);
                batch.longest_checkpoint_run = batch.longest_checkpoint_run.max(self.checkpoint);
            }
            Some(WritePath::Eviction) => {
                batch.from_eviction = batch.from_eviction.saturating_add(1);
                self.checkpoint = 0;
            }
            Some(WritePath::Locked) | None => {}
        }
    }
}
