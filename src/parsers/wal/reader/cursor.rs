//! Where in WAL the reader is.

use crate::types::Lsn;

/// The address of the next byte of input, and its page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) lsn: Lsn,
    block_bytes: u64,
}

impl Cursor {
    /// `wal_block_size`: a power of two.
    pub(super) fn new(lsn: Lsn, wal_block_size: u32) -> Self {
        Self { lsn, block_bytes: u64::from(wal_block_size) }
    }

    /// Address of the current page; at a boundary, of the page that starts there.
    pub(super) const fn page_start(&self) -> Lsn {
        Lsn(self.lsn.0 & !self.block_bytes.wrapping_sub(1))
    }

    /// Where the next page starts; at a boundary, the one after the page that starts there.
    pub(super) const fn page_end(&self) -> Lsn {
        self.page_start().advanced_by(self.block_bytes)
    }

    /// Bytes from here to the end of the page; a whole page at a boundary.
    pub(super) fn left_in_page(&self) -> usize {
        let inside = self.lsn.0 & self.block_bytes.wrapping_sub(1);
        usize::try_from(self.block_bytes.saturating_sub(inside)).unwrap_or(usize::MAX)
    }

    pub(super) const fn at_page_boundary(&self) -> bool {
        self.lsn.0.is_multiple_of(self.block_bytes)
    }

    /// Takes up to `count` bytes off `input`.
    pub(super) fn consume<'c>(&mut self, input: &mut &'c [u8], count: usize) -> &'c [u8] {
        let (taken, rest) = input.split_at_checked(count).unwrap_or((*input, &[]));
        *input = rest;
        self.lsn = self.lsn.advanced_by(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        taken
    }
}
