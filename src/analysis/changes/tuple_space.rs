//! The tuples of a page as a space without gaps.
//!
//! A server puts each new tuple directly below the last and closes the gap when it removes one, so at rest the tuples fill
//! the space from `pd_upper` to the special space, each named by one line pointer. While it changes a page this does not
//! hold: a tuple has two line pointers, or none, or `pd_upper` is not where the lowest tuple starts. So a page of which it
//! holds has header and line pointers from the same point in time, before or after a change, not of its middle.
//!
//! Sources: `PageAddItemExtended`, `PageIndexTupleDelete`, `PageIndexMultiDelete`, `PageRepairFragmentation`,
//! `src/backend/storage/page/bufpage.c`.

use crate::parsers::page::{LinePointerState, PageHeader, line_pointers};

/// Bytes at the end of a page that some ways of copying memory read first. All the rest is read from low to high addresses.
const READ_FIRST_BYTES: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TupleItem<'a> {
    /// Item number, from 1.
    pub(crate) number: u16,
    /// Offset in the page.
    pub(crate) start: usize,
    /// Its bytes, as long as the line pointer says.
    pub(crate) bytes: &'a [u8],
    pub(crate) is_dead: bool,
}

impl TupleItem<'_> {
    /// Bytes that it takes up.
    pub(crate) const fn room(&self) -> usize {
        self.bytes.len().next_multiple_of(8)
    }
}

/// A page whose tuples fill their space.
#[derive(Debug)]
pub(crate) struct TupleSpace<'a> {
    pub(crate) items: Vec<TupleItem<'a>>,
    /// Line pointers, those without a tuple included.
    pub(crate) count: u16,
    pub(crate) upper: usize,
    pub(crate) special: &'a [u8],
    page_bytes: usize,
}

impl<'a> TupleSpace<'a> {
    /// The tuples of `page`; `None` when they leave gaps or lie one over the other.
    pub(crate) fn of(page: &'a [u8]) -> Option<Self> {
        let header = PageHeader::decode(0, page).ok()?;
        let special = page.get(usize::from(header.special)..)?;
        let upper = usize::from(header.upper);
        let mut items = Vec::new();
        let mut count = 0_u16;
        for pointer in line_pointers(&header, page) {
            count = count.saturating_add(1);
            let (start, length) = (usize::from(pointer.offset()), usize::from(pointer.length()));
            let is_dead = pointer.state() == LinePointerState::Dead;
            let has_tuple = length > 0 && (is_dead || pointer.state() == LinePointerState::Normal);
            if has_tuple {
                items.push(TupleItem {
                    number: count,
                    start,
                    bytes: page.get(start..start.checked_add(length)?)?,
                    is_dead,
                });
            }
        }
        let mut by_offset: Vec<&TupleItem<'_>> = items.iter().collect();
        by_offset.sort_unstable_by_key(|item| item.start);
        let end = by_offset
            .iter()
            .try_fold(upper, |next, item| (item.start == next).then(|| next.saturating_add(item.room())))?;
        (end == usize::from(header.special)).then_some(Self { items, count, upper, special, page_bytes: page.len() })
    }

    pub(crate) fn item(&self, number: u16) -> Option<&TupleItem<'a>> {
        let index = self.items.binary_search_by_key(&number, |item| item.number).ok()?;
        self.items.get(index)
    }

    /// True when every line pointer has a tuple, as at all times in the pages of indexes.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() == usize::from(self.count)
    }

    /// True when bytes at `start` were read after header and line pointers.
    pub(crate) const fn is_read_late(&self, start: usize) -> bool {
        start.saturating_add(READ_FIRST_BYTES) <= self.page_bytes
    }

    /// True when each tuple has the size that its line pointer says, as `size` reads it.
    pub(crate) fn sizes_agree(&self, size: impl Fn(&TupleItem<'a>) -> Option<usize>) -> bool {
        self.items.iter().all(|item| size(item).is_some_and(|size| size.next_multiple_of(8) == item.room()))
    }

    /// True when no two tuples have the same key, as `key` reads it. Where tuples were moved while they were copied, one is
    /// there twice: moving leaves the lowest, or the last that was moved, at its old offset as well.
    pub(crate) fn are_distinct<K: Ord>(&self, key: impl Fn(&TupleItem<'a>) -> Option<K>) -> bool {
        let mut keys: Vec<K> = self.items.iter().filter_map(key).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        keys.len() == count
    }
}

#[cfg(test)]
pub(crate) mod testing {
    /// A page with these tuples, put in one below the other, each as long as given, and this special space.
    pub(in crate::analysis::changes) fn page_of(tuples: &[&[u8]], special: &[u8]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let mut upper = 8192 - special.len();
        page[upper..].copy_from_slice(special);
        for (at, value) in [(12, 24 + 4 * tuples.len()), (16, upper), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
        }
        for (index, tuple) in tuples.iter().enumerate() {
            upper -= tuple.len().next_multiple_of(8);
            page[upper..upper + tuple.len()].copy_from_slice(tuple);
            let pointer = u32::try_from(upper | 1 << 15 | tuple.len() << 17).unwrap();
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
        }
        page[14..16].copy_from_slice(&u16::try_from(upper).unwrap().to_le_bytes());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::testing::page_of;
    use super::*;

    #[test]
    fn page_at_rest_has_no_gaps() {
        let page = page_of(&[&[1; 16], &[2; 20], &[3; 32]], &[0; 16]);
        let space = TupleSpace::of(&page).expect("no gaps");
        assert_eq!((space.count, space.items.len(), space.special.len()), (3, 3, 16));
        assert_eq!(space.item(2).unwrap().bytes, [2; 20]);
        assert!(space.item(4).is_none() && space.item(0).is_none());
    }

    #[test]
    fn halves_of_an_insertion_are_seen() {
        let (old, new) = (page_of(&[&[1; 16], &[2; 16]], &[0; 16]), page_of(&[&[1; 16], &[2; 16], &[3; 16]], &[0; 16]));
        for (lower, upper, pointers) in
            [(&new, &old, &old), (&old, &new, &old), (&new, &old, &new), (&old, &new, &new), (&new, &new, &old)]
        {
            let mut page = new.clone();
            page[12..14].copy_from_slice(&lower[12..14]);
            page[14..16].copy_from_slice(&upper[14..16]);
            page[24..40].copy_from_slice(&pointers[24..40]);
            assert!(TupleSpace::of(&page).is_none_or(|space| !space.is_full()));
        }
        // Line pointers that were moved on for a new first one: the second stands twice.
        let mut page = old.clone();
        page.copy_within(24..28, 28);
        assert!(TupleSpace::of(&page).is_none());
    }

    #[test]
    fn tuple_that_was_moved_is_there_twice() {
        let tuples: [&[u8]; 3] = [&[1; 16], &[2; 16], &[3; 16]];
        let mut page = page_of(&tuples, &[0; 16]);
        let key = |item: &TupleItem<'_>| item.bytes.first().copied();
        assert!(TupleSpace::of(&page).unwrap().are_distinct(key));
        // The first tuple is removed: those below move up, while header and line pointers are as before.
        page.copy_within(8128..8160, 8144);
        assert!(!TupleSpace::of(&page).unwrap().are_distinct(key));
    }
}
