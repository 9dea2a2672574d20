//! The work behind the screen of WAL: the analysis of `stats`, then stretch by stretch, then under other settings.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{ActionSender, Backend, FileStamps, export, hand_over, lock, quoted_paths};
use crate::analysis::plan::savings::{Savings, tried_spacings};
use crate::analysis::plan::whatif::WhatIfPlan;
use crate::analysis::wal::hidden_redo::HiddenRedo;
use crate::inspect::error::InspectError;
use crate::inspect::wal::kept::kept;
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::WalRequest;
use crate::inspect::wal::rules::HIDDEN_REDO;
use crate::inspect::wal::source::WalSource;
use crate::output::escape::quoted;
use crate::report::Severity;
use crate::tui::action::{Action, Effect};
use crate::tui::command_line::WALFPI;
use crate::tui::facts::{Progress, WalNames, WalSurvey, WindowSheet};
use crate::tui::state::{Subject, View};

pub(crate) struct WalBackend {
    request: WalRequest,
    /// WAL that was opened before the terminal UI started, until it is read.
    opened: Mutex<Option<WalSource>>,
    stamps: Mutex<FileStamps>,
    records: RecordSource,
}

impl WalBackend {
    /// Nothing read yet. `source`: what was opened for this request.
    pub fn new(request: WalRequest, source: WalSource) -> Self {
        Self { request, opened: Mutex::new(Some(source)), stamps: Mutex::default(), records: RecordSource::default() }
    }

    pub fn subject(&self) -> Subject {
        let paths: Vec<String> = self.request.paths.iter().map(|path| path.display().to_string()).collect();
        let arguments = arguments_of(&self.request);
        let has_own_wal = data_dir_of(&self.request.paths).is_some();
        Subject {
            program: WALFPI,
            path: paths.join(" "),
            wal_arguments: arguments.clone(),
            arguments,
            views: View::OF_WAL.into_iter().filter(|view| *view != View::Kept || has_own_wal).collect(),
            ..Subject::default()
        }
    }
}

impl Backend for WalBackend {
    fn work(&self, effect: Effect, sender: &ActionSender) {
        match effect {
            Effect::ReadWal => {
                let opened = lock(&self.opened).take();
                *lock(&self.stamps) = FileStamps::of(self.request.paths.iter().flat_map(|path| files_of(path)));
                tell_survey(&self.request, opened, &self.records, sender);
            }
            effect @ (Effect::ListRecords { .. } | Effect::ReadRecord { .. }) => {
                self.records.work(&self.request, effect, sender);
            }
            Effect::Export { name, text, json } => {
                hand_over(sender, Action::Failed, export(&name, &text, &json, self.request.protected()));
            }
            other => sender.action(Action::Failed(format!("this screen cannot do that: {other:?}"))),
        }
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }
}

/// The data directory, where its own WAL is read and no other.
pub(crate) fn data_dir_of(paths: &[PathBuf]) -> Option<&Path> {
    match paths {
        [only] if only.join("pg_wal").is_dir() => Some(only),
        _ => None,
    }
}

/// A path, and the files in it where it is a directory of WAL, or a data directory: a segment changes without its directory.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let inside = path.join("pg_wal");
    let directory = if inside.is_dir() { inside } else { path.to_owned() };
    // One that cannot be read is told by the reading itself.
    let files = std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.collect();
    files.push(directory);
    files
}

/// Counts by checkpoint, then by stretch, relation and cause, then replays under other settings, telling each as soon as
/// it is known. `source`: what was opened already. `records` gets what was opened.
pub(super) fn tell_survey(
    request: &WalRequest,
    source: Option<WalSource>,
    records: &RecordSource,
    sender: &ActionSender,
) {
    hand_over(sender, Action::WalFailed, survey(request, source, records, sender));
}

