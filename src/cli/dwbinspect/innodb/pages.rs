//! `pg_dwbinspect innodb check`, `page` and `verify`: pages, each with its images or by itself.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::PROGRAM;
use super::args::{BufferArgs, DirectoryArgs};
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::check::{innodb_check, innodb_page, innodb_verify};
use crate::inspect::innodb::document::{scan_fields, write_check, write_check_text};
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{NOT_PREDICTED, write_bad_pages, write_innodb_page, write_page_types, write_scanned};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_BAD_PAGE_COLUMNS, INNODB_PAGE_COLUMNS, innodb_bad_page_row};
use crate::output::sink::CsvShape;
use crate::output::text::wrapped;

/// Find damaged pages of MySQL or MariaDB, and show what the doublewrite buffer holds of them
///
/// Reads every page of every tablespace and every slot of the doublewrite buffer. Shows each page that fails its checks, and each page
/// of zeros that has an image, with the images and the one that the server would reach first. What the server does at startup is not
/// predicted: its redo log is not replayed here.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES_OF_CHECK}\n{EXIT_STATUS}"))]
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

const EXAMPLES_OF_CHECK: &str = "\
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

pub(super) fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
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

/// Show everything about one page: disk, images and sectors
///
/// TABLESPACE is its number, or the path of its file in the data directory, such as shop/orders.ibd. The tablespace is read as
/// a whole: its newest LSN shows whether the doublewrite buffer was in use.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct PageArgs {
    /// Data directory of a stopped server: the one with ibdata1
    #[arg(value_name = "DATADIR")]
    data_dir: PathBuf,
    /// The tablespace
    #[arg(value_name = "TABLESPACE")]
    tablespace: String,
    /// Number of the page in it
    #[arg(value_name = "PAGE")]
    page_no: u32,
    #[command(flatten)]
    of_buffer: BufferArgs,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn page(args: &PageArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(args.progress);
    let request = args.of_buffer.request(args.data_dir.clone());
    let mut examined = innodb_page(&request, &args.tablespace, args.page_no, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage);
    let source = &examined.source;
    let setting = source.setting();
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };
        let paths = vec![args.data_dir.display().to_string()];
        let mut sink = begin(format, shape, out, (PROGRAM, "innodb page"), paths)?;
        for page in &examined.pages {
            sink.item(&Item::Page(setting.page_row(page)))?;
        }
        return Ok(closing.end(sink, examined.pages.len() as u64, serde_json::Map::new())?.into());
    }
    let layout = args.output.layout();
    for page in &examined.pages {
        write_innodb_page(out, layout, setting, page)?;
    }
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// Check every page of every tablespace
///
/// Checks the checksum of each page (crc32, innodb, none, full_crc32), that its header and its end are of one version, and that a
/// compressed page can be unpacked. Encrypted pages without a checksum of their own are counted as not examined. After a crash
/// torn pages count as damaged: "innodb check" compares them with their images. Pages that are neither
/// damaged nor all zero are also counted by type.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES_OF_VERIFY}\n{EXIT_STATUS}"))]
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

const EXAMPLES_OF_VERIFY: &str = "\
Examples:
  pg_dwbinspect innodb verify /var/lib/mysql
  pg_dwbinspect innodb verify --format csv DATADIR > damaged.csv

This finds everything that innochecksum finds, and torn pages of MariaDB's page compression
without full_crc32, which innochecksum does not test.
";

pub(super) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
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
