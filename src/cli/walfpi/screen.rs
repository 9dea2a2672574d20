//! What the screen shows of WAL: the analysis of `stats`, three times over.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::count::{count, count_causes};
use super::names::{NameArgs, Names};
use super::source::{SourceArgs, WalSource};
use crate::analysis::finding::Severity;
use crate::analysis::wal::group::{GroupBy, Groups, Key};
use crate::analysis::wal::tally::Tally;
use crate::cli::exit::Stop;
use crate::output::json::wal::Naming;
use crate::output::wal_text::name_of;
use crate::tui::action::Action;
use crate::tui::facts::{Progress, WalNote, WalSurvey};
use crate::tui::worker::ActionSender;

/// Relations that are kept.
const MAX_RELATIONS: usize = 200;

/// Which WAL is read, and how.
pub struct WalRequest {
    /// Paths and range.
    pub source: SourceArgs,
    /// Names of relations.
    pub names: NameArgs,
    /// Threads.
    pub jobs: usize,
}

impl WalRequest {
    /// The WAL of a data directory and of further paths.
    pub fn of_cluster(data_dir: PathBuf, further: &[PathBuf], jobs: usize) -> Self {
        let names = NameArgs { names: Some(data_dir.clone()) };
        let paths = std::iter::once(data_dir).chain(further.iter().cloned()).collect();
        Self { source: SourceArgs::of_paths(paths), names, jobs }
    }

    /// Opens the WAL.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(&self) -> Result<WalSource, Stop> {
        WalSource::open(&self.source)
    }

    /// Counts by checkpoint, then by relation, then by cause, telling each as soon as it is known.
    ///
    /// # Errors
    /// When names were asked for that cannot be read.
    pub fn read(&self, mut source: WalSource, sender: &ActionSender) -> Result<(), Stop> {
        let names = Names::open(&self.names)?;
        let plan = source.plan();
        let never = AtomicBool::new(false);
        watch(&mut source, "reading WAL", sender);
        let counted = count(&mut source, plan.clone(), None, self.jobs, &never);
        let problems = source.findings.iter().filter(|finding| finding.severity == Severity::Problem);
        let skipped = source.coverage.skipped.iter();
        let notes = problems
            .map(|finding| WalNote::Problem(format!("{}; {}", finding.kind, finding.kind.why())))
            .chain(skipped.map(|skipped| WalNote::NotExamined(format!("{}: {}", skipped.what, skipped.reason))))
            .collect();
        let mut survey =
            WalSurvey { intervals: counted.intervals, total: counted.total, relations: None, causes: None, notes };
        sender.action(Action::WalRead(Arc::new(survey.clone())));
        watch(&mut source, "counting relations in WAL", sender);
        let counted = count(&mut source, plan.clone(), Some(GroupBy::Relation), self.jobs, &never);
        survey.relations = Some(largest(counted.groups, GroupBy::Relation, &source, &names));
        sender.action(Action::WalRead(Arc::new(survey.clone())));
        watch(&mut source, "classifying causes of images", sender);
        let counted = count_causes(&mut source, plan, self.jobs, &never);
        survey.causes = Some(largest(counted.groups, GroupBy::Cause, &source, &names));
        sender.action(Action::WalRead(Arc::new(survey)));
        Ok(())
    }
}

fn watch(source: &mut WalSource, what: &'static str, sender: &ActionSender) {
    let (sender, total) = (sender.clone(), source.total_bytes());
    source.watched_by(Arc::new(move |done| {
        sender.progress(Action::WalProgressed, Progress { what, done, total });
    }));
}

/// Groups with the most image bytes, by name.
fn largest(groups: Option<Groups>, by: GroupBy, source: &WalSource, names: &Names) -> Vec<(String, Tally)> {
    let (relation, database) = (|rel| names.relation(rel), |oid| names.database(oid));
    let naming = Naming {
        major: source.set.major(),
        segment_size: source.set.geometry().wal_segment_size,
        relation: &relation,
        database: &database,
    };
    let mut rows: Vec<(Key, Tally)> = groups.as_ref().map(Groups::rows).unwrap_or_default();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.fpi_bytes));
    rows.truncate(MAX_RELATIONS);
    rows.iter().map(|(key, tally)| (name_of(by, key, tally, &naming), *tally)).collect()
}
