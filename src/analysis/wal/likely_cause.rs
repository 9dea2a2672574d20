//! What the images of a relation probably come from, where a rule clearly fits.

use super::relation_kind::RelationKind;
use super::relation_use::RelationUse;

const MIN_IMAGES: u64 = 50;

/// Fewer updates say nothing about how many are HOT.
const MIN_UPDATES: u64 = 100;

const MIN_SPREAD_BLOCKS: u64 = 50;

/// Most changes for each image of an index whose keys come in no order. With keys in order hundreds of entries go to one
/// page, and most pages are new ones, which need no image.
const MAX_CHANGES_OF_RANDOM_KEYS: u64 = 20;

/// What most images of a relation come from, with the numbers that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Entries of an index go to any of its pages, as those of random keys do.
    RandomKeys {
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
        /// Updates that stayed in their page and are not HOT all the same.
        in_page: u64,
        hot: u64,
        updates: u64,
    },
}

impl LikelyCause {
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::HintBits { .. } => "hint_bits",
            Self::WholePages { .. } => "whole_pages",
            Self::Vacuum { .. } => "vacuum",
            Self::RandomKeys { .. } => "random_keys",
            Self::FullPages { .. } => "full_pages",
            Self::IndexedColumns { .. } => "indexed_columns",
        }
    }

    /// The one that fits; `None` where none clearly does. `blocks`: distinct blocks of the relation that records refer to.
    #[must_use]
    pub fn of(kind: RelationKind, of: &RelationUse, blocks: u64) -> Option<Self> {
        if of.images < MIN_IMAGES {
            return None;
        }
        let is_most = |images: u64| images > of.images / 2;
        // Pages that are changed as well would have had most of these images from their changes.
        if is_most(of.hint_images) && of.changes < of.hint_images {
            return Some(Self::HintBits { images: of.hint_images });
        }
        if is_most(of.whole_page_images) {
            return Some(Self::WholePages { images: of.whole_page_images });
        }
        if is_most(of.vacuum_images) {
            return Some(Self::Vacuum { images: of.vacuum_images });
        }
        match kind {
            RelationKind::Index(_) => {
                let is_random = of.changes / MAX_CHANGES_OF_RANDOM_KEYS <= of.images && blocks >= MIN_SPREAD_BLOCKS;
                is_random.then_some(Self::RandomKeys { changes: of.changes, blocks })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::wal::relation_use::IndexMethod;

    const BTREE: RelationKind = RelationKind::Index(Some(IndexMethod::Btree));

    fn images(images: u64) -> RelationUse {
        RelationUse { images, changes: images * 10, ..RelationUse::default() }
    }

    /// 24,000 rows inserted by a server of 16, over six checkpoints: what its own `pg_waldump` counts for both indexes.
    #[test]
    fn index_of_random_keys_is_told_from_one_that_grows_at_its_end() {
        let random = RelationUse { changes: 24_400, images: 3193, ..RelationUse::default() };
        assert_eq!(
            LikelyCause::of(BTREE, &random, 1155),
            Some(LikelyCause::RandomKeys { changes: 24_400, blocks: 1155 })
        );
        let growing = RelationUse { changes: 24_208, images: 6, ..RelationUse::default() };
        assert_eq!(LikelyCause::of(BTREE, &growing, 75), None);
        assert_eq!(LikelyCause::of(BTREE, &RelationUse { changes: 24_400, ..images(400) }, 75), None);
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
        assert_eq!(of(RelationUse { changes: 51, ..hinted }), None, "as many changes");
        assert_eq!(of(RelationUse { hint_images: 50, vacuum_images: 50, ..images(100) }), None);
        assert_eq!(
            of(RelationUse { whole_page_images: 90, ..images(100) }),
            Some(LikelyCause::WholePages { images: 90 })
        );
        assert_eq!(of(RelationUse { vacuum_images: 90, ..images(100) }), Some(LikelyCause::Vacuum { images: 90 }));
        assert_eq!(of(RelationUse { vacuum_images: 49, ..images(49) }), None, "too few to say");
    }
}
