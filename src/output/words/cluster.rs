//! Words for a cluster as a whole, and for how much of it was read.

use std::fmt;

use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::page_scan::ScannedFiles;
use crate::parsers::control::ChecksumState;

impl fmt::Display for ClusterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown: pg_control is missing, unreadable or damaged."),
            Self::Running(why) => write!(f, "A server is running in this directory: {why}."),
            Self::MayBeRunning(why) => write!(f, "A server may be running in this directory: {why}."),
            Self::BaseBackup => f.write_str("Base backup, not recovered yet. Recovery begins where backup_label says."),
            Self::WalWasReset => {
                f.write_str("pg_resetwal was run. No recovery will run; changes that were only in WAL are lost.")
            }
            Self::ShutDown => f.write_str("Shut down cleanly; no recovery needed."),
            Self::StandbyShutDown { redo_lsn } => {
                write!(f, "A standby that was stopped cleanly: replay continues from {redo_lsn}.")
            }
            Self::InArchiveRecovery { redo_lsn, consistent_lsn } => write!(
                f,
                "Archive recovery was interrupted. It continues at {redo_lsn}; the cluster becomes consistent at \
                 {consistent_lsn}."
            ),
            Self::Crashed { redo_lsn } => write!(f, "Crashed. Recovery begins at {redo_lsn}."),
        }
    }
}

impl fmt::Display for ScannedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, files, zeroed, unproven } = self;
        write!(f, "{pages} in {files} files, {zeroed} of them zero-filled")?;
        match unproven {
            Some(count) => write!(f, "; without checksums, {count} of them are not proven whole"),
            None => Ok(()),
        }
    }
}

/// Data checksums according to `pg_control`.
pub(crate) fn checksum_words(state: Option<ChecksumState>) -> String {
    state.map_or_else(|| "not known".to_owned(), |state| state.to_string())
}
