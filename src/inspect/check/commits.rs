//! Commits before the redo point that `pg_xact` does not have: an older copy of it, or a lost write.
//! Also here: prepared transactions whose file is gone, which no start notices: WAL shows that they were not ended.

use std::path::PathBuf;

use crate::analysis::changes::prepared_xacts::PreparedXacts;
use crate::analysis::changes::provable::{CommittedXact, MultixactMade, WalPages};
use crate::analysis::start::belonging::{Contradiction, SeamInput};
use crate::analysis::wal::segment::WatchRead;
use crate::analysis::wal::walk::ends_among;
use crate::cluster::data_dir::DataDir;
use crate::cluster::server_files::is_missing;
use crate::cluster::state_files::prepared_file;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::cluster::xact_files::{SlruEntries, XactStates};
use crate::parsers::control::ControlFile;
use crate::report::{Finding, rules};
use crate::types::{FIRST_NORMAL_XID, Lsn, PageId, is_newer_xid};

pub(super) struct LostCommits {
    states: XactStates,
    /// `pg_commit_ts`, where commits have times, and the transactions between which they are kept.
    times: Option<(SlruEntries, (u32, u32))>,
    first_time: Option<(CommittedXact, PathBuf)>,
    lost_times: u64,
    first: Option<(CommittedXact, PathBuf)>,
    count: u64,
}

impl LostCommits {
    /// None were looked for yet.
    pub(super) fn new(directory: &DataDir, control: &ControlFile) -> Self {
        let kept = (control.checkpoint.oldest_commit_ts_xid, control.checkpoint.newest_commit_ts_xid);
        let has_times = control.track_commit_timestamp && kept.0 >= FIRST_NORMAL_XID;
        let times = has_times.then(|| (SlruEntries::of_times(directory, control), kept));
        let states = XactStates::new(directory, control);
        Self { states, times, first_time: None, lost_times: 0, first: None, count: 0 }
    }

    /// Looks these up. What `pg_xact` does not have at all, old transactions among it, is not counted.
    pub(super) fn look_up(&mut self, commits: &[CommittedXact]) {
        for commit in commits {
            if let Some((times, (oldest, newest))) = &mut self.times
                && !is_newer_xid(*oldest, commit.xid)
                && !is_newer_xid(commit.xid, *newest)
                && let Some((0, file)) = times.entry(commit.xid)
            {
                self.lost_times = self.lost_times.saturating_add(1);
                self.first_time.get_or_insert((*commit, file));
            }
            let Some(file) = self.states.not_committed(commit.xid) else { continue };
            self.count = self.count.saturating_add(1);
            self.first.get_or_insert((*commit, file));
        }
    }

    pub(super) fn findings(self, of_multis: Option<Finding>) -> Vec<Finding> {
        let Self { first, count, first_time, lost_times, .. } = self;
        let lost = first.map(|(CommittedXact { xid, record_lsn }, file)| {
            COMMITS_LOST
                .problem(format!(
                    "transactions that WAL committed before the redo point and that are not committed here: \
                    {count}, the first: {xid}, by the record at {record_lsn}"
                ))
                .in_file(&file.display().to_string())
        });
        let times = first_time.map(|(CommittedXact { xid, record_lsn }, file)| {
            COMMIT_TIMES_LOST
                .problem(format!(
                    "commits without a time that WAL has before the redo point: {lost_times}, the first: {xid}, by \
                    the record at {record_lsn}"
                ))
                .in_file(&file.display().to_string())
        });
        lost.into_iter().chain(times).chain(of_multis).collect()
    }

    /// True when a commit is not in `pg_xact`.
    pub(super) const fn is_any(&self) -> bool {
        self.count > 0
    }
}

/// Multixacts before the redo point that `pg_multixact` does not have, or has elsewhere: an older copy of it.
pub(super) fn lost_multixacts(directory: &DataDir, control: &ControlFile, made: &[MultixactMade]) -> Option<Finding> {
    let mut entries = SlruEntries::of_multis(directory, control);
    let oldest = control.checkpoint.oldest_multi;
    let (mut first, mut count) = (None, 0_u64);
    for multi in made.iter().filter(|made| !is_newer_xid(oldest, made.multi)) {
        let Some((_, file)) = entries.entry(multi.multi).filter(|(offset, _)| *offset != multi.offset) else {
            continue;
        };
        count = count.saturating_add(1);
        first.get_or_insert((*multi, file));
    }
    let (MultixactMade { multi, record_lsn, .. }, file) = first?;
    Some(
        MULTIXACTS_LOST
            .problem(format!(
                "multixacts that WAL made before the redo point and that are not here: {count}, the first: \
            {multi}, by the record at {record_lsn}"
            ))
            .in_file(&file.display().to_string()),
    )
}

