//! Whether pages contradict a `pg_control` by which data checksums are off.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cluster::control_file::CONTROL_PATH;
use crate::parsers::checksum::page_checksum;
use crate::parsers::control::{ChecksumState, ControlFile};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::version::Major;
use crate::report::{Finding, rules};
use crate::types::{BlockNumber, Lsn};

/// Fewer pages with a right checksum prove nothing.
const LEAST_RIGHT: u64 = 3;

/// Of so many pages one with a right checksum is enough. By chance one of 65,536 is right.
const OF_NEWER: u64 = 16;

/// Counts pages with right checksums that were changed after a checkpoint on a server that should not compute any.
///
/// Checksums can only be turned off on a stopped cluster up to 18 (`src/bin/pg_checksums/pg_checksums.c`). Its pages keep what
/// `pd_checksum` held, and no server computes it again: whatever changes a page, its LSN to begin with, makes the old one
/// wrong.
#[derive(Debug)]
pub(crate) struct ChecksumWitness {
    since: Lsn,
    newer: AtomicU64,
    right: AtomicU64,
}

/// Pages that carry checksums nobody should have computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumsContradict {
    /// Pages that were changed since the redo point and have a right checksum.
    pub right: u64,
    pub newer: u64,
}

impl ChecksumsContradict {
    /// So many pages have right ones that those with wrong ones are damaged. Of fewer, a redo point that is too old may be the
    /// reason: then the others were written without checksums.
    pub(crate) const fn are_most(&self) -> bool {
        self.right.saturating_mul(2) >= self.newer
    }

    pub fn finding(self) -> Finding {
        let Self { right, newer } = self;
        let finding = CHECKSUMS_CONTRADICT.problem(format!(
            "says that data checksums are off, but {right} of {newer} pages that were changed since the redo point carry right ones"
        ));
        let finding = if self.are_most() { finding.because(MOST_ARE_RIGHT) } else { finding };
        finding.in_file(CONTROL_PATH)
    }
}

impl ChecksumWitness {
    /// Nothing was seen yet. `None` where checksums are not off by `pg_control`, or can have been on since the redo point: on
    /// standbys, whose restartpoints may be older than the last startup, and where servers turn them off while they run.
    /// `is_settled`: by `is_settled` of the condition of the cluster.
    pub fn of(control: Option<&ControlFile>, major: Major, is_settled: bool) -> Option<Self> {
        let control = control.filter(|control| control.checksums == ChecksumState::Off)?;
        let is_sure = is_settled && !major.facts().checksums_change_online && !control.is_in_archive_recovery();
        let since = control.checkpoint.redo_lsn;
        is_sure.then_some(Self { since, newer: AtomicU64::new(0), right: AtomicU64::new(0) })
    }

    /// Looks at a sound page of a logged relation, from any thread.
    pub fn look(&self, block: BlockNumber, page: &[u8]) {
        let Ok(header) = PageHeader::decode(0, page) else { return };
        if header.lsn > self.since {
            self.newer.fetch_add(1, Ordering::Relaxed);
            // A server that computes checksums never stores 0.
            if header.checksum != 0 && page_checksum(page, block) == header.checksum {
                self.right.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Finding if the pages contradict `pg_control`.
    pub fn finish(&self) -> Option<ChecksumsContradict> {
        let (newer, right) = (self.newer.load(Ordering::Relaxed), self.right.load(Ordering::Relaxed));
        (right >= LEAST_RIGHT && right.saturating_mul(OF_NEWER) >= newer)
            .then_some(ChecksumsContradict { right, newer })
    }

    pub fn finding(&self) -> Option<Finding> {
        self.finish().map(ChecksumsContradict::finding)
    }
}

const MOST_ARE_RIGHT: &str = "pg_control was changed, or belongs to another cluster or time; a check of the whole \
    cluster judges pages by their checksums anyway";

rules! {
    CHECKSUMS_OFF: Pages "checksums_off",
        why: "only page structure was checked; most damage is invisible",
        means: "The cluster has no data checksums",
        action: "Most damage is invisible";
    CHECKSUMS_CONTRADICT: Pages "checksums_contradict",
        why: "pg_control was changed, or belongs to another cluster or time; too few pages have valid checksums to \
            call the others damaged",
        means: "`pg_control` says that checksums are off, but pages changed after the redo point have valid ones, \
            which only a server with checksums writes. If most of those pages do, a `check` of the whole cluster \
            judges pages by their checksums. Only up to 18: later versions turn checksums off at run time",
        action: "The file was changed, or belongs to another cluster or time. `check` judges pages by their checksums \
            anyway, and proves no image";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_right_checksums_contradict_and_do_not_condemn_the_others() {
        let of = |right: u64, newer: u64| {
            let witness = ChecksumWitness { since: Lsn(1), newer: AtomicU64::new(newer), right: AtomicU64::new(right) };
            witness.finish().map(|found| found.are_most())
        };
        assert_eq!([of(2, 2), of(3, 49), of(3, 48), of(3, 7)], [None, None, Some(false), Some(false)]);
        assert_eq!([of(3, 6), of(900, 1000)], [Some(true); 2]);
    }
}
