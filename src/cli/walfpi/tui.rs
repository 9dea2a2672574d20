//! `pg_walfpi tui`: full-page images in WAL as a screen.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;

use super::PROGRAM;
use super::args::{NameArgs, SourceArgs, path_texts};
use super::screen::tell_survey;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::screen::{ScreenArgs, export, need_terminal, show};
use crate::cli::stamps::Stamps;
use crate::cli::work::JobsArg;
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::WalRequest;
use crate::inspect::wal::source::WalSource;
use crate::output::escape::printable;
use crate::output::shell::quoted;
use crate::tui::action::{Action, Effect};
use crate::tui::state::{Subject, View};
use crate::tui::view::wal_notes;
use crate::tui::worker::{ActionSender, Backend};

/// Look at full-page images in WAL on a screen: share per checkpoint, decay, relations, causes
///
/// Shows what `stats` prints, by checkpoint interval, relation and cause, and fills in while WAL is being read. ? shows
/// the keys. Nothing is written but what e exports into new files in the current directory.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct TuiArgs {
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
    let request = WalRequest { names: args.names.names.clone(), ..args.source.request(args.jobs)? };
    // What cannot be opened is said on the normal screen.
    NameLookup::open(request.names.as_deref())?;
    let source = WalSource::open(&request)?;
    let arguments = arguments_of(&request);
    let subject = Subject {
        program: PROGRAM,
        path: path_texts(&request).join(" "),
        wal_arguments: arguments.clone(),
        arguments,
        views: vec![View::Wal],
    };
    let backend = WalBackend { request, opened: Mutex::new(Some(source)), stamps: Mutex::default() };
    let ended = show(subject, args.screen, Arc::new(backend))?;
    let Some(wal) = &ended.state.wal.survey else {
        writeln!(out, "left before WAL was read: nothing is known yet")?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    };
    for note in wal_notes(wal) {
        writeln!(out, "{}", printable(&note))?;
    }
    out.flush()?;
    Ok(Outcome::of(wal.problems.len(), wal.skipped.len()))
}

/// The arguments with which another command reads the same.
fn arguments_of(request: &WalRequest) -> String {
    let paths: Vec<String> = path_texts(request).iter().map(|path| quoted(path)).collect();
    let mut arguments = paths.join(" ");
    if let Some(first) = &request.span.first {
        // Read there, and only from one segment to another.
        let last = request.span.last.iter().filter(|last| *last != first);
        let segments: Vec<&str> = std::iter::once(first).chain(last).map(String::as_str).collect();
        arguments = format!("-p {arguments} {}", segments.join(" "));
    }
    for (flag, value) in [
        ("--start", request.start.map(|lsn| lsn.to_string())),
        ("--end", request.end.map(|lsn| lsn.to_string())),
        ("--timeline", request.timeline.map(|timeline| timeline.0.to_string())),
        ("--names", request.names.as_ref().map(|path| quoted(&path.display().to_string()))),
    ] {
        if let Some(value) = value {
            arguments.push_str(&format!(" {flag} {value}"));
        }
    }
    arguments
}

/// Does the work on WAL.
pub struct WalBackend {
    request: WalRequest,
    /// What was opened before the screen came up, until it is read.
    opened: Mutex<Option<WalSource>>,
    stamps: Mutex<Stamps>,
}

impl Backend for WalBackend {
    fn work(&self, effect: Effect, sender: &ActionSender) {
        match effect {
            Effect::ReadWal => {
                let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
                *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = Stamps::of(self.request.paths.clone());
                if let Err(error) = tell_survey(&self.request, opened, sender) {
                    sender.action(Action::WalFailed(error.to_string()));
                }
            }
            Effect::Export { name, text, json } => match self.request.protected() {
                Ok(protected) => export(&name, &text, &json, &protected, sender),
                Err(error) => sender.action(Action::Failed(error.to_string())),
            },
            other => sender.action(Action::Failed(format!("this screen cannot do that: {other:?}"))),
        }
    }

    fn has_changed(&self) -> bool {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner).have_changed()
    }
}
