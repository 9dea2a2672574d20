//! Meaning of the state of a cluster for startup.
//! Also here: a data directory in the whole: identity, state, and what looks inconsistent before anybody starts the
//! server.

use super::doubt::Doubt;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::{CONTROL_PATH, ControlRead};
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::parsers::control::{ChecksumState, ControlFile, DbState};
use crate::report::{Finding, rules};
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

/// Findings about the directory itself, without its double write buffer. Adds what could not be read to `coverage`.
pub(crate) fn inspect_directory(
    directory: &DataDir,
    server: &ServerSign,
    signs: &RecoverySigns,
    coverage: &mut Coverage,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    inspect_server(server, coverage, &mut findings);
    inspect_control(directory, coverage, &mut findings);
    inspect_signs(signs, coverage, &mut findings);
    findings
}

fn inspect_server(server: &ServerSign, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    let file = "postmaster.pid";
    match server {
        ServerSign::NoPidFile => {}
        ServerSign::ProcessGone { pid } => {
            findings.push(STALE_PID_FILE.note(format!("process {pid} is no longer running")).in_file(file))
        }
        ServerSign::OtherProcess { pid, command, refuses_start } => {
            let what = format!("names process {pid}, now \"{command}\", which is not a server of this directory");
            findings.push(taken_number(what, *refuses_start).in_file(file));
        }
        ServerSign::Zombie { pid, command, parent, refuses_start } => {
            let by = parent.as_ref().map(|(pid, name)| format!(", process {pid} (\"{name}\")")).unwrap_or_default();
            let what = format!(
                "names process {pid} (\"{command}\"), which has ended, but its parent has not collected it{by}"
            );
            findings.push(taken_number(what, *refuses_start).in_file(file));
        }
        ServerSign::MayRun { why, .. } => {
            findings.push(SERVER_UNCLEAR.problem(why.clone()));
        }
        ServerSign::Running { why, .. } => {
            findings.push(SERVER_RUNNING.problem(why.clone()));
        }
        ServerSign::Unclear { why } => {
            findings.push(PID_FILE_UNCLEAR.problem(why.clone()).in_file(file));
        }
        ServerSign::Hidden { why } => {
            findings.push(SERVER_UNCLEAR.problem(why.clone()).because("a running server cannot be ruled out"));
        }
        ServerSign::Unreadable(error) => coverage.skip(SkippedPart::file(file), error),
    }
}

/// A number in `postmaster.pid` that belongs to a process, but to no server of the directory.
fn taken_number(what: String, refuses_start: bool) -> Finding {
    if refuses_start {
        PID_IN_USE.problem(what)
    } else {
        STALE_PID_FILE
            .note(what)
            .because("left by the crash; another user's process does not keep the server from starting")
    }
}

fn inspect_control(directory: &DataDir, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    let file = CONTROL_PATH;
    match directory.control() {
        ControlRead::Unreadable(error) => coverage.skip(SkippedPart::file(file), error),
        ControlRead::Short(error) => coverage.skip(SkippedPart::file(file), error),
        ControlRead::UnknownVersion { prefix, .. } => {
            let (version, is_byte_swapped) = (prefix.pg_control_version, prefix.is_byte_swapped());
            coverage.skip(SkippedPart::file(file), SkipReason::UnknownControlVersion { version, is_byte_swapped });
        }
        ControlRead::WrongSizes(_, faults) => {
            for fault in faults {
                let finding = CONTROL_SIZES.problem(fault.to_string());
                findings.push(finding.in_file(file).at(fault.offset));
            }
        }
        ControlRead::Known(control) => {
            if control.is_from_description() {
                let control_version = control.prefix.pg_control_version;
                let what = format!("version {control_version}: {}", Doubt::LayoutNotSeen);
                findings.push(RING_SERVER_NOT_SEEN.note(what).in_file(file));
            }
            let mut add = |finding: Finding| findings.push(finding.in_file(file));
            if !control.crc_is_good() {
                let what = format!("stored CRC {:#010x}, computed {:#010x}", control.crc, control.computed_crc);
                add(CONTROL_CRC.problem(what));
            }
            if directory.versions_disagree() == Some(true) {
                let (version, major) = (control.prefix.pg_control_version, directory.major().number());
                add(VERSIONS_DISAGREE.problem(format!("version {version} is not what major {major} writes")));
            }
            if !control.prefix.state.is_startable() {
                add(UNKNOWN_STATE.problem(control.prefix.state.to_string()));
            }
            if let ChecksumState::Unknown(code) = control.checksums {
                add(UNKNOWN_CHECKSUMS.problem(format!("data_checksum_version {code}")));
            }
            if control.backup_start_lsn.is_valid() {
                add(RESTORED_BACKUP.problem(format!("backup start point {}", control.backup_start_lsn)));
            }
        }
    }
}

