//! Progress and interruption of a check.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use strum::EnumIter;

/// Stages of a check, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Stage {
    /// The double write buffer is read and judged by itself; bytes of images.
    Read,
    /// Every page of every relation is read; bytes.
    Scan,
    /// Slots are compared with their pages; bytes of images.
    Slots,
    /// WAL is read; bytes.
    Wal,
    /// WAL is read to prove pages by replay; bytes.
    Proof,
    /// Damaged pages are judged; pages.
    Pages,
    /// WAL is read again to build pages; bytes.
    Replay,
}

/// Is given the stage and how far it is; breaks the check off. Called from all threads.
pub type StageWatch<'a> = &'a (dyn Fn(Stage, u64) -> ControlFlow<()> + Sync);

/// Reports the progress and remembers an interruption: after one at any stage the result is partial.
pub(super) struct CheckProgress<'a> {
    watch: StageWatch<'a>,
    broken_off: AtomicBool,
}

impl<'a> CheckProgress<'a> {
    /// `broken_off`: an earlier part of the work was interrupted.
    pub(super) const fn new(watch: StageWatch<'a>, broken_off: bool) -> Self {
        Self { watch, broken_off: AtomicBool::new(broken_off) }
    }

    /// `done` of this stage are done.
    pub(super) fn at(&self, stage: Stage, done: u64) -> ControlFlow<()> {
        let flow = (self.watch)(stage, done);
        self.broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }
}
