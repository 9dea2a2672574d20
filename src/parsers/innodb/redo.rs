//! The redo log: its checkpoint, and what it is made of after its headers: blocks, or mini-transactions in MariaDB 10.8 and later.

use super::InnodbLsn;
use super::checksum::{NO_CHECKSUM, fold};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};

/// Bytes at the start of a redo file that can have header and checkpoints.
pub(crate) const REDO_HEAD_BYTES: usize = 16384;

/// Offset of the checksum of a header and of a block, where its records end.
const CHECKSUM_AT: usize = 508;

/// `Phys`.
const MARIADB_PHYSICAL: u32 = 0x5068_7973;

/// How a redo log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoFormat {
    /// MySQL 8.0.30 and later: files in `#innodb_redo`.
    Directory,
    /// MySQL 5.7.9 to 8.0.29, MariaDB 10.2 to 10.7.
    Block,
    /// MySQL 5.6 and before, MariaDB before 10.2.
    Old,
    /// MariaDB 10.8 and later.
    MariadbPhysical,
}

impl RedoFormat {
    /// The format of `ib_logfile0` with this word at its start. The highest bit says that it is encrypted.
    /// Source: `log_t::FORMAT_10_8` and the others, `storage/innobase/include/log0log.h`.
    pub const fn of_word(word: u32) -> Self {
        match word & 0x7FFF_FFFF {
            MARIADB_PHYSICAL => Self::MariadbPhysical,
            0x5048_5953 | 103 | 104 | 1..=6 => Self::Block,
            _ => Self::Old,
        }
    }

    /// Headers of its files have a checksum.
    pub(crate) const fn has_header_checksum(self) -> bool {
        !matches!(self, Self::Old)
    }

    /// Offsets of the two checkpoint blocks.
    const fn checkpoints_at(self) -> [usize; 2] {
        match self {
            Self::MariadbPhysical => [4096, 8192],
            _ => [512, 1536],
        }
    }
}

/// Header of a redo file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedoHeader {
    /// Format word.
    pub format: u32,
    /// LSN of the first byte after the header.
    pub start_lsn: InnodbLsn,
    /// Which server made it, as it names itself; `None` where it does not.
    pub creator: Option<String>,
    /// The checksum is right that headers have in all formats but the oldest: CRC-32C of the first 508 bytes, after them.
    pub has_right_checksum: bool,
}

impl RedoHeader {
    /// Decodes the start of a redo file; `None` when it is shorter than a header.
    pub fn decode(head: &[u8]) -> Option<Self> {
        let text = head.get(16..48)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = text.get(..end).unwrap_or_default();
        let text = text.trim_ascii();
        // MySQL 5.6 has four blanks here.
        let is_name = !text.is_empty() && text.iter().all(|byte| (0x20..0x7F).contains(byte));
        let creator = is_name.then(|| String::from_utf8_lossy(text).into_owned());
        let has_right_checksum = has_crc(head);
        let start_lsn = InnodbLsn(be_u64_at(head, 8)?);
        Some(Self { format: be_u32_at(head, 0)?, start_lsn, creator, has_right_checksum })
    }
}

/// True for 512 bytes or more with the CRC-32C of the first 508 after them.
fn has_crc(block: &[u8]) -> bool {
    block.get(..CHECKSUM_AT).is_some_and(|bytes| Some(crc32c(bytes)) == be_u32_at(block, CHECKSUM_AT))
}

/// A checkpoint block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Offset in the file.
    pub offset: u64,
    /// Number of the checkpoint, in formats that have one.
    pub number: Option<u64>,
    /// Where recovery starts.
    pub lsn: InnodbLsn,
    /// Where `lsn` is in the files of the log laid end to end, in formats that say so.
    pub position: Option<u64>,
    /// LSN up to which the log must reach for a start, in formats that have one.
    pub end_lsn: Option<InnodbLsn>,
    /// Its checksum is right.
    pub is_valid: bool,
}

