//! `pg_walfpi extract`: images as page files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::PROGRAM;
use super::args::{CommonArgs, path_texts};
use super::images::{ImageArgs, ImageWork, Target};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::SkipReason;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::page_file_name;
use crate::cli::work::{ByteBar, ServerArgs};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::page_at::{Moment, PagesAt, PagesAtRequest, pages_at};
use crate::inspect::page_target::named_pages;
use crate::inspect::wal::images::FoundImage;
use crate::inspect::wal::whatif::PageForm;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::json::Item;
use crate::output::json::page::PageLocation;
use crate::output::json::page_at::{PAGE_AT_COLUMNS, PageAtJson, PageThen};
use crate::output::json::wal::{Row, fork_name};
use crate::output::sink::CsvShape;
use crate::repair::export::ExportDir;
use crate::types::Lsn;

/// Write full-page images into a directory, as files of one page each
///
/// By default a page is written as redo would leave it: with the LSN of the end of the record, and with a right checksum.
/// With --raw it is what the record holds, byte for byte what pg_waldump --save-fullpage writes. File names are those of
/// pg_waldump: TIMELINE-LSN.SPC.DB.REL.BLOCK_FORK. Existing files are never overwritten.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct ExtractArgs {
    /// Directory for the pages; created if it does not exist, never inside a data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
    /// Write pages as the record holds them, also images that redo does not apply
    #[arg(long)]
    raw: bool,
    /// Write pages as they were at LSN instead, built by replay
    ///
    /// Pages of --relation and --block after the last record that ends at or before LSN. A server of the same PostgreSQL
    /// version replays their records in a sandbox. One of the paths must be the data directory; the others give more WAL.
    #[arg(
        long,
        value_name = "LSN",
        conflicts_with_all = ["raw", "lsn", "cause", "resync", "start", "end", "timeline", "path"],
    )]
    at: Option<Lsn>,
    /// Older copy of the cluster from which pages can be built: base backup, snapshot, stopped standby
    #[arg(long = "donor", value_name = "PATH", requires = "at", hide_short_help = true)]
    donors: Vec<PathBuf>,
    #[command(flatten)]
    replay: ServerArgs,
    #[command(flatten)]
    images: ImageArgs,
}

pub(super) fn run(args: &ExtractArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    if let Some(lsn) = args.at {
        return extract_at(args, lsn, out);
    }
    let bar = ByteBar::new(args.images.progress);
    let watch = |done, total| bar.at(done, total);
    let ImageWork { request, names, selection, mut source } = args.images.open(&args.common, &watch)?;
    let export = ExportDir::create(&args.directory, &request.protected()?).map_err(InspectError::from)?;
    let mut target = Target::begin(&request, &args.common.output, out, "extract", true)?;
    let form = if args.raw { PageForm::AsStored } else { PageForm::AfterRedo };
    let mut written = 0;
    source.each_page(&selection, form, request.jobs, &watch, |notes, found, page| {
        let name = file_name(found);
        match export.write_new(&name, page) {
            Ok(_) => written += 1,
            Err(error) => {
                notes.coverage.skip(found.as_part(), SkipReason::NotWritten(ErrorWords::of_other(&error)));
                return Ok(());
            }
        }
        target.image(found, &names, Some(&name))
    })?;
    drop(bar);
    let sentence = format!("{written} pages written to {}", printable(&args.directory.display().to_string()));
    target.end(source, written, &sentence)
}

/// Builds pages as they were at `lsn`, and writes each into a file.
fn extract_at(args: &ExtractArgs, lsn: Lsn, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.common.request(args.images.jobs_arg())?;
    let is_cluster = |path: &&PathBuf| DataDir::open(path).is_ok();
    let data_dir = request.paths.iter().find(is_cluster).cloned().ok_or(InspectError::AtNeedsDataDir)?;
    let directory = open_data_dir(&data_dir)?;
    let (names, _) = RelationNames::read(&directory);
    let pages = named_pages(&directory, &args.images.pages(&names)?)?;
    let export = ExportDir::create(&args.directory, &request.protected()?).map_err(InspectError::from)?;
    let wanted = pages.into_iter().map(|page| (page, Moment::At(lsn))).collect();
    let wal = request.paths.iter().filter(|path| **path != data_dir).cloned().collect();
    let (donors, server) = (args.donors.clone(), args.replay.options());
    let bar = ByteBar::new(args.images.progress);
    let found = pages_at(&PagesAtRequest { data_dir, wal, donors, jobs: request.jobs, server, wanted }, &bar)?;
    drop(bar);
    let PagesAt { pages, mut history, server, sandbox, .. } = found;
    let output = &args.common.output;
    let layout = output.layout();
    let shape = CsvShape::Rows { plural: "pages_at", columns: PAGE_AT_COLUMNS };
    let (mut sink, mut text) = match output.machine() {
        Some(format) => (Some(begin(format, shape, out, (PROGRAM, "extract"), path_texts(&request))?), None),
        None => (None, Some(out)),
    };
    let mut written = 0;
    for (page, _, result) in pages {
        let at = match result {
            Ok(at) => at,
            Err(why) => {
                history.coverage.skip(page, SkipReason::NotRebuilt { why: why.to_string() });
                continue;
            }
        };
        let name = page_file_name(history.timeline_at(lsn), lsn, page.rel, page.block, page.fork.name());
        if let Err(error) = export.write_new(&name, &at.built.bytes) {
            history.coverage.skip(page, SkipReason::NotWritten((&error).into()));
            continue;
        }
        written += 1;
        if let Some(out) = &mut text {
            writeln!(out, "{name}  {} records, from {}", at.built.records, at.plan.base)?;
        }
        if let (Some(sink), Some(server)) = (&mut sink, &server) {
            let (path, relation) = (history.path_of(page), history.relation_name(page));
            let location =
                PageLocation { path: &path, relation: relation.as_deref(), database: history.database_name(page) };
            let (version, sandbox) = (&server.version, sandbox.as_deref());
            let then = PageThen { lsn: at.lsn, plan: &at.plan, built: &at.built, server: version, sandbox };
            sink.item(&Item::PageAt(Box::new(PageAtJson::new(&then, &location, Some(&name)))))?;
        }
    }
    let closing = Closing::new(std::mem::take(&mut history.findings), &history.coverage);
    match (sink, text) {
        (Some(sink), _) => Ok(closing.end(sink, written, Row::new())?.into()),
        (None, Some(out)) => {
            writeln!(out, "\n{written} pages written to {}", printable(&args.directory.display().to_string()))?;
            if let Some(sandbox) = sandbox {
                writeln!(out, "the sandbox was left: {}", printable(&sandbox.display().to_string()))?;
            }
            Ok(closing.end_text(out, layout)?.into())
        }
        (None, None) => Ok(closing.answer().into()),
    }
}

/// The name of an image's file.
fn file_name(found: &FoundImage<'_>) -> String {
    let (record, block) = (found.record, found.block);
    page_file_name(record.tli, record.start_lsn, block.rel, block.block, &fork_name(block.fork_code()))
}
