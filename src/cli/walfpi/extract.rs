//! `pg_walfpi extract`: images as page files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::images::{FoundImage, ImageFilter, Target, each_image};
use super::names::Names;
use super::source::{CommonArgs, WalSource};
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};
use crate::output::json::wal::fork_name;
use crate::parsers::image::ImageDecoder;
use crate::parsers::restore::ready_page;
use crate::repair::export::ExportDir;

/// Write full-page images into a directory, as files of one page each
///
/// By default a page is as redo would leave it: its LSN is the end of the record, its checksum fits. With --raw it is
/// what the record holds, byte for byte what pg_waldump --save-fullpage writes. Names are pg_waldump's:
/// TIMELINE-LSN.SPC.DB.REL.BLOCK_FORK. Existing files are never overwritten.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct ExtractArgs {
    /// Directory for the pages; made if it does not exist, never inside a data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
    /// Leave pages as the record holds them; includes images that redo does not apply
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    filter: ImageFilter,
}

pub(super) fn run(args: &ExtractArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let names = Names::open(&args.common.names)?;
    let filter = args.filter.resolved(&names)?;
    let mut source = WalSource::open(&args.common.source)?.telling(args.progress);
    source.add_name_notes(&names);
    let protected = args.common.source.protected()?;
    let export = ExportDir::create(&args.directory, &protected).map_err(|error| Stop::Input(error.to_string()))?;
    let mut target = Target::begin(&source, &args.common.output, out, "extract", true)?;
    // Without a control file the checksum is set: where checksums are off the field may hold anything.
    let checksums = source.set.control().is_none_or(|control| control.checksums.is_written());
    let block_size = usize::try_from(source.set.geometry().block_size).unwrap_or_default();
    let mut decoder = ImageDecoder::new();
    let mut page = vec![0; block_size];
    let (mut written, mut left_out) = (0, 0);
    let plan = source.plan();
    each_image(&mut source, &plan, &filter, args.jobs, |notes, found| {
        if !args.raw && !found.image.applies() {
            left_out += 1;
            return Ok(());
        }
        let place = format!("image of block {} at {}", found.block.block, found.record.start_lsn);
        if let Err(error) = decoder.restore(found.image, &mut page) {
            let (block, record_lsn) = (found.block.block, found.record.start_lsn);
            notes.findings.push(Finding::problem(FindingKind::Image { block, record_lsn, error }));
            return Ok(());
        }
        if !args.raw {
            ready_page(&mut page, found.record.end_lsn, found.block.block, checksums);
        }
        let name = file_name(found);
        match export.write_new(&name, &page) {
            Ok(_) => written += 1,
            Err(error) => {
                notes.coverage.skip(place, error.to_string());
                return Ok(());
            }
        }
        target.image(found, &names, Some(&name))
    })?;
    if left_out > 0 {
        source.findings.push(Finding::note(FindingKind::NotApplied { count: left_out }));
    }
    let sentence = format!("{written} pages written to {}", args.directory.display());
    target.end(source, written, &sentence)
}

/// The name that `pg_waldump --save-fullpage` gives a page.
fn file_name(found: &FoundImage<'_>) -> String {
    let (record, block) = (found.record, found.block);
    format!(
        "{:08X}-{:08X}-{:08X}.{}.{}.{}.{}_{}",
        record.tli.0,
        record.start_lsn.0 >> 32,
        record.start_lsn.0 & 0xFFFF_FFFF,
        block.rel.spc_oid,
        block.rel.db_oid,
        block.rel.rel_number,
        block.block,
        fork_name(block.fork_code())
    )
}
