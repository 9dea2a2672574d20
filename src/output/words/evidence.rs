//! What is said of an image.

use std::fmt;

use super::page_action::file_words;
use crate::analysis::staleness::BatchVerdict;
use crate::analysis::verdict::candidate::ImageSource;
use crate::analysis::verdict::content::Ahead;
use crate::analysis::verdict::events::FileEvent;
use crate::analysis::verdict::evidence::{NamedRecord, Objection, OpenQuestion, Statement};
use crate::analysis::verdict::fetch::FetchError;
use crate::analysis::verdict::identity::OtherBlock;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::Lsn;

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dwb { file, slot_index, .. } => f.pad(&format!("{file} slot {slot_index}")),
            Self::Wal { record_lsn } => f.pad(&format!("WAL image at {record_lsn}")),
            Self::Rebuilt(rebuilt) => {
                let noun = if rebuilt.records == 1 { "record" } else { "records" };
                f.pad(&format!("page rebuilt from {} with {} {noun}", rebuilt.base, rebuilt.records))
            }
            Self::Donor { path, .. } => f.pad(&format!("donor {path}")),
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(error) => error.fmt(f),
            Self::SlotChanged { file, slot_index } => {
                write!(f, "{file} slot {slot_index} no longer holds this page, or its CRC is wrong")
            }
            Self::Wal(error) => error.fmt(f),
            Self::NotBuilt => f.write_str("the page was not rebuilt"),
            Self::NoRecord(lsn) => write!(f, "WAL has no image of this page at {lsn}"),
            Self::Image(error) => error.fmt(f),
            Self::Donor(error) => error.fmt(f),
            Self::NoPageInDonor { path } => write!(f, "donor {path} no longer has this page"),
        }
    }
}

impl fmt::Display for NamedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.lsn)
    }
}

