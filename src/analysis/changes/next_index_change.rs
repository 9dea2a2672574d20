//! Whether an image holds a part of the change that a record makes to a page of an index, version 19.
//!
//! The slot's LSN is read from the buffer after the copy, so where it equals that of the image no more than one change
//! was running: the next one. Its parts are judged one by one. Header and line pointers: either completely old or completely new,
//! since the tuples fill their space ([`TupleSpace`]). Which of the two: by the tuple that the record puts under a number,
//! or by those that it removes. Tuples that are moved: when the removed tuple is still at its offset, nothing below it
//! had been moved when it was copied, for tuples move up from the top down, and memory is copied from low to high.
//! Fields that redo sets to a value in the record do no harm, present or not.

use super::change_log::{u16_at, u32_at};
use super::next_change::ChangePresence;
use super::tuple_space::{TupleItem, TupleSpace};

/// Special space of SP-GiST: flags, redirections, placeholders, page id.
const SPGIST_PLACEHOLDERS_AT: usize = 4;
/// States of SP-GiST tuples: the lowest two bits.
const SPGIST_LIVE: u32 = 0;
const SPGIST_PLACEHOLDER: u32 = 3;
/// Bits of the size in `t_info` of an index tuple (`INDEX_SIZE_MASK`, `src/include/access/itup.h`).
const INDEX_SIZE_MASK: u16 = 0x1FFF;
/// `GIN_INSERT_ISDATA` and `GIN_INSERT_ISLEAF`, `src/include/access/ginxlog.h`.
const GIN_IS_DATA: u16 = 1;
const GIN_IS_LEAF: u16 = 2;

/// Size that an index tuple gives itself.
fn index_tuple_bytes(tuple: &[u8]) -> Option<usize> {
    u16_at(tuple, 6).map(|info| usize::from(info & INDEX_SIZE_MASK)).filter(|bytes| *bytes >= 8)
}

/// The row or page that an index tuple names.
fn tid_of(item: &TupleItem<'_>) -> Option<[u8; 6]> {
    item.bytes.first_chunk().copied()
}

/// The tuples of a page of index tuples, at rest.
fn index_tuples(page: &[u8]) -> Option<TupleSpace<'_>> {
    TupleSpace::of(page).filter(|space| space.is_full() && space.sizes_agree(|item| index_tuple_bytes(item.bytes)))
}

/// One tuple is added under `number`, the following ones move up one number: B-tree and hash `INSERT`, GIN `INSERT`
/// of a new entry.
pub(crate) fn inserted(page: &[u8], number: Option<u16>, tuple: &[u8]) -> ChangePresence {
    let (Some(number), Some(space)) = (number.filter(|number| *number > 0), index_tuples(page)) else {
        return ChangePresence::Unclear;
    };
    if number == space.count.saturating_add(1) {
        return ChangePresence::Absent;
    }
    let Some(item) = space.item(number) else { return ChangePresence::Unclear };
    // A new tuple is the lowest.
    let is_lowest = item.start == space.upper && item.room() == tuple.len().next_multiple_of(8);
    match is_lowest {
        false => ChangePresence::Absent,
        true if item.bytes.starts_with(tuple) => ChangePresence::Present,
        // The tuple is written before the header says so, and the header is copied before the tuple.
        true if space.is_read_late(item.start) => ChangePresence::Absent,
        true => ChangePresence::Unclear,
    }
}

