//! Every usable slot of the double write buffer by its page, and how each image stands to the page in the data file.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use super::compare::{Comparison, compare_pages, digest_but_checksum, same_but_checksum};
use crate::analysis::changes::needed::Suspicion;
use crate::analysis::dwb::slot_facts::{SlotFacts, WritePath};
use crate::analysis::in_order::in_order;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::is_all_zero;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// A usable slot: where it is and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRef {
    /// The page that it holds.
    pub page: PageId,
    /// LSN of the image.
    pub page_lsn: Lsn,
    /// Index of the file in the set.
    pub file: usize,
    /// Index of the slot in the file.
    pub index: u64,
    /// Stored number.
    pub slot_id: u32,
    /// LSN in the slot header.
    pub slot_lsn: Lsn,
    /// Who wrote it, as far as the image shows.
    pub path: Option<WritePath>,
    /// The layout's CRC proves the slot whole.
    pub is_verified: bool,
    /// `digest_but_checksum` of the image.
    pub digest: u64,
    /// How the image stands to the page on disk; set by `Unchanged::note` and `compare_slots`.
    pub comparison: Option<Comparison>,
}

impl SlotRef {
    /// A slot whose content may be built upon and that names a page; `None` for others.
    pub fn of(file: usize, facts: &SlotFacts) -> Option<Self> {
        let page = facts.header.page_id().filter(|_| facts.is_usable())?;
        Some(Self {
            page,
            page_lsn: facts.page.lsn,
            file,
            index: facts.index,
            slot_id: facts.header.slot_id,
            slot_lsn: facts.header.lsn,
            path: facts.path,
            is_verified: facts.condition == crate::analysis::dwb::slot_facts::Condition::Sound,
            digest: facts.digest,
            comparison: None,
        })
    }
}

/// The slots of one page, in a list sorted by page.
pub fn slots_of(slots: &[SlotRef], page: PageId) -> &[SlotRef] {
    let first = slots.partition_point(|slot| slot.page < page);
    let count = slots.get(first..).unwrap_or_default().partition_point(|slot| slot.page == page);
    slots.get(first..first.saturating_add(count)).unwrap_or_default()
}

/// The slots of one fork: what every page of it is looked up in.
struct ForkSlots {
    /// Index of its first slot.
    first: usize,
    blocks: Vec<BlockNumber>,
    present: RoaringBitmap,
}

/// Finds, while all pages are read for other reasons, which slots hold their page as it stands on disk.
pub(crate) struct Unchanged<'a> {
    slots: &'a [SlotRef],
    forks: FxHashMap<(RelFileLocator, ForkNumber), ForkSlots>,
    is_same: Vec<AtomicBool>,
}

impl<'a> Unchanged<'a> {
    /// Looks for the pages of `slots`, which are sorted.
    pub fn new(slots: &'a [SlotRef]) -> Self {
        let mut forks: FxHashMap<_, ForkSlots> = FxHashMap::default();
        for (index, slot) in slots.iter().enumerate() {
            let fork = (slot.page.rel, slot.page.fork);
            let empty = || ForkSlots { first: index, blocks: Vec::new(), present: RoaringBitmap::new() };
            let own = forks.entry(fork).or_insert_with(empty);
            own.blocks.push(slot.page.block);
            own.present.insert(slot.page.block);
        }
        Self { slots, forks, is_same: slots.iter().map(|_| AtomicBool::new(false)).collect() }
    }

    /// Compares a sound page, as it was read, with the slots that hold it.
    pub fn look(&self, page: PageId, bytes: &[u8]) {
        let Some(fork) = self.forks.get(&(page.rel, page.fork)) else { return };
        if !fork.present.contains(page.block) {
            return;
        }
        let at = fork.blocks.partition_point(|block| *block < page.block);
        let digest = digest_but_checksum(bytes);
        let own = self.slots.iter().zip(&self.is_same).skip(fork.first.saturating_add(at));
        for (slot, is_same) in own.take_while(|(slot, _)| slot.page == page) {
            is_same.store(digest == slot.digest, Ordering::Relaxed);
        }
    }

    /// Whether each slot holds its page as it was read.
    pub fn finish(self) -> Vec<bool> {
        self.is_same.into_iter().map(AtomicBool::into_inner).collect()
    }