impl fmt::Display for FileEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.start_lsn;
        match &self.what {
            LifeCycle::Created { .. } => write!(f, "the file is created at {at}"),
            what @ LifeCycle::Truncated { .. } => write!(f, "{} at {at}", file_words(what)),
            LifeCycle::Dropped { committed: true, .. } => write!(f, "the relation is dropped by the commit at {at}"),
            LifeCycle::Dropped { committed: false, .. } => {
                write!(f, "the relation's creation is undone by the abort at {at}")
            }
            LifeCycle::DatabaseCreated { .. } => write!(f, "the database is created as a copy at {at}"),
            LifeCycle::DatabaseDropped { .. } => write!(f, "the database is dropped at {at}"),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlotCrcRight => f.write_str("the slot's CRC is right"),
            Self::OwnChecksumRight => f.write_str(
                "the slot's CRC proves nothing in this layout, but the image's own checksum is right, which covers \
                 its bytes and the number of its block",
            ),
            Self::NoChecksumAtAll => f.write_str(
                "this layout's CRC proves nothing, and the image has no checksum of its own: the slot may be damaged",
            ),
            Self::SlotLsnDiffers { slot_lsn, page_lsn } => {
                write!(
                    f,
                    "the slot header has LSN {slot_lsn}, its image {page_lsn}: the page changed while it was copied"
                )
            }
            Self::CopiedUnderLock { with_checksum: true } => {
                f.write_str("the image's own checksum is right: it was copied under a lock")
            }
            Self::CopiedUnderLock { with_checksum: false } => f.write_str("it was copied under a lock"),
            Self::CopiedWithoutLock => f.write_str(
                "copied by a checkpoint without a lock, so it carries no checksum of its own; its structure is sound",
            ),
            Self::WrittenSinceCheckpoint { verdict, reason } => {
                let sure = reason.confidence().name();
                match verdict {
                    BatchVerdict::Current => write!(f, "it was written since the last checkpoint ({sure})"),
                    BatchVerdict::Stale => write!(f, "it was written before the last checkpoint ({sure})"),
                    BatchVerdict::Undecided => {
                        f.write_str("whether it was written since the last checkpoint is undecided")
                    }
                }
            }
            Self::WalCrcRight => f.write_str("the WAL record's CRC is right"),
            Self::BreaksPageRule(flaw) => write!(f, "the image breaks a rule of pages: {flaw}"),
            Self::CopiedInChange { page_lsn, ahead } => {
                write!(f, "copied in the middle of a change: its LSN is {page_lsn}, yet {ahead}")
            }
            Self::Objection(objection) => objection.fmt(f),
            Self::Open(question) => question.fmt(f),
            Self::NoPageLsn { page_lsn } => write!(f, "the image has no LSN ({page_lsn}), so WAL cannot vouch for it"),
            Self::WalEndUnknown => f.write_str("the end of WAL is unknown"),
            Self::ImageAfterWalEnd { page_lsn, end_lsn } => {
                write!(f, "its LSN {page_lsn} is past the end of valid WAL, {end_lsn}, so replay cannot reach it")
            }
            Self::DiskAfterWalEnd { disk_lsn, end_lsn } => {
                write!(f, "the page on disk has LSN {disk_lsn}, past the end of valid WAL, {end_lsn}: WAL is missing")
            }
            Self::RecordOfPage { page_lsn } => {
                write!(f, "the WAL record that ends at its LSN {page_lsn} is of this page")
            }
            Self::NoRecordOfPage { page_lsn } => {
                write!(f, "no WAL record of this page ends at its LSN {page_lsn}: it is an image of something else")
            }
            Self::WalAroundImageMissing { page_lsn } => {
                write!(f, "WAL around its LSN {page_lsn} is missing, so it may be of another page")
            }
            Self::RedoPointUnknown => f.write_str("the redo point is unknown"),
            Self::RedoPointUnreadable { redo_lsn } => {
                write!(f, "WAL from the redo point {redo_lsn} on cannot be read")
            }
            Self::NotBeforeRedo { page_lsn, redo_lsn } => write!(
                f,
                "its LSN {page_lsn} is not before the redo point {redo_lsn}: replay repeats every later change"
            ),
            Self::ImageOfOlderPage(event) => write!(f, "{event}, so the image is of an older page"),
            Self::LacksChanges { redo_lsn, records, more } => {
                match redo_lsn {
                    Some(redo) => write!(
                        f,
                        "it lacks changes made before the redo point {redo}, which replay does \
                        not repeat: "
                    )?,
                    None => f.write_str("it lacks changes, and there is no replay to repeat them: ")?,
                }
                for (index, record) in records.iter().enumerate() {
                    write!(f, "{}{record}", if index == 0 { "" } else { ", " })?;
                }
                if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            Self::UnchangedUntilRedo { page_lsn, redo_lsn } => {
                write!(f, "no record between its LSN {page_lsn} and the redo point {redo_lsn} changes the page")
            }
            Self::CopiesUnlogged { page_lsn } => write!(
                f,
                "with wal_level minimal this major logs no COPY into a table of the same transaction: rows may have come since its LSN {page_lsn}"
            ),
            Self::WalUntilRedoMissing { page_lsn, redo_lsn } => write!(
                f,
                "its LSN {page_lsn} is before the redo point {redo_lsn}, and some WAL between the two is missing"
            ),
            Self::RebuiltByServer { records, server } => {
                let noun = if *records == 1 { "record" } else { "records" };
                write!(
                    f,
                    "PostgreSQL {server} rebuilt it by replay of {records} {noun} in a sandbox, and it breaks no rule"
                )
            }
            Self::SectorsSurvived { equal, of } => {
                write!(f, "{equal} of {of} sectors of the damaged page equal it")
            }
            Self::ReplayedUntilRedo { from_lsn, redo_lsn } => {
                write!(f, "every record of the page between {from_lsn} and the redo point {redo_lsn} was replayed")
            }
            Self::FreeSpaceMap => {
                f.write_str("a free space map corrects itself: any intact version of its page will do")
            }
            Self::FreeSpaceMapUnproven => f.write_str(
                "nothing but the slot's header says whose page it is: the slot's CRC does not prove it, and WAL does \
                 not log free space maps",
            ),
            Self::DonorChecksumRight => f.write_str("its checksum is right"),
            Self::DonorWithoutChecksum => f.write_str(
                "the donor has no data checksums that count, so nothing proves that its page is whole and undamaged",
            ),
            Self::DonorLsnWithoutRecord { page_lsn } => {
                write!(f, "WAL has no record of this page that ends at its LSN {page_lsn}: it may be of another page")
            }
            Self::DonorHoldsEarlierChanges { donor_lsn } => {
                write!(f, "the donor has every change from before its redo point {donor_lsn}, whose checkpoint WAL has")
            }
            Self::DonorCheckpointMissing { checkpoint_lsn } => write!(
                f,
                "WAL does not have the checkpoint record at {checkpoint_lsn} that the donor names, so which changes the                  donor has is unproven"
            ),
            Self::DonorCheckpointDiffers { checkpoint_lsn } => write!(
                f,
                "WAL has no checkpoint with the donor's redo point at {checkpoint_lsn}, where the donor names one: it is of \
                 another line of history"
            ),
            Self::DonorOlderThanDisk { page_lsn, disk_lsn, donor_lsn } => write!(
                f,
                "the damaged page has LSN {disk_lsn}, before the donor's redo point {donor_lsn}, and the donor has an older page, \
                 {page_lsn}: its files are not of one moment"
            ),
            Self::DonorOfOneMomentUnknown { page_lsn, donor_lsn } => write!(
                f,
                "the donor was copied from a running or crashed server: that all of its files are of one moment, and so                  have every change from before {donor_lsn}, is unproven, so WAL from its LSN {page_lsn} on is needed"
            ),
            Self::DonorMayLackRecord(record) => {
                write!(f, "{record} changes the page, and its LSN does not show that the donor has that change")
            }
            Self::DonorMayBeOlder(event) => {
                write!(f, "{event}, and nothing shows that the donor's file is from after that")
            }
            Self::DonorNotBeforeRedo { donor_lsn, redo_lsn } => write!(
                f,
                "the donor's redo point {donor_lsn} is not before the redo point {redo_lsn}: it has every change that                  replay does not repeat"
            ),
            Self::UnchangedSince { from_lsn, redo_lsn } => {
                write!(f, "no record between {from_lsn} and the redo point {redo_lsn} changes the page")
            }
            Self::WalSinceMissing { from_lsn, redo_lsn } => {
                write!(f, "some WAL between {from_lsn} and the redo point {redo_lsn} is missing")
            }
            Self::Doubt(doubt) => doubt.fmt(f),
        }
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstRecordLater { xid, first_lsn } => {
                write!(f, "it shows transaction {xid}, whose first record for this page ends later, at {first_lsn}")
            }
            Self::TransactionWithoutRecord { xid } => {
                write!(f, "it shows transaction {xid}, which has no record for this page in WAL")
            }
            Self::TransactionFromLater { xid } => {
                write!(f, "it shows transaction {xid}, which is newer than any transaction in WAL")
            }
            Self::HoldsNextChange { lsn } => write!(f, "it already holds the change of the record at {lsn}"),
        }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChecksumWrong => f.write_str("its own checksum is wrong, and this kind of buffer always sets it"),
            Self::ImageAllZero => f.write_str("the image is all zero: it was taken before the page was filled"),
            Self::NotAMapPage => f.write_str(
                "it has line pointers or tuples, which no page of a map has: it is the content of another page",
            ),
            Self::OtherSpecialSpace { own, expected } => write!(
                f,
                "its special space has {own} bytes, that of other pages of the relation {expected}: it is the content of \
                 another page"
            ),
            Self::OtherBlock(why) => why.fmt(f),
            Self::OtherRecordsReplayed { expected, found } => {
                write!(f, "{found} records of the page were replayed, and WAL has {expected}")
            }
            Self::OtherLsnThanPlanned { expected, found } => {
                write!(f, "its LSN is {found}, and the last record of the page ends at {expected}")
            }
            Self::TooManyImages => f.write_str("there are too many images in WAL to examine this one"),
            Self::UnloggedInDonor => f.write_str("the relation is unlogged, so what changed it since is unknown"),
            Self::DonorAfterSwitch { page_lsn, switch_lsn } => write!(
                f,
                "its LSN {page_lsn} is after {switch_lsn}, where the donor and the cluster went on to different timelines"
            ),
        }
    }
}

