//! Requirement of recovery of a base backup: WAL to the end of the backup.

use strum::IntoStaticStr;

use crate::analysis::changes::history::WalHistory;
use crate::cluster::backup_files::BackupLabel;
use crate::parsers::control::{ControlFile, DbState};
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// WAL that `backup_label` requires, and whether it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Redo point of the backup.
    pub redo_lsn: Option<Lsn>,
    /// Its checkpoint record, which the server reads first.
    pub checkpoint_lsn: Option<Lsn>,
    /// Taken from a standby: consistent at the least recovery point of `pg_control`, not at a record of its own.
    from_standby: bool,
    /// The server refuses to start before it has met the end: not after `pg_start_backup()`, whose label also stays in the
    /// directory of a server that crashed meanwhile.
    pub end_is_required: bool,
    /// Holds only what changed since another backup.
    pub is_incremental: bool,
    /// Whether WAL that is there reaches the end of the backup.
    pub end: BackupEnd,
}

/// The end of a backup in WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BackupEnd {
    /// WAL was not read that far.
    Unknown,
    /// Here the cluster becomes consistent.
    Reached {
        /// End of the record.
        lsn: Lsn,
    },
    /// WAL that is there ends before it.
    Missing,
}

impl BackupEnd {
    /// The word for JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Backup {
    /// Reads the label. `is_archive`: signal files request archive recovery, which always requires the end.
    ///
    /// Source: `read_backup_label`, `src/backend/access/transam/xlogrecovery.c`.
    pub fn of(label: &BackupLabel, is_archive: bool) -> Self {
        Self {
            redo_lsn: label.redo_lsn,
            checkpoint_lsn: label.checkpoint_lsn,
            from_standby: label.from.as_deref() == Some("standby"),
            end_is_required: is_archive || label.method.as_deref() == Some("streamed"),
            is_incremental: label.incremental_from_lsn.is_some(),
            end: BackupEnd::Unknown,
        }
    }

    /// Looks for the end in WAL that was read up to `end_lsn`.
    pub(crate) fn settle(&mut self, control: Option<&ControlFile>, history: &WalHistory, end_lsn: Lsn) {
        let reached = if self.from_standby {
            let in_recovery = |state| [DbState::IN_ARCHIVE_RECOVERY, DbState::SHUT_DOWN_IN_RECOVERY].contains(&state);
            let fitting = control.filter(|control| in_recovery(control.prefix.state));
            fitting.map(|control| control.min_recovery_lsn).filter(|least| least.is_valid() && *least <= end_lsn)
        } else {
            self.redo_lsn.and_then(|redo_lsn| history.backup_end(redo_lsn))
        };
        self.end = reached.map_or(BackupEnd::Missing, |lsn| BackupEnd::Reached { lsn });
    }

    /// A start gets no further than to the end of WAL, where it refuses.
    pub(crate) fn cannot_end(&self) -> bool {
        let is_reached = matches!(self.end, BackupEnd::Reached { .. });
        self.is_incremental || self.end_is_required && !is_reached
    }

    /// Problem of the backup in its present state.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |finding: Finding| findings.push(finding.in_file("backup_label"));
        if self.is_incremental {
            let what = "an incremental backup, which holds only changes: no server starts from it";
            add(INCREMENTAL_BACKUP.problem(what));
        } else if self.end == BackupEnd::Missing {
            let finding = BACKUP_WAL_INCOMPLETE.problem("the WAL here ends before the end of the backup");
            add(if self.end_is_required { finding } else { finding.because(CRASHED_IN_BACKUP) });
        }
        findings
    }
}

const CRASHED_IN_BACKUP: &str = "expected of the server itself, when it crashed during pg_start_backup(); a copy of it would start without an \
    error although its files and WAL do not fit together";

rules! {
    INCREMENTAL_BACKUP: Cluster "incremental_backup",
        why: "combine it with the backups that it builds on: pg_combinebackup",
        means: "No server starts with an incremental backup",
        action: "Run `pg_combinebackup`";
    BACKUP_WAL_INCOMPLETE: Cluster "backup_wal_incomplete",
        why: "recovery fails with \"WAL ends before end of online backup\": give it an archive (recovery.signal and \
            restore_command), or copy the missing segments into pg_wal",
        means: "WAL ends before the backup does",
        action: "Give the server an archive, or the missing segments";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_says_whether_the_server_demands_the_end() {
        let of = |text: &str, is_archive| Backup::of(&BackupLabel::parse(text), is_archive);
        assert!(of("BACKUP METHOD: streamed\nBACKUP FROM: primary\n", false).cannot_end());
        assert!(!of("BACKUP METHOD: pg_start_backup\nBACKUP FROM: primary\n", false).cannot_end());
        assert!(of("BACKUP METHOD: pg_start_backup\n", true).cannot_end());
        let mut reached = of("BACKUP METHOD: streamed\nINCREMENTAL FROM LSN: 0/2000028\n", false);
        reached.end = BackupEnd::Reached { lsn: Lsn(0x300_0000) };
        assert!(reached.cannot_end() && reached.findings().len() == 1);
        reached.is_incremental = false;
        assert!(!reached.cannot_end() && reached.findings().is_empty());
    }
}
