//! A data directory in the whole: identity, state, and what looks inconsistent before anybody starts the server.

use super::finding::{Coverage, Finding};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::{CONTROL_PATH, ControlRead};
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::parsers::control::{ChecksumState, ControlFile, DbState};

/// Findings about the directory itself, without its double write buffer. Adds what could not be read to `coverage`.
#[must_use]
pub fn inspect_directory(
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
        ServerSign::ProcessGone { pid } => findings.push(
            Finding::note(
                "stale_pid_file",
                format!("names process {pid}, which is gone"),
                "left by the crash; the server removes it when it starts",
            )
            .in_file(file),
        ),
        ServerSign::OtherProcess { pid, command, refuses_start } => {
            let what = format!("names process {pid}, now \"{command}\", which is no server of this directory");
            findings.push(taken_number(what, *refuses_start).in_file(file));
        }
        ServerSign::Zombie { pid, command, parent, refuses_start } => {
            let parent = parent.as_ref().map_or_else(
                || "its parent".to_owned(),
                |(parent, name)| format!("its parent, process {parent} (\"{name}\")"),
            );
            let what = format!("names process {pid} (\"{command}\"), which has ended and was not collected by {parent}");
            findings.push(taken_number(what, *refuses_start).in_file(file));
        }
        ServerSign::MayRun { why, .. } => findings.push(Finding::problem(
            "server_unclear",
            why.clone(),
            "a running server cannot be ruled out: look at the process (ps -fp), or stop it",
        )),
        ServerSign::Running { why, .. } => findings.push(Finding::problem(
            "server_running",
            why.clone(),
            "files change while they are read: nothing here is certain",
        )),
        ServerSign::Unclear { why } => findings.push(
            Finding::problem(
                "pid_file_unclear",
                why.clone(),
                "a running server cannot be ruled out; once you know that none runs, remove the file: no server starts with it",
            )
            .in_file(file),
        ),
        ServerSign::Hidden { why } => {
            findings.push(Finding::problem("server_unclear", why.clone(), "a running server cannot be ruled out"));
        }
        ServerSign::Unreadable(error) => coverage.skip(file, error),
    }
}

/// A number in `postmaster.pid` that belongs to a process, but to no server of the directory.
fn taken_number(what: String, refuses_start: bool) -> Finding {
    if refuses_start {
        let why = "no server runs here, but a start ends with \"lock file \"postmaster.pid\" already exists\" as long as a \
                   process of this user has the number: look at it (ps -fp), make sure that no server works in this \
                   directory, then remove postmaster.pid";
        Finding::problem("pid_in_use", what, why)
    } else {
        let why = "left by the crash; a process of another user does not keep the server from starting";
        Finding::note("stale_pid_file", what, why)
    }
}

fn inspect_control(directory: &DataDir, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    let file = CONTROL_PATH;
    match directory.control() {
        ControlRead::Unreadable(error) => coverage.skip(file, error),
        ControlRead::Short(error) => coverage.skip(file, error),
        ControlRead::UnknownVersion(prefix) => {
            let version = prefix.pg_control_version;
            let order = if prefix.is_byte_swapped() { ", from a machine with the other byte order" } else { "" };
            coverage.skip(file, format!("version {version} is not known{order}; only the first 20 bytes were read"));
        }
        ControlRead::WrongSizes(_, faults) => {
            for fault in faults {
                let why = "nothing in this file can be trusted; it is not used to judge pages, slots or WAL";
                let finding = Finding::problem("control_sizes", fault.to_string(), why);
                findings.push(finding.in_file(file).at(fault.offset));
            }
        }
        ControlRead::Known(control) => {
            let mut problem = |kind, what: String, why| findings.push(Finding::problem(kind, what, why).in_file(file));
            if !control.crc_is_good() {
                problem(
                    "control_crc",
                    format!("CRC is {:#010x}, the bytes give {:#010x}", control.crc, control.computed_crc),
                    "nothing in this file can be trusted; it is not used to judge slots",
                );
            }
            if directory.versions_disagree() == Some(true) {
                problem(
                    "versions_disagree",
                    format!(
                        "version {} is not what major {} writes",
                        control.prefix.pg_control_version,
                        directory.major()
                    ),
                    "PG_VERSION and pg_control do not belong together",
                );
            }
            if control.prefix.state.name().is_none() {
                problem("unknown_state", control.prefix.state.to_string(), "no server writes this state");
            }
            if let ChecksumState::Unknown(code) = control.checksums {
                problem("unknown_checksums", format!("data_checksum_version {code}"), "no server writes this value");
            }
            if control.backup_start_lsn.is_valid() {
                let what = format!("backup start point {}", control.backup_start_lsn);
                problem("restored_backup", what, "a restored backup that has not reached the end of the backup yet");
            }
        }
    }
}

