//! Still the fourth stage: a page is put back without loss only with the rest of its table. Rows that point at pages which stay
//! as they were, and index entries of missing rows, are worse than a table that is outdated as a whole.

use std::collections::BTreeMap;

use super::input::NameInput;
use crate::analysis::verdict::compare::Comparison;
use crate::analysis::verdict::doubt::Doubt;
use crate::analysis::verdict::survey::PageReport;
use crate::types::{ForkNumber, Oid, PageId, RelFileLocator};

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
pub(super) fn weigh_tables(pages: &mut [PageReport], names: &NameInput<'_>) {
    let mut known: BTreeMap<RelFileLocator, Whole> = BTreeMap::new();
    let mut whole_of = |rel: RelFileLocator| {
        *known.entry(rel).or_insert_with(|| match (names.table_of)(rel) {
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
            let relation = (names.called)(page.rel);
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
