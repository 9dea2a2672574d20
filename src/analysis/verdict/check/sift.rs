//! Reads WAL about pages that replay touches and no checksum protects, and leaves those that it contradicts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::input::{ClusterInput, WalInput};
use super::progress::{CheckProgress, Stage};
use super::read_wal::WalRead;
use crate::analysis::verdict::history::WalHistory;
use crate::analysis::verdict::interest::Interest;
use crate::analysis::verdict::replay::read_before;
use crate::analysis::verdict::sieve::{PageOnDisk, Sieve};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::PageId;

/// How often WAL is read at most. Pages that are left then are judged with all that is known of them.
const MAX_ROUNDS: usize = 8;

/// Those of the pages that WAL may contradict, or that it says too little of to tell. `first`: what was read before.
pub(super) fn sift(
    mut wanted: Vec<PageOnDisk>,
    first: &WalRead,
    wal: &WalInput<'_>,
    cluster: &ClusterInput<'_>,
    jobs: usize,
    progress: &CheckProgress<'_>,
) -> Vec<PageId> {
    let mut found = Vec::new();
    for _ in 0..MAX_ROUNDS {
        if wanted.is_empty() || progress.is_broken_off() {
            break;
        }
        let count = wanted.len();
        match sift_once(wanted, first, wal, cluster, jobs, progress) {
            Ok((contradicted, waiting)) => {
                found.extend(contradicted);
                wanted = waiting;
            }
            Err(unsifted) => {
                wanted = unsifted;
                break;
            }
        }
        if wanted.len() == count {
            break;
        }
    }
    found.extend(wanted.into_iter().map(|own| own.page));
    found
}

/// The pages that are contradicted, and those that there was no room for; all of them as they were where WAL has gaps, or cannot be read to its end.
fn sift_once(
    wanted: Vec<PageOnDisk>,
    first: &WalRead,
    wal: &WalInput<'_>,
    cluster: &ClusterInput<'_>,
    jobs: usize,
    progress: &CheckProgress<'_>,
) -> Result<(Vec<PageId>, Vec<PageOnDisk>), Vec<PageOnDisk>> {
    let redo_lsn = first.replay.redo_lsn.unwrap_or_default();
    let next_xid = first.replay.next_xid.unwrap_or_default();
    let mut interest = Interest::default();
    for own in &wanted {
        interest.add(own.page);
    }
    let mut history = WalHistory::new(&interest);
    history.sieve = Some(Sieve::new(wanted, cluster.pages, cluster.block_size, (redo_lsn, next_xid)));
    let read = AtomicU64::new(0);
    let watch = |bytes| progress.at(Stage::Wal, read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
    let before = wal.all.or(wal.own).map(|set| read_before(set, Some(redo_lsn), &mut history, &interest, jobs, &watch));
    let mut replay = cluster.replay.clone();
    let after = wal.own.map(|set| replay.read_to_end(set, cluster.control, &mut history, &interest, jobs, &watch));
    let is_read = before.is_none_or(|errors| errors.is_empty()) && matches!(after, Some(Ok(())));
    let is_whole = is_read && history.stretches().len() == 1 && !progress.is_broken_off();
    let Some(sieve) = history.sieve.take() else { return Ok((interest.pages().to_vec(), Vec::new())) };
    if !is_whole {
        return Err(sieve.into_pages());
    }
    let (mut found, waiting) = sieve.finish();
    // What was removed meanwhile, or copied, is weighed record by record.
    let is_made =
        |page: &PageId| history.file_events(*page).any(|event| !matches!(event.what, LifeCycle::Created { .. }));
    found.extend(interest.pages().iter().copied().filter(is_made));
    found.sort_unstable();
    found.dedup();
    Ok((found, waiting))
}
