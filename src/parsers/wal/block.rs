//! The body of a WAL record: fragment headers first, then the fragments, packed.
//!
//! | id       | fragment header that follows                              | fragment               |
//! |----------|-----------------------------------------------------------|------------------------|
//! | 0..=32   | block reference, see [`BlockRef`]                         | image, then block data |
//! | 252      | `uint32` id of the top-level transaction (from 14 on)     | -                      |
//! | 253      | `uint16` replication origin                               | -                      |
//! | 254      | `uint32` length of the main data; ends the header phase   | main data              |
//! | 255      | `uint8` length of the main data; ends the header phase    | main data              |
//!
//! Source: `DecodeXLogRecord`, `src/backend/access/transam/xlogreader.c`; `src/include/access/xlogrecord.h`.
//! Also here: going through the block references of a record.

mod quick;

use super::record::RecordHeader;
use super::version::Major;
use crate::parsers::decode::{ParseError, ParseStep, decode_at, field, invalid, le_u8, le_u16, le_u32};
use crate::parsers::image::{BlockImage, IMAGE_HAS_HOLE};
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Highest id of a block reference (`XLR_MAX_BLOCK_ID`); a record has at most 33 of them.
pub(crate) const MAX_BLOCK_ID: u8 = 32;
const ID_TOP_XID: u8 = 252;
const ID_ORIGIN: u8 = 253;
const ID_MAIN_LONG: u8 = 254;
const ID_MAIN_SHORT: u8 = 255;

/// No fragment header is longer, its id included: 27 bytes in a block reference with a compressed image.
const MAX_FRAGMENT_HEADER: usize = 32;

const FORK_MASK: u8 = 0x0F;
const HAS_IMAGE: u8 = 0x10;
const HAS_DATA: u8 = 0x20;
const WILL_INIT: u8 = 0x40;
const SAME_REL: u8 = 0x80;

/// One block that a record refers to, with its image and data.
///
/// | field                            | size       | present                                          |
/// |----------------------------------|------------|--------------------------------------------------|
/// | `id`                             | `uint8`    | always                                           |
/// | `fork_flags`                     | `uint8`    | always: fork in the low 4 bits, flags above      |
/// | `data_length`                    | `uint16`   | always                                           |
/// | image header                     | 5          | with flag 0x10, see [`BlockImage`]               |
/// | `hole_length`                    | `uint16`   | with an image that is compressed and has a hole  |
/// | `spcOid`, `dbOid`, `relNumber`   | 3 `uint32` | without flag 0x80                                |
/// | block number                     | `uint32`   | always                                           |
///
/// Source: `XLogRecordBlockHeader`, `src/include/access/xlogrecord.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef<'a> {
    /// Index of the reference in the record.
    pub block_id: u8,
    /// Fork and flags as stored.
    pub fork_flags: u8,
    /// The relation; taken from the reference before when the record says "same relation".
    pub rel: RelFileLocator,
    /// Block within the fork.
    pub block: BlockNumber,
    /// The full-page image, if the record has one of this block.
    pub image: Option<BlockImage<'a>>,
    /// Data of the resource manager for this block.
    pub data: &'a [u8],
}

/// Where the parts of a record's body lie. Knows no bytes, so it can be kept and moved freely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyLayout {
    /// Bytes of fragment headers at the start of the body.
    headers_length: u32,
    /// Bytes of the body before the main data: fragment headers, images and block data.
    main_start: u32,
    /// Bytes of all images as stored.
    pub fpi_length: u32,
    /// Number of block references.
    pub block_count: u8,
    /// Number of block references with an image.
    pub image_count: u8,
    /// Top-level transaction, logged once per subtransaction from 14 on.
    pub top_xid: Option<u32>,
    /// Replication origin.
    pub origin: Option<u16>,
}

/// The part that must exist of a record whose end was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Fragment headers, images and block data: only main data may be missing.
    Blocks,
    /// Fragment headers, which say which blocks there are and how long everything is.
    Heads,
}

/// Fragment header of a block reference: all about it but the bytes of its image and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Fork and flags as stored.
    pub fork_flags: u8,
    /// Bytes of block data.
    pub data_length: u16,
    /// The image, if the record has one of this block.
    pub image: Option<ImageHead>,
    /// The relation; taken from the reference before when the record says "same relation".
    pub rel: RelFileLocator,
    /// Block within the fork.
    pub block: BlockNumber,
}

/// Header of a full-page image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHead {
    /// Bytes of the image as stored.
    pub length: u16,
    /// See [`BlockImage::hole_offset`].
    pub hole_offset: u16,
    /// See [`BlockImage::hole_length`].
    pub hole_length: u16,
    /// See [`BlockImage::bimg_info`].
    pub bimg_info: u8,
}

