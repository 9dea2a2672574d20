//! `pg_dwbinspect tui`: triage after a crash on a screen.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;

use super::PROGRAM;
use super::examination::{Examination, Request, Watch};
use super::page_name::PageName;
use super::repair::RepairArgs;
use super::sheets::{sheet_of, survey_of};
use crate::analysis::verdict::check::Stage;
use crate::analysis::verdict::judge::Verdict;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::screen::{ScreenArgs, absolute, export, free_name, need_terminal, show, take_leave};
use crate::cli::stamps::Stamps;
use crate::cli::walfpi::screen::WalRequest;
use crate::cli::work::JobsArg;
use crate::cluster::data_dir::DataDir;
use crate::parsers::dwb::LAYOUTS;
use crate::repair::plan::Plan;
use crate::tui::action::{Action, Effect};
use crate::tui::command_line::quoted;
use crate::tui::facts::{AppliedSheet, PageSheet, PlanSheet, Progress};
use crate::tui::state::{Subject, View};
use crate::tui::worker::{Backend, Tell};
use crate::types::PageId;

/// Look at a crashed cluster on a screen: what is wrong, what a start would bring, what to do
///
/// Opens with the triage and fills in while the cluster is being read; the same findings as `check`, then batches, slots,
/// pages, WAL and the repair plan. ? shows the keys. Nothing is written into the data directory but by the plan, after
/// the word "apply" was typed. The exit status is that of `check`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct TuiArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: PathBuf,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    screen: ScreenArgs,
}

pub(super) fn run(args: &TuiArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    need_terminal("pg_dwbinspect check")?;
    // What cannot be looked at is said on the normal screen.
    let directory = DataDir::open(&args.data_dir).map_err(|error| Stop::Input(error.to_string()))?;
    let path = args.data_dir.display().to_string();
    let plain = quoted(&path);
    if directory.control().trusted().is_none() {
        return Err(Stop::Input(format!(
            "{path}: pg_control is missing or damaged, so nothing on the screen would be certain; \
             `{PROGRAM} info {plain}` and `{PROGRAM} check {plain}` tell what can still be told"
        )));
    }
    let further: String =
        args.wal.iter().map(|path| format!(" --wal {}", quoted(&path.display().to_string()))).collect();
    let own: String = args.wal.iter().map(|path| format!(" {}", quoted(&path.display().to_string()))).collect();
    let subject = Subject {
        program: PROGRAM,
        arguments: format!("{plain}{further}"),
        wal_arguments: format!("--names {plain} {plain}{own}"),
        path,
        views: View::ALL.to_vec(),
    };
    let backend = ClusterBackend {
        data_dir: args.data_dir.clone(),
        arguments: subject.arguments.clone(),
        wal: args.wal.clone(),
        jobs: args.jobs,
        examined: Mutex::default(),
        stamps: Mutex::default(),
        wanted_page: AtomicU64::new(0),
    };
    let ended = show(subject, args.screen, Arc::new(backend))?;
    take_leave(&ended, out)
}

