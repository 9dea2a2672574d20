//! Third stage: pages that nobody suspected before WAL was read.

use super::input::ClusterInput;
use super::read_wal::WalRead;
use crate::analysis::coverage::Coverage;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::verdict::sieve::PageOnDisk;
use crate::analysis::verdict::slots::Suspicion;
use crate::analysis::verdict::zeroed::{MAX_ZEROED, ZeroedPages};
use crate::types::PageId;

/// Pages whose rows are compared with WAL where no checksum protects them.
const MAX_TOUCHED: usize = 500_000;

pub(super) struct Further {
    /// Pages that WAL was not asked about.
    pub(super) suspects: Vec<(PageId, Suspicion)>,
    /// Where no checksum protects pages: those that replay touches, which rows and sectors may contradict.
    pub(super) touched: Vec<PageOnDisk>,
    /// Unreadable parts, and parts beyond the limits.
    pub(super) coverage: Coverage,
}

/// Finds missing pages that recovery needs, zeroed pages that had content, and where no checksum protects them all that replay
/// touches.
pub(super) fn find_further(read: &WalRead, cluster: &ClusterInput<'_>) -> Further {
    let mut coverage = Coverage::default();
    let (pages, block_size) = (cluster.pages, cluster.block_size);
    let needed = read.needed.as_ref().filter(|_| read.replay.can_begin && read.replay.recovery.replays());
    let mut touched: Vec<PageOnDisk> = match needed {
        Some(needed) if !cluster.has_checksums => {
            let next_xid = read.replay.next_xid.unwrap_or_default();
            needed.touched(pages, block_size, next_xid).take(MAX_TOUCHED).collect()
        }
        _ => Vec::new(),
    };
    if touched.len() >= MAX_TOUCHED {
        coverage.skip(SkippedPart::MorePagesTouched, SkipReason::TooManyTouched { limit: MAX_TOUCHED });
    }
    let zeroed = read.zeroed.as_ref().filter(|_| read.replay.can_begin).map_or_else(Vec::new, ZeroedPages::named);
    if zeroed.len() > MAX_ZEROED {
        coverage.skip(SkippedPart::MorePagesZeroed, SkipReason::TooManyZeroed { limit: MAX_ZEROED });
    }
    let zeroed = zeroed.into_iter().take(MAX_ZEROED).map(|page| (page, Suspicion::Zeroed));
    let missing = needed.map(|needed| needed.missing(pages, block_size, &mut coverage));
    let is_new = |page: PageId| read.interest.index_of(page).is_none();
    let found = missing.into_iter().flatten().chain(zeroed);
    let suspects: Vec<(PageId, Suspicion)> = found.filter(|(page, _)| is_new(*page)).collect();
    touched.retain(|own| is_new(own.page));
    Further { suspects, touched, coverage }
}
