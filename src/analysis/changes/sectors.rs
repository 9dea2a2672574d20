//! Where the sectors of a torn page come from: each is compared with the same sector of every image that is known.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use strum::IntoStaticStr;

use crate::parsers::page::{PageHeader, is_all_zero};
use crate::parsers::page_kind::PageKind;
use crate::types::{ForkNumber, Lsn};

/// Bytes that most machines write to a disk in one piece when they write more than a sector.
pub(crate) const WIDE_SECTOR_BYTES: usize = 4096;

/// Mark of a sector that is all zero: equal to any other such sector, and proof of nothing.
const ZERO_MARK: u64 = 0;

/// One mark a sector of 512 bytes: equal marks, equal bytes. `pd_checksum` (bytes 8 and 9) is left out, since only the
/// copy of a page that goes to disk carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectorMarks {
    sectors: Box<[u64]>,
    is_sequence: bool,
}

impl SectorMarks {
    /// Marks of a page.
    pub fn of(page: &[u8]) -> Self {
        let (first, rest) = page.split_at(page.len().min(SECTOR_BYTES));
        let mut masked = [0; SECTOR_BYTES];
        let head = &mut masked[..first.len()];
        head.copy_from_slice(first);
        if let Some(checksum) = head.get_mut(8..10) {
            checksum.fill(0);
        }
        let first_mark = (!first.is_empty()).then(|| mark(head));
        let sectors = first_mark.into_iter().chain(rest.chunks(SECTOR_BYTES).map(mark)).collect();
        let header = PageHeader::decode(0, page).ok();
        let kind = header.map(|header| PageKind::of(&header, page, ForkNumber::Main));
        Self { sectors, is_sequence: kind == Some(PageKind::Sequence) }
    }

    /// Marks of a page every byte of which counts.
    pub(crate) fn of_all_bytes(page: &[u8]) -> Self {
        Self { sectors: page.chunks(SECTOR_BYTES).map(mark).collect(), is_sequence: false }
    }

    /// Marks of a page of `length` bytes that is all zero.
    pub fn zero(length: usize) -> Self {
        Self { sectors: vec![ZERO_MARK; length.div_ceil(SECTOR_BYTES)].into(), is_sequence: false }
    }

    /// True for a page of a sequence.
    pub(crate) const fn is_sequence(&self) -> bool {
        self.is_sequence
    }

    /// Number of sectors.
    pub fn len(&self) -> usize {
        self.sectors.len()
    }

    /// True for a page of no bytes.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// True when sector `at` of both is the same.
    pub fn same(&self, other: &Self, at: usize) -> bool {
        self.sectors.get(at).is_some_and(|own| other.sectors.get(at) == Some(own))
    }

    /// True when sector `at` is all zero.
    pub fn is_zero(&self, at: usize) -> bool {
        self.sectors.get(at) == Some(&ZERO_MARK)
    }

    pub(crate) fn matching(&self, other: &Self) -> usize {
        (0..self.len()).filter(|at| self.same(other, *at)).count()
    }
}

/// Sectors at the start, and at the end, that are the same in both pages. `pd_checksum` is left out.
pub(crate) fn same_at_ends(one: &[u8], other: &[u8]) -> (usize, usize) {
    let (head, rest) = one.split_at(one.len().min(SECTOR_BYTES));
    let (other_head, other_rest) = other.split_at(other.len().min(SECTOR_BYTES));
    let is_head_same = head.get(..8) == other_head.get(..8) && head.get(10..) == other_head.get(10..);
    let mut sectors: Vec<bool> = vec![is_head_same];
    sectors.extend(rest.chunks(SECTOR_BYTES).zip(other_rest.chunks(SECTOR_BYTES)).map(|(one, other)| one == other));
    let is_same = |same: &&bool| **same;
    (sectors.iter().take_while(is_same).count(), sectors.iter().rev().take_while(is_same).count())
}

fn mark(sector: &[u8]) -> u64 {
    if is_all_zero(sector) {
        return ZERO_MARK;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(sector);
    hasher.finish().max(1)
}

/// Which part of the last write arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TearDirection {
    /// The first sectors.
    Head,
    /// The last sectors.
    Tail,
    /// Neither: the sectors of the images do not stand together.
    Scattered,
}

impl TearDirection {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How a page was torn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TearMap {
    /// Which part of the newer version arrived.
    pub direction: TearDirection,
    /// For each sector, the images (by their index in the list) that it equals.
    pub sources: Vec<Vec<usize>>,
    /// The image that the page was being overwritten with, if it is among the images.
    pub newer: Option<usize>,
    /// The image whose sectors were still there, if it is among the images.
    pub older: Option<usize>,
    /// Offsets within the page at which the write can have stopped (head) or begun (tail), both ends included: sectors
    /// that did not change leave more than one.
    pub boundary: Range<usize>,
    /// Every sector is that of the newer or the older image, on its own side.
    pub is_explained: bool,
}

impl TearMap {
    /// Makes room for an image at this index of the list: those from there on move up.
    pub(crate) fn make_room(&mut self, at: usize) {
        let indexes = self.sources.iter_mut().flatten().chain(&mut self.newer).chain(&mut self.older);
        for index in indexes.filter(|index| **index >= at) {
            *index = index.saturating_add(1);
        }
    }

