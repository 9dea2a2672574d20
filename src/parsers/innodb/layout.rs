//! Where images lie in a doublewrite buffer: its file names, and its header in the system tablespace.

use crate::parsers::decode::be_u32_at;
use crate::parsers::innodb::is_instance_page_size;

/// What a file of the doublewrite buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DoublewriteKind {
    /// Images of pages.
    Images,
    /// Which pages were being written, without images.
    Entries,
}

/// A file of the doublewrite buffer of MySQL 8.0.20 and later, by its name: `#ib_<page size>_<number>.dblwr`, and
/// `.bdblwr` for the one without images.
///
/// Source: `dblwr::File`, `storage/innobase/buf/buf0dblwr.cc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoublewriteName {
    /// Page size of the instance.
    pub page_bytes: usize,
    /// Number of the file.
    pub number: u32,
    /// What it holds.
    pub kind: DoublewriteKind,
}

impl DoublewriteName {
    /// Reads a file name; `None` for any other file.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("#ib_")?;
        let (rest, kind) = match rest.strip_suffix(".bdblwr") {
            Some(rest) => (rest, DoublewriteKind::Entries),
            None => (rest.strip_suffix(".dblwr")?, DoublewriteKind::Images),
        };
        let (page, number) = rest.split_once('_')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(page) || !digits(number) {
            return None;
        }
        let page_bytes: usize = page.parse().ok()?;
        let number = number.parse().ok()?;
        is_instance_page_size(page_bytes).then_some(Self { page_bytes, number, kind })
    }
}

/// Number of the page in the system tablespace whose end has the header of the legacy doublewrite buffer.
pub const TRX_SYSTEM_PAGE: u32 = 5;

/// Pages of an extent, the unit in which the legacy doublewrite buffer has its place.
#[must_use]
pub const fn extent_pages(page_bytes: usize) -> u32 {
    match page_bytes {
        4096 => 256,
        8192 => 128,
        _ => 64,
    }
}

/// Header of the legacy doublewrite buffer, in page 5 of the system tablespace, 200 bytes before its end.
///
/// | bytes  | field        | meaning                                            |
/// |--------|--------------|----------------------------------------------------|
/// | 0..10  |              | segment header                                     |
/// | 10..14 | `magic`      | 536853855                                          |
/// | 14..18 | `blocks.0`   | first page of the first extent                     |
/// | 18..22 | `blocks.1`   | first page of the second                           |
/// | 22..34 |              | `magic` and both blocks again                      |
/// | 34..38 |              | 1783657386 where images have their space ids       |
///
/// Source: `TRX_SYS_DOUBLEWRITE`, `storage/innobase/include/trx0sys.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyHeader {
    /// First pages of the two extents.
    pub blocks: (u32, u32),
    /// The first of the two copies is damaged, and the second was used.
    pub is_from_copy: bool,
}

impl LegacyHeader {
    /// First value of the header.
    pub const MAGIC: u32 = 536_853_855;
    /// Bytes from the start of the header to the end of the page.
    pub const BEFORE_END: usize = 200;

    /// The header that a new instance of every server gets: MySQL 5.6, 5.7 and 8.0.19 and MariaDB 10.11 were seen to.
    #[must_use]
    pub const fn usual(page_bytes: usize) -> Self {
        let extent = extent_pages(page_bytes);
        Self { blocks: (extent, extent.saturating_mul(2)), is_from_copy: false }
    }

    /// Decodes the header at the end of page 5. `None` when neither copy has the magic number, or the page is shorter than the header:
    /// there is no such buffer.
    #[must_use]
    pub fn decode(page: &[u8]) -> Option<Self> {
        let area = page.get(page.len().saturating_sub(Self::BEFORE_END)..)?;
        let copy = |at: usize| {
            let field = |offset: usize| be_u32_at(area, at.saturating_add(offset));
            (field(0) == Some(Self::MAGIC)).then(|| field(4).zip(field(8))).flatten()
        };
        let first = copy(10);
        first.or_else(|| copy(22)).map(|blocks| Self { blocks, is_from_copy: first.is_none() })
    }

    /// The page in the system tablespace that holds a slot; `None` after the last slot.
    #[must_use]
    pub const fn page_of_slot(&self, page_bytes: usize, slot: u32) -> Option<u32> {
        let extent = extent_pages(page_bytes);
        match slot.checked_sub(extent) {
            None => self.blocks.0.checked_add(slot),
            Some(slot) if slot < extent => self.blocks.1.checked_add(slot),
            Some(_) => None,
        }
    }

