//! What is wrong with the configuration.

use std::fmt;

use crate::cluster::config_files::ConfigFault;

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSettings | Self::NoHba => f.write_str("not in the data directory"),
            Self::Setting { line } => write!(f, "line {line} is not a setting"),
            Self::HbaLine { line } => write!(f, "line {line} is none that a server takes: check the kind of connection, the address and the method"),
            Self::HbaUnreadable => f.write_str("not a file, or a link that leads nowhere"),
            Self::HbaEmpty => f.write_str("no line allows or rejects anything"),
            Self::RecoveryConf => f.write_str(
                "servers from 12 on do not start while it is there: its settings belong into postgresql.conf",
            ),
            Self::IncludeMissing { line } => {
                write!(f, "line {line} includes a file or directory that is not there")
            }
            Self::Prepared { allowed, prepared } => {
                write!(
                    f,
                    "max_prepared_transactions is {allowed}, and prepared transactions in pg_twophase are {prepared}"
                )
            }
            Self::FewerPrepared { allowed, before } => {
                write!(
                    f,
                    "max_prepared_transactions is {allowed}, and was {before} before: replay fails where more are prepared at one time"
                )
            }
            Self::Slots { allowed, slots } => {
                write!(f, "max_replication_slots is {allowed}, and replication slots in pg_replslot are {slots}")
            }
            Self::SlotLevel { needed } => {
                write!(f, "wal_level is lower than {needed}, which a replication slot in pg_replslot needs")
            }
            Self::PathMissing { setting } => write!(f, "{setting} names what is not there"),
            Self::MinimalLevel { setting } => {
                write!(f, "wal_level is minimal, with which no server starts that has {setting} set")
            }
            Self::RecoveryTarget { setting } => write!(f, "{setting} says where recovery ends"),
            Self::RecoveryTargets => f.write_str("sets more than one target of recovery, and servers take one"),
            Self::TooLow { setting, value, needed } => {
                write!(f, "{setting} is {value}, and recovery needs at least {needed}, as pg_control has it")
            }
            Self::RecoverySetting { line } => {
                write!(f, "line {line} sets what cannot be set there, or to what it cannot be")
            }
            Self::NotAFile => f.write_str("not a file"),
            Self::MinimalWal => f.write_str(
                "wal_level was minimal when WAL was written, and recovery from an archive or as a standby needs more in it",
            ),
            Self::Origins { setting, allowed, origins } => {
                write!(f, "{setting} is {allowed}, and replication origins in pg_logical/replorigin_checkpoint are {origins}")
            }
            Self::NoRestoreCommand => f.write_str("asks for recovery from an archive, and restore_command is not set"),
        }
    }
}
