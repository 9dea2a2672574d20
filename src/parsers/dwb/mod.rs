//! Double write buffer (DWB) files: several kinds of buffers, and several on-disk layouts of one kind, with one model above them.
//!
//! A kind is a [`DwbDirectory`]: the directory, the names in it, which layout a file has. A layout is a [`DwbLayout`].
//! The three layouts of the PostgreSQL patch share directory, magic and version number, so those never decide: see
//! [`detect`].

pub mod detect;
mod directory;
mod model;
pub mod patch;
mod revision_a;
mod revision_b;
mod revision_c;
pub mod ring;
pub mod ring_control;

pub use directory::{DwbDirectory, FileRole, Knowledge};
pub use model::{
    CrcPair, CrcVerdict, FLAG_VALID, FileHeader, HeaderFault, Ring, Slot, SlotFault, SlotHeader, SlotIdRule, SlotRanges,
};

use super::decode::ParseError;
use super::page::is_all_zero;

/// Most slots that are read from one file. The largest setting (1 GiB, 1 kB pages) gives 63,072; a longer file was not
/// made by a server.
pub const MAX_SLOTS_PER_FILE: u64 = 65_536;

/// The layouts of the patch, the most likely first.
pub(crate) static LAYOUTS: [&dyn DwbLayout; 3] =
    [&revision_b::REVISION_B, &revision_a::REVISION_A, &revision_c::REVISION_C];

/// One on-disk layout. Implementations decode bytes and state facts; they do not judge.
pub trait DwbLayout: Sync + std::fmt::Debug {
    /// Short name for reports and for the `layout` field of JSON output.
    fn name(&self) -> &'static str;

    /// Bytes from the start of the file that [`Self::decode_header`] needs.
    fn header_bytes(&self) -> usize;

    /// Decodes the file header and lists the rules that it breaks; `buf` starts at offset 0 of the file.
    fn decode_header(&self, buf: &[u8]) -> Result<FileHeader, ParseError>;

    /// Where slot `index` of a file with pages of `block_size` bytes keeps its header and its image.
    fn slot_ranges(&self, block_size: u32, index: u64) -> SlotRanges;

    /// Decodes a slot header without judging. `base` is its offset in the file.
    fn decode_slot_header(&self, base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError>;

    /// The fields of a slot header in disk order: the server's name, first byte, byte after the last.
    fn slot_fields(&self) -> &'static [(&'static str, usize, usize)];

    /// The CRC that a slot with this header and image should carry; `None` when the layout's CRC cannot be recomputed.
    fn slot_crc(&self, header: &[u8], image: &[u8]) -> Option<u32>;

    /// The CRC of the image alone, stored and computed, where the layout has one.
    fn image_crc(&self, _header: &[u8], _image: &[u8]) -> Option<CrcPair> {
        None
    }

    /// True when the slot was never written since the file was made.
    fn is_empty(&self, header: &[u8], image: &[u8]) -> bool {
        is_all_zero(header) && is_all_zero(image)
    }

    /// True when the writer discarded the slot before it copied its image: the bytes belong to another page.
    fn is_aborted(&self, _header: &SlotHeader) -> bool {
        false
    }

    /// Every rule of the layout that a slot header breaks on its own, in field order; empty when sound.
    fn slot_faults(&self, header: &SlotHeader) -> Vec<SlotFault> {
        header.faults()
    }

    /// True when every image is copied under a lock and given its checksum; false when a checkpoint copies without.
    fn copies_under_lock(&self) -> bool {
        false
    }

    /// Meaning of the stored `slot_id`.
    fn slot_id_rule(&self) -> SlotIdRule;

    /// True when the server starts again at slot 0 after each checkpoint.
    fn restarts_at_checkpoint(&self) -> bool;

    /// True when a server that recovers looks for images here.
    fn is_read_in_recovery(&self) -> bool;

    /// Files and slots that a server with this setting uses (`double_write_buffer_size`, in MB); `None` where the setting
    /// does not exist.
    fn ring(&self, _setting_mb: u32, _block_size: u32) -> Option<Ring> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fact sheet's geometry tables, taken from the server's own module.
    #[test]
    fn ring_of_each_setting() {
        let ring = |layout: usize, mb, block_size| {
            let ring = LAYOUTS[layout].ring(mb, block_size).unwrap();
            (ring.files, ring.slots_per_file)
        };
        for (mb, expected) in [
            (1, (1, 127)),
            (16, (1, 2038)),
            (32, (1, 4076)),
            (64, (2, 4076)),
            (128, (4, 4076)),
            (256, (8, 4076)),
            (512, (16, 4076)),
            (1024, (16, 8152)),
        ] {
            assert_eq!(ring(0, mb, 8192), expected, "revision B, {mb} MB");
        }
        assert_eq!(ring(0, 1, 32_768), (1, 64));
        for (mb, expected) in [(1, (1, 127)), (16, (1, 2036)), (64, (2, 4072)), (1024, (16, 8144))] {
            assert_eq!(ring(1, mb, 8192), expected, "revision A, {mb} MB");
        }
        for (mb, expected) in [(16, (1, 1365)), (64, (2, 2730)), (128, (3, 3640))] {
            assert_eq!(ring(2, mb, 8192), expected, "revision C, {mb} MB");
        }
    }

    #[test]
    fn largest_ring_fits_under_the_stated_maximum() {
        for layout in LAYOUTS {
            assert!(layout.ring(1024, 1024).unwrap().slots_per_file <= MAX_SLOTS_PER_FILE);
        }
    }
}
