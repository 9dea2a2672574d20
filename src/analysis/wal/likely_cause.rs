//! What the images of a relation probably come from, where a rule clearly fits.

use strum::IntoStaticStr;

use super::group_key::RelationKind;

use super::relation_use::{IndexMethod, RelationUse};
use super::tally::Certainty;

const MIN_IMAGES: u64 = 50;

/// Fewer updates say nothing about how many are HOT.
const MIN_UPDATES: u64 = 100;

const MIN_SPREAD_BLOCKS: u64 = 50;

/// The cause of most images of a relation, with the numbers that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LikelyCause {
    HintBits {
        images: u64,
    },
    /// Pages that were logged as a whole: an index was built, a table rewritten.
    WholePages {
        images: u64,
    },
    /// Vacuum: freezing, dead rows, the visibility map, deletions from an index.
    Vacuum {
        images: u64,
    },
    /// Vacuum that freezes rows.
    Freeze {
        images: u64,
    },
    /// Entries of an index go to any of its pages, as those of random keys do: most changes hit another page than the one
    /// before.
    RandomKeys {
        changes: u64,
        jumps: u64,
        blocks: u64,
    },
    /// A hash index spreads its entries over all its pages, whatever the order of the keys.
    HashIndex {
        changes: u64,
        blocks: u64,
    },
    /// A row has many entries in a GIN index, and those go to any of its pages.
    GinIndex {
        changes: u64,
        blocks: u64,
    },
    /// Updates find no room in their page, so that a second page and all indexes change: a lower fillfactor leaves room.
    FullPages {
        moved: u64,
        hot: u64,
        updates: u64,
    },
    /// Updates change a column that an index has, so that all indexes change.
    IndexedColumns {
        /// Updates that stayed in their page but are not HOT.
        in_page: u64,
        hot: u64,
        updates: u64,
    },
}

impl LikelyCause {
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// Bytes of WAL that the cure saves, and how sure that is; `None` where that is unknown. `of`: what was done with the
    /// relation; `indexes`: bytes of WAL of its indexes, images included, if known; `hints`: the cost of images for hint
    /// bits in all relations together.
    pub(crate) fn gain(&self, of: &RelationUse, indexes: Option<u64>, hints: &HintCost) -> Option<(u64, Certainty)> {
        let scaled = |bytes: u64, part: u64, all: u64| {
            u64::try_from(u128::from(bytes).saturating_mul(part.into()).checked_div(all.into())?).ok()
        };
        let part = |images: u64| scaled(of.image_bytes, images, of.images);
        let bytes = match *self {
            // A page that changes later in its interval would have had an image then.
            Self::HintBits { images } => {
                let all = hints.all.image_bytes;
                scaled(part(images)?, all.saturating_sub(hints.then_changed.image_bytes), all)
            }
            Self::Freeze { images } => part(images),
            // Entries that come in order go to one page after the other.
            Self::RandomKeys { .. } | Self::HashIndex { .. } | Self::GinIndex { .. } => {
                part(of.images.saturating_sub(of.whole_page_images))
            }
            // A HOT update leaves indexes alone.
            Self::FullPages { .. } | Self::IndexedColumns { .. } => indexes,
            Self::WholePages { .. } | Self::Vacuum { .. } => None,
        };
        // Entries that are gathered before they go into a GIN index become fewer records as well, and a HOT update has one page
        // of the table instead of two.
        let is_more = matches!(self, Self::GinIndex { .. } | Self::FullPages { .. });
        Some((bytes?, if is_more { Certainty::AtLeast } else { Certainty::Estimate }))
    }

