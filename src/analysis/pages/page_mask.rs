//! In which bytes a page that redo built may differ from the server's own page, though both hold the same.
//!
//! A server changes some bytes without a WAL record: hints for visibility, dead entries of an index, what it keeps of free
//! space. Others it leaves as they were because nothing reads them, while redo starts from an empty page. Both pages are
//! masked by what each of them says it is, as the server does when it compares a page with the image in a record
//! (`wal_consistency_checking`); less is masked here, since both pages are whole versions of the same LSN.
//!
//! Source: `src/backend/access/common/bufmask.c` and the `rm_mask` functions of the resource managers.

use std::ops::Range;

use crate::parsers::heap::{TupleHeader, infomask};
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, VALID_FLAGS, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, PageId};

/// `pd_lsn` and `pd_checksum`: who compares pages knows which LSN each must have, and the checksum follows from the rest.
const LSN_AND_CHECKSUM: Range<usize> = 0..10;
/// `pd_flags`: hints, and "all visible", which a page takes with the visibility map and often without a new LSN.
const FLAGS: usize = 10;
/// `pd_lower` and `pd_upper`.
const BOUNDS: Range<usize> = 12..16;
/// `pd_prune_xid`.
const PRUNE_XID: Range<usize> = 20..24;

/// `t_cid` in a row: redo writes the first command of a transaction.
const COMMAND_ID: Range<usize> = 8..12;
/// `HEAP_COMBOCID`: the command number is one of the session's own.
const COMBO_CID: u16 = 0x0020;
/// The item number of a row that is being inserted speculatively (`SpecTokenOffsetNumber`).
const SPECULATIVE_ITEM: u16 = 0xFFFE;

/// `BTP_LEAF`, `BTP_DELETED`, `BTP_META`, `BTP_SPLIT_END`, `BTP_HAS_GARBAGE`, `BTP_HAS_FULLXID`, `src/include/access/nbtree.h`.
const BTREE_LEAF: u16 = 0x0001;
const BTREE_DELETED: u16 = 0x0004;
const BTREE_META: u16 = 0x0008;
const BTREE_SPLIT_END: u16 = 0x0020;
const BTREE_HAS_GARBAGE: u16 = 0x0040;
const BTREE_HAS_FULL_XID: u16 = 0x0100;
/// `btm_last_cleanup_num_heap_tuples` of a B-tree metapage: since major 14 nobody reads it, redo writes -1, and a server
/// leaves what an earlier major wrote.
const BTREE_ROW_COUNT: Range<usize> = 56..64;
/// `GIN_DELETED`, `src/include/access/ginblock.h`.
const GIN_DELETED: u16 = 0x0004;
/// `F_LEAF`, `F_HAS_GARBAGE`, `src/include/access/gist.h`.
const GIST_LEAF: u16 = 0x0001;
const GIST_HAS_GARBAGE: u16 = 0x0010;
/// `LH_PAGE_TYPE`, `LH_PAGE_HAS_DEAD_TUPLES`, `src/include/access/hash.h`.
const HASH_PAGE_TYPE: u16 = 0x000F;
const HASH_HAS_DEAD: u16 = 0x0080;
/// `BRIN_EVACUATE_PAGE`, `BRIN_PAGETYPE_META`, `src/include/access/brin_page.h`.
const BRIN_EVACUATE: u16 = 0x0001;
const BRIN_META: u16 = 0xF091;

/// `lastUsedPages` of an SP-GiST metapage: a cache of pages with free space, never logged.
///
/// Source: `SpGistMetaPageData`, `src/include/access/spgist_private.h`.
const SPGIST_CACHE: Range<usize> = 28..92;

/// `last_value` and `log_cnt` in the user data of a sequence's row.
///
/// Source: `FormData_pg_sequence_data`, `src/include/commands/sequence.h`.
const SEQUENCE_VALUE: Range<usize> = 0..16;

