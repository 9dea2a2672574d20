//! Progress: a bar on standard error, where that is a terminal, lines where it was asked for, or somebody who is told.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time from one line to the next, where progress goes into a file.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// Shows bytes done, bytes in all, and rate; nothing when standard error is not a terminal and nobody asked for it.
pub struct Progress {
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { done: AtomicU64, total: u64, last: Mutex<Option<Instant>> },
    Told { done: AtomicU64, watch: Arc<dyn Fn(u64) + Send + Sync> },
}

impl Progress {
    /// A bar over `total_bytes`; `asked_for`: lines where standard error is not a terminal.
    pub fn bytes(total_bytes: u64, asked_for: bool) -> Self {
        if asked_for && !std::io::stderr().is_terminal() {
            let shown = Shown::Lines { done: AtomicU64::new(0), total: total_bytes, last: Mutex::new(None) };
            shown.line(0, true);
            return Self { shown };
        }
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total_bytes) } else { ProgressBar::hidden() };
        let template = "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { shown: Shown::Bar(bar) }
    }

    /// No bar: `watch` is told how many bytes are done.
    pub fn told(watch: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { shown: Shown::Told { done: AtomicU64::new(0), watch } }
    }

    /// Sets how many bytes are done.
    pub fn done(&self, bytes: u64) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_position(bytes),
            Shown::Lines { done, .. } => {
                done.store(bytes, Ordering::Relaxed);
                self.shown.line(bytes, false);
            }
            Shown::Told { done, watch } => {
                done.store(bytes, Ordering::Relaxed);
                watch(bytes);
            }
        }
    }
}

impl Shown {
    /// Writes how far the work is, if the line before it is old enough or `always`.
    fn line(&self, done: u64, always: bool) {
        let Self::Lines { total, last, .. } = self else { return };
        let Ok(mut last) = last.lock() else { return };
        if !always && last.is_some_and(|last| last.elapsed() < BETWEEN_LINES) {
            return;
        }
        *last = Some(Instant::now());
        // No one reads it: the work continues anyway.
        drop(writeln!(std::io::stderr(), "{done} of {total} bytes"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match &self.shown {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { done, .. } => self.shown.line(done.load(Ordering::Relaxed), true),
            Shown::Told { .. } => {}
        }
    }
}
