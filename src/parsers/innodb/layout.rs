//! Where images lie in a doublewrite buffer: its file names, its header in the system tablespace, and the file without images.
//! Also here: flags of a tablespace: page size, compression, encryption.

use super::{DEFAULT_PAGE_BYTES, InnodbLsn, InnodbPageId, MIN_PAGE_BYTES, is_instance_page_size};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};

/// A file of the doublewrite buffer of MySQL 8.0.20 and later, by its name: `#ib_<page size>_<number>.dblwr`, and
/// `.bdblwr` for the one without images.
/// Source: `dblwr::File`, `storage/innobase/buf/buf0dblwr.cc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoublewriteName {
    /// Page size of the instance.
    pub page_bytes: usize,
    /// Number of the file.
    pub number: u32,
    /// It names pages without their images.
    pub has_entries: bool,
}

impl DoublewriteName {
    /// Reads a file name; `None` for any other file.
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("#ib_")?;
        let entries = rest.strip_suffix(".bdblwr");
        let rest = entries.or_else(|| rest.strip_suffix(".dblwr"))?;
        let (page, number) = rest.split_once('_')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(page) || !digits(number) {
            return None;
        }
        let page_bytes: usize = page.parse().ok()?;
        let number = number.parse().ok()?;
        is_instance_page_size(page_bytes).then_some(Self { page_bytes, number, has_entries: entries.is_some() })
    }
}

/// Number of the page in the system tablespace whose end has the header of the legacy doublewrite buffer.
pub(crate) const TRX_SYSTEM_PAGE: u32 = 5;

/// Pages of an extent, the unit in which the legacy doublewrite buffer has its place.
pub(crate) const fn extent_pages(page_bytes: usize) -> u32 {
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
/// Source: `TRX_SYS_DOUBLEWRITE`, `storage/innobase/include/trx0sys.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyHeader {
    /// First pages of the two extents.
    pub blocks: (u32, u32),
    /// The first of the two copies is damaged, and the second was used.
    pub is_from_copy: bool,
}

impl LegacyHeader {
    pub(crate) const MAGIC: u32 = 536_853_855;
    /// Bytes from the start of the header to the end of the page.
    pub(crate) const BEFORE_END: usize = 200;

    /// The header that a new instance of every server gets: MySQL 5.6, 5.7 and 8.0.19 and MariaDB 10.11 were seen to.
    pub const fn usual(page_bytes: usize) -> Self {
        let extent = extent_pages(page_bytes);
        Self { blocks: (extent, extent.saturating_mul(2)), is_from_copy: false }
    }

    /// Decodes the header at the end of page 5. `None` when neither copy has the magic number, or the page is shorter than the header:
    /// there is no such buffer.
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
    pub(crate) const fn page_of_slot(&self, page_bytes: usize, slot: u32) -> Option<u32> {
        let extent = extent_pages(page_bytes);
        match slot.checked_sub(extent) {
            None => self.blocks.0.checked_add(slot),
            Some(slot) if slot < extent => self.blocks.1.checked_add(slot),
            Some(_) => None,
        }
    }

    /// True for a page of the system tablespace that is a slot.
    pub(crate) fn is_slot(&self, page_bytes: usize, page_no: u32) -> bool {
        let extent = extent_pages(page_bytes);
        let in_block = |block: u32| page_no >= block && page_no < block.saturating_add(extent);
        in_block(self.blocks.0) || in_block(self.blocks.1)
    }
}

/// Slots that single pages are written through, over all files of MySQL 8.0.20 and later.
pub(crate) const SINGLE_PAGE_SLOTS: u64 = 512;

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

stable_names!(SlotPart);

