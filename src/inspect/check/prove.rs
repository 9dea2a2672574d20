//! Compares pages with the WAL that changed them. Lost writes show by LSNs alone. Pages of clusters without checksums can be proven: each
//! is built by replay up to its own LSN and compared with the disk.

use std::collections::BTreeMap;
use std::ops::Range;

use super::commits::{LostCommits, diverged, lost_multixacts, missing_prepared, strangers};
use super::ring::{ProofProgress, wal_bytes};
use super::{Remarks, Scope, Stage, Watch};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::changes::provable::{CommittedXact, OnCommits, Provable, WalBounds, WalPages};
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slot_facts::WritePath;
use crate::analysis::dwb::slots::{SlotRef, slots_of};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::pages::page_mask::{differences, sequence_values_differ};
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::verdict::case::Case;
use crate::analysis::verdict::rebuilt_proof::{Disproof, ProofReport, Proofs};
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::{Links, read_small};
use crate::cluster::page_source::{PageRead, PageSource};
use crate::cluster::wal::WalSet;
use crate::inspect::rebuild::ReplayOptions;
use crate::parsers::control::WAL_LEVEL_MINIMAL;
use crate::parsers::page::{PageHeader, is_all_zero};
use crate::rebuild::{
    BaseBytes, BuiltPage, NotBuilt, RebuildError, ReplayReport, ReplayRequest, SandboxOptions, ServerProgram,
    WantedPage, replay,
};
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// Pages that are built at once: so many are held in memory.
const BATCH_PAGES: usize = 8192;

/// Limit of listed missing or zero-filled pages.
const MAX_ABSENT: usize = 10_000;

/// Most bytes of a control file that are read.
const MAX_CONTROL_BYTES: u64 = 64 * 1024;

/// Finds pages that lack what WAL says they had, and where that is asked for, proves all pages that can be proven. Where pages
/// have checksums, nothing needs this proof.
pub(super) fn prove(
    case: &Case<'_>,
    slots: &[SlotRef],
    options: Option<&ReplayOptions>,
    watch: &dyn Watch,
    remarks: &mut Remarks,
) -> (Proofs, Option<ProofReport>) {
    let mut prover = Prover::new(case, slots, watch);
    // Of a cluster whose control file cannot be trusted, nothing is known.
    prover.report.is_needless = case.control.is_some() && !case.lacks_checksums();
    match options.filter(|_| !prover.report.is_needless) {
        Some(options) => {
            if let Err(why) = prover.prove_all(options, remarks) {
                remarks.coverage.skip(SkippedPart::ProofByReplay, why);
            }
        }
        None => {
            if let Err(why) = prover.find_lost_writes(remarks) {
                remarks.coverage.skip(SkippedPart::LostWrites, why);
            }
        }
    }
    let Prover { proofs, mut report, .. } = prover;
    (report.whole, report.wrong) = (proofs.whole.len() as u64, proofs.wrong.len() as u64);
    (proofs, options.map(|_| report))
}

/// A page to build, with known facts.
struct Task {
    provable: Provable,
    base: Base,
}

type Built<'t> = (&'t Task, Result<BuiltPage, NotBuilt>);

#[derive(Clone, Copy)]
enum Base {
    Record(Lsn),
    /// A slot, by its index in the list.
    Slot(usize),
}

pub(super) struct Prover<'a> {
    pub(super) case: &'a Case<'a>,
    slots: &'a [SlotRef],
    watch: &'a dyn Watch,
    proofs: Proofs,
    report: ProofReport,
    /// Pages that lack a record because they are missing or zero-filled; not yet looked for in the WAL after the redo point.
    absent: Vec<(Provable, Comparison)>,
}

/// Result of comparing a built page with the one on disk.
enum Finding {
    Whole,
    Undecided,
    Differs(Vec<Range<usize>>),
}

impl<'a> Prover<'a> {
    pub(super) fn new(case: &'a Case<'a>, slots: &'a [SlotRef], watch: &'a dyn Watch) -> Self {
        Self { case, slots, watch, proofs: Proofs::default(), report: ProofReport::default(), absent: Vec::new() }
    }

