//! Segments in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;

use super::bytes::{SegmentBytes, StoredAt, WalReadError};
use super::choose::Common;
use super::codec::Codec;
use super::collect::Collector;
use super::notes::{NoteLevel, Notes, SetNote};
use super::spill::Scratch;
use crate::cluster::data_dir::NotADataDir;
use crate::cluster::open::AccessError;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, TimelineId};

/// Largest window of a compressed file that is accepted unless told otherwise: enough for every level of the usual
/// compressors and for `zstd --long=27`. Memory is taken only as far as a window is filled, so at most by a segment.
pub const DEFAULT_WINDOW_BYTES: u32 = 128 << 20;

/// Bytes that are unpacked into the scratch file in all unless told otherwise.
pub const DEFAULT_SPILL_BYTES: u64 = 64 << 30;

/// Path that stands for standard input.
const STDIN_PATH: &str = "-";

/// What to look for, and what may be used to do so.
pub struct WalSetOptions<'a> {
    /// The timeline to read; the newest that is present when `None`.
    pub timeline: Option<TimelineId>,
    /// The cluster whose WAL is wanted. When `None`, that of the first data directory given, else the most frequent one.
    pub system_identifier: Option<u64>,
    /// Makes an empty temporary file, for what can be read only once: compressed archives and standard input. Called once
    /// at most.
    pub scratch: &'a dyn Fn() -> io::Result<File>,
    /// What the path `-` stands for.
    pub stdin: Option<&'a mut (dyn Read + Send)>,
    /// Most bytes that are written to the temporary file.
    pub spill_bytes: u64,
    /// Largest window of a compressed file, in bytes; each reader may need about twice as much.
    pub window_bytes: u32,
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
    #[must_use]
    pub const fn new(scratch: &'a dyn Fn() -> io::Result<File>) -> Self {
        Self {
            timeline: None,
            system_identifier: None,
            scratch,
            stdin: None,
            spill_bytes: DEFAULT_SPILL_BYTES,
            window_bytes: DEFAULT_WINDOW_BYTES,
        }
    }
}

/// Why there is no set.
#[derive(Debug, thiserror::Error)]
pub enum WalSetError {
    /// A path that was named cannot be looked at.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A directory has a `PG_VERSION` that cannot be read or says nothing.
    #[error(transparent)]
    DataDir(NotADataDir),
    /// No file has a name of this pattern.
    #[error("nothing matches {0}")]
    NoMatch(String),
    /// A path does not exist and is no pattern either.
    #[error("pattern {pattern}: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: glob::PatternError,
    },
    /// `-` was given twice, or there is no standard input to be read.
    #[error("standard input can be read only once")]
    Stdin,
    /// The temporary file cannot be made or written.
    #[error("temporary file for unpacked WAL: {0}")]
    Scratch(io::Error),
    /// No segment of the wanted cluster and timeline was found; the notes say what was found instead.
    #[error("no WAL segment found{}", first_reason(.notes))]
    NoWal {
        /// All notes.
        notes: Vec<SetNote>,
    },
}

fn first_reason(notes: &[SetNote]) -> String {
    let worst = notes.iter().find(|note| note.level != NoteLevel::Note).or(notes.first());
    worst.map_or_else(String::new, |note| format!(": {note}"))
}

/// A segment and where its bytes are.
#[derive(Clone, Debug)]
pub struct WalSegmentFile {
    /// Path, or `archive:member`.
    pub label: String,
    /// Timeline and number.
    pub segment: WalSegment,
    /// Address of the first byte.
    pub start_lsn: Lsn,
    /// Plain bytes, at most those of a segment; `None` for a compressed file on disk, whose size shows when it is read.
    pub size_bytes: Option<u64>,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Compression, outermost first.
    pub codecs: Vec<Codec>,
    /// A `.partial` file, which need not be written to its end.
    pub partial: bool,
    /// Named by the user as a file, not found in a directory or archive.
    pub named: bool,
    pub(super) place: StoredAt,
}

/// WAL segments of one cluster and one timeline history, ordered by address, one file each.
#[derive(Debug)]
pub struct WalSet {
    segments: Vec<WalSegmentFile>,
    notes: Vec<SetNote>,
    common: Common,
    control: Option<ControlFile>,
    timeline: TimelineId,
    history: Option<TimelineHistory>,
    scratch: Option<Scratch>,
    window_bytes: u32,
}

