//! Resource managers and their names.

use std::fmt;

use super::version::FIRST_CUSTOM_RMGR;

/// Built-in resource managers in the order of their ids, the same in all majors.
///
/// Source: `src/include/access/rmgrlist.h`.
pub(crate) const RMGR_NAMES: [&str; 22] = [
    "XLOG",
    "Transaction",
    "Storage",
    "CLOG",
    "Database",
    "Tablespace",
    "MultiXact",
    "RelMap",
    "Standby",
    "Heap2",
    "Heap",
    "Btree",
    "Hash",
    "Gin",
    "Gist",
    "Sequence",
    "SPGist",
    "BRIN",
    "CommitTs",
    "ReplicationOrigin",
    "Generic",
    "LogicalMessage",
];

/// Id of the resource manager XLOG.
pub const RM_XLOG: u8 = 0;
/// Id of the resource manager Transaction.
pub const RM_XACT: u8 = 1;
/// Id of the resource manager Storage.
pub const RM_SMGR: u8 = 2;
/// Id of the resource manager CLOG.
pub(crate) const RM_CLOG: u8 = 3;
/// Id of the resource manager Database.
pub const RM_DBASE: u8 = 4;
/// Id of the resource manager Tablespace.
pub(crate) const RM_TBLSPC: u8 = 5;
/// Id of the resource manager MultiXact.
pub(crate) const RM_MULTIXACT: u8 = 6;
/// Id of the resource manager RelMap.
pub(crate) const RM_RELMAP: u8 = 7;
/// Id of the resource manager Standby.
pub(crate) const RM_STANDBY: u8 = 8;
/// Id of the resource manager Heap2.
pub const RM_HEAP2: u8 = 9;
/// Id of the resource manager Heap.
pub const RM_HEAP: u8 = 10;
/// Id of the resource manager Btree.
pub const RM_BTREE: u8 = 11;
/// Id of the resource manager Hash.
pub(crate) const RM_HASH: u8 = 12;
/// Id of the resource manager Gin.
pub(crate) const RM_GIN: u8 = 13;
/// Id of the resource manager Gist.
pub(crate) const RM_GIST: u8 = 14;
/// Id of the resource manager Sequence.
pub(crate) const RM_SEQUENCE: u8 = 15;
/// Id of the resource manager SPGist.
pub(crate) const RM_SPGIST: u8 = 16;
/// Id of the resource manager BRIN.
pub const RM_BRIN: u8 = 17;
/// Id of the resource manager CommitTs.
pub(crate) const RM_COMMIT_TS: u8 = 18;
/// Id of the resource manager ReplicationOrigin.
pub(crate) const RM_ORIGIN: u8 = 19;
/// Id of the resource manager Generic, which extensions use.
pub(crate) const RM_GENERIC: u8 = 20;
/// Id of the resource manager LogicalMessage.
pub(crate) const RM_MESSAGE: u8 = 21;

/// Name of a resource manager; displays as pg_waldump prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RmgrName {
    /// Built into the server.
    BuiltIn(&'static str),
    /// Brought by an extension, 128 to 255.
    Custom(u8),
    /// Neither: no server accepts this id.
    Unknown(u8),
}

/// Name of a record type; displays as pg_waldump prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordTypeName {
    /// A type of this major.
    Known(&'static str),
    /// No type of this major; holds the bits of `xl_info` that give the type.
    Unknown(u8),
}

impl fmt::Display for RmgrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(name) => f.pad(name),
            Self::Custom(id) => f.pad(&format!("custom{id:03}")),
            Self::Unknown(id) => f.pad(&format!("unknown{id:03}")),
        }
    }
}

impl fmt::Display for RecordTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => f.pad(name),
            Self::Unknown(info) => f.pad(&format!("UNKNOWN ({info:x})")),
        }
    }
}

/// Name of the resource manager with this id.
pub fn rmgr_name(rmgr_id: u8) -> RmgrName {
    match RMGR_NAMES.get(usize::from(rmgr_id)) {
        Some(name) => RmgrName::BuiltIn(name),
        None if rmgr_id >= FIRST_CUSTOM_RMGR => RmgrName::Custom(rmgr_id),
        None => RmgrName::Unknown(rmgr_id),
    }
}

/// The bits of `xl_info` that give the record type: the high 4, but in Transaction bit 0x80 is a flag.
pub(crate) const fn type_key(rmgr_id: u8, info: u8) -> u8 {
    if rmgr_id == RM_XACT { info & 0x70 } else { info & 0xF0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::version::Major;

    #[test]
    fn every_built_in_rmgr_has_a_name() {
        for major in Major::ALL {
            for id in 0..=major.facts().last_rmgr {
                assert!(matches!(rmgr_name(id), RmgrName::BuiltIn(_)), "{major}: {id}");
            }
        }
    }

    #[test]
    fn custom_rmgrs_are_numbered() {
        assert_eq!(rmgr_name(0).to_string(), "XLOG");
        assert_eq!(rmgr_name(21).to_string(), "LogicalMessage");
        assert_eq!(rmgr_name(22).to_string(), "unknown022");
        assert_eq!(rmgr_name(128).to_string(), "custom128");
    }
}
