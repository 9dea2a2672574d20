//! The work behind the screen of a cluster: the same examination, plan and repair as the commands.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PROGRAM;
use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::dwb_format::directories;
use crate::analysis::verdict::judge::Verdict;
use crate::cli::exit::Stop;
use crate::cli::screen::{absolute, export, free_name};
use crate::cli::stamps::Stamps;
use crate::cli::walfpi::screen::tell_survey;
use crate::cli::work::JobsArg;
use crate::cluster::data_dir::DataDir;
use crate::inspect::check::{CheckRequest, Scope, Stage, Watch, check};
use crate::inspect::dwb_source::protected_of;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::Examination;
use crate::inspect::page_name::PageName;
use crate::inspect::repair::{self, RepairRequest, Written};
use crate::inspect::wal::request::WalRequest;
use crate::output::shell::quoted;
use crate::repair::plan::Plan;
use crate::repair::plan_file;
use crate::tui::action::{Action, Effect};
use crate::tui::facts::{AppliedSheet, PageSheet, PlanSheet, Progress, Survey};
use crate::tui::look::pages;
use crate::tui::state::{Subject, View};
use crate::tui::worker::{ActionSender, Backend};
use crate::types::PageId;

/// Does the work on a cluster.
pub struct ClusterBackend {
    data_dir: PathBuf,
    /// Data directory and further WAL, as arguments.
    arguments: String,
    wal: Vec<PathBuf>,
    jobs: JobsArg,
    /// The last examination of everything.
    examined: Mutex<Option<Arc<Examination>>>,
    stamps: Mutex<Stamps>,
    /// Number of the page that was asked for last: reading another one is broken off.
    wanted_page: AtomicU64,
}

/// Tells the screen how far an examination is, as long as it is wanted.
struct ScreenWatch<'a> {
    sender: &'a ActionSender,
    wanted: &'a (dyn Fn() -> bool + Sync),
}