/// Slots of the batch part of a file, from the sizes of the files in slots by their number, since none stores it: files
/// with an even number have nothing else, and files with an odd one as much of it. `None` when sizes do not fit.
pub(crate) fn batch_slots(files: &[(u32, u64)], number: u32) -> Option<u64> {
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
pub(crate) fn are_all_files(files: &[(u32, u64)]) -> bool {
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
pub(crate) const LEGACY_BATCH_SLOTS: u64 = 120;

/// Segments that a file has at most: two for each of 64 buffer pools, shared among two files or more, and one.
pub(crate) const MAX_SEGMENTS: u64 = 65;

/// False when slots are all zero that a server writes before others that are not: a batch goes into a segment from its first slot on,
/// segments are used in turn from the first on, and nothing makes zeros of a slot later. How long a segment is is stored nowhere:
/// any length of at least `shortest` is possible.
///
/// `used`: slots that are not all zero, in order. `batch`: slots of all segments.
pub(crate) fn is_filled_in_turn(used: &[u64], batch: u64, shortest: u64) -> bool {
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

/// A block of the file that names pages without their images (`innodb_doublewrite=DETECT_ONLY`): 8192 bytes for every page size.
///
/// | bytes  | field       | meaning                                         |
/// |--------|-------------|-------------------------------------------------|
/// | 0..4   | `segment`   | number of the segment                           |
/// | 4..8   |             | CRC-32C of the entries                          |
/// | 8..10  |             | bytes of entries, 16 each                       |
/// | 10..11 | `flush_type` | 0 LRU, 1 flush list                            |
/// | 11..20 |             | zero                                            |
/// | 20..   | `entries`   | space id, page number (4 bytes each), LSN (8)   |
/// Source: `dblwr::Reduced_batch_serializer`, `storage/innobase/buf/buf0dblwr.cc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectBlock {
    /// Number of the segment.
    pub segment: u32,
    /// Kind of flush that wrote the pages.
    pub flush_type: u8,
    /// The entries are what was written.
    pub is_sound: bool,
    /// Pages that were being written, with their LSNs: as many as lie in the block.
    pub entries: Vec<(InnodbPageId, InnodbLsn)>,
}

impl DetectBlock {
    /// Bytes of a block.
    pub const SIZE: usize = 8192;

    /// Decodes a block; `None` for one that is shorter than its header. Gives at most 510 entries.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let (segment, stored) = (be_u32_at(block, 0)?, be_u32_at(block, 4)?);
        let length = usize::from(be_u16_at(block, 8)?);
        let flush_type = *block.get(10)?;
        let area = block.get(20..block.len().min(Self::SIZE))?;
        let is_whole = length > 0 && length.is_multiple_of(16);
        let is_sound = is_whole && area.get(..length).map(crc32c) == Some(stored);
        let entry = |bytes: &[u8]| {
            let page = InnodbPageId { space_id: be_u32_at(bytes, 0)?, page_no: be_u32_at(bytes, 4)? };
            Some((page, InnodbLsn(be_u64_at(bytes, 8)?)))
        };
        let entries = area.get(..length.min(area.len()))?.chunks_exact(16).filter_map(entry).collect();
        Some(Self { segment, flush_type, is_sound, entries })
    }
}

/// Flags of a tablespace: 4 bytes at 54 of its page 0.
/// Source: `FSP_SPACE_FLAGS`, `storage/innobase/include/fsp0fsp.h`; of MariaDB also `fil_space_t::full_crc32`,
/// `storage/innobase/include/fil0fil.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFlags {
    /// As stored.
    pub raw: u32,
    /// MariaDB: pages end with a checksum over all of them.
    pub is_full_crc32: bool,
    /// Page size of the instance, in bytes.
    pub page_bytes: usize,
    /// Page size of a table with `ROW_FORMAT=COMPRESSED`.
    pub zip_bytes: Option<usize>,
    /// MariaDB: pages may be compressed one by one.
    pub has_page_compression: bool,
    /// MySQL: pages are encrypted.
    pub is_mysql_encrypted: bool,
}

/// Offset of the flags in page 0.
const FLAGS_AT: usize = 54;

/// Offset of the second copy of the space id in page 0.
pub(crate) const SPACE_ID_AT: usize = 38;

