//! `pg_walfpi extract`: images as page files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::args::CommonArgs;
use super::images::{ImageArgs, ImageWork, Target};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::SkipReason;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::page_file_name;
use crate::cli::work::ByteBar;
use crate::inspect::error::InspectError;
use crate::inspect::wal::images::FoundImage;
use crate::inspect::wal::restored::PageForm;
use crate::output::json::wal::fork_name;
use crate::repair::export::ExportDir;

/// Write full-page images into a directory, as files of one page each
///
/// By default a page is written as redo would leave it: with the LSN of the end of the record, and with a right checksum.
/// With --raw it is what the record holds, byte for byte what pg_waldump --save-fullpage writes. File names are those of
/// pg_waldump: TIMELINE-LSN.SPC.DB.REL.BLOCK_FORK. Existing files are never overwritten.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct ExtractArgs {
    /// Directory for the pages; created if it does not exist, never inside a data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
    /// Write pages as the record holds them, also images that redo does not apply
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    images: ImageArgs,
}

pub(super) fn run(args: &ExtractArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let ImageWork { request, names, selection, mut source } = args.images.open(&args.common)?;
    let export = ExportDir::create(&args.directory, &request.protected()?).map_err(InspectError::from)?;
    let mut target = Target::begin(&request, &args.common.output, out, "extract", true)?;
    let form = if args.raw { PageForm::AsStored } else { PageForm::AfterRedo };
    let bar = ByteBar::new(args.images.progress);
    let watch = |done, total| bar.at(done, total);
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
    let sentence = format!("{written} pages written to {}", args.directory.display());
    target.end(source, written, &sentence)
}

/// The name of an image's file.
fn file_name(found: &FoundImage<'_>) -> String {
    let (record, block) = (found.record, found.block);
    page_file_name(record.tli, record.start_lsn, block.rel, block.block, &fork_name(block.fork_code()))
}