impl Watch for ScreenWatch<'_> {
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()> {
        let what = match stage {
            Stage::Read => "reading the double write buffer",
            Stage::Scan => "checking every page",
            Stage::Slots => "comparing images with pages",
            Stage::Wal => "reading WAL for the proof",
            Stage::Pages => "judging damaged pages",
        };
        self.sender.progress(Action::Progressed, Progress { what, done, total });
        if (self.wanted)() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Backend for ClusterBackend {
    fn work(&self, effect: Effect, sender: &ActionSender) {
        let failed = |stop: Stop| sender.action(Action::Failed(stop.to_string()));
        match effect {
            Effect::Survey => {
                if let Err(stop) = self.survey(sender) {
                    sender.action(Action::SurveyFailed(stop.to_string()));
                }
            }
            Effect::ReadWal => {
                let request = WalRequest::of_cluster(self.data_dir.clone(), &self.wal);
                let request = WalRequest { jobs: self.jobs.count(), ..request };
                if let Err(error) = tell_survey(&request, None, sender) {
                    sender.action(Action::WalFailed(error.to_string()));
                }
            }
            Effect::ReadPage(page) => match self.page(page, sender) {
                Ok(Some(sheet)) => sender.action(Action::PageRead(Arc::new(sheet))),
                Ok(None) => {}
                Err(stop) => failed(stop),
            },
            Effect::MakePlan(marked) => match self.plan(marked) {
                Ok(plan) => sender.action(Action::Planned(Arc::new(plan))),
                Err(stop) => failed(stop),
            },
            Effect::SavePlan(plan) => sender.action(match self.save(&plan) {
                Ok(words) => Action::Told(words),
                Err(stop) => Action::Failed(stop.to_string()),
            }),
            Effect::DryRun(plan, marked) => sender.action(match self.rehearse(&plan, &marked, sender) {
                Ok(()) => {
                    let count = pages(plan.steps.len());
                    Action::Rehearsed(format!("dry run: {count} could be written now; nothing was written"))
                }
                Err(stop) => Action::Refused(stop.to_string()),
            }),
            Effect::ApplyPlan(plan, marked) => sender.action(match self.carry_out(&plan, &marked, sender) {
                Ok(applied) => Action::Applied(Arc::new(applied)),
                Err(stop) => Action::Refused(stop.to_string()),
            }),
            Effect::Export { name, text, json } => match self.protected() {
                Ok(protected) => export(&name, &text, &json, &protected, sender),
                Err(stop) => failed(stop),
            },
            Effect::Quit | Effect::Fail(_) | Effect::Suspend | Effect::Redraw | Effect::Copy(_) => {}
        }
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterBackend {
    /// Nothing read yet.
    #[must_use]
    pub fn new(data_dir: &Path, wal: &[PathBuf], jobs: JobsArg) -> Self {
        let further: Vec<String> = wal.iter().map(|path| quoted(&path.display().to_string())).collect();
        let mut arguments = quoted(&data_dir.display().to_string());
        for path in &further {
            arguments.push_str(&format!(" --wal {path}"));
        }
        Self {
            data_dir: data_dir.to_owned(),
            arguments,
            wal: wal.to_vec(),
            jobs,
            examined: Mutex::default(),
            stamps: Mutex::default(),
            wanted_page: AtomicU64::new(0),
        }
    }

    /// What the screen is about.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let path = self.data_dir.display().to_string();
        let plain = quoted(&path);
        let further: String = self.wal.iter().map(|path| format!(" {}", quoted(&path.display().to_string()))).collect();
        Subject {
            program: PROGRAM,
            path,
            arguments: self.arguments.clone(),
            wal_arguments: format!("--names {plain} {plain}{further}"),
            views: View::ALL.to_vec(),
        }
    }

    fn examined(&self) -> Option<Arc<Examination>> {
        lock(&self.examined).clone()
    }

    fn examination(&self) -> Result<Arc<Examination>, Stop> {
        self.examined().ok_or_else(|| Stop::Input("the cluster was not read yet".to_owned()))
    }

    fn check_request(&self, scope: Scope) -> CheckRequest {
        let (wal, jobs) = (self.wal.clone(), self.jobs.count());
        CheckRequest { scope, wal, jobs, ..CheckRequest::of(&self.data_dir) }
    }

    fn survey(&self, sender: &ActionSender) -> Result<(), Stop> {
        *lock(&self.stamps) = self.look_at_files(None);
        let request = CheckRequest { keep_slots: true, ..self.check_request(Scope::All) };
        if let Ok(directory) = DataDir::open(&self.data_dir) {
            let state = ClusterCondition::of_data_dir(&directory);
            if state.is_known() {
                // Known at once, long before the pages are read.
                sender.action(Action::Opened(state));
            }
        }
        let watch = ScreenWatch { sender, wanted: &|| true };
        let examined = check(&request, &watch)?;
        *lock(&self.stamps) = self.look_at_files(Some(&examined));
        let examined = Arc::new(examined);
        *lock(&self.examined) = Some(Arc::clone(&examined));
        sender.action(Action::Surveyed(Arc::new(Survey::of(examined))));
        Ok(())
    }

    /// Files whose change makes what is shown out of date.
    fn look_at_files(&self, examined: Option<&Examination>) -> Stamps {
        let root = &self.data_dir;
        let mut paths = vec![root.join("global/pg_control"), root.join("postmaster.pid"), root.join("pg_wal")];
        paths.extend(directories().iter().map(|kind| root.join(kind.directory())));
        if let Some(examined) = examined {
            let set = &examined.source.set;
            paths.extend(set.files.iter().map(|file| file.path().to_owned()));
            paths.extend(set.controls.iter().map(|control| control.path.clone()));
            paths.extend(examined.report.pages.iter().map(|page| root.join(examined.path_of(page.page))));
        }
        Stamps::of(paths)
    }

    /// A page; `None` when another one is wanted by now.
    fn page(&self, page: PageId, sender: &ActionSender) -> Result<Option<PageSheet>, Stop> {
        let turn = self.wanted_page.fetch_add(1, Ordering::SeqCst) + 1;
        let is_wanted = || self.wanted_page.load(Ordering::SeqCst) == turn;
        if let Some(examined) = self.examined()
            && let Ok(at) = examined.report.pages.binary_search_by_key(&page, |report| report.page)
            && let Some(found) = examined.report.pages.get(at).cloned()
        {
            return Ok(Some(PageSheet::of(examined, found)));
        }
        // A page in order is not part of the report: it is examined as `page` does.
        let request = CheckRequest { jobs: 1, ..self.check_request(Scope::Page(page)) };
        let watch = ScreenWatch { sender, wanted: &is_wanted };
        let examined = check(&request, &watch)?;
        if !is_wanted() {
            return Ok(None);
        }
        let nothing = || Stop::Input("nothing is known about this page".to_owned());
        let found = examined.report.pages.first().cloned().ok_or_else(nothing)?;
        Ok(Some(PageSheet::of(Arc::new(examined), found)))
    }

    /// The repair of these pages, or of every proven one when there are none.
    fn repair_request(&self, examined: &Examination, pages: &[PageId]) -> RepairRequest {
        let (mut names, mut unproven) = (Vec::new(), Vec::new());
        for page in pages {
            let name = PageName::of_page(*page, &examined.paths);
            let report = examined.report.pages.iter().find(|report| report.page == *page);
            if report.is_some_and(|report| report.verdict.verdict == Verdict::RestoreUnproven) {
                unproven.push(name.clone());
            }
            names.push(name);
        }
        RepairRequest {
            data_dir: self.data_dir.clone(),
            wal: self.wal.clone(),
            jobs: self.jobs.count(),
            pages: names,
            allow_unproven: unproven,
            ..RepairRequest::default()
        }
    }

    fn plan(&self, pages: Vec<PageId>) -> Result<PlanSheet, Stop> {
        let examined = self.examination()?;
        let (plan, blockers) = repair::plan_for(&self.repair_request(&examined, &pages), &examined)?;
        Ok(PlanSheet { pages, plan, blockers })
    }

    /// Directories that nothing is written into, asked for anew: also when the examination failed.
    fn protected(&self) -> Result<Vec<PathBuf>, Stop> {
        Ok(protected_of(&open_data_dir(&self.data_dir)?)?)
    }

    fn save(&self, plan: &Plan) -> Result<String, Stop> {
        let protected = self.protected()?;
        let name = format!("{}.json", free_name("repair_plan", &["json"]));
        plan_file::save(Path::new(&name), plan, &protected).map_err(InspectError::from)?;
        Ok(format!("plan saved: {}", absolute(Path::new(&name)).display()))
    }

    /// Everything anew: blockers, check, plan. Nothing is written.
    fn rehearse(&self, plan: &Plan, pages: &[PageId], sender: &ActionSender) -> Result<(), Stop> {
        let request = self.repair_request(&*self.examination()?, pages);
        Ok(repair::rehearse(&request, plan, &ScreenWatch { sender, wanted: &|| true })?)
    }

    /// The same, and the pages are written.
    fn carry_out(&self, plan: &Plan, pages: &[PageId], sender: &ActionSender) -> Result<AppliedSheet, Stop> {
        let request = self.repair_request(&*self.examination()?, pages);
        let Written { journal, applied } =
            repair::carry_out(&request, plan, &ScreenWatch { sender, wanted: &|| true })?;
        Ok(AppliedSheet {
            written: applied.written.len(),
            data_dir: absolute(&self.data_dir),
            journal: journal.directory().to_owned(),
        })
    }
}
