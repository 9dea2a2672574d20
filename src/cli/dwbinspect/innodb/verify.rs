//! `pg_dwbinspect innodb verify`: every page, judged by itself.

use std::io::{self, Write};

use clap::Args;

use super::PROGRAM;
use super::args::DirectoryArgs;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::document::scan_fields;
use crate::inspect::innodb::verify::innodb_verify;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{write_bad_pages, write_page_types, write_scanned};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_BAD_PAGE_COLUMNS, innodb_bad_page_row};
use crate::output::sink::CsvShape;

/// Check every page of every tablespace
///
/// Checks the checksum of each page (crc32, innodb, none, full_crc32), that its header and its end are of one version, and that a
/// compressed page can be unpacked. Encrypted pages without a checksum of their own are counted as not examined. After a crash
/// torn pages count as damaged: "innodb check" compares them with their images. Pages that are neither
/// damaged nor all zero are also counted by type.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct VerifyArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect innodb verify /var/lib/mysql
  pg_dwbinspect innodb verify --format csv DATADIR > damaged.csv

This finds everything that innochecksum finds, and torn pages of MariaDB's page compression
without full_crc32, which innochecksum does not test.
";

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let bar = ByteBar::new(args.progress);
    let report = innodb_verify(&args.directory.request(), &|done, total| bar.at(done, total))?;
    drop(bar);
    let rows = report.scan.found.iter().map(|found| innodb_bad_page_row(&report.source.spaces, found));
    let closing = Closing::new(report.findings, &report.coverage);
    let Some(format) = args.output.machine() else {
        let layout = args.output.layout();
        writeln!(out, "{}", layout.paint.heading("Pages"))?;
        write_scanned(out, layout, &report.scan.counts)?;
        write_page_types(out, layout, &report.scan.counts)?;
        write_bad_pages(out, layout, &rows.collect::<Vec<_>>())?;
        return Ok(closing.end_text(out, layout)?.into());
    };
    let shape = CsvShape::Rows { plural: "damaged_pages", columns: INNODB_BAD_PAGE_COLUMNS };
    let mut sink = begin(format, shape, out, (PROGRAM, "innodb verify"), vec![args.directory.shown()])?;
    for row in rows {
        sink.item(&Item::DamagedPage(row))?;
    }
    let shown = report.scan.found.len() as u64;
    Ok(closing.end(sink, shown, scan_fields(&report.scan))?.into())
}
