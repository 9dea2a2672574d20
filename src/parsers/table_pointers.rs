//! Blocks of a table that other relations refer to: the rows that index entries point to, and the bits of a visibility map;
//! and entries that point to no row.

use std::cell::Cell;

use super::decode::{u16_at, u32_at};
use super::page::{LinePointer, LinePointerState, PageHeader, line_pointers};
use super::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber};

/// `BTP_LEAF`, `BTP_HALF_DEAD`, `src/include/access/nbtree.h`: entries of a page that is half dead lead to pages of the index.
const BTREE_LEAF: u16 = 0x01;
const BTREE_HALF_DEAD: u16 = 0x10;

/// `INDEX_ALT_TID_MASK`, `BT_IS_POSTING`, `BT_OFFSET_MASK`, the same file: the pointer of the entry means something else, a list of rows.
const ALT_TID: u16 = 0x2000;
const IS_POSTING: u16 = 0x2000;
const COUNT: u16 = 0x0FFF;

/// `F_LEAF`, `src/include/access/gist.h`.
const GIST_LEAF: u16 = 0x01;

/// `SPGIST_LEAF`; `tupstate` and `SPGIST_LIVE`: `src/include/access/spgist_private.h`.
const SPGIST_LEAF: u16 = 0x04;
const SPGIST_STATE: u32 = 0x03;
const SPGIST_LIVE: u32 = 0;

/// `GIN_DATA`, `GIN_LEAF`, `GIN_DELETED`, `GIN_LIST`, `GIN_COMPRESSED`; `GIN_TREE_POSTING` and `GIN_ITUP_COMPRESSED`:
/// `src/include/access/ginblock.h`. Bits of a number of an item in a list: `MaxHeapTuplesPerPageBits`,
/// `src/backend/access/gin/ginpostinglist.c`.
const GIN_DATA: u16 = 0x01;
const GIN_LEAF: u16 = 0x02;
const GIN_DELETED: u16 = 0x04;
const GIN_LIST: u16 = 0x10;
const GIN_COMPRESSED: u16 = 0x80;
const GIN_TREE: u16 = 0xFFFF;
const GIN_COMPRESSED_ENTRY: u32 = 1 << 31;
const GIN_ITEM_BITS: u32 = 11;

/// Pages of a table in one byte of its visibility map: `HEAPBLOCKS_PER_BYTE`, `src/backend/access/heap/visibilitymap.c`.
const BLOCKS_PER_BYTE: u32 = 4;

/// Passes on each block of the table that a sound page refers to, some more than once and in no order: the page of each row that
/// an entry of a B-tree, hash, GiST, SP-GiST or GIN index leads to, and each page that block `block` of a visibility map has a bit of.
///
/// Before a server cuts off the end of a table it removes the entries and the bits. What cannot be a row is passed over: see [`broken_rows`].
///
/// Source: `lazy_vacuum_heap_rel` and `count_nondeletable_pages`, `src/backend/access/heap/vacuumlazy.c`; `visibilitymap_set`.
pub(crate) fn for_each_table_block(
    header: &PageHeader,
    page: &[u8],
    fork: ForkNumber,
    block: BlockNumber,
    on_block: &mut dyn FnMut(BlockNumber),
) {
    if PageKind::of(header, page, fork) == PageKind::VisibilityMap {
        map_blocks(page, block, on_block);
    } else {
        let mut on_row = |_, row: Option<BlockNumber>| row.into_iter().for_each(&mut *on_block);
        IndexPage::new(header, page, fork).for_each_row(&mut on_row);
    }
}

/// The first entry of a page of an index, from 1, that leads to what cannot be a row, or whose list of rows is broken: an item
/// number is 0 or too large, rows do not follow each other, or a list continues past its entry.
///
/// Source: `BTreeTupleIsPosting`, `src/include/access/nbtree.h`; `ginPostingListDecodeAllSegments`,
/// `src/backend/access/gin/ginpostinglist.c`; `ItemPointerIsValid`, `src/include/storage/itemptr.h`.
pub(crate) fn broken_rows(header: &PageHeader, page: &[u8]) -> Option<usize> {
    let mut first: Option<usize> = None;
    let mut on_row = |index: usize, row: Option<BlockNumber>| {
        if row.is_none() {
            first = first.or(Some(index.saturating_add(1)));
        }
    };
    IndexPage::new(header, page, ForkNumber::Main).for_each_row(&mut on_row);
    first
}

