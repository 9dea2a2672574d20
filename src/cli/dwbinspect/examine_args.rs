//! The cluster to check, and additional evidence.
//! Also here: progress of an examination on the terminal, and Ctrl-C.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;

use crate::analysis::verdict::check::Stage;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::Stop;
use crate::cli::work::{DonorArgs, JobsArg, ProgressArg, RebuildArg, ServerArgs, interrupt_flag};
use crate::inspect::check::{CheckRequest, Scope, Watch};
use crate::output::progress::Progress;

/// Arguments of `check` and `report`.
#[derive(Debug, Args)]
pub(crate) struct ExamineArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Check only pages that are in the double write buffer
    ///
    /// Other pages are read only when an image would be safe, and only to look for LSNs past the end of WAL. Missing pages
    /// that recovery needs are not searched for. Because a damaged page among the others may stop recovery, startup is
    /// unknown and the exit status 2 if no problem is found.
    #[arg(long)]
    dwb_only: bool,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    donor: DonorArgs,
    #[command(flatten)]
    rebuild: RebuildArg,
    /// Without checksums: rebuild each page from WAL if possible, and compare it with the disk
    ///
    /// A server of the same PostgreSQL version replays WAL in a sandbox, up to the LSN that each page has on disk. The result
    /// must equal the page, except for hint bits: then the page is proven intact, else torn. Pages without an image in WAL or
    /// in the double write buffer stay unproven; more WAL (--wal) and full_page_writes leave fewer of them.
    #[arg(long)]
    prove: bool,
    #[command(flatten)]
    replay: ServerArgs,
}

impl ExamineArgs {
    /// The request.
    ///
    /// # Errors
    /// When no data directory is given, or two are.
    pub fn request(&self, jobs: JobsArg) -> Result<CheckRequest, Stop> {
        Ok(CheckRequest {
            scope: if self.dwb_only { Scope::DwbPages } else { Scope::All },
            wal: self.wal.clone(),
            donors: self.donor.donors.clone(),
            jobs: jobs.count(),
            prove: self.prove.then(|| self.replay.options()),
            rebuild: self.rebuild.with(&self.replay, (self.prove, "--rebuild or --prove"))?,
            ..CheckRequest::of(self.pgdata.choose(self.data_dir.as_deref())?)
        })
    }
}

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
