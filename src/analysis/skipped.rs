//! Skipped parts and reasons, as values. The words are in `output`.
//! Also here: coverage of a check.

use std::path::Path;

use strum::{EnumIter, IntoEnumIterator, IntoStaticStr, VariantNames};

use super::error_words::ErrorWords;
use crate::cluster::dwb_files::SlotReadError;
use crate::cluster::open::AccessError;
use crate::cluster::wal::{NoteKind, WalReadError, WalSetError};
use crate::parsers::control::ChecksumState;
use crate::parsers::decode::ParseError;
use crate::parsers::innodb::compressed::PageCodec;
use crate::types::{BlockNumber, Lsn, PageId, RelFileLocator};

/// Something that was not examined, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// File or part of the input.
    pub what: SkippedPart,
    /// The bytes of the file that were not, where others were.
    pub bytes: Option<ByteRange>,
    /// Why.
    pub reason: SkipReason,
}

/// Some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// A skipped part.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SkippedPart {
    /// A file, by its path relative to the data directory or as given.
    File(String),
    /// A page of a relation.
    Page(PageId),
    /// Whether a relation has an init fork.
    InitFork(RelFileLocator),
    /// An image in WAL.
    Image {
        /// The page that it is of.
        block: BlockNumber,
        /// Start of its record.
        record_lsn: Lsn,
    },
    /// Files of the double write buffer.
    DoubleWriteBuffer,
    /// The rest of the double write buffer.
    RestOfDoubleWriteBuffer,
    /// Files of a data directory of MySQL or MariaDB.
    DataFiles,
    /// The redo log of MySQL or MariaDB.
    RedoLog,
    /// The rest of the tablespaces of MySQL or MariaDB.
    RestOfTablespaces,
    /// Relation files.
    RelationFiles,
    /// The rest of the relation files.
    RestOfRelationFiles,
    /// Steps of a check that come later.
    RestOfCheck,
    /// Further pages that replay needs.
    MorePagesNeeded,
    /// Further pages that replay touches.
    MorePagesTouched,
    /// Pages of zeros that had content, after the first so many.
    MorePagesZeroed,
    /// Rows of pages without a checksum.
    RowsWithoutChecksum,
    /// Proofs of pages by replay.
    ProofByReplay,
    /// Pages that are older than WAL says.
    LostWrites,
    /// WAL.
    Wal,
    /// The directory `pg_wal`.
    PgWal,
    /// WAL before the redo point.
    WalBeforeRedo,
    /// WAL after the end.
    WalAfterEnd,
    /// The rest of WAL.
    RestOfWal,
    /// A range of WAL.
    LsnRange {
        /// Where it begins; `None` for the start of WAL.
        start: Option<Lsn>,
        /// Where it ends; `None` for the end of WAL.
        end: Option<Lsn>,
    },
    /// Configuration files.
    Configuration,
    /// Names of relations.
    RelationNames,
    /// Data checksums.
    DataChecksums,
    /// Data checksums and segment ends.
    DataChecksumsAndSegments,
    /// An argument that chooses what is examined.
    Argument {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
    },
}

impl SkippedPart {
    /// A file.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(path.into())
    }

    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl From<PageId> for SkippedPart {
    fn from(page: PageId) -> Self {
        Self::Page(page)
    }
}

/// Kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SkipClass {
    /// The user interrupted it.
    Interrupted,
    /// The system refused, or the file is not of the kind that belongs there.
    Unreadable,
    /// It could be read, yet makes no sense, or was left out for another reason.
    NotExamined,
}

impl SkipClass {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Missing part of an interrupted result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// Images.
    Images,
    /// Pages.
    Pages,
    /// Counts are too low.
    Counts,
}

/// Why `pg_control` does not give sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlDoubt {
    /// It gives sizes that cannot be right.
    WrongSizes,
    /// Its version is not known.
    UnknownVersion,
    /// It is damaged or missing.
    NotTrusted,
}

/// Why the page size is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPageSize {
    /// No page header names one.
    NoneNamed,
    /// Page headers name several: each size, and the files that name it.
    Several(Vec<(u32, u64)>),
}

