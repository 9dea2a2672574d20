//! Whether an image that was copied without a lock holds the first change after its LSN already. A server changes a page
//! first, writes the record next and sets the page's LSN last: a copy made in between says too little of itself, and
//! replay would make the same change twice.
//! Also here: the same for a part of a record of pruning and freezing.

use super::next_index_change as index;
use super::page_chain::u16_at;
use super::tuple_space::{TupleItem, TupleSpace};
use crate::parsers::heap::{TupleHeader, infomask};
use crate::parsers::page::{LinePointerState, PageHeader, line_pointers};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::heap_row::PruneLists;
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
            (kind, 0) if kind.is_prune_and_freeze() => pruned(page, block, main, data),
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

/// Flags of `xl_heap_prune`, `src/include/access/heapam_xlog.h`: the page is locked for moving rows, and the lists of items
/// that lose their row.
const CLEANUP_LOCK: u16 = 1 << 2;
const REMOVES_ITEMS: u16 = 1 << 5 | 1 << 6 | 1 << 7;

/// Numbers of the items whose tuples are removed.
fn removed_items(flags: u16, data: &[u8]) -> Option<Vec<u16>> {
    let [low, _] = flags.to_le_bytes();
    let lists = PruneLists::decode(low, data)?;
    let redirected = lists.redirected.into_iter().map(|[item, _]| item);
    Some(redirected.chain(lists.dead).chain(lists.unused).collect())
}

/// Heap2 `PRUNE_ON_ACCESS`, `PRUNE_VACUUM_SCAN`, `PRUNE_VACUUM_CLEANUP` on block `block`.
pub(crate) fn pruned(page: &[u8], block: BlockNumber, main: &[u8], data: &[u8]) -> ChangePresence {
    let Some(flags) = u16_at(main, 0) else { return ChangePresence::Unclear };
    let moves_tuples = flags & CLEANUP_LOCK != 0 && flags & REMOVES_ITEMS != 0;
    if !moves_tuples {
        return ChangePresence::Absent;
    }
    let (Some(removed), Some(space)) = (removed_items(flags, data), TupleSpace::of(page)) else {
        return ChangePresence::Unclear;
    };
    let highest = removed.iter().filter_map(|number| space.item(*number)).max_by_key(|item| item.start);
    // None has a tuple: the line pointers are those of after the change, and what was copied before them is not known.
    let Some(highest) = highest else { return ChangePresence::Unclear };
    let all_name_their_location = space.items.iter().all(|item| !is_elsewhere(item, block));
    match space.is_read_late(highest.start) && all_name_their_location && is_at_its_offset(highest, block, &space) {
        true => ChangePresence::Absent,
        false => ChangePresence::Unclear,
    }
}

fn header_of(item: &TupleItem<'_>) -> Option<TupleHeader> {
    TupleHeader::decode(0, item.bytes).ok()
}

/// True for a tuple that nobody replaced and that says it stands elsewhere.
fn is_elsewhere(item: &TupleItem<'_>, block: BlockNumber) -> bool {
    header_of(item).is_none_or(|tuple| {
        tuple.has(infomask::XMAX_INVALID) && (tuple.ctid_block, tuple.ctid_item) != (block, item.number)
    })
}

/// True when the tuple is the one that belongs under its number: it names itself, or the newer version which its deleter
/// made.
fn is_at_its_offset(item: &TupleItem<'_>, block: BlockNumber, space: &TupleSpace<'_>) -> bool {
    let Some(tuple) = header_of(item).filter(|tuple| tuple.ctid_block == block) else { return false };
    if tuple.ctid_item == item.number {
        return true;
    }
    let newer = space.item(tuple.ctid_item).and_then(header_of);
    newer.is_some_and(|newer| newer.xmin == tuple.xmax && newer.xmin != tuple.xmin && newer.xmax != tuple.xmax)
}

#[cfg(test)]
mod tests {
    use super::super::tuple_space::testing::page_of;
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

    const FREEZE_PLANS: u16 = 1 << 4;
    const REDIRECTIONS: u16 = 1 << 5;
    const DEAD_ITEMS: u16 = 1 << 6;
    const UNUSED_ITEMS: u16 = 1 << 7;
    const BLOCK: BlockNumber = 7;
    /// Item number of the row that goes in most tests.
    const DEAD: u16 = 2;

    /// A row of 40 bytes: who made it, who deleted it, where it says it stands, and a letter.
    fn row(xmin: u32, xmax: u32, item: u16, letter: u8) -> Vec<u8> {
        let mut row =
            [&xmin.to_le_bytes()[..], &xmax.to_le_bytes(), &[0; 4], &[0, 0, 7, 0], &item.to_le_bytes()].concat();
        let mask = if xmax == 0 { infomask::XMAX_INVALID } else { 0 };
        row.extend([2, 0]);
        row.extend(mask.to_le_bytes());
        row.push(24);
        row.resize(40, letter);
        row
    }

