//! Facts about slots for searching and sorting, collected once: an answer to a key has no time for it.

use std::collections::BTreeMap;

use super::look::columns;
use super::query::slot_words;
use super::state::Column;
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::analysis::verdict::survey::PageReport;
use crate::types::{PageId, RelFileLocator};

/// The relations of slots, by number, and the slots of damaged pages.
#[derive(Clone, Debug, Default)]
pub struct SlotIndex {
    rels: Vec<RelFileLocator>,
    /// For each slot the place of its relation among them.
    rel_of: Vec<usize>,
    damaged: Vec<(usize, PageId)>,
    /// All slots by each column, smallest first; equal ones by position.
    orders: Vec<(Column, Vec<usize>)>,
}

/// Slots by a key, smallest first; equal ones by position.
fn sorted<K: Ord>(slots: &[SlotRow], key: impl Fn(&SlotRow) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_cached_key(|at| slots.get(*at).map(&key));
    order
}

impl SlotIndex {
    /// Builds the index of these slots and damaged pages, which are sorted.
    pub fn of(slots: &[SlotRow], pages: &[PageReport]) -> Self {
        let mut rels: Vec<RelFileLocator> = slots.iter().map(|row| row.rel).collect();
        rels.sort_unstable();
        rels.dedup();
        let rel_of = slots.iter().map(|row| rels.binary_search(&row.rel).unwrap_or(usize::MAX)).collect();
        let is_damaged = |page: &PageId| pages.binary_search_by_key(page, |report| report.page).is_ok();
        let orders = vec![
            (Column::Slot, (0..slots.len()).collect()),
            (Column::Page, sorted(slots, |row| (row.rel, row.fork, row.block))),
            (Column::PageLsn, sorted(slots, |row| row.page_lsn)),
            (Column::Condition, sorted(slots, |row| row.condition)),
            (Column::Batch, sorted(slots, |row| row.batch)),
            (Column::Disk, sorted(slots, |row| slot_words(row)[2])),
        ];
        let damaged = (0..).zip(slots).filter_map(|(at, row)| Some((at, row.page.filter(is_damaged)?))).collect();
        Self { rels, rel_of, damaged, orders }
    }

    pub(crate) fn rels_that(&self, fits: impl Fn(RelFileLocator) -> bool) -> Vec<bool> {
        self.rels.iter().map(|rel| fits(*rel)).collect()
    }

    /// All slots by a column, smallest first.
    pub fn by(&self, column: Column) -> &[usize] {
        self.orders.iter().find(|(one, _)| *one == column).map_or(&[], |(_, order)| order)
    }

    pub fn rel(&self, slot: usize) -> usize {
        self.rel_of.get(slot).copied().unwrap_or(usize::MAX)
    }

    pub fn damaged(&self) -> &[(usize, PageId)] {
        &self.damaged
    }

    /// Columns of the longest name that a relation of these slots has; of its numbers, where it has none.
    pub(crate) fn name_columns(&self, slots: &[usize], names: &BTreeMap<RelFileLocator, String>) -> usize {
        let mut is_seen = vec![false; self.rels.len()];
        for slot in slots {
            if let Some(seen) = is_seen.get_mut(self.rel(*slot)) {
                *seen = true;
            }
        }
        let seen = self.rels.iter().zip(is_seen).filter(|(_, is_seen)| *is_seen).map(|(rel, _)| rel);
        let of = |rel: &RelFileLocator| names.get(rel).map_or_else(|| columns(&rel.to_string()), |name| columns(name));
        seen.map(of).max().unwrap_or(0)
    }
}
