//! Heap pages of a cluster without checksums with a transaction that, according to WAL, changed them only later.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::content::xids_of;
use super::xid::is_newer_xid;
use crate::analysis::coverage::Coverage;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::record::Record;
use crate::types::{ForkNumber, Lsn, PageId};

/// Pairs of a page and a transaction that are kept. After that, pages are not examined.
const MAX_PAIRS: usize = 4_000_000;

/// True for a heap page that shows a transaction which began at or after the redo point: only of such a one WAL has every
/// record.
pub(crate) fn shows_late_transaction(page: &[u8], fork: ForkNumber, next_at_redo: u32) -> bool {
    fork == ForkNumber::Main && xids_of(page, fork).into_iter().any(|xid| !is_newer_xid(next_at_redo, xid))
}

/// The first record of each late transaction for each of some pages.
#[derive(Debug, Default)]
pub struct FirstTouches {
    pages: Arc<FxHashSet<PageId>>,
    next_at_redo: u32,
    ends: FxHashMap<(PageId, u32), Lsn>,
}

impl FirstTouches {
    #[must_use]
    pub fn of(pages: impl IntoIterator<Item = PageId>, next_at_redo: u32) -> Self {
        Self { pages: Arc::new(pages.into_iter().collect()), next_at_redo, ends: FxHashMap::default() }
    }

    /// True when the page is one of them.
    pub(super) fn concerns(&self, page: PageId) -> bool {
        self.pages.contains(&page)
    }

    /// Empty, for later records that will be [appended](Self::append).
    #[must_use]
    pub(super) fn begin(&self) -> Self {
        Self { pages: Arc::clone(&self.pages), next_at_redo: self.next_at_redo, ends: FxHashMap::default() }
    }

    /// Adds what the records after these said.
    pub(super) fn append(&mut self, next: Self) {
        let mut pairs: Vec<_> = next.ends.into_iter().collect();
        // When there is no room for all, the earliest are kept, whatever the number of threads.
        pairs.sort_unstable_by_key(|(pair, end_lsn)| (*end_lsn, *pair));
        for (pair, end_lsn) in pairs {
            if self.ends.len() < MAX_PAIRS {
                self.ends.entry(pair).or_insert(end_lsn);
            }
        }
    }

    /// Adds what a record says of one block.
    #[inline]
    pub(super) fn add_block(&mut self, record: &Record<'_>, block: &BlockHead) {
        let xid = record.header.xid;
        let Some(page) = block.page_id().filter(|_| xid > 2 && !is_newer_xid(self.next_at_redo, xid)) else { return };
        let is_image = block.has_image_to_apply(record.major);
        let is_hint = record.kind().is_hint() && !is_image;
        if !is_hint && self.pages.contains(&page) && self.ends.len() < MAX_PAIRS {
            self.ends.entry((page, xid)).or_insert(record.end_lsn);
        }
    }

    /// Pages on which a transaction stands whose first record for them ends after their LSN.
    pub fn ahead(&self, pages: &dyn PageSource, block_size: usize, coverage: &mut Coverage) -> Vec<PageId> {
        let mut sorted: Vec<PageId> = self.pages.iter().copied().collect();
        sorted.sort_unstable();
        let mut buf = vec![0; block_size];
        sorted.retain(|page| match pages.read_page(*page, &mut buf) {
            Ok(PageRead::Whole) => PageHeader::decode(0, &buf).is_ok_and(|header| {
                xids_of(&buf, page.fork)
                    .into_iter()
                    .any(|xid| self.ends.get(&(*page, xid)).is_some_and(|end| *end > header.lsn))
            }),
            Ok(_) => false,
            Err(error) => {
                coverage.skip_once(*page, error);
                false
            }
        });
        sorted
    }
}
