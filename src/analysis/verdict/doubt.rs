//! What keeps the verdict "safe" from being given to any page: a part of the evidence is missing, or speaks against it.
//! One doubt is of another kind: where WAL may have lost its end, what lies before that is proven all the same.

use crate::analysis::skipped::Skipped;
use crate::parsers::wal::end::EndOfWal;
use crate::types::Lsn;

/// One reason why no image is called safe. Reports print the sentence; programs compare the variant or its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// A server may be writing while files are read.
    #[error("a server may be running on this directory, and files change while they are read")]
    MayBeRunning,
    /// The user broke the check off.
    #[error("the check was broken off")]
    BrokenOff,
    /// The user broke the reading of WAL off.
    #[error("reading of WAL was broken off")]
    WalBrokenOff,
    /// Pages were to be read for their LSNs, and not all were.
    #[error("not all pages were looked at for LSNs past the end of WAL: {why}")]
    PagesNotRead {
        /// Why not.
        why: String,
    },
    /// `pg_control` is missing or damaged.
    #[error("pg_control cannot be trusted, so it is not known where replay begins")]
    ControlNotTrusted,
    /// There is a `backup_label`.
    #[error("the directory is a base backup: its files were copied while a server was writing")]
    BaseBackup,
    /// There is a `backup_label` that cannot be read.
    #[error("backup_label cannot be read, so it is not known where replay begins")]
    BackupLabelUnreadable,
    /// `pg_control` was written by `pg_resetwal`.
    #[error("pg_resetwal was run: WAL from before it says nothing about this cluster")]
    WalWasReset,
    /// `pg_control` waits for the end of a backup.
    #[error("a restored backup has not reached the end of the backup yet")]
    BackupEndNotReached,
    /// Signal files other than those for a standby or for archive recovery.
    #[error("{names} changes what recovery does")]
    OtherSignals {
        /// Their names.
        names: String,
    },
    /// `pg_wal` has no segment of this cluster.
    #[error("pg_wal holds no WAL of this cluster")]
    NoWal,
    /// A segment cannot be read.
    #[error("WAL cannot be read: {error}")]
    WalUnreadable {
        /// The system's words.
        error: String,
    },
    /// WAL was read up to a segment that cannot be read.
    #[error("WAL cannot be read to its end: {error}")]
    WalEndUnreadable {
        /// The system's words.
        error: String,
    },
    /// No segment holds the redo point.
    #[error("WAL from the redo point {redo_lsn} on is not there")]
    NoWalAtRedo {
        /// The redo point.
        redo_lsn: Lsn,
    },
    /// The segment is there, a record is not.
    #[error("there is no valid record at the redo point {redo_lsn}")]
    NoRecordAtRedo {
        /// The redo point.
        redo_lsn: Lsn,
    },
    /// A cluster that was shut down has WAL after the checkpoint of the shutdown.
    #[error("the state is \"shut down\" at {redo_lsn}, yet WAL goes on after it to {end_lsn}: pg_control is too old")]
    WalAfterShutdown {
        /// The checkpoint.
        redo_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// WAL follows the place where replay will end, and what lies between had been synced.
    #[error("{end}, yet sound records go on at {first_lsn}: WAL between is damaged")]
    RecordsFollow {
        /// How the part that replay reads ends.
        end: EndOfWal,
        /// The first sound record after it.
        first_lsn: Lsn,
    },
    /// WAL follows the place where replay will end, and nothing shows that what lies between had been synced. A power
    /// cut leaves that. Images are proven by WAL before the place, so it forbids none.
    #[error(
        "{end}, yet sound records go on at {first_lsn}. Nothing shows that WAL between had been synced: after a power cut \
         this is normal and nothing committed is lost; after damage to WAL, what was committed after {} is lost when \
         the server is started",
        end.at
    )]
    HoleAtEnd {
        /// How the part that replay reads ends.
        end: EndOfWal,
        /// The first sound record after it.
        first_lsn: Lsn,
    },
    /// The end of WAL moved between two looks at it.
    #[error("WAL changed while it was read, up to {end_lsn}: a server is writing it")]
    WalChanging {
        /// Where it ended the last time.
        end_lsn: Lsn,
    },
    /// `pg_control` names an address past the end.
    #[error("{end}, yet pg_control knows of WAL at {known_lsn}")]
    BeforeKnownEnd {
        /// How WAL ends.
        end: EndOfWal,
        /// Address that was written.
        known_lsn: Lsn,
    },
    /// A segment is missing, later ones are there.
    #[error("{end}; a segment is missing after it, later ones are there")]
    SegmentMissing {
        /// How the part before it ends.
        end: EndOfWal,
    },
    /// WAL does not reach the last checkpoint.
    #[error("WAL ends at {end_lsn}, before the checkpoint record at {checkpoint_lsn}")]
    EndsBeforeCheckpoint {
        /// Where WAL ends.
        end_lsn: Lsn,
        /// The last checkpoint, by `pg_control`.
        checkpoint_lsn: Lsn,
    },
    /// Another record is where `pg_control` has the last checkpoint.
    #[error("the record at {checkpoint_lsn} is not the checkpoint that pg_control speaks of")]
    NotTheCheckpoint {
        /// Its place, by `pg_control`.
        checkpoint_lsn: Lsn,
    },
    /// `backup_label` names a checkpoint that WAL does not hold, or none.
    #[error("the record that backup_label calls the checkpoint of the backup is not there")]
    NotTheCheckpointOfTheLabel,
    /// WAL does not reach the point from which a standby is consistent.
    #[error("WAL ends at {end_lsn}, but the cluster is consistent only from {least_lsn} on")]
    EndsBeforeConsistency {
        /// Where WAL ends.
        end_lsn: Lsn,
        /// The least address.
        least_lsn: Lsn,
    },
    /// The state says that the cluster was shut down, the checkpoint does not.
    #[error("the state is \"shut down\", but the last checkpoint is not one of a shutdown")]
    NotAShutdownCheckpoint,
    /// A page has an LSN past the end of WAL: the server had written WAL up to there before the page.
    #[error("{page} has LSN {page_lsn}, but WAL ends at {end_lsn}: WAL that had been written is missing")]
    PageAfterEnd {
        /// Which page or image.
        page: String,
        /// Its LSN.
        page_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// Something of the cluster was not read. It could have told that WAL is missing, or that an image is not the last.
    #[error("{}", unread_words(what, reason, *more))]
    SomethingUnread {
        /// The first thing.
        what: String,
        /// Why it was not read.
        reason: String,
        /// How many more there are.
        more: usize,
    },
    /// Files of a relation are missing or too short: the pages in them cannot tell up to where WAL was written.
    #[error("{file}: {what}, so its pages cannot tell whether WAL had been written further{}", and_more(*more))]
    RelationIncomplete {
        /// The first file.
        file: String,
        /// What is missing.
        what: String,
        /// How many more there are.
        more: usize,
    },
    /// Damaged pages of which not even an LSN is left, neither on disk nor in the double write buffer.
    #[error(
        "nothing is left of {page}{}, not even an LSN, so it cannot tell whether WAL had been written further than \
         {end_lsn}", and_more(*more)
    )]
    SilentPages {
        /// The first of them.
        page: String,
        /// How many more there are.
        more: usize,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// The double write buffer is of a later time than `pg_control`.
    #[error("the double write buffer is newer than pg_control: they do not belong together")]
    DwbNewerThanControl,
    /// The bytes are read by a description that was never compared with files of a server.
    #[error("layout known from its description, not seen on a live server")]
    LayoutNotSeen,
}

