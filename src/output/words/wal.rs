//! Words for what a walk through WAL met.

use std::fmt;

use crate::analysis::verdict::events::Touch;
use crate::analysis::wal::chain::ChainVerdict;
use crate::analysis::wal::walk::DamageReason;
use crate::analysis::wal::whatif::compression::Setting;

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
