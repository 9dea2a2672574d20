//! `pg_walfpi tui`: full-page images in WAL as a screen.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::args::{NameArgs, SourceArgs};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::screen::{ScreenArgs, need_terminal, show};
use crate::cli::work::JobsArg;
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::WalRequest;
use crate::inspect::wal::source::WalSource;
use crate::output::escape::printable;
use crate::tui::backend::wal::{WalBackend, data_dir_of};
use crate::tui::view::wal_notes;

/// Explore full-page images in a terminal UI: share per checkpoint, decay, relations, causes
///
/// Shows what `stats` prints, by checkpoint interval, relation and cause, and fills in while WAL is being read. ? shows
/// the keys. Nothing is written except the new files that the key e exports into the current directory.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct TuiArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    screen: ScreenArgs,
}

pub(super) fn run(args: &TuiArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    need_terminal("pg_walfpi stats")?;
    let request = args.source.request(args.jobs)?;
    // A data directory has the names itself.
    let is_named = |path: &&Path| NameLookup::open(Some(path)).is_ok_and(|names| names.is_whole());
    let own = data_dir_of(&request.paths).filter(is_named).map(Path::to_owned);
    let request = WalRequest { names: args.names.names.clone().or(own), ..request };
    // Errors of opening are printed before the terminal UI starts.
    NameLookup::open(request.names.as_deref())?;
    let source = WalSource::open(&request)?;
    let backend = WalBackend::new(request, source);
    let ended = show(backend.subject(), args.screen, Arc::new(backend))?;
    let Some(wal) = &ended.state.wal.survey else {
        writeln!(out, "quit before WAL was read: nothing is known yet")?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    };
    for note in wal_notes(wal) {
        writeln!(out, "{}", printable(&note))?;
    }
    out.flush()?;
    Ok(Outcome::of(wal.problems.len(), wal.skipped.len()))
}