/// GiST `PAGE_UPDATE`: numbers of tuples to be removed, then tuples that come after all others.
///
/// Source: `gistplacetopage`, `src/backend/access/gist/gist.c`; `gistRedoPageUpdateRecord`, `gistxlog.c`.
pub(crate) fn gist_updated(page: &[u8], main: &[u8], data: &[u8]) -> ChangePresence {
    let (Some(removed), Some(added), Some(space)) = (u16_at(main, 0), u16_at(main, 2), index_tuples(page)) else {
        return ChangePresence::Unclear;
    };
    let mut rest = data.get(usize::from(removed) * 2..).unwrap_or_default();
    let mut tuples = Vec::new();
    while let Some(length) = index_tuple_bytes(rest) {
        let Some((tuple, after)) = rest.split_at_checked(length) else { break };
        tuples.push(tuple);
        rest = after;
    }
    if !rest.is_empty() || tuples.len() != usize::from(added) || tuples.is_empty() {
        return ChangePresence::Unclear;
    }
    match removed {
        0 => {
            let is_there = |item: &TupleItem<'_>| tuples.iter().any(|tuple| item.bytes.starts_with(tuple));
            match space.items.iter().any(is_there) {
                true => ChangePresence::Present,
                false if space.is_read_late(space.upper) => ChangePresence::Absent,
                false => ChangePresence::Unclear,
            }
        }
        // Redo puts the tuple where it stands already; nothing else moves when its size is the same.
        1 if added == 1 => match (u16_at(data, 0).and_then(|number| space.item(number)), tuples.first()) {
            (Some(item), Some(tuple)) if item.room() == tuple.len().next_multiple_of(8) => ChangePresence::Absent,
            _ => ChangePresence::Unclear,
        },
        _ => ChangePresence::Unclear,
    }
}

/// GiST `DELETE`, hash `VACUUM_ONE_PAGE`: removes the tuples that are marked dead, all of them.
///
/// Sources: `gistprunepage`, `gist.c`; `_hash_vacuum_one_page`, `src/backend/access/hash/hashinsert.c`.
pub(crate) fn dead_removed(page: &[u8], main: &[u8]) -> ChangePresence {
    // `snapshotConflictHorizon`, the count, `isCatalogRel`, the numbers.
    let (Some(count), Some(space)) = (u16_at(main, 4), index_tuples(page)) else { return ChangePresence::Unclear };
    let numbers: Option<Vec<u16>> =
        (0..usize::from(count)).map(|index| u16_at(main, index.saturating_mul(2).saturating_add(8))).collect();
    let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else { return ChangePresence::Unclear };
    let is_dead = |number: &u16| space.item(*number).is_some_and(|item| item.is_dead);
    match numbers.iter().all(is_dead) && space.are_distinct(tid_of) {
        true => ChangePresence::Absent,
        false => ChangePresence::Unclear,
    }
}

/// State and size of an SP-GiST leaf tuple.
fn spgist_head(item: &TupleItem<'_>) -> Option<(u32, usize)> {
    let word = u32_at(item.bytes, 0)?;
    Some((word & 3, usize::try_from(word >> 2).ok()?))
}

/// The tuples of an SP-GiST leaf page at rest: as many placeholders as the page says, and no row twice.
fn spgist_leaf(page: &[u8]) -> Option<TupleSpace<'_>> {
    let space = TupleSpace::of(page).filter(TupleSpace::is_full)?;
    let placeholders =
        space.items.iter().filter(|item| spgist_head(item).is_some_and(|(s, _)| s == SPGIST_PLACEHOLDER));
    let counted = u16::try_from(placeholders.count()).ok()?;
    let row = |item: &TupleItem<'_>| {
        spgist_head(item).filter(|(state, _)| *state == SPGIST_LIVE)?;
        item.bytes.get(6..)?.first_chunk::<6>().copied()
    };
    let is_at_rest = space.sizes_agree(|item| spgist_head(item).map(|(_, size)| size))
        && u16_at(space.special, SPGIST_PLACEHOLDERS_AT) == Some(counted)
        && space.are_distinct(row);
    is_at_rest.then_some(space)
}

