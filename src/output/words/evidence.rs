//! Evidence about an image.

use std::fmt;

use super::page_action::file_words;
use crate::analysis::changes::content::Ahead;
use crate::analysis::changes::events::FileEvent;
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::verdict::candidate::ImageSource;
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
                write!(f, "{file} slot {slot_index} no longer contains this page, or its CRC is invalid")
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
                write!(f, "the transaction that created the relation is aborted at {at}")
            }
            LifeCycle::DatabaseCreated { .. } => write!(f, "the database is created as a copy at {at}"),
            LifeCycle::DatabaseDropped { .. } => write!(f, "the database is dropped at {at}"),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlotCrcRight => f.write_str("the slot's CRC is valid"),
            Self::OwnChecksumRight => f.write_str(
                "the slot's CRC proves nothing in this layout, but the image's page checksum is valid, which covers \
                 its bytes and block number",
            ),
            Self::NoChecksumAtAll => f.write_str(
                "the slot's CRC proves nothing in this layout, and the image has no page checksum: the slot may be \
                    damaged",
            ),
            Self::SlotLsnDiffers { slot_lsn, page_lsn } => {
                write!(
                    f,
                    "the slot header has LSN {slot_lsn}, its image {page_lsn}: the page changed while it was copied"
                )
            }
            Self::CopiedUnderLock { with_checksum: true } => {
                f.write_str("the image's page checksum is valid: it was copied under a lock")
            }
            Self::CopiedUnderLock { with_checksum: false } => f.write_str("it was copied under a lock"),
            Self::CopiedWithoutLock => {
                f.write_str("written by a checkpoint without a page lock: no page checksum, structure valid")
            }
            Self::WrittenSinceCheckpoint { verdict, reason } => {
                let sure = reason.confidence().name();
                match verdict {
                    BatchVerdict::Current => write!(f, "it was written after the last checkpoint ({sure})"),
                    BatchVerdict::Stale => write!(f, "it was written before the last checkpoint ({sure})"),
                    BatchVerdict::Undecided => {
                        f.write_str("it is undecided whether it was written after the last checkpoint")
                    }
                }
            }
            Self::WalCrcRight => f.write_str("the WAL record's CRC is valid"),
            Self::BreaksPageRule(flaw) => write!(f, "the image breaks a rule of pages: {flaw}"),
            Self::CopiedInChange { page_lsn, ahead } => {
                write!(f, "copied in the middle of a change: its LSN is {page_lsn}, but {ahead}")
            }
            Self::Objection(objection) => objection.fmt(f),
            Self::Open(question) => question.fmt(f),
            Self::NoPageLsn { page_lsn } => write!(f, "the image has no LSN ({page_lsn}), so WAL cannot vouch for it"),
            Self::WalEndUnknown => f.write_str("the end of WAL is unknown"),
            Self::ImageAfterWalEnd { page_lsn, end_lsn } => {
                write!(f, "its LSN {page_lsn} is past the end of WAL at {end_lsn}, so recovery cannot reach it")
            }
            Self::DiskAfterWalEnd { disk_lsn, end_lsn } => {
                write!(f, "WAL is missing: the page on disk has LSN {disk_lsn}, past the end of WAL at {end_lsn}")
            }
            Self::RecordOfPage { page_lsn } => {
                write!(f, "the WAL record that ends at its LSN {page_lsn} belongs to this page")
            }
            Self::NoRecordOfPage { page_lsn } => {
                write!(f, "no WAL record of this page ends at its LSN {page_lsn}: the image belongs to another page")
            }
            Self::WalAroundImageMissing { page_lsn } => {
                write!(f, "WAL around its LSN {page_lsn} is missing, so it may belong to another page")
            }
            Self::RedoPointUnknown => f.write_str("the redo point is unknown"),
            Self::RedoPointUnreadable { redo_lsn } => {
                write!(f, "WAL after the redo point {redo_lsn} cannot be read")
            }
            Self::NotBeforeRedo { page_lsn, redo_lsn } => write!(
                f,
                "its LSN {page_lsn} is at or after the redo point {redo_lsn}: recovery reapplies every later change"
            ),
            Self::ImageOfOlderPage(event) => write!(f, "{event}, so the image belongs to an older page"),
            Self::LacksChanges { redo_lsn, records, more } => {
                match redo_lsn {
                    Some(redo) => write!(
                        f,
                        "it lacks changes made before the redo point {redo}, which recovery does not reapply: "
                    )?,
                    None => f.write_str("it lacks changes, and no recovery reapplies them: ")?,
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
                "with wal_level = minimal this PostgreSQL version does not log COPY into a table created in the same \
                    transaction: rows may have been added after its LSN {page_lsn}"
            ),
            Self::WalUntilRedoMissing { page_lsn, redo_lsn } => write!(
                f,
                "its LSN {page_lsn} is before the redo point {redo_lsn}, and some WAL between the two is missing"
            ),
            Self::RebuiltByServer { records, server } => {
                let noun = if *records == 1 { "record" } else { "records" };
                write!(f, "PostgreSQL {server} rebuilt it in a sandbox from {records} {noun}, and it breaks no rule")
            }
            Self::SectorsSurvived { equal, of } => {
                write!(f, "{equal} of {of} sectors of the damaged page equal it")
            }
            Self::ReplayedUntilRedo { from_lsn, redo_lsn } => {
                write!(f, "every record of the page between {from_lsn} and the redo point {redo_lsn} was applied")
            }
            Self::FreeSpaceMap => {
                f.write_str("a free space map corrects itself: any intact version of its page will do")
            }
            Self::FreeSpaceMapUnproven => f.write_str(
                "only the slot's header identifies the page: the slot's CRC does not prove it, and WAL does not log \
                 free space maps",
            ),
            Self::DonorChecksumRight => f.write_str("its checksum is valid"),
            Self::DonorWithoutChecksum => {
                f.write_str("the donor has no usable data checksums, so nothing proves that its page is intact")
            }
            Self::DonorLsnWithoutRecord { page_lsn } => {
                write!(
                    f,
                    "WAL has no record of this page that ends at its LSN {page_lsn}: it may belong to another \
                    page"
                )
            }
            Self::DonorHoldsEarlierChanges { donor_lsn } => {
                write!(
                    f,
                    "the donor has every change before its redo point {donor_lsn}, and WAL has the checkpoint \
                    of that point"
                )
            }
            Self::DonorCheckpointMissing { checkpoint_lsn } => write!(
                f,
                "WAL lacks the donor's checkpoint record at {checkpoint_lsn}, so the changes in the donor are unproven"
            ),
            Self::DonorCheckpointDiffers { checkpoint_lsn } => write!(
                f,
                "WAL has no checkpoint with the donor's redo point at {checkpoint_lsn}, although the donor refers to \
                 one: the donor has a different history"
            ),
            Self::DonorOlderThanDisk { page_lsn, disk_lsn, donor_lsn } => write!(
                f,
                "the damaged page has LSN {disk_lsn}, before the donor's redo point {donor_lsn}, and the donor has an \
                 older page, {page_lsn}: its files are not from the same point in time"
            ),
            Self::DonorOfOneMomentUnknown { page_lsn, donor_lsn } => write!(
                f,
                "the donor was copied from a running or crashed server, so it is unproven that its files have every \
                    change before {donor_lsn}: WAL after its LSN {page_lsn} is needed"
            ),
            Self::DonorMayLackRecord(record) => {
                write!(f, "{record} changes the page, and its LSN does not show that the donor has that change")
            }
            Self::DonorMayBeOlder(event) => {
                write!(f, "{event}, and nothing shows that the donor's file is newer than that")
            }
            Self::DonorNotBeforeRedo { donor_lsn, redo_lsn } => write!(
                f,
                "the donor's redo point {donor_lsn} is at or after the redo point {redo_lsn}: it has every change \
                    that recovery does not reapply"
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
            Self::HoldsNextChange { lsn } => write!(f, "it already contains the change of the record at {lsn}"),
        }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChecksumWrong => f.write_str("its page checksum is invalid, and this kind of buffer always sets it"),
            Self::ImageAllZero => f.write_str("the image is zero-filled: it was taken before the page was filled"),
            Self::NotAMapPage => {
                f.write_str("it has line pointers or tuples, which no map page has: another page's content")
            }
            Self::OtherSpecialSpace { own, expected } => write!(
                f,
                "its special space has {own} bytes, but {expected} on other pages of the relation: another page's \
                 content"
            ),
            Self::OtherBlock(why) => why.fmt(f),
            Self::OtherRecordsReplayed { expected, found } => {
                write!(f, "{found} records of the page were applied, but WAL has {expected}")
            }
            Self::OtherLsnThanPlanned { expected, found } => {
                write!(f, "its LSN is {found}, but the last record of the page ends at {expected}")
            }
            Self::TooManyImages => f.write_str("WAL has too many images to check this one"),
            Self::UnloggedInDonor => f.write_str("the relation is unlogged, so later changes are unknown"),
            Self::DonorAfterSwitch { page_lsn, switch_lsn } => {
                write!(f, "its LSN {page_lsn} is after {switch_lsn}, where the timelines of donor and cluster diverge")
            }
        }
    }
}

impl fmt::Display for OtherBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsMetapage => f.write_str("it is a metapage, but only block 0 can be one"),
            Self::IsNotMetapage => f.write_str("it is not a metapage, but block 0 must be one"),
            Self::IsLeaf => f.write_str("it is a leaf, but the record at its LSN belongs to a block above the leaves"),
            Self::IsNotLeaf => f.write_str("it is not a leaf, but the record at its LSN belongs to a leaf"),
            Self::RowsNameOtherBlock { block, found } => {
                write!(f, "none of its rows refers to block {block}; the first refers to {found}")
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
            Self::MayHoldNextChange(record) => {
                write!(f, "it was copied without a lock, and may or may not contain the change of {record}")
            }
            Self::SameLsnAsBlocks { lsn, blocks } => {
                let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
                ambiguous(f, lsn, &format!("block {}", blocks.join(", ")))
            }
            Self::SequenceValue => f.write_str(
                "a sequence returns up to 32 values without a WAL record or new LSN: it may return them again",
            ),
            Self::SameLsnAsOtherFork { lsn } => ambiguous(f, lsn, "a page of another fork"),
        }
    }
}
