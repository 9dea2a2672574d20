//! Writes the double write buffer's format, layout B, with offsets written out here and not taken from the code under test.
#![allow(dead_code, reason = "each program uses a part")]

/// Bytes of the header of a file, and of a slot.
pub const HEADER_BYTES: u64 = 40;

/// The header of a file with pages of 8 KiB.
pub fn file_header(slots_per_file: u32, batch_id: u64, checkpoint_lsn: u64) -> Vec<u8> {
    let mut header = Vec::new();
    for number in [0x4457_4246_u32, 1, 8192, slots_per_file] {
        header.extend(number.to_le_bytes());
    }
    header.extend(batch_id.to_le_bytes());
    header.extend(checkpoint_lsn.to_le_bytes());
    header.extend(::crc32c::crc32c(&header).to_le_bytes());
    header.extend([0; 4]);
    header
}

/// A slot: `locator` is tablespace, database and relation, 4 bytes each.
pub fn slot(slot_id: u32, locator: [u8; 12], fork: u8, block: u32, slot_lsn: u64, image: &[u8]) -> Vec<u8> {
    let mut slot = vec![0; 4];
    slot.extend(locator);
    slot.extend(u32::from(fork).to_le_bytes());
    slot.extend(block.to_le_bytes());
    slot.extend(slot_lsn.to_le_bytes());
    slot.extend(slot_id.to_le_bytes());
    slot.extend([1, 0, 0, 0]);
    slot.extend(image);
    let crc = ::crc32c::crc32c(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
    slot
}