/// The checkpoint blocks at the start of a redo file that are there and not all zero.
pub fn checkpoints(format: RedoFormat, head: &[u8]) -> Vec<Checkpoint> {
    format.checkpoints_at().into_iter().filter_map(|at| checkpoint(format, head, at)).collect()
}

fn checkpoint(format: RedoFormat, head: &[u8], at: usize) -> Option<Checkpoint> {
    let length = if format == RedoFormat::MariadbPhysical { 64 } else { 512 };
    let block = head.get(at..at.checked_add(length)?)?;
    if block.iter().all(|byte| *byte == 0) {
        return None;
    }
    let crc_at = |end: usize| block.get(..end).map(crc32c) == be_u32_at(block, end);
    let (number, lsn, is_valid) = match format {
        RedoFormat::MariadbPhysical => (None, be_u64_at(block, 0)?, crc_at(60)),
        RedoFormat::Directory => (None, be_u64_at(block, 8)?, crc_at(508)),
        RedoFormat::Block => (be_u64_at(block, 0), be_u64_at(block, 8)?, crc_at(508)),
        RedoFormat::Old => {
            let sum = |from: usize, to: usize| block.get(from..to).map(|bytes| fold(0, bytes));
            let first = sum(0, 288) == be_u32_at(block, 288);
            (be_u64_at(block, 0), be_u64_at(block, 8)?, first && sum(8, 292) == be_u32_at(block, 292))
        }
    };
    let position = match format {
        RedoFormat::MariadbPhysical | RedoFormat::Directory => None,
        RedoFormat::Block => be_u64_at(block, 16),
        RedoFormat::Old => Some(u64::from(be_u32_at(block, 304)?) << 32 | u64::from(be_u32_at(block, 16)?)),
    };
    let end_lsn = be_u64_at(block, 8).filter(|_| format == RedoFormat::MariadbPhysical).map(InnodbLsn);
    let is_valid = is_valid && lsn > 0;
    Some(Checkpoint { offset: at as u64, number, lsn: InnodbLsn(lsn), position, end_lsn, is_valid })
}

/// The checkpoint that recovery starts from: the valid one with the highest number, or LSN where there are no numbers.
pub fn latest(checkpoints: &[Checkpoint]) -> Option<Checkpoint> {
    let valid = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid);
    valid.copied().max_by_key(|checkpoint| (checkpoint.number, checkpoint.lsn))
}

/// True when both checkpoint blocks of a file of MySQL 8.0.30 and later have a right checksum, as one has that was never used.
pub(crate) fn has_both_checkpoints(head: &[u8]) -> bool {
    RedoFormat::Directory.checkpoints_at().into_iter().all(|at| head.get(at..).is_some_and(has_crc))
}

/// True when the checkpoint cannot have been superseded by one whose block is lost: servers write two blocks in turn, and both
/// are there and valid. With one block alone a newer checkpoint may have been in the other.
pub(crate) fn is_latest_certain(checkpoints: &[Checkpoint]) -> bool {
    let valid: Vec<&Checkpoint> = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid).collect();
    match valid.as_slice() {
        [one, other] => {
            let are_in_turn = match (one.number, other.number) {
                (Some(one), Some(other)) => one.abs_diff(other) == 1,
                _ => true,
            };
            one.offset != other.offset && are_in_turn
        }
        _ => false,
    }
}

/// Bytes of a block: 12 of header, 496 of records, 4 of checksum.
pub(crate) const REDO_BLOCK_BYTES: usize = 512;

/// Bytes at the start of a redo file that hold no records.
pub(crate) const REDO_HEADER_BYTES: u64 = 2048;

/// Bytes at the start of a block that hold no records.
const BLOCK_HEADER_BYTES: usize = 12;

/// Bit of the length that says that records are encrypted.
const ENCRYPTED: u16 = 0x8000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RedoBlock {
    /// Its number, see [`block_number`].
    pub number: u32,
    /// Bytes of it that are written, header and checksum included; the block is full with 512.
    pub length: u64,
    pub is_tested: bool,
}

