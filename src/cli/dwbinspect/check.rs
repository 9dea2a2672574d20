//! `pg_dwbinspect check`: which pages are torn, and which image may be put back.

use std::io::Write;
use std::path::Path;

use clap::Args;

use super::PROGRAM;
use super::bars::Bars;
use super::examine_args::ExamineArgs;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};
use crate::inspect::check::check;
use crate::inspect::examination::Examination;
use crate::inspect::next::{judged_cluster, step_context, steps_of};
use crate::output::check_text::{
    page_title, write_counts, write_evidence, write_outlook, write_pages, write_slot_counts, write_slots,
};
use crate::output::closing::Closing;
use crate::output::next_step_text::write_steps;
use crate::output::stand_in_text::write_stand_ins;
use crate::output::text::{Layout, write_fact};
use crate::output::words::cluster::checksum_words;
use crate::types::PageId;

/// Find torn pages and say which image may be put back without losing anything
///
/// Compares every image of the double write buffer with its page, checks every page of every relation, and looks for
/// missing pages that replay needs. For each damaged page it says what happened, which image is right, and whether
/// pg_control and WAL prove that putting the image back is safe. Nothing is written.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct CheckArgs {
    #[command(flatten)]
    examine: ExamineArgs,
    /// Show every page that the double write buffer holds, not only damaged ones
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

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect check /var/lib/pgsql/data
  pg_dwbinspect check --explain /var/lib/pgsql/data
  pg_dwbinspect check --wal /archive/wal DATADIR
  pg_dwbinspect check --prove --wal /archive/wal DATADIR
  pg_dwbinspect check --rebuild --wal /archive/wal --donor /backup/base DATADIR
  pg_dwbinspect check --quiet DATADIR && pg_ctl -D DATADIR start
  pg_dwbinspect check --format ndjson DATADIR | jq 'select(.type == \"page\")'

Verdicts:
  restore           an image can be put back; nothing is lost
  rebuild           a page rebuilt by replay can be put there; nothing is lost
  restore_unproven  an image could be put back; a part of the proof is missing
  loses_changes     every image lacks committed changes
  no_image          no usable image exists
  heals_in_replay   recovery overwrites the page; nothing to do
  leave             unlogged, about to be removed, or a map page that servers take for empty
";

pub(super) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.examine.request(args.jobs)?;
    let data_dir = request.data_dir.clone();
    let mut examined = check(&request, &Bars::new(args.progress))?;
    let answer = examined.answer();
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage).answering(answer);
    if args.quiet.is_on() {
        return Ok(closing.answer().into());
    }
    if let Some(format) = args.output.machine() {
        let shown = data_dir.display().to_string();
        let cluster = judged_cluster(&examined, PROGRAM, &shown);
        return Ok(cluster.write_check(out, format, &steps_of(&examined), args.all, closing)?.into());
    }
    let layout = args.output.layout();
    write_text(args, &data_dir, &examined, out, layout)?;
    closing.write_text(out, layout)?;
    // Last, where it stays in view.
    write_verdict(&data_dir, &examined, out, layout)?;
    out.flush()?;
    Ok(closing.answer().into())
}

fn write_text(
    args: &CheckArgs,
    data_dir: &Path,
    examined: &Examination,
    out: &mut dyn Write,
    layout: Layout,
) -> std::io::Result<()> {
    let report = &examined.report;
    let name = |page: PageId| examined.called(page);
    let title = |page: PageId| page_title(&examined.called(page), page);
    writeln!(out, "{}", layout.paint.heading("State"))?;
    let shown = data_dir.display().to_string();
    write_fact(out, layout, "data directory", &shown)?;
    write_fact(out, layout, "what happened", &examined.state.to_string())?;
    write_fact(out, layout, "data checksums", &checksum_words(examined.checksums()))?;
    if let Some(scanned) = &examined.scanned {
        write_fact(out, layout, "pages checked", &scanned.to_string())?;
    }
    if let Some(proof) = &examined.proof {
        write_fact(out, layout, "proven by replay", &proof.to_string())?;
    }
    write_slot_counts(out, layout, &report.slots)?;
    write_pages(out, layout, &report.pages, &name)?;
    let location_of = |page: PageId| {
        let (path, block) = examined.paths.path_and_block(page);
        (data_dir.join(path), block)
    };
    write_stand_ins(out, layout, &report.pages, &title, &location_of)?;
    if args.explain {
        for page in &report.pages {
            let title = format!("{} ({})", title(page.page), examined.path_of(page.page));
            write_evidence(out, layout, page, &title)?;
        }
    }
    if args.all {
        write_slots(out, layout, &report.slots, &name, &|file| examined.file_name(file))?;
    }
    Ok(())
}

/// What a start brings, and what to do.
fn write_verdict(data_dir: &Path, examined: &Examination, out: &mut dyn Write, layout: Layout) -> std::io::Result<()> {
    let report = &examined.report;
    let title = |page: PageId| page_title(&examined.called(page), page);
    writeln!(out, "\n{}", layout.paint.heading("Verdict"))?;
    write_outlook(out, layout, &report.replay, &report.outlook, &report.pages, &title)?;
    write_counts(out, layout, &report.pages)?;
    let shown = data_dir.display().to_string();
    write_steps(out, layout, &steps_of(examined), step_context(examined, &shown))
}
