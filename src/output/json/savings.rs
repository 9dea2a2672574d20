//! JSON of `advise`: what each remedy would have saved.

use serde_json::{Value, json};

use super::certainty::put_certainty;
use super::fill_up;
use super::wal::Row;
use crate::analysis::wal::savings::{Remedy, Saving};
use crate::analysis::wal::whatif::compression::CompressionRow;

/// Fields of a saving, in the order of CSV.
pub(crate) const SAVING_COLUMNS: &[&str] = &[
    "remedy",
    "times",
    "method",
    "images",
    "image_bytes",
    "certainty",
    "sampled",
    "of",
    "wal_bytes",
    "wal_certainty",
    "replay_bytes_max",
    "replay_bytes_max_now",
    "replay_seconds_max",
    "cpu_s_per_gb",
    "others",
    "stay_bytes",
    "buffer_pages",
    "hint_image_bytes",
    "hint_then_changed_bytes",
];

fn other(row: &CompressionRow) -> Value {
    json!({ "method": row.setting.code(), "image_bytes_stored": row.bytes_after, "cpu_s_per_gb": row.seconds_per_gb })
}

pub(crate) fn saving_row(saving: &Saving) -> Row {
    let mut row = Row::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    put("remedy", json!(saving.remedy.code()));
    put("images", json!(saving.images));
    put("image_bytes", json!(saving.image_bytes));
    put("wal_bytes", json!(saving.wal_bytes));
    put("wal_certainty", json!(saving.wal_certainty.code()));
    match &saving.remedy {
        Remedy::FewerCheckpoints { times, replay_bytes, replay_bytes_now, replay_seconds } => {
            put("times", json!(times));
            put("replay_bytes_max", json!(replay_bytes));
            put("replay_bytes_max_now", json!(replay_bytes_now));
            put("replay_seconds_max", json!(replay_seconds.map(|seconds| (seconds * 10.0).round() / 10.0)));
        }
        Remedy::Compression { best, others } => {
            put("method", json!(best.setting.code()));
            put("cpu_s_per_gb", json!(best.seconds_per_gb));
            put("others", json!(others.iter().map(other).collect::<Vec<_>>()));
        }
        Remedy::DoubleWrite { stay_bytes, pages } => {
            put("stay_bytes", json!(stay_bytes));
            put("buffer_pages", json!(pages));
        }
        Remedy::NoHints { all, then_changed } => {
            put("hint_image_bytes", json!(all.image_bytes));
            put("hint_then_changed_bytes", json!(then_changed.image_bytes));
        }
    }
    put_certainty(&mut row, saving.certainty);
    fill_up(&mut row, SAVING_COLUMNS);
    row
}
