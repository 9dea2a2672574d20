//! Segments in order; options and limits of the search for them, and errors that prevent it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

use super::bytes::{SegmentBytes, WalReadError};
use super::candidates::{DeniedFile, SegmentCandidate, UnknownVersionSegment, read_sources};
use super::choose::{Chosen, ChosenSet, Common, WalAccess, WalSegmentFile, choose};
use super::copies::Interrupted;
use super::notes::{NoteKind, NoteLevel, SetNote};
use crate::cluster::data_dir::NotADataDir;
use crate::cluster::open::AccessError;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, TimelineId};

/// WAL segments of one cluster and one timeline history, ordered by address, one file each.
#[derive(Debug)]
pub struct WalSet {
    segments: Vec<WalSegmentFile>,
    notes: Vec<SetNote>,
    unknown_versions: Vec<UnknownVersionSegment>,
    denied: Vec<DeniedFile>,
    common: Common,
    control: Option<ControlFile>,
    timeline: TimelineId,
    history: Option<TimelineHistory>,
    later_histories: Vec<TimelineHistory>,
    scratch: Option<File>,
    window_bytes: u32,
    leaves_out: bool,
}

impl WalSet {
    /// Examines all paths: data directories, directories of segments, segments, archives, patterns, and `-`.
    ///
    /// Everything odd is noted and left out or used as its note says; only what keeps the whole from being read is an error.
    ///
    /// # Errors
    /// [`WalSetError`]; [`WalSetError::NoWal`] when no segment is left.
    pub fn open(paths: &[PathBuf], options: WalSetOptions<'_>) -> Result<Self, WalSetError> {
        let (timeline, system_identifier) = (options.timeline, options.system_identifier);
        let (window_bytes, watch) = (options.window_bytes, options.watch);
        let (as_server, undisputed) = (options.as_server, options.undisputed);
        let (mut candidates, scratch) = read_sources(paths, options)?;
        let found = candidates.list.len();
        if as_server {
            candidates.list.retain(SegmentCandidate::is_read_by_server);
        }
        let leaves_compressed_out = candidates.list.len() < found;
        let access = WalAccess { scratch: scratch.as_ref(), window_bytes, watch, by_name: as_server, undisputed };
        let Chosen { notes, control, unknown_versions, denied, set } =
            choose(candidates, access, system_identifier, timeline).map_err(|Interrupted| WalSetError::Interrupted)?;
        let Some(ChosenSet { common, segments, timeline, history, later_histories }) = set else {
            return Err(WalSetError::NoWal { notes, unknown_versions, denied });
        };
        let is_misnamed = |note: &SetNote| note.kind == NoteKind::WrongName && note.level == NoteLevel::Problem;
        let leaves_out = leaves_compressed_out || as_server && notes.iter().any(is_misnamed);
        Ok(Self {
            segments,
            notes,
            unknown_versions,
            denied,
            common,
            control,
            timeline,
            history,
            later_histories,
            scratch,
            window_bytes,
            leaves_out,
        })
    }

    /// Sizes: those of WAL from the segments' long headers or the control file, those of relations from the control file
    /// or else the usual 8 KiB and 1 GiB.
    pub fn geometry(&self) -> Geometry {
        let geometry = self.control.as_ref().map_or(Geometry::USUAL, |control| control.geometry);
        Geometry { wal_block_size: self.common.block_size, wal_segment_size: self.common.segment_size, ..geometry }
    }

    /// Version of the segments; `None` when no first page is sound.
    pub const fn major(&self) -> Option<Major> {
        self.common.major
    }

    /// The cluster.
    pub const fn system_identifier(&self) -> Option<u64> {
        self.common.system_identifier
    }

    /// Control file of the first data directory that was given, if its checksum is right.
    pub const fn control(&self) -> Option<&ControlFile> {
        self.control.as_ref()
    }

    /// The timeline that is read.
    pub const fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Histories of later timelines that were found, in order.
    pub(crate) fn later_histories(&self) -> &[TimelineHistory] {
        &self.later_histories
    }

    /// Its history, with the timelines of all segments; `None` without a history file, when all segments are on the
    /// timeline itself.
    pub const fn history(&self) -> Option<&TimelineHistory> {
        self.history.as_ref()
    }

    /// The segments, ordered by address, one file for each number.
    pub fn segments(&self) -> &[WalSegmentFile] {
        &self.segments
    }

    /// Maximal ranges of [`Self::segments`] without a gap.
    pub fn runs(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, file) in self.segments.iter().enumerate() {
            let follows = index
                .checked_sub(1)
                .and_then(|before| self.segments.get(before))
                .is_some_and(|before| before.segment.number.checked_add(1) == Some(file.segment.number));
            match runs.last_mut().filter(|_| follows) {
                Some(run) => run.end = index.saturating_add(1),
                None => runs.push(index..index.saturating_add(1)),
            }
        }
        runs
    }

    /// Segments of versions that are not read here, which were left out.
    pub(crate) fn unknown_versions(&self) -> &[UnknownVersionSegment] {
        &self.unknown_versions
    }

    /// Files of `pg_wal` that the system does not let this user open, which were left out.
    pub fn denied(&self) -> &[DeniedFile] {
        &self.denied
    }

    /// There are segments in `pg_wal` that no server reads there, which were left out: see [`WalSetOptions::as_server`].
    pub(crate) const fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// Everything odd, in the order in which it was found.
    pub fn notes(&self) -> &[SetNote] {
        &self.notes
    }

    /// Opens a segment for reading. Any number may be open at a time, also in several threads.
    ///
    /// # Panics
    /// When there is no segment of this index.
    pub fn reader(&self, index: usize) -> Result<SegmentBytes<'_>, WalReadError> {
        self.reader_into(index, Vec::new())
    }

    /// As [`Self::reader`], with the buffer of an earlier reader.
    /// # Panics
    /// When there is no segment of this index.
    pub(crate) fn reader_into(&self, index: usize, buffer: Vec<u8>) -> Result<SegmentBytes<'_>, WalReadError> {
        let file = &self.segments[index];
        let segment_bytes = u64::from(self.common.segment_size);
        SegmentBytes::open(
            &file.label,
            &file.stored_at,
            self.scratch.as_ref(),
            segment_bytes,
            self.window_bytes,
            buffer,
        )
    }
}

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