fn inspect_signs(signs: &RecoverySigns, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    if signs.wal_was_reset {
        findings.push(
            WAL_WAS_RESET
                .problem("written by pg_resetwal: its checkpoint is the first record of all WAL, settings reset")
                .in_file(CONTROL_PATH),
        );
    }
    match &signs.backup_label {
        None => {}
        Some(Err(error)) => coverage.skip(SkippedPart::file("backup_label"), error),
        Some(Ok(label)) => {
            let at = label.redo_lsn.map_or_else(|| "an LSN that cannot be read".to_owned(), |lsn| lsn.to_string());
            let what = format!("recovery starts at {at}, not at the redo point of pg_control");
            findings.push(BACKUP_LABEL.note(what).in_file("backup_label"));
        }
    }
    for name in &signs.signals {
        findings.push(RECOVERY_SIGNAL.note("present").in_file(name));
    }
}

rules! {
    SERVER_RUNNING: Cluster "server_running",
        why: "files may change while they are read; no answer is reliable",
        means: "A server runs in the directory: files may change while they are read",
        action: "Stop it, or read a copy";
    SERVER_UNCLEAR: Cluster "server_unclear",
        why: "a running server cannot be ruled out: check the process (ps -fp), or stop it",
        means: "A server may be running: a process cannot be checked",
        action: "Check the process, as its user or as root";
    PID_FILE_UNCLEAR: Cluster "pid_file_unclear",
        why: "a running server cannot be ruled out. If you know that none runs, remove the file: until then the \
            server does not start",
        means: "`postmaster.pid` cannot be parsed",
        action: "Remove it if you know that no server runs";
    PID_IN_USE: Cluster "pid_in_use",
        why: "no server runs here, but startup fails with \"lock file \"postmaster.pid\" already exists\" while a \
            process of this user has this PID: check it (ps -fp), make sure that no server uses this directory, then \
            remove postmaster.pid",
        means: "The PID in `postmaster.pid` belongs to another process, which keeps the server from starting",
        action: "Make sure that no server uses the directory, then remove the file";
    STALE_PID_FILE: Cluster "stale_pid_file",
        why: "harmless: the server removes it at startup",
        means: "`postmaster.pid` of a server that is no longer running",
        action: "Nothing: the server removes it";
    CONTROL_CRC: Cluster "control_crc",
        why: "pg_control is damaged, and none of its contents are used",
        means: "The CRC of `pg_control` is wrong",
        action: "Find an undamaged copy of the file first";
    CONTROL_SIZES: Cluster "control_sizes",
        why: "pg_control is damaged, and none of its contents are used",
        means: "A size in `pg_control` is impossible",
        action: "Find an undamaged copy of the file first";
    VERSIONS_DISAGREE: Cluster "versions_disagree",
        why: "PG_VERSION and pg_control do not belong together",
        means: "`PG_VERSION` and `pg_control` have different versions",
        action: "Find out which of the two was copied from another cluster";
    UNKNOWN_STATE: Cluster "unknown_state",
        why: "the server does not start with this state",
        means: "`pg_control` has a state with which the server does not start",
        action: "Treat the file as damaged";
    UNKNOWN_CHECKSUMS: Cluster "unknown_checksums",
        why: "no server writes this value",
        means: "`pg_control` has a value for checksums that no server writes",
        action: "Treat the file as damaged";
    RESTORED_BACKUP: Cluster "restored_backup",
        why: "a restored backup that has not reached the end of the backup yet",
        means: "A restored backup before the end of the backup",
        action: "Let recovery finish";
    WAL_WAS_RESET: Cluster "wal_was_reset",
        why: "the last checkpoint in it is not the one that the server wrote; slots are not judged by it",
        means: "`pg_resetwal` wrote `pg_control`: no recovery, changes are lost",
        action: "Compare the data with a backup; dump and restore";
    BACKUP_LABEL: Cluster "backup_label",
        why: "keep this file: the directory is a base backup, or the server crashed during one. A double write buffer \
            in the directory belongs to the server that was copied",
        means: "Recovery begins where `backup_label` says",
        action: "Keep the file for a base backup; see the manual for a server that crashed during one";
    RECOVERY_SIGNAL: Cluster "recovery_signal",
        why: "the server will start as a standby or in archive recovery",
        means: "The server will start as a standby or in archive recovery",
        action: "Remove the file only if recovery should not use it";
    RING_SERVER_NOT_SEEN: Ring "ring_server_not_seen",
        why: "these predictions were never compared with such a server, and its WAL is not read: no image counts as \
            proven",
        means: "`pg_control` belongs to an untested kind of server with a double write buffer in `pg_dwb`",
        action: "Trust no image as proven";
}
