//! Takes touches in order and lets each setting say what it would have made of them.
//! Also here: images that are due to a redo point that is not known: of pages that were changed after the one in force;
//! up to 16 a redo point is known only when its checkpoint is done, which explains most of these images; those that are
//! left show one that no record names.

use rustc_hash::FxHashMap;

use super::dirtied::Dirtied;
use super::protection::{GuardCounts, IMAGE_HEADER_BYTES};
use super::spacing::{OpenImages, OrdinaryImage, Server, SpacingReplay};
use super::touches::{BlockState, Event, ForkKey, Kind, KindKey, Touch, Touches, slice_bytes};
use super::{Outcome, WhatIf, WhatIfPlan};
use crate::analysis::wal::block_map::BlockMap;
use crate::analysis::wal::cause::{hints_need_page_writes, never_forced};
use crate::analysis::wal::clock::{Clock, Told};
use crate::analysis::wal::likely_cause::{HintCost, HintImages};
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::parsers::decode::ParseError;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::version::Major;
use crate::report::Finding;
use crate::types::{BlockNumber, ForkNumber, Geometry, LONG_WAL_HEADER_BYTES, Lsn, RelFileLocator};

/// Replays a WAL under other settings.
#[derive(Debug)]
pub(crate) struct Replay {
    geometry: Geometry,
    major: Major,
    completion_target: f64,
    slice_bytes: u64,
    next_slice: Lsn,
    /// Images of each fork, to guess the size of further ones.
    fork_images: Vec<(u64, u64)>,
    kinds: FxHashMap<KindKey, usize>,
    kind_data: Vec<Kind>,
    blocks: BlockMap<BlockState>,
    forgotten_blocks: u64,
    spacing: SpacingReplay,
    guards: GuardCounts,
    dirtied: Dirtied,
    hints: HintCost,
    hints_unsure: bool,
    redo_lsn: Option<Lsn>,
    unexplained: UnexplainedImages,
    replayed_from: Option<Lsn>,
    not_replayed_bytes: u64,
    run_start: Option<Lsn>,
    is_begun: bool,
    tally: Tally,
    clock: Clock,
    first_time: Option<PgTimestamp>,
    real: RealCheckpoints,
    undecoded: Vec<ParseError>,
}

/// What recovery would have had to read at each place of the real WAL.
#[derive(Debug, Default)]
struct RealCheckpoints {
    count: u64,
    /// Redo point of the last checkpoint that completed, and from where on it was that.
    completed: Option<(Lsn, Lsn)>,
    max: u64,
    /// Integral of the bytes that recovery reads, over places of a crash, and the bytes of those places.
    area: f64,
    length: f64,
    /// Recovery after some crash would have begun before the WAL that is there.
    is_blind: bool,
}

impl RealCheckpoints {
    /// A checkpoint completed, or WAL ended, at `lsn`.
    fn advance(&mut self, lsn: Lsn) {
        let Some((redo_lsn, since)) = self.completed else { return };
        let (from, to) = (since.bytes_since(redo_lsn).unwrap_or(0), lsn.bytes_since(redo_lsn).unwrap_or(0));
        self.max = self.max.max(to);
        self.area += (to as f64 * to as f64 - from as f64 * from as f64) / 2.0;
        self.length += lsn.bytes_since(since).unwrap_or(0) as f64;
    }
}

