//! The prediction of a startup in words: the badge, and the sentences after it.

use super::check_text::Label;
use super::figures::{many, size_words};
use crate::analysis::changes::needed::OnStart;
use crate::analysis::start::backup::BackupEnd;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::analysis::verdict::check::Scope;
use crate::analysis::verdict::facts::Badge;
use crate::analysis::verdict::outlook::{Outlook, Start};
use crate::analysis::verdict::survey::PageReport;
use crate::report::OtherProblems;
use crate::types::Lsn;

/// The badge, and what it rests on: the sentence that matters most first. Sentences have no capital and no period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartWords {
    /// Badge of the startup.
    pub badge: Badge,
    /// At least one.
    pub sentences: Vec<String>,
}

impl StartWords {
    /// Says what a startup brings. `pages` are those that `outlook` has the indexes of.
    pub fn of(replay: &Replay, outlook: &Outlook, pages: &[PageReport], label: Label<'_>) -> Self {
        let badge = match outlook.badge() {
            // Changes that were only in WAL are gone.
            Badge::WillStart if replay.recovery == Recovery::AfterReset => Badge::DamageRemains,
            // It starts, and what it loses is unknown.
            Badge::WillStart | Badge::DamageRemains if is_doubtful(replay) => Badge::Unknown,
            badge => badge,
        };
        let mut start = start_words(replay, outlook, pages, label);
        if let Some(pid) = outlook.refused_by {
            start = format!(
                "process {pid} is running and postmaster.pid contains its number (\"lock file already exists\"); after it \
                 exits, {start}"
            );
        }
        // Which pages recovery reaches is unknown too.
        let damage = match outlook.start {
            Start::WalDenied => Vec::new(),
            Start::MayStop { .. } => damage_words(&Outlook { unnoticed: Vec::new(), ..outlook.clone() }),
            _ => damage_words(outlook),
        };
        // The damage is the news where the server starts; the evidence has how it starts.
        let sentences = match badge {
            Badge::DamageRemains if replay.recovery != Recovery::AfterReset && !damage.is_empty() => damage,
            _ => std::iter::once(start).chain(silent_damage(outlook)).chain(damage).collect(),
        };
        Self { badge, sentences }
    }

    /// Adds the problems that are not about damaged pages.
    pub fn with(mut self, problems: OtherProblems) -> Self {
        let OtherProblems { of_data, others } = problems;
        let of_data_words =
            || format!("{} after startup: queries may fail or return wrong rows (see Problems)", remain(of_data));
        match self.badge {
            Badge::WillStart if of_data > 0 => {
                self.badge = Badge::DamageRemains;
                self.sentences = vec![of_data_words()];
            }
            Badge::DamageRemains if of_data > 0 => self.sentences.push(of_data_words()),
            Badge::WillStart if others > 0 => {
                self.sentences.push(format!("{} in WAL or the double write buffer (see Problems)", remain(others)));
            }
            _ => {}
        }
        self
    }

    /// All of it on one line.
    pub fn line(&self) -> String {
        format!("{}: {}", self.badge.label(), self.sentences.join("; "))
    }
}

fn remain(problems: usize) -> String {
    if problems == 1 { "1 problem remains".to_owned() } else { format!("{problems} problems remain") }
}

/// There is a doubt that the state of the cluster does not explain by itself.
fn is_doubtful(replay: &Replay) -> bool {
    let is_expected = |doubt: &Doubt| matches!(doubt, Doubt::BaseBackup | Doubt::WalWasReset);
    !replay.doubts.iter().all(is_expected)
}

/// Where a base backup becomes consistent, if WAL reaches that far.
fn backup_end(replay: &Replay) -> Option<Lsn> {
    match replay.backup.as_ref()?.end {
        BackupEnd::Reached { lsn } => Some(lsn),
        BackupEnd::Unknown | BackupEnd::Missing => None,
    }
}

