//! The whole check: slots against pages, WAL, and the verdict on every damaged page. Each stage is a piece of its own; here
//! they are put one after the other.
//! The other stages are in `read_wal` and `weigh`.

mod input;
mod read_wal;
mod weigh;

pub use self::input::Stage;
pub(crate) use self::input::{Found, StageWatch, Witnesses};
pub use super::case::Scope;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use roaring::RoaringBitmap;
use rustc_hash::{FxHashMap, FxHashSet};

use self::input::CheckProgress;
use self::read_wal::{WalQuestion, WalRead, read_wal, sift};
use self::weigh::{DoubtSources, doubts_of_cluster, weigh_tables};
use super::case::Case;
use super::outlook::{Outlook, StartConditions};
use super::survey::{Context, PageReport};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::changes::needed::{Needed, Suspicion};
use crate::analysis::changes::sieve::{PageOnDisk, Sieve};
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slot_facts::WritePath;
use crate::analysis::dwb::slots::{CompareRules, SlotRef, compare_slots, slots_of};
use crate::analysis::pages::page_links::BrokenLink;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::{Doubt, LsnWitness, NotRead};
use crate::analysis::start::missing_wal::WalNames;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::analysis::verdict::rebuilt_proof::Proofs;
use crate::cluster::donor::Donor;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::is_all_zero;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

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

/// Judges the pages of a case. `watch` gets the stage and its progress, and can interrupt.
pub(crate) fn check(case: &Case<'_>, donors: &mut [Donor], found: Found<'_>, watch: StageWatch<'_>) -> CheckReport {
    let Found { suspects, zeroed, named, impossible, witnesses, proofs, slots, obstacle, of_pages, mut coverage } =
        found;
    let scope = case.scope;
    let progress = CheckProgress::new(watch, coverage.is_interrupted());

    let compared = compare(case, slots, suspects, &progress);
    coverage.append_once(compared.coverage);
    let (slots, mut suspects) = (compared.slots, compared.suspects);

    if !donors.is_empty() {
        // Where an older copy has content that nothing removed since, zeros are damage, even if no record is left of it.
        suspects.extend(zeroed_suspects(&zeroed, &suspects, &mut coverage));
    }
    let is_plain = |page: PageId| slots_of(&slots, page).is_empty() && !impossible.contains_key(&page);
    let may_wait = donors.is_empty() && scope == Scope::All && case.replay.recovery == Recovery::Crash;
    // After a crash pages are named that replay will make. Only of others does older WAL say more.
    let waits = |page: &PageId, suspicion: &Suspicion| {
        let is_absent = matches!(suspicion, Suspicion::Zeroed | Suspicion::BeyondEnd);
        may_wait && is_absent && named.contains_key(page) && is_plain(*page) && !proofs.wrong.contains_key(page)
    };
    let (waiting, mut suspects): (BTreeMap<_, _>, BTreeMap<_, _>) =
        suspects.into_iter().partition(|(page, suspicion)| waits(page, suspicion));
    let question = first_question(case, &suspects, &slots);
    let may_sift = |page: PageId| is_plain(page) && !suspects.contains_key(&page);
    let sieve = if donors.is_empty() && scope == Scope::All { sieve(proofs, case, &may_sift) } else { None };
    let question = WalQuestion { sieve, ..question };
    let read = if progress.is_broken_off() {
        suspects.extend(waiting);
        WalRead::nothing(case, question)
    } else {
        let first = read_wal(case, question, &progress);
        let mut further = find_further(&first, case, (&zeroed, proofs));
        coverage.append_once(further.coverage);
        // Slots and older copies are images, too, and links name pages.
        let has_donors = !donors.is_empty();
        let (plain, others): (Vec<PageOnDisk>, Vec<_>) =
            further.touched.into_iter().partition(|own| !has_donors && is_plain(own.page));
        let with_base = |own: PageOnDisk| own.built_at(&proofs.bases);
        let plain = plain.into_iter().map(with_base).collect();
        let sifted = sift(plain, &first, case, &progress);
        let touched = others.into_iter().map(|own| own.page).chain(sifted).chain(further.contradicted);
        further.suspects.extend(touched.map(|page| (page, Suspicion::Differs)));
        let needed = first.needed.as_ref().filter(|_| first.replay.can_begin);
        let is_made = |page: PageId| needed.is_some_and(|needed| needed.builds(page));
        further.suspects.extend(waiting.into_iter().filter(|(page, _)| !is_made(*page)));
        if further.suspects.is_empty() {
            first
        } else {
            // What WAL says of these pages is read now, together with all the rest.
            let rels: FxHashSet<RelFileLocator> = further.suspects.iter().map(|(page, _)| page.rel).collect();
            suspects.extend(further.suspects);
            let should_exist = |rel| case.names.has(rel) || rels.contains(&rel);
            read_wal(case, WalQuestion::about(&suspects, &slots, &should_exist), &progress)
        }
    };
    let WalRead { mut replay, history, interest, coverage: unread, .. } = read;
    coverage.append_once(unread);
    gather(donors, &suspects, &mut coverage);

    let wal_names = case.wal.most().map(WalNames::of);
    let context = Context {
        case,
        donors,
        replay: &replay,
        history: &history,
        interest: &interest,
        wal_names: wal_names.as_ref(),
        dwb_doubts: &case.dwb.staleness.doubts(),
        proofs,
        impossible,
        named: BTreeMap::new(),
        specials: RefCell::default(),
        unread: RefCell::default(),
    };
    let keep_all = matches!(scope, Scope::Page(_));
    let judged = judge_pages(&Suspects { pages: &suspects, slots: &slots, named, keep_all }, context, &progress);
    coverage.append_once(judged.coverage);
    let is_broken_off = progress.is_broken_off();
    if is_broken_off {
        coverage.skip_once(SkippedPart::RestOfCheck, SkipReason::Interrupted(Lacking::Pages));
    }
    let mut pages = judged.pages;
    let sources = DoubtSources { newest_written: compared.newest_written, witnesses, pages: &pages, is_broken_off };
    replay.doubts = doubts_of_cluster(case, &replay, sources, &mut coverage);
    pages.iter_mut().for_each(|page| page.weigh(&replay.doubts));
    if scope != Scope::All {
        // For sound pages alone nothing else was read.
        let unread = [Doubt::PagesNotRead { why: NotRead::PageIsSound }];
        pages.iter_mut().filter(|page| !page.is_wrong).for_each(|page| page.verdict.weigh(&unread));
    }
    weigh_tables(&mut pages, &case.names);

    let outlook = predict(&pages, &replay, case, (obstacle, of_pages));
    let slots = name_slots(slots, &pages, &history);
    CheckReport { replay, pages, slots, outlook, history, interest, coverage }
}