/// Targets of entries: the number of the entry, from 0, and the block of a row, or `None` without a row.
type OnRow<'a> = dyn FnMut(usize, Option<BlockNumber>) + 'a;

/// A page of an index, whose special space says what its entries mean.
struct IndexPage<'a> {
    header: &'a PageHeader,
    page: &'a [u8],
    fork: ForkNumber,
    /// Bytes that further lists of rows may have.
    left: Cell<usize>,
}

impl<'a> IndexPage<'a> {
    const fn new(header: &'a PageHeader, page: &'a [u8], fork: ForkNumber) -> Self {
        Self { header, page, fork, left: Cell::new(page.len()) }
    }

    /// False for a list that must share its bytes with others, so that hostile pages cost no more than others.
    fn takes(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or_default());
        left.is_some()
    }

    fn for_each_row(&self, on_row: &mut OnRow<'_>) {
        let special = self.page.get(usize::from(self.header.special)..).unwrap_or_default();
        let flags = u16_at(special, 12).unwrap_or_default();
        match PageKind::of(self.header, self.page, self.fork) {
            PageKind::Btree if flags & BTREE_LEAF != 0 && flags & BTREE_HALF_DEAD == 0 => {
                // The first item of a page with a right sibling is the upper bound of its keys.
                let skipped = usize::from(u32_at(special, 4).is_some_and(|right| right != 0));
                self.btree_rows(skipped, on_row);
            }
            PageKind::Hash => self.single_rows(on_row),
            PageKind::Gist if flags & GIST_LEAF != 0 => self.single_rows(on_row),
            PageKind::SpGist if u16_at(special, 0).unwrap_or_default() & SPGIST_LEAF != 0 => self.spgist_rows(on_row),
            PageKind::GinEntry => self.gin_entries(u16_at(special, 6).unwrap_or_default(), on_row),
            PageKind::GinOther => self.gin_postings(special, on_row),
            _ => {}
        }
    }

    /// The entries of the items that have one, with their numbers from 0.
    fn entries(&self) -> impl Iterator<Item = (usize, &[u8])> {
        line_pointers(self.header, self.page).enumerate().filter_map(|(index, pointer)| {
            let has_entry = matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead);
            let at = usize::from(pointer.offset());
            let entry = self.page.get(at..at.checked_add(usize::from(pointer.length()))?)?;
            (has_entry && !entry.is_empty()).then_some((index, entry))
        })
    }

    /// The row that these bytes point to.
    fn row(&self, bytes: Option<&[u8]>) -> Option<Row> {
        let row = Row::of(bytes?)?;
        (row.item > 0 && usize::from(row.item) <= self.page.len() / LinePointer::SIZE).then_some(row)
    }

    fn array(&self, index: usize, list: Option<&[u8]>, count: usize, on_row: &mut OnRow<'_>) {
        let list = list.map_or(&[][..], |list| list.as_chunks::<{ Row::SIZE }>().0);
        let rows = || list.iter().take(count).map(|row| self.row(Some(row.as_slice())));
        if list.len() < count
            || !self.takes(count.saturating_mul(Row::SIZE))
            || !rows().is_sorted_by(|one, next| one.is_some() && one < next)
            || rows().any(|row| row.is_none())
        {
            on_row(index, None);
        } else {
            rows().for_each(|row| on_row(index, row.map(|row| row.block)));
        }
    }

    fn single_rows(&self, on_row: &mut OnRow<'_>) {
        for (index, entry) in self.entries() {
            on_row(index, self.row(Some(entry)).map(|row| row.block));
        }
    }

    fn btree_rows(&self, skipped: usize, on_row: &mut OnRow<'_>) {
        for (index, entry) in self.entries().filter(|(index, _)| *index >= skipped) {
            let (Some(at), Some(info)) = (Row::of(entry), u16_at(entry, 6)) else {
                on_row(index, None);
                continue;
            };
            if info & ALT_TID == 0 {
                on_row(index, self.row(Some(entry)).map(|row| row.block));
            } else if at.item & IS_POSTING != 0 {
                // The block number says where the list begins.
                let list = usize::try_from(at.block).ok().and_then(|at| entry.get(at..));
                self.array(index, list, usize::from(at.item & COUNT), on_row);
            }
        }
    }

    /// Rows of a leaf page of SP-GiST; what is moved, dead or left out has none.
    ///
    /// Source: `SpGistLeafTupleData`, `src/include/access/spgist_private.h`.
    fn spgist_rows(&self, on_row: &mut OnRow<'_>) {
        let is_live = |entry: &[u8]| u32_at(entry, 0).is_some_and(|bits| bits & SPGIST_STATE == SPGIST_LIVE);
        for (index, entry) in self.entries().filter(|(_, entry)| is_live(entry)) {
            on_row(index, self.row(entry.get(6..)).map(|row| row.block));
        }
    }

    /// Rows of entries of GIN: those of the pending list lead to one row each, the others hold a list where it is short.
    ///
    /// Source: `GinGetNPosting`, `GinGetPostingOffset`, `src/include/access/ginblock.h`.
    fn gin_entries(&self, flags: u16, on_row: &mut OnRow<'_>) {
        if flags & GIN_LIST != 0 {
            return self.single_rows(on_row);
        } else if flags & GIN_LEAF == 0 {
            return;
        }
        for (index, entry) in self.entries() {
            let Some(Row { block: at, item: count }) = Row::of(entry) else {
                on_row(index, None);
                continue;
            };
            let list = usize::try_from(at & !GIN_COMPRESSED_ENTRY).ok().and_then(|at| entry.get(at..));
            if count == GIN_TREE || count == 0 {
                continue;
            } else if at & GIN_COMPRESSED_ENTRY == 0 {
                self.array(index, list, count.into(), on_row);
            } else {
                self.gin_list(index, list.unwrap_or_default(), on_row);
            }
        }
    }

    /// Rows of a leaf page of a tree that stands for one entry of GIN.
    ///
    /// Source: `GinDataLeafPageGetPostingList`, `src/include/access/ginblock.h`.
    fn gin_postings(&self, special: &[u8], on_row: &mut OnRow<'_>) {
        const LEAF: u16 = GIN_DATA | GIN_LEAF;
        // A right bound stands before the lists.
        const FIRST: usize = PageHeader::SIZE + 8;
        let (flags, rows) = (u16_at(special, 6).unwrap_or_default(), u16_at(special, 4).unwrap_or_default());
        if flags & (LEAF | GIN_DELETED) != LEAF {
            return;
        }
        if flags & GIN_COMPRESSED == 0 {
            return self.array(0, self.page.get(FIRST..self.header.special.into()), rows.into(), on_row);
        }
        let mut rest = self.page.get(FIRST..usize::from(self.header.lower)).unwrap_or_default();
        for index in 0_usize.. {
            if rest.is_empty() {
                break;
            }
            let Some(bytes) = self.gin_list(index, rest, on_row) else { break };
            rest = rest.get(bytes..).unwrap_or_default();
        }
    }

    /// Rows of a list: the first one, the bytes that follow, and in them the distance to each next one, seven bits to a byte, the
    /// lowest first. Gives the bytes of the list; `None` without a list.
    ///
    /// Source: `GinPostingList`, `src/include/access/ginblock.h`; `decode_varbyte`, `src/backend/access/gin/ginpostinglist.c`.
    fn gin_list(&self, index: usize, list: &[u8], on_row: &mut OnRow<'_>) -> Option<usize> {
        let first = self.row(Some(list));
        let length = u16_at(list, 6).map(usize::from);
        let length = length.filter(|length| self.takes(*length));
        let distances = length.and_then(|length| list.get(8..8_usize.checked_add(length)?));
        let (Some(first), Some(distances)) = (first, distances) else {
            on_row(index, None);
            return None;
        };
        let rows =
            || Distances { row: u64::from(first.block) << GIN_ITEM_BITS | u64::from(first.item), rest: distances };
        if rows().any(|row| row.is_none()) {
            on_row(index, None);
            return None;
        }
        on_row(index, Some(first.block));
        rows().flatten().for_each(|block| on_row(index, Some(block)));
        Some(8_usize.saturating_add(distances.len()).next_multiple_of(2))
    }
}

