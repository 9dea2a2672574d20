//! Heap pages of a cluster without checksums with a transaction that, according to WAL, changed them only later.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::content::{names_xid_from, xids_of};
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
    names_xid_from(page, fork, next_at_redo) && !late_xids(page, fork, next_at_redo).is_empty()
}

fn late_xids(page: &[u8], fork: ForkNumber, next_at_redo: u32) -> Box<[u32]> {
    xids_of(page, fork).into_iter().filter(|xid| !is_newer_xid(next_at_redo, *xid)).collect()
}

/// The first record of each late transaction for each of some pages that shows it.
#[derive(Debug, Default)]
pub struct FirstTouches {
    /// Late transactions that the page shows, sorted.
    shown: Arc<FxHashMap<PageId, Box<[u32]>>>,
    next_at_redo: u32,
    ends: FxHashMap<(PageId, u32), Lsn>,
}

impl FirstTouches {
    /// A page that cannot be read is kept: [`Self::ahead`] reports it.
    #[must_use]
    pub fn of(
        pages: impl IntoIterator<Item = PageId>,
        next_at_redo: u32,
        source: &dyn PageSource,
        block_size: usize,
    ) -> Self {
        let mut buf = vec![0; block_size];
        let shown = pages.into_iter().map(|page| match source.read_page(page, &mut buf) {
            Ok(PageRead::Whole) => (page, late_xids(&buf, page.fork, next_at_redo)),
            _ => (page, Box::default()),
        });
        Self { shown: Arc::new(shown.collect()), next_at_redo, ends: FxHashMap::default() }
    }

    /// Empty, for later records that will be [appended](Self::append).
    #[must_use]
    pub(super) fn begin(&self) -> Self {
        Self { shown: Arc::clone(&self.shown), next_at_redo: self.next_at_redo, ends: FxHashMap::default() }
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
        let shows = |shown: &[u32]| shown.binary_search(&xid).is_ok();
        if !is_hint && self.shown.get(&page).is_some_and(|shown| shows(shown)) && self.ends.len() < MAX_PAIRS {
            self.ends.entry((page, xid)).or_insert(record.end_lsn);
        }
    }

    /// Pages on which a transaction stands whose first record for them ends after their LSN.
    pub fn ahead(&self, pages: &dyn PageSource, block_size: usize, coverage: &mut Coverage) -> Vec<PageId> {
        let mut sorted: Vec<PageId> = self.shown.keys().copied().collect();
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
