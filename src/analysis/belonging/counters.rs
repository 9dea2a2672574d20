//! Whether rows name transactions and multixacts that `pg_control` says were never handed out.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::analysis::verdict::xid::is_newer_xid;
use crate::parsers::control::ControlFile;
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::types::{ForkNumber, PageId, RelFileLocator};

/// Numbers up to 2 belong to the server itself.
const FIRST_NORMAL_XID: u32 = 3;

/// Rows that are ahead of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAhead {
    /// Page of the first of them, in the order of files.
    pub page: PageId,
    /// Its item, from 1.
    pub item: usize,
    /// What that row names.
    pub value: u32,
    /// The newest that any row names.
    pub newest: u32,
    /// How many rows.
    pub rows: u64,
    /// In how many relations.
    pub relations: usize,
}

/// What rows say of both counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows ahead of the next transaction.
    pub xids: Option<RowAhead>,
    /// Rows ahead of the next multixact.
    pub multis: Option<RowAhead>,
}

/// Looks for such rows while pages are read.
#[derive(Debug)]
pub struct CounterWitness {
    next_xid: u32,
    next_multi: u32,
    seen: Mutex<[Tally; 2]>,
}

#[derive(Debug, Default)]
struct Tally {
    first: Option<RowAhead>,
    relations: BTreeSet<RelFileLocator>,
}

impl CounterWitness {
    /// Nothing was seen yet. `None` where the counters are not those of a shutdown: replay moves them on.
    #[must_use]
    pub fn of(control: Option<&ControlFile>) -> Option<Self> {
        let control = control.filter(|control| control.was_shut_down())?;
        let next_xid = u32::try_from(control.checkpoint.next_full_xid & u64::from(u32::MAX)).unwrap_or_default();
        Some(Self { next_xid, next_multi: control.checkpoint.next_multi, seen: Mutex::default() })
    }

    /// Looks at a sound page of a logged relation, from any thread.
    pub fn look(&self, page: PageId, bytes: &[u8]) {
        let Ok(header) = PageHeader::decode(0, bytes) else { return };
        if page.fork != ForkNumber::Main || PageKind::of(&header, bytes, page.fork) != PageKind::Heap {
            return;
        }
        for tuple in page_tuples(&header, bytes) {
            let Ok(row) = TupleHeader::decode(0, tuple.bytes) else { continue };
            let is_ahead = |xid: u32| xid >= FIRST_NORMAL_XID && !is_newer_xid(self.next_xid, xid);
            if !row.has(infomask::XMIN_COMMITTED | infomask::XMIN_INVALID) && is_ahead(row.xmin) {
                self.add(0, page, tuple.item, row.xmin);
            } else if row.has(infomask::XMAX_INVALID) {
            } else if !row.has(infomask::XMAX_IS_MULTI) {
                if is_ahead(row.xmax) {
                    self.add(0, page, tuple.item, row.xmax);
                }
            } else if !is_upgraded_lock(&row) && !is_newer_xid(self.next_multi, row.xmax) {
                self.add(1, page, tuple.item, row.xmax);
            }
        }
    }

    fn add(&self, which: usize, page: PageId, item: usize, value: u32) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tally) = seen.get_mut(which) else { return };
        tally.relations.insert(page.rel);
        let new = RowAhead { page, item, value, newest: value, rows: 0, relations: 0 };
        let first = tally.first.get_or_insert(new);
        if (page, item) < (first.page, first.item) {
            (first.page, first.item, first.value) = (page, item, value);
        }
        first.newest = if is_newer_xid(value, first.newest) { value } else { first.newest };
        first.rows = first.rows.saturating_add(1);
    }

    /// What the rows say.
    #[must_use]
    pub fn finish(&self) -> Counters {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |tally: &Tally| tally.first.map(|rows| RowAhead { relations: tally.relations.len(), ..rows });
        let [xids, multis] = &*seen;
        Counters { xids: of(xids), multis: of(multis) }
    }
}

/// A lock of a server up to 9.2, whose multixacts nobody looks up.
///
/// Source: `HEAP_LOCKED_UPGRADED`, `src/include/access/htup_details.h`.
const fn is_upgraded_lock(row: &TupleHeader) -> bool {
    row.has(infomask::XMAX_IS_MULTI | infomask::XMAX_LOCK_ONLY) && row.infomask & infomask::LOCK_MASK == 0
}
