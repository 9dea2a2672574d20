//! Sums over a part of some WAL, in a form in which those of all parts can be added up.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wal::{GROUP_KEYS, Row};
use super::{FindingJson, SkippedJson, fill_up};
use crate::analysis::wal::seam::PartRun;
use crate::analysis::wal::tally::Tally;
use crate::output::relation_columns::relation_fields;
use crate::output::wal_columns::{count_fields, put_tally};
use crate::types::Lsn;

/// Number of the schema of partial results.
pub const PARTIAL_SCHEMA: u32 = 1;

/// A partial result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartialJson {
    /// See [`PARTIAL_SCHEMA`].
    pub pgforensics_partial: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// What rows are grouped by.
    pub by: String,
    /// Columns of a row that is printed.
    pub columns: Vec<String>,
    /// Facts of the WAL that all parts share.
    pub wal: WalJson,
    /// Runs of segments.
    pub runs: Vec<RunJson>,
    /// Groups.
    pub groups: Vec<Row>,
    /// Sums.
    pub totals: Row,
    /// What looks wrong or is worth knowing.
    pub findings: Vec<FindingJson>,
    /// What was not examined.
    pub skipped: Vec<SkippedJson>,
    /// Records that were examined.
    pub examined: u64,
}

/// Of which WAL a partial result is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalJson {
    /// The cluster.
    pub system_identifier: Option<u64>,
    /// Its major.
    pub major: Option<u32>,
    /// Bytes of a segment.
    pub wal_segment_size: u32,
}

/// A [`PartRun`]; LSNs are numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunJson {
    start_lsn: u64,
    limit_lsn: u64,
    first_lsn: Option<u64>,
    first_prev: Option<u64>,
    last_lsn: Option<u64>,
    next_lsn: Option<u64>,
    is_whole: bool,
    unfinished: Option<u64>,
}

impl From<&PartRun> for RunJson {
    fn from(run: &PartRun) -> Self {
        let number = |lsn: Option<Lsn>| lsn.map(|lsn| lsn.0);
        Self {
            start_lsn: run.start_lsn.0,
            limit_lsn: run.limit_lsn.0,
            first_lsn: number(run.first_lsn),
            first_prev: number(run.first_prev),
            last_lsn: number(run.last_lsn),
            next_lsn: number(run.next_lsn),
            is_whole: run.is_whole,
            unfinished: number(run.unfinished),
        }
    }
}

impl From<&RunJson> for PartRun {
    fn from(run: &RunJson) -> Self {
        Self {
            start_lsn: Lsn(run.start_lsn),
            limit_lsn: Lsn(run.limit_lsn),
            first_lsn: run.first_lsn.map(Lsn),
            first_prev: run.first_prev.map(Lsn),
            last_lsn: run.last_lsn.map(Lsn),
            next_lsn: run.next_lsn.map(Lsn),
            is_whole: run.is_whole,
            unfinished: run.unfinished.map(Lsn),
        }
    }
}

/// The sums of a row; `None` when it lacks one.
#[must_use]
pub fn tally_of(row: &Row) -> Option<Tally> {
    let number = |name: &str| row.get(name).and_then(Value::as_u64);
    Some(Tally {
        records: number("records")?,
        record_bytes: number("record_bytes")?,
        fpi_count: number("fpi_count")?,
        fpi_bytes: number("fpi_bytes")?,
        fpi_raw_bytes: number("fpi_raw_bytes")?,
    })
}

/// The fields of a row that name its group.
#[must_use]
pub fn keys_of(row: &Row) -> Row {
    GROUP_KEYS.iter().map(|name| ((*name).to_owned(), row.get(*name).cloned().unwrap_or(json!(null)))).collect()
}

/// The columns of these names.
#[must_use]
pub fn known_columns(names: &[&str]) -> Vec<&'static str> {
    let known = || GROUP_KEYS.iter().copied().chain(count_fields()).chain(relation_fields());
    names.iter().filter_map(|name| known().find(|known| known == name)).collect()
}

/// A group as a row.
#[must_use]
pub fn merged_row(mut keys: Row, tally: &Tally) -> Row {
    put_tally(&mut keys, tally);
    fill_up(&mut keys, &relation_fields().collect::<Vec<_>>());
    keys
}
