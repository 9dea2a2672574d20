//! The work behind the screen of a cluster: the same examination, plan and repair as the commands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::wal::{RecordSource, tell_survey};
use super::watch::ScreenWatch;
use super::{
    ActionSender, Backend, FileStamps, WorkError, absolute, export, hand_over, hand_over_written, lock, quoted_paths,
    save_plan, write_all,
};
use crate::analysis::dwb::format::directories;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::data_dir::DataDir;
use crate::inspect::check::{CheckRequest, Scope, check};
use crate::inspect::crash_report::{CrashReportRequest, USUAL_SHEETS, report_on};
use crate::inspect::dwb_source::protected_of;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::Examination;
use crate::inspect::next::other_problems;
use crate::inspect::now_text;
use crate::inspect::page_name::PageName;
use crate::inspect::rebuild::ReplayOptions;
use crate::inspect::repair::replay::{self, ReplayRequest};
use crate::inspect::repair::{self, RepairRequest, Written};
use crate::inspect::wal::request::WalRequest;
use crate::output::check_text::page_title;
use crate::output::escape::quoted;
use crate::output::report::Provenance;
use crate::output::report::crash::Pressed;
use crate::output::start_words::StartWords;
use crate::repair::apply::Applied;
use crate::repair::blocker::Overrides;
use crate::repair::journal_seen::{is_found_beside, is_free};
use crate::repair::plan::PlanStep;
use crate::tui::action::{Action, Effect, RepairOrder, UndoOrder};
use crate::tui::command_line::DWBINSPECT;
use crate::tui::facts::{
    AppliedSheet, BeforeSheet, PageSheet, PlanSheet, StepFacts, Survey, UndoFacts, UndoSheet, UndoneSheet,
};
use crate::tui::state::{Subject, View};
use crate::types::PageId;

#[derive(Default)]
pub struct ClusterBackend {
    data_dir: PathBuf,
    wal: Vec<PathBuf>,
    donors: Vec<PathBuf>,
    rebuild: Option<ReplayOptions>,
    /// The terminal UI was left: rebuilding pages must end.
    is_left: AtomicBool,
    at_work: Mutex<()>,
    repairing: Mutex<()>,
    jobs: usize,
    overrides: Overrides,
    /// The last examination of everything, and when it was begun.
    examined: Mutex<Option<(Arc<Examination>, String)>>,
    stamps: Mutex<FileStamps>,
    /// Number of the page that was asked for last: reading another one is interrupted.
    wanted_page: AtomicU64,
    records: RecordSource,
    /// Journals that were named, or made since: they may lie anywhere.
    journals: Mutex<Vec<PathBuf>>,
    /// Where the next journal goes, as the user named it.
    next_journal: Option<PathBuf>,
}

impl Backend for ClusterBackend {
    /// Interrupts rebuilding pages, and waits until its server has ended and its sandbox is removed.
    fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        drop(lock(&self.at_work));
    }

    fn work(&self, effect: Effect, sender: &ActionSender) {
        let (failed, done): (fn(String) -> Action, Result<Action, WorkError>) = match effect {
            Effect::Survey => (Action::SurveyFailed, self.survey(sender).map_err(WorkError::from)),
            Effect::ReadWal => return tell_survey(&self.wal_request(), None, &self.records, sender),
            effect @ (Effect::ListRecords { .. } | Effect::ReadRecord { .. }) => {
                return self.records.work(&self.wal_request(), effect, sender);
            }
            Effect::ReadPage(page) => match self.page(page, sender) {
                Some(read) => (Action::Failed, read.map(|sheet| Action::PageRead(Arc::new(sheet)))),
                None => return,
            },
            Effect::MakePlan(marked) => (Action::Failed, self.plan(marked).map(|plan| Action::Planned(Arc::new(plan)))),
            Effect::SavePlan(plan) => {
                let saved = self.protected().and_then(|protected| save_plan(&plan, &protected));
                (Action::Failed, saved.map(Action::PlanSaved).map_err(WorkError::from))
            }
            Effect::DryRun(order) => {
                let done = self.rehearse(&order, sender);
                (Action::Refused, done.map(|()| Action::Rehearsed(Box::new(order))))
            }
            Effect::ApplyPlan(order) => {
                let done = self.carry_out(&order, sender);
                return hand_over_written(sender, done.map(|applied| Action::Applied(Arc::new(applied))));
            }
            Effect::LookBefore(order) => {
                (Action::Failed, self.look_before(order).map(|sheet| Action::LookedBefore(Arc::new(sheet))))
            }
            Effect::RehearseUndo(order) => {
                (Action::Failed, Ok(Action::UndoRehearsed(Arc::new(self.rehearse_undo(order)))))
            }
            Effect::Undo(order) => {
                let done = self.undo(order);
                return hand_over_written(sender, done.map(|undone| Action::Undone(Arc::new(undone))));
            }
            Effect::Export { name, text, json } => {
                let written = export(&name, &text, &json, self.protected());
                (Action::Failed, written.map_err(WorkError::from))
            }
            Effect::Report(pressed) => (Action::Failed, self.report(pressed, sender).map(Action::Reported)),
            Effect::Quit | Effect::Fail(_) | Effect::Tick | Effect::Suspend | Effect::Redraw | Effect::Copy(_) => {
                return;
            }
        };
        hand_over(sender, failed, done);
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }
}