fn unread_words(what: &str, reason: &str, more: usize) -> String {
    format!("not all of the cluster was read: {what}: {reason}{}", and_more(more))
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

impl Doubt {
    /// True when no image may be called safe because of it.
    #[must_use]
    pub const fn forbids_restore(&self) -> bool {
        !matches!(self, Self::HoleAtEnd { .. })
    }

    /// That something was not read; `None` when everything was.
    #[must_use]
    pub fn of_unread(skipped: &[Skipped]) -> Option<Self> {
        let first = skipped.first()?;
        let (what, reason) = (first.what.to_string(), first.why());
        Some(Self::SomethingUnread { what, reason, more: skipped.len().saturating_sub(1) })
    }

    /// True when something was not read that could bear on what a start brings.
    #[must_use]
    pub const fn is_of_unread(&self) -> bool {
        matches!(
            self,
            Self::SomethingUnread { .. }
                | Self::PagesNotRead { .. }
                | Self::WalUnreadable { .. }
                | Self::WalEndUnreadable { .. }
                | Self::BrokenOff
                | Self::WalBrokenOff
        )
    }

    /// Stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MayBeRunning => "may_be_running",
            Self::BrokenOff => "broken_off",
            Self::WalBrokenOff => "wal_broken_off",
            Self::PagesNotRead { .. } => "pages_not_read",
            Self::ControlNotTrusted => "control_not_trusted",
            Self::BaseBackup => "base_backup",
            Self::BackupLabelUnreadable => "backup_label_unreadable",
            Self::WalWasReset => "wal_was_reset",
            Self::BackupEndNotReached => "backup_end_not_reached",
            Self::OtherSignals { .. } => "other_signals",
            Self::NoWal => "no_wal",
            Self::WalUnreadable { .. } => "wal_unreadable",
            Self::WalEndUnreadable { .. } => "wal_end_unreadable",
            Self::NoWalAtRedo { .. } => "no_wal_at_redo",
            Self::NoRecordAtRedo { .. } => "no_record_at_redo",
            Self::WalAfterShutdown { .. } => "wal_after_shutdown",
            Self::RecordsFollow { .. } => "records_follow",
            Self::HoleAtEnd { .. } => "hole_at_end",
            Self::WalChanging { .. } => "wal_changing",
            Self::BeforeKnownEnd { .. } => "before_known_end",
            Self::SegmentMissing { .. } => "segment_missing",
            Self::EndsBeforeCheckpoint { .. } => "ends_before_checkpoint",
            Self::NotTheCheckpoint { .. } => "not_the_checkpoint",
            Self::NotTheCheckpointOfTheLabel => "not_the_checkpoint_of_the_label",
            Self::EndsBeforeConsistency { .. } => "ends_before_consistency",
            Self::NotAShutdownCheckpoint => "not_a_shutdown_checkpoint",
            Self::PageAfterEnd { .. } => "page_after_end",
            Self::SomethingUnread { .. } => "something_unread",
            Self::RelationIncomplete { .. } => "relation_incomplete",
            Self::SilentPages { .. } => "silent_pages",
            Self::DwbNewerThanControl => "dwb_newer_than_control",
            Self::LayoutNotSeen => "layout_not_seen",
        }
    }
}
