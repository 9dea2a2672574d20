//! Header of a page.

use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};
use crate::parsers::innodb::InnodbLsn;

/// Header of every page that is not inside a compressed one: 38 bytes at its start, big-endian.
///
/// | bytes  | field          | meaning                                                                |
/// |--------|----------------|------------------------------------------------------------------------|
/// | 0..4   |                | checksum; not used with `full_crc32`                                   |
/// | 4..8   | `page_no`      | number of the page in its tablespace                                   |
/// | 8..16  |                | pages before and after it, 0xFFFFFFFF for none                         |
/// | 16..24 | `lsn`          | end of the newest change of the page                                   |
/// | 24..26 | `page_type`    | kind of page                                                           |
/// | 26..34 |                | page 0 of space 0: flush LSN; MariaDB: key version in the first 4 bytes |
/// | 34..38 | `space_id`     | tablespace                                                             |
/// Source: `FIL_PAGE_SPACE_OR_CHKSUM` and the offsets after it, `storage/innobase/include/fil0types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Number of the page in its tablespace.
    pub page_no: u32,
    /// End of its newest change.
    pub lsn: InnodbLsn,
    /// Kind of page.
    pub page_type: PageType,
    /// Tablespace.
    pub space_id: u32,
}

impl PageHeader {
    /// Bytes of the header.
    pub const SIZE: usize = 38;

    /// Decodes without judging; `None` for a page that is shorter than [`Self::SIZE`].
    pub fn of(page: &[u8]) -> Option<Self> {
        let (page_no, lsn, space_id) = (be_u32_at(page, 4)?, InnodbLsn(be_u64_at(page, 16)?), be_u32_at(page, 34)?);
        Some(Self { page_no, lsn, page_type: PageType(be_u16_at(page, 24)?), space_id })
    }
}

/// Kind of page, as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageType(pub u16);

impl PageType {
    pub(crate) const MYSQL_COMPRESSED: Self = Self(14);
    /// MariaDB without `full_crc32`: compressed page.
    pub(crate) const MARIADB_COMPRESSED: Self = Self(34354);
    /// MariaDB without `full_crc32`: compressed and encrypted page.
    pub(crate) const MARIADB_COMPRESSED_ENCRYPTED: Self = Self(37401);
    /// MariaDB with `full_crc32`: set in the type of a compressed page, whose other bits are its size in units of 256 bytes.
    pub(crate) const FULL_CRC32_COMPRESSED: u16 = 0x8000;

    /// Stable name for programs; `other` for a type that is not known.
    #[rustfmt::skip]
    pub const fn name(self) -> &'static str {
        match self.0 {
0 => "allocated", 2 => "undo_log", 3 => "inode", 4 => "ibuf_free_list", 5 => "ibuf_bitmap", 6 => "system",
            7 => "trx_system", 8 => "space_header", 9 => "extent_descriptor", 10 => "blob", 11 => "zblob",
            12 => "zblob2", 13 => "legacy_doublewrite", 14 => "mysql_compressed", 15 => "mysql_encrypted",
            16 => "mysql_compressed_encrypted", 17 => "mysql_encrypted_rtree", 21 => "rollback_segment_array",
            22 => "lob_index", 23 => "lob_data", 24 => "lob_first", 25 => "zlob_first", 26 => "zlob_data",
            27 => "zlob_index", 28 => "zlob_fragment", 29 => "zlob_fragment_entry", 17853 => "sdi", 17854 => "rtree",
            17855 => "index", 34354 => "mariadb_compressed", 37401 => "mariadb_compressed_encrypted",
            _ if self.0 & Self::FULL_CRC32_COMPRESSED != 0 => "full_crc32_compressed",
            _ => "other",
        }
    }

    /// True for a page that MySQL encrypted.
    pub(crate) const fn is_mysql_encrypted(self) -> bool {
        matches!(self.0, 15..=17)
    }
}
