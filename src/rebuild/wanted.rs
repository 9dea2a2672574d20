//! A request: a page, its base, and the range of WAL.

use crate::types::{Lsn, PageId};

/// Base of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseBytes {
    /// Nothing: a record of the range builds the page without reading it.
    Nothing,
    /// An older state of the page, of the size of a page.
    Page(Vec<u8>),
}

/// A page to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPage {
    /// Which page.
    pub page: PageId,
    /// Its base.
    pub base: BaseBytes,
    /// Records that start here or after ...
    pub from: Lsn,
    /// ... and end here or before are replayed.
    pub until: Lsn,
}

impl WantedPage {
    /// True for a record that must be replayed into this page.
    pub fn takes(&self, start_lsn: Lsn, end_lsn: Lsn) -> bool {
        start_lsn >= self.from && end_lsn <= self.until
    }
}
