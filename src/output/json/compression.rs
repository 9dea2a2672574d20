//! JSON of images that were compressed again.

use schemars::JsonSchema;
use serde::Serialize;

use super::certainty::CertaintyJson;
use super::scalars::CompressionMethod;
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
    "certainty",
    "sampled",
    "of",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CompressionJson {
    /// `as_written` (whatever the setting was), `off`, `pglz`, `lz4`, `zstd`; level of the method, where it has levels
    method: CompressionMethod,
    level: Option<i32>,
    /// Images in all
    images: u64,
    /// Bytes of the pages without their holes; as they would be stored; the first divided by the second
    bytes_before: u64,
    bytes_after: u64,
    ratio: Option<f64>,
    /// Standard error of `bytes_after`, of a sample
    standard_error_bytes: Option<u64>,
    /// Bytes of all records with their images; by how much that is less than as written, negative when it is more
    wal_bytes: u64,
    saved_wal_bytes: i64,
    /// Seconds of one processor of this machine for 10^9 bytes before compression, with the compressors of this program
    cpu_s_per_gb: Option<f64>,
    #[serde(flatten)]
    certainty: CertaintyJson,
}

impl CompressionJson {
    /// A setting of `wal_compression`. `written`: records and images as they are.
    pub(crate) fn new(setting: &CompressionRow, written: &Tally) -> Self {
        let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
        Self {
            method: setting.setting.code().into(),
            level: setting.setting.level(),
            images: setting.of,
            bytes_before: setting.bytes_before,
            bytes_after: setting.bytes_after,
            ratio: setting.ratio().map(rounded),
            standard_error_bytes: setting.standard_error,
            wal_bytes: setting.wal_bytes,
            saved_wal_bytes: setting.saved(written),
            cpu_s_per_gb: setting.seconds_per_gb.map(rounded),
            certainty: setting.certainty.into(),
        }
    }
}
