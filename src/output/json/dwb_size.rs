//! JSON of `dwb-size`.

use serde_json::{Value, json};

use super::lsn_text;
use super::wal::Row;
use crate::analysis::wal::certainty::Certainty;
use crate::analysis::wal::dwb_size::{DirtiedInterval, LayoutNeed, SizeTrial};

/// Fields of a row about what a layout needs, in the order of CSV.
pub(crate) const NEED_COLUMNS: &[&str] = &["for", "blocks", "layout", "setting_mb", "slots", "certainty"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedFor {
    Mean,
    /// That of 95 of 100 intervals.
    P95,
    Peak,
}

impl NeedFor {
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::Peak => "peak",
        }
    }
}

fn row_of<const N: usize>(fields: [(&str, Value); N]) -> Row {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn need_row(need: &LayoutNeed, of: NeedFor) -> Row {
    row_of([
        ("for", json!(of.code())),
        ("blocks", json!(need.blocks)),
        ("layout", json!(need.layout)),
        ("setting_mb", json!(need.setting_mb)),
        ("slots", json!(need.slots)),
        ("certainty", json!(Certainty::Estimate.code())),
    ])
}

/// How often a size would have wrapped, as a row.
pub(crate) fn trial_row(trial: &SizeTrial) -> Row {
    row_of([
        ("layout", json!(trial.layout)),
        ("setting_mb", json!(trial.setting_mb)),
        ("slots", json!(trial.slots)),
        ("wrapped", json!(trial.wrapped)),
        ("intervals", json!(trial.of)),
        ("certainty", json!(Certainty::Estimate.code())),
    ])
}

pub(crate) fn dirtied_row(interval: &DirtiedInterval) -> Row {
    row_of([
        ("redo_lsn", json!(interval.redo_lsn.map(lsn_text))),
        ("redo_after_lsn", json!(interval.hidden.map(|hidden| lsn_text(hidden.after)))),
        ("redo_before_lsn", json!(interval.hidden.map(|hidden| lsn_text(hidden.before)))),
        ("end_lsn", json!(lsn_text(interval.end_lsn))),
        ("blocks", json!(interval.blocks)),
        ("is_whole", json!(interval.is_whole)),
    ])
}
