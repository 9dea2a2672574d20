//! References between pages of an index.

use std::fmt;

use crate::analysis::page_links::{BrokenLink, LinkFault, LinkRole, NamedBy};
use crate::types::PageId;

impl fmt::Display for LinkRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Left => "left sibling",
            Self::Right => "right sibling",
            Self::Child => "child",
            Self::Row => "page of a row",
            Self::Visible => "page with a bit in the map",
        })
    }
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageId { rel, block, .. } = self.page;
        match self.role {
            LinkRole::Row => write!(f, "an entry in block {block} of its index {rel} points to a row in it"),
            LinkRole::Visible => write!(f, "block {block} of the visibility map has a bit for it"),
            role => write!(f, "block {block} links to it as its {role}"),
        }
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeroed => f.write_str("it is zero-filled"),
            Self::BeyondEnd => f.write_str("the file ends before it"),
            Self::Deleted => f.write_str("it is a deleted page"),
            Self::OtherKind => f.write_str("it is a page of another kind"),
            Self::NotAllVisible => f.write_str("it is not marked all-visible"),
            Self::OtherSibling { found: Some(found) } => write!(f, "it links to block {found} on that side"),
            Self::OtherSibling { found: None } => f.write_str("it links to no page on that side"),
            Self::OtherGroup { found, expected } => {
                write!(f, "its level, bucket or kind is {found:#X}, not {expected:#X}")
            }
        }
    }
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, but {}", self.by, self.fault)
    }
}
