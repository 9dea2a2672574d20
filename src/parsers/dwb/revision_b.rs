//! Revision B, the published series: 40-byte headers, slots packed one after the other.

use nom::Parser;
use nom::error::context;

use super::patch::{Patch, SlotField};
use super::{FileHeader, SlotHeader, SlotIdRule};
use crate::parsers::crc::{crc32c, crc32c_append};
use crate::parsers::decode::{ParseError, decode_at, le_i32, le_u16, le_u32, le_u64};
use crate::types::{Lsn, RelFileLocator};

/// Bytes of the file header, and offset of the first slot.
pub(super) const FILE_HEADER_BYTES: usize = 40;

pub(super) const SLOT_HEADER_BYTES: u64 = 40;

pub(super) const SLOT_FIELDS: &[SlotField] = &[
    ("crc", 0, 4),
    ("spcOid", 4, 8),
    ("dbOid", 8, 12),
    ("relNumber", 12, 16),
    ("forknum", 16, 20),
    ("blkno", 20, 24),
    ("lsn", 24, 32),
    ("slot_id", 32, 36),
    ("flags", 36, 38),
    ("checksum", 38, 40),
];

/// Bytes of the file header that its CRC covers.
const FILE_CRC_BYTES: usize = 32;

/// Decodes the file header of revisions A and B: 40 bytes at offset 0, little-endian.
///
/// | bytes  | field            | C type       | meaning                          |
/// |--------|------------------|--------------|----------------------------------|
/// | 0..4   | `magic`          | `uint32`     | `0x44574246`                     |
/// | 4..8   | `version`        | `uint32`     | 1                                |
/// | 8..12  | `blcksz`         | `uint32`     | bytes of a page                  |
/// | 12..16 | `slots_per_file` | `uint32`     | slots the file was created for   |
/// | 16..24 | `batch_id`       | `uint64`     | resets since server start        |
/// | 24..32 | `checkpoint_lsn` | `XLogRecPtr` | end of the checkpoint record     |
/// | 32..36 | `crc`            | `pg_crc32c`  | CRC-32C of bytes 0..32           |
/// | 36..40 | padding          |              | zero                             |
///
/// Source: `DWBufFileHeader`, `src/include/storage/dwbuf.h`.
pub(super) fn decode_file_header(buf: &[u8]) -> Result<FileHeader, ParseError> {
    decode_at("DWBufFileHeader", 0, buf, |i| {
        let (i, magic) = context("magic", le_u32).parse(i)?;
        let (i, version) = context("version", le_u32).parse(i)?;
        let (i, block_size) = context("blcksz", le_u32).parse(i)?;
        let (i, slots_per_file) = context("slots_per_file", le_u32).parse(i)?;
        let (i, batch_id) = context("batch_id", le_u64).parse(i)?;
        let (i, checkpoint_lsn) = context("checkpoint_lsn", le_u64).parse(i)?;
        let (i, crc) = context("crc", le_u32).parse(i)?;
        let (i, _) = context("padding", le_u32).parse(i)?;
        Ok((
            i,
            FileHeader {
                magic,
                version,
                block_size,
                slots_per_file,
                batch_id: Some(batch_id),
                checkpoint_lsn: Some(Lsn(checkpoint_lsn)),
                crc,
                computed_crc: crc32c(buf.get(..FILE_CRC_BYTES).unwrap_or_default()),
                faults: Vec::new(),
            },
        ))
    })
}