/// Tuples are added under these numbers of a leaf page, which are placeholders or follow on the last.
fn spgist_put(page: &[u8], numbers: &[u16]) -> ChangePresence {
    let Some(space) = spgist_leaf(page) else { return ChangePresence::Unclear };
    // A placeholder is removed before the tuple is put there.
    let is_placeholder = |number: u16| {
        let item = space.item(number).filter(|item| space.is_read_late(item.start));
        item.and_then(spgist_head).is_some_and(|(state, _)| state == SPGIST_PLACEHOLDER)
    };
    let is_free = |number: &u16| *number > space.count || is_placeholder(*number);
    let is_next = numbers.iter().filter(|number| **number > space.count).min();
    let follows_on = is_next.is_none_or(|number| *number == space.count.saturating_add(1));
    match !numbers.is_empty() && numbers.iter().all(is_free) && follows_on {
        true => ChangePresence::Absent,
        false => ChangePresence::Unclear,
    }
}

/// SP-GiST `ADD_LEAF`: the leaf page. The link of the chain's head is set to the new number.
///
/// Source: `addLeafTuple`, `src/backend/access/spgist/spgdoinsert.c`; `SpGistPageAddNewItem`, `spgutils.c`.
pub(crate) fn spgist_leaf_added(page: &[u8], main: &[u8]) -> ChangePresence {
    match (u16_at(main, 2), u16_at(main, 4)) {
        // Equal numbers: a dead tuple is replaced.
        (Some(leaf), Some(head)) if leaf != head => spgist_put(page, &[leaf]),
        _ => ChangePresence::Unclear,
    }
}

/// SP-GiST `MOVE_LEAFS`: the page that the tuples go to.
///
/// Source: `moveLeafs`, `src/backend/access/spgist/spgdoinsert.c`; `spgxlogMoveLeafs`, `src/include/access/spgxlog.h`.
pub(crate) fn spgist_leafs_moved_here(page: &[u8], main: &[u8]) -> ChangePresence {
    // The count, three flags and a byte of padding, parent and node, a transaction and a flag.
    const NUMBERS_AT: usize = 20;
    let (Some(moves), Some(replaces_dead)) = (u16_at(main, 0), main.get(3)) else { return ChangePresence::Unclear };
    let moves = usize::from(moves);
    let count = if *replaces_dead != 0 { 1 } else { moves + 1 };
    let numbers: Option<Vec<u16>> = (moves..moves.saturating_add(count))
        .map(|index| u16_at(main, NUMBERS_AT.saturating_add(index.saturating_mul(2))))
        .collect();
    numbers.map_or(ChangePresence::Unclear, |numbers| spgist_put(page, &numbers))
}

/// GIN `INSERT` into the tree of entries.
///
/// Source: `entryExecPlaceToPage`, `src/backend/access/gin/ginentrypage.c`; `ginxlogInsertEntry`,
/// `src/include/access/ginxlog.h`.
pub(crate) fn gin_inserted(page: &[u8], main: &[u8], data: &[u8]) -> ChangePresence {
    let (Some(flags), Some(number), Some(replaces)) = (u16_at(main, 0), u16_at(data, 0), data.get(2)) else {
        return ChangePresence::Unclear;
    };
    let Some(tuple) = data.get(4..).filter(|tuple| index_tuple_bytes(tuple) == Some(tuple.len())) else {
        return ChangePresence::Unclear;
    };
    if flags & GIN_IS_DATA != 0 {
        return ChangePresence::Unclear;
    }
    if *replaces == 0 {
        // Above the leaves the entry that stood there gets a link that the record gives.
        return inserted(page, Some(number), tuple);
    }
    let Some(space) = index_tuples(page).filter(|_| flags & GIN_IS_LEAF != 0) else { return ChangePresence::Unclear };
    let Some(old) = space.item(number) else { return ChangePresence::Unclear };
    // After the key comes the list of rows; the entry that is replaced has the same key, which no other has.
    let is_old = gin_key(old.bytes)
        .is_some_and(|key| tuple.get(8..).is_some_and(|new| new.starts_with(key)) && !old.bytes.starts_with(tuple));
    match is_old && space.is_read_late(old.start) && space.are_distinct(|item| gin_key(item.bytes)) {
        true => ChangePresence::Absent,
        false => ChangePresence::Unclear,
    }
}

