//! A data directory in the whole: identity, state, and what looks inconsistent before anybody starts the server.

use super::dwb_format::ring_finding::RingFinding;
use super::finding::{Coverage, Finding};
use super::finding_kind::{FindingKind, PidHolder};
use super::skipped::{SkipReason, SkippedPart};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::{CONTROL_PATH, ControlRead};
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::parsers::control::ChecksumState;

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
        ServerSign::ProcessGone { pid } => findings
            .push(Finding::note(FindingKind::StalePidFile { pid: *pid, holder: PidHolder::Nobody }).in_file(file)),
        ServerSign::OtherProcess { pid, command, refuses_start } => {
            let holder = PidHolder::Other { command: command.clone() };
            findings.push(taken_number(*pid, holder, *refuses_start).in_file(file));
        }
        ServerSign::Zombie { pid, command, parent, refuses_start } => {
            let holder = PidHolder::Zombie { command: command.clone(), parent: parent.clone() };
            findings.push(taken_number(*pid, holder, *refuses_start).in_file(file));
        }
        ServerSign::MayRun { why, .. } => {
            findings.push(Finding::problem(FindingKind::ServerUnclear { sign: why.clone(), is_hidden: false }));
        }
        ServerSign::Running { why, .. } => {
            findings.push(Finding::problem(FindingKind::ServerRunning { sign: why.clone() }));
        }
        ServerSign::Unclear { why } => {
            findings.push(Finding::problem(FindingKind::PidFileUnclear { sign: why.clone() }).in_file(file));
        }
        ServerSign::Hidden { why } => {
            findings.push(Finding::problem(FindingKind::ServerUnclear { sign: why.clone(), is_hidden: true }));
        }
        ServerSign::Unreadable(error) => coverage.skip(SkippedPart::file(file), error),
    }
}

/// A number in `postmaster.pid` that belongs to a process, but to no server of the directory.
fn taken_number(pid: i32, holder: PidHolder, refuses_start: bool) -> Finding {
    if refuses_start {
        Finding::problem(FindingKind::PidInUse { pid, holder })
    } else {
        Finding::note(FindingKind::StalePidFile { pid, holder })
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
                let finding = Finding::problem(FindingKind::ControlSizes(fault.clone()));
                findings.push(finding.in_file(file).at(fault.offset));
            }
        }
        ControlRead::Known(control) => {
            if control.is_from_description() {
                let control_version = control.prefix.pg_control_version;
                let found = FindingKind::Ring(RingFinding::RingServerNotSeen { control_version });
                findings.push(Finding::note(found).in_file(file));
            }
            let mut problem = |kind| findings.push(Finding::problem(kind).in_file(file));
            if !control.crc_is_good() {
                problem(FindingKind::ControlCrc { stored: control.crc, computed: control.computed_crc });
            }
            if directory.versions_disagree() == Some(true) {
                let control_version = control.prefix.pg_control_version;
                problem(FindingKind::VersionsDisagree { control_version, major: directory.major().number() });
            }
            if !control.prefix.state.is_startable() {
                problem(FindingKind::UnknownState(control.prefix.state));
            }
            if let ChecksumState::Unknown(code) = control.checksums {
                problem(FindingKind::UnknownChecksums { code });
            }
            if control.backup_start_lsn.is_valid() {
                problem(FindingKind::RestoredBackup { start_lsn: control.backup_start_lsn });
            }
        }
    }
}

fn inspect_signs(signs: &RecoverySigns, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
    if signs.wal_was_reset {
        findings.push(Finding::problem(FindingKind::WalWasReset).in_file(CONTROL_PATH));
    }
    match &signs.backup_label {
        None => {}
        Some(Err(error)) => coverage.skip(SkippedPart::file("backup_label"), error),
        Some(Ok(label)) => {
            let kind = FindingKind::BackupLabel { redo_lsn: label.redo_lsn };
            findings.push(Finding::note(kind).in_file("backup_label"));
        }
    }
    for name in &signs.signals {
        findings.push(Finding::note(FindingKind::RecoverySignal).in_file(name));
    }
}