impl SpaceFlags {
    /// Decodes flags. Bit 4 tells the two ways to read them apart: no legal size of a compressed page sets it.
    pub const fn of(raw: u32) -> Self {
        if raw & 0x10 != 0 {
            return Self {
                raw,
                is_full_crc32: true,
                page_bytes: 512 << (raw & 15),
                zip_bytes: None,
                has_page_compression: (raw >> 5) & 7 != 0,
                is_mysql_encrypted: false,
            };
        }
        let (zip, page) = ((raw >> 1) & 15, (raw >> 6) & 15);
        Self {
            raw,
            is_full_crc32: false,
            page_bytes: if page == 0 { DEFAULT_PAGE_BYTES } else { 512 << page },
            zip_bytes: if zip == 0 { None } else { Some(512 << zip) },
            has_page_compression: raw & 0x1_0000 != 0,
            is_mysql_encrypted: raw & 0x2000 != 0,
        }
    }

    /// Flags of a tablespace with pages of this size that nothing else is known of.
    pub const fn plain(page_bytes: usize) -> Self {
        Self { page_bytes, ..Self::of(0) }
    }

    /// Flags of MariaDB with `full_crc32`.
    pub const fn full_crc32(page_bytes: usize) -> Self {
        Self { page_bytes, ..Self::of(0x15) }
    }

    /// Flags in page 0; `None` when it ends before them.
    pub fn of_page_0(page: &[u8]) -> Option<Self> {
        be_u32_at(page, FLAGS_AT).map(Self::of)
    }

    /// Bytes of a page in a data file.
    pub const fn physical_bytes(&self) -> usize {
        match self.zip_bytes {
            Some(zip) => zip,
            None => self.page_bytes,
        }
    }

    /// True when a server can make a tablespace with such sizes.
    pub const fn is_possible(&self) -> bool {
        let is_zip_possible = match self.zip_bytes {
            Some(zip) => zip >= MIN_PAGE_BYTES && zip <= DEFAULT_PAGE_BYTES && zip <= self.page_bytes,
            None => true,
        };
        is_instance_page_size(self.page_bytes) && is_zip_possible
    }
}

/// Pages that page 0 says the tablespace has; a file may be longer, when it was extended last.
pub(crate) fn declared_pages(page_0: &[u8]) -> Option<u32> {
    be_u32_at(page_0, 46)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_server_gives_are_not_taken() {
        let name = DoublewriteName { page_bytes: 4096, number: 12, has_entries: true };
        assert_eq!(DoublewriteName::parse("#ib_4096_12.bdblwr"), Some(name));
        let others = "ib_16384_0.dblwr #ib_16384_0 #ib_16000_0.dblwr #ib_16384_.dblwr #ib_+16384_0.dblwr #ib_16384_99999999999.dblwr";
        assert!(others.split(' ').all(|other| DoublewriteName::parse(other).is_none()));
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

    #[test]
    fn length_that_leads_out_of_the_block_gives_the_entries_that_are_there() {
        let mut block = vec![1; DetectBlock::SIZE];
        block[8..10].copy_from_slice(&[0xFF, 0xF0]);
        let decoded = DetectBlock::decode(&block).unwrap();
        assert!(decoded.entries.len() == 510 && !decoded.is_sound);
        assert!((0..20).all(|length| DetectBlock::decode(&block[..length]).is_none()));
    }

    #[test]
    fn sizes_that_no_server_makes_are_impossible() {
        for raw in [0x10, 0x1F, 0x1 << 6, 0x0F << 6, 0x06 << 1, u32::MAX] {
            assert!(!SpaceFlags::of(raw).is_possible(), "{raw:#x}");
        }
    }

    #[test]
    fn every_value_decodes() {
        for raw in (0..u32::MAX).step_by(65_521) {
            let flags = SpaceFlags::of(raw);
            assert!(flags.physical_bytes() >= 512 && flags.physical_bytes() <= 512 << 15);
        }
    }
}
