//! `pg_walfpi`.

mod advise;
mod args;
mod compare;
mod dwb_size;
mod export;
mod extract;
mod follow;
mod images;
mod kept;
mod report;
mod stats;
mod times;
#[cfg(feature = "tui")]
mod tui;
mod verify;
mod whatif;

use std::io::Write;

use crate::cluster::names_file::NAMES_QUERY;
use clap::{CommandFactory, Parser, Subcommand};

use super::context::QuestionMark;
use super::exit::{Outcome, Stop};
use super::manual::with_more_commands;
use super::{LONG_VERSION, manual};
use crate::output::closing::VERSION;

const PROGRAM: &str = "pg_walfpi";

/// Shows how much of the WAL is full-page images (FPI), when they were written, of what, and why
///
/// Reads WAL of PostgreSQL 10 to 19 from a data directory, a pg_wal or archive directory (also of pgBackRest, Barman or
/// WAL-G), single segments, a pattern in quotes, a FIFO, or "-" for standard input. Segments may be plain, .partial,
/// compressed with gzip, lz4, zstd, bzip2, xz or lzma, or in tar archives, in any order; all are recognised by content.
/// Nothing is written into any of them. Compressed tar archives, FIFOs and standard input are unpacked into a temporary
/// file without a name, of at most 64 GiB.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version = VERSION, long_version = LONG_VERSION, after_help = with_more_commands(), max_term_width = 100, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    help: QuestionMark,
}

#[derive(Debug, Subcommand)]
enum Command {
    Advise(Box<advise::AdviseArgs>),
    Stats(Box<stats::StatsArgs>),
    List(Box<images::ListArgs>),
    Extract(Box<extract::ExtractArgs>),
    Export(Box<export::ExportArgs>),
    Verify(verify::VerifyArgs),
    #[command(name = "whatif")]
    WhatIf(Box<whatif::WhatIfArgs>),
    Report(Box<report::ReportArgs>),
    DwbSize(Box<dwb_size::DwbSizeArgs>),
    Compare(Box<compare::CompareArgs>),
    Kept(kept::KeptArgs),
    #[cfg(feature = "tui")]
    Tui(Box<tui::TuiArgs>),
    /// Print the SQL query that makes a file for --names
    ///
    /// Run it in each database, for example with psql -XAtq, and write all outputs one after the other into one file.
    NamesQuery,
    /// Print the manual page of this program, or of one of its commands
    #[command(hide = true)]
    Man(manual::ManualArgs),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions(manual::CompletionArgs),
}

/// Runs the program: results to `out`, notes to `errors`.
pub fn run(cli: Cli, out: &mut dyn Write, errors: &mut dyn Write) -> Outcome {
    let result = match cli.command {
        Command::Advise(args) => advise::run(&args, out),
        Command::Stats(args) => stats::run(&args, out),
        Command::List(args) => images::run(&args, out),
        Command::Extract(args) => extract::run(&args, out),
        Command::Export(args) => export::run(&args, out),
        Command::Verify(args) => verify::run(&args, out),
        Command::WhatIf(args) => whatif::run(&args, out),
        Command::Report(args) => report::run(&args, out),
        Command::DwbSize(args) => dwb_size::run(&args, out),
        Command::Compare(args) => compare::run(&args, out),
        Command::Kept(args) => kept::run(&args, out),
        #[cfg(feature = "tui")]
        Command::Tui(args) => tui::run(&args, out),
        Command::NamesQuery => names_query(out),
        Command::Man(args) => manual::run(&args, Cli::command(), out),
        Command::Completions(args) => manual::completions(&args, Cli::command(), out),
    };
    result.unwrap_or_else(|stop: Stop| stop.report(PROGRAM, errors))
}

fn names_query(out: &mut dyn Write) -> Result<Outcome, Stop> {
    out.write_all(NAMES_QUERY.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Clean)
}