impl ClusterBackend {
    pub fn new(
        data_dir: &Path,
        wal: &[PathBuf],
        donors: &[PathBuf],
        rebuild: Option<ReplayOptions>,
        jobs: usize,
    ) -> Self {
        let (wal, donors) = (wal.to_vec(), donors.to_vec());
        Self { data_dir: data_dir.to_owned(), wal, donors, rebuild, jobs, ..Self::default() }
    }

    pub fn overriding(self, overrides: Overrides) -> Self {
        Self { overrides, ..self }
    }

    /// Sets a journal in another directory; if it does not exist yet, the one of the next repair.
    pub fn with_journal(self, directory: PathBuf) -> Self {
        let directory = absolute(&directory);
        if is_free(&directory) {
            return Self { next_journal: Some(directory), ..self };
        }
        Self { journals: Mutex::new(vec![directory]), ..self }
    }

    pub fn subject(&self) -> Subject {
        let path = self.data_dir.display().to_string();
        let plain = quoted(&path);
        let further = quoted_paths(&self.wal);
        let each = |lead: &str| -> String { further.iter().map(|path| format!("{lead}{path}")).collect() };
        let donors: String = quoted_paths(&self.donors).iter().map(|path| format!(" --donor {path}")).collect();
        Subject {
            program: DWBINSPECT,
            path,
            arguments: format!(
                "{plain}{}{donors}{}",
                each(" --wal "),
                self.rebuild.as_ref().map_or_else(String::new, ReplayOptions::rebuild_arguments)
            ),
            wal_arguments: format!("--names {plain} {plain}{}", each(" ")),
            is_guided: false,
            views: View::ALL.to_vec(),
            journal: self.next_journal.clone(),
            allowed: self.overrides,
        }
    }

