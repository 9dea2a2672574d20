//! Whether a page is whole: its checksum, header against trailer, and what can be tested of compressed and encrypted pages.
//! Also here: header of a page.

use super::checksum::{
    Algorithm, NO_CHECKSUM, full_crc32, page_crc32, page_innodb, page_innodb_old, zip_crc32, zip_innodb,
};
use super::compressed::{FullCrc32Size, PageCodec, Unpacked, unpack_mariadb, unpack_mysql};
use super::flags::{SPACE_ID_AT, SpaceFlags};
use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};
use crate::parsers::page::is_all_zero;

/// State of a page according to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PageState {
    /// All zero: never written.
    Empty,
    /// Whole, by this checksum.
    #[strum(serialize = "good")]
    Sound(Algorithm),
    /// Not what was written.
    #[strum(serialize = "bad")]
    Damaged(PageFault),
    /// It cannot be told here.
    Unverifiable(Unverifiable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "fields have the names of the words that they become")]
pub enum PageFault {
    /// No checksum that a server may have written is right; `computed`: by `crc32`.
    Checksum {
        stored: u32,
        computed: u32,
    },
    /// The checksum is right, yet header and trailer have different LSNs, of which these are the low halves.
    TrailerLsn {
        header: u32,
        trailer: u32,
    },
    CompressedSize {
        bytes: usize,
    },
    #[strum(serialize = "compressed_content")]
    Packed(Unpacked),
    /// Its type is that of an encrypted page in a tablespace that is not encrypted.
    NotEncryptedHere,
    /// It is whole, and is another page of a tablespace: it was written to the wrong place.
    WrongPageNumber {
        found: u32,
        expected: u32,
    },
    /// It is whole, and is a page of another tablespace.
    WrongTablespace {
        found: u32,
        expected: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "fields have the names of the words that they become")]
pub enum Unverifiable {
    Encrypted,
    /// It was compressed in a way that cannot be unpacked here.
    Codec {
        codec: PageCodec,
    },
}

stable_names!(PageState);
stable_names!(PageFault);

