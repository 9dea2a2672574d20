//! Whether the least LSN that recovery must reach lies on the timeline that `pg_control` has it on.

use std::path::{Path, PathBuf};

use super::backup_files::RecoverySigns;
use super::data_dir::DataDir;
use super::open::{Links, read_small};
use super::settings::CONF_LIMIT_BYTES;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::{Lsn, TimelineId};

/// The file with the history of a timeline, relative to the data directory.
pub(super) fn history_file(tli: TimelineId) -> PathBuf {
    Path::new("pg_wal").join(format!("{:08X}.history", tli.0))
}

/// True when a server refuses `pg_control` for that. Where a backup or a standby may follow another timeline, only a timeline of 0 is certain
/// to be refused; where a history cannot be read, nothing is.
///
/// Source: `InitWalRecovery`, `src/backend/access/transam/xlogrecovery.c`.
#[must_use]
pub fn is_on_other_timeline(directory: &DataDir, control: &ControlFile, signs: &RecoverySigns) -> bool {
    let (lsn, tli) = (control.min_recovery_lsn, control.min_recovery_timeline);
    if !lsn.is_valid() || tli.0 == 0 {
        return lsn.is_valid();
    }
    let follows_own = signs.signals.is_empty() && signs.backup_label.is_none();
    let target = control.timeline();
    let history = match read_small(&directory.root().join(history_file(target)), Links::Refuse, CONF_LIMIT_BYTES) {
        Ok(bytes) => TimelineHistory::parse(target, &String::from_utf8_lossy(&bytes)).ok(),
        // Then the server knows of no other.
        Err(error) if error.is_not_found() => Some(TimelineHistory { tli: target, ancestors: Vec::new() }),
        Err(_) => None,
    };
    let before = Lsn(lsn.0.saturating_sub(1));
    follows_own && history.is_some_and(|history| history.tli_at(before) != tli)
}
