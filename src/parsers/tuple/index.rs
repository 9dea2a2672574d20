//! Entries of an index: where they point to, and the data of their key.

use super::columns::{ColumnShape, Stored, columns};
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::types::BlockNumber;

/// Size of the head, and of the head with a bitmap of nulls, aligned.
///
/// Source: `IndexInfoFindDataOffset`, `src/include/access/itup.h`.
const HEAD: usize = 8;
const HEAD_WITH_NULLS: usize = 16;

/// Bits of `t_info`.
///
/// Source: `INDEX_SIZE_MASK` and its neighbours, the same file; `INDEX_ALT_TID_MASK`, `src/include/access/nbtree.h`.
const SIZE: u16 = 0x1FFF;
const ALT_TID: u16 = 0x2000;
const HAS_NULLS: u16 = 0x8000;

/// Bits of the item number of an entry whose pointer means something else.
///
/// Source: `BT_OFFSET_MASK` and its neighbours, `src/include/access/nbtree.h`.
const COUNT: u16 = 0x0FFF;
const IS_POSTING: u16 = 0x2000;

/// A row that an entry leads to: block and item number.
pub(crate) type Tid = (BlockNumber, u16);

/// Target of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A row of the table.
    Row(Tid),
    /// Several rows with the same key.
    Rows {
        /// How many, by the entry.
        count: u16,
        /// Those that it has room for.
        rows: Vec<Tid>,
    },
    /// A page one level further down.
    Child(BlockNumber),
    /// Nothing: the largest key that belongs on the page.
    HighKey,
    /// The access method keeps something else there.
    Other(Tid),
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// Its target.
    pub target: Target,
    /// Columns that it has; fewer than the index on pages above the leaves.
    pub columns: Option<usize>,
    /// Length by its own head.
    pub length: usize,
    /// Key and whatever columns are stored with it, without the head.
    pub data: &'a [u8],
    nulls: Option<u32>,
}

fn tid_at(bytes: &[u8], at: usize) -> Option<Tid> {
    let (high, low, item) =
        (u16_at(bytes, at)?, u16_at(bytes, at.checked_add(2)?)?, u16_at(bytes, at.checked_add(4)?)?);
    Some((u32::from(high) << 16 | u32::from(low), item))
}

impl<'a> IndexEntry<'a> {
    /// Decodes the entry with number `item` (from 1) of a page; `None` when it is shorter than a head, or of a kind of page
    /// whose entries are laid out otherwise.
    ///
    /// | bytes | field    | meaning                                                                     |
    /// |-------|----------|-----------------------------------------------------------------------------|
    /// | 0..6  | `t_tid`  | row, child, or what the access method makes of it                           |
    /// | 6..8  | `t_info` | 13 bits length, a bit for the access method, variable length, nulls         |
    /// | 8..12 | bitmap   | where there are nulls, and four bytes of padding after it                   |
    ///
    /// Source: `IndexTupleData`, `src/include/access/itup.h`.
    pub fn decode(header: &PageHeader, page: &[u8], kind: PageKind, item: usize, tuple: &'a [u8]) -> Option<Self> {
        if !matches!(kind, PageKind::Btree | PageKind::Hash | PageKind::Gist | PageKind::GinEntry) {
            return None;
        }
        let (tid, info) = (tid_at(tuple, 0)?, u16_at(tuple, 6)?);
        let has_nulls = info & HAS_NULLS != 0;
        let begin = if has_nulls { HEAD_WITH_NULLS } else { HEAD };
        let mut end = usize::from(info & SIZE).min(tuple.len());
        let special = page.get(usize::from(header.special)..).unwrap_or_default();
        let is_alternative = kind == PageKind::Btree && info & ALT_TID != 0;
        let mut columns = None;
        let target = match kind {
            PageKind::Btree if is_alternative && tid.1 & IS_POSTING != 0 => {
                // The block number says where the list of rows begins, after the key.
                let count = tid.1 & COUNT;
                let list_at = usize::try_from(tid.0).ok().filter(|at| *at >= begin && *at <= end)?;
                let list = tuple.get(list_at..end).unwrap_or_default();
                let rows = list.as_chunks::<6>().0.iter().take(usize::from(count));
                let rows = rows.filter_map(|row| tid_at(row, 0)).collect();
                end = list_at;
                Target::Rows { count, rows }
            }
            PageKind::Btree => {
                columns = is_alternative.then_some(usize::from(tid.1 & COUNT));
                let has_right = u32_at(special, 4).is_some_and(|right| right != 0);
                let is_leaf = u32_at(special, 8) == Some(0);
                if item == 1 && has_right {
                    Target::HighKey
                } else if is_leaf {
                    Target::Row(tid)
                } else {
                    Target::Child(tid.0)
                }
            }
            PageKind::Hash => Target::Row(tid),
            PageKind::Gist if u16_at(special, 12).is_some_and(|flags| flags & 1 == 0) => Target::Child(tid.0),
            PageKind::Gist => Target::Row(tid),
            _ => Target::Other(tid),
        };
        let nulls = has_nulls.then(|| u32_at(tuple, HEAD).unwrap_or(0));
        Some(Self {
            target,
            columns,
            length: usize::from(info & SIZE),
            data: tuple.get(begin..end).unwrap_or_default(),
            nulls,
        })
    }

