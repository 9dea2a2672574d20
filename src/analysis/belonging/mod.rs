//! Whether the files of a data directory belong together: to one cluster, one history and one time. Asked before any verdict,
//! since WAL and images prove nothing about pages that are not of their cluster and time.

mod counters;
mod label;
pub(crate) mod rules;
mod seam;

use std::collections::BTreeSet;

pub use self::counters::{CounterWitness, Counters, RowAhead, RowFault, WrongRows};
pub use self::seam::{SeamFault, SeamInput};

use super::verdict::outlook::Obstacle;
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::backup_manifest::MANIFEST_NAME;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::open::AccessError;
use crate::cluster::relation_walk::RelationFile;
use crate::cluster::running::ServerSign;
use crate::cluster::upgrade_signs::UpgradeSigns;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::report::{Finding, Rule};
use crate::types::{Lsn, Oid, PageId, TimelineId};

/// Databases without a row that are named one by one.
const MAX_NAMED: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A base backup whose `backup_label` is gone: recovery would begin too late.
    LabelGone {
        /// Where recovery has to begin, by the manifest.
        start_lsn: Lsn,
        timeline: TimelineId,
        /// Where it would begin now.
        redo_lsn: Lsn,
        /// Name of the WAL file that holds `start_lsn`, where the segment size is known.
        wal_file: Option<String>,
        of_standby: bool,
    },
    /// A page is newer than the checkpoint of a shutdown, after which the server wrote nothing.
    PageAfterShutdown {
        page_lsn: Lsn,
        checkpoint_lsn: Lsn,
        /// Signs of `pg_upgrade --link`.
        upgrade: UpgradeSigns,
    },
    /// Rows of several relations name transactions that the counter has not handed out.
    XidsAhead {
        rows: RowAhead,
        /// The next one, by `pg_control`.
        next: u32,
    },
    /// Rows of several relations name multixacts that the counter has not handed out.
    MultixactsAhead {
        rows: RowAhead,
        /// The next one, by `pg_control`.
        next: u32,
    },
    /// A directory below `base/` holds relations, and no row of `pg_database` names it.
    DatabaseUnknown { oid: Oid },
    /// An intact page has an LSN inside the available WAL, but no record ends there.
    PageOfNoRecord { page: PageId, page_lsn: Lsn, pages: usize },
    /// Rows of several relations say that transactions committed, and `pg_xact` says of these that they did not.
    XactOlder { rows: RowAhead },
    /// WAL from elsewhere has another history: a clone, or a recovery to another point.
    WalDiverged { record_lsn: Lsn, what: SeamFault },
    /// Recovery is asked for and follows a timeline that was left before the last checkpoint.
    TimelineForked {
        newest: TimelineId,
        own: TimelineId,
        /// Where the newest one left it; `None` where it never was on it.
        fork_lsn: Option<Lsn>,
    },
}

impl Contradiction {
    /// Stable name for programs.
    pub const fn code(&self) -> &'static str {
        self.rule().code
    }

    /// The rule of the finding about it.
    pub(crate) const fn rule(&self) -> &'static Rule {
        match self {
            Self::LabelGone { .. } => &rules::LABEL_GONE,
            Self::PageAfterShutdown { .. } => &rules::PAGE_AFTER_SHUTDOWN,
            Self::XidsAhead { .. } => &rules::XIDS_AHEAD,
            Self::MultixactsAhead { .. } => &rules::MULTIXACTS_AHEAD,
            Self::DatabaseUnknown { .. } => &rules::DATABASE_UNKNOWN,
            Self::PageOfNoRecord { .. } => &rules::PAGE_OF_NO_RECORD,
            Self::XactOlder { .. } => &rules::XACT_OLDER,
            Self::WalDiverged { .. } => &rules::WAL_DIVERGED,
            Self::TimelineForked { .. } => &rules::TIMELINE_FORKED,
        }
    }

    /// As a finding. `path_of` gives the file of a page, and the block there.
    pub fn finding(&self, path_of: &dyn Fn(PageId) -> (String, u64), first: Option<PageId>) -> Finding {
        let finding = self.rule().problem(self.to_string());
        match self {
            Self::LabelGone { .. } => finding.in_file(MANIFEST_NAME),
            Self::PageAfterShutdown { .. } => match first.map(path_of) {
                Some((path, offset)) => finding.in_file(&path).at(offset),
                None => finding,
            },
            Self::XidsAhead { rows, .. } | Self::MultixactsAhead { rows, .. } => {
                let (path, offset) = path_of(rows.page);
                finding.in_file(&path).at(offset)
            }
            Self::WalDiverged { .. } => finding,
            Self::PageOfNoRecord { page, .. } => {
                let (path, offset) = path_of(*page);
                finding.in_file(&path).at(offset)
            }
            Self::XactOlder { rows } => {
                let (path, offset) = path_of(rows.page);
                finding.in_file(&path).at(offset)
            }
            Self::DatabaseUnknown { oid } => finding.in_file(&format!("base/{oid}")),
            Self::TimelineForked { newest, .. } => {
                finding.in_file(&format!("pg_wal/{}", TimelineHistory::file_name(*newest)))
            }
        }
    }
}

