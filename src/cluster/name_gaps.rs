//! Parts of the relation names that could not be read, with the reason.

use std::path::PathBuf;

use super::open::AccessError;
use crate::parsers::decode::ParseError;
use crate::parsers::filenode_map::FilenodeMapFault;
use crate::parsers::heap::TupleFault;
use crate::parsers::page::PageFault;
use crate::types::{BlockNumber, Oid, RelFileLocator};

/// Why a page of a catalog gives no names, or doubtful ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogPageFault {
    /// The file ends inside the page.
    #[error("only {bytes} bytes of the page are there")]
    Partial {
        /// Bytes that are there.
        bytes: usize,
    },
    /// Header or line pointers.
    #[error(transparent)]
    Page(#[from] PageFault),
    /// It has the special space of another kind of page.
    #[error("not a heap page but {found}")]
    NotHeap {
        /// Name of that kind.
        found: &'static str,
    },
    /// A tuple.
    #[error("item {item}: {fault}")]
    Tuple {
        /// Item number, from 1.
        item: usize,
        /// Its fault.
        fault: TupleFault,
    },
}

/// Something that stands between us and the names. Displays as one line, paths unescaped.
#[derive(Debug, thiserror::Error)]
pub enum NameGap {
    /// A file or directory.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The control file does not give block and segment size and catalog version.
    #[error(
        "pg_control cannot be trusted: blocks of {block_size} bytes are assumed, databases inside tablespaces are \
         not read"
    )]
    Control {
        /// Block size that is assumed.
        block_size: u32,
    },
    /// A `pg_filenode.map` that the server would refuse. Numbers equal to the OIDs are tried instead.
    #[error("{}: {}", path.display(), join(faults))]
    Map {
        /// The file.
        path: PathBuf,
        /// The faults.
        faults: Vec<FilenodeMapFault>,
    },
    /// A file that ends too early to be decoded.
    #[error("{}: {error}", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// Where it ends.
        error: ParseError,
    },
    /// The catalog treats something as a table that is not one.
    #[error(
        "by the catalog {index} belongs to table {table}, whose file is not one of a table: what it says of rows is not compared"
    )]
    NotATable {
        /// The relation that its file counts as.
        table: RelFileLocator,
        /// An index on it.
        index: RelFileLocator,
    },
    /// A page whose names are not used.
    #[error("{} block {block}: {fault}; its names are not used", path.display())]
    Page {
        /// The segment file.
        path: PathBuf,
        /// Block within the fork.
        block: BlockNumber,
        /// The fault.
        fault: CatalogPageFault,
    },
    /// A page that is sane but whose checksum fails.
    #[error("{} block {block}: checksum is {found:#06x}, expected {expected:#06x}; its names are doubtful", path.display())]
    Checksum {
        /// The segment file.
        path: PathBuf,
        /// Block within the fork.
        block: BlockNumber,
        /// Stored checksum.
        found: u16,
        /// Computed checksum.
        expected: u16,
    },
    /// A live row that cannot be decoded.
    #[error("{} block {block} item {item}: {error}", path.display())]
    Row {
        /// The segment file.
        path: PathBuf,
        /// Block within the fork.
        block: BlockNumber,
        /// Item number, from 1.
        item: usize,
        /// Why.
        error: ParseError,
    },
    /// More pages or rows of the same catalog than are listed one by one.
    #[error("{}: {count} more pages or rows with faults", path.display())]
    FurtherInFile {
        /// The first segment file.
        path: PathBuf,
        /// How many.
        count: u64,
    },
    /// A segment file that is not full although another follows, or longer than a segment.
    #[error("{} has {size_bytes} bytes, expected {expected_bytes}", path.display())]
    Segment {
        /// The segment file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// Size of a full segment.
        expected_bytes: u64,
    },
    /// A catalog that is longer than is read.
    #[error("{}: not read after block {block}: longer than any catalog", path.display())]
    TooLong {
        /// The segment file.
        path: PathBuf,
        /// First block that was not read.
        block: BlockNumber,
    },
    /// A file of `pg_xact` is too short.
    #[error("{} ends before transaction {xid}", path.display())]
    XactsMissing {
        /// The segment file.
        path: PathBuf,
        /// The first transaction that was looked for in vain.
        xid: u32,
    },
    /// A database directory without a row in `pg_database`.
    #[error("database {db_oid} has a directory but no readable row in pg_database: its name is unknown")]
    UnnamedDatabase {
        /// OID of the database.
        db_oid: Oid,
    },
    /// Relations whose schema has no readable row.
    #[error("database {db_oid}: {count} relations in schemas without a readable row in pg_namespace")]
    UnknownSchemas {
        /// OID of the database.
        db_oid: Oid,
        /// How many.
        count: u64,
    },
    /// Mapped catalogs that the map does not list.
    #[error("database {db_oid}: {count} relations have no file number, neither in pg_class nor in pg_filenode.map")]
    Unmapped {
        /// OID of the database.
        db_oid: Oid,
        /// How many.
        count: u64,
    },
    /// Two relations claim the same files.
    #[error("{rel} has two names, {kept} and {other}; the first is kept")]
    TwoNames {
        /// The files.
        rel: RelFileLocator,
        /// The name that is kept.
        kept: String,
        /// The name that is not.
        other: String,
    },
    /// More rows than are kept in memory.
    #[error("{count} more {what} than the {limit} that are kept")]
    TooMany {
        /// Databases, schemas or relations.
        what: &'static str,
        /// How many were left out.
        count: u64,
        /// Most that are kept.
        limit: usize,
    },
    /// More gaps than are listed.
    #[error("{count} more things could not be read")]
    Further {
        /// How many.
        count: u64,
    },
}

fn join(faults: &[FilenodeMapFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

const MAX_GAPS: usize = 4096;

/// Moves `found` to the end of `gaps`, as far as there is room; returns how many had none.
pub(super) fn append_bounded(gaps: &mut Vec<NameGap>, found: &mut Vec<NameGap>) -> u64 {
    let room = MAX_GAPS.saturating_sub(gaps.len());
    let kept = found.len().min(room);
    gaps.extend(found.drain(..kept));
    let left = found.len() as u64;
    found.clear();
    left
}
