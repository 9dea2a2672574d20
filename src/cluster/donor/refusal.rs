//! Why something that was named as a donor is not used. The words are in `output/words/`.

use strum::{IntoStaticStr, VariantNames};

use crate::cluster::data_dir::NotADataDir;
use crate::cluster::open::AccessError;
use crate::cluster::running::ServerSign;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

/// Why a donor is refused.
#[derive(Debug, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum DonorRefusal {
    /// The system refused.
    Unreadable(AccessError),
    /// It is not a data directory.
    NotADataDirectory(NotADataDir),
    /// Nothing says which cluster the donor would have to be of.
    ClusterUnknown,
    /// Its `pg_control` ends early.
    ControlShort(ParseError),
    /// The checksum of its `pg_control` is wrong, or its sizes are impossible or not those of its pages.
    ControlDamaged,
    /// Its `pg_control` has a version that this program does not know.
    ControlOfUnknownVersion {
        /// The version.
        version: u32,
    },
    /// It belongs to another cluster.
    OtherSystem {
        /// Its system identifier.
        found: u64,
        /// That of the cluster.
        expected: u64,
    },
    /// It has another major version.
    OtherMajor {
        /// Its major.
        found: Major,
        /// That of the cluster.
        expected: Major,
    },
    /// Its `PG_VERSION` names no major that is known.
    UnknownMajor {
        /// Content of the file.
        found: String,
    },
    /// Its pages or segment files have other sizes.
    OtherSizes,
    /// It is the data directory itself.
    IsTheCluster,
    /// It lies inside the data directory.
    InsideTheCluster,
    /// A server runs on it, or that cannot be ruled out.
    Running(ServerSign),
    /// It is an incremental backup.
    Incremental,
    /// Its `backup_label` does not say where the backup begins.
    LabelWithoutStart,
    /// Its `backup_label` belongs to another backup: it begins after the checkpoint of `pg_control`.
    LabelAfterControl {
        /// Where the backup begins by the label.
        label_lsn: Lsn,
        /// Redo point of `pg_control`.
        control_lsn: Lsn,
    },
    /// Its `pg_control` names no redo point.
    NoRedoPoint,
    /// Whether its timeline is an ancestor of the cluster's is unknown: there is no history file.
    TimelineUnknown {
        /// Timeline of the donor.
        donor: TimelineId,
        /// Timeline of the cluster.
        cluster: TimelineId,
    },
    /// At its redo point the cluster was on another timeline.
    OtherTimeline {
        /// Timeline of the donor.
        donor: TimelineId,
        /// Where the donor begins.
        redo_lsn: Lsn,
        /// Timeline of the cluster there.
        cluster: TimelineId,
    },
    /// Its timeline has the number of one of the cluster's and another history.
    OtherHistory {
        /// The timeline.
        tli: TimelineId,
    },
}

impl DonorRefusal {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl From<AccessError> for DonorRefusal {
    fn from(error: AccessError) -> Self {
        Self::Unreadable(error)
    }
}

impl std::error::Error for DonorRefusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => error.source(),
            Self::NotADataDirectory(error) => error.source(),
            _ => None,
        }
    }
}