/// Where a row stands, in the order in which rows do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    block: BlockNumber,
    item: u16,
}

impl Row {
    const SIZE: usize = 6;

    fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self { block: block_at(bytes)?, item: u16_at(bytes, 4)? })
    }
}

/// Blocks of the rows that distances lead to; `None`, and then the end, where they do not.
struct Distances<'a> {
    row: u64,
    rest: &'a [u8],
}

impl Iterator for Distances<'_> {
    type Item = Option<BlockNumber>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.rest.iter().position(|byte| byte & 0x80 == 0);
        let Some((distance, rest)) = bytes.and_then(|last| self.rest.split_at_checked(last.checked_add(1)?)) else {
            self.rest = &[];
            return Some(None);
        };
        self.rest = rest;
        let mut sum = 0_u64;
        for (shift, byte) in (0_u32..).step_by(7).zip(distance) {
            sum |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
        }
        self.row = self.row.saturating_add(sum);
        let block = BlockNumber::try_from(self.row >> GIN_ITEM_BITS).ok();
        if sum == 0 || block.is_none() {
            self.rest = &[];
        }
        Some(block.filter(|_| sum > 0))
    }
}

/// A block number as rows are pointed to: the high half first.
fn block_at(bytes: &[u8]) -> Option<BlockNumber> {
    Some(u32::from(u16_at(bytes, 0)?) << 16 | u32::from(u16_at(bytes, 2)?))
}