fn inspect_signs(signs: &RecoverySigns, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    if signs.wal_was_reset {
        let what = "written by pg_resetwal: its checkpoint is the first record of all WAL, settings reset".to_owned();
        let why = "what it says of the last checkpoint is not what the server left; slots are not judged by it";
        findings.push(Finding::problem("wal_was_reset", what, why).in_file(CONTROL_PATH));
    }
    match &signs.backup_label {
        None => {}
        Some(Err(error)) => coverage.skip("backup_label", error),
        Some(Ok(label)) => {
            let redo = label.redo_lsn.map_or_else(|| "an unreadable place".to_owned(), |lsn| lsn.to_string());
            findings.push(
                Finding::note(
                    "backup_label",
                    format!("recovery starts at {redo}, not at the redo point of pg_control"),
                    "a base backup, or a server that crashed during one: recovery needs this file; a double write buffer beside it \
                     belongs to the server that it was copied from",
                )
                .in_file("backup_label"),
            );
        }
    }
    for name in &signs.signals {
        let what = "present".to_owned();
        let why = "the server will start as a standby or in archive recovery";
        findings.push(Finding::note("recovery_signal", what, why).in_file(name));
    }
}

/// What the state of the cluster means, in one sentence.
#[must_use]
pub fn state_in_words(control: &ControlFile, server: &ServerSign, signs: &RecoverySigns) -> String {
    let state = control.prefix.state;
    match server {
        ServerSign::Running { why, .. } => return format!("A server is running on this directory: {why}."),
        ServerSign::MayRun { why, .. } | ServerSign::Unclear { why } | ServerSign::Hidden { why } => {
            return format!("A server may be running on this directory: {why}.");
        }
        ServerSign::Unreadable(error) => return format!("A server may be running on this directory: {error}."),
        ServerSign::NoPidFile
        | ServerSign::ProcessGone { .. }
        | ServerSign::OtherProcess { .. }
        | ServerSign::Zombie { .. } => {}
    }
    if signs.backup_label.is_some() {
        return "A base backup that has not been recovered yet: recovery starts where backup_label says.".to_owned();
    }
    match state {
        DbState::SHUT_DOWN if signs.wal_was_reset => {
            "pg_resetwal was run: no replay will happen, and what had not reached its place is lost.".to_owned()
        }
        DbState::SHUT_DOWN => "Shut down cleanly: every page reached its place, no replay will happen.".to_owned(),
        DbState::SHUT_DOWN_IN_RECOVERY => {
            format!("A standby that was stopped cleanly: replay goes on from {}.", control.checkpoint.redo_lsn)
        }
        DbState::IN_ARCHIVE_RECOVERY => format!(
            "Archive recovery was cut off: replay goes on from {} and is consistent only from {}.",
            control.checkpoint.redo_lsn, control.min_recovery_lsn
        ),
        _ => format!("Crashed: starting the server replays WAL from {}.", control.checkpoint.redo_lsn),
    }
}
