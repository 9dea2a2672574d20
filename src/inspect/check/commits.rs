//! Commits before the redo point that `pg_xact` does not have: an older copy of it, or a lost write.

use std::path::PathBuf;

use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::provable::CommittedXact;
use crate::cluster::data_dir::DataDir;
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

    /// The first that is not there.
    pub(super) fn first(&self) -> Option<CommittedXact> {
        self.first.as_ref().map(|(commit, _)| *commit)
    }

    /// What was found.
    pub(super) fn finding(self) -> Option<Finding> {
        let (CommittedXact { xid, record_lsn }, file) = self.first?;
        let kind = FindingKind::CommitsLost { count: self.count, xid, record_lsn };
        Some(Finding::problem(kind).in_file(&file.display().to_string()))
    }
}
