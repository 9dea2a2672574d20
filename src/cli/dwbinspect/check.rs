//! `pg_dwbinspect check`: which pages are torn, and which image may be put back.

use std::io::Write;

use clap::Args;

use super::PROGRAM;
use super::examine_args::{Bars, ExamineArgs};
use crate::analysis::verdict::judge::Verdict;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};
use crate::inspect::check::check;
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
