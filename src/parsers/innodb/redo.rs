//! The checkpoint in the redo log.

use super::InnodbLsn;
use super::checksum::fold;
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{be_u32_at, be_u64_at};

/// Bytes at the start of a redo file that can have header and checkpoints.
pub const REDO_HEAD_BYTES: usize = 16384;

/// Offset of the checksum of a header.
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
    ///
    /// Source: `log_t::FORMAT_10_8` and the others, `storage/innobase/include/log0log.h`.
    #[must_use]
    pub const fn of_word(word: u32) -> Self {
        match word & 0x7FFF_FFFF {
            MARIADB_PHYSICAL => Self::MariadbPhysical,
            0x5048_5953 | 103 | 104 | 1..=6 => Self::Block,
            _ => Self::Old,
        }
    }

    /// Headers of its files have a checksum.
    #[must_use]
    pub const fn has_header_checksum(self) -> bool {
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
    #[must_use]
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
#[must_use]
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
#[must_use]
pub fn latest(checkpoints: &[Checkpoint]) -> Option<Checkpoint> {
    let valid = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid);
    valid.copied().max_by_key(|checkpoint| (checkpoint.number, checkpoint.lsn))
}

/// True when both checkpoint blocks of a file of MySQL 8.0.30 and later have a right checksum, as one has that was never used.
#[must_use]
pub fn has_both_checkpoints(head: &[u8]) -> bool {
    RedoFormat::Directory.checkpoints_at().into_iter().all(|at| head.get(at..).is_some_and(has_crc))
}

/// True when the checkpoint cannot have been superseded by one whose block is lost: servers write two blocks in turn, and both
/// are there and valid. With one block alone a newer checkpoint may have been in the other.
#[must_use]
pub fn is_latest_certain(checkpoints: &[Checkpoint]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The block that MariaDB 10.11 wrote.
    #[test]
    fn checkpoint_of_mariadb() {
        let mut head = vec![0; REDO_HEAD_BYTES];
        head[..4].copy_from_slice(b"Phys");
        head[4096 + 4..4096 + 8].copy_from_slice(&[0x01, 0x68, 0xB6, 0x30]);
        head[4096 + 12..4096 + 16].copy_from_slice(&[0x01, 0x68, 0xF8, 0xEF]);
        head[4096 + 60..4096 + 64].copy_from_slice(&[0x25, 0xFF, 0x88, 0x2B]);
        let format = RedoFormat::of_word(RedoHeader::decode(&head).unwrap().format);
        assert_eq!(format, RedoFormat::MariadbPhysical);
        let found = checkpoints(format, &head);
        let expected = Checkpoint {
            offset: 4096,
            number: None,
            lsn: InnodbLsn(0x0168_B630),
            position: None,
            end_lsn: Some(InnodbLsn(0x0168_F8EF)),
            is_valid: true,
        };
        assert_eq!(found, [expected]);
        assert_eq!(latest(&found), Some(expected));
        head[4096 + 7] ^= 1;
        assert_eq!(latest(&checkpoints(format, &head)), None);
    }

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

    /// The header of a file that MySQL 9.7.4 wrote.
    #[test]
    fn header_counts_with_its_checksum() {
        let mut head = vec![0; 512];
        head[..4].copy_from_slice(&6_u32.to_be_bytes());
        head[4..16].copy_from_slice(&[0x62, 0x5A, 0x1F, 0xF8, 0, 0, 0, 0, 0x02, 0x29, 0xC0, 0]);
        head[16..27].copy_from_slice(b"MySQL 9.7.4");
        head[48..52].copy_from_slice(&[0, 0, 0, 0x08]);
        head[508..].copy_from_slice(&[0x5C, 0xA5, 0xB0, 0x32]);
        assert!(RedoHeader::decode(&head).unwrap().has_right_checksum);
        head[300] ^= 1;
        assert!(!RedoHeader::decode(&head).unwrap().has_right_checksum);
        assert!(!RedoHeader::decode(&[0; 512]).unwrap().has_right_checksum);
        assert!(!RedoHeader::decode(&[0; 48]).unwrap().has_right_checksum);
    }

    /// A file that MySQL 9.7.4 has not written a checkpoint to: both blocks are zeros with their checksum.
    #[test]
    fn unused_checkpoint_blocks_have_a_checksum_too() {
        let mut head = vec![0; 2048];
        assert!(!has_both_checkpoints(&head));
        for at in [512, 1536] {
            head[at + 508..at + 512].copy_from_slice(&[0xEC, 0x57, 0xA9, 0xC3]);
        }
        assert!(has_both_checkpoints(&head));
        assert!(checkpoints(RedoFormat::Directory, &head).iter().all(|checkpoint| !checkpoint.is_valid));
        assert!(!has_both_checkpoints(&head[..2047]));
        head[1536] ^= 1;
        assert!(!has_both_checkpoints(&head));
    }

    #[test]
    fn short_files_have_no_checkpoint() {
        for length in 0..600 {
            let head = vec![1; length];
            assert_eq!(RedoHeader::decode(&head).is_some(), length >= 48);
            assert!(checkpoints(RedoFormat::Directory, &head).is_empty());
        }
    }
}
