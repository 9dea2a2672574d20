//! Words for how sure a number is.

use std::fmt;

use crate::analysis::wal::certainty::Certainty;

/// How sure a number is that another setting would have led to: it supposes that the server would have done the same work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForSameWork(pub Certainty);

impl fmt::Display for ForSameWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Certainty::Exact => f.pad("exact for the same work"),
            other => other.fmt(f),
        }
    }
}

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
