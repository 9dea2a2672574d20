//! `pg_dwbinspect report`: the crash report, to be attached to a ticket.

use std::io::Write;

use clap::Args;

use super::PROGRAM;
use super::check::{Bars, ExamineArgs};
use crate::cli::context::{QuietArg, ReportFileArgs, command_line};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};
use crate::inspect::crash_report::{CrashReportRequest, USUAL_SHEETS, crash_report};
use crate::inspect::dwb_source::protected_of;
use crate::inspect::error::open_data_dir;
use crate::inspect::{WalRequest, now_text};
use crate::output::report::Provenance;

/// Write the results of check, with all proofs, into one file to attach to a ticket
///
/// A page for any browser that loads and runs nothing: the predicted startup, what
/// to do, every damaged page with its verdict and proof, where each sector of a torn page comes from, the double write
/// buffer, the existing WAL, the plan of a repair, journals of repairs next to the data directory, and checksums of all of
/// it. Skipped parts come first. It contains names of relations and paths, and a few bytes of each damaged page.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    examine: ExamineArgs,
    #[command(flatten)]
    file: ReportFileArgs,
    /// Damaged pages to show in full; the others are listed in a table
    #[arg(long, value_name = "N", default_value_t = USUAL_SHEETS)]
    pages: usize,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

pub(super) fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let check = args.examine.request(args.jobs)?;
    // Before hours are spent on what could not be written.
    let elsewhere = check.wal.iter().chain(&check.donors).cloned().collect();
    let mut protected = WalRequest::of_paths(elsewhere).protected()?;
    protected.extend(protected_of(&open_data_dir(&check.data_dir)?)?);
    let file = args.file.reserve(&protected)?;
    let made = Provenance { command_line: command_line(PROGRAM), time: now_text() };
    let request = CrashReportRequest {
        check,
        sheets: args.pages,
        program: PROGRAM,
        made,
        pressed: Vec::new(),
        journals: Vec::new(),
    };
    let report = crash_report(&request, &Bars::new(args.progress))?;
    file.write(&report.document, args.quiet, out)?;
    Ok(report.answer.into())
}
