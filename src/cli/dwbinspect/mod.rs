//! `pg_dwbinspect`.

mod batches;
mod check;
mod demo;
mod dump;
mod info;
mod innodb;
mod page;
mod repair;
mod report;
mod salvage;
#[cfg(feature = "tui")]
mod tui;
mod undo;
mod verify;

use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};

use super::context::QuestionMark;
use super::exit::{Outcome, Stop};
use super::manual::with_more_commands;
use super::{LONG_VERSION, manual};
use crate::output::closing::VERSION;

const PROGRAM: &str = "pg_dwbinspect";

/// Finds torn pages in a stopped PostgreSQL data directory, and images to restore them
///
/// Only `repair` with --apply or --resume, `undo`, and the plan of `tui` after you type "apply" write into the
/// data directory. Everything else is safe on the only copy of the data; a copy or a file system snapshot serves as
/// well. Stop the server first: files that change while they are read give outdated answers.
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
    #[cfg(feature = "tui")]
    Tui(tui::TuiArgs),
    Check(check::CheckArgs),
    Page(page::PageArgs),
    Repair(Box<repair::RepairArgs>),
    Undo(undo::UndoArgs),
    Info(info::InfoArgs),
    Dump(Box<dump::DumpArgs>),
    Batches(batches::BatchesArgs),
    Verify(Box<verify::VerifyArgs>),
    Report(Box<report::ReportArgs>),
    Salvage(Box<salvage::SalvageArgs>),
    Demo(demo::DemoArgs),
    Innodb(innodb::InnodbArgs),
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
        #[cfg(feature = "tui")]
        Command::Tui(args) => tui::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Repair(args) => repair::run(&args, out),
        Command::Undo(args) => undo::run(&args, out),
        Command::Page(args) => page::run(&args, out),
        Command::Info(args) => info::run(&args, out),
        Command::Dump(args) => dump::run(&args, out),
        Command::Batches(args) => batches::run(&args, out),
        Command::Verify(args) => verify::run(&args, out),
        Command::Report(args) => report::run(&args, out),
        Command::Salvage(args) => salvage::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Innodb(args) => innodb::run(&args, out),
        Command::Man(args) => manual::run(&args, Cli::command(), out),
        Command::Completions(args) => manual::completions(&args, Cli::command(), out),
    };
    result.unwrap_or_else(|stop: Stop| stop.report(PROGRAM, errors))
}
