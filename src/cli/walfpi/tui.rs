//! `pg_walfpi tui`: full-page images in WAL as a screen.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;

use super::PROGRAM;
use super::names::{NameArgs, Names};
use super::screen::WalRequest;
use super::source::{SourceArgs, WalSource};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::screen::{ScreenArgs, export, need_terminal, show};
use crate::cli::stamps::Stamps;
use crate::cli::work::JobsArg;
use crate::output::shell::quoted;
use crate::tui::action::{Action, Effect};
use crate::tui::facts::WalNote;
use crate::tui::state::{Subject, View};
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
    // What cannot be opened is said on the normal screen.
    Names::open(&args.names)?;
    let source = WalSource::open(&args.source)?;
    let (named, _) = args.source.named()?;
    let paths: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
    let words: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let mut arguments = words.join(" ");
    if (args.source.path.is_some() || args.source.pgdata.is_some()) && !args.source.paths.is_empty() {
        // Read there, and only from one segment to another.
        let segments: Vec<String> = args.source.paths.iter().map(|path| path.display().to_string()).collect();
        arguments = format!("-p {arguments} {}", segments.join(" "));
    }
    for (flag, value) in [
        ("--start", args.source.start.map(|lsn| lsn.to_string())),
        ("--end", args.source.end.map(|lsn| lsn.to_string())),
        ("--timeline", args.source.timeline.map(|timeline| timeline.to_string())),
        ("--names", args.names.names.as_ref().map(|path| quoted(&path.display().to_string()))),
    ] {
        if let Some(value) = value {
            arguments.push_str(&format!(" {flag} {value}"));
        }
    }
    let subject = Subject {
        program: PROGRAM,
        path: paths.join(" "),
        wal_arguments: arguments.clone(),
        arguments,
        views: vec![View::Wal],
    };
    let range = args.source.clone();
    let names = NameArgs { names: args.names.names.clone() };
    let request = WalRequest { source: range, names, jobs: args.jobs.count() };
    let backend = WalBackend { request, opened: Mutex::new(Some(source)), stamps: Mutex::default() };
    let ended = show(subject, args.screen, Arc::new(backend))?;
    let Some(wal) = &ended.state.wal.survey else {
        writeln!(out, "left before WAL was read: nothing is known yet")?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    };
    for note in &wal.notes {
        writeln!(out, "{}", crate::output::escape::printable(&note.to_string()))?;
    }
    out.flush()?;
    let skipped = wal.notes.iter().filter(|note| matches!(note, WalNote::NotExamined(_))).count();
    Ok(Outcome::of(wal.notes.len() - skipped, skipped))
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
                *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) =
                    Stamps::of(self.request.source.named().map_or_else(|_| Vec::new(), |(paths, _)| paths));
                let source = opened.map_or_else(|| self.request.open(), Ok);
                if let Err(stop) = source.and_then(|source| self.request.read(source, sender)) {
                    sender.action(Action::WalFailed(stop.to_string()));
                }
            }
            Effect::Export { name, text, json } => match self.request.source.protected() {
                Ok(protected) => export(&name, &text, &json, &protected, sender),
                Err(stop) => sender.action(Action::Failed(stop.to_string())),
            },
            other => sender.action(Action::Failed(format!("this screen cannot do that: {other:?}"))),
        }
    }

    fn has_changed(&self) -> bool {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner).have_changed()
    }
}
