//! Words for what a walk through WAL met.

use std::fmt;

use crate::analysis::wal::walk::DamageReason;

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wal(reason) => reason.fmt(f),
            Self::Unreadable(error) => error.fmt(f),
            Self::EndsEarly { segment } => write!(f, "{segment} ends early"),
        }
    }
}
