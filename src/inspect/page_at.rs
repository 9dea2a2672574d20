//! Pages as they were at some moment, built by replay of their records in a sandbox.
//! Also here: changes of a page by its last records: the page is built as it was before and after each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::check::{CheckRequest, Scope, Stage, Watch, check};
use super::dwb_source::DwbSource;
use super::error::{InspectError, NotThen, open_data_dir};
use super::examination::Examination;
use super::page_history::{HistoryRequest, PageHistory, page_history};
use super::rebuild::ReplayOptions;
use crate::analysis::changes::events::{BlockEvent, FileEvent};
use crate::analysis::pages::page_diff::PageDiff;
use crate::analysis::start::missing_wal::WalNames;
use crate::analysis::verdict::candidate::Judged;
use crate::analysis::verdict::donor_proof::donors_without;
use crate::analysis::verdict::fetch::fetch_image;
use crate::analysis::verdict::rebuild::{
    NotRebuildable, RebuildBase, RebuildEvidence, RebuildPlan, empty_since, plan_rebuild,
};
use crate::cluster::control_file::CONTROL_PATH;
use crate::cluster::open::{Links, read_small};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::rebuild::{BaseBytes, BuiltPage, NotBuilt, ReplayRequest, ReplayStats, ServerProgram, WantedPage, replay};
use crate::types::{ForkNumber, Lsn, PageId};

/// Longest `pg_control` that is read.
const MAX_CONTROL_BYTES: u64 = 64 << 10;

/// A moment in the life of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the last record that ends at or before this.
    At(Lsn),
    /// After the record with this number in the history of the page, from 1.
    AfterRecord(u64),
}

/// Which pages are built, as they were when, and how.
#[derive(Clone, Debug)]
pub struct PagesAtRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// WAL from elsewhere: directories, segments, archives, patterns.
    pub wal: Vec<PathBuf>,
    /// Older copies of the cluster.
    pub donors: Vec<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
    /// The server that replays.
    pub server: ReplayOptions,
    /// The pages, each as it was at one moment.
    pub wanted: Vec<(PageId, Moment)>,
}

impl PagesAtRequest {
    pub(super) fn of_wal(&self, pages: Vec<PageId>) -> HistoryRequest {
        let (data_dir, wal, donors) = (self.data_dir.clone(), self.wal.clone(), self.donors.clone());
        HistoryRequest { data_dir, pages, wal, donors, jobs: self.jobs }
    }
}

/// A page as it was.
#[derive(Clone, Debug)]
pub struct PageAt {
    /// The page.
    pub page: PageId,
    /// The moment: no record that ends later was replayed.
    pub lsn: Lsn,
    /// Its base.
    pub plan: RebuildPlan,
    /// The result.
    pub built: BuiltPage,
}

/// Pages as they were.
pub struct PagesAt {
    /// The requests in order, with their results.
    pub pages: Vec<(PageId, Moment, Result<PageAt, NotThen>)>,
    /// History of the pages.
    pub history: PageHistory,
    /// The server that replayed, where one was started.
    pub server: Option<ServerProgram>,
    /// The sandbox, if it is kept.
    pub sandbox: Option<PathBuf>,
    /// Cost.
    pub stats: ReplayStats,
}

/// Builds pages as they were. A server is started only when all that it needs is there.
///
/// # Errors
/// When the path is not a data directory, there is no WAL, nothing is known of a page, or no server can be used.
pub fn pages_at(request: &PagesAtRequest, watch: &dyn Watch) -> Result<PagesAt, InspectError> {
    let pages = request.wanted.iter().map(|(page, _)| *page).collect();
    let history = page_history(&request.of_wal(pages), &|done, total| watch.at(Stage::Wal, done, total))?;
    build(request, history, watch)
}

