//! What a relation is, by its name's row in the catalog or by the records that touch it.

use super::relation_use::{IndexMethod, RelationUse, StorageKind};
use crate::parsers::catalog::RelKind;
use crate::types::Oid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelationKind {
    /// A table; without names also what only looks like one: a TOAST table, a materialized view.
    Table,
    MaterializedView,
    Toast,
    /// An index, with its access method where that is built in and known.
    Index(Option<IndexMethod>),
    Sequence,
    Unknown,
}

impl RelationKind {
    /// Judged by kind and access method as a list of names gives them, else by what records did.
    pub fn new(named: Option<RelKind>, method: Option<Oid>, activity: &RelationUse) -> Self {
        let by_records = match activity.kind() {
            Some(StorageKind::Heap) => Self::Table,
            Some(StorageKind::Index(method)) => Self::Index(Some(method)),
            Some(StorageKind::Sequence) => Self::Sequence,
            None => Self::Unknown,
        };
        match named {
            Some(RelKind::TABLE) => Self::Table,
            Some(RelKind::MATERIALIZED_VIEW) => Self::MaterializedView,
            Some(RelKind::TOAST) => Self::Toast,
            Some(RelKind::SEQUENCE) => Self::Sequence,
            Some(RelKind::INDEX) => match (method.and_then(IndexMethod::of_oid), by_records) {
                (None, Self::Index(method)) => Self::Index(method),
                (method, _) => Self::Index(method),
            },
            _ => by_records,
        }
    }

    pub const fn code(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::MaterializedView => "materialized_view",
            Self::Toast => "toast",
            Self::Index(_) => "index",
            Self::Sequence => "sequence",
            Self::Unknown => "unknown",
        }
    }

    /// The access method of an index, where it is known.
    pub(crate) const fn index_method(self) -> Option<IndexMethod> {
        match self {
            Self::Index(method) => method,
            _ => None,
        }
    }
}
