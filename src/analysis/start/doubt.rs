//! Reasons against the verdict "safe" for any page: evidence is missing, or contradicts it.
//! One doubt is different: where WAL may have lost its end, WAL before that is proven nevertheless.

use std::path::PathBuf;

use strum::{IntoStaticStr, VariantNames};

use crate::analysis::error_words::{ErrorCause, ErrorWords};
use crate::analysis::skipped::Skipped;
use crate::analysis::start::belonging::Contradiction;
use crate::cluster::wal_marks::WalMark;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::version::UnknownMagic;
use crate::report::Finding;
use crate::types::{BlockNumber, Lsn, PageId};

/// Evidence of how far WAL was written: a server writes WAL up to the LSN of a page before it writes the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LsnWitness {
    /// A page of a relation.
    Page {
        /// Which one.
        page: PageId,
        /// Name of the relation.
        relation: String,
    },
    /// A page of a file.
    InFile {
        /// Path of the file, relative to the data directory.
        path: String,
        /// Block within the fork.
        block: BlockNumber,
    },
    /// An image in the double write buffer.
    Slot {
        /// Name of the file.
        file: String,
        /// Index of the slot in the file.
        slot_index: u64,
    },
}

/// Evidence that WAL was written past the end of `pg_wal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalWitness {
    /// A segment from elsewhere that continues with WAL of this cluster.
    Segment {
        /// The file.
        file: String,
        /// WAL that lies there.
        lsn: Lsn,
    },
    /// A name in the data directory.
    Mark(WalMark),
}

/// Why pages were not read for their LSNs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// The paths of relation files are not known.
    PathsUnknown,
    /// The check of the whole cluster failed.
    CheckFailed(ErrorWords),
    /// The page that was asked about is sound and needs no image.
    PageIsSound,
}

