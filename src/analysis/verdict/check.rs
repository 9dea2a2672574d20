//! The whole check: slots against pages, WAL, and the verdict on every damaged page.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustc_hash::FxHashSet;

use super::candidate::CandidateOutcome;
use super::change_log::ChangeLog;
use super::compare::Comparison;
use super::doubt::Doubt;
use super::history::{Interest, WalHistory};
use super::needed::Needed;
use super::outlook::Outlook;
use super::replay::{Replay, read_before};
use super::slots::{CompareRules, SlotRef, Suspicion, compare_slots};
use super::survey::{Context, PageReport};
use super::unchecked::FirstTouches;
use crate::analysis::finding::{Coverage, Finding, SkipReason};
use crate::analysis::page_links::BrokenLink;
use crate::analysis::slot_facts::WritePath;
use crate::analysis::staleness::{HeaderAge, Staleness};
use crate::analysis::trace::ClusterFacts;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::PageSource;
use crate::cluster::wal::WalSet;
use crate::parsers::control::ControlFile;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// Pages whose rows are held against WAL where no checksum protects them.
const MAX_TOUCHED: usize = 500_000;

/// What the cluster as a whole says about where WAL ends.
pub enum Witnesses<'a> {
    /// All pages were read.
    Known {
        /// The newest LSN of a sound page of a logged relation, and which page.
        newest: Option<(Lsn, String)>,
        /// What else is doubtful about the relation files.
        doubts: Vec<Doubt>,
    },
    /// Only some pages are judged. When an image would be called safe, the whole cluster is asked what speaks against that,
    /// as a check of all of it would: a page from past the end of WAL shows that WAL is missing, whoever asks.
    Ask(&'a dyn Fn() -> (Vec<Doubt>, Coverage)),
}

/// What the check works on.
pub struct CheckInput<'a> {
    /// Threads.
    pub jobs: usize,
    /// The control file, if its CRC is right.
    pub control: Option<&'a ControlFile>,
    /// What recovery will do, as far as it is known before WAL is read.
    pub replay: Replay,
    /// Facts that slots are judged by.
    pub facts: &'a ClusterFacts,
    /// The pages.
    pub pages: &'a dyn PageSource,
    /// Bytes of a page.
    pub block_size: usize,
    /// The double write buffer.
    pub dwb: &'a DwbSet,
    /// Judgement of its batches.
    pub staleness: &'a Staleness,
    /// All usable slots, sorted. Those compared before are not compared again.
    pub slots: Vec<SlotRef>,
    /// Pages that a scan of the relation files found.
    pub suspects: BTreeMap<PageId, Suspicion>,
    /// Only this page; slots of others tell how far WAL had been written, no more.
    pub only: Option<PageId>,
    /// Heap pages of a cluster without checksums that show a transaction from behind the redo point.
    pub late_pages: Vec<PageId>,
    /// Look for pages that replay needs and that are not there.
    pub find_missing: bool,
    /// Whether the catalog has a relation with these files, beyond doubt.
    pub exists: &'a dyn Fn(RelFileLocator) -> bool,
    /// Pages that other pages of their index name, and that are all zero or not there, with all who name them.
    pub named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    /// What a relation is called: its name, or numbers where it has none.
    pub called: &'a dyn Fn(RelFileLocator) -> String,
    /// What all pages say about the end of WAL.
    pub witnesses: Witnesses<'a>,
    /// What was not looked at until now; what the check adds to it is in the report.
    pub coverage: Coverage,
    /// WAL that recovery will read: that of `pg_wal`.
    pub own_wal: Option<&'a WalSet>,
    /// WAL from elsewhere, together with it.
    pub all_wal: Option<&'a WalSet>,
    /// A server may be running on the directory.
    pub may_be_running: bool,
    /// Also report suspects that turn out to be in order.
    pub keep_all: bool,
    /// The configuration says that the double write buffer is used.
    pub uses_dwb: bool,
}

