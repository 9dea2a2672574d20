//! `pg_walfpi report`: what stats tells, with plots, as one page.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::PROGRAM;
use super::args::{NameArgs, Sample, SourceArgs};
use crate::cli::context::QuietArg;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::report_file::{ReportFileArgs, command_line};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::error::InspectError;
use crate::inspect::wal::report::{WalReportRequest, wal_report};
use crate::inspect::{WalRequest, now_text};
use crate::output::report::Provenance;
use crate::output::report::wal::{PLOT_NAMES, plot_file};
use crate::repair::export::ExportDir;

/// Write images over time, relations, causes and what other settings would have stored into one page, with plots
///
/// A page for any browser and for printing, without scripts and external files. Each plot has its numbers below it, those
/// of stats. The WAL is read once for each question: intervals, causes, relations, dirtied blocks,
/// compression, other settings.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    file: ReportFileArgs,
    /// Write each plot as an SVG file into this directory as well
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Images to compress again: a number, or all
    #[arg(long, value_name = "N|all", default_value_t = Sample::default())]
    sample: Sample,
    /// Compress no image again
    #[arg(long, conflicts_with = "sample")]
    no_compression: bool,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

pub(super) fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let wal = WalRequest { names: args.names.names.clone(), ..args.source.request(args.jobs)? };
    // Before hours are spent on what could not be written.
    let protected = wal.protected()?;
    let file = args.file.reserve(&protected)?;
    let directory = args.svg.as_deref().map(|path| ExportDir::create(path, &protected));
    let directory = directory.transpose().map_err(InspectError::from)?;
    if let Some(directory) = &directory {
        let names = PLOT_NAMES.map(plot_file);
        directory.check_new(names.iter().map(String::as_str)).map_err(InspectError::from)?;
    }
    let compression = (!args.no_compression).then_some(args.sample.0);
    let made = Provenance { command_line: command_line(PROGRAM), time: now_text() };
    let bar = ByteBar::new(args.progress);
    let report = wal_report(&WalReportRequest { wal, compression, made }, &|done, total| bar.at(done, total))?;
    drop(bar);
    if let Some(directory) = &directory {
        for plot in report.document.plots() {
            directory.write_new(&plot_file(plot.name), plot.file().as_bytes()).map_err(InspectError::from)?;
        }
    }
    file.write(&report.document, args.quiet, out)?;
    Ok(report.answer.into())
}