    /// The one that fits; `None` where none clearly does. `blocks`: distinct blocks of the relation that records refer to.
    pub fn of(kind: RelationKind, of: &RelationUse, blocks: u64) -> Option<Self> {
        if of.images < MIN_IMAGES {
            return None;
        }
        let is_most = |images: u64| images > of.images / 2;
        // Vacuum sets hint bits before it changes a page: it would have written the image without them.
        let is_of_vacuum = of.changes >= of.hint_images && of.vacuum_records >= of.changes / 2;
        if is_most(of.hint_images) && !is_of_vacuum {
            return Some(Self::HintBits { images: of.hint_images });
        }
        // An index that was built in this WAL and then changed has a second image of most pages.
        if of.images.saturating_sub(of.whole_page_images) < of.whole_page_images / 2 {
            return Some(Self::WholePages { images: of.whole_page_images });
        }
        if is_most(of.vacuum_images) && of.freeze_records > of.other_vacuum_records {
            return Some(Self::Freeze { images: of.vacuum_images });
        }
        if is_most(of.vacuum_images) {
            return Some(Self::Vacuum { images: of.vacuum_images });
        }
        match kind {
            RelationKind::Index(method) => {
                let (changes, jumps) = (of.changes, of.jumps);
                match method {
                    _ if blocks < MIN_SPREAD_BLOCKS => None,
                    Some(IndexMethod::Hash) => Some(Self::HashIndex { changes, blocks }),
                    Some(IndexMethod::Gin) => Some(Self::GinIndex { changes, blocks }),
                    _ => (jumps > changes / 2).then_some(Self::RandomKeys { changes, jumps, blocks }),
                }
            }
            RelationKind::Table | RelationKind::MaterializedView => {
                let (hot, moved) = (of.hot_updates, of.moved_updates);
                let updates = hot.saturating_add(of.updates);
                if updates < MIN_UPDATES || hot > updates / 2 {
                    return None;
                }
                // Without a change of an indexed column, an update that finds room in its page is HOT.
                let in_page = of.updates.saturating_sub(moved);
                if in_page > of.updates / 10 {
                    return Some(Self::IndexedColumns { in_page, hot, updates });
                }
                Some(Self::FullPages { moved, hot, updates })
            }
            RelationKind::Toast | RelationKind::Sequence | RelationKind::Unknown => None,
        }
    }
}

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
    pub(crate) const fn add(&mut self, image_bytes: u64) {
        self.images = self.images.saturating_add(1);
        self.image_bytes = self.image_bytes.saturating_add(image_bytes);
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self {
            images: self.images.saturating_sub(other.images),
            image_bytes: self.image_bytes.saturating_sub(other.image_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BTREE: RelationKind = RelationKind::Index(Some(IndexMethod::Btree));

    fn images(images: u64) -> RelationUse {
        RelationUse { images, changes: images * 10, ..RelationUse::default() }
    }

    /// 20,000 rows and 3 times 3200 with a checkpoint after each, on a server of 18: `fixtures/field/wal-uuid-no-cause`.
    #[test]
    fn index_of_random_keys_is_told_from_one_that_grows_at_its_end() {
        let random = RelationUse { changes: 9900, jumps: 9700, images: 366, ..RelationUse::default() };
        let cause = LikelyCause::RandomKeys { changes: 9900, jumps: 9700, blocks: 130 };
        assert_eq!(LikelyCause::of(BTREE, &random, 130), Some(cause));
        assert_eq!(
            LikelyCause::of(BTREE, &RelationUse { jumps: 300, ..random }, 130),
            None,
            "one page after the other"
        );
        assert_eq!(LikelyCause::of(BTREE, &random, 49), None, "few pages");
        let hash = RelationKind::Index(Some(IndexMethod::Hash));
        assert_eq!(LikelyCause::of(hash, &random, 130), Some(LikelyCause::HashIndex { changes: 9900, blocks: 130 }));
    }

    #[test]
    fn few_hot_updates_are_for_want_of_room_or_for_an_indexed_column() {
        let table = |hot_updates, updates, moved_updates| {
            let of = RelationUse { hot_updates, updates, moved_updates, ..images(1000) };
            LikelyCause::of(RelationKind::Table, &of, 900)
        };
        assert_eq!(table(21_569, 2431, 2431), None, "nine of ten are HOT");
        assert_eq!(table(400, 2000, 1990), Some(LikelyCause::FullPages { moved: 1990, hot: 400, updates: 2400 }));
        assert_eq!(table(0, 24_000, 0), Some(LikelyCause::IndexedColumns { in_page: 24_000, hot: 0, updates: 24_000 }));
        assert_eq!(table(0, 50, 50), None, "too few to say");
    }

    #[test]
    fn what_most_images_are_comes_first_and_a_half_is_not_most() {
        let of = |use_: RelationUse| LikelyCause::of(RelationKind::Table, &use_, 900);
        let hinted = RelationUse { hint_images: 51, changes: 50, ..images(100) };
        assert_eq!(of(hinted), Some(LikelyCause::HintBits { images: 51 }));
        assert_eq!(of(RelationUse { changes: 51, ..hinted }), Some(LikelyCause::HintBits { images: 51 }));
        assert_eq!(
            of(RelationUse { changes: 51, vacuum_records: 51, ..hinted }),
            None,
            "vacuum would have written them"
        );
        assert_eq!(of(RelationUse { hint_images: 50, vacuum_images: 50, ..images(100) }), None);
        assert_eq!(
            of(RelationUse { whole_page_images: 90, ..images(100) }),
            Some(LikelyCause::WholePages { images: 90 })
        );
        assert_eq!(of(RelationUse { vacuum_images: 90, ..images(100) }), Some(LikelyCause::Vacuum { images: 90 }));
        let frozen = RelationUse { vacuum_images: 90, freeze_records: 80, other_vacuum_records: 20, ..images(100) };
        assert_eq!(of(frozen), Some(LikelyCause::Freeze { images: 90 }));
        assert_eq!(of(RelationUse { vacuum_images: 49, ..images(49) }), None, "too few to say");
    }
}