    /// Finds pages that are older than WAL before the redo point, and those with an LSN that is not theirs.
    fn find_lost_writes(&mut self, remarks: &mut Remarks) -> Result<(), SkipReason> {
        let case = self.case;
        let (Some(set), Some(redo_lsn)) = (case.wal.most(), case.replay.redo_lsn) else { return Ok(()) };
        // Checksums tell of pages that are not what they were written as.
        let end_lsn = if case.lacks_checksums() { Lsn(u64::MAX) } else { redo_lsn };
        let bounds = self.bounds(end_lsn);
        let progress = ProofProgress::new(Stage::Wal, self.watch, wal_bytes(set));
        // A server has some of its files still to write.
        let is_stopped = !case.server.may_be_running();
        let part = SkippedPart::LostWrites;
        let known = match is_stopped {
            true => self.read_all(set, bounds, part, &progress, remarks)?,
            false => self.read_wal(set, bounds, part, &progress, (&mut |_| {}, remarks))?,
        };
        if progress.is_broken_off() {
            return Err(SkipReason::Interrupted(Lacking::Pages));
        }
        self.proofs.emptied = known.emptied();
        if !is_stopped {
            return Ok(());
        }
        self.find_prepared(set, &known, redo_lsn, remarks)?;
        let is_wanted = |page: PageId| match case.scope {
            Scope::DwbPages => !slots_of(self.slots, page).is_empty(),
            scope => scope.takes(page),
        };
        let mut buffer = vec![0; case.files.block_size];
        let mut foreign = Vec::new();
        let keeps_bases = case.lacks_checksums();
        for provable in known.pages() {
            if keeps_bases && known.is_in_replay(provable.page, false) {
                self.proofs.touched.push(provable.page);
                self.proofs.bases.extend(provable.base_lsn.map(|base_lsn| (provable.page, base_lsn)));
            }
            let is_suspect = provable.lacks.is_some() || provable.is_foreign;
            let page = provable.page;
            if is_suspect && is_wanted(page) && self.is_logged(page) {
                let is_there = self.compare_lsn(&provable, &mut buffer);
                // Without checksums a torn page may show an LSN that it never had.
                let is_foreign = is_there && provable.is_foreign && case.has_checksums;
                foreign.extend(is_foreign.then_some((page, provable.page_lsn)));
            }
        }
        self.proofs.strangers = strangers(set, &foreign, case.jobs, &|_| progress.wait())?;
        if progress.is_broken_off() {
            return Err(SkipReason::Interrupted(Lacking::Pages));
        }
        self.settle_absent(set, remarks)
    }

    /// Reports prepared transactions whose file is missing. WAL is read again, and to its end, only if there seem to be any.
    fn find_prepared(
        &self,
        set: &WalSet,
        known: &WalPages,
        redo_lsn: Lsn,
        remarks: &mut Remarks,
    ) -> Result<(), SkipReason> {
        let case = self.case;
        // While a backup was made, one may have ended after its redo point.
        let Some(control) = case.control.filter(|_| case.signs.backup_label.is_none()) else { return Ok(()) };
        let missing = |known: &WalPages| missing_prepared(case.directory, control, redo_lsn, known.prepared());
        if !missing(known).is_empty() {
            let all = self.read_to_the_end(set, &mut |_| {}, remarks)?;
            remarks.findings.extend(missing(&all));
        }
        Ok(())
    }