/// Blocks of a main fork that are all zero.
type ZeroedRange = (RelFileLocator, Range<BlockNumber>);

const MAX_ZEROED: usize = 100_000;

/// Pages of zeros that nobody suspects yet.
fn zeroed_suspects(
    zeroed: &[ZeroedRange],
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

/// Those of the pages that are all zero.
fn all_zero(pages: &[PageId], zeroed: &[ZeroedRange]) -> Vec<PageId> {
    let mut blocks: FxHashMap<RelFileLocator, RoaringBitmap> = FxHashMap::default();
    for (rel, range) in zeroed {
        blocks.entry(*rel).or_default().insert_range(range.clone());
    }
    let is_zero = |page: &&PageId| blocks.get(&page.rel).is_some_and(|blocks| blocks.contains(page.block));
    pages.iter().filter(is_zero).copied().collect()
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
fn first_question(case: &Case<'_>, suspects: &BTreeMap<PageId, Suspicion>, slots: &[SlotRef]) -> WalQuestion {
    WalQuestion {
        needed: case.replay.redo_lsn.filter(|_| case.scope == Scope::All).map(Needed::from),
        ..WalQuestion::about(suspects, slots, &|rel| case.names.has(rel))
    }
}

/// Slots compared with pages.
struct Compared {
    /// The slots of the pages that are judged, compared, by page.
    slots: Vec<SlotRef>,
    suspects: BTreeMap<PageId, Suspicion>,
    /// The newest LSN of a whole image that was copied under its lock, and its slot.
    newest_written: Option<(Lsn, LsnWitness)>,
    coverage: Coverage,
}

/// Compares the slots of all pages in the scope. `suspects` is what was found before: it says more than "differs".
fn compare(
    case: &Case<'_>,
    mut slots: Vec<SlotRef>,
    mut suspects: BTreeMap<PageId, Suspicion>,
    progress: &CheckProgress<'_>,
) -> Compared {
    let mut coverage = Coverage::default();
    let newest_written = newest_written(case.dwb_set, &slots, &case.pages, &mut coverage);
    slots.retain(|slot| case.scope.takes(slot.page));
    let rules = CompareRules {
        block_size: case.files.block_size,
        checksums: case.has_checksums,
        redo_lsn: case.replay.redo_lsn,
        jobs: case.jobs,
    };
    let mut compared = 0_u64;
    let watch = |bytes| {
        compared = compared.saturating_add(bytes);
        progress.at(Stage::Slots, compared).is_continue()
    };
    compare_slots(case.dwb_set, &mut slots, &case.pages, &rules, &mut coverage, watch, |page, suspicion| {
        suspects.entry(page).or_insert(suspicion);
    });
    Compared { slots, suspects, newest_written, coverage }
}

/// The newest LSN of a whole image that was copied under its lock, and its slot: a server writes WAL up to the LSN of a
/// page before it gives the page out. Relations that are not logged count changes of their own.
fn newest_written(
    set: &DwbSet,
    slots: &[SlotRef],
    pages: &dyn PageSource,
    coverage: &mut Coverage,
) -> Option<(Lsn, LsnWitness)> {
    let is_witness = |slot: &&SlotRef| {
        let mut is_logged = || {
            let has_init = pages.has_fork(slot.page.rel, ForkNumber::Init).unwrap_or_else(|error| {
                coverage.skip_once(SkippedPart::InitFork(slot.page.rel), error);
                true
            });
            slot.page.fork == ForkNumber::Init || !has_init
        };
        // Its own checksum is right, so its LSN is too, whatever the slot's CRC is worth.
        slot.path.is_some_and(WritePath::is_locked) && is_logged()
    };
    let mut slots: Vec<&SlotRef> = slots.iter().collect();
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.page_lsn));
    let newest = slots.into_iter().find(is_witness)?;
    let file = set.files.get(newest.file).map_or_else(String::new, |file| file.name.clone());
    Some((newest.page_lsn, LsnWitness::Slot { file, slot_index: newest.index }))
}

