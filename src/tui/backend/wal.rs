//! The work behind the screen of WAL: the analysis of `stats`, three times over.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::new_files::export;
use super::stamps::FileStamps;
use super::{hand_over, lock, quoted_paths};
use crate::analysis::finding::Severity;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::WalRequest;
use crate::inspect::wal::source::WalSource;
use crate::inspect::wal::stats::WalCounts;
use crate::output::json::wal::Naming;
use crate::output::shell::quoted;
use crate::output::wal_text::name_of;
use crate::tui::action::{Action, Effect};
use crate::tui::command_line::WALFPI;
use crate::tui::facts::{Progress, WalSurvey};
use crate::tui::state::{Subject, View};
use crate::tui::worker::{ActionSender, Backend};

/// Relations that are kept.
const MAX_RELATIONS: usize = 200;

/// Does the work on WAL.
pub struct WalBackend {
    request: WalRequest,
    /// What was opened before the screen came up, until it is read.
    opened: Mutex<Option<WalSource>>,
    stamps: Mutex<FileStamps>,
}

impl WalBackend {
    /// Nothing read yet. `source`: what was opened for this request.
    #[must_use]
    pub fn new(request: WalRequest, source: WalSource) -> Self {
        Self { request, opened: Mutex::new(Some(source)), stamps: Mutex::default() }
    }

    /// What the screen is about.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let paths: Vec<String> = self.request.paths.iter().map(|path| path.display().to_string()).collect();
        let arguments = arguments_of(&self.request);
        Subject {
            program: WALFPI,
            path: paths.join(" "),
            wal_arguments: arguments.clone(),
            arguments,
            views: vec![View::Wal],
        }
    }
}

impl Backend for WalBackend {
    fn work(&self, effect: Effect, sender: &ActionSender) {
        match effect {
            Effect::ReadWal => {
                let opened = lock(&self.opened).take();
                *lock(&self.stamps) = FileStamps::of(self.request.paths.clone());
                tell_survey(&self.request, opened, sender);
            }
            Effect::Export { name, text, json } => {
                let written = self.request.protected().and_then(|protected| export(&name, &text, &json, &protected));
                hand_over(sender, Action::Failed, written.map(Action::Exported));
            }
            other => sender.action(Action::Failed(format!("this screen cannot do that: {other:?}"))),
        }
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }
}

/// Counts by checkpoint, then by relation, then by cause, telling each as soon as it is known. `source`: what was opened
/// already.
pub(super) fn tell_survey(request: &WalRequest, source: Option<WalSource>, sender: &ActionSender) {
    hand_over(sender, Action::WalFailed, survey(request, source, sender));
}

fn survey(request: &WalRequest, source: Option<WalSource>, sender: &ActionSender) -> Result<Action, InspectError> {
    let mut source = source.map_or_else(|| WalSource::open(request), Ok)?;
    let mut names = NameLookup::open(request.names.as_deref())?;
    let count = |source: &mut WalSource, group, what| {
        source.count(group, request.jobs, &|done, total| {
            sender.progress(Action::WalProgressed, Progress { what, done, total });
            ControlFlow::Continue(())
        })
    };
    source.take_names(&names)?;
    names.add_from_wal(&source.set, request.jobs);
    let counted = count(&mut source, None, "reading WAL");
    source.coverage.examined = counted.total.records;
    source.note_empty_range();
    let problems = source.findings.iter().filter(|finding| finding.severity == Severity::Problem);
    let mut survey = WalSurvey {
        intervals: counted.intervals,
        total: counted.total,
        relations: None,
        causes: None,
        problems: problems.cloned().collect(),
        skipped: source.coverage.skipped.clone(),
    };
    sender.action(Action::WalRead(Arc::new(survey.clone())));
    let counted = count(&mut source, Some(GroupBy::Relation.into()), "counting relations in WAL");
    survey.relations = Some(largest(&counted, GroupBy::Relation, &source, &names));
    sender.action(Action::WalRead(Arc::new(survey.clone())));
    let counted = count(&mut source, Some(GroupBy::Cause.into()), "classifying causes of images");
    survey.causes = Some(largest(&counted, GroupBy::Cause, &source, &names));
    Ok(Action::WalRead(Arc::new(survey)))
}

/// Groups with the most image bytes, by name.
fn largest(counted: &WalCounts, by: GroupBy, source: &WalSource, names: &NameLookup) -> Vec<(String, Tally)> {
    let (relation, database) = (|rel| names.relation(rel), |oid| names.database(oid));
    let naming = Naming {
        major: source.set.major(),
        segment_size: source.set.geometry().wal_segment_size,
        relation: &relation,
        database: &database,
    };
    let mut rows = counted.rows();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.fpi_bytes));
    rows.truncate(MAX_RELATIONS);
    rows.iter().map(|(key, tally)| (name_of(by, &key.first, &naming), *tally)).collect()
}

/// The arguments with which another command reads the same.
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
