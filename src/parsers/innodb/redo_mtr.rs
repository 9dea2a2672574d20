//! Mini-transactions in the redo log of MariaDB 10.8 and later.

use crate::parsers::crc::crc32c;
use crate::parsers::decode::be_u32_at;

/// Offset of the first mini-transaction in `ib_logfile0`.
pub const MTR_LOG_START: u64 = 12288;

/// Longest mini-transaction.
pub const MAX_MTR_BYTES: usize = 1 << 20;

/// Bytes after the records: one that ends them, and a checksum.
pub const MTR_TRAILER_BYTES: usize = 5;

/// What stands at a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mtr {
    /// A mini-transaction with a right checksum.
    Whole {
        /// Bytes of its records.
        record_bytes: usize,
        /// The bit that ends the records: it changes with each turn of the log over its file.
        sequence_bit: u8,
    },
    /// No record begins here: a server ends its log so.
    End,
    /// Records that do not end, or with a wrong checksum.
    Broken,
}

impl Mtr {
    /// Examines the bytes at a place, as many as there are, and at most those of the longest mini-transaction.
    ///
    /// Each record begins with a byte whose low half is the count of bytes that follow, or 0 where a number of 1 to 4 bytes
    /// gives that count less 15. A byte of 0 or 1 ends them; the checksum is the CRC-32C of all bytes before it.
    ///
    /// Source: `recv_sys_t::parse`, `storage/innobase/log/log0recv.cc` of MariaDB.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut at: usize = 0;
        while at <= MAX_MTR_BYTES {
            match step(bytes, at) {
                Some(Step::Record { next }) => at = next,
                Some(Step::Ends { sequence_bit }) => return Self::ended(bytes, at, sequence_bit),
                None => break,
            }
        }
        Self::Broken
    }

    /// The same for bytes of which it is known that the records end after `record_bytes`, with this bit.
    fn ended(bytes: &[u8], record_bytes: usize, sequence_bit: u8) -> Self {
        if record_bytes == 0 {
            return Self::End;
        }
        let records = bytes.get(..record_bytes).unwrap_or_default();
        let stored = be_u32_at(bytes, record_bytes.saturating_add(1));
        if stored == Some(crc32c(records)) { Self::Whole { record_bytes, sequence_bit } } else { Self::Broken }
    }
}

/// What a byte between two records says.
enum Step {
    /// A record begins, and another byte of this kind is after it.
    Record { next: usize },
    /// The records end.
    Ends { sequence_bit: u8 },
}

/// The byte at an offset; `None` where bytes end, or no record has it.
fn step(bytes: &[u8], at: usize) -> Option<Step> {
    let first = bytes.get(at).copied()?;
    if first <= 1 {
        return Some(Step::Ends { sequence_bit: first });
    }
    let after = at.checked_add(1)?;
    let length = match first & 0x0F {
        0 => extended(bytes.get(after..)?)?,
        length => usize::from(length),
    };
    Some(Step::Record { next: after.checked_add(length)? })
}

/// Bytes of a record after its first byte, where that does not tell: the number of variable length included.
fn extended(bytes: &[u8]) -> Option<usize> {
    let (number, _) = varint(bytes)?;
    usize::try_from(number).ok()?.checked_add(15)
}

/// A number of variable length, and how many bytes it has.
///
/// Source: `mlog_decode_varint`, `storage/innobase/include/mtr0log.h` of MariaDB.
fn varint(bytes: &[u8]) -> Option<(u32, usize)> {
    const MIN_2: u32 = 1 << 7;
    const MIN_3: u32 = MIN_2 + (1 << 14);
    const MIN_4: u32 = MIN_3 + (1 << 21);
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    let first = byte(0)?;
    Some(match first {
        0..0x80 => (first, 1),
        0x80..0xC0 => (MIN_2.saturating_add((first & 0x3F) << 8 | byte(1)?), 2),
        0xC0..0xE0 => (MIN_3.saturating_add((first & 0x1F) << 16 | byte(1)? << 8 | byte(2)?), 3),
        0xE0..0xF0 => (MIN_4.saturating_add((first & 0x0F) << 24 | byte(1)? << 16 | byte(2)? << 8 | byte(3)?), 4),
        0xF0 => (be_u32_at(bytes, 1)?, 5),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mtr(records: &[u8], bit: u8) -> Vec<u8> {
        let mut bytes = records.to_vec();
        bytes.push(bit);
        bytes.extend(crc32c(records).to_be_bytes());
        bytes
    }

    #[test]
    fn mini_transactions_end_at_a_bit_and_a_checksum() {
        let mut records = vec![0x35, 1, 2, 3, 4, 5, 0x42, 0, 1];
        records.push(0x30);
        records.push(0x03);
        records.extend([0; 17]);
        let whole = mtr(&records, 1);
        assert_eq!(Mtr::read(&whole), Mtr::Whole { record_bytes: records.len(), sequence_bit: 1 });
        let mut long = vec![0x30, 0x81, 0x10];
        long.extend(vec![9; 0x110 + 128 + 15 - 2]);
        assert_eq!(Mtr::read(&mtr(&long, 0)), Mtr::Whole { record_bytes: long.len(), sequence_bit: 0 });
        for length in 0..whole.len() {
            assert_eq!(Mtr::read(&whole[..length]), Mtr::Broken, "{length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(!matches!(Mtr::read(&changed), Mtr::Whole { .. }), "{at}");
        }
        assert_eq!(Mtr::read(&[0, 0x9C]), Mtr::End);
        assert_eq!(Mtr::read(&vec![0x3F; MAX_MTR_BYTES + 100]), Mtr::Broken);
    }
}
