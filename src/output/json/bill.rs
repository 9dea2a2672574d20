//! JSON of the bill of `advise`: every byte of WAL by what it is.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::BillPartWord;
use crate::analysis::wal::bill::BillRow;
use crate::analysis::wal::overview::Overview;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct BillJson {
    /// `images`; `records` without images and old rows; `old_rows` (REPLICA IDENTITY FULL); `unused` after segment switches; `page_headers`; `padding`; `cut`: parts of records that are not whole in this WAL, and bytes that could not be read
    part: BillPartWord,
    /// Its bytes; all rows add up to `wal_bytes` of the summary
    bytes: u64,
    /// Images, records, records with an old row, or switches
    count: Option<u64>,
    /// Part of all bytes, 0 to 1
    share: f64,
    /// Bytes per second and day, if records have times
    bytes_per_s: Option<f64>,
    bytes_per_day: Option<f64>,
}

impl BillJson {
    pub(crate) fn new(row: &BillRow, overview: &Overview) -> Self {
        let bytes = row.bytes as f64;
        let per_second = overview.per_second(bytes);
        Self {
            part: row.part.code().into(),
            bytes: row.bytes,
            count: row.count,
            share: (bytes / overview.wal_bytes.max(1) as f64 * 1e6).round() / 1e6,
            bytes_per_s: per_second.map(f64::round),
            bytes_per_day: per_second.map(|bytes| (bytes * 86_400.0).round()),
        }
    }
}
