//! Effect on startup of the double write buffer of a server that writes images before recovery.
//! Also here: how far the proofs of a check are.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::commits::strangers;
use super::{Stage, Watch};
use crate::analysis::dwb::format::StartWrites;
use crate::analysis::dwb::format::ring_finding::RING_OF_STRANGERS;
use crate::analysis::dwb::staleness::Staleness;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::belonging::Contradiction;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::verdict::case::Case;
use crate::cluster::wal::WalSet;
use crate::inspect::dwb_source::DwbSource;
use crate::report::Finding;
use crate::types::{Lsn, PageId};

/// Writes of startup from a double write buffer before recovery, and whether they belong to this cluster.
pub(super) fn start_writes(
    case: &Case<'_>,
    watch: &dyn Watch,
    coverage: &mut Coverage,
) -> (Vec<Finding>, Option<Contradiction>) {
    let mut found = Vec::new();
    let mut cause = None;
    for StartWrites { finding, newer } in case.dwb.staleness.start_writes(&case.pages, case.files.block_size, coverage)
    {
        found.extend(finding);
        // Of older WAL less may be there.
        let newer: Vec<(PageId, Lsn)> =
            newer.into_iter().filter(|(_, lsn)| case.replay.redo_lsn.is_some_and(|redo| *lsn >= redo)).collect();
        let Some(set) = &case.wal.own else { continue };
        let progress = ProofProgress::new(Stage::Wal, watch, wal_bytes(set));
        match strangers(set, &newer, case.jobs, &|_| progress.wait()) {
            // If reading was interrupted, records may end that were not read.
            Ok(_) if progress.is_broken_off() => {
                coverage.skip_once(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Pages));
            }
            Ok(Some(Contradiction::PageOfNoRecord { page, page_lsn, pages })) => {
                cause = Some(Contradiction::PageOfNoRecord { page, page_lsn, pages });
                found.push(RING_OF_STRANGERS.problem(format!(
                    "startup in mode double_writes overwrites {pages} intact pages with images from another cluster \
                     or time, the first: {} {} block {} with an image with LSN {page_lsn}, where no record ends",
                    page.rel, page.fork, page.block
                )));
            }
            Ok(_) => {}
            Err(error) => coverage.skip_once(SkippedPart::PgWal, error),
        }
    }
    (found, cause)
}

/// Obstacle to startup from a double write buffer.
pub(super) fn of_ring(source: &DwbSource, staleness: &Staleness) -> Option<Obstacle> {
    let keeps_ring = source.directory.as_ref().is_some_and(|directory| directory.major().facts().keeps_ring);
    (keeps_ring && staleness.fails_at_start(source.is_in_double_writes())).then_some(Obstacle::Start)
}

/// Bytes of all segments.
pub(super) fn wal_bytes(set: &WalSet) -> u64 {
    set.segments().len() as u64 * u64::from(set.geometry().wal_segment_size)
}

/// Progress and interruption of the proofs.
pub(super) struct ProofProgress<'a> {
    stage: Stage,
    watch: &'a dyn Watch,
    total: u64,
    done: AtomicU64,
    broken_off: AtomicBool,
}

impl<'a> ProofProgress<'a> {
    pub(super) fn new(stage: Stage, watch: &'a dyn Watch, total: u64) -> Self {
        Self { stage, watch, total, done: AtomicU64::new(0), broken_off: AtomicBool::new(false) }
    }

    /// So many bytes of WAL more were read.
    pub(super) fn read(&self, bytes: u64) -> ControlFlow<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let flow = self.watch.at(self.stage, done.min(self.total), self.total);
        self.broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    }

    /// WAL is read again, or a server runs.
    pub(super) fn wait(&self) -> ControlFlow<()> {
        self.read(0)
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }
}
