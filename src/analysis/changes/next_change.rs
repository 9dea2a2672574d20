//! Whether an image that was copied without a lock holds the first change after its LSN already. A server changes a page
//! first, writes the record next and sets the page's LSN last: a copy made in between says too little of itself, and
//! replay would make the same change twice.

use super::change_log::u16_at;
use super::{next_index_change as index, next_prune};
use crate::parsers::page::{LinePointerState, PageHeader, line_pointers};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::{RecordKind as Kind, RecordType};
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, ForkNumber, Lsn};

/// Shortest data that is looked for in a page: shorter ones are found by chance.
const SHORTEST_DATA_BYTES: usize = 12;

/// Bytes of the main data that are kept: all that the records looked into have, but for very many rows in one record.
const MAIN_BYTES: usize = 1024;

/// The first change of a page after some LSN.
#[derive(Clone, Debug)]
pub(crate) struct NextChange {
    pub start_lsn: Lsn,
    pub major: Major,
    pub record: RecordType,
    /// Index of the page in the record.
    pub block_id: u8,
    /// Whether redo reads the page; one that it overwrites may hold anything.
    pub reads: bool,
    pub data: Box<[u8]>,
    pub main: Box<[u8]>,
}

/// Effect of a record on one page, as far as applying it twice matters.
enum Effect {
    /// Redo sets fields to fixed values, whatever they were: tuple headers, flags, links, bits.
    Repeatable,
    /// Rows are added under these item numbers, which must be free.
    Rows(Vec<u16>),
    /// The block data is added somewhere in the page, once.
    Entry,
    Known(ChangePresence),
    /// Something else.
    Other,
}

impl NextChange {
    /// Effect of `record` on its block `block`; `reads`: redo does not overwrite the page.
    pub fn of(record: &Record<'_>, block: &BlockRef<'_>, reads: bool) -> Self {
        let main = record.main_data();
        Self {
            start_lsn: record.start_lsn,
            major: record.major,
            record: record.record_type(),
            block_id: block.block_id,
            reads,
            data: if reads { block.data.into() } else { Box::default() },
            main: main.get(..MAIN_BYTES).unwrap_or(main).into(),
        }
    }

    /// Resource manager and type, as `pg_waldump` prints them.
    pub fn name(&self) -> String {
        self.record.name(self.major)
    }

    /// Whether the change is in `page`.
    pub(crate) fn standing(&self, page: &[u8], fork: ForkNumber, block: BlockNumber) -> ChangePresence {
        if !self.reads {
            return ChangePresence::Absent;
        }
        // Only version 19 has unlocked copies, and only its records and pages were examined.
        let known = (self.major.facts().has_unlocked_copies && fork == ForkNumber::Main)
            .then(|| self.by_rules(page, block))
            .flatten();
        match known.map_or_else(|| self.effect(fork), Effect::Known) {
            Effect::Known(ChangePresence::Unclear) if self.is_found_in(page) => ChangePresence::Present,
            Effect::Known(standing) => standing,
            Effect::Repeatable => ChangePresence::Absent,
            Effect::Rows(items) => rows_standing(page, &items),
            Effect::Entry if self.is_found_in(page) => ChangePresence::Present,
            Effect::Entry => ChangePresence::Absent,
            // Found is found, wherever the access method keeps its entries; not found proves nothing.
            Effect::Other if self.is_found_in(page) => ChangePresence::Present,
            Effect::Other => ChangePresence::Unclear,
        }
    }

    /// Result of the rules of version 19; `None` for records that have none.
    fn by_rules(&self, page: &[u8], block: BlockNumber) -> Option<ChangePresence> {
        let (main, data) = (self.main.as_ref(), self.data.as_ref());
        Some(match (self.record.kind, self.block_id) {
            (kind, 0) if kind.is_prune_and_freeze() => next_prune::pruned(page, block, main, data),
            (Kind::BtreeInsertLeaf | Kind::BtreeInsertUpper | Kind::BtreeInsertMeta | Kind::HashInsert, 0) => {
                index::inserted(page, self.main_u16(0), data)
            }
            (Kind::HashVacuumOnePage | Kind::GistDelete, 0) => index::dead_removed(page, main),
            (Kind::GinInsert, 0) => index::gin_inserted(page, main, data),
            (Kind::GistPageUpdate, 0) => index::gist_updated(page, main, data),
            (Kind::SpgistAddLeaf, 0) => index::spgist_leaf_added(page, main),
            (Kind::SpgistMoveLeafs, 1) => index::spgist_leafs_moved_here(page, main),
            // Flags and links of children and parents, which redo sets.
            (Kind::GinInsert | Kind::GistPageUpdate | Kind::SpgistAddLeaf, 1) | (Kind::SpgistMoveLeafs, 2) => {
                ChangePresence::Absent
            }
            _ => return None,
        })
    }

