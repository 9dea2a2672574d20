//! Full-page images the other way round: what a server would store of a page under each setting of `wal_compression`.

use std::fmt;

use super::image::Compression;
use super::pglz_compress::PglzCompressor;

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
/// pglz gives the bytes that the server stores: see [`super::pglz_compress`]. LZ4 and zstd are what other implementations
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
    use crate::parsers::wal::version::Major;

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