impl Replay {
    pub(crate) fn new(plan: &WhatIfPlan, geometry: Geometry, major: Major) -> Self {
        let completion_target = plan.completion_target.unwrap_or(major.facts().completion_target);
        let marks_redo = major.facts().marks_redo_points;
        let server = Server {
            segment_size: geometry.wal_segment_size,
            completion_target,
            keeps_two_checkpoints: major.facts().keeps_two_checkpoints,
        };
        Self {
            geometry,
            major,
            completion_target,
            slice_bytes: slice_bytes(geometry.wal_segment_size).max(1),
            next_slice: Lsn::INVALID,
            fork_images: Vec::new(),
            kinds: FxHashMap::default(),
            kind_data: Vec::new(),
            blocks: BlockMap::default(),
            forgotten_blocks: 0,
            spacing: SpacingReplay::new(&plan.spacings, server, marks_redo),
            guards: GuardCounts::default(),
            dirtied: Dirtied::new(marks_redo),
            hints: HintCost::default(),
            hints_unsure: false,
            redo_lsn: None,
            unexplained: UnexplainedImages::default(),
            replayed_from: None,
            not_replayed_bytes: 0,
            run_start: None,
            is_begun: false,
            tally: Tally::default(),
            clock: Clock::default(),
            first_time: None,
            real: RealCheckpoints::default(),
            undecoded: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, list: &Touches) {
        self.tally.add(&list.tally);
        self.undecoded.extend(list.undecoded.clone());
        self.run_start.get_or_insert(list.base);
        let forks: Vec<u32> = list.forks.iter().map(|fork| self.fork(*fork)).collect();
        let kinds: Vec<usize> = list.kinds.iter().map(|kind| self.kind(kind)).collect();
        let mut events = list.events.iter().peekable();
        for touch in &list.touches {
            while let Some((offset, event)) = events.next_if(|(offset, _)| *offset <= touch.offset) {
                self.event(list.base.advanced_by(u64::from(*offset)), *event);
            }
            let at = list.base.advanced_by(u64::from(touch.offset));
            self.advance(at);
            let fork = forks.get(usize::from(touch.fork)).copied().unwrap_or_default();
            let kind = kinds.get(usize::from(touch.kind)).copied().unwrap_or_default();
            self.touch(at, touch, fork, kind);
        }
        for (offset, event) in events {
            self.event(list.base.advanced_by(u64::from(*offset)), *event);
        }
    }

    fn fork(&mut self, key: ForkKey) -> u32 {
        let next = u32::try_from(self.fork_images.len()).unwrap_or(u32::MAX);
        let index = self.blocks.fork(key.0, key.1);
        if index == next {
            self.fork_images.push((0, 0));
        }
        index
    }

    fn kind(&mut self, kind: &Kind) -> usize {
        let next = self.kind_data.len();
        let index = *self.kinds.entry(kind.key).or_insert(next);
        if index == next {
            self.kind_data.push(Kind { key: kind.key, ..Kind::default() });
        }
        if let Some(own) = self.kind_data.get_mut(index) {
            own.count = own.count.saturating_add(kind.count);
            own.data_bytes = own.data_bytes.saturating_add(kind.data_bytes);
        }
        index
    }

    /// The time that counts, in microseconds.
    fn now(&self) -> Option<i64> {
        self.clock.now().map(|now| now.0)
    }

    /// What is odd about the times that records tell.
    pub(crate) fn odd_times(&self) -> Vec<Finding> {
        self.clock.findings()
    }

    /// Lets settings have their checkpoints up to `at`.
    #[inline(always)]
    fn advance(&mut self, at: Lsn) {
        if at < self.next_slice {
            return;
        }
        let slice = at.0.checked_rem(self.slice_bytes).map_or(at, |past| Lsn(at.0.saturating_sub(past)));
        self.next_slice = slice.advanced_by(self.slice_bytes);
        self.spacing.pass(slice, self.now());
    }

    fn event(&mut self, at: Lsn, event: Event) {
        self.advance(at);
        match event {
            Event::Time(time) => {
                self.clock.tell(at, Told::now(PgTimestamp(time)));
                let Some(now) = self.clock.now() else { return };
                self.first_time.get_or_insert(now);
                self.spacing.tick(at, now.0);
            }
            Event::Redo => self.redo_point(at, false),
            Event::Checkpoint { redo_lsn, is_shutdown } => {
                // Before the first one that is known, and after a gap, there is nothing to continue with.
                if self.redo_lsn.is_none_or(|known| redo_lsn > known) {
                    self.redo_point(redo_lsn, is_shutdown);
                }
                self.real.advance(at);
                let is_first_record =
                    self.run_start.and_then(|start| at.bytes_since(start)) <= Some(LONG_WAL_HEADER_BYTES.into());
                self.real.is_blind |= self.real.completed.is_none() && !is_first_record;
                self.real.completed = Some((redo_lsn, at));
            }
            Event::Truncated { rel, keeps_blocks } => self.truncate(rel, keeps_blocks),
        }
    }

    /// A redo point is known; it may lie before what was taken last.
    fn redo_point(&mut self, redo_lsn: Lsn, is_shutdown: bool) {
        self.hidden_before(redo_lsn);
        let is_before_run = self.run_start.is_none_or(|start| redo_lsn < start);
        let now = self.now();
        if self.is_begun {
            self.real.count = self.real.count.saturating_add(1);
            if is_shutdown { self.spacing.shutdown(redo_lsn, now) } else { self.spacing.redo_point(redo_lsn, now) }
        } else if !is_before_run {
            self.begin(redo_lsn);
        }
        self.dirtied.redo_point(redo_lsn);
        self.redo_lsn = Some(redo_lsn);
    }

    /// No record names a redo point before this address that was not known so far, but images may show one. Settings are
    /// left as they are: its checkpoint did not end.
    fn hidden_before(&mut self, lsn: Lsn) {
        let hidden = self.unexplained.settle(self.redo_lsn, lsn);
        if !hidden.is_empty() {
            self.spacing.hidden_before(lsn);
        }
        for redo_lsn in hidden {
            self.real.count = self.real.count.saturating_add(u64::from(self.is_begun));
            self.dirtied.redo_point(redo_lsn);
            self.redo_lsn = Some(redo_lsn);
        }
    }

    fn begin(&mut self, redo_lsn: Lsn) {
        self.is_begun = true;
        self.replayed_from.get_or_insert(redo_lsn);
        self.real.count = self.real.count.saturating_add(1);
        let before = self.run_start.and_then(|start| redo_lsn.bytes_since(start)).unwrap_or(0);
        self.not_replayed_bytes = self.not_replayed_bytes.saturating_add(before);
        self.spacing.begin(redo_lsn, self.now());
    }

    /// A relation lost its end: its blocks come back as new ones. How much of the maps goes follows from it; all of them is
    /// forgotten.
    fn truncate(&mut self, rel: RelFileLocator, keeps_blocks: BlockNumber) {
        for (fork, first) in [(ForkNumber::Main, keeps_blocks), (ForkNumber::Fsm, 0), (ForkNumber::Vm, 0)] {
            let Some(code) = u8::try_from(fork.code()).ok() else { continue };
            if let Some(index) = self.blocks.known_fork(rel, code) {
                let (before, dirtied, redo_lsn) = (self.blocks.len(), &mut self.dirtied, self.redo_lsn);
                self.blocks.forget(index, first, |key, state| dirtied.forget(key, *state, redo_lsn));
                self.forgotten_blocks = self.forgotten_blocks.saturating_add(before.saturating_sub(self.blocks.len()));
            }
        }
    }

    #[inline(always)]
    fn touch(&mut self, at: Lsn, touch: &Touch, fork: u32, kind: usize) {
        let logs_hints = self.hints.all.images > 0;
        let is_sure = touch.is_sure() || (touch.marks_visible() && logs_hints);
        let state = self.blocks.entry(fork, touch.block);
        let old = *state;
        let redo_lsn = self.redo_lsn.unwrap_or_default();
        let is_new_only = !self.dirtied.take((fork, touch.block), at, touch.is_new_page(), is_sure, (old, redo_lsn));
        *state = match (is_sure, old.touched_at()) {
            (true, _) => BlockState::touched(at),
            // Where hints are not logged, a page that is marked as visible keeps its LSN.
            (false, _) if touch.marks_visible() => old,
            (false, _) => old.maybe_touched(),
        };
        if is_new_only {
            *state = state.logged_whole();
        }
        if touch.has_image() && touch.is_hint() {
            *state = state.with_hint(touch.image_bytes);
        }
        let before = old.touched_at();
        self.hint_fate(touch, is_sure, old);
        let is_first = before.is_none_or(|before| before < redo_lsn);
        if touch.has_image() {
            self.image(at, touch, (fork, kind), old);
        } else if self.is_begun && !touch.is_init() && !touch.marks_visible() {
            if is_first && is_sure {
                self.guards.missing = self.guards.missing.saturating_add(1);
            } else if let Some(before) = before.filter(|before| self.spacing.may_add(*before)) {
                self.change(touch, fork, before, is_sure);
            }
        }
    }

    /// Says what became of an image for hint bits.
    fn hint_fate(&mut self, touch: &Touch, is_sure: bool, old: BlockState) {
        let Some(bytes) = old.hint_bytes() else { return };
        if !is_sure {
            self.hints_unsure = true;
        } else if !touch.has_image() && !touch.is_init() {
            self.hints.then_changed.add(bytes);
        }
    }

    fn image(&mut self, at: Lsn, touch: &Touch, (fork, kind): (u32, usize), old: BlockState) {
        let bytes = touch.image_bytes;
        if let Some((count, sum)) = self.fork_images.get_mut(usize::try_from(fork).unwrap_or(usize::MAX)) {
            (*count, *sum) = (count.saturating_add(1), sum.saturating_add(u64::from(bytes)));
        }
        if touch.is_always() {
            return self.guards.always.add(bytes);
        }
        let (record, block_id) = self.kind_data.get(kind).map(|kind| kind.key).unwrap_or_default();
        let never_forced = never_forced(self.major, record, block_id);
        let proves = never_forced && !touch.had_no_lsn();
        if let Some(before) = old.touched_at().filter(|before| proves && Some(*before) >= self.redo_lsn) {
            self.unexplained.push(before, at);
        }
        let with_header = u64::from(bytes).saturating_add(IMAGE_HEADER_BYTES);
        let wal_bytes = if touch.is_hint() {
            // The whole record goes.
            u64::from(bytes).saturating_add(u64::from(touch.data_bytes))
        } else if touch.data_bytes > 0 {
            with_header
        } else {
            let mean = self.kind_data.get(kind).and_then(|kind| kind.data_bytes.checked_div(kind.count));
            with_header.saturating_sub(mean.unwrap_or_default())
        };
        let wal_bytes = i64::try_from(wal_bytes).unwrap_or(i64::MAX);
        if touch.is_hint() {
            self.hints.all.add(u64::from(bytes));
            // Whether a later change would have had an image instead follows from the redo point and the settings there.
            self.hints_unsure |= self.redo_lsn.is_none();
            if self.is_begun {
                self.guards.hints.add(bytes);
            }
            if self.is_begun && touch.in_backup() {
                self.guards.hints_in_backup.add(bytes);
            }
        } else if self.is_begun {
            if touch.in_backup() {
                self.guards.in_backup.add(bytes);
            } else {
                self.guards.first.add(bytes);
                self.guards.saved_first = self.guards.saved_first.saturating_add(wal_bytes);
            }
            if !never_forced {
                self.guards.maybe_always = self.guards.maybe_always.saturating_add(1);
            }
        }
        if self.is_begun {
            let (before, maybe_later) = (old.touched_at(), old.maybe_later());
            let image = OrdinaryImage { lsn: at, before, maybe_later, bytes, wal_bytes };
            self.spacing.image(&image, self.redo_lsn.unwrap_or_default());
        } else {
            self.guards.not_replayed = self.guards.not_replayed.saturating_add(1);
        }
    }

    /// A change without image, of a page that some setting might give one.
    fn change(&mut self, touch: &Touch, fork: u32, before: Lsn, is_sure: bool) {
        // Without full-page writes no distance of checkpoints adds images.
        if !self.guards.writes_images() {
            return;
        }
        let known = self.fork_images.get(usize::try_from(fork).unwrap_or(usize::MAX));
        let mean = known.and_then(|(count, sum)| sum.checked_div(*count));
        let bytes = mean.unwrap_or(u64::from(self.geometry.block_size));
        let longer = bytes.saturating_add(IMAGE_HEADER_BYTES).saturating_sub(u64::from(touch.data_bytes));
        let image = is_sure.then_some((bytes, i64::try_from(longer).unwrap_or(i64::MAX)));
        self.spacing.change(before, image);
    }

    /// A run ends: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, end_lsn: Lsn) {
        self.hidden_before(end_lsn);
        self.real.advance(end_lsn);
        self.real.is_blind |= self.real.completed.is_none();
        self.real.completed = None;
        let (mut undecided, redo_lsn) = (HintImages::default(), self.redo_lsn.unwrap_or_default());
        let unchanged = self.blocks.values().filter(|state| state.touched_at() >= Some(redo_lsn));
        unchanged.filter_map(|state| state.hint_bytes()).for_each(|bytes| undecided.add(bytes));
        self.hints.undecided.images = self.hints.undecided.images.saturating_add(undecided.images);
        self.hints.undecided.image_bytes = self.hints.undecided.image_bytes.saturating_add(undecided.image_bytes);
        if !self.is_begun {
            let all = self.run_start.and_then(|start| end_lsn.bytes_since(start)).unwrap_or(0);
            self.not_replayed_bytes = self.not_replayed_bytes.saturating_add(all);
        }
        self.spacing.end_run(end_lsn);
        self.forgotten_blocks = self.forgotten_blocks.saturating_add(self.blocks.len());
        self.blocks.iter().for_each(|(key, state)| self.dirtied.forget(key, *state, self.redo_lsn));
        self.dirtied.end_run();
        self.blocks.clear();
        (self.redo_lsn, self.run_start, self.is_begun, self.next_slice) = (None, None, false, Lsn::INVALID);
    }

