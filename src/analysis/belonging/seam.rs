//! Whether WAL from elsewhere joins that of the cluster: a clone that ran by itself writes the same timeline, with the same names
//! of segments.

use super::Contradiction;
use crate::analysis::provable::{CheckpointSeen, CommittedXact, WalPages};
use crate::analysis::verdict::xid::is_newer_xid;
use crate::cluster::wal::WalSet;
use crate::types::Lsn;

/// Seconds that a clock may be set back silently.
const CLOCK_SLACK_S: i64 = 60;

/// Sign that WAL has another history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeamFault {
    /// A record before the redo point belongs to a transaction that the checkpoint had not assigned.
    Xid {
        xid: u32,
        next: u32,
    },
    /// A transaction is committed there, and not in `pg_xact`.
    Commit {
        xid: u32,
    },
    /// Of two checkpoints the later one has the lower next transaction.
    NextXid {
        before: u64,
        after: u64,
    },
    Time {
        seconds: i64,
    },
}

pub struct SeamInput<'a> {
    /// WAL in `pg_wal`.
    pub own: Option<&'a WalSet>,
    pub known: &'a WalPages,
    /// The next transaction, by `pg_control`.
    pub next_xid: Option<u32>,
    /// The first commit that `pg_xact` does not have.
    pub lost: Option<CommittedXact>,
}

impl SeamInput<'_> {
    /// The first contradiction of WAL from elsewhere.
    pub fn examine(&self) -> Option<Contradiction> {
        let of = |record_lsn: Lsn, what: SeamFault| Contradiction::WalDiverged { record_lsn, what };
        let ahead = self.known.newest.zip(self.next_xid).filter(|((xid, _), next)| !is_newer_xid(*next, *xid));
        if let Some(((xid, record_lsn), next)) = ahead.filter(|((_, lsn), _)| self.is_outside(*lsn)) {
            return Some(of(record_lsn, SeamFault::Xid { xid, next }));
        }
        if let Some(lost) = self.lost.filter(|lost| self.is_outside(lost.record_lsn)) {
            return Some(of(lost.record_lsn, SeamFault::Commit { xid: lost.xid }));
        }
        let pairs = self.known.checkpoints.windows(2).filter_map(|pair| pair.first().zip(pair.last()));
        let mut outside = pairs.filter(|(before, _)| self.is_outside(before.record_lsn));
        outside.find_map(|(before, after)| Some(of(after.record_lsn, step_back(before, after)?)))
    }

    /// True for a record that `pg_wal` does not hold.
    fn is_outside(&self, lsn: Lsn) -> bool {
        let Some(own) = self.own else { return true };
        let size = u64::from(own.geometry().wal_segment_size);
        let holds = |start: Lsn| start <= lsn && lsn < start.advanced_by(size);
        !own.segments().iter().any(|file| holds(file.start_lsn))
    }
}

fn step_back(before: &CheckpointSeen, after: &CheckpointSeen) -> Option<SeamFault> {
    let seconds = before.time_s.saturating_sub(after.time_s);
    if after.next_full_xid < before.next_full_xid {
        return Some(SeamFault::NextXid { before: before.next_full_xid, after: after.next_full_xid });
    }
    (seconds > CLOCK_SLACK_S).then_some(SeamFault::Time { seconds })
}
