//! What is doubtful about a cluster.

use std::fmt;

use crate::analysis::verdict::doubt::{Doubt, LsnWitness, NotRead, WalWitness};
use crate::cluster::wal_marks::WalMarkKind;
use crate::parsers::control_layout::ControlLayout;

/// How many more there are than the one that was named.
struct AndMore(usize);

impl fmt::Display for AndMore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " (and {} more)", self.0) }
    }
}

impl fmt::Display for LsnWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { page, relation } => write!(f, "the {} page at block {} of {relation}", page.fork, page.block),
            Self::InFile { path, block } => write!(f, "{path} block {block}"),
            Self::Slot { file, slot_index } => write!(f, "the image in {file} slot {slot_index}"),
        }
    }
}

impl fmt::Display for WalWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment { file, lsn } => write!(f, "{file} holds WAL of this cluster up to {lsn}"),
            Self::Mark(mark) => {
                let what = match mark.kind {
                    WalMarkKind::Ready => "shows that the segment had been written to its end,",
                    WalMarkKind::Done => "shows that there was WAL up to",
                    WalMarkKind::Summary => "shows that there was WAL up to its end,",
                };
                write!(f, "{} {what} {}", mark.file.display(), mark.reaches)
            }
        }
    }
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathsUnknown => f.write_str("their paths are unknown"),
            Self::CheckFailed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MayBeRunning => {
                f.write_str("a server may be running on this directory, and files change while they are read")
            }
            Self::BrokenOff => f.write_str("the check was interrupted"),
            Self::WalBrokenOff => f.write_str("reading of WAL was interrupted"),
            Self::PagesNotRead { why } => {
                write!(f, "not all pages were examined for LSNs past the end of WAL: {why}")
            }
            Self::ControlNotTrusted => {
                f.write_str("pg_control cannot be trusted, so it is unknown where replay begins")
            }
            Self::ControlOfUnknownVersion { version, is_signed: true } => write!(
                f,
                "pg_control is whole (its CRC is right) and of version {}, which this program does not know, so where \
                 replay begins is unknown",
                named_version(*version)
            ),
            Self::ControlOfUnknownVersion { version, is_signed: false } => write!(
                f,
                "pg_control is of version {}, which this program does not know, so where replay begins is unknown; \
                 whether the file is whole is unknown too",
                named_version(*version)
            ),
            Self::ControlOfOtherByteOrder => f.write_str(
                "pg_control was written by a machine with the other byte order, so where replay begins is unknown",
            ),
            Self::BaseBackup => {
                f.write_str("the directory is a base backup: its files were copied while a server was writing")
            }
            Self::BackupLabelUnreadable => f.write_str(
                "backup_label cannot be read, or does not say where replay begins: a server refuses to start with it",
            ),
            Self::WalWasReset => f.write_str("pg_resetwal was run: WAL from before it says nothing about this cluster"),
            Self::BackupEndNotReached => f.write_str("a restored backup has not reached the end of the backup yet"),
            Self::OtherSignals { names, has_later_history } => {
                let history = has_later_history.then_some("the history of a later timeline in pg_wal");
                let all: Vec<&str> = names.iter().copied().chain(history).collect();
                write!(f, "{} changes what recovery does", all.join(", "))
            }
            Self::NoWal => f.write_str("pg_wal holds no WAL of this cluster"),
            Self::WalOfUnknownVersion { magic, segments } => {
                let noun = if *segments == 1 { "segment" } else { "segments" };
                write!(f, "{segments} {noun} of WAL in pg_wal cannot be read by this program: {magic}")
            }
            Self::WalDenied { first, more } => {
                write!(
                    f,
                    "WAL that a start may need cannot be opened by this user: {}{}",
                    first.display(),
                    AndMore(*more)
                )
            }
            Self::WalUnreadable { error } => write!(f, "WAL cannot be read: {error}"),
            Self::WalEndUnreadable { error } => write!(f, "WAL cannot be read to its end: {error}"),
            Self::NoWalAtRedo { redo_lsn } => write!(f, "WAL from the redo point {redo_lsn} on is missing"),
            Self::NoRecordAtRedo { redo_lsn, is_headless: true } => write!(
                f,
                "the segment with the redo point {redo_lsn} begins with a damaged page header: no server reads a record of it"
            ),
            Self::NoRecordAtRedo { redo_lsn, .. } => {
                write!(f, "there is no valid record at the redo point {redo_lsn}")
            }
            Self::WalAfterShutdown { redo_lsn, end_lsn } => write!(
                f,
                "the state is \"shut down\" at {redo_lsn}, yet WAL continues after it to {end_lsn}: pg_control is outdated"
            ),
            Self::RecordsFollow { end, first_lsn } => {
                write!(f, "{end}, yet valid records follow from {first_lsn} on: the WAL in between is damaged")
            }
            Self::HoleAtEnd { end, first_lsn } => write!(
                f,
                "{end}, yet valid records follow from {first_lsn} on. Nothing shows that the WAL in between had been \
                 synced: after a power cut, or a stop under load, this is normal and nothing committed is lost; if WAL was damaged, what \
                 was committed after {} is lost when the server is started",
                end.at
            ),
            Self::WalChanging { end_lsn } => {
                write!(f, "WAL changed while it was read, up to {end_lsn}: a server is writing it")
            }
            Self::BeforeKnownEnd { end, known_lsn } => {
                write!(f, "{end}, yet pg_control shows that there was WAL at {known_lsn}")
            }
            Self::EndMissing { end, witness } => write!(
                f,
                "in pg_wal {end}, yet {witness}: what was committed after {} is lost when the server is started without it",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::EndCutOff { end, segment, is_there: true, .. } => write!(
                f,
                "{end}, inside a record of segment {segment}, whose file is too short: what was committed after {} is lost when the \
                 server is started",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::EndCutOff { end, segment, is_there: false, .. } => write!(
                f,
                "{end}, inside a record that goes on in segment {segment}, which is missing. A crash can leave that when it comes \
                 between the two segments; if WAL was removed, what was committed after {} is lost when the server is started",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::SegmentMissing { end } => write!(f, "{end}; the next segment is missing, but later ones are there"),
            Self::EndsBeforeCheckpoint { end_lsn, checkpoint_lsn } => {
                write!(f, "WAL ends at {end_lsn}, before the checkpoint record at {checkpoint_lsn}")
            }
            Self::NotTheCheckpoint { checkpoint_lsn } => {
                write!(f, "the record at {checkpoint_lsn} is not the checkpoint that pg_control names")
            }
            Self::NotTheCheckpointOfTheLabel => {
                f.write_str("the record that backup_label calls the checkpoint of the backup is missing")
            }
            Self::EndsBeforeConsistency { end_lsn, least_lsn } => {
                write!(f, "WAL ends at {end_lsn}, but the cluster is consistent only from {least_lsn} on")
            }
            Self::NotAShutdownCheckpoint => {
                f.write_str("the state is \"shut down\", but the last checkpoint is not one of a shutdown")
            }
            Self::PageAfterEnd { witness, page_lsn, end_lsn } => {
                write!(
                    f,
                    "{witness} has LSN {page_lsn}, but WAL ends at {end_lsn}: WAL that had been written is missing"
                )
            }
            Self::SomethingUnread { first, more } => {
                write!(f, "not all of the cluster was read: {}: {}{}", first.what, first.why(), AndMore(*more))
            }
            Self::RelationIncomplete { file, missing, more } => write!(
                f,
                "{file}: {missing}, so its pages cannot show whether more WAL had been written{}",
                AndMore(*more)
            ),
            Self::TableStaysBehind { relation, page, more } => write!(
                f,
                "block {} of {relation}{} cannot be put back: the table, its indexes and its TOAST table would be of two \
                 different times",
                page.block,
                AndMore(*more)
            ),
            Self::SilentPages { witness, more, end_lsn } => write!(
                f,
                "nothing is left of {witness}{}, not even an LSN, so it cannot show whether WAL had been written past \
                 {end_lsn}",
                AndMore(*more)
            ),
            Self::NotOneCluster { cause } => write!(f, "the files do not belong together (problem {})", cause.code()),
            Self::HistoriesElsewhere => f.write_str(
                "recovery follows the newest timeline that restore_command finds, and that place was not examined: name it with --wal",
            ),
            Self::ChecksumsContradict => f.write_str(
                "pg_control says that data checksums are off, and the pages say that it is not of this cluster or was changed",
            ),
            Self::DwbNewerThanControl => {
                f.write_str("the double write buffer is newer than pg_control: they are not of the same cluster state")
            }
            Self::LayoutNotSeen => f.write_str("double write buffers in pg_dwb were seen on servers with version 1802 of pg_control alone, and this is another"),
        }
    }
}

/// A version of `pg_control` that is not read, with what is known of it.
pub(in crate::output) fn named_version(version: u32) -> String {
    let of = |meaning| format!("{version} ({meaning})");
    ControlLayout::meaning(version).map_or_else(|| version.to_string(), of)
}
