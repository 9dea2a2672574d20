//! A slot as one row of a long table: small, and without its image.

use super::slot_facts::{Condition, PageChecksum, SlotFacts, WritePath};
use super::staleness::{BatchReason, BatchVerdict, Staleness};
use super::verdict::compare::Comparison;
use super::verdict::slots::SlotRef;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// A slot, used or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Index of the file in the set.
    pub file: usize,
    /// Index of the slot in the file.
    pub index: u64,
    /// Stored number.
    pub slot_id: u32,
    /// Stored relation.
    pub rel: RelFileLocator,
    /// Stored fork; `None` for a code that no fork has.
    pub fork: Option<ForkNumber>,
    /// Stored block.
    pub block: BlockNumber,
    /// LSN in the slot header.
    pub slot_lsn: Lsn,
    /// LSN in the image.
    pub page_lsn: Lsn,
    /// Whether it holds what was written.
    pub condition: Condition,
    /// Result of checking the image's checksum.
    pub page_checksum: Option<PageChecksum>,
    /// Who wrote it.
    pub path: Option<WritePath>,
    /// The page, where the slot may be built upon.
    pub page: Option<PageId>,
    /// Whether it was written since the last checkpoint.
    pub batch: Option<(BatchVerdict, BatchReason)>,
    /// How its image stands to the page on disk.
    pub comparison: Option<Comparison>,
}

impl SlotRow {
    /// The row of a slot; batch and comparison come later.
    pub fn of(file: usize, facts: &SlotFacts) -> Self {
        Self {
            file,
            index: facts.index,
            slot_id: facts.header.slot_id,
            rel: facts.header.rel,
            fork: facts.header.fork(),
            block: facts.header.block,
            slot_lsn: facts.header.lsn,
            page_lsn: facts.page.lsn,
            condition: facts.condition,
            page_checksum: facts.page_checksum,
            path: facts.path,
            page: facts.header.page_id().filter(|_| facts.is_usable()),
            batch: None,
            comparison: None,
        }
    }
}

/// Fills in what is known only when everything was examined. `rows` is in the order of file and slot index.
pub(crate) fn fill_in_verdicts(rows: &mut [SlotRow], staleness: &Staleness, compared: &[SlotRef]) {
    for row in rows.iter_mut().filter(|row| row.condition != Condition::Empty) {
        row.batch = staleness.verdict(row.file, row.index);
    }
    for slot in compared {
        if let Ok(at) = rows.binary_search_by_key(&(slot.file, slot.index), |row| (row.file, row.index))
            && let Some(row) = rows.get_mut(at)
        {
            row.comparison = slot.comparison;
        }
    }
}
