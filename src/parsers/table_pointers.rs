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

/// Pages of a table in one byte of its visibility map: `HEAPBLOCKS_PER_BYTE`, `src/backend/access/heap/visibilitymap.c`.
const BLOCKS_PER_BYTE: u32 = 4;

/// Hands over each block of the table that a sound page speaks of, some more than once and in no order: the page of each row that
/// an entry of a B-tree, a hash or a GiST index leads to, and each page that block `block` of a visibility map has a bit of.
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
        // The first item of a page with a right sibling is the upper bound of its keys.
        PageKind::Btree if flags & BTREE_LEAF != 0 && flags & BTREE_HALF_DEAD == 0 => {
            usize::from(u32_at(special, 4).is_some_and(|right| right != 0))
        }
        PageKind::Hash => 0,
        PageKind::Gist if flags & GIST_LEAF != 0 => 0,
        _ => return,
    };
    let is_btree = PageKind::of(header, page, fork) == PageKind::Btree;
    for pointer in line_pointers(header, page).skip(skipped) {
        let at = usize::from(pointer.offset());
        let has_entry = matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead);
        let Some(entry) = at.checked_add(usize::from(pointer.length())).and_then(|end| page.get(at..end)) else {
            continue;
        };
        let (Some(row), Some(item), Some(info)) = (block_at(entry), u16_at(entry, 4), u16_at(entry, 6)) else {
            continue;
        };
        if !has_entry {
            continue;
        }
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
