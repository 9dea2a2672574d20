//! Repairs: proven images restored with a journal, and journals finished or undone.
//! Also here: selection of pages and images of a plan.

pub(crate) mod readiness;
pub mod replay;
pub(crate) mod session;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::readiness::{BeforeRepair, guards};
use self::session::{Locked, Session};
use super::check::{CheckRequest, Watch, check};
use super::error::{InspectError, open_data_dir};
use super::examination::Examination;
use super::page_name::PageName;
use super::page_target::RelationChoice;
use super::rebuild::ReplayOptions;
use crate::analysis::pages::select::RelationPattern;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::data_dir::DataDir;
use crate::cluster::relation_walk;
use crate::repair::apply::Applied;
use crate::repair::blocker::{Blocker, Overrides, find_blockers, unopened};
use crate::repair::journal::Journal;
use crate::repair::new_file;
use crate::repair::plan::{LeftPage, LeftReason, Plan, PlanSource, PlanStep, SourceKind};
use crate::types::PageId;

/// Request of a repair, with its permissions. Only the directory is required: then every proven image is restored.
#[derive(Clone, Debug, Default)]
pub struct RepairRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// More WAL: directories, segments, archives, patterns.
    pub wal: Vec<PathBuf>,
    /// Older copies of the cluster: base backups, snapshots, stopped standbys.
    pub donors: Vec<PathBuf>,
    /// Rebuild pages without a proven image, with a server in a sandbox; nothing is started when `None`.
    pub rebuild: Option<ReplayOptions>,
    /// Threads that read.
    pub jobs: usize,
    /// Only these pages, if there are any.
    pub pages: Vec<PageName>,
    /// Only these relations, if there are any.
    pub relations: Vec<RelationChoice>,
    /// Only images of one kind of source.
    pub source: Option<SourceKind>,
    /// Put unproven images back as well: of these pages, or of all.
    pub allow_unproven: Vec<PageName>,
    /// Put an image back although committed changes are lost, for these pages.
    pub lose_changes: Vec<PageName>,
    /// Overwrite damaged pages of maps with zeros.
    pub blank_maps: bool,
    /// A saved plan to apply instead of a new one, or the selected part of it.
    pub saved_plan: Option<PathBuf>,
    /// Where the old bytes are kept; `None`: beside the data directory.
    pub journal: Option<PathBuf>,
    /// Blockers that are overridden.
    pub overrides: Overrides,
}

/// A planned repair, and its blockers. Nothing was written.
pub struct Proposal {
    /// The cluster as it was judged.
    pub examined: Examination,
    /// The plan.
    pub plan: Plan,
    /// Reasons not to apply it.
    pub blockers: Vec<Blocker>,
}

impl Proposal {
    /// Saves the plan as a new file outside the cluster.
    ///
    /// # Errors
    /// When the file exists or lies in a directory that may belong to a cluster, or the system refuses.
    pub fn save(&self, file: &Path) -> Result<(), InspectError> {
        Ok(new_file::save(file, &self.plan, &self.examined.source.protected()?)?)
    }
}

/// A complete repair.
pub struct Repair {
    /// The cluster as it was judged before.
    pub examined: Examination,
    /// The applied plan.
    pub plan: Plan,
    /// The result; `None` when the plan had no steps.
    pub written: Option<Written>,
}

impl Repair {
    /// True when an image was put back into this page.
    pub(crate) fn has_repaired(&self, page: PageId) -> bool {
        self.plan.steps.iter().any(|step| step.page.page_id() == Some(page))
    }
}

/// Pages that were written, and the journal that takes them back.
pub struct Written {
    /// The journal.
    pub journal: Journal,
    /// The pages.
    pub applied: Applied,
}

/// Judges the cluster and says what a repair would do. Takes no lock and writes nothing.
///
/// # Errors
/// When the cluster cannot be examined, the examination was interrupted, or a requested part is missing.
pub fn propose(request: &RepairRequest, watch: &dyn Watch) -> Result<Proposal, InspectError> {
    let directory = open_data_dir(&request.data_dir)?;
    let examined = request.examine(watch)?;
    let plan = request.plan_of(&Session::new(&examined)?)?;
    let blockers = find_blockers(&directory, request.overrides);
    Ok(Proposal { examined, plan, blockers })
}