/// The key of an entry that has a list of rows.
fn gin_key(tuple: &[u8]) -> Option<&[u8]> {
    let block = u32::from(u16_at(tuple, 0)?) << 16 | u32::from(u16_at(tuple, 2)?);
    let is_list = u16_at(tuple, 4)? != 0xFFFF && u16_at(tuple, 6)? & 0x8000 == 0;
    let list_at = usize::try_from(block & 0x7FFF_FFFF).ok().filter(|at| is_list && *at > 8)?;
    tuple.get(8..list_at)
}

#[cfg(test)]
mod tests {
    use super::super::tuple_space::testing::page_of;
    use super::*;

    /// An index tuple for row `row`, of this many bytes in all.
    fn tuple(row: u16, bytes: u16) -> Vec<u8> {
        let mut tuple = [&[0; 4][..], &row.to_le_bytes(), &bytes.to_le_bytes()].concat();
        tuple.resize(usize::from(bytes), row.to_le_bytes()[0]);
        tuple
    }

    /// A page with so many tuples that the lowest is not at its very end.
    fn index_page(more: &[&[u8]]) -> Vec<u8> {
        let first: Vec<Vec<u8>> = (1..=20).map(|row| tuple(row, 16)).collect();
        page_of(&first.iter().map(Vec::as_slice).chain(more.iter().copied()).collect::<Vec<_>>(), &[0; 16])
    }

    /// The page with the tuple in front of all others.
    fn with_first(page: &[u8], tuple: &[u8]) -> Vec<u8> {
        let mut page = page.to_vec();
        let lower = usize::from(u16_at(&page, 12).unwrap());
        let upper = usize::from(u16_at(&page, 14).unwrap()) - tuple.len();
        page.copy_within(24..lower, 28);
        page[24..28].copy_from_slice(&u32::try_from(upper | 1 << 15 | tuple.len() << 17).unwrap().to_le_bytes());
        page[upper..upper + tuple.len()].copy_from_slice(tuple);
        page[12..14].copy_from_slice(&u16::try_from(lower + 4).unwrap().to_le_bytes());
        page[14..16].copy_from_slice(&u16::try_from(upper).unwrap().to_le_bytes());
        page
    }

    #[test]
    fn inserted_tuple_is_the_lowest_under_its_number() {
        let (old, new) = (index_page(&[]), tuple(99, 16));
        assert_eq!(inserted(&old, Some(21), &new), ChangePresence::Absent, "after all others");
        assert_eq!(inserted(&old, Some(1), &new), ChangePresence::Absent);
        assert_eq!(inserted(&with_first(&old, &new), Some(1), &new), ChangePresence::Present);
        assert_eq!(inserted(&index_page(&[&new]), Some(21), &new), ChangePresence::Present);
        // The tuple that was put in before stands lowest too, under the same number.
        assert_eq!(inserted(&with_first(&old, &tuple(98, 16)), Some(1), &new), ChangePresence::Absent);
        for number in [None, Some(0), Some(22)] {
            assert_eq!(inserted(&old, number, &new), ChangePresence::Unclear, "{number:?}");
        }
    }

    #[test]
    fn half_of_an_insertion_is_not_taken_for_none() {
        let (old, new) = (index_page(&[]), tuple(99, 16));
        let after = with_first(&old, &new);
        // Header and line pointers of two moments, in every mixture but those of one.
        for (lower, upper, pointers) in [
            (&old, &after, &old),
            (&after, &old, &old),
            (&old, &old, &after),
            (&old, &after, &after),
            (&after, &old, &after),
        ] {
            let mut page = old.clone();
            page[12..14].copy_from_slice(&lower[12..14]);
            page[14..16].copy_from_slice(&upper[14..16]);
            page[24..200].copy_from_slice(&pointers[24..200]);
            assert_eq!(inserted(&page, Some(1), &new), ChangePresence::Unclear);
        }
        // Line pointers that moved on only from the middle: one exists twice, the last is missing.
        let mut page = old;
        page.copy_within(60..100, 64);
        assert_eq!(inserted(&page, Some(1), &new), ChangePresence::Unclear);
    }

