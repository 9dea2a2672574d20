//! `pg_walfpi export`: records, blocks and images as files of rows.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PROGRAM;
use super::args::{CommonArgs, path_texts};
use super::stats::totals_row;
#[cfg(feature = "parquet")]
use crate::cli::exit::UsageError;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::wal::export::{ExportRequest, OwnRequest, wal_export};
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::export::{FileFormat, Table};
use crate::output::json::Item;
use crate::output::json::export::{EXPORTED_FILE_COLUMNS, ManifestFacts, OwnRange, manifest};
use crate::output::json::wal::Row;
use crate::output::sink::CsvShape;

/// Write records, blocks or images as files of rows, for databases and other programs
///
/// Files are in timeline=N/segments=FIRST-LAST, which DuckDB and Spark read as partitions; each holds the rows of a group of
/// segments. LSNs are signed 64-bit integers. Columns, and queries that give what `stats` counts, are in docs/export.md.
/// The file _manifest.json is written last: without it the export was interrupted.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Content of a row
    #[arg(long, value_enum, value_name = "TABLE")]
    table: TableArg,
    /// Directory for the files: empty, or created; never inside a data directory or the WAL that is read
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    directory: PathBuf,
    /// How the files are written
    #[arg(long = "as", value_enum, value_name = "FORMAT", default_value_t = FileArg::default())]
    file_format: FileArg,
    /// Compress NDJSON and CSV with zstd
    #[arg(long)]
    zstd: bool,
    /// Write rows of records that start in these segments alone, and take all other WAL as context: FIRST..LAST
    ///
    /// Names of segments, their last 16 digits, or LSNs, of the first and the last; timelines do not count. For one of many jobs
    /// that share an archive: give the own segments, the one after them, in which their last record may end, and history
    /// files. A missing own segment or an incomplete last record is a finding, with exit status 2.
    #[arg(long, value_name = "FIRST..LAST", value_parser = own_range)]
    own: Option<OwnRequest>,
    /// Segments in a file
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    group: u32,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TableArg {
    /// Full-page images
    Images,
    /// Blocks that records refer to
    Blocks,
    /// Records
    Records,
    /// All of them, each in a directory of its name, with fewer readings of the WAL
    All,
}

/// `FIRST..LAST`.
fn own_range(text: &str) -> Result<OwnRequest, String> {
    let (first, last) = text.split_once("..").ok_or("FIRST..LAST is expected, as two names of segments or two LSNs")?;
    Ok(OwnRequest { first: first.to_owned(), last: last.to_owned() })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FileArg {
    /// Parquet, compressed with zstd
    #[cfg(feature = "parquet")]
    #[default]
    Parquet,
    /// JSON, one object a line
    #[cfg_attr(not(feature = "parquet"), default)]
    Ndjson,
    /// CSV with a line of names
    Csv,
}

impl ExportArgs {
    fn format(&self) -> Result<FileFormat, Stop> {
        let zstd = self.zstd;
        Ok(match self.file_format {
            #[cfg(feature = "parquet")]
            FileArg::Parquet if zstd => return Err(UsageError::ZstdOfParquet.into()),
            #[cfg(feature = "parquet")]
            FileArg::Parquet => FileFormat::Parquet,
            FileArg::Ndjson => FileFormat::Ndjson { zstd },
            FileArg::Csv => FileFormat::Csv { zstd },
        })
    }
}

pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let tables = match args.table {
        TableArg::Images => vec![Table::Images],
        TableArg::Blocks => vec![Table::Blocks],
        TableArg::Records => vec![Table::Records],
        TableArg::All => vec![Table::Records, Table::Blocks, Table::Images],
    };
    let (format, wal) = (args.format()?, args.common.request(args.jobs)?);
    let (directory, own) = (args.directory.clone(), args.own.clone());
    let request = ExportRequest { wal, tables, own, format, directory, group: args.group };
    let bar = ByteBar::new(args.progress);
    let mut export = wal_export(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut export.wal.findings), &export.wal.coverage);
    let totals = totals_row(&export.counts, &export.wal.origin);
    // An interrupted export has no manifest, which would claim that it is complete.
    if !export.wal.coverage.is_interrupted() {
        for table in &request.tables {
            let below = (request.tables.len() > 1).then(|| table.name());
            let facts = ManifestFacts {
                table: *table,
                format,
                group: args.group,
                paths: path_texts(&request.wal),
                files: export.files.iter().filter(|file| file.table == *table).collect(),
                own: export.own.map(|own| OwnRange { start_lsn: own.start_lsn(), end_lsn: own.end_lsn() }),
                read_from: export.read_from,
                intervals: &export.counts.intervals,
                partial_segments: &export.partial_segments,
                totals: totals.clone(),
            };
            export.seal(below, &manifest(&facts, &closing))?;
        }
    }
    let rows = export.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.rows));
    if let Some(machine) = args.common.output.machine() {
        let shape = CsvShape::Rows { plural: "exported_files", columns: EXPORTED_FILE_COLUMNS };
        let mut sink = begin(machine, shape, out, (PROGRAM, "export"), path_texts(&request.wal))?;
        for file in &export.files {
            sink.item(&Item::ExportedFile(file.into()))?;
        }
        let mut counts: Row = totals;
        counts.insert("rows".to_owned(), rows.into());
        return Ok(closing.end(sink, export.files.len() as u64, counts)?.into());
    }
    for file in &export.files {
        writeln!(out, "{}  {} rows, {} bytes", printable(&file.path), file.rows, file.bytes)?;
    }
    let state = if export.wal.coverage.is_interrupted() { ": interrupted" } else { "" };
    let names: Vec<&str> = request.tables.iter().map(|table| table.name()).collect();
    let (name, files, directory) =
        (names.join(", "), export.files.len(), printable(&args.directory.display().to_string()));
    writeln!(out, "\n{rows} rows of {name} in {files} files written to {directory}{state}")?;
    Ok(closing.end_text(out, args.common.output.layout())?.into())
}
