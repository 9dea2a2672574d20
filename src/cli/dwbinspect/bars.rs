//! Progress of an examination on the terminal, and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::analysis::verdict::check::Stage;
use crate::cli::work::{ProgressArg, interrupt_flag};
use crate::inspect::check::Watch;
use crate::output::progress::Progress;

/// One bar after the other, a stage each.
pub(super) struct Bars {
    interrupted: Arc<AtomicBool>,
    open: Mutex<Option<(Stage, Progress)>>,
    asked_for: bool,
}

impl Bars {
    /// No bar yet.
    pub(super) fn new(progress: ProgressArg) -> Self {
        Self { interrupted: interrupt_flag(), open: Mutex::new(None), asked_for: progress.progress }
    }
}

impl Watch for Bars {
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if total > 0 {
            if open.as_ref().is_none_or(|(shown, _)| *shown != stage) {
                *open = None;
                *open = Some((stage, Progress::bytes(total, self.asked_for)));
            }
            if let Some((_, bar)) = open.as_ref() {
                bar.done(done);
            }
        } else {
            *open = None;
        }
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