/// The bytes, as ranges in ascending order, in which `built` and `disk` differ though neither a hint nor space without
/// meaning explains it. `pd_lsn` and `pd_checksum` are not compared.
///
/// Bytes of a free space map are compared as they are, although nothing ever makes them exact.
pub fn differences(page: PageId, built: &[u8], disk: &[u8]) -> Vec<Range<usize>> {
    let (built_masked, disk_masked) = (masked(page, built), masked(page, disk));
    let shorter = built_masked.len().min(disk_masked.len());
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in built_masked.iter().zip(&disk_masked).enumerate().filter(|(_, (left, right))| left != right) {
        let end = at.saturating_add(1);
        match found.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => found.push(at..end),
        }
    }
    if built.len() != disk.len() {
        found.push(shorter..built.len().max(disk.len()));
    }
    found
}

/// True when both are pages of a sequence that name other values. A server logs a value that it has not yet handed out, so
/// the page on disk may name an earlier one; which, only the definition of the sequence tells.
pub fn sequence_values_differ(page: PageId, built: &[u8], disk: &[u8]) -> bool {
    let value = |bytes: &[u8]| {
        let header = PageHeader::decode(0, bytes).ok()?;
        let at = sequence_row(&header, bytes).filter(|_| kind_of(page, bytes) == Some(PageKind::Sequence))?;
        bytes.get(shifted(SEQUENCE_VALUE, at)).map(<[u8]>::to_vec)
    };
    value(built).zip(value(disk)).is_some_and(|(built, disk)| built != disk)
}

fn kind_of(page: PageId, bytes: &[u8]) -> Option<PageKind> {
    PageHeader::decode(0, bytes).ok().map(|header| PageKind::of(&header, bytes, page.fork))
}

/// A copy of the page with all bytes zero that may differ.
fn masked(page: PageId, bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let Ok(header) = PageHeader::decode(0, bytes) else { return copy };
    let kind = PageKind::of(&header, bytes, page.fork);
    let is_sound = header.faults(bytes.len()).is_empty() && usize::from(header.lower) >= PageHeader::SIZE;
    // What a header that is not sound says of its page says nothing.
    if kind == PageKind::New || !is_sound {
        return copy;
    }
    blank(&mut copy, LSN_AND_CHECKSUM);
    let special = usize::from(header.special);
    // Where `pd_lower` is that of an empty page, older majors kept other things in what looks like free space.
    let bounds_say_something = usize::from(header.lower) > PageHeader::SIZE;
    match kind {
        // Bits fill a map from its header to its end, and none of them is a hint.
        PageKind::New | PageKind::FreeSpaceMap | PageKind::VisibilityMap => return copy,
        // What a resource manager without hints writes: a sequence, or a generic record.
        PageKind::Unknown | PageKind::Sequence => {
            blank(&mut copy, hole(&header));
            if let Some(at) = sequence_row(&header, bytes).filter(|_| kind == PageKind::Sequence) {
                blank(&mut copy, shifted(SEQUENCE_VALUE, at));
            }
            return copy;
        }
        PageKind::Heap => {
            blank(&mut copy, hole(&header));
            mask_rows(&mut copy, &header, bytes, page.block);
        }
        PageKind::Btree | PageKind::BtreeOther => mask_btree(&mut copy, &header, bytes),
        PageKind::GinEntry | PageKind::GinOther => {
            if word(bytes, special.saturating_add(6)) & GIN_DELETED != 0 {
                // Redo makes it empty, while a server leaves what it held.
                blank(&mut copy, BOUNDS);
                blank(&mut copy, PageHeader::SIZE..special.saturating_add(6));
            } else if bounds_say_something {
                blank(&mut copy, hole(&header));
            }
        }
        PageKind::Gist | PageKind::GistDeleted => {
            blank(&mut copy, hole(&header));
            if word(bytes, special.saturating_add(12)) & GIST_LEAF != 0 {
                mask_dead_entries(&mut copy, &header, bytes);
            }
            clear(&mut copy, special.saturating_add(12), GIST_HAS_GARBAGE);
        }
        PageKind::SpGist => blank(&mut copy, hole(&header)),
        PageKind::SpGistMeta => {
            if bounds_say_something {
                blank(&mut copy, hole(&header));
            }
            blank(&mut copy, SPGIST_CACHE);
        }
        PageKind::Hash => {
            blank(&mut copy, hole(&header));
            mask_dead_entries(&mut copy, &header, bytes);
            clear(&mut copy, special.saturating_add(12), HASH_HAS_DEAD);
        }
        PageKind::HashOther => {
            if word(bytes, special.saturating_add(12)) & HASH_PAGE_TYPE == 0 {
                blank(&mut copy, BOUNDS);
                blank(&mut copy, PageHeader::SIZE..special);
            } else if bounds_say_something {
                blank(&mut copy, hole(&header));
            }
        }
        PageKind::BrinRegular | PageKind::BrinOther => {
            let is_meta = word(bytes, special.saturating_add(6)) == BRIN_META;
            if kind == PageKind::BrinRegular || is_meta && bounds_say_something {
                blank(&mut copy, hole(&header));
            }
            clear(&mut copy, special.saturating_add(4), BRIN_EVACUATE);
        }
    }
    // Bits that have no meaning must agree nevertheless: hints are only those that have one.
    write(&mut copy, FLAGS, &(header.flags & !VALID_FLAGS).to_le_bytes());
    blank(&mut copy, PRUNE_XID);
    copy
}