/// Builds pages of a history that is known.
pub(super) fn build(
    request: &PagesAtRequest,
    history: PageHistory,
    watch: &dyn Watch,
) -> Result<PagesAt, InspectError> {
    if history.coverage.is_interrupted() {
        return Err(InspectError::ReplayBrokenOff);
    }
    let jobs = request.jobs;
    let mut planner = Planner { request, history: &history, names: WalNames::of(&history.set), examined: None, watch };
    let mut results = Vec::new();
    let mut wanted: Vec<WantedPage> = Vec::new();
    for (page, moment) in &request.wanted {
        let planned = planner.plan(*page, *moment)?.map(|planned| {
            wanted.push(planned.wanted);
            (planned.lsn, planned.plan)
        });
        results.push((*page, *moment, planned));
    }
    let mut server = None;
    let (mut sandbox, mut stats) = (None, ReplayStats::default());
    let mut built = Vec::new();
    if !wanted.is_empty() {
        let major = history.major.ok_or(InspectError::ControlUntrusted)?;
        let (program, options) = request.server.prepare(&history.directory, major)?;
        let control = read_small(&history.directory.root().join(CONTROL_PATH), Links::Follow, MAX_CONTROL_BYTES)?;
        let (wal, sandbox_options) = (&history.set, &options);
        let to_replay =
            ReplayRequest { wal, control: &control, pages: wanted, jobs, server: &program, sandbox: sandbox_options };
        let report = replay(to_replay, &|_| watch.at(Stage::Wal, 0, 0))?;
        (built, sandbox, stats) = (report.pages, report.sandbox, report.stats);
        server = Some(program);
    }
    let mut built = built.into_iter().map(|(_, result)| result);
    let pages = results
        .into_iter()
        .map(|(page, moment, planned)| {
            let result = planned.and_then(|(lsn, plan)| {
                let built = built.next().unwrap_or(Err(NotBuilt::NoPage)).map_err(NotThen::NotBuilt)?;
                Ok(PageAt { page, lsn, plan, built })
            });
            (page, moment, result)
        })
        .collect();
    Ok(PagesAt { pages, history, server, sandbox, stats })
}

/// Finds out what pages can be built from.
struct Planner<'a> {
    request: &'a PagesAtRequest,
    history: &'a PageHistory,
    names: WalNames,
    /// The images of a page that are not in WAL, found where WAL alone is not enough.
    examined: Option<(PageId, Examination)>,
    watch: &'a dyn Watch,
}

struct Planned {
    lsn: Lsn,
    plan: RebuildPlan,
    wanted: WantedPage,
}