    /// True for a page of the system tablespace that is a slot.
    #[must_use]
    pub fn is_slot(&self, page_bytes: usize, page_no: u32) -> bool {
        let extent = extent_pages(page_bytes);
        let in_block = |block: u32| page_no >= block && page_no < block.saturating_add(extent);
        in_block(self.blocks.0) || in_block(self.blocks.1)
    }
}

/// Slots that single pages are written through, over all files of MySQL 8.0.20 and later.
pub const SINGLE_PAGE_SLOTS: u64 = 512;

/// Which part of a file a slot is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SlotPart {
    /// Pages that were written together.
    Batch,
    /// Pages that were written one by one.
    Single,
    /// Unknown: nothing tells where one part ends.
    Unknown,
}

impl SlotPart {
    /// Stable name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Slots of the batch part of a file, from the sizes of the files in slots by their number, since none stores it: files
/// with an even number have nothing else, and files with an odd one as much of it. `None` when sizes do not fit.
#[must_use]
pub fn batch_slots(files: &[(u32, u64)], number: u32) -> Option<u64> {
    let own = files.iter().find(|(other, _)| *other == number)?.1;
    match files {
        [(0, slots)] => slots.checked_sub(SINGLE_PAGE_SLOTS),
        _ if number.is_multiple_of(2) => Some(own),
        _ => {
            let batch = files.iter().find(|(other, _)| *other == number.saturating_sub(1))?.1;
            (own >= batch).then_some(batch)
        }
    }
}

/// True when sizes in slots, by number of file, are those of all files of a server: numbers run on from 0, files with an even
/// number are equally long, and those with an odd one longer by their share of the slots for single pages.
#[must_use]
pub fn are_all_files(files: &[(u32, u64)]) -> bool {
    if let [(0, slots)] = files {
        return *slots > SINGLE_PAGE_SLOTS;
    }
    let odd = files.len().checked_div(2).unwrap_or_default() as u64;
    let (Some(share), Some((_, batch))) = (SINGLE_PAGE_SLOTS.checked_div(odd), files.first()) else { return false };
    (0_u32..).zip(files).all(|(number, (own, slots))| {
        let extra = if number.is_multiple_of(2) { 0 } else { share };
        *own == number && *batch > 0 && *slots == batch.saturating_add(extra)
    })
}

/// Slots of the legacy buffer that batches alone use, in one segment.
pub const LEGACY_BATCH_SLOTS: u64 = 120;

/// Segments that a file has at most: two for each of 64 buffer pools, shared among two files or more, and one.
pub const MAX_SEGMENTS: u64 = 65;

/// False when slots are all zero that a server writes before others that are not: a batch goes into a segment from its first slot on,
/// segments are used in turn from the first on, and nothing makes zeros of a slot later. How long a segment is is stored nowhere:
/// what fits any length from `shortest` on is possible.
///
/// `used`: slots that are not all zero, in order. `batch`: slots of all segments.
#[must_use]
pub fn is_filled_in_turn(used: &[u64], batch: u64, shortest: u64) -> bool {
    let used = used.get(..used.partition_point(|slot| *slot < batch)).unwrap_or_default();
    let Some(last) = used.last() else { return true };
    let is_used = |slot: u64| used.binary_search(&slot).is_ok();
    let starts_run = |slot: &u64| slot.checked_sub(1).is_none_or(|before| !is_used(before));
    let starts: Vec<u64> = used.iter().copied().filter(starts_run).collect();
    let fits = |pages: u64| {
        let firsts = (0..=*last).step_by(usize::try_from(pages).unwrap_or(usize::MAX));
        starts.iter().all(|start| start.is_multiple_of(pages)) && firsts.into_iter().all(is_used)
    };
    (shortest.max(1)..=batch).filter(|pages| batch.is_multiple_of(*pages)).any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_files() {
        let parse = DoublewriteName::parse;
        let images = |page_bytes, number| DoublewriteName { page_bytes, number, kind: DoublewriteKind::Images };
        assert_eq!(parse("#ib_16384_0.dblwr"), Some(images(16384, 0)));
        assert_eq!(parse("#ib_4096_12.dblwr"), Some(images(4096, 12)));
        let entries = DoublewriteName { kind: DoublewriteKind::Entries, ..images(16384, 0) };
        assert_eq!(parse("#ib_16384_0.bdblwr"), Some(entries));
        for other in
            ["ib_16384_0.dblwr", "#ib_16384_0", "#ib_16000_0.dblwr", "#ib_16384_.dblwr", "#ib_+16384_0.dblwr", ""]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse("#ib_16384_99999999999.dblwr"), None);
    }

    /// The end of the header as MySQL 5.6, MySQL 9.7 and MariaDB 10.11 write it.
    const TAIL: &str = "1fffbd5f00000040000000801fffbd5f00000040000000806a5073aa";

