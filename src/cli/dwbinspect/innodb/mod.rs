//! `pg_dwbinspect innodb`: the same for MySQL and MariaDB.

mod buffer;
mod pages;
#[cfg(feature = "tui")]
mod tui;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::PROGRAM;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::JobsArg;
use crate::inspect::innodb::source::InnodbRequest;
use crate::output::closing::{Closing, begin};
use crate::output::json::Item;
use crate::output::sink::{CsvShape, Machine};

/// Compare the doublewrite buffer of MySQL or MariaDB with the data files
///
/// Reads a data directory of a stopped server, or a copy of one: MySQL 5.6 to 9.x and MariaDB, pages of 4 to 64 kB.
/// Nothing is written into it. The server is not needed. Startup is not predicted: no redo log is replayed.
#[derive(Debug, Args)]
#[command(subcommand_required = true, after_help = EXIT_STATUS)]
pub(crate) struct InnodbArgs {
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

/// Which directory is examined, where its doublewrite buffer is, and how it is read.
#[derive(Clone, Debug, Args)]
struct DirectoryArgs {
    /// Data directory of a stopped server: the one with ibdata1
    #[arg(value_name = "DATADIR")]
    data_dir: PathBuf,
    /// Directory of the doublewrite buffer, if innodb_doublewrite_dir is set to another one
    #[arg(long, value_name = "DIR")]
    doublewrite_dir: Option<PathBuf>,
    /// Option file of the server (my.cnf), which names directories outside the data directory
    #[arg(long, value_name = "FILE")]
    my_cnf: Option<PathBuf>,
    #[command(flatten)]
    jobs: JobsArg,
}

impl DirectoryArgs {
    fn request(&self) -> InnodbRequest {
        InnodbRequest {
            data_dir: self.data_dir.clone(),
            doublewrite_dir: self.doublewrite_dir.clone(),
            my_cnf: self.my_cnf.clone(),
            jobs: self.jobs.count(),
        }
    }

    fn shown(&self) -> String {
        self.data_dir.display().to_string()
    }

    /// Writes rows for programs, and the end of every output. `fields`: more fields of the last line.
    fn write_rows(
        &self,
        out: &mut dyn Write,
        (format, shape): (Machine, CsvShape<'_>),
        command: &'static str,
        rows: impl Iterator<Item = Item>,
        (closing, fields): (Closing, Map<String, Value>),
    ) -> Result<Outcome, Stop> {
        let mut sink = begin(format, shape, out, (PROGRAM, command), vec![self.shown()])?;
        let mut shown = 0;
        for row in rows {
            shown += u64::from(!matches!(row, Item::Instance(_) | Item::InnodbFile(_)));
            sink.item(&row)?;
        }
        Ok(closing.end(sink, shown, fields)?.into())
    }
}
