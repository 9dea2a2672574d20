//! Words for a cluster as a whole, and for how much of it was read.
//! Also here: configuration, effects of startup on the buffer, errors of a typed term, WAL, certainty, and InnoDB.
//! Also here: skipped parts, with the reason.

use std::fmt;

use super::doubt::named_version;
use crate::analysis::changes::events::Touch;
use crate::analysis::dwb::format::ring_finding::StartAction;
use crate::analysis::innodb::judge::HeldImage;
use crate::analysis::pages::page_scan::ScannedFiles;
use crate::analysis::pages::select::TermError;
use crate::analysis::plan::whatif::compression::Setting;
use crate::analysis::skipped::{ByteRange, ControlDoubt, Lacking, NoPageSize, SkipReason, Skipped, SkippedPart};
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::tail::ChainVerdict;
use crate::analysis::wal::tally::Certainty;
use crate::analysis::wal::walk::DamageReason;
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::settings::ConfigFault;
use crate::output::escape::printable;
use crate::output::figures::size;
use crate::parsers::control::ChecksumState;
use crate::parsers::innodb::compressed::Unpacked;
use crate::parsers::innodb::page_check::PageFault;
use crate::types::Lsn;

impl fmt::Display for ClusterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("state unknown: pg_control cannot be trusted"),
            Self::Running(why) => write!(f, "a server is running: {why}"),
            Self::MayBeRunning(why) => write!(f, "a server may be running: {why}"),
            Self::BaseBackup => f.write_str("base backup, not recovered yet"),
            Self::WalWasReset => f.write_str("pg_resetwal was run: changes that were only in WAL are lost"),
            Self::ShutDown => f.write_str("shut down cleanly"),
            Self::StandbyShutDown { .. } => f.write_str("standby, shut down cleanly"),
            Self::InArchiveRecovery { consistent_lsn, .. } => {
                write!(f, "archive recovery was interrupted; consistent from {consistent_lsn}")
            }
            Self::Crashed { .. } => f.write_str("crashed"),
        }
    }
}

impl fmt::Display for ScannedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, files, zeroed, unproven } = self;
        write!(f, "{pages} pages in {files} files ({zeroed} zero-filled)")?;
        match unproven {
            Some(count) => write!(f, "; without checksums {count} are not proven intact"),
            None => Ok(()),
        }
    }
}

/// Data checksums according to `pg_control`.
pub(crate) fn checksum_words(state: Option<ChecksumState>) -> String {
    state.map_or_else(|| "not known".to_owned(), |state| state.to_string())
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecoveryTarget { setting } => write!(f, "{setting} sets where recovery ends"),
            Self::RecoveryTargets => f.write_str("sets more than one recovery target; the server accepts one"),
            Self::MinimalWal => {
                f.write_str("wal_level was minimal when WAL was written; archive recovery and standbys need more in it")
            }
        }
    }
}

impl fmt::Display for StartAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discards => f.write_str("empties the buffer without applying anything: this is a backup"),
            Self::RefusesWithoutChecksums => f.write_str("is refused: the mode needs data checksums"),
            Self::RefusesControl => f.write_str("is refused: the control file is damaged or of a later server version"),
            Self::RefusesPending => f.write_str("is refused: the slots may still be needed"),
            Self::FailsAtMissing { number } => write!(f, "fails: batch file {number} is missing"),
            Self::FailsAtShort { number } => write!(f, "fails: batch file {number} is too short"),
            Self::MakesAnew => f.write_str("recreates the buffer and applies nothing: the control file is missing"),
            Self::AppliesNothing => f.write_str("applies nothing: the last run stopped cleanly"),
            Self::Applies => f.write_str("applies the slots that count before it replays WAL"),
            Self::Ignores => f.write_str("leaves the buffer alone"),
            Self::Unknown => f.write_str("has an unknown result: something could not be read"),
        }
    }
}

impl fmt::Display for TermError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARange(text) => {
                write!(f, "\"{text}\" is not a valid range: expected N, FIRST-LAST, FIRST- or -LAST")
            }
            Self::BackwardRange(text) => write!(f, "range \"{text}\" ends before it begins"),
            Self::NotARelation(text) => write!(
                f,
                "\"{text}\" is not a valid relation: expected REL, DB/REL or SPC/DB/REL, numbers up to {}",
                u32::MAX
            ),
        }
    }
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wal(reason) => reason.fmt(f),
            Self::Unreadable(error) => error.fmt(f),
            Self::EndsEarly { segment } => write!(f, "{segment} ends early"),
        }
    }
}