/// What the check found.
#[derive(Debug)]
pub struct CheckReport {
    /// What recovery will do.
    pub replay: Replay,
    /// Pages that something is wrong with, by identity.
    pub pages: Vec<PageReport>,
    /// Every usable slot, compared, by page.
    pub slots: Vec<SlotRef>,
    /// What a start will bring.
    pub outlook: Outlook,
    /// What WAL says about the pages.
    pub history: WalHistory,
    /// The pages that `history` is of.
    pub interest: Interest,
    /// What looks wrong or is worth knowing.
    pub findings: Vec<Finding>,
    /// What was examined and what was not.
    pub coverage: Coverage,
}

/// Stages of a check, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The double write buffer is read and judged by itself; bytes of images.
    Read,
    /// Every page of every relation is read; bytes.
    Scan,
    /// Slots are compared with their pages; bytes of images.
    Slots,
    /// WAL is read; bytes.
    Wal,
    /// Damaged pages are judged; pages.
    Pages,
}

/// Runs the check. `progress` is told the stage and how far it is, and can break it off.
pub fn check(mut input: CheckInput<'_>, progress: &(dyn Fn(Stage, u64) -> ControlFlow<()> + Sync)) -> CheckReport {
    let mut coverage = std::mem::take(&mut input.coverage);
    // Whoever breaks it off at any stage has a partial result.
    let broken_off = AtomicBool::new(coverage.is_interrupted());
    let progress = &|stage, done| {
        let flow = progress(stage, done);
        broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    };
    let mut replay = input.replay.clone();
    let dwb_doubts = dwb_doubts(input.staleness);
    if input.may_be_running {
        replay.doubts.push(Doubt::MayBeRunning);
    }
    let written = newest_written(&input, &mut coverage);
    input.slots.retain(|slot| input.only.is_none_or(|page| page == slot.page));
    let mut suspects = std::mem::take(&mut input.suspects);
    let checksums = input.control.is_some_and(|control| control.checksums.is_enforced());
    let rules = CompareRules { block_size: input.block_size, checksums, redo_lsn: replay.redo_lsn, jobs: input.jobs };
    let mut compared = 0_u64;
    compare_slots(
        input.dwb,
        &mut input.slots,
        input.pages,
        &rules,
        &mut coverage,
        |bytes| {
            compared = compared.saturating_add(bytes);
            progress(Stage::Slots, compared).is_continue()
        },
        |page, suspicion| {
            // The scan's own finding says more than "differs".
            suspects.entry(page).or_insert(suspicion);
        },
    );
    let mut interest = interest_of(&suspects, &input.slots, input.exists);
    let mut history = new_history(&interest, checksums);
    let late_pages = std::mem::take(&mut input.late_pages);
    history.first_touches =
        replay.next_xid.filter(|_| !late_pages.is_empty()).map(|next| FirstTouches::of(late_pages, next));
    history.needed = replay.redo_lsn.filter(|_| input.find_missing).map(Needed::from);
    if !broken_off.load(Ordering::Relaxed) {
        let before = replay.clone();
        let mut unread = Coverage::default();
        read_wal(&input, &mut replay, &mut history, &interest, &mut unread, progress);
        let needed = history.needed.take().filter(|_| replay.can_begin && replay.recovery.replays());
        // Without checksums every page that replay touches is held against the records.
        let touched: Vec<PageId> = match &needed {
            Some(needed) if !checksums => needed.touched(input.pages, input.block_size).take(MAX_TOUCHED).collect(),
            _ => Vec::new(),
        };
        if touched.len() >= MAX_TOUCHED {
            coverage
                .skip("more pages that replay touches", format!("rows of {MAX_TOUCHED} pages are held against WAL"));
        }
        let missing = needed.map(|needed| needed.missing(input.pages, input.block_size, &mut coverage));
        let ahead = history.first_touches.take().filter(|_| replay.can_begin);
        let ahead = ahead.map(|touches| touches.ahead(input.pages, input.block_size, &mut coverage));
        let ahead = ahead.into_iter().flatten().map(|page| (page, Suspicion::Differs));
        let further: Vec<_> = missing
            .into_iter()
            .flatten()
            .chain(ahead)
            .chain(touched.into_iter().map(|page| (page, Suspicion::Differs)))
            .filter(|(page, _)| interest.place(*page).is_none())
            .collect();
        if !further.is_empty() {
            // Nobody suspected these pages: what WAL says of them is read now, together with all the rest.
            let rels: FxHashSet<RelFileLocator> = further.iter().map(|(page, _)| page.rel).collect();
            suspects.extend(further);
            interest = interest_of(&suspects, &input.slots, &|rel| (input.exists)(rel) || rels.contains(&rel));
            history = new_history(&interest, checksums);
            replay = before;
            unread = Coverage::default();
            read_wal(&input, &mut replay, &mut history, &interest, &mut unread, progress);
        }
        coverage.append_once(unread);
        if let Some(cut) = history.changes.as_ref().and_then(ChangeLog::cut) {
            coverage.skip(
                "rows of pages without checksum",
                format!("held against WAL before {cut} only, for want of room"),
            );
        }
    }
    if let Some((lsn, place)) = &written {
        replay.note_page_lsn(*lsn, place);
    }
    if let Witnesses::Known { newest, doubts } = &mut input.witnesses {
        if let Some((lsn, page)) = newest {
            replay.note_page_lsn(*lsn, page);
        }
        replay.doubts.append(doubts);
    }
    let mut report = CheckReport {
        outlook: Outlook::of(&[], &replay, input.may_be_running, input.uses_dwb, checksums),
        replay,
        pages: Vec::new(),
        slots: std::mem::take(&mut input.slots),
        history,
        interest,
        findings: Vec::new(),
        coverage,
    };
    examine_all(&input, &suspects, checksums, &dwb_doubts, &mut report, progress);
    if broken_off.load(Ordering::Relaxed) {
        report.replay.doubts.push(Doubt::BrokenOff);
        report
            .coverage
            .skip_once("the rest of the check", SkipReason::Interrupted("pages are missing from the result"));
    }
    weigh_all(&input, &mut report);
    settle_slots(&mut report);
    report.outlook = Outlook::of(&report.pages, &report.replay, input.may_be_running, input.uses_dwb, checksums);
    report
}

