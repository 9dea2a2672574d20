//! Changes of a page from one version to the next: fields of the header, line pointers and the rows that they point to,
//! bytes.

use std::ops::Range;

use crate::parsers::heap::TupleHeader;
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, PageId};

/// Ranges of bytes that are listed for one step; what comes after them is counted to the last.
const MAX_RANGES: usize = 1000;

/// Ranges with fewer equal bytes between them are one.
const SHORTEST_GAP: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldChange {
    /// Name in the server's sources.
    pub field: &'static str,
    /// Its value before; an LSN as a number.
    pub before: u64,
    /// Its value after.
    pub after: u64,
}

/// A line pointer, and of a table the header of the row that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemState {
    /// Offset of the tuple, or number of the item that it leads to.
    pub offset: u16,
    pub length: u16,
    pub state: LinePointerState,
    pub row: Option<RowState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowState {
    pub xmin: u32,
    pub xmax: u32,
    /// Where it or its newer version stands.
    pub ctid: (BlockNumber, u16),
    /// `t_infomask`.
    pub infomask: u16,
    /// `t_infomask2`.
    pub infomask2: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemChange {
    pub item: u16,
    /// Earlier state; `None`: it did not exist.
    pub before: Option<ItemState>,
    /// Later state; `None`: it does not exist.
    pub after: Option<ItemState>,
}

impl ItemChange {
    pub const fn code(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }
}

/// Changes from one version of a page to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageDiff {
    pub fields: Vec<FieldChange>,
    /// Items whose line pointer or row header changed.
    pub items: Vec<ItemChange>,
    /// Bytes that differ, `pd_lsn` and `pd_checksum` included.
    pub bytes: Vec<Range<usize>>,
    /// How many bytes differ.
    pub differing: usize,
}

impl PageDiff {
    pub fn of(page: PageId, before: &[u8], after: &[u8]) -> Self {
        let (old, new) = (items(page, before), items(page, after));
        let count = old.len().max(new.len());
        let pairs = (0..count).map(|index| (old.get(index).copied(), new.get(index).copied()));
        let changed = pairs.zip(1_u16..).filter(|((before, after), _)| before != after);
        let changed = changed.map(|((before, after), item)| ItemChange { item, before, after }).collect();
        let (bytes, differing) = ranges(before, after);
        Self { fields: fields(before, after), items: changed, bytes, differing }
    }
}

fn fields(before: &[u8], after: &[u8]) -> Vec<FieldChange> {
    let (Ok(old), Ok(new)) = (PageHeader::decode(0, before), PageHeader::decode(0, after)) else { return Vec::new() };
    let both = |of: fn(&PageHeader) -> u64| (of(&old), of(&new));
    let all = [
        ("pd_lsn", both(|header| header.lsn.0)),
        ("pd_checksum", both(|header| header.checksum.into())),
        ("pd_flags", both(|header| header.flags.into())),
        ("pd_lower", both(|header| header.lower.into())),
        ("pd_upper", both(|header| header.upper.into())),
        ("pd_special", both(|header| header.special.into())),
        ("pd_pagesize_version", both(|header| header.pagesize_version.into())),
        ("pd_prune_xid", both(|header| header.prune_xid.into())),
    ];
    let changed = all.into_iter().filter(|(_, (before, after))| before != after);
    changed.map(|(field, (before, after))| FieldChange { field, before, after }).collect()
}

fn items(page: PageId, bytes: &[u8]) -> Vec<ItemState> {
    let Ok(header) = PageHeader::decode(0, bytes) else { return Vec::new() };
    let kind = PageKind::of(&header, bytes, page.fork);
    if !kind.has_line_pointers() {
        return Vec::new();
    }
    let row = |pointer: &LinePointer| {
        let start = usize::from(pointer.offset());
        let tuple = bytes.get(start..start.saturating_add(usize::from(pointer.length())))?;
        let header = TupleHeader::decode(0, tuple).ok()?;
        Some(RowState {
            xmin: header.xmin,
            xmax: header.xmax,
            ctid: (header.ctid_block, header.ctid_item),
            infomask: header.infomask,
            infomask2: header.infomask2,
        })
    };
    line_pointers(&header, bytes)
        .map(|pointer| {
            let state = pointer.state();
            let has_row = kind == PageKind::Heap && state == LinePointerState::Normal;
            let row = if has_row { row(&pointer) } else { None };
            ItemState { offset: pointer.offset(), length: pointer.length(), state, row }
        })
        .collect()
}