    /// Decides the meaning of missing pages, up to a limit. WAL is read again, and to its end, only if there
    /// are any: it may remove them, and show that a transaction that wrote them committed.
    fn settle_absent(&mut self, set: &WalSet, remarks: &mut Remarks) -> Result<(), SkipReason> {
        let absent = std::mem::take(&mut self.absent);
        if absent.is_empty() {
            return Ok(());
        }
        let writers: FxHashSet<u32> = absent.iter().map(|(page, _)| page.lacks_of).collect();
        let mut committed: FxHashSet<u32> = FxHashSet::default();
        // What was committed before is in the catalog on disk.
        let redo_lsn = self.case.replay.redo_lsn.unwrap_or_default();
        let mut look_up = |commits: &[CommittedXact]| {
            let late = commits.iter().filter(|commit| commit.record_lsn >= redo_lsn).map(|commit| commit.xid);
            committed.extend(late.filter(|xid| writers.contains(xid)));
        };
        let all = self.read_to_the_end(set, &mut look_up, remarks)?;
        let mut buffer = vec![0; self.case.files.block_size];
        let has_committed = absent.iter().filter(|(page, _)| committed.contains(&page.lacks_of));
        let has_committed: FxHashSet<RelFileLocator> = has_committed.map(|(page, _)| page.page.rel).collect();
        let mut listed = 0_usize;
        for (provable, comparison) in absent {
            let page = provable.page;
            let is_removed = provable.lacks.is_some_and(|lsn| all.removes_since(page, lsn, redo_lsn));
            if is_removed || !has_committed.contains(&page.rel) && self.may_be_undone(page, &mut buffer) {
                continue;
            }
            if listed >= MAX_ABSENT {
                remarks.coverage.skip(SkippedPart::MorePagesNeeded, SkipReason::TooManyMissing { limit: MAX_ABSENT });
                break;
            }
            listed = listed.saturating_add(1);
            let Provable { page_lsn, lacks, .. } = provable;
            let absent = Some(comparison);
            let disproof = Disproof { page_lsn, differs: Vec::new(), lacks, is_foreign: false, absent };
            self.proofs.wrong.insert(page, disproof);
        }
        Ok(())
    }

    /// Reads WAL again, to its end, and shows all its commits.
    pub(super) fn read_to_the_end(
        &self,
        set: &WalSet,
        on_commits: OnCommits<'_>,
        remarks: &mut Remarks,
    ) -> Result<WalPages, SkipReason> {
        let end = Lsn(u64::MAX);
        let bounds = WalBounds { redo_lsn: Some(end), ..self.bounds(end) };
        let progress = ProofProgress::new(Stage::Wal, self.watch, wal_bytes(set));
        let all = self.read_wal(set, bounds, SkippedPart::LostWrites, &progress, (on_commits, remarks))?;
        if progress.is_broken_off() {
            return Err(SkipReason::Interrupted(Lacking::Pages));
        }
        Ok(all)
    }

    fn bounds(&self, end_lsn: Lsn) -> WalBounds {
        let case = self.case;
        let is_minimal = case.control.is_none_or(|control| control.wal_level == WAL_LEVEL_MINIMAL);
        WalBounds { redo_lsn: case.replay.redo_lsn, replay_from: case.replay.redo_lsn, end_lsn, is_minimal }
    }

    /// Reads WAL, and looks its commits up.
    fn read_all(
        &mut self,
        set: &WalSet,
        bounds: WalBounds,
        part: SkippedPart,
        progress: &ProofProgress<'_>,
        remarks: &mut Remarks,
    ) -> Result<WalPages, SkipReason> {
        let case = self.case;
        let mut lost = case.control.map(|control| LostCommits::new(case.directory, control));
        let mut look_up = |commits: &[CommittedXact]| lost.iter_mut().for_each(|lost| lost.look_up(commits));
        let known = self.read_wal(set, bounds, part, progress, (&mut look_up, remarks))?;
        if self.case.wal.all.is_some() {
            let own = self.case.wal.own.as_ref();
            self.proofs.diverged = diverged(own, &known, case.replay.next_xid, lost.as_ref());
            if self.proofs.diverged.is_some() {
                return Ok(WalPages::default());
            }
        }
        if let Some((lost, control)) = lost.zip(case.control) {
            self.proofs.obstacle = lost.is_any().then_some(Obstacle::Commits);
            remarks.findings.extend(lost.findings(lost_multixacts(case.directory, control, &known.multis)));
        }
        self.proofs.lacks_images |= known.lacks_images;
        Ok(known)
    }

