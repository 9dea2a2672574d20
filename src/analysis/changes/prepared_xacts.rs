//! Transactions that were prepared for a commit in two phases and have not ended.
//! Also here: when the transactions ended that touched chosen pages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::events::BlockEvent;
use crate::parsers::wal::lifecycle::XactEnd;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::types::Lsn;

/// Transactions that are kept; more are not reported. `max_prepared_transactions` is far lower.
const MAX_XACTS: usize = 65_536;

/// State of them according to records after a given one.
#[derive(Debug, Default)]
pub(crate) struct PreparedXacts {
    open: BTreeMap<u32, Range<Lsn>>,
    /// Those that were prepared before these records, and ended.
    ended: BTreeSet<u32>,
    /// Any that was prepared before these records may have ended.
    is_unclear: bool,
}

impl PreparedXacts {
    /// Adds the next record. The transaction that one prepares stands in its header.
    ///
    /// Source: `EndPrepare`, `src/backend/access/transam/twophase.c`.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        match record.kind() {
            RecordKind::XactPrepare if self.open.len() < MAX_XACTS => {
                self.open.insert(record.header.xid, record.start_lsn..record.end_lsn);
            }
            RecordKind::XactCommitPrepared | RecordKind::XactAbortPrepared => match XactEnd::of(record) {
                Ok(Some(XactEnd { xid: Some(xid), .. })) => {
                    if self.open.remove(&xid).is_none() && self.ended.len() < MAX_XACTS {
                        self.ended.insert(xid);
                    }
                }
                _ => self.forget(),
            },
            _ => {}
        }
    }

    pub(crate) fn append(&mut self, next: Self) {
        if next.is_unclear || next.ended.len() >= MAX_XACTS {
            self.forget();
        }
        for xid in &next.ended {
            self.open.remove(xid);
        }
        self.open.extend(next.open);
    }

    /// After a gap, or a record that was not understood, any of those so far may have ended.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.is_unclear = true;
    }

    /// The transactions that have not ended, each with the start and the end of the record that prepared it.
    pub fn open(&self) -> impl Iterator<Item = (u32, Range<Lsn>)> {
        self.open.iter().map(|(xid, record)| (*xid, record.clone()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XactOutcome {
    pub xid: u32,
    pub start_lsn: Lsn,
    /// True at commit, false at abort.
    pub committed: bool,
    /// When it ended.
    pub time: PgTimestamp,
}

/// Ends of the transactions that touched chosen pages.
#[derive(Debug, Default)]
pub struct XactEnds {
    /// Those that touched a page and have not ended yet.
    open: FxHashSet<u32>,
    /// Numbers come again after four billion transactions.
    ended: FxHashMap<u32, Vec<XactOutcome>>,
}

impl XactEnds {
    pub(crate) fn expect(&mut self, xid: u32) {
        if xid != 0 {
            self.open.insert(xid);
        }
    }

    pub(crate) fn add(&mut self, outcome: XactOutcome) {
        if self.open.remove(&outcome.xid) {
            self.ended.entry(outcome.xid).or_default().push(outcome);
        }
    }

    /// How the transaction of `event` ended, if WAL says so.
    pub fn of(&self, event: &BlockEvent) -> Option<&XactOutcome> {
        self.ended.get(&event.xid)?.iter().find(|outcome| outcome.start_lsn > event.start_lsn)
    }
}