/// The bytes that differ, in ranges, and how many they are. Ranges with few equal bytes between them are one.
fn ranges(before: &[u8], after: &[u8]) -> (Vec<Range<usize>>, usize) {
    let longest = before.len().max(after.len());
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut differing = 0_usize;
    for at in (0..longest).filter(|at| before.get(*at) != after.get(*at)) {
        differing = differing.saturating_add(1);
        let is_full = ranges.len() >= MAX_RANGES;
        match ranges.last_mut() {
            Some(last) if is_full || at.saturating_sub(last.end) < SHORTEST_GAP => last.end = at.saturating_add(1),
            _ => ranges.push(at..at.saturating_add(1)),
        }
    }
    (ranges, differing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ForkNumber, RelFileLocator};

    const PAGE: PageId = PageId {
        rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 },
        fork: ForkNumber::Main,
        block: 7,
    };

    /// A page of a table with rows of 32 bytes: who inserted each, and who deleted it.
    fn heap(rows: &[(u32, u32)]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let lower = u16::try_from(24 + 4 * rows.len()).unwrap();
        let upper = u16::try_from(8192 - 32 * rows.len()).unwrap();
        for (at, value) in [(12, lower), (14, upper), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        for (index, (xmin, xmax)) in rows.iter().enumerate() {
            let at = 8192 - 32 * (index + 1);
            let pointer = u32::try_from(at).unwrap() | 1 << 15 | 32 << 17;
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
            page[at..at + 4].copy_from_slice(&xmin.to_le_bytes());
            page[at + 4..at + 8].copy_from_slice(&xmax.to_le_bytes());
            page[at + 22] = 24;
        }
        page
    }

    #[test]
    fn row_that_is_deleted_and_row_that_comes_are_two_changes() {
        let (before, after) = (heap(&[(100, 0)]), heap(&[(100, 101), (101, 0)]));
        let diff = PageDiff::of(PAGE, &before, &after);
        let [deleted, added] = &diff.items[..] else { panic!("{diff:?}") };
        assert_eq!((deleted.item, deleted.code(), added.item, added.code()), (1, "changed", 2, "added"));
        let xmax = |state: &Option<ItemState>| state.unwrap().row.unwrap().xmax;
        assert_eq!((xmax(&deleted.before), xmax(&deleted.after)), (0, 101));
        assert_eq!(added.after.unwrap().row.unwrap().xmin, 101);
        let fields: Vec<_> = diff.fields.iter().map(|change| (change.field, change.before, change.after)).collect();
        assert_eq!(fields, [("pd_lower", 28, 32), ("pd_upper", 8160, 8128)]);
        let differing = (0..8192).filter(|at| before[*at] != after[*at]).count();
        assert_eq!(diff.differing, differing);
        assert!((0..8192).all(|at| before[at] == after[at] || diff.bytes.iter().any(|range| range.contains(&at))));
        let back = PageDiff::of(PAGE, &after, &before);
        assert_eq!((back.items[1].code(), back.items[1].before), ("removed", added.after));
    }

    #[test]
    fn equal_pages_have_no_difference() {
        let page = heap(&[(100, 0), (101, 0)]);
        assert_eq!(PageDiff::of(PAGE, &page, &page), PageDiff::default());
    }

    #[test]
    fn any_bytes_can_be_compared() {
        for length in [0, 3, 24, 100] {
            let diff = PageDiff::of(PAGE, &vec![0xFF; length], &heap(&[(1, 2)]));
            assert!(diff.differing > 0 && diff.bytes.iter().all(|range| range.end <= 8192));
        }
        let alternating: Vec<u8> = (0..8192_u32).map(|at| u8::from(at % 8 == 0)).collect();
        let diff = PageDiff::of(PAGE, &vec![0; 8192], &alternating);
        assert_eq!((diff.differing, diff.bytes.len()), (1024, MAX_RANGES));
    }
}
