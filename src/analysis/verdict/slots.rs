//! Every usable slot of the double write buffer by its page, and how each image stands to the page in the data file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::compare::{Comparison, compare_pages, same_but_checksum};
use crate::analysis::finding::Coverage;
use crate::analysis::page_check::PageCondition;
use crate::analysis::slot_facts::{SlotFacts, WritePath};
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::is_all_zero;
use crate::types::{ForkNumber, Lsn, PageId};

/// A usable slot: where it is and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRef {
    /// The page that it holds.
    pub page: PageId,
    /// LSN of the image.
    pub page_lsn: Lsn,
    /// Place of the file in the set.
    pub file: usize,
    /// Place of the slot in the file.
    pub index: u64,
    /// Stored number.
    pub slot_id: u32,
    /// LSN in the slot header.
    pub slot_lsn: Lsn,
    /// Who wrote it, as far as the image tells.
    pub path: Option<WritePath>,
    /// The layout's CRC proves the slot whole.
    pub is_verified: bool,
    /// How the image stands to the page on disk; set by [`compare_slots`].
    pub comparison: Option<Comparison>,
}

impl SlotRef {
    /// A slot whose content may be built upon and that names a page; `None` for others.
    #[must_use]
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
            is_verified: facts.condition == crate::analysis::slot_facts::Condition::Sound,
            comparison: None,
        })
    }
}

/// Why a page is looked at more closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// It fails its checks.
    Damaged,
    /// It is all zero, an image is not.
    Zeroed,
    /// The file ends inside it.
    Cut,
    /// The file ends before it.
    BeyondEnd,
    /// The relation has no file.
    MissingFile,
    /// An image is newer, yet from before the redo point: what it shows should have been on disk by then.
    LostWrite,
    /// It differs from an image, and there are no checksums to tell a torn page from another version.
    Differs,
}

/// How slots are compared.
#[derive(Clone, Copy, Debug)]
pub struct CompareRules {
    /// Bytes of a page.
    pub block_size: usize,
    /// Page checksums are enforced.
    pub checksums: bool,
    /// Where replay begins.
    pub redo_lsn: Option<Lsn>,
    /// Threads.
    pub jobs: usize,
}

/// What one thread found.
#[derive(Default)]
struct Share {
    suspects: Vec<(PageId, Suspicion)>,
    coverage: Coverage,
}

/// How long the progress is not told at most.
const PROGRESS_PAUSE: Duration = Duration::from_millis(50);

/// Compares every slot with its page on disk and reports pages that need a closer look. `slots` is sorted by page; each
/// thread takes a stretch of it, and the answer does not depend on their number.
pub fn compare_slots(
    set: &DwbSet,
    slots: &mut [SlotRef],
    pages: &dyn PageSource,
    rules: &CompareRules,
    coverage: &mut Coverage,
    mut progress: impl FnMut(u64) -> bool,
    mut suspect: impl FnMut(PageId, Suspicion),
) {
    let (compared, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let caller = std::thread::current();
    let go_on = |bytes| {
        compared.fetch_add(bytes, Ordering::Relaxed);
        !stop.load(Ordering::Relaxed)
    };
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for share in stretches(slots, rules.jobs) {
            let (own, caller, go_on) = (pages.another(), &caller, &go_on);
            workers.push(scope.spawn(move || {
                let found = compare_share(set, share, own.as_ref(), rules, go_on);
                caller.unpark();
                found
            }));
        }
        let mut told = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::park_timeout(PROGRESS_PAUSE);
            let now = compared.load(Ordering::Relaxed);
            if !progress(now - told) {
                stop.store(true, Ordering::Relaxed);
            }
            told = now;
        }
        for worker in workers {
            let Ok(mut found) = worker.join() else {
                coverage.skip("some slots", "the thread that compared them broke off");
                continue;
            };
            coverage.skipped.append(&mut found.coverage.skipped);
            found.suspects.into_iter().for_each(|(page, suspicion)| suspect(page, suspicion));
        }
    });
}

/// Cuts `slots` into at most `jobs` stretches of about the same length, never between two slots of one page.
fn stretches(slots: &mut [SlotRef], jobs: usize) -> Vec<&mut [SlotRef]> {
    let length = slots.len().div_ceil(jobs.clamp(1, 1024)).max(1);
    let mut stretches = Vec::new();
    let mut rest = slots;
    while !rest.is_empty() {
        let mut end = length.min(rest.len());
        while end < rest.len() && rest[end].page == rest[end - 1].page {
            end += 1;
        }
        let (stretch, behind) = rest.split_at_mut(end);
        stretches.push(stretch);
        rest = behind;
    }
    stretches
}

fn compare_share(
    set: &DwbSet,
    slots: &mut [SlotRef],
    pages: &dyn PageSource,
    rules: &CompareRules,
    go_on: &dyn Fn(u64) -> bool,
) -> Share {
    let mut found = Share::default();
    let mut disk = vec![0; rules.block_size];
    let mut slot_bytes = Vec::new();
    let mut unlogged = None;
    for group in slots.chunk_by_mut(|one, other| one.page == other.page) {
        let Some(page) = group.first().map(|slot| slot.page) else { continue };
        if unlogged.as_ref().is_none_or(|(rel, _)| *rel != page.rel) {
            // A file that cannot be looked at is said where its pages are read.
            unlogged = Some((page.rel, pages.has_fork(page.rel, ForkNumber::Init).unwrap_or(false)));
        }
        let is_unlogged = page.fork != ForkNumber::Init && unlogged.is_some_and(|(_, is)| is);
        let read = match pages.read_page(page, &mut disk) {
            Ok(read) => read,
            Err(error) => {
                found.coverage.skip(format!("{} {} block {}", page.rel, page.fork, page.block), error);
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
            // Torn or otherwise damaged: told when all images are known.
            found.suspects.push((page, Suspicion::Damaged));
            continue;
        }
        for slot in group.iter_mut() {
            let image = match set.files.get(slot.file).map(|file| file.read_slot(slot.index, &mut slot_bytes)) {
                Some(Ok(read)) => read.image,
                Some(Err(error)) => {
                    found.coverage.skip(set.files.get(slot.file).map_or("", |file| file.name.as_str()), error);
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
        let bytes = (group.len() * rules.block_size) as u64;
        if !go_on(bytes) {
            break;
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
