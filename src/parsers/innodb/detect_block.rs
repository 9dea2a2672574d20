//! A block of the file that names pages without their images (`innodb_doublewrite=DETECT_ONLY`).

use super::{InnodbLsn, InnodbPageId};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u16, be_u32, be_u32_at, be_u64_at, decode_at, le_u8};
use crate::parsers::error::ParseError;

/// A page that was being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectEntry {
    /// The page.
    pub page: InnodbPageId,
    /// Its LSN.
    pub lsn: InnodbLsn,
}

/// Header of a block of 8192 bytes, for every page size.
///
/// | bytes  | field       | meaning                                         |
/// |--------|-------------|-------------------------------------------------|
/// | 0..4   | `segment`   | number of the segment                           |
/// | 4..8   | `checksum`  | CRC-32C of the entries                          |
/// | 8..10  | `length`    | bytes of entries, 16 each                       |
/// | 10..11 | `flush_type` | 0 LRU, 1 flush list                            |
/// | 11..20 |             | zero                                            |
/// | 20..   | entries     | space id, page number (4 bytes each), LSN (8)   |
///
/// Source: `dblwr::Reduced_batch_serializer`, `storage/innobase/buf/buf0dblwr.cc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectBlock {
    /// Number of the segment.
    pub segment: u32,
    /// Stored checksum.
    pub checksum: u32,
    /// Bytes of entries.
    pub length: u16,
    /// What wrote the pages.
    pub flush_type: u8,
    /// The checksum that the entries give; `None` when their length leads out of the block.
    pub computed: Option<u32>,
    /// The entries, as many as lie in the block.
    pub entries: Vec<DetectEntry>,
}

impl DetectBlock {
    /// Bytes of a block.
    pub const SIZE: usize = 8192;
    /// Bytes before the entries.
    pub const HEADER_SIZE: usize = 20;
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = 16;

    /// Decodes without judging. `base` is the offset of `block[0]` in the file, for error messages only. Gives at most
    /// 510 entries.
    ///
    /// # Errors
    /// `Truncated` when `block` is shorter than its header.
    pub fn decode(base: u64, block: &[u8]) -> Result<Self, ParseError> {
        decode_at("Reduced_batch", base, block, |i| {
            use nom::Parser;
            use nom::error::context;
            let (i, segment) = context("id", be_u32).parse(i)?;
            let (i, checksum) = context("checksum", be_u32).parse(i)?;
            let (i, length) = context("data_len", be_u16).parse(i)?;
            let (i, flush_type) = context("batch_type", le_u8).parse(i)?;
            let (i, _) = context("unused", crate::parsers::decode::take(9)).parse(i)?;
            let area = block.get(Self::HEADER_SIZE..block.len().min(Self::SIZE)).unwrap_or_default();
            let computed = area.get(..usize::from(length)).map(crc32c);
            let listed = area.get(..usize::from(length).min(area.len())).unwrap_or_default();
            let entries = listed.chunks_exact(Self::ENTRY_SIZE).filter_map(entry).collect();
            Ok((i, Self { segment, checksum, length, flush_type, computed, entries }))
        })
    }

    /// True when the entries are what was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let has_whole_entries = usize::from(self.length).is_multiple_of(Self::ENTRY_SIZE) && self.length > 0;
        has_whole_entries && self.computed == Some(self.checksum)
    }
}

fn entry(bytes: &[u8]) -> Option<DetectEntry> {
    let page = InnodbPageId { space_id: be_u32_at(bytes, 0)?, page_no: be_u32_at(bytes, 4)? };
    Some(DetectEntry { page, lsn: InnodbLsn(be_u64_at(bytes, 8)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a block that MySQL 9.7 wrote.
    #[test]
    fn start_of_a_real_block() {
        let mut block = vec![0; DetectBlock::SIZE];
        block[..11].copy_from_slice(&[0, 0, 0, 4, 0x74, 0x54, 0x11, 0x43, 8, 0, 0]);
        block[20..36].copy_from_slice(&[0, 0, 0, 3, 0, 0, 9, 0xB8, 0, 0, 0, 0, 0x0A, 0x7A, 0x94, 0xBB]);
        let decoded = DetectBlock::decode(0, &block).unwrap();
        assert_eq!((decoded.segment, decoded.checksum, decoded.length), (4, 0x7454_1143, 2048));
        assert_eq!(decoded.entries.len(), 128);
        let page = InnodbPageId { space_id: 3, page_no: 0x9B8 };
        assert_eq!(decoded.entries[0], DetectEntry { page, lsn: InnodbLsn(0x0A7A_94BB) });
        // The other entries are not those that the server wrote.
        assert!(!decoded.is_sound());
        let crc = crc32c(&block[20..20 + 2048]).to_be_bytes();
        block[4..8].copy_from_slice(&crc);
        assert!(DetectBlock::decode(0, &block).unwrap().is_sound());
        block[20 + 2047] ^= 1;
        assert!(!DetectBlock::decode(0, &block).unwrap().is_sound());
    }

    #[test]
    fn length_that_leads_out_of_the_block_gives_the_entries_that_are_there() {
        let mut block = vec![7; DetectBlock::SIZE];
        block[8..10].copy_from_slice(&[0xFF, 0xF0]);
        let decoded = DetectBlock::decode(0, &block).unwrap();
        assert_eq!((decoded.entries.len(), decoded.computed), (510, None));
        assert!(!decoded.is_sound());
        for length in 0..20 {
            assert!(DetectBlock::decode(0x2000, &block[..length]).unwrap_err().offset >= 0x2000);
        }
    }
}