impl RedoBlock {
    /// Examines a block of 512 bytes; `None` for one that is all zero or has a wrong checksum.
    /// Source: `log_block_get_hdr_no`, `log_block_get_data_len`, `log_block_calc_checksum`, `storage/innobase/include/log0log.ic`.
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
pub(crate) fn block_records(block: &[u8], length: u64, from: usize) -> &[u8] {
    let end = usize::try_from(length).unwrap_or(CHECKSUM_AT).min(CHECKSUM_AT);
    block.get(from.max(BLOCK_HEADER_BYTES)..end).unwrap_or_default()
}

/// Where the block begins that holds an LSN.
pub(crate) const fn block_start(lsn: InnodbLsn) -> InnodbLsn {
    InnodbLsn(lsn.0 & !0x1FF)
}

/// Number of the block that begins at an LSN.
/// Source: `log_block_convert_lsn_to_no`, `storage/innobase/include/log0log.ic`.
pub(crate) const fn block_number(start: InnodbLsn) -> u32 {
    (((start.0 >> 9) & 0x3FFF_FFFF) as u32).saturating_add(1)
}

/// LSN after the last record of a block that begins at `start`. That of a full one is the first byte of records in the next.
pub(crate) const fn block_end(start: InnodbLsn, length: u64) -> InnodbLsn {
    let is_full = length == REDO_BLOCK_BYTES as u64;
    InnodbLsn(start.0.saturating_add(length).saturating_add(if is_full { BLOCK_HEADER_BYTES as u64 } else { 0 }))
}

/// The checksum of blocks before MySQL 5.7.
/// Source: `log_block_calc_checksum`, `storage/innobase/include/log0log.ic` of MySQL 5.6.
fn old_sum(bytes: &[u8]) -> u32 {
    let shifts = (0..25).cycle();
    bytes.iter().zip(shifts).fold(1, |sum: u32, (byte, shift)| {
        let byte = u32::from(*byte);
        (sum & 0x7FFF_FFFF).wrapping_add(byte).wrapping_add(byte << shift)
    })
}

/// Offset of the first mini-transaction in `ib_logfile0`.
pub(crate) const MTR_LOG_START: u64 = 12288;

pub(crate) const MAX_MTR_BYTES: usize = 1 << 20;

/// Bytes after the records: one that ends them, and a checksum.
pub(crate) const MTR_TRAILER_BYTES: usize = 5;

/// Examines the bytes at a place in the log, as many as there are, and at most those of the longest mini-transaction: bytes of its
/// records, and the bit that ends them, which changes with each turn of the log over its file. `None`: none is here, its records do not
/// end, or its checksum is wrong.
///
/// Each record begins with a byte whose low half is the count of bytes that follow, or 0 where a number of 1 to 4 bytes
/// gives that count less 15. A byte of 0 or 1 ends them; the checksum is the CRC-32C of all bytes before it.
/// Source: `recv_sys_t::parse`, `storage/innobase/log/log0recv.cc` of MariaDB.
pub(crate) fn mini_transaction(bytes: &[u8]) -> Option<(usize, u8)> {
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

    #[test]
    fn newest_of_two_blocks_counts_by_its_number() {
        let mut head = vec![0; 4096];
        for (at, number, lsn) in [(512, 9_u64, 500_u64), (1536, 8, 900)] {
            head[at..at + 8].copy_from_slice(&number.to_be_bytes());
            head[at + 8..at + 16].copy_from_slice(&lsn.to_be_bytes());
            let crc = crc32c(&head[at..at + 508]).to_be_bytes();
            head[at + 508..at + 512].copy_from_slice(&crc);
        }
        assert_eq!(latest(&checkpoints(RedoFormat::Block, &head)).unwrap().lsn, InnodbLsn(500));
        assert_eq!(latest(&checkpoints(RedoFormat::Directory, &head)).unwrap().lsn, InnodbLsn(900));
        assert_eq!(latest(&checkpoints(RedoFormat::Old, &head)), None);
        assert!(is_latest_certain(&checkpoints(RedoFormat::Block, &head)));
        head[1536 + 8] ^= 1;
        assert!(!is_latest_certain(&checkpoints(RedoFormat::Block, &head)), "9 may not be the last");
    }

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