/// Methods for the fork flags and the block number, alike for a head and for a reference with its bytes.
macro_rules! names_its_page {
    ($($block:ty),*) => {$(
        impl $block {
            /// The fork, or `None` for a code that no server uses; see [`Self::fork_code`].
            pub fn fork(&self) -> Option<ForkNumber> {
                ForkNumber::from_code(i32::from(self.fork_code()))
            }

            /// The code of the fork as stored, 0 to 15.
            pub const fn fork_code(&self) -> u8 {
                self.fork_flags & FORK_MASK
            }

            /// Which page this is, unless the fork is unknown.
            pub fn page_id(&self) -> Option<PageId> {
                self.fork().map(|fork| PageId { rel: self.rel, fork, block: self.block })
            }

            /// True when redo recreates the page without reading it.
            pub const fn will_init(&self) -> bool {
                self.fork_flags & WILL_INIT != 0
            }
        }
    )*};
}

names_its_page!(BlockHead, BlockRef<'_>);

impl BlockHead {
    /// True when the record, of this major, has an image that redo restores.
    pub fn has_image_to_apply(&self, major: Major) -> bool {
        self.image.is_some_and(|image| image.bimg_info & major.image_apply_flag() != 0)
    }
}

/// Reads an image header and checks the rules about holes.
#[inline]
fn image_header(i: &[u8], major: Major, block_size: u32) -> ParseStep<'_, ImageHead> {
    let start = i;
    let (i, length) = field(i, "length", le_u16)?;
    let (i, hole_offset) = field(i, "hole_offset", le_u16)?;
    let (i, bimg_info) = field(i, "bimg_info", le_u8)?;
    let has_hole = bimg_info & IMAGE_HAS_HOLE != 0;
    let compressed = major.image_compression(bimg_info).is_some();
    let stored = u64::from(length);
    let Some(missing) = block_size.checked_sub(u32::from(length)) else {
        return invalid(start, "length", stored, "more than a page");
    };
    let (i, hole_length) = match (compressed, has_hole) {
        (true, true) => field(i, "hole_length", le_u16)?,
        (true, false) => (i, 0),
        (false, _) => (i, u16::try_from(missing).unwrap_or(u16::MAX)),
    };
    if compressed && missing == 0 {
        return invalid(start, "length", stored, "a compressed image is shorter than a page");
    }
    if has_hole && (hole_offset == 0 || hole_length == 0 || missing == 0) {
        return invalid(start, "hole_offset", u64::from(hole_offset), "image is marked as having a hole, but has none");
    }
    if !has_hole && hole_offset != 0 {
        return invalid(start, "hole_offset", u64::from(hole_offset), "0 in an image without hole");
    }
    if !has_hole && hole_length != 0 {
        return invalid(start, "length", stored, "a whole page, for there is neither hole nor compression");
    }
    // Here the server reads on, and fails where it restores the image: `RestoreBlockImage` trusts these two.
    if u32::from(hole_offset).saturating_add(u32::from(hole_length)) > block_size {
        return invalid(start, "hole_offset", u64::from(hole_offset), "the hole ends inside the page");
    }
    Ok((i, ImageHead { length, hole_offset, hole_length, bimg_info }))
}

/// Reads what follows the id of a block reference.
#[inline]
fn block_header(
    i: &[u8],
    major: Major,
    block_size: u32,
    rel_before: Option<RelFileLocator>,
) -> ParseStep<'_, BlockHead> {
    let flags_at = i;
    let (i, fork_flags) = field(i, "fork_flags", le_u8)?;
    let length_at = i;
    let (i, data_length) = field(i, "data_length", le_u16)?;
    if (fork_flags & HAS_DATA != 0) != (data_length > 0) {
        return invalid(length_at, "data_length", u64::from(data_length), "not 0 exactly when flag 0x20 is set");
    }
    let (i, image) = if fork_flags & HAS_IMAGE != 0 {
        let (i, image) = image_header(i, major, block_size)?;
        (i, Some(image))
    } else {
        (i, None)
    };
    let (i, rel) = if fork_flags & SAME_REL == 0 {
        let (i, spc_oid) = field(i, "spcOid", le_u32)?;
        let (i, db_oid) = field(i, "dbOid", le_u32)?;
        let (i, rel_number) = field(i, "relNumber", le_u32)?;
        (i, RelFileLocator { spc_oid, db_oid, rel_number })
    } else {
        match rel_before {
            Some(rel) => (i, rel),
            None => return invalid(flags_at, "fork_flags", u64::from(fork_flags), "there is no relation before"),
        }
    };
    let (i, block) = field(i, "block number", le_u32)?;
    Ok((i, BlockHead { fork_flags, data_length, image, rel, block }))
}

