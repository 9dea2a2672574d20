//! Results of workers: values. They are put into words when they are drawn or exported.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use super::action::{RepairOrder, UndoOrder};
use super::cluster_map::{Fork, forks_of};
use super::query::{Lists, SlotIndex};
use super::ring::Ring;
use crate::analysis::dwb::report::{Batch, find_batches};
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::analysis::dwb::staleness::BatchReason;
use crate::analysis::in_order::all_cores;
use crate::analysis::plan::savings::Savings;
use crate::analysis::skipped::{Coverage, Skipped, SkippedPart};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::images::PageVersion;
use crate::analysis::verdict::next_step::{NamedRelation, NextStep};
use crate::analysis::verdict::survey::PageReport;
use crate::analysis::wal::group_key::{GroupBy, Key};
use crate::analysis::wal::hidden_redo::HiddenRedo;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::analysis::wal::timeline::{Timeline, Window};
use crate::cluster::wal::WalOrigin;
use crate::inspect::examination::Examination;
use crate::inspect::next::{damaged_relations, steps_of};
use crate::inspect::page_rows::{RowSets, disk_and_images, page_versions};
use crate::inspect::repair::readiness::{BeforeRepair, Guard, GuardState, journals_of};
use crate::inspect::wal::kept::KeptReport;
use crate::inspect::wal::names::NameLookup;
use crate::output::json::TOP_RELATIONS;
use crate::output::json::wal::Naming;
use crate::output::page_rows::RowsOf;
use crate::output::wal_text::name_of;
use crate::parsers::wal::version::Major;
use crate::repair::blocker::Blocker;
use crate::repair::journal_seen::FoundJournals;
use crate::repair::plan::{Plan, PlanStep, StepKind};
use crate::report::Finding;
use crate::types::{Geometry, PageId, RelFileLocator};

/// A checked cluster.
pub struct Survey {
    pub examined: Arc<Examination>,
    /// The answer: the exit status that `check` would have.
    pub answer: Answer,
    pub steps: Vec<NextStep>,
    /// Names of the relations that slots and pages are of; numbers where there is no name.
    pub names: BTreeMap<RelFileLocator, String>,
    pub files: Vec<String>,
    pub batches: Vec<ListedBatch>,
    pub ring: Ring,
    pub slot_index: SlotIndex,
    /// Journals of repairs beside the data directory, and those that were named.
    pub journals: FoundJournals,
    /// The data directory, from the root of the file system on.
    pub data_dir: PathBuf,
    /// Every fork, the worst first.
    pub forks: Vec<Fork>,
    /// Kind and owner of each damaged relation, by the catalogs.
    pub damaged_relations: BTreeMap<RelFileLocator, NamedRelation>,
}

impl Survey {
    /// Collects the facts of a checked cluster for lists. Reads the double write buffer again, to distinguish batches.
    pub fn of(examined: Arc<Examination>) -> Self {
        Self::with_journals(examined, &[])
    }

    /// Like [`Self::of`], with journals in other directories.
    pub(crate) fn with_journals(examined: Arc<Examination>, named: &[PathBuf]) -> Self {
        let report = &examined.report;
        let mut names = BTreeMap::new();
        for page in report.pages.iter().map(|page| page.page).chain(report.slots.iter().map(|slot| slot.page)) {
            names.entry(page.rel).or_insert_with(|| examined.called(page));
        }
        // What cannot be read was reported when the buffer was read first.
        let mut again = Coverage::default();
        let source = &examined.source;
        let batches =
            find_batches(&source.set, &examined.dwb.staleness, &source.facts, all_cores(), &mut again, &|| {
                ControlFlow::Continue(())
            });
        let batches = batches.unwrap_or_default();
        let listed = |batch: Batch| ListedBatch { top_relations: batch.top_relations(TOP_RELATIONS), batch };
        let batches: Vec<ListedBatch> = batches.into_iter().map(listed).collect();
        Self {
            ring: Ring::of(&examined.rows, &batches, &examined.report.pages),
            slot_index: SlotIndex::of(&examined.rows, &examined.report.pages),
            journals: journals_of(&examined, named),
            data_dir: source
                .directory
                .as_ref()
                .map_or_else(PathBuf::new, |directory| std::path::absolute(directory.root()).unwrap_or_default()),
            answer: examined.answer(),
            steps: steps_of(&examined),
            damaged_relations: damaged_relations(&examined),
            names,
            files: source.set.files.iter().map(|file| file.name.clone()).collect(),
            batches,
            forks: forks_of(
                &examined.blocks,
                examined.report.pages.iter().map(|report| (report.page, report.verdict.verdict)),
            ),
            examined,
        }
    }

    /// Damaged pages, by identity.
    pub fn pages(&self) -> &[PageReport] {
        &self.examined.report.pages
    }

    /// Every slot, by file and index.
    pub fn slots(&self) -> &[SlotRow] {
        &self.examined.rows
    }

    /// `file:slot`.
    pub(crate) fn slot_name(&self, file: usize, index: u64) -> String {
        format!("{}:{index}", self.file_name(file).unwrap_or("?"))
    }

