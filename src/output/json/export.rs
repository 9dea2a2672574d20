//! JSON of exported files, and of the manifest that completes an export.

use serde_json::{Value, json};

use super::lsn_text;
use super::wal::Row;
use crate::output::closing::{Closing, VERSION};
use crate::output::export::{ColumnType, ExportedFile, FileFormat, Table};

/// Number of the manifest's schema, and of the tables' columns.
pub(crate) const EXPORT_SCHEMA: u32 = 1;

/// Fields of an exported file, in order.
pub(crate) const EXPORTED_FILE_COLUMNS: &[&str] =
    &["path", "timeline", "first_segment", "last_segment", "start_lsn", "end_lsn", "records", "rows", "bytes"];

pub(crate) fn exported_file_row(file: &ExportedFile) -> Row {
    let values = [
        json!(file.path),
        json!(file.timeline.0),
        json!(file.first_segment),
        json!(file.last_segment),
        json!(file.first_lsn.map(lsn_text)),
        json!(file.end_lsn.map(lsn_text)),
        json!(file.records),
        json!(file.rows),
        json!(file.bytes),
    ];
    EXPORTED_FILE_COLUMNS.iter().map(|name| (*name).to_owned()).zip(values).collect()
}

/// What a manifest tells besides the files and what was odd about the WAL.
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
        "files": facts.files.iter().map(exported_file_row).collect::<Vec<_>>(),
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
