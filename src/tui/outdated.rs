//! Why what is shown may not be so any more.

use std::fmt::{Display, Formatter, Result};

/// Why the last check that is shown says nothing certain of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated<'a> {
    Again,
    Failed(&'a str),
    Changed,
}

impl<'a> Outdated<'a> {
    pub fn of(is_reading: bool, failed: Option<&'a str>, has_changed: bool) -> Option<Self> {
        if is_reading {
            return Some(Self::Again);
        }
        failed.map(Self::Failed).or(has_changed.then_some(Self::Changed))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_check_that_ended_on_files_that_stayed_is_of_now() {
        assert_eq!(Outdated::of(false, None, false), None);
        assert_eq!(Outdated::of(true, Some("why"), true), Some(Outdated::Again));
        assert_eq!(Outdated::of(false, Some("why"), true), Some(Outdated::Failed("why")));
        assert_eq!(Outdated::of(false, None, true), Some(Outdated::Changed));
    }
}
