//! Flags of a tablespace: page size, compression, encryption.

use super::{DEFAULT_PAGE_BYTES, MIN_PAGE_BYTES, is_instance_page_size};
use crate::parsers::decode::be_u32_at;

/// Flags of a tablespace: 4 bytes at 54 of its page 0.
/// Source: `FSP_SPACE_FLAGS`, `storage/innobase/include/fsp0fsp.h`; of MariaDB also `fil_space_t::full_crc32`,
/// `storage/innobase/include/fil0fil.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFlags {
    /// As stored.
    pub raw: u32,
    /// MariaDB: pages end with a checksum over all of them.
    pub is_full_crc32: bool,
    /// Page size of the instance, in bytes.
    pub page_bytes: usize,
    /// Page size of a table with `ROW_FORMAT=COMPRESSED`.
    pub zip_bytes: Option<usize>,
    /// MariaDB: pages may be compressed one by one.
    pub has_page_compression: bool,
    /// MySQL: pages are encrypted.
    pub is_mysql_encrypted: bool,
}

/// Offset of the flags in page 0.
const FLAGS_AT: usize = 54;

/// Offset of the second copy of the space id in page 0.
pub(crate) const SPACE_ID_AT: usize = 38;

impl SpaceFlags {
    /// Decodes flags. Bit 4 tells the two ways to read them apart: no legal size of a compressed page sets it.
    pub const fn of(raw: u32) -> Self {
        if raw & 0x10 != 0 {
            return Self {
                raw,
                is_full_crc32: true,
                page_bytes: 512 << (raw & 15),
                zip_bytes: None,
                has_page_compression: (raw >> 5) & 7 != 0,
                is_mysql_encrypted: false,
            };
        }
        let (zip, page) = ((raw >> 1) & 15, (raw >> 6) & 15);
        Self {
            raw,
            is_full_crc32: false,
            page_bytes: if page == 0 { DEFAULT_PAGE_BYTES } else { 512 << page },
            zip_bytes: if zip == 0 { None } else { Some(512 << zip) },
            has_page_compression: raw & 0x1_0000 != 0,
            is_mysql_encrypted: raw & 0x2000 != 0,
        }
    }

    /// Flags of a tablespace with pages of this size that nothing else is known of.
    pub const fn plain(page_bytes: usize) -> Self {
        Self { page_bytes, ..Self::of(0) }
    }

    /// Flags of MariaDB with `full_crc32`.
    pub const fn full_crc32(page_bytes: usize) -> Self {
        Self { page_bytes, ..Self::of(0x15) }
    }

    /// Flags in page 0; `None` when it ends before them.
    pub fn of_page_0(page: &[u8]) -> Option<Self> {
        be_u32_at(page, FLAGS_AT).map(Self::of)
    }

    /// Bytes of a page in a data file.
    pub const fn physical_bytes(&self) -> usize {
        match self.zip_bytes {
            Some(zip) => zip,
            None => self.page_bytes,
        }
    }

    /// True when a server can make a tablespace with such sizes.
    pub const fn is_possible(&self) -> bool {
        let is_zip_possible = match self.zip_bytes {
            Some(zip) => zip >= MIN_PAGE_BYTES && zip <= DEFAULT_PAGE_BYTES && zip <= self.page_bytes,
            None => true,
        };
        is_instance_page_size(self.page_bytes) && is_zip_possible
    }
}

/// Pages that page 0 says the tablespace has; a file may be longer, when it was extended last.
pub(crate) fn declared_pages(page_0: &[u8]) -> Option<u32> {
    be_u32_at(page_0, 46)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_server_makes_are_impossible() {
        for raw in [0x10, 0x1F, 0x1 << 6, 0x0F << 6, 0x06 << 1, u32::MAX] {
            assert!(!SpaceFlags::of(raw).is_possible(), "{raw:#x}");
        }
    }

    #[test]
    fn every_value_decodes() {
        for raw in (0..u32::MAX).step_by(65_521) {
            let flags = SpaceFlags::of(raw);
            assert!(flags.physical_bytes() >= 512 && flags.physical_bytes() <= 512 << 15);
        }
    }
}