    #[test]
    fn gist_tuples_come_last() {
        let (old, one, two) = (index_page(&[]), tuple(99, 16), tuple(98, 24));
        let data = [one.as_slice(), &two].concat();
        assert_eq!(gist_updated(&old, &[0, 0, 2, 0], &data), ChangePresence::Absent);
        assert_eq!(
            gist_updated(&index_page(&[&one]), &[0, 0, 2, 0], &data),
            ChangePresence::Present,
            "the first of two"
        );
        assert_eq!(gist_updated(&old, &[0, 0, 3, 0], &data), ChangePresence::Unclear, "not as many as the record says");
        // One instead of another of the same size; of another size; two; none.
        let replaces = |count: u8, tuples: &[u8]| gist_updated(&old, &[1, 0, count, 0], &[&[3, 0], tuples].concat());
        assert_eq!(replaces(1, &one), ChangePresence::Absent);
        assert_eq!(replaces(1, &two), ChangePresence::Unclear);
        assert_eq!(replaces(2, &data), ChangePresence::Unclear);
        assert_eq!(replaces(0, &[]), ChangePresence::Unclear);
    }

    #[test]
    fn removed_tuples_are_those_marked_dead() {
        let main = |numbers: &[u8]| {
            let count = u8::try_from(numbers.len()).unwrap();
            [&[0, 0, 0, 0, count, 0, 0, 0][..], &numbers.iter().flat_map(|n| [*n, 0]).collect::<Vec<_>>()].concat()
        };
        let mut page = index_page(&[]);
        for number in [3, 9] {
            page[24 + 4 * (number - 1) + 1] |= 0x80;
            page[24 + 4 * (number - 1) + 2] |= 1;
        }
        assert_eq!(dead_removed(&page, &main(&[3, 9])), ChangePresence::Absent);
        assert_eq!(dead_removed(&page, &main(&[3, 10])), ChangePresence::Unclear);
        assert_eq!(dead_removed(&page, &main(&[])), ChangePresence::Unclear);
        // Tuple 9 is gone, and those below have moved up.
        let (start, upper) = (8192 - 16 - 9 * 16, 8192 - 16 - 20 * 16);
        page.copy_within(upper..start, upper + 16);
        assert_eq!(dead_removed(&page, &main(&[3, 9])), ChangePresence::Unclear);
    }

    /// An SP-GiST leaf tuple: state, size, row.
    fn leaf(state: u32, bytes: u32, row: u16) -> Vec<u8> {
        let mut tuple = [&(bytes << 2 | state).to_le_bytes()[..], &[0; 6], &row.to_le_bytes()].concat();
        tuple.resize(bytes as usize, 0);
        tuple
    }

    fn leaf_page(placeholders: u16, more: &[&[u8]]) -> Vec<u8> {
        let first: Vec<Vec<u8>> = (1..=10).map(|row| leaf(SPGIST_LIVE, 32, row)).collect();
        let special = [&[4, 0, 0, 0][..], &placeholders.to_le_bytes(), &[0x82, 0xFF]].concat();
        page_of(&first.iter().map(Vec::as_slice).chain(more.iter().copied()).collect::<Vec<_>>(), &special)
    }