/// Why something was not examined. Reports print the words; programs compare the variant or its code.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SkipReason {
    /// The user interrupted it.
    Interrupted(Lacking),
    /// The system refused, or the file is not of the kind that belongs there.
    Unreadable(ErrorWords),
    /// The bytes do not make up what they should.
    Malformed(ParseError),
    /// The set of WAL segments says so. Goes by the code of the note.
    Wal {
        /// Its subject.
        kind: NoteKind,
        /// The finding, in the words of the set.
        what: String,
    },
    /// Names of relations could not be read.
    NameGap(ErrorWords),
    /// A file could not be written.
    NotWritten(ErrorWords),
    /// The file has grown since its directory was listed.
    FileGrown,
    /// The file has become shorter since its directory was listed.
    FileShorter,
    /// It was read twice, and was not the same the second time.
    ChangedWhileRead,
    /// It is damaged, or comes after damage: no record of it could be read.
    DamagedWal,
    /// Segments of it are missing.
    SegmentsMissing,
    /// It lies past the end of a segment, where no server reads.
    PastSegmentEnd,
    /// Keys of an encrypting access method lie in this directory: without them encrypted pages and damaged ones look alike.
    MayBeEncrypted {
        /// Name of the directory.
        keys: &'static str,
    },
    /// Files of relations are missing or begin with zeros, unless WAL removes or makes them, which was not read.
    UnlessWalRemoves {
        /// How many.
        count: usize,
    },
    /// The file has no bytes.
    FileEmpty,
    /// Neither header nor slots are those of a double write buffer.
    NotADwb,
    /// The file ends before its slots do.
    CutShort {
        /// Where it ends.
        size_bytes: u64,
        /// More slots in its header.
        missing_slots: u64,
    },
    /// More slots than any server makes.
    TooManySlots {
        /// How many are not examined.
        excess: u64,
        /// How many are.
        max: u64,
    },
    /// `pg_control` of an unknown version.
    UnknownControlVersion {
        /// The version.
        version: u32,
        /// It comes from a machine with the other byte order.
        is_byte_swapped: bool,
    },
    /// No server can be built with such sizes.
    ImpossibleSizes {
        /// Bytes of a page.
        block_size: u32,
        /// Pages of a segment.
        segment_blocks: u32,
    },
    /// The page size is known from page headers alone.
    SizesByHeaders {
        /// Problem of `pg_control`.
        control: ControlDoubt,
        /// The size.
        block_size: u32,
        /// Files whose headers name it.
        files: u64,
    },
    /// The page size is not known.
    NoPageSize {
        /// Problem of `pg_control`.
        control: ControlDoubt,
        /// Result of the page headers.
        headers: NoPageSize,
    },
    /// `pg_control` says of data checksums what no server writes.
    UnknownChecksumState(ChecksumState),
    /// No row of the catalog could be read, so that nothing is known of the files of its database.
    NoRowRead,
    /// No file of such a database.
    NoSuchDatabase,
    /// No file of such a relation.
    NoSuchRelation,
    /// No relation file fits a pattern.
    NoPathFits,
    /// No relation file fits all filters together.
    NoFileFitsAll,
    /// The double write buffer has no such file.
    NoSuchDwbFile,
    /// No record lies in the range.
    NoRecordInRange,
    /// No WAL segment of the range is there.
    NoSegmentInRange,
    /// No record of the range refers to the relation.
    NoRecordOfRelation,
    /// Segments were renamed or removed after they were listed and before they were read, and none come after them.
    Recycled,
    /// It was removed before it could be read.
    RemovedBeforeRead {
        /// Bytes of WAL that were not counted.
        bytes: u64,
    },
    /// So many pages that replay needs are missing already.
    TooManyMissing {
        /// The limit.
        limit: usize,
    },
    /// The rows of so many pages are compared with WAL already.
    TooManyZeroed {
        /// How many are examined.
        limit: usize,
    },
    /// Replay touches too many pages.
    TooManyTouched {
        /// The limit.
        limit: usize,
    },
    /// A page cannot be built as it was.
    NotRebuilt {
        /// Why, in words.
        why: String,
    },
    /// Records about tablespaces and databases could not be read, or there was no room for them.
    MadeNotFollowed {
        /// Start of the first.
        from: Lsn,
    },
    /// There was no room for further records.
    NoRoomForRecords {
        /// Start of the first that was left out.
        from: Lsn,
    },
    /// So many damaged pages are listed already.
    TooManyDamaged {
        /// The limit.
        limit: usize,
    },
    /// So many pages that WAL names are examined already.
    TooManyToProve {
        /// The limit.
        limit: usize,
    },
    /// Commits in WAL that could not be read, or for which there was no room, were not looked up in `pg_xact`.
    CommitsNotLookedUp,
    /// Pages are encrypted, and the key is not available.
    Encrypted {
        /// How many.
        pages: u64,
    },
    /// Pages are compressed in a way that cannot be unpacked here.
    UnknownCodec {
        /// How many.
        pages: u64,
        /// The way.
        codec: PageCodec,
    },
    /// A data file outside the data directory.
    OutsideDataDirectory {
        /// Its path, as the server stored it.
        path: String,
    },
    /// Which tablespace a file holds is unknown.
    UnknownTablespace,
    /// A tablespace has fewer pages than its page 0 says.
    TablespaceShort {
        /// Pages in its files.
        pages: u64,
        /// Pages that it should have.
        declared: u32,
    },
    /// Files of the doublewrite buffer were not found.
    BufferNotFound,
    /// Slots of the doublewrite buffer of MySQL or MariaDB are all zero that a server writes before others that are not.
    SlotsOfZeros,
    /// No checkpoint of the redo log of MySQL or MariaDB was found.
    CheckpointNotFound,
    /// The redo log of MySQL or MariaDB has no checksums, is encrypted, or nothing tells where in its files it begins.
    RedoNotTestable,
    /// An option file of MySQL or MariaDB includes others.
    OptionFileIncludes,
    /// A server may be running on the data directory.
    ServerMayRun,
    /// There is no WAL.
    NoWalToReplay,
    /// Rows may have come into pages without a record.
    CopiesUnlogged,
    /// No server replayed.
    NotReplayed(ErrorWords),
    /// There was no room for what later WAL says of the rows.
    NoRoomForChanges {
        /// Where the WAL ends that they were compared with.
        end_lsn: Lsn,
    },
}

