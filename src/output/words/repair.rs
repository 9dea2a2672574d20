//! Why a repair leaves a page as it is, and what became of the pages that one wrote.

use std::fmt;

use crate::repair::journal_seen::JournalState;
use crate::repair::plan::LeftReason;

impl fmt::Display for JournalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.compared < self.pages {
            write!(f, "among the first {}: ", self.compared)?;
        }
        let (new, old, other, unread) = (self.new, self.old, self.other, self.unread);
        write!(
            f,
            "{new} as the repair wrote them, {old} as they were before it, {other} changed since by something else, \
                {unread} not readable"
        )
    }
}

impl fmt::Display for LeftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(reason) => reason.fmt(f),
            Self::NotSelected => f.write_str("not selected"),
            Self::NeedsBlankMaps => f.write_str("--blank-maps zeroes it"),
            Self::NeedsAllowUnproven => f.write_str("--allow-unproven restores the image anyway"),
            Self::NeedsLoseChanges => f.write_str("--lose-changes with the page's name restores the image"),
            Self::NoPageToOverwrite => f.write_str("the file ends before the page does: no page to overwrite"),
            Self::NoImageOfSource => f.write_str("no image of the chosen source may be used"),
        }
    }
}
