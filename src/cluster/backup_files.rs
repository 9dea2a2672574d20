//! Signs in the data directory of a restored backup, a standby or a reset of WAL.

use std::io;
use std::path::Path;

use super::control_file::wal_was_reset;
use super::history_file::{history_path, read_history};
use super::open::{AccessError, Links, list, read_small};
use super::settings::Settings;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::{Lsn, TimelineId};

/// Longest `backup_label` that is read, in bytes.
pub(super) const LABEL_LIMIT_BYTES: u64 = 64 * 1024;

/// Names whose presence alone changes what recovery does.
const SIGNALS: [&str; 6] =
    ["standby.signal", "recovery.signal", "recovery.conf", "tablespace_map", "promote", "fallback_promote"];

/// Content of `backup_label`: recovery starts at `redo_lsn`, not at the redo point of the control file.
///
/// Source: `read_backup_label`, `src/backend/access/transam/xlogrecovery.c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupLabel {
    /// "START WAL LOCATION".
    pub redo_lsn: Option<Lsn>,
    /// Timeline in the name of the WAL segment on the same line.
    pub timeline: Option<TimelineId>,
    /// "CHECKPOINT LOCATION": start of the checkpoint record.
    pub checkpoint_lsn: Option<Lsn>,
    /// "BACKUP METHOD".
    pub method: Option<String>,
    /// "BACKUP FROM".
    pub from: Option<String>,
    /// "START TIME", as written.
    pub start_time: Option<String>,
    /// "LABEL".
    pub label: Option<String>,
    /// Its first two lines are in exactly the form that servers require, and no line contains another timeline.
    pub is_well_formed: bool,
    /// "INCREMENTAL FROM LSN": such a directory cannot be started at all.
    pub incremental_from_lsn: Option<Lsn>,
}

impl BackupLabel {
    /// True when it says what recovery needs. A server does not start with one that does not.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_well_formed && self.redo_lsn.is_some() && self.checkpoint_lsn.is_some()
    }

    /// Reads the lines that are known; what does not parse stays `None`.
    pub fn parse(text: &str) -> Self {
        let mut label = Self { is_well_formed: is_well_formed(text), ..Self::default() };
        for line in text.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let owned = || Some(value.trim().to_owned());
            match name {
                "START WAL LOCATION" => {
                    let (lsn, file) = value.split_once(' ').unwrap_or((value, ""));
                    label.redo_lsn = lsn.parse().ok();
                    let digits = file.trim_start_matches("(file ").get(..8);
                    label.timeline = digits.and_then(|hex| u32::from_str_radix(hex, 16).ok()).map(TimelineId);
                }
                "CHECKPOINT LOCATION" => label.checkpoint_lsn = value.trim().parse().ok(),
                "BACKUP METHOD" => label.method = owned(),
                "BACKUP FROM" => label.from = owned(),
                "START TIME" => label.start_time = owned(),
                "LABEL" => label.label = owned(),
                "INCREMENTAL FROM LSN" => label.incremental_from_lsn = value.trim().parse().ok(),
                _ => {}
            }
        }
        label
    }
}

/// True for a label that a server takes: it looks for these lines in this order, and for nothing but a line feed at their ends.
///
/// Source: `read_backup_label`, `src/backend/access/transam/xlogrecovery.c`; servers of 10 to 18 that were started with others.
fn is_well_formed(text: &str) -> bool {
    let mut lines = text.split_inclusive('\n');
    let mut value_of = |name: &str| lines.next()?.strip_suffix('\n')?.strip_prefix(name).map(str::trim_start);
    let Some((lsn, file)) = value_of("START WAL LOCATION:").and_then(|value| value.split_once(' ')) else {
        return false;
    };
    let Some(checkpoint) = value_of("CHECKPOINT LOCATION:") else { return false };
    let segment = file.trim_start().strip_prefix("(file").map(str::trim_start).and_then(|file| file.strip_suffix(')'));
    let Some((timeline, rest)) = segment.and_then(|name| name.split_at_checked(8)) else { return false };
    let is_segment = (1..=16).contains(&rest.len()) && !rest.contains(char::is_whitespace);
    let timeline = u32::from_str_radix(timeline, 16).ok();
    let others = lines.filter_map(|line| line.strip_prefix("START TIMELINE:")).map(|value| value.trim().parse().ok());
    let agree = timeline.is_some() && others.into_iter().all(|other: Option<u32>| other == timeline);
    [lsn, checkpoint].iter().all(|lsn| lsn.parse::<Lsn>().is_ok()) && is_segment && agree
}

/// Signs of a backup, of a standby, or of a reset.
#[derive(Debug)]
pub struct RecoverySigns {
    /// `backup_label`, if there is one; an error if it is there but cannot be read.
    pub backup_label: Option<Result<BackupLabel, AccessError>>,
    /// Names of signal files that are present.
    pub signals: Vec<&'static str>,
    /// `pg_resetwal` was run, and no server since.
    pub wal_was_reset: bool,
    /// Recovery is asked for, and `pg_wal` has the history of a later timeline than that of `pg_control`: it follows the newest, where no
    /// setting says otherwise.
    pub has_later_history: bool,
    /// Recovery is asked for by a signal file and follows the newest timeline: its history, where `pg_wal` has it.
    pub newest_history: Option<TimelineHistory>,
    /// It also looks for histories where `restore_command` fetches them.
    pub fetches_histories: bool,
}

/// The signal file of this name, if there is one.
pub(super) fn signal_named(name: &str) -> Option<&'static str> {
    SIGNALS.into_iter().find(|signal| *signal == name)
}

/// True for a file that says nothing when it is empty: backups in tar format have a `tablespace_map` without tablespaces, too.
pub(super) fn is_without_content(name: &str, size_bytes: u64) -> bool {
    name == "tablespace_map" && size_bytes == 0
}

