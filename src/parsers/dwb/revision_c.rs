//! Revision C, the author's later tree: everything on 4 kB boundaries, no batch in the file header.

use nom::Parser;
use nom::error::context;

use super::patch::Patch;
use super::revision_b::{SLOT_FIELDS, SLOT_HEADER_BYTES, decode_slot_header, slot_crc};
use super::{FileHeader, SlotIdRule};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{ParseError, decode_at, le_u32};

/// Bytes of the file header; zeros follow up to [`ALIGNMENT`].
const FILE_HEADER_BYTES: usize = 20;

/// Bytes of the file header that its CRC covers.
const FILE_CRC_BYTES: usize = 16;

/// Offset of the first slot, and unit that a slot is rounded up to.
const ALIGNMENT: u64 = 4096;

/// Decodes the file header: 20 bytes at offset 0, little-endian.
///
/// | bytes  | field            | C type      | meaning                        |
/// |--------|------------------|-------------|--------------------------------|
/// | 0..4   | `magic`          | `uint32`    | `0x44574246`                   |
/// | 4..8   | `version`        | `uint32`    | 1                              |
/// | 8..12  | `blcksz`         | `uint32`    | bytes of a page                |
/// | 12..16 | `slots_per_file` | `uint32`    | slots the file was created for |
/// | 16..20 | `crc`            | `pg_crc32c` | CRC-32C of bytes 0..16         |
///
/// Source: `DWBufFileHeader` of the later tree, `src/include/storage/dwbuf.h`.
fn decode_file_header(buf: &[u8]) -> Result<FileHeader, ParseError> {
    decode_at("DWBufFileHeader", 0, buf, |i| {
        let (i, magic) = context("magic", le_u32).parse(i)?;
        let (i, version) = context("version", le_u32).parse(i)?;
        let (i, block_size) = context("blcksz", le_u32).parse(i)?;
        let (i, slots_per_file) = context("slots_per_file", le_u32).parse(i)?;
        let (i, crc) = context("crc", le_u32).parse(i)?;
        let computed_crc = crc32c(buf.get(..FILE_CRC_BYTES).unwrap_or_default());
        let (batch_id, checkpoint_lsn) = (None, None);
        let faults = Vec::new();
        let header = FileHeader {
            magic,
            version,
            block_size,
            slots_per_file,
            batch_id,
            checkpoint_lsn,
            crc,
            computed_crc,
            faults,
        };
        Ok((i, header))
    })
}

pub(super) static REVISION_C: Patch = Patch {
    name: "C",
    header_bytes: FILE_HEADER_BYTES,
    decode_header: decode_file_header,
    first_slot: ALIGNMENT,
    slot_header_bytes: SLOT_HEADER_BYTES,
    slot_alignment: ALIGNMENT,
    decode_slot_header,
    slot_fields: SLOT_FIELDS,
    slot_crc,
    slot_id_rule: SlotIdRule::Sequence,
    restarts_at_checkpoint: true,
    is_read_in_recovery: true,
};
