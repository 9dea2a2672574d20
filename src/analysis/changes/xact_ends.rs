//! When the transactions ended that touched chosen pages.

use rustc_hash::{FxHashMap, FxHashSet};

use super::events::BlockEvent;
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::Lsn;

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
