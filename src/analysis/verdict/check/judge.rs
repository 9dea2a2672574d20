//! Fourth stage: every suspect is examined and judged by itself.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::progress::{CheckProgress, Stage};
use crate::analysis::coverage::Coverage;
use crate::analysis::page_links::BrokenLink;
use crate::analysis::verdict::slots::{SlotRef, Suspicion, slots_of};
use crate::analysis::verdict::survey::{Context, PageReport};
use crate::types::PageId;

/// The suspects and the evidence against them.
pub(super) struct Suspects<'a> {
    pub(super) pages: &'a BTreeMap<PageId, Suspicion>,
    pub(super) slots: &'a [SlotRef],
    /// Those among the pages that others name, with all who name them.
    pub(super) named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    /// Also report those that turn out to be in order.
    pub(super) keep_all: bool,
}

pub(super) struct PagesJudged {
    /// Pages that something is wrong with, by identity.
    pub(super) pages: Vec<PageReport>,
    pub(super) coverage: Coverage,
}

pub(super) fn judge_pages(
    suspects: &Suspects<'_>,
    mut context: Context<'_>,
    progress: &CheckProgress<'_>,
) -> PagesJudged {
    let mut pages: Vec<PageReport> = Vec::new();
    let mut coverage = Coverage::default();
    // Pages that others name come last: which of these are damaged themselves is known by then.
    let (named, others): (Vec<_>, Vec<_>) =
        suspects.pages.iter().partition(|(page, _)| suspects.named.contains_key(page));
    let first_named = others.len();
    for (done, (page, suspicion)) in others.into_iter().chain(named).enumerate() {
        if done == first_named {
            context.named = believed(suspects.named, &pages, context.checksums);
        }
        match context.examine(*page, *suspicion, slots_of(suspects.slots, *page)) {
            Ok(found) => pages.extend(Some(found).filter(|found| found.is_wrong || suspects.keep_all)),
            Err(error) => coverage.skip_once(*page, error),
        }
        if progress.at(Stage::Pages, done as u64).is_break() {
            break;
        }
    }
    pages.sort_by_key(|found| found.page);
    coverage.append_once(context.unread.into_inner());
    PagesJudged { pages, coverage }
}

/// The pages that others name, each by the one that can best be believed. Where no checksum vouches for what a page says,
/// one that is damaged itself is not a witness: what it seems to name may never have been.
fn believed(
    named: &BTreeMap<PageId, Vec<BrokenLink>>,
    examined: &[PageReport],
    checksums: bool,
) -> BTreeMap<PageId, BrokenLink> {
    let damaged: FxHashSet<PageId> = examined.iter().filter(|found| found.is_wrong).map(|found| found.page).collect();
    let is_believed = |link: &&BrokenLink| checksums || !damaged.contains(&link.namer());
    let best = |links: &[BrokenLink]| links.iter().filter(is_believed).max_by_key(|link| link.is_settled).copied();
    named.iter().filter_map(|(page, links)| Some((*page, best(links)?))).collect()
}