impl Planner<'_> {
    fn plan(&mut self, page: PageId, moment: Moment) -> Result<Result<Planned, NotThen>, InspectError> {
        let index = self.history.pages.iter().position(|own| *own == page).unwrap_or_default();
        let events = self.history.events(index);
        let lsn = match moment {
            Moment::At(lsn) => lsn,
            Moment::AfterRecord(number) => {
                let event = usize::try_from(number).ok().and_then(|number| events.get(number.checked_sub(1)?));
                let Some(event) = event else {
                    let records = events.len() as u64;
                    return Ok(Err(NotThen::NoSuchRecord { number, records }));
                };
                event.end_lsn
            }
        };
        if let Err(why) = self.demand_wal_at(lsn) {
            return Ok(Err(why));
        }
        if let Some(event) = self.absent_at(page, events, lsn) {
            return Ok(Err(NotThen::NotThere { lsn, event: event.clone() }));
        }
        let why = match self.plan_from(page, index, lsn, (&[], &[])) {
            Ok(plan) => {
                let base = match plan.base {
                    RebuildBase::Empty { .. } => BaseBytes::Page(vec![0; self.history.block_size()]),
                    _ => BaseBytes::Nothing,
                };
                let wanted = WantedPage { page, base, from: plan.from, until: plan.until };
                return Ok(Ok(Planned { lsn, plan, wanted }));
            }
            Err(why) => why,
        };
        if !self.has_copies()? {
            return Ok(Err(NotThen::NotRebuildable(why)));
        }
        self.examine(page)?;
        let Some((_, examined)) = &self.examined else { return Ok(Err(NotThen::NotRebuildable(why))) };
        let found = examined.report.pages.first();
        if found.is_some_and(|found| found.is_unlogged) {
            // A copy says nothing of later moments where changes are not logged.
            return Ok(Err(NotThen::NotRebuildable(NotRebuildable::NotLogged)));
        }
        let candidates = found.map_or(&[][..], |found| &found.verdict.candidates);
        let gaps = found.map_or(&[][..], |found| &found.donor_gaps);
        let without = donors_without(examined.image_files().donors, gaps);
        let plan = match self.plan_from(page, index, lsn, (candidates, &without)) {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(NotThen::NotRebuildable(why))),
        };
        let base = match &plan.base {
            RebuildBase::Candidate { source, .. } => {
                BaseBytes::Page(fetch_image(source, page, &examined.image_files())?)
            }
            RebuildBase::Image { .. } | RebuildBase::Init { .. } => BaseBytes::Nothing,
            RebuildBase::Empty { .. } => BaseBytes::Page(vec![0; examined.block_size]),
        };
        let wanted = WantedPage { page, base, from: plan.from, until: plan.until };
        Ok(Ok(Planned { lsn, plan, wanted }))
    }

    fn plan_from(
        &self,
        page: PageId,
        index: usize,
        until: Lsn,
        (candidates, copies_without): (&[Judged], &[(Lsn, Lsn)]),
    ) -> Result<RebuildPlan, NotRebuildable> {
        let disk = self.history.on_disk(page).ok();
        let header = disk.and_then(|bytes| {
            let header = PageHeader::decode(0, &bytes).ok()?;
            header.faults(bytes.len()).is_empty().then_some(header)
        });
        let history = &self.history.history;
        let events = history.events(index);
        let disk_lsn = header.map(|header| header.lsn);
        let empty_at = &empty_since(page, history, copies_without);
        let names = &self.names;
        plan_rebuild(page, &RebuildEvidence { candidates, events, history, names, disk_lsn, empty_at }, until)
    }

    /// True when images may exist outside WAL.
    fn has_copies(&self) -> Result<bool, InspectError> {
        let has_buffer = || Ok(!DwbSource::of_data_dir(open_data_dir(&self.request.data_dir)?).set.files.is_empty());
        if self.request.donors.is_empty() { has_buffer() } else { Ok(true) }
    }

    /// Has all images of a page found and judged.
    fn examine(&mut self, page: PageId) -> Result<(), InspectError> {
        if self.examined.as_ref().is_some_and(|(examined, _)| *examined == page) {
            return Ok(());
        }
        let PagesAtRequest { data_dir, wal, donors, jobs, .. } = self.request;
        let request = CheckRequest {
            scope: Scope::Page(page),
            wal: wal.clone(),
            donors: donors.clone(),
            jobs: *jobs,
            ..CheckRequest::of(data_dir)
        };
        self.examined = Some((page, check(&request, self.watch)?));
        Ok(())
    }

    /// Refuses a moment that lies outside the WAL that was read.
    fn demand_wal_at(&self, lsn: Lsn) -> Result<(), NotThen> {
        let stretches = self.history.history.stretches();
        if stretches.iter().any(|stretch| stretch.start <= lsn && lsn <= stretch.end) {
            return Ok(());
        }
        let end_lsn = stretches.last().map_or(Lsn::INVALID, |last| last.end);
        let first_lsn = stretches.first().map_or(Lsn::INVALID, |first| first.start);
        let gap = self.history.gaps.iter().find(|gap| gap.range.contains(&lsn));
        Err(match gap {
            Some(gap) => NotThen::InGap { lsn, gap: gap.clone() },
            None if lsn < first_lsn => NotThen::BeforeWal { lsn, first_lsn },
            None => NotThen::AfterEnd { lsn, end_lsn },
        })
    }

    /// Evidence that the page did not exist at `lsn`: the last change of its files before it, after which no record made
    /// the page again, or the creation of its file after it.
    fn absent_at(&self, page: PageId, events: &[BlockEvent], lsn: Lsn) -> Option<&FileEvent> {
        let history = &self.history.history;
        // How much of a map is cut off follows from the table.
        let is_exact =
            |event: &&FileEvent| page.fork == ForkNumber::Main || !matches!(event.what, LifeCycle::Truncated { .. });
        let before = history.file_events(page).filter(is_exact).filter(|event| event.end_lsn <= lsn).last();
        // What came with a copy of the whole database is unknown.
        if let Some(last) = before.filter(|event| !matches!(event.what, LifeCycle::DatabaseCreated { .. })) {
            let is_known = history.covers(last.end_lsn, lsn);
            let is_made = events.iter().any(|event| event.start_lsn >= last.end_lsn && event.end_lsn <= lsn);
            return (is_known && !is_made).then_some(last);
        }
        // A file is created only if it does not exist.
        let next = history.file_events(page).find(|event| event.end_lsn > lsn)?;
        let is_new = matches!(next.what, LifeCycle::Created { .. }) && history.covers(lsn, next.start_lsn);
        let since = before.map_or(Lsn::INVALID, |event| event.end_lsn);
        let is_untouched = !events.iter().any(|event| (since..next.start_lsn).contains(&event.start_lsn));
        (is_new && is_untouched).then_some(next)
    }
}

