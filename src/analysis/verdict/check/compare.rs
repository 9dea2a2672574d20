//! First stage: every slot of the double write buffer is compared with its page.

use std::collections::BTreeMap;

use super::input::{ClusterInput, DwbInput, Scope};
use super::progress::{CheckProgress, Stage};
use crate::analysis::coverage::Coverage;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::slot_facts::WritePath;
use crate::analysis::verdict::doubt::LsnWitness;
use crate::analysis::verdict::slots::{CompareRules, SlotRef, Suspicion, compare_slots};
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::PageSource;
use crate::types::{ForkNumber, Lsn, PageId};

/// Slots compared with pages.
pub(super) struct Compared {
    /// The slots of the pages that are judged, compared, by page.
    pub(super) slots: Vec<SlotRef>,
    pub(super) suspects: BTreeMap<PageId, Suspicion>,
    /// The newest LSN of a whole image that was copied under its lock, and its slot.
    pub(super) newest_written: Option<(Lsn, LsnWitness)>,
    pub(super) coverage: Coverage,
}

/// Compares the slots of all pages in `scope`. `suspects` is what was found before: it says more than "differs".
pub(super) fn compare(
    dwb: DwbInput<'_>,
    mut suspects: BTreeMap<PageId, Suspicion>,
    scope: Scope,
    cluster: &ClusterInput<'_>,
    jobs: usize,
    progress: &CheckProgress<'_>,
) -> Compared {
    let mut coverage = Coverage::default();
    let mut slots = dwb.slots;
    let newest_written = newest_written(dwb.set, &slots, cluster.pages, &mut coverage);
    slots.retain(|slot| scope.takes(slot.page));
    let rules = CompareRules {
        block_size: cluster.block_size,
        checksums: cluster.has_checksums,
        redo_lsn: cluster.replay.redo_lsn,
        jobs,
    };
    let mut compared = 0_u64;
    let watch = |bytes| {
        compared = compared.saturating_add(bytes);
        progress.at(Stage::Slots, compared).is_continue()
    };
    compare_slots(dwb.set, &mut slots, cluster.pages, &rules, &mut coverage, watch, |page, suspicion| {
        suspects.entry(page).or_insert(suspicion);
    });
    Compared { slots, suspects, newest_written, coverage }
}

/// The newest LSN of a whole image that was copied under its lock, and its slot: a server writes WAL up to the LSN of a
/// page before it gives the page out. Relations that are not logged count changes of their own.
fn newest_written(
    set: &DwbSet,
    slots: &[SlotRef],
    pages: &dyn PageSource,
    coverage: &mut Coverage,
) -> Option<(Lsn, LsnWitness)> {
    let is_witness = |slot: &&SlotRef| {
        let mut is_logged = || {
            let has_init = pages.has_fork(slot.page.rel, ForkNumber::Init).unwrap_or_else(|error| {
                coverage.skip_once(SkippedPart::InitFork(slot.page.rel), error);
                true
            });
            slot.page.fork == ForkNumber::Init || !has_init
        };
        // Its own checksum is right, so its LSN is too, whatever the slot's CRC is worth.
        slot.path.is_some_and(WritePath::is_locked) && is_logged()
    };
    let mut slots: Vec<&SlotRef> = slots.iter().collect();
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.page_lsn));
    let newest = slots.into_iter().find(is_witness)?;
    let file = set.files.get(newest.file).map_or_else(String::new, |file| file.name.clone());
    Some((newest.page_lsn, LsnWitness::Slot { file, slot_index: newest.index }))
}