/// Pages whose rows are compared with WAL where no checksum protects them.
const MAX_TOUCHED: usize = 500_000;

struct Further {
    /// Pages that WAL was not asked about.
    suspects: Vec<(PageId, Suspicion)>,
    /// Where no checksum protects pages: those that replay touches, which rows and sectors may contradict.
    touched: Vec<PageOnDisk>,
    /// Those among them that were contradicted already.
    contradicted: Vec<PageId>,
    /// Unreadable parts, and parts beyond the limits.
    coverage: Coverage,
}

/// Reads pages that no checksum protects.
struct PageReader<'a> {
    pages: &'a dyn PageSource,
    bytes: Vec<u8>,
    next_xid: u32,
}

impl<'a> PageReader<'a> {
    fn new(case: &'a Case<'_>, next_xid: u32) -> Self {
        Self { pages: &case.pages, bytes: vec![0; case.files.block_size], next_xid }
    }

    /// `None` for pages of zeros, and for those that cannot be read, which is reported where all pages are read.
    fn read(&mut self, page: PageId) -> Option<PageOnDisk> {
        let is_whole = matches!(self.pages.read_page(page, &mut self.bytes), Ok(PageRead::Whole));
        (is_whole && !is_all_zero(&self.bytes)).then(|| PageOnDisk::of(page, &self.bytes, self.next_xid)).flatten()
    }
}

/// Where no checksum protects pages: a sieve for those that recovery replays, as far as they are known before WAL is read.
fn sieve(proofs: &Proofs, case: &Case<'_>, may_sift: &dyn Fn(PageId) -> bool) -> Option<Sieve> {
    let (redo_lsn, next_xid) = case.replay.redo_lsn.zip(case.replay.next_xid)?;
    let mut reader = PageReader::new(case, next_xid);
    let touched = proofs.touched.iter().copied().filter(|page| may_sift(*page));
    let wanted: Vec<PageOnDisk> =
        touched.filter_map(|page| Some(reader.read(page)?.built_at(&proofs.bases))).take(MAX_TOUCHED).collect();
    let is_any = !case.has_checksums && !wanted.is_empty() && case.replay.recovery.replays();
    is_any.then(|| Sieve::new(wanted, &case.pages, case.files.block_size, (redo_lsn, next_xid)))
}