    fn read_wal(
        &self,
        set: &WalSet,
        bounds: WalBounds,
        part: SkippedPart,
        progress: &ProofProgress<'_>,
        (on_commits, remarks): (OnCommits<'_>, &mut Remarks),
    ) -> Result<WalPages, SkipReason> {
        let case = self.case;
        let watch = |bytes| progress.read(bytes);
        Ok(WalPages::read(set, bounds, &case.heads, case.jobs, (part, &watch), (on_commits, &mut remarks.coverage))?)
    }

    /// Notes what the LSN of a page shows without replay; false unless the page is as it was when WAL was read, and is there.
    fn compare_lsn(&mut self, provable: &Provable, buffer: &mut [u8]) -> bool {
        if provable.lacks.is_some() {
            let absent = match self.case.pages.read_page(provable.page, buffer) {
                Ok(PageRead::BeyondEnd) => Some(Comparison::BeyondEnd),
                Ok(PageRead::Whole) if is_all_zero(buffer) => Some(Comparison::Zeroed),
                _ => None,
            };
            if let Some(absent) = absent {
                self.absent.push((*provable, absent));
                return false;
            }
        }
        if !self.read_page(provable.page, provable.page_lsn, buffer) {
            return false;
        }
        if provable.is_foreign || provable.lacks.is_some() {
            self.disprove(provable, Vec::new());
        }
        true
    }

    /// True when the relation is empty and the catalog does not know it: it may belong to an aborted transaction. That is logged
    /// and not synced, and cuts the file at once.
    ///
    /// Source: `RecordTransactionAbort`, `src/backend/access/transam/xact.c`; `mdunlinkfork`, `src/backend/storage/smgr/md.c`.
    fn may_be_undone(&self, page: PageId, buffer: &mut [u8]) -> bool {
        let is_known = self.case.names.has(page.rel);
        let first = PageId { block: 0, ..page };
        !is_known && !matches!(self.case.pages.read_page(first, buffer), Ok(PageRead::Whole))
    }

    /// WAL holds all changes of the page. What cannot be examined is reported where pages are judged.
    fn is_logged(&self, page: PageId) -> bool {
        match page.fork {
            ForkNumber::Main => !self.case.pages.has_fork(page.rel, ForkNumber::Init).unwrap_or(true),
            ForkNumber::Init => true,
            // Bits of maps change without a new LSN.
            ForkNumber::Vm | ForkNumber::Fsm => false,
        }
    }

    fn prove_all(&mut self, options: &ReplayOptions, remarks: &mut Remarks) -> Result<(), SkipReason> {
        let case = self.case;
        if case.server.may_be_running() {
            self.find_lost_writes(remarks)?;
            return Err(SkipReason::ServerMayRun);
        }
        let Some(set) = case.wal.most() else {
            return Err(SkipReason::NoWalToReplay);
        };
        let progress = ProofProgress::new(Stage::Proof, self.watch, wal_bytes(set));
        let bounds = self.bounds(Lsn(u64::MAX));
        let known = self.read_all(set, bounds, SkippedPart::ProofByReplay, &progress, remarks)?;
        if progress.is_broken_off() {
            return Err(SkipReason::Interrupted(Lacking::Pages));
        }
        self.proofs.emptied = known.emptied();
        if let Some(redo_lsn) = case.replay.redo_lsn {
            self.find_prepared(set, &known, redo_lsn, remarks)?;
        }
        let mut tasks = self.choose(&known);
        self.settle_absent(set, remarks)?;
        if known.may_lack_copies(set.major()) {
            return Err(SkipReason::CopiesUnlogged);
        }
        // Pages of one batch need WAL from the first base of them on.
        tasks.sort_by_key(|task| (self.starts_at(task), task.provable.page));
        self.build(set, &tasks, options, &progress)
    }

    /// The pages that something is known of that they can be built on. What shows without replay is noted.
    fn choose(&mut self, known: &WalPages) -> Vec<Task> {
        let mut all: BTreeMap<PageId, Provable> =
            known.pages().into_iter().map(|provable| (provable.page, provable)).collect();
        let is_same = |slot: &SlotRef| slot.is_verified && slot.comparison == Some(Comparison::Identical);
        for slot in self.slots.iter().filter(|slot| is_same(slot)) {
            let (page, page_lsn) = (slot.page, slot.page_lsn);
            all.entry(page).or_insert(Provable {
                page,
                page_lsn,
                base_lsn: None,
                lacks: None,
                lacks_of: 0,
                is_foreign: false,
                is_beyond_end: false,
            });
        }
        let mut buffer = vec![0; self.case.files.block_size];
        let mut logged: Option<((RelFileLocator, ForkNumber), bool)> = None;
        let mut tasks = Vec::new();
        for provable in all.into_values() {
            let page = provable.page;
            if logged.is_none_or(|(fork, _)| fork != (page.rel, page.fork)) {
                logged = Some(((page.rel, page.fork), self.is_logged(page)));
            }
            if !logged.is_some_and(|(_, is)| is) || !self.compare_lsn(&provable, &mut buffer) {
                continue;
            }
            if slots_of(self.slots, page).iter().any(is_same) {
                self.settle(&provable, Finding::Whole);
                continue;
            }
            let of_record = provable.base_lsn.map(Base::Record);
            match of_record.or_else(|| self.slot_for(&provable, known).map(Base::Slot)) {
                Some(base) => tasks.push(Task { provable, base }),
                None => self.report.without_base = self.report.without_base.saturating_add(1),
            }
        }
        tasks
    }

    /// The newest slot that is a version of the page up to its LSN.
    fn slot_for(&self, provable: &Provable, known: &WalPages) -> Option<usize> {
        let is_base = |slot: &SlotRef| {
            let is_copy = slot.is_verified && slot.path.is_some_and(WritePath::is_locked);
            let is_of_page = slot.page == provable.page && slot.page_lsn <= provable.page_lsn;
            is_copy && is_of_page && !known.is_removed_since(slot.page, slot.page_lsn)
        };
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| is_base(slot));
        slots.max_by_key(|(_, slot)| slot.page_lsn).map(|(index, _)| index)
    }

