//! Rows and entries of a page on disk against those in an image: which come back when the image is put back, and which are lost.

use std::collections::HashMap;
use std::ops::Range;

use strum::IntoStaticStr;

use crate::parsers::heap::{TupleHeader, infomask};
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::types::PageId;

/// Shortest entry of an index.
const MIN_ENTRY: usize = 8;

/// Fate of an item if the image is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RowFate {
    /// Disk and image have the same, hints aside.
    Same,
    /// Both have it, and it differs.
    Changed,
    /// Both have a row there, inserted by different transactions: that of the disk is lost, that of the image comes back.
    OtherRow,
    /// In the image, not on disk.
    ComesBack,
    /// On disk, not in the image.
    IsLost,
    /// On disk something is there that cannot be a row; the image has nothing there.
    Unreadable,
    /// There is nothing to compare it with.
    Alone,
}

impl RowFate {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Same, Self::Changed, Self::OtherRow, Self::ComesBack, Self::IsLost, Self::Unreadable, Self::Alone];

    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// An item of one version of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageItem {
    /// Its number, from 1.
    pub number: usize,
    /// Its line pointer.
    pub pointer: LinePointer,
    /// Where its tuple is in the page, if it has one that lies on the page.
    pub tuple: Option<Range<usize>>,
    /// The tuple can be one: its head makes sense.
    pub is_sound: bool,
}

impl PageItem {
    /// The bytes of its tuple.
    pub fn bytes<'a>(&self, page: &'a [u8]) -> Option<&'a [u8]> {
        page.get(self.tuple.clone()?)
    }

    fn sound_bytes<'a>(&self, page: &'a [u8]) -> Option<&'a [u8]> {
        self.bytes(page).filter(|_| self.is_sound)
    }
}

/// An item on disk and in the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPair {
    /// On disk.
    pub disk: Option<PageItem>,
    /// In the image.
    pub image: Option<PageItem>,
    /// Its fate.
    pub fate: RowFate,
}

impl RowPair {
    /// Its number: in the image, else on disk.
    pub fn number(&self) -> usize {
        self.image.as_ref().or(self.disk.as_ref()).map_or(0, |item| item.number)
    }
}

/// Everything that a page holds, on disk and in one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRows {
    /// Kind of the page: of the image, if one exists.
    pub kind: PageKind,
    /// The items, by number.
    pub pairs: Vec<RowPair>,
}

impl PageRows {
    /// Compares two versions of a page; either may not be there. A page of a kind that has no items has no pairs.
    pub fn compare(page: PageId, disk: Option<&[u8]>, image: Option<&[u8]>) -> Self {
        let kinds = [image, disk].map(|bytes| bytes.and_then(|bytes| kind_of(page, bytes)));
        let kind = kinds.into_iter().flatten().find(|kind| kind.has_line_pointers());
        let Some(kind) = kind else {
            let kind = kinds.into_iter().flatten().next().unwrap_or(PageKind::Unknown);
            return Self { kind, pairs: Vec::new() };
        };
        let of = |bytes: Option<&[u8]>| bytes.map_or_else(Vec::new, |bytes| items(page, kind, bytes));
        let (on_disk, in_image) = (of(disk), of(image));
        let alone = disk.is_none() || image.is_none();
        let (disk, image) = (disk.unwrap_or_default(), image.unwrap_or_default());
        let mut pairs = if is_of_rows(kind) {
            by_number((on_disk, disk), (in_image, image))
        } else {
            by_content((on_disk, disk), (in_image, image))
        };
        if alone {
            pairs.iter_mut().for_each(|pair| pair.fate = RowFate::Alone);
        }
        Self { kind, pairs }
    }

    /// How many items have this fate.
    pub fn count(&self, fate: RowFate) -> usize {
        self.pairs.iter().filter(|pair| pair.fate == fate).count()
    }
}

/// Pages whose tuples are rows with a header of their own, at numbers that stay.
pub(crate) const fn is_of_rows(kind: PageKind) -> bool {
    matches!(kind, PageKind::Heap | PageKind::Sequence)
}

fn kind_of(page: PageId, bytes: &[u8]) -> Option<PageKind> {
    let header = PageHeader::decode(0, bytes).ok()?;
    Some(PageKind::of(&header, bytes, page.fork))
}

/// The items of a version of this kind, without those that were never used.
fn items(page: PageId, kind: PageKind, bytes: &[u8]) -> Vec<PageItem> {
    if kind_of(page, bytes) != Some(kind) {
        return Vec::new();
    }
    let Ok(header) = PageHeader::decode(0, bytes) else { return Vec::new() };
    let item = |(number, pointer): (usize, LinePointer)| {
        let start = usize::from(pointer.offset());
        let range = start..start.saturating_add(usize::from(pointer.length()));
        let has_tuple = match pointer.state() {
            LinePointerState::Normal => true,
            LinePointerState::Dead => pointer.length() > 0,
            LinePointerState::Unused | LinePointerState::Redirect => false,
        };
        let tuple = Some(range).filter(|range| has_tuple && bytes.get(range.clone()).is_some());
        let is_sound =
            tuple.as_ref().and_then(|range| bytes.get(range.clone())).is_some_and(|tuple| is_sound(kind, tuple));
        PageItem { number, pointer, tuple, is_sound }
    };
    let items = (1..).zip(line_pointers(&header, bytes)).map(item);
    items.filter(|item| item.pointer.state() != LinePointerState::Unused).collect()
}