/// Finds missing pages that recovery needs, zeroed pages that had content, and where no checksum protects them all that replay
/// touches.
fn find_further(read: &WalRead, case: &Case<'_>, (zeroed, proofs): (&[ZeroedRange], &Proofs)) -> Further {
    let mut coverage = Coverage::default();
    let (pages, block_size) = (&case.pages, case.files.block_size);
    let needed = read.needed.as_ref().filter(|_| read.replay.can_begin && read.replay.recovery.replays());
    let (mut touched, mut contradicted, mut count) = (Vec::new(), Vec::new(), 0_usize);
    if let Some(needed) = needed.filter(|_| !case.has_checksums) {
        let sifted = read.sifted.as_ref();
        let waiting = sifted.map_or(&[][..], |sifted| &sifted.waiting);
        let waiting: FxHashMap<PageId, &PageOnDisk> = waiting.iter().map(|own| (own.page, own)).collect();
        let mut reader = PageReader::new(case, read.replay.next_xid.unwrap_or_default());
        for page in needed.touched() {
            match (sifted.filter(|sifted| sifted.all.contains(&page)), waiting.get(&page)) {
                (Some(_), Some(own)) => touched.push((*own).clone()),
                (Some(sifted), None) => {
                    contradicted.extend(sifted.contradicted.binary_search(&page).is_ok().then_some(page));
                }
                (None, _) => match reader.read(page) {
                    Some(own) => touched.push(own),
                    None => continue,
                },
            }
            count = count.saturating_add(1);
            if count >= MAX_TOUCHED {
                break;
            }
        }
    }
    if count >= MAX_TOUCHED {
        coverage.skip(SkippedPart::MorePagesTouched, SkipReason::TooManyTouched { limit: MAX_TOUCHED });
    }
    let emptied = if read.replay.can_begin { proofs.emptied.as_slice() } else { &[] };
    let zeroed = all_zero(emptied, zeroed);
    if zeroed.len() > MAX_ZEROED {
        coverage.skip(SkippedPart::MorePagesZeroed, SkipReason::TooManyZeroed { limit: MAX_ZEROED });
    }
    let zeroed = zeroed.into_iter().take(MAX_ZEROED).map(|page| (page, Suspicion::Zeroed));
    let missing = needed.map(|needed| needed.missing(pages, block_size, &mut coverage));
    let is_new = |page: PageId| read.interest.index_of(page).is_none();
    let found = missing.into_iter().flatten().chain(zeroed);
    let suspects: Vec<(PageId, Suspicion)> = found.filter(|(page, _)| is_new(*page)).collect();
    touched.retain(|own| is_new(own.page));
    Further { suspects, touched, contradicted, coverage }
}

/// The suspects and the evidence against them.
struct Suspects<'a> {
    pages: &'a BTreeMap<PageId, Suspicion>,
    slots: &'a [SlotRef],
    /// Those among the pages that others name, with all who name them.
    named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    /// Also report those that turn out to be in order.
    keep_all: bool,
}

struct PagesJudged {
    /// Pages that something is wrong with, by identity.
    pages: Vec<PageReport>,
    coverage: Coverage,
}

fn judge_pages(suspects: &Suspects<'_>, mut context: Context<'_>, progress: &CheckProgress<'_>) -> PagesJudged {
    let mut pages: Vec<PageReport> = Vec::new();
    let mut coverage = Coverage::default();
    // Pages that others name come last: which of these are damaged themselves is known by then.
    let (named, others): (Vec<_>, Vec<_>) =
        suspects.pages.iter().partition(|(page, _)| suspects.named.contains_key(page));
    let first_named = others.len();
    for (done, (page, suspicion)) in others.into_iter().chain(named).enumerate() {
        if done == first_named {
            context.named = believed(suspects.named, &pages, context.case.has_checksums);
        }
        match context.examine(*page, *suspicion, slots_of(suspects.slots, *page)) {
            Ok(found) => pages.extend(Some(found).filter(|found| found.is_wrong || suspects.keep_all)),
            Err(error) => coverage.skip_once(*page, error),
        }
        if progress.at(Stage::Pages, done as u64).is_break() {
            break;
        }
    }
    pages.sort_by_key(|found| found.page);
    coverage.append_once(context.unread.into_inner());
    PagesJudged { pages, coverage }
}

/// The pages that others name, each by the one that can best be believed. Where no checksum vouches for what a page says,
/// one that is damaged itself is not a witness: what it seems to name may never have been.
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

fn predict(
    pages: &[PageReport],
    replay: &Replay,
    case: &Case<'_>,
    (obstacle, of_pages): (Option<Obstacle>, &[(PageId, Obstacle)]),
) -> Outlook {
    let given = StartConditions {
        scope: case.scope,
        may_be_running: case.server.may_be_running(),
        has_dwb: case.uses_dwb,
        applies_first: case.applies_first,
        checksums: case.has_checksums,
        obstacle,
        of_pages: of_pages.to_vec(),
    };
    Outlook::of(pages, replay, given)
}

/// Gives slots of damaged pages and of dropped relations their word.
fn name_slots(mut slots: Vec<SlotRef>, pages: &[PageReport], history: &WalHistory) -> Vec<SlotRef> {
    let disks: BTreeMap<PageId, Comparison> = pages.iter().map(|page| (page.page, page.disk)).collect();
    for slot in &mut slots {
        if let Some(word) = disks.get(&slot.page) {
            slot.comparison = Some(*word);
        } else if slot.comparison == Some(Comparison::MissingFile)
            && history.file_events(slot.page).any(|event| event.ends(slot.page))
        {
            slot.comparison = Some(Comparison::DroppedRelation);
        }
    }
    slots
}
