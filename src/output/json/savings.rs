//! JSON of `advise`: what each remedy would have saved.
//! Also here: JSON of the bill of `advise`: every byte of WAL by what it is.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::{BillPartWord, CertaintyJson, CertaintyWord, ImageCompression, SavingRemedy};
use crate::analysis::plan::savings::{Remedy, Saving};
use crate::analysis::plan::whatif::compression::CompressionRow;
use crate::analysis::wal::bill::BillRow;
use crate::analysis::wal::curve::Overview;
use crate::output::figures::remedy_words;

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
    "setting",
    "max_wal_size_bytes",
    "checkpoint_timeout_s",
    "archive_timeout_s",
    "switches_every_s",
    "old_row_records",
    "and_fewer_checkpoints",
    "wal_bytes_per_s",
    "wal_bytes_per_day",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SavingJson {
    /// `fewer_checkpoints`, `wal_compression`, `double_write`, `no_hints`, `archive_timeout`, `replica_identity`
    remedy: SavingRemedy,
    /// Images that would not have been written, and bytes that would not have been stored; less than 0 where there would have been more
    images: u64,
    image_bytes: i64,
    /// Bytes by which all records would be shorter, and its certainty
    wal_bytes: i64,
    wal_certainty: CertaintyWord,
    /// Like those before, per second and day, if records have times
    wal_bytes_per_s: Option<f64>,
    wal_bytes_per_day: Option<f64>,
    /// Checkpoints come by the size of WAL: with less of it there are fewer, so that even more is saved
    and_fewer_checkpoints: bool,
    /// The setting and its value, in words
    setting: String,
    /// Of `fewer_checkpoints`: how many times as far apart at least, and the settings that lead to it
    times: Option<u32>,
    max_wal_size_bytes: Option<u64>,
    checkpoint_timeout_s: Option<u32>,
    /// WAL that crash recovery would read at most, what it reads as things are, and the time in which the server wrote as much as the first; absent with too few checkpoints, the time also without times in the records
    replay_bytes_max: Option<u64>,
    replay_bytes_max_now: Option<u64>,
    replay_seconds_max: Option<f64>,
    /// Of `wal_compression`: the method, and seconds of one processor of this machine for 10^9 bytes of pages without their holes
    method: Option<ImageCompression>,
    cpu_s_per_gb: Option<f64>,
    /// Other methods that this version has: `method`, `image_bytes_stored`, `cpu_s_per_gb`
    others: Option<Vec<OtherMethodJson>>,
    /// Of `double_write`: bytes of images that stay, and about how many pages would go through the buffer
    stay_bytes: Option<u64>,
    buffer_pages: Option<u64>,
    /// Of `no_hints`: bytes of all images for hint bits, and of those whose page changes later in the interval anyway
    hint_image_bytes: Option<u64>,
    hint_then_changed_bytes: Option<u64>,
    /// Of `archive_timeout`: its value, and how far segment switches are apart now, in seconds
    archive_timeout_s: Option<u32>,
    switches_every_s: Option<f64>,
    /// Of `replica_identity`: records that hold a whole old row
    old_row_records: Option<u64>,
    #[serde(flatten)]
    certainty: CertaintyJson,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "saving.others")]
struct OtherMethodJson {
    /// The method, bytes of all images as it would have stored them, and its seconds for 10^9 bytes
    method: ImageCompression,
    image_bytes_stored: u64,
    cpu_s_per_gb: Option<f64>,
}

impl From<&CompressionRow> for OtherMethodJson {
    fn from(row: &CompressionRow) -> Self {
        Self {
            method: row.setting.code().into(),
            image_bytes_stored: row.bytes_after,
            cpu_s_per_gb: row.seconds_per_gb,
        }
    }
}

impl SavingJson {
    pub(crate) fn new(saving: &Saving, overview: &Overview) -> Self {
        let per_second = overview.per_second(saving.wal_bytes as f64);
        let row = Self {
            setting: remedy_words(&saving.remedy),
            wal_bytes_per_s: per_second.map(f64::round),
            wal_bytes_per_day: per_second.map(|bytes| (bytes * 86_400.0).round()),
            and_fewer_checkpoints: saving.and_fewer_checkpoints,
            max_wal_size_bytes: None,
            checkpoint_timeout_s: None,
            archive_timeout_s: None,
            switches_every_s: None,
            old_row_records: None,
            remedy: saving.remedy.code().into(),
            images: saving.images,
            image_bytes: saving.image_bytes,
            wal_bytes: saving.wal_bytes,
            wal_certainty: saving.wal_certainty.code().into(),
            certainty: saving.certainty.into(),
            times: None,
            replay_bytes_max: None,
            replay_bytes_max_now: None,
            replay_seconds_max: None,
            method: None,
            cpu_s_per_gb: None,
            others: None,
            stay_bytes: None,
            buffer_pages: None,
            hint_image_bytes: None,
            hint_then_changed_bytes: None,
        };
        match &saving.remedy {
            Remedy::FewerCheckpoints {
                times,
                max_wal_size,
                timeout,
                replay_bytes,
                replay_bytes_now,
                replay_seconds,
            } => Self {
                times: Some(*times),
                max_wal_size_bytes: Some(*max_wal_size),
                checkpoint_timeout_s: Some(*timeout),
                replay_bytes_max: *replay_bytes,
                replay_bytes_max_now: *replay_bytes_now,
                replay_seconds_max: replay_seconds.map(|seconds| (seconds * 10.0).round() / 10.0),
                ..row
            },
            Remedy::Compression { best, others } => Self {
                method: Some(best.setting.code().into()),
                cpu_s_per_gb: best.seconds_per_gb,
                others: Some(others.iter().map(OtherMethodJson::from).collect()),
                ..row
            },
            Remedy::DoubleWrite { stay_bytes, pages } => {
                Self { stay_bytes: Some(*stay_bytes), buffer_pages: Some(*pages), ..row }
            }
            Remedy::NoHints { all, then_changed } => Self {
                hint_image_bytes: Some(all.image_bytes),
                hint_then_changed_bytes: Some(then_changed.image_bytes),
                ..row
            },
            Remedy::ArchiveTimeout { seconds, rhythm } => {
                Self { archive_timeout_s: Some(*seconds), switches_every_s: Some(rhythm.every_s), ..row }
            }
            Remedy::ReplicaIdentity { records } => Self { old_row_records: Some(*records), ..row },
        }
    }
}

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
