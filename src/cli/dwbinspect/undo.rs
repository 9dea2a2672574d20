//! `pg_dwbinspect undo`: puts the old bytes of a journal back; and what `repair --resume` shares with it.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::repair::write_undone;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop, UsageError};
use crate::cli::values::PgDataToWrite;
use crate::inspect::page_name::PageName;
use crate::inspect::repair::replay::{ReplayRequest, replay};
use crate::repair::apply::Direction;
use crate::repair::blocker::Overrides;

/// Blockers that may be overridden.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct OverrideArgs {
    /// Write into a cluster that was shut down cleanly
    #[arg(long, help_heading = "Overrides")]
    pub allow_shut_down: bool,
    /// Write into a standby or a cluster with recovery signal files
    #[arg(long, help_heading = "Overrides")]
    pub allow_standby: bool,
    /// Write although the data directory belongs to another user
    #[arg(long, help_heading = "Overrides")]
    pub allow_other_user: bool,
}

impl OverrideArgs {
    pub(super) const fn overrides(self) -> Overrides {
        Overrides {
            shut_down: self.allow_shut_down,
            standby: self.allow_standby,
            other_user: self.allow_other_user,
            moved: false,
        }
    }
}

/// Options to finish or undo a journal.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ReplayArgs {
    /// With a journal: skip pages that something else changed, or whose bytes the journal lost; write all others
    #[arg(long)]
    pub skip_changed: bool,
    /// Use a journal of an earlier version, though it cannot show whether a server was started since
    #[arg(long, help_heading = "Overrides")]
    pub allow_old_journal: bool,
    /// Use the journal although it belongs to another directory: the repaired one was moved or mounted again
    #[arg(long, help_heading = "Overrides", hide_short_help = true)]
    pub moved: bool,
}

impl ReplayArgs {
    pub(super) fn overrides(self, others: OverrideArgs) -> Overrides {
        Overrides { moved: self.moved, ..others.overrides() }
    }
}

/// Undo a repair: write the old bytes back
///
/// Refuses if a server was started after the repair: its pages are newer. Refuses another directory than the one that was
/// repaired, such as another copy of the cluster; --moved confirms that it is the same one, moved. Also refuses, before
/// anything is written,
/// if a page has neither the new nor the old bytes of the repair: --skip-changed leaves such pages as they are and
/// undoes the others, and --page selects pages. The exit status is 1 when pages were left.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS, allow_missing_positional = true)]
pub(crate) struct UndoArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgDataToWrite,
    /// Journal directory of the repair
    #[arg(value_name = "JOURNAL_DIR")]
    journal: PathBuf,
    /// Only these pages of the journal
    #[arg(long, value_name = "PAGE", value_delimiter = ',')]
    page: Vec<PageName>,
    #[command(flatten)]
    replay: ReplayArgs,
    #[command(flatten)]
    overrides: OverrideArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `undo`.
pub(super) fn run(args: &UndoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    if args.data_dir.is_none() && !args.pgdata.is_given() {
        return Err(UsageError::OnlyJournal(args.journal.display().to_string()).into());
    }
    let request = ReplayRequest {
        data_dir: args.pgdata.choose(args.data_dir.as_deref())?,
        journal: args.journal.clone(),
        direction: Direction::Back,
        pages: args.page.clone(),
        skip_changed: args.replay.skip_changed,
        allow_old_journal: args.replay.allow_old_journal,
        overrides: args.replay.overrides(args.overrides),
    };
    run_replay(&request, &args.output, out)
}

/// Finishes or undoes a journal, and reports the result.
pub(super) fn run_replay(request: &ReplayRequest, output: &OutputArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let written = replay(request)?;
    write_undone(out, output, &written.journal, &written.applied, request.direction)?;
    Ok(Outcome::of(written.applied.left.len(), 0))
}