impl BodyLayout {
    /// Bytes of fragment headers at the start of the body.
    pub(crate) const fn headers_length(&self) -> u32 {
        self.headers_length
    }

    /// Counts a block reference. Gives the bytes of its image and data.
    #[inline(always)]
    fn add_block(&mut self, head: &BlockHead) -> u32 {
        self.block_count = self.block_count.saturating_add(1);
        let Some(image) = head.image else { return u32::from(head.data_length) };
        self.image_count = self.image_count.saturating_add(1);
        self.fpi_length = self.fpi_length.saturating_add(u32::from(image.length));
        u32::from(head.data_length).saturating_add(u32::from(image.length))
    }

    /// Walks the fragment headers of `body` (the record after its 24-byte header) and checks every rule about them.
    /// `block_size` is the server's `BLCKSZ`; `start_lsn` is the record's address, and the offset of an error is that
    /// address plus the offset in the assembled record (page headers not counted).
    ///
    /// Unlike page and record headers, a body that breaks a rule cannot be decoded further: each header decides where the
    /// next one lies.
    ///
    /// # Errors
    /// `Truncated` or `Invalid` with the fragment header's field.
    #[inline]
    pub fn decode(start_lsn: Lsn, major: Major, block_size: u32, body: &[u8]) -> Result<Self, ParseError> {
        Self::decode_cut(start_lsn, major, block_size, body, (0, Keep::Blocks))
    }

    /// As [`Self::decode`] for a body of which only the bytes `kept` are available, followed by `beyond` more bytes. What
    /// `keep` names must not be beyond.
    #[inline]
    pub(crate) fn decode_cut(
        start_lsn: Lsn,
        major: Major,
        block_size: u32,
        kept: &[u8],
        (beyond, keep): (u64, Keep),
    ) -> Result<Self, ParseError> {
        if (beyond == 0 || keep == Keep::Heads)
            && let Some(layout) = Self::quick(major, block_size, kept, usize::try_from(beyond).unwrap_or(usize::MAX))
        {
            return Ok(layout);
        }
        let base = start_lsn.advanced_by(RecordHeader::SIZE as u64).0;
        decode_at("XLogRecord body", base, kept, |i| Self::walk(i, (beyond, keep), major, block_size))
    }

    fn walk(body: &[u8], (beyond, keep): (u64, Keep), major: Major, block_size: u32) -> ParseStep<'_, Self> {
        let kept = |i: &[u8]| u64::try_from(i.len()).unwrap_or(u64::MAX);
        let mut layout = Self::default();
        let mut data_total = 0_u64;
        let mut next_id = 0_u8;
        let mut rel = None;
        let mut i = body;
        let mut main_length = 0;
        while kept(i).saturating_add(beyond) > data_total {
            if beyond > 0 && i.len() < MAX_FRAGMENT_HEADER {
                return invalid(i, "length", beyond, "all but main data is in the part that is kept");
            }
            let id_at = i;
            let (rest, id) = field(i, "id", le_u8)?;
            i = match id {
                0..=MAX_BLOCK_ID => {
                    if id < next_id {
                        return invalid(id_at, "id", u64::from(id), "ids of blocks ascend");
                    }
                    next_id = id.saturating_add(1);
                    let (rest, header) = block_header(rest, major, block_size, rel)?;
                    rel = Some(header.rel);
                    data_total = data_total.saturating_add(u64::from(layout.add_block(&header)));
                    rest
                }
                ID_TOP_XID if major.facts().has_top_xid => {
                    let (rest, xid) = field(rest, "top-level xid", le_u32)?;
                    layout.top_xid = Some(xid);
                    rest
                }
                ID_ORIGIN => {
                    let (rest, origin) = field(rest, "replication origin", le_u16)?;
                    layout.origin = Some(origin);
                    rest
                }
                ID_MAIN_SHORT | ID_MAIN_LONG => {
                    let (rest, length) = if id == ID_MAIN_SHORT {
                        let (rest, length) = field(rest, "main data length", le_u8)?;
                        (rest, u32::from(length))
                    } else {
                        field(rest, "main data length", le_u32)?
                    };
                    main_length = length;
                    data_total = data_total.saturating_add(u64::from(length));
                    i = rest;
                    break;
                }
                other => return invalid(id_at, "id", u64::from(other), "no fragment has this id"),
            };
        }
        if kept(i).saturating_add(beyond) != data_total {
            return invalid(i, "length", data_total, "fragments fill the rest of the record exactly");
        }
        let blocks_total = data_total.saturating_sub(u64::from(main_length));
        if keep == Keep::Blocks && blocks_total > kept(i) {
            return invalid(i, "length", blocks_total, "all but main data is in the part that is kept");
        }
        layout.headers_length = u32::try_from(body.len().saturating_sub(i.len())).unwrap_or(u32::MAX);
        layout.main_start = layout.headers_length.saturating_add(u32::try_from(blocks_total).unwrap_or(u32::MAX));
        Ok((i, layout))
    }

    /// The block references of `body`, which is the one that this layout was decoded from.
    #[inline]
    pub fn blocks<'a>(&self, major: Major, block_size: u32, body: &'a [u8]) -> BlockRefs<'a> {
        let headers_length = usize::try_from(self.headers_length).unwrap_or(usize::MAX);
        let (headers, payload) = body.split_at_checked(headers_length).unwrap_or_default();
        let heads = BlockHeads { headers, major, block_size, rel: None, left: self.block_count };
        BlockRefs { heads, payload }
    }

    /// As [`Self::blocks`] without the bytes of images and data: those of a body that was cut may be missing.
    #[inline]
    pub fn block_heads<'a>(&self, major: Major, block_size: u32, body: &'a [u8]) -> BlockHeads<'a> {
        self.blocks(major, block_size, body).heads
    }

    /// Bytes of the body before the main data.
    pub(super) const fn main_start(&self) -> u32 {
        self.main_start
    }

    /// The main data at the end of `body`, from which this layout was decoded. A body that was cut yields the part that was
    /// kept.
    pub fn main_data<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        body.get(usize::try_from(self.main_start).unwrap_or(usize::MAX)..).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;