    pub fn file_name(&self, file: usize) -> Option<&str> {
        self.files.get(file).map(String::as_str)
    }

    pub(crate) fn lists(&self) -> Lists<'_> {
        Lists {
            names: &self.names,
            files: &self.files,
            pages: self.pages(),
            slots: self.slots(),
            slot_index: &self.slot_index,
        }
    }

    /// The name of a relation, else its numbers.
    pub fn relation(&self, rel: RelFileLocator) -> String {
        self.names.get(&rel).cloned().unwrap_or_else(|| rel.to_string())
    }

    /// The damaged page with this identity.
    pub fn damaged(&self, page: PageId) -> Option<&PageReport> {
        self.lists().damaged(page)
    }
}

/// A damaged page that is known before it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPage {
    pub called: Arc<str>,
    pub blocks: u64,
}

/// A batch, and the relations that are named of it.
#[derive(Clone, Debug)]
pub struct ListedBatch {
    pub batch: Batch,
    pub top_relations: Vec<RelFileLocator>,
}

impl ListedBatch {
    /// Whether a slot belongs to it. Batches of one verdict do not overlap.
    pub fn holds(&self, row: &SlotRow) -> bool {
        let slot = (row.file, row.index);
        let is_of = row
            .batch
            .is_some_and(|(verdict, reason)| verdict == self.batch.verdict && reason != BatchReason::Unreliable);
        is_of && (self.batch.first..=self.batch.last).contains(&slot)
    }
}

/// One page with its images.
pub struct PageSheet {
    pub examined: Arc<Examination>,
    pub report: PageReport,
    /// The disk first, where there is such a page, then the images.
    pub versions: Vec<PageVersion>,
    pub rows: RowSets,
}

impl PageSheet {
    /// Reads the images of a page that was found in an examination.
    pub fn of(examined: Arc<Examination>, report: PageReport) -> Self {
        let versions = page_versions(&examined, &report);
        let rows = RowSets::of(&examined, report.page, &versions);
        Self { examined, report, versions, rows }
    }

    pub fn disk(&self) -> Option<&PageVersion> {
        disk_and_images(&self.versions).0
    }

    pub fn images(&self) -> &[PageVersion] {
        disk_and_images(&self.versions).1
    }

    /// The page on disk and the image with this index; the image alone on the left where the disk has none.
    pub(crate) fn sides(&self, image: usize) -> (&[u8], Option<&[u8]>) {
        let image = self.images().get(image).map(|image| image.bytes.as_slice());
        match self.disk() {
            Some(disk) => (&disk.bytes, image),
            None => (image.unwrap_or_default(), None),
        }
    }

    /// The rows of the page on disk against those of the image with this index.
    pub fn rows(&self, image: usize) -> Option<RowsOf<'_>> {
        self.rows.get(&self.versions, image)
    }
}

/// Full-page images in WAL.
#[derive(Clone, Debug, Default)]
pub struct WalSurvey {
    pub intervals: Vec<Interval>,
    pub total: Tally,
    pub problems: Vec<Finding>,
    pub skipped: Vec<Skipped>,
    /// All of it in short stretches, as soon as that is counted.
    pub timeline: Option<Arc<Timeline>>,
    /// Sum of all these stretches: summing takes longer than an answer to a key may.
    pub whole: Option<Arc<WindowSheet>>,
    pub hidden: Vec<HiddenRedo>,
    pub savings: Option<Arc<Savings>>,
    pub names: Arc<WalNames>,
    /// Holders of its segments, where it is that of a data directory.
    pub(crate) kept: Option<Result<Arc<KeptReport>, String>>,
    pub is_complete: bool,
}

impl WalSurvey {
    pub fn certainty(&self) -> Certainty {
        let lacks_wal = self.skipped.iter().any(|skipped| skipped.what != SkippedPart::RelationNames);
        if lacks_wal || !self.problems.is_empty() { Certainty::AtLeast } else { Certainty::Exact }
    }
}

/// Names of relations of some WAL, and what else its words need.
#[derive(Debug)]
pub struct WalNames {
    pub lookup: NameLookup,
    pub major: Option<Major>,
    pub geometry: Geometry,
}

impl Default for WalNames {
    fn default() -> Self {
        Self { lookup: NameLookup::default(), major: None, geometry: Geometry::USUAL }
    }
}

impl WalNames {
    pub fn name_of(&self, by: GroupBy, key: &Key) -> String {
        let origin = WalOrigin { major: self.major, system_identifier: None, geometry: self.geometry };
        name_of(by, key, &Naming::new(&origin, self.lookup.known()))
    }

    /// The name of a relation, else its numbers.
    pub fn relation(&self, rel: RelFileLocator) -> String {
        self.lookup.relation(rel).unwrap_or_else(|| rel.to_string())
    }
}

/// Content of a window of WAL, with the names of its relations, the first `MAX_NAMED` of them.
#[derive(Clone, Debug, Default)]
pub struct WindowSheet {
    pub cells: Range<usize>,
    pub window: Window,
    /// Names of its relations, in order.
    pub relations: Vec<String>,
    /// Names of its causes, in order.
    pub causes: Vec<String>,
}