    /// Writes what was found into the slots that were looked for.
    pub fn note(slots: &mut [SlotRef], is_same: &[bool]) {
        for (slot, _) in slots.iter_mut().zip(is_same).filter(|(_, is_same)| **is_same) {
            slot.comparison = Some(Comparison::Identical);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CompareRules {
    /// Bytes of a page.
    pub block_size: usize,
    pub checksums: bool,
    /// Where replay begins.
    pub redo_lsn: Option<Lsn>,
    pub jobs: usize,
}

/// Slots that a thread takes at once, and those of the last page further on.
const PORTION_SLOTS: usize = 256;

#[derive(Default)]
struct ComparedPortion {
    suspects: Vec<(PageId, Suspicion)>,
    coverage: Coverage,
    bytes: u64,
}

/// Compares every slot with its page on disk and reports pages that need a closer look. `slots` is sorted by page; those
/// that are known to be identical are not read again.
pub(crate) fn compare_slots(
    set: &DwbSet,
    slots: &mut [SlotRef],
    pages: &dyn PageSource,
    rules: &CompareRules,
    coverage: &mut Coverage,
    mut progress: impl FnMut(u64) -> bool,
    mut suspect: impl FnMut(PageId, Suspicion),
) {
    let jobs = rules.jobs.clamp(1, slots.len().div_ceil(PORTION_SLOTS).clamp(1, 1024));
    let worker = || {
        let own = pages.another();
        move |portion: &mut [SlotRef]| compare_portion(set, portion, own.as_ref(), rules)
    };
    in_order(portions(slots), (0..jobs).map(|_| worker()).collect(), |mut found| {
        coverage.append_once(std::mem::take(&mut found.coverage));
        found.suspects.into_iter().for_each(|(page, suspicion)| suspect(page, suspicion));
        if progress(found.bytes) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
}

/// Cuts `slots` into portions, never between two slots of one page.
fn portions(slots: &mut [SlotRef]) -> impl Iterator<Item = &mut [SlotRef]> {
    let mut rest = slots;
    std::iter::from_fn(move || {
        let mut end = PORTION_SLOTS.min(rest.len());
        while end < rest.len() && rest[end].page == rest[end.saturating_sub(1)].page {
            end = end.saturating_add(1);
        }
        let (portion, after) = std::mem::take(&mut rest).split_at_mut(end);
        rest = after;
        (!portion.is_empty()).then_some(portion)
    })
}

fn compare_portion(
    set: &DwbSet,
    slots: &mut [SlotRef],
    pages: &dyn PageSource,
    rules: &CompareRules,
) -> ComparedPortion {
    let mut found =
        ComparedPortion { bytes: slots.len().saturating_mul(rules.block_size) as u64, ..ComparedPortion::default() };
    let mut disk = vec![0; rules.block_size];
    let mut slot_bytes = Vec::new();
    let mut unlogged = None;
    for group in slots.chunk_by_mut(|one, other| one.page == other.page) {
        let Some(page) = group.first().map(|slot| slot.page) else { continue };
        if group.iter().all(|slot| slot.comparison == Some(Comparison::Identical)) {
            continue;
        }
        if unlogged.as_ref().is_none_or(|(rel, _)| *rel != page.rel) {
            let has_init = pages.has_fork(page.rel, ForkNumber::Init).unwrap_or_else(|error| {
                found.coverage.skip_once(SkippedPart::InitFork(page.rel), error);
                false
            });
            unlogged = Some((page.rel, has_init));
        }
        let is_unlogged = page.fork != ForkNumber::Init && unlogged.is_some_and(|(_, is)| is);
        let read = match pages.read_page(page, &mut disk) {
            Ok(read) => read,
            Err(error) => {
                found.coverage.skip(page, error);
                continue;
            }
        };
        let whole = match read {
            PageRead::Whole => None,
            PageRead::Partial { .. } => Some((Comparison::Torn, Suspicion::Cut)),
            PageRead::BeyondEnd => Some((Comparison::BeyondEnd, Suspicion::BeyondEnd)),
            PageRead::NoFile => Some((Comparison::MissingFile, Suspicion::MissingFile)),
        };
        if let Some((comparison, suspicion)) = whole {
            group.iter_mut().for_each(|slot| slot.comparison = Some(comparison));
            if !(is_unlogged && suspicion == Suspicion::BeyondEnd) {
                found.suspects.push((page, suspicion));
            }
            continue;
        }
        let condition = PageCondition::of(&disk, page.fork, page.block, rules.checksums);
        if matches!(condition, PageCondition::Damaged(_)) {
            // Torn or otherwise damaged: judged when all images are known.
            found.suspects.push((page, Suspicion::Damaged));
            continue;
        }
        for slot in group.iter_mut() {
            let image = match set.files.get(slot.file).map(|file| file.read_slot(slot.index, &mut slot_bytes)) {
                Some(Ok(read)) => read.image,
                Some(Err(error)) => {
                    found
                        .coverage
                        .skip(SkippedPart::file(set.files.get(slot.file).map_or("", |file| file.name.as_str())), error);
                    continue;
                }
                None => continue,
            };
            if image.len() != disk.len() {
                continue;
            }
            let (comparison, suspicion) = compare_one(&disk, image, slot, &condition, is_unlogged, rules);
            slot.comparison = Some(comparison);
            if let Some(suspicion) = suspicion {
                found.suspects.push((page, suspicion));
            }
        }
    }
    found
}

fn compare_one(
    disk: &[u8],
    image: &[u8],
    slot: &SlotRef,
    condition: &PageCondition,
    is_unlogged: bool,
    rules: &CompareRules,
) -> (Comparison, Option<Suspicion>) {
    if same_but_checksum(disk, image) {
        return (Comparison::Identical, None);
    }
    if is_unlogged {
        return (Comparison::Unlogged, None);
    }
    if *condition == PageCondition::Zeroed {
        return (Comparison::Zeroed, Some(Suspicion::Zeroed));
    }
    if is_all_zero(image) {
        return (Comparison::DiskNewer, None);
    }
    let comparison = compare_pages(disk, image, slot.page.fork);
    let is_map = matches!(slot.page.fork, ForkNumber::Fsm | ForkNumber::Vm);
    let suspicion = match comparison {
        Some(Comparison::DiskOlder) if !is_map && rules.redo_lsn.is_some_and(|redo| slot.page_lsn <= redo) => {
            Some(Suspicion::LostWrite)
        }
        Some(Comparison::HintBitsOnly) => None,
        _ if !rules.checksums && !is_map => Some(Suspicion::Differs),
        _ => None,
    };
    // The same LSN and a right checksum: the image was copied while the page was being changed.
    (comparison.unwrap_or(Comparison::DiskNewer), suspicion)
}
