//! Revision A, the first commits: 48-byte slot headers whose CRC nobody can verify.

use nom::Parser;
use nom::error::context;

use super::patch::{Patch, SlotField};
use super::revision_b::{FILE_HEADER_BYTES, decode_file_header};
use super::{SlotHeader, SlotIdRule};
use crate::parsers::decode::{ParseError, decode_at, le_i32, le_u16, le_u32, le_u64};
use crate::types::{Lsn, RelFileLocator};

const SLOT_FIELDS: &[SlotField] = &[
    ("spcOid", 0, 4),
    ("dbOid", 4, 8),
    ("relNumber", 8, 12),
    ("forknum", 12, 16),
    ("blkno", 16, 20),
    ("lsn", 24, 32),
    ("crc", 32, 36),
    ("slot_id", 36, 40),
    ("flags", 40, 42),
    ("checksum", 42, 44),
];

/// Decodes a slot header: 48 bytes, little-endian.
///
/// | bytes  | field       | C type       | meaning                                   |
/// |--------|-------------|--------------|-------------------------------------------|
/// | 0..4   | `spcOid`    | `Oid`        | tablespace                                |
/// | 4..8   | `dbOid`     | `Oid`        | database, 0 for shared relations          |
/// | 8..12  | `relNumber` | `uint32`     | file number                               |
/// | 12..16 | `forknum`   | `int32`      | 0 main, 1 fsm, 2 vm, 3 init               |
/// | 16..20 | `blkno`     | `uint32`     | block within the fork                     |
/// | 20..24 | padding     |              |                                           |
/// | 24..32 | `lsn`       | `XLogRecPtr` | LSN read from the buffer                  |
/// | 32..36 | `crc`       | `pg_crc32c`  | covers itself, with content of the moment |
/// | 36..40 | `slot_id`   | `uint32`     | number of the write                       |
/// | 40..42 | `flags`     | `uint16`     | 0x0001 valid                              |
/// | 42..44 | `checksum`  | `uint16`     | always 0                                  |
/// | 44..48 | padding     |              |                                           |
///
/// Source: `DWBufPageSlot` of the first two commits, `src/include/storage/dwbuf.h`.
fn decode_slot_header(base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError> {
    decode_at("DWBufPageSlot", base, buf, |i| {
        let (i, spc_oid) = context("spcOid", le_u32).parse(i)?;
        let (i, db_oid) = context("dbOid", le_u32).parse(i)?;
        let (i, rel_number) = context("relNumber", le_u32).parse(i)?;
        let (i, fork_code) = context("forknum", le_i32).parse(i)?;
        let (i, block) = context("blkno", le_u32).parse(i)?;
        let (i, _) = context("padding", le_u32).parse(i)?;
        let (i, lsn) = context("lsn", le_u64).parse(i)?;
        let (i, crc) = context("crc", le_u32).parse(i)?;
        let (i, slot_id) = context("slot_id", le_u32).parse(i)?;
        let (i, flags) = context("flags", le_u16).parse(i)?;
        let (i, checksum) = context("checksum", le_u16).parse(i)?;
        let (i, _) = context("padding", le_u32).parse(i)?;
        let rel = RelFileLocator { spc_oid, db_oid, rel_number };
        Ok((i, SlotHeader { crc, rel, fork_code, block, lsn: Lsn(lsn), slot_id, generation: None, flags, checksum }))
    })
}

/// Revision A. Its slot CRC covers its own field with whatever the writer's buffer held there before, so that nobody can
/// compute it again. Every image was copied by the normal way of writing a page, so with data checksums it carries its own,
/// which replaces the CRC for the image and its block number. A start never looks into the buffer.
pub(super) static REVISION_A: Patch = Patch {
    name: "A",
    header_bytes: FILE_HEADER_BYTES,
    decode_header: decode_file_header,
    first_slot: 40,
    slot_header_bytes: 48,
    slot_alignment: 8,
    decode_slot_header,
    slot_fields: SLOT_FIELDS,
    slot_crc: |_, _| None,
    slot_id_rule: SlotIdRule::Sequence,
    restarts_at_checkpoint: false,
    is_read_in_recovery: false,
};
