//! What images for hint bits cost: they are written with data checksums or `wal_log_hints` alone.
//!
//! Where an ordinary record changes the same page later in the same interval, it would have needed an image itself. That it
//! is the same interval shows in the record: it has no image.

use crate::analysis::wal::certainty::Certainty;

/// Images for hint bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintCost {
    /// All of them.
    pub all: HintImages,
    /// Those of pages that nothing else changed up to the next redo point: without hints they would not be there.
    pub only: HintImages,
    /// Those of pages that were changed later anyway: without hints that change would have had the image.
    pub then_changed: HintImages,
    /// Those of an interval that is not over.
    pub undecided: HintImages,
    /// How sure all of them are.
    pub all_certainty: Certainty,
    /// How sure the parts are.
    pub certainty: Certainty,
}

/// A number of images for hint bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintImages {
    /// Images.
    pub images: u64,
    /// Their bytes as stored.
    pub image_bytes: u64,
}

impl HintImages {
    pub(super) const fn add(&mut self, image_bytes: u64) {
        self.images = self.images.saturating_add(1);
        self.image_bytes = self.image_bytes.saturating_add(image_bytes);
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self {
            images: self.images.saturating_sub(other.images),
            image_bytes: self.image_bytes.saturating_sub(other.image_bytes),
        }
    }
}
