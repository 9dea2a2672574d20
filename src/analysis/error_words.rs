//! Text of an error, as evidence: it can be copied and compared, which errors of the system cannot.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use crate::cluster::dwb_files::SlotReadError;
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSetError};

/// The words of an error, for people, and its cause, by which two are compared: the same thing that cannot be read is the same
/// however it is worded. Made of errors alone.
#[derive(Clone, Debug)]
pub struct ErrorWords {
    words: String,
    cause: Option<ErrorCause>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCause {
    pub kind: CauseKind,
    /// The file, as it was opened or is called; `None` where the error does not name it.
    pub file: Option<PathBuf>,
    /// Index of the slot, where it is about one.
    pub slot_index: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    System(io::ErrorKind, Option<i32>),
    NotRegular,
    NotADirectory,
    TooLong,
    Ends,
    /// The file continues after its end.
    GoesOn,
    /// The file is another one than before.
    Changed,
    Unpack,
    Sizes,
    NoneThere,
}

impl ErrorWords {
    /// The words of an error that knows no cause of the system.
    pub fn of_other(error: &dyn Error) -> Self {
        Self { words: error.to_string(), cause: None }
    }

    /// The cause, if known.
    pub const fn cause(&self) -> Option<&ErrorCause> {
        self.cause.as_ref()
    }
}

/// Compares causes. Errors without one come from this program alone, always with the same words.
impl PartialEq for ErrorWords {
    fn eq(&self, other: &Self) -> bool {
        match (&self.cause, &other.cause) {
            (None, None) => self.words == other.words,
            (one, other) => one == other,
        }
    }
}

impl Eq for ErrorWords {}

impl<E: Error + Caused> From<&E> for ErrorWords {
    fn from(error: &E) -> Self {
        Self { words: error.to_string(), cause: Some(error.what_failed()) }
    }
}

impl fmt::Display for ErrorWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words)
    }
}

pub(crate) trait Caused {
    fn what_failed(&self) -> ErrorCause;
}

impl ErrorCause {
    fn of(kind: CauseKind, file: impl Into<PathBuf>) -> Self {
        Self { kind, file: Some(file.into()), slot_index: None }
    }

    const fn unnamed(kind: CauseKind) -> Self {
        Self { kind, file: None, slot_index: None }
    }

    /// The system denies access to a file that is there.
    pub(crate) const fn is_denied(&self) -> bool {
        matches!(self.kind, CauseKind::System(io::ErrorKind::PermissionDenied, _))
    }
}

impl CauseKind {
    fn of_system(error: &io::Error) -> Self {
        Self::System(error.kind(), error.raw_os_error())
    }
}

impl Caused for AccessError {
    fn what_failed(&self) -> ErrorCause {
        let (kind, path) = match self {
            Self::Io { path, source, .. } => (CauseKind::of_system(source), path),
            Self::NotRegular { path, .. } => (CauseKind::NotRegular, path),
            Self::NotADirectory { path, .. } => (CauseKind::NotADirectory, path),
            Self::TooLong { path, .. } => (CauseKind::TooLong, path),
        };
        ErrorCause::of(kind, path)
    }
}

impl Caused for SlotReadError {
    fn what_failed(&self) -> ErrorCause {
        match self {
            Self::Ends { index, .. } => ErrorCause { slot_index: Some(*index), ..ErrorCause::unnamed(CauseKind::Ends) },
            Self::Access { index, error, .. } => ErrorCause { slot_index: Some(*index), ..error.what_failed() },
        }
    }
}

impl Caused for WalReadError {
    fn what_failed(&self) -> ErrorCause {
        match self {
            Self::Access(error) => error.what_failed(),
            Self::Changed { label, .. } => ErrorCause::of(CauseKind::Changed, label),
            Self::Unpack { label, .. } => ErrorCause::of(CauseKind::Unpack, label),
            Self::Short { label, .. } => ErrorCause::of(CauseKind::Ends, label),
            Self::Sizes(_) => ErrorCause::unnamed(CauseKind::Sizes),
            Self::Longer { label, .. } => ErrorCause::of(CauseKind::GoesOn, label),
        }
    }
}

impl Caused for WalSetError {
    fn what_failed(&self) -> ErrorCause {
        match self {
            Self::Access(error) => error.what_failed(),
            Self::NoMatch(pattern) | Self::Pattern { pattern, .. } => ErrorCause::of(CauseKind::NoneThere, pattern),
            Self::NoneIn(path) => ErrorCause::of(CauseKind::NoneThere, path.display().to_string()),
            Self::Scratch(error) => ErrorCause::unnamed(CauseKind::of_system(error)),
            Self::DataDir(_) | Self::Stdin | Self::Interrupted | Self::NoWal { .. } => {
                ErrorCause::unnamed(CauseKind::NoneThere)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::analysis::skipped::{Coverage, SkippedPart};

    fn denied(operation: &'static str, path: &str) -> AccessError {
        AccessError::io(operation, Path::new(path), io::Error::from_raw_os_error(13))
    }

    #[test]
    fn the_same_cause_is_the_same_however_it_is_worded() {
        let (open, examine) = (denied("open", "base/5/1259"), denied("examine", "base/5/1259"));
        let worded = AccessError::io("open", Path::new("base/5/1259"), io::ErrorKind::PermissionDenied.into());
        assert_ne!(open.to_string(), examine.to_string());
        assert_eq!(ErrorWords::from(&open), ErrorWords::from(&examine));
        assert!(ErrorWords::from(&worded).cause().is_some_and(ErrorCause::is_denied));
        let missing = AccessError::io("open", Path::new("base/5/1259"), io::Error::from_raw_os_error(2));
        for other in [denied("open", "base/5/1249"), missing] {
            assert_ne!(ErrorWords::from(&open), ErrorWords::from(&other));
        }
    }

    #[test]
    fn one_file_that_cannot_be_read_is_counted_once_and_two_are_counted_twice() {
        let mut coverage = Coverage::default();
        coverage.skip_once(SkippedPart::RelationFiles, denied("open", "base/5/1259"));
        coverage.skip_once(SkippedPart::RelationFiles, denied("examine", "base/5/1259"));
        coverage.skip_once(SkippedPart::RelationFiles, denied("open", "base/5/1249"));
        assert_eq!(coverage.skipped.len(), 2);
    }

    #[test]
    fn slots_of_a_file_that_ends_early_differ() {
        let ends = |index| ErrorWords::from(&SlotReadError::Ends { index, offset: 8192 });
        assert_eq!(ends(3), ends(3));
        assert_ne!(ends(3), ends(4));
    }
}
