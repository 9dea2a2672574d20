//! Doubts about a cluster.

use std::fmt;

use crate::analysis::start::doubt::{Doubt, LsnWitness, NotRead, WalWitness};
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
            Self::Segment { file, lsn } => write!(f, "{file} contains WAL of this cluster up to {lsn}"),
            Self::Mark(mark) => {
                let what = match mark.kind {
                    WalMarkKind::Ready => "shows that the segment had been written to its end,",
                    WalMarkKind::Done => "shows that WAL reached",
                    WalMarkKind::Summary => "shows that WAL reached its end,",
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
            Self::PageIsSound => f.write_str("this page is intact and needs no image"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MayBeRunning => {
                f.write_str("a server may be running in this directory; files may change while they are read")
            }
            Self::BrokenOff => f.write_str("the check was interrupted"),
            Self::WalBrokenOff => f.write_str("reading of WAL was interrupted"),
            Self::PagesNotRead { why } => {
                write!(f, "not all pages were checked for LSNs past the end of WAL: {why}")
            }
            Self::ControlNotTrusted => {
                f.write_str("pg_control is missing, unreadable or damaged, so the redo point is unknown")
            }
            Self::ControlOfUnknownVersion { version, is_signed: true } => write!(
                f,
                "pg_control is intact (its CRC is valid), but has version {}, which this program does not know, so \
                 the redo point is unknown",
                named_version(*version)
            ),
            Self::ControlOfUnknownVersion { version, is_signed: false } => write!(
                f,
                "pg_control has version {}, which this program does not know, so the redo point is unknown; the file \
                 may also be damaged",
                named_version(*version)
            ),
            Self::ControlOfOtherByteOrder => f.write_str(
                "pg_control was written on a machine with the other byte order, so the redo point is unknown",
            ),
            Self::BaseBackup => {
                f.write_str("base backup: files were copied while the server was running, so no image counts as proven")
            }
            Self::BackupLabelUnreadable => {
                f.write_str("backup_label cannot be read, or has no redo point: the server refuses to start with it")
            }
            Self::WalWasReset => f.write_str("pg_resetwal was run: older WAL proves nothing about this cluster"),
            Self::BackupEndNotReached => f.write_str("a restored backup has not reached the end of the backup yet"),
            Self::OtherSignals { names, has_later_history } => {
                let history = has_later_history.then_some("the history of a later timeline in pg_wal");
                let all: Vec<&str> = names.iter().copied().chain(history).collect();
                write!(f, "{} changes how recovery works", all.join(", "))
            }
            Self::NoWal => f.write_str("pg_wal contains no WAL of this cluster"),
            Self::WalOfUnknownVersion { magic, segments } => {
                let noun = if *segments == 1 { "segment" } else { "segments" };
                write!(f, "{segments} {noun} of WAL in pg_wal cannot be read by this program: {magic}")
            }
            Self::WalDenied { first, more } => {
                write!(f, "this user may not read WAL that startup may need: {}{}", first.display(), AndMore(*more))
            }
            Self::WalUnreadable { error } => write!(f, "WAL cannot be read: {error}"),
            Self::WalEndUnreadable { error } => write!(f, "WAL cannot be read to its end: {error}"),
            Self::NoWalAtRedo { redo_lsn } => write!(f, "WAL is missing at the redo point {redo_lsn}"),
            Self::NoRecordAtRedo { redo_lsn, is_headless: true } => write!(
                f,
                "the segment with the redo point {redo_lsn} begins with a damaged page header: the server reads no \
                    record of it"
            ),
            Self::NoRecordAtRedo { redo_lsn, .. } => {
                write!(f, "no valid record exists at the redo point {redo_lsn}")
            }
            Self::WalAfterShutdown { redo_lsn, end_lsn } => {
                write!(f, "pg_control is outdated: it says \"shut down\" at {redo_lsn}, but WAL continues to {end_lsn}")
            }
            Self::RecordsFollow { end, first_lsn } => {
                write!(f, "WAL is damaged: {end}, but valid records follow at {first_lsn}")
            }
            Self::HoleAtEnd { end, first_lsn } => write!(
                f,
                "{end}, and valid records follow at {first_lsn}. Normal after a power failure or a stop under load, \
                 when the WAL in between was not synced: nothing committed is lost. If WAL was damaged instead, \
                 everything committed after {} is lost at startup",
                end.at
            ),
            Self::WalChanging { end_lsn } => {
                write!(f, "WAL changed while it was read, up to {end_lsn}: a server is writing it")
            }
            Self::BeforeKnownEnd { end, known_lsn } => {
                write!(f, "WAL is missing: {end}, but pg_control shows that WAL reached {known_lsn}")
            }
            Self::EndMissing { end, witness } => write!(
                f,
                "in pg_wal {end}, but {witness}. Starting now loses everything committed after {}",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::EndCutOff { end, segment, is_there: true, .. } => write!(
                f,
                "{end}, inside a record of segment {segment}, whose file is too short. Starting now loses everything \
                 committed after {}",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::EndCutOff { end, segment, is_there: false, .. } => write!(
                f,
                "{end}, inside a record that continues in segment {segment}, which is missing. A crash between the \
                 two segments can leave this. If WAL was removed instead, everything committed after {} is lost at \
                 startup",
                end.end_of_last.unwrap_or(end.at)
            ),
            Self::SegmentMissing { end } => write!(f, "{end}; the next segment is missing, but later ones exist"),
            Self::EndsBeforeCheckpoint { end_lsn, checkpoint_lsn } => {
                write!(f, "WAL ends at {end_lsn}, before the checkpoint record at {checkpoint_lsn}")
            }
            Self::NotTheCheckpoint { checkpoint_lsn } => {
                write!(f, "the record at {checkpoint_lsn} is not the checkpoint that pg_control refers to")
            }
            Self::NotTheCheckpointOfTheLabel => {
                f.write_str("the checkpoint record that backup_label refers to is missing")
            }
            Self::EndsBeforeConsistency { end_lsn, least_lsn } => {
                write!(f, "WAL ends at {end_lsn}, but the cluster becomes consistent only at {least_lsn}")
            }
            Self::NotAShutdownCheckpoint => {
                f.write_str("pg_control says \"shut down\", but the last checkpoint is not a shutdown checkpoint")
            }
            Self::PageAfterEnd { witness, page_lsn, end_lsn } => {
                write!(f, "WAL is missing: {witness} has LSN {page_lsn}, but WAL ends at {end_lsn}")
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
                "block {} of {relation}{} cannot be restored: the table, its indexes and its TOAST table would be \
                 from different times",
                page.block,
                AndMore(*more)
            ),
            Self::SilentPages { witness, more, end_lsn } => write!(
                f,
                "{witness}{} has no LSN left, so it cannot show whether WAL was written past {end_lsn}",
                AndMore(*more)
            ),
            Self::NotOneCluster { cause } => write!(f, "the files do not belong together (problem {})", cause.code()),
            Self::HistoriesElsewhere => f.write_str(
                "recovery follows the newest timeline that restore_command finds, and that archive was not checked: \
                    pass it with --wal",
            ),
            Self::ChecksumsContradict => f.write_str(
                "pg_control says that data checksums are off, but the pages show that it was changed or belongs to \
                    another cluster",
            ),
            Self::DwbNewerThanControl => {
                f.write_str("the double write buffer is newer than pg_control: they are from different times")
            }
            Self::LayoutNotSeen => f.write_str(
                "double write buffers in pg_dwb were tested only with version 1802 of \
                pg_control, and this is another version",
            ),
        }
    }
}

/// A version of `pg_control` that is not read, with what is known of it.
pub(in crate::output) fn named_version(version: u32) -> String {
    let of = |meaning| format!("{version} ({meaning})");
    ControlLayout::meaning(version).map_or_else(|| version.to_string(), of)
}
