//! Going through the block references of a record.

use super::{BlockHead, BlockRef, ID_ORIGIN, ID_TOP_XID, ImageHead, MAX_BLOCK_ID, block_header, quick};
use crate::parsers::image::BlockImage;
use crate::parsers::wal::version::Major;
use crate::types::RelFileLocator;

/// Iterator over the heads of a record's block references, each with its index in the record. Yields what
/// [`super::BodyLayout::decode`] has checked, without storing it.
#[derive(Clone, Debug)]
pub struct BlockHeads<'a> {
    pub(super) headers: &'a [u8],
    pub(super) major: Major,
    pub(super) block_size: u32,
    pub(super) rel: Option<RelFileLocator>,
    pub(super) left: u8,
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

/// Iterator over a record's block references. Yields what [`super::BodyLayout::decode`] has checked, without storing it.
#[derive(Clone, Debug)]
pub struct BlockRefs<'a> {
    pub(super) heads: BlockHeads<'a>,
    pub(super) payload: &'a [u8],
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
