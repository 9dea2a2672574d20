//! What is wrong with the configuration.

use std::fmt;

use crate::cluster::config_files::ConfigFault;

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSettings | Self::NoHba => f.write_str("not in the data directory"),
            Self::Setting { line } => write!(f, "line {line} is not a setting"),
            Self::HbaLine { line } => write!(f, "line {line} begins with no kind of connection"),
            Self::HbaEmpty => f.write_str("no line allows or rejects anything"),
            Self::RecoveryConf => f.write_str(
                "servers from 12 on do not start while it is there: its settings belong into postgresql.conf",
            ),
            Self::NoRestoreCommand => f.write_str("asks for recovery from an archive, and restore_command is not set"),
        }
    }
}
