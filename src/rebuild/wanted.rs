//! What is asked for: a page, what it is built on, and from where to where.

use crate::types::{Lsn, PageId};

/// What a page is built on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseBytes {
    /// Nothing: a record of the range builds the page without reading it.
    Nothing,
    /// An older state of the page, of the size of a page.
    Page(Vec<u8>),
}

/// A page that is to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPage {
    /// Which page.
    pub page: PageId,
    /// What it is built on.
    pub base: BaseBytes,
    /// Records that start here or after ...
    pub from: Lsn,
    /// ... and end here or before are replayed.
    pub until: Lsn,
}

impl WantedPage {
    /// True for a record that is to be replayed into this page.
    #[must_use]
    pub fn takes(&self, start_lsn: Lsn, end_lsn: Lsn) -> bool {
        start_lsn >= self.from && end_lsn <= self.until
    }
}
