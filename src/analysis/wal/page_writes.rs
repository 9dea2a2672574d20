//! Whether full-page writes were in force: what the records say, and what they show.
//!
//! Checkpoint records carry the setting `full_page_writes`, and `FPW_CHANGE` says that it was changed. Neither is all: with
//! `wal_level` minimal, and at a start, a change is not logged; and a server with a double write buffer writes no images
//! though the setting is on. The first changes after a redo point show what is in force.

use crate::parsers::wal::records::RecordKind;
use rustc_hash::FxHashSet;

use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, Lsn, RelFileLocator};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToldBy {
    /// A shutdown checkpoint: a server that starts after it may have another setting.
    Shutdown,
    Online,
    Change,
    /// The first changes after a redo point.
    Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageWritesPoint {
    /// The address: a redo point, or that of the change.
    pub lsn: Lsn,
    pub told_by: ToldBy,
    pub is_on: bool,
}

#[derive(Clone, Debug, Default)]
pub struct PageWrites {
    points: Vec<PageWritesPoint>,
}

impl PageWrites {
    /// Puts together what is known, in any order.
    pub fn new(mut points: Vec<PageWritesPoint>) -> Self {
        points.sort_unstable();
        points.dedup();
        // What is in force instead of images needs a start to be turned on or off: it holds from shutdown to shutdown.
        for life in points.chunk_by_mut(|_, next| next.told_by != ToldBy::Shutdown) {
            let shows = |is_on: bool| life.iter().any(|point| point.told_by == ToldBy::Shown && point.is_on == is_on);
            if shows(false) && !shows(true) {
                life.iter_mut().for_each(|point| point.is_on = false);
            }
        }
        Self { points }
    }

    /// Whether images were written at this address; `None` where that is not known.
    pub fn at(&self, lsn: Lsn) -> Option<bool> {
        let next = self.points.partition_point(|point| point.lsn <= lsn);
        let before = next.checked_sub(1).and_then(|index| self.points.get(index));
        let (before, next) = match (before, self.points.get(next)) {
            (Some(before), Some(next)) => (before, next),
            (Some(before), None) => return Some(before.is_on),
            (None, next) => return next.map(|next| next.is_on != (next.told_by == ToldBy::Change)),
        };
        if next.told_by == ToldBy::Change || next.is_on == before.is_on {
            return Some(before.is_on);
        }
        // It changed at a start, which is either at the one or at the other.
        match (before.told_by, next.told_by) {
            (ToldBy::Shutdown, told) if told != ToldBy::Shutdown => Some(next.is_on),
            (told, ToldBy::Shutdown) if told != ToldBy::Shutdown => Some(before.is_on),
            _ => None,
        }
    }
}

/// Changes of blocks without an image that show that none are written: a single one might hit a page from the future.
const MIN_WITHOUT_IMAGE: u8 = 3;

/// Blocks after which a redo point is given up.
const MAX_TOUCHED: usize = 1024;

/// Finds out from the first changes after a redo point whether images are written.
#[derive(Debug)]
pub(crate) struct WritesAfterRedo {
    redo_lsn: Lsn,
    touched: FxHashSet<(RelFileLocator, u8, BlockNumber)>,
    without_image: u8,
}

impl WritesAfterRedo {
    pub fn new(redo_lsn: Lsn) -> Self {
        Self { redo_lsn, touched: FxHashSet::default(), without_image: 0 }
    }

    /// Takes the next record; breaks with what is known as soon as no further record is needed.
    pub fn push(&mut self, record: &Record<'_>) -> std::ops::ControlFlow<Option<PageWritesPoint>> {
        use std::ops::ControlFlow::{Break, Continue};
        let point = |is_on| PageWritesPoint { lsn: self.redo_lsn, told_by: ToldBy::Shown, is_on };
        for (block_id, block) in record.block_heads() {
            let is_new = self.touched.insert((block.rel, block.fork_code(), block.block));
            if !is_new || block_id != 0 || block.will_init() || !is_plain_change(record) {
                continue;
            }
            if block.has_image_to_apply(record.major) {
                // A backup forces images, whatever is in force without it.
                return Break((record.during_backup() == Some(false)).then(|| point(true)));
            }
            self.without_image = self.without_image.saturating_add(1);
            if self.without_image == MIN_WITHOUT_IMAGE {
                return Break(Some(point(false)));
            }
        }
        if self.touched.len() > MAX_TOUCHED { Break(None) } else { Continue(()) }
    }
}

/// True for a record whose first block has an image whenever the page was not changed since the redo point: an inserted,
/// deleted or updated row, an entry of a btree leaf.
fn is_plain_change(record: &Record<'_>) -> bool {
    matches!(
        record.kind(),
        RecordKind::HeapInsert
            | RecordKind::HeapDelete
            | RecordKind::HeapUpdate
            | RecordKind::HeapHotUpdate
            | RecordKind::BtreeInsertLeaf
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(points: &[(u64, ToldBy, bool)]) -> PageWrites {
        let point = |&(lsn, told_by, is_on): &_| PageWritesPoint { lsn: Lsn(lsn), told_by, is_on };
        PageWrites::new(points.iter().map(point).collect())
    }

    fn at(writes: &PageWrites, lsns: &[u64]) -> Vec<Option<bool>> {
        lsns.iter().map(|lsn| writes.at(Lsn(*lsn))).collect()
    }

    #[test]
    fn state_changes_where_a_record_says_so() {
        use ToldBy::{Change, Online};
        let logged = writes(&[(10, Online, true), (20, Change, false), (30, Online, false), (40, Change, true)]);
        let (on, off) = (Some(true), Some(false));
        assert_eq!(at(&logged, &[5, 10, 19, 20, 35, 40, 99]), [on, on, on, off, off, on, on]);
        assert_eq!(at(&writes(&[(20, Change, false)]), &[10, 20]), [on, off]);
        assert_eq!(at(&writes(&[]), &[10]), [None]);
    }

    #[test]
    fn change_that_was_not_logged_happened_at_a_start() {
        use ToldBy::{Online, Shutdown};
        let (on, off) = (Some(true), Some(false));
        // A clean stop, and another setting after it.
        assert_eq!(at(&writes(&[(10, Shutdown, true), (20, Online, false)]), &[9, 15, 20]), [on, off, off]);
        // A crash, and another setting after recovery.
        assert_eq!(at(&writes(&[(10, Online, true), (20, Shutdown, false)]), &[15, 20]), [on, off]);
        // Without a stop: nobody knows where.
        assert_eq!(at(&writes(&[(10, Online, true), (20, Online, false)]), &[15, 20]), [None, off]);
    }

    #[test]
    fn what_the_first_changes_show_holds_until_the_next_stop() {
        use ToldBy::{Online, Shown, Shutdown};
        let points =
            [(10, Online, true), (20, Online, true), (20, Shown, false), (30, Online, true), (40, Shutdown, true)];
        assert_eq!(at(&writes(&points), &[10, 25, 35, 40]), [Some(false), Some(false), Some(false), Some(true)]);
    }
}