/// Relations of a window that are named.
pub(crate) const MAX_NAMED: usize = 200;

fn cause_words(key: &Key) -> String {
    if let Key::Cause(cause) = key { cause.to_string() } else { "no image".to_owned() }
}

impl WindowSheet {
    pub fn of(survey: &WalSurvey, timeline: &Timeline, cells: Range<usize>) -> Self {
        let names = &survey.names;
        let window = timeline.window(cells.clone(), names.lookup.known());
        let relations = window.relations.iter().take(MAX_NAMED);
        Self {
            cells,
            relations: relations.map(|row| names.name_of(GroupBy::Relation, &row.key)).collect(),
            causes: window.causes.iter().map(|(key, _)| cause_words(key)).collect(),
            window,
        }
    }

    /// Its relations by name, or its causes in words.
    pub fn rows(&self, by: GroupBy) -> Vec<(&str, &Tally)> {
        match by {
            GroupBy::Cause => {
                let tallies = self.window.causes.iter().map(|(_, tally)| tally);
                self.causes.iter().map(String::as_str).zip(tallies).collect()
            }
            _ => {
                let tallies = self.window.relations.iter().map(|row| &row.tally);
                self.relations.iter().map(String::as_str).zip(tallies).collect()
            }
        }
    }
}

pub struct PlanSheet {
    pub examined: Arc<Examination>,
    /// The pages that it was asked for; none: every proven one.
    pub pages: Vec<PageId>,
    pub plan: Plan,
    pub blockers: Vec<Blocker>,
    /// Facts about each step, in the order of the plan.
    pub facts: Vec<StepFacts>,
}

impl PlanSheet {
    pub fn count(&self, kind: StepKind) -> usize {
        self.facts.iter().filter(|facts| facts.kind == kind).count()
    }

    pub fn may_lose(&self) -> bool {
        self.facts.iter().any(|facts| facts.kind.may_lose())
    }
}

#[derive(Clone, Debug)]
pub struct StepFacts {
    pub kind: StepKind,
    pub reasons: Vec<String>,
}

impl StepFacts {
    /// Facts about a step for the page of `report`.
    pub fn of(report: Option<&PageReport>, step: &PlanStep) -> Self {
        let kind = StepKind::of(report, step);
        let reasons = match report {
            _ if !kind.may_lose() => Vec::new(),
            Some(report) if step.warnings.is_empty() => {
                report.verdict.reasons.iter().map(ToString::to_string).collect()
            }
            _ => step.warnings.clone(),
        };
        Self { kind, reasons }
    }
}

/// Result of the check before applying a plan.
#[derive(Debug)]
pub struct BeforeSheet {
    /// The plan that it is about, with where its journal goes and what is allowed.
    pub order: RepairOrder,
    /// Guards, journal, files; or why they could not be examined.
    pub found: Result<BeforeRepair, String>,
    pub version: String,
    pub start_after: String,
}

impl BeforeSheet {
    /// Nothing is known to be in the way.
    pub fn is_ready(&self) -> bool {
        self.found.as_ref().is_ok_and(|found| {
            let is_refused = |guard: &Guard| matches!(guard.state, GuardState::Refused(_));
            let ready = found.ready.as_ref().is_ok_and(|ready| ready.site.is_ok() && ready.closed.is_empty());
            ready && !found.guards.iter().any(is_refused)
        })
    }

    pub fn flags(&self) -> Vec<&'static str> {
        let guards = self.found.as_ref().map_or(&[][..], |found| &found.guards);
        let flag = |guard: &Guard| match &guard.state {
            GuardState::Refused(blocker) => blocker.flag,
            _ => None,
        };
        let mut flags: Vec<_> = guards.iter().filter_map(flag).collect();
        flags.dedup();
        flags
    }
}

#[derive(Clone, Debug)]
pub struct UndoFacts {
    pub back: usize,
    pub already: usize,
    /// Files that a start of a server writes and that are newer than the repair.
    pub newer_files: Vec<PathBuf>,
}

/// The rehearsal of an undo.
#[derive(Debug)]
pub struct UndoSheet {
    pub order: UndoOrder,
    pub found: Result<UndoFacts, String>,
    pub flags: Vec<&'static str>,
}

/// A repair that was taken back.
#[derive(Debug)]
pub struct UndoneSheet {
    pub journal: PathBuf,
    pub facts: UndoFacts,
}

/// Written pages, and location of the old bytes.
#[derive(Debug)]
pub struct AppliedSheet {
    pub written: usize,
    /// The data directory, from the root of the file system on.
    pub data_dir: PathBuf,
    pub journal: PathBuf,
    /// It is found when the screen is opened again without its name.
    pub is_found_beside: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub what: &'static str,
    pub done: u64,
    /// Bytes in all; 0: unknown.
    pub total: u64,
    /// Which step of how many it is, where they are counted.
    pub step: Option<(usize, usize)>,
    /// Seconds that are left of this step, by how long it has taken so far.
    pub left_s: Option<u64>,
}
