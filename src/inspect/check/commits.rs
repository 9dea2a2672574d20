//! Commits before the redo point that `pg_xact` does not have: an older copy of it, or a lost write.

use std::path::PathBuf;

use crate::analysis::belonging::{Contradiction, SeamInput};
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::provable::{CommittedXact, WalPages};
use crate::cluster::data_dir::DataDir;
use crate::cluster::wal::WalSet;
use crate::cluster::xact_files::XactStates;
use crate::parsers::control::ControlFile;

/// The commits that are not there.
pub(super) struct LostCommits {
    states: XactStates,
    first: Option<(CommittedXact, PathBuf)>,
    count: u64,
}

impl LostCommits {
    /// None were looked for yet.
    pub(super) fn new(directory: &DataDir, control: &ControlFile) -> Self {
        Self { states: XactStates::new(directory, control), first: None, count: 0 }
    }

    /// Looks these up. What `pg_xact` does not have at all, old transactions among it, is not counted.
    pub(super) fn look_up(&mut self, commits: &[CommittedXact]) {
        for commit in commits {
            let Some(file) = self.states.not_committed(commit.xid) else { continue };
            self.count = self.count.saturating_add(1);
            self.first.get_or_insert((*commit, file));
        }
    }

    /// What was found.
    pub(super) fn finding(self) -> Option<Finding> {
        let (CommittedXact { xid, record_lsn }, file) = self.first?;
        let kind = FindingKind::CommitsLost { count: self.count, xid, record_lsn };
        Some(Finding::problem(kind).in_file(&file.display().to_string()))
    }
}

/// What shows that WAL from elsewhere, of all that is known, is of another history than `own`.
pub(super) fn diverged(
    own: Option<&WalSet>,
    known: &WalPages,
    next_xid: Option<u32>,
    lost: Option<&LostCommits>,
) -> Option<Contradiction> {
    let lost = lost.and_then(|lost| lost.first.as_ref()).map(|(commit, _)| *commit);
    SeamInput { own, known, next_xid, lost }.examine()
}
