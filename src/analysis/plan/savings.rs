//! What each way to write fewer images would have saved of the WAL that was read, and what it costs.

use strum::IntoStaticStr;

use super::whatif::compression::{CompressionRow, CompressionWhatIf, Setting};
use super::whatif::protection::{Guard, GuardColumn};
use super::whatif::{Spacing, WhatIf};
use crate::analysis::wal::bill::{SwitchRhythm, WalRest};
use crate::analysis::wal::interval::{Interval, IntervalKind};
use crate::analysis::wal::likely_cause::HintImages;
use crate::analysis::wal::tally::Certainty;
use crate::parsers::wal::version::Major;

/// How many times as far apart checkpoints are proposed to be.
const SPREADS: [u32; 2] = [2, 4];

/// Values of `max_wal_size` in GB and of `checkpoint_timeout` in minutes that are tried together, from the defaults on.
const TRIED: [(u64, u32); 10] =
    [(1, 5), (1, 15), (1, 60), (2, 15), (4, 15), (4, 60), (8, 30), (16, 30), (32, 60), (64, 60)];

/// Settings under which the WAL is replayed, so that one of them can be proposed, the smallest first.
pub(crate) fn tried_spacings() -> Vec<Spacing> {
    TRIED.map(|(gb, minutes)| Spacing::Both { bytes: gb << 30, seconds: minutes.saturating_mul(60) }).to_vec()
}

/// A way to write fewer images, with the figures that it rests on.
#[derive(Clone, Debug, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Remedy {
    /// Checkpoints at least so many times as far apart, by `max_wal_size` and `checkpoint_timeout`.
    FewerCheckpoints {
        /// How many times.
        times: u32,
        /// `max_wal_size`, the smallest that was tried which leads to this.
        max_wal_size: u64,
        /// `checkpoint_timeout` in seconds, the same.
        timeout: u32,
        /// WAL that crash recovery would read at most, in bytes; `None` with too few checkpoints.
        replay_bytes: Option<u64>,
        /// WAL that it reads at most as things are; `None` where no checkpoint completed.
        replay_bytes_now: Option<u64>,
        /// The time in which the server wrote as much, in seconds.
        replay_seconds: Option<f64>,
    },
    /// `wal_compression`, with the method that stores the fewest bytes for its time among those that the server has.
    #[strum(serialize = "wal_compression")]
    Compression {
        /// That method.
        best: CompressionRow,
        /// The others.
        others: Vec<CompressionRow>,
    },
    /// A double write buffer instead of full-page writes.
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
    /// A longer `archive_timeout`, so that fewer segments end early.
    ArchiveTimeout {
        /// Its value in seconds.
        seconds: u32,
        /// How far segment switches are apart now.
        rhythm: SwitchRhythm,
    },
    /// `REPLICA IDENTITY` other than `FULL`.
    ReplicaIdentity {
        /// Records that hold an old row.
        records: u64,
    },
}

impl Remedy {
    /// The word for JSON.
    pub fn code(&self) -> &'static str {
        self.into()
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
    /// Checkpoints come by the size of WAL: with less of it there are fewer, and fewer images.
    pub and_fewer_checkpoints: bool,
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
    pub fn of(what_if: &WhatIf, compression: Option<&CompressionWhatIf>, major: Option<Major>) -> Self {
        let mut savings = Self::default();
        match what_if.replayed_from {
            Some(_) => savings.rows.extend(of_spacing(what_if)),
            None => savings.left_out.push(NotFigured::NoRedoPoint),
        }
        match compression {
            Some(compression) => savings.rows.extend(of_compression(compression, major)),
            None => savings.left_out.push(NotFigured::NotCompressed),
        }
        // The patch is for 19, and a fork of 18 has it.
        if major.is_none_or(|major| major.number() >= FIRST_WITH_BUFFER) {
            savings.rows.extend(of_double_write(what_if));
        }
        savings.rows.extend(of_hints(what_if));
        savings
    }

    /// Adds what would have been saved of bytes that no image has. `old_rows`: records with an old row, and bytes of these.
    pub(crate) fn and_of_rest(mut self, rest: &WalRest, old_rows: (u64, u64), segment_size: u32) -> Self {
        self.rows.extend(of_switches(rest, segment_size));
        let (records, bytes) = old_rows;
        if bytes > 0 {
            self.rows.push(of_wal(Remedy::ReplicaIdentity { records }, bytes, true));
        }
        self
    }

    /// Says of remedies after which there is less WAL whether checkpoints become fewer as well, as far as `intervals` show it.
    pub(crate) fn with_checkpoints_of(mut self, intervals: &[Interval]) -> Self {
        let by_time = come_by_time(intervals);
        for saving in &mut self.rows {
            saving.and_fewer_checkpoints &= !by_time;
        }
        self.rows.sort_by_key(|saving| std::cmp::Reverse(saving.wal_bytes));
        self
    }
}

/// The first major that has a double write buffer, in a patch or a fork.
const FIRST_WITH_BUFFER: u32 = 18;