/// Hints of rows, their command numbers, and the bytes that pad a row.
fn mask_rows(copy: &mut [u8], header: &PageHeader, bytes: &[u8], block: BlockNumber) {
    let stored = |pointer: LinePointer| {
        let has_storage = matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead);
        has_storage && pointer.length() > 0 && pointer.offset() >= header.upper
    };
    let rows = || line_pointers(header, bytes).enumerate().filter(|(_, pointer)| stored(*pointer));
    // Some 32-bit machines begin a row at any multiple of 4.
    let alignment = if rows().all(|(_, pointer)| pointer.offset().is_multiple_of(8)) { 8 } else { 4 };
    for (index, pointer) in rows() {
        let at = usize::from(pointer.offset());
        let end = at.saturating_add(usize::from(pointer.length()));
        blank(copy, end..end.next_multiple_of(alignment).min(usize::from(header.special)));
        let row = bytes.get(at..end).and_then(|row| TupleHeader::decode(0, row).ok());
        let Some(row) = row.filter(|_| pointer.state() == LinePointerState::Normal) else { continue };
        // A row is frozen by a WAL record; one of the two bits alone is a hint.
        let frozen = infomask::XMIN_COMMITTED | infomask::XMIN_INVALID;
        let xmin = if row.has(frozen) { 0 } else { frozen };
        clear(copy, at.saturating_add(20), xmin | infomask::XMAX_COMMITTED | infomask::XMAX_INVALID | COMBO_CID);
        blank(copy, shifted(COMMAND_ID, at));
        if row.ctid_item == SPECULATIVE_ITEM {
            // The token of a session stands where redo writes the row's own address.
            let (high, low) = (block >> 16, block & 0xFFFF);
            for (offset, half) in
                [(12, high), (14, low), (16, u32::try_from(index).unwrap_or_default().saturating_add(1))]
            {
                write(copy, at.saturating_add(offset), &u16::try_from(half).unwrap_or_default().to_le_bytes());
            }
        }
    }
}

