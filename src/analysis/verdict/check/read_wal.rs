//! Second stage: what WAL says of some pages, and what replay of it will do.
//! Also here: reads WAL about pages that replay touches and no checksum protects, and keeps those that it contradicts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashSet;

use super::input::{CheckProgress, Stage};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::changes::needed::{Needed, Suspicion};
use crate::analysis::changes::page_chain::ChangeLog;
use crate::analysis::changes::sieve::{PageOnDisk, Sieve};
use crate::analysis::dwb::slot_facts::WritePath;
use crate::analysis::dwb::slots::{SlotRef, slots_of};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::missing_wal::doubt_of_end;
use crate::analysis::start::replay::{Replay, read_before};
use crate::analysis::verdict::case::Case;
use crate::parsers::control::WAL_LEVEL_MINIMAL;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::{PageId, RelFileLocator};

#[derive(Default)]
pub(super) struct WalQuestion {
    /// Pages and relations to collect everything about.
    pub(super) interest: Interest,
    pub(super) needed: Option<Needed>,
    /// Pages that no checksum protects, to be sifted.
    pub(super) sieve: Option<Sieve>,
}

/// Pages that were sifted.
#[derive(Default)]
pub(super) struct SiftedPages {
    pub(super) all: FxHashSet<PageId>,
    /// Those that WAL may contradict, or says too little of.
    pub(super) contradicted: Vec<PageId>,
    /// Those that there was no room for.
    pub(super) waiting: Vec<PageOnDisk>,
}

impl SiftedPages {
    /// The result of a sieve that all of WAL went through.
    fn of(sieve: Sieve, history: &WalHistory) -> Self {
        let wanted = sieve.wanted();
        let (mut contradicted, waiting) = sieve.finish();
        // What was removed meanwhile, or copied, is weighed record by record, unless the file was created or the page built after that.
        let is_made = |own: &&PageOnDisk| {
            let last = history.file_events(own.page).last();
            last.is_some_and(|event| {
                !matches!(event.what, LifeCycle::Created { .. }) && !own.is_built_after(event.start_lsn)
            })
        };
        let all: FxHashSet<PageId> = wanted.pages().iter().map(|own| own.page).collect();
        contradicted.extend(wanted.pages().iter().filter(is_made).map(|own| own.page));
        contradicted.sort_unstable();
        contradicted.dedup();
        Self { all, contradicted, waiting }
    }
}

pub(super) struct WalRead {
    pub(super) replay: Replay,
    /// History of the pages of `interest`.
    pub(super) history: WalHistory,
    pub(super) interest: Interest,
    /// Pages that recovery needs on disk, if requested.
    pub(super) needed: Option<Needed>,
    /// What was sifted, if that was asked and WAL has no gap.
    pub(super) sifted: Option<SiftedPages>,
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
    pub(super) fn nothing(case: &Case<'_>, question: WalQuestion) -> Self {
        let WalQuestion { interest, needed, .. } = question;
        let mut history = WalHistory::new(&interest);
        history.is_minimal = case.control.is_some_and(|control| control.wal_level == WAL_LEVEL_MINIMAL);
        // Where no checksum protects pages, what records put into them is kept.
        history.changes = (!case.has_checksums).then(|| ChangeLog::of(interest.pages().len()));
        let mut replay = case.replay.clone();
        if case.server.may_be_running() {
            replay.doubts.push(Doubt::MayBeRunning);
        }
        Self { replay, history, interest, needed, sifted: None, coverage: Coverage::default() }
    }
}

