//! Changes of a page by its last records: the page is built as it was before and after each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Stage, Watch};
use super::error::InspectError;
use super::error::NotThen;
use super::page_at::{Moment, PagesAt, PagesAtRequest, build};
use super::page_history::{PageHistory, page_history};
use crate::analysis::page_diff::PageDiff;
use crate::analysis::verdict::events::BlockEvent;
use crate::rebuild::NotBuilt;
use crate::types::{Lsn, PageId};

/// Records whose changes are shown: the last ones. Each is one run of the server.
pub(crate) const MAX_STEPS: usize = 20;

#[derive(Debug)]
pub(crate) struct PageStep {
    /// Number of the record in the history of the page.
    pub number: u64,
    pub event: BlockEvent,
    /// Its changes, or why they are unknown.
    pub diff: Result<PageDiff, NotThen>,
}

/// Changes of a page by its last records.
pub(crate) struct PageChanges {
    pub history: PageHistory,
    pub steps: Vec<PageStep>,
}

/// Compares the versions of a page. `request` names no page: `page` is meant.
pub(crate) fn page_changes(
    request: &PagesAtRequest,
    page: PageId,
    watch: &dyn Watch,
) -> Result<PageChanges, InspectError> {
    let history = page_history(&request.of_wal(vec![page]), &|done, total| watch.at(Stage::Wal, done, total))?;
    let events = history.events(0);
    let first = events.len().saturating_sub(MAX_STEPS);
    let last: Vec<Step> = (first..events.len()).map(|index| Step::of(&history, page, index)).collect();
    let moments: BTreeSet<Lsn> = last.iter().flat_map(|step| [step.before, step.event.end_lsn]).collect();
    let wanted = moments.iter().map(|lsn| (page, Moment::At(*lsn))).collect();
    let PagesAt { pages, history, .. } = build(&PagesAtRequest { wanted, ..request.clone() }, history, watch)?;
    let results = pages.into_iter().map(|(_, _, result)| result.map(|at| at.built.bytes));
    let versions: BTreeMap<Lsn, Result<Vec<u8>, NotThen>> = moments.into_iter().zip(results).collect();
    let nothing = vec![0; history.block_size()];
    let steps = last.into_iter().map(|Step { number, event, before }| {
        let (old, new) = (versions.get(&before), versions.get(&event.end_lsn));
        let diff = match (old, new) {
            (Some(Ok(old)), Some(Ok(new))) => Ok(PageDiff::of(page, old, new)),
            // What a record builds where nothing was, it has changed from nothing.
            (Some(Err(NotThen::NotThere { .. })), Some(Ok(new))) if event.heals() => {
                Ok(PageDiff::of(page, &nothing, new))
            }
            (_, Some(Err(why))) | (Some(Err(why)), _) => Err(why.clone()),
            (None, _) | (_, None) => Err(NotThen::NotBuilt(NotBuilt::NoPage)),
        };
        PageStep { number, event, diff }
    });
    let steps = steps.collect();
    Ok(PageChanges { history, steps })
}

/// A record, and when the page is as it was before it.
struct Step {
    number: u64,
    event: BlockEvent,
    before: Lsn,
}

impl Step {
    fn of(history: &PageHistory, page: PageId, index: usize) -> Self {
        let events = history.events(0);
        let event = events.get(index).cloned().unwrap_or_default();
        // After the record before, which is built anyway, unless something may have happened in between.
        let previous = index.checked_sub(1).and_then(|index| events.get(index)).map(|previous| previous.end_lsn);
        let is_quiet = |end: &Lsn| history.is_quiet_between(page, *end, event.start_lsn);
        let before = previous.filter(is_quiet).unwrap_or(event.start_lsn);
        Self { number: index as u64 + 1, event, before }
    }
}