fn mask_btree(copy: &mut [u8], header: &PageHeader, bytes: &[u8]) {
    let special = usize::from(header.special);
    let flags = word(bytes, special.saturating_add(12));
    let mut hints = BTREE_SPLIT_END | BTREE_HAS_GARBAGE;
    if flags & BTREE_META != 0 {
        if usize::from(header.lower) > PageHeader::SIZE {
            blank(copy, hole(header));
        }
        blank(copy, BTREE_ROW_COUNT);
    } else if flags & BTREE_DELETED != 0 && flags & BTREE_HAS_FULL_XID == 0 {
        // Up to major 13 redo makes a deleted page empty, while a server leaves what it held.
        blank(copy, BOUNDS);
        blank(copy, PageHeader::SIZE..special);
        hints |= BTREE_LEAF;
    } else {
        blank(copy, hole(header));
        if flags & BTREE_LEAF != 0 {
            mask_dead_entries(copy, header, bytes);
        }
    }
    clear(copy, special.saturating_add(12), hints);
    // The cycle of the last vacuum, which redo sets to 0.
    blank(copy, shifted(0..2, special.saturating_add(14)));
}

/// Entries that a server marked dead become like those that are not.
fn mask_dead_entries(copy: &mut [u8], header: &PageHeader, bytes: &[u8]) {
    for (index, pointer) in line_pointers(header, bytes).enumerate() {
        if pointer.state() == LinePointerState::Dead {
            // State 3 becomes 1, which is normal: bit 16 of the 32 goes.
            let at = PageHeader::SIZE.saturating_add(index.saturating_mul(LinePointer::SIZE));
            clear(copy, at.saturating_add(2), 1);
        }
    }
}

/// Where the user data of the only row of a sequence begins.
fn sequence_row(header: &PageHeader, bytes: &[u8]) -> Option<usize> {
    let pointer = line_pointers(header, bytes).next().filter(|pointer| pointer.state() == LinePointerState::Normal)?;
    let at = usize::from(pointer.offset());
    let row = TupleHeader::decode(0, bytes.get(at..)?).ok()?;
    Some(at.saturating_add(usize::from(row.data_offset)))
}

/// The free space between line pointers and items.
fn hole(header: &PageHeader) -> Range<usize> {
    usize::from(header.lower)..usize::from(header.upper)
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start.saturating_add(by)..range.end.saturating_add(by)
}

/// The 16-bit number at `at`; 0 past the end.
fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// Overwrites what lies within the page.
fn write(copy: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(target) = copy.get_mut(shifted(0..bytes.len(), at)) {
        target.copy_from_slice(bytes);
    }
}

fn clear(copy: &mut [u8], at: usize, bits: u16) {
    let kept = word(copy, at) & !bits;
    write(copy, at, &kept.to_le_bytes());
}

