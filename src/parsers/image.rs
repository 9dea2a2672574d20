//! Full-page images: from the bytes in a WAL record to the page.
//! Also here: the page made ready for a data file, and an image of a page as a server would store it.
//! Also here: the page made ready for a data file, and an image of a page as a server would store it.

use std::fmt;

use strum::IntoStaticStr;

use super::checksum::page_checksum;
use super::pglz::{self, PglzCompressor, PglzError};
use super::wal::version::Major;
use crate::types::{BlockNumber, Lsn};

/// How an image's bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Compression {
    /// The server's own method.
    Pglz,
    /// One raw LZ4 block, from 15 on.
    Lz4,
    /// One zstd frame, from 15 on.
    Zstd,
}

impl Compression {
    /// The name that `wal_compression` takes.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A block's image as a WAL record stores it: the page without its hole, maybe compressed. Header of 5 bytes after the
/// block reference's `data_length`, little-endian; 2 more bytes when there is a hole and compression.
///
/// | bytes | field         | C type   | meaning                                                               |
/// |-------|---------------|----------|-----------------------------------------------------------------------|
/// | 0..2  | `length`      | `uint16` | bytes stored, the length of [`Self::bytes`]                           |
/// | 2..4  | `hole_offset` | `uint16` | where the hole begins in the page, 0 without hole                     |
/// | 4..5  | `bimg_info`   | `uint8`  | flags: 0x01 has hole; others differ by major, see [`Major`]           |
/// | 5..7  | `hole_length` | `uint16` | only if hole and compression; else what is missing to a whole page    |
///
/// Source: `XLogRecordBlockImageHeader`, `XLogRecordBlockCompressHeader`, `src/include/access/xlogrecord.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockImage<'a> {
    /// The bytes stored in the record.
    pub bytes: &'a [u8],
    /// Where the hole begins in the page, in bytes; 0 without hole.
    pub hole_offset: u16,
    /// Length of the hole, in bytes; 0 without hole.
    pub hole_length: u16,
    /// Flags as stored.
    pub bimg_info: u8,
    /// Whose layout the flags have.
    pub major: Major,
}

/// Flag of `bimg_info` in all majors: part of the page is left out (`BKPIMAGE_HAS_HOLE`).
pub(crate) const IMAGE_HAS_HOLE: u8 = 0x01;

impl BlockImage<'_> {
    /// How the bytes are compressed, if they are.
    pub fn compression(&self) -> Option<Compression> {
        self.major.image_compression(self.bimg_info)
    }

    /// True when redo restores the image; false when it serves `wal_consistency_checking` alone.
    pub fn applies(&self) -> bool {
        self.bimg_info & self.major.image_apply_flag() != 0
    }
}

/// Why an image could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The hole does not lie inside the page.
    #[error("hole of {hole_length} bytes at {hole_offset} does not fit into a page of {page_length} bytes")]
    Hole {
        /// Where the hole begins.
        hole_offset: u16,
        /// Its length.
        hole_length: u16,
        /// Bytes of the page.
        page_length: usize,
    },
    /// Stored or decompressed bytes do not make up a page.
    #[error("image has {found} bytes without its hole, expected {expected}")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes of the page less the hole.
        expected: usize,
    },
    /// The pglz stream is damaged.
    #[error(transparent)]
    Pglz(#[from] PglzError),
    /// The LZ4 block is damaged.
    #[error("lz4: {0}")]
    Lz4(String),
    /// The zstd frame is damaged.
    #[error("zstd: {0}")]
    Zstd(String),
}

/// Restores images; keeps the state of the decompressors, so use one per thread for many images.
#[derive(Default)]
pub struct ImageDecoder {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl std::fmt::Debug for ImageDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageDecoder").finish_non_exhaustive()
    }
}

impl ImageDecoder {
    /// A decoder that has not seen an image yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the page of `image` over `page`, whose length is the server's `BLCKSZ`. The hole comes out as zeros.
    ///
    /// The page is as the record left it, but with the LSN and the checksum from before: redo sets the LSN to the end
    /// of the record, and the checksum is computed when the page is written.
    ///
    /// Source: `RestoreBlockImage`, `src/backend/access/transam/xlogreader.c`.
    ///
    /// # Errors
    /// [`ImageError`] when the bytes do not make up exactly one page; `page` then holds anything.
    pub fn restore(&mut self, image: &BlockImage<'_>, page: &mut [u8]) -> Result<(), ImageError> {
        let (hole_start, hole_length) = (usize::from(image.hole_offset), usize::from(image.hole_length));
        let length = self.unpack(image, page)?;
        if hole_length > 0 {
            // Everything lies at the front; the part after the hole moves to its own offset.
            let hole_end = hole_start.saturating_add(hole_length);
            page.copy_within(hole_start..length, hole_end);
            page.get_mut(hole_start..hole_end).unwrap_or_default().fill(0);
        }
        Ok(())
    }

