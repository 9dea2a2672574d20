//! `pg_dwbinspect innodb check`: every damaged page with a verdict.

use std::io::{self, Write};

use clap::Args;

use super::PROGRAM;
use super::args::DirectoryArgs;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::check::innodb_check;
use crate::inspect::innodb::document::{write_check, write_check_text};
use crate::output::closing::Closing;

/// Find torn pages of MySQL or MariaDB, and say what the doublewrite buffer can give back
///
/// Reads every page of every tablespace and every slot of the doublewrite buffer. Each damaged page, and each page of zeros that has
/// an image, gets a verdict, and what the next start of the server does with it by the rules of its family. Nothing is ever
/// proven: which version of a page is right is known only after replay of the redo log, which this does not do.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct CheckArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Show the evidence for every verdict: all images, and where the sectors of a torn page come from
    #[arg(long)]
    explain: bool,
    /// Show also pages that are whole and that the doublewrite buffer holds
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect innodb check /var/lib/mysql
  pg_dwbinspect innodb check --explain /var/lib/mysql
  pg_dwbinspect innodb check --format ndjson DATADIR | jq 'select(.type == \"page\")'

Verdicts:
  server_restores   by its own rule the server writes an image over the page; the image is whole
                    and not older than the checkpoint
  restore_unproven  a whole image is there; the server does not use it, or it may be outdated
  no_image          no whole image is there
  whole             the page is whole (with --all)

Work on a copy: a start of the server overwrites slots.
";

pub(super) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let bar = ByteBar::new(args.progress);
    let mut examined = innodb_check(&args.directory.request(), args.all, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage);
    let shown = args.directory.shown();
    if let Some(format) = args.output.machine() {
        return Ok(write_check(out, format, (PROGRAM, &shown), &examined, closing)?.into());
    }
    write_check_text(out, args.output.layout(), &shown, &examined, args.explain, &closing)?;
    out.flush()?;
    Ok(closing.answer().into())
}
