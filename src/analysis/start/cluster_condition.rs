//! Meaning of the state of a cluster for startup.

use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::parsers::control::{ControlFile, DbState};
use crate::types::Lsn;

/// A server was stopped in it or crashed; no recovery, standby or backup, whose catalogs may be older than its files.
pub fn is_settled(control: Option<&ControlFile>, signs: &RecoverySigns, server: &ServerSign) -> bool {
    let states = [DbState::SHUT_DOWN, DbState::IN_PRODUCTION];
    let by_state = control.is_some_and(|control| states.contains(&control.prefix.state));
    by_state && signs.signals.is_empty() && is_no_backup(signs, server)
}

/// The available WAL shows all changes of files by recovery, complete or not, since its redo point: the cluster is neither
/// settled nor a backup. Where the checkpoint after crash recovery fails, `pg_control` says "shutting down".
///
/// Source: `CreateCheckPoint`, `src/backend/access/transam/xlog.c`.
pub(crate) fn is_replayed(control: Option<&ControlFile>, signs: &RecoverySigns, server: &ServerSign) -> bool {
    let by_state = control.is_some_and(|control| control.prefix.state.is_startable());
    by_state && is_no_backup(signs, server) && !is_settled(control, signs, server)
}

fn is_no_backup(signs: &RecoverySigns, server: &ServerSign) -> bool {
    signs.backup_label.is_none() && !server.may_be_running()
}

/// Condition of a cluster, and what startup will do.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ClusterCondition {
    /// `pg_control` cannot be trusted, so the state is unknown.
    Unknown,
    /// A server runs on the directory; what shows it.
    Running(String),
    /// A server may be running on the directory; with the evidence.
    MayBeRunning(String),
    /// A base backup that has not been recovered yet.
    BaseBackup,
    /// `pg_resetwal` was run: no replay will happen.
    WalWasReset,
    /// Shut down cleanly: no replay will happen.
    ShutDown,
    /// A standby that was stopped cleanly.
    StandbyShutDown {
        /// Where recovery continues.
        redo_lsn: Lsn,
    },
    /// Archive recovery was cut off.
    InArchiveRecovery {
        /// Where recovery continues.
        redo_lsn: Lsn,
        /// From here on the cluster is consistent.
        consistent_lsn: Lsn,
    },
    /// A crash: startup replays WAL.
    Crashed {
        /// Where replay starts.
        redo_lsn: Lsn,
    },
}

impl ClusterCondition {
    /// The state of a data directory, as it is now.
    pub fn of_data_dir(directory: &DataDir) -> Self {
        Self::of(directory.control().trusted(), &directory.server_sign(), &directory.recovery_signs())
    }

    /// The state by `pg_control`, if it can be trusted, and by what lies beside it.
    pub fn of(control: Option<&ControlFile>, server: &ServerSign, signs: &RecoverySigns) -> Self {
        let Some(control) = control else { return Self::Unknown };
        match server {
            ServerSign::Running { why, .. } => return Self::Running(why.clone()),
            ServerSign::MayRun { why, .. } | ServerSign::Unclear { why } | ServerSign::Hidden { why } => {
                return Self::MayBeRunning(why.clone());
            }
            ServerSign::Unreadable(error) => return Self::MayBeRunning(error.to_string()),
            ServerSign::NoPidFile
            | ServerSign::ProcessGone { .. }
            | ServerSign::OtherProcess { .. }
            | ServerSign::Zombie { .. } => {}
        }
        if signs.backup_label.is_some() {
            return Self::BaseBackup;
        }
        let redo_lsn = control.checkpoint.redo_lsn;
        match control.prefix.state {
            DbState::SHUT_DOWN if signs.wal_was_reset => Self::WalWasReset,
            DbState::SHUT_DOWN if control.was_shut_down() => Self::ShutDown,
            DbState::SHUT_DOWN_IN_RECOVERY => Self::StandbyShutDown { redo_lsn },
            DbState::IN_ARCHIVE_RECOVERY => {
                Self::InArchiveRecovery { redo_lsn, consistent_lsn: control.min_recovery_lsn }
            }
            _ => Self::Crashed { redo_lsn },
        }
    }

    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// `pg_control` says what the state is.
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// Function that fails because of a missing or damaged file of the server. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// Nothing for certain: only a server that was built in a certain way starts.
    Build,
    /// Nothing for certain: recovery ends where a setting says.
    Target,
    /// Recovery, or startup without it, if it reaches a file that the server cannot open.
    Replay,
    /// Checkpoints, also that of the next shutdown.
    Checkpoints,
    /// Reading committed rows: they count as aborted.
    Commits,
    /// Reading what a relation held: recovery empties it.
    Contents,
    /// Connections to one or all databases.
    Connections,
    /// Trust in any row: the files do not belong together.
    Belonging,
    /// The start itself.
    Start,
}
