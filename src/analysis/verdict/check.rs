//! The whole check: slots against pages, WAL, and the verdict on every damaged page. Each stage is a piece of its own; here
//! they are put one after the other.

mod compare;
mod further;
mod input;
mod judge;
mod predict;
mod progress;
mod read_wal;
mod sift;
mod tables;
mod weigh;

use super::doubt::{Doubt, NotRead};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::FxHashSet;

pub use self::input::{CheckInput, ClusterInput, DwbInput, NameInput, ScanInput, Scope, WalInput, Witnesses};
pub use self::progress::{Stage, StageWatch};

use self::compare::compare;
use self::further::find_further;
use self::judge::{Suspects, judge_pages};
use self::predict::{name_slots, predict};
use self::progress::CheckProgress;
use self::read_wal::{WalQuestion, WalRead, read_wal};
use self::sift::sift;
use self::tables::weigh_tables;
use self::weigh::{DoubtSources, doubts_of_cluster};
use super::history::WalHistory;
use super::interest::Interest;
use super::missing_wal::WalNames;
use super::needed::Needed;
use super::outlook::Outlook;
use super::replay::Replay;
use super::slots::{SlotRef, Suspicion, slots_of};
use super::survey::{Context, PageReport};
use super::zeroed::{MAX_ZEROED, ZeroedPages};
use crate::analysis::coverage::Coverage;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::cluster::donor::Donor;
use crate::types::{BlockNumber, ForkNumber, PageId, RelFileLocator};

/// Result of the check.
#[derive(Debug)]
pub struct CheckReport {
    /// The prediction of recovery.
    pub replay: Replay,
    /// Pages that something is wrong with, by identity.
    pub pages: Vec<PageReport>,
    /// Every usable slot, compared, by page.
    pub slots: Vec<SlotRef>,
    /// The prediction of startup.
    pub outlook: Outlook,
    /// History of the pages from WAL.
    pub history: WalHistory,
    /// The pages that `history` is of.
    pub interest: Interest,
    /// Coverage.
    pub coverage: Coverage,
}

/// Runs the check. `watch` gets the stage and its progress, and can interrupt.
pub fn check(input: CheckInput<'_>, watch: StageWatch<'_>) -> CheckReport {
    let CheckInput { jobs, scope, cluster, dwb, wal, donors, scan, names, will_rebuild, mut coverage } = input;
    let (set, staleness) = (dwb.set, dwb.staleness);
    let progress = CheckProgress::new(watch, coverage.is_interrupted());

    let compared = compare(dwb, scan.suspects, scope, &cluster, jobs, &progress);
    coverage.append_once(compared.coverage);
    let (slots, mut suspects) = (compared.slots, compared.suspects);

    if !donors.is_empty() {
        // Where an older copy has content that nothing removed since, zeros are damage, even if no record is left of it.
        suspects.extend(zeroed_suspects(&scan.zeroed, &suspects, &mut coverage));
    }
    let zeroed = cluster.replay.redo_lsn.and_then(|redo_lsn| ZeroedPages::of(&scan.zeroed, redo_lsn));
    let question = first_question(&suspects, &slots, scope, &cluster, names.exists);
    let question = WalQuestion { zeroed, ..question };
    let read = if progress.is_broken_off() {
        WalRead::nothing(&cluster, question)
    } else {
        let first = read_wal(&wal, &cluster, question, jobs, &progress);
        let mut further = find_further(&first, &cluster);
        coverage.append_once(further.coverage);
        // Slots and older copies are images, too, and links name pages.
        let is_plain = |page: PageId| slots_of(&slots, page).is_empty() && !scan.impossible.contains_key(&page);
        let has_donors = !donors.is_empty();
        let (plain, others): (Vec<_>, Vec<_>) =
            further.touched.into_iter().partition(|own| !has_donors && is_plain(own.page));
        let sifted = sift(plain, &first, &wal, &cluster, jobs, &progress);
        let touched = others.into_iter().map(|own| own.page).chain(sifted);
        further.suspects.extend(touched.map(|page| (page, Suspicion::Differs)));
        if further.suspects.is_empty() {
            first
        } else {
            // What WAL says of these pages is read now, together with all the rest.
            let rels: FxHashSet<RelFileLocator> = further.suspects.iter().map(|(page, _)| page.rel).collect();
            suspects.extend(further.suspects);
            let should_exist = |rel| (names.exists)(rel) || rels.contains(&rel);
            read_wal(&wal, &cluster, WalQuestion::about(&suspects, &slots, &should_exist), jobs, &progress)
        }
    };
    let WalRead { mut replay, history, interest, coverage: unread, .. } = read;
    coverage.append_once(unread);
    gather(donors, &suspects, &mut coverage);

    let wal_names = wal.all.or(wal.own).map(WalNames::of);
    let context = Context {
        pages: cluster.pages,
        dwb: set,
        staleness,
        donors,
        block_size: cluster.block_size,
        checksums: cluster.has_checksums,
        lowest_wal_lsn: cluster.lowest_wal_lsn,
        replay: &replay,
        history: &history,
        interest: &interest,
        wal_names: wal_names.as_ref(),
        dwb_doubts: &staleness.doubts(),
        exists: names.exists,
        proofs: scan.proofs,
        impossible: scan.impossible,
        named: BTreeMap::new(),
        specials: RefCell::default(),
        unread: RefCell::default(),
    };
    let keep_all = matches!(scope, Scope::Page(_));
    let judged =
        judge_pages(&Suspects { pages: &suspects, slots: &slots, named: scan.named, keep_all }, context, &progress);
    coverage.append_once(judged.coverage);
    let is_broken_off = progress.is_broken_off();
    if is_broken_off {
        coverage.skip_once(SkippedPart::RestOfCheck, SkipReason::Interrupted(Lacking::Pages));
    }
    let mut pages = judged.pages;
    let sources = DoubtSources {
        newest_written: compared.newest_written,
        witnesses: scan.witnesses,
        pages: &pages,
        called: names.called,
        will_rebuild,
        is_broken_off,
    };
    replay.doubts = doubts_of_cluster(&replay, sources, &mut coverage);
    pages.iter_mut().for_each(|page| page.weigh(&replay.doubts));
    if scope != Scope::All {
        // For sound pages alone nothing else was read.
        let unread = [Doubt::PagesNotRead { why: NotRead::PageIsSound }];
        pages.iter_mut().filter(|page| !page.is_wrong).for_each(|page| page.verdict.weigh(&unread));
    }
    weigh_tables(&mut pages, &names);

    let outlook = predict(&pages, &replay, &cluster, scope);
    let slots = name_slots(slots, &pages, &history);
    CheckReport { replay, pages, slots, outlook, history, interest, coverage }
}