impl fmt::Display for ChainVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damage => "damage",
            Self::Complete => "everything found was read",
            Self::EndOfWal => "the end that a running or crashed server leaves",
            Self::Changing => "being written while it was read",
            Self::Gap => "cut off by a gap",
            Self::NotJudged => "not judged",
        })
    }
}

pub(crate) const fn touch_words(touch: &Touch) -> &'static str {
    match touch {
        Touch::Image { .. } => "full-page image",
        Touch::Init => "initialises it",
        Touch::Change => "changes it",
        Touch::Hint => "hint bits only",
        Touch::MapBits => "may clear bits of it",
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AsWritten => "as written",
            other => other.code(),
        })
    }
}

/// How sure a number is that another setting would have led to: it supposes that the server would have done the same work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForSameWork(pub Certainty);

impl fmt::Display for ForSameWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Certainty::Exact => f.pad("exact for the same work"),
            other => other.fmt(f),
        }
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.pad("exact"),
            Self::AtLeast => f.pad("at least"),
            Self::Estimate => f.pad("estimate"),
            Self::Sample { taken, of } => f.pad(&format!("sample of {taken} out of {of}")),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mysql8 => "MySQL 8.0.20 or later",
            Self::Mysql57 => "MySQL 5.7 to 8.0.19",
            Self::Mysql56 => "MySQL 5.6 or earlier",
            Self::Mariadb => "MariaDB 10.5 or later",
            Self::MariadbOld => "MariaDB before 10.5",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for HeldImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown: the buffer was not read completely, or an image does not show its tablespace",
            Self::Missing => "no image",
            Self::Unreadable => "only images that fail their checks or cannot be tested here",
            Self::Encrypted => "an encrypted image, which is not judged",
            Self::Older => "an intact image, older than the page",
            Self::Same => "an intact image with the LSN of the page",
            Self::Newer => "an intact image, newer than the page",
        })
    }
}

/// As short as a column of the terminal UI.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstTouch => "first change of the page",
            Self::FirstTouchInBackup => "first change in a backup",
            Self::HintOnly => "hint bits only",
            Self::HintThenChanged => "hint bits, then a change",
            Self::HintInBackup => "hint bits in a backup",
            Self::NewPage => "new page",
            Self::MapTruncation => "map before truncation",
            Self::Forced => "always, by record type",
            Self::ConsistencyCheck => "consistency check",
            Self::RepeatedForced => "again, by record type",
            Self::RepeatedNewPage => "again, as a new page",
            Self::RepeatedReinitialised => "again, page was reset",
            Self::RepeatedHint => "again, for hint bits",
            Self::RepeatedUnknown => "again, cause unknown",
            Self::UnknownBeforeStart => "unknown: no redo point",
            Self::Unknown => "unknown",
            Self::Unreadable => "unknown: unreadable",
        })
    }
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } if stored == computed => {
                write!(f, "checksum {stored:#010x} is valid in the header, but the trailer has another one")
            }
            Self::Checksum { stored, computed } => {
                write!(f, "stored checksum {stored:#010x}, computed crc32 {computed:#010x}")
            }
            Self::TrailerLsn { header, trailer } => {
                write!(f, "low half of the LSN is {header:#010x} in the header and {trailer:#010x} in the trailer")
            }
            Self::CompressedSize { bytes } => write!(f, "a compressed page cannot have {bytes} bytes"),
            Self::Packed(Unpacked::UnknownCodec { codec }) => write!(f, "{codec} is not supported"),
            Self::Packed(Unpacked::Length { length }) => {
                write!(f, "the compressed length {length} exceeds the page")
            }
            Self::Packed(Unpacked::Damaged) => f.write_str("the compressed content is damaged"),
            Self::Packed(Unpacked::OtherPage) => f.write_str("the compressed content belongs to another page"),
            Self::NotEncryptedHere => f.write_str("the type is an encrypted page, but the tablespace is not encrypted"),
            Self::WrongPageNumber { found, expected } => {
                write!(f, "its header has page {found}, but this is page {expected}")
            }
            Self::WrongTablespace { found, expected } => {
                write!(f, "its header has tablespace {found}, but the file belongs to tablespace {expected}")
            }
        }
    }
}

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
