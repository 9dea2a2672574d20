//! `pg_dwbinspect innodb batches`: groups of slots.

use std::io::Write;

use clap::Args;

use super::PROGRAM;
use super::args::DirectoryArgs;
use crate::analysis::innodb::batches::batches;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::until_interrupted;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::write_innodb_batches;
use crate::output::json::Item;
use crate::output::json::innodb::INNODB_BATCH_COLUMNS;
use crate::output::sink::CsvShape;

/// List the groups of slots that can be distinguished
///
/// InnoDB marks neither the beginning nor the end of a batch. Slots are separated by file, by part of the file (pages written
/// together or one by one, where the sizes of the files show it), and by the checkpoint: "current" are images that are not older,
/// "stale" those that are, "undecided" damaged ones.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct BatchesArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &BatchesArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let (source, findings, mut coverage) = args.directory.open()?;
    let content = source.read_buffer(args.directory.request().jobs, &mut coverage, &until_interrupted())?;
    let setting = source.setting();
    let rows: Vec<_> = batches(&content, source.checkpoint()).iter().map(|batch| setting.batch_row(batch)).collect();
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "batches", columns: INNODB_BATCH_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "innodb batches"), vec![args.directory.shown()])?;
        let shown = rows.len() as u64;
        for row in rows {
            sink.item(&Item::InnodbBatch(row))?;
        }
        return Ok(closing.end(sink, shown, serde_json::Map::new())?.into());
    }
    let layout = args.output.layout();
    write_innodb_batches(out, layout, &rows)?;
    Ok(closing.end_text(out, layout)?.into())
}
