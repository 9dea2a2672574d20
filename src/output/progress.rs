//! Progress: a bar on standard error, where that is a terminal, or somebody who is told.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows bytes done, bytes in all, and rate; nothing when standard error is no terminal.
pub struct Progress {
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Told { done: AtomicU64, watch: Arc<dyn Fn(u64) + Send + Sync> },
}

impl Progress {
    /// A bar over `total_bytes`.
    #[must_use]
    pub fn bytes(total_bytes: u64) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total_bytes) } else { ProgressBar::hidden() };
        let template = "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { shown: Shown::Bar(bar) }
    }

    /// No bar: `watch` is told how many bytes are done.
    #[must_use]
    pub fn told(watch: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { shown: Shown::Told { done: AtomicU64::new(0), watch } }
    }

    /// Sets how many bytes are done.
    pub fn done(&self, bytes: u64) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_position(bytes),
            Shown::Told { done, watch } => {
                done.store(bytes, Ordering::Relaxed);
                watch(bytes);
            }
        }
    }

    /// Adds to the bytes done.
    pub fn advance(&self, bytes: u64) {
        match &self.shown {
            Shown::Bar(bar) => bar.inc(bytes),
            Shown::Told { done, watch } => watch(done.fetch_add(bytes, Ordering::Relaxed) + bytes),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
