//! JSON of exported files, and of the manifest that completes an export.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::scalars::LsnText;
use super::wal::Row;
use crate::output::closing::{Closing, VERSION};
use crate::output::export::{ColumnType, ExportedFile, FileFormat, Table};

/// Number of the manifest's schema, and of the tables' columns.
pub(crate) const EXPORT_SCHEMA: u32 = 1;

/// Fields of an exported file, in order.
pub(crate) const EXPORTED_FILE_COLUMNS: &[&str] =
    &["path", "timeline", "first_segment", "last_segment", "start_lsn", "end_lsn", "records", "rows", "bytes"];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ExportedFileJson {
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
    pub files: &'a [ExportedFile],
    /// Sums, and of which WAL they are.
    pub totals: Row,
}

/// The manifest: what is in the files, what was wrong with the WAL, and what was not examined.
#[must_use]
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
        "files": facts.files.iter().map(ExportedFileJson::from).collect::<Vec<_>>(),
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
