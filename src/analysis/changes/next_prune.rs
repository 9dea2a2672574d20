//! Whether an image holds a part of what a record of pruning and freezing does to a table's page, version 19.
//!
//! Redo sets line pointers and tuple headers to what the record says, which does no harm done twice, and closes the gaps.
//! Only tuples that had begun to move do harm: a copy may have the old line pointers and tuples of which some had moved
//! already. They move up, the topmost first, so the highest tuple that is removed is overwritten before any that stays is.
//! When it is still at its offset, nothing had been moved by the time it was copied, and what lies below was copied
//! before that.

use super::change_log::u16_at;
use super::next_change::ChangePresence;
use super::tuple_space::{TupleItem, TupleSpace};
use crate::parsers::heap::{TupleHeader, infomask};
use crate::parsers::wal::prune::PruneLists;
use crate::types::BlockNumber;

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
    fn page(second: &[u8]) -> Vec<u8> {
        let fill: Vec<Vec<u8>> = (0..8).map(|index| row(90, 0, index + 1, b'f')).collect();
        let mut rows: Vec<&[u8]> = fill.iter().map(Vec::as_slice).collect();
        // The rows in question come last, so they stand lowest.
        let more = [row(100, 0, 9, b'a'), second.to_vec(), row(102, 0, 11, b'c'), row(103, 0, 12, b'd')];
        rows.extend(more.iter().map(Vec::as_slice));
        page_of(&rows, &[])
    }

    fn standing(page: &[u8], flags: u16, data: &[u16]) -> ChangePresence {
        let data: Vec<u8> = data.iter().flat_map(|number| number.to_le_bytes()).collect();
        pruned(page, BLOCK, &flags.to_le_bytes(), &data)
    }

    const GOES: u16 = 8 + DEAD;

    #[test]
    fn row_that_still_stands_shows_that_nothing_moved() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        // Deleted, and replaced by row 12 in the same page, by transaction 103.
        for dead in [row(99, 150, GOES, b'b'), row(99, 103, 12, b'b')] {
            assert_eq!(standing(&page(&dead), flags, &[1, GOES]), ChangePresence::Absent);
            assert_eq!(standing(&page(&dead), CLEANUP_LOCK | UNUSED_ITEMS, &[1, GOES]), ChangePresence::Absent);
            let redirected = [1, GOES, 12];
            assert_eq!(standing(&page(&dead), CLEANUP_LOCK | REDIRECTIONS, &redirected), ChangePresence::Absent);
        }
        // Its target is missing, or on another page: nothing shows that it is the row that belongs there.
        assert_eq!(standing(&page(&row(99, 150, 12, b'b')), flags, &[1, GOES]), ChangePresence::Unclear);
        let mut moved_away = row(99, 150, 3, b'b');
        moved_away[14] = 8;
        assert_eq!(standing(&page(&moved_away), flags, &[1, GOES]), ChangePresence::Unclear);
    }

    #[test]
    fn rows_that_have_begun_to_move_are_seen() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        let old = page(&row(99, 150, GOES, b'b'));
        let space = TupleSpace::of(&old).unwrap();
        let (lowest, gone) = (space.upper, space.item(GOES).unwrap().start);
        // Row 11 has moved to where row 10 was; so have all below, while header and line pointers are old.
        let mut page = old.clone();
        page.copy_within(gone - 40..gone, gone);
        assert_eq!(standing(&page, flags, &[1, GOES]), ChangePresence::Unclear);
        page.copy_within(lowest..lowest + 40, lowest + 40);
        assert_eq!(standing(&page, flags, &[1, GOES]), ChangePresence::Unclear);
        // The line pointer is that of after the change, the rows are not.
        let mut page = old;
        page[24 + 4 * 9..28 + 4 * 9].copy_from_slice(&(3_u32 << 15).to_le_bytes());
        assert_eq!(standing(&page, flags, &[1, GOES]), ChangePresence::Unclear);
    }

    #[test]
    fn end_of_the_page_may_have_been_copied_first() {
        let flags = CLEANUP_LOCK | DEAD_ITEMS;
        assert_eq!(standing(&page(&row(99, 150, GOES, b'b')), flags, &[1, 1]), ChangePresence::Unclear);
    }

    #[test]
    fn freezing_and_freeing_dead_items_moves_nothing() {
        let page = page(&row(99, 150, GOES, b'b'));
        assert_eq!(standing(&page, CLEANUP_LOCK | FREEZE_PLANS, &[]), ChangePresence::Absent);
        assert_eq!(standing(&page, UNUSED_ITEMS, &[1, GOES]), ChangePresence::Absent);
    }

    #[test]
    fn record_that_is_too_short_proves_nothing() {
        let page = page(&row(99, 150, GOES, b'b'));
        assert_eq!(standing(&page, CLEANUP_LOCK | DEAD_ITEMS, &[3, GOES]), ChangePresence::Unclear);
        assert_eq!(pruned(&page, BLOCK, &[4], &[]), ChangePresence::Unclear);
        // After a freeze plan of 12 bytes.
        let data = [1, 0, 0, 0, 0, 0, 0, 0, 1, GOES];
        assert_eq!(standing(&page, CLEANUP_LOCK | FREEZE_PLANS | DEAD_ITEMS, &data), ChangePresence::Absent);
    }
}