/// Decodes the slot header of revisions B and C: 40 bytes, little-endian.
///
/// | bytes  | field       | C type       | meaning                                              |
/// |--------|-------------|--------------|------------------------------------------------------|
/// | 0..4   | `crc`       | `pg_crc32c`  | CRC-32C of header bytes 4..40 and the page image     |
/// | 4..8   | `spcOid`    | `Oid`        | tablespace                                           |
/// | 8..12  | `dbOid`     | `Oid`        | database, 0 for shared relations                     |
/// | 12..16 | `relNumber` | `uint32`     | file number                                          |
/// | 16..20 | `forknum`   | `int32`      | 0 main, 1 fsm, 2 vm, 3 init                          |
/// | 20..24 | `blkno`     | `uint32`     | block within the fork                                |
/// | 24..32 | `lsn`       | `XLogRecPtr` | plain 64-bit number, unlike `pd_lsn`                 |
/// | 32..36 | `slot_id`   | `uint32`     | see `SlotIdRule`                                     |
/// | 36..38 | `flags`     | `uint16`     | 0x0001 valid                                         |
/// | 38..40 | `checksum`  | `uint16`     | always 0                                             |
///
/// Source: `DWBufPageSlot`, `src/include/storage/dwbuf.h`.
pub(super) fn decode_slot_header(base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError> {
    decode_at("DWBufPageSlot", base, buf, |i| {
        let (i, crc) = context("crc", le_u32).parse(i)?;
        let (i, spc_oid) = context("spcOid", le_u32).parse(i)?;
        let (i, db_oid) = context("dbOid", le_u32).parse(i)?;
        let (i, rel_number) = context("relNumber", le_u32).parse(i)?;
        let (i, fork_code) = context("forknum", le_i32).parse(i)?;
        let (i, block) = context("blkno", le_u32).parse(i)?;
        let (i, lsn) = context("lsn", le_u64).parse(i)?;
        let (i, slot_id) = context("slot_id", le_u32).parse(i)?;
        let (i, flags) = context("flags", le_u16).parse(i)?;
        let (i, checksum) = context("checksum", le_u16).parse(i)?;
        let rel = RelFileLocator { spc_oid, db_oid, rel_number };
        Ok((i, SlotHeader { crc, rel, fork_code, block, lsn: Lsn(lsn), slot_id, generation: None, flags, checksum }))
    })
}

/// CRC of a slot of revisions B and C: header bytes 4..40, then the image.
pub(super) fn slot_crc(header: &[u8], image: &[u8]) -> Option<u32> {
    header.get(4..40).map(|covered| crc32c_append(crc32c(covered), image))
}

pub(super) static REVISION_B: Patch = Patch {
    name: "B",
    header_bytes: FILE_HEADER_BYTES,
    decode_header: decode_file_header,
    first_slot: 40,
    slot_header_bytes: SLOT_HEADER_BYTES,
    slot_alignment: 8,
    decode_slot_header,
    slot_fields: SLOT_FIELDS,
    slot_crc,
    slot_id_rule: SlotIdRule::Position,
    restarts_at_checkpoint: true,
    is_read_in_recovery: true,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::dwb::{CrcVerdict, DwbLayout, Slot};

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// The fact sheet's vector, written by the server's own module.
    #[test]
    fn file_header_of_the_server() {
        let hex = "4642574401000000002000007f0000000100000000000000005000000000000020a2033900000000";
        let header = REVISION_B.decode_header(&bytes(hex)).unwrap();
        assert_eq!(header.faults, []);
        assert_eq!((header.block_size, header.slots_per_file), (8192, 127));
        assert_eq!((header.batch_id, header.checkpoint_lsn), (Some(1), Some(Lsn(0x5000))));
    }

    /// The fact sheet's vector, written by the server's own module.
    #[test]
    fn slot_of_the_server() {
        let hex = "922cf17e7f0600000500000064000000000000000700000000100000000000000000000001000000";
        let image = [0xAA; 8192];
        let ranges = REVISION_B.slot_ranges(8192, 0);
        let header = bytes(hex);
        let slot = Slot::decode(&REVISION_B, 0, &ranges, &header, &image).unwrap();
        assert_eq!(slot.crc_verdict(), CrcVerdict::Good);
        assert_eq!(slot.header.rel, RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 100 });
        assert_eq!((slot.header.fork_code, slot.header.block, slot.header.lsn), (0, 7, Lsn(0x1000)));
        assert_eq!((slot.header.slot_id, slot.header.flags), (0, 1));
        assert_eq!(slot.header.faults(), []);
        let mut torn = image;
        torn[8191] ^= 1;
        let slot = Slot::decode(&REVISION_B, 0, &ranges, &header, &torn).unwrap();
        assert_eq!(slot.crc_verdict(), CrcVerdict::Bad);
    }

    #[test]
    fn every_truncation_names_an_offset_inside_the_input() {
        for length in 0..40 {
            let error = decode_slot_header(0x2050, &[0; 40][..length]).unwrap_err();
            assert!((0x2050..=0x2050 + length as u64).contains(&error.offset), "{error}");
            assert!(decode_file_header(&[0; 40][..length]).is_err());
        }
    }
}
