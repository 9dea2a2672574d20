//! Tells the screen how far an examination is, and which damaged pages are known already.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{ActionSender, lock};
use crate::inspect::check::{KnownDamage, Stage, Watch};
use crate::tui::action::Action;
use crate::tui::facts::{FoundPage, Progress};
use crate::types::{PageId, RelFileLocator};

/// Shortest time between two reports of damaged pages.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A rest is estimated from here on: before, one slow file decides too much.
const ESTIMATE_FROM: (Duration, f64) = (Duration::from_secs(1), 0.02);

/// Most pages that are told of one by one while they are not judged.
const MAX_TOLD: usize = 20_000;

/// The present stage, and its beginning.
#[derive(Default)]
pub(super) struct StageClock(Mutex<Option<(Stage, Instant)>>);

impl StageClock {
    pub(super) fn left_s(&self, stage: Stage, done: u64, total: u64) -> Option<u64> {
        let mut begun = lock(&self.0);
        let since = match *begun {
            Some((current, since)) if current == stage => since,
            _ => begun.insert((stage, Instant::now())).1,
        };
        let share = done as f64 / total as f64;
        let taken = since.elapsed();
        let is_told = total > 0 && taken >= ESTIMATE_FROM.0 && (ESTIMATE_FROM.1..1.0).contains(&share);
        is_told.then(|| (taken.as_secs_f64() * (1.0 - share) / share).ceil() as u64)
    }
}

/// Tells the screen how far an examination is, as long as it is wanted.
pub(super) struct ScreenWatch<'a> {
    sender: &'a ActionSender,
    wanted: &'a (dyn Fn() -> bool + Sync),
    stages: Vec<Stage>,
    clock: StageClock,
    known: Mutex<Known>,
}

struct Known {
    /// Pages that the screen was not told of yet.
    untold: Vec<(PageId, FoundPage)>,
    told: usize,
    last: Instant,
    name: Option<(RelFileLocator, Arc<str>)>,
}

impl<'a> ScreenWatch<'a> {
    /// Watches for this screen. `builds`: pages are built by replay, too.
    pub(super) fn new(sender: &'a ActionSender, wanted: &'a (dyn Fn() -> bool + Sync), builds: bool) -> Self {
        let mut stages = vec![Stage::Read, Stage::Scan, Stage::Slots, Stage::Wal, Stage::Pages];
        stages.extend(builds.then_some(Stage::Replay));
        let known = Known { untold: Vec::new(), told: 0, last: Instant::now(), name: None };
        Self { sender, wanted, stages, clock: StageClock::default(), known: Mutex::new(known) }
    }

    fn tell(&self, known: &mut Known) {
        if !known.untold.is_empty() && known.last.elapsed() >= TELL_EVERY {
            (known.last, known.told) = (Instant::now(), known.told + known.untold.len());
            self.sender.action(Action::Found(Arc::new(std::mem::take(&mut known.untold))));
        }
    }
}

impl Watch for ScreenWatch<'_> {
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()> {
        let what = match stage {
            Stage::Read => "reading the double write buffer",
            Stage::Scan => "checking every page",
            Stage::Slots => "comparing images with pages",
            Stage::Wal => "reading WAL for the proof",
            Stage::Proof => "proving pages by replay",
            Stage::Pages => "judging damaged pages",
            Stage::Replay => "rebuilding pages by replay in a sandbox",
        };
        let step = self.stages.iter().position(|one| *one == stage).map(|at| (at + 1, self.stages.len()));
        let left_s = self.clock.left_s(stage, done, total);
        self.sender.progress(Action::Progressed, Progress { what, done, total, step, left_s });
        self.tell(&mut lock(&self.known));
        if (self.wanted)() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn found(&self, damage: &KnownDamage<'_>) {
        let mut known = lock(&self.known);
        if known.told + known.untold.len() >= MAX_TOLD {
            return;
        }
        let rel = damage.page.rel;
        let called = match &known.name {
            Some((of, called)) if *of == rel => Arc::clone(called),
            _ => damage.names.called(rel).into(),
        };
        known.name = Some((rel, Arc::clone(&called)));
        known.untold.push((damage.page, FoundPage { called, blocks: damage.blocks }));
        self.tell(&mut known);
    }
}