fn survey(
    request: &WalRequest,
    source: Option<WalSource>,
    records: &RecordSource,
    sender: &ActionSender,
) -> Result<Action, InspectError> {
    let mut source = source.map_or_else(|| WalSource::open(request), Ok)?;
    let mut names = NameLookup::open(request.names.as_deref())?;
    let tell = |what: &'static str| {
        move |done: u64, total: u64| {
            sender.progress(Action::WalProgressed, Progress { what, done, total, ..Progress::default() });
            ControlFlow::Continue(())
        }
    };
    source.take_names(&names)?;
    source.find_names(&mut names, request.jobs);
    let counted = source.count(None, request.jobs, &tell("reading WAL"));
    source.coverage.examined = counted.total.records;
    source.note_range_without_wal();
    let problems = source.findings.iter().filter(|finding| finding.severity == Severity::Problem);
    let (major, geometry) = (source.set.major(), source.set.geometry());
    let mut survey = WalSurvey {
        intervals: counted.intervals,
        total: counted.total,
        problems: problems.cloned().collect(),
        skipped: source.coverage.skipped.clone(),
        names: Arc::new(WalNames { lookup: names, major, geometry }),
        kept: data_dir_of(&request.paths).map(|path| kept(path).map(Arc::new).map_err(|error| error.to_string())),
        ..WalSurvey::default()
    };
    sender.action(Action::WalRead(Arc::new(survey.clone())));
    let tell_timeline = tell("counting relations and causes in WAL");
    if let Some(timeline) = source.once_more(|source| source.timeline(request.jobs, &tell_timeline)) {
        let all = WindowSheet::of(&survey, &timeline, 0..timeline.cells.len());
        survey.whole = Some(Arc::new(all));
        survey.timeline = Some(Arc::new(timeline));
    }
    survey.hidden = source
        .findings
        .iter()
        .filter(|finding| finding.is(&HIDDEN_REDO))
        .filter_map(|finding| finding.lsns.map(|(after, before)| HiddenRedo { after, before }))
        .collect();
    sender.action(Action::WalRead(Arc::new(survey.clone())));
    let plan = WhatIfPlan { spacings: tried_spacings(), completion_target: None };
    let tell_what_if = tell("replaying WAL under other settings");
    if let Some((mut what_if, ..)) =
        source.once_more(|source| source.replay_under(&plan, None, request.jobs, &tell_what_if))
    {
        if !source.is_whole() {
            what_if.mark_part();
        }
        survey.savings = Some(Arc::new(Savings::of(&what_if, None, major)));
    }
    survey.is_complete = true;
    records.take(source);
    Ok(Action::WalRead(Arc::new(survey)))
}

/// The WAL that single records are read from.
#[derive(Default)]
pub(super) struct RecordSource(Mutex<Option<WalSource>>);

impl RecordSource {
    fn take(&self, source: WalSource) {
        *lock(&self.0) = Some(source);
    }

    /// Lists records, or reads one. WAL is opened where it was not yet.
    pub(super) fn work(&self, request: &WalRequest, effect: Effect, sender: &ActionSender) {
        let mut source = lock(&self.0);
        if source.is_none() {
            if request.paths.iter().any(|path| path == Path::new("-")) {
                let words = "standard input can be read once only: its records can be listed when all is counted";
                return sender.action(Action::Failed(words.to_owned()));
            }
            match WalSource::open(request) {
                Ok(opened) => *source = Some(opened),
                Err(error) => return sender.action(Action::Failed(error.to_string())),
            }
        }
        let Some(source) = source.as_ref() else { return };
        match effect {
            Effect::ListRecords { from, to, causes } => {
                let list = source.list_records(from, to, causes.as_deref());
                sender.action(Action::RecordsListed(Arc::new(list)));
            }
            Effect::ReadRecord { at, causes } => sender.action(match source.record_sheet(at, &causes) {
                Ok(sheet) => Action::RecordRead(Arc::new(sheet)),
                Err(stopped) => Action::RecordFailed(at, stopped.to_string()),
            }),
            _ => {}
        }
    }
}

fn arguments_of(request: &WalRequest) -> String {
    let mut arguments = quoted_paths(&request.paths).join(" ");
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
