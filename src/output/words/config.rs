//! What is wrong with the configuration.

use std::fmt;

use crate::cluster::config_files::ConfigFault;

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecoveryTarget { setting } => write!(f, "{setting} says where recovery ends"),
            Self::RecoveryTargets => f.write_str("sets more than one target of recovery, and servers take one"),
            Self::MinimalWal => f.write_str(
                "wal_level was minimal when WAL was written, and recovery from an archive or as a standby needs more in it",
            ),
        }
    }
}