impl PageState {
    /// How the checksum was computed that is right.
    pub const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Sound(algorithm) => Some(algorithm),
            _ => None,
        }
    }

    /// True for a page that is what was written.
    pub const fn is_sound(self) -> bool {
        matches!(self, Self::Sound(_))
    }

    /// True for a page that is not what was written.
    pub const fn is_damaged(self) -> bool {
        matches!(self, Self::Damaged(_))
    }

    /// Judges a page that has exactly the bytes of one in a data file of a tablespace with such flags.
    pub fn of(page: &[u8], flags: &SpaceFlags) -> Self {
        Self::of_image(page, flags, flags.is_mysql_encrypted)
    }

    /// Checks the page at this position: an intact one must have its number and its tablespace, page 0 in both places. For other
    /// pages of the system tablespace the latter is not asked: servers before MySQL 4.1 had something else there.
    /// Source: `buf_page_io_complete`, `storage/innobase/buf/buf0buf.cc`.
    pub fn at(page: &[u8], flags: &SpaceFlags, place: InnodbPageId) -> Self {
        let state = Self::of(page, flags);
        if !state.is_sound() || is_unwritten(page) {
            return state;
        }
        let differs = |at: usize, expected: u32| be_u32_at(page, at).filter(|found| *found != expected);
        if let Some(found) = differs(4, place.page_no) {
            return Self::Damaged(PageFault::WrongPageNumber { found, expected: place.page_no });
        }
        // With `full_crc32` the tablespace is inside of what is compressed or encrypted; a key has a version, which is there.
        let is_hidden = flags.is_full_crc32
            && (matches!(FullCrc32Size::of(page), FullCrc32Size::Compressed(_)) || be_u32_at(page, 0) != Some(0));
        let is_first = place.page_no == 0;
        let in_header = differs(34, place.space_id).filter(|_| (place.space_id != 0 || is_first) && !is_hidden);
        let after_header = differs(SPACE_ID_AT, place.space_id).filter(|_| is_first && !is_hidden);
        match in_header.or(after_header) {
            Some(found) => Self::Damaged(PageFault::WrongTablespace { found, expected: place.space_id }),
            None => state,
        }
    }

    /// Like [`Self::of`], but the tablespace may be encrypted although its flags do not say so.
    pub(crate) fn of_image(page: &[u8], flags: &SpaceFlags, may_be_encrypted: bool) -> Self {
        if is_all_zero(page) {
            return Self::Empty;
        }
        if flags.zip_bytes.is_some() {
            return Self::of_zip(page);
        }
        if flags.is_full_crc32 {
            return Self::of_full_crc32(page);
        }
        match PageType(be_u16_at(page, 24).unwrap_or_default()) {
            PageType::MYSQL_COMPRESSED => Self::of_packed(unpack_mysql(page), Algorithm::MysqlPageCompression),
            page_type if page_type.is_mysql_encrypted() => match may_be_encrypted {
                true => Self::Unverifiable(Unverifiable::Encrypted),
                false => Self::Damaged(PageFault::NotEncryptedHere),
            },
            PageType::MARIADB_COMPRESSED => Self::of_packed(unpack_mariadb(page), Algorithm::MariadbPageCompression),
            PageType::MARIADB_COMPRESSED_ENCRYPTED => match is_encrypted_whole(page) {
                true => Self::Sound(Algorithm::MariadbEncrypted),
                false => Self::Unverifiable(Unverifiable::Encrypted),
            },
            _ => Self::of_plain(page),
        }
    }

    /// Judges a page with `ROW_FORMAT=COMPRESSED`.
    pub(crate) fn of_zip(page: &[u8]) -> Self {
        let Some(stored) = be_u32_at(page, 0) else {
            return Self::Damaged(PageFault::CompressedSize { bytes: page.len() });
        };
        let computed = zip_crc32(page);
        if stored == computed {
            Self::Sound(Algorithm::ZipCrc32)
        } else if stored == NO_CHECKSUM {
            Self::Sound(Algorithm::ZipNone)
        } else if stored == zip_innodb(page) {
            Self::Sound(Algorithm::ZipInnodb)
        } else {
            Self::Damaged(PageFault::Checksum { stored, computed })
        }
    }

    fn of_full_crc32(page: &[u8]) -> Self {
        let (length, is_compressed) = match FullCrc32Size::of(page) {
            FullCrc32Size::Whole => (page.len(), false),
            FullCrc32Size::Compressed(length) => (length, true),
            FullCrc32Size::Impossible(bytes) => return Self::Damaged(PageFault::CompressedSize { bytes }),
        };
        let Some((computed, stored)) = full_crc32(page, length) else {
            return Self::Damaged(PageFault::CompressedSize { bytes: length });
        };
        if computed != stored {
            return Self::Damaged(PageFault::Checksum { stored, computed });
        }
        // An encrypted page has no copy of the LSN, and neither has a compressed one.
        let is_encrypted = be_u32_at(page, 26) != Some(0);
        match trailer_lsn(page, 8) {
            Some((header, trailer)) if header != trailer && !is_compressed && !is_encrypted => {
                Self::Damaged(PageFault::TrailerLsn { header, trailer })
            }
            _ => Self::Sound(Algorithm::FullCrc32),
        }
    }

    /// Not every way to compress has a checksum: that of the page that comes out counts, as for the server.
    fn of_packed(plain: Result<Vec<u8>, Unpacked>, algorithm: Algorithm) -> Self {
        match plain.map(|plain| Self::of_plain(&plain)) {
            Ok(Self::Sound(_)) => Self::Sound(algorithm),
            Ok(other) => other,
            Err(Unpacked::UnknownCodec { codec }) => Self::Unverifiable(Unverifiable::Codec { codec }),
            Err(unpacked) => Self::Damaged(PageFault::Packed(unpacked)),
        }
    }

    /// Judges a page that is neither compressed nor encrypted. A server may be set to one of three checksums and accepts all.
    fn of_plain(page: &[u8]) -> Self {
        let stored = be_u32_at(page, 0).unwrap_or_default();
        let in_trailer = page.len().checked_sub(8).and_then(|at| be_u32_at(page, at)).unwrap_or_default();
        let lsns = trailer_lsn(page, 4);
        let of_lsns = |algorithm| match lsns {
            Some((header, trailer)) if header == trailer => Self::Sound(algorithm),
            Some((header, trailer)) => Self::Damaged(PageFault::TrailerLsn { header, trailer }),
            None => Self::Damaged(PageFault::CompressedSize { bytes: page.len() }),
        };
        let computed = page_crc32(page);
        if stored == computed && in_trailer == computed {
            return of_lsns(Algorithm::Crc32);
        }
        if stored == NO_CHECKSUM && in_trailer == NO_CHECKSUM {
            return of_lsns(Algorithm::None);
        }
        let failed = Self::Damaged(PageFault::Checksum { stored, computed });
        let Some((header, _)) = lsns.filter(|(header, trailer)| header == trailer) else {
            return if is_encrypted_whole(page) { Self::Sound(Algorithm::MariadbEncrypted) } else { failed };
        };
        if has_zeros_around(page) {
            return failed;
        }
        let trailer_fits = in_trailer == header || in_trailer == page_innodb_old(page);
        if trailer_fits && (stored == 0 || stored == page_innodb(page)) {
            return Self::Sound(Algorithm::Innodb);
        }
        if is_encrypted_whole(page) { Self::Sound(Algorithm::MariadbEncrypted) } else { failed }
    }
}

