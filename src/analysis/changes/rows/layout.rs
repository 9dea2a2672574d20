//! Rules that every server keeps about the items of one page, whatever stands in them. No server reports a page that breaks
//! them; one that is made up of two versions often does.

use std::collections::{HashMap, HashSet};

use rustc_hash::FxHashMap;
use strum::{IntoStaticStr, VariantNames};

use crate::parsers::heap::{TupleHeader, page_tuples};
use crate::parsers::page::{LinePointerState, PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::parsers::table_pointers::broken_rows;
use crate::types::{BlockNumber, ForkNumber};

/// Items are aligned to 8 bytes.
const ALIGNMENT: usize = 8;

/// Bits of `t_info` of an index entry that hold its size.
const ENTRY_SIZE: u16 = 0x1FFF;

/// Flag of a leaf page of SP-GiST, and the bits of a tuple that hold its state, 0 for a live one.
const SPGIST_LEAF: u8 = 1 << 2;
const SPGIST_STATE: u32 = 3;
/// States of a mark that leads elsewhere, and of one that later entries replace.
const SPGIST_REDIRECT: u8 = 1;
const SPGIST_PLACEHOLDER: u8 = 3;
/// Bits of an entry's link; never more are set before 14.
const SPGIST_LINK: u16 = 0x3FFF;

/// Rows that name each other's location before that counts: one can come from an update that was undone and frozen.
const LEAST_MISPLACED: usize = 2;

/// A rule that the items of a page break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", prefix = "items_")]
pub enum LayoutFault {
    /// The items do not fill the space after `pd_upper`: whatever takes one away closes the gap.
    Gap {
        /// Bytes that the items take.
        used: usize,
        /// Bytes that there are for them.
        space: usize,
    },
    /// Two items share bytes.
    Overlap {
        /// Item number, from 1.
        item: usize,
        /// That of the other.
        other: usize,
    },
    /// The space at the end of a page that says of which sort it is holds only zeros: what was written first of it ends before.
    Special {
        /// Bytes of that space.
        bytes: usize,
    },
    /// The length that an entry of an index has in its own head is not that in its line pointer.
    Length {
        /// Item number, from 1.
        item: usize,
        /// Bytes by the line pointer.
        pointer: usize,
        /// Bytes by the entry.
        own: usize,
    },
    /// Two entries of an index are the same, down to the row that they lead to.
    Duplicate {
        /// Item number, from 1.
        item: usize,
        /// That of the other.
        other: usize,
    },
    /// A page of SP-GiST counts other marks than stand on it where entries were.
    Marks {
        /// As the special space counts them.
        counted: usize,
        /// As they are.
        found: usize,
    },
    /// An SP-GiST entry points to an item that is not an entry, or that another one points to as well.
    Chain {
        /// Item number, from 1.
        item: usize,
        /// Where it leads.
        next: usize,
    },
    /// An entry of an index leads to what cannot be a row, or its list of rows is broken.
    Rows {
        /// Item number of the entry, or number of the list on a page of lists, from 1.
        item: usize,
    },
    /// Rows that were never updated name each other's location as their own.
    Misplaced {
        /// How many.
        count: usize,
    },
}

impl LayoutFault {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// The first of these rules that a page with a sound header and sound line pointers breaks.
pub(crate) fn layout_fault(page: &[u8], block: BlockNumber) -> Option<LayoutFault> {
    let header = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty())?;
    let kind = PageKind::of(&header, page, ForkNumber::Main);
    let special = page.get(usize::from(header.special)..).unwrap_or_default();
    if !special.is_empty() && special.iter().all(|byte| *byte == 0) {
        return Some(LayoutFault::Special { bytes: special.len() });
    }
    let is_known = matches!(
        kind,
        PageKind::Heap | PageKind::Btree | PageKind::Hash | PageKind::Gist | PageKind::SpGist | PageKind::GinEntry
    );
    let rows = || broken_rows(&header, page).map(|item| LayoutFault::Rows { item });
    if !is_known {
        return rows();
    }
    fill(&header, page)
        .or_else(|| lengths(&header, page, kind))
        .or_else(|| {
            matches!(kind, PageKind::Btree | PageKind::Hash | PageKind::Gist)
                .then(|| duplicate(&header, page))
                .flatten()
        })
        .or_else(|| (kind == PageKind::SpGist).then(|| marks(&header, page).or_else(|| chain(&header, page))).flatten())
        .or_else(rows)
        .or_else(|| (kind == PageKind::Heap).then(|| misplaced(&header, page, block)).flatten())
}

fn fill(header: &PageHeader, page: &[u8]) -> Option<LayoutFault> {
    let mut extents: Vec<(usize, usize, usize)> = line_pointers(header, page)
        .enumerate()
        .filter(|(_, pointer)| matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead))
        .map(|(index, pointer)| (usize::from(pointer.offset()), usize::from(pointer.length()), index.saturating_add(1)))
        .filter(|(_, length, _)| *length > 0)
        .map(|(offset, length, item)| (offset, offset.saturating_add(length.next_multiple_of(ALIGNMENT)), item))
        .collect();
    extents.sort_unstable();
    let overlap = extents.windows(2).find_map(|pair| match pair {
        [(_, end, other), (start, _, item)] if start < end => Some(LayoutFault::Overlap { item: *item, other: *other }),
        _ => None,
    });
    let used = extents.iter().map(|(start, end, _)| end.saturating_sub(*start)).sum();
    let space = usize::from(header.special).saturating_sub(usize::from(header.upper));
    overlap.or((used != space).then_some(LayoutFault::Gap { used, space }))
}

