//! WAL as a user has it: data directories, archives, single files, tar, standard input, compressed or not. [`WalSet`] puts
//! the segments into order and says what is odd; [`SegmentBytes`] reads one of them.
//!
//! `directory` and `archive` read what was named into `candidates`, and `choose` keeps one file for each segment.
//!
//! Memory: at most some 13 MiB for each segment that is read at a time, for each layer of compression ([`MAX_LAYERS`],
//! [`DEFAULT_WINDOW_BYTES`]), and some 300 bytes for each segment that was found.

mod archive;
pub(super) mod bytes;
mod candidates;
mod choose;
pub(super) mod codec;
mod copies;
mod directory;
mod first_page;
pub(crate) mod notes;
mod set;
pub(super) mod tar;

use super::wal_marks::WalMarks;
pub use bytes::{PIECE_BYTES, SegmentBytes, WalReadError};
pub use candidates::{DeniedFile, UnknownVersionSegment};
pub use choose::WalSegmentFile;
pub use codec::{Codec, MAX_LAYERS, fill};
pub use directory::holds_no_wal;
pub use notes::{MAX_NOTES_OF_A_KIND, NoteKind, NoteLevel, SetNote};
pub use set::WalSet;
pub use set::{DEFAULT_SPILL_BYTES, DEFAULT_WINDOW_BYTES, WalOrigin, WalSetError, WalSetOptions, WatchOpen};

/// The WAL that a check reads.
#[derive(Debug, Default)]
pub struct WalSources {
    /// That of `pg_wal`.
    pub own: Option<WalSet>,
    /// Segments of `pg_wal` in versions that are not read here.
    pub unknown_versions: Vec<UnknownVersionSegment>,
    /// Files of `pg_wal`, or the directory, that the system does not let this user open.
    pub denied: Vec<DeniedFile>,
    /// WAL of `own`, WAL from elsewhere, and files in `pg_wal` that no server reads.
    pub all: Option<WalSet>,
    /// Where WAL must reach.
    pub marks: WalMarks,
    /// The user named WAL from elsewhere.
    pub has_archive: bool,
}

impl WalSources {
    /// All WAL that there is.
    pub(crate) fn most(&self) -> Option<&WalSet> {
        self.all.as_ref().or(self.own.as_ref())
    }
}
