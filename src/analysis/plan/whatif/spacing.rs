//! Checkpoints at other distances: which images would have been avoided, and which added.
//!
//! For each setting the redo point is kept that the server would have had. An ordinary image is written exactly where the
//! page was last changed before the redo point, so the last change of each block decides for all settings at once.

use super::{MIN_ASKED, Outcome, Spacing, SpacingRow};
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::types::Lsn;

/// Settings that are replayed at once.
pub(crate) const MAX_SETTINGS: usize = 32;

/// When the server asks for a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Triggers {
    segments: Option<u64>,
    /// Microseconds between them.
    time: Option<i64>,
    every: Option<u32>,
}

/// Facts of the server that the distance of checkpoints follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) segment_size: u32,
    pub(crate) completion_target: f64,
    /// Segments are kept since the checkpoint before the last one: so it was in major 10.
    pub(crate) keeps_two_checkpoints: bool,
}

impl Server {
    /// Segments after which a checkpoint is requested (`CalculateCheckpointSegments`,
    /// `src/backend/access/transam/xlog.c`).
    pub(crate) fn checkpoint_segments(&self, max_wal_size: u64) -> u64 {
        let segments = max_wal_size.checked_div(u64::from(self.segment_size)).unwrap_or_default();
        let kept = if self.keeps_two_checkpoints { 2.0 } else { 1.0 };
        ((segments as f64 / (kept + self.completion_target)) as u64).max(1)
    }
}

impl Triggers {
    pub(crate) fn of(spacing: Spacing, server: &Server) -> Self {
        let by_size = |bytes| Some(server.checkpoint_segments(bytes));
        let by_time = |seconds: u32| Some(i64::from(seconds).saturating_mul(1_000_000));
        let none = Self { segments: None, time: None, every: None };
        match spacing {
            Spacing::Every(every) => Self { every: Some(every), ..none },
            Spacing::MaxWalSize { bytes } => Self { segments: by_size(bytes), ..none },
            Spacing::Timeout { seconds } => Self { time: by_time(seconds), ..none },
            Spacing::Both { bytes, seconds } => Self { segments: by_size(bytes), time: by_time(seconds), ..none },
        }
    }
}

/// Distances between redo points, in bytes of simulated WAL.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distances {
    sum: f64,
    squares: f64,
    max: u64,
    open: u64,
}

impl Distances {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.sum += bytes as f64;
        self.squares += bytes as f64 * bytes as f64;
        self.max = self.max.max(bytes);
    }

    fn add_open(&mut self, bytes: u64) {
        self.open = self.open.max(bytes);
    }

    /// What crash recovery reads at most and on average, if a checkpoint completes when `completion_target` of the way to
    /// the next one is done; `None` where no checkpoint came.
    fn replay_bytes(&self, completion_target: f64) -> (u64, Option<u64>) {
        let worst = (self.max as f64 * (1.0 + completion_target)) as u64;
        let mean = (self.sum > 0.0).then(|| (self.squares / self.sum * (0.5 + completion_target)) as u64);
        (worst.max(self.open), mean)
    }
}

#[derive(Clone, Debug)]
struct Setting {
    spacing: Spacing,
    triggers: Triggers,
    bit: u32,
    /// Where in the simulated WAL the last redo point lies.
    redo_at: u64,
    redo_time: Option<i64>,
    passed: u32,
    /// Bytes by which the simulated WAL is longer than the real one.
    longer_by: i64,
    avoided: Images,
    added: Images,
    /// Images of which it is unknown whether they would have been written.
    unsure: u64,
    checkpoints: u64,
    asked: u64,
    distances: Distances,
}

#[derive(Clone, Copy, Debug, Default)]
struct Images {
    count: u64,
    bytes: u64,
}

impl Setting {
    /// The place in the simulated WAL that a place in the real one has.
    fn simulated(&self, lsn: Lsn) -> u64 {
        lsn.0.saturating_add_signed(self.longer_by)
    }

    /// Notes whether it asks for a checkpoint.
    const fn ask(&mut self, is_due: bool) -> bool {
        self.asked = self.asked.saturating_add(is_due as u64);
        is_due
    }

    fn is_due(&self, at: Lsn, now: Option<i64>, segment_size: u64) -> bool {
        let segment = |position: u64| position.checked_div(segment_size).unwrap_or_default();
        let by_size = self
            .triggers
            .segments
            .is_some_and(|segments| segment(self.simulated(at)) >= segment(self.redo_at).saturating_add(segments));
        by_size || self.is_due_by_time(now)
    }

