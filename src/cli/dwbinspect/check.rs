//! `pg_dwbinspect check`: which pages are torn, and which image may be put back.
//! Also here: the cluster to check, and additional evidence; progress of an examination on the terminal, and Ctrl-C.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;

use super::PROGRAM;
use crate::analysis::verdict::check::Stage;
use crate::analysis::verdict::judge::Verdict;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::values::PgData;
use crate::cli::work::{DonorArgs, JobsArg, Progress, ProgressArg, RebuildArg, ServerArgs, interrupt_flag};
use crate::inspect::check::{CheckRequest, Scope, Watch, check};
use crate::inspect::next::{check_text, closing_of_text, judged_cluster, steps_of};
use crate::output::check_document::Shown;
use crate::output::closing::Closing;

/// Find damaged pages, predict what startup will do, and say how to repair
///
/// Compares every image of the double write buffer with its page, checks every page of every relation, and looks for
/// missing pages that recovery needs. For each damaged page it shows the damage, the best image, and whether
/// pg_control and WAL prove that restoring the image is safe. Nothing is written.
///
/// check examines everything that contains data, and its use by recovery. Settings, authentication, TLS, sockets, libraries
/// and limits are
/// left to the server: a server that refuses one says so immediately and changes nothing. Status 0 means: everything that
/// contains data was checked, nothing is damaged, missing or foreign, recovery runs to its end, and no data is lost.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{}\n{EXIT_STATUS}", verdicts_help()))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    examine: ExamineArgs,
    /// Show all damaged pages, and every page in the double write buffer
    #[arg(long)]
    all: bool,
    /// Show the evidence for every verdict
    #[arg(short = 'v', long, visible_alias = "verbose")]
    explain: bool,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  pg_dwbinspect check /var/lib/pgsql/data
  pg_dwbinspect check --explain /var/lib/pgsql/data
  pg_dwbinspect check --wal /archive/wal DATADIR
  pg_dwbinspect check --prove --wal /archive/wal DATADIR
  pg_dwbinspect check --rebuild --wal /archive/wal --donor /backup/base DATADIR
  pg_dwbinspect check --quiet DATADIR && pg_ctl -D DATADIR start
  pg_dwbinspect check --format ndjson DATADIR | jq 'select(.type == \"page\")'
";

/// The verdicts for `--help`.
fn verdicts_help() -> String {
    let row = |verdict: Verdict| format!("  {:<19}{}\n", verdict.facts().label, verdict.facts().meaning);
    format!("Verdicts:\n{}", Verdict::ALL.map(row).concat())
}

pub(super) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.examine.request(args.jobs)?;
    let data_dir = request.data_dir.clone();
    let examined = check(&request, &Bars::new(args.progress))?;
    let answer = examined.answer();
    let closing = Closing::new(examined.findings.clone(), &examined.coverage).answering(answer);
    if args.quiet.is_on() {
        return Ok(closing.answer().into());
    }
    if let Some(format) = args.output.machine() {
        let shown = data_dir.display().to_string();
        let cluster = judged_cluster(&examined, PROGRAM, &shown);
        return Ok(cluster.write_check(out, format, &steps_of(&examined), args.all, closing)?.into());
    }
    let shown = data_dir.display().to_string();
    let layout = args.output.layout();
    check_text(&examined, PROGRAM, &shown).write(
        out,
        layout,
        Shown { explain: args.explain, all: args.all },
        &closing_of_text(&examined),
        &steps_of(&examined),
    )?;
    out.flush()?;
    Ok(closing.answer().into())
}

/// Arguments of `check` and `report`.
#[derive(Debug, Args)]
pub(crate) struct ExamineArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Check only pages that are in the double write buffer
    ///
    /// Other pages are read only when an image would be safe, and only to look for LSNs past the end of WAL. Missing pages
    /// that recovery needs are not searched for. Because a damaged page among the others may stop recovery, startup is
    /// unknown and the exit status 2 if no problem is found.
    #[arg(long)]
    dwb_only: bool,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    donor: DonorArgs,
    #[command(flatten)]
    rebuild: RebuildArg,
    /// Without checksums: rebuild each page from WAL if possible, and compare it with the disk
    ///
    /// A server of the same PostgreSQL version replays WAL in a sandbox, up to the LSN that each page has on disk. The result
    /// must equal the page, except for hint bits: then the page is proven intact, else torn. Pages without an image in WAL or
    /// in the double write buffer stay unproven; more WAL (--wal) and full_page_writes leave fewer of them.
    #[arg(long)]
    prove: bool,
    #[command(flatten)]
    replay: ServerArgs,
}

impl ExamineArgs {
    /// The request.
    ///
    /// # Errors
    /// When no data directory is given, or two are.
    pub fn request(&self, jobs: JobsArg) -> Result<CheckRequest, Stop> {
        Ok(CheckRequest {
            scope: if self.dwb_only { Scope::DwbPages } else { Scope::All },
            wal: self.wal.clone(),
            donors: self.donor.donors.clone(),
            jobs: jobs.count(),
            prove: self.prove.then(|| self.replay.options()),
            rebuild: self.rebuild.with(&self.replay, (self.prove, "--rebuild or --prove"))?,
            ..CheckRequest::of(self.pgdata.choose(self.data_dir.as_deref())?)
        })
    }
}

/// One bar after the other, a stage each.
pub(super) struct Bars {
    interrupted: Arc<AtomicBool>,
    open: Mutex<Option<(Stage, Progress)>>,
    asked_for: bool,
}

impl Bars {
    /// No bar yet.
    pub(super) fn new(progress: ProgressArg) -> Self {
        Self { interrupted: interrupt_flag(), open: Mutex::new(None), asked_for: progress.progress }
    }
}

impl Watch for Bars {
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if total > 0 {
            if open.as_ref().is_none_or(|(shown, _)| *shown != stage) {
                *open = None;
                *open = Some((stage, Progress::bytes(total, self.asked_for)));
            }
            if let Some((_, bar)) = open.as_ref() {
                bar.done(done);
            }
        } else {
            *open = None;
        }
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
