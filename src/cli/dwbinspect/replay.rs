//! `pg_dwbinspect undo` and `repair --resume`: a journal taken back or finished; and what stands before every write.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::PROGRAM;
use super::repair_text::write_undone;
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::PgDataToWrite;
use crate::cli::exit::{Outcome, Stop};
use crate::cluster::data_dir::DataDir;
use crate::cluster::relation_path::RelationPaths;
use crate::inspect::dwb_source::protected_of;
use crate::inspect::error::open_data_dir;
use crate::inspect::page_name::PageName;
use crate::output::shell::quoted;
use crate::parsers::control::ControlFile;
use crate::repair::apply::{ApplyError, Cluster, Direction, Order, Stopped, carry_out};
use crate::repair::blocker::{Blocker, Overrides, RepairLock, find_blockers};
use crate::repair::journal::Journal;
use crate::types::PageId;

/// Guards that may be overridden.
#[derive(Clone, Copy, Debug, Default, Args)]
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
        Overrides { shut_down: self.allow_shut_down, standby: self.allow_standby, other_user: self.allow_other_user }
    }
}

/// How a journal is carried out again or taken back.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct ReplayArgs {
    /// With a journal: leave pages as they are that were changed by somebody else since, or whose bytes the journal has
    /// lost, and do the others
    #[arg(long)]
    pub skip_changed: bool,
    /// With a journal of an earlier version, which cannot tell whether a server was started since: use it all the same
    #[arg(long, help_heading = "Overrides")]
    pub allow_old_journal: bool,
}

/// Put the bytes back that a repair overwrote
///
/// Refuses when a server was started since: its pages are newer. Refuses, before anything is written, when a page is
/// neither what the repair wrote nor what it overwrote; --skip-changed leaves such pages as they are and puts the others
/// back, and --page chooses. Exit status 1 when pages were left.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS, allow_missing_positional = true)]
pub struct UndoArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgDataToWrite,
    /// The journal of the repair
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
pub(super) fn run_undo(args: &UndoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let replay = Replaying {
        data_dir: &args.pgdata.choose(args.data_dir.as_deref())?,
        journal: &args.journal,
        pages: &args.page,
        overrides: args.overrides.overrides(),
        args: args.replay,
        direction: Direction::Back,
    };
    replay.run(&args.output, out)
}

/// A journal that is carried out again or taken back.
pub(super) struct Replaying<'a> {
    /// Of the cluster.
    pub data_dir: &'a Path,
    /// Its directory.
    pub journal: &'a Path,
    /// Only these pages, if there are any.
    pub pages: &'a [PageName],
    /// Guards that are overridden.
    pub overrides: Overrides,
    /// How.
    pub args: ReplayArgs,
    /// Which way.
    pub direction: Direction,
}

impl Replaying<'_> {
    pub(super) fn run(&self, output: &OutputArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
        let stop = |error: &dyn std::fmt::Display| Stop::Input(error.to_string());
        let (lock, directory) = guarded(self.data_dir, self.overrides)?;
        let control =
            directory.control().trusted().ok_or_else(|| Stop::Input("pg_control cannot be trusted".to_owned()))?;
        let owners = lock.journal_owners(self.overrides).map_err(|error| stop(&error))?;
        let journal = Journal::open(self.journal, &owners).map_err(|error| stop(&error))?;
        journal.demand_outside(&protected_of(&directory)?).map_err(|error| stop(&error))?;
        let paths = paths_of(&directory, control);
        let only = (!self.pages.is_empty()).then(|| self.find_pages(&journal, &paths)).transpose()?;
        let order = Order {
            direction: self.direction,
            only,
            skip_changed: self.args.skip_changed,
            allow_old_journal: self.args.allow_old_journal,
        };
        let cluster = Cluster {
            lock: &lock,
            system_identifier: control.prefix.system_identifier,
            block_size: usize::try_from(control.geometry.block_size).unwrap_or_default(),
            paths: &paths,
        };
        let applied = carry_out(cluster, &journal, &order, |_| true)
            .map_err(|stopped| told(&stopped, directory.root(), &journal))?;
        write_undone(out, output, &journal, &applied, self.direction)?;
        Ok(Outcome::of(applied.left.len(), 0))
    }

    fn find_pages(&self, journal: &Journal, paths: &RelationPaths) -> Result<Vec<PageId>, Stop> {
        let pages: Vec<PageId> = journal.manifest().entries.iter().filter_map(|entry| entry.page.page_id()).collect();
        let find = |name: &PageName| {
            let found: Vec<PageId> = pages.iter().copied().filter(|page| name.matches(*page, paths, None)).collect();
            match found[..] {
                [page] => Ok(page),
                [] => Err(Stop::Input(format!("the journal holds no page {name}"))),
                _ => Err(Stop::Input(format!("{name} stands for several pages: give the path of the file"))),
            }
        };
        self.pages.iter().map(find).collect()
    }
}

/// What a user is told of a walk that did not come to its end: what was written, and the ways on.
pub(super) fn told(stopped: &Stopped, root: &Path, journal: &Journal) -> Stop {
    let (data, undo) = (quoted(&root.display().to_string()), quoted(&journal.directory().display().to_string()));
    let skip = match &stopped.error {
        ApplyError::Changed(_) => " --skip-changed",
        ApplyError::Journal(_) | ApplyError::Access(_) | ApplyError::CutOff => "",
        // A server that got as far as pg_control closes both ways for good.
        ApplyError::ServerAppeared(_) => {
            return Stop::Input(format!(
                "{stopped}\nthe old bytes are in {undo}; stop the server before anything else"
            ));
        }
        // Neither way is open.
        _ => return Stop::Input(stopped.to_string()),
    };
    let what = if skip.is_empty() { "" } else { "; what others have changed stays as it is" };
    Stop::Input(format!(
        "{stopped}\nthe old bytes are in {undo}{what}\nto finish:       {PROGRAM} repair {data} --resume {undo}{skip}\n\
         to take it back: {PROGRAM} undo {data} {undo}{skip}"
    ))
}

fn paths_of(directory: &DataDir, control: &ControlFile) -> RelationPaths {
    RelationPaths::new(directory.major(), control.prefix.catalog_version_no, control.geometry.rel_segment_blocks)
}

/// Takes the lock, then looks whether anything forbids writing.
pub(super) fn guarded(data_dir: &Path, overrides: Overrides) -> Result<(RepairLock, DataDir), Stop> {
    // Says what is wrong with a path that is no data directory before anything is locked.
    open_data_dir(data_dir)?;
    let lock = RepairLock::take(data_dir).map_err(|blocker| Stop::Input(list_blockers(&[blocker])))?;
    let directory = open_data_dir(data_dir)?;
    let blockers = find_blockers(&directory, overrides);
    if blockers.is_empty() { Ok((lock, directory)) } else { Err(Stop::Input(list_blockers(&blockers))) }
}

fn list_blockers(blockers: &[Blocker]) -> String {
    let lines: Vec<String> = blockers.iter().map(|blocker| format!("refused: {blocker}")).collect();
    lines.join("\n")
}