    fn is_due_by_time(&self, now: Option<i64>) -> bool {
        let passed = now.zip(self.redo_time).map(|(now, redo)| now.saturating_sub(redo));
        self.triggers.time.zip(passed).is_some_and(|(time, passed)| passed >= time)
    }

    fn avoid(&mut self, bytes: u64, wal_bytes: i64) {
        self.avoided.count = self.avoided.count.saturating_add(1);
        self.avoided.bytes = self.avoided.bytes.saturating_add(bytes);
        self.longer_by = self.longer_by.saturating_sub(wal_bytes);
    }

    /// Takes an image back that was thought to be avoided.
    fn restore(&mut self, bytes: u64, wal_bytes: i64) {
        self.avoided.count = self.avoided.count.saturating_sub(1);
        self.avoided.bytes = self.avoided.bytes.saturating_sub(bytes);
        self.longer_by = self.longer_by.saturating_add(wal_bytes);
    }
}

/// An image that was thought to be avoided, before it was known whether a redo point lies before it: 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Eighths of the distance from the start of the list; one that is too long is cut.
    lsn: u32,
    /// Those of the last change before it and one more; 0 where that lies before the list.
    before: u32,
    mask: u32,
    bytes: u16,
    wal_bytes: i16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OrdinaryImage {
    pub(crate) lsn: Lsn,
    /// Start of the last record before it that is sure to have set the page's LSN.
    pub(crate) before: Option<Lsn>,
    /// Another one after that may have.
    pub(crate) maybe_later: bool,
    pub(crate) bytes: u16,
    /// WAL that is saved without it.
    pub(crate) wal_bytes: i64,
}

/// What keeps images under other settings from being sure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenImages {
    /// Images for hint bits are written, of which a shorter distance has more.
    pub(crate) more_hints: bool,
    /// Some ordinary images lie before the first redo point that is known, and were left as they are.
    pub(crate) not_replayed: bool,
    /// Some records may ask for an image whatever the LSN of the page.
    pub(crate) maybe_always: bool,
}

#[derive(Debug)]
pub(crate) struct SpacingReplay {
    server: Server,
    settings: Vec<Setting>,
    redo: Vec<Lsn>,
    newest: Lsn,
    /// Redo points are marked where they stand: none is found out later.
    marks_redo: bool,
    relative: u32,
    pending: Vec<Pending>,
    pending_base: Lsn,
    is_begun: bool,
}

impl SpacingReplay {
    pub(crate) fn new(spacings: &[Spacing], server: Server, marks_redo: bool) -> Self {
        let bits = (0..u32::BITS).filter_map(|index| 1_u32.checked_shl(index));
        let settings: Vec<Setting> = spacings
            .iter()
            .zip(bits)
            .map(|(spacing, bit)| Setting {
                spacing: *spacing,
                triggers: Triggers::of(*spacing, &server),
                bit,
                redo_at: 0,
                redo_time: None,
                passed: 0,
                longer_by: 0,
                avoided: Images::default(),
                added: Images::default(),
                unsure: 0,
                checkpoints: 0,
                asked: 0,
                distances: Distances::default(),
            })
            .collect();
        let relative = settings.iter().filter(|setting| setting.triggers.every.is_some());
        Self {
            server,
            redo: vec![Lsn::INVALID; settings.len()],
            relative: relative.fold(0, |mask, setting| mask | setting.bit),
            settings,
            newest: Lsn::INVALID,
            marks_redo,
            pending: Vec::new(),
            pending_base: Lsn::INVALID,
            is_begun: false,
        }
    }

    /// All settings begin at a redo point.
    pub(crate) fn begin(&mut self, redo_lsn: Lsn, now: Option<i64>) {
        for (setting, redo) in self.settings.iter_mut().zip(&mut self.redo) {
            (setting.redo_at, setting.redo_time, setting.passed) = (setting.simulated(redo_lsn), now, 0);
            setting.checkpoints = setting.checkpoints.saturating_add(1);
            *redo = redo_lsn;
        }
        (self.newest, self.pending_base, self.is_begun) = (redo_lsn, redo_lsn, true);
    }

    /// A place at which a checkpoint may begin is reached.
    pub(crate) fn pass(&mut self, at: Lsn, now: Option<i64>) {
        let segment_size = u64::from(self.server.segment_size);
        self.checkpoint_where(at, now, |setting| {
            let is_due = setting.is_due(at, now, segment_size);
            setting.ask(is_due)
        });
    }

