//! Prediction of startup without a repair.

use super::candidate::CandidateOutcome;
use super::check::Scope;
use super::survey::PageReport;
use crate::analysis::changes::needed::OnStart;
use crate::analysis::start::backup::Backup;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::parsers::wal::version::UnknownMagic;
use crate::types::{Lsn, PageId};

/// How a start will go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A server may be running already.
    Running,
    /// Not known.
    Unknown,
    /// Not known: something that replay may meet was not examined.
    NotAllRead,
    /// Not known: only some pages were asked for, and a damaged one of the others may stop replay.
    SomePagesOnly,
    /// Not known: `pg_control` has a version that this program does not know.
    UnknownControl {
        /// The version.
        version: u32,
    },
    /// Not known: WAL that startup needs exists, in a version that this program does not know.
    UnknownWal {
        /// Magic of its pages.
        magic: UnknownMagic,
    },
    /// Not known: WAL that startup needs exists, but this user may not read it.
    WalDenied,
    /// Not known: `pg_control` is that of a server that was not built as usual.
    UnusualBuild,
    /// Not known: the server may reach a file that it cannot open.
    ClosedToReplay,
    /// Not known: recovery ends where a setting says.
    EndsAtTarget,
    /// Not known: WAL that startup needs is missing, and the server fetches WAL from elsewhere.
    WalFromElsewhere,
    /// It will not begin: WAL that startup needs is missing.
    CannotBegin,
    /// The server refuses: `pg_control` or a directory is not as required.
    Refused,
    /// The server starts, but files are missing or damaged without which it is unusable.
    NotUsable {
        /// The failing function.
        obstacle: Obstacle,
    },
    /// Recovery of a base backup reaches the end of WAL before the end of the backup, or the backup is an incremental one.
    BackupIncomplete,
    /// Replay meets a page that it cannot read, and stops.
    Stops {
        /// Index of the page in the report.
        page: usize,
        /// The record that reads it.
        lsn: Lsn,
        /// It may stop before: recovery reaches a page whose image in the server's own double write buffer may be lost by
        /// then, or that it changes without seeing the damage.
        may_stop_before: bool,
    },
    /// Recovery skips records of a missing page, and stops once the cluster would be consistent.
    InvalidPages {
        /// Index of the page in the report.
        page: usize,
    },
    /// It starts without replay.
    WithoutReplay,
    /// Replay runs to its end if the server's own double write buffer still holds the images that it needs when it reaches
    /// their pages: startup itself overwrites slots.
    DependsOnDwb,
    /// Replay changes a damaged page without seeing the damage: it may run to its end, or stop at the first record that does
    /// not fit what it finds there.
    MayStop {
        /// Index of the first such page in the report.
        page: usize,
        /// The record that changes it.
        lsn: Lsn,
    },
    /// Replay runs to its end.
    Completes,
}

fn unknown_control(replay: &Replay) -> Start {
    let version = replay.doubts.iter().find_map(|doubt| match doubt {
        Doubt::ControlOfUnknownVersion { version, .. } => Some(*version),
        _ => None,
    });
    version.map_or(Start::Unknown, |version| Start::UnknownControl { version })
}

/// The beginning stands in WAL that is not read here.
fn unknown_wal(replay: &Replay) -> Start {
    let magic = replay.doubts.iter().find_map(|doubt| match doubt {
        Doubt::WalOfUnknownVersion { magic, .. } => Some(*magic),
        _ => None,
    });
    magic.map_or(Start::Unknown, |magic| Start::UnknownWal { magic })
}

/// Basis of a prediction in addition to pages and WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartConditions {
    /// Which pages were examined.
    pub scope: Scope,
    /// A server may be up.
    pub may_be_running: bool,
    /// The server uses a double write buffer.
    pub has_dwb: bool,
    /// It writes images over damaged pages before it replays anything.
    pub applies_first: bool,
    /// Pages have checksums; without them a torn page can stay unseen.
    pub checksums: bool,
    /// Function that fails without files other than those with pages and WAL.
    pub obstacle: Option<Obstacle>,
    /// Functions that fail without these pages.
    pub of_pages: Vec<(PageId, Obstacle)>,
}

/// The prediction, with the pages by their fate (indexes in the report).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// How a start will go.
    pub start: Start,
    /// Pages that the server's own double write buffer recovery repairs, if the slot is not overwritten before.
    pub server_restores: Vec<usize>,
    /// Pages for which it takes an image that is not proven, under the same condition.
    pub server_guesses: Vec<usize>,
    /// Pages over which it writes an image that is older than what they held: changes are lost silently.
    pub server_loses: Vec<usize>,
    /// Damaged pages that replay changes without noticing.
    pub unnoticed: Vec<usize>,
    /// Missing or zero-filled pages, whose changes recovery skips.
    pub passed_over: Vec<usize>,
    /// Damaged pages of maps that stay as they are until a server rewrites them.
    pub maps: Vec<usize>,
    /// Damaged pages that stay as they are.
    pub stay: Vec<usize>,
    /// Its basis.
    pub given: StartConditions,
    /// The process whose number `postmaster.pid` holds and that keeps a server from starting, though it is not a server of
    /// this directory.
    pub refused_by: Option<i32>,
}

