//! `pg_dwbinspect innodb check`: every damaged page with its images.

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

/// Find damaged pages of MySQL or MariaDB, and show what the doublewrite buffer holds of them
///
/// Reads every page of every tablespace and every slot of the doublewrite buffer. Shows each page that fails its checks, and each page
/// of zeros that has an image, with the images and the one that the server would reach first. What the server does at startup is not
/// predicted: its redo log is not replayed here.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct CheckArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Show the evidence for every page: all images, and where the sectors of a torn page come from
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

What the buffer holds of a page:
  newer, same, older  a whole image, by the LSN in the header of the page
  encrypted           an encrypted image, which is not judged
  unreadable          only images that fail their checks, or cannot be tested here
  no_image            no image
  unknown             the buffer was not read completely

Work on a copy: startup of the server overwrites slots.
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
