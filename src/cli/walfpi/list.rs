//! `pg_walfpi list`: every image.

use std::io::Write;

use clap::Args;

use super::images::{ImageFilter, Target, each_image_head};
use super::names::Names;
use super::source::{CommonArgs, WalSource};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};

/// List the full-page images, one line each
///
/// Shows the LSN and type of the record, the block, the size as stored and of the page, the hole, the compression,
/// whether redo applies the image, and why it was written.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    filter: ImageFilter,
}

pub(super) fn run(args: &ListArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let names = Names::open(&args.common.names)?;
    let filter = args.filter.resolved(&names)?;
    let mut source = WalSource::open(&args.common.source)?.telling(args.progress);
    source.add_name_notes(&names);
    let mut target = Target::begin(&source, &args.common.output, out, "list", false)?;
    let mut shown = 0;
    let plan = source.plan();
    each_image_head(&mut source, &plan, &filter, args.jobs, |found| {
        shown += 1;
        target.image(found, &names, None)
    })?;
    source.note_empty_range();
    let sentence = format!("{shown} images in {} records", source.coverage.examined);
    target.end(source, shown, &sentence)
}