    /// What came of it, and records whose payload is not that of their type.
    pub(crate) fn finish(self) -> (WhatIf, Tally, Vec<ParseError>) {
        let (contradicts_itself, now) = (self.clock.contradicts_itself(), self.clock.now());
        let Self { tally, real, first_time, .. } = self;
        let seconds = first_time.zip(now).map(|(first, now)| now.us_since(first) as f64 / 1e6);
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && !contradicts_itself);
        let wal_bytes = tally.combined_bytes();
        let actual = Outcome {
            images: tally.fpi_count,
            image_bytes: tally.fpi_bytes,
            wal_bytes,
            checkpoints: real.count,
            replay_bytes_max: (real.max > 0).then_some(real.max),
            replay_bytes_mean: (real.length > 0.0).then(|| (real.area / real.length) as u64),
            replay_seconds_max: seconds
                .filter(|_| wal_bytes > 0 && real.max > 0)
                .map(|seconds| real.max as f64 * seconds / wal_bytes as f64),
        };
        let open = OpenImages {
            more_hints: self.hints.all.images > 0,
            not_replayed: self.guards.not_replayed > 0,
            maybe_always: self.guards.maybe_always > 0,
        };
        let mut spacing = self.spacing.rows(&tally, seconds, open);
        // When checkpoints would have been due is unknown.
        spacing.retain(|row| !(contradicts_itself && row.spacing.is_by_time()));
        let mut parts = self.hints;
        if !self.guards.writes_images() {
            // A later change would have had no image either.
            (parts.then_changed, parts.undecided) = (HintImages::default(), HintImages::default());
        }
        let hints = HintCost {
            only: parts.all.without(parts.then_changed).without(parts.undecided),
            certainty: if self.hints_unsure || self.guards.is_mixed() { Certainty::Estimate } else { Certainty::Exact },
            ..parts
        };
        let what_if = WhatIf {
            actual,
            certainty: Certainty::Exact,
            replay_certainty: if real.is_blind { Certainty::AtLeast } else { Certainty::Exact },
            replayed_from: self.replayed_from,
            not_replayed_bytes: self.not_replayed_bytes,
            spacing,
            protection: self.guards.protection(
                &tally,
                self.dirtied.blocks(),
                self.geometry.block_size,
                !hints_need_page_writes(self.major),
            ),
            hints,
            completion_target: self.completion_target,
            seconds,
            distinct_blocks: self.forgotten_blocks,
        };
        (what_if, tally, self.undecoded)
    }
}

