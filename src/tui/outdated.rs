//! Why what is shown may not be so any more.

use std::fmt::{Display, Formatter, Result};

/// Why the last check that is shown says nothing certain of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated<'a> {
    Again,
    Failed(&'a str),
    Changed,
}

impl Outdated<'_> {
    /// Text of the status line without another message; the progress bar shows that files are being read.
    pub fn status(self) -> Option<String> {
        match self {
            Self::Again => None,
            Self::Failed(why) => Some(format!("outdated: the last check failed ({why}). r retries")),
            Self::Changed => Some("files have changed since they were read: r reads them again".to_owned()),
        }
    }
}

impl Display for Outdated<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Again => f.write_str("the check that was begun again has not ended"),
            Self::Failed(why) => write!(f, "the check was done again and failed: {why}"),
            Self::Changed => f.write_str("files have changed since they were read"),
        }
    }
}