/// One reason why no image is called safe. Reports print the sentence; programs compare the variant or its code.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Doubt {
    /// A server may be writing while files are read.
    MayBeRunning,
    /// The user broke the check off.
    BrokenOff,
    /// The user broke the reading of WAL off.
    WalBrokenOff,
    /// Not all pages could be read for their LSNs.
    PagesNotRead {
        /// Why not.
        why: NotRead,
    },
    /// `pg_control` is missing or damaged.
    ControlNotTrusted,
    /// `pg_control` has a version that this program does not know.
    ControlOfUnknownVersion {
        /// The version.
        version: u32,
        /// Its CRC is right: the file is as it was written.
        is_signed: bool,
    },
    /// `pg_control` was written by a machine with the other byte order.
    ControlOfOtherByteOrder,
    /// There is a `backup_label`.
    BaseBackup,
    /// There is a `backup_label` that cannot be read.
    BackupLabelUnreadable,
    /// `pg_control` was written by `pg_resetwal`.
    WalWasReset,
    /// `pg_control` waits for the end of a backup.
    BackupEndNotReached,
    /// Signal files other than those for a standby or for archive recovery.
    OtherSignals {
        /// Their names.
        names: Vec<&'static str>,
        /// Recovery is asked for, and `pg_wal` has the history of a timeline later than that of `pg_control`.
        has_later_history: bool,
    },
    /// `pg_wal` has no segment of this cluster.
    NoWal,
    /// WAL that startup needs exists, in a version that this program does not know.
    WalOfUnknownVersion {
        /// Magic of the pages of the first of these segments.
        magic: UnknownMagic,
        /// How many segments.
        segments: usize,
    },
    /// WAL that startup needs exists, but this user may not open it.
    WalDenied {
        /// The first file.
        first: PathBuf,
        /// How many more there are.
        more: usize,
    },
    /// A segment cannot be read.
    WalUnreadable {
        /// Error of the system.
        error: ErrorWords,
    },
    /// WAL was read up to a segment that cannot be read.
    WalEndUnreadable {
        /// Error of the system.
        error: ErrorWords,
    },
    /// No segment holds the redo point.
    NoWalAtRedo {
        /// The redo point.
        redo_lsn: Lsn,
    },
    /// The segment is there, a record is not.
    NoRecordAtRedo {
        /// The redo point.
        redo_lsn: Lsn,
        /// The header that the segment begins with is damaged, which a server reads before the record.
        is_headless: bool,
    },
    /// A cluster that was shut down has WAL after the checkpoint of the shutdown.
    WalAfterShutdown {
        /// The checkpoint.
        redo_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// WAL follows the end of what replay will read, and what lies between had been synced.
    RecordsFollow {
        /// How the part that replay reads ends.
        end: EndOfWal,
        /// The first sound record after it.
        first_lsn: Lsn,
    },
    /// WAL follows the end of what replay will read, and nothing shows that what lies between had been synced. A power
    /// cut leaves that. Images are proven by WAL before the hole, so it forbids none.
    HoleAtEnd {
        /// How the part that replay reads ends.
        end: EndOfWal,
        /// The first sound record after it.
        first_lsn: Lsn,
    },
    /// The end of WAL moved while it was read.
    WalChanging {
        /// Where it ended the last time.
        end_lsn: Lsn,
    },
    /// `pg_control` names an address past the end.
    BeforeKnownEnd {
        /// How WAL ends.
        end: EndOfWal,
        /// Address that was written.
        known_lsn: Lsn,
    },
    /// WAL that was written after the end of `pg_wal` is elsewhere, or a file says that there was more.
    EndMissing {
        /// How WAL ends.
        end: EndOfWal,
        /// The evidence.
        witness: WalWitness,
    },
    /// The last record continues in a segment that is missing or incomplete.
    EndCutOff {
        /// How WAL ends.
        end: EndOfWal,
        /// The segment.
        segment: String,
        /// Its first byte.
        start_lsn: Lsn,
        /// It is there, and shorter than a segment.
        is_there: bool,
    },
    /// A segment is missing, later ones are there.
    SegmentMissing {
        /// How the part before it ends.
        end: EndOfWal,
    },
    /// WAL does not reach the last checkpoint.
    EndsBeforeCheckpoint {
        /// Where WAL ends.
        end_lsn: Lsn,
        /// The last checkpoint, by `pg_control`.
        checkpoint_lsn: Lsn,
    },
    /// Another record is where `pg_control` has the last checkpoint.
    NotTheCheckpoint {
        /// Where it is by `pg_control`.
        checkpoint_lsn: Lsn,
    },
    /// `backup_label` names a checkpoint that WAL does not hold, or none.
    NotTheCheckpointOfTheLabel,
    /// WAL does not reach the point from which a standby is consistent.
    EndsBeforeConsistency {
        /// Where WAL ends.
        end_lsn: Lsn,
        /// The least address.
        least_lsn: Lsn,
    },
    /// The state says that the cluster was shut down, the checkpoint does not.
    NotAShutdownCheckpoint,
    /// A page has an LSN past the end of WAL: the server had written WAL up to there before the page.
    PageAfterEnd {
        /// Which page or image.
        witness: LsnWitness,
        /// Its LSN.
        page_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// Something of the cluster was not read. It could have shown that WAL is missing, or that an image is not the last.
    SomethingUnread {
        /// The first thing, and why it was not read.
        first: Skipped,
        /// How many more there are.
        more: usize,
    },
    /// Files of a relation are missing or too short: the pages in them cannot show up to where WAL was written.
    RelationIncomplete {
        /// The first file.
        file: String,
        /// The missing part.
        missing: Box<Finding>,
        /// How many more there are.
        more: usize,
    },
    /// Pages of a table, its indexes or its TOAST table stay as they are, so that pages put back beside them would be of
    /// another time. A doubt about the pages of that table alone.
    TableStaysBehind {
        /// Name of the relation of the first of them.
        relation: String,
        /// The first of them.
        page: PageId,
        /// How many more there are.
        more: usize,
    },
    /// Damaged pages of which not even an LSN is left, neither on disk nor in the double write buffer.
    SilentPages {
        /// The first of them.
        witness: LsnWitness,
        /// How many more there are.
        more: usize,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// `pg_control` says that data checksums are off, and pages carry those that a server computed since its last start.
    ChecksumsContradict,
    /// The double write buffer is newer than `pg_control`.
    DwbNewerThanControl,
    /// Files of the cluster do not belong together.
    NotOneCluster {
        /// Why.
        cause: Box<Contradiction>,
    },
    /// Recovery follows the newest timeline, and looks for it where nobody looked here.
    HistoriesElsewhere,
    /// The bytes are read by a description that was never compared with files of a server.
    LayoutNotSeen,
}

impl Doubt {
    /// True when no image may be called safe because of it.
    pub(crate) const fn forbids_restore(&self) -> bool {
        !matches!(self, Self::HoleAtEnd { .. } | Self::HistoriesElsewhere)
    }

    /// Doubt about unread parts, if any. A part that is unread because of `pg_control` is not one more reason where `doubts` name it.
    pub(crate) fn of_unread(skipped: &[Skipped], doubts: &[Self]) -> Option<Self> {
        let names_control = doubts.contains(&Self::ControlNotTrusted);
        let mut unread = skipped.iter().filter(|skipped| !names_control || !skipped.reason.is_of_control());
        let first = unread.next()?.clone();
        Some(Self::SomethingUnread { first, more: unread.count() })
    }

    /// True when an unread part could affect startup.
    pub(crate) const fn is_of_unread(&self) -> bool {
        matches!(
            self,
            Self::SomethingUnread { .. }
                | Self::PagesNotRead { .. }
                | Self::WalUnreadable { .. }
                | Self::WalOfUnknownVersion { .. }
                | Self::WalDenied { .. }
                | Self::WalEndUnreadable { .. }
                | Self::BrokenOff
                | Self::WalBrokenOff
        )
    }

    /// True when WAL had been written past the end that replay will find, or may have been: what was committed there is lost
    /// with a start.
    pub(crate) const fn shows_missing_end(&self) -> bool {
        matches!(
            self,
            Self::RecordsFollow { .. }
                | Self::BeforeKnownEnd { .. }
                | Self::EndMissing { .. }
                | Self::EndCutOff { .. }
                | Self::SegmentMissing { .. }
                | Self::EndsBeforeConsistency { .. }
                | Self::PageAfterEnd { .. }
        )
    }

    /// True when pages are newer than the checkpoint of a shutdown.
    pub(crate) fn is_of_other_time(&self) -> bool {
        matches!(self, Self::NotOneCluster { cause } if matches!(**cause, Contradiction::PageAfterShutdown { .. }))
    }

    /// An address up to which WAL had been written, where that is known: past the end that replay will find.
    pub(crate) fn written_until(&self) -> Option<Lsn> {
        match self {
            Self::BeforeKnownEnd { known_lsn, .. } => Some(*known_lsn),
            Self::EndMissing { witness: WalWitness::Segment { lsn, .. }, .. } => Some(*lsn),
            Self::EndMissing { witness: WalWitness::Mark(mark), .. } => Some(mark.reaches),
            Self::EndsBeforeConsistency { least_lsn, .. } => Some(*least_lsn),
            Self::PageAfterEnd { page_lsn, .. } => Some(*page_lsn),
            // A byte of the segment that is missing.
            Self::EndCutOff { start_lsn, .. } => Some(start_lsn.advanced_by(1)),
            _ => None,
        }
    }

    /// True when WAL that startup needs exists, but this user may not read it.
    pub(crate) fn is_of_denied_wal(&self) -> bool {
        match self {
            Self::WalDenied { .. } => true,
            Self::WalUnreadable { error } | Self::WalEndUnreadable { error } => {
                error.cause().is_some_and(ErrorCause::is_denied)
            }
            _ => false,
        }
    }

    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
    /// The codes of all doubts that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied()
    }
}
