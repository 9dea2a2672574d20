//! Small files that a server reads whole at its start and refuses when a bit of them is wrong: prepared transactions, replication
//! slots, and how far each replication origin came. All end or begin with a CRC-32C.

use super::crc::crc32c;
use super::decode::{u16_at, u32_at};

/// `TWOPHASE_MAGIC` is this number with another low byte in each series of majors, `src/backend/access/transam/twophase.c`.
const TWOPHASE_MAGIC: u32 = 0x57F9_4500;

/// `SLOT_MAGIC`, `src/backend/replication/slot.c`.
const SLOT_MAGIC: u32 = 0x0105_1CA1;

/// `REPLICATION_STATE_MAGIC`, `src/backend/replication/logical/origin.c`, and the bytes of one origin in the file.
const ORIGIN_MAGIC: u32 = 0x1257_DADE;
const ORIGIN_BYTES: usize = 16;

const LEAST_ORIGIN_BYTES: usize = 8;

/// Longest such file that is read, in bytes: the largest that a server reads is 1 GiB, one of 64 MiB has millions of locks.
pub(crate) const MAX_STATE_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateFault {
    /// It is shorter or longer than it says, or than any such file.
    #[error("{found} bytes, {expected} by what it holds")]
    Length {
        /// Bytes of the file.
        found: usize,
        /// Bytes that it must have.
        expected: usize,
    },
    /// It is something else.
    #[error("magic {found:#010x}")]
    Magic { found: u32 },
    #[error("CRC is {stored:#010x}, the bytes give {computed:#010x}")]
    Crc {
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
}

/// What is wrong with the state of a prepared transaction, a file of `pg_twophase`.
///
/// | bytes   | field       | meaning                          |
/// |---------|-------------|----------------------------------|
/// | 0..4    | `magic`     | by major                         |
/// | 4..8    | `total_len` | bytes of the file, CRC included  |
/// | last 4  | `crc`       | CRC-32C of all before            |
///
/// Source: `ReadTwoPhaseFile`, `src/backend/access/transam/twophase.c`.
pub(crate) fn check_twophase(bytes: &[u8]) -> Result<(), StateFault> {
    const LEAST: usize = 12;
    let (Some(magic), Some(length)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
        return Err(StateFault::Length { found: bytes.len(), expected: LEAST });
    };
    if magic & 0xFFFF_FF00 != TWOPHASE_MAGIC {
        return Err(StateFault::Magic { found: magic });
    }
    let expected = usize::try_from(length).unwrap_or(usize::MAX).max(LEAST);
    if bytes.len() != expected {
        return Err(StateFault::Length { found: bytes.len(), expected });
    }
    ends_with_crc(bytes)
}

/// A prepared transaction and its subtransactions, by its state or by the record that prepared it; none where that ends before.
///
/// Source: `TwoPhaseFileHeader`, `src/backend/access/transam/twophase.c`. Since 15 it has two more numbers.
pub(crate) fn prepared_xids(bytes: &[u8], major: u32) -> Vec<u32> {
    let (name_length_at, header) = if major >= 15 { (54, 72) } else { (46, 64) };
    let read = || {
        let own = u32_at(bytes, 8)?;
        let name = usize::from(u16_at(bytes, name_length_at)?).next_multiple_of(8);
        let subxids = bytes.get(name.saturating_add(header)..).unwrap_or_default().as_chunks::<4>().0;
        let count = usize::try_from(u32_at(bytes, 28)?).ok()?;
        Some(subxids.iter().take(count).map(|bytes| u32::from_le_bytes(*bytes)).chain([own]).collect())
    };
    read().unwrap_or_default()
}

/// What is wrong with the state of a replication slot, `pg_replslot/NAME/state`.
///
/// | bytes  | field      | meaning                              |
/// |--------|------------|--------------------------------------|
/// | 0..4   | `magic`    | `0x01051CA1`                         |
/// | 4..8   | `checksum` | CRC-32C of bytes 8 to the end        |
/// | 8..12  | `version`  | by major                             |
/// | 12..16 | `length`   | bytes after this                     |
///
/// Source: `ReplicationSlotOnDisk` and `RestoreSlotFromDisk`, `src/backend/replication/slot.c`.
pub(crate) fn check_slot(bytes: &[u8]) -> Result<(), StateFault> {
    const HEAD: usize = 16;
    let (Some(magic), Some(stored), Some(length)) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 12)) else {
        return Err(StateFault::Length { found: bytes.len(), expected: HEAD });
    };
    if magic != SLOT_MAGIC {
        return Err(StateFault::Magic { found: magic });
    }
    let expected = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(HEAD);
    let Some(covered) = bytes.get(8..expected) else {
        return Err(StateFault::Length { found: bytes.len(), expected });
    };
    agree(stored, covered)
}

/// What is wrong with `pg_logical/replorigin_checkpoint`: its magic, 16 bytes for each origin, the CRC of all before.
///
/// Source: `StartupReplicationOrigin`, `src/backend/replication/logical/origin.c`.
pub(crate) fn check_origins(bytes: &[u8]) -> Result<(), StateFault> {
    const LEAST: usize = LEAST_ORIGIN_BYTES;
    match u32_at(bytes, 0) {
        Some(ORIGIN_MAGIC) => {}
        Some(found) => return Err(StateFault::Magic { found }),
        None => return Err(StateFault::Length { found: bytes.len(), expected: LEAST }),
    }
    let whole = bytes.len().saturating_sub(LEAST).checked_next_multiple_of(ORIGIN_BYTES).unwrap_or_default();
    let expected = whole.saturating_add(LEAST);
    if bytes.len() != expected {
        return Err(StateFault::Length { found: bytes.len(), expected });
    }
    ends_with_crc(bytes)
}

fn ends_with_crc(bytes: &[u8]) -> Result<(), StateFault> {
    match bytes.split_last_chunk() {
        Some((covered, crc)) => agree(u32::from_le_bytes(*crc), covered),
        None => Err(StateFault::Length { found: bytes.len(), expected: 4 }),
    }
}

fn agree(stored: u32, covered: &[u8]) -> Result<(), StateFault> {
    let computed = crc32c(covered);
    if stored == computed { Ok(()) } else { Err(StateFault::Crc { stored, computed }) }
}