    /// A page with rows enough that none of the first is at its very end.
    fn page_with(second: &[u8]) -> Vec<u8> {
        let fill: Vec<Vec<u8>> = (0..8).map(|index| row(90, 0, index + 1, b'f')).collect();
        let mut rows: Vec<&[u8]> = fill.iter().map(Vec::as_slice).collect();
        // The rows in question come last, so they stand lowest.
        let more = [row(100, 0, 9, b'a'), second.to_vec(), row(102, 0, 11, b'c'), row(103, 0, 12, b'd')];
        rows.extend(more.iter().map(Vec::as_slice));
        page_of(&rows, &[])
    }

    fn standing_of(page: &[u8], flags: u16, data: &[u16]) -> ChangePresence {
        let data: Vec<u8> = data.iter().flat_map(|number| number.to_le_bytes()).collect();
        pruned(page, BLOCK, &flags.to_le_bytes(), &data)
    }

    const GOES: u16 = 8 + DEAD;

    #[test]
    fn row_that_still_stands_shows_that_nothing_moved() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        // Deleted, and replaced by row 12 in the same page, by transaction 103.
        for dead in [row(99, 150, GOES, b'b'), row(99, 103, 12, b'b')] {
            assert_eq!(standing_of(&page_with(&dead), flags, &[1, GOES]), ChangePresence::Absent);
            assert_eq!(standing_of(&page_with(&dead), CLEANUP_LOCK | UNUSED_ITEMS, &[1, GOES]), ChangePresence::Absent);
            let redirected = [1, GOES, 12];
            assert_eq!(
                standing_of(&page_with(&dead), CLEANUP_LOCK | REDIRECTIONS, &redirected),
                ChangePresence::Absent
            );
        }
        // Its target is missing, or on another page: nothing shows that it is the row that belongs there.
        assert_eq!(standing_of(&page_with(&row(99, 150, 12, b'b')), flags, &[1, GOES]), ChangePresence::Unclear);
        let mut moved_away = row(99, 150, 3, b'b');
        moved_away[14] = 8;
        assert_eq!(standing_of(&page_with(&moved_away), flags, &[1, GOES]), ChangePresence::Unclear);
    }

    #[test]
    fn rows_that_have_begun_to_move_are_seen() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        let old = page_with(&row(99, 150, GOES, b'b'));
        let space = TupleSpace::of(&old).unwrap();
        let (lowest, gone) = (space.upper, space.item(GOES).unwrap().start);
        // Row 11 has moved to where row 10 was; so have all below, while header and line pointers are old.
        let mut page = old.clone();
        page.copy_within(gone - 40..gone, gone);
        assert_eq!(standing_of(&page, flags, &[1, GOES]), ChangePresence::Unclear);
        page.copy_within(lowest..lowest + 40, lowest + 40);
        assert_eq!(standing_of(&page, flags, &[1, GOES]), ChangePresence::Unclear);
        // The line pointer is that of after the change, the rows are not.
        let mut page = old;
        page[24 + 4 * 9..28 + 4 * 9].copy_from_slice(&(3_u32 << 15).to_le_bytes());
        assert_eq!(standing_of(&page, flags, &[1, GOES]), ChangePresence::Unclear);
    }

    #[test]
    fn end_of_the_page_may_have_been_copied_first() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        assert_eq!(standing_of(&page_with(&row(99, 150, GOES, b'b')), flags, &[1, 1]), ChangePresence::Unclear);
    }

    #[test]
    fn freezing_and_freeing_dead_items_moves_nothing() {
        let page = page_with(&row(99, 150, GOES, b'b'));
        assert_eq!(standing_of(&page, CLEANUP_LOCK | FREEZE_PLANS, &[]), ChangePresence::Absent);
        assert_eq!(standing_of(&page, UNUSED_ITEMS, &[1, GOES]), ChangePresence::Absent);
    }

    #[test]
    fn record_that_is_too_short_proves_nothing() {
        let page = page_with(&row(99, 150, GOES, b'b'));
        assert_eq!(standing_of(&page, CLEANUP_LOCK | DEAD_ITEMS, &[3, GOES]), ChangePresence::Unclear);
        assert_eq!(pruned(&page, BLOCK, &[4], &[]), ChangePresence::Unclear);
        // After a freeze plan of 12 bytes.
        let data = [1, 0, 0, 0, 0, 0, 0, 0, 1, GOES];
        assert_eq!(standing_of(&page, CLEANUP_LOCK | FREEZE_PLANS | DEAD_ITEMS, &data), ChangePresence::Absent);
    }
}
