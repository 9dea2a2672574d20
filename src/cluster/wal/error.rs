//! Errors that prevent reading WAL.

use std::io;
use std::path::PathBuf;

use super::candidates::{DeniedFile, UnknownVersionSegment};
use super::notes::{NoteLevel, SetNote};
use crate::cluster::data_dir::NotADataDir;
use crate::cluster::open::AccessError;

/// Why there is no set.
#[derive(Debug, thiserror::Error)]
pub enum WalSetError {
    /// A path that was named cannot be examined.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A directory has a `PG_VERSION` that cannot be read or says nothing.
    #[error(transparent)]
    DataDir(NotADataDir),
    /// No file has a name of this pattern.
    #[error("nothing matches {0}")]
    NoMatch(String),
    /// A directory was named in which no file is a segment or an archive.
    #[error("{} holds no WAL segment", .0.display())]
    NoneIn(PathBuf),
    /// A path does not exist and is not a pattern either.
    #[error("pattern {pattern}: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The problem.
        source: glob::PatternError,
    },
    /// `-` was given twice, or there is no standard input to be read.
    #[error("standard input can be read only once")]
    Stdin,
    /// The temporary file cannot be made or written.
    #[error("cannot make a temporary file for unpacked WAL: {0}")]
    Scratch(io::Error),
    /// The user interrupted while copies of the same segment were compared.
    #[error("interrupted while copies of the same WAL segments were compared")]
    Interrupted,
    /// No segment of the wanted cluster and timeline was found; the notes say what was found instead.
    #[error("no WAL segment found{}", first_reason(.notes))]
    NoWal {
        /// All notes.
        notes: Vec<SetNote>,
        /// Segments of versions that are not read here.
        unknown_versions: Vec<UnknownVersionSegment>,
        /// Files of `pg_wal` that the system does not let this user open.
        denied: Vec<DeniedFile>,
    },
}

fn first_reason(notes: &[SetNote]) -> String {
    let worst = notes.iter().find(|note| note.level != NoteLevel::Note).or(notes.first());
    worst.map_or_else(String::new, |note| format!(": {note}"))
}
