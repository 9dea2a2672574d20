//! `pg_walfpi merge`: adds up what `stats --partial` has written.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::PROGRAM;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::inspect::wal::merge::merge;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::json::Item;
use crate::output::json::wal::Row;
use crate::output::sink::CsvShape;
use crate::output::table::{plain_table, write_table};
use crate::output::wal_columns::put_tally;

/// Add up partial results of `stats --partial`
///
/// Shows what `stats` would have shown of all parts in one run, rows with most image bytes first. Parts may be given in any
/// order. Parts that count the same WAL twice, or are of different clusters, are refused; WAL between two parts that nobody
/// has counted is a finding, and a record that nobody has counted ends with status 2.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct MergeArgs {
    /// Partial results
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &MergeArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut merged = merge(&args.files)?;
    merged.groups.truncate(args.top.unwrap_or(usize::MAX));
    let first = merged.first;
    let mut totals = Row::new();
    put_tally(&mut totals, &merged.total);
    let system = first.wal.system_identifier.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    for (name, value) in [
        ("wal_bytes", json!(merged.wal_bytes)),
        ("start_lsn", json!(merged.start_lsn)),
        ("end_lsn", json!(merged.end_lsn)),
        ("major", json!(first.wal.major)),
        ("system_identifier", json!(system)),
        ("wal_segment_size", json!(first.wal.wal_segment_size)),
    ] {
        totals.insert(name.to_owned(), value);
    }
    let closing = Closing::new(merged.findings, &merged.coverage).with(first.findings, first.skipped);
    let columns: Vec<&str> = first.columns.iter().map(String::as_str).collect();
    if let Some(format) = args.output.machine() {
        let paths = args.files.iter().map(|path| path.display().to_string()).collect();
        // The names of columns outlive the output.
        let known: Vec<&'static str> = crate::output::json::partial::known_columns(&columns);
        let shape = CsvShape::Rows { plural: "groups", columns: &known };
        let mut sink = begin(format, shape, out, (PROGRAM, "merge"), paths)?;
        let shown = merged.groups.len() as u64;
        for row in merged.groups {
            sink.item(&Item::Group(row))?;
        }
        return Ok(closing.end(sink, shown, totals)?.into());
    }
    let layout = args.output.layout();
    let mut table = plain_table(&columns);
    let cell = |row: &Row, column: &str| match row.get(column) {
        Some(Value::String(text)) => printable(text),
        Some(Value::Null) | None => "-".to_owned(),
        Some(value) => value.to_string(),
    };
    for row in &merged.groups {
        table.add_row(columns.iter().map(|column| cell(row, column)).collect::<Vec<_>>());
    }
    write_table(out, &table)?;
    writeln!(out, "\n{} records, {} images", merged.total.records, merged.total.fpi_count)?;
    if let Some((from, to)) = merged.start_lsn.zip(merged.end_lsn) {
        writeln!(out, "WAL from {from} to {to}")?;
    }
    writeln!(out, "system identifier {system}")?;
    Ok(closing.end_text(out, layout)?.into())
}
