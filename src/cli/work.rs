//! Long work: number of threads, and interruption by the user.
//! Also here: progress: a bar on standard error, where that is a terminal, or lines where it was asked for.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::exit::UsageError;
use crate::analysis::in_order::all_cores;
use crate::inspect::check::{Stage, Watch};
use crate::inspect::rebuild::ReplayOptions;

/// How many threads work.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JobsArg {
    /// Threads that read [default: one per core]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl JobsArg {
    /// The number of threads.
    pub fn count(self) -> usize {
        self.jobs.map_or_else(all_cores, usize::from)
    }
}

/// Older copies of the cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DonorArgs {
    /// Take pages from an older copy: base backup, snapshot, stopped standby
    ///
    /// A directory, or the archives of a base backup in tar format (plain, gzip, lz4, zstd). Each page of it is one more image,
    /// proven by the WAL since then. WAL that comes with the copy is read, too.
    #[arg(long = "donor", value_name = "PATH")]
    pub donors: Vec<PathBuf>,
}

/// Whether pages are built by replay.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct RebuildArg {
    /// Rebuild pages without a proven image, with a server in a sandbox
    ///
    /// Each is built from an older copy of it (an image or a record in WAL, the double write buffer, a donor) and every
    /// later record. A server of the same PostgreSQL version replays these records in a separate temporary data
    /// directory and ends; the cluster itself is not started. Without this no server is started, and the output only lists the
    /// pages that can be rebuilt.
    #[arg(long)]
    rebuild: bool,
}

impl RebuildArg {
    /// The server to start, and its directory; `None` if none is started. `otherwise`: another option starts one,
    /// or could: which options could.
    ///
    /// # Errors
    /// When the server is described, and nothing starts it.
    pub fn with(
        self,
        replay: &ServerArgs,
        otherwise: (bool, &'static str),
    ) -> Result<Option<ReplayOptions>, UsageError> {
        let (starts_otherwise, options) = otherwise;
        if !(self.rebuild || starts_otherwise || replay.is_default()) {
            return Err(UsageError::NoReplay(options));
        }
        Ok(self.rebuild.then(|| replay.options()))
    }
}

/// The server that replays records in a sandbox.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// Directory of the server's programs [default: the last ones used here, or the usual directories]
    #[arg(long, value_name = "DIR", help_heading = "Replay", hide_short_help = true)]
    pg_bin: Option<PathBuf>,
    /// Directory in which the sandbox is made [default: that for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Replay", hide_short_help = true)]
    sandbox: Option<PathBuf>,
    /// Keep the sandbox, to look at it
    #[arg(long, help_heading = "Replay", hide_short_help = true)]
    keep_sandbox: bool,
}

impl ServerArgs {
    /// Nothing of it was given.
    const fn is_default(&self) -> bool {
        let Self { pg_bin, sandbox, keep_sandbox } = self;
        pg_bin.is_none() && sandbox.is_none() && !*keep_sandbox
    }

    /// Which server is started, and where.
    pub fn options(&self) -> ReplayOptions {
        let Self { pg_bin, sandbox, keep_sandbox } = self.clone();
        ReplayOptions { pg_bin, sandbox, keep_sandbox }
    }
}

/// Whether progress is shown.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ProgressArg {
    /// Show progress even if standard error is not a terminal: one line per second
    #[arg(short = 'P', long, hide_short_help = true)]
    pub progress: bool,
}

/// Signals that end a program: Ctrl-C, a request of the system or another program, a closed terminal.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that Ctrl-C raises, and any other request to end, so that what was counted so far can be shown, and nothing is
/// left of a sandbox.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // One that runs under `nohup` continues when the terminal is closed.
    for signal in ENDING.into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP)) {
        // Without a handler the program ends at once, and its partial result is lost.
        drop(signal_hook::flag::register(signal, Arc::clone(&flag)));
    }
    flag
}

/// True when this program was started with a signal ignored, as `nohup` does. If the system does not list such
/// signals, it may be so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Interruption by Ctrl-C, for work without a progress display.
pub(crate) fn until_interrupted() -> impl Fn() -> ControlFlow<()> {
    let flag = interrupt_flag();
    move || if flag.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Progress over bytes, and Ctrl-C. Until the first bytes are done there is neither: a file that is still being opened can
/// be left at once.
pub(crate) struct ByteBar {
    asked_for: bool,
    interrupted: OnceLock<Arc<AtomicBool>>,
    /// The bar, and the total that it shows.
    shown: Mutex<Option<(u64, Progress)>>,
}

impl ByteBar {
    /// Nothing is shown yet.
    pub const fn new(progress: ProgressArg) -> Self {
        Self { asked_for: progress.progress, interrupted: OnceLock::new(), shown: Mutex::new(None) }
    }

    /// Shows the progress; returns whether to continue. Another total starts another bar. A total of 0 means unknown.
    pub fn at(&self, done: u64, total: u64) -> ControlFlow<()> {
        if total == 0 {
            let interrupted = self.interrupted.get().is_some_and(|interrupted| interrupted.load(Ordering::Relaxed));
            return if interrupted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        let interrupted = self.interrupted.get_or_init(interrupt_flag);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|(of, _)| *of != total) {
            // The one before is taken away before the next one comes.
            *shown = None;
            *shown = Some((total, Progress::bytes(total, self.asked_for)));
        }
        shown.iter().for_each(|(_, bar)| bar.done(done));
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Watch for ByteBar {
    fn at(&self, _: Stage, done: u64, total: u64) -> ControlFlow<()> {
        self.at(done, total)
    }
}

/// Time from one line to the next, where progress goes into a file.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// Shows bytes done, bytes in all, and rate; nothing when standard error is not a terminal and no one asked for it.
pub struct Progress {
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { done: AtomicU64, total: u64, last: Mutex<Option<Instant>> },
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

    /// Sets how many bytes are done.
    pub fn done(&self, bytes: u64) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_position(bytes),
            Shown::Lines { done, .. } => {
                done.store(bytes, Ordering::Relaxed);
                self.shown.line(bytes, false);
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
        }
    }
}
