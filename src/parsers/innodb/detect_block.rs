//! A block of the file that names pages without their images (`innodb_doublewrite=DETECT_ONLY`).

use super::{InnodbLsn, InnodbPageId};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};

/// A block of 8192 bytes, for every page size.
///
/// | bytes  | field       | meaning                                         |
/// |--------|-------------|-------------------------------------------------|
/// | 0..4   | `segment`   | number of the segment                           |
/// | 4..8   |             | CRC-32C of the entries                          |
/// | 8..10  |             | bytes of entries, 16 each                       |
/// | 10..11 | `flush_type` | 0 LRU, 1 flush list                            |
/// | 11..20 |             | zero                                            |
/// | 20..   | `entries`   | space id, page number (4 bytes each), LSN (8)   |
///
/// Source: `dblwr::Reduced_batch_serializer`, `storage/innobase/buf/buf0dblwr.cc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectBlock {
    /// Number of the segment.
    pub segment: u32,
    /// What wrote the pages.
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
    #[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a block that MySQL 9.7 wrote.
    #[test]
    fn start_of_a_real_block() {
        let mut block = vec![0; DetectBlock::SIZE];
        block[..11].copy_from_slice(&[0, 0, 0, 4, 0x74, 0x54, 0x11, 0x43, 8, 0, 0]);
        block[20..36].copy_from_slice(&[0, 0, 0, 3, 0, 0, 9, 0xB8, 0, 0, 0, 0, 0x0A, 0x7A, 0x94, 0xBB]);
        let decoded = DetectBlock::decode(&block).unwrap();
        assert_eq!((decoded.segment, decoded.flush_type, decoded.entries.len()), (4, 0, 128));
        let page = InnodbPageId { space_id: 3, page_no: 0x9B8 };
        assert_eq!(decoded.entries[0], (page, InnodbLsn(0x0A7A_94BB)));
        // The other entries are not those that the server wrote.
        assert!(!decoded.is_sound);
        let crc = crc32c(&block[20..20 + 2048]).to_be_bytes();
        block[4..8].copy_from_slice(&crc);
        assert!(DetectBlock::decode(&block).unwrap().is_sound);
        block[20 + 2047] ^= 1;
        assert!(!DetectBlock::decode(&block).unwrap().is_sound);
        // A length that leads out of the block gives the entries that are there.
        block[8..10].copy_from_slice(&[0xFF, 0xF0]);
        let decoded = DetectBlock::decode(&block).unwrap();
        assert!(decoded.entries.len() == 510 && !decoded.is_sound);
        assert!((0..20).all(|length| DetectBlock::decode(&block[..length]).is_none()));
    }
}
