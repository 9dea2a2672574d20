//! Fate of a damaged page in recovery.

use std::fmt;

use crate::analysis::verdict::fate::{Damage, FateUnknown, ReplayFate, UnknownReason};

impl fmt::Display for ReplayFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healed(reason) => reason.fmt(f),
            Self::RealDamage(damage) => damage.fmt(f),
            Self::Unknown(unknown) => unknown.fmt(f),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingReplays => f.write_str("startup replays no WAL"),
            Self::ReadInReplay(record) => {
                write!(f, "the first record of this page in recovery, {record}, reads it")
            }
            Self::NotInReplay { redo_lsn, end_lsn } => {
                write!(f, "no record from the redo point {redo_lsn} to the end of WAL at {end_lsn} replaces the page")
            }
        }
    }
}

impl fmt::Display for FateUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)?;
        match &self.segment {
            Some(segment) => write!(f, "; look for {segment}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doubt(doubt) => doubt.fmt(f),
            Self::BackupEndMissing { end_lsn } => {
                write!(f, "WAL ends at {end_lsn}, before the end of the base backup")
            }
            Self::WalEndsWithFiles { end_lsn } => {
                write!(f, "WAL ends at {end_lsn} because no file follows: more may have been written")
            }
            Self::NoRoomForRecords => {
                f.write_str("there was no room for all records of the damaged pages: choose fewer pages")
            }
            Self::TooManyDamaged { limit } => {
                write!(f, "only {limit} damaged pages were compared with WAL: choose fewer pages")
            }
        }
    }
}
