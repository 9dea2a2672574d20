//! Whether the least LSN that recovery must reach lies on the timeline that `pg_control` has it on.

use super::backup_files::RecoverySigns;
use super::data_dir::DataDir;
use super::history_file::read_history;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::Lsn;

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
