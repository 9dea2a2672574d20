//! Pages of indexes that name each other: which of them are not there, and what is said of the others.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::page_links::{BrokenLink, LinkFault, LinkReport};
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::slots::Suspicion;
use crate::types::{PageId, RelFileLocator};

/// Pages that are not there, or all zero, although another page of an index that the catalog has names them.
pub(super) fn named_but_absent(
    links: &LinkReport,
    exists: &dyn Fn(RelFileLocator) -> bool,
) -> BTreeMap<PageId, Vec<BrokenLink>> {
    let is_absent = |link: &&BrokenLink| matches!(link.fault, LinkFault::Zeroed | LinkFault::BeyondEnd);
    let mut named: BTreeMap<PageId, Vec<BrokenLink>> = BTreeMap::new();
    for link in links.broken.iter().filter(is_absent).filter(|link| exists(link.page.rel)) {
        named.entry(link.page).or_default().push(*link);
    }
    named
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
    let is_reported = |link: &BrokenLink| link.is_settled && !named.contains_key(&link.page) && !is_of_damaged(link);
    let mut findings = links.findings(&is_reported, exists, locate);
    let of_damaged = |link: &&BrokenLink| {
        unchecked && exists(link.page.rel) && !wrong.contains(&link.page) && wrong.contains(&link.namer())
    };
    let unheard: BTreeSet<PageId> = links.broken.iter().filter(of_damaged).map(|link| link.page).collect();
    if !unheard.is_empty() {
        findings.push(Finding::note(FindingKind::LinksOfDamagedPages { count: unheard.len() }));
    }
    findings
}

/// Adds pages that others name to those that look wrong.
pub(super) fn suspect_named(named: &BTreeMap<PageId, Vec<BrokenLink>>, suspects: &mut BTreeMap<PageId, Suspicion>) {
    for (page, links) in named {
        let is_zero = links.iter().any(|link| link.fault == LinkFault::Zeroed);
        let suspicion = if is_zero { Suspicion::Zeroed } else { Suspicion::BeyondEnd };
        suspects.entry(*page).or_insert(suspicion);
    }
}