/// Reads WAL from its beginning to its end.
pub(super) fn read_wal(case: &Case<'_>, mut question: WalQuestion, progress: &CheckProgress<'_>) -> WalRead {
    let sieve = question.sieve.take();
    sieve.iter().for_each(|sieve| question.interest.add_sieved(sieve.wanted().pages()));
    let WalRead { mut replay, mut history, interest, needed, mut coverage, .. } = WalRead::nothing(case, question);
    (history.needed, history.sieve) = (needed, sieve);
    let mut is_read = true;
    let read = AtomicU64::new(0);
    let watch = |bytes| progress.at(Stage::Wal, read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
    // Where nothing is wrong with any page, older WAL has nothing more to say.
    let is_wanted = !interest.is_empty() || replay.redo_lsn.is_none();
    if let Some(set) = case.wal.most().filter(|_| is_wanted) {
        for error in read_before(set, replay.redo_lsn, &mut history, &interest, case.jobs, &watch) {
            coverage.skip(SkippedPart::WalBeforeRedo, error);
            is_read = false;
        }
    }
    match &case.wal.own {
        Some(set) => {
            if let Err(error) = replay.read_to_end(set, case.control, &mut history, &interest, case.jobs, &watch) {
                replay.doubts.push(Doubt::WalUnreadable { error: ErrorWords::from(&error) });
                coverage.skip(SkippedPart::Wal, error);
                is_read = false;
            }
            match doubt_of_end(&replay, set, case.wal.all.as_ref(), &case.wal.marks) {
                Ok(doubt) => replay.doubts.extend(doubt),
                Err(error) => coverage.skip(SkippedPart::WalAfterEnd, error),
            }
        }
        None => {
            replay.doubts.push(Doubt::NoWal);
            is_read = false;
        }
    }
    let is_whole = is_read && history.stretches().len() == 1 && !progress.is_broken_off();
    let sifted = history.sieve.take().filter(|_| is_whole).map(|sieve| SiftedPages::of(sieve, &history));
    replay.weigh_left_out(&case.wal.unknown_versions, &case.wal.denied, case.control);
    if let Some(cut) = history.changes.as_ref().and_then(ChangeLog::cut) {
        coverage.skip(SkippedPart::RowsWithoutChecksum, SkipReason::NoRoomForChanges { end_lsn: cut });
    }
    if let Some(from) = history.full_from() {
        coverage.skip(SkippedPart::RestOfWal, SkipReason::NoRoomForRecords { from });
    }
    let needed = history.needed.take();
    WalRead { replay, history, interest, needed, sifted, coverage }
}

/// How often WAL is read at most. Pages that are left then are judged with all that is known of them.
const MAX_ROUNDS: usize = 8;

/// Those of the pages that WAL may contradict, or that it says too little of to tell. `first`: what was read before.
pub(super) fn sift(
    mut wanted: Vec<PageOnDisk>,
    first: &WalRead,
    case: &Case<'_>,
    progress: &CheckProgress<'_>,
) -> Vec<PageId> {
    let mut found = Vec::new();
    for _ in 0..MAX_ROUNDS {
        if wanted.is_empty() || progress.is_broken_off() {
            break;
        }
        let count = wanted.len();
        match sift_once(wanted, first, case, progress) {
            Ok(sifted) => {
                found.extend(sifted.contradicted);
                wanted = sifted.waiting;
            }
            Err(unsifted) => {
                wanted = unsifted;
                break;
            }
        }
        if wanted.len() == count {
            break;
        }
    }
    found.extend(wanted.into_iter().map(|own| own.page));
    found
}

/// The pages that are contradicted, and those that there was no room for; all of them as they were where WAL has gaps, or cannot be read to its end.
fn sift_once(
    wanted: Vec<PageOnDisk>,
    first: &WalRead,
    case: &Case<'_>,
    progress: &CheckProgress<'_>,
) -> Result<SiftedPages, Vec<PageOnDisk>> {
    let redo_lsn = first.replay.redo_lsn.unwrap_or_default();
    let next_xid = first.replay.next_xid.unwrap_or_default();
    let mut interest = Interest::default();
    interest.add_sieved(&wanted);
    let mut history = WalHistory::new(&interest);
    history.sieve = Some(Sieve::new(wanted, &case.pages, case.files.block_size, (redo_lsn, next_xid)));
    let read = AtomicU64::new(0);
    let watch = |bytes| progress.at(Stage::Wal, read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
    let before =
        case.wal.most().map(|set| read_before(set, Some(redo_lsn), &mut history, &interest, case.jobs, &watch));
    let mut replay = case.replay.clone();
    let after = case
        .wal
        .own
        .as_ref()
        .map(|set| replay.read_to_end(set, case.control, &mut history, &interest, case.jobs, &watch));
    let is_read = before.is_none_or(|errors| errors.is_empty()) && matches!(after, Some(Ok(())));
    let is_whole = is_read && history.stretches().len() == 1 && !progress.is_broken_off();
    let Some(sieve) = history.sieve.take() else { return Ok(SiftedPages::default()) };
    if is_whole { Ok(SiftedPages::of(sieve, &history)) } else { Err(sieve.into_pages()) }
}