    /// Reads a page; false unless it is whole, a server takes it, and it has this LSN still.
    fn read_page(&self, page: PageId, lsn: Lsn, buffer: &mut [u8]) -> bool {
        let is_taken = |condition: &PageCondition| match condition {
            PageCondition::Sound => true,
            PageCondition::Zeroed => false,
            PageCondition::Damaged(damage) => !damage.server_rejects,
        };
        matches!(self.case.pages.read_page(page, buffer), Ok(PageRead::Whole))
            && is_taken(&PageCondition::of(buffer, page.fork, page.block, false))
            && PageHeader::decode(0, buffer).is_ok_and(|header| header.lsn == lsn)
    }

    fn starts_at(&self, task: &Task) -> Lsn {
        match task.base {
            Base::Record(lsn) => lsn,
            Base::Slot(index) => self.slots.get(index).map_or(Lsn::INVALID, |slot| slot.page_lsn),
        }
    }

    fn wanted(&self, task: &Task) -> Option<WantedPage> {
        let base = match task.base {
            Base::Record(_) => BaseBytes::Nothing,
            Base::Slot(index) => {
                let slot = self.slots.get(index)?;
                let mut buffer = Vec::new();
                let read = self.case.dwb_set.files.get(slot.file)?.read_slot(slot.index, &mut buffer).ok()?;
                BaseBytes::Page(read.image.to_vec())
            }
        };
        let Provable { page, page_lsn, .. } = task.provable;
        Some(WantedPage { page, base, from: self.starts_at(task), until: page_lsn })
    }

    /// Builds pages batch by batch and compares them. One that differs is built a second time, among fewer others, and is
    /// wrong only if the same comes out.
    fn build(
        &mut self,
        set: &WalSet,
        tasks: &[Task],
        options: &ReplayOptions,
        progress: &ProofProgress<'_>,
    ) -> Result<(), SkipReason> {
        if tasks.is_empty() {
            return Ok(());
        }
        let server = Server::find(self.case.directory, options, set)?;
        let mut differing: Vec<(&Task, Vec<u8>)> = Vec::new();
        for batch in tasks.chunks(BATCH_PAGES) {
            let batch: Vec<&Task> = batch.iter().collect();
            for (task, result) in self.replay(set, &server, &batch, progress)? {
                match result {
                    Ok(built) => match self.compare(&task.provable, &built) {
                        Finding::Differs(_) => differing.push((task, built.bytes)),
                        found => self.settle(&task.provable, found),
                    },
                    Err(why) => {
                        let count = self.report.not_built.entry(why.code()).or_default();
                        *count = count.saturating_add(1);
                    }
                }
            }
        }
        for again in differing.chunks(BATCH_PAGES) {
            let batch: Vec<&Task> = again.iter().map(|(task, _)| *task).collect();
            let before: FxHashMap<PageId, &Vec<u8>> =
                again.iter().map(|(task, bytes)| (task.provable.page, bytes)).collect();
            for (task, result) in self.replay(set, &server, &batch, progress)? {
                let same = result.ok().filter(|built| before.get(&built.page).is_some_and(|old| **old == built.bytes));
                let found = same.map_or(Finding::Undecided, |built| self.compare(&task.provable, &built));
                self.settle(&task.provable, found);
            }
        }
        Ok(())
    }

