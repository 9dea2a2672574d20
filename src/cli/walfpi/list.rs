//! `pg_walfpi list`: every image.

use std::io::Write;

use clap::Args;

use super::args::CommonArgs;
use super::images::{ImageArgs, ImageWork, Target};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::ByteBar;

/// List the full-page images, one line each
///
/// Shows the LSN and type of the record, the block, the size as stored and before compression, the hole, the
/// compression, whether redo applies the image, and why it was written.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    images: ImageArgs,
}

pub(super) fn run(args: &ListArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(args.images.progress);
    let watch = |done, total| bar.at(done, total);
    let ImageWork { request, names, selection, mut source } = args.images.open(&args.common, &watch)?;
    let mut target = Target::begin(&request, &args.common.output, out, "list", false)?;
    let mut shown = 0;
    source.each_image_head(&selection, request.jobs, &watch, |found| {
        shown += 1;
        target.image(found, &names, None)
    })?;
    drop(bar);
    source.note_range_without_wal();
    let sentence = format!("{shown} images in {} records", source.coverage.examined);
    target.end(source, shown, &sentence)
}