/// Such images, as far as they matter.
#[derive(Debug, Default)]
pub(crate) struct UnexplainedImages {
    /// The last change before an image, and the image. Both ascend: an image of a page that was changed before that of an
    /// earlier image is explained by whatever explains that one.
    images: Vec<(Lsn, Lsn)>,
}

impl UnexplainedImages {
    /// Takes an image at `at` of a page that was changed at `before`.
    pub(crate) fn push(&mut self, before: Lsn, at: Lsn) {
        if self.images.last().is_none_or(|(last, _)| before > *last) {
            self.images.push((before, at));
        }
    }

    /// The redo point after `known` is `next`, or nothing further is read. Gives those between, each where the first image
    /// shows it.
    pub(crate) fn settle(&mut self, known: Option<Lsn>, next: Lsn) -> Vec<Lsn> {
        let mut hidden: Vec<Lsn> = Vec::new();
        for (before, at) in self.images.iter().filter(|(_, at)| *at < next) {
            if Some(*before) >= hidden.last().copied().or(known) {
                hidden.push(*at);
            }
        }
        self.images.retain(|(before, _)| *before >= next);
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(images: &[(u64, u64)], known: u64, next: u64) -> (Vec<u64>, usize) {
        let mut unexplained = UnexplainedImages::default();
        images.iter().for_each(|(before, at)| unexplained.push(Lsn(*before), Lsn(*at)));
        let hidden = unexplained.settle(Some(Lsn(known)), Lsn(next));
        (hidden.into_iter().map(|lsn| lsn.0).collect(), unexplained.images.len())
    }

    #[test]
    fn redo_point_that_is_named_explains_the_images_after_it() {
        let images = [(120, 210), (110, 220), (150, 230), (190, 300)];
        assert_eq!(hidden(&images, 100, 200), (vec![], 0));
        // It lies after the first of them: another one lies before.
        assert_eq!(hidden(&images, 100, 225), (vec![210], 0));
        // Nothing names any.
        assert_eq!(hidden(&images, 100, 1000), (vec![210], 0));
        assert_eq!(hidden(&[(120, 210), (210, 300), (250, 310)], 100, 1000), (vec![210, 300], 0));
        // What is shown after the one that is named waits for the next.
        assert_eq!(hidden(&[(120, 210), (230, 300)], 100, 205), (vec![], 1));
    }
}
