//! The double write buffer as a ring: what each slot is worth on a map of it, and in which order slots were written.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::facts::ListedBatch;
use crate::analysis::dwb::slot_facts::{Condition, SlotRow};
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::types::PageId;

/// Marks of a slot, from the least to the most important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Never written.
    Empty,
    Sound,
    Fails,
    Damaged(Verdict),
}

/// All slots in the order of their files.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// The batch of each slot, as an index into the batches of the survey.
    pub batches: Vec<Option<usize>>,
    pub marks: Vec<Mark>,
    /// The slots that were written, the oldest first: batch after batch, in each by position.
    pub order: Vec<usize>,
    /// Where each slot is in that order.
    pub ranks: Vec<Option<usize>>,
    pub seen: BTreeSet<Mark>,
    pub current_end: Option<usize>,
}

impl Ring {
    pub fn of(rows: &[SlotRow], listed: &[ListedBatch], pages: &[PageReport]) -> Self {
        let verdicts: HashMap<PageId, Verdict> =
            pages.iter().map(|report| (report.page, report.verdict.verdict)).collect();
        let batches: Vec<Option<usize>> =
            rows.iter().map(|row| listed.iter().position(|batch| batch.holds(row))).collect();
        let marks: Vec<Mark> =
            rows.iter().map(|row| mark(row, row.page.and_then(|page| verdicts.get(&page).copied()))).collect();
        let mut order: Vec<usize> =
            (0..rows.len()).filter(|at| rows.get(*at).is_some_and(|row| row.condition != Condition::Empty)).collect();
        let age = |at: usize| {
            let batch = batches.get(at).copied().flatten().and_then(|batch| listed.get(batch));
            batch.map(|listed| (Reverse(listed.batch.verdict), listed.batch.highest_lsn))
        };
        // Stable: within a batch by position.
        order.sort_by_cached_key(|at| (age(*at), batches.get(*at).copied().flatten()));
        let mut ranks = vec![None; rows.len()];
        for (rank, at) in order.iter().enumerate() {
            if let Some(own) = ranks.get_mut(*at) {
                *own = Some(rank);
            }
        }
        let is_current = |batch: &Option<usize>| {
            batch.and_then(|at| listed.get(at)).is_some_and(|listed| listed.batch.verdict == BatchVerdict::Current)
        };
        let current_end = batches.iter().rposition(is_current).map(|last| last + 1).filter(|end| *end < rows.len());
        let seen = marks.iter().copied().collect();
        Self { batches, marks, order, ranks, seen, current_end }
    }

    pub fn count(&self) -> usize {
        self.marks.len()
    }

    pub fn batch(&self, slot: usize) -> Option<usize> {
        self.batches.get(slot).copied().flatten()
    }
}

fn mark(row: &SlotRow, verdict: Option<Verdict>) -> Mark {
    if let Some(verdict) = verdict {
        return Mark::Damaged(verdict);
    }
    match row.condition {
        Condition::Empty => Mark::Empty,
        Condition::Sound | Condition::Unverifiable => Mark::Sound,
        Condition::Torn | Condition::Damaged | Condition::Aborted => Mark::Fails,
    }
}

/// A map of so many slots in rows of cells: each cell holds as many slots as it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub slots: usize,
    pub per_cell: usize,
    pub columns: usize,
    pub rows: usize,
}

impl Grid {
    pub(crate) fn fit(slots: usize, columns: usize, max_rows: usize) -> Self {
        let (columns, max_rows) = (columns.max(1), max_rows.max(1));
        let per_cell = slots.div_ceil(columns * max_rows).max(1);
        let rows = slots.div_ceil(per_cell * columns).max(1);
        Self { slots, per_cell, columns, rows }
    }

    /// Slots of the cell in this row and column; none past the end.
    pub fn cell(&self, row: usize, column: usize) -> std::ops::Range<usize> {
        let first = ((row * self.columns + column) * self.per_cell).min(self.slots);
        first..(first + self.per_cell).min(self.slots)
    }

    pub(crate) fn cell_of(&self, slot: usize) -> std::ops::Range<usize> {
        let at = slot / self.per_cell;
        self.cell(at / self.columns, at % self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_every_slot_once() {
        for (slots, columns, rows) in [(0, 10, 3), (1, 10, 3), (29, 10, 3), (30, 10, 3), (31, 10, 3), (130_432, 111, 9)]
        {
            let grid = Grid::fit(slots, columns, rows);
            assert!(grid.rows <= rows);
            let cells = (0..grid.rows).flat_map(|row| (0..grid.columns).map(move |column| (row, column)));
            let all: Vec<usize> = cells.flat_map(|(row, column)| grid.cell(row, column)).collect();
            assert_eq!(all, (0..slots).collect::<Vec<_>>(), "{slots} in {columns} by {rows}");
            assert!((0..slots).step_by(97).all(|slot| grid.cell_of(slot).contains(&slot)));
        }
    }

    #[test]
    fn worst_of_a_cell_is_seen() {
        assert!(Mark::Empty < Mark::Sound && Mark::Sound < Mark::Fails && Mark::Fails < Mark::Damaged(Verdict::Leave));
        assert!(Verdict::ALL.iter().rev().is_sorted());
    }
}