fn blank(copy: &mut [u8], range: Range<usize>) {
    if let Some(bytes) = copy.get_mut(range) {
        bytes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges of bytes")]

    use super::*;
    use crate::types::{ForkNumber, RelFileLocator};

    const PAGE: PageId = PageId {
        rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16384 },
        fork: ForkNumber::Main,
        block: 0x0003_0007,
    };

    /// An empty page whose special space is `special`, with one item of `length` bytes at its end.
    fn page(special: &[u8], length: u16) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let start = 8192 - special.len();
        page[start..].copy_from_slice(special);
        let upper = u16::try_from(start).unwrap() - length.next_multiple_of(8);
        set(&mut page, 0, &[1, 0, 0, 0, 0x28]);
        set(&mut page, 12, &28_u16.to_le_bytes());
        set(&mut page, 14, &upper.to_le_bytes());
        set(&mut page, 16, &u16::try_from(start).unwrap().to_le_bytes());
        set(&mut page, 18, &[4, 0x20]);
        set(&mut page, 24, &(u32::from(upper) | 1 << 15 | u32::from(length) << 17).to_le_bytes());
        page
    }

    fn set(page: &mut [u8], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The differences after `change` on the page of the server.
    fn after(page: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<Range<usize>> {
        let mut disk = page.to_vec();
        change(&mut disk);
        let found = differences(PAGE, page, &disk);
        assert_eq!(found, differences(PAGE, &disk, page), "the order of the two does not matter");
        found
    }

    /// The bytes that count, among all of the page, when each alone is changed by one bit.
    fn counting(page: &[u8], bit: u8) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in 0..page.len() {
            if after(page, |disk| disk[at] ^= bit).is_empty() {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == at => last.end = at + 1,
                _ => found.push(at..at + 1),
            }
        }
        found
    }

    /// A heap page with one row of 29 bytes at 8160: `t_hoff` 24, 5 bytes of data, 3 that pad.
    fn heap() -> Vec<u8> {
        let mut page = page(&[], 29);
        set(&mut page, 8160, &700_u32.to_le_bytes());
        set(&mut page, 8160 + 12, &[3, 0, 7, 0, 1, 0, 1, 0, 2, 8, 24]);
        page
    }

    #[test]
    fn heap_page_may_differ_in_hints_command_padding_and_free_space() {
        // By hand: LSN and checksum 0..10, pd_prune_xid 20..24, the hole 28..8160, t_cid 8168..8172, padding 8189..8192.
        // The bit in pd_flags is one without a meaning.
        assert_eq!(counting(&heap(), 0x80)[..3], [10..20, 24..28, 8160..8168]);
        assert_eq!(counting(&heap(), 0x80)[3..], [8172..8189]);
        // The low bits of the high byte of t_infomask (8181) are hints, its bit 5 (0x2000, updated) is not.
        for (bit, counts) in [(0x01, false), (0x02, false), (0x04, false), (0x08, false), (0x20, true)] {
            assert_eq!(!after(&heap(), |disk| disk[8181] ^= bit).is_empty(), counts, "{bit:#x}");
        }
        // 0x0020 in the low byte says that t_cid is the session's own.
        assert!(after(&heap(), |disk| disk[8180] ^= 0x20).is_empty());
        assert_eq!(after(&heap(), |disk| disk[8180] ^= 0x10), [8180..8181]);
    }

    #[test]
    fn frozen_row_differs_from_one_that_is_not() {
        let mut frozen = heap();
        frozen[8181] = 0x0B;
        assert_eq!(differences(PAGE, &frozen, &heap()), [8181..8182]);
        let mut committed = heap();
        committed[8181] = 0x09;
        let mut unknown = heap();
        unknown[8181] = 0x08;
        assert!(differences(PAGE, &committed, &unknown).is_empty());
    }

    #[test]
    fn flags_without_a_meaning_count() {
        assert!(after(&heap(), |disk| disk[10] = 7).is_empty());
        // Then the header is not sound, and nothing of the page is masked.
        assert!(!after(&heap(), |disk| disk[10] = 8).is_empty());
    }

    #[test]
    fn token_of_a_speculative_row_stands_for_its_own_address() {
        let mut built = heap();
        set(&mut built, 8172, &[3, 0, 7, 0, 1, 0]);
        let token = |disk: &mut [u8]| set(disk, 8172, &[0, 0, 0x55, 0, 0xFE, 0xFF]);
        assert!(after(&built, token).is_empty());
        set(&mut built, 8172, &[3, 0, 7, 0, 2, 0]);
        assert!(!after(&built, token).is_empty());
    }

    #[test]
    fn rows_at_multiples_of_four_are_padded_to_four() {
        let mut page = heap();
        // A second row of 33 bytes at 8124 ends at 8157 and is padded to 8160.
        set(&mut page, 12, &32_u16.to_le_bytes());
        set(&mut page, 14, &8124_u16.to_le_bytes());
        set(&mut page, 28, &(8124_u32 | 1 << 15 | 33 << 17).to_le_bytes());
        assert!(after(&page, |disk| disk[8159] = 1).is_empty());
        assert_eq!(after(&page, |disk| disk[8160] = 1), [8160..8161]);
        // The row at 8160 of 29 bytes is padded to 8192 by either rule.
        assert!(after(&page, |disk| disk[8189] = 1).is_empty());
    }

    fn btree(flags: u16, cycle: u16) -> Vec<u8> {
        let mut special = vec![0; 16];
        set(&mut special, 4, &9_u32.to_le_bytes());
        set(&mut special, 12, &flags.to_le_bytes());
        set(&mut special, 14, &cycle.to_le_bytes());
        page(&special, 16)
    }

    #[test]
    fn dead_entries_are_hints_on_leaves_of_a_btree_only() {
        let dead = |disk: &mut [u8]| disk[26] |= 1;
        assert!(after(&btree(1, 0), dead).is_empty());
        assert_eq!(after(&btree(0, 0), dead), [26..27]);
        // An entry that became free is another thing.
        assert_eq!(after(&btree(1, 0), |disk| disk[25] &= 0x7F), [25..26]);
    }

    #[test]
    fn garbage_end_of_split_and_cycle_are_hints_of_a_btree() {
        assert!(differences(PAGE, &btree(0x01, 0), &btree(0x61, 77)).is_empty());
        assert_eq!(differences(PAGE, &btree(0x01, 0), &btree(0x81, 0)), [8188..8189], "a split that is not finished");
        assert_eq!(after(&btree(1, 0), |disk| disk[8180] ^= 1), [8180..8181], "the right sibling");
    }

    #[test]
    fn deleted_btree_page_of_an_old_major_keeps_what_redo_drops() {
        let built = page(&btree(0x04, 0)[8176..], 0);
        assert!(differences(PAGE, &built, &btree(0x05, 3)).is_empty());
        // Since major 14 the page holds the transaction that frees it, and the flag 0x0100 says so.
        let built = btree(0x0105, 0);
        assert_eq!(after(&built, |disk| disk[24] ^= 1), [24..25]);
    }

    #[test]
    fn btree_metapage_may_keep_its_old_row_count() {
        let mut meta = btree(8, 0);
        set(&mut meta, 12, &72_u16.to_le_bytes());
        assert_eq!(counting(&meta, 1)[1..3], [24..56, 64..72]);
    }

    fn gin(flags: u16) -> Vec<u8> {
        let mut special = vec![0; 8];
        set(&mut special, 6, &flags.to_le_bytes());
        page(&special, 16)
    }

    #[test]
    fn deleted_gin_page_is_its_flags() {
        // Flags, pd_lower and pd_upper count where the bit makes the header unsound.
        assert_eq!(counting(&gin(0x07), 0x40), [10..12, 13..14, 15..20, 8190..8192]);
        // A page whose pd_lower is that of an empty one may keep items in what looks like a hole.
        let mut data = gin(0x83);
        set(&mut data, 12, &24_u16.to_le_bytes());
        assert_eq!(after(&data, |disk| disk[4000] = 1), [4000..4001]);
        assert!(after(&gin(0x83), |disk| disk[4000] = 1).is_empty());
    }

    fn with_id(flags_at: usize, flags: u16, id: u16, size: usize) -> Vec<u8> {
        let mut special = vec![0; size];
        set(&mut special, flags_at, &flags.to_le_bytes());
        set(&mut special, size - 2, &id.to_le_bytes());
        page(&special, 16)
    }

    #[test]
    fn gist_leaf_may_have_garbage_and_dead_entries() {
        let built = with_id(12, 0x01, 0xFF81, 16);
        assert!(after(&built, |disk| (disk[8188], disk[26]) = (0x11, disk[26] | 1)).is_empty());
        assert_eq!(after(&built, |disk| disk[8188] = 0x09), [8188..8189], "its right sibling is not yet in the parent");
        assert_eq!(after(&built, |disk| disk[8176] = 1), [8176..8177], "the LSN of its last split");
        let inner = with_id(12, 0, 0xFF81, 16);
        assert_eq!(after(&inner, |disk| disk[26] |= 1), [26..27]);
    }

    #[test]
    fn spgist_metapage_caches_pages_with_space() {
        let built = with_id(0, 1, 0xFF82, 8);
        assert!(after(&built, |disk| disk[28..92].fill(9)).is_empty());
        assert_eq!(after(&built, |disk| disk[24..28].fill(9)), [24..28]);
        // Another page of the index has items there.
        let mut other = with_id(0, 4, 0xFF82, 8);
        set(&mut other, 12, &92_u16.to_le_bytes());
        assert_eq!(after(&other, |disk| disk[28..92].fill(9)), [28..92]);
    }

    #[test]
    fn hash_page_may_have_dead_entries_and_an_unused_one_anything() {
        let bucket = with_id(12, 2, 0xFF80, 16);
        assert!(after(&bucket, |disk| (disk[8188], disk[26]) = (0x82, disk[26] | 1)).is_empty());
        assert_eq!(after(&bucket, |disk| disk[8188] = 0x12), [8188..8189], "a bucket that is being filled");
        assert_eq!(counting(&with_id(12, 0, 0xFF80, 16), 0x40), [10..12, 13..14, 15..20, 8176..8192]);
    }

    #[test]
    fn map_of_brin_has_no_free_space() {
        let mut map = with_id(4, 0, 0xF092, 8);
        set(&mut map, 12, &24_u16.to_le_bytes());
        assert_eq!(after(&map, |disk| disk[4000] = 1), [4000..4001]);
        let regular = with_id(4, 0, 0xF093, 8);
        assert!(after(&regular, |disk| (disk[4000], disk[8188]) = (1, 1)).is_empty());
        assert_eq!(after(&regular, |disk| disk[8188] = 2), [8188..8189]);
    }

    #[test]
    fn value_of_a_sequence_may_be_an_earlier_one_and_is_reported_apart() {
        let mut built = page(&[0x17, 0x17, 0, 0, 0, 0, 0, 0], 41);
        set(&mut built, 8136 + 22, &[24]);
        set(&mut built, 8136 + 24, &33_u64.to_le_bytes());
        let mut disk = built.clone();
        set(&mut disk, 8136 + 24, &[5, 0, 0, 0, 0, 0, 0, 0, 28]);
        assert!(differences(PAGE, &built, &disk).is_empty());
        assert!(sequence_values_differ(PAGE, &built, &disk));
        assert!(!sequence_values_differ(PAGE, &built, &built));
        assert_eq!(after(&built, |disk| disk[8136 + 40] = 1), [8176..8177], "whether the value was handed out");
    }

    #[test]
    fn other_kinds_have_no_hints() {
        let generic = with_id(0, 0, 0xFF83, 8);
        assert_eq!(counting(&generic, 0x01)[..2], [10..28, 8168..8192]);
        let map = PageId { fork: ForkNumber::Vm, ..PAGE };
        let (mut built, mut disk) = (page(&[], 0), page(&[], 0));
        for map in [&mut built, &mut disk] {
            set(map, 12, &24_u16.to_le_bytes());
            set(map, 24, &[0; 4]);
        }
        disk[5000] = 3;
        assert_eq!(differences(map, &built, &disk), [5000..5001]);
    }

    #[test]
    fn pages_of_other_sizes_and_empty_ones_differ() {
        assert_eq!(differences(PAGE, &heap(), &heap()[..4096]).last(), Some(&(4096..8192)));
        assert!(!differences(PAGE, &vec![0; 8192], &heap()).is_empty());
        assert!(differences(PAGE, &vec![0; 8192], &vec![0; 8192]).is_empty());
        assert!(differences(PAGE, &[], &[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_compared_and_ranges_lie_within(
            built in proptest::collection::vec(proptest::num::u8::ANY, 0..600),
            disk in proptest::collection::vec(proptest::num::u8::ANY, 0..600),
        ) {
            let found = differences(PAGE, &built, &disk);
            proptest::prop_assert!(found.iter().all(|range| range.end <= built.len().max(disk.len())));
            proptest::prop_assert!(found.is_sorted_by(|left, right| left.end <= right.start));
            proptest::prop_assert!(differences(PAGE, &built, &built).is_empty());
        }
    }
}
