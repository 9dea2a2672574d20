//! The buffer of the PostgreSQL patch (`pg_dwbuf`): what its revisions share: directory, names, file rules, geometry. A
//! revision is one `Patch`.

use super::detect::{Detection, ReadAt, detect};
use super::{
    DwbDirectory, DwbLayout, FileHeader, FileRole, HeaderFault, Knowledge, Ring, SlotHeader, SlotIdRule, SlotRanges,
};
use crate::parsers::decode::ParseError;
use crate::types::is_block_size;

/// Magic number of all revisions, "DWBF" read as a number.
///
/// Source: `DWBUF_MAGIC`, `src/include/storage/dwbuf.h`.
const MAGIC: u32 = 0x4457_4246;

/// Format version of all revisions.
///
/// Source: `DWBUF_VERSION`, `src/include/storage/dwbuf.h`.
const VERSION: u32 = 1;

const DIRECTORY: &str = "pg_dwbuf";

/// A field of a slot header: the server's name, first byte, byte after the last.
pub(super) type SlotField = (&'static str, usize, usize);

/// One revision: what it does differently.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) name: &'static str,
    /// Bytes of the file header.
    pub(super) header_bytes: usize,
    pub(super) decode_header: fn(&[u8]) -> Result<FileHeader, ParseError>,
    /// Offset of the first slot.
    pub(super) first_slot: u64,
    pub(super) slot_header_bytes: u64,
    /// A slot is rounded up to a multiple of this.
    pub(super) slot_alignment: u64,
    pub(super) decode_slot_header: fn(u64, &[u8]) -> Result<SlotHeader, ParseError>,
    pub(super) slot_fields: &'static [SlotField],
    pub(super) slot_crc: fn(&[u8], &[u8]) -> Option<u32>,
    pub(super) slot_id_rule: SlotIdRule,
    pub(super) restarts_at_checkpoint: bool,
    pub(super) is_read_in_recovery: bool,
}

impl Patch {
    fn slot_bytes(&self, block_size: u32) -> u64 {
        u64::from(block_size).saturating_add(self.slot_header_bytes).next_multiple_of(self.slot_alignment)
    }
}

impl DwbLayout for Patch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    fn decode_header(&self, buf: &[u8]) -> Result<FileHeader, ParseError> {
        (self.decode_header)(buf).map(judged)
    }

    fn slot_ranges(&self, block_size: u32, index: u64) -> SlotRanges {
        let start = self.first_slot.saturating_add(index.saturating_mul(self.slot_bytes(block_size)));
        let image = start.saturating_add(self.slot_header_bytes);
        SlotRanges { header: start..image, image: image..image.saturating_add(u64::from(block_size)) }
    }

    fn decode_slot_header(&self, base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError> {
        (self.decode_slot_header)(base, buf)
    }

    fn slot_fields(&self) -> &'static [SlotField] {
        self.slot_fields
    }

    fn slot_crc(&self, header: &[u8], image: &[u8]) -> Option<u32> {
        (self.slot_crc)(header, image)
    }

    fn slot_id_rule(&self) -> SlotIdRule {
        self.slot_id_rule
    }

    fn restarts_at_checkpoint(&self) -> bool {
        self.restarts_at_checkpoint
    }

    fn is_read_in_recovery(&self) -> bool {
        self.is_read_in_recovery
    }

    /// As many slots as fit in the setting, at least 64, spread over at most 16 files of about 4096 slots.
    ///
    /// Source: `DWBufShmemInit`, `src/backend/storage/buffer/dwbuf.c`.
    fn ring(&self, setting_mb: u32, block_size: u32) -> Option<Ring> {
        let bytes = u64::from(setting_mb).saturating_mul(1_048_576);
        let slots = bytes.checked_div(self.slot_bytes(block_size)).unwrap_or_default().max(64);
        let files = slots.div_ceil(4096).clamp(1, 16);
        Some(Ring { files, slots_per_file: slots.checked_div(files).unwrap_or_default() })
    }
}

/// The buffer of the patch.
#[derive(Debug)]
pub struct PatchDirectory;

impl DwbDirectory for PatchDirectory {
    fn name(&self) -> &'static str {
        DIRECTORY
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge::SeenLive
    }

    fn directory(&self) -> &'static str {
        DIRECTORY
    }

    fn may_be_linked(&self) -> bool {
        false
    }

    fn role_of(&self, name: &str) -> Option<FileRole> {
        file_number(name).map(FileRole::Slots)
    }

    fn control_bytes(&self) -> usize {
        0
    }

    fn detect(
        &self,
        file_size: u64,
        block_size_hint: Option<u32>,
        _control: Option<&[u8]>,
        read_at: ReadAt<'_>,
    ) -> Detection {
        detect(file_size, block_size_hint, read_at)
    }
}

/// Prefix of all file names.
const FILE_PREFIX: &str = "dwbuf_";

/// The name of a file as it is shown where space is short: without what all names begin with.
pub(crate) fn short_name(name: &str) -> &str {
    name.strip_prefix(FILE_PREFIX).unwrap_or(name)
}

/// Number in a name `dwbuf_NNN`, three decimal digits, 0 to 15.
///
/// Source: `DWBufFilePath`, `src/backend/storage/buffer/dwbuf.c`.
fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(FILE_PREFIX)?;
    let decimal = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| decimal && *number < 16)
}

/// The header with the rules that all revisions share applied to it.
fn judged(mut header: FileHeader) -> FileHeader {
    if header.magic != MAGIC {
        header.faults.push(HeaderFault::Magic { found: header.magic, expected: MAGIC });
    }
    if header.version != VERSION {
        header.faults.push(HeaderFault::Version { found: header.version, expected: VERSION });
    }
    if !is_block_size(header.block_size) {
        header.faults.push(HeaderFault::BlockSize { found: header.block_size });
    }
    if !header.crc_is_good() {
        header.faults.push(HeaderFault::Crc { found: header.crc, expected: header.computed_crc });
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_digits_below_sixteen_name_a_file() {
        assert_eq!(file_number("dwbuf_000"), Some(0));
        assert_eq!(file_number("dwbuf_015"), Some(15));
        for name in ["dwbuf_016", "dwbuf_1", "dwbuf_0000", "dwbuf_00a", "dwbuf_+01", "dwbuf_000.bak", "000"] {
            assert_eq!(file_number(name), None, "{name}");
        }
    }
}