    /// Writes what `image` held before it was compressed, the page without its hole, over the start of `page`, whose length
    /// is the server's `BLCKSZ`. Gives its length.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn unpack(&mut self, image: &BlockImage<'_>, page: &mut [u8]) -> Result<usize, ImageError> {
        let page_length = page.len();
        let hole_length = usize::from(image.hole_length);
        let hole_end = usize::from(image.hole_offset).saturating_add(hole_length);
        let Some(expected) = page_length.checked_sub(hole_length).filter(|_| hole_end <= page_length) else {
            let (hole_offset, hole_length) = (image.hole_offset, image.hole_length);
            return Err(ImageError::Hole { hole_offset, hole_length, page_length });
        };
        let found = match image.compression() {
            None => {
                let found = image.bytes.len();
                match page.get_mut(..expected) {
                    Some(room) if found == expected => room.copy_from_slice(image.bytes),
                    _ => return Err(ImageError::Length { found, expected }),
                }
                found
            }
            Some(Compression::Pglz) => {
                pglz::decompress(image.bytes, page, expected)?;
                expected
            }
            Some(Compression::Lz4) => {
                let room = page.get_mut(..expected).unwrap_or_default();
                lz4_flex::block::decompress_into(image.bytes, room).map_err(|e| ImageError::Lz4(e.to_string()))?
            }
            Some(Compression::Zstd) => {
                let room = page.get_mut(..expected).unwrap_or_default();
                self.unpack_zstd(image.bytes, room)?
            }
        };
        if found != expected {
            return Err(ImageError::Length { found, expected });
        }
        Ok(expected)
    }

    fn unpack_zstd(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<usize, ImageError> {
        let failed = |e: std::io::Error| ImageError::Zstd(e.to_string());
        if self.zstd.is_none() {
            self.zstd = Some(zstd::bulk::Decompressor::new().map_err(failed)?);
        }
        match self.zstd.as_mut() {
            Some(decompressor) => decompressor.decompress_to_buffer(bytes, room).map_err(failed),
            None => Err(ImageError::Zstd("no decompressor".to_owned())),
        }
    }
}

/// Sets what redo and the writing of a page set: the LSN (bytes 0 to 8, high half first) to the end of the record, and
/// the checksum (bytes 8 and 9) if the cluster has checksums. A page that was never initialised (`pd_upper` 0) gets no
/// checksum, as the server gives none.
///
/// Source: `XLogReadBufferForRedoExtended`, `src/backend/access/transam/xlogutils.c`; `PageSetChecksumCopy`,
/// `src/backend/storage/page/bufpage.c`.
pub(crate) fn ready_page(page: &mut [u8], lsn: Lsn, block: BlockNumber, checksums: bool) {
    let is_new = page.get(14..16) == Some(&[0, 0]);
    let high = u32::try_from(lsn.0 >> 32).unwrap_or(u32::MAX).to_le_bytes();
    let low = u32::try_from(lsn.0 & 0xFFFF_FFFF).unwrap_or(u32::MAX).to_le_bytes();
    if is_new {
        // Redo leaves the LSN of an all-zero page alone, since it would no longer be all zero.
        return;
    }
    if let Some((lsn_bytes, _)) = page.split_first_chunk_mut::<8>() {
        let (high_bytes, low_bytes) = lsn_bytes.split_at_mut(4);
        high_bytes.copy_from_slice(&high);
        low_bytes.copy_from_slice(&low);
    }
    if checksums {
        set_checksum(page, block);
    }
}

/// Writes the checksum that the page's bytes give into bytes 8 and 9.
pub fn set_checksum(page: &mut [u8], block: BlockNumber) {
    let sum = page_checksum(page, block).to_le_bytes();
    if let Some(field) = page.get_mut(8..10) {
        field.copy_from_slice(&sum);
    }
}

/// Bytes that a header grows by when an image is compressed and has a hole: the length of the hole
/// (`SizeOfXLogRecordBlockCompressHeader`).
pub(crate) const HOLE_LENGTH_SIZE: usize = 2;

/// Level that servers compress with zstd at (`ZSTD_CLEVEL_DEFAULT`).
pub(crate) const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// All methods, in the order of their age.
    pub const ALL: [Self; 3] = [Self::Pglz, Self::Lz4, Self::Zstd];

    /// Level that servers use, of a method that has levels.
    pub const fn level(self) -> Option<i32> {
        match self {
            Self::Zstd => Some(ZSTD_LEVEL),
            Self::Pglz | Self::Lz4 => None,
        }
    }
}

