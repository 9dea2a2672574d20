//! Words for how sure a number is.

use std::fmt;

use crate::analysis::wal::certainty::Certainty;

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.pad("exact"),
            Self::AtLeast => f.pad("at least"),
            Self::Estimate => f.pad("estimate"),
            Self::Sample { taken, of } => f.pad(&format!("sample of {taken} out of {of}")),
        }
    }
}
