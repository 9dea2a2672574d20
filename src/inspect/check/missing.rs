//! What is missing unless WAL since the redo point removes it.

use super::Told;
use super::prove::{ProofInput, Prover};
use crate::analysis::server_files::ServerFiles;
use crate::analysis::skipped::SkippedPart;
use crate::types::Lsn;

/// Settles by WAL what is missing unless WAL removes it, which is read for that only if there is any. What cannot be read removes nothing.
pub(super) fn settle_missing(input: &ProofInput<'_>, files: &mut ServerFiles, told: &mut Told) {
    if files.unless_removed.is_empty() {
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
    files.settle(
        |page| known.is_some_and(|known| known.removes_since(page, before_redo, redo_lsn)),
        |page| known.is_some_and(|known| known.is_made_in_replay(page)),
    );
}
