//! Where a record is put together that does not lie inside one page.

use crate::parsers::crc::{crc32c, crc32c_append};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::record::{RecordHeader, record_crc};

/// Bytes of a record that are kept, its header included; what a longer one has beyond is only checked and counted.
///
/// Fragment headers, images and block data come first in a record and take less than 4 MiB: there are at most 33 blocks with
/// 32768 bytes of image and 65535 bytes of data each. So only main data is ever cut.
pub const KEPT_RECORD_BYTES: usize = 8 << 20;

/// Bytes of a record that are kept when only its fragment headers are wanted. They come first and take 904 bytes at most,
/// after the 24 bytes of the record header: 33 block references of 27 bytes, and 13 bytes of other kinds.
pub const HEAD_RECORD_BYTES: usize = 1024;

/// The beginning of a record, and what its checksum needs to know of the rest.
#[derive(Debug)]
pub(super) struct RecordBuffer {
    kept: Vec<u8>,
    most_bytes: usize,
    /// Bytes that came beyond those kept.
    beyond: usize,
    /// CRC-32C of the body so far, once there are bytes beyond.
    body_crc: u32,
}

impl RecordBuffer {
    pub(super) const fn new(keep: Keep) -> Self {
        let most_bytes = match keep {
            Keep::Blocks => KEPT_RECORD_BYTES,
            Keep::Heads => HEAD_RECORD_BYTES,
        };
        Self { kept: Vec::new(), most_bytes, beyond: 0, body_crc: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.beyond = 0;
    }

    /// Takes the next bytes of the record.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let rest = self.keep(piece);
        if rest.is_empty() {
            return;
        }
        if self.beyond == 0 {
            self.body_crc = crc32c(self.kept.get(RecordHeader::SIZE..).unwrap_or_default());
        }
        self.body_crc = crc32c_append(self.body_crc, rest);
        self.beyond = self.beyond.saturating_add(rest.len());
    }

    /// Keeps of the next bytes what there is room for and returns the others, which are neither checked nor counted.
    pub(super) fn keep<'c>(&mut self, piece: &'c [u8]) -> &'c [u8] {
        let room = self.most_bytes.saturating_sub(self.kept.len());
        let (now, rest) = piece.split_at_checked(room).unwrap_or((piece, &[]));
        if self.kept.capacity() > self.most_bytes / 2 {
            // Growing as a vector does by itself would overshoot the maximum.
            self.kept.reserve_exact(room);
        }
        self.kept.extend_from_slice(now);
        rest
    }

    /// Most bytes that are kept.
    pub(super) const fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Bytes of the record that came, kept or not.
    pub(super) fn len(&self) -> usize {
        self.kept.len().saturating_add(self.beyond)
    }

    /// The first bytes of the record.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// As [`record_crc`], over all bytes that came.
    pub(super) fn crc(&self) -> u32 {
        if self.beyond == 0 {
            return record_crc(&self.kept);
        }
        let header = self.kept.get(..RecordHeader::CHECKED_SIZE).unwrap_or_default();
        crc32c_append(self.body_crc, header)
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.kept.capacity()
    }
}