/// An empty history of the pages of `interest`; where no checksum protects them, also of what records put into them.
fn new_history(interest: &Interest, checksums: bool) -> WalHistory {
    let mut history = WalHistory::new(interest);
    history.changes = (!checksums).then(|| ChangeLog::of(interest.pages().len()));
    history
}

/// Judges all suspects by what the report knows so far.
fn examine_all(
    input: &CheckInput<'_>,
    suspects: &BTreeMap<PageId, Suspicion>,
    checksums: bool,
    dwb_doubts: &[Doubt],
    report: &mut CheckReport,
    progress: &(dyn Fn(Stage, u64) -> ControlFlow<()> + Sync),
) {
    let mut context = Context {
        pages: input.pages,
        dwb: input.dwb,
        staleness: input.staleness,
        block_size: input.block_size,
        checksums,
        lowest_wal_lsn: input.facts.lowest_wal_lsn,
        replay: &report.replay,
        history: &report.history,
        interest: &report.interest,
        dwb_doubts,
        exists: input.exists,
        named: BTreeMap::new(),
        specials: RefCell::default(),
        unread: RefCell::default(),
    };
    // Pages that others name come last: which of these are damaged themselves is known by then.
    let (named, others): (Vec<_>, Vec<_>) = suspects.iter().partition(|(page, _)| input.named.contains_key(page));
    let first_named = others.len();
    for (place, (page, suspicion)) in others.into_iter().chain(named).enumerate() {
        if place == first_named {
            context.named = believed(input.named, &report.pages, checksums);
        }
        let own = slots_of(&report.slots, *page);
        match context.examine(*page, *suspicion, own) {
            Ok(found) => report.pages.extend(Some(found).filter(|found| found.is_wrong || input.keep_all)),
            Err(error) => {
                report.coverage.skip_once(format!("{} {} block {}", page.rel, page.fork, page.block), error);
            }
        }
        if progress(Stage::Pages, place as u64).is_break() {
            break;
        }
    }
    report.pages.sort_by_key(|found| found.page);
    report.coverage.append_once(context.unread.into_inner());
}