impl SkipReason {
    /// True when only `pg_control` is the cause, and headers of pages gave the sizes.
    pub(crate) const fn is_of_control(&self) -> bool {
        matches!(self, Self::SizesByHeaders { .. })
    }

    /// Kind of reason.
    pub const fn class(&self) -> SkipClass {
        match self {
            Self::Interrupted(_) => SkipClass::Interrupted,
            Self::Unreadable(_) | Self::Wal { kind: NoteKind::Unreadable, .. } => SkipClass::Unreadable,
            _ => SkipClass::NotExamined,
        }
    }

    /// The file that the system does not let this user open, if that is why.
    pub(crate) fn denied_file(&self) -> Option<&Path> {
        match self {
            Self::Unreadable(error) | Self::NameGap(error) => {
                error.cause().filter(|cause| cause.is_denied())?.file.as_deref()
            }
            _ => None,
        }
    }

    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Wal { kind, .. } => kind.name(),
            _ => self.into(),
        }
    }

    /// The codes of all reasons that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let own = Self::VARIANTS.iter().copied().filter(|name| *name != "wal");
        own.chain(NoteKind::iter().map(NoteKind::name))
    }
}

impl From<&ParseError> for SkipReason {
    fn from(error: &ParseError) -> Self {
        Self::Malformed(error.clone())
    }
}

/// Errors of the system, or of files that are not what belongs there.
macro_rules! unreadable {
    ($($error:ty),*) => {$(
        impl From<&$error> for SkipReason {
            fn from(error: &$error) -> Self {
                Self::Unreadable(error.into())
            }
        }

        impl From<$error> for SkipReason {
            fn from(error: $error) -> Self {
                Self::from(&error)
            }
        }
    )*};
}

unreadable!(AccessError, SlotReadError, WalReadError, WalSetError);

/// Checked and skipped parts; part of every report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Items that were examined: slots, pages or records, as the report says.
    pub examined: u64,
    /// Skipped parts.
    pub skipped: Vec<Skipped>,
}

impl Coverage {
    /// Counts something that was not examined.
    pub fn skip(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Counts bytes of a file that were not examined.
    pub(crate) fn skip_bytes(&mut self, what: impl Into<SkippedPart>, bytes: ByteRange, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: Some(bytes), reason: reason.into() });
    }

    /// Counts something that was not examined, unless the same was counted before.
    pub(crate) fn skip_once(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.add_once(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Takes over what another part did not examine, without what was counted before.
    pub(crate) fn append_once(&mut self, other: Self) {
        other.skipped.into_iter().for_each(|skipped| self.add_once(skipped));
    }

    fn add_once(&mut self, skipped: Skipped) {
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// The user interrupted it: the result is partial.
    pub fn is_interrupted(&self) -> bool {
        self.skipped.iter().any(|skipped| skipped.reason.class() == SkipClass::Interrupted)
    }
}
