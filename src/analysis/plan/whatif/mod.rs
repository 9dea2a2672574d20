//! What other settings would have made of the same WAL: the sequence of block touches, replayed.
//!
//! | part | question |
//! |---|---|
//! | `spacing` | what if checkpoints had been closer or farther apart? |
//! | `protection` | what if torn pages had been guarded against in another way, or not at all? |
//! | [`compression`] | what if images had been compressed in another way? |
//! | `protection` | what do images for hint bits cost that nothing else would have needed? |
//!
//! `touches` makes lists of touches, a segment each and many at a time; `replay` takes them in order.

use strum::IntoStaticStr;

pub mod compression;
mod dirtied;
pub(crate) mod protection;
mod replay;
pub(crate) mod spacing;
mod touches;

use self::protection::Protection;
use crate::analysis::plan::whatif::replay::Replay;
use crate::analysis::plan::whatif::touches::{Full, GiveUp, TouchList, Touches};
use crate::analysis::wal::likely_cause::HintCost;
use crate::analysis::wal::segment::{Stretch, Visitor, WatchRead, read_segment};
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::cluster::wal::WalReadError;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::version::Major;
use crate::report::Finding;
use crate::types::{Geometry, Lsn};

/// What is replayed.
#[derive(Clone, Debug)]
pub struct WhatIfPlan {
    /// Distances of checkpoints, at most `spacing::MAX_SETTINGS`.
    pub spacings: Vec<Spacing>,
    /// `checkpoint_completion_target`, which WAL does not tell; `None`: the default of the major.
    pub completion_target: Option<f64>,
}

/// How far checkpoints are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Each so many-th of the real ones is kept; those at shutdown and at the end of recovery are always.
    Every(u32),
    /// As the setting `max_wal_size` asks for them.
    MaxWalSize {
        /// Its value.
        bytes: u64,
    },
    /// As the setting `checkpoint_timeout` asks for them.
    Timeout {
        /// Its value.
        seconds: u32,
    },
    /// As both ask for them, whichever comes first.
    Both {
        /// `max_wal_size`.
        bytes: u64,
        /// `checkpoint_timeout`.
        seconds: u32,
    },
}

impl Spacing {
    /// True when checkpoints are due by the time that passed.
    pub(crate) const fn is_by_time(self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Both { .. })
    }

    /// Stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Every(_) => "every_nth_checkpoint",
            Self::MaxWalSize { .. } => "max_wal_size",
            Self::Timeout { .. } => "checkpoint_timeout",
            Self::Both { .. } => "max_wal_size_and_checkpoint_timeout",
        }
    }
}

/// Images and WAL under some setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Images, whether redo applies them or not.
    pub images: u64,
    /// Their bytes as stored.
    pub image_bytes: u64,
    /// Bytes of all records with their images (`pg_waldump --stats`: combined size).
    pub wal_bytes: u64,
    /// Redo points that lie in the part that was replayed, the one where it begins included.
    pub checkpoints: u64,
    /// WAL that crash recovery reads at most, in bytes; `None` where too few checkpoints lie in the WAL to say so.
    pub replay_bytes_max: Option<u64>,
    /// WAL that it reads on average, over crashes at any place; `None` for the same reason.
    pub replay_bytes_mean: Option<u64>,
    /// The time in which the server wrote as much as recovery reads at most; `None` where records tell no time, too.
    pub replay_seconds_max: Option<f64>,
}

/// Checkpoints that a setting must request before the amount that recovery reads is known: with fewer, the distance is set
/// by the end of the WAL, not by the setting.
pub(crate) const MIN_ASKED: u64 = 2;

impl Outcome {
    /// Why the amount that recovery reads is unknown, as a stable name for programs; `None` where it is known.
    pub(crate) fn replay_unknown(&self) -> Option<&'static str> {
        match self.replay_bytes_max {
            Some(_) => None,
            None => Some(NoKnee::FewCheckpoints.code()),
        }
    }

    /// Part of the WAL that is images, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.wal_bytes == 0 { 0.0 } else { self.image_bytes as f64 / self.wal_bytes as f64 }
    }
}

/// What one distance of checkpoints would have made of the WAL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpacingRow {
    /// The setting.
    pub spacing: Spacing,
    /// What it would have led to.
    pub outcome: Outcome,
    /// Images that would not have been written.
    pub images_avoided: u64,
    /// Additional images that would have been written.
    pub images_added: u64,
    /// References of which it is unknown whether they set the page's LSN, where that decides about an image.
    pub images_unsure: u64,
    /// How sure the images and their bytes are.
    pub certainty: Certainty,
    /// How sure the bytes of WAL are.
    pub wal_certainty: Certainty,
    /// How sure the bytes are that recovery reads.
    pub replay_certainty: Certainty,
}

/// What was replayed, and what came of it.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// What the WAL holds.
    pub actual: Outcome,
    /// How sure its images and its bytes of WAL are.
    pub certainty: Certainty,
    /// How sure the bytes are that recovery reads.
    pub replay_certainty: Certainty,
    /// The first redo point that is known: from there on other settings are replayed. `None`: no redo point is known.
    pub replayed_from: Option<Lsn>,
    /// Bytes of WAL that lie before it, or after a gap and before the next.
    pub not_replayed_bytes: u64,
    /// Distances of checkpoints, in the order in which they were asked for.
    pub spacing: Vec<SpacingRow>,
    /// Guards against torn pages.
    pub protection: Protection,
    /// Images for hint bits.
    pub hints: HintCost,
    /// `checkpoint_completion_target` that was assumed.
    pub completion_target: f64,
    /// Seconds between the first and the last record that tell the time.
    pub seconds: Option<f64>,
    /// Distinct blocks that records refer to.
    pub distinct_blocks: u64,
}

