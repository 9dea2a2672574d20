//! Images that cannot be restored, as they are met.

use super::segment::Visitor;
use crate::parsers::image::{ImageDecoder, ImageError};
use crate::parsers::wal::record::Record;
use crate::report::{Finding, rules};
use crate::types::{BlockNumber, Lsn};

/// Images that are kept one by one; more are only counted.
const MAX_IMAGES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableImage {
    pub block: BlockNumber,
    pub record_lsn: Lsn,
    pub error: ImageError,
}

/// Images that cannot be restored, the first of them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadableImages {
    images: Vec<UnreadableImage>,
    further: u64,
}

impl UnreadableImages {
    pub fn push(&mut self, image: UnreadableImage) {
        if self.images.len() < MAX_IMAGES {
            self.images.push(image);
        } else {
            self.further = self.further.saturating_add(1);
        }
    }

    pub fn append(&mut self, other: Self) {
        other.images.into_iter().for_each(|image| self.push(image));
        self.further = self.further.saturating_add(other.further);
    }

    /// Their findings, in the order of their records.
    pub fn findings(&self) -> Vec<Finding> {
        let mut images = self.images.clone();
        images.sort_by_key(|image| image.record_lsn);
        let of = |UnreadableImage { block, record_lsn, error }| {
            IMAGE.problem(format!("image of block {block} at {record_lsn}: {error}"))
        };
        let further = format!("more images that cannot be restored: {}", self.further);
        let further = (self.further > 0).then(|| MORE_IMAGES.problem(further));
        images.into_iter().map(of).chain(further).collect()
    }
}

/// Unpacks every compressed image of a segment. One without compression that cannot be restored has a header that the
/// reader refuses.
#[derive(Debug)]
pub(crate) struct ImageCheck {
    decoder: ImageDecoder,
    page: Vec<u8>,
    pub unreadable: UnreadableImages,
}

impl ImageCheck {
    /// None yet. `block_size`: bytes of a page.
    pub fn new(block_size: u32) -> Self {
        let page = vec![0; usize::try_from(block_size).unwrap_or_default()];
        Self { decoder: ImageDecoder::new(), page, unreadable: UnreadableImages::default() }
    }
}

impl Visitor for ImageCheck {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.image_count == 0 {
            return;
        }
        for block in record.blocks() {
            let Some(image) = block.image.filter(|image| image.compression().is_some()) else { continue };
            if let Err(error) = self.decoder.restore(&image, &mut self.page) {
                let (block, record_lsn) = (block.block, record.start_lsn);
                self.unreadable.push(UnreadableImage { block, record_lsn, error });
            }
        }
    }
}

/// Says whether a segment has compressed images at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HasCompressed(pub bool);

impl Visitor for HasCompressed {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.image_count > 0 && !self.0 {
            let mut heads = record.block_heads().filter_map(|(_, block)| block.image);
            self.0 = heads.any(|image| record.major.image_compression(image.bimg_info).is_some());
        }
    }
}

rules! {
    IMAGE: Wal "image",
        why: "the record's checksum is right, so the server would fail on it too",
        means: "An image that cannot be restored: its bytes do not make up a page. Found by `verify`, and wherever images are \
            unpacked",
        action: "The server would fail on it too";
    MORE_IMAGES: Wal "more_unreadable_images",
        why: "the record's checksum is right, so the server would fail on it too",
        means: "More such images than are listed",
        action: "The same";
}
