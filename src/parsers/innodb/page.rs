//! Header and trailer of a page.

use crate::parsers::decode::{be_u16, be_u32, be_u64, decode_at};
use crate::parsers::error::ParseError;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

/// Header of every page that is not inside a compressed one: 38 bytes at its start, big-endian.
///
/// | bytes  | field          | meaning                                                                |
/// |--------|----------------|------------------------------------------------------------------------|
/// | 0..4   | `checksum`     | checksum; not used with `full_crc32`                                   |
/// | 4..8   | `page_no`      | number of the page in its tablespace                                   |
/// | 8..12  | `previous`     | page before it, 0xFFFFFFFF for none                                    |
/// | 12..16 | `next`         | page after it, 0xFFFFFFFF for none                                     |
/// | 16..24 | `lsn`          | end of the newest change of the page                                   |
/// | 24..26 | `page_type`    | kind of page                                                           |
/// | 26..34 | `flush_lsn`    | page 0 of space 0: flush LSN; MariaDB: key version in the first 4 bytes |
/// | 34..38 | `space_id`     | tablespace                                                             |
///
/// Source: `FIL_PAGE_SPACE_OR_CHKSUM` and the offsets after it, `storage/innobase/include/fil0types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Stored checksum.
    pub checksum: u32,
    /// Number of the page in its tablespace.
    pub page_no: u32,
    /// Page before it.
    pub previous: u32,
    /// Page after it.
    pub next: u32,
    /// End of its newest change.
    pub lsn: InnodbLsn,
    /// Kind of page.
    pub page_type: PageType,
    /// Flush LSN, or the key version in its upper half.
    pub flush_lsn: u64,
    /// Tablespace.
    pub space_id: u32,
}

impl PageHeader {
    /// Bytes of the header.
    pub const SIZE: usize = 38;

    /// Decodes without judging. `base` is the offset of `buf[0]` in the file, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    pub fn decode(base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        use nom::Parser;
        use nom::error::context;
        decode_at("FIL_PAGE", base, buf, |i| {
            let (i, checksum) = context("space_or_checksum", be_u32).parse(i)?;
            let (i, page_no) = context("offset", be_u32).parse(i)?;
            let (i, previous) = context("prev", be_u32).parse(i)?;
            let (i, next) = context("next", be_u32).parse(i)?;
            let (i, lsn) = context("lsn", be_u64).parse(i)?;
            let (i, page_type) = context("type", be_u16).parse(i)?;
            let (i, flush_lsn) = context("file_flush_lsn", be_u64).parse(i)?;
            let (i, space_id) = context("space_id", be_u32).parse(i)?;
            let (lsn, page_type) = (InnodbLsn(lsn), PageType(page_type));
            Ok((i, Self { checksum, page_no, previous, next, lsn, page_type, flush_lsn, space_id }))
        })
    }

    /// The page that the header names.
    #[must_use]
    pub const fn page_id(&self) -> InnodbPageId {
        InnodbPageId { space_id: self.space_id, page_no: self.page_no }
    }

    /// Number of the key that MariaDB encrypted the page with; 0 for none.
    #[must_use]
    pub const fn key_version(&self) -> u64 {
        self.flush_lsn >> 32
    }
}

/// The last 8 bytes of a page, big-endian.
///
/// | bytes | field      | `crc32`, `innodb`, `none`  | `full_crc32`               |
/// |-------|------------|----------------------------|----------------------------|
/// | 0..4  | `first`    | checksum                   | lower half of the LSN      |
/// | 4..8  | `second`   | lower half of the LSN      | checksum                   |
///
/// Source: `FIL_PAGE_END_LSN_OLD_CHKSUM`, `FIL_PAGE_FCRC32_END_LSN` and `FIL_PAGE_FCRC32_CHECKSUM`, `fil0types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTrailer {
    /// Checksum, or the lower half of the LSN.
    pub first: u32,
    /// The other of the two.
    pub second: u32,
}

impl PageTrailer {
    /// Bytes of the trailer.
    pub const SIZE: usize = 8;