/// The pages that others name, each by the one that can best be believed. Where no checksum vouches for what a page says,
/// one that is damaged itself is no witness: what it seems to name may never have been.
fn believed(
    named: &BTreeMap<PageId, Vec<BrokenLink>>,
    examined: &[PageReport],
    checksums: bool,
) -> BTreeMap<PageId, BrokenLink> {
    let damaged: FxHashSet<PageId> = examined.iter().filter(|found| found.is_wrong).map(|found| found.page).collect();
    let is_believed = |link: &&BrokenLink| checksums || !damaged.contains(&link.namer());
    let best = |links: &[BrokenLink]| links.iter().filter(is_believed).max_by_key(|link| link.is_settled).copied();
    named.iter().filter_map(|(page, links)| Some((*page, best(links)?))).collect()
}

/// Gathers what is doubtful about the cluster as a whole, and lets it count against every image.
fn weigh_all(input: &CheckInput<'_>, report: &mut CheckReport) {
    note_damaged_witnesses(report, input.called);
    let is_safe =
        |page: &PageReport| page.verdict.candidates.iter().any(|judged| judged.outcome == CandidateOutcome::Safe);
    if let Witnesses::Ask(look) = input.witnesses
        && !report.replay.doubts.iter().any(Doubt::forbids_restore)
        && report.pages.iter().any(is_safe)
    {
        let (mut doubts, unread) = look();
        // It read the same WAL to its end.
        doubts.retain(|doubt| !report.replay.doubts.contains(doubt));
        report.replay.doubts.extend(doubts);
        report.coverage.append_once(unread);
    }
    if !report.replay.doubts.iter().any(|doubt| matches!(doubt, Doubt::SomethingUnread { .. })) {
        report.replay.doubts.extend(Doubt::of_unread(&report.coverage.skipped));
    }
    for page in &mut report.pages {
        page.verdict.weigh(&report.replay.doubts);
    }
}

/// What damaged pages say of the end of WAL: by their own header, else by the newest image of them. One of which neither is
/// left could have been the only one to show that WAL is missing.
fn note_damaged_witnesses(report: &mut CheckReport, called: &dyn Fn(RelFileLocator) -> String) {
    let Some(end_lsn) = report.replay.end_lsn else { return };
    let name = |page: PageId| format!("the {} page at block {} of {}", page.fork, page.block, called(page.rel));
    let logged = || report.pages.iter().filter(|page| page.is_wrong && !page.is_unlogged);
    let told = |page: &PageReport| {
        let lsn_of = |place: usize| page.verdict.candidates.get(place).map(|judged| judged.candidate.page_lsn);
        // Sectors of an image that reached the page: it was written, and WAL up to its LSN before that.
        let arrived = page.tear.as_ref().and_then(|tear| tear.newer).and_then(lsn_of);
        let images = || page.verdict.candidates.iter().map(|judged| judged.candidate.page_lsn).max();
        page.disk_lsn.max(arrived).or_else(images).map(|lsn| (lsn, page.page))
    };
    let newest = logged().filter_map(told).max();
    let silent: Vec<PageId> = logged().filter(|page| page.is_silent).map(|page| page.page).collect();
    if let Some((lsn, page)) = newest {
        report.replay.note_page_lsn(lsn, &name(page));
    }
    if let Some(first) = silent.first() {
        report.replay.doubts.push(Doubt::SilentPages {
            page: name(*first),
            more: silent.len().saturating_sub(1),
            end_lsn,
        });
    }
}

