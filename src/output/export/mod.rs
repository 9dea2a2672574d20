//! Tables for other programs: what a row of each holds, and the files that rows are written into.

#[cfg(feature = "parquet")]
mod parquet;
pub mod rows;
mod writer;

use crate::types::{Lsn, TimelineId};

pub use rows::{Column, ColumnType, Table};
pub use writer::{FileFormat, TableFile};

/// A file that was written.
#[derive(Clone, Debug)]
pub struct ExportedFile {
    /// What its rows are.
    pub table: Table,
    /// Its path below the directory.
    pub path: String,
    /// Timeline of its segments.
    pub timeline: TimelineId,
    /// Name of the first segment.
    pub first_segment: String,
    /// Name of the last.
    pub last_segment: String,
    /// Start of the first record that is in it; `None` without records.
    pub first_lsn: Option<Lsn>,
    /// End of the last.
    pub end_lsn: Option<Lsn>,
    /// Records that were read for it.
    pub records: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Does not apply.
    Null,
    /// A number; LSNs and all other unsigned 64-bit numbers have the same bits.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Text(&'a str),
}

impl Cell<'_> {
    /// An LSN or another 64-bit number, as a signed one with the same bits.
    pub(crate) const fn of_u64(number: u64) -> Self {
        Self::Int(number.cast_signed())
    }
}
