//! Effects of WAL after the redo point that explain missing files: files that it removes, and bits of visibility maps that it
//! clears.

use super::Told;
use super::prove::{ProofInput, Prover};
use crate::analysis::page_links::{BrokenLink, LinkFault};
use crate::analysis::server_files::ServerFiles;
use crate::analysis::skipped::SkippedPart;
use crate::types::Lsn;

/// Settles by WAL what is missing unless WAL removes it, and which marks of pages and bits of maps replay puts in order. WAL is
/// read for that only if there is any. What cannot be read settles nothing.
pub(super) fn settle(input: &ProofInput<'_>, files: &mut ServerFiles, broken: &mut Vec<BrokenLink>, told: &mut Told) {
    let is_mark = |link: &BrokenLink| link.fault == LinkFault::NotAllVisible;
    let replays = input.cluster.replay.recovery.replays();
    if files.unless_removed.is_empty() && !(replays && broken.iter().any(is_mark)) {
        return;
    }
    let prover = Prover::new(input);
    let known = prover.wal().map(|set| prover.read_to_the_end(set, &mut |_| {}, told)).transpose();
    let known = known.unwrap_or_else(|why| {
        told.coverage.skip(SkippedPart::LostWrites, why);
        None
    });
    let redo_lsn = input.cluster.replay.redo_lsn.unwrap_or_default();
    let before_redo = Lsn(redo_lsn.0.saturating_sub(1));
    let known = known.as_ref();
    let is_removed = |page| known.is_some_and(|known| known.removes_since(page, before_redo, redo_lsn));
    files.settle(is_removed, |page| known.is_some_and(|known| known.is_made_in_replay(page)));
    if replays {
        let is_replayed = |page, is_whole| known.is_some_and(|known| known.is_in_replay(page, is_whole));
        broken.retain(|link| {
            !is_mark(link)
                || !(is_removed(link.page) || is_replayed(link.page, false) || is_replayed(link.namer(), true))
        });
    }
}