/// Evidence that WAL from elsewhere has another history than `own`.
pub(super) fn diverged(
    own: Option<&WalSet>,
    known: &WalPages,
    next_xid: Option<u32>,
    lost: Option<&LostCommits>,
) -> Option<Contradiction> {
    let lost = lost.and_then(|lost| lost.first.as_ref()).map(|(commit, _)| *commit);
    SeamInput { own, known, next_xid, lost }.examine()
}

/// Of whole pages with an LSN that no record of them gave, those at whose LSN no record ends at all.
pub(super) fn strangers(
    set: &WalSet,
    foreign: &[(PageId, Lsn)],
    jobs: usize,
    watch: WatchRead<'_>,
) -> Result<Option<Contradiction>, WalReadError> {
    if foreign.is_empty() {
        return Ok(None);
    }
    let ends = ends_among(set, &foreign.iter().map(|(_, lsn)| *lsn).collect(), jobs, watch)?;
    let of_none: Vec<_> = foreign.iter().filter(|(_, lsn)| !ends.contains(lsn)).collect();
    let first = of_none.first().copied();
    Ok(first.map(|(page, page_lsn)| Contradiction::PageOfNoRecord {
        page: *page,
        page_lsn: *page_lsn,
        pages: of_none.len(),
    }))
}

rules! {
    COMMIT_TIMES_LOST: ServerFiles "commit_times_lost",
        why: "commit timestamps are lost: the file, or a page of it, is older than the other files",
        means: "`pg_commit_ts` lacks timestamps of transactions that WAL committed before the redo point",
        action: "Restore the file from the same point in time as the rest";
    MULTIXACTS_LOST: ServerFiles "multixacts_lost",
        why: "rows that several transactions locked or changed are read incorrectly: the file, or a page of it, is \
            older than the other files",
        means: "`pg_multixact` lacks multixacts that WAL made before the redo point",
        action: "Restore the file from the same point in time as the rest";
    COMMITS_LOST: ServerFiles "commits_lost",
        why: "after startup these committed changes silently disappear: this pg_xact file, or a page of it, is older \
            than the other files",
        means: "`pg_xact` does not show transactions as committed that available WAL committed before the redo point: \
            the file, or a page of it, is older than the rest. `start` is `not_usable`: the server treats these \
            transactions as aborted",
        action: "Restore `pg_xact` from the same point in time as the rest, from a copy or a standby";
    PREPARED_MISSING: ServerFiles "prepared_missing",
        why: "startup silently loses the prepared transaction; it can no longer be committed or rolled back",
        means: "The file of a prepared transaction (`pg_twophase`) is missing: available WAL shows that it was \
            prepared before the redo point and not ended. Startup silently loses it",
        action: "Restore the file from a copy of the cluster before startup. No other file has its changes: without \
            it they count as rolled back";
}

/// Those whose file a checkpoint had written before the redo point, and that is missing.
///
/// Source: `CheckPointTwoPhase`, `src/backend/access/transam/twophase.c`.
pub(super) fn missing_prepared(
    directory: &DataDir,
    control: &ControlFile,
    redo_lsn: Lsn,
    prepared: &PreparedXacts,
) -> Vec<Finding> {
    let is_gone = |xid| Some(prepared_file(directory, control, xid)).filter(|file| is_missing(directory, file));
    prepared
        .open()
        .filter(|(_, record)| record.end <= redo_lsn)
        .filter_map(|(xid, record)| {
            let file = is_gone(xid)?.display().to_string();
            Some(
                PREPARED_MISSING
                    .problem(format!(
                        "missing, though the record at {} prepared its transaction, and nothing in the available WAL \
                    ended it",
                        record.start
                    ))
                    .in_file(&file),
            )
        })
        .collect()
}
