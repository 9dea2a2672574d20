//! Blocks of the redo log, of all servers but MariaDB 10.8 and later.

use super::InnodbLsn;
use super::checksum::NO_CHECKSUM;
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u16_at, be_u32_at};

/// Bytes of a block: 12 of header, 496 of records, 4 of checksum.
pub const REDO_BLOCK_BYTES: usize = 512;

/// Bytes at the start of a redo file that hold no records.
pub const REDO_HEADER_BYTES: u64 = 2048;

/// Bytes at the start of a block that hold no records.
const BLOCK_HEADER_BYTES: usize = 12;

/// Offset of the checksum, and end of the records.
const CHECKSUM_AT: usize = 508;

/// Bit of the length that says that records are encrypted.
const ENCRYPTED: u16 = 0x8000;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoBlock {
    /// All zero: never written.
    Empty,
    /// Its checksum is wrong.
    Damaged,
    /// As it was written.
    Whole {
        /// Its number, see [`block_number`].
        number: u32,
        /// Bytes of it that are written, header and checksum included; the block is full with 512.
        length: u64,
        /// It has a checksum, which fits.
        is_tested: bool,
    },
}

impl RedoBlock {
    /// Examines a block of 512 bytes.
    ///
    /// Source: `log_block_get_hdr_no`, `log_block_get_data_len`, `log_block_calc_checksum`, `storage/innobase/include/log0log.ic`.
    #[must_use]
    pub fn decode(block: &[u8]) -> Self {
        if block.len() == REDO_BLOCK_BYTES && block.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        let (Some(number), Some(length)) = (be_u32_at(block, 0), be_u16_at(block, 4)) else { return Self::Damaged };
        let sum = (be_u32_at(block, CHECKSUM_AT), block.get(..CHECKSUM_AT));
        let (Some(stored), Some(summed)) = sum else { return Self::Damaged };
        let is_tested = stored == crc32c(summed) || stored == old_sum(summed);
        let length = u64::from(length & !ENCRYPTED);
        let is_length =
            length == REDO_BLOCK_BYTES as u64 || (BLOCK_HEADER_BYTES as u64..=CHECKSUM_AT as u64).contains(&length);
        if !is_length || !(is_tested || stored == NO_CHECKSUM) {
            return Self::Damaged;
        }
        // The highest bit was set in the first block of a write.
        Self::Whole { number: number & 0x7FFF_FFFF, length, is_tested }
    }
}

/// The records of a whole block with this length, from an offset in it on.
#[must_use]
pub fn block_records(block: &[u8], length: u64, from: usize) -> &[u8] {
    let end = usize::try_from(length).unwrap_or(CHECKSUM_AT).min(CHECKSUM_AT);
    block.get(from.max(BLOCK_HEADER_BYTES)..end).unwrap_or_default()
}

/// Where the block begins that holds an LSN.
#[must_use]
pub const fn block_start(lsn: InnodbLsn) -> InnodbLsn {
    InnodbLsn(lsn.0 & !0x1FF)
}

/// Number of the block that begins at an LSN.
///
/// Source: `log_block_convert_lsn_to_no`, `storage/innobase/include/log0log.ic`.
#[must_use]
pub const fn block_number(start: InnodbLsn) -> u32 {
    (((start.0 >> 9) & 0x3FFF_FFFF) as u32).saturating_add(1)
}

/// LSN after the last record of a block that begins at `start`. That of a full one is the first byte of records in the next.
#[must_use]
pub const fn block_end(start: InnodbLsn, length: u64) -> InnodbLsn {
    let is_full = length == REDO_BLOCK_BYTES as u64;
    InnodbLsn(start.0.saturating_add(length).saturating_add(if is_full { BLOCK_HEADER_BYTES as u64 } else { 0 }))
}

/// The checksum of blocks before MySQL 5.7.
///
/// Source: `log_block_calc_checksum`, `storage/innobase/include/log0log.ic` of MySQL 5.6.
fn old_sum(bytes: &[u8]) -> u32 {
    let shifts = (0..25).cycle();
    bytes.iter().zip(shifts).fold(1, |sum: u32, (byte, shift)| {
        let byte = u32::from(*byte);
        (sum & 0x7FFF_FFFF).wrapping_add(byte).wrapping_add(byte << shift)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u32, length: u16) -> [u8; 512] {
        let mut block = [7; 512];
        block[..4].copy_from_slice(&number.to_be_bytes());
        block[4..6].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c(&block[..508]);
        block[508..].copy_from_slice(&crc.to_be_bytes());
        block
    }

    #[test]
    fn blocks_by_checksum_and_length() {
        assert_eq!(RedoBlock::decode(&[0; 512]), RedoBlock::Empty);
        let whole = |length| RedoBlock::Whole { number: 77160, length, is_tested: true };
        assert_eq!(RedoBlock::decode(&block(77160, 79)), whole(79));
        assert_eq!(RedoBlock::decode(&block(0x8000_0000 | 77160, 0x8000 | 512)), whole(512));
        for wrong in [0, 11, 509, 511, 513, 0x7FFF] {
            assert_eq!(RedoBlock::decode(&block(77160, wrong)), RedoBlock::Damaged, "{wrong}");
        }
        let mut torn = block(77160, 512);
        torn[300] ^= 1;
        assert_eq!(RedoBlock::decode(&torn), RedoBlock::Damaged);
        torn[508..].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        let untested = RedoBlock::Whole { number: 77160, length: 512, is_tested: false };
        assert_eq!(RedoBlock::decode(&torn), untested);
        for length in 0..512 {
            assert_eq!(RedoBlock::decode(&block(1, 512)[..length]), RedoBlock::Damaged, "{length}");
        }
    }

    /// As in the log of MySQL 9.7.4 whose last block is the one of LSN 39505408, 79 bytes long.
    #[test]
    fn numbers_and_ends_by_lsn() {
        assert_eq!(block_number(InnodbLsn(39_505_408)), 77160);
        assert_eq!(block_end(InnodbLsn(39_505_408), 79), InnodbLsn(39_505_487));
        assert_eq!(block_end(InnodbLsn(39_504_896), 512), InnodbLsn(39_505_420));
        assert_eq!(block_start(InnodbLsn(39_505_487)), InnodbLsn(39_505_408));
        assert_eq!(block_number(InnodbLsn(512 << 30)), 1);
    }
}
