//! Decoded form of every DWB layout.

use std::ops::Range;

use super::DwbLayout;
use crate::parsers::decode::ParseError;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Slot flag: the slot has been written. Never taken back.
///
/// Source: `DWBUF_SLOT_VALID`, `src/include/storage/dwbuf.h`.
pub const FLAG_VALID: u16 = 0x0001;

/// Slot flag that is defined but never set by any known server.
///
/// Source: `DWBUF_SLOT_FLUSHED`, `src/include/storage/dwbuf.h`.
const FLAG_FLUSHED: u16 = 0x0002;

/// Header of one DWB file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Magic number.
    pub magic: u32,
    /// Format version.
    pub version: u32,
    /// Bytes of a page image.
    pub block_size: u32,
    /// Slots that the file was created for.
    pub slots_per_file: u32,
    /// Resets since the server started, where the layout has it.
    pub batch_id: Option<u64>,
    /// Written by the last reset: end of the checkpoint record, or the redo point of a restartpoint.
    pub checkpoint_lsn: Option<Lsn>,
    /// Stored CRC.
    pub crc: u32,
    /// CRC-32C of the bytes before the stored one.
    pub computed_crc: u32,
    /// Every rule of the layout that the header breaks, in field order; empty when sound.
    pub faults: Vec<HeaderFault>,
}

impl FileHeader {
    /// True when the stored CRC is that of the bytes.
    pub const fn crc_is_good(&self) -> bool {
        self.crc == self.computed_crc
    }
}

/// A broken rule of a file header, with what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// Another magic number.
    #[error("magic is {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// The number on disk.
        found: u32,
        /// The layout's.
        expected: u32,
    },
    /// Another format version.
    #[error("version is {found}, expected {expected}")]
    Version {
        /// The number on disk.
        found: u32,
        /// The layout's.
        expected: u32,
    },
    /// A page size that no server has.
    #[error("blcksz is {found}, which is not a page size of any server")]
    BlockSize {
        /// The number on disk.
        found: u32,
    },
    /// More slots than the file has, or none.
    #[error("the header counts {found} slots, expected 1 to {most}")]
    SlotCount {
        /// The number on disk.
        found: u32,
        /// Slots of the file.
        most: u32,
    },
    /// The CRC is not that of the bytes.
    #[error("header CRC: stored {found:#010x}, computed {expected:#010x}")]
    Crc {
        /// The CRC on disk.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
}

/// Where one slot's parts are in the file, as byte ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRanges {
    /// The slot header.
    pub header: Range<u64>,
    /// The page image.
    pub image: Range<u64>,
}

/// Meaning of the stored `slot_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotIdRule {
    /// Position in the ring when it was written: file * slots per file + slot.
    Position,
    /// Number of the write since the counter was last 0; the position is this modulo the ring.
    Sequence,
    /// The layout stores none.
    NotStored,
}

/// Files and slots in use under one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of files.
    pub files: u64,
    /// Slots in each of them.
    pub slots_per_file: u64,
}

/// A stored and a computed CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcPair {
    /// The one on disk.
    pub stored: u32,
    /// The one of the bytes.
    pub computed: u32,
}

impl CrcPair {
    /// True when both are the same.
    pub const fn is_good(self) -> bool {
        self.stored == self.computed
    }
}

/// Header of a slot. Field order differs between layouts, the fields do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// Stored CRC.
    pub crc: u32,
    /// Relation that the image belongs to.
    pub rel: RelFileLocator,
    /// Fork as stored; see [`Self::fork`].
    pub fork_code: i32,
    /// Block within the fork.
    pub block: BlockNumber,
    /// LSN that the writer read from the buffer.
    pub lsn: Lsn,
    /// See [`SlotIdRule`].
    pub slot_id: u32,
    /// Number of the server run that wrote the slot, where the layout has it.
    pub generation: Option<u64>,
    /// Flag bits, unknown ones included.
    pub flags: u16,
    /// Always written as 0.
    pub checksum: u16,
}

impl SlotHeader {
    /// The fork, or `None` for a code without a meaning.
    pub fn fork(&self) -> Option<ForkNumber> {
        ForkNumber::from_code(self.fork_code)
    }

    /// The page that the image belongs to, or `None` for a fork code without a meaning.
    pub fn page_id(&self) -> Option<PageId> {
        Some(PageId { rel: self.rel, fork: self.fork()?, block: self.block })
    }

    /// Every rule of all layouts that the page's identity breaks, in field order.
    pub(crate) fn identity_faults(&self) -> Vec<SlotFault> {
        let mut faults = Vec::new();
        if self.rel.spc_oid == 0 || self.rel.rel_number == 0 {
            faults.push(SlotFault::NoRelation);
        }
        if self.fork().is_none() {
            faults.push(SlotFault::Fork { found: self.fork_code });
        }
        if self.block == u32::MAX {
            faults.push(SlotFault::Block);
        }
        faults
    }

