//! JSON of `whatif`: rows of its sections.

use serde_json::{Value, json};

use super::wal::Row;
use crate::analysis::wal::certainty::Certainty;
use crate::analysis::wal::whatif::HintCost;
use crate::analysis::wal::whatif::HintImages;
use crate::analysis::wal::whatif::protection::GuardColumn;
use crate::analysis::wal::whatif::{Outcome, Spacing, SpacingRow, WhatIf, knee};

/// Fields of a row about checkpoint spacing, in the order of CSV.
pub(crate) const SPACING_COLUMNS: &[&str] = &[
    "setting",
    "every",
    "max_wal_size_bytes",
    "checkpoint_timeout_s",
    "images",
    "image_bytes",
    "wal_bytes",
    "image_share",
    "checkpoints",
    "images_avoided",
    "images_added",
    "images_unsure",
    "replay_bytes_max",
    "replay_bytes_mean",
    "replay_seconds_max",
    "replay_unknown",
    "is_knee",
    "certainty",
    "wal_certainty",
    "replay_certainty",
];

/// Fields of a row about a guard against torn pages, in the order of CSV.
pub(crate) const GUARD_COLUMNS: &[&str] = &[
    "guard",
    "is_actual",
    "wal_bytes",
    "images",
    "image_bytes",
    "image_share",
    "buffer_pages",
    "buffer_bytes",
    "certainty",
    "wal_certainty",
    "buffer_certainty",
];

/// Fields of a row about images for hint bits, in the order of CSV.
pub(crate) const HINT_COLUMNS: &[&str] = &["part", "images", "image_bytes", "certainty"];

fn row_of<const N: usize>(fields: [(&str, Value); N]) -> Row {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn share(share: f64) -> Value {
    json!((share * 1e6).round() / 1e6)
}

fn put_outcome(row: &mut Row, outcome: &Outcome) {
    row.extend(row_of([
        ("images", json!(outcome.images)),
        ("image_bytes", json!(outcome.image_bytes)),
        ("wal_bytes", json!(outcome.wal_bytes)),
        ("image_share", share(outcome.share())),
        ("checkpoints", json!(outcome.checkpoints)),
        ("replay_bytes_max", json!(outcome.replay_bytes_max)),
        ("replay_bytes_mean", json!(outcome.replay_bytes_mean)),
        ("replay_unknown", json!(outcome.replay_unknown())),
        ("replay_seconds_max", json!(outcome.replay_seconds_max.map(|seconds| (seconds * 10.0).round() / 10.0))),
    ]));
}

/// Rows about checkpoint spacing: the WAL as it is, then each setting.
pub(crate) fn spacing_rows(what_if: &WhatIf) -> Vec<Row> {
    let mut actual = row_of([
        ("setting", json!("actual")),
        ("every", Value::Null),
        ("max_wal_size_bytes", Value::Null),
        ("checkpoint_timeout_s", Value::Null),
        ("images_avoided", json!(0)),
        ("images_added", json!(0)),
        ("images_unsure", json!(0)),
        ("is_knee", json!(false)),
        ("wal_certainty", json!(what_if.certainty.code())),
        ("replay_certainty", json!(what_if.replay_certainty.code())),
    ]);
    put_outcome(&mut actual, &what_if.actual);
    actual.insert("certainty".to_owned(), json!(what_if.certainty.code()));
    let knee = knee(&what_if.spacing).ok();
    let rows = what_if.spacing.iter().map(|row| spacing_row(row, knee));
    std::iter::once(actual).chain(rows).collect()
}

fn spacing_row(of: &SpacingRow, knee: Option<u64>) -> Row {
    let (every, bytes, seconds) = match of.spacing {
        Spacing::Every(every) => (Some(every), None, None),
        Spacing::MaxWalSize { bytes } => (None, Some(bytes), None),
        Spacing::Timeout { seconds } => (None, None, Some(seconds)),
        Spacing::Both { bytes, seconds } => (None, Some(bytes), Some(seconds)),
    };
    let is_knee = matches!(of.spacing, Spacing::MaxWalSize { bytes } if knee == Some(bytes));
    let mut row = row_of([
        ("setting", json!(of.spacing.code())),
        ("every", json!(every)),
        ("max_wal_size_bytes", json!(bytes)),
        ("checkpoint_timeout_s", json!(seconds)),
        ("images_avoided", json!(of.images_avoided)),
        ("images_added", json!(of.images_added)),
        ("images_unsure", json!(of.images_unsure)),
        ("is_knee", json!(is_knee)),
        ("wal_certainty", json!(of.wal_certainty.code())),
        ("replay_certainty", json!(of.replay_certainty.code())),
    ]);
    put_outcome(&mut row, &of.outcome);
    row.insert("certainty".to_owned(), json!(of.certainty.code()));
    row
}

/// A guard against torn pages as a row.
pub(crate) fn guard_row(column: &GuardColumn, block_size: u32) -> Row {
    let bytes = column.buffer_pages.map(|pages| pages.saturating_mul(u64::from(block_size)));
    let mut row = row_of([
        ("guard", json!(column.guard.code())),
        ("is_actual", json!(column.is_actual)),
        ("wal_bytes", json!(column.wal_bytes)),
        ("images", json!(column.images)),
        ("image_bytes", json!(column.image_bytes)),
        ("image_share", share(column.share())),
        ("buffer_pages", json!(column.buffer_pages)),
        ("buffer_bytes", json!(bytes)),
        ("wal_certainty", json!(column.wal_certainty.code())),
        ("buffer_certainty", json!(column.buffer_pages.map(|_| Certainty::Estimate.code()))),
    ]);
    row.insert("certainty".to_owned(), json!(column.certainty.code()));
    row
}

pub(crate) fn hint_rows(hints: &HintCost) -> Vec<Row> {
    let row = |part: &str, images: HintImages, certainty: Certainty| {
        let mut row = row_of([
            ("part", json!(part)),
            ("images", json!(images.images)),
            ("image_bytes", json!(images.image_bytes)),
        ]);
        row.insert("certainty".to_owned(), json!(certainty.code()));
        row
    };
    vec![
        row("all", hints.all, hints.all_certainty),
        row("hint_only", hints.only, hints.certainty),
        row("hint_then_changed", hints.then_changed, hints.certainty),
        row("undecided", hints.undecided, hints.certainty),
    ]
}
