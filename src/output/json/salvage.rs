//! JSON of `salvage`: tables with the number of their rows, and files that no catalog names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::ProblemWord;
use crate::salvage::{TableReport, UnnamedFile};

/// Fields of a table, in the order of CSV.
pub(crate) const SALVAGED_TABLE_COLUMNS: &[&str] = &[
    "database",
    "schema",
    "table",
    "oid",
    "rows",
    "uncertain",
    "deleted",
    "pages",
    "pages_lost",
    "rejected_tuples",
    "toast_lost",
    "missing_keys",
    "not_printed",
    "unreadable_files",
    "guessed_columns",
    "problem",
    "rows_file",
    "uncertain_file",
    "deleted_file",
    "missing_file",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SalvagedTableJson {
    /// Names of database, schema and table; an OID if the name is lost
    database: String,
    schema: String,
    table: String,
    /// OID of the table
    oid: u32,
    /// Rows that belong to the table, that may belong to it, and that were deleted, replaced or rolled back
    rows: u64,
    uncertain: u64,
    deleted: u64,
    /// Uncertain rows by reason: see [salvage.md](salvage.md)
    reasons: BTreeMap<&'static str, u64>,
    /// Pages of the table, those of them that gave no row or not all, and tuples that do not fit their columns
    pages: u64,
    pages_lost: u64,
    rejected_tuples: u64,
    /// Values with lost TOAST chunks: they are NULL
    toast_lost: u64,
    /// Primary keys that lead to places where no row is left, deleted rows among them; only of `report.json`
    missing_keys: u64,
    /// Rows that the server could not print
    not_printed: u64,
    /// Files that could not be read
    unreadable_files: u64,
    /// The type of a column is a guess
    guessed_columns: bool,
    /// Why there are no rows: `columns_lost`, `type_lost`, `no_file` (in `pg_class`) or `file_missing`
    problem: Option<ProblemWord>,
    /// Files with the rows, below the output directory
    rows_file: Option<PathBuf>,
    uncertain_file: Option<PathBuf>,
    deleted_file: Option<PathBuf>,
    missing_file: Option<PathBuf>,
}

impl From<&TableReport> for SalvagedTableJson {
    fn from(table: &TableReport) -> Self {
        let [rows_file, uncertain_file, deleted_file, missing_file] = table.files.clone();
        Self {
            database: table.database.clone(),
            schema: table.schema.clone(),
            table: table.name.clone(),
            oid: table.oid,
            rows: table.rows,
            uncertain: table.uncertain,
            deleted: table.deleted,
            reasons: table.whys.iter().map(|(why, count)| (why.code(), *count)).collect(),
            pages: table.pages,
            pages_lost: table.lost_pages.len() as u64,
            rejected_tuples: table.rejected(),
            toast_lost: table.toast_lost,
            missing_keys: table.missing_keys,
            not_printed: table.not_printed,
            unreadable_files: table.unreadable,
            guessed_columns: table.is_guessed,
            problem: table.problem.as_ref().map(|problem| problem.code().into()),
            rows_file,
            uncertain_file,
            deleted_file,
            missing_file,
        }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct UnnamedFileJson {
    /// Name of the database, or its OID
    database: String,
    /// Its first segment, below the data directory, and the bytes of all segments
    path: String,
    bytes: u64,
}

impl From<&UnnamedFile> for UnnamedFileJson {
    fn from(file: &UnnamedFile) -> Self {
        Self { database: file.database.clone(), path: file.path.clone(), bytes: file.bytes }
    }
}