    fn page() -> Vec<u8> {
        let mut page = vec![0; 16384];
        for (at, pair) in TAIL.as_bytes().chunks(2).enumerate() {
            page[16384 - 200 + 10 + at] = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        page
    }

    #[test]
    fn header_of_real_servers() {
        let mut page = page();
        let header = LegacyHeader { blocks: (64, 128), is_from_copy: false };
        assert_eq!(LegacyHeader::decode(&page), Some(header));
        assert_eq!(LegacyHeader::usual(16384), header);
        page[16384 - 190] ^= 1;
        let copy = LegacyHeader { is_from_copy: true, ..header };
        assert_eq!(LegacyHeader::decode(&page), Some(copy));
        page[16384 - 178] ^= 1;
        assert_eq!(LegacyHeader::decode(&page), None);
        assert_eq!(LegacyHeader::decode(&page[..20]), None);
    }

    #[test]
    fn slots_lie_in_two_extents() {
        let header = LegacyHeader { blocks: (64, 128), is_from_copy: false };
        let page = |slot| header.page_of_slot(16384, slot);
        assert_eq!(
            [page(0), page(63), page(64), page(127), page(128)],
            [Some(64), Some(127), Some(128), Some(191), None]
        );
        let far = LegacyHeader { blocks: (u32::MAX, 0), ..header };
        assert_eq!(far.page_of_slot(16384, 1), None);
        assert!(header.is_slot(16384, 64) && header.is_slot(16384, 191) && !header.is_slot(16384, 192));
        assert!(!header.is_slot(16384, 63));
    }

    /// Worked out by hand: 256 slots, in segments of 128 or less. Pairs are the first used slot and the one after the last.
    #[test]
    fn zeros_before_images_are_seen_where_no_segment_begins_after_them() {
        let slots = |used: &[(u64, u64)]| used.iter().flat_map(|(from, to)| *from..*to).collect::<Vec<u64>>();
        let possible: [&[(u64, u64)]; 5] =
            [&[], &[(0, 256)], &[(0, 30)], &[(0, 30), (128, 140)], &[(0, 9), (300, 301)]];
        for used in possible {
            assert!(is_filled_in_turn(&slots(used), 256, 4), "{used:?}");
        }
        // The first slot, a beginning that no segment has, and a segment after one that was never used.
        let others: [&[(u64, u64)]; 5] = [
            &[(1, 256)],
            &[(0, 100), (101, 256)],
            &[(0, 64), (192, 256)],
            &[(128, 256)],
            &[(0, 50), (64, 70), (90, 99)],
        ];
        for used in others {
            assert!(!is_filled_in_turn(&slots(used), 256, 4), "{used:?}");
        }
        let legacy = |used: &[_]| is_filled_in_turn(&slots(used), LEGACY_BATCH_SLOTS, LEGACY_BATCH_SLOTS);
        assert!(legacy(&[(0, 128)]) && legacy(&[(0, 50)]) && legacy(&[(0, 50), (120, 123)]) && legacy(&[(120, 121)]));
        assert!(!legacy(&[(0, 60), (80, 90)]) && !legacy(&[(1, 20)]) && !legacy(&[(60, 120)]));
    }

    /// Sizes seen of MySQL 9.7 with several settings, then the same with something missing.
    #[test]
    fn missing_files_and_cut_ones_are_known_from_sizes() {
        let whole: [&[(u32, u64)]; 3] = [&[(0, 256), (1, 768)], &[(0, 16), (1, 272), (2, 16), (3, 272)], &[(0, 640)]];
        assert!(whole.iter().all(|files| are_all_files(files)));
        let wanting: [&[(u32, u64)]; 8] = [
            &[],
            &[(0, 256)],
            &[(1, 768)],
            &[(0, 255), (1, 768)],
            &[(0, 256), (1, 700)],
            &[(0, 0), (1, 768)],
            &[(0, 16), (1, 272), (3, 272)],
            &[(0, 16), (1, 272), (2, 16)],
        ];
        for files in wanting {
            assert!(!are_all_files(files), "{files:?}");
        }
    }

    /// Sizes seen of MySQL 9.7 with several settings, in slots.
    #[test]
    fn batch_part_is_known_from_sizes() {
        assert_eq!(batch_slots(&[(0, 256), (1, 768)], 0), Some(256));
        assert_eq!(batch_slots(&[(0, 256), (1, 768)], 1), Some(256));
        assert_eq!(batch_slots(&[(0, 16), (1, 272), (2, 16), (3, 272)], 3), Some(16));
        assert_eq!(batch_slots(&[(0, 640)], 0), Some(128));
        assert_eq!(batch_slots(&[(1, 768)], 1), None);
        assert_eq!(batch_slots(&[(0, 100)], 0), None);
    }
}