/// Does the work on a cluster.
struct ClusterBackend {
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
    tell: &'a Tell,
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
        self.tell.progress(Action::Progressed, Progress { what, done, total });
        if (self.wanted)() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Backend for ClusterBackend {
    fn work(&self, effect: Effect, tell: &Tell) {
        let failed = |stop: Stop| tell.action(Action::Failed(stop.to_string()));
        match effect {
            Effect::Survey => {
                if let Err(stop) = self.survey(tell) {
                    tell.action(Action::SurveyFailed(stop.to_string()));
                }
            }
            Effect::ReadWal => {
                let request = WalRequest::of_cluster(self.data_dir.clone(), &self.wal, self.jobs.count());
                if let Err(stop) = request.open().and_then(|source| request.read(source, tell)) {
                    tell.action(Action::WalFailed(stop.to_string()));
                }
            }
            Effect::ReadPage(page) => match self.page(page, tell) {
                Ok(Some(sheet)) => tell.action(Action::PageRead(Arc::new(sheet))),
                Ok(None) => {}
                Err(stop) => failed(stop),
            },
            Effect::MakePlan(pages) => match self.plan(pages) {
                Ok(plan) => tell.action(Action::Planned(Arc::new(plan))),
                Err(stop) => failed(stop),
            },
            Effect::SavePlan(plan) => tell.action(match self.save(&plan) {
                Ok(words) => Action::Told(words),
                Err(stop) => Action::Failed(stop.to_string()),
            }),
            Effect::DryRun(plan, pages) => tell.action(match self.carry_out(&plan, &pages, true, tell) {
                Ok(_) => {
                    let count = plan.steps.len();
                    Action::Rehearsed(format!("dry run: {count} pages could be written now; nothing was written"))
                }
                Err(stop) => Action::Refused(stop.to_string()),
            }),
            Effect::ApplyPlan(plan, pages) => tell.action(match self.carry_out(&plan, &pages, false, tell) {
                Ok(Some(applied)) => Action::Applied(Arc::new(applied)),
                Ok(None) => Action::Refused("nothing was written".to_owned()),
                Err(stop) => Action::Refused(stop.to_string()),
            }),
            Effect::Export { name, text, json } => {
                let protected = self.examined().as_ref().map_or_else(Vec::new, |one| one.source.protected());
                export(&name, &text, &json, &protected, tell);
            }
            Effect::Quit
            | Effect::Fail(_)
            | Effect::Suspend
            | Effect::Redraw
            | Effect::Copy(_) => {}
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
    fn examined(&self) -> Option<Arc<Examination>> {
        lock(&self.examined).clone()
    }

    fn survey(&self, tell: &Tell) -> Result<(), Stop> {
        *lock(&self.stamps) = self.look_at_files(None);
        let request = Request {
            dwb_only: false,
            page: None,
            wal: self.wal.clone(),
            jobs: self.jobs.count(),
            keep_slots: true,
        };
        if let Ok(directory) = DataDir::open(&self.data_dir)
            && let Some(control) = directory.control().trusted()
        {
            // Known at once, long before the pages are read.
            let (server, signs) = (directory.server_sign(), directory.recovery_signs());
            tell.action(Action::Opened(crate::analysis::cluster_report::state_in_words(control, &server, &signs)));
        }
        let watch = ScreenWatch { tell, wanted: &|| true };
        let examined = Examination::run(&self.data_dir, &request, &watch)?;
        *lock(&self.stamps) = self.look_at_files(Some(&examined));
        let survey = survey_of(&examined, &self.data_dir)?;
        *lock(&self.examined) = Some(Arc::new(examined));
        tell.action(Action::Surveyed(Arc::new(survey)));
        Ok(())
    }

    /// Files whose change makes what is shown out of date.
    fn look_at_files(&self, examined: Option<&Examination>) -> Stamps {
        let root = &self.data_dir;
        let mut paths = vec![root.join("global/pg_control"), root.join("postmaster.pid"), root.join("pg_wal")];
        paths.extend(LAYOUTS.iter().map(|layout| root.join(layout.directory())));
        if let Some(examined) = examined {
            let directories = LAYOUTS.iter().map(|layout| root.join(layout.directory()));
            let files = &examined.source.set.files;
            paths.extend(directories.flat_map(|directory| files.iter().map(move |file| directory.join(&file.name))));
            paths.extend(examined.report.pages.iter().map(|page| root.join(examined.path_of(page.page))));
        }
        Stamps::of(paths)
    }

    /// A page; `None` when another one is wanted by now.
    fn page(&self, page: PageId, tell: &Tell) -> Result<Option<PageSheet>, Stop> {
        let turn = self.wanted_page.fetch_add(1, Ordering::SeqCst) + 1;
        let is_wanted = || self.wanted_page.load(Ordering::SeqCst) == turn;
        if let Some(examined) = self.examined()
            && let Ok(at) = examined.report.pages.binary_search_by_key(&page, |report| report.page)
            && let Some(found) = examined.report.pages.get(at)
        {
            return sheet_of(&examined, found, &self.data_dir).map(Some);
        }
        // A page in order is not part of the report: it is examined as `page` does.
        let request =
            Request { dwb_only: true, page: Some(page), wal: self.wal.clone(), jobs: 1, keep_slots: false };
        let watch = ScreenWatch { tell, wanted: &is_wanted };
        let examined = Examination::run(&self.data_dir, &request, &watch)?;
        if !is_wanted() {
            return Ok(None);
        }
        let nothing = || Stop::Input("nothing is known about this page".to_owned());
        let found = examined.report.pages.first().ok_or_else(nothing)?;
        sheet_of(&examined, found, &self.data_dir).map(Some)
    }

    /// The arguments of `repair` that stand for these pages.
    fn repair_args(&self, examined: &Examination, pages: &[PageId]) -> Result<(RepairArgs, String), Stop> {
        let (mut names, mut unproven, mut words) = (Vec::new(), Vec::new(), String::new());
        for page in pages {
            let name = format!("{}:{}", examined.path_of(*page), page.block);
            let parsed: PageName = name.parse().map_err(Stop::Input)?;
            words.push_str(&format!(" --page {}", quoted(&name)));
            let report = examined.report.pages.iter().find(|report| report.page == *page);
            if report.is_some_and(|report| report.verdict.verdict == Verdict::RestoreUnproven) {
                words.push_str(&format!(" --allow-unproven {}", quoted(&name)));
                unproven.push(parsed.clone());
            }
            names.push(parsed);
        }
        let args = RepairArgs::of_pages(&self.data_dir, &self.wal, self.jobs, names, unproven);
        Ok((args, format!("{PROGRAM} repair {}{words}", self.arguments)))
    }

    fn plan(&self, pages: Vec<PageId>) -> Result<PlanSheet, Stop> {
        let examined = self.examined().ok_or_else(|| Stop::Input("the cluster was not read yet".to_owned()))?;
        let (args, command) = self.repair_args(&examined, &pages)?;
        let (plan, guards) = args.plan_for(&examined)?;
        Ok(PlanSheet { pages, plan, guards: guards.iter().map(ToString::to_string).collect(), command })
    }

    fn save(&self, plan: &Plan) -> Result<String, Stop> {
        let protected = self.examined().map_or_else(Vec::new, |examined| examined.source.protected());
        let name = format!("{}.json", free_name("repair_plan", &["json"]));
        crate::repair::plan_file::save(Path::new(&name), plan, &protected)
            .map_err(|error| Stop::Input(error.to_string()))?;
        Ok(format!("plan saved: {}", absolute(Path::new(&name))))
    }

    /// Everything anew: guards, check, plan. Pages are written unless `dry`.
    fn carry_out(
        &self,
        plan: &Plan,
        pages: &[PageId],
        dry: bool,
        tell: &Tell,
    ) -> Result<Option<AppliedSheet>, Stop> {
        let examined = self.examined().ok_or_else(|| Stop::Input("the cluster was not read yet".to_owned()))?;
        let (args, _) = self.repair_args(&examined, pages)?;
        let done = args.carry_out(plan, dry, &ScreenWatch { tell, wanted: &|| true })?;
        Ok(done.map(|(journal, applied)| {
            let directory = journal.directory().display().to_string();
            let data_dir = quoted(&absolute(&self.data_dir));
            let undo = format!("{PROGRAM} undo {data_dir} {}", quoted(&directory));
            AppliedSheet { written: applied.written, journal: directory, undo }
        }))
    }
}
