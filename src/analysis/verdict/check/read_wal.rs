//! Second stage: what WAL says of some pages, and what replay of it will do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::input::{ClusterInput, WalInput};
use super::progress::{CheckProgress, Stage};
use crate::analysis::coverage::Coverage;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::slot_facts::WritePath;
use crate::analysis::verdict::change_log::ChangeLog;
use crate::analysis::verdict::doubt::Doubt;
use crate::analysis::verdict::history::WalHistory;
use crate::analysis::verdict::interest::Interest;
use crate::analysis::verdict::needed::Needed;
use crate::analysis::verdict::replay::{Replay, read_before};
use crate::analysis::verdict::slots::{SlotRef, Suspicion, slots_of};
use crate::analysis::verdict::wal_end::doubt_of_end;
use crate::analysis::verdict::zeroed::ZeroedPages;
use crate::parsers::control::WAL_LEVEL_MINIMAL;
use crate::types::{PageId, RelFileLocator};

#[derive(Default)]
pub(super) struct WalQuestion {
    /// Pages and relations to collect everything about.
    pub(super) interest: Interest,
    /// Which of these pages of zeros had content.
    pub(super) zeroed: Option<ZeroedPages>,
    pub(super) needed: Option<Needed>,
}

pub(super) struct WalRead {
    pub(super) replay: Replay,
    /// History of the pages of `interest`.
    pub(super) history: WalHistory,
    pub(super) interest: Interest,
    /// Which pages of zeros had content, if that was asked.
    pub(super) zeroed: Option<ZeroedPages>,
    /// Pages that recovery needs on disk, if requested.
    pub(super) needed: Option<Needed>,
    pub(super) coverage: Coverage,
}

impl WalQuestion {
    /// Everything about the suspects. `should_exist`: the relation has files, beyond doubt.
    pub(super) fn about(
        suspects: &BTreeMap<PageId, Suspicion>,
        slots: &[SlotRef],
        should_exist: &dyn Fn(RelFileLocator) -> bool,
    ) -> Self {
        let mut interest = Interest::default();
        for (page, suspicion) in suspects {
            // Slots hold pages of many relations that were dropped long ago.
            if *suspicion == Suspicion::MissingFile && !should_exist(page.rel) {
                interest.add_relation(page.rel);
            } else {
                let index = interest.add(*page);
                for slot in slots_of(slots, *page).iter().filter(|slot| !slot.path.is_some_and(WritePath::is_locked)) {
                    interest.watch(index, slot.page_lsn);
                }
            }
        }
        Self { interest, ..Self::default() }
    }
}

impl WalRead {
    pub(super) fn nothing(cluster: &ClusterInput<'_>, question: WalQuestion) -> Self {
        let WalQuestion { interest, zeroed, needed } = question;
        let mut history = WalHistory::new(&interest);
        history.is_minimal = cluster.control.is_some_and(|control| control.wal_level == WAL_LEVEL_MINIMAL);
        // Where no checksum protects pages, what records put into them is kept.
        history.changes = (!cluster.has_checksums).then(|| ChangeLog::of(interest.pages().len()));
        let mut replay = cluster.replay.clone();
        if cluster.may_be_running {
            replay.doubts.push(Doubt::MayBeRunning);
        }
        Self { replay, history, interest, zeroed, needed, coverage: Coverage::default() }
    }
}

/// Reads WAL from its beginning to its end.
pub(super) fn read_wal(
    wal: &WalInput<'_>,
    cluster: &ClusterInput<'_>,
    question: WalQuestion,
    jobs: usize,
    progress: &CheckProgress<'_>,
) -> WalRead {
    let WalRead { mut replay, mut history, interest, zeroed, needed, mut coverage } =
        WalRead::nothing(cluster, question);
    (history.zeroed, history.needed) = (zeroed, needed);
    let read = AtomicU64::new(0);
    let watch = |bytes| progress.at(Stage::Wal, read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
    // Where nothing is wrong with any page, and none is all zero, older WAL has nothing to say.
    let is_wanted = !interest.is_empty() || history.zeroed.is_some() || replay.redo_lsn.is_none();
    if let Some(set) = wal.all.or(wal.own).filter(|_| is_wanted) {
        for error in read_before(set, replay.redo_lsn, &mut history, &interest, jobs, &watch) {
            coverage.skip(SkippedPart::WalBeforeRedo, error);
        }
    }
    match wal.own {
        Some(set) => {
            if let Err(error) = replay.read_to_end(set, cluster.control, &mut history, &interest, jobs, &watch) {
                replay.doubts.push(Doubt::WalUnreadable { error: ErrorWords::from(&error) });
                coverage.skip(SkippedPart::Wal, error);
            }
            match doubt_of_end(&replay, set, wal.all, wal.marks) {
                Ok(doubt) => replay.doubts.extend(doubt),
                Err(error) => coverage.skip(SkippedPart::WalAfterEnd, error),
            }
        }
        None => replay.doubts.push(Doubt::NoWal),
    }
    replay.weigh_left_out(wal.unknown_versions, wal.denied, cluster.control);
    if let Some(cut) = history.changes.as_ref().and_then(ChangeLog::cut) {
        coverage.skip(SkippedPart::RowsWithoutChecksum, SkipReason::NoRoomForChanges { end_lsn: cut });
    }
    if let Some(from) = history.full_from() {
        coverage.skip(SkippedPart::RestOfWal, SkipReason::NoRoomForRecords { from });
    }
    let needed = history.needed.take();
    let zeroed = history.zeroed.take();
    WalRead { replay, history, interest, zeroed, needed, coverage }
}
