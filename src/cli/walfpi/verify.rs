//! `pg_walfpi verify`: where WAL ends and why.

use std::io::{self, Write};

use clap::Args;

use super::PROGRAM;
use super::args::{SourceArgs, path_texts};
use crate::cli::context::RunArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::ByteBar;
use crate::inspect::wal::chain::{WalChainRequest, wal_chain};
use crate::output::closing::{Closing, begin};
use crate::output::json::Item;
use crate::output::json::wal::{RUN_COLUMNS, Row, RunJson};
use crate::output::sink::CsvShape;
use crate::output::text::{Layout, write_fact};

/// Check the chain of WAL records, and say where it ends and why
///
/// Checks every page header, the CRC of every record, every link to the previous record, and that compressed images can be
/// unpacked. An end is damage when valid records of the same stream follow it, or pg_control shows later WAL; a running or
/// crashed server leaves all other ends. If a server is running, the end is read again before it is reported as damage. Bytes that no server reads
/// are not checked: padding, and the rest of a segment after a segment switch.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Continue after damage, at the next page on which a record starts
    #[arg(long)]
    resync: bool,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.run.quiet.output(out, &mut nowhere);
    let request = WalChainRequest { wal: args.source.request(args.run.jobs)?, resynchronise: args.resync };
    let bar = ByteBar::new(args.run.progress);
    let chain = wal_chain(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let runs: Vec<RunJson> = chain.runs.iter().map(RunJson::from).collect();
    let closing = Closing::new(chain.wal.findings, &chain.wal.coverage);
    if let Some(format) = args.run.output.machine() {
        let shape = CsvShape::Rows { plural: "runs", columns: RUN_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "verify"), path_texts(&request.wal))?;
        let shown = runs.len() as u64;
        for row in runs {
            sink.item(&Item::Run(Box::new(row)))?;
        }
        for damage in &chain.damage {
            sink.item(&Item::Damage(damage.into()))?;
        }
        return Ok(closing.end(sink, shown, Row::new())?.into());
    }
    let layout = args.run.output.layout();
    for row in &runs {
        write_run(out, layout, row)?;
    }
    Ok(closing.end_text(out, layout)?.into())
}

fn write_run(out: &mut dyn Write, layout: Layout, run: &RunJson) -> io::Result<()> {
    let row = serde_json::to_value(run)?;
    // People read the words.
    for column in RUN_COLUMNS.iter().filter(|column| **column != "verdict_code") {
        match row.get(*column) {
            Some(serde_json::Value::String(text)) => write_fact(out, layout, &column.replace('_', " "), text)?,
            Some(value) if !value.is_null() => {
                write_fact(out, layout, &column.replace('_', " "), &value.to_string())?;
            }
            _ => {}
        }
    }
    writeln!(out)
}
