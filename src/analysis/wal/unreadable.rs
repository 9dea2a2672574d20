//! Images that cannot be restored, as they are met.

use super::segment::Visitor;
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::parsers::image::{ImageDecoder, ImageError};
use crate::parsers::wal::record::Record;
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

    /// What is said of them, in the order of their records.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut images = self.images.clone();
        images.sort_by_key(|image| image.record_lsn);
        let further = (self.further > 0).then_some(FindingKind::MoreImages { count: self.further });
        let kind = |UnreadableImage { block, record_lsn, error }| FindingKind::Image { block, record_lsn, error };
        images.into_iter().map(kind).chain(further).map(Finding::problem).collect()
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
    #[must_use]
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