pub(crate) struct BelongingInput<'a> {
    pub directory: &'a DataDir,
    /// `pg_control`, if it can be trusted.
    pub control: &'a ControlFile,
    pub signs: &'a RecoverySigns,
    pub server: &'a ServerSign,
    pub names: &'a RelationNames,
    pub files: &'a [RelationFile],
    /// Histories of later timelines that WAL from elsewhere has.
    pub archived: &'a [TimelineHistory],
    /// The newest LSN of a sound page of a logged relation.
    pub newest: Option<(Lsn, PageId)>,
    /// Contradictions between rows and counters, after a shutdown.
    pub counters: Counters,
}

#[derive(Debug, Default)]
pub(crate) struct Belonging {
    pub contradictions: Vec<Contradiction>,
    /// The contradictions, and those of rows of one relation alone, as findings.
    pub findings: Vec<Finding>,
    /// Why the manifest of a base backup cannot be read, which would tell whether a label is missing.
    pub unread: Option<AccessError>,
}

impl Belonging {
    pub fn examine(input: &BelongingInput<'_>, path_of: &dyn Fn(PageId) -> (String, u64)) -> Self {
        let mut found = Self::default();
        let &BelongingInput { directory, control, signs, server, names, files, archived, newest, ref counters } = input;
        if server.may_be_running() {
            return found;
        }
        match label::label_gone(directory, control, signs, server) {
            Ok(gone) => found.contradictions.extend(gone),
            Err(error) => found.unread = Some(error),
        }
        found.contradictions.extend(timeline_forked(control, signs, archived));
        let mut first = None;
        let is_stopped = control.was_shut_down() && signs.backup_label.is_none() && !signs.wal_was_reset;
        if is_stopped {
            if let Some((page_lsn, page)) = newest.filter(|(lsn, _)| *lsn > control.checkpoint_lsn) {
                first = Some(page);
                let upgrade = UpgradeSigns::of(directory.root(), files);
                let checkpoint_lsn = control.checkpoint_lsn;
                found.contradictions.push(Contradiction::PageAfterShutdown { page_lsn, checkpoint_lsn, upgrade });
            }
            found.contradictions.extend(unknown_databases(names, files));
        }
        let next = control.checkpoint.next_xid();
        if let Some(rows) = counters.xids {
            if rows.relations > 1 {
                found.contradictions.push(Contradiction::XidsAhead { rows, next });
            } else {
                let (path, offset) = path_of(rows.page);
                found.findings.push(
                    rules::ROW_XID
                        .problem(format!("{rows}, and pg_control has {next} as the next transaction"))
                        .in_file(&path)
                        .at(offset),
                );
            }
        }
        if let Some(rows) = counters.multis {
            let next = control.checkpoint.next_multi;
            if rows.relations > 1 {
                found.contradictions.push(Contradiction::MultixactsAhead { rows, next });
            } else {
                let (path, offset) = path_of(rows.page);
                let finding =
                    rules::ROW_MULTIXACT.problem(format!("{rows}, and pg_control has {next} as the next multixact"));
                found.findings.push(finding.in_file(&path).at(offset));
            }
        }
        found.contradictions.extend(counters.undone.map(|rows| Contradiction::XactOlder { rows }));
        found.findings.extend(counters.findings(names, path_of));
        found.findings.extend(found.contradictions.iter().map(|found| found.finding(path_of, first)));
        found
    }

    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        let of = |found: &Contradiction| match found {
            Contradiction::TimelineForked { .. } => Obstacle::Start,
            _ => Obstacle::Belonging,
        };
        self.contradictions.iter().map(of).max()
    }
}

/// Directories with relations but without a row. Empty if no row of `pg_database` was read.
fn unknown_databases(names: &RelationNames, files: &[RelationFile]) -> Vec<Contradiction> {
    if names.homes().next().is_none() {
        return Vec::new();
    }
    let databases: BTreeSet<Oid> = files.iter().map(|file| file.rel.db_oid).filter(|oid| *oid != 0).collect();
    let unknown = databases.into_iter().filter(|oid| names.database(*oid).is_none());
    unknown.take(MAX_NAMED).map(|oid| Contradiction::DatabaseUnknown { oid }).collect()
}

/// Source: `readRecoverySignalFile` and "requested timeline %u is not a child of this server's history",
/// `src/backend/access/transam/xlogrecovery.c`.
fn timeline_forked(
    control: &ControlFile,
    signs: &RecoverySigns,
    archived: &[TimelineHistory],
) -> Option<Contradiction> {
    let own = control.checkpoint.tli;
    // The server asks for one after the other, until one is nowhere.
    let mut newest = signs.newest_history.as_ref();
    for history in archived.iter().filter(|_| signs.fetches_histories) {
        let last = newest.map_or(own.max(control.min_recovery_timeline), |newest| newest.tli);
        if last.0.checked_add(1) == Some(history.tli.0) {
            newest = Some(history);
        }
    }
    let history = newest?;
    // A label names another checkpoint.
    if signs.backup_label.is_some() || history.tli_at(control.checkpoint_lsn) == own {
        return None;
    }
    let fork = history.ancestors.iter().find(|ancestor| ancestor.tli == own).map(|ancestor| ancestor.switch_lsn);
    Some(Contradiction::TimelineForked { newest: history.tli, own, fork_lsn: fork })
}