/// Compresses images; keeps its buffers, so use one per thread for many images.
///
/// pglz gives the bytes that the server stores: see [`super::pglz`]. LZ4 and zstd are what other implementations
/// or versions of these formats make of the page: of LZ4 up to a percent more or less in sum, of zstd a few bytes.
///
/// Source: `XLogCompressBackupBlock`, `src/backend/access/transam/xloginsert.c`.
#[derive(Default)]
pub struct ImageEncoder {
    pglz: PglzCompressor,
    /// Made for the first image and used again: the server makes one for each image, which is a part of what it costs, and
    /// stores the same bytes.
    zstd: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
}

impl fmt::Debug for ImageEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageEncoder").field("pglz", &self.pglz).finish_non_exhaustive()
    }
}

impl ImageEncoder {
    /// Forgets what it keeps from image to image, as the server does for zstd.
    pub(crate) fn forget_context(&mut self) {
        self.zstd = None;
    }

    /// An encoder that has not seen an image yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses `raw`, a page without its hole, as a server with `method` does. `None`: `raw` itself, because
    /// compression saves nothing.
    pub fn compress(&mut self, method: Compression, raw: &[u8], has_hole: bool) -> Option<&[u8]> {
        let length = match method {
            Compression::Pglz => self.pglz.compress(raw, &mut self.buffer).then_some(self.buffer.len())?,
            Compression::Lz4 => {
                let room = self.room_for(raw);
                lz4_flex::block::compress_into(raw, room).ok()?
            }
            Compression::Zstd => {
                let mut zstd = match self.zstd.take() {
                    Some(zstd) => zstd,
                    None => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?,
                };
                let length = zstd.compress_to_buffer(raw, self.room_for(raw));
                self.zstd = Some(zstd);
                length.ok()?
            }
        };
        let header = if has_hole { HOLE_LENGTH_SIZE } else { 0 };
        let compressed = self.buffer.get(..length)?;
        (length.saturating_add(header) < raw.len()).then_some(compressed)
    }

    /// More room than any method needs for `raw`.
    fn room_for(&mut self, raw: &[u8]) -> &mut [u8] {
        let needed = raw.len().saturating_mul(2).saturating_add(1024);
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::image::{BlockImage, ImageDecoder};
    use crate::parsers::page::PageHeader;
    use crate::parsers::wal::version::Major;

    fn image(bytes: &[u8], hole_offset: u16, hole_length: u16, bimg_info: u8) -> BlockImage<'_> {
        BlockImage { bytes, hole_offset, hole_length, bimg_info, major: Major::V18 }
    }

    #[test]
    fn hole_becomes_zeros_and_the_tail_moves_back() {
        let mut page = [0xEE; 10];
        ImageDecoder::new().restore(&image(&[1, 2, 3, 4], 3, 6, 0x03), &mut page).unwrap();
        assert_eq!(page, [1, 2, 3, 0, 0, 0, 0, 0, 0, 4]);
        let mut page = [0xEE; 4];
        ImageDecoder::new().restore(&image(&[1, 2, 3, 4], 0, 0, 0x02), &mut page).unwrap();
        assert_eq!(page, [1, 2, 3, 4]);
    }

