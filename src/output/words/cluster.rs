//! Words for a cluster as a whole, and for how much of it was read.
//! Also here: configuration, effects of startup on the buffer, errors of a typed term, WAL, and certainty.

use std::fmt;

use crate::analysis::changes::events::Touch;
use crate::analysis::dwb::format::ring_finding::StartAction;
use crate::analysis::pages::page_scan::ScannedFiles;
use crate::analysis::pages::select::TermError;
use crate::analysis::plan::whatif::compression::Setting;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::wal::chain::ChainVerdict;
use crate::analysis::wal::tally::Certainty;
use crate::analysis::wal::walk::DamageReason;
use crate::cluster::settings::ConfigFault;
use crate::parsers::control::ChecksumState;

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
