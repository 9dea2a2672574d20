//! `pg_dwbinspect batches`: what was written between two resets.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::PROGRAM;
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::until_interrupted;
use crate::inspect::dwb_source::batches as inspect_batches;
use crate::output::closing::{Closing, begin};
use crate::output::json::{BATCH_COLUMNS, BatchJson, Item, USUAL_BATCH_COLUMNS};
use crate::output::sink::CsvShape;
use crate::output::text::{write_batches, write_described};

/// List the batches that can be distinguished
///
/// In pg_dwbuf a batch is everything written between two completed checkpoints. No slot says to which batch it belongs, so
/// each row has a confidence: "proven" follows from the bytes, "likely" is the best explanation, "possible" cannot be ruled
/// out. In pg_dwb each batch has its own file.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct BatchesArgs {
    /// Data directory; also a double write buffer directory (pg_dwbuf or pg_dwb), or single files of one
    #[arg(value_name = "DATADIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &BatchesArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let paths = args.pgdata.choose_all(&args.paths)?;
    let report = inspect_batches(&paths, &until_interrupted())?;
    let (source, names) = (&report.source, report.names.as_ref());
    let name = |rel| names?.full_name(rel);
    let batches: Vec<BatchJson> =
        report.batches.iter().map(|batch| BatchJson::new(batch, &source.set.files, &name)).collect();
    let closing = Closing::new(report.findings, &report.coverage);
    if let Some(format) = args.output.machine() {
        let paths = paths.iter().map(|path| path.display().to_string()).collect();
        let columns =
            if source.set.is_of_built_server() { BATCH_COLUMNS } else { &BATCH_COLUMNS[..USUAL_BATCH_COLUMNS] };
        let shape = CsvShape::Rows { plural: "batches", columns };
        let mut sink = begin(format, shape, out, (PROGRAM, "batches"), paths)?;
        let shown = batches.len() as u64;
        for batch in batches {
            sink.item(&Item::Batch(batch))?;
        }
        return Ok(closing.end(sink, shown, serde_json::Map::new())?.into());
    }
    let layout = args.output.layout();
    write_described(out, &source.set)?;
    write_batches(out, layout, &batches)?;
    Ok(closing.end_text(out, layout)?.into())
}