    /// The columns of the entry; `shapes` are those of its index.
    pub fn stored(&self, shapes: &[ColumnShape]) -> Vec<Stored<'a>> {
        let is_null = |index: usize| {
            let bit = u32::try_from(index).ok().and_then(|index| 1_u32.checked_shl(index)).unwrap_or(0);
            self.nulls.is_some_and(|nulls| nulls & bit == 0)
        };
        let count = self.columns.unwrap_or(shapes.len());
        // The first entry of a page above the leaves has a pointer and no key.
        let count = if self.data.is_empty() && self.nulls.is_none() { 0 } else { count };
        columns(self.data, shapes, count, &is_null)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INT4: ColumnShape = ColumnShape { length: 4, alignment: 4 };

    /// A page of a B-tree: right sibling, level.
    fn btree(right: u32, level: u32) -> (PageHeader, Vec<u8>) {
        let mut page = vec![0; 8192];
        for (at, value) in [(12, 28_u16), (14, 8000), (16, 8176), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[8180..8184].copy_from_slice(&right.to_le_bytes());
        page[8184..8188].copy_from_slice(&level.to_le_bytes());
        (PageHeader::decode(0, &page).unwrap(), page)
    }

    fn entry(tid: Tid, info: u16, rest: &[u8]) -> Vec<u8> {
        let mut tuple = Vec::new();
        for half in [u16::try_from(tid.0 >> 16).unwrap(), u16::try_from(tid.0 & 0xFFFF).unwrap(), tid.1, info] {
            tuple.extend(half.to_le_bytes());
        }
        tuple.extend(rest);
        tuple
    }

    #[test]
    fn entries_of_leaves_lead_to_rows_and_others_to_pages() {
        let tuple = entry((5, 7), 16, &[42, 0, 0, 0, 0, 0, 0, 0]);
        let target = |right, level, item| {
            let (header, page) = btree(right, level);
            let entry = IndexEntry::decode(&header, &page, PageKind::Btree, item, &tuple).unwrap();
            assert_eq!(entry.stored(&[INT4]), [Stored::Plain(&[42, 0, 0, 0])]);
            entry.target
        };
        assert_eq!(target(0, 0, 1), Target::Row((5, 7)));
        assert_eq!(target(3, 0, 1), Target::HighKey);
        assert_eq!(target(3, 1, 2), Target::Child(5));
    }

    #[test]
    fn several_rows_of_one_key() {
        let mut rest = vec![42, 0, 0, 0, 0, 0, 0, 0];
        for row in [(1_u32, 2_u16), (1, 3)] {
            rest.extend(&entry(row, 0, &[])[..6]);
        }
        let tuple = entry((16, IS_POSTING | 2), 28 | ALT_TID, &rest);
        let (header, page) = btree(0, 0);
        let found = IndexEntry::decode(&header, &page, PageKind::Btree, 1, &tuple).unwrap();
        assert_eq!(found.target, Target::Rows { count: 2, rows: vec![(1, 2), (1, 3)] });
        assert_eq!(found.stored(&[INT4]), [Stored::Plain(&[42, 0, 0, 0])]);
    }

    #[test]
    fn key_above_the_leaves_has_fewer_columns() {
        let (header, page) = btree(0, 1);
        let tuple = entry((9, 1), 16 | ALT_TID, &[42, 0, 0, 0, 0, 0, 0, 0]);
        let found = IndexEntry::decode(&header, &page, PageKind::Btree, 2, &tuple).unwrap();
        assert_eq!((found.columns, &found.target), (Some(1), &Target::Child(9)));
        assert_eq!(found.stored(&[INT4, INT4]), [Stored::Plain(&[42, 0, 0, 0]), Stored::Absent]);
    }

    proptest! {
        #[test]
        fn any_entry_stays_inside_itself(
            tuple in proptest::collection::vec(any::<u8>(), 0..80),
            right in 0..2_u32, level in 0..2_u32, item in 1..3_usize,
            kind in prop::sample::select(vec![PageKind::Btree, PageKind::Hash, PageKind::Gist, PageKind::GinEntry, PageKind::Heap]),
        ) {
            let (header, page) = btree(right, level);
            if let Some(entry) = IndexEntry::decode(&header, &page, kind, item, &tuple) {
                prop_assert!(entry.data.len() <= tuple.len());
                prop_assert_eq!(entry.stored(&[INT4, INT4]).len(), 2);
            }
        }
    }
}