/// Iterator over the heads of a record's block references, each with its index in the record. Yields what
/// [`crate::parsers::wal::block::BodyLayout::decode`] has checked, without storing it.
#[derive(Clone, Debug)]
pub struct BlockHeads<'a> {
    headers: &'a [u8],
    major: Major,
    block_size: u32,
    rel: Option<RelFileLocator>,
    left: u8,
}

impl BlockHeads<'_> {
    /// The next head, or nothing when the headers are not what they were when checked.
    #[inline(always)]
    fn read_one(&mut self) -> Option<(u8, BlockHead)> {
        let mut headers = self.headers;
        let block_id = loop {
            let (&id, rest) = headers.split_first()?;
            headers = match id {
                0..=MAX_BLOCK_ID => {
                    headers = rest;
                    break id;
                }
                ID_TOP_XID => rest.get(4..)?,
                ID_ORIGIN => rest.get(2..)?,
                _ => return None,
            };
        };
        let (headers, head) = match quick::block_head(headers, self.rel) {
            Some(found) => found,
            None => block_header(headers, self.major, self.block_size, self.rel).ok()?,
        };
        self.headers = headers;
        self.rel = Some(head.rel);
        Some((block_id, head))
    }
}

impl Iterator for BlockHeads<'_> {
    type Item = (u8, BlockHead);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let head = self.read_one();
        if head.is_none() {
            self.left = 0;
        }
        head
    }
}

/// Iterator over a record's block references. Yields what [`crate::parsers::wal::block::BodyLayout::decode`] has checked, without storing it.
#[derive(Clone, Debug)]
pub struct BlockRefs<'a> {
    heads: BlockHeads<'a>,
    payload: &'a [u8],
}

impl<'a> BlockRefs<'a> {
    fn read_one(&mut self) -> Option<BlockRef<'a>> {
        let (block_id, head) = self.heads.next()?;
        let major = self.heads.major;
        let image = match head.image {
            Some(ImageHead { length, hole_offset, hole_length, bimg_info }) => {
                let (bytes, rest) = self.payload.split_at_checked(usize::from(length))?;
                self.payload = rest;
                Some(BlockImage { bytes, hole_offset, hole_length, bimg_info, major })
            }
            None => None,
        };
        let (data, rest) = self.payload.split_at_checked(usize::from(head.data_length))?;
        self.payload = rest;
        let BlockHead { fork_flags, rel, block, .. } = head;
        Some(BlockRef { block_id, fork_flags, rel, block, image, data })
    }
}

impl<'a> Iterator for BlockRefs<'a> {
    type Item = BlockRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<BlockRef<'a>> {
        let block = self.read_one();
        if block.is_none() {
            self.heads.left = 0;
        }
        block
    }
}
