//! Pages built by replay in a sandbox, as one more image of each damaged page: only where that is asked for.
//! Also here: the server that replays records in a sandbox: which program, and where.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::check::{CheckRequest, Watch};
use super::error::InspectError;
use super::examination::Examination;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::analysis::verdict::check::Stage;
use crate::analysis::verdict::images::fetch_image;
use crate::analysis::verdict::rebuild::{BuildFailure, RebuildBase, RebuildPlan};
use crate::analysis::verdict::rebuilt_proof::BuiltImage;
use crate::cluster::control_file::CONTROL_PATH;
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::{Links, read_small};
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::output::escape::quoted;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile};
use crate::parsers::wal::version::Major;
use crate::rebuild::{
    BaseBytes, NotBuilt, Owner, RebuildError, ReplayReport, ReplayRequest, SandboxOptions, ServerProgram, WantedPage,
    find_server, replay,
};
use crate::report::rules;
use crate::types::PageId;

/// The rebuilt pages.
#[derive(Debug, Default)]
pub struct BuiltPages {
    /// The pages.
    pub bytes: BTreeMap<PageId, Vec<u8>>,
    /// The sandbox, where it was kept.
    pub sandbox: Option<PathBuf>,
}

struct Job {
    /// Index of its report.
    index: usize,
    wanted: WantedPage,
}

/// Builds every page that can be built, and judges each as one more image of its page.
pub(super) fn build(examined: &mut Examination, options: &ReplayOptions, request: &CheckRequest, watch: &dyn Watch) {
    let plans: Vec<(usize, PageId, RebuildPlan)> = planned(examined);
    if plans.is_empty() || examined.interrupted() {
        return;
    }
    let mut jobs = Vec::new();
    for (index, page, plan) in plans {
        match base_of(examined, page, &plan) {
            Ok(base) => jobs.push(Job { index, wanted: WantedPage { page, base, from: plan.from, until: plan.until } }),
            Err(why) => examined.report.add_build_failure(index, BuildFailure::BaseUnreadable { why }),
        }
    }
    match carry_out(examined, &jobs, options, request, watch) {
        Ok(report) => take(examined, &jobs, report),
        Err(None) => examined.coverage.skip(SkippedPart::RestOfCheck, SkipReason::Interrupted(Lacking::Pages)),
        Err(Some(failure)) => {
            examined.findings.push(NOT_REBUILT.problem(format!(
                "pages that could not be rebuilt: {}: {}",
                jobs.len() as u64,
                failure.why()
            )));
            jobs.iter().for_each(|job| examined.report.add_build_failure(job.index, failure.clone()));
        }
    }
}

/// Pages with a plan, by the index of their report.
fn planned(examined: &Examination) -> Vec<(usize, PageId, RebuildPlan)> {
    let reports = examined.report.pages.iter().enumerate();
    let plan_of = |plan: &Result<RebuildPlan, _>| plan.as_ref().ok().cloned();
    reports
        .filter_map(|(index, report)| Some((index, report.page, report.rebuild.as_ref().and_then(plan_of)?)))
        .collect()
}

fn base_of(examined: &Examination, page: PageId, plan: &RebuildPlan) -> Result<BaseBytes, ErrorWords> {
    match &plan.base {
        RebuildBase::Image { .. } | RebuildBase::Init { .. } => Ok(BaseBytes::Nothing),
        RebuildBase::Empty { .. } => Ok(BaseBytes::Page(vec![0; examined.block_size])),
        RebuildBase::Candidate { source, .. } => fetch_image(source, page, &examined.image_files())
            .map(BaseBytes::Page)
            .map_err(|error| ErrorWords::of_other(&error)),
    }
}

/// Has the server replay; `None` as the failure: it was interrupted.
fn carry_out(
    examined: &Examination,
    jobs: &[Job],
    options: &ReplayOptions,
    request: &CheckRequest,
    watch: &dyn Watch,
) -> Result<ReplayReport, Option<BuildFailure>> {
    let data_dir = &request.data_dir;
    let failed = |error: &dyn std::error::Error| Some(BuildFailure::ReplayFailed { why: ErrorWords::of_other(error) });
    let set = examined.wal.most();
    let Some((set, major)) = set.and_then(|set| Some((set, set.major()?))) else {
        return Err(failed(&RebuildError::UnknownMajor));
    };
    let control = control_bytes(examined, data_dir).map_err(Some)?;
    let server = find_server(major, options.pg_bin.as_deref(), data_dir)
        .map_err(|error| Some(BuildFailure::NoServerProgram { why: ErrorWords::of_other(&error) }))?;
    let protected = examined.source.protected().map_err(|error| failed(&error))?;
    let sandbox = SandboxOptions {
        parent: options.sandbox.clone(),
        keep: options.keep_sandbox,
        owner: Owner::of(data_dir),
        protected,
    };
    let read = AtomicU64::new(0);
    let segments = set.segments().len() as u64;
    let total = segments.saturating_mul(u64::from(set.geometry().wal_segment_size));
    let watch = |bytes: u64| -> ControlFlow<()> {
        let done = read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        watch.at(Stage::Replay, done.min(total), total)
    };
    let replay_request = ReplayRequest {
        wal: set,
        control: &control,
        pages: jobs.iter().map(|job| job.wanted.clone()).collect(),
        jobs: request.jobs,
        server: &server,
        sandbox: &sandbox,
    };
    replay(replay_request, &watch).map_err(|error| match error {
        RebuildError::Interrupted => None,
        error => failed(&error),
    })
}

