//! Whether the files of a data directory belong together: to one cluster, one history and one time. Asked before any verdict,
//! since WAL and images prove nothing about pages that are not of their cluster and time.
//! Also here: base backups whose `backup_label` was removed, WAL from elsewhere that does not join that of the cluster
//! (a clone that ran on its own writes the same timeline, with the same names of segments), and their rules.

mod counters;

pub use self::counters::{CounterWitness, Counters, RowAhead, RowFault, WrongRows};

use std::collections::BTreeSet;

use super::cluster_condition::Obstacle;
use crate::analysis::changes::provable::{CheckpointSeen, CommittedXact, WalPages};
use crate::cluster::backup_files::{RecoverySigns, read_label};
use crate::cluster::backup_manifest::{BackupManifest, MANIFEST_NAME};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::open::AccessError;
use crate::cluster::relation_walk::{RelationFile, UpgradeSigns};
use crate::cluster::running::ServerSign;
use crate::cluster::wal::WalSet;
use crate::parsers::control::{ControlFile, DbState};
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::report::{Finding, Rule, rules};
use crate::types::{Lsn, Oid, PageId, TimelineId, is_newer_xid};

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
            Self::LabelGone { .. } => &LABEL_GONE,
            Self::PageAfterShutdown { .. } => &PAGE_AFTER_SHUTDOWN,
            Self::XidsAhead { .. } => &XIDS_AHEAD,
            Self::MultixactsAhead { .. } => &MULTIXACTS_AHEAD,
            Self::DatabaseUnknown { .. } => &DATABASE_UNKNOWN,
            Self::PageOfNoRecord { .. } => &PAGE_OF_NO_RECORD,
            Self::XactOlder { .. } => &XACT_OLDER,
            Self::WalDiverged { .. } => &WAL_DIVERGED,
            Self::TimelineForked { .. } => &TIMELINE_FORKED,
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
        match label_gone(directory, control, signs, server) {
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
                    ROW_XID
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
                let finding = ROW_MULTIXACT.problem(format!("{rows}, and pg_control has {next} as the next multixact"));
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

/// By the manifest the backup came with a label, it is gone, and no server has run in the directory since.
fn label_gone(
    directory: &DataDir,
    control: &ControlFile,
    signs: &RecoverySigns,
    server: &ServerSign,
) -> Result<Option<Contradiction>, AccessError> {
    // A base backup has no such file.
    let was_started =
        !matches!(server, ServerSign::NoPidFile) || directory.root().join("postmaster.opts").symlink_metadata().is_ok();
    if signs.backup_label.is_some() || control.prefix.state == DbState::SHUT_DOWN || was_started {
        return Ok(None);
    }
    let manifest = BackupManifest::read(directory.root())?.filter(|manifest| manifest.lists_label);
    let Some(manifest) = manifest else { return Ok(None) };
    let (start_lsn, timeline) = (manifest.start_lsn, manifest.timeline);
    // A server that recovered from the label renamed it, and its checkpoint came after the end of the backup. The old label of a cluster that
    // was itself restored comes with its backups.
    let old = read_label(&directory.root().join("backup_label.old")).ok().flatten();
    let was_renamed = old.is_some_and(|label| label.redo_lsn == Some(start_lsn));
    let is_of_backup =
        control.prefix.state == DbState::IN_PRODUCTION && control.checkpoint.redo_lsn <= manifest.end_lsn;
    if was_renamed && !is_of_backup {
        return Ok(None);
    }
    let size = control.geometry.wal_segment_size;
    let number = start_lsn.0.checked_div(u64::from(size));
    let wal_file = number.and_then(|number| WalSegment { tli: timeline, number }.file_name(size));
    let redo_lsn = control.checkpoint.redo_lsn;
    let of_standby = control.prefix.state == DbState::IN_ARCHIVE_RECOVERY;
    Ok(Some(Contradiction::LabelGone { start_lsn, timeline, redo_lsn, wal_file, of_standby }))
}

/// Seconds that a clock may be set back silently.
const CLOCK_SLACK_S: i64 = 60;

/// Sign that WAL has another history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeamFault {
    /// A record before the redo point belongs to a transaction that the checkpoint had not assigned.
    Xid {
        xid: u32,
        next: u32,
    },
    /// A transaction is committed there, and not in `pg_xact`.
    Commit {
        xid: u32,
    },
    /// Of two checkpoints the later one has the lower next transaction.
    NextXid {
        before: u64,
        after: u64,
    },
    Time {
        seconds: i64,
    },
}