/// True when checksums and LSN are zeros and other bytes are not. Zeros are right in a page that was never written, which is all
/// zero then: the first and the last sector of one that was being written for the first time may still be so.
fn has_zeros_around(page: &[u8]) -> bool {
    let in_trailer = page.len().checked_sub(8).and_then(|at| be_u32_at(page, at));
    let are_zeros = be_u32_at(page, 0) == Some(0) && in_trailer == Some(0) && be_u64_at(page, 16) == Some(0);
    are_zeros && !is_unwritten(page)
}

/// True for a page of zeros but for the field at 26, which servers set in pages that are empty otherwise.
/// Source: `BlockReporter::is_corrupted`, `storage/innobase/buf/checksum.cc`.
fn is_unwritten(page: &[u8]) -> bool {
    page.get(..26).is_none_or(is_all_zero) && page.get(34..).is_none_or(is_all_zero)
}

/// True for a page that MariaDB encrypted without `full_crc32`: it has a key version, and after it the checksum of the
/// encrypted bytes.
/// Source: `fil_space_verify_crypt_checksum`, `storage/innobase/fil/fil0crypt.cc`.
fn is_encrypted_whole(page: &[u8]) -> bool {
    be_u32_at(page, 26).is_some_and(|key| key != 0) && be_u32_at(page, 30) == Some(page_crc32(page))
}

