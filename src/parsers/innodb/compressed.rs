//! Pages that the server compressed one by one, in the forms of MySQL and MariaDB.

use std::io::Read;

use super::page_check::{PageHeader, PageType};
use crate::parsers::decode::be_u16_at;

/// Most memory that an LZMA decoder may take, in KiB: its tables, and the window of [`with_small_window`].
const MAX_LZMA_KIB: u32 = 1024;

/// Code of an LZMA window of 64 KiB, the size of the largest page.
const PAGE_WINDOW: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
#[strum(serialize_all = "UPPERCASE")]
#[allow(missing_docs, reason = "codecs by their own names")]
pub enum PageCodec {
    #[strum(serialize = "zlib")]
    Zlib,
    /// A block without a frame, as those of Snappy.
    Lz4,
    Lzma,
    #[strum(serialize = "bzip2")]
    Bzip2,
    #[strum(serialize = "Snappy")]
    Snappy,
    Lzo,
    #[strum(to_string = "algorithm {0}")]
    Other(u64),
}

impl PageCodec {
    pub(crate) const fn of_mysql(number: u8) -> Self {
        match number {
            1 => Self::Zlib,
            2 => Self::Lz4,
            other => Self::Other(other as u64),
        }
    }

    /// The codec of MariaDB's number.
    /// Source: `PAGE_ZLIB_ALGORITHM` and those after it, `storage/innobase/include/fil0fil.h`.
    pub(crate) const fn of_mariadb(number: u64) -> Self {
        match number {
            1 => Self::Zlib,
            2 => Self::Lz4,
            3 => Self::Lzo,
            4 => Self::Lzma,
            5 => Self::Bzip2,
            6 => Self::Snappy,
            other => Self::Other(other),
        }
    }

    /// Unpacks `packed` into `room`; gives the bytes that came out. Never takes more memory than `room` and the fixed need of the
    /// codec.
    fn unpack(self, packed: &[u8], room: &mut [u8]) -> Result<usize, Unpacked> {
        let filled = match self {
            Self::Zlib => {
                let mut decoder = flate2::Decompress::new(true);
                let status = decoder.decompress(packed, room, flate2::FlushDecompress::Finish).ok();
                let is_whole = status == Some(flate2::Status::StreamEnd);
                usize::try_from(decoder.total_out()).ok().filter(|_| is_whole)
            }
            Self::Lz4 => lz4_flex::block::decompress_into(packed, room).ok(),
            Self::Lzma => with_small_window(packed).and_then(|packed| {
                fill(&mut lzma_rust2::XzReader::new_mem_limit(packed.as_slice(), false, MAX_LZMA_KIB), room)
            }),
            Self::Bzip2 => fill(&mut bzip2::read::BzDecoder::new(packed), room),
            Self::Snappy => snap::raw::Decoder::new().decompress(packed, room).ok(),
            Self::Lzo | Self::Other(_) => return Err(Unpacked::UnknownCodec { codec: self }),
        };
        filled.ok_or(Unpacked::Damaged)
    }
}

/// The xz stream with a window of the size of the largest page. The stream requests the window of the level of
/// compression, 64 MiB for the highest, though no page refers back further than its own length. `None` when there is no
/// block header with the one filter that the server uses.
fn with_small_window(packed: &[u8]) -> Option<Vec<u8>> {
    // Stream header of 12 bytes; block header: its size in units of 4 bytes less one, flags, lengths, filter, zeros, CRC-32.
    let header = packed.get(12..)?;
    let length = usize::from(*header.first()?).saturating_add(1).saturating_mul(4);
    let fields = header.get(..length)?;
    let (fields, stored) = fields.split_at_checked(length.checked_sub(4)?)?;
    let mut crc = flate2::Crc::new();
    crc.update(fields);
    if stored != crc.sum().to_le_bytes() {
        return None;
    }
    let flags = *fields.get(1)?;
    let mut at: usize = 2;
    // The lengths have seven bits a byte, the last byte without the eighth.
    for _ in 0..(flags >> 6).count_ones() {
        at = at.saturating_add(fields.get(at..)?.iter().position(|byte| byte & 0x80 == 0)?).saturating_add(1);
    }
    // One filter, LZMA2, with one byte of properties.
    if flags & 0x3F != 0 || fields.get(at..at.saturating_add(2))? != [0x21, 1] {
        return None;
    }
    let window_at = at.saturating_add(2);
    let mut fields = fields.to_vec();
    let window = fields.get_mut(window_at)?;
    *window = (*window).min(PAGE_WINDOW);
    let mut crc = flate2::Crc::new();
    crc.update(&fields);
    let rest = header.get(length..)?;
    Some([packed.get(..12)?, &fields, &crc.sum().to_le_bytes(), rest].concat())
}

/// Reads until `room` is full, and then to the end of the stream, where its checksums are; `None` when reading fails or
/// there is more than fits.
fn fill(source: &mut dyn Read, room: &mut [u8]) -> Option<usize> {
    let mut filled: usize = 0;
    while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest).ok()? {
            0 => break,
            bytes => filled = filled.saturating_add(bytes),
        }
    }
    (source.read(&mut [0]).ok()? == 0).then_some(filled)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields have the names of the words that they become")]
pub enum Unpacked {
    /// The codec is not known here, so the page is not checked.
    UnknownCodec {
        codec: PageCodec,
    },
    Length {
        length: usize,
    },
    /// The bytes are not what a compressor makes, or not of one page.
    Damaged,
    /// The decompressed page is not the page in the header.
    OtherPage,
}

