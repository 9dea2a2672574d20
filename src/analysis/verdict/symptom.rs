//! Damage of a page on disk, one symptom each. The words are in `output/words/`.

use strum::{IntoEnumIterator, IntoStaticStr, VariantNames};

use super::candidate::ImageSource;
use crate::analysis::changes::rows::layout::LayoutFault;
use crate::analysis::changes::rows::{Contradiction, Misfit};
use crate::analysis::pages::page_check::PageFlaw;
use crate::analysis::pages::page_links::{BrokenLink, LinkFault};
use crate::types::{BlockNumber, Lsn};

/// An impossible reference of an index page to its index or table, see `BrokenLink::is_impossible`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleLinks {
    /// The first of the named blocks.
    pub first: BlockNumber,
    /// How often it names such ones.
    pub count: usize,
}

/// Symptom of a damaged page.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Symptom {
    /// Its bytes by themselves. Its code is that of the flaw.
    Flaw(PageFlaw),
    /// Another page of its index names it. Its code is that of the link.
    BrokenLink(BrokenLink),
    /// Without checksums the page that names it may be the damaged one.
    NamingPageMayBeDamaged {
        /// The page that names it.
        block: BlockNumber,
    },
    /// The file ends inside the page.
    FileEndsInside {
        /// Bytes of the page that are there.
        have_bytes: u64,
    },
    /// The file ends before the page, and replay or an image shows that it was there.
    FileEndsBefore,
    /// The relation has no file, and replay or an image shows that there should be one.
    FileMissing,
    /// The relation has no file, the catalog has the relation, and WAL does not say that it was dropped.
    FileMissingByCatalog,
    /// The page is all zero, and replay or an image shows that it had content.
    ZeroedContent,
    /// The file ends before the page, or the page is all zero, and a record from before the redo point changed it.
    LostContent {
        /// Start of the newest such record.
        record_lsn: Lsn,
    },
    /// A change from before the redo point is not on disk.
    LostWrite,
    /// But for its checksum the page equals an image.
    EqualsButChecksum {
        /// Which one.
        source: ImageSource,
    },
    /// Its checksum is that of an image of which a part arrived.
    ChecksumOfImage {
        /// Which one.
        source: ImageSource,
    },
    /// It differs from an image in a bit or two.
    FlippedBits {
        /// Which image.
        source: ImageSource,
        /// How many bits.
        bits: u32,
    },
    /// Its front and its back are of two versions of the page.
    TwoVersions,
    /// It shows a transaction whose first record for it ends after its LSN.
    LaterTransaction {
        /// LSN of the page.
        page_lsn: Lsn,
        /// The transaction.
        xid: u32,
        /// End of its first record for the page.
        first_lsn: Lsn,
    },
    /// Its rows are not what WAL makes of them. Its code is that of the misfit.
    Contradiction {
        /// LSN of the page.
        page_lsn: Lsn,
        /// The contradiction.
        found: Contradiction,
    },
    /// Its items are as no server leaves them. Its code is that of the fault.
    Layout(LayoutFault),
    /// It names pages of its index that cannot have been.
    ImpossibleLinks(ImpossibleLinks),
    /// Its rows are not those of images, nor do the records between make them so.
    OtherRows {
        /// Slot of the first of these images.
        slot: u64,
        /// How many images.
        images: usize,
    },
    /// It has the LSN of an image and differs from it in more than hint bits.
    SameLsnOtherContent {
        /// Slot of the image.
        slot: u64,
    },
    /// It is not what replay up to its LSN makes of it.
    DiffersFromReplay {
        /// LSN of the page.
        page_lsn: Lsn,
        /// Offset of the first byte.
        first: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// It lacks a record that was on disk when the last checkpoint ended.
    LacksRecord {
        /// LSN of the page.
        page_lsn: Lsn,
        /// Start of the record.
        record_lsn: Lsn,
    },
    /// No record that names it ends at its LSN, though all WAL there was read.
    LsnOfNoRecord {
        /// LSN of the page.
        page_lsn: Lsn,
    },
    /// Where its LSN leaves room it holds rows of a newer image.
    RowsInHole {
        /// LSN of the page.
        page_lsn: Lsn,
        /// How many bytes.
        bytes: usize,
        /// The image.
        source: ImageSource,
    },
}

impl Symptom {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Flaw(flaw) => flaw.code(),
            Self::BrokenLink(link) => link.fault.code(),
            Self::Contradiction { found, .. } => found.misfit.code(),
            Self::Layout(fault) => fault.code(),
            other => other.into(),
        }
    }

    /// The codes of all symptoms that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let by_part = ["flaw", "broken_link", "contradiction", "layout"];
        let own = Self::VARIANTS.iter().copied().filter(move |code| !by_part.contains(code));
        let parts = PageFlaw::VARIANTS.iter().chain(Misfit::VARIANTS).chain(LayoutFault::VARIANTS).copied();
        own.chain(parts).chain(LinkFault::iter().map(LinkFault::code))
    }
}
