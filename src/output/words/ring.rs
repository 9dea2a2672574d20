//! Effect of startup on the buffer.

use std::fmt;

use crate::analysis::dwb_format::ring_finding::StartAction;

impl fmt::Display for StartAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discards => f.write_str("empties the buffer without applying anything: this is a backup"),
            Self::RefusesWithoutChecksums => f.write_str("is refused: the mode needs data checksums"),
            Self::RefusesControl => f.write_str("is refused: the control file is damaged or of a later server version"),
            Self::RefusesPending => f.write_str("is refused: the slots may still be needed"),
            Self::FailsAtMissing { number } => write!(f, "fails: batch file {number} is missing"),
            Self::FailsAtShort { number } => write!(f, "fails: batch file {number} is too short"),
            Self::MakesAnew => f.write_str("recreates the buffer and applies nothing: the control file is missing"),
            Self::AppliesNothing => f.write_str("applies nothing: the last run stopped cleanly"),
            Self::Applies => f.write_str("applies the slots that count before it replays WAL"),
            Self::Ignores => f.write_str("leaves the buffer alone"),
            Self::Unknown => f.write_str("has an unknown result: something could not be read"),
        }
    }
}
