//! Words for a cluster as a whole, and for how much of it was read.

use std::fmt;

use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::page_scan::ScannedFiles;
use crate::parsers::control::ChecksumState;

impl fmt::Display for ClusterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("state unknown: pg_control cannot be trusted"),
            Self::Running(why) => write!(f, "a server is running: {why}"),
            Self::MayBeRunning(why) => write!(f, "a server may be running: {why}"),
            Self::BaseBackup => f.write_str("base backup, not recovered yet"),
            Self::WalWasReset => f.write_str("pg_resetwal was run: changes that were only in WAL are lost"),
            Self::ShutDown => f.write_str("shut down cleanly"),
            Self::StandbyShutDown { .. } => f.write_str("standby, shut down cleanly"),
            Self::InArchiveRecovery { consistent_lsn, .. } => {
                write!(f, "archive recovery was interrupted; consistent from {consistent_lsn}")
            }
            Self::Crashed { .. } => f.write_str("crashed"),
        }
    }
}

impl fmt::Display for ScannedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, files, zeroed, unproven } = self;
        write!(f, "{pages} pages in {files} files ({zeroed} zero-filled)")?;
        match unproven {
            Some(count) => write!(f, "; without checksums {count} are not proven intact"),
            None => Ok(()),
        }
    }
}

/// Data checksums according to `pg_control`.
pub(crate) fn checksum_words(state: Option<ChecksumState>) -> String {
    state.map_or_else(|| "not known".to_owned(), |state| state.to_string())
}