/// True when checkpoints are as far apart in time as the others, and not in WAL: `checkpoint_timeout` brings them about.
fn come_by_time(intervals: &[Interval]) -> bool {
    const MIN_INTERVALS: usize = 3;
    const MIN_SECONDS: f64 = 30.0;
    let whole = || intervals.iter().filter(|one| one.is_whole() && one.kind == IntervalKind::Online);
    let seconds: Vec<f64> = whole().filter_map(Interval::duration_s).collect();
    let bytes: Vec<f64> = whole().map(|one| one.wal_bytes() as f64).collect();
    let is_rhythm = seconds.len() >= MIN_INTERVALS && seconds.iter().all(|one| *one >= MIN_SECONDS);
    is_rhythm && variation(&seconds) < 0.1 && variation(&seconds) < variation(&bytes)
}

/// Standard deviation as a part of the mean.
fn variation(values: &[f64]) -> f64 {
    let number = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if mean > 0.0 { (squares / number).sqrt() / mean } else { 0.0 }
}

/// What saves bytes of WAL and no image.
fn of_wal(remedy: Remedy, bytes: u64, and_fewer_checkpoints: bool) -> Saving {
    Saving {
        remedy,
        images: 0,
        image_bytes: 0,
        certainty: Certainty::Exact,
        wal_bytes: bytes.cast_signed(),
        wal_certainty: Certainty::Estimate,
        and_fewer_checkpoints,
    }
}

/// A longer `archive_timeout`; `None` where segments do not end early in a rhythm, or hardly.
fn of_switches(rest: &WalRest, segment_size: u32) -> Option<Saving> {
    const PROPOSED: [u32; 3] = [300, 900, 3600];
    /// So many times as long as now, at least.
    const LONGER: f64 = 4.0;
    let rhythm = rest.rhythm().filter(|rhythm| rhythm.is_regular)?;
    let seconds = PROPOSED.into_iter().find(|seconds| f64::from(*seconds) >= rhythm.every_s * LONGER)?;
    let (unused, switches) = (rest.unused_bytes() as f64, rest.switches.len() as f64);
    let segment = f64::from(segment_size);
    // What is used of a segment grows until the timeout; one that is full before ends by itself.
    let used = (segment - unused / switches) * f64::from(seconds) / rhythm.every_s;
    let then = if used >= segment { 0.0 } else { switches * rhythm.every_s / f64::from(seconds) * (segment - used) };
    let saved = (unused - then).max(0.0) as u64;
    (saved > 0).then(|| of_wal(Remedy::ArchiveTimeout { seconds, rhythm }, saved, false))
}

/// Bytes by which `now` is more than `then`.
const fn less(now: u64, then: u64) -> i64 {
    now.cast_signed().saturating_sub(then.cast_signed())
}

/// The smallest settings that were tried under which checkpoints are so many times as far apart, and images fewer.
fn of_spacing(what_if: &WhatIf) -> Vec<Saving> {
    let now = &what_if.actual;
    let mut found: Vec<Saving> = Vec::new();
    for times in SPREADS {
        let most = now.checkpoints.div_ceil(u64::from(times));
        let row = what_if.spacing.iter().find(|row| row.outcome.checkpoints <= most && row.images_avoided > 0);
        let Some(row) = row else { continue };
        let Spacing::Both { bytes, seconds } = row.spacing else { continue };
        let then = &row.outcome;
        let remedy = Remedy::FewerCheckpoints {
            times,
            max_wal_size: bytes,
            timeout: seconds,
            replay_bytes: then.replay_bytes_max,
            replay_bytes_now: now.replay_bytes_max,
            replay_seconds: then.replay_seconds_max,
        };
        let is_same = found.iter().any(|known| match known.remedy {
            Remedy::FewerCheckpoints { max_wal_size, timeout, .. } => (max_wal_size, timeout) == (bytes, seconds),
            _ => false,
        });
        let (image_bytes, wal_bytes) = (less(now.image_bytes, then.image_bytes), less(now.wal_bytes, then.wal_bytes));
        if !is_same && image_bytes > 0 {
            found.push(Saving {
                remedy,
                images: row.images_avoided,
                image_bytes,
                certainty: row.certainty,
                wal_bytes,
                wal_certainty: row.wal_certainty,
                and_fewer_checkpoints: false,
            });
        }
    }
    found
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
        and_fewer_checkpoints: true,
        remedy: Remedy::Compression { best, others: methods },
    })
}

/// `None` where images of first changes are not written as it is.
fn of_double_write(what_if: &WhatIf) -> Option<Saving> {
    let columns = &what_if.protection.columns;
    let column = |guard: Guard| columns.iter().find(|column| column.guard == guard);
    let now: &GuardColumn = column(Guard::FullPageWrites).filter(|column| column.is_actual)?;
    let then = column(Guard::DoubleWrite)?;
    (then.image_bytes < now.image_bytes).then(|| Saving {
        remedy: Remedy::DoubleWrite { stay_bytes: then.image_bytes, pages: then.buffer_pages.unwrap_or_default() },
        images: now.images.saturating_sub(then.images),
        image_bytes: less(now.image_bytes, then.image_bytes),
        certainty: then.certainty,
        wal_bytes: less(now.wal_bytes, then.wal_bytes),
        wal_certainty: then.wal_certainty,
        and_fewer_checkpoints: true,
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
        and_fewer_checkpoints: true,
    })
}