pub struct SeamInput<'a> {
    /// WAL in `pg_wal`.
    pub own: Option<&'a WalSet>,
    pub known: &'a WalPages,
    /// The next transaction, by `pg_control`.
    pub next_xid: Option<u32>,
    /// The first commit that `pg_xact` does not have.
    pub lost: Option<CommittedXact>,
}

impl SeamInput<'_> {
    /// The first contradiction of WAL from elsewhere.
    pub fn examine(&self) -> Option<Contradiction> {
        let of = |record_lsn: Lsn, what: SeamFault| Contradiction::WalDiverged { record_lsn, what };
        let ahead = self.known.newest.zip(self.next_xid).filter(|((xid, _), next)| !is_newer_xid(*next, *xid));
        if let Some(((xid, record_lsn), next)) = ahead.filter(|((_, lsn), _)| self.is_outside(*lsn)) {
            return Some(of(record_lsn, SeamFault::Xid { xid, next }));
        }
        if let Some(lost) = self.lost.filter(|lost| self.is_outside(lost.record_lsn)) {
            return Some(of(lost.record_lsn, SeamFault::Commit { xid: lost.xid }));
        }
        let pairs = self.known.checkpoints.windows(2).filter_map(|pair| pair.first().zip(pair.last()));
        let mut outside = pairs.filter(|(before, _)| self.is_outside(before.record_lsn));
        outside.find_map(|(before, after)| Some(of(after.record_lsn, step_back(before, after)?)))
    }

    /// True for a record that `pg_wal` does not hold.
    fn is_outside(&self, lsn: Lsn) -> bool {
        let Some(own) = self.own else { return true };
        let size = u64::from(own.geometry().wal_segment_size);
        let holds = |start: Lsn| start <= lsn && lsn < start.advanced_by(size);
        !own.segments().iter().any(|file| holds(file.start_lsn))
    }
}

fn step_back(before: &CheckpointSeen, after: &CheckpointSeen) -> Option<SeamFault> {
    let seconds = before.time_s.saturating_sub(after.time_s);
    if after.next_full_xid < before.next_full_xid {
        return Some(SeamFault::NextXid { before: before.next_full_xid, after: after.next_full_xid });
    }
    (seconds > CLOCK_SLACK_S).then_some(SeamFault::Time { seconds })
}

