//! Whether the content of a page fits its own LSN: a page that shows a transaction whose change WAL holds only after
//! that LSN was copied in the middle of a change, or is made up of two versions.

use strum::{IntoStaticStr, VariantNames};

use super::events::{BlockEvent, Touch};
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::types::FIRST_NORMAL_XID;
use crate::types::{ForkNumber, Lsn, is_newer_xid};

#[derive(Clone, Copy, Debug)]
pub(crate) struct XidFacts<'a> {
    /// Records that touch the page, from the redo point on at least.
    pub events: &'a [BlockEvent],
    /// The next transaction at the checkpoint whose redo point it is: this one and newer ones wrote all their records
    /// after the redo point.
    pub next_at_redo: u32,
    pub newest: Option<u32>,
}

/// Sign that a page contains changes after its LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Ahead {
    /// The transaction's first record for this page ends after the page's LSN.
    FirstRecordLater {
        /// The transaction.
        xid: u32,
        /// End of its first record.
        first_lsn: Lsn,
    },
    /// The transaction has no record for this page although it began after the redo point.
    TransactionWithoutRecord {
        /// The transaction.
        xid: u32,
    },
    /// The transaction is newer than any that WAL knows.
    TransactionFromLater {
        /// The transaction.
        xid: u32,
    },
    /// The change of the next record for the page exists already.
    HoldsNextChange {
        /// Start of that record.
        lsn: Lsn,
    },
}

impl Ahead {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// Transactions not older than `next` that the rows of a heap page name, but for those that hints say no longer count; sorted.
pub(crate) fn xids_from(page: &[u8], fork: ForkNumber, next: u32) -> Vec<u32> {
    let named = |tuple: TupleHeader| {
        let xmin = (!tuple.has(infomask::XMIN_COMMITTED | infomask::XMIN_INVALID)).then_some(tuple.xmin);
        let is_xid = !tuple.has(infomask::XMAX_INVALID) && !tuple.has(infomask::XMAX_IS_MULTI);
        xmin.into_iter().chain(is_xid.then_some(tuple.xmax))
    };
    let is_late = |xid: &u32| *xid >= FIRST_NORMAL_XID && !is_newer_xid(next, *xid);
    let mut found: Vec<u32> = tuples_of(page, fork).flat_map(named).filter(is_late).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// True when a row of a heap page names a transaction that is not older than `next`, whatever hints say.
pub(crate) fn names_xid_from(page: &[u8], fork: ForkNumber, next: u32) -> bool {
    let is_late = |xid: u32| xid >= FIRST_NORMAL_XID && !is_newer_xid(next, xid);
    tuples_of(page, fork).any(|tuple| is_late(tuple.xmin) || is_late(tuple.xmax))
}

/// Headers of the rows of a heap page; nothing of any other page.
fn tuples_of(page: &[u8], fork: ForkNumber) -> impl Iterator<Item = TupleHeader> {
    let header = PageHeader::decode(0, page).ok().filter(|_| fork == ForkNumber::Main);
    let header = header.filter(|header| PageKind::of(header, page, fork) == PageKind::Heap);
    let tuples = header.into_iter().flat_map(move |header| page_tuples(&header, page));
    tuples.filter_map(|tuple| TupleHeader::decode(0, tuple.bytes).ok())
}

/// The first transaction on a heap page with LSN `lsn` that proves the page to be ahead of its LSN.
pub(crate) fn ahead_of_lsn(page: &[u8], fork: ForkNumber, lsn: Lsn, facts: &XidFacts<'_>) -> Option<Ahead> {
    // An image can bring rows of transactions that never touched this page themselves.
    let has_image = facts.events.iter().any(|event| matches!(event.touch, Touch::Image { .. }) && event.end_lsn <= lsn);
    xids_from(page, fork, facts.next_at_redo).into_iter().find_map(|xid| {
        if facts.newest.is_some_and(|newest| is_newer_xid(xid, newest)) {
            return Some(Ahead::TransactionFromLater { xid });
        }
        let own = facts.events.iter().filter(|event| event.xid == xid && event.touch != Touch::Hint);
        match own.map(|event| event.end_lsn).min() {
            Some(first_lsn) if first_lsn > lsn => Some(Ahead::FirstRecordLater { xid, first_lsn }),
            None if !has_image => Some(Ahead::TransactionWithoutRecord { xid }),
            Some(_) | None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap page of 8 KiB with one tuple of transaction `xmin`, deleted by `xmax` (0: by nobody).
    fn heap_page(xmin: u32, xmax: u32, mask: u16) -> Vec<u8> {
        let mut page = vec![0; 8192];
        for (at, value) in [(12, 28_u16), (14, 8160), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[24..28].copy_from_slice(&(8160_u32 | 1 << 15 | 32 << 17).to_le_bytes());
        page[8160..8164].copy_from_slice(&xmin.to_le_bytes());
        page[8164..8168].copy_from_slice(&xmax.to_le_bytes());
        page[8180..8182].copy_from_slice(&mask.to_le_bytes());
        page[8182] = 24;
        page
    }

    fn event(xid: u32, end_lsn: u64, touch: Touch) -> BlockEvent {
        BlockEvent { start_lsn: Lsn(end_lsn - 8), end_lsn: Lsn(end_lsn), xid, touch, ..BlockEvent::default() }
    }

    fn judge(page: &[u8], lsn: u64, events: &[BlockEvent]) -> Option<Ahead> {
        let facts = XidFacts { events, next_at_redo: 700, newest: Some(800) };
        ahead_of_lsn(page, ForkNumber::Main, Lsn(lsn), &facts)
    }

    #[test]
    fn change_after_the_page_lsn_is_found() {
        let events = [event(710, 100, Touch::Change), event(720, 200, Touch::Change)];
        assert_eq!(judge(&heap_page(710, 0, infomask::XMAX_INVALID), 150, &events), None);
        assert_eq!(
            judge(&heap_page(710, 720, 0), 150, &events),
            Some(Ahead::FirstRecordLater { xid: 720, first_lsn: Lsn(200) })
        );
        assert_eq!(judge(&heap_page(710, 720, 0), 200, &events), None);
    }

    #[test]
    fn transactions_from_before_the_redo_point_prove_nothing() {
        assert_eq!(judge(&heap_page(699, 0, infomask::XMAX_INVALID), 150, &[event(699, 200, Touch::Change)]), None);
    }

    #[test]
    fn transaction_without_record_is_found_unless_an_image_brought_it() {
        let page = heap_page(710, 0, infomask::XMAX_INVALID);
        assert_eq!(judge(&page, 150, &[]), Some(Ahead::TransactionWithoutRecord { xid: 710 }));
        assert_eq!(judge(&page, 150, &[event(9, 100, Touch::Image { marks: None, prior_lsn: Lsn::INVALID })]), None);
        assert_eq!(judge(&heap_page(900, 0, 0), 150, &[]), Some(Ahead::TransactionFromLater { xid: 900 }));
    }

    #[test]
    fn frozen_rows_and_multixacts_name_no_transaction() {
        let frozen = infomask::XMIN_COMMITTED | infomask::XMIN_INVALID | infomask::XMAX_IS_MULTI;
        assert!(xids_from(&heap_page(710, 720, frozen), ForkNumber::Main, 3).is_empty());
        assert!(xids_from(&heap_page(2, 0, 0), ForkNumber::Main, 3).is_empty());
    }
}
