//! JSON of exported files, and of the manifest that completes an export.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::scalars::{ExportTable, LsnText};
use super::wal::Row;
use crate::analysis::wal::interval::Interval;
use crate::output::closing::{Closing, VERSION};
use crate::output::export::{ColumnType, ExportedFile, FileFormat, Table};
use crate::types::Lsn;

/// Number of the manifest's schema, and of the tables' columns.
pub(crate) const EXPORT_SCHEMA: u32 = 2;

/// Fields of an exported file, in order.
pub(crate) const EXPORTED_FILE_COLUMNS: &[&str] =
    &["table", "path", "timeline", "first_segment", "last_segment", "start_lsn", "end_lsn", "records", "rows", "bytes"];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ExportedFileJson {
    /// `records`, `blocks` or `images`
    table: ExportTable,
    /// Below the directory that was given
    path: String,
    /// The segments that it is of
    timeline: u32,
    first_segment: String,
    last_segment: String,
    /// Their first and last record
    start_lsn: Option<LsnText>,
    end_lsn: Option<LsnText>,
    /// Records that were read for it
    records: u64,
    /// Its rows, and its size
    rows: u64,
    bytes: u64,
}

impl From<&ExportedFile> for ExportedFileJson {
    fn from(file: &ExportedFile) -> Self {
        Self {
            table: file.table.name().into(),
            path: file.path.clone(),
            timeline: file.timeline.0,
            first_segment: file.first_segment.clone(),
            last_segment: file.last_segment.clone(),
            start_lsn: file.first_lsn.map(LsnText::from),
            end_lsn: file.end_lsn.map(LsnText::from),
            records: file.records,
            rows: file.rows,
            bytes: file.bytes,
        }
    }
}

/// Content of a manifest in addition to files and findings about the WAL.
pub struct ManifestFacts<'a> {
    /// The table.
    pub table: Table,
    /// How it is written.
    pub format: FileFormat,
    /// Segments in a file.
    pub group: u32,
    /// Paths as given.
    pub paths: Vec<String>,
    /// The files.
    pub files: Vec<&'a ExportedFile>,
    /// The numbers of own segments, with the addresses from and to which they are; `None`: all are.
    pub own: Option<OwnRange>,
    /// Start of the first record that was read, own or not.
    pub read_from: Option<Lsn>,
    /// Checkpoint intervals of all that was read.
    pub intervals: &'a [Interval],
    /// `.partial` files that were read.
    pub partial_segments: &'a [String],
    /// Sums, and of which WAL they are.
    pub totals: Row,
}

/// Own segments of an export.
#[derive(Clone, Copy, Debug)]
pub struct OwnRange {
    /// Where the first begins.
    pub start_lsn: Lsn,
    /// Where the one after the last begins.
    pub end_lsn: Lsn,
}

/// Addresses in a manifest are numbers, as in the tables.
fn interval_value(interval: &Interval) -> Value {
    json!({
        "start_lsn": interval.start_lsn.0,
        "redo_lsn": interval.redo_lsn.map(|lsn| lsn.0),
        "is_hidden": interval.hidden.is_some(),
    })
}

/// The manifest: what is in the files, what was wrong with the WAL, and what was not examined.
pub fn manifest(facts: &ManifestFacts<'_>, closing: &Closing) -> String {
    let columns: Vec<Value> = facts
        .table
        .columns()
        .iter()
        .map(|column| json!({"name": column.name, "type": type_name(column.kind), "nullable": column.nullable}))
        .collect();
    let manifest = json!({
        "schema": EXPORT_SCHEMA,
        "version": VERSION,
        "table": facts.table.name(),
        "format": facts.format.name(),
        "columns": columns,
        "segments_per_file": facts.group,
        "paths": facts.paths,
        "own": facts.own.map(|own| json!({"start_lsn": own.start_lsn.0, "end_lsn": own.end_lsn.0})),
        "read_start_lsn": facts.read_from.map(|lsn| lsn.0),
        "intervals": facts.intervals.iter().map(interval_value).collect::<Vec<_>>(),
        "partial_segments": facts.partial_segments,
        "files": facts.files.iter().map(|file| ExportedFileJson::from(*file)).collect::<Vec<_>>(),
        "rows": facts.files.iter().map(|file| file.rows).sum::<u64>(),
        "totals": facts.totals,
        "findings": closing.findings,
        "skipped": closing.skipped,
        "exit_status": closing.answer().status(),
    });
    format!("{manifest:#}\n")
}

const fn type_name(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Int => "int64",
        ColumnType::Bool => "boolean",
        ColumnType::Text => "text",
    }
}
