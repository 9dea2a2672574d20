//! A data directory in the whole: identity, state, and what looks inconsistent before anybody starts the server.

use super::doubt::Doubt;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::{CONTROL_PATH, ControlRead};
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::parsers::control::ChecksumState;
use crate::report::{Finding, rules};

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
