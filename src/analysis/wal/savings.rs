//! What each way to write fewer images would have saved of the WAL that was read, and what it costs.

use super::certainty::Certainty;
use super::whatif::compression::{CompressionRow, CompressionWhatIf, Setting};
use super::whatif::hints::HintImages;
use super::whatif::protection::{Guard, GuardColumn};
use super::whatif::{Spacing, SpacingRow, WhatIf};
use crate::parsers::wal::version::Major;

/// How many times as far apart checkpoints are proposed to be.
pub(crate) const SPREADS: [u32; 2] = [2, 4];

/// A way to write fewer images, with the figures that it rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Checkpoints so many times as far apart, by `max_wal_size` or `checkpoint_timeout`.
    FewerCheckpoints {
        /// How many times.
        times: u32,
        /// WAL that crash recovery would read at most, in bytes; `None` with too few checkpoints.
        replay_bytes: Option<u64>,
        /// WAL that it reads at most as things are; `None` where no checkpoint completed.
        replay_bytes_now: Option<u64>,
        /// The time in which the server wrote as much, in seconds.
        replay_seconds: Option<f64>,
    },
    /// `wal_compression`, with the method that stores the fewest bytes for its time among those that the server has.
    Compression {
        /// That method.
        best: CompressionRow,
        /// The others.
        others: Vec<CompressionRow>,
    },
    /// A double write buffer in place of full-page writes.
    DoubleWrite {
        /// Images that stay, whatever guards pages.
        stay_bytes: u64,
        /// Pages that would go through the buffer, about.
        pages: u64,
    },
    /// Neither checksums nor `wal_log_hints`.
    NoHints {
        /// All images for hint bits.
        all: HintImages,
        /// Those of pages that change later in the interval anyway.
        then_changed: HintImages,
    },
}

impl Remedy {
    /// The word for JSON.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::FewerCheckpoints { .. } => "fewer_checkpoints",
            Self::Compression { .. } => "wal_compression",
            Self::DoubleWrite { .. } => "double_write",
            Self::NoHints { .. } => "no_hints",
        }
    }
}

/// What a remedy would have saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The remedy.
    pub remedy: Remedy,
    /// Images that would not have been written.
    pub images: u64,
    /// Bytes of images that would not have been stored; less than nothing where there would have been more.
    pub image_bytes: i64,
    /// How sure the images and their bytes are.
    pub certainty: Certainty,
    /// Bytes by which all records would be shorter.
    pub wal_bytes: i64,
    /// How sure these are.
    pub wal_certainty: Certainty,
}

/// Why a remedy is not among the savings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFigured {
    /// No redo point lies in the WAL: other distances of checkpoints cannot be replayed.
    NoRedoPoint,
    /// Images were not compressed again, because that was not asked for.
    NotCompressed,
}

/// The savings, and what was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Savings {
    /// One for each remedy that could be figured.
    pub rows: Vec<Saving>,
    /// Those that could not be.
    pub left_out: Vec<NotFigured>,
}

impl Savings {
    /// What each remedy would have saved. `major` says which methods of compression the server has; unknown: all.
    #[must_use]
    pub fn of(what_if: &WhatIf, compression: Option<&CompressionWhatIf>, major: Option<Major>) -> Self {
        let mut savings = Self::default();
        match what_if.replayed_from {
            Some(_) => savings.rows.extend(what_if.spacing.iter().filter_map(|row| of_spacing(what_if, row))),
            None => savings.left_out.push(NotFigured::NoRedoPoint),
        }
        match compression {
            Some(compression) => savings.rows.extend(of_compression(compression, major)),
            None => savings.left_out.push(NotFigured::NotCompressed),
        }
        savings.rows.extend(of_double_write(what_if));
        savings.rows.extend(of_hints(what_if));
        savings
    }
}

/// Bytes by which `now` is more than `then`.
const fn less(now: u64, then: u64) -> i64 {
    now.cast_signed().saturating_sub(then.cast_signed())
}

fn of_spacing(what_if: &WhatIf, row: &SpacingRow) -> Option<Saving> {
    let Spacing::Every(times) = row.spacing else { return None };
    let (now, then) = (&what_if.actual, &row.outcome);
    Some(Saving {
        remedy: Remedy::FewerCheckpoints {
            times,
            replay_bytes: then.replay_bytes_max,
            replay_bytes_now: now.replay_bytes_max,
            replay_seconds: then.replay_seconds_max,
        },
        images: row.images_avoided,
        image_bytes: less(now.image_bytes, then.image_bytes),
        certainty: row.certainty,
        wal_bytes: less(now.wal_bytes, then.wal_bytes),
        wal_certainty: row.wal_certainty,
    })
}

/// `None` where there is no image, or nothing could be compressed again.
fn of_compression(what_if: &CompressionWhatIf, major: Option<Major>) -> Option<Saving> {
    let is_there = |row: &&CompressionRow| match row.setting {
        Setting::On(method) => major.is_none_or(|major| major.compresses_with(method)),
        Setting::AsWritten | Setting::Off => false,
    };
    let mut methods: Vec<CompressionRow> = what_if.rows.iter().filter(is_there).copied().collect();
    // The fewest bytes; where two are within a hundredth of the images, the quicker one.
    let worth = |row: &CompressionRow| {
        let hundredths = row.bytes_after.saturating_mul(100).checked_div(row.bytes_before.max(1)).unwrap_or_default();
        (hundredths, row.seconds_per_gb.map_or(u64::MAX, |seconds| (seconds * 1e6) as u64))
    };
    let best = (0..methods.len()).min_by_key(|index| methods.get(*index).map(worth))?;
    let best = methods.remove(best);
    let written = what_if.rows.iter().find(|row| row.setting == Setting::AsWritten)?;
    (written.of > 0).then(|| Saving {
        images: 0,
        image_bytes: less(written.bytes_after, best.bytes_after),
        certainty: best.certainty,
        wal_bytes: less(written.wal_bytes, best.wal_bytes),
        wal_certainty: best.certainty,
        remedy: Remedy::Compression { best, others: methods },
    })
}

/// `None` where images of first changes are not written as it is.
fn of_double_write(what_if: &WhatIf) -> Option<Saving> {
    let columns = &what_if.protection.columns;
    let column = |guard: Guard| columns.iter().find(|column| column.guard == guard);
    let now: &GuardColumn = column(Guard::FullPageWrites).filter(|column| column.is_actual)?;
    let then = column(Guard::DoubleWrite)?;
    Some(Saving {
        remedy: Remedy::DoubleWrite { stay_bytes: then.image_bytes, pages: then.buffer_pages.unwrap_or_default() },
        images: now.images.saturating_sub(then.images),
        image_bytes: less(now.image_bytes, then.image_bytes),
        certainty: then.certainty,
        wal_bytes: less(now.wal_bytes, then.wal_bytes),
        wal_certainty: then.wal_certainty,
    })
}

/// `None` without images for hint bits.
fn of_hints(what_if: &WhatIf) -> Option<Saving> {
    let hints = &what_if.hints;
    let bytes = hints.only.image_bytes.cast_signed();
    (hints.all.images > 0).then(|| Saving {
        remedy: Remedy::NoHints { all: hints.all, then_changed: hints.then_changed },
        images: hints.only.images,
        image_bytes: bytes,
        certainty: hints.certainty,
        // The record goes with its image: its header is not counted.
        wal_bytes: bytes,
        wal_certainty: hints.certainty.and(Certainty::AtLeast),
    })
}
