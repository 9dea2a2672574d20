//! Words for a cluster as a whole, and for how much of it was read.
//! Also here: configuration, effects of startup on the buffer, errors of a typed term, WAL, certainty, and InnoDB.

use std::fmt;

use crate::analysis::changes::events::Touch;
use crate::analysis::dwb::format::ring_finding::StartAction;
use crate::analysis::innodb::judge::HeldImage;
use crate::analysis::pages::page_scan::ScannedFiles;
use crate::analysis::pages::select::TermError;
use crate::analysis::plan::whatif::compression::Setting;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::chain::ChainVerdict;
use crate::analysis::wal::tally::Certainty;
use crate::analysis::wal::walk::DamageReason;
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::settings::ConfigFault;
use crate::parsers::control::ChecksumState;
use crate::parsers::innodb::compressed::Unpacked;
use crate::parsers::innodb::page_check::PageFault;

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
