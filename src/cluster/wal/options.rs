//! Options and limits of the search.
//! Also here: errors that prevent reading WAL; whose some WAL is.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::candidates::{DeniedFile, UnknownVersionSegment};
use super::notes::{NoteLevel, SetNote};
use super::set::WalSet;
use crate::cluster::data_dir::NotADataDir;
use crate::cluster::open::AccessError;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, TimelineId};

/// Largest window of a compressed file that is accepted by default: enough for every level of the usual
/// compressors and for `zstd --long=27`. Memory is taken only as far as a window is filled, so at most by a segment.
pub const DEFAULT_WINDOW_BYTES: u32 = 128 << 20;

/// Bytes that are unpacked into the scratch file in all by default.
pub const DEFAULT_SPILL_BYTES: u64 = 64 << 30;

/// Called from all threads with the bytes done and in total; may interrupt.
pub type WatchOpen<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Options of the search, and resources for it.
pub struct WalSetOptions<'a> {
    /// The timeline to read; the newest that is present when `None`.
    pub timeline: Option<TimelineId>,
    /// The cluster whose WAL is wanted. When `None`, that of the first data directory given, else the most frequent one.
    pub system_identifier: Option<u64>,
    /// The control file of the cluster, where it does not come with a data directory among the paths.
    pub control: Option<ControlFile>,
    /// Makes an empty temporary file, for what can be read only once: compressed archives and standard input. Called once
    /// at most.
    pub scratch: &'a dyn Fn() -> io::Result<File>,
    /// In a `pg_wal` only files that a server reads: no file that is compressed, partial or under another name.
    pub as_server: bool,
    /// Where copies differ and records of both hold after that, none of them is used, nor what follows; those in the `pg_wal` of
    /// the cluster are.
    pub undisputed: bool,
    /// Input for the path `-`.
    pub stdin: Option<&'a mut (dyn Read + Send)>,
    /// A FIFO that is named is read, to its end: the set is opened only once.
    pub fifos: bool,
    /// Most bytes that are written to the temporary file.
    pub spill_bytes: u64,
    /// Largest window of a compressed file, in bytes; each reader may need about twice as much.
    pub window_bytes: u32,
    /// Told how far copies of the same segment are compared: bytes of all copies. Without any it is not called.
    pub watch: WatchOpen<'a>,
}

impl std::fmt::Debug for WalSetOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WalSetOptions")
            .field("timeline", &self.timeline)
            .field("system_identifier", &self.system_identifier)
            .field("spill_bytes", &self.spill_bytes)
            .field("window_bytes", &self.window_bytes)
            .finish_non_exhaustive()
    }
}

impl<'a> WalSetOptions<'a> {
    /// Everything found by itself, without standard input, the limits at their defaults.
    pub const fn new(scratch: &'a dyn Fn() -> io::Result<File>) -> Self {
        Self {
            timeline: None,
            system_identifier: None,
            control: None,
            scratch,
            as_server: false,
            undisputed: false,
            stdin: None,
            fifos: false,
            spill_bytes: DEFAULT_SPILL_BYTES,
            window_bytes: DEFAULT_WINDOW_BYTES,
            watch: &|_, _| ControlFlow::Continue(()),
        }
    }
}

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

/// Whose some WAL is, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalOrigin {
    /// Major of the server that wrote it, by the page magic.
    pub major: Option<Major>,
    /// The cluster that it belongs to.
    pub system_identifier: Option<u64>,
    /// Sizes of pages and segments.
    pub geometry: Geometry,
}

impl WalSet {
    /// Whose it is.
    pub fn origin(&self) -> WalOrigin {
        WalOrigin { major: self.major(), system_identifier: self.system_identifier(), geometry: self.geometry() }
    }
}