impl fmt::Display for OtherBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsMetapage => f.write_str("it is a metapage, but only block 0 can be one"),
            Self::IsNotMetapage => f.write_str("it is not a metapage, but block 0 must be one"),
            Self::IsLeaf => f.write_str("it is a leaf, but the record at its LSN is of a block above the leaves"),
            Self::IsNotLeaf => f.write_str("it is not a leaf, but the record at its LSN is of a leaf"),
            Self::RowsNameOtherBlock { block, found } => {
                write!(f, "none of its rows says that it is in block {block}; the first says {found}")
            }
            Self::LinksToItself { block } => {
                write!(f, "it links to block {block} as its neighbour, so it is not that block")
            }
            Self::SplitLinksDiffer { block, expected, found } => {
                write!(f, "the split at its LSN links block {block} to block {expected}, but it links to {found}")
            }
        }
    }
}

impl fmt::Display for OpenQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ambiguous = |f: &mut fmt::Formatter<'_>, lsn: &Lsn, other: &str| {
            write!(
                f,
                "the record at {lsn} gave {other} the same LSN, and nothing in the image shows which of them it is"
            )
        };
        match self {
            Self::MayHoldNextChange(record) => write!(
                f,
                "it was copied without a lock, and it is unknown whether it already holds the change of {record}"
            ),
            Self::SameLsnAsBlocks { lsn, blocks } => {
                let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
                ambiguous(f, lsn, &format!("block {}", blocks.join(", ")))
            }
            Self::SequenceValue => f.write_str(
                "a sequence hands out up to 32 values, and moves its page on, without a record and without a new LSN: it may hand them out again",
            ),
            Self::SameLsnAsOtherFork { lsn } => ambiguous(f, lsn, "a page of another fork"),
        }
    }
}
