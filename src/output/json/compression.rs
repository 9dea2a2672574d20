//! JSON of images that were compressed again.

use serde_json::json;

use super::certainty::{CERTAINTY_FIELDS, put_certainty};
use super::wal::Row;
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::whatif::compression::CompressionRow;

/// Fields of a setting of `wal_compression`, in order.
pub(crate) const COMPRESSION_COLUMNS: &[&str] = &[
    "method",
    "level",
    "images",
    "bytes_before",
    "bytes_after",
    "standard_error_bytes",
    "ratio",
    "wal_bytes",
    "saved_wal_bytes",
    "cpu_s_per_gb",
    CERTAINTY_FIELDS[0],
    CERTAINTY_FIELDS[1],
    CERTAINTY_FIELDS[2],
];

/// A setting of `wal_compression` as a row. `written`: records and images as they are.
pub(crate) fn compression_row(setting: &CompressionRow, written: &Tally) -> Row {
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let mut row = Row::new();
    for (name, value) in [
        ("method", json!(setting.setting.code())),
        ("level", json!(setting.setting.level())),
        ("images", json!(setting.of)),
        ("bytes_before", json!(setting.bytes_before)),
        ("bytes_after", json!(setting.bytes_after)),
        ("standard_error_bytes", json!(setting.standard_error)),
        ("ratio", json!(setting.ratio().map(rounded))),
        ("wal_bytes", json!(setting.wal_bytes)),
        ("saved_wal_bytes", json!(setting.saved(written))),
        ("cpu_s_per_gb", json!(setting.seconds_per_gb.map(rounded))),
    ] {
        row.insert(name.to_owned(), value);
    }
    put_certainty(&mut row, setting.certainty);
    row
}