/// The control file as it is now; it must still be the one by which the cluster was judged.
fn control_bytes(examined: &Examination, data_dir: &Path) -> Result<Vec<u8>, BuildFailure> {
    let limit = CONTROL_FILE_SIZE as u64 * 2;
    let unreadable = |error: &dyn std::error::Error| BuildFailure::ReplayFailed { why: ErrorWords::of_other(error) };
    let bytes = read_small(&data_dir.join(CONTROL_PATH), Links::Refuse, limit).map_err(|error| unreadable(&error))?;
    let judged = examined.source.directory.as_ref().and_then(|directory| directory.control().trusted());
    let now = ControlFile::decode(&bytes).ok().flatten();
    match now.as_ref().zip(judged) {
        Some((now, judged)) if now == judged => Ok(bytes),
        _ => Err(unreadable(&ControlChanged)),
    }
}

/// `pg_control` is another one than that by which the cluster was judged.
#[derive(Debug, thiserror::Error)]
#[error("pg_control has changed since it was read")]
struct ControlChanged;

fn take(examined: &mut Examination, jobs: &[Job], report: ReplayReport) {
    let server = report.server.number;
    examined.built.sandbox = report.sandbox;
    let root = examined.source.directory.as_ref().map_or(Path::new("."), |directory| directory.root());
    let pages = RelationPages::new(root, examined.paths.clone());
    let mut disk = vec![0; examined.block_size];
    for (job, (page, result)) in jobs.iter().zip(report.pages) {
        let not_built = |error: &dyn std::error::Error| {
            let why = ErrorWords::of_other(error);
            BuildFailure::PageNotBuilt { why }
        };
        let built = match result {
            Ok(built) => built,
            Err(error) => {
                examined.report.add_build_failure(job.index, not_built(&NotBuiltError(error)));
                continue;
            }
        };
        match pages.read_page(page, &mut disk) {
            Ok(PageRead::Whole) => {}
            Ok(_) => {
                // It was whole when it was judged.
                examined.report.add_build_failure(job.index, not_built(&PageGone));
                continue;
            }
            Err(error) => {
                examined.report.add_build_failure(job.index, not_built(&error));
                continue;
            }
        }
        let image = BuiltImage {
            bytes: &built.bytes,
            disk: &disk,
            records: built.records,
            server: &server,
            checksums: examined.checksums().is_some_and(|checksums| checksums.is_enforced()),
            lowest_wal_lsn: examined.source.facts.lowest_wal_lsn,
        };
        examined.report.add_built(job.index, &image);
        examined.built.bytes.insert(page, built.bytes);
    }
}

/// Why one page was not built, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotBuiltError(NotBuilt);

#[derive(Debug, thiserror::Error)]
#[error("the page no longer exists")]
struct PageGone;

rules! {
    NOT_REBUILT: Pages "not_rebuilt",
        why: "their verdicts are as without --rebuild",
        means: "`--rebuild` rebuilt no page: no server program, no room, or damaged WAL",
        action: "Install the server program of this PostgreSQL version, or see the reason";
}

/// Which server is started to replay records, and where.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Directory of its programs; `None`: the one that ran last on the data directory, or one in the usual directories.
    pub pg_bin: Option<PathBuf>,
    /// Directory in which the sandbox is made; `None`: that for temporary files.
    pub sandbox: Option<PathBuf>,
    /// The sandbox is left there.
    pub keep_sandbox: bool,
}

impl ReplayOptions {
    /// Arguments of a command that rebuilds pages with this server, each after a space.
    pub(crate) fn rebuild_arguments(&self) -> String {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| format!(" {flag} {}", quoted(&path.display().to_string())))
        };
        let keep = if self.keep_sandbox { " --keep-sandbox" } else { "" };
        format!(" --rebuild{}{}{keep}", path("--pg-bin", &self.pg_bin), path("--sandbox", &self.sandbox))
    }

    /// The program of this major for the cluster in `directory`, and its sandbox.
    ///
    /// # Errors
    /// When no such program exists, or the directories of the cluster are unknown.
    pub fn prepare(&self, directory: &DataDir, major: Major) -> Result<(ServerProgram, SandboxOptions), InspectError> {
        let server = find_server(major, self.pg_bin.as_deref(), directory.root())?;
        let sandbox = SandboxOptions {
            parent: self.sandbox.clone(),
            keep: self.keep_sandbox,
            owner: Owner::of(directory.root()),
            protected: directory.own_directories().map_err(InspectError::OwnDirectories)?,
        };
        Ok((server, sandbox))
    }
}