rules! {
    LABEL_GONE: Cluster "label_gone",
        why: "do not start the server: rows committed before the end of the backup would be missing. Create \
            backup_label again with these lines, with all WAL after that point, or restore the backup again. \
            `pg_waldump --rmgr=XLOG` shows checkpoint records with their redo points",
        means: "A base backup according to its `backup_manifest`, whose `backup_label` is missing, and no server has \
            run in it since: no `postmaster.opts`, and no `backup_label.old` with the same start, unless `pg_control` \
            is still the one of the backup",
        action: "Create `backup_label` again, with all WAL after the address in the finding, or restore the backup \
            again. Do not start the server: rows would be missing";
    PAGE_AFTER_SHUTDOWN: Cluster "page_after_shutdown",
        why: "do not start the server: it would show wrong rows. No WAL is missing; base/ and pg_control are from \
            different times, or another server (as after pg_upgrade --link) changed the files. Use files from one \
            backup",
        means: "A page is newer than the checkpoint of the shutdown, after which the server wrote nothing",
        action: "Use files from the same time. After `pg_upgrade --link` the files belong to the new cluster. No WAL \
            is missing";
    XIDS_AHEAD: Cluster "xids_ahead",
        why: "do not start the server: these rows would be invisible, and their transaction IDs would be used again. \
            pg_control is from another time or cluster, or pg_resetwal guessed it: find the right one, or on a copy \
            run pg_resetwal with -x above the newest number, -o above the highest OID, then dump",
        means: "Rows of several relations have transaction IDs that, according to `pg_control`, were never assigned",
        action: "Find the `pg_control` from the same time; or, on a copy, `pg_resetwal -x` and `-o` above the highest \
            numbers in the files, then dump";
    MULTIXACTS_AHEAD: Cluster "multixacts_ahead",
        why: "do not start the server: pg_control and the tables are from different times. Use files from one backup, \
            or on a copy run pg_resetwal with -m above the newest number, then dump",
        means: "Rows of several relations have multixact IDs that, according to `pg_control`, were never assigned",
        action: "As for `xids_ahead`, with `pg_resetwal -m`";
    DATABASE_UNKNOWN: Cluster "database_unknown",
        why: "no server shows this database: base/ and global/ may be from different clusters, or CREATE DATABASE was \
            interrupted. Only global/, pg_control, pg_wal and pg_xact from the same cluster and time restore it",
        means: "A directory in `base/` has relations, but `pg_database` has no such database",
        action: "Find `global/`, `pg_control`, `pg_wal` and `pg_xact` from the same cluster and time. After an \
            interrupted `CREATE DATABASE` the directory is left over";
    PAGE_OF_NO_RECORD: Cluster "page_of_no_record",
        why: "pages and WAL have different histories: some files are from another cluster or time, or WAL from a clone",
        means: "An intact page has an LSN inside the available WAL, but no record ends there",
        action: "Pages and WAL have different histories; nothing is proven";
    XACT_OLDER: Cluster "xact_older",
        why: "do not start the server: pg_xact is from another time or cluster, and committed rows would disappear. \
            Restore the pg_xact from this time; an older one does not fit",
        means: "Rows of several relations mark transactions as committed that `pg_xact` does not",
        action: "`pg_xact` is from another time: restore the one from this time";
    WAL_DIVERGED: Cluster "wal_diverged",
        why: "that WAL is not used, and proves nothing: another copy of the cluster wrote it, or pg_xact is from \
            another time. Pass the archive that this cluster itself wrote",
        means: "WAL from another place has a different history: its transactions, commits or checkpoints do not match \
            the cluster",
        action: "Pass the archive that this cluster itself wrote; until then nothing is proven";
    TIMELINE_FORKED: Cluster "timeline_forked",
        why: "the server does not start (\"requested timeline is not a child of this server's history\"): run \
            pg_rewind or take a new base backup. Rows written here after the fork exist nowhere else",
        means: "Recovery follows a timeline that was left before the last checkpoint: the server does not start",
        action: "Run `pg_rewind`, or take a new base backup";
    ROW_XID: Cluster "row_xid",
        why: "the server does not see the row, or VACUUM fails because of it: the row is damaged",
        means: "Rows of one relation have transaction IDs that were never assigned",
        action: "The row is damaged: see the page with `page`";
    ROW_MULTIXACT: Cluster "row_multixact",
        why: "VACUUM and updates of the row fail (\"has not been created yet\"): the row is damaged",
        means: "Rows of one relation have multixact IDs that were never assigned",
        action: "The row is damaged: see the page with `page`";
    ROW_FAULT: Cluster "row_fault",
        why: "the row is damaged: reading that column fails or ends the server process; dump the table without this ctid",
        means: "Rows of a table are damaged on an intact page: older than its `relfrozenxid` or `relminmxid`, or \
            shorter than their columns",
        action: "The row is damaged: dump the table without that ctid; until then `VACUUM` fails because of it";
}
