//! `pg_walfpi kept`: what keeps the segments in `pg_wal`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::PROGRAM;
use crate::cli::context::{Format, OutputArgs, with_prometheus};
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{Outcome, Stop};
use crate::inspect::wal::kept::{KeptReport, kept};
use crate::output::closing::{Closing, begin};
use crate::output::json::wal::{KEPT_COLUMNS, Row};
use crate::output::json::{Item, lsn_text, time_text};
use crate::output::kept_text::{write_kept, write_kept_metrics};
use crate::output::sink::CsvShape;

/// Show what keeps the segments in pg_wal, how much each alone, and how to release them
///
/// Reads the data directory of a running or stopped server: the last checkpoint in pg_control, replication slots
/// (pg_replslot), segments that wait for the archiver (pg_wal/archive_status), wal_keep_size and max_slot_wal_keep_size,
/// and with summarize_wal = on the summaries of WAL. The next checkpoint removes or
/// recycles a segment that nothing keeps.
///
/// "alone" is the part that nothing else keeps: releasing this and a checkpoint free it. No file shows whether a slot is in
/// use: see active in pg_replication_slots before you drop one.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS, mut_arg("format", with_prometheus))]
pub(crate) struct KeptArgs {
    /// Data directory [default: $PGDATA]
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &KeptArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let data_dir = args.pgdata.choose(args.data_dir.as_deref())?;
    let KeptReport { wal, settings, ready_since_s, redo_lsn, findings, coverage } = kept(&data_dir)?;
    let closing = Closing::new(findings, &coverage);
    let ready_since = ready_since_s.map(time_text);
    if args.output.format == Format::Prometheus {
        write_kept_metrics(out, &wal)?;
        out.flush()?;
        return Ok(closing.answer().into());
    }
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "kept", columns: KEPT_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "kept"), vec![data_dir.display().to_string()])?;
        for row in &wal.rows {
            sink.item(&Item::Kept(row.into()))?;
        }
        let mut totals = Row::new();
        for (name, value) in [
            ("segments", json!(wal.segments)),
            ("bytes", json!(wal.bytes)),
            ("last_segment", json!(wal.last)),
            ("redo_lsn", json!(redo_lsn.map(lsn_text))),
            ("ready_since", json!(ready_since)),
            ("wal_keep_bytes", json!(settings.wal_keep_bytes)),
            ("max_slot_wal_keep_bytes", json!(settings.max_slot_bytes)),
        ] {
            totals.insert(name.to_owned(), value);
        }
        let rows = wal.rows.len() as u64;
        return Ok(closing.end(sink, rows, totals)?.into());
    }
    let layout = args.output.layout();
    write_kept(out, layout, &wal, ready_since.as_deref())?;
    Ok(closing.end_text(out, layout)?.into())
}
