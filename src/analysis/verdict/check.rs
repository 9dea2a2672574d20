//! The whole check: slots against pages, WAL, and the verdict on every damaged page.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::compare::Comparison;
use super::history::{Interest, WalHistory};
use super::outlook::Outlook;
use super::replay::{Replay, read_before};
use super::slots::{CompareRules, SlotRef, Suspicion, compare_slots};
use super::survey::{Context, PageReport};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::slot_facts::WritePath;
use crate::analysis::staleness::{HeaderAge, Staleness};
use crate::analysis::trace::ClusterFacts;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::PageSource;
use crate::cluster::wal::WalSet;
use crate::parsers::control::ControlFile;
use crate::types::{Lsn, PageId};

/// What the check works on.
pub struct CheckInput<'a> {
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
    /// All usable slots; sorted by the check.
    pub slots: Vec<SlotRef>,
    /// Pages that a scan of the relation files found.
    pub suspects: BTreeMap<PageId, Suspicion>,
    /// Newest LSN of a sound page and which page, if the relation files were scanned.
    pub newest_page: Option<(Lsn, String)>,
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
pub fn check(mut input: CheckInput<'_>, progress: &dyn Fn(Stage, u64) -> ControlFlow<()>) -> CheckReport {
    let mut coverage = Coverage::default();
    let mut replay = input.replay;
    let dwb_doubts = dwb_doubts(input.staleness);
    if input.may_be_running {
        replay
            .doubts
            .push("a server may be running on this directory, and files change while they are read".to_owned());
    }
    input.slots.sort_unstable();
    let mut suspects = input.suspects;
    let checksums = input.control.is_some_and(|control| control.checksums.is_enforced());
    let rules = CompareRules { block_size: input.block_size, checksums, redo_lsn: replay.redo_lsn };
    let mut compared = 0;
    let mut broken_off = false;
    compare_slots(
        input.dwb,
        &mut input.slots,
        input.pages,
        &rules,
        &mut coverage,
        |bytes| {
            compared += bytes;
            broken_off |= progress(Stage::Slots, compared).is_break();
            !broken_off
        },
        |page, suspicion| {
            // The scan's own finding says more than "differs".
            suspects.entry(page).or_insert(suspicion);
        },
    );
    let interest = interest_of(&suspects, &input.slots);
    let mut history = WalHistory::new(&interest);
    let wal_progress = |bytes| progress(Stage::Wal, bytes);
    if broken_off {
        replay.doubts.push("the check was broken off".to_owned());
    } else {
        read_wal(
            &input.own_wal,
            &input.all_wal,
            input.control,
            &mut replay,
            &mut history,
            &interest,
            &mut coverage,
            &wal_progress,
        );
    }
    if let Some((lsn, page)) = &input.newest_page {
        replay.note_page_lsn(*lsn, page);
    }
    let mut report = CheckReport {
        outlook: Outlook::of(&[], &replay, input.may_be_running, input.uses_dwb),
        replay,
        pages: Vec::new(),
        slots: input.slots,
        history,
        interest,
        findings: Vec::new(),
        coverage,
    };
    let context = Context {
        pages: input.pages,
        dwb: input.dwb,
        staleness: input.staleness,
        block_size: input.block_size,
        checksums,
        lowest_wal_lsn: input.facts.lowest_wal_lsn,
        replay: &report.replay,
        history: &report.history,
        interest: &report.interest,
        dwb_doubts: &dwb_doubts,
        specials: RefCell::default(),
    };
    for (done, (page, suspicion)) in (0..).zip(&suspects) {
        let own = slots_of(&report.slots, *page);
        match context.examine(*page, *suspicion, own) {
            Ok(found) => report.pages.extend(Some(found).filter(|found| found.is_wrong || input.keep_all)),
            Err(error) => report.coverage.skip(format!("{} {} block {}", page.rel, page.fork, page.block), error),
        }
        if progress(Stage::Pages, done).is_break() {
            broken_off = true;
            break;
        }
    }
    if broken_off {
        report.coverage.skip("the rest of the check", "interrupted: pages are missing from the result");
    }
    settle_slots(&mut report);
    report.outlook = Outlook::of(&report.pages, &report.replay, input.may_be_running, input.uses_dwb);
    report
}

/// The slots of one page, in a list sorted by page.
#[must_use]
pub fn slots_of(slots: &[SlotRef], page: PageId) -> &[SlotRef] {
    let first = slots.partition_point(|slot| slot.page < page);
    let count = slots.get(first..).unwrap_or_default().partition_point(|slot| slot.page == page);
    slots.get(first..first + count).unwrap_or_default()
}

fn interest_of(suspects: &BTreeMap<PageId, Suspicion>, slots: &[SlotRef]) -> Interest {
    let mut interest = Interest::default();
    for (page, suspicion) in suspects {
        if *suspicion == Suspicion::MissingFile {
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

#[allow(clippy::too_many_arguments, reason = "what reading WAL changes, side by side")]
fn read_wal(
    own: &Option<&WalSet>,
    all: &Option<&WalSet>,
    control: Option<&ControlFile>,
    replay: &mut Replay,
    history: &mut WalHistory,
    interest: &Interest,
    coverage: &mut Coverage,
    progress: &dyn Fn(u64) -> ControlFlow<()>,
) {
    if let Some(set) = all.or(*own) {
        let (bytes, errors) = read_before(set, replay.redo_lsn, history, interest, progress);
        replay.bytes_read += bytes;
        for error in errors {
            coverage.skip("WAL before the redo point", error);
        }
    }
    let Some(set) = own else {
        replay.doubts.push("pg_wal holds no WAL of this cluster".to_owned());
        return;
    };
    let before = replay.bytes_read;
    let further = |bytes: u64| progress(before + bytes);
    if let Err(error) = replay.read_to_end(set, control, history, interest, &further) {
        replay.doubts.push(format!("WAL cannot be read: {error}"));
        coverage.skip("WAL", error);
    }
}

/// What keeps every image of the double write buffer from being trusted.
fn dwb_doubts(staleness: &Staleness) -> Vec<String> {
    let foreign = staleness.header_age == Some(HeaderAge::Newer);
    let text = "the double write buffer is newer than pg_control: they do not belong together".to_owned();
    foreign.then_some(text).into_iter().collect()
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
