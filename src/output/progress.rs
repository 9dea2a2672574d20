//! A progress bar on standard error, where that is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows bytes done, bytes in all, and rate; nothing when standard error is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
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
        Self { bar }
    }

    /// Sets how many bytes are done.
    pub fn done(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Adds to the bytes done.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