/// The newest LSN of a whole image that was copied under its lock, and its slot: a server writes WAL up to the LSN of a
/// page before it gives the page out. Relations that are not logged count changes of their own.
fn newest_written(input: &CheckInput<'_>, coverage: &mut Coverage) -> Option<(Lsn, String)> {
    let is_witness = |slot: &&SlotRef| {
        let mut is_logged = || {
            let has_init = input.pages.has_fork(slot.page.rel, ForkNumber::Init).unwrap_or_else(|error| {
                coverage.skip_once(format!("{} init", slot.page.rel), error);
                true
            });
            slot.page.fork == ForkNumber::Init || !has_init
        };
        // Its own checksum is right, so its LSN is too, whatever the slot's CRC is worth.
        slot.path == Some(WritePath::Eviction) && is_logged()
    };
    let mut slots: Vec<&SlotRef> = input.slots.iter().collect();
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.page_lsn));
    let newest = slots.into_iter().find(is_witness)?;
    let file = input.dwb.files.get(newest.file).map_or("", |file| file.name.as_str());
    Some((newest.page_lsn, format!("the image in {file} slot {}", newest.index)))
}

/// The slots of one page, in a list sorted by page.
#[must_use]
pub fn slots_of(slots: &[SlotRef], page: PageId) -> &[SlotRef] {
    let first = slots.partition_point(|slot| slot.page < page);
    let count = slots.get(first..).unwrap_or_default().partition_point(|slot| slot.page == page);
    slots.get(first..first.saturating_add(count)).unwrap_or_default()
}

fn interest_of(
    suspects: &BTreeMap<PageId, Suspicion>,
    slots: &[SlotRef],
    should_exist: &dyn Fn(RelFileLocator) -> bool,
) -> Interest {
    let mut interest = Interest::default();
    for (page, suspicion) in suspects {
        // Slots hold pages of many relations that were dropped long ago.
        if *suspicion == Suspicion::MissingFile && !should_exist(page.rel) {
            interest.add_relation(page.rel);
        } else {
            let place = interest.add(*page);
            for slot in slots_of(slots, *page).iter().filter(|slot| slot.path != Some(WritePath::Eviction)) {
                interest.watch(place, slot.page_lsn);
            }
        }
    }
    interest
}

fn read_wal(
    input: &CheckInput<'_>,
    replay: &mut Replay,
    history: &mut WalHistory,
    interest: &Interest,
    coverage: &mut Coverage,
    progress: &(dyn Fn(Stage, u64) -> ControlFlow<()> + Sync),
) {
    let read = AtomicU64::new(0);
    let watch = |bytes| progress(Stage::Wal, read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
    // Where nothing is wrong with any page, older WAL has nothing to say.
    let is_wanted = !interest.is_empty() || replay.redo_lsn.is_none();
    if let Some(set) = input.all_wal.or(input.own_wal).filter(|_| is_wanted) {
        for error in read_before(set, replay.redo_lsn, history, interest, input.jobs, &watch) {
            coverage.skip("WAL before the redo point", error);
        }
    }
    let Some(set) = input.own_wal else {
        replay.doubts.push(Doubt::NoWal);
        return;
    };
    if let Err(error) = replay.read_to_end(set, input.control, history, interest, input.jobs, &watch) {
        replay.doubts.push(Doubt::WalUnreadable { error: error.to_string() });
        coverage.skip("WAL", error);
    }
}

/// What keeps every image of the double write buffer from being trusted.
fn dwb_doubts(staleness: &Staleness) -> Vec<Doubt> {
    let foreign = staleness.header_age == Some(HeaderAge::Newer);
    foreign.then_some(Doubt::DwbNewerThanControl).into_iter().collect()
}

/// Gives slots of damaged pages and of dropped relations their word.
fn settle_slots(report: &mut CheckReport) {
    let told: BTreeMap<PageId, Comparison> = report.pages.iter().map(|page| (page.page, page.disk)).collect();
    for slot in &mut report.slots {
        if let Some(word) = told.get(&slot.page) {
            slot.comparison = Some(*word);
        } else if slot.comparison == Some(Comparison::MissingFile)
            && report.history.file_events(slot.page).any(|event| event.ends(slot.page))
        {
            slot.comparison = Some(Comparison::DroppedRelation);
        }
    }
}