    pub(crate) fn tick(&mut self, at: Lsn, now: i64) {
        for setting in &mut self.settings {
            setting.redo_time.get_or_insert(now);
        }
        self.checkpoint_where(at, Some(now), |setting| {
            let is_due = setting.is_due_by_time(Some(now));
            setting.ask(is_due)
        });
    }

    /// A checkpoint at which everything stops: all settings have it.
    pub(crate) fn shutdown(&mut self, at: Lsn, now: Option<i64>) {
        self.settle(at, u32::MAX);
        self.checkpoint_where(at, now, |setting| {
            setting.passed = 0;
            true
        });
    }

    /// An online checkpoint's redo point, known where it stands or later.
    pub(crate) fn redo_point(&mut self, redo_lsn: Lsn, now: Option<i64>) {
        let mut kept = 0;
        for setting in &mut self.settings {
            let Some(every) = setting.triggers.every else { continue };
            setting.passed = setting.passed.saturating_add(1);
            if setting.passed >= every {
                setting.passed = 0;
                kept |= setting.bit;
            }
        }
        self.settle(redo_lsn, kept);
        self.checkpoint_where(redo_lsn, now, |setting| {
            let is_kept = setting.bit & kept != 0;
            setting.ask(is_kept)
        });
    }

    fn checkpoint_where(&mut self, at: Lsn, now: Option<i64>, mut is_due: impl FnMut(&mut Setting) -> bool) {
        if !self.is_begun {
            return;
        }
        for (setting, redo) in self.settings.iter_mut().zip(&mut self.redo) {
            if at > *redo && is_due(setting) {
                let position = setting.simulated(at);
                setting.distances.add(position.saturating_sub(setting.redo_at));
                (setting.redo_at, setting.redo_time) = (position, now);
                setting.checkpoints = setting.checkpoints.saturating_add(1);
                *redo = at;
                self.newest = self.newest.max(at);
            }
        }
    }

    /// A redo point turned out to be at `redo_lsn`, which the settings `kept` have too: what was thought of the images
    /// since is put right.
    fn settle(&mut self, redo_lsn: Lsn, kept: u32) {
        let redo = eighths(redo_lsn, self.pending_base);
        for image in self.pending.drain(..) {
            let mask = match image.before {
                before if image.lsn >= redo && before <= redo => image.mask & kept,
                // No redo point explains it: it is written under any setting.
                before if before > 0 => image.mask,
                _ => 0,
            };
            for setting in self.settings.iter_mut().filter(|setting| setting.bit & mask != 0) {
                setting.restore(u64::from(image.bytes), i64::from(image.wal_bytes));
            }
        }
        self.pending_base = redo_lsn;
    }

    /// An image that is written because the page was not changed since the redo point. `redo_lsn`: the real one, as far as
    /// it is known.
    pub(crate) fn image(&mut self, image: &OrdinaryImage, redo_lsn: Lsn) {
        let Some(before) = image.before else { return };
        let is_explained = before < redo_lsn;
        if !is_explained && self.marks_redo {
            return;
        }
        let mut mask = 0;
        for (setting, redo) in self.settings.iter_mut().zip(&self.redo) {
            if before >= *redo {
                mask |= setting.bit;
                setting.avoid(u64::from(image.bytes), image.wal_bytes);
            } else if image.maybe_later {
                setting.unsure = setting.unsure.saturating_add(1);
            }
        }
        if !self.marks_redo && (mask & self.relative != 0 || (!is_explained && mask != 0)) {
            let wal_bytes = image.wal_bytes.clamp(i64::from(i16::MIN), i64::from(i16::MAX));
            self.pending.push(Pending {
                lsn: eighths(image.lsn, self.pending_base),
                before: if before < self.pending_base {
                    0
                } else {
                    eighths(before, self.pending_base).saturating_add(1)
                },
                mask,
                bytes: image.bytes,
                wal_bytes: i16::try_from(wal_bytes).unwrap_or_default(),
            });
        }
    }

    /// True when some setting might write an image of a page that was last changed at `before`.
    #[inline(always)]
    pub(crate) fn may_add(&self, before: Lsn) -> bool {
        before < self.newest
    }