fn is_sound(kind: PageKind, tuple: &[u8]) -> bool {
    if !is_of_rows(kind) {
        return tuple.len() >= MIN_ENTRY;
    }
    TupleHeader::decode(0, tuple).is_ok_and(|header| header.faults(tuple.len()).is_empty())
}

fn by_number((on_disk, disk): (Vec<PageItem>, &[u8]), (in_image, image): (Vec<PageItem>, &[u8])) -> Vec<RowPair> {
    let mut pairs = Vec::new();
    let (mut on_disk, mut in_image) = (on_disk.into_iter().peekable(), in_image.into_iter().peekable());
    loop {
        let next = |item: Option<&PageItem>| item.map_or(usize::MAX, |item| item.number);
        let number = next(on_disk.peek()).min(next(in_image.peek()));
        if number == usize::MAX {
            return pairs;
        }
        let left = on_disk.next_if(|item| item.number == number);
        let right = in_image.next_if(|item| item.number == number);
        let fate = fate_of((left.as_ref(), disk), (right.as_ref(), image));
        pairs.push(RowPair { disk: left, image: right, fate });
    }
}

fn fate_of((left, disk): (Option<&PageItem>, &[u8]), (right, image): (Option<&PageItem>, &[u8])) -> RowFate {
    let rows = left.and_then(|item| item.sound_bytes(disk)).zip(right.and_then(|item| item.sound_bytes(image)));
    if let Some((on_disk, in_image)) = rows {
        return same_row(on_disk, in_image);
    }
    let has_row = |item: Option<&PageItem>| item.is_some_and(|item| item.is_sound);
    let claims_row =
        |item: Option<&PageItem>| item.is_some_and(|item| item.pointer.state() == LinePointerState::Normal);
    match (has_row(left), has_row(right)) {
        (_, true) => RowFate::ComesBack,
        (true, _) => RowFate::IsLost,
        _ if claims_row(left) => RowFate::Unreadable,
        _ if left.map(|item| item.pointer) == right.map(|item| item.pointer) => RowFate::Same,
        _ => RowFate::Changed,
    }
}

/// Compares two rows at the same number.
fn same_row(on_disk: &[u8], in_image: &[u8]) -> RowFate {
    let (Ok(left), Ok(right)) = (TupleHeader::decode(0, on_disk), TupleHeader::decode(0, in_image)) else {
        return RowFate::Changed;
    };
    if left.xmin != right.xmin {
        return RowFate::OtherRow;
    }
    const INFOMASK: Range<usize> = 20..22;
    let without_mask = |tuple: &[u8]| {
        let (head, tail) = (tuple.get(..INFOMASK.start), tuple.get(INFOMASK.end..));
        (head.unwrap_or_default().to_vec(), tail.unwrap_or_default().to_vec())
    };
    let differs = (left.infomask ^ right.infomask) & !infomask::HINTS != 0;
    if differs || without_mask(on_disk) != without_mask(in_image) { RowFate::Changed } else { RowFate::Same }
}