    #[test]
    fn spgist_leaf_takes_the_next_number_or_a_placeholder() {
        let add = |page: &[u8], number: u8, head: u8| spgist_leaf_added(page, &[0, 0, number, 0, head, 0, 0, 0, 0, 0]);
        let placeholder = leaf(SPGIST_PLACEHOLDER, 16, 0);
        let (full, free) = (leaf_page(0, &[]), leaf_page(1, &[&placeholder]));
        assert_eq!(add(&full, 11, 2), ChangePresence::Absent);
        assert_eq!(add(&full, 10, 2), ChangePresence::Unclear, "a tuple is there");
        assert_eq!(add(&full, 12, 2), ChangePresence::Unclear, "one is missing before");
        assert_eq!(add(&full, 11, 11), ChangePresence::Unclear, "a dead tuple is replaced");
        assert_eq!(add(&free, 11, 2), ChangePresence::Absent);
        // The placeholder is gone, the page's count of them is as before; and the other way round.
        assert_eq!(add(&leaf_page(1, &[]), 11, 2), ChangePresence::Unclear);
        assert_eq!(add(&leaf_page(0, &[&placeholder]), 11, 2), ChangePresence::Unclear);
        // A row that is there twice: tuples were being moved.
        assert_eq!(add(&leaf_page(0, &[&leaf(SPGIST_LIVE, 32, 4)]), 12, 2), ChangePresence::Unclear);
    }

    #[test]
    fn spgist_leafs_that_move_take_numbers_that_are_free() {
        let moved = |page: &[u8], replaces_dead: u8, numbers: &[u8]| {
            // One tuple moves, with the new one there are two, unless it replaces a dead one.
            let head = [1, 0, 0, replaces_dead, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let numbers: Vec<u8> = numbers.iter().flat_map(|number| [*number, 0]).collect();
            spgist_leafs_moved_here(page, &[&head[..], &[1, 0], &numbers].concat())
        };
        let page = leaf_page(0, &[]);
        assert_eq!(moved(&page, 0, &[11, 12]), ChangePresence::Absent);
        assert_eq!(moved(&page, 1, &[11]), ChangePresence::Absent);
        assert_eq!(moved(&leaf_page(0, &[&leaf(SPGIST_LIVE, 32, 99)]), 0, &[11, 12]), ChangePresence::Unclear);
        assert_eq!(moved(&page, 0, &[11]), ChangePresence::Unclear, "the record is too short");
    }

    /// A GIN entry: a key of 8 bytes and a list of rows.
    fn entry(key: u8, rows: &[u8]) -> Vec<u8> {
        let bytes = u16::try_from(16 + rows.len()).unwrap();
        [&[0, 0x80, 16, 0, 1, 0][..], &bytes.to_le_bytes(), &[key; 8], rows].concat()
    }

    #[test]
    fn gin_entry_is_replaced_by_one_with_the_same_key() {
        let entries: Vec<Vec<u8>> = (1..=30).map(|key| entry(key, &[key; 8])).collect();
        let page = page_of(&entries.iter().map(Vec::as_slice).collect::<Vec<_>>(), &[0; 8]);
        let replace =
            |page: &[u8], number: u8, new: &[u8]| gin_inserted(page, &[2, 0], &[&[number, 0, 1, 0], new].concat());
        assert_eq!(replace(&page, 20, &entry(20, &[9; 16])), ChangePresence::Absent);
        assert_eq!(replace(&page, 20, &entry(21, &[9; 16])), ChangePresence::Unclear, "another key is there");
        assert_eq!(replace(&page, 20, &entry(20, &[20; 8])), ChangePresence::Unclear, "it exists already");
        assert_eq!(
            replace(&page, 2, &entry(2, &[9; 16])),
            ChangePresence::Unclear,
            "it may have been copied before the header"
        );
        let mut moved = page.clone();
        let upper = usize::from(u16_at(&page, 14).unwrap());
        moved.copy_within(upper..upper + 24, upper + 24);
        assert_eq!(replace(&moved, 20, &entry(20, &[9; 16])), ChangePresence::Unclear, "an entry is there twice");
        let insert =
            |number: u8| gin_inserted(&page, &[2, 0], &[&[number, 0, 0, 0], entry(99, &[9; 8]).as_slice()].concat());
        assert_eq!(insert(5), ChangePresence::Absent);
        // Pages of rows have no line pointers.
        assert_eq!(
            gin_inserted(&page, &[3, 0], &[&[5, 0, 0, 0], entry(99, &[9; 8]).as_slice()].concat()),
            ChangePresence::Unclear
        );
    }
}
