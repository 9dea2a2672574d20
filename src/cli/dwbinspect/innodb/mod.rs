//! `pg_dwbinspect innodb`: the same for MySQL and MariaDB.

mod args;
mod buffer;
mod pages;
#[cfg(feature = "tui")]
mod tui;

use std::io::Write;

use clap::{Args, Subcommand};

use super::PROGRAM;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};

/// Compare the doublewrite buffer of MySQL or MariaDB with the data files
///
/// Reads a data directory of a stopped server, or a copy of one: MySQL 5.6 to 9.x and MariaDB, pages of 4 to 64 kB.
/// Nothing is written into it. The server is not needed. What the server does at startup is not predicted: no redo log is replayed.
#[derive(Debug, Args)]
#[command(subcommand_required = true, after_help = EXIT_STATUS)]
pub struct InnodbArgs {
    #[command(subcommand)]
    command: InnodbCommand,
}

#[derive(Debug, Subcommand)]
enum InnodbCommand {
    #[cfg(feature = "tui")]
    Tui(tui::TuiArgs),
    Check(pages::CheckArgs),
    Page(pages::PageArgs),
    Info(buffer::InfoArgs),
    Dump(buffer::DumpArgs),
    Batches(buffer::BatchesArgs),
    Verify(pages::VerifyArgs),
}

pub(super) fn run(args: &InnodbArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    match &args.command {
        #[cfg(feature = "tui")]
        InnodbCommand::Tui(args) => tui::run(args, out),
        InnodbCommand::Check(args) => pages::check(args, out),
        InnodbCommand::Page(args) => pages::page(args, out),
        InnodbCommand::Info(args) => buffer::info(args, out),
        InnodbCommand::Dump(args) => buffer::dump(args, out),
        InnodbCommand::Batches(args) => buffer::batches(args, out),
        InnodbCommand::Verify(args) => pages::verify(args, out),
    }
}