impl Outlook {
    /// Foresees a start.
    pub fn of(pages: &[PageReport], replay: &Replay, given: StartConditions) -> Self {
        let StartConditions { scope, may_be_running, has_dwb, applies_first, .. } = given;
        let obstacle = given.of_pages.iter().map(|(_, obstacle)| *obstacle).chain(given.obstacle).max();
        let mut outlook = Self {
            start: Start::Completes,
            server_restores: Vec::new(),
            server_guesses: Vec::new(),
            server_loses: Vec::new(),
            unnoticed: Vec::new(),
            passed_over: Vec::new(),
            maps: Vec::new(),
            stay: Vec::new(),
            given,
            refused_by: None,
        };
        let mut stops: Option<(Lsn, usize)> = None;
        let mut may_stop: Option<(Lsn, usize)> = None;
        // Where recovery reaches pages that the server takes from its own buffer.
        let mut from_dwb: Option<Lsn> = None;
        let outcome_of =
            |page: &PageReport, candidate: usize| page.verdict.candidates.get(candidate).map(|judged| judged.outcome);
        for (index, page) in pages.iter().enumerate() {
            if let Some(candidate) = page.server_takes.filter(|_| applies_first && page.is_overwritten) {
                match outcome_of(page, candidate) {
                    Some(CandidateOutcome::Safe) => outlook.server_restores.push(index),
                    Some(CandidateOutcome::LosesChanges) => outlook.server_loses.push(index),
                    _ => outlook.server_guesses.push(index),
                }
                continue;
            }
            match &page.verdict.on_start {
                OnStart::Read { lsn } => match page.server_takes.filter(|_| has_dwb && page.server_rejects) {
                    Some(candidate) => {
                        from_dwb = Some(from_dwb.map_or(*lsn, |first| first.min(*lsn)));
                        if outcome_of(page, candidate) == Some(CandidateOutcome::Safe) {
                            &mut outlook.server_restores
                        } else {
                            &mut outlook.server_guesses
                        }
                        .push(index);
                    }
                    None => stops = Some(stops.map_or((*lsn, index), |first| first.min((*lsn, index)))),
                },
                OnStart::Dies { lsn, .. } => {
                    stops = Some(stops.map_or((*lsn, index), |first| first.min((*lsn, index))));
                }
                OnStart::Unnoticed { lsn } => {
                    outlook.unnoticed.push(index);
                    may_stop = Some(may_stop.map_or((*lsn, index), |first| first.min((*lsn, index))));
                }
                OnStart::PassedOver { .. } => outlook.passed_over.push(index),
                OnStart::TakenForEmpty => outlook.maps.push(index),
                // Replay may touch it, by a record that there was no room for.
                OnStart::Unknown if replay.can_begin && replay.recovery.replays() => {}
                OnStart::Later | OnStart::Unknown => outlook.stay.push(index),
                OnStart::Harmless => {}
            }
        }
        outlook.start = match replay.recovery {
            _ if may_be_running => Start::Running,
            Recovery::Unknown => unknown_control(replay),
            // Such a server was never seen.
            _ if replay.doubts.contains(&Doubt::LayoutNotSeen) => Start::Unknown,
            _ if replay.begins_in_unknown_version => unknown_wal(replay),
            // Whatever stops it by the WAL that is read: the rest of it may say otherwise.
            _ if replay.doubts.iter().any(Doubt::is_of_denied_wal) => Start::WalDenied,
            // After a clean shutdown too: the server reads the checkpoint record, though it replays nothing.
            _ if !replay.can_begin && replay.fetches_wal => Start::WalFromElsewhere,
            _ if !replay.can_begin => Start::CannotBegin,
            Recovery::None | Recovery::AfterReset => Start::WithoutReplay,
            recovery => match (stops, outlook.passed_over.first()) {
                (Some((lsn, page)), _) => {
                    let is_before = |first: Lsn| first < lsn;
                    let may_stop_before =
                        from_dwb.is_some_and(is_before) || may_stop.is_some_and(|(first, _)| is_before(first));
                    Start::Stops { page, lsn, may_stop_before }
                }
                (None, Some(page)) if recovery != Recovery::Crash => Start::InvalidPages { page: *page },
                _ if replay.backup.as_ref().is_some_and(Backup::cannot_end) => Start::BackupIncomplete,
                // An image that is written before replay is there; whether it is the right one may not be known.
                _ if from_dwb.is_some() || !outlook.server_guesses.is_empty() => Start::DependsOnDwb,
                _ => match may_stop {
                    Some((lsn, page)) => Start::MayStop { page, lsn },
                    None => Start::Completes,
                },
            },
        };
        let works = matches!(outlook.start, Start::Completes | Start::WithoutReplay);
        let is_open = matches!(outlook.start, Start::DependsOnDwb | Start::MayStop { .. } | Start::SomePagesOnly);
        if let Some(obstacle) = obstacle
            && (works || is_open)
        {
            outlook.start = match obstacle {
                Obstacle::Build => Start::UnusualBuild,
                Obstacle::Target => Start::EndsAtTarget,
                Obstacle::Replay => Start::ClosedToReplay,
                Obstacle::Start => Start::Refused,
                _ => Start::NotUsable { obstacle },
            };
        } else if works && replay.doubts.iter().any(Doubt::is_of_unread) {
            outlook.start = Start::NotAllRead;
        } else if works && scope != Scope::All {
            outlook.start = Start::SomePagesOnly;
        }
        outlook
    }
}
