//! Blocks of a table that pages beside it speak of: the rows that entries of an index lead to, and the bits of a visibility map.

use super::decode::{u16_at, u32_at};
use super::page::{LinePointerState, PageHeader, line_pointers};
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

/// Hands over each block of the table that a sound page speaks of, some more than once and in no order: the page of each row that
/// an entry of a B-tree, hash, GiST, SP-GiST or GIN index leads to, and each page that block `block` of a visibility map has a bit of.
///
/// Before a server cuts off the end of a table it removes the entries and the bits.
///
/// Source: `lazy_vacuum_heap_rel` and `count_nondeletable_pages`, `src/backend/access/heap/vacuumlazy.c`; `visibilitymap_set`.
pub fn for_each_table_block(
    header: &PageHeader,
    page: &[u8],
    fork: ForkNumber,
    block: BlockNumber,
    on_block: &mut dyn FnMut(BlockNumber),
) {
    let special = page.get(usize::from(header.special)..).unwrap_or_default();
    let flags = u16_at(special, 12).unwrap_or_default();
    let skipped = match PageKind::of(header, page, fork) {
        PageKind::VisibilityMap => return map_blocks(page, block, on_block),
        PageKind::SpGist => return spgist_rows(header, page, special, on_block),
        PageKind::GinEntry => return gin_entries(header, page, special, on_block),
        PageKind::GinOther => return gin_postings(header, page, special, on_block),
        // The first item of a page with a right sibling is the upper bound of its keys.
        PageKind::Btree if flags & BTREE_LEAF != 0 && flags & BTREE_HALF_DEAD == 0 => {
            usize::from(u32_at(special, 4).is_some_and(|right| right != 0))
        }
        PageKind::Hash => 0,
        PageKind::Gist if flags & GIST_LEAF != 0 => 0,
        _ => return,
    };
    let is_btree = PageKind::of(header, page, fork) == PageKind::Btree;
    for entry in entries(header, page, skipped) {
        let (Some(row), Some(item), Some(info)) = (block_at(entry), u16_at(entry, 4), u16_at(entry, 6)) else {
            continue;
        };
        if !is_btree || info & ALT_TID == 0 {
            on_block(row);
        } else if item & IS_POSTING != 0 {
            // The block number says where the list begins.
            let list = usize::try_from(row).ok().and_then(|at| entry.get(at..)).unwrap_or_default();
            let rows = list.as_chunks::<6>().0.iter().take(usize::from(item & COUNT));
            rows.filter_map(|row| block_at(row)).for_each(&mut *on_block);
        }
    }
}

/// The entries of items after so many of them, where an item has one.
fn entries<'a>(header: &PageHeader, page: &'a [u8], skipped: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    line_pointers(header, page).skip(skipped).filter_map(|pointer| {
        let has_entry = matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead);
        let at = usize::from(pointer.offset());
        let entry = page.get(at..at.checked_add(usize::from(pointer.length()))?)?;
        has_entry.then_some(entry)
    })
}

/// Rows of a leaf page of SP-GiST; what is moved, dead or left out has none.
///
/// Source: `SpGistLeafTupleData`, `src/include/access/spgist_private.h`.
fn spgist_rows(header: &PageHeader, page: &[u8], special: &[u8], on_block: &mut dyn FnMut(BlockNumber)) {
    if u16_at(special, 0).unwrap_or_default() & SPGIST_LEAF == 0 {
        return;
    }
    let is_live = |entry: &&[u8]| u32_at(entry, 0).is_some_and(|bits| bits & SPGIST_STATE == SPGIST_LIVE);
    let rows = entries(header, page, 0).filter(is_live).filter_map(|entry| block_at(entry.get(6..)?));
    rows.for_each(on_block);
}

/// Rows of entries of GIN: those of the pending list lead to one row each, the others hold a list where it is short.
///
/// Source: `GinGetNPosting`, `GinGetPostingOffset`, `src/include/access/ginblock.h`.
fn gin_entries(header: &PageHeader, page: &[u8], special: &[u8], on_block: &mut dyn FnMut(BlockNumber)) {
    let flags = u16_at(special, 6).unwrap_or_default();
    for entry in entries(header, page, 0) {
        let (Some(row), Some(count)) = (block_at(entry), u16_at(entry, 4)) else { continue };
        if flags & GIN_LIST != 0 {
            on_block(row);
        } else if flags & GIN_LEAF != 0 && count != GIN_TREE {
            let at = usize::try_from(row & !GIN_COMPRESSED_ENTRY).unwrap_or(usize::MAX);
            let list = entry.get(at..).unwrap_or_default();
            if count == 0 {
                continue;
            } else if row & GIN_COMPRESSED_ENTRY != 0 {
                gin_list(list, on_block);
            } else {
                list.as_chunks::<6>()
                    .0
                    .iter()
                    .take(usize::from(count))
                    .filter_map(|row| block_at(row))
                    .for_each(&mut *on_block);
            }
        }
    }
}

/// Rows of a leaf page of a tree that stands for one entry of GIN.
///
/// Source: `GinDataLeafPageGetPostingList`, `src/include/access/ginblock.h`.
fn gin_postings(header: &PageHeader, page: &[u8], special: &[u8], on_block: &mut dyn FnMut(BlockNumber)) {
    const LEAF: u16 = GIN_DATA | GIN_LEAF;
    // A right bound stands before the lists.
    const FIRST: usize = PageHeader::SIZE + 8;
    let (flags, rows) = (u16_at(special, 6).unwrap_or_default(), u16_at(special, 4).unwrap_or_default());
    if flags & (LEAF | GIN_DELETED) != LEAF {
        return;
    }
    let mut rest = page.get(FIRST..usize::from(header.lower)).unwrap_or_default();
    if flags & GIN_COMPRESSED == 0 {
        let rest = page.get(FIRST..).unwrap_or_default().as_chunks::<6>().0;
        return rest.iter().take(usize::from(rows)).filter_map(|row| block_at(row)).for_each(on_block);
    }
    while let Some(bytes) = gin_list(rest, on_block) {
        rest = rest.get(bytes..).unwrap_or_default();
    }
}

/// Rows of a list: the first one, the bytes that follow, and in them the distance to each next one, seven bits to a byte, the
/// lowest first. Gives the bytes of the list; `None` when there is none.
///
/// Source: `GinPostingList`, `src/include/access/ginblock.h`; `decode_varbyte`, `src/backend/access/gin/ginpostinglist.c`.
fn gin_list(list: &[u8], on_block: &mut dyn FnMut(BlockNumber)) -> Option<usize> {
    let (first, item, length) = (block_at(list)?, u16_at(list, 4)?, usize::from(u16_at(list, 6)?));
    let distances = list.get(8..8_usize.saturating_add(length))?;
    on_block(first);
    let mut row = u64::from(first) << GIN_ITEM_BITS | u64::from(item);
    let (mut distance, mut shift) = (0_u64, 0_u32);
    for byte in distances {
        distance |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
        shift = shift.saturating_add(7);
        if byte & 0x80 == 0 {
            row = row.saturating_add(distance);
            on_block(BlockNumber::try_from(row >> GIN_ITEM_BITS).ok()?);
            (distance, shift) = (0, 0);
        }
    }
    Some(8_usize.saturating_add(length).next_multiple_of(2))
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
