//! Skipped parts, with the reason.

use std::fmt;

use super::super::escape::printable;
use super::super::figures::size;
use super::doubt::named_version;
use crate::analysis::skipped::{ByteRange, ControlDoubt, Lacking, NoPageSize, SkipReason, Skipped, SkippedPart};
use crate::types::Lsn;

impl Skipped {
    /// The reason, with the bytes that it applies to.
    pub fn why(&self) -> String {
        match &self.bytes {
            Some(bytes) => format!("{bytes}: {}", self.reason),
            None => self.reason.to_string(),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why())
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#X}", self.length, self.offset)
    }
}

impl fmt::Display for SkippedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Page(page) => write!(f, "{} {} block {}", page.rel, page.fork, page.block),
            Self::InitFork(rel) => write!(f, "{rel} init"),
            Self::Image { block, record_lsn } => write!(f, "image of block {block} at {record_lsn}"),
            Self::DoubleWriteBuffer => f.write_str("double write buffer"),
            Self::RestOfDoubleWriteBuffer => f.write_str("the rest of the double write buffer"),
            Self::DataFiles => f.write_str("data files"),
            Self::RedoLog => f.write_str("the redo log"),
            Self::RestOfTablespaces => f.write_str("the rest of the tablespaces"),
            Self::RelationFiles => f.write_str("relation files"),
            Self::RestOfRelationFiles => f.write_str("the rest of the relation files"),
            Self::RestOfCheck => f.write_str("the rest of the check"),
            Self::MorePagesNeeded => f.write_str("more pages that recovery needs"),
            Self::MorePagesZeroed => f.write_str("more zeroed pages that had content"),
            Self::ProofByReplay => f.write_str("proofs by replay"),
            Self::LostWrites => f.write_str("pages that are older than WAL before the redo point shows"),
            Self::MorePagesTouched => f.write_str("more pages that recovery touches"),
            Self::RowsWithoutChecksum => f.write_str("rows of pages without checksum"),
            Self::Wal => f.write_str("WAL"),
            Self::PgWal => f.write_str("pg_wal"),
            Self::WalBeforeRedo => f.write_str("WAL before the redo point"),
            Self::WalAfterEnd => f.write_str("WAL after the end"),
            Self::RestOfWal => f.write_str("the rest of the WAL"),
            Self::LsnRange { start, end } => {
                let bound = |lsn: &Option<Lsn>, open: &str| lsn.map_or_else(|| open.to_owned(), |lsn| lsn.to_string());
                write!(f, "{} to {}", bound(start, "the start"), bound(end, "the end"))
            }
            Self::Configuration => f.write_str("configuration"),
            Self::RelationNames => f.write_str("names of relations"),
            Self::DataChecksums => f.write_str("data checksums"),
            Self::DataChecksumsAndSegments => f.write_str("data checksums and segments"),
            Self::Argument { option, value } => write!(f, "{option} {value}"),
        }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Images => "images are missing from the result",
            Self::Pages => "pages are missing from the result",
            Self::Counts => "the figures are partial",
        })
    }
}

impl fmt::Display for ControlDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongSizes => "pg_control has wrong sizes",
            Self::UnknownVersion => "pg_control has a version that this program does not know",
            Self::NotTrusted => "pg_control is missing, unreadable or damaged",
        })
    }
}

