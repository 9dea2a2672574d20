//! Files that a server needs in addition to pages, WAL and `pg_control`: directories, maps of file numbers, and the
//! version of each database.

use std::path::Path;

use super::data_dir::{DataDir, VERSION_LIMIT_BYTES};
use super::open::{AccessError, Links, linked_directory, read_small, real_directories};
use crate::parsers::error::ParseError;
use crate::parsers::filenode_map::{FilenodeMap, FilenodeMapFault};
use crate::parsers::state_files::StateFault;
use crate::parsers::wal::timeline::HistoryError;

/// Longest `pg_filenode.map` that is read, in bytes.
const MAP_LIMIT_BYTES: u64 = 4096;

/// Something is wrong with a file that a server needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileFault {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Map(FilenodeMapFault),
    #[error(transparent)]
    Short(ParseError),
    #[error("{found} bytes, this major version reads {expected}")]
    Length {
        /// Bytes of the file.
        found: usize,
        /// Bytes that are read.
        expected: usize,
    },
    /// It ends before the state of a transaction that a table may name.
    #[error("it ends before offset {offset} is complete, where the ends of transactions up to {last_xid} stand")]
    XactsCut {
        last_xid: u64,
        /// Offset of the page in the file.
        offset: u64,
    },
    /// A page of it says of no transaction how it ended.
    #[error("only zeros at offset {offset}, where the outcomes of transactions from {first_xid} should be")]
    XactsZero {
        first_xid: u64,
        /// Offset of the page in the file.
        offset: u64,
    },
    /// It ends before a page that something may be looked up in.
    #[error("it ends before the page at offset {offset} is complete")]
    PageCut {
        /// Offset of the page in the file.
        offset: u64,
    },
    /// Such a page is all zero.
    #[error("only zeros at offset {offset}")]
    PageZero {
        /// Offset of the page in the file.
        offset: u64,
    },
    /// It cannot be read as the history of a timeline.
    #[error(transparent)]
    History(HistoryError),
    /// Nothing says how the transaction ended that it is of.
    #[error("of transaction {xid}, for which pg_xact has no file")]
    XactUnknown { xid: u32 },
    #[error(transparent)]
    State(StateFault),
    #[error("says {found:?}, but the cluster has major version {expected}")]
    Version { found: String, expected: &'static str },
}

impl FileFault {
    /// True when the system does not let this user open what is there: then nothing is known of it.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Access(error) if error.is_denied())
    }
}

/// The bytes of the map in a directory, relative to the data directory.
pub(super) fn read_map_bytes(root: &Path, directory: &Path) -> Result<Vec<u8>, AccessError> {
    let relative = directory.join("pg_filenode.map");
    real_directories(root, &relative)?;
    read_small(&root.join(&relative), Links::Refuse, MAP_LIMIT_BYTES)
}

/// The map in a directory as a server of this major takes it.
pub(crate) fn usable_map(directory: &DataDir, of: &Path) -> Result<FilenodeMap, FileFault> {
    let bytes = read_map_bytes(directory.root(), of)?;
    let expected = directory.major().facts().filenode_map.file_size();
    let Some(read) = bytes.get(..expected) else {
        return Err(FileFault::Length { found: bytes.len(), expected });
    };
    let map = FilenodeMap::decode(0, read).map_err(FileFault::Short)?;
    match map.faults().first() {
        Some(fault) => Err(FileFault::Map(*fault)),
        None => Ok(map),
    }
}

/// Checks that a database has the major version of the cluster, by the number that its `PG_VERSION` begins with.
pub(crate) fn database_version(directory: &DataDir, of: &Path) -> Result<(), FileFault> {
    let relative = of.join("PG_VERSION");
    real_directories(directory.root(), &relative)?;
    let bytes = read_small(&directory.root().join(&relative), Links::Refuse, VERSION_LIMIT_BYTES)?;
    let found = String::from_utf8_lossy(&bytes).trim().to_owned();
    let digits = found.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    match digits.parse() == Ok(directory.major().number()) {
        true => Ok(()),
        false => Err(FileFault::Version { found, expected: directory.major().facts().name }),
    }
}

/// Makes sure that a directory of the server is there, itself or by a link.
pub(crate) fn server_directory(directory: &DataDir, name: impl AsRef<Path>) -> Result<(), FileFault> {
    Ok(linked_directory(&directory.root().join(name))?)
}

/// True when nothing at all has this path, relative to the data directory, or a link on the way to it is dangling.
pub fn is_missing(directory: &DataDir, relative: &Path) -> bool {
    let metadata = directory.root().join(relative).symlink_metadata();
    metadata.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
