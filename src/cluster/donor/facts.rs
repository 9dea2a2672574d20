//! Facts about a donor from its `pg_control` and `backup_label`.

use strum::IntoStaticStr;

use super::DonorHost;
use super::refusal::DonorRefusal;
use crate::cluster::backup_files::BackupLabel;
use crate::cluster::control_file::ControlRead;
use crate::parsers::control::{ChecksumState, ControlFile, DbState};
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

/// Kind of copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DonorKind {
    /// A base backup: its label says which checkpoint came before all of its files were copied.
    BaseBackup,
    /// Its server was shut down cleanly, a primary or a standby: nothing was written after the last checkpoint that is not
    /// in its files.
    Stopped,
    /// Files of a running or crashed server. In a snapshot all are from the same point in time, in any other copy they are
    /// not, and nothing in the files shows which it is.
    Snapshot,
}

impl DonorKind {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// True when the donor itself shows that its pages have every change from before its redo point.
    pub(crate) const fn shows_redo(self) -> bool {
        matches!(self, Self::BaseBackup | Self::Stopped)
    }
}

/// Facts about a donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DonorFacts {
    /// Kind of copy.
    pub kind: DonorKind,
    /// Changes from before this address are in its pages, if it is the copy that it seems to be.
    pub redo_lsn: Lsn,
    /// Start of the checkpoint record with that redo point.
    pub checkpoint_lsn: Lsn,
    /// The last checkpoint by its `pg_control`: where its record starts, and the copy of that record.
    pub control_checkpoint: (Lsn, CheckPoint),
    /// Timeline at the redo point.
    pub timeline: TimelineId,
    /// The newest timeline that its pages may be of.
    pub newest_timeline: TimelineId,
    /// Checksum state in its `pg_control`.
    pub checksums: ChecksumState,
    /// Server state in its `pg_control`.
    pub state: DbState,
}

/// The control file of a donor, if it can be trusted.
pub(super) fn trusted(read: ControlRead) -> Result<ControlFile, DonorRefusal> {
    match read {
        ControlRead::Known(control) if control.crc_is_good() => Ok(*control),
        ControlRead::Known(_) | ControlRead::WrongSizes(..) => Err(DonorRefusal::ControlDamaged),
        ControlRead::UnknownVersion { prefix, .. } => {
            Err(DonorRefusal::ControlOfUnknownVersion { version: prefix.pg_control_version })
        }
        ControlRead::Short(error) => Err(DonorRefusal::ControlShort(error)),
        ControlRead::Unreadable(error) => Err(DonorRefusal::Unreadable(error)),
    }
}

/// Makes sure that the donor is a copy of the cluster.
pub(super) fn compare(control: &ControlFile, major: Major, host: &DonorHost<'_>) -> Result<(), DonorRefusal> {
    let cluster = host.control.ok_or(DonorRefusal::ClusterUnknown)?;
    let (found, expected) = (control.prefix.system_identifier, cluster.prefix.system_identifier);
    if found != expected {
        return Err(DonorRefusal::OtherSystem { found, expected });
    }
    if major != host.major {
        return Err(DonorRefusal::OtherMajor { found: major, expected: host.major });
    }
    let is_same_version = control.prefix.catalog_version_no == cluster.prefix.catalog_version_no
        && control.prefix.pg_control_version == cluster.prefix.pg_control_version;
    if control.geometry != cluster.geometry || !is_same_version {
        return Err(DonorRefusal::OtherSizes);
    }
    Ok(())
}

impl DonorFacts {
    /// Derives the facts from the files. `was_reset`: `pg_resetwal` was run on the donor.
    pub(super) fn of(
        control: &ControlFile,
        label: Option<&BackupLabel>,
        was_reset: bool,
    ) -> Result<Self, DonorRefusal> {
        let control_lsn = control.checkpoint.redo_lsn;
        if !control_lsn.is_valid() {
            return Err(DonorRefusal::NoRedoPoint);
        }
        let newest = control.checkpoint.tli.max(control.min_recovery_timeline);
        let (kind, redo_lsn, checkpoint_lsn, timeline) = match label {
            Some(label) if label.incremental_from_lsn.is_some() => return Err(DonorRefusal::Incremental),
            Some(label) => {
                let begin = label.redo_lsn.filter(|lsn| lsn.is_valid()).zip(label.checkpoint_lsn).zip(label.timeline);
                let ((label_lsn, checkpoint_lsn), timeline) = begin.ok_or(DonorRefusal::LabelWithoutStart)?;
                // The control file is copied after the checkpoint of the label.
                if label_lsn > control_lsn {
                    return Err(DonorRefusal::LabelAfterControl { label_lsn, control_lsn });
                }
                (DonorKind::BaseBackup, label_lsn, checkpoint_lsn, timeline)
            }
            None => {
                let kind = if !was_reset && is_stopped(control) { DonorKind::Stopped } else { DonorKind::Snapshot };
                (kind, control_lsn, control.checkpoint_lsn, control.checkpoint.tli)
            }
        };
        Ok(Self {
            kind,
            redo_lsn,
            checkpoint_lsn,
            control_checkpoint: (control.checkpoint_lsn, control.checkpoint),
            timeline,
            newest_timeline: newest.max(timeline),
            checksums: control.checksums,
            state: control.prefix.state,
        })
    }
}

/// True when the server was shut down cleanly and the other fields agree: a single wrong bit must not lead to this answer.
fn is_stopped(control: &ControlFile) -> bool {
    match control.prefix.state {
        DbState::SHUT_DOWN => control.was_shut_down(),
        // A primary sets no such address.
        DbState::SHUT_DOWN_IN_RECOVERY => {
            control.min_recovery_lsn.is_valid() && control.min_recovery_lsn >= control.checkpoint.redo_lsn
        }
        _ => false,
    }
}