impl WalSet {
    /// Looks at all paths: data directories, directories of segments, segments, archives, patterns, and `-`.
    ///
    /// Everything odd is noted and left out or used as its note says; only what keeps the whole from being read is an error.
    ///
    /// # Errors
    /// [`WalSetError`]; [`WalSetError::NoWal`] when no segment is left.
    pub fn open(paths: &[PathBuf], options: WalSetOptions<'_>) -> Result<Self, WalSetError> {
        let mut collector = Collector {
            notes: Notes::default(),
            candidates: Vec::new(),
            histories: BTreeMap::new(),
            control: None,
            data_major: None,
            scratch: None,
            make_scratch: options.scratch,
            spill_bytes: options.spill_bytes,
            window_bytes: options.window_bytes,
            timeline: options.timeline,
            has_vanished: false,
        };
        let mut stdin = options.stdin;
        for path in paths {
            if path.as_os_str() == STDIN_PATH {
                let input = stdin.take().ok_or(WalSetError::Stdin)?;
                collector.add_stdin(Box::new(input))?;
            } else {
                collector.add_path(path)?;
            }
        }
        let common = collector.agree(options.system_identifier);
        let chosen = common.and_then(|common| {
            let (segments, timeline, history) = collector.choose(&common);
            (!segments.is_empty()).then_some((common, segments, timeline?, history))
        });
        let notes = collector.notes.finish();
        let Some((common, segments, timeline, history)) = chosen else {
            return Err(WalSetError::NoWal { notes });
        };
        let (control, scratch) = (collector.control, collector.scratch);
        let window_bytes = options.window_bytes;
        Ok(Self { segments, notes, common, control, timeline, history, scratch, window_bytes })
    }

    /// Sizes: those of WAL from the segments' long headers or the control file, those of relations from the control file
    /// or else the usual 8 KiB and 1 GiB.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let usual = Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 0, wal_segment_size: 0 };
        let geometry = self.control.as_ref().map_or(usual, |control| control.geometry);
        Geometry { wal_block_size: self.common.block_size, wal_segment_size: self.common.segment_size, ..geometry }
    }

    /// Version of the segments; `None` when no first page is sound.
    #[must_use]
    pub const fn major(&self) -> Option<Major> {
        self.common.major
    }

    /// The cluster.
    #[must_use]
    pub const fn system_identifier(&self) -> Option<u64> {
        self.common.system_identifier
    }

    /// Control file of the first data directory that was given, if its checksum is right.
    #[must_use]
    pub const fn control(&self) -> Option<&ControlFile> {
        self.control.as_ref()
    }

    /// The timeline that is read.
    #[must_use]
    pub const fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Its history, of which all segments are; `None` when there is no history file, and all segments are of the
    /// timeline itself.
    #[must_use]
    pub const fn history(&self) -> Option<&TimelineHistory> {
        self.history.as_ref()
    }

    /// The segments, ordered by address, one file for each number.
    #[must_use]
    pub fn segments(&self) -> &[WalSegmentFile] {
        &self.segments
    }

    /// Maximal ranges of [`Self::segments`] without a gap.
    #[must_use]
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

    /// Everything odd, in the order in which it was found.
    #[must_use]
    pub fn notes(&self) -> &[SetNote] {
        &self.notes
    }

    /// Opens a segment for reading. Any number may be open at a time, also in several threads.
    ///
    /// # Errors
    /// When the file cannot be opened or has changed.
    ///
    /// # Panics
    /// When there is no segment of this index.
    pub fn reader(&self, index: usize) -> Result<SegmentBytes<'_>, WalReadError> {
        self.reader_into(index, Vec::new())
    }

    /// As [`Self::reader`], with the buffer of an earlier reader.
    ///
    /// # Errors
    /// As [`Self::reader`].
    ///
    /// # Panics
    /// When there is no segment of this index.
    pub fn reader_into(&self, index: usize, buffer: Vec<u8>) -> Result<SegmentBytes<'_>, WalReadError> {
        let file = &self.segments[index];
        let scratch = self.scratch.as_ref().map(|scratch| &scratch.file);
        let segment_bytes = u64::from(self.common.segment_size);
        SegmentBytes::open(&file.label, &file.place, scratch, segment_bytes, self.window_bytes, buffer)
    }
}
