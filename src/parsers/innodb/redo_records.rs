//! What the redo log is made of after its headers: blocks, or mini-transactions in MariaDB 10.8 and later.

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

/// A block as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoBlock {
    /// Its number, see [`block_number`].
    pub number: u32,
    /// Bytes of it that are written, header and checksum included; the block is full with 512.
    pub length: u64,
    /// It has a checksum, which fits.
    pub is_tested: bool,
}

impl RedoBlock {
    /// Examines a block of 512 bytes; `None` for one that is all zero or has a wrong checksum.
    ///
    /// Source: `log_block_get_hdr_no`, `log_block_get_data_len`, `log_block_calc_checksum`, `storage/innobase/include/log0log.ic`.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Self> {
        let (number, length) = (be_u32_at(block, 0)?, u64::from(be_u16_at(block, 4)? & !ENCRYPTED));
        let (stored, summed) = (be_u32_at(block, CHECKSUM_AT)?, block.get(..CHECKSUM_AT)?);
        let is_tested = stored == crc32c(summed) || stored == old_sum(summed);
        let is_length =
            length == REDO_BLOCK_BYTES as u64 || (BLOCK_HEADER_BYTES as u64..=CHECKSUM_AT as u64).contains(&length);
        // The highest bit of the number was set in the first block of a write.
        let block = Self { number: number & 0x7FFF_FFFF, length, is_tested };
        (is_length && (is_tested || stored == NO_CHECKSUM)).then_some(block)
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

/// Offset of the first mini-transaction in `ib_logfile0`.
pub const MTR_LOG_START: u64 = 12288;

/// Longest mini-transaction.
pub const MAX_MTR_BYTES: usize = 1 << 20;

/// Bytes after the records: one that ends them, and a checksum.
pub const MTR_TRAILER_BYTES: usize = 5;

/// Examines the bytes at a place in the log, as many as there are, and at most those of the longest mini-transaction: bytes of its
/// records, and the bit that ends them, which changes with each turn of the log over its file. `None`: none is here, its records do not
/// end, or its checksum is wrong.
///
/// Each record begins with a byte whose low half is the count of bytes that follow, or 0 where a number of 1 to 4 bytes
/// gives that count less 15. A byte of 0 or 1 ends them; the checksum is the CRC-32C of all bytes before it.
///
/// Source: `recv_sys_t::parse`, `storage/innobase/log/log0recv.cc` of MariaDB.
#[must_use]
pub fn mini_transaction(bytes: &[u8]) -> Option<(usize, u8)> {
    let mut at: usize = 0;
    while at <= MAX_MTR_BYTES {
        let first = bytes.get(at).copied()?;
        let after = at.checked_add(1)?;
        if first <= 1 {
            let records = bytes.get(..at).filter(|records| !records.is_empty())?;
            return (be_u32_at(bytes, after) == Some(crc32c(records))).then_some((at, first));
        }
        let length = match first & 0x0F {
            0 => usize::try_from(varint(bytes.get(after..)?)?).ok()?.checked_add(15)?,
            length => usize::from(length),
        };
        at = after.checked_add(length)?;
    }
    None
}

/// A number of variable length.
///
/// Source: `mlog_decode_varint`, `storage/innobase/include/mtr0log.h` of MariaDB.
fn varint(bytes: &[u8]) -> Option<u32> {
    const MIN_2: u32 = 1 << 7;
    const MIN_3: u32 = MIN_2 + (1 << 14);
    const MIN_4: u32 = MIN_3 + (1 << 21);
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    let first = byte(0)?;
    Some(match first {
        0..0x80 => first,
        0x80..0xC0 => MIN_2.saturating_add((first & 0x3F) << 8 | byte(1)?),
        0xC0..0xE0 => MIN_3.saturating_add((first & 0x1F) << 16 | byte(1)? << 8 | byte(2)?),
        0xE0..0xF0 => MIN_4.saturating_add((first & 0x0F) << 24 | byte(1)? << 16 | byte(2)? << 8 | byte(3)?),
        0xF0 => be_u32_at(bytes, 1)?,
        _ => return None,
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
        assert_eq!(RedoBlock::decode(&[0; 512]), None);
        let whole = |length| Some(RedoBlock { number: 77160, length, is_tested: true });
        assert_eq!(RedoBlock::decode(&block(77160, 79)), whole(79));
        assert_eq!(RedoBlock::decode(&block(0x8000_0000 | 77160, 0x8000 | 512)), whole(512));
        for wrong in [0, 11, 509, 511, 513, 0x7FFF] {
            assert_eq!(RedoBlock::decode(&block(77160, wrong)), None, "{wrong}");
        }
        let mut torn = block(77160, 512);
        torn[300] ^= 1;
        assert_eq!(RedoBlock::decode(&torn), None);
        torn[508..].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        assert_eq!(RedoBlock::decode(&torn), Some(RedoBlock { number: 77160, length: 512, is_tested: false }));
        for length in 0..512 {
            assert_eq!(RedoBlock::decode(&block(1, 512)[..length]), None, "{length}");
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

    fn mtr(records: &[u8], bit: u8) -> Vec<u8> {
        [records, &[bit], &crc32c(records).to_be_bytes()].concat()
    }

    #[test]
    fn mini_transactions_end_at_a_bit_and_a_checksum() {
        let mut records = vec![0x35, 1, 2, 3, 4, 5, 0x42, 0, 1, 0x30, 0x03];
        records.extend([0; 17]);
        let whole = mtr(&records, 1);
        assert_eq!(mini_transaction(&whole), Some((records.len(), 1)));
        let mut long = vec![0x30, 0x81, 0x10];
        long.extend(vec![9; 0x110 + 128 + 15 - 2]);
        assert_eq!(mini_transaction(&mtr(&long, 0)), Some((long.len(), 0)));
        for length in 0..whole.len() {
            assert_eq!(mini_transaction(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert_eq!(mini_transaction(&changed), None, "{at}");
        }
        assert_eq!(mini_transaction(&[0, 0x9C]), None);
        assert_eq!(mini_transaction(&vec![0x3F; MAX_MTR_BYTES + 100]), None);
    }
}