impl fmt::Display for NoPageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneNamed => f.write_str("no page header gives a page size"),
            Self::Several(named) => {
                let named: Vec<String> = named.iter().map(|(size, count)| format!("{size} in {count} files")).collect();
                write!(f, "page headers have different page sizes: {}", named.join(", "))
            }
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted(lacking) => write!(f, "interrupted: {lacking}"),
            Self::Unreadable(error) | Self::NameGap(error) | Self::NotWritten(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Wal { what, .. } => f.write_str(what),
            Self::FileGrown => f.write_str("the file has grown since the directory was listed"),
            Self::FileShorter => f.write_str("the file has become shorter since the directory was listed"),
            Self::ChangedWhileRead => f.write_str("it changed while it was read"),
            Self::DamagedWal => f.write_str("damaged, or after damage: no record of it was read"),
            Self::SegmentsMissing => f.write_str("its segments are missing"),
            Self::MayBeEncrypted { keys } => {
                write!(f, "encrypted, or completely damaged: {keys}/ has keys that are not used here")
            }
            Self::PastSegmentEnd => f.write_str("past the end of a segment, where the server does not read"),
            Self::FileEmpty => f.write_str("the file is empty"),
            Self::NotADwb => f.write_str(
                "neither header nor slots belong to a double write buffer: the output does not show its content",
            ),
            Self::CutShort { size_bytes, missing_slots } => {
                write!(f, "the file ends at {size_bytes:#X}, {missing_slots} slots before the end in its header")
            }
            Self::TooManySlots { excess, max } => {
                write!(f, "{excess} slots after the first {max}: no server creates such a file")
            }
            Self::UnknownControlVersion { version, is_byte_swapped } => {
                let order = if *is_byte_swapped { ", from a machine with the other byte order" } else { "" };
                write!(
                    f,
                    "version {} is not supported{order}; only the first 20 bytes were read",
                    named_version(*version)
                )
            }
            Self::ImpossibleSizes { block_size, segment_blocks } => {
                write!(
                    f,
                    "pages of {block_size} bytes, {segment_blocks} in a segment: no server can be built with these sizes"
                )
            }
            Self::SizesByHeaders { control, block_size, files } => write!(
                f,
                "{control}: the headers of {files} files show pages of {block_size} bytes; segments of 1 GiB are \
                 assumed. Data checksums may be on or off: wrong ones are counted, not judged"
            ),
            Self::NoPageSize { control, headers } => write!(f, "{control}, and {headers}"),
            Self::UnknownChecksumState(state) => {
                write!(f, "pg_control says {state}: wrong checksums are counted but not judged")
            }
            Self::NoRowRead => {
                f.write_str("none of its rows can be read, so the relations of its database are unknown")
            }
            Self::NoSuchDatabase => f.write_str("no file of such a database exists"),
            Self::NoSuchRelation => f.write_str("no such file exists"),
            Self::NoPathFits => f.write_str("no relation file fits"),
            Self::NoFileFitsAll => f.write_str("no file fits all filters together"),
            Self::NoSuchDwbFile => f.write_str("the buffer has no such file"),
            Self::NoRecordOfRelation => f.write_str("no record that was read refers to this relation"),
            Self::NoRecordInRange => f.write_str("no record in this range"),
            Self::NoSegmentInRange => f.write_str("no WAL segment of this range exists"),
            Self::Recycled => f.write_str(
                "a server renamed or removed its last segments after they were listed and before they were read",
            ),
            Self::RemovedBeforeRead { bytes } => {
                write!(f, "{} of WAL removed before it was read, and not counted", size(*bytes))
            }
            Self::TooManyMissing { limit } => write!(f, "only the first {limit} missing pages were looked for"),
            Self::NotRebuilt { why } => f.write_str(why),
            Self::MadeNotFollowed { from } => {
                write!(
                    f,
                    "changes to tablespaces and databases were not followed after {from}: a record cannot be \
                    read, or there are too many"
                )
            }
            Self::NoRoomForRecords { from } => {
                write!(f, "too many records; those after {from} were skipped")
            }
            Self::NoRoomForChanges { end_lsn } => {
                write!(f, "compared only with WAL before {end_lsn}: the changes after it exceed the memory limit")
            }
            Self::TooManyZeroed { limit } => write!(f, "more than {limit} zeroed pages had content"),
            Self::TooManyDamaged { limit } => write!(f, "only the first {limit} damaged pages are listed"),
            Self::Encrypted { pages } => write!(f, "{pages} pages are encrypted, and the key is not available"),
            Self::UnknownCodec { pages, codec } => {
                write!(f, "{pages} pages are compressed with {codec}, which is not supported")
            }
            Self::OutsideDataDirectory { path } => {
                write!(f, "its data file is outside the data directory: {}", printable(path))
            }
            Self::UnknownTablespace => {
                f.write_str("its tablespace is unknown: page 0 is damaged, and no other page shows it")
            }
            Self::TablespaceShort { pages, declared } => {
                write!(f, "the end of the file is missing: it has {pages} pages, page 0 says {declared}")
            }
            Self::BufferNotFound => {
                f.write_str("not found: pass --doublewrite-dir or --my-cnf if it is in another directory")
            }
            Self::SlotsOfZeros => {
                f.write_str("zeroed slots that the server fills before others: their content is lost")
            }
            Self::CheckpointNotFound => f.write_str("no checkpoint was found in it, so the age of images is unknown"),
            Self::RedoNotTestable => {
                f.write_str("cannot be tested: it has no checksums, is encrypted, or its beginning is unknown")
            }
            Self::OptionFileIncludes => {
                f.write_str("it includes other option files, which are not read: they may set other directories")
            }
            Self::ServerMayRun => {
                f.write_str("a server may be running in the data directory; pages may change while they are read")
            }
            Self::UnlessWalRemoves { count: 1 } => {
                f.write_str("missing or zeroed at the beginning; WAL may remove it, but that WAL could not be read")
            }
            Self::UnlessWalRemoves { count } => write!(
                f,
                "this one and {} more are missing or zeroed at the beginning; WAL may remove them, but that WAL could \
                    not be read",
                count.saturating_sub(1)
            ),
            Self::NoWalToReplay => f.write_str("no WAL found"),
            Self::CopiesUnlogged => f.write_str(
                "WAL does not determine the pages: with wal_level = minimal this PostgreSQL version does not log COPY into a \
                    table created in the same transaction",
            ),
            Self::NotReplayed(error) => write!(f, "{error}"),
            Self::CommitsNotLookedUp => f.write_str("not all commits in WAL could be looked up in pg_xact"),
            Self::TooManyToProve { limit } => {
                write!(f, "only the first {limit} pages in WAL are checked; there is no room for more")
            }
            Self::TooManyTouched { limit } => {
                write!(f, "only the rows of the first {limit} pages are compared with WAL")
            }
        }
    }
}
