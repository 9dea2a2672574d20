//! Small files that a server reads whole at its start and refuses when a bit of them is wrong: prepared transactions, replication
//! slots, and how far each replication origin came. All end or begin with a CRC-32C.

use super::crc::crc32c;
use super::decode::{u32_at, u64_at};
use super::wal::version::Major;
use crate::types::Lsn;

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
    #[error("stored CRC {stored:#010x}, computed {computed:#010x}")]
    Crc {
        stored: u32,
        /// The computed CRC.
        computed: u32,
    },
}

/// Checks the state of a prepared transaction, a file of `pg_twophase`.
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

/// Checks the state of a replication slot, `pg_replslot/NAME/state`.
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

/// A replication slot and the WAL that it needs.
///
/// | bytes    | field           | meaning                                                              |
/// |----------|-----------------|----------------------------------------------------------------------|
/// | 0..16    | -               | see [`check_slot`]                                                   |
/// | 16..80   | `name`          | padded with zeros                                                    |
/// | 80..84   | `database`      | 0: a physical slot                                                   |
/// | 84..88   | `persistency`   | 0 persistent, 1 ephemeral, 2 temporary                               |
/// | 96..104  | `restart_lsn`   | the oldest WAL that its consumer may still need; 0: none             |
/// | 104..112 | `invalidated_at` | 13 to 15: not 0 where the slot was invalidated                      |
/// | 104..108 | `invalidated`   | 16 and later: why it was, 0 where it was not                         |
///
/// Source: `ReplicationSlotPersistentData`, `src/include/replication/slot.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotState {
    pub(crate) is_logical: bool,
    /// It does not outlive its session.
    pub(crate) is_temporary: bool,
    /// `None`: no WAL was reserved.
    pub(crate) restart_lsn: Option<Lsn>,
    pub(crate) is_invalidated: bool,
}

impl SlotState {
    /// # Errors
    /// What [`check_slot`] finds.
    pub(crate) fn decode(bytes: &[u8], major: Major) -> Result<Self, StateFault> {
        const LEAST: usize = 112;
        check_slot(bytes)?;
        let fields = (u32_at(bytes, 80), u32_at(bytes, 84), u64_at(bytes, 96), u32_at(bytes, 104), u64_at(bytes, 104));
        let (Some(database), Some(persistency), Some(restart_lsn), Some(cause), Some(invalidated_at)) = fields else {
            return Err(StateFault::Length { found: bytes.len(), expected: LEAST });
        };
        let is_invalidated = match major.number() {
            ..=12 => false,
            13..=15 => invalidated_at != 0,
            _ => cause != 0,
        };
        Ok(Self {
            is_logical: database != 0,
            is_temporary: persistency != 0,
            restart_lsn: Some(Lsn(restart_lsn)).filter(|lsn| *lsn != Lsn::INVALID),
            is_invalidated,
        })
    }
}

/// Checks `pg_logical/replorigin_checkpoint`: its magic, 16 bytes for each origin, the CRC of all before.
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
