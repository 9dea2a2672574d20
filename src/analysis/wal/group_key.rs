//! What rows stand for: the ways to group, and the groups themselves.
//! Also here: what a relation is, by its name's row in the catalog or by the records that touch it.

use strum::IntoStaticStr;

use super::cause::Cause;
use super::hidden_redo::RedoInForce;
use super::relation_use::{IndexMethod, RelationUse, StorageKind};
use crate::parsers::catalog::RelKind;
use crate::parsers::image::Compression;
use crate::types::{BlockNumber, Oid, RelFileLocator, TimelineId};

/// A way to group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupBy {
    /// Resource manager.
    Rmgr,
    /// Resource manager and record type.
    Record,
    /// Relation.
    Relation,
    /// Fork.
    Fork,
    /// Single block.
    Block,
    /// Database.
    Database,
    /// Tablespace.
    Tablespace,
    /// How images are compressed.
    Compression,
    /// Segment file.
    Segment,
    /// Why images were written.
    Cause,
    /// Redo point in force.
    Checkpoint,
    /// Transaction; those of subtransactions count for the one at the top, where WAL tells it.
    Xid,
    /// Kind of the relation, or of its fork where that is not the main one.
    Kind,
    /// Table, with its indexes and its TOAST table.
    Table,
}

/// What a way to group looks at. Later ones are finer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grain {
    Record,
    Block,
    Image,
}

impl GroupBy {
    pub(crate) const fn grain(self) -> Grain {
        match self {
            Self::Rmgr | Self::Record | Self::Segment | Self::Checkpoint | Self::Xid => Grain::Record,
            Self::Relation
            | Self::Fork
            | Self::Block
            | Self::Database
            | Self::Tablespace
            | Self::Kind
            | Self::Table => Grain::Block,
            Self::Compression | Self::Cause => Grain::Image,
        }
    }
}

/// One way to group, or two at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The first key of a row.
    pub first: GroupBy,
    /// The second.
    pub second: Option<GroupBy>,
}

impl Grouping {
    /// Both keys at once.
    pub const fn pair(first: GroupBy, second: GroupBy) -> Self {
        Self { first, second: Some(second) }
    }

    /// True when rows stand for relations and nothing else, so that each can say what was done with it.
    pub(crate) fn is_of_relations(&self) -> bool {
        self.second.is_none() && matches!(self.first, GroupBy::Relation | GroupBy::Table)
    }

    /// True when one of the keys is this one.
    pub fn has(&self, by: GroupBy) -> bool {
        self.first == by || self.second == Some(by)
    }
}

impl From<GroupBy> for Grouping {
    fn from(first: GroupBy) -> Self {
        Self { first, second: None }
    }
}

/// One group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Resource manager.
    Rmgr(u8),
    /// Resource manager and the bits that give the type.
    Record(u8, u8),
    /// Relation.
    Relation(RelFileLocator),
    /// Code of the fork.
    Fork(u8),
    /// Relation, fork and block.
    Block(RelFileLocator, u8, BlockNumber),
    /// Database.
    Database(Oid),
    /// Tablespace.
    Tablespace(Oid),
    /// Images with a compression, or without any (`None`).
    Compression(Option<Compression>),
    /// Timeline and number of the segment.
    Segment(TimelineId, u64),
    /// Why an image was written.
    Cause(Cause),
    /// The last redo point at or before a record; `None`: before the first that is known.
    Checkpoint(Option<RedoInForce>),
    /// Transaction.
    Xid(u32),
    /// Table that a relation belongs to, or the relation itself.
    Table(RelFileLocator),
    /// Kind of a relation's main fork.
    Kind(RelationKind),
    /// Another fork of a relation of any kind: its code.
    KindOfFork(u8),
    /// Relation and code of a fork, of which the kind is known only in the end.
    RelationFork(RelFileLocator, u8),
    /// Records without a block, image or transaction to group them by.
    None,
}

/// The keys of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The first.
    pub first: Key,
    /// The second, where rows have two.
    pub second: Option<Key>,
}

impl From<Key> for RowKey {
    fn from(first: Key) -> Self {
        Self { first, second: None }
    }
}

/// Kind of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RelationKind {
    /// A table; without names also what only looks like one: a TOAST table, a materialized view.
    Table,
    /// A materialized view.
    MaterializedView,
    /// A TOAST table.
    Toast,
    /// An index, with its access method where that is built in and known.
    Index(Option<IndexMethod>),
    /// A sequence.
    Sequence,
    /// Not known.
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

    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// The access method of an index, where it is known.
    pub(crate) const fn index_method(self) -> Option<IndexMethod> {
        match self {
            Self::Index(method) => method,
            _ => None,
        }
    }
}
