//! JSON of `whatif`: rows of its sections.
//! Also here: JSON of images that were compressed again.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::{CertaintyJson, CertaintyWord, CompressionMethod, GuardCode, HintPart, SpacingSetting};
use crate::analysis::plan::whatif::compression::CompressionRow;
use crate::analysis::plan::whatif::protection::GuardColumn;
use crate::analysis::plan::whatif::{Outcome, Spacing, SpacingRow, WhatIf, knee};
use crate::analysis::wal::likely_cause::{HintCost, HintImages};
use crate::analysis::wal::tally::{Certainty, Tally};

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

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SpacingJson {
    /// `actual`, `every_nth_checkpoint`, `max_wal_size`, `checkpoint_timeout`, `max_wal_size_and_checkpoint_timeout`
    setting: SpacingSetting,
    /// Its value
    every: Option<u32>,
    max_wal_size_bytes: Option<u64>,
    checkpoint_timeout_s: Option<u32>,
    /// Images; their bytes as stored; bytes of all records with their images; share of images in it, 0 to 1
    images: u64,
    image_bytes: u64,
    wal_bytes: u64,
    image_share: f64,
    /// Redo points in it, the one where replay begins included
    checkpoints: u64,
    /// Images that would not have been written, and additional ones
    images_avoided: u64,
    images_added: u64,
    /// Images and changes of which it is unknown whether they would have been written, or would have had an image
    images_unsure: u64,
    /// WAL that crash recovery reads at most, and on average over crashes at any place; absent with too few checkpoints in the WAL
    replay_bytes_max: Option<u64>,
    replay_bytes_mean: Option<u64>,
    /// The time in which the server wrote as much WAL as recovery reads at most; absent also without times in the records
    replay_seconds_max: Option<f64>,
    /// Reason why the WAL that recovery reads is unknown: `few_checkpoints` (the setting asks for fewer than two in this WAL;
    /// `actual`: none completed); else absent
    replay_unknown: Option<&'static str>,
    /// The `max_wal_size` whose image bytes are farthest below the straight line from the first value to the last, with sizes on a logarithmic scale
    is_knee: bool,
    /// Certainty of the images: `exact`, `at_least` (so many avoided or added at least), `estimate`. Of `actual`, too: never `exact` where part of the WAL could not be read. The images before the first redo point are left as they are: where there are ordinary ones among them, no setting is `exact`
    certainty: CertaintyWord,
    /// Certainty of the bytes of WAL and of the WAL that recovery reads
    wal_certainty: CertaintyWord,
    replay_certainty: CertaintyWord,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GuardJson {
    /// `full_page_writes`, `double_write`, `off`
    guard: GuardCode,
    /// The WAL was written under it, or under one that leads to the same WAL
    is_actual: bool,
    /// As in `spacing`
    wal_bytes: u64,
    images: u64,
    image_bytes: u64,
    image_share: f64,
    /// Pages that go through a double write buffer, each counted once in an interval; its certainty: `estimate`
    buffer_pages: Option<u64>,
    buffer_bytes: Option<u64>,
    buffer_certainty: Option<CertaintyWord>,
    /// As in `spacing`
    certainty: CertaintyWord,
    wal_certainty: CertaintyWord,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HintJson {
    /// `all`; `hint_only`: nothing else changed the page up to the next redo point; `hint_then_changed`: it was changed anyway; `undecided`: the interval is not over
    part: HintPart,
    /// How many, and their bytes as stored
    images: u64,
    image_bytes: u64,
    /// As in `spacing`; the parts are estimates if such images precede the first known redo point
    certainty: CertaintyWord,
}

fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

impl SpacingJson {
    /// A setting with which nothing changes.
    fn of(
        setting: &'static str,
        outcome: &Outcome,
        [certainty, wal_certainty, replay_certainty]: [Certainty; 3],
    ) -> Self {
        Self {
            setting: setting.into(),
            every: None,
            max_wal_size_bytes: None,
            checkpoint_timeout_s: None,
            images: outcome.images,
            image_bytes: outcome.image_bytes,
            wal_bytes: outcome.wal_bytes,
            image_share: rounded(outcome.share()),
            checkpoints: outcome.checkpoints,
            images_avoided: 0,
            images_added: 0,
            images_unsure: 0,
            replay_bytes_max: outcome.replay_bytes_max,
            replay_bytes_mean: outcome.replay_bytes_mean,
            replay_seconds_max: outcome.replay_seconds_max.map(|seconds| (seconds * 10.0).round() / 10.0),
            replay_unknown: outcome.replay_unknown(),
            is_knee: false,
            certainty: certainty.code().into(),
            wal_certainty: wal_certainty.code().into(),
            replay_certainty: replay_certainty.code().into(),
        }
    }

    fn new(of: &SpacingRow, knee: Option<u64>) -> Self {
        let (every, max_wal_size_bytes, checkpoint_timeout_s) = match of.spacing {
            Spacing::Every(every) => (Some(every), None, None),
            Spacing::MaxWalSize { bytes } => (None, Some(bytes), None),
            Spacing::Timeout { seconds } => (None, None, Some(seconds)),
            Spacing::Both { bytes, seconds } => (None, Some(bytes), Some(seconds)),
        };
        Self {
            every,
            max_wal_size_bytes,
            checkpoint_timeout_s,
            images_avoided: of.images_avoided,
            images_added: of.images_added,
            images_unsure: of.images_unsure,
            is_knee: matches!(of.spacing, Spacing::MaxWalSize { bytes } if knee == Some(bytes)),
            ..Self::of(of.spacing.code(), &of.outcome, [of.certainty, of.wal_certainty, of.replay_certainty])
        }
    }

    /// Rows about checkpoint spacing: the WAL as it is, then each setting.
    pub(crate) fn all(what_if: &WhatIf) -> Vec<Self> {
        let sure = [what_if.certainty, what_if.certainty, what_if.replay_certainty];
        let actual = Self::of("actual", &what_if.actual, sure);
        let knee = knee(&what_if.spacing).ok();
        std::iter::once(actual).chain(what_if.spacing.iter().map(|row| Self::new(row, knee))).collect()
    }
}

impl GuardJson {
    /// A guard against torn pages.
    pub(crate) fn new(column: &GuardColumn, block_size: u32) -> Self {
        Self {
            guard: column.guard.code().into(),
            is_actual: column.is_actual,
            wal_bytes: column.wal_bytes,
            images: column.images,
            image_bytes: column.image_bytes,
            image_share: rounded(column.share()),
            buffer_pages: column.buffer_pages,
            buffer_bytes: column.buffer_pages.map(|pages| pages.saturating_mul(u64::from(block_size))),
            certainty: column.certainty.code().into(),
            wal_certainty: column.wal_certainty.code().into(),
            buffer_certainty: column.buffer_pages.map(|_| Certainty::Estimate.code().into()),
        }
    }
}

impl HintJson {
    pub(crate) fn all(hints: &HintCost) -> Vec<Self> {
        let row = |part: &'static str, of: HintImages, certainty: Certainty| Self {
            part: part.into(),
            images: of.images,
            image_bytes: of.image_bytes,
            certainty: certainty.code().into(),
        };
        vec![
            row("all", hints.all, hints.all_certainty),
            row("hint_only", hints.only, hints.certainty),
            row("hint_then_changed", hints.then_changed, hints.certainty),
            row("undecided", hints.undecided, hints.certainty),
        ]
    }
}

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
