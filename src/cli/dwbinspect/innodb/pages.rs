//! `pg_dwbinspect innodb check`, `page` and `verify`: pages, each with its images or by itself.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Map, Value, json};
use strum::VariantArray;

use super::DirectoryArgs;
use crate::analysis::innodb::judge::{HeldImage, InnodbComparison, InnodbPage};
use crate::analysis::innodb::rules::DAMAGED_PAGES;
use crate::analysis::verdict::answer::Answer;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::check::{InnodbExamination, innodb_check, innodb_page, innodb_verify};
use crate::output::closing::Closing;
use crate::output::innodb_text::{
    NOT_PREDICTED, innodb_headline, innodb_steps, write_bad_pages, write_basis, write_innodb_page, write_innodb_steps,
    write_judged, write_page_types, write_scanned,
};
use crate::output::json::Item;
use crate::output::json::innodb::{
    INNODB_BAD_PAGE_COLUMNS, INNODB_PAGE_COLUMNS, innodb_bad_page_row, innodb_lsn_text, named, scan_fields,
};
use crate::output::sink::CsvShape;
use crate::output::text::{wrapped, write_note_facts, write_problems, write_skips};

/// Find damaged pages of MySQL or MariaDB, and show their images in the doublewrite buffer
///
/// Reads every page of every tablespace and every slot of the doublewrite buffer. Shows each page that fails its checks, and
/// each zero-filled page that has an image, with the images and the one that the server would reach first. Startup is not
/// predicted: its redo log is not replayed here.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES_OF_CHECK}\n{EXIT_STATUS}"))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Show the evidence for every page: all images, and where the sectors of a torn page come from
    #[arg(long)]
    explain: bool,
    /// Also show intact pages that are in the doublewrite buffer
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES_OF_CHECK: &str = "Examples:
  pg_dwbinspect innodb check /var/lib/mysql
  pg_dwbinspect innodb check --explain /var/lib/mysql
  pg_dwbinspect innodb check --format ndjson DATADIR | jq 'select(.type == \"page\")'

Images in the buffer:
  newer, same, older  an intact image, compared with the LSN in the header of the page
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
    let findings = std::mem::take(&mut examined.findings);
    let answer = Answer::of_findings(&findings, &examined.coverage);
    let setting = examined.source.setting();
    if let Some(format) = args.output.machine() {
        let closing = Closing::new(findings, &examined.coverage);
        let rows = examined.all().map(|page| Item::InnodbPage(setting.page_row(page)));
        let closing = (closing, fields(&examined));
        return args.directory.write_rows(out, (format, PAGES), "innodb check", rows, closing);
    }
    let layout = args.output.layout();
    let pages: Vec<&InnodbPage> = examined.all().collect();
    // The answer counts damaged pages.
    let others = findings.into_iter().filter(|finding| !finding.is(&DAMAGED_PAGES)).collect();
    let closing = Closing::new(others, &examined.coverage).answering(answer);
    let head = innodb_headline(&examined.pages, &examined.scan.counts, answer);
    let is_complete = examined.coverage.skipped.is_empty();
    let steps = innodb_steps(&examined.pages, is_complete, &args.directory.request().arguments());
    let rest = &mut |out: &mut dyn Write| {
        write_innodb_steps(out, layout, &steps)?;
        let has_damaged = examined.pages.iter().any(InnodbPage::is_damaged);
        let heading = if has_damaged && !args.all { "Damaged pages" } else { "Pages" };
        write_judged(out, layout, heading, &pages)?;
        write_problems(out, layout, "Problems", &closing.findings)?;
        write_skips(out, layout, &closing.skipped)?;
        let log = (examined.end, examined.is_shut_down());
        write_basis(out, layout, setting, &examined.content.counts, log, &examined.scan.counts)?;
        write_note_facts(out, layout, &closing.findings, args.explain)?;
        let mut explained = pages.iter().filter(|_| args.explain);
        explained.try_for_each(|page| write_innodb_page(out, layout, setting, page))
    };
    head.write_around(out, layout, rest)?;
    out.flush()?;
    Ok(closing.answer().into())
}

/// Fields of the last line for programs.
fn fields(examined: &InnodbExamination) -> Map<String, Value> {
    let count = |is_one: &dyn Fn(&InnodbPage) -> bool| json!(examined.all().filter(|page| is_one(page)).count());
    let held = |held: &HeldImage| (held.name().to_owned(), count(&|page| page.held == *held));
    let disk = |word: &InnodbComparison| (word.name().to_owned(), count(&|page| page.disk == *word));
    let source = &examined.source;
    let mut fields = scan_fields(&examined.scan.counts);
    fields.extend(named([
        ("family", json!(source.family.name())),
        ("checkpoint_lsn", json!(source.checkpoint().map(innodb_lsn_text))),
        ("end_lsn", json!(examined.end.map(|end| innodb_lsn_text(end.lsn)))),
        ("shut_down_cleanly", json!(examined.is_shut_down())),
        ("holds", Value::Object(HeldImage::VARIANTS.iter().map(held).collect())),
        ("disk", Value::Object(InnodbComparison::VARIANTS.iter().map(disk).collect())),
        ("startup", json!(NOT_PREDICTED)),
    ]));
    fields
}

const PAGES: CsvShape<'static> = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };

/// Show everything about one page: disk, images and sectors
///
/// TABLESPACE is its number, or the path of its file in the data directory, such as shop/orders.ibd. The tablespace is read
/// completely: its newest LSN shows whether the doublewrite buffer was in use.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The tablespace
    #[arg(value_name = "TABLESPACE")]
    tablespace: String,
    /// Number of the page in it
    #[arg(value_name = "PAGE")]
    page_no: u32,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn page(args: &PageArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(args.progress);
    let request = args.directory.request();
    let mut examined = innodb_page(&request, &args.tablespace, args.page_no, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage);
    let setting = examined.source.setting();
    if let Some(format) = args.output.machine() {
        let rows = examined.pages.iter().map(|page| Item::InnodbPage(setting.page_row(page)));
        return args.directory.write_rows(out, (format, PAGES), "innodb page", rows, (closing, Map::new()));
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
/// Checks the checksum of each page (crc32, innodb, none, full_crc32), that its header and its end have the same version, and
/// that a compressed page can be decompressed. Encrypted pages without a checksum are counted as not examined. After a crash
/// torn pages count as damaged: "innodb check" compares them with their images. Pages that are neither
/// damaged nor zero-filled are also counted by type.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES_OF_VERIFY}\n{EXIT_STATUS}"))]
pub(crate) struct VerifyArgs {
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
    let counts = &report.scan.counts;
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "damaged_pages", columns: INNODB_BAD_PAGE_COLUMNS };
        let (rows, closing) = (rows.map(Item::InnodbDamagedPage), (closing, scan_fields(counts)));
        return args.directory.write_rows(out, (format, shape), "innodb verify", rows, closing);
    }
    let layout = args.output.layout();
    writeln!(out, "{}", layout.paint.heading("Pages"))?;
    write_scanned(out, layout, counts)?;
    write_page_types(out, layout, counts)?;
    write_bad_pages(out, layout, rows.collect())?;
    Ok(closing.end_text(out, layout)?.into())
}