/// Pages of zeros that nobody suspects yet.
fn zeroed_suspects(
    zeroed: &[(RelFileLocator, Range<BlockNumber>)],
    suspects: &BTreeMap<PageId, Suspicion>,
    coverage: &mut Coverage,
) -> Vec<(PageId, Suspicion)> {
    let page = |rel: RelFileLocator, block: BlockNumber| PageId { rel, fork: ForkNumber::Main, block };
    let all = zeroed.iter().flat_map(|(rel, blocks)| blocks.clone().map(move |block| page(*rel, block)));
    let mut found: Vec<(PageId, Suspicion)> = all
        .filter(|page| !suspects.contains_key(page))
        .map(|page| (page, Suspicion::Zeroed))
        .take(MAX_ZEROED.saturating_add(1))
        .collect();
    if found.len() > MAX_ZEROED {
        found.truncate(MAX_ZEROED);
        coverage.skip(SkippedPart::MorePagesZeroed, SkipReason::TooManyZeroed { limit: MAX_ZEROED });
    }
    found
}

/// Has the donors find the pages under suspicion, as far as they must be read from their beginning for that.
fn gather(donors: &mut [Donor], suspects: &BTreeMap<PageId, Suspicion>, coverage: &mut Coverage) {
    if donors.is_empty() {
        return;
    }
    let wanted: BTreeSet<PageId> = suspects.keys().copied().collect();
    for donor in donors {
        let path = donor.path().display().to_string();
        if let Err(error) = donor.gather(&wanted) {
            coverage.skip_once(SkippedPart::file(path), error);
        }
    }
}

/// The first question to WAL: everything about the suspects, and everything that shows new suspects.
fn first_question(
    suspects: &BTreeMap<PageId, Suspicion>,
    slots: &[SlotRef],
    scope: Scope,
    cluster: &ClusterInput<'_>,
    exists: &dyn Fn(RelFileLocator) -> bool,
) -> WalQuestion {
    WalQuestion {
        needed: cluster.replay.redo_lsn.filter(|_| scope == Scope::All).map(Needed::from),
        ..WalQuestion::about(suspects, slots, exists)
    }
}