/// Payload of a page that MySQL compressed: 26 version, 27 codec, 28 type, 30 size, 32 compressed size (2 bytes each),
/// payload from 38 on. Gives the page as it was before.
/// Source: `Compression::deserialize`, `storage/innobase/os/file.cc`.
pub fn unpack_mysql(page: &[u8]) -> Result<Vec<u8>, Unpacked> {
    let codec = PageCodec::of_mysql(page.get(27).copied().unwrap_or_default());
    let length = usize::from(be_u16_at(page, 32).unwrap_or_default());
    let end = PageHeader::SIZE.saturating_add(length);
    let packed = page.get(PageHeader::SIZE..end).ok_or(Unpacked::Length { length })?;
    let mut plain = vec![0; page.len()];
    let (head, body) = plain.split_at_mut_checked(PageHeader::SIZE).ok_or(Unpacked::Damaged)?;
    let filled = codec.unpack(packed, body)?;
    if filled != body.len() {
        return Err(Unpacked::Damaged);
    }
    head.copy_from_slice(page.get(..PageHeader::SIZE).unwrap_or_default());
    // The type as it was before; the bytes between it and the space id belong to the compression.
    head.copy_within(28..30, 24);
    head.get_mut(26..34).unwrap_or_default().fill(0);
    Ok(plain)
}

/// Bytes of a page that MariaDB compressed without `full_crc32`, those after its payload left out; `None` when its length
/// leads out of the page.
pub fn mariadb_length(page: &[u8]) -> Option<usize> {
    let length = PAYLOAD_AT.saturating_add(usize::from(be_u16_at(page, 38)?));
    (length <= page.len()).then_some(length)
}

/// Offset of the payload in such a page.
const PAYLOAD_AT: usize = 40;

/// Payload of a page that MariaDB compressed without `full_crc32`: 26 codec (8 bytes), 38 length (2 bytes), payload from
/// 40 on, which is the whole page. Its header must name the same page and LSN as the one that is not compressed.
/// Source: `fil_page_decompress`, `storage/innobase/fil/fil0pagecompress.cc`.
pub fn unpack_mariadb(page: &[u8]) -> Result<Vec<u8>, Unpacked> {
    // Of the eight bytes of the codec the last two are enough for every codec there is.
    let codec = PageCodec::of_mariadb(be_u16_at(page, 32).map(u64::from).unwrap_or_default());
    let length = usize::from(be_u16_at(page, 38).unwrap_or_default());
    let end = mariadb_length(page).ok_or(Unpacked::Length { length })?;
    let packed = page.get(PAYLOAD_AT..end).unwrap_or_default();
    let mut plain = vec![0; page.len()];
    if codec.unpack(packed, &mut plain)? != page.len() {
        return Err(Unpacked::Damaged);
    }
    let same = |range: std::ops::Range<usize>| page.get(range.clone()) == plain.get(range);
    if same(4..8) && same(16..24) && same(34..38) { Ok(plain) } else { Err(Unpacked::OtherPage) }
}

/// Bytes of a page with `full_crc32` that its checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullCrc32Size {
    /// All of it: the page is not compressed.
    Whole,
    /// So many: it is compressed.
    Compressed(usize),
    /// No such size can be.
    Impossible(usize),
}

impl FullCrc32Size {
    /// The size that the type of a page gives.
    /// Source: `buf_page_full_crc32_size`, `storage/innobase/include/buf0checksum.h`.
    pub fn of(page: &[u8]) -> Self {
        let page_type = be_u16_at(page, 24).unwrap_or_default();
        if page_type & PageType::FULL_CRC32_COMPRESSED == 0 {
            return Self::Whole;
        }
        let bytes = usize::from(page_type & !PageType::FULL_CRC32_COMPRESSED) << 8;
        if bytes == 0 || bytes >= page.len() { Self::Impossible(bytes) } else { Self::Compressed(bytes) }
    }
}

/// Unpacks a page that MariaDB compressed with `full_crc32`, without knowing the method: the payload from 26 to the checksum at
/// `length` less 4 is the whole page. The space id is in the payload alone.
pub fn unpack_full_crc32(page: &[u8], length: usize) -> Result<Vec<u8>, Unpacked> {
    let packed = page.get(26..length.saturating_sub(4)).ok_or(Unpacked::Length { length })?;
    // A codec whose stream does not say where it ends has that in the byte before the checksum: the low byte of its end and 5.
    let low = packed.last().copied().unwrap_or_default();
    let after = usize::from(low.wrapping_neg()).saturating_add(1);
    let exact = packed.get(..packed.len().saturating_sub(after)).unwrap_or_default();
    let mut plain = vec![0; page.len()];
    let forms = [PageCodec::Zlib, PageCodec::Lzma, PageCodec::Bzip2].map(|codec| (codec, packed));
    for (codec, packed) in forms.into_iter().chain([PageCodec::Lz4, PageCodec::Snappy].map(|codec| (codec, exact))) {
        let filled = codec.unpack(packed, &mut plain);
        let same = |range: std::ops::Range<usize>| page.get(range.clone()) == plain.get(range);
        if filled == Ok(page.len()) && same(4..8) && same(16..24) {
            return Ok(plain);
        }
    }
    Err(Unpacked::Damaged)
}