    fn is_found_in(&self, page: &[u8]) -> bool {
        self.data.len() >= SHORTEST_DATA_BYTES && page.windows(self.data.len()).any(|window| *window == *self.data)
    }

    fn main_u16(&self, at: usize) -> Option<u16> {
        u16_at(&self.main, at)
    }

    /// Sources: `heap_xlog_insert`, `heap_xlog_multi_insert`, `heap_xlog_update` and their kin in
    /// `src/backend/access/heap/heapam.c` (`heapam_xlog.c` since 18); `src/include/access/heapam_xlog.h`;
    /// `btree_xlog_insert`, `src/backend/access/nbtree/nbtxlog.c`; `src/include/access/nbtxlog.h`.
    fn effect(&self, fork: ForkNumber) -> Effect {
        if fork == ForkNumber::Vm {
            return Effect::Repeatable;
        }
        let rows = |item: Option<u16>| item.map_or(Effect::Other, |item| Effect::Rows(vec![item]));
        match (self.record.kind, self.block_id) {
            (Kind::HeapInsert, _) => rows(self.main_u16(0)),
            // The new row in block 0; of the old one only the header changes.
            (Kind::HeapUpdate | Kind::HeapHotUpdate, 0) => rows(self.main_u16(12)),
            (Kind::HeapDelete | Kind::HeapUpdate | Kind::HeapHotUpdate, _) => Effect::Repeatable,
            (Kind::HeapHeapConfirm | Kind::HeapLock | Kind::HeapInplace, _) => Effect::Repeatable,
            (Kind::Heap2MultiInsert, _) => self.multi_insert_items().map_or(Effect::Other, Effect::Rows),
            (Kind::Heap2Visible | Kind::Heap2LockUpdated, _) => Effect::Repeatable,
            // Freezing, and giving dead items free, move nothing.
            (Kind::Heap2FreezePage | Kind::Heap2Vacuum | Kind::Heap2PruneVacuumCleanup, _) => Effect::Repeatable,
            // The entry in block 0, a flag in the child, the whole metapage.
            (Kind::BtreeInsertLeaf | Kind::BtreeInsertUpper | Kind::BtreeInsertMeta, 0)
                if self.data.len() >= SHORTEST_DATA_BYTES =>
            {
                Effect::Entry
            }
            (Kind::BtreeInsertUpper | Kind::BtreeInsertMeta, 1 | 2) => Effect::Repeatable,
            // The link of the right neighbour, a flag in the child.
            (Kind::BtreeSplitL | Kind::BtreeSplitR, 2 | 3) => Effect::Repeatable,
            _ => Effect::Other,
        }
    }

    /// Item numbers of `xl_heap_multi_insert`: flags, a byte of padding, the count, then the numbers.
    fn multi_insert_items(&self) -> Option<Vec<u16>> {
        let count = usize::from(self.main_u16(2)?);
        (0..count).map(|index| self.main_u16(index.saturating_mul(2).saturating_add(4))).collect()
    }
}

