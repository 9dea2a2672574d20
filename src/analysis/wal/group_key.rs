//! What rows stand for: the ways to group, and the groups themselves.

use super::cause::Cause;
use super::hidden_redo::RedoInForce;
use super::relation_kind::RelationKind;
use crate::parsers::image::Compression;
use crate::parsers::portable::{BadState, Portable, StateReader, Wrong};
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
pub(super) enum Grain {
    /// Records as a whole.
    Record,
    /// Block references.
    Block,
    /// Images.
    Image,
}

impl GroupBy {
    /// What it looks at.
    pub(super) const fn grain(self) -> Grain {
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
    #[must_use]
    pub const fn pair(first: GroupBy, second: GroupBy) -> Self {
        Self { first, second: Some(second) }
    }

    /// True when rows stand for relations and nothing else, so that each can say what was done with it.
    #[must_use]
    pub fn is_of_relations(&self) -> bool {
        self.second.is_none() && matches!(self.first, GroupBy::Relation | GroupBy::Table)
    }

    /// True when one of the keys is this one.
    #[must_use]
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

impl Portable for Key {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Rmgr(id) => (0_u8, id).put(out),
            Self::Record(id, key) => (1_u8, (id, key)).put(out),
            Self::Relation(rel) => (2_u8, rel).put(out),
            Self::Fork(code) => (3_u8, code).put(out),
            Self::Block(rel, code, block) => (4_u8, (rel, (code, block))).put(out),
            Self::Database(oid) => (5_u8, oid).put(out),
            Self::Tablespace(oid) => (6_u8, oid).put(out),
            Self::Compression(method) => (7_u8, method.map_or(0, code_of_compression)).put(out),
            Self::Segment(tli, number) => (8_u8, (tli, number)).put(out),
            Self::Cause(cause) => (9_u8, cause).put(out),
            Self::Checkpoint(redo) => (10_u8, redo).put(out),
            Self::Xid(xid) => (11_u8, xid).put(out),
            Self::Table(rel) => (12_u8, rel).put(out),
            Self::RelationFork(rel, code) => (13_u8, (rel, code)).put(out),
            // Kinds are made of the others in the end: records are never counted by them.
            Self::Kind(_) | Self::KindOfFork(_) | Self::None => 14_u8.put(out),
        }
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        Ok(match u8::get(from)? {
            0 => Self::Rmgr(Portable::get(from)?),
            1 => Self::Record(Portable::get(from)?, Portable::get(from)?),
            2 => Self::Relation(Portable::get(from)?),
            3 => Self::Fork(Portable::get(from)?),
            4 => Self::Block(Portable::get(from)?, Portable::get(from)?, Portable::get(from)?),
            5 => Self::Database(Portable::get(from)?),
            6 => Self::Tablespace(Portable::get(from)?),
            7 => Self::Compression(match u8::get(from)? {
                0 => None,
                1 => Some(Compression::Pglz),
                2 => Some(Compression::Lz4),
                3 => Some(Compression::Zstd),
                _ => return Err(at.wrong(Wrong::Unknown("compression"))),
            }),
            8 => Self::Segment(Portable::get(from)?, Portable::get(from)?),
            9 => Self::Cause(Portable::get(from)?),
            10 => Self::Checkpoint(Portable::get(from)?),
            11 => Self::Xid(Portable::get(from)?),
            12 => Self::Table(Portable::get(from)?),
            13 => Self::RelationFork(Portable::get(from)?, Portable::get(from)?),
            14 => Self::None,
            _ => return Err(at.wrong(Wrong::Unknown("key"))),
        })
    }
}

const fn code_of_compression(method: Compression) -> u8 {
    match method {
        Compression::Pglz => 1,
        Compression::Lz4 => 2,
        Compression::Zstd => 3,
    }
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
