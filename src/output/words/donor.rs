//! What is said of donors: older copies of a cluster that pages are taken from.

use std::fmt;

use crate::analysis::verdict::donor_images::PageOfNoDonor;
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
                "is an archive, of which more pages are wanted than are kept in memory: examine this one with page"
            }
            Self::DonorFileIsOfCluster => {
                "has no file of its own here: a link leads to that of the cluster, which is not a copy"
            }
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
            Self::ClusterUnknown => {
                f.write_str("pg_control of the cluster cannot be trusted, so nothing says what is a copy of it")
            }
            Self::ControlShort(error) => write!(f, "its pg_control ends early: {error}"),
            Self::ControlDamaged => f.write_str("its pg_control is damaged"),
            Self::ControlOfUnknownVersion { version } => {
                write!(f, "its pg_control has version {version}, which is not known")
            }
            Self::OtherSystem { found, expected } => {
                write!(f, "it is of another cluster: its system identifier is {found}, expected {expected}")
            }
            Self::OtherMajor { found, expected } => write!(f, "it is of major {found}, expected {expected}"),
            Self::UnknownMajor { found } => write!(f, "its PG_VERSION says {found:?}, which is not known"),
            Self::OtherSizes => f.write_str("its pages, segments or catalogs are not those of the cluster"),
            Self::IsTheCluster => f.write_str("it is the cluster itself"),
            Self::InsideTheCluster => f.write_str("it lies inside the data directory"),
            Self::Running(sign) => match sign {
                ServerSign::Running { why, .. } => write!(f, "a server runs on it: {why}"),
                ServerSign::MayRun { why, .. } | ServerSign::Unclear { why } | ServerSign::Hidden { why } => {
                    write!(f, "a server may run on it: {why}")
                }
                ServerSign::Unreadable(error) => write!(f, "a server may run on it: {error}"),
                _ => f.write_str("a server may run on it"),
            },
            Self::Incremental => f.write_str(
                "it is an incremental backup: make a full one of it and those before it with pg_combinebackup first",
            ),
            Self::LabelWithoutStart => f.write_str("its backup_label does not say where the backup begins"),
            Self::LabelAfterControl { label_lsn, control_lsn } => write!(
                f,
                "by its backup_label the backup begins at {label_lsn}, after the redo point {control_lsn} of its \
                 pg_control: the label is of another backup"
            ),
            Self::NoRedoPoint => f.write_str("its pg_control has no redo point"),
            Self::TimelineUnknown { donor, cluster } => write!(
                f,
                "it is of timeline {donor}, the cluster of timeline {cluster}, and there is no history file that says \
                 how they belong together: give the WAL archive with --wal"
            ),
            Self::OtherTimeline { donor, redo_lsn, cluster } => {
                write!(f, "it begins at {redo_lsn} on timeline {donor}, where the cluster was on timeline {cluster}")
            }
            Self::OtherHistory { tli } => {
                write!(f, "its timeline {tli} is not that of the cluster: their history files differ")
            }
        }
    }
}
