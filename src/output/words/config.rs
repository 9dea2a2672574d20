//! Problems of the configuration.

use std::fmt;

use crate::cluster::config_files::ConfigFault;

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecoveryTarget { setting } => write!(f, "{setting} sets where recovery ends"),
            Self::RecoveryTargets => f.write_str("sets more than one recovery target; the server accepts one"),
            Self::MinimalWal => {
                f.write_str("wal_level was minimal when WAL was written; archive recovery and standbys need more in it")
            }
        }
    }
}
