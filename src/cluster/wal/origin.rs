//! Whose some WAL is.

use super::set::WalSet;
use crate::parsers::wal::version::Major;
use crate::types::Geometry;

/// Whose some WAL is, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalOrigin {
    /// Major of the server that wrote it, by the page magic.
    pub major: Option<Major>,
    /// The cluster that it belongs to.
    pub system_identifier: Option<u64>,
    /// Sizes of pages and segments.
    pub geometry: Geometry,
}

impl WalSet {
    /// Whose it is.
    pub fn origin(&self) -> WalOrigin {
        WalOrigin { major: self.major(), system_identifier: self.system_identifier(), geometry: self.geometry() }
    }
}