/// Records whose changes are shown: the last ones. Each is one run of the server.
pub(crate) const MAX_STEPS: usize = 20;

#[derive(Debug)]
pub(crate) struct PageStep {
    /// Number of the record in the history of the page.
    pub number: u64,
    pub event: BlockEvent,
    /// Its changes, or why they are unknown.
    pub diff: Result<PageDiff, NotThen>,
}

/// Changes of a page by its last records.
pub(crate) struct PageChanges {
    pub history: PageHistory,
    pub steps: Vec<PageStep>,
}

/// Compares the versions of a page. `request` names no page: `page` is meant.
pub(crate) fn page_changes(
    request: &PagesAtRequest,
    page: PageId,
    watch: &dyn Watch,
) -> Result<PageChanges, InspectError> {
    let history = page_history(&request.of_wal(vec![page]), &|done, total| watch.at(Stage::Wal, done, total))?;
    let events = history.events(0);
    let first = events.len().saturating_sub(MAX_STEPS);
    let last: Vec<Step> = (first..events.len()).map(|index| Step::of(&history, page, index)).collect();
    let moments: BTreeSet<Lsn> = last.iter().flat_map(|step| [step.before, step.event.end_lsn]).collect();
    let wanted = moments.iter().map(|lsn| (page, Moment::At(*lsn))).collect();
    let PagesAt { pages, history, .. } = build(&PagesAtRequest { wanted, ..request.clone() }, history, watch)?;
    let results = pages.into_iter().map(|(_, _, result)| result.map(|at| at.built.bytes));
    let versions: BTreeMap<Lsn, Result<Vec<u8>, NotThen>> = moments.into_iter().zip(results).collect();
    let nothing = vec![0; history.block_size()];
    let steps = last.into_iter().map(|Step { number, event, before }| {
        let (old, new) = (versions.get(&before), versions.get(&event.end_lsn));
        let diff = match (old, new) {
            (Some(Ok(old)), Some(Ok(new))) => Ok(PageDiff::of(page, old, new)),
            // What a record builds where nothing was, it has changed from nothing.
            (Some(Err(NotThen::NotThere { .. })), Some(Ok(new))) if event.heals() => {
                Ok(PageDiff::of(page, &nothing, new))
            }
            (_, Some(Err(why))) | (Some(Err(why)), _) => Err(why.clone()),
            (None, _) | (_, None) => Err(NotThen::NotBuilt(NotBuilt::NoPage)),
        };
        PageStep { number, event, diff }
    });
    let steps = steps.collect();
    Ok(PageChanges { history, steps })
}

/// A record, and when the page is as it was before it.
struct Step {
    number: u64,
    event: BlockEvent,
    before: Lsn,
}

impl Step {
    fn of(history: &PageHistory, page: PageId, index: usize) -> Self {
        let events = history.events(0);
        let event = events.get(index).cloned().unwrap_or_default();
        // After the record before, which is built anyway, unless something may have happened in between.
        let previous = index.checked_sub(1).and_then(|index| events.get(index)).map(|previous| previous.end_lsn);
        let is_quiet = |end: &Lsn| history.is_quiet_between(page, *end, event.start_lsn);
        let before = previous.filter(is_quiet).unwrap_or(event.start_lsn);
        Self { number: index as u64 + 1, event, before }
    }
}
