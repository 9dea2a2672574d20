//! Statements about an image, with their basis. The words are in `output/words/`.

use strum::{IntoStaticStr, VariantNames};

use super::identity::OtherBlock;
use crate::analysis::changes::content::Ahead;
use crate::analysis::changes::events::FileEvent;
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use crate::analysis::pages::page_check::PageFlaw;
use crate::analysis::start::doubt::Doubt;
use crate::types::{BlockNumber, Lsn};

/// A record of WAL by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRecord {
    /// Resource manager and type, as `pg_waldump` prints them.
    pub name: String,
    /// Start of the record.
    pub lsn: Lsn,
}

/// Weight of a statement for the use of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Part of the proof.
    Supports,
    /// Worth knowing, decides nothing.
    Notes,
    /// A part of the proof is missing.
    Missing,
    /// Changes would be lost.
    Loses,
    /// The image cannot be used.
    Against,
}

impl Weight {
    /// The word for reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Supports => "proof",
            Self::Notes => "note",
            Self::Missing => "missing",
            Self::Loses => "loses",
            Self::Against => "against",
        }
    }
}

/// One link of a chain of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceStep {
    /// Its weight.
    pub weight: Weight,
    /// The statement.
    pub statement: Statement,
}

/// A statement about one image.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Statement {
    /// The slot's CRC covers it and is right.
    SlotCrcRight,
    /// The layout's CRC proves nothing, the image's own checksum is right.
    OwnChecksumRight,
    /// The layout's CRC proves nothing, and the image has no checksum.
    NoChecksumAtAll,
    /// Slot and image name different LSNs: the page changed while it was copied.
    SlotLsnDiffers {
        /// In the slot header.
        slot_lsn: Lsn,
        /// In the image.
        page_lsn: Lsn,
    },
    /// The image was copied under the lock of its page.
    CopiedUnderLock {
        /// Its page checksum shows it, in addition to a CRC of the slot.
        with_checksum: bool,
    },
    /// A checkpoint copied the image without a lock.
    CopiedWithoutLock,
    /// Whether the slot was written since the last checkpoint.
    WrittenSinceCheckpoint {
        /// The answer.
        verdict: BatchVerdict,
        /// Its basis.
        reason: BatchReason,
    },
    /// The CRC of the WAL record is right.
    WalCrcRight,
    /// The image breaks a rule that every page keeps.
    BreaksPageRule(PageFlaw),
    /// The image was copied in the middle of a change. Its code is that of what shows it.
    CopiedInChange {
        /// LSN of the image.
        page_lsn: Lsn,
        /// The evidence.
        ahead: Ahead,
    },
    /// It is not an image of this page. Its code is that of what shows it.
    Objection(Objection),
    /// A question about the content that nothing answers. Its code is that of the question.
    Open(OpenQuestion),
    /// The image has no LSN, so WAL says nothing of it.
    NoPageLsn {
        /// The bytes where the LSN should be.
        page_lsn: Lsn,
    },
    /// Where WAL ends is not known.
    WalEndUnknown,
    /// The image's LSN lies past the end of WAL.
    ImageAfterWalEnd {
        /// LSN of the image.
        page_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// The LSN of the page on disk lies past the end of WAL.
    DiskAfterWalEnd {
        /// LSN on disk.
        disk_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// WAL has the record that the image's LSN refers to, and it belongs to this page.
    RecordOfPage {
        /// LSN of the image.
        page_lsn: Lsn,
    },
    /// WAL is there, and no record of this page ends at the image's LSN.
    NoRecordOfPage {
        /// LSN of the image.
        page_lsn: Lsn,
    },
    /// WAL around the image's LSN is missing.
    WalAroundImageMissing {
        /// LSN of the image.
        page_lsn: Lsn,
    },
    /// Where replay begins is not known.
    RedoPointUnknown,
    /// WAL cannot be read from the redo point on.
    RedoPointUnreadable {
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// The image is not older than the redo point: replay repeats all that came later.
    NotBeforeRedo {
        /// LSN of the image.
        page_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// The page was removed, or became another one, after the image.
    ImageOfOlderPage(FileEvent),
    /// The image lacks changes that replay does not repeat.
    LacksChanges {
        /// Where replay begins; `None` when nothing is replayed.
        redo_lsn: Option<Lsn>,
        /// The first of their records.
        records: Vec<NamedRecord>,
        /// How many more there are.
        more: usize,
    },
    /// No record between the image's LSN and the redo point changes the page.
    UnchangedUntilRedo {
        /// LSN of the image.
        page_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// Rows may have come into the page since without a record.
    CopiesUnlogged {
        /// LSN of the image.
        page_lsn: Lsn,
    },
    /// WAL between the image's LSN and the redo point is not all there.
    WalUntilRedoMissing {
        /// LSN of the image.
        page_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// A server built the page by replay.
    RebuiltByServer {
        /// Records that were replayed and name it.
        records: u64,
        /// Version of the server.
        server: String,
    },
    /// Sectors of the damaged page equal the built one.
    SectorsSurvived {
        /// How many.
        equal: usize,
        /// How many there are.
        of: usize,
    },
    /// Every record of the page up to the redo point was replayed, and none is missing.
    ReplayedUntilRedo {
        /// From where on.
        from_lsn: Lsn,
        /// Where replay of the cluster begins.
        redo_lsn: Lsn,
    },
    /// The image belongs to a free space map, of which any intact page will do.
    FreeSpaceMap,
    /// Whose page of a free space map it is says nothing but a slot header that no CRC proves.
    FreeSpaceMapUnproven,
    /// The checksum of the donor's page is right.
    DonorChecksumRight,
    /// Pages of the donor have no checksums that count: nothing proves this one whole.
    DonorWithoutChecksum,
    /// The donor's page has an LSN from before the donor, and no record of the page ends there.
    DonorLsnWithoutRecord {
        /// LSN of the page.
        page_lsn: Lsn,
    },
    /// The donor has all changes from before its redo point, whose checkpoint WAL has.
    DonorHoldsEarlierChanges {
        /// Redo point of the donor.
        donor_lsn: Lsn,
    },
    /// WAL does not have the checkpoint that the donor was taken from.
    DonorCheckpointMissing {
        /// Where it should be.
        checkpoint_lsn: Lsn,
    },
    /// Where the donor names its checkpoint, WAL has something else.
    DonorCheckpointDiffers {
        /// Where it should be.
        checkpoint_lsn: Lsn,
    },
    /// The page on disk is newer than that of the donor and older than its redo point: the donor should have it, and lacks it.
    DonorOlderThanDisk {
        /// LSN of the page in the donor.
        page_lsn: Lsn,
        /// LSN of the damaged page.
        disk_lsn: Lsn,
        /// Redo point of the donor.
        donor_lsn: Lsn,
    },
    /// The donor is the copy of a running or crashed server, and it is unknown whether its files are from the same point in time.
    DonorOfOneMomentUnknown {
        /// LSN of the page.
        page_lsn: Lsn,
        /// Redo point of the donor.
        donor_lsn: Lsn,
    },
    /// A record from before the donor's redo point changes the page, and its LSN does not show the change.
    DonorMayLackRecord(NamedRecord),
    /// The file changed before the donor's redo point, and nothing shows that the donor has it as it was then.
    DonorMayBeOlder(FileEvent),
    /// The donor is not older than the redo point.
    DonorNotBeforeRedo {
        /// Redo point of the donor.
        donor_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// No record from where the donor's page may lack changes to the redo point changes it.
    UnchangedSince {
        /// From where on.
        from_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// Some WAL from where the donor's page may lack changes to the redo point is missing.
    WalSinceMissing {
        /// From where on.
        from_lsn: Lsn,
        /// Where replay begins.
        redo_lsn: Lsn,
    },
    /// Something about the cluster as a whole, or the double write buffer. Its code is that of the doubt.
    Doubt(Doubt),
}

impl Statement {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::CopiedInChange { ahead, .. } => ahead.code(),
            Self::Objection(objection) => objection.code(),
            Self::Open(question) => question.code(),
            Self::Doubt(doubt) => doubt.code(),
            other => other.into(),
        }
    }

    /// The codes of all statements that there can be, but for those of [`Doubt`].
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let by_part = ["copied_in_change", "objection", "open", "doubt"];
        let own = Self::VARIANTS.iter().copied().filter(move |code| !by_part.contains(code));
        let parts = Ahead::VARIANTS.iter().chain(OpenQuestion::VARIANTS).copied();
        own.chain(parts).chain(Objection::codes())
    }
}

/// Evidence that an image belongs to another page.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Objection {
    /// It is all zero.
    ImageAllZero,
    /// Its own checksum is wrong, in a buffer whose images all carry theirs.
    ChecksumWrong,
    /// It has what no page of a map has.
    NotAMapPage,
    /// Its special space is not that of the other pages of its fork.
    OtherSpecialSpace {
        /// Bytes of its special space.
        own: usize,
        /// Bytes that other pages of the fork have.
        expected: usize,
    },
    /// It is another block of the relation. Its code is that of what shows it.
    OtherBlock(OtherBlock),
    /// There are too many images in WAL to keep what is needed of this one.
    TooManyImages,
    /// It was built with another number of records than the page has.
    OtherRecordsReplayed {
        /// Records of the page.
        expected: u64,
        /// Records that were replayed.
        found: u64,
    },
    /// It was built, and its LSN is not that of the last record.
    OtherLsnThanPlanned {
        /// LSN that it should have.
        expected: Lsn,
        /// LSN that it has.
        found: Lsn,
    },
    /// The relation is unlogged: WAL does not say what changed it since.
    UnloggedInDonor,
    /// The page is from after the donor's line of history and that of the cluster parted.
    DonorAfterSwitch {
        /// LSN of the page.
        page_lsn: Lsn,
        /// Where they parted.
        switch_lsn: Lsn,
    },
}

impl Objection {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OtherBlock(why) => why.code(),
            other => other.into(),
        }
    }

    /// The codes of all objections that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let own = Self::VARIANTS.iter().copied().filter(|code| *code != "other_block");
        own.chain(OtherBlock::VARIANTS.iter().copied())
    }
}

/// A question about the content of an image that nothing answers.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum OpenQuestion {
    /// The image was copied without a lock and may hold the next change already.
    MayHoldNextChange(NamedRecord),
    /// The record that its LSN names gave other blocks the same LSN.
    SameLsnAsBlocks {
        /// Start of the record.
        lsn: Lsn,
        /// Some of these blocks.
        blocks: Vec<BlockNumber>,
    },
    /// It is a page of a sequence, which hands out values without a record.
    SequenceValue,
    /// The record that its LSN names gave a page of another fork or relation the same LSN.
    SameLsnAsOtherFork {
        /// Start of the record.
        lsn: Lsn,
    },
}

impl OpenQuestion {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}