/// Low half of the LSN in the header, and its copy so many bytes before the end.
fn trailer_lsn(page: &[u8], before_end: usize) -> Option<(u32, u32)> {
    be_u32_at(page, 20).zip(page.len().checked_sub(before_end).and_then(|at| be_u32_at(page, at)))
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A page with some content and a right `crc32`.
    fn plain_page(length: usize) -> Vec<u8> {
        let mut page: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
        page[26..34].fill(0);
        let lsn: [u8; 4] = page[20..24].try_into().unwrap();
        page[length - 4..].copy_from_slice(&lsn);
        let crc = page_crc32(&page).to_be_bytes();
        page[..4].copy_from_slice(&crc);
        page[length - 8..length - 4].copy_from_slice(&crc);
        page
    }

    #[test]
    fn each_classic_checksum_is_recognised() {
        let flags = SpaceFlags::plain(16384);
        let mut page = plain_page(16384);
        assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::Crc32));
        page[..4].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        page[16376..16380].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::None));
        let innodb = page_innodb(&page).to_be_bytes();
        page[..4].copy_from_slice(&innodb);
        let old = page_innodb_old(&page).to_be_bytes();
        page[16376..16380].copy_from_slice(&old);
        assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::Innodb));
        let lsn: [u8; 4] = page[20..24].try_into().unwrap();
        page[16376..16380].copy_from_slice(&lsn);
        assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::Innodb));
    }

    #[test]
    fn trailer_of_another_version_is_damage_under_a_right_checksum() {
        let mut page = plain_page(16384);
        page[16383] ^= 1;
        // The trailer is not part of the checksum.
        let state = PageState::of(&page, &SpaceFlags::plain(16384));
        assert!(matches!(state, PageState::Damaged(PageFault::TrailerLsn { .. })), "{state:?}");
    }

    /// As MySQL 5.7.42 and others found it damaged: the first and last sectors are still zeros, those between were written.
    #[test]
    fn middle_of_a_page_that_was_never_written_before_is_damage() {
        for middle in [512..15872, 1024..1536, 38..39, 16375..16376] {
            let mut page = vec![0; 16384];
            page[middle.clone()].fill(0x39);
            for flags in [SpaceFlags::plain(16384), SpaceFlags::full_crc32(16384)] {
                assert!(PageState::of(&page, &flags).is_damaged(), "{middle:?}");
            }
        }
        let mut page = vec![0; 16384];
        page[26..34].fill(1);
        assert!(!PageState::of(&page, &SpaceFlags::plain(16384)).is_damaged(), "servers set this field in empty pages");
    }

    #[test]
    fn encrypted_page_of_mysql_is_not_judged() {
        let mut page = plain_page(4096);
        page[24..26].copy_from_slice(&15_u16.to_be_bytes());
        let flags = SpaceFlags::plain(4096);
        assert_eq!(PageState::of(&page, &flags), PageState::Damaged(PageFault::NotEncryptedHere));
        let flags = SpaceFlags { is_mysql_encrypted: true, ..flags };
        assert_eq!(PageState::of(&page, &flags), PageState::Unverifiable(Unverifiable::Encrypted));
    }

    #[test]
    fn every_flipped_bit_under_full_crc32_is_found() {
        let mut page = plain_page(4096);
        let lsn: [u8; 4] = page[20..24].try_into().unwrap();
        page[4088..4092].copy_from_slice(&lsn);
        let crc = crate::parsers::crc::crc32c(&page[..4092]).to_be_bytes();
        page[4092..].copy_from_slice(&crc);
        let flags = SpaceFlags::full_crc32(4096);
        assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::FullCrc32));
        for byte in 0..page.len() {
            page[byte] ^= 0x10;
            assert!(PageState::of(&page, &flags).is_damaged(), "{byte}");
            page[byte] ^= 0x10;
        }
    }

    /// Bytes that the servers write, according to their sources, with compressors that are not ours.
    #[test]
    fn compressed_pages_are_unpacked_and_tested() {
        let plain = plain_page(16384);
        let pack = |bytes: &[u8]| {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            std::io::Write::write_all(&mut encoder, bytes).unwrap();
            encoder.finish().unwrap()
        };
        let lz4 = lz4_flex::block::compress(&plain[38..]);
        for (number, packed) in [(1, pack(&plain[38..])), (2, lz4)] {
            let mut page = plain[..38].to_vec();
            page[24..26].copy_from_slice(&14_u16.to_be_bytes());
            page[26..28].copy_from_slice(&[2, number]);
            page[28..30].copy_from_slice(&plain[24..26]);
            page[30..32].copy_from_slice(&(16384_u16 - 38).to_be_bytes());
            page[32..34].copy_from_slice(&(packed.len() as u16).to_be_bytes());
            page.extend(&packed);
            page.resize(16384, 0xEE);
            let flags = SpaceFlags::plain(16384);
            assert_eq!(PageState::of(&page, &flags), PageState::Sound(Algorithm::MysqlPageCompression));
            assert_eq!(unpack_mysql(&page).unwrap(), plain);
            page[60] ^= 1;
            assert!(PageState::of(&page, &flags).is_damaged());
            page[27] = 9;
            let unknown = PageState::Unverifiable(Unverifiable::Codec { codec: PageCodec::Other(9) });
            assert_eq!(PageState::of(&page, &flags), unknown);
        }
        let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        std::io::Write::write_all(&mut bzip, &plain).unwrap();
        // The highest level names a window of 64 MiB.
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(9)).unwrap();
        std::io::Write::write_all(&mut xz, &plain).unwrap();
        let lz4 = lz4_flex::block::compress(&plain);
        let snappy = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let all = [(1, pack(&plain)), (2, lz4), (4, xz.finish().unwrap()), (5, bzip.finish().unwrap()), (6, snappy)];
        for (number, packed) in all {
            let mut page = plain[..38].to_vec();
            page[24..26].copy_from_slice(&34354_u16.to_be_bytes());
            page[26..34].copy_from_slice(&u64::from(number as u8).to_be_bytes());
            page.extend((packed.len() as u16).to_be_bytes());
            page.extend(&packed);
            page.resize(16384, 0xEE);
            let flags = SpaceFlags::plain(16384);
            let state = PageState::of(&page, &flags);
            assert_eq!(state, PageState::Sound(Algorithm::MariadbPageCompression), "codec {number}");
            page[7] ^= 1;
            let other = PageState::Damaged(PageFault::Packed(Unpacked::OtherPage));
            assert_eq!(PageState::of(&page, &flags), other, "codec {number}");
            page[7] ^= 1;
            // LZ4 has no checksum, and neither has LZMA as the server sets it: that of the page counts.
            for at in (40..40 + packed.len()).step_by(7) {
                page[at] ^= 4;
                // No classic checksum covers the flush LSN.
                let same = |got: Vec<u8>| got[..26] == plain[..26] && got[34..] == plain[34..];
                let is_harmless = unpack_mariadb(&page).is_ok_and(same);
                assert!(is_harmless || PageState::of(&page, &flags).is_damaged(), "codec {number}, byte {at}");
                page[at] ^= 4;
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..6000), page_type in any::<u16>(), raw in any::<u32>(),
        ) {
            let mut bytes = bytes;
            if let Some(field) = bytes.get_mut(24..26) {
                field.copy_from_slice(&page_type.to_be_bytes());
            }
            let known = [14, 15, 34354, 37401, 0x8001, 0x800F];
            for flags in [SpaceFlags::of(raw), SpaceFlags::plain(4096), SpaceFlags::full_crc32(4096)] {
                let state = PageState::of(&bytes, &flags);
                prop_assert!(!state.is_sound() || known.contains(&page_type) || bytes.len() > 7);
            }
        }
    }
}
