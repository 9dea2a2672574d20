//! Revision C, the author's later tree: everything on 4 kB boundaries, no batch in the file header.

use nom::Parser;
use nom::error::context;

use super::revision_b::{SLOT_FIELDS, SLOT_HEADER_BYTES, decode_slot_header, place, slot_crc};
use super::{DIRECTORY, DwbLayout, FileHeader, Ring, SlotHeader, SlotIdRule, SlotPlace, file_number, judged, ring_of};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{decode_at, le_u32};
use crate::parsers::error::ParseError;

/// Bytes of the file header; zeros follow up to [`ALIGNMENT`].
const FILE_HEADER_BYTES: usize = 20;

/// Bytes of the file header that its CRC covers.
const FILE_CRC_BYTES: usize = 16;

/// Offset of the first slot, and unit that a slot is rounded up to.
const ALIGNMENT: u64 = 4096;

/// Revision C.
#[derive(Debug)]
pub(super) struct RevisionC;

impl RevisionC {
    fn stride(block_size: u32) -> u64 {
        u64::from(block_size).saturating_add(SLOT_HEADER_BYTES).next_multiple_of(ALIGNMENT)
    }
}

impl DwbLayout for RevisionC {
    fn name(&self) -> &'static str {
        "C"
    }

    fn directory(&self) -> &'static str {
        DIRECTORY
    }

    fn file_number(&self, name: &str) -> Option<u32> {
        file_number(name)
    }

    fn header_bytes(&self) -> usize {
        FILE_HEADER_BYTES
    }

    /// 20 bytes at offset 0, little-endian.
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
    fn decode_header(&self, buf: &[u8]) -> Result<FileHeader, ParseError> {
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
            Ok((i, judged(header)))
        })
    }

    fn slot_place(&self, block_size: u32, index: u64) -> SlotPlace {
        place(ALIGNMENT, Self::stride(block_size), SLOT_HEADER_BYTES, block_size, index)
    }

    fn decode_slot_header(&self, base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError> {
        decode_slot_header(base, buf)
    }

    fn slot_fields(&self) -> &'static [(&'static str, usize, usize)] {
        SLOT_FIELDS
    }

    fn slot_crc(&self, header: &[u8], image: &[u8]) -> Option<u32> {
        slot_crc(header, image)
    }

    fn slot_id_rule(&self) -> SlotIdRule {
        SlotIdRule::Sequence
    }

    fn restarts_at_checkpoint(&self) -> bool {
        true
    }

    fn ring(&self, setting_mb: u32, block_size: u32) -> Ring {
        ring_of(setting_mb, Self::stride(block_size))
    }
}