fn map_blocks(page: &[u8], block: BlockNumber, on_block: &mut dyn FnMut(BlockNumber)) {
    let bits = page.get(PageHeader::SIZE..).unwrap_or_default();
    let per_page = u32::try_from(bits.len()).unwrap_or_default().saturating_mul(BLOCKS_PER_BYTE);
    let first = block.saturating_mul(per_page);
    for (index, byte) in (0_u32..).zip(bits).filter(|(_, byte)| **byte != 0) {
        for pair in 0..BLOCKS_PER_BYTE {
            if byte >> pair.saturating_mul(2) & 3 != 0 {
                on_block(first.saturating_add(index.saturating_mul(BLOCKS_PER_BYTE)).saturating_add(pair));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with this special space and these entries.
    fn page(special: &[u8], entries: &[&[u8]]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let start = 8192 - special.len();
        page[start..].copy_from_slice(special);
        let mut upper = start;
        for (index, entry) in entries.iter().enumerate() {
            upper -= entry.len().next_multiple_of(8);
            page[upper..upper + entry.len()].copy_from_slice(entry);
            let pointer = u32::try_from(upper | 1 << 15 | entry.len() << 17).unwrap();
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
        }
        for (at, value) in [(12, 24 + 4 * entries.len()), (14, upper), (16, start), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
        }
        page
    }

    /// The blocks that a page names, and its first broken entry.
    fn rows(page: &[u8]) -> (Vec<BlockNumber>, Option<usize>) {
        let header = PageHeader::decode(0, page).unwrap();
        let mut blocks = Vec::new();
        for_each_table_block(&header, page, ForkNumber::Main, 1, &mut |block| blocks.push(block));
        (blocks, broken_rows(&header, page))
    }

    const LEAF: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

    #[test]
    fn entry_of_a_btree_leads_to_a_row_or_to_rows_in_order() {
        // Block 0x0001_0002, item 3.
        let one = [1, 0, 2, 0, 3, 0, 16, 0, 9, 9, 9, 9, 9, 9, 9, 9];
        // Two rows from byte 16 on: block 7, items 5 and 6.
        let list =
            [0, 0, 16, 0, 2, 0x20, 32, 0x20, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 7, 0, 5, 0, 0, 0, 7, 0, 6, 0, 0, 0, 0, 0];
        assert_eq!(rows(&page(&LEAF, &[&one, &list])), (vec![0x1_0002, 7, 7], None));

        let changed = |at: usize, byte: u8| {
            let mut list = list;
            list[at] = byte;
            rows(&page(&LEAF, &[&one, &list]))
        };
        let broken = (vec![0x1_0002], Some(2));
        assert_eq!(changed(26, 4), broken, "the second row comes before the first one");
        assert_eq!(changed(26, 5), broken, "the same row twice");
        assert_eq!(changed(26, 0), broken, "no item has number 0");
        assert_eq!(changed(27, 0xFF), broken, "no page has so many items");
        assert_eq!(changed(2, 24), broken, "the list would continue past the entry");
        assert_eq!(changed(5, 0x2F), broken, "so many rows have no room in it");

        let mut none = one;
        none[4] = 0;
        assert_eq!(rows(&page(&LEAF, &[&none, &list])), (vec![7, 7], Some(1)));
    }

    #[test]
    fn lists_that_share_their_bytes_are_walked_once() {
        // 500 rows of block 7, from byte 16 of the entry on.
        let mut list = vec![0, 0, 16, 0, 0xF4, 0x21, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0];
        list.extend((1..=500_u16).flat_map(|item| [[0, 0], [7, 0], item.to_le_bytes()].concat()));
        list.resize(list.len().next_multiple_of(8), 0);
        let mut shared = page(&LEAF, &[&list]);
        let (pointers, pointer) = (1000, shared[24..28].to_vec());
        for index in 0..pointers {
            shared[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer);
        }
        shared[12..14].copy_from_slice(&u16::try_from(24 + 4 * pointers).unwrap().to_le_bytes());
        let (blocks, broken) = rows(&shared);
        assert_eq!((blocks.len(), broken), (1000, Some(3)), "two such lists fit on a page");
    }

    #[test]
    fn upper_bound_of_a_leaf_leads_to_no_row() {
        let mut special = LEAF;
        special[4] = 8;
        let (bound, row) = ([0; 8], [0, 0, 4, 0, 1, 0, 8, 0]);
        assert_eq!(rows(&page(&special, &[&bound, &row])), (vec![4], None));
        assert_eq!(rows(&page(&LEAF, &[&bound, &row])), (vec![4], Some(1)));
    }

    #[test]
    fn lists_of_gin_count_up() {
        const ENTRIES: [u8; 8] = [0, 0, 0, 0, 0, 0, 2, 0];
        // A list from byte 8 on: block 1, item 2; then 1 item further, and 2048 times 2 items further, which is 2 blocks.
        let list = |distances: [u8; 4]| {
            let mut entry = [0x00, 0x80, 8, 0, 3, 0, 24, 0, 0, 0, 1, 0, 2, 0, 4, 0, 0, 0, 0, 0];
            entry[16..].copy_from_slice(&distances);
            rows(&page(&ENTRIES, &[&entry]))
        };
        assert_eq!(list([1, 0x80, 0x20, 1]), (vec![1, 1, 3, 3], None));
        assert_eq!(list([1, 0x80, 0x20, 0]), (vec![], Some(1)), "the same row twice");
        assert_eq!(list([1, 1, 1, 0x81]), (vec![], Some(1)), "the last distance continues");

        // A leaf of a tree of such lists: the second one is cut off by the end of what the page holds.
        let tree = |lower: u16| {
            let mut page = page(&[0, 0, 0, 0, 0, 0, 0x83, 0], &[]);
            page[12..14].copy_from_slice(&lower.to_le_bytes());
            page[32..42].copy_from_slice(&[0, 0, 1, 0, 2, 0, 2, 0, 1, 1]);
            page[42..52].copy_from_slice(&[0, 0, 9, 0, 2, 0, 2, 0, 1, 1]);
            rows(&page)
        };
        assert_eq!(tree(52), (vec![1, 1, 1, 9, 9, 9], None));
        assert_eq!(tree(51), (vec![1, 1, 1], Some(2)));
    }
}
