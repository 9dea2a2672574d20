//! Still the fourth stage: what is doubtful about the cluster as a whole counts against every image.
//! A page is put back without loss only with the rest of its table: rows that point at pages which stay as they were,
//! and index entries of missing rows, are worse than a table that is outdated as a whole.

use std::collections::BTreeMap;

use super::input::Witnesses;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::skipped::Coverage;
use crate::analysis::start::doubt::{Doubt, LsnWitness};
use crate::analysis::start::replay::Replay;
use crate::analysis::verdict::candidate::CandidateOutcome;
use crate::analysis::verdict::case::Case;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::names::RelationNames;
use crate::types::{ForkNumber, Lsn, Oid, PageId, RelFileLocator};

/// Sources of doubts in addition to WAL.
pub(super) struct DoubtSources<'a> {
    /// The newest LSN of a whole image that was copied under its lock, and its slot.
    pub(super) newest_written: Option<(Lsn, LsnWitness)>,
    /// Evidence from all pages about the end of WAL.
    pub(super) witnesses: Witnesses<'a>,
    /// The pages that something is wrong with.
    pub(super) pages: &'a [PageReport],
    pub(super) is_broken_off: bool,
}

/// Everything that is doubtful about the cluster as a whole, those doubts first that reading WAL gave. What could not be
/// examined counts too; what is read on the way and cannot be, is added to `coverage`.
pub(super) fn doubts_of_cluster(
    case: &Case<'_>,
    replay: &Replay,
    sources: DoubtSources<'_>,
    coverage: &mut Coverage,
) -> Vec<Doubt> {
    let mut doubts = replay.doubts.clone();
    doubts.extend(sources.newest_written.and_then(|(lsn, slot)| replay.doubt_of_page(lsn, slot)));
    let look = match sources.witnesses {
        Witnesses::Known { newest, doubts: known } => {
            doubts.extend(newest.and_then(|(lsn, page)| replay.doubt_of_page(lsn, page)));
            doubts.extend(known);
            None
        }
        Witnesses::Ask(look) => Some(look),
    };
    if sources.is_broken_off {
        doubts.push(Doubt::BrokenOff);
    }
    doubts.extend(doubts_of_damaged(replay, sources.pages, &case.names));
    let is_proven =
        |page: &PageReport| page.verdict.candidates.iter().any(|judged| judged.outcome == CandidateOutcome::Safe);
    let is_safe = |page: &PageReport| page.is_wrong && is_proven(page);
    if let Some(look) = look
        && !doubts.iter().any(Doubt::forbids_restore)
        && sources.pages.iter().any(|page| is_safe(page) || case.will_rebuild && matches!(page.rebuild, Some(Ok(_))))
    {
        let (mut more, unread) = look();
        // It read the same WAL to its end.
        more.retain(|doubt| !doubts.contains(doubt));
        doubts.extend(more);
        coverage.append_once(unread);
    }
    // After a shutdown no WAL is missing, however new a page is: it is from another time.
    if doubts.iter().any(Doubt::is_of_other_time) {
        doubts.retain(|doubt| !matches!(doubt, Doubt::PageAfterEnd { .. }));
    }
    if !doubts.iter().any(|doubt| matches!(doubt, Doubt::SomethingUnread { .. })) {
        let unread = Doubt::of_unread(&coverage.skipped, &doubts);
        doubts.extend(unread);
    }
    doubts
}

/// Evidence of damaged pages about the end of WAL: from their header, else from their newest image. A page with neither
/// left could have been the only one to show that WAL is missing.
fn doubts_of_damaged(replay: &Replay, pages: &[PageReport], names: &RelationNames) -> Vec<Doubt> {
    let Some(end_lsn) = replay.end_lsn else { return Vec::new() };
    let witness = |page: PageId| LsnWitness::Page { page, relation: names.called(page.rel) };
    let logged = || pages.iter().filter(|page| page.is_wrong && !page.is_unlogged);
    let latest_of = |page: &PageReport| {
        let lsn_of = |index: usize| page.verdict.candidates.get(index).map(|judged| judged.candidate.page_lsn);
        // Sectors of an image that reached the page: it was written, and WAL up to its LSN before that.
        let arrived = page.tear.as_ref().and_then(|tear| tear.newer).and_then(lsn_of);
        // A donor says nothing of what this cluster wrote.
        let own = || page.verdict.candidates.iter().filter(|judged| !judged.candidate.source.is_donor());
        let images = || own().map(|judged| judged.candidate.page_lsn).max();
        page.disk_lsn.max(arrived).or_else(images).map(|lsn| (lsn, page.page))
    };
    let newest = logged().filter_map(latest_of).max();
    let is_witness = |page: &&PageReport| page.is_silent && !replay.ends_in_shutdown();
    let silent: Vec<PageId> = logged().filter(is_witness).map(|page| page.page).collect();
    let past_end = newest.and_then(|(lsn, page)| replay.doubt_of_page(lsn, witness(page)));
    let silent = silent.first().map(|first| Doubt::SilentPages {
        witness: witness(*first),
        more: silent.len().saturating_sub(1),
        end_lsn,
    });
    past_end.into_iter().chain(silent).collect()
}

/// Relations that must be from the same time: a table with its indexes and its TOAST table, else the relation alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whole {
    Table { db_oid: Oid, table: Oid },
    Relation(RelFileLocator),
}

/// The first page of a table that stays as it is, and how many more there are.
struct Left {
    page: PageId,
    more: usize,
}

/// Counts pages that no replay brings against the other pages of their table.
pub(super) fn weigh_tables(pages: &mut [PageReport], names: &RelationNames) {
    let mut known: BTreeMap<RelFileLocator, Whole> = BTreeMap::new();
    let mut whole_of = |rel: RelFileLocator| {
        *known.entry(rel).or_insert_with(|| match names.table_of(rel) {
            Some(table) => Whole::Table { db_oid: rel.db_oid, table },
            None => Whole::Relation(rel),
        })
    };
    let mut left: BTreeMap<Whole, Left> = BTreeMap::new();
    for page in pages.iter().filter(|page| stays_behind(page)) {
        let page = page.page;
        left.entry(whole_of(page.rel))
            .and_modify(|left| left.more = left.more.saturating_add(1))
            .or_insert(Left { page, more: 0 });
    }
    if left.is_empty() {
        return;
    }
    for report in pages.iter_mut().filter(|report| report.is_wrong && !stays_behind(report)) {
        if let Some(Left { page, more }) = left.get(&whole_of(report.page.rel)) {
            let relation = names.called(page.rel);
            report.weigh_left_beside(Doubt::TableStaysBehind { relation, page: *page, more: *more });
        }
    }
}

/// True for a page that WAL fills, whose file ends before it, and that replay does not bring: there is nothing to overwrite.
fn stays_behind(report: &PageReport) -> bool {
    let is_settled = report.verdict.verdict.needs_nothing();
    report.is_wrong
        && !report.is_unlogged
        && !is_settled
        && report.page.fork == ForkNumber::Main
        && matches!(report.disk, Comparison::BeyondEnd | Comparison::MissingFile)
}