impl WhatIf {
    /// Not all WAL of the range could be read: what was counted is part of it.
    pub(crate) fn mark_part(&mut self) {
        let columns = self.protection.columns.iter_mut();
        let guards = columns.flat_map(|column| [&mut column.certainty, &mut column.wal_certainty]);
        let rows = self.spacing.iter_mut();
        let settings = rows.flat_map(|row| [&mut row.certainty, &mut row.wal_certainty, &mut row.replay_certainty]);
        let own =
            [&mut self.certainty, &mut self.replay_certainty, &mut self.hints.all_certainty, &mut self.hints.certainty];
        for certainty in guards.chain(settings).chain(own) {
            *certainty = certainty.of_part();
        }
    }
}

/// Points of a curve below which it has no knee.
const MIN_POINTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum NoKnee {
    /// Fewer than three values of `max_wal_size` were replayed.
    FewValues,
    /// Fewer than three of them differ in checkpoints that they ask for in this WAL.
    FewCheckpoints,
    NoBend,
}

impl NoKnee {
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Where a larger `max_wal_size` begins to save little: the value whose image bytes lie farthest below the straight line
/// from the first value to the last, sizes drawn by their logarithm and both axes scaled to 0..1. Values that ask for too
/// few checkpoints tell the same over and over: only the first of them counts.
pub(crate) fn knee(rows: &[SpacingRow]) -> Result<u64, NoKnee> {
    let mut points: Vec<(f64, f64, u64)> = Vec::new();
    let mut values = 0_usize;
    let mut is_over = false;
    for row in rows {
        let Spacing::MaxWalSize { bytes } = row.spacing else { continue };
        values = values.saturating_add(1);
        if !is_over {
            points.push(((bytes as f64).log2(), row.outcome.image_bytes as f64, bytes));
        }
        is_over |= row.outcome.replay_bytes_max.is_none();
    }
    if values < MIN_POINTS {
        return Err(NoKnee::FewValues);
    }
    let ends = points.first().zip(points.last()).filter(|_| points.len() >= MIN_POINTS);
    let (first, last) = ends.ok_or(NoKnee::FewCheckpoints)?;
    let (width, height) = (last.0 - first.0, first.1 - last.1);
    if width <= 0.0 || height <= 0.0 {
        return Err(NoKnee::NoBend);
    }
    let below = |point: &(f64, f64, u64)| 1.0 - (point.0 - first.0) / width - (point.1 - last.1) / height;
    let best = points.iter().max_by(|one, other| below(one).total_cmp(&below(other)));
    best.filter(|best| below(best) > 0.0).map(|best| best.2).ok_or(NoKnee::NoBend)
}

/// Replays WAL under other settings, run by run.
#[derive(Debug)]
pub(crate) struct WhatIfReplay {
    replay: Replay,
}

/// Hands lists to the replay as they fill up.
struct Directly<'a>(&'a mut Replay);

impl Full for Directly<'_> {
    fn full(&mut self, list: &Touches) -> bool {
        self.0.take(list);
        true
    }
}

/// The touches of one segment, as they come.
#[derive(Debug)]
pub(crate) struct SegmentTouches(TouchList<GiveUp>);

impl SegmentTouches {
    /// None yet of segment `index`.
    pub fn new(stretch: &Stretch<'_>, index: usize) -> Self {
        Self(TouchList::of_segment(stretch, index, GiveUp))
    }
}

impl Visitor for SegmentTouches {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.0.record(record);
    }
}

impl WhatIfReplay {
    pub fn new(plan: &WhatIfPlan, geometry: Geometry, major: Option<Major>) -> Self {
        Self { replay: Replay::new(plan, geometry, major.unwrap_or(Major::NEWEST)) }
    }

    /// Takes the touches of the next segment of a run, whose reading began at segment `from`. One with too many is read
    /// again.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn take(
        &mut self,
        stretch: &Stretch<'_>,
        index: usize,
        from: usize,
        touches: &SegmentTouches,
        watch: WatchRead<'_>,
    ) -> Result<(), WalReadError> {
        if !touches.0.is_incomplete {
            self.replay.take(&touches.0.list);
            return Ok(());
        }
        let directly = TouchList::of_segment(stretch, index, Directly(&mut self.replay));
        let quiet = |_| watch(0);
        let read = read_segment(stretch, index, from, directly, &quiet, &mut Vec::new())?;
        let (rest, directly) = read.found.into_parts();
        directly.0.take(&rest);
        Ok(())
    }

    /// Ends a run, whose WAL ends at `end_lsn`: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, end_lsn: Lsn) {
        self.replay.end_run(end_lsn);
    }

    /// What is odd about the times that records told so far.
    pub(crate) fn odd_times(&self) -> Vec<Finding> {
        self.replay.odd_times()
    }

    /// What came of it, all that was counted, and records whose payload is not that of their type.
    pub fn finish(self) -> (WhatIf, Tally, Vec<ParseError>) {
        self.replay.finish()
    }
}
