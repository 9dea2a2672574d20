//! Why the old and new bytes of pages do not get into a journal.

use crate::analysis::verdict::fetch::FetchError;
use crate::cluster::open::AccessError;
use crate::repair::journal::JournalError;

/// Why the old and new bytes of a page could not be put into a journal.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The page or its image is no longer what the plan says.
    #[error("{path} block {block}: {change}")]
    Changed {
        /// File of the page.
        path: String,
        /// Block.
        block: u32,
        /// In what way.
        change: StepChange,
    },
    /// The image cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The page cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// In what way a step no longer fits what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepChange {
    /// It names a fork that does not exist.
    #[error("no such fork")]
    NoSuchFork,
    /// Its image no longer exists.
    #[error("its image no longer exists")]
    ImageGone,
    /// The page is another.
    #[error("the page has changed")]
    PageChanged,
    /// The image is another.
    #[error("its image has changed")]
    ImageChanged,
}
