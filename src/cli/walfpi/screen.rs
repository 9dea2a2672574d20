//! What the screen shows of WAL: the analysis of `stats`, three times over.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::analysis::finding::Severity;
use crate::analysis::wal::group::GroupBy;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::WalRequest;
use crate::inspect::wal::source::WalSource;
use crate::inspect::wal::stats::WalCounts;
use crate::output::json::wal::Naming;
use crate::output::wal_text::name_of;
use crate::tui::action::Action;
use crate::tui::facts::{Progress, WalSurvey};
use crate::tui::worker::ActionSender;

/// Relations that are kept.
const MAX_RELATIONS: usize = 200;

/// Counts by checkpoint, then by relation, then by cause, telling each as soon as it is known. `source`: what was opened
/// already.
///
/// # Errors
/// When there is no such WAL, or names were asked for that cannot be read.
pub fn tell_survey(request: &WalRequest, source: Option<WalSource>, sender: &ActionSender) -> Result<(), InspectError> {
    let mut source = source.map_or_else(|| WalSource::open(request), Ok)?;
    let names = NameLookup::open(request.names.as_deref())?;
    let count = |source: &mut WalSource, group, what| {
        source.count(group, request.jobs, &|done, total| {
            sender.progress(Action::WalProgressed, Progress { what, done, total });
            ControlFlow::Continue(())
        })
    };
    let counted = count(&mut source, None, "reading WAL");
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
    let counted = count(&mut source, Some(GroupBy::Relation), "counting relations in WAL");
    survey.relations = Some(largest(&counted, GroupBy::Relation, &source, &names));
    sender.action(Action::WalRead(Arc::new(survey.clone())));
    let counted = count(&mut source, Some(GroupBy::Cause), "classifying causes of images");
    survey.causes = Some(largest(&counted, GroupBy::Cause, &source, &names));
    sender.action(Action::WalRead(Arc::new(survey)));
    Ok(())
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
    rows.iter().map(|(key, tally)| (name_of(by, key, tally, &naming), *tally)).collect()
}
