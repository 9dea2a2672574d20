//! Pages that are all zero and should not be: records from before the redo point change them, so they had content, and a
//! checkpoint had written it. Most pages of zeros were never used, and no record names them.

use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

pub(crate) const MAX_ZEROED: usize = 100_000;

/// Pages of main forks that are all zero on disk, and which of them records name.
#[derive(Debug, Default)]
pub struct ZeroedPages {
    redo_lsn: Lsn,
    blocks: Arc<FxHashMap<RelFileLocator, RoaringBitmap>>,
    named: FxHashSet<PageId>,
}

impl ZeroedPages {
    /// Zero-filled blocks of main forks; records after `redo_lsn` prove nothing about them. `None` if empty.
    pub fn of(zeroed: &[(RelFileLocator, Range<BlockNumber>)], redo_lsn: Lsn) -> Option<Self> {
        let mut blocks: FxHashMap<RelFileLocator, RoaringBitmap> = FxHashMap::default();
        for (rel, range) in zeroed {
            blocks.entry(*rel).or_default().insert_range(range.clone());
        }
        (!blocks.is_empty()).then(|| Self { redo_lsn, blocks: Arc::new(blocks), named: FxHashSet::default() })
    }

    /// Copy of the pages, for later records that will be [appended](Self::append).
    pub(super) fn begin(&self) -> Self {
        Self { redo_lsn: self.redo_lsn, blocks: Arc::clone(&self.blocks), named: FxHashSet::default() }
    }

    /// Adds what the records after these said.
    pub(super) fn append(&mut self, next: Self) {
        self.named.extend(next.named);
    }

    /// Adds what a record says of one block.
    #[inline]
    pub(super) fn add_block(&mut self, record: &Record<'_>, block: &BlockHead) {
        let Some(blocks) = self.blocks.get(&block.rel) else { return };
        let is_asked = record.start_lsn < self.redo_lsn && blocks.contains(block.block);
        let Some(page) = block.page_id().filter(|page| is_asked && page.fork == ForkNumber::Main) else { return };
        let is_image = block.has_image_to_apply(record.major);
        if is_image || !record.kind().is_hint() {
            self.named.insert(page);
        }
    }

    /// The pages that records name, by identity.
    pub fn named(&self) -> Vec<PageId> {
        let mut named: Vec<PageId> = self.named.iter().copied().collect();
        named.sort_unstable();
        named
    }
}