    /// Every rule of the patch's layouts that this header breaks on its own, in field order; empty when sound.
    pub fn faults(&self) -> Vec<SlotFault> {
        let mut faults = self.identity_faults();
        if self.flags & FLAG_VALID == 0 {
            faults.push(SlotFault::NotValid);
        }
        if self.flags & !(FLAG_VALID | FLAG_FLUSHED) != 0 {
            faults.push(SlotFault::Flags { found: self.flags & !(FLAG_VALID | FLAG_FLUSHED) });
        }
        if self.checksum != 0 {
            faults.push(SlotFault::Checksum { found: self.checksum });
        }
        faults
    }
}

/// A broken rule of a slot header, with what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotFault {
    /// Tablespace or relation number is 0.
    #[error("tablespace or relation number is 0")]
    NoRelation,
    /// A fork code without a meaning.
    #[error("forknum is {found}, expected 0 to 3")]
    Fork {
        /// The code on disk.
        found: i32,
    },
    /// The block number that stands for "none".
    #[error("blkno is the invalid block number")]
    Block,
    /// The slot was written but is not marked as written.
    #[error("the valid flag is not set")]
    NotValid,
    /// Flag bits without a meaning.
    #[error("flags has unknown bits {found:#06x}")]
    Flags {
        /// The unknown bits.
        found: u16,
    },
    /// The unused checksum field is not 0.
    #[error("checksum is {found:#06x}, but servers always write 0")]
    Checksum {
        /// The value on disk.
        found: u16,
    },
}

/// Result of checking the slot CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrcVerdict {
    /// The slot is as it was written.
    Good,
    /// The slot is not as it was written: a torn write of the slot, or later damage.
    Bad,
    /// The layout's CRC covers bytes that are not on disk, so nobody can verify it.
    Unverifiable,
}

impl CrcVerdict {
    /// The word for reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Unverifiable => "unverifiable",
        }
    }
}

/// One slot: header, image, and what the CRC says.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    /// Layout of the file.
    pub layout: &'a dyn DwbLayout,
    /// Index in the file, from 0.
    pub index: u64,
    /// Offset of the slot header in the file.
    pub offset: u64,
    /// Decoded header.
    pub header: SlotHeader,
    /// The header's bytes.
    pub header_bytes: &'a [u8],
    /// Offset of the page image in the file.
    pub image_offset: u64,
    /// Page image.
    pub image: &'a [u8],
    /// The computed CRC, if the layout's can be computed.
    pub computed_crc: Option<u32>,
    /// The CRC of the image alone, where the layout has one.
    pub image_crc: Option<CrcPair>,
    /// True for a slot that was never written.
    pub is_empty: bool,
    /// True for a slot that its writer gave up: header as written, image of another page.
    pub is_aborted: bool,
}

impl<'a> Slot<'a> {
    /// Decodes a slot from the bytes of its header and image; `ranges` is where they were.
    ///
    /// # Errors
    /// `Truncated` when the header bytes are too short for the layout.
    pub fn decode(
        layout: &'a dyn DwbLayout,
        index: u64,
        ranges: &SlotRanges,
        header_bytes: &'a [u8],
        image: &'a [u8],
    ) -> Result<Self, ParseError> {
        let (offset, image_offset) = (ranges.header.start, ranges.image.start);
        let header = layout.decode_slot_header(offset, header_bytes)?;
        let is_empty = layout.is_empty(header_bytes, image);
        let computed_crc = if is_empty { None } else { layout.slot_crc(header_bytes, image) };
        let is_aborted = computed_crc == Some(header.crc) && layout.is_aborted(&header);
        let image_crc = if is_empty || is_aborted { None } else { layout.image_crc(header_bytes, image) };
        Ok(Self {
            layout,
            index,
            offset,
            header,
            header_bytes,
            image_offset,
            image,
            computed_crc,
            image_crc,
            is_empty,
            is_aborted,
        })
    }

    /// Checks the stored CRCs; meaningless for an empty slot, whose CRC was never written.
    pub(crate) fn crc_verdict(&self) -> CrcVerdict {
        if self.image_crc.is_some_and(|crc| !crc.is_good()) {
            return CrcVerdict::Bad;
        }
        match self.computed_crc {
            Some(crc) if crc == self.header.crc => CrcVerdict::Good,
            Some(_) => CrcVerdict::Bad,
            None => CrcVerdict::Unverifiable,
        }
    }
}
