//! The slots and entries that name each page, in the order in which a server meets them, and groups of slots.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::slot::{SlotAge, SlotFacts, read_slots};
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::cluster::open::AccessError;
use crate::parsers::innodb::layout::{DetectBlock, LEGACY_BATCH_SLOTS, MAX_SEGMENTS, SlotPart, is_filled_in_turn};
use crate::parsers::innodb::page_check::PageState;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

/// Number of the flush list, as what wrote the pages of a block.
const FLUSH_LIST: u8 = 1;

/// A page that an entry without an image names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFacts {
    pub file: usize,
    pub block: u64,
    pub index: usize,
    pub segment: u32,
    /// 0 LRU, 1 flush list.
    pub flush_type: u8,
    pub is_sound: bool,
    pub page: InnodbPageId,
    pub lsn: InnodbLsn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    pub all: u64,
    pub empty: u64,
    pub sound: u64,
    pub damaged: u64,
    pub unverifiable: u64,
    pub since_checkpoint: u64,
}

impl SlotCounts {
    fn add(&mut self, facts: Option<&SlotFacts>, checkpoint: Option<InnodbLsn>) {
        let count = |field: &mut u64| *field = field.saturating_add(1);
        count(&mut self.all);
        match facts.map(|facts| facts.state) {
            None | Some(PageState::Empty) => count(&mut self.empty),
            Some(PageState::Sound(_)) => count(&mut self.sound),
            Some(PageState::Damaged(_)) => count(&mut self.damaged),
            Some(PageState::Unverifiable(_)) => count(&mut self.unverifiable),
        }
        if facts.is_some_and(|facts| facts.age(checkpoint) == SlotAge::Current) {
            count(&mut self.since_checkpoint);
        }
    }
}

/// Used slots of one file, part and age: nothing marks where a batch of InnoDB begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbBatch {
    pub file: usize,
    pub part: SlotPart,
    pub age: SlotAge,
    pub first: u64,
    pub last: u64,
    pub slots: u64,
    pub runs: u64,
    pub lowest_lsn: InnodbLsn,
    pub highest_lsn: InnodbLsn,
    pub spaces: BTreeMap<u32, u64>,
}

#[derive(Debug, Default)]
pub struct BufferContent {
    pub slots: Vec<SlotFacts>,
    pub entries: Vec<EntryFacts>,
    pub counts: Vec<SlotCounts>,
    /// Blocks of entries with a wrong checksum: file, and offset in it.
    pub damaged_blocks: Vec<(String, u64)>,
    /// Every slot and entry was read that the server has, as far as anything shows it.
    pub is_complete: bool,
    /// Numbers of pages that whole images hold whose tablespace cannot be told.
    pub unnamed: BTreeSet<u32>,
    /// Numbers of pages that whole encrypted images hold whose tablespace cannot be told.
    pub encrypted: BTreeSet<u32>,
    by_page: BTreeMap<InnodbPageId, Vec<usize>>,
    entries_by_page: BTreeMap<InnodbPageId, Vec<usize>>,
}