/// The plan for a cluster that was judged already, and its blockers.
///
/// # Errors
/// When a requested part is missing.
pub fn plan_for(request: &RepairRequest, examined: &Examination) -> Result<(Plan, Vec<Blocker>), InspectError> {
    let plan = request.plan_of(&Session::new(examined)?)?;
    let blockers = match DataDir::open(&request.data_dir) {
        Ok(fresh) => find_blockers(&fresh, request.overrides),
        Err(error) => vec![unopened(&error)],
    };
    Ok((plan, blockers))
}

/// Locks the data directory, judges the cluster, makes the plan or confirms the saved one, and applies it.
///
/// # Errors
/// When something forbids writing, the plan does not fit what is there, or writing fails; the message says what was written.
pub fn apply(request: &RepairRequest, watch: &dyn Watch) -> Result<Repair, InspectError> {
    let (locked, examined) = request.lock_and_examine(watch)?;
    let session = Session::new(&examined)?;
    let plan = match &request.saved_plan {
        Some(file) => session.confirm_saved(request, file)?,
        None => request.plan_of(&session)?,
    };
    let written =
        if plan.steps.is_empty() { None } else { Some(session.apply(&plan, &locked, request.journal.as_deref())?) };
    Ok(Repair { examined, plan, written })
}

/// Locks the data directory, judges the cluster again, confirms a plan that was shown, and applies it.
///
/// # Errors
/// As [`apply`].
pub fn carry_out(request: &RepairRequest, plan: &Plan, watch: &dyn Watch) -> Result<Written, InspectError> {
    let (locked, examined) = request.lock_and_examine(watch)?;
    let session = Session::new(&examined)?;
    session.confirm(plan, &session.permission(request)?)?;
    session.apply(plan, &locked, request.journal.as_deref())
}

/// Like [`carry_out`], up to the moment before anything is written.
///
/// # Errors
/// When applying it would be refused.
pub fn rehearse(request: &RepairRequest, plan: &Plan, watch: &dyn Watch) -> Result<(), InspectError> {
    let (locked, examined) = request.lock_and_examine(watch)?;
    let session = Session::new(&examined)?;
    session.confirm(plan, &session.permission(request)?)?;
    session.rehearse(plan, &locked, request.journal.as_deref())?;
    // One that came meanwhile: applying it looks before each page.
    match find_blockers(&open_data_dir(&request.data_dir)?, request.overrides) {
        blockers if blockers.is_empty() => Ok(()),
        blockers => Err(InspectError::Refused(blockers)),
    }
}

/// Facts before a plan is applied, for a cluster that was judged already. Nothing is written, and the pages
/// are not judged again: [`rehearse`] does that.
pub(crate) fn before_repair(
    request: &RepairRequest,
    examined: &Examination,
    plan: &Plan,
) -> Result<BeforeRepair, InspectError> {
    let pages: BTreeSet<PageId> = plan.steps.iter().filter_map(|step| step.page.page_id()).collect();
    Ok(BeforeRepair {
        guards: guards(&request.data_dir, request.overrides)?,
        ready: Session::new(examined).and_then(|session| session.ready(plan, request.journal.as_deref())),
        after: examined.without(|page| pages.contains(&page)),
    })
}

impl RepairRequest {
    /// The lock is taken before anything is judged, so that what was checked is what is written.
    fn lock_and_examine(&self, watch: &dyn Watch) -> Result<(Locked, Examination), InspectError> {
        let locked = Locked::take(&self.data_dir, self.overrides)?;
        Ok((locked, self.examine(watch)?))
    }

    /// Reads and judges the cluster, all of it.
    fn examine(&self, watch: &dyn Watch) -> Result<Examination, InspectError> {
        let (wal, donors) = (self.wal.clone(), self.donors.clone());
        let rebuild = self.rebuild.clone();
        let request = CheckRequest { wal, donors, rebuild, jobs: self.jobs, ..CheckRequest::of(&self.data_dir) };
        let examined = check(&request, watch)?;
        if examined.interrupted() { Err(InspectError::Interrupted) } else { Ok(examined) }
    }