    /// Has [`Backend::leave`] wait, where a server may be started.
    fn begin_work(&self) -> Option<MutexGuard<'_, ()>> {
        self.rebuild.as_ref().map(|_| lock(&self.at_work))
    }

    fn wal_request(&self) -> WalRequest {
        let request = WalRequest::of_cluster(self.data_dir.clone(), &self.wal);
        WalRequest { jobs: self.jobs, ..request }
    }

    fn is_wanted(&self) -> bool {
        !self.is_left.load(Ordering::SeqCst)
    }

    fn examination(&self) -> Result<Arc<Examination>, WorkError> {
        let examined = lock(&self.examined).as_ref().map(|(examined, _)| Arc::clone(examined));
        examined.ok_or(WorkError::NotReadYet)
    }

    fn check_request(&self, scope: Scope) -> CheckRequest {
        let (wal, donors) = (self.wal.clone(), self.donors.clone());
        let rebuild = self.rebuild.clone();
        CheckRequest { scope, wal, donors, rebuild, jobs: self.jobs, ..CheckRequest::of(&self.data_dir) }
    }

    fn survey(&self, sender: &ActionSender) -> Result<Action, InspectError> {
        *lock(&self.stamps) = self.stamps_of_files(None);
        let request = CheckRequest { keep_slots: true, ..self.check_request(Scope::All) };
        let time = now_text();
        if let Ok(directory) = DataDir::open(&self.data_dir) {
            let condition = ClusterCondition::of_data_dir(&directory);
            if condition.is_known() {
                // Known at once, long before the pages are read.
                sender.action(Action::Opened(condition));
            }
        }
        let at_work = self.begin_work();
        let examined = check(&request, &ScreenWatch::new(sender, &|| self.is_wanted(), self.rebuild.is_some()))?;
        drop(at_work);
        *lock(&self.stamps) = self.stamps_of_files(Some(&examined));
        let examined = Arc::new(examined);
        *lock(&self.examined) = Some((Arc::clone(&examined), time));
        let journals = lock(&self.journals).clone();
        Ok(Action::Surveyed(Arc::new(Survey::with_journals(examined, &journals))))
    }

    fn stamps_of_files(&self, examined: Option<&Examination>) -> FileStamps {
        let root = &self.data_dir;
        let mut paths = vec![root.join("global/pg_control"), root.join("postmaster.pid"), root.join("pg_wal")];
        paths.extend(directories().iter().map(|kind| root.join(kind.directory())));
        // A start is another thing where one of them comes or goes, and an undo where its journal does.
        paths
            .extend(["backup_label", "recovery.signal", "standby.signal", "recovery.conf"].map(|name| root.join(name)));
        paths.extend(lock(&self.journals).iter().cloned());
        if let Some(examined) = examined {
            let set = &examined.source.set;
            paths.extend(set.files.iter().map(|file| file.path().to_owned()));
            paths.extend(set.controls.iter().map(|control| control.path.clone()));
            paths.extend(examined.report.pages.iter().map(|page| root.join(examined.path_of(page.page))));
        }
        FileStamps::of(paths)
    }

    /// A page; `None` when another one is wanted by now.
    fn page(&self, page: PageId, sender: &ActionSender) -> Option<Result<PageSheet, WorkError>> {
        let turn = self.wanted_page.fetch_add(1, Ordering::SeqCst) + 1;
        let is_wanted = || self.wanted_page.load(Ordering::SeqCst) == turn;
        if let Ok(examined) = self.examination()
            && let Some(found) = report_of(&examined, page).cloned()
        {
            return Some(Ok(PageSheet::of(examined, found)));
        }
        // A sound page is not part of the report: it is examined as `page` does.
        let request = CheckRequest { jobs: 1, rebuild: None, ..self.check_request(Scope::Page(page)) };
        let watch = ScreenWatch::new(sender, &is_wanted, false);
        let examined = check(&request, &watch);
        is_wanted().then(|| {
            let examined = examined?;
            let found = examined.report.pages.first().cloned().ok_or(WorkError::PageUnknown)?;
            Ok(PageSheet::of(Arc::new(examined), found))
        })
    }

    fn report(&self, pressed: Vec<Pressed>, sender: &ActionSender) -> Result<PathBuf, WorkError> {
        let (examined, time) = lock(&self.examined).clone().ok_or(WorkError::NotReadYet)?;
        let request = CrashReportRequest {
            check: self.check_request(Scope::All),
            sheets: USUAL_SHEETS,
            program: DWBINSPECT,
            made: Provenance { command_line: format!("{DWBINSPECT} tui {}", self.subject().arguments), time },
            pressed,
            journals: lock(&self.journals).clone(),
        };
        let is_wanted = || self.is_wanted();
        let watch = ScreenWatch::new(sender, &is_wanted, self.rebuild.is_some());
        let report = report_on(&examined, &request, &watch).document;
        // Its digests of the evidence were made just now: they are those of what was examined only where nothing changed.
        if self.has_changed() {
            return Err(WorkError::ChangedSince);
        }
        let (html, markdown) = (report.html(), report.markdown());
        Ok(write_all("crash_report", &[("html", &html), ("md", &markdown)], &self.protected()?)?)
    }

    /// The repair of these pages, or of every proven one if empty.
    fn repair_request(&self, examined: &Examination, pages: &[PageId]) -> RepairRequest {
        let (mut names, mut unproven) = (Vec::new(), Vec::new());
        for page in pages {
            let name = PageName::of_page(*page, &examined.paths);
            if report_of(examined, *page).is_some_and(|report| report.verdict.verdict == Verdict::RestoreUnproven) {
                unproven.push(name.clone());
            }
            names.push(name);
        }
        RepairRequest {
            data_dir: self.data_dir.clone(),
            wal: self.wal.clone(),
            donors: self.donors.clone(),
            rebuild: self.rebuild.clone(),
            jobs: self.jobs,
            pages: names,
            allow_unproven: unproven,
            overrides: self.overrides,
            ..RepairRequest::default()
        }
    }

    fn plan(&self, pages: Vec<PageId>) -> Result<PlanSheet, WorkError> {
        let examined = self.examination()?;
        let (plan, blockers) = repair::plan_for(&self.repair_request(&examined, &pages), &examined)?;
        let report = |step: &PlanStep| report_of(&examined, step.page.page_id()?);
        let facts = plan.steps.iter().map(|step| StepFacts::of(report(step), step)).collect();
        Ok(PlanSheet { examined, pages, plan, blockers, facts })
    }

    /// Directories that nothing is written into, determined again: also if the check failed.
    fn protected(&self) -> Result<Vec<PathBuf>, InspectError> {
        protected_of(&open_data_dir(&self.data_dir)?)
    }

    fn ordered(&self, examined: &Examination, order: &RepairOrder) -> RepairRequest {
        let request = self.repair_request(examined, &order.pages);
        let overrides = request.overrides.and(order.allowed);
        RepairRequest { journal: order.journal.clone(), overrides, ..request }
    }

    /// Checks before applying a plan. Nothing is written.
    fn look_before(&self, order: RepairOrder) -> Result<BeforeSheet, WorkError> {
        let examined = self.examination()?;
        // Both take the lock on the data directory, which would keep the other out.
        let _repairing = lock(&self.repairing);
        let found = repair::before_repair(&self.ordered(&examined, &order), &examined, &order.plan);
        let found = found.map_err(|error| error.to_string());
        let start_after = found.as_ref().map_or_else(
            |_| String::new(),
            |found| {
                let label = |page| page_title(&examined.called(page), page);
                let start = StartWords::of(&examined.report.replay, &found.after.outlook, &found.after.pages, &label);
                start.with(other_problems(&examined)).line()
            },
        );
        let directory = examined.source.directory.as_ref();
        let version = directory.map_or_else(String::new, |directory| directory.version().to_owned());
        Ok(BeforeSheet { order, found, version, start_after })
    }

    /// Everything again: blockers, check, plan, journal, files. Nothing is written.
    fn rehearse(&self, order: &RepairOrder, sender: &ActionSender) -> Result<(), WorkError> {
        let request = self.ordered(&*self.examination()?, order);
        let _repairing = lock(&self.repairing);
        let _at_work = self.begin_work();
        Ok(repair::rehearse(
            &request,
            &order.plan,
            &ScreenWatch::new(sender, &|| self.is_wanted(), self.rebuild.is_some()),
        )?)
    }

    /// Like [`Self::rehearse`], and writes the pages.
    fn carry_out(&self, order: &RepairOrder, sender: &ActionSender) -> Result<AppliedSheet, WorkError> {
        let request = self.ordered(&*self.examination()?, order);
        let _repairing = lock(&self.repairing);
        let _at_work = self.begin_work();
        let done =
            repair::carry_out(&request, &order.plan, &ScreenWatch::new(sender, &|| true, self.rebuild.is_some()));
        let made = match &done {
            Ok(written) => Some(written.journal.directory()),
            Err(InspectError::Unfinished(unfinished)) => Some(unfinished.journal.as_path()),
            Err(_) => None,
        };
        lock(&self.journals).extend(made.map(absolute));
        let Written { journal, applied } = done?;
        Ok(AppliedSheet {
            written: applied.written.len(),
            data_dir: absolute(&self.data_dir),
            is_found_beside: is_found_beside(&self.data_dir, journal.directory()),
            journal: absolute(journal.directory()),
        })
    }

    fn undo_request(&self, order: &UndoOrder) -> ReplayRequest {
        ReplayRequest::undo(self.data_dir.clone(), order.journal.clone(), self.overrides.and(order.allowed))
    }

    /// Every check of an undo. Nothing is written.
    fn rehearse_undo(&self, order: UndoOrder) -> UndoSheet {
        let _repairing = lock(&self.repairing);
        let found = replay::rehearse(&self.undo_request(&order));
        let flags = match &found {
            Err(InspectError::Refused(blockers)) => blockers.iter().filter_map(|blocker| blocker.flag).collect(),
            _ => Vec::new(),
        };
        let found = found.map(|written| undo_facts(written.applied)).map_err(|error| error.to_string());
        UndoSheet { order, found, flags }
    }

    fn undo(&self, order: UndoOrder) -> Result<UndoneSheet, WorkError> {
        let _repairing = lock(&self.repairing);
        let _at_work = self.begin_work();
        let written = replay::replay(&self.undo_request(&order))?;
        Ok(UndoneSheet { journal: order.journal, facts: undo_facts(written.applied) })
    }
}

fn undo_facts(applied: Applied) -> UndoFacts {
    UndoFacts { back: applied.written.len(), already: applied.already, newer_files: applied.newer_files }
}

/// What the examination found of a damaged page.
fn report_of(examined: &Examination, page: PageId) -> Option<&PageReport> {
    let pages = &examined.report.pages;
    pages.get(pages.binary_search_by_key(&page, |report| report.page).ok()?)
}