fn start_words(replay: &Replay, outlook: &Outlook, pages: &[PageReport], label: Label<'_>) -> String {
    let page_at = |index: usize| pages.get(index).map_or_else(String::new, |report| label(report.page));
    let redo = || replay.redo_lsn.map_or_else(|| "the redo point".to_owned(), |lsn| format!("the redo point {lsn}"));
    let words = match &outlook.start {
        Start::Running => "a server may be running: stop it, or check a copy",
        Start::NotAllRead => "recovery may need something that was not checked",
        Start::SomePagesOnly => "only some pages were checked; damage on the others may stop recovery",
        Start::Unknown if replay.doubts.contains(&Doubt::ControlOfOtherByteOrder) => {
            "pg_control was written on a machine with the other byte order"
        }
        Start::Unknown => "the redo point, where recovery begins, cannot be determined",
        Start::UnknownControl { version } => {
            return format!("pg_control has version {version}, which this program does not know");
        }
        Start::UnknownWal { magic } => {
            return format!("startup needs WAL of an unknown version, which this program cannot read ({magic})");
        }
        Start::UnusualBuild => "only a server that was built with the values in pg_control starts (see Problems)",
        Start::ClosedToReplay => {
            "recovery may need a file that is missing, unreadable or not a regular file, or may exceed a configured limit \
             (see Problems)"
        }
        Start::EndsAtTarget => "recovery ends where a setting says, not at the end of WAL (see Problems)",
        Start::WalDenied => "this user may not read WAL that startup may need",
        Start::WalFromElsewhere => {
            return format!(
                "WAL from {} is missing in pg_wal; a signal file makes the server fetch it from an archive or another server",
                redo()
            );
        }
        Start::CannotBegin if matches!(replay.recovery, Recovery::None | Recovery::AfterReset) => {
            "the WAL with the last checkpoint is missing"
        }
        Start::CannotBegin => return format!("WAL from {} is missing", redo()),
        Start::Refused if replay.doubts.iter().any(|doubt| matches!(doubt, Doubt::NotOneCluster { .. })) => {
            "the files do not belong together (see Problems)"
        }
        Start::Refused => {
            "the server needs a file, directory or pg_control that is missing, damaged, not accessible or unsuitable (see \
             Problems)"
        }
        Start::NotUsable { obstacle: Obstacle::Checkpoints } => {
            "no checkpoint completes, because a directory is missing (see Problems)"
        }
        Start::NotUsable { obstacle: Obstacle::Commits } => {
            "the server silently treats committed transactions as aborted: pg_xact files are missing or damaged"
        }
        Start::NotUsable { obstacle: Obstacle::Contents } => {
            "recovery empties permanent relations that have an init fork (see Problems)"
        }
        Start::NotUsable { obstacle: Obstacle::Belonging } => {
            "do not start: the files do not belong together, and rows would be wrong or missing (see Problems)"
        }
        Start::NotUsable { .. } => "connections fail: catalog files are missing or damaged (see Problems)",
        Start::BackupIncomplete if replay.backup.as_ref().is_some_and(|backup| backup.is_incremental) => {
            "this is an incremental backup: pg_combinebackup must complete it first"
        }
        Start::BackupIncomplete => {
            "WAL in pg_wal ends before the end of the backup (\"WAL ends before end of online backup\")"
        }
        Start::Stops { page, lsn, may_stop_before } => {
            let earlier = if *may_stop_before { ", or earlier" } else { "" };
            let found = page_at(*page);
            return match pages.get(*page).map(|report| &report.verdict.on_start) {
                Some(OnStart::Dies { record, .. }) => format!(
                    "recovery crashes (segmentation fault) at {lsn} ({record}){earlier}, because {found} does not exist"
                ),
                _ => format!("recovery stops at {found} (record {lsn}){earlier}"),
            };
        }
        Start::InvalidPages { page } => {
            return format!(
                "{} does not exist, so recovery stops at the consistency point with \"WAL contains references to invalid \
                 pages\"",
                page_at(*page)
            );
        }
        Start::DependsOnDwb => {
            "recovery needs images from the double write buffer, which startup overwrites while it runs"
        }
        Start::WithoutReplay if replay.recovery == Recovery::AfterReset => {
            "pg_resetwal was run: no recovery follows, and changes that were only in WAL are lost"
        }
        Start::WithoutReplay if is_doubtful(replay) => "no recovery follows, but the result is uncertain",
        Start::WithoutReplay => {
            return format!("shut down cleanly, no recovery needed{}", no_damage_words(outlook, pages));
        }
        Start::MayStop { page, lsn } => {
            return format!(
                "recovery changes {} without noticing the damage (first: {} at {lsn}), and may stop at one",
                many(outlook.unnoticed.len() as u64, "torn page"),
                page_at(*page)
            );
        }
        Start::Completes => return completes_words(replay, outlook, pages),
    };
    words.to_owned()
}

