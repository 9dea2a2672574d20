//! Options of a reader.

use crate::parsers::wal::block::Keep;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, TimelineId, is_wal_block_size, is_wal_segment_size};

/// Known facts and the mode of reading.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Sizes of the cluster; the relation segment size is not used.
    pub geometry: Geometry,
    /// Version of the pages; taken from the first page when `None`.
    pub major: Option<Major>,
    /// System identifier of the cluster; taken from the first long header when `None`.
    pub system_identifier: Option<u64>,
    /// Timelines that may occur; any when empty.
    pub timelines: Vec<TimelineId>,
    /// Records that start here or later are not read; the one before is read to its end.
    pub limit: Option<Lsn>,
    /// The kept part of records that span pages; less is faster.
    pub keep: Keep,
    /// Continues after damage, at the next page that starts a record. Such records are marked.
    pub resynchronise: bool,
}

impl ReaderOptions {
    /// Reads everything up to the first damage, and learns version and cluster from the bytes.
    pub const fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            major: None,
            system_identifier: None,
            timelines: Vec::new(),
            limit: None,
            keep: Keep::Blocks,
            resynchronise: false,
        }
    }
}

/// Why a reader cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReaderError {
    /// Not a power of two, or outside what a server can be built with.
    #[error("WAL page size {0}, expected a power of two from 1024 to 65536")]
    BlockSize(u32),
    /// Not a power of two, or outside what a server accepts.
    #[error("WAL segment size {0}, expected a power of two from 1 MiB to 1 GiB")]
    SegmentSize(u32),
    /// The first address is not that of a page.
    #[error("reading starts at {0}, which is not a page boundary")]
    Unaligned(Lsn),
}

impl ReaderOptions {
    /// Whether these sizes and this first address are possible.
    pub(super) fn check(&self, first: Lsn) -> Result<(), ReaderError> {
        let Geometry { wal_block_size, wal_segment_size, .. } = self.geometry;
        if !is_wal_block_size(wal_block_size) {
            return Err(ReaderError::BlockSize(wal_block_size));
        }
        if !is_wal_segment_size(wal_segment_size) {
            return Err(ReaderError::SegmentSize(wal_segment_size));
        }
        if !first.0.is_multiple_of(u64::from(wal_block_size)) {
            return Err(ReaderError::Unaligned(first));
        }
        Ok(())
    }
}