/// Entries of an index say how long they are, and so do their line pointers. (Those of GIN use these bits for other things.)
///
/// Source: `IndexTupleSize`, `src/include/access/itup.h`; `SpGistLeafTupleData`, `SpGistInnerTupleData` and
/// `SpGistDeadTupleData`, `src/include/access/spgist_private.h`.
fn lengths(header: &PageHeader, page: &[u8], kind: PageKind) -> Option<LayoutFault> {
    let special = page.get(usize::from(header.special)..).unwrap_or_default();
    let is_inner = special.first().is_some_and(|flags| flags & SPGIST_LEAF == 0);
    line_pointers(header, page).enumerate().find_map(|(index, pointer)| {
        let is_used = matches!(pointer.state(), LinePointerState::Normal | LinePointerState::Dead);
        let at = usize::from(pointer.offset());
        let head: [u8; 8] = page.get(at..).and_then(|entry| entry.first_chunk()).copied().filter(|_| is_used)?;
        let [a, b, c, d, e, f, g, h] = head;
        let state_and_size = u32::from_le_bytes([a, b, c, d]);
        let own = match kind {
            PageKind::Btree | PageKind::Hash | PageKind::Gist => usize::from(u16::from_le_bytes([g, h]) & ENTRY_SIZE),
            // A tuple that is no longer live is of one form on all pages.
            PageKind::SpGist if is_inner && state_and_size & SPGIST_STATE == 0 => {
                usize::from(u16::from_le_bytes([e, f]))
            }
            PageKind::SpGist => usize::try_from(state_and_size >> 2).ok()?,
            _ => return None,
        };
        let pointer = usize::from(pointer.length());
        let differ = pointer > 0 && pointer.next_multiple_of(ALIGNMENT) != own.checked_next_multiple_of(ALIGNMENT)?;
        differ.then_some(LayoutFault::Length { item: index.saturating_add(1), pointer, own })
    })
}

fn duplicate(header: &PageHeader, page: &[u8]) -> Option<LayoutFault> {
    let mut seen: FxHashMap<&[u8], usize> = FxHashMap::default();
    line_pointers(header, page).enumerate().find_map(|(index, pointer)| {
        let at = usize::from(pointer.offset());
        let entry = page.get(at..at.saturating_add(usize::from(pointer.length()))).filter(|entry| !entry.is_empty())?;
        let other = seen.insert(entry, index.saturating_add(1))?;
        Some(LayoutFault::Duplicate { item: index.saturating_add(1), other })
    })
}

/// The heads of SP-GiST's items by item number: state, then bytes 4 and 5, which link an entry of a leaf page to the next.
fn spgist_heads(header: &PageHeader, page: &[u8]) -> Vec<(u8, usize)> {
    let head = |at: usize| page.get(at..).and_then(<[u8]>::first_chunk::<6>);
    line_pointers(header, page)
        .map(|pointer| {
            head(pointer.offset().into()).map_or((SPGIST_PLACEHOLDER, 0), |[state, _, _, _, low, high]| {
                (state & 3, usize::from(u16::from_le_bytes([*low, *high]) & SPGIST_LINK))
            })
        })
        .collect()
}

/// The special space counts the marks that lead elsewhere and those that later entries replace.
///
/// Source: `SpGistPageOpaqueData`, `src/include/access/spgist_private.h`.
fn marks(header: &PageHeader, page: &[u8]) -> Option<LayoutFault> {
    let special = page.get(usize::from(header.special)..)?.first_chunk::<6>()?;
    let heads = spgist_heads(header, page);
    [(SPGIST_REDIRECT, 2), (SPGIST_PLACEHOLDER, 4)].into_iter().find_map(|(state, at)| {
        let found = heads.iter().filter(|(own, _)| *own == state).count();
        let counted = usize::from(u16::from_le_bytes(*special.get(at..)?.first_chunk()?));
        (counted != found).then_some(LayoutFault::Marks { counted, found })
    })
}