    #[test]
    fn every_method_restores_around_a_hole() {
        let raw: Vec<u8> = (0..600_u32).map(|i| (i / 50) as u8).collect();
        let mut page = raw.clone();
        page.splice(100..100, [0; 424]);
        let zstd = zstd::bulk::compress(&raw, 3).unwrap();
        let lz4 = lz4_flex::block::compress(&raw);
        let mut decoder = ImageDecoder::new();
        for (bytes, info) in [(&raw, 0x03), (&lz4, 0x0B), (&zstd, 0x13), (&zstd, 0x13)] {
            let mut out = [0xEE; 1024];
            decoder.restore(&image(bytes, 100, 424, info), &mut out).unwrap();
            assert_eq!(out[..], page[..], "{info:#x}");
        }
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let mut decoder = ImageDecoder::new();
        let mut page = [0; 64];
        let hole = decoder.restore(&image(&[1], 60, 10, 0x03), &mut page);
        assert_eq!(hole, Err(ImageError::Hole { hole_offset: 60, hole_length: 10, page_length: 64 }));
        let short = decoder.restore(&image(&[0; 20], 24, 40, 0x03), &mut page);
        assert_eq!(short, Err(ImageError::Length { found: 20, expected: 24 }));
        let zstd = zstd::bulk::compress(&[7; 63], 3).unwrap();
        let short = decoder.restore(&image(&zstd, 0, 0, 0x12), &mut page);
        assert_eq!(short, Err(ImageError::Length { found: 63, expected: 64 }));
        let long = zstd::bulk::compress(&[7; 65], 3).unwrap();
        assert!(matches!(decoder.restore(&image(&long, 0, 0, 0x12), &mut page), Err(ImageError::Zstd(_))));
        let long = lz4_flex::block::compress(&[7; 65]);
        assert!(matches!(decoder.restore(&image(&long, 0, 0, 0x0A), &mut page), Err(ImageError::Lz4(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_restore_or_fail_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            hole_offset in 0_u16..9000, hole_length in 0_u16..9000, info in 0_u8..32,
            page_length in prop::sample::select(vec![0_usize, 1, 512, 8192]),
        ) {
            let mut page = vec![0; page_length];
            let outcome = ImageDecoder::new().restore(&image(&bytes, hole_offset, hole_length, info), &mut page);
            if let Err(error) = outcome {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn lsn_and_checksum_are_those_of_the_server() {
        // Page B of the checksum's fact sheet has LSN 1/28 and checksum 10682 at block 1.
        let mut page = vec![0; 8192];
        page[8..20].copy_from_slice(&[0x34, 0x12, 4, 0, 24, 0, 0, 32, 0, 32, 4, 32]);
        page[100] = 0xAB;
        page[8191] = 0xFF;
        ready_page(&mut page, Lsn(0x1_0000_0028), 1, true);
        let header = PageHeader::decode(0, &page).unwrap();
        assert_eq!((header.lsn, header.checksum), (Lsn(0x1_0000_0028), 10_682));
    }

    #[test]
    fn page_that_was_never_initialised_stays_as_it_is() {
        let mut page = vec![0; 8192];
        ready_page(&mut page, Lsn(77), 1, true);
        assert_eq!(page, vec![0; 8192]);
    }

    /// Flags of an image of 15 and later that redo applies.
    const fn bimg_info(method: Option<Compression>, has_hole: bool) -> u8 {
        let method = match method {
            None => 0,
            Some(Compression::Pglz) => 0x04,
            Some(Compression::Lz4) => 0x08,
            Some(Compression::Zstd) => 0x10,
        };
        0x02 | method | has_hole as u8
    }

    #[test]
    fn two_bytes_less_are_no_gain_when_there_is_a_hole() {
        let mut encoder = ImageEncoder::new();
        // LZ4 needs 1 byte for so many literals, and 5 literals at the end: what repeats is bytes that save 2 or 3.
        let mut found = 0;
        for repeated in 4..40_u8 {
            let mut raw: Vec<u8> = (0..200_u8).collect();
            raw.extend(0..repeated);
            raw.extend([250; 12]);
            let plain = encoder.compress(Compression::Lz4, &raw, false).map(<[u8]>::len);
            let with_hole = encoder.compress(Compression::Lz4, &raw, true).map(<[u8]>::len);
            match plain {
                Some(length) if raw.len() - length <= 2 => {
                    assert_eq!(with_hole, None);
                    found += 1;
                }
                other => assert_eq!(with_hole, other),
            }
        }
        assert!(found > 0);
    }

    proptest! {
        #[test]
        fn what_is_stored_restores_to_the_page(
            words in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..8), 1_usize..40), 1..60),
            hole_offset in 1_usize..2000, hole_length in 0_usize..2000,
        ) {
            let raw: Vec<u8> = words.iter().flat_map(|(word, times)| word.repeat(*times)).collect();
            let (mut encoder, mut decoder) = (ImageEncoder::new(), ImageDecoder::new());
            let hole_offset = hole_offset.min(raw.len());
            for method in Compression::ALL {
                let Some(bytes) = encoder.compress(method, &raw, hole_length > 0) else { continue };
                let mut page = vec![0xEE; raw.len() + hole_length];
                let image = BlockImage {
                    bytes,
                    hole_offset: if hole_length > 0 { hole_offset as u16 } else { 0 },
                    hole_length: hole_length as u16,
                    bimg_info: bimg_info(Some(method), hole_length > 0),
                    major: Major::V18,
                };
                prop_assert_eq!(decoder.unpack(&image, &mut page), Ok(raw.len()));
                prop_assert_eq!(&page[..raw.len()], &raw[..]);
                prop_assert_eq!(decoder.restore(&image, &mut page), Ok(()));
                page.drain(hole_offset..hole_offset + hole_length);
                prop_assert_eq!(&page, &raw);
            }
        }
    }
}