impl BufferContent {
    /// Reads the whole buffer with this number of threads, until `watch` interrupts.
    pub fn read(
        doublewrite: &Doublewrite,
        spaces: &Tablespaces,
        checkpoint: Option<InnodbLsn>,
        jobs: usize,
        coverage: &mut Coverage,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Self {
        let mut content = Self { counts: vec![SlotCounts::default(); doublewrite.files.len()], ..Self::default() };
        let skipped_before = coverage.skipped.len();
        let mut is_wanted = true;
        read_slots(doublewrite, spaces, jobs, coverage, |facts, (file, _)| {
            is_wanted = watch().is_continue();
            if !is_wanted {
                return ControlFlow::Break(());
            }
            if let Some(counts) = content.counts.get_mut(file) {
                counts.add(facts.as_ref(), checkpoint);
            }
            if let Some(facts) = facts {
                if let Some(page) = facts.page() {
                    content.by_page.entry(page).or_default().push(content.slots.len());
                } else if facts.is_encrypted() && facts.state.is_sound() {
                    content.encrypted.insert(facts.page_no);
                } else if facts.state.is_sound() {
                    content.unnamed.insert(facts.page_no);
                }
                content.slots.push(facts);
            }
            ControlFlow::Continue(())
        });
        if is_wanted {
            content.read_entries(doublewrite, coverage);
        } else {
            coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
        }
        if is_wanted && (content.has_zeros_before_images(doublewrite) || content.has_emptied_file(doublewrite)) {
            coverage.skip(SkippedPart::DoubleWriteBuffer, SkipReason::SlotsOfZeros);
        }
        content.is_complete = doublewrite.is_complete()
            && !content.are_blocks_lost(doublewrite)
            && coverage.skipped.len() == skipped_before;
        content
    }

    /// True when slots are all zero that a server writes before others that are not.
    fn has_zeros_before_images(&self, doublewrite: &Doublewrite) -> bool {
        doublewrite.files.iter().enumerate().any(|(number, file)| {
            let of_file = self.slots.iter().filter(|slot| slot.slot.0 == number);
            let used: Vec<u64> = of_file.map(|slot| slot.slot.1).collect();
            match (&doublewrite.layout, file.batch_slots) {
                (DoublewriteLayout::Legacy(_), _) => !is_filled_in_turn(&used, LEGACY_BATCH_SLOTS, LEGACY_BATCH_SLOTS),
                // In a single file segments of both kinds of batches take turns, and one kind may not have been used.
                (DoublewriteLayout::Files, Some(batch)) if doublewrite.files.len() > 1 => {
                    !is_filled_in_turn(&used, batch, batch.div_ceil(MAX_SEGMENTS))
                }
                _ => false,
            }
        })
    }

    /// True when a file of flush list batches is all zero while another file is in use. Servers flush from that list from the first write
    /// on; a file of LRU batches, of an odd number, stays as it was made, all zero, until the buffer pool is full.
    /// Source: `Double_write::create_v2`, `storage/innobase/buf/buf0dblwr.cc`; seen in MySQL 9.7.4.
    fn has_emptied_file(&self, doublewrite: &Doublewrite) -> bool {
        let is_used = |counts: &SlotCounts| counts.empty < counts.all;
        let mut files = doublewrite.files.iter().zip(&self.counts);
        self.counts.iter().any(is_used) && files.any(|(file, counts)| !is_used(counts) && file.number.is_multiple_of(2))
    }

    /// True when a block of LRU batches is in the second half of its file, or one of the flush list in the first: the file had more.
    fn are_blocks_lost(&self, doublewrite: &Doublewrite) -> bool {
        let is_second = |entry: &EntryFacts| {
            let blocks = doublewrite.entries.get(entry.file).map_or(0, |file| file.blocks);
            entry.block.saturating_mul(2) >= blocks
        };
        self.entries.iter().any(|entry| entry.is_sound && is_second(entry) != (entry.flush_type == FLUSH_LIST))
    }

    fn read_entries(&mut self, doublewrite: &Doublewrite, coverage: &mut Coverage) {
        for (number, file) in doublewrite.entries.iter().enumerate() {
            let read = (0..file.blocks).try_for_each(|block| {
                let found = file.block(block)?;
                found.into_iter().for_each(|found| self.add_block((number, &file.name), block, &found));
                Ok::<(), AccessError>(())
            });
            if let Err(error) = read {
                coverage.skip(SkippedPart::file(&file.name), error);
            }
        }
    }

    fn add_block(&mut self, (file, name): (usize, &str), block: u64, found: &DetectBlock) {
        let DetectBlock { segment, flush_type, is_sound, .. } = *found;
        if !is_sound {
            let offset = block.saturating_mul(DetectBlock::SIZE as u64);
            self.damaged_blocks.push((name.to_owned(), offset));
        }
        for (index, (page, lsn)) in found.entries.iter().copied().enumerate() {
            self.entries_by_page.entry(page).or_default().push(self.entries.len());
            self.entries.push(EntryFacts { file, block, index, segment, flush_type, is_sound, page, lsn });
        }
    }

    /// The highest LSN of a whole image, or of an entry in a whole block.
    pub(crate) fn newest_lsn(&self) -> Option<InnodbLsn> {
        let slots = self.slots.iter().filter(|slot| slot.state.is_sound()).map(|slot| slot.lsn);
        slots.chain(self.entries.iter().filter(|entry| entry.is_sound).map(|entry| entry.lsn)).max()
    }

    /// The slots that name a page, whole or not, in the order of files and slots.
    pub fn slots_of(&self, page: InnodbPageId) -> impl Iterator<Item = &SlotFacts> {
        self.by_page.get(&page).into_iter().flatten().filter_map(|index| self.slots.get(*index))
    }

    pub(crate) fn entries_of(&self, page: InnodbPageId) -> impl Iterator<Item = &EntryFacts> {
        self.entries_by_page.get(&page).into_iter().flatten().filter_map(|index| self.entries.get(*index))
    }

    pub(crate) fn has_older(&self, page: InnodbPageId, lsn: InnodbLsn) -> bool {
        self.slots_of(page).any(|slot| slot.state.is_sound() && slot.lsn < lsn)
    }

    pub fn names(&self, page: InnodbPageId) -> bool {
        self.by_page.contains_key(&page) || self.entries_by_page.contains_key(&page)
    }

    pub fn pages(&self) -> Vec<InnodbPageId> {
        let mut pages: Vec<InnodbPageId> = self.by_page.keys().chain(self.entries_by_page.keys()).copied().collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    pub fn batches(&self, checkpoint: Option<InnodbLsn>) -> Vec<InnodbBatch> {
        let mut groups: BTreeMap<(usize, SlotPart, SlotAge), InnodbBatch> = BTreeMap::new();
        for facts in &self.slots {
            let (file, index) = facts.slot;
            let age = facts.age(checkpoint);
            let batch = groups.entry((file, facts.part, age)).or_insert_with(|| InnodbBatch {
                file,
                part: facts.part,
                age,
                first: index,
                last: index,
                slots: 0,
                runs: 1,
                lowest_lsn: facts.lsn,
                highest_lsn: facts.lsn,
                spaces: BTreeMap::new(),
            });
            batch.runs = batch.runs.saturating_add(u64::from(index > batch.last.saturating_add(1)));
            batch.last = index;
            batch.slots = batch.slots.saturating_add(1);
            batch.lowest_lsn = batch.lowest_lsn.min(facts.lsn);
            batch.highest_lsn = batch.highest_lsn.max(facts.lsn);
            if let Some(space) = facts.space_id {
                let count = batch.spaces.entry(space).or_default();
                *count = count.saturating_add(1);
            }
        }
        groups.into_values().collect()
    }
}
