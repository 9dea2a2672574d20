//! Writes a buffer with a control file (`pg_dwb`), with offsets written out here and not taken from the code under test.

use std::fs;
use std::path::Path;

use pgforensics::parsers::checksum::page_checksum;

/// CRC-32C, bit by bit.
pub fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    !crc
}

/// A control file of 40 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub min_version: u32,
    pub batches: u32,
    pub pages: u32,
    pub flags: u32,
    pub generation: u64,
}

impl Control {
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [0x4457_4243, 1, self.min_version, self.batches, self.pages, self.flags] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.generation.to_le_bytes());
        let sum = crc(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

/// A slot of a batch.
#[derive(Clone, Debug)]
pub struct Slot {
    pub rel: [u32; 3],
    pub fork: i32,
    pub block: u32,
    pub lsn: u64,
    pub generation: u64,
    pub flags: u16,
    pub image: Vec<u8>,
    /// What the header's CRC, and the image's, are off by.
    pub meta_off: u32,
    pub image_off: u32,
}

impl Slot {
    /// A slot of table 100 in database 5.
    pub fn new(block: u32, lsn: u64, generation: u64, image: Vec<u8>) -> Self {
        let rel = [1663, 5, 100];
        Self { rel, fork: 0, block, lsn, generation, flags: 0, image, meta_off: 0, image_off: 0 }
    }

    /// The slot header of 56 bytes.
    pub fn meta(&self) -> Vec<u8> {
        let mut meta = Vec::new();
        for number in self.rel {
            meta.extend(number.to_le_bytes());
        }
        meta.extend(self.fork.to_le_bytes());
        meta.extend(self.block.to_le_bytes());
        meta.extend([0; 4]);
        meta.extend(self.lsn.to_le_bytes());
        meta.extend(self.generation.to_le_bytes());
        meta.extend(self.flags.to_le_bytes());
        meta.extend([0; 2]);
        meta.extend((crc(&self.image) ^ self.image_off).to_le_bytes());
        let sum = crc(&meta) ^ self.meta_off;
        meta.extend(sum.to_le_bytes());
        meta.extend([0; 4]);
        meta
    }
}

/// A batch header of 24 bytes.
pub fn batch_header(batch_id: u64, slots: u32) -> Vec<u8> {
    let mut header = Vec::new();
    for number in [0x4457_4242_u32, 1] {
        header.extend(number.to_le_bytes());
    }
    header.extend(batch_id.to_le_bytes());
    header.extend(slots.to_le_bytes());
    let sum = crc(&header);
    header.extend(sum.to_le_bytes());
    header
}

/// Where images begin in a file of so many slots.
pub fn images_at(pages: u32) -> usize {
    (24 + 56 * pages as usize).div_ceil(4096) * 4096
}

/// A batch file of `pages` slots; no header when `batch_id` is `None`.
pub fn batch(pages: u32, batch_id: Option<u64>, counted: u32, slots: &[Slot]) -> Vec<u8> {
    let mut file = vec![0; images_at(pages) + 8192 * pages as usize];
    if let Some(batch_id) = batch_id {
        file[..24].copy_from_slice(&batch_header(batch_id, counted));
    }
    for (index, slot) in slots.iter().enumerate() {
        put_slot(&mut file, pages, index, slot);
    }
    file
}

/// Puts a slot's header and image into a batch file.
pub fn put_slot(file: &mut [u8], pages: u32, index: usize, slot: &Slot) {
    file[24 + 56 * index..][..56].copy_from_slice(&slot.meta());
    file[images_at(pages) + 8192 * index..][..8192].copy_from_slice(&slot.image);
}

/// A page whose header makes sense, filled with `fill`, with its checksum.
pub fn page(block: u32, lsn: u64, fill: u8) -> Vec<u8> {
    let mut page = vec![0; 8192];
    page[..4].copy_from_slice(&((lsn >> 32) as u32).to_le_bytes());
    page[4..8].copy_from_slice(&(lsn as u32).to_le_bytes());
    page[12..20].copy_from_slice(&[24, 0, 0, 16, 0, 32, 4, 32]);
    page[4096..].fill(fill);
    sign(&mut page, block);
    page
}

/// Gives a page its checksum.
pub fn sign(page: &mut [u8], block: u32) {
    page[8..10].fill(0);
    let sum = page_checksum(page, block);
    page[8..10].copy_from_slice(&sum.to_le_bytes());
}

/// Writes `pg_dwb` into a data directory.
pub fn write_ring(data: &Path, control: Option<&[u8]>, files: &[Vec<u8>]) {
    let directory = data.join("pg_dwb");
    fs::create_dir_all(&directory).expect("make directory");
    if let Some(control) = control {
        fs::write(directory.join("control"), control).expect("write");
    }
    for (number, file) in files.iter().enumerate() {
        fs::write(directory.join(format!("batch_{number:04}")), file).expect("write");
    }
}
