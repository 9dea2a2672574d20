//! Parts of what a finding says: who holds a process number, how many pages are damaged or gone, where WAL breaks off.

use std::fmt;

use crate::analysis::finding_kind::{DamagedPages, MissingPages, PidHolder, WalDamage};

/// What follows the number of the process.
impl fmt::Display for PidHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str(", which is gone"),
            Self::Other { command } => write!(f, ", now \"{command}\", which is not a server of this directory"),
            Self::Zombie { command, parent } => {
                write!(f, " (\"{command}\"), which has ended, but its parent has not collected it")?;
                parent.as_ref().map_or(Ok(()), |(pid, name)| write!(f, ", process {pid} (\"{name}\")"))
            }
        }
    }
}

impl fmt::Display for DamagedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judged { count } | Self::Harmless { count } => write!(f, "damaged pages: {count}"),
            Self::Scanned { count, pages, .. } => write!(f, "{count} of {pages} pages are damaged"),
            Self::Replayed { count, pages, real_damage, unknown } => {
                let healed = count.saturating_sub(*real_damage).saturating_sub(*unknown);
                write!(
                    f,
                    "{count} of {pages} pages are damaged: {healed} healed in replay, {real_damage} real damage, {unknown} \
                     unknown"
                )
            }
        }
    }
}

impl fmt::Display for MissingPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segments { first, last, later, size_bytes } => {
                if first == last {
                    write!(f, "segment {first} is missing or empty")?;
                } else {
                    write!(f, "segments {first} to {last} are missing or empty")?;
                }
                write!(f, ", while {later} has {size_bytes} bytes")
            }
            Self::EndOfSegment { size_bytes, missing_bytes } => {
                write!(f, "ends at {size_bytes:#X}, {missing_bytes} bytes short, though later segments follow")
            }
        }
    }
}

impl fmt::Display for WalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { reason, at, from, resumed: Some(resumed) } => {
                write!(f, "{reason} at {at}; nothing could be read from {from} to {resumed}")
            }
            Self::Gap { reason, at, from, resumed: None } => {
                write!(f, "{reason} at {at}; nothing could be read from {from} on")
            }
            Self::Further(count) => write!(f, "{count} further damaged stretches"),
            Self::RecordsFollow { end, first_lsn, .. } => write!(f, "{end}; valid records follow from {first_lsn} on"),
            Self::BeforeKnownEnd { end, known_lsn } => {
                write!(f, "{end}; pg_control shows that there was WAL at {known_lsn}")
            }
        }
    }
}