fn completes_words(replay: &Replay, outlook: &Outlook, pages: &[PageReport]) -> String {
    if is_doubtful(replay) {
        return "recovery runs to the end of the WAL found here, which may not be all of it".to_owned();
    }
    if let Some(lsn) = backup_end(replay) {
        return format!("WAL covers the backup, which ends at {lsn}; keep backup_label, recovery needs it");
    }
    let bytes = replay.redo_lsn.zip(replay.end_lsn).map(|(redo, end)| end.0.saturating_sub(redo.0));
    let replays = bytes.map_or_else(
        || "recovery runs to the end of WAL".to_owned(),
        |bytes| format!("recovery replays {} of WAL, to its end", size_words(bytes)),
    );
    format!("{replays}{}", no_damage_words(outlook, pages))
}

/// That no page is damaged, and its certainty.
fn no_damage_words(outlook: &Outlook, pages: &[PageReport]) -> &'static str {
    match (pages.is_empty() && outlook.given.scope == Scope::All, outlook.given.checksums) {
        (true, true) => "; no damaged page found",
        (true, false) => "; no damaged page found, but without data checksums a torn page may go unseen",
        (false, true) => "",
        (false, false) => "; without data checksums a torn page may go unseen",
    }
}

/// Result of a recovery that does not stop although it may.
fn silent_damage(outlook: &Outlook) -> Option<String> {
    let words = "if recovery does not stop, the server starts and these pages stay corrupt: queries return wrong rows \
                 without an error";
    matches!(outlook.start, Start::MayStop { .. }).then(|| words.to_owned())
}

/// Fate of damaged and missing pages.
fn damage_words(outlook: &Outlook) -> Vec<String> {
    let maps = if outlook.given.checksums {
        "the server treats {} as empty: no data is lost, but base backups fail and pg_checksums reports the damage"
    } else {
        "the server treats {} as empty: no data is lost"
    };
    let restores = if outlook.given.applies_first {
        "the server repairs {} before recovery"
    } else {
        "the server repairs {} if their images still exist then, and stops at one whose image is missing"
    };
    let rows = [
        (
            &outlook.server_loses,
            "page",
            "the server overwrites {} with older images: changes committed since are silently lost",
        ),
        (
            &outlook.passed_over,
            "missing or zero-filled page",
            "recovery silently skips changes to {}: these changes are lost",
        ),
        (&outlook.stay, "damaged page", "queries that read {} fail or return wrong rows"),
        (&outlook.server_guesses, "page", "the server overwrites {} with images that are not proven to be right"),
        (&outlook.unnoticed, "torn page", "recovery changes {} without noticing the damage"),
        (&outlook.server_restores, "page", restores),
        (&outlook.maps, "damaged map page", maps),
    ];
    let shown = rows.iter().filter(|(indexes, ..)| !indexes.is_empty());
    shown.map(|(indexes, what, words)| words.replace("{}", &many(indexes.len() as u64, what))).collect()
}
