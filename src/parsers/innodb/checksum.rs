//! Checksums of pages.

use crate::parsers::crc::crc32c;
use crate::parsers::decode::be_u32_at;

/// Stored where checksums are off.
pub(crate) const NO_CHECKSUM: u32 = 0xDEAD_BEEF;

/// How the checksum of a page was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Algorithm {
    /// CRC-32C of two parts of the page, in header and trailer.
    Crc32,
    /// The hash of InnoDB before there was `crc32`.
    Innodb,
    /// Checksums are off: only header and trailer agree.
    None,
    /// MariaDB: CRC-32C of the whole page, at its end.
    FullCrc32,
    /// `ROW_FORMAT=COMPRESSED` with `crc32`.
    ZipCrc32,
    /// `ROW_FORMAT=COMPRESSED` with `innodb`.
    ZipInnodb,
    /// `ROW_FORMAT=COMPRESSED`, and checksums are off.
    ZipNone,
    /// MySQL page compression: the page inside has a checksum of its own.
    MysqlPageCompression,
    /// MariaDB page compression without `full_crc32`: there is no checksum, the page can be unpacked and is the one that
    /// the header names.
    MariadbPageCompression,
    /// MariaDB encryption without `full_crc32`: checksum of the encrypted bytes.
    MariadbEncrypted,
}

stable_names!(Algorithm);

/// InnoDB's classic hash of bytes, kept to 32 bits. `start`: the hash of what stands before them.
/// Source: `ut_fold_binary`, `storage/innobase/include/ut0rnd.ic`.
pub fn fold(start: u32, bytes: &[u8]) -> u32 {
    const FIRST: u32 = 1_463_735_687;
    const SECOND: u32 = 1_653_893_711;
    bytes.iter().fold(start, |hash, byte| {
        let byte = u32::from(*byte);
        let mixed = ((hash ^ byte ^ SECOND) << 8).wrapping_add(hash);
        (mixed ^ FIRST).wrapping_add(byte)
    })
}

/// The part of a page between two offsets; less where it ends before.
fn part(page: &[u8], from: usize, to: usize) -> &[u8] {
    page.get(from..to.min(page.len())).unwrap_or_default()
}

/// Checksum `crc32` of a page that is not compressed: all but the fields that are set when it is written.
/// Source: `buf_calc_page_crc32`, `storage/innobase/buf/checksum.cc`.
pub(crate) fn page_crc32(page: &[u8]) -> u32 {
    crc32c(part(page, 4, 26)) ^ crc32c(part(page, 38, page.len().saturating_sub(8)))
}

/// Checksum `innodb` of a page that is not compressed.
/// Source: `buf_calc_page_new_checksum`, `storage/innobase/buf/checksum.cc`.
pub(crate) fn page_innodb(page: &[u8]) -> u32 {
    fold(0, part(page, 4, 26)).wrapping_add(fold(0, part(page, 38, page.len().saturating_sub(8))))
}

/// The older checksum `innodb`, in the trailer.
/// Source: `buf_calc_page_old_checksum`, `storage/innobase/buf/checksum.cc`.
pub(crate) fn page_innodb_old(page: &[u8]) -> u32 {
    fold(0, part(page, 0, 26))
}

/// Checksum of the first `length` bytes of a page with `full_crc32`, and the one that it has.
pub fn full_crc32(page: &[u8], length: usize) -> Option<(u32, u32)> {
    let at = length.checked_sub(4)?;
    Some((crc32c(page.get(..at)?), be_u32_at(page, at)?))
}

/// Checksum `crc32` of a page with `ROW_FORMAT=COMPRESSED`.
/// Source: `page_zip_calc_checksum`, `storage/innobase/page/zipdecompress.cc`.
pub(crate) fn zip_crc32(page: &[u8]) -> u32 {
    crc32c(part(page, 4, 16)) ^ crc32c(part(page, 24, 26)) ^ crc32c(part(page, 34, page.len()))
}

/// Checksum `innodb` of a page with `ROW_FORMAT=COMPRESSED`: Adler-32 that starts with 0.
pub(crate) fn zip_innodb(page: &[u8]) -> u32 {
    [part(page, 4, 16), part(page, 24, 26), part(page, 34, page.len())].into_iter().fold(0, adler32)
}

/// Continues an Adler-32 whose state is `before`.
fn adler32(before: u32, bytes: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    // So many bytes cannot overflow 32 bits.
    const RUN: usize = 5552;
    let (mut low, mut high) = (before & 0xFFFF, before >> 16);
    for run in bytes.chunks(RUN) {
        for byte in run {
            low = low.wrapping_add(u32::from(*byte));
            high = high.wrapping_add(low);
        }
        low = low.checked_rem(BASE).unwrap_or_default();
        high = high.checked_rem(BASE).unwrap_or_default();
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adler_with_the_usual_start_is_the_usual_one() {
        // The check value of RFC 1950's Adler-32 for "Wikipedia".
        assert_eq!(adler32(1, b"Wikipedia"), 0x11E6_0398);
        assert_eq!(adler32(adler32(1, b"Wiki"), b"pedia"), 0x11E6_0398);
        // Long enough to need more than one run.
        let many = vec![0xFF; 20_000];
        let expected = many.iter().fold((1_u64, 0_u64), |(low, high), byte| {
            let low = (low + u64::from(*byte)) % 65_521;
            (low, (high + low) % 65_521)
        });
        assert_eq!(u64::from(adler32(1, &many)), expected.1 << 16 | expected.0);
    }
}
