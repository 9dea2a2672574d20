//! Donors: older copies of a cluster that pages are taken from.

use std::fmt;

use crate::analysis::verdict::donor_proof::PageOfNoDonor;
use crate::cluster::donor::{DonorGap, DonorKind, DonorRefusal};
use crate::cluster::running::ServerSign;

impl fmt::Display for DonorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BaseBackup => "base backup",
            Self::Stopped => "copy of a stopped server",
            Self::Snapshot => "snapshot of a running or crashed server",
        })
    }
}

impl fmt::Display for DonorGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DonorHasNoFile => "has no such file",
            Self::DonorFileEndsBefore => "has no such page: its file ends before",
            Self::DonorFileNotPlain => "has the file in a form of the archive that is not read",
            Self::DonorPageNotKept => {
                "is an archive, and more of its pages are needed than fit in memory: check this page with the command \
                    page"
            }
            Self::DonorFileIsOfCluster => "has only a link to the file of the cluster here, which is not a copy",
        })
    }
}

impl fmt::Display for PageOfNoDonor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "donor {} {}", self.path, self.gap)
    }
}

impl fmt::Display for DonorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::NotADataDirectory(error) => error.fmt(f),
            Self::ClusterUnknown => f.write_str(
                "pg_control of the cluster is missing, unreadable or damaged, so copies of it cannot be \
                    recognised",
            ),
            Self::ControlShort(error) => write!(f, "its pg_control ends early: {error}"),
            Self::ControlDamaged => f.write_str("its pg_control is damaged"),
            Self::ControlOfUnknownVersion { version } => {
                write!(f, "its pg_control has unknown version {version}")
            }
            Self::OtherSystem { found, expected } => {
                write!(f, "it belongs to another cluster: its system identifier is {found}, expected {expected}")
            }
            Self::OtherMajor { found, expected } => write!(f, "it has major version {found}, expected {expected}"),
            Self::UnknownMajor { found } => write!(f, "its PG_VERSION says {found:?}, which is unknown"),
            Self::OtherSizes => f.write_str("its page size, segment size or catalog version differs from the cluster"),
            Self::IsTheCluster => f.write_str("it is the cluster itself"),
            Self::InsideTheCluster => f.write_str("it is inside the data directory"),
            Self::Running(sign) => match sign {
                ServerSign::Running { why, .. } => write!(f, "a server runs in it: {why}"),
                ServerSign::MayRun { why, .. } | ServerSign::Unclear { why } | ServerSign::Hidden { why } => {
                    write!(f, "a server may run in it: {why}")
                }
                ServerSign::Unreadable(error) => write!(f, "a server may run in it: {error}"),
                _ => f.write_str("a server may run in it"),
            },
            Self::Incremental => {
                f.write_str("it is an incremental backup: combine it with the earlier ones with pg_combinebackup first")
            }
            Self::LabelWithoutStart => f.write_str("its backup_label does not say where the backup begins"),
            Self::LabelAfterControl { label_lsn, control_lsn } => write!(
                f,
                "its backup_label says that the backup begins at {label_lsn}, after the redo point {control_lsn} of \
                 its pg_control: the label belongs to another backup"
            ),
            Self::NoRedoPoint => f.write_str("its pg_control has no redo point"),
            Self::TimelineUnknown { donor, cluster } => write!(
                f,
                "it is on timeline {donor}, the cluster on timeline {cluster}, and no history file connects them: \
                 pass the WAL archive with --wal"
            ),
            Self::OtherTimeline { donor, redo_lsn, cluster } => {
                write!(f, "it begins at {redo_lsn} on timeline {donor}, where the cluster was on timeline {cluster}")
            }
            Self::OtherHistory { tli } => {
                write!(f, "its timeline {tli} differs from that of the cluster: their history files differ")
            }
        }
    }
}