/// The live entries of a leaf page of SP-GiST stand in chains without forks.
///
/// Source: `addLeafTuple`, `src/backend/access/spgist/spgdoinsert.c`.
fn chain(header: &PageHeader, page: &[u8]) -> Option<LayoutFault> {
    let flags = page.get(usize::from(header.special)).filter(|flags| **flags & SPGIST_LEAF != 0);
    let heads = flags.map(|_| spgist_heads(header, page)).unwrap_or_default();
    let mut reached = HashSet::new();
    heads.iter().enumerate().find_map(|(index, (state, next))| {
        let is_live =
            |item: usize| item.checked_sub(1).and_then(|index| heads.get(index)).is_some_and(|head| head.0 == 0);
        let leads_on = *state == 0 && *next != 0;
        let is_wrong = leads_on && (!is_live(*next) || !reached.insert(*next));
        is_wrong.then_some(LayoutFault::Chain { item: index.saturating_add(1), next: *next })
    })
}

/// A row that was inserted and never updated names its own location (`t_ctid`).
fn misplaced(header: &PageHeader, page: &[u8], block: BlockNumber) -> Option<LayoutFault> {
    let rows: HashMap<usize, usize> = page_tuples(header, page)
        .filter_map(|tuple| {
            let row = TupleHeader::decode(0, tuple.bytes).ok()?;
            (row.xmax == 0 && row.ctid_block == block).then_some((tuple.item, usize::from(row.ctid_item)))
        })
        .collect();
    let astray: HashSet<usize> = rows.iter().filter(|(item, named)| item != named).map(|(item, _)| *item).collect();
    let count = astray.iter().filter(|item| rows.get(*item).is_some_and(|named| astray.contains(named))).count();
    (count >= LEAST_MISPLACED).then_some(LayoutFault::Misplaced { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with these items: offset, length and bytes of each, and a special space of this length.
    fn page(upper: u16, special: &[u8], items: &[(u16, u16, &[u8])]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let start = 8192 - special.len();
        let lower = u16::try_from(24 + 4 * items.len()).unwrap();
        for (at, value) in [(12, lower), (14, upper), (16, u16::try_from(start).unwrap()), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[start..].copy_from_slice(special);
        for (index, (offset, length, bytes)) in items.iter().enumerate() {
            let pointer = u32::from(*offset) | 1 << 15 | u32::from(*length) << 17;
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
            page[usize::from(*offset)..usize::from(*offset) + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    /// Header of a row of block 7 that names this item as its location.
    fn row(item: u8) -> [u8; 24] {
        let mut row = [0; 24];
        (row[0], row[14], row[16], row[22]) = (9, 7, item, 24);
        row
    }

    #[test]
    fn items_fill_their_space() {
        assert_eq!(layout_fault(&page(8152, &[], &[(8168, 24, &row(1)), (8152, 13, &[])]), 7), None);
        let gap = page(8152, &[], &[(8168, 24, &row(1))]);
        assert_eq!(layout_fault(&gap, 7), Some(LayoutFault::Gap { used: 24, space: 40 }));
        let shared = page(8152, &[], &[(8152, 24, &row(1)), (8168, 24, &row(2))]);
        assert_eq!(layout_fault(&shared, 7), Some(LayoutFault::Overlap { item: 2, other: 1 }));
    }

    #[test]
    fn page_that_ends_in_zeros_is_of_no_sort() {
        assert_eq!(layout_fault(&page(8184, &[0; 8], &[]), 7), Some(LayoutFault::Special { bytes: 8 }));
        assert_eq!(layout_fault(&page(8184, &[0, 0, 0, 0, 0, 0, 0x82, 0xFF], &[]), 7), None);
    }

    #[test]
    fn no_row_stands_twice_in_an_index() {
        // The special space of a B-tree leaf.
        let mut special = [0; 16];
        special[12] = 1;
        let (mut one, mut other) = ([1_u8; 16], [2_u8; 16]);
        one[6..8].copy_from_slice(&[16, 0]);
        other[6..8].copy_from_slice(&[16, 0]);
        assert_eq!(layout_fault(&page(8144, &special, &[(8160, 16, &one), (8144, 16, &other)]), 7), None);
        let duplicate = page(8144, &special, &[(8160, 16, &one), (8144, 16, &one)]);
        assert_eq!(layout_fault(&duplicate, 7), Some(LayoutFault::Duplicate { item: 2, other: 1 }));
    }

    #[test]
    fn entries_and_line_pointers_say_the_same_length() {
        let mut btree = [0; 16];
        btree[12] = 1;
        // 16 bytes and a flag beside them.
        let entry = |size: u8| [1, 0, 2, 0, 3, 0, size, 0x40, 9, 9, 9, 9, 9, 9, 9, size];
        assert_eq!(layout_fault(&page(8144, &btree, &[(8160, 16, &entry(16)), (8144, 13, &entry(13))]), 7), None);
        let wrong = page(8144, &btree, &[(8160, 16, &entry(16)), (8144, 16, &entry(24))]);
        assert_eq!(layout_fault(&wrong, 7), Some(LayoutFault::Length { item: 2, pointer: 16, own: 24 }));

        // Leaf pages have the size after two bits of state; inner ones have that of a live tuple after four bytes.
        let spgist = |flags: u8, head: [u8; 8]| {
            page(8168, &[flags, 0, 0, 0, 0, 0, 0x82, 0xFF], &[(8168, 16, &[&head[..], &[0, 0, 1, 0]].concat())])
        };
        let length = |own: usize| Some(LayoutFault::Length { item: 1, pointer: 16, own });
        assert_eq!(layout_fault(&spgist(4, [16 << 2, 0, 0, 0, 0, 0, 0, 0]), 7), None);
        assert_eq!(layout_fault(&spgist(4, [24 << 2, 0, 0, 0, 0, 0, 0, 0]), 7), length(24));
        assert_eq!(layout_fault(&spgist(0, [0, 0, 0, 0, 16, 0, 0, 0]), 7), None);
        assert_eq!(layout_fault(&spgist(0, [0, 0, 0, 0, 32, 0, 0, 0]), 7), length(32));
        assert_eq!(layout_fault(&spgist(4, [2 | 16 << 2, 0, 0, 0, 99, 0, 0, 0]), 7), None);
    }

    #[test]
    fn spgist_counts_its_marks_and_links_its_entries_in_chains() {
        let leaf = |redirects: u8, placeholders: u8, heads: [(u8, u8); 3]| {
            // Each with item 1 of block 0 as its row.
            let heads: Vec<[u8; 12]> =
                heads.iter().map(|(state, next)| [state | 16 << 2, 0, 0, 0, *next, 0, 0, 0, 0, 0, 1, 0]).collect();
            let at = [8168, 8152, 8136];
            let items: Vec<_> = heads.iter().zip(at).map(|(head, at)| (at, 16, head.as_slice())).collect();
            layout_fault(&page(8136, &[4, 0, redirects, 0, placeholders, 0, 0x82, 0xFF], &items), 7)
        };
        assert_eq!(leaf(0, 0, [(0, 3), (0, 0), (0, 2)]), None);
        assert_eq!(leaf(1, 1, [(1, 0), (3, 0), (0, 0)]), None);
        assert_eq!(leaf(0, 1, [(1, 0), (3, 0), (0, 0)]), Some(LayoutFault::Marks { counted: 0, found: 1 }));
        assert_eq!(leaf(1, 0, [(1, 0), (3, 0), (0, 0)]), Some(LayoutFault::Marks { counted: 0, found: 1 }));
        // Two lead to one, one to a mark, one to nothing.
        assert_eq!(leaf(0, 0, [(0, 3), (0, 3), (0, 0)]), Some(LayoutFault::Chain { item: 2, next: 3 }));
        assert_eq!(leaf(0, 1, [(0, 2), (3, 0), (0, 0)]), Some(LayoutFault::Chain { item: 1, next: 2 }));
        assert_eq!(leaf(0, 0, [(0, 4), (0, 0), (0, 0)]), Some(LayoutFault::Chain { item: 1, next: 4 }));
    }

    #[test]
    fn rows_that_were_never_updated_name_their_own_location() {
        let rows = |named: [u8; 3]| {
            page(8120, &[], &[(8168, 24, &row(named[0])), (8144, 24, &row(named[1])), (8120, 24, &row(named[2]))])
        };
        assert_eq!(layout_fault(&rows([1, 2, 3]), 7), None);
        // One alone can be what an undone update left when it was frozen.
        assert_eq!(layout_fault(&rows([1, 1, 3]), 7), None);
        assert_eq!(layout_fault(&rows([2, 1, 3]), 7), Some(LayoutFault::Misplaced { count: 2 }));
        // Links into other blocks say nothing.
        assert_eq!(layout_fault(&rows([2, 1, 3]), 8), None);
    }
}