/// Entries of an index move to other numbers whenever one comes or goes before them: the same bytes are the same entry.
fn by_content((on_disk, disk): (Vec<PageItem>, &[u8]), (in_image, image): (Vec<PageItem>, &[u8])) -> Vec<RowPair> {
    let mut held: HashMap<&[u8], Vec<PageItem>> = HashMap::new();
    let mut pairs = Vec::new();
    for item in on_disk.into_iter().rev() {
        match item.sound_bytes(disk) {
            Some(bytes) => held.entry(bytes).or_default().push(item),
            None => pairs.push(RowPair { disk: Some(item), image: None, fate: RowFate::Unreadable }),
        }
    }
    for item in in_image {
        let found = item.sound_bytes(image).and_then(|bytes| held.get_mut(bytes)?.pop());
        let is_killed = |item: &PageItem| item.pointer.state() == LinePointerState::Dead;
        let fate = match &found {
            Some(found) if is_killed(found) == is_killed(&item) => RowFate::Same,
            Some(_) => RowFate::Changed,
            None => RowFate::ComesBack,
        };
        pairs.push(RowPair { disk: found, image: Some(item), fate });
    }
    let lost = held.into_values().flatten();
    pairs.extend(lost.map(|item| RowPair { disk: Some(item), image: None, fate: RowFate::IsLost }));
    pairs.sort_by_key(|pair| (pair.number(), pair.fate));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ForkNumber, RelFileLocator};

    const PAGE: PageId = PageId {
        rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 },
        fork: ForkNumber::Main,
        block: 0,
    };

    /// A page with these tuples, each with its line pointer's state; `special` bytes at its end.
    fn page(tuples: &[(u32, &[u8])], special: usize) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let lower = u16::try_from(24 + 4 * tuples.len()).unwrap();
        let mut at = 8192 - special;
        for (index, (state, tuple)) in tuples.iter().enumerate() {
            at -= tuple.len();
            page[at..at + tuple.len()].copy_from_slice(tuple);
            let offset = if tuple.is_empty() { 0 } else { at };
            let pointer = u32::try_from(offset).unwrap() | state << 15 | u32::try_from(tuple.len()).unwrap() << 17;
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
        }
        let special = u16::try_from(8192 - special).unwrap();
        for (field, value) in [(12, lower), (14, u16::try_from(at).unwrap()), (16, special), (18, 0x2004)] {
            page[field..field + 2].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    fn row(xmin: u32, xmax: u32, infomask: u16, value: u8) -> Vec<u8> {
        let mut row = vec![0; 32];
        row[..4].copy_from_slice(&xmin.to_le_bytes());
        row[4..8].copy_from_slice(&xmax.to_le_bytes());
        row[20..22].copy_from_slice(&infomask.to_le_bytes());
        row[22] = 24;
        row[24] = value;
        row
    }

    fn fates(disk: &[u8], image: &[u8]) -> Vec<(usize, RowFate)> {
        let rows = PageRows::compare(PAGE, Some(disk), Some(image));
        rows.pairs.iter().map(|pair| (pair.number(), pair.fate)).collect()
    }

    #[test]
    fn each_row_of_a_table_has_its_fate() {
        let mut broken = row(7, 0, 0, 1);
        broken[22] = 200;
        let (a, b, hinted, deleted) = (row(7, 0, 0, 1), row(8, 0, 0, 2), row(7, 0, 0x0100, 1), row(7, 9, 0, 1));
        let disk = page(&[(1, &a), (1, &a), (1, &a), (1, &b), (1, &broken), (0, &[]), (1, &broken), (0, &[])], 0);
        let image = page(&[(1, &hinted), (1, &deleted), (1, &b), (0, &[]), (1, &a), (1, &b), (0, &[]), (0, &[])], 0);
        let expected = [
            (1, RowFate::Same),
            (2, RowFate::Changed),
            (3, RowFate::OtherRow),
            (4, RowFate::IsLost),
            (5, RowFate::ComesBack),
            (6, RowFate::ComesBack),
            (7, RowFate::Unreadable),
        ];
        assert_eq!(fates(&disk, &image), expected);
    }

    #[test]
    fn all_rows_of_the_image_come_back_to_a_page_of_zeros() {
        let image = page(&[(1, &row(7, 0, 0, 1)), (1, &row(7, 0, 0, 2))], 0);
        assert_eq!(fates(&[0; 8192], &image), [(1, RowFate::ComesBack), (2, RowFate::ComesBack)]);
        assert_eq!(fates(&[], &image).len(), 2);
        let alone = PageRows::compare(PAGE, Some(&image), None);
        assert_eq!((alone.count(RowFate::Alone), alone.kind), (2, PageKind::Heap));
    }

    #[test]
    fn entries_of_an_index_are_the_same_under_other_numbers() {
        let entry = |key: u8| {
            let mut entry = vec![0; 16];
            entry[4] = key;
            entry[6] = 16;
            entry[8] = key;
            entry
        };
        let (a, b, c) = (entry(1), entry(2), entry(3));
        let disk = page(&[(1, &a), (1, &b), (1, &c)], 16);
        let image = page(&[(1, &b), (3, &c), (1, &b)], 16);
        assert_eq!(
            fates(&disk, &image),
            [(1, RowFate::Same), (1, RowFate::IsLost), (2, RowFate::Changed), (3, RowFate::ComesBack)]
        );
    }

    #[test]
    fn any_bytes_can_be_compared() {
        let image = page(&[(1, &row(7, 0, 0, 1))], 0);
        for seed in 1..60_u32 {
            let mut state = seed;
            let mut disk = image.clone();
            for _ in 0..200 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % if seed % 2 == 0 { 64 } else { disk.len() };
                disk[at] = state.to_le_bytes()[3];
            }
            for (left, right) in [(&disk, &image), (&image, &disk)] {
                let rows = PageRows::compare(PAGE, Some(left), Some(right));
                let fits = |range: &Range<usize>| range.end <= 8192;
                let items = rows.pairs.iter().flat_map(|pair| [&pair.disk, &pair.image]).flatten();
                assert!(items.filter_map(|item| item.tuple.as_ref()).all(fits));
            }
        }
    }
}
