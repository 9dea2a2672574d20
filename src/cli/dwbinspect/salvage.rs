//! `pg_dwbinspect salvage`: rows out of a cluster that no server can start.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::cli::exit::{Outcome, Stop, UsageError};
use crate::cli::values::PgData;
use crate::cli::work::{JobsArg, ServerArgs, until_interrupted};
use crate::inspect::salvage::{SalvageRequest, salvage};
use crate::output::escape::printable;
use crate::output::salvage_text::{answer, write_beforehand, write_salvage, write_salvage_machine};
use crate::output::sink::Machine;
use crate::parsers::wal::version::Major;
use crate::salvage::{Interrupt, RowFormat};

/// Copy out every row that is still there, if no start, image or replay helps
///
/// Reads tables, catalogs and transaction status directly from the files and decides for each row whether it belongs to its
/// table. A fresh server of the same major version, which never sees the damaged cluster, prints the rows as COPY text. Nothing of the
/// damaged cluster runs, and nothing is written into it.
///
/// Try check, repair and startup on a copy first: they lose less. Rows in NAME.copy belong to the table; rows in
/// NAME.uncertain.copy may belong to it, and NAME.uncertain.csv says why they are uncertain. A value whose parts are lost is NULL,
/// and NAME.toast.csv lists it.
#[derive(Debug, Args)]
#[command(after_help = STATUS, after_long_help = format!("{EXAMPLES}\n{STATUS}"))]
pub(crate) struct SalvageArgs {
    /// Data directory, what is left of one, or the directory of one database (base/16385)
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// New or empty directory for the rows
    #[arg(short = 'o', long, value_name = "DIR", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Count the rows of each table; write nothing and start nothing
    #[arg(long, conflicts_with = "output")]
    list: bool,
    /// Only tables with this name, with or without a schema; * and ? are wildcards
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
    /// Only this database
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
    /// Also copy deleted, replaced and rolled back rows, into separate files
    #[arg(long)]
    deleted: bool,
    /// Take columns that the catalogs lost from a schema of pg_dump --schema-only; the sandbox runs it
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    schema: Option<PathBuf>,
    /// Take columns that the catalogs lost from an older copy of the cluster
    #[arg(long = "donor", value_name = "BACKUP")]
    donors: Vec<PathBuf>,
    /// Read only this file, which no catalog names: a path, or its number in the directory of the database
    #[arg(long = "file", value_name = "FILE", requires = "like")]
    files: Vec<PathBuf>,
    /// The table whose columns --file has
    #[arg(long, value_name = "SCHEMA.TABLE", requires = "files")]
    like: Option<String>,
    /// Major version, if no file of the cluster contains it
    #[arg(long, value_name = "N", value_parser = major_of)]
    major: Option<Major>,
    /// More WAL: rows that were never written to tables, commits that pg_xact lacks. Archive, segments or tar archives
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    /// Format of the rows (copy; csv, without a header; parquet, next to copy), or with --list of the list [default: copy, text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<SalvageFormat>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    jobs: JobsArg,
}

/// Formats of rows, and of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SalvageFormat {
    Copy,
    Csv,
    #[cfg(feature = "parquet")]
    Parquet,
    Text,
    Json,
    Ndjson,
}

/// Formats of rows, for a message.
const ROW_FORMATS: &str = if cfg!(feature = "parquet") { "copy, csv or parquet" } else { "copy or csv" };

impl SalvageFormat {
    fn chosen(chosen: Option<Self>, is_list: bool) -> Result<(RowFormat, Option<Machine>), Stop> {
        match (chosen, is_list) {
            (None | Some(Self::Copy), false) | (None | Some(Self::Text), true) => Ok((RowFormat::Copy, None)),
            (Some(Self::Csv), false) => Ok((RowFormat::Csv, None)),
            #[cfg(feature = "parquet")]
            (Some(Self::Parquet), false) => Ok((RowFormat::Parquet, None)),
            (Some(Self::Csv), true) => Ok((RowFormat::Copy, Some(Machine::Csv))),
            (Some(Self::Json), true) => Ok((RowFormat::Copy, Some(Machine::Json))),
            (Some(Self::Ndjson), true) => Ok((RowFormat::Copy, Some(Machine::Ndjson))),
            (Some(_), true) => Err(UsageError::OtherFormat("text, json, ndjson or csv").into()),
            (Some(_), false) => Err(UsageError::OtherFormat(ROW_FORMATS).into()),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect salvage --list /var/lib/pgsql/data
  pg_dwbinspect salvage /var/lib/pgsql/data -o /rescue
  pg_dwbinspect salvage DATADIR -o /rescue --table app.orders --table 'crm.*'
  pg_dwbinspect salvage DATADIR -o /rescue --deleted
  pg_dwbinspect salvage DATADIR -o /rescue --schema schema.sql
  pg_dwbinspect salvage DATADIR -o /rescue --file /lost+found/16727 --like app.orders
  pg_dwbinspect salvage /lost/base/16385 -o /rescue --major 15 --database shop
";

const STATUS: &str = "\
Exit status:
  0  every row is certain, nothing is missing
  1  rows or values are missing; their pages or values are listed
  2  rows are uncertain, WAL is missing or was not applied, no table was found, something was not
     checked, or a usage error";

fn major_of(text: &str) -> Result<Major, String> {
    let number = text.parse().ok().and_then(|number| Major::from_files(number, None));
    number.ok_or_else(|| {
        format!("expected a major version from {} to {}", Major::OLDEST.number(), Major::NEWEST.number())
    })
}

pub(super) fn run(args: &SalvageArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let path = args.pgdata.choose(args.data_dir.as_deref())?;
    let (format, machine) = SalvageFormat::chosen(args.format, args.list)?;
    let request = SalvageRequest {
        path,
        major: args.major,
        output: args.output.clone(),
        databases: args.databases.clone(),
        tables: args.tables.clone(),
        deleted: args.deleted,
        format,
        schema: args.schema.clone(),
        donors: args.donors.clone(),
        files: args.files.clone(),
        like: args.like.clone(),
        wal: args.wal.clone(),
        server: args.server.options(),
        jobs: args.jobs.count(),
        kept_wal_bytes: None,
    };
    let mut told = Ok(());
    let interrupt: Arc<Interrupt> = Arc::new(until_interrupted());
    let report = salvage(&request, &interrupt, &mut |known| told = write_beforehand(out, known));
    told?;
    let report = report?;
    if let Some(machine) = machine {
        return Ok(write_salvage_machine(out, (machine, &request.path), &report)?.into());
    }
    write_salvage(out, &report)?;
    if let Some(directory) = &request.output {
        writeln!(out, "The result is in {}. Read report.md there first.", printable(&directory.display().to_string()))?;
    }
    Ok(answer(&report).into())
}