/// The label in a file, if there is one.
pub(crate) fn read_label(path: &Path) -> Result<Option<BackupLabel>, AccessError> {
    match read_small(path, Links::Refuse, LABEL_LIMIT_BYTES) {
        Ok(bytes) => Ok(Some(BackupLabel::parse(&String::from_utf8_lossy(&bytes)))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks for the signs in a data directory, `control` being its control file when that can be trusted.
pub fn read_signs(data_dir: &Path, control: Option<&ControlFile>) -> RecoverySigns {
    let backup_label = read_label(&data_dir.join("backup_label")).transpose();
    let present = |name: &&&str| match data_dir.join(name).symlink_metadata() {
        Ok(found) => !(found.is_file() && is_without_content(name, found.len())),
        // One that cannot be examined may well be there.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let signals: Vec<&'static str> = SIGNALS.iter().filter(present).copied().collect();
    let follower = control.filter(|_| asks_for_recovery(&signals));
    let by_signal = signals.iter().any(|name| matches!(*name, "standby.signal" | "recovery.signal"));
    RecoverySigns {
        backup_label,
        signals,
        wal_was_reset: control.is_some_and(|control| wal_was_reset(data_dir, control)),
        has_later_history: follower.is_some_and(|control| has_later_history(data_dir, control.timeline())),
        newest_history: control.filter(|_| by_signal).and_then(|control| newest_history(data_dir, control)),
        fetches_histories: by_signal && fetches_histories(&Settings::read(data_dir)),
    }
}

/// True when one of these signal files makes recovery continue after crash recovery, possibly with WAL from elsewhere.
pub(crate) fn asks_for_recovery(signals: &[&str]) -> bool {
    signals.iter().any(|name| matches!(*name, "standby.signal" | "recovery.signal" | "recovery.conf"))
}

/// Source: `findNewestTimeLine`, `src/backend/access/transam/timeline.c`.
fn has_later_history(data_dir: &Path, tli: TimelineId) -> bool {
    let settings = Settings::read(data_dir);
    if settings.is_complete() && settings.get("recovery_target_timeline") == Some("current") {
        return false;
    }
    // Without the list there is no WAL to prove anything by either.
    let names = list(&data_dir.join("pg_wal")).unwrap_or_default();
    names.iter().filter_map(|(name, _)| TimelineHistory::tli_of_file_name(name.to_str()?)).any(|other| other > tli)
}

/// True when recovery follows the newest timeline of all that `restore_command` finds.
fn fetches_histories(settings: &Settings) -> bool {
    let is_latest = settings.get("recovery_target_timeline").is_none_or(|value| value == "latest");
    is_latest && settings.get("restore_command").is_some_and(|value| !value.is_empty())
}

/// The newest timeline whose history is in `pg_wal`, each after the one before. An archive may have later ones.
///
/// Source: `findNewestTimeLine`, `src/backend/access/transam/timeline.c`.
fn newest_history(data_dir: &Path, control: &ControlFile) -> Option<TimelineHistory> {
    let settings = Settings::read(data_dir);
    // Settings that are elsewhere may name another timeline: then a doubt alone is told.
    if !settings.is_complete() || settings.get("recovery_target_timeline").is_some_and(|value| value != "latest") {
        return None;
    }
    let first = control.checkpoint.tli.max(control.min_recovery_timeline);
    let is_there = |tli: &TimelineId| data_dir.join(history_path(*tli)).symlink_metadata().is_ok();
    let after = |tli: &TimelineId| tli.0.checked_add(1).map(TimelineId).filter(is_there);
    read_history(data_dir, std::iter::successors(after(&first), after).last()?).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_of_a_streamed_backup() {
        let label = BackupLabel::parse(
            "START WAL LOCATION: 0/2000028 (file 000000030000000000000002)\nCHECKPOINT LOCATION: 0/2000060\n\
             BACKUP METHOD: streamed\nBACKUP FROM: primary\nSTART TIME: 2026-11-01 10:00:00 UTC\nLABEL: nightly\n\
             START TIMELINE: 3\n",
        );
        assert_eq!(label.redo_lsn, Some(Lsn(0x200_0028)));
        assert_eq!(label.timeline, Some(TimelineId(3)));
        assert_eq!(label.checkpoint_lsn, Some(Lsn(0x200_0060)));
        assert_eq!((label.from.as_deref(), label.label.as_deref()), (Some("primary"), Some("nightly")));
    }

    #[test]
    fn label_that_servers_refuse_is_not_complete() {
        let label = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\nCHECKPOINT LOCATION: 0/2000060\n\
                     BACKUP METHOD: streamed\nSTART TIMELINE: 1\n";
        assert!(BackupLabel::parse(label).is_complete());
        let swapped = {
            let mut lines: Vec<&str> = label.split_inclusive('\n').collect();
            lines.swap(0, 1);
            lines.concat()
        };
        for refused in [
            label.replace('\n', "\r\n"),
            label.replace(" (file 000000010000000000000002)", ""),
            label.replace("file", "segment"),
            label.replace("START TIMELINE: 1", "START TIMELINE: 2"),
            label.replace("2000060\n", "2000060 \n"),
            label.split_at(label.find("\nBACKUP").unwrap()).0.to_owned(),
            format!("\n{label}"),
            format!("\u{feff}{label}"),
            swapped,
        ] {
            assert!(!BackupLabel::parse(&refused).is_complete(), "{refused:?}");
        }
    }

    #[test]
    fn garbage_gives_an_empty_label() {
        assert_eq!(
            BackupLabel::parse("START WAL LOCATION: zz (file \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"),
            BackupLabel::default()
        );
    }
}
