//! References between pages of indexes: missing pages, and contradictions.
//! Also here: effects of WAL after the redo point that explain missing files: files that it removes, and bits of
//! visibility maps that it clears.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::Remarks;
use super::prove::Prover;
use crate::analysis::changes::needed::Suspicion;
use crate::analysis::pages::page_links::{BrokenLink, LINKS_OF_DAMAGED_PAGES, LinkFault, LinkReport};
use crate::analysis::skipped::SkippedPart;
use crate::analysis::start::server_files::ServerFiles;
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::symptom::ImpossibleLinks;
use crate::report::Finding;
use crate::types::{Lsn, PageId, RelFileLocator};

/// Missing or zero-filled pages that another page of an index in the catalog refers to. `unchecked`: no
/// checksum vouches for the pages, so one that names what cannot have been is itself in doubt.
pub(super) fn named_but_absent(
    links: &LinkReport,
    unchecked: bool,
    exists: &dyn Fn(RelFileLocator) -> bool,
) -> BTreeMap<PageId, Vec<BrokenLink>> {
    let is_absent = |link: &&BrokenLink| matches!(link.fault, LinkFault::Zeroed | LinkFault::BeyondEnd);
    let mut named: BTreeMap<PageId, Vec<BrokenLink>> = BTreeMap::new();
    let is_believed = |link: &&BrokenLink| !(unchecked && link.is_impossible);
    for link in links.broken.iter().filter(is_absent).filter(is_believed).filter(|link| exists(link.page.rel)) {
        named.entry(link.page).or_default().push(*link);
    }
    named
}

/// Pages that name others that cannot have been, of indexes that the catalog has.
pub(super) fn impossible_namers(
    links: &LinkReport,
    exists: &dyn Fn(RelFileLocator) -> bool,
) -> BTreeMap<PageId, ImpossibleLinks> {
    let mut namers: BTreeMap<PageId, ImpossibleLinks> = BTreeMap::new();
    for link in links.broken.iter().filter(|link| link.is_impossible && exists(link.page.rel)) {
        let found = namers.entry(link.namer()).or_insert(ImpossibleLinks { first: link.page.block, count: 0 });
        found.count = found.count.saturating_add(1);
        found.first = found.first.min(link.page.block);
    }
    namers
}

/// Findings about links between pages that are not reported as such. Where no checksum vouches for the pages, a link from
/// or to a damaged one says nothing but that: `unchecked`.
pub(super) fn link_findings(
    links: &LinkReport,
    named: &BTreeMap<PageId, Vec<BrokenLink>>,
    report: &CheckReport,
    unchecked: bool,
    exists: &dyn Fn(RelFileLocator) -> bool,
    locate: &dyn Fn(PageId) -> (String, u64),
) -> Vec<Finding> {
    let wrong: HashSet<PageId> = report.pages.iter().filter(|page| page.is_wrong).map(|page| page.page).collect();
    let is_of_damaged = |link: &BrokenLink| unchecked && (wrong.contains(&link.namer()) || wrong.contains(&link.page));
    // Nothing shows that the page is damaged that names what cannot have been: then that is gone, and no replay makes it.
    let holds = |link: &BrokenLink| link.is_settled || (unchecked && link.is_impossible);
    let is_reported = |link: &BrokenLink| holds(link) && !named.contains_key(&link.page) && !is_of_damaged(link);
    let mut findings = links.findings(&is_reported, exists, locate);
    let of_damaged = |link: &&BrokenLink| {
        unchecked && exists(link.page.rel) && !wrong.contains(&link.page) && wrong.contains(&link.namer())
    };
    let unheard: BTreeSet<PageId> = links.broken.iter().filter(of_damaged).map(|link| link.page).collect();
    if !unheard.is_empty() {
        findings.push(
            LINKS_OF_DAMAGED_PAGES.note(format!("index pages that only damaged pages contradict: {}", unheard.len())),
        );
    }
    findings
}

/// Adds pages that others name to those that look wrong, and pages that name what cannot have been.
pub(super) fn suspect_named(
    named: &BTreeMap<PageId, Vec<BrokenLink>>,
    impossible: &BTreeMap<PageId, ImpossibleLinks>,
    suspects: &mut BTreeMap<PageId, Suspicion>,
) {
    for namer in impossible.keys() {
        suspects.entry(*namer).or_insert(Suspicion::Differs);
    }
    for (page, links) in named {
        let is_zero = links.iter().any(|link| link.fault == LinkFault::Zeroed);
        let suspicion = if is_zero { Suspicion::Zeroed } else { Suspicion::BeyondEnd };
        suspects.entry(*page).or_insert(suspicion);
    }
}

/// Settles by WAL what is missing unless WAL removes it, and which marks of pages and bits of maps replay puts in order. WAL is
/// read for that only if there is any. What cannot be read settles nothing.
pub(super) fn settle(
    prover: &Prover<'_>,
    files: &mut ServerFiles,
    broken: &mut Vec<BrokenLink>,
    remarks: &mut Remarks,
) {
    let is_mark = |link: &BrokenLink| link.fault == LinkFault::NotAllVisible;
    let replay = &prover.case.replay;
    let replays = replay.recovery.replays();
    if files.unless_removed.is_empty() && !(replays && broken.iter().any(is_mark)) {
        return;
    }
    let set = prover.case.wal.most();
    let known = set.map(|set| prover.read_to_the_end(set, &mut |_| {}, remarks)).transpose();
    let known = known.unwrap_or_else(|why| {
        remarks.coverage.skip(SkippedPart::LostWrites, why);
        None
    });
    let redo_lsn = replay.redo_lsn.unwrap_or_default();
    let before_redo = Lsn(redo_lsn.0.saturating_sub(1));
    let known = known.as_ref();
    let is_removed = |page| known.is_some_and(|known| known.removes_since(page, before_redo, redo_lsn));
    files.settle(is_removed, |page| known.is_some_and(|known| known.is_made_in_replay(page)));
    if replays {
        let is_replayed = |page, is_whole| known.is_some_and(|known| known.is_in_replay(page, is_whole));
        broken.retain(|link| {
            !is_mark(link)
                || !(is_removed(link.page) || is_replayed(link.page, false) || is_replayed(link.namer(), true))
        });
    }
}