/// Whether the rows stand in the page that a record puts under these numbers.
fn rows_standing(page: &[u8], items: &[u16]) -> ChangePresence {
    let Ok(header) = PageHeader::decode(0, page) else { return ChangePresence::Unclear };
    let used: Vec<bool> =
        line_pointers(&header, page).map(|pointer| pointer.state() != LinePointerState::Unused).collect();
    let is_used =
        |item: &u16| usize::from(*item).checked_sub(1).and_then(|index| used.get(index)).copied().unwrap_or(false);
    match items.iter().filter(|item| is_used(item)).count() {
        0 => ChangePresence::Absent,
        _ => ChangePresence::Present,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangePresence {
    /// It does not hold the change, or redo of the change does not mind if it does.
    Absent,
    Present,
    /// Unknown.
    Unclear,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::names::{RM_BTREE, RM_HEAP, RM_HEAP2};

    fn change(rmgr_id: u8, info: u8, block_id: u8, data: &[u8], main: &[u8]) -> NextChange {
        let (start_lsn, major) = (Lsn(8), Major::V16);
        let record = RecordType::new(major, rmgr_id, info);
        NextChange { start_lsn, major, record, block_id, reads: true, data: data.into(), main: main.into() }
    }

    /// A page with two items, the second unused, and these bytes at 8000.
    fn page(entry: &[u8]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        for (at, value) in [(12, 32_u16), (14, 8000), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[24..28].copy_from_slice(&(8000_u32 | 1 << 15 | 64 << 17).to_le_bytes());
        page[8000..8000 + entry.len()].copy_from_slice(entry);
        page
    }

    fn standing(change: &NextChange, page: &[u8]) -> ChangePresence {
        change.standing(page, ForkNumber::Main, 7)
    }

    #[test]
    fn new_rows_are_looked_for_under_their_item_number() {
        let page = page(&[]);
        for (item, expected) in [(1, ChangePresence::Present), (2, ChangePresence::Absent), (3, ChangePresence::Absent)]
        {
            let insert = change(RM_HEAP, 0x00, 0, &[], &[item, 0, 0]);
            assert_eq!(standing(&insert, &page), expected, "INSERT {item}");
            // Old transaction, old item, flags; new transaction, new item.
            let update = [9, 9, 9, 9, 1, 0, 0, 0, 0, 0, 0, 0, item, 0];
            for info in [0x20, 0x40] {
                assert_eq!(standing(&change(RM_HEAP, info, 0, &[], &update), &page), expected, "UPDATE {item}");
                assert_eq!(standing(&change(RM_HEAP, info, 1, &[], &update), &page), ChangePresence::Absent);
            }
            let multi = change(RM_HEAP2, 0x50, 0, &[], &[0, 0, 2, 0, 7, 0, item, 0]);
            assert_eq!(standing(&multi, &page), expected, "MULTI_INSERT {item}");
        }
        // A record too short for what it says proves nothing.
        assert_eq!(standing(&change(RM_HEAP, 0x00, 0, &[], &[1]), &page), ChangePresence::Unclear);
        assert_eq!(standing(&change(RM_HEAP2, 0x50, 0, &[], &[0, 0, 9, 0, 7, 0]), &page), ChangePresence::Unclear);
    }

    #[test]
    fn what_redo_can_do_twice_does_no_harm() {
        for (rmgr_id, info, block_id) in
            [(RM_HEAP, 0x10, 0), (RM_HEAP, 0x60, 0), (RM_HEAP, 0x70, 0), (RM_HEAP2, 0x40, 0), (RM_BTREE, 0x30, 2)]
        {
            assert_eq!(standing(&change(rmgr_id, info, block_id, &[], &[]), &page(&[])), ChangePresence::Absent);
        }
        let overwritten = NextChange { reads: false, ..change(RM_BTREE, 0xC0, 0, &[], &[]) };
        assert_eq!(standing(&overwritten, &page(&[])), ChangePresence::Absent);
    }

    #[test]
    fn entries_of_a_btree_are_looked_for_by_their_bytes() {
        let entry: Vec<u8> = (1..=16).collect();
        let insert = change(RM_BTREE, 0x00, 0, &entry, &[]);
        assert_eq!(standing(&insert, &page(&[])), ChangePresence::Absent);
        assert_eq!(standing(&insert, &page(&entry)), ChangePresence::Present);
        assert_eq!(standing(&change(RM_BTREE, 0x00, 0, &entry[..8], &[]), &page(&[])), ChangePresence::Unclear);
    }

    #[test]
    fn removals_and_other_access_methods_are_unclear_unless_their_bytes_are_found() {
        let entry: Vec<u8> = (1..=16).collect();
        // VACUUM and DELETE of a B-tree, PRUNE of a heap, hash, GIN, GiST, SP-GiST, BRIN.
        for (rmgr_id, info) in [
            (RM_BTREE, 0xC0),
            (RM_BTREE, 0x70),
            (RM_HEAP2, 0x10),
            (12, 0x10),
            (13, 0x20),
            (14, 0),
            (16, 0x10),
            (17, 0x20),
        ] {
            let record = change(rmgr_id, info, 0, &entry, &[]);
            assert_eq!(standing(&record, &page(&[])), ChangePresence::Unclear, "{}", record.name());
            assert_eq!(standing(&record, &page(&entry)), ChangePresence::Present, "{}", record.name());
        }
    }
}
