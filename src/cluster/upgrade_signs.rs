//! What `pg_upgrade --link` leaves in the old data directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::data_dir::DataDir;
use crate::cluster::history_file::read_history;
use crate::cluster::relation_walk::RelationFile;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::Lsn;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSigns {
    /// `global/pg_control.old` is there.
    pub has_old_control: bool,
    /// Files of relations that another directory holds too, by their link counts.
    pub linked_files: u64,
}

impl UpgradeSigns {
    /// Looks for them.
    ///
    /// Source: `disable_old_cluster`, `src/bin/pg_upgrade/controldata.c`.
    #[must_use]
    pub fn of(data_dir: &Path, files: &[RelationFile]) -> Self {
        let is_linked = |file: &&RelationFile| {
            data_dir.join(&file.path).symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() > 1)
        };
        Self {
            has_old_control: data_dir.join("global/pg_control.old").symlink_metadata().is_ok(),
            linked_files: files.iter().filter(is_linked).count() as u64,
        }
    }
}

/// True when a server refuses `pg_control` for that. Where a backup or a standby may follow another timeline, only a timeline of 0 is certain
/// to be refused; where a history cannot be read, nothing is.
///
/// Source: `InitWalRecovery`, `src/backend/access/transam/xlogrecovery.c`.
pub(crate) fn is_on_other_timeline(directory: &DataDir, control: &ControlFile, signs: &RecoverySigns) -> bool {
    let (lsn, tli) = (control.min_recovery_lsn, control.min_recovery_timeline);
    if !lsn.is_valid() || tli.0 == 0 {
        return lsn.is_valid();
    }
    let follows_own = signs.signals.is_empty() && signs.backup_label.is_none();
    let target = control.timeline();
    let history = read_history(directory.root(), target);
    // Without one the server knows of no other timeline.
    let history = history.map(|found| found.unwrap_or_else(|| TimelineHistory::root(target)));
    let before = Lsn(lsn.0.saturating_sub(1));
    follows_own && history.is_ok_and(|history| history.tli_at(before) != tli)
}
