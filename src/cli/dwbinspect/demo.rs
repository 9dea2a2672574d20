//! `pg_dwbinspect demo`: a crashed cluster to try everything on.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::inspect::error::InspectError;
use crate::output::escape::quoted;
use crate::repair::demo::DemoCluster;

/// Try everything on a small crashed cluster that comes with the program
///
/// Unpacks the data directory of a server with a double write buffer that was killed in the middle of a checkpoint: it does not start, seven
/// pages are torn, and six of them can be repaired without loss. With DIR it is created there, and the commands to try are
/// printed. Without DIR
/// it is shown in the terminal UI in guided mode, in a temporary directory that is removed afterwards: look around, repair it,
/// undo the repair.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct DemoArgs {
    /// Put it into this directory, which must be empty or not exist yet, and leave it there
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[cfg(feature = "tui")]
    #[command(flatten)]
    screen: crate::cli::screen::ScreenArgs,
}

pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    match &args.directory {
        Some(directory) => put(directory, out),
        None => show(args, out),
    }
}

/// Leaves the cluster in a directory and prints commands to try.
fn put(directory: &Path, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let demo = DemoCluster::at(directory).map_err(InspectError::from)?;
    let data = quoted(&demo.data_dir().display().to_string());
    writeln!(out, "Created a crashed cluster in {data}. Try:\n")?;
    for (command, what) in [
        ("check", "find damaged pages and predict startup"),
        ("check --explain", "the same with the proof for each page"),
        ("tui", "the same in the terminal UI"),
        ("repair", "show the plan of a repair; --apply runs it"),
    ] {
        writeln!(out, "  pg_dwbinspect {command} {data}\n      {what}")?;
    }
    Ok(Outcome::Clean)
}

/// Shows the cluster in the terminal UI, and removes it.
#[cfg(feature = "tui")]
fn show(args: &DemoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    use std::sync::Arc;

    use crate::analysis::in_order::all_cores;
    use crate::cli::screen;
    use crate::tui::backend::cluster::ClusterBackend;
    use crate::tui::state::Subject;

    screen::need_terminal("pg_dwbinspect demo DIR")?;
    let demo = DemoCluster::temporary().map_err(InspectError::from)?;
    let backend = Arc::new(ClusterBackend::new(demo.data_dir(), &[], &[], None, all_cores()));
    let subject = Subject { is_guided: true, ..backend.subject() };
    let ended = screen::show_until(subject, args.screen, backend, || demo.remove().map_err(InspectError::from))?;
    if ended.state.plan.applied.is_some() {
        writeln!(out, "The demo was repaired, and is removed. Everything you did works the same on a real cluster.")?;
    } else {
        writeln!(out, "The demo is removed. To keep one: pg_dwbinspect demo DIR")?;
    }
    Ok(Outcome::Clean)
}

/// This program has no terminal UI.
#[cfg(not(feature = "tui"))]
fn show(_args: &DemoArgs, _out: &mut dyn Write) -> Result<Outcome, Stop> {
    Err(crate::cli::usage::UsageError::DemoNeedsDirectory.into())
}
