//! `pg_dwbinspect innodb info`: what is there.

use std::io::Write;

use clap::Args;

use super::PROGRAM;
use super::args::DirectoryArgs;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::until_interrupted;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{write_instance, write_tablespaces};
use crate::output::json::Item;
use crate::output::json::innodb::{instance_row, slot_file_row, tablespace_row};
use crate::output::sink::CsvShape;

/// Show server, checkpoint, doublewrite buffer and tablespaces
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct InfoArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &InfoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let (source, findings, mut coverage) = args.directory.open()?;
    let jobs = args.directory.request().jobs;
    let content = source.read_buffer(jobs, &mut coverage, &until_interrupted())?;
    let shown = args.directory.shown();
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.output.machine() {
        let paths = vec![shown.clone()];
        let mut sink = begin(format, CsvShape::Pairs, out, (PROGRAM, "innodb info"), paths)?;
        let instance = instance_row(&shown, source.family, &source.log, &source.doublewrite, &source.spaces);
        sink.item(&Item::Instance(instance))?;
        for (file, counts) in source.doublewrite.files.iter().zip(&content.counts) {
            sink.item(&Item::InnodbFile(slot_file_row(file, counts)))?;
        }
        for space in &source.spaces.all {
            sink.item(&Item::Tablespace(tablespace_row(space)))?;
        }
        return Ok(closing.end(sink, source.spaces.all.len() as u64, serde_json::Map::new())?.into());
    }
    let layout = args.output.layout();
    let buffer = (&source.doublewrite, content.counts.as_slice());
    write_instance(out, layout, &shown, (source.family, &source.log), buffer, &source.spaces)?;
    write_tablespaces(out, layout, &source.spaces)?;
    Ok(closing.end_text(out, layout)?.into())
}