    /// A change without image of a page that was last changed at `before`. `image_bytes`: what an image would probably
    /// take; `wal_bytes`: by how much the record would be longer; `None`: it is not sure that there would be one.
    pub(crate) fn change(&mut self, before: Lsn, image: Option<(u64, i64)>) {
        for (setting, _) in self.settings.iter_mut().zip(&self.redo).filter(|(_, redo)| before < **redo) {
            match image {
                Some((bytes, wal_bytes)) => {
                    setting.added.count = setting.added.count.saturating_add(1);
                    setting.added.bytes = setting.added.bytes.saturating_add(bytes);
                    setting.longer_by = setting.longer_by.saturating_add(wal_bytes);
                }
                None => setting.unsure = setting.unsure.saturating_add(1),
            }
        }
    }

    /// Images before this address that no redo point explains may be due to one that no record names.
    pub(crate) fn hidden_before(&mut self, lsn: Lsn) {
        let end = eighths(lsn, self.pending_base);
        for image in self.pending.iter().filter(|image| image.before > 0 && image.lsn <= end) {
            for setting in self.settings.iter_mut().filter(|setting| setting.bit & image.mask != 0) {
                setting.unsure = setting.unsure.saturating_add(1);
            }
        }
    }

    /// A run ends: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, end_lsn: Lsn) {
        if !self.is_begun {
            return;
        }
        // A redo point that no checkpoint names yet may explain images that none explains now.
        self.hidden_before(Lsn(u64::MAX));
        self.settle(end_lsn, 0);
        for setting in &mut self.settings {
            let distance = setting.simulated(end_lsn).saturating_sub(setting.redo_at);
            setting.distances.add_open(distance);
        }
        self.redo.fill(Lsn::INVALID);
        (self.newest, self.is_begun) = (Lsn::INVALID, false);
    }

    /// What each setting would have done. `actual`: what was counted; `seconds`: how long it took to write it;
    /// `open`: what the WAL leaves open.
    pub(crate) fn rows(&self, actual: &Tally, seconds: Option<f64>, open: OpenImages) -> Vec<SpacingRow> {
        self.settings.iter().map(|setting| self.row(setting, actual, seconds, open)).collect()
    }

    fn row(&self, setting: &Setting, actual: &Tally, seconds: Option<f64>, open: OpenImages) -> SpacingRow {
        let Setting { avoided, added, .. } = setting;
        let change = |from: u64, less: u64, more: u64| from.saturating_sub(less).saturating_add(more);
        let wal_bytes = actual.combined_bytes().saturating_add_signed(setting.longer_by);
        let replay = setting.distances.replay_bytes(self.server.completion_target);
        let (replay_bytes_max, replay_bytes_mean) =
            if setting.asked < MIN_ASKED { (None, None) } else { (Some(replay.0), replay.1) };
        let images = match setting.spacing {
            // The place of a redo point that never was is simulated.
            Spacing::MaxWalSize { .. } | Spacing::Timeout { .. } | Spacing::Both { .. } => Certainty::Estimate,
            Spacing::Every(_) if open.maybe_always => Certainty::Estimate,
            Spacing::Every(_) if setting.unsure > 0 || (added.count > 0 && open.more_hints) || open.not_replayed => {
                Certainty::AtLeast
            }
            Spacing::Every(_) => Certainty::Exact,
        };
        let is_changed = avoided.count > 0 || added.count > 0;
        SpacingRow {
            spacing: setting.spacing,
            outcome: Outcome {
                images: change(actual.fpi_count, avoided.count, added.count),
                image_bytes: change(actual.fpi_bytes, avoided.bytes, added.bytes),
                wal_bytes,
                checkpoints: setting.checkpoints,
                replay_bytes_max,
                replay_bytes_mean,
                replay_seconds_max: seconds
                    .filter(|_| wal_bytes > 0)
                    .zip(replay_bytes_max)
                    .map(|(seconds, bytes)| bytes as f64 * seconds / wal_bytes as f64),
            },
            images_avoided: avoided.count,
            images_added: added.count,
            images_unsure: setting.unsure,
            certainty: images,
            wal_certainty: if is_changed { images.and(Certainty::Estimate) } else { images },
            replay_certainty: if setting.distances.open > setting.distances.max {
                Certainty::AtLeast
            } else {
                Certainty::Estimate
            },
        }
    }
}

/// Distance in units of 8 bytes, to which all records are aligned.
fn eighths(lsn: Lsn, base: Lsn) -> u32 {
    let distance = lsn.bytes_since(base).unwrap_or(0) >> 3;
    u32::try_from(distance).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "spacing_tests.rs"]
mod tests;
