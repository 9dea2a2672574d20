//! The control file of the buffer that has one (`pg_dwb/control`).

use nom::Parser;
use nom::error::context;

use crate::parsers::crc::crc32c;
use crate::parsers::decode::{ParseError, decode_at, le_u32, le_u64};

/// The format version that is read here.
pub(super) const VERSION: u32 = 1;

/// Most batches that the server's setting allows.
pub(crate) const MAX_BATCHES: u32 = 1024;

/// Most slots of a batch that the server's setting allows.
pub(crate) const MAX_BATCH_PAGES: u32 = 256;

/// Magic number of the control file; on disk "CBWD".
const CONTROL_MAGIC: u32 = 0x4457_4243;

/// Bytes of the control file.
const CONTROL_BYTES: usize = 40;

/// Control flag: everything that the slots cover had reached its file when the server stopped.
const FLAG_CLEAN: u32 = 0x0001;

/// Contents of `pg_dwb/control`: 40 bytes, little-endian.
///
/// | bytes  | field         | C type      | meaning                              |
/// |--------|---------------|-------------|--------------------------------------|
/// | 0..4   | `magic`       | `uint32`    | `0x44574243`                         |
/// | 4..8   | `version`     | `uint32`    | 1                                    |
/// | 8..12  | `min_version` | `uint32`    | least version of a reader            |
/// | 12..16 | `num_batches` | `uint32`    | number of batch files                |
/// | 16..20 | `batch_pages` | `uint32`    | slots in each                        |
/// | 20..24 | `flags`       | `uint32`    | 0x0001 clean                         |
/// | 24..32 | `generation`  | `uint64`    | number of the latest server run      |
/// | 32..36 | `crc`         | `pg_crc32c` | CRC-32C of bytes 0..32               |
/// | 36..40 | padding       |             | zero                                 |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingControl {
    /// Magic number.
    pub magic: u32,
    /// Format version.
    pub version: u32,
    /// Least version of a reader.
    pub min_version: u32,
    /// Batch files.
    pub num_batches: u32,
    /// Slots in each of them.
    pub batch_pages: u32,
    /// Flag bits, unknown ones included.
    pub flags: u32,
    /// Number of the latest server run that used the buffer.
    pub generation: u64,
    /// Stored CRC.
    pub crc: u32,
    /// CRC-32C of the bytes before the stored one.
    pub computed_crc: u32,
}

impl RingControl {
    /// On-disk size in bytes, padding included.
    pub const SIZE: usize = CONTROL_BYTES;

    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    pub fn decode(buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("pg_dwb control", 0, buf, |i| {
            let (i, magic) = context("magic", le_u32).parse(i)?;
            let (i, version) = context("version", le_u32).parse(i)?;
            let (i, min_version) = context("min_version", le_u32).parse(i)?;
            let (i, num_batches) = context("num_batches", le_u32).parse(i)?;
            let (i, batch_pages) = context("batch_pages", le_u32).parse(i)?;
            let (i, flags) = context("flags", le_u32).parse(i)?;
            let (i, generation) = context("generation", le_u64).parse(i)?;
            let (i, crc) = context("crc", le_u32).parse(i)?;
            let (i, _) = context("padding", le_u32).parse(i)?;
            let computed_crc = crc32c(buf.get(..32).unwrap_or_default());
            let control =
                Self { magic, version, min_version, num_batches, batch_pages, flags, generation, crc, computed_crc };
            Ok((i, control))
        })
    }

    /// Every rule that the file breaks, in field order; empty when sound.
    pub fn faults(&self) -> Vec<ControlFault> {
        let mut faults = Vec::new();
        if self.magic != CONTROL_MAGIC {
            faults.push(ControlFault::Magic { found: self.magic, expected: CONTROL_MAGIC });
        }
        if self.version != VERSION {
            faults.push(ControlFault::Version { found: self.version, expected: VERSION });
        }
        if self.min_version > VERSION {
            faults.push(ControlFault::MinVersion { found: self.min_version, most: VERSION });
        }
        if self.num_batches == 0 || self.num_batches > MAX_BATCHES {
            faults.push(ControlFault::Batches { found: self.num_batches });
        }
        if self.batch_pages == 0 || self.batch_pages > MAX_BATCH_PAGES {
            faults.push(ControlFault::Pages { found: self.batch_pages });
        }
        if self.flags & !FLAG_CLEAN != 0 {
            faults.push(ControlFault::Flags { found: self.flags & !FLAG_CLEAN });
        }
        if self.crc != self.computed_crc {
            faults.push(ControlFault::Crc { found: self.crc, expected: self.computed_crc });
        }
        faults
    }

    /// True when the file says what a server wrote into it: magic number and CRC are right.
    pub const fn is_whole(&self) -> bool {
        self.magic == CONTROL_MAGIC && self.crc == self.computed_crc
    }

    /// True when this version of the format may be read by the rules known here.
    pub(crate) const fn is_readable(&self) -> bool {
        self.min_version <= VERSION
    }

    /// True when the geometry is one that a server can be set to.
    pub(crate) const fn has_geometry(&self) -> bool {
        self.num_batches > 0
            && self.num_batches <= MAX_BATCHES
            && self.batch_pages > 0
            && self.batch_pages <= MAX_BATCH_PAGES
    }

    /// The server was shut down cleanly, with everything that the slots cover in the data files.
    pub const fn is_clean(&self) -> bool {
        self.flags & FLAG_CLEAN != 0
    }
}

/// A broken rule of the control file, with what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlFault {
    /// Another magic number.
    #[error("magic is {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// The number on disk.
        found: u32,
        /// The right one.
        expected: u32,
    },
    /// Another format version.
    #[error("version is {found}, expected {expected}")]
    Version {
        /// The number on disk.
        found: u32,
        /// The one that is read here.
        expected: u32,
    },
    /// It is for later readers only.
    #[error("min_version is {found}, expected at most {most}")]
    MinVersion {
        /// The number on disk.
        found: u32,
        /// The version that is read here.
        most: u32,
    },
    /// A number of batches that no server can be set to.
    #[error("num_batches is {found}, expected 1 to {MAX_BATCHES}")]
    Batches {
        /// The number on disk.
        found: u32,
    },
    /// A number of slots that no server can be set to.
    #[error("batch_pages is {found}, expected 1 to {MAX_BATCH_PAGES}")]
    Pages {
        /// The number on disk.
        found: u32,
    },
    /// Flag bits without a meaning.
    #[error("flags has unknown bits {found:#010x}")]
    Flags {
        /// The unknown bits.
        found: u32,
    },
    /// The CRC is not that of the bytes.
    #[error("stored CRC {found:#010x}, computed {expected:#010x}")]
    Crc {
        /// The CRC on disk.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The file has another length.
    #[error("the file has {found} bytes, expected {CONTROL_BYTES}")]
    Length {
        /// Its size.
        found: u64,
    },
}