    fn plan_of(&self, session: &Session<'_>) -> Result<Plan, InspectError> {
        session.plan(&session.permission(self)?, &session.selection(self)?)
    }
}

/// The request; everything if empty.
struct Selection<'a> {
    pub pages: Vec<(PageId, &'a PageName)>,
    pub relations: Vec<RelationPattern>,
    /// Source of images.
    pub source: Option<SourceKind>,
}

impl Selection<'_> {
    /// True when the page was asked for, by itself or with its relation.
    fn takes(&self, page: PageId) -> bool {
        let by_page = self.pages.iter().any(|(wanted, _)| *wanted == page);
        let by_relation = self.relations.iter().any(|pattern| pattern.matches(page.rel));
        by_page || by_relation || (self.pages.is_empty() && self.relations.is_empty())
    }

    /// True when the page of a report was asked for.
    fn takes_report(&self, report: &PageReport) -> bool {
        self.takes(report.page)
    }

    fn takes_step(&self, step: &PlanStep) -> bool {
        let by_source = match (self.source, &step.image) {
            (None, _) => true,
            (Some(SourceKind::Dwb), image) => matches!(image, PlanSource::Dwb { .. }),
            (Some(SourceKind::Wal), image) => matches!(image, PlanSource::Wal { .. }),
            (Some(SourceKind::Donor), image) => matches!(image, PlanSource::Donor { .. }),
            (Some(SourceKind::Rebuilt), image) => matches!(image, PlanSource::Rebuilt { .. }),
        };
        // A page that does not exist is refused when the plan is confirmed.
        by_source && step.page.page_id().is_none_or(|page| self.takes(page))
    }

    /// Takes the other steps out of a plan that was read from a file.
    fn narrow(&self, plan: &mut Plan) -> Result<(), InspectError> {
        let (taken, others): (Vec<PlanStep>, Vec<PlanStep>) =
            std::mem::take(&mut plan.steps).into_iter().partition(|step| self.takes_step(step));
        let has = |wanted: &dyn Fn(PageId) -> bool| taken.iter().filter_map(|step| step.page.page_id()).any(wanted);
        let missing = |what: &dyn std::fmt::Display| InspectError::NotInPlan(what.to_string());
        for (page, name) in &self.pages {
            if !has(&|planned| planned == *page) {
                return Err(missing(&format_args!("--page {name}")));
            }
        }
        for pattern in &self.relations {
            if !has(&|planned| pattern.matches(planned.rel)) {
                return Err(missing(&format_args!("--relation {pattern}")));
            }
        }
        if let Some(source) = self.source.filter(|_| taken.is_empty()) {
            return Err(missing(&format_args!("--source {}", source.name())));
        }
        plan.steps = taken;
        let not_selected =
            |step: PlanStep| LeftPage::new(step.page, step.relation, step.verdict, &[LeftReason::NotSelected]);
        plan.left.extend(others.into_iter().map(not_selected));
        Ok(())
    }
}

/// The requested relations. One without a file would look undamaged.
fn relations_of(examined: &Examination, wanted: &[RelationChoice]) -> Result<Vec<RelationPattern>, InspectError> {
    let patterns = RelationChoice::resolve_all(wanted, Some(&examined.names))?;
    let Some(directory) = examined.source.directory.as_ref().filter(|_| !patterns.is_empty()) else {
        return Ok(patterns);
    };
    let files = relation_walk::relations_of(directory).files;
    for (wanted, pattern) in wanted.iter().zip(&patterns) {
        let is_damaged = || examined.report.pages.iter().any(|report| pattern.matches(report.page.rel));
        if !files.iter().any(|file| pattern.matches(file.rel)) && !is_damaged() {
            return Err(InspectError::NoFileOfRelation(wanted.to_string()));
        }
    }
    Ok(patterns)
}
