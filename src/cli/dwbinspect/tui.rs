//! `pg_dwbinspect tui`: triage after a crash on a screen.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::undo::OverrideArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop, UsageError};
use crate::cli::screen::{ScreenArgs, need_terminal, show, take_leave};
use crate::cli::values::PgDataToWrite;
use crate::cli::work::{DonorArgs, JobsArg, RebuildArg, ServerArgs};
use crate::inspect::error::open_data_dir;
use crate::tui::backend::cluster::ClusterBackend;
use crate::tui::state::Subject;

/// Terminal UI for a crashed cluster: damage, predicted startup, next steps
///
/// Opens with the triage and fills in while the cluster is being read: the findings of `check`, then batches, slots,
/// pages, WAL and the repair plan. ? shows the keys. Only the plan writes into the data directory, after you
/// type "apply". The exit status is that of `check`, and 2 where files have changed since
/// or a repeated check has failed or not ended.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct TuiArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgDataToWrite,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    donor: DonorArgs,
    #[command(flatten)]
    rebuild: RebuildArg,
    #[command(flatten)]
    replay: ServerArgs,
    #[command(flatten)]
    jobs: JobsArg,
    /// Journal of a repair that is not next to the data directory, to undo it; if it does not exist, the one of the next repair
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Open in guided mode: the step (understand, compare, rehearse, apply, verify) and the next key stay in view
    #[arg(long, help_heading = "Screen")]
    guide: bool,
    #[command(flatten)]
    screen: ScreenArgs,
    #[command(flatten)]
    overrides: OverrideArgs,
}

pub(super) fn run(args: &TuiArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    need_terminal("pg_dwbinspect check")?;
    // Files that cannot be checked are reported on the normal screen.
    let data_dir = args.pgdata.choose(args.data_dir.as_deref())?;
    let directory = open_data_dir(&data_dir)?;
    if directory.control().trusted().is_none() {
        return Err(UsageError::NothingCertain(data_dir.display().to_string()).into());
    }
    let (donors, rebuild) = (&args.donor.donors, args.rebuild.with(&args.replay, (false, "--rebuild"))?);
    let backend = ClusterBackend::new(&data_dir, &args.wal, donors, rebuild, args.jobs.count());
    let backend = match &args.journal {
        Some(journal) => backend.with_journal(journal.clone()),
        None => backend,
    };
    let backend = Arc::new(backend.overriding(args.overrides.overrides()));
    let subject = Subject { is_guided: args.guide, ..backend.subject() };
    let ended = show(subject, args.screen, backend)?;
    take_leave(&ended, out)
}