    /// The most probable offset of the break: a boundary of 4 KiB where one is possible.
    pub(crate) fn break_at(&self) -> usize {
        let (first, last) = (self.boundary.start, self.boundary.end);
        let (wide, plain) = match self.direction {
            TearDirection::Tail => (first.next_multiple_of(WIDE_SECTOR_BYTES), first),
            TearDirection::Head | TearDirection::Scattered => {
                (last.checked_div(WIDE_SECTOR_BYTES).unwrap_or_default().saturating_mul(WIDE_SECTOR_BYTES), last)
            }
        };
        if wide > 0 && (first..=last).contains(&wide) { wide } else { plain }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MapImage<'a> {
    pub marks: &'a SectorMarks,
    /// Its page LSN; `None` for the all-zero page that every page once was.
    pub lsn: Option<Lsn>,
}

/// Maps the sectors of `disk`. `disk_lsn` is the LSN in its first sector. `None` when no sector with content equals that
/// of any image: then nothing says that the page was torn.
pub(crate) fn map_tear(disk: &SectorMarks, disk_lsn: Lsn, images: &[MapImage<'_>]) -> Option<TearMap> {
    let count = disk.len();
    let sources: Vec<Vec<usize>> = (0..count)
        .map(|at| {
            images.iter().enumerate().filter(|(_, image)| image.marks.same(disk, at)).map(|(index, _)| index).collect()
        })
        .collect();
    let prefix = |image: usize| sources.iter().take_while(|list| list.contains(&image)).count();
    let suffix = |image: usize| sources.iter().rev().take_while(|list| list.contains(&image)).count();
    let has_content = |range: Range<usize>| range.into_iter().any(|at| !disk.is_zero(at));
    let any = sources.iter().enumerate().any(|(at, list)| !list.is_empty() && !disk.is_zero(at));
    if !any {
        return None;
    }
    let age = |image: usize| (images[image].lsn, image);
    let heads: Vec<usize> = (0..images.len()).filter(|image| has_content(0..prefix(*image))).collect();
    let tails: Vec<usize> =
        (0..images.len()).filter(|image| has_content(count.saturating_sub(suffix(*image))..count)).collect();
    // Two images that make up the whole page, one from the front and one from the back; of several the newest. One of
    // the parts may be all zero: that is how a page looks that was added to the file and never written.
    let pairs = (0..images.len()).flat_map(|head| (0..images.len()).map(move |tail| (head, tail)));
    let whole = |(head, tail): &(usize, usize)| {
        let (front, back) = (prefix(*head), suffix(*tail));
        let proves = has_content(0..front) || has_content(count.saturating_sub(back)..count);
        proves
            && head != tail
            && front > 0
            && back > 0
            && front < count
            && back < count
            && front.saturating_add(back) >= count
    };
    if let Some((head, tail)) = pairs.filter(whole).max_by_key(|(head, tail)| age(*head).max(age(*tail))) {
        let boundary = count.saturating_sub(suffix(tail)).max(1).saturating_mul(SECTOR_BYTES)
            ..prefix(head).saturating_mul(SECTOR_BYTES);
        let (direction, newer, older) =
            if age(head) > age(tail) { (TearDirection::Head, head, tail) } else { (TearDirection::Tail, tail, head) };
        return Some(TearMap {
            direction,
            sources,
            newer: Some(newer),
            older: Some(older),
            boundary,
            is_explained: true,
        });
    }
    let newest = |list: Vec<usize>| list.into_iter().max_by_key(|image| age(*image));
    let (direction, newer, older, boundary) = if let Some(head) = newest(heads) {
        (TearDirection::Head, Some(head), None, 1..prefix(head))
    } else if let Some(tail) = newest(tails) {
        // A head newer than every image was written over the one that the rest equals.
        let boundary = count.saturating_sub(suffix(tail))..count.saturating_sub(1);
        match Some(disk_lsn) > images[tail].lsn {
            true => (TearDirection::Head, None, Some(tail), boundary),
            false => (TearDirection::Tail, Some(tail), None, boundary),
        }
    } else {
        (TearDirection::Scattered, None, None, 0..count)
    };
    let boundary = boundary.start.saturating_mul(SECTOR_BYTES)..boundary.end.saturating_mul(SECTOR_BYTES);
    Some(TearMap { direction, sources, newer, older, boundary, is_explained: false })
}

/// Bytes that a disk writes in one piece; the unit in which a write is torn.
pub(crate) const SECTOR_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// A page whose sectors hold one byte each.
    fn page(sectors: &[u8]) -> Vec<u8> {
        sectors.iter().flat_map(|byte| [*byte; SECTOR_BYTES]).collect()
    }

    fn map(disk: &[u8], disk_lsn: u64, images: &[(&[u8], impl Into<Option<u64>> + Copy)]) -> Option<TearMap> {
        let marks: Vec<SectorMarks> = images.iter().map(|(sectors, _)| SectorMarks::of(&page(sectors))).collect();
        let images: Vec<MapImage<'_>> =
            marks.iter().zip(images).map(|(marks, (_, lsn))| MapImage { marks, lsn: (*lsn).into().map(Lsn) }).collect();
        map_tear(&SectorMarks::of(&page(disk)), Lsn(disk_lsn), &images)
    }

    #[test]
    fn checksum_is_no_part_of_a_sector() {
        let (mut one, other) = (page(&[1, 2]), page(&[1, 2]));
        one[8] = 9;
        one[9] = 9;
        assert_eq!(SectorMarks::of(&one), SectorMarks::of(&other));
        one[10] = 9;
        assert_ne!(SectorMarks::of(&one), SectorMarks::of(&other));
    }

    #[test]
    fn head_of_the_newest_image_over_an_older_one() {
        let tear = map(&[5, 5, 3, 1], 20, &[(&[1, 1, 3, 1], 10), (&[5, 5, 3, 7], 20)]).unwrap();
        assert_eq!((tear.direction, tear.newer, tear.older), (TearDirection::Head, Some(1), Some(0)));
        // The third sector is the same in both: the write stopped after the second or the third.
        assert_eq!(tear.boundary, 1024..1536);
        assert!(tear.is_explained);
        assert_eq!(tear.sources, [vec![1], vec![1], vec![0, 1], vec![0]]);
    }

    #[test]
    fn tail_of_the_image_under_an_unknown_head() {
        let tear = map(&[9, 9, 3, 7], 5, &[(&[5, 5, 3, 7], 20)]).unwrap();
        assert_eq!((tear.direction, tear.newer, tear.boundary), (TearDirection::Tail, Some(0), 1024..1536));
        assert!(!tear.is_explained);
    }

    #[test]
    fn tail_of_the_newest_image_under_an_older_one() {
        let tear = map(&[1, 1, 3, 7], 10, &[(&[1, 1, 3, 1], 10), (&[5, 5, 3, 7], 20)]).unwrap();
        assert_eq!((tear.direction, tear.newer, tear.older), (TearDirection::Tail, Some(1), Some(0)));
        assert_eq!(tear.boundary, 1024..1536);
        assert!(tear.is_explained);
    }

    #[test]
    fn head_newer_than_every_image() {
        let tear = map(&[9, 9, 3, 7], 30, &[(&[5, 5, 3, 7], 20)]).unwrap();
        assert_eq!((tear.direction, tear.newer, tear.older), (TearDirection::Head, None, Some(0)));
    }

    #[test]
    fn zero_sectors_prove_nothing() {
        assert_eq!(map(&[9, 0, 0, 8], 5, &[(&[5, 0, 0, 7], 20)]), None);
        assert_eq!(map(&[9, 1, 2, 8], 5, &[] as &[(&[u8], u64)]), None);
    }

    #[test]
    fn first_write_of_an_added_page() {
        let images: [(&[u8], Option<u64>); 2] = [(&[5, 6, 7, 8], Some(0)), (&[0, 0, 0, 0], None)];
        let tear = map(&[5, 6, 0, 0], 0, &images).unwrap();
        assert_eq!((tear.direction, tear.newer, tear.older), (TearDirection::Head, Some(0), Some(1)));
        assert_eq!(tear.boundary, 1024..1024);
        let tear = map(&[0, 0, 0, 8], 0, &images).unwrap();
        assert_eq!((tear.direction, tear.newer), (TearDirection::Tail, Some(0)));
    }

    #[test]
    fn sectors_in_the_middle_alone_are_scattered() {
        let tear = map(&[9, 3, 4, 8], 5, &[(&[5, 3, 4, 7], 20)]).unwrap();
        assert_eq!(tear.direction, TearDirection::Scattered);
    }

    #[test]
    fn break_is_put_on_a_wide_boundary_where_one_is_possible() {
        let map = |direction, boundary| TearMap {
            direction,
            sources: Vec::new(),
            newer: None,
            older: None,
            boundary,
            is_explained: false,
        };
        assert_eq!(map(TearDirection::Head, 3584..5120).break_at(), 4096);
        assert_eq!(map(TearDirection::Head, 512..1024).break_at(), 1024);
        assert_eq!(map(TearDirection::Tail, 3584..7680).break_at(), 4096);
        assert_eq!(map(TearDirection::Tail, 5120..7680).break_at(), 5120);
    }
}
