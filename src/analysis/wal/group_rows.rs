//! Rows of groups, with what names say of relations: kinds, and the tables that indexes belong to.

use rustc_hash::FxHashMap;

use super::group::Groups;
use super::group_key::{GroupBy, Key, RowKey};
use super::likely_cause::LikelyCause;
use super::relation_kind::RelationKind;
use super::relation_use::{RelationUse, RelationUses};
use super::tally::Tally;
use crate::cluster::names::RelationNames;
use crate::types::RelFileLocator;

#[derive(Clone, Debug)]
pub struct GroupRow {
    pub key: RowKey,
    pub tally: Tally,
    /// What was done with it, where the row stands for a relation or for a table with its indexes.
    pub figures: Option<RelationFigures>,
}

/// What was done with a relation, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationFigures {
    /// What it is; of a table with its indexes, what the table is.
    pub kind: RelationKind,
    pub activity: RelationUse,
    pub distinct_blocks: u64,
    /// What its images probably come from; `None` of a table with its indexes, each of which has its own.
    pub likely_cause: Option<LikelyCause>,
}

impl RelationFigures {
    pub(crate) fn new(
        rel: RelFileLocator,
        uses: &RelationUses,
        distinct_blocks: u64,
        names: Option<&RelationNames>,
    ) -> Self {
        let activity = uses.of(rel);
        let kind = kind_of(rel, &activity, names);
        Self { kind, activity, distinct_blocks, likely_cause: LikelyCause::of(kind, &activity, distinct_blocks) }
    }

    fn add(&mut self, other: &Self) {
        self.activity.add(&other.activity);
        self.distinct_blocks = self.distinct_blocks.saturating_add(other.distinct_blocks);
        self.likely_cause = None;
    }
}

/// What a relation is, by its name and by what was done with it.
fn kind_of(rel: RelFileLocator, activity: &RelationUse, names: Option<&RelationNames>) -> RelationKind {
    let name = names.and_then(|names| names.get(rel));
    RelationKind::new(name.and_then(|name| name.kind), name.and_then(|name| name.access_method_oid), activity)
}

/// The rows of `groups` in the order of their keys. `uses`: what was done with the relations, where rows need it.
pub(crate) fn group_rows(groups: &Groups, uses: Option<&RelationUses>, names: Option<&RelationNames>) -> Vec<GroupRow> {
    let by = groups.by();
    let tables = names.filter(|_| by.has(GroupBy::Table)).map(RelationNames::tables).unwrap_or_default();
    let table_of = |rel: RelFileLocator| tables.get(&rel).copied().unwrap_or(rel);
    let name = |key: Key| match key {
        Key::Table(rel) => Key::Table(table_of(rel)),
        Key::RelationFork(rel, 0) => {
            let activity = uses.map(|uses| uses.of(rel)).unwrap_or_default();
            Key::Kind(kind_of(rel, &activity, names))
        }
        Key::RelationFork(_, fork_code) => Key::KindOfFork(fork_code),
        other => other,
    };
    let mut figures: FxHashMap<RelFileLocator, RelationFigures> = FxHashMap::default();
    if let Some(uses) = uses.filter(|_| by.is_of_relations()) {
        for (rel, blocks) in uses.distinct_blocks().into_iter().filter(|(rel, _)| groups.takes(*rel)) {
            let own = RelationFigures::new(rel, uses, blocks, names);
            figures.entry(table_of(rel)).and_modify(|sum| sum.add(&own)).or_insert(own);
        }
        for (rel, figures) in &mut figures {
            figures.kind = kind_of(*rel, &uses.of(*rel), names);
        }
    }
    let rows = groups.rows_as(&name).into_iter();
    rows.map(|(key, tally)| {
        let figures = match key.first {
            Key::Relation(rel) | Key::Table(rel) => figures.get(&rel).copied(),
            _ => None,
        };
        GroupRow { key, tally, figures }
    })
    .collect()
}