    /// Builds pages. The results are in the order of the tasks; those whose base cannot be read are left out of both.
    fn replay<'t>(
        &mut self,
        set: &WalSet,
        server: &Server,
        batch: &[&'t Task],
        progress: &ProofProgress<'_>,
    ) -> Result<Vec<Built<'t>>, SkipReason> {
        let (tasks, pages): (Vec<&Task>, Vec<WantedPage>) =
            batch.iter().filter_map(|task| Some((*task, self.wanted(task)?))).unzip();
        let request = ReplayRequest {
            wal: set,
            control: &server.control,
            pages,
            jobs: self.case.jobs,
            server: &server.program,
            sandbox: &server.sandbox,
        };
        let report = replay(request, &|_| progress.wait()).map_err(|error| match error {
            RebuildError::Interrupted => SkipReason::Interrupted(Lacking::Pages),
            other => SkipReason::NotReplayed(ErrorWords::of_other(&other)),
        })?;
        let ReplayReport { pages, server, stats, .. } = report;
        self.report.server = Some(server.number);
        self.report.records = self.report.records.saturating_add(stats.records);
        Ok(tasks.into_iter().zip(pages.into_iter().map(|(_, result)| result)).collect())
    }

    /// Compares a built page with the one on disk.
    fn compare(&self, provable: &Provable, built: &BuiltPage) -> Finding {
        let mut disk = vec![0; self.case.files.block_size];
        let is_same_lsn = PageHeader::decode(0, &built.bytes).is_ok_and(|header| header.lsn == provable.page_lsn);
        if !is_same_lsn || !self.read_page(provable.page, provable.page_lsn, &mut disk) {
            return Finding::Undecided;
        }
        let differs = differences(provable.page, &built.bytes, &disk);
        if !differs.is_empty() {
            Finding::Differs(differs)
        } else if sequence_values_differ(provable.page, &built.bytes, &disk) {
            Finding::Undecided
        } else {
            Finding::Whole
        }
    }

    fn settle(&mut self, provable: &Provable, found: Finding) {
        match found {
            Finding::Differs(differs) => self.disprove(provable, differs),
            Finding::Undecided => self.report.undecided = self.report.undecided.saturating_add(1),
            // One whole version of the page, yet not the one that should be there.
            Finding::Whole if provable.lacks.is_some() || provable.is_foreign => {}
            Finding::Whole => {
                self.proofs.whole.insert(provable.page);
            }
        }
    }

    fn disprove(&mut self, provable: &Provable, differs: Vec<Range<usize>>) {
        let Provable { page_lsn, lacks, is_foreign, .. } = *provable;
        let disproof = Disproof { page_lsn, differs, lacks, is_foreign, absent: None };
        self.proofs.wrong.insert(provable.page, disproof);
    }
}

struct Server {
    program: ServerProgram,
    sandbox: SandboxOptions,
    control: Vec<u8>,
}

impl Server {
    fn find(directory: &DataDir, options: &ReplayOptions, set: &WalSet) -> Result<Self, SkipReason> {
        let not_replayed = |error: &dyn std::error::Error| SkipReason::NotReplayed(ErrorWords::of_other(error));
        let major = set.major().ok_or_else(|| not_replayed(&RebuildError::UnknownMajor))?;
        let prepared = options.prepare(directory, major);
        let (program, sandbox) = prepared.map_err(|error| not_replayed(&error))?;
        let control = read_small(&directory.control_path(), Links::Refuse, MAX_CONTROL_BYTES)?;
        Ok(Self { program, sandbox, control })
    }
}