    /// Decodes the end of `page` without judging; `None` when it is shorter than the trailer.
    #[must_use]
    pub fn of(page: &[u8]) -> Option<Self> {
        let (rest, second) = page.split_last_chunk::<4>()?;
        let (_, first) = rest.split_last_chunk::<4>()?;
        Some(Self { first: u32::from_be_bytes(*first), second: u32::from_be_bytes(*second) })
    }
}

/// Kind of page, as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageType(pub u16);

impl PageType {
    /// Page of the legacy doublewrite buffer that holds no image.
    pub const LEGACY_DOUBLEWRITE: Self = Self(13);
    /// MySQL: compressed page.
    pub const MYSQL_COMPRESSED: Self = Self(14);
    /// MySQL: encrypted page.
    pub const MYSQL_ENCRYPTED: Self = Self(15);
    /// MySQL: compressed and encrypted page.
    pub const MYSQL_COMPRESSED_ENCRYPTED: Self = Self(16);
    /// MySQL: encrypted page of a spatial index.
    pub const MYSQL_ENCRYPTED_RTREE: Self = Self(17);
    /// MariaDB without `full_crc32`: compressed page.
    pub const MARIADB_COMPRESSED: Self = Self(34354);
    /// MariaDB without `full_crc32`: compressed and encrypted page.
    pub const MARIADB_COMPRESSED_ENCRYPTED: Self = Self(37401);
    /// MariaDB with `full_crc32`: set in the type of a compressed page, whose other bits are its size in units of 256 bytes.
    pub const FULL_CRC32_COMPRESSED: u16 = 0x8000;

    /// Stable name for programs; `other` for a type that is not known.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "allocated",
            2 => "undo_log",
            3 => "inode",
            4 => "ibuf_free_list",
            5 => "ibuf_bitmap",
            6 => "system",
            7 => "trx_system",
            8 => "space_header",
            9 => "extent_descriptor",
            10 => "blob",
            11 => "zblob",
            12 => "zblob2",
            13 => "legacy_doublewrite",
            14 => "mysql_compressed",
            15 => "mysql_encrypted",
            16 => "mysql_compressed_encrypted",
            17 => "mysql_encrypted_rtree",
            21 => "rollback_segment_array",
            22 => "lob_index",
            23 => "lob_data",
            24 => "lob_first",
            25 => "zlob_first",
            26 => "zlob_data",
            27 => "zlob_index",
            28 => "zlob_fragment",
            29 => "zlob_fragment_entry",
            17853 => "sdi",
            17854 => "rtree",
            17855 => "index",
            34354 => "mariadb_compressed",
            37401 => "mariadb_compressed_encrypted",
            _ if self.0 & Self::FULL_CRC32_COMPRESSED != 0 => "full_crc32_compressed",
            _ => "other",
        }
    }

    /// True for a page that MySQL encrypted.
    #[must_use]
    pub const fn is_mysql_encrypted(self) -> bool {
        matches!(self.0, 15..=17)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_servers_put_them() {
        let bytes: Vec<u8> = (0..38).collect();
        let header = PageHeader::decode(0x4000, &bytes).unwrap();
        assert_eq!(header.checksum, 0x0001_0203);
        assert_eq!(header.page_no, 0x0405_0607);
        assert_eq!((header.previous, header.next), (0x0809_0A0B, 0x0C0D_0E0F));
        assert_eq!(header.lsn, InnodbLsn(0x1011_1213_1415_1617));
        assert_eq!(header.page_type, PageType(0x1819));
        assert_eq!(header.flush_lsn, 0x1A1B_1C1D_1E1F_2021);
        assert_eq!(header.key_version(), 0x1A1B_1C1D);
        assert_eq!(header.space_id, 0x2223_2425);
    }

    #[test]
    fn trailer_is_the_last_eight_bytes() {
        let bytes: Vec<u8> = (0..64).collect();
        let trailer = PageTrailer { first: 0x3839_3A3B, second: 0x3C3D_3E3F };
        assert_eq!(PageTrailer::of(&bytes), Some(trailer));
        assert_eq!(PageTrailer::of(&bytes[..7]), None);
    }

    #[test]
    fn header_that_ends_early_is_an_error_at_its_offset() {
        for length in 0..38 {
            let error = PageHeader::decode(0x4000, &vec![7; length]).unwrap_err();
            assert!((0x4000..=0x4000 + length as u64).contains(&error.offset), "{error}");
        }
    }
}
