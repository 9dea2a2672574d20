//! Candidates: everything that looks like a segment, before any choice is made.
//! No choice among them is made here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::archive::{OnceSource, STDIN_LABEL, Scratch};
use super::bytes::StoredAt;
use super::codec::{Codec, Stream, fill, peel};
use super::directory::PathSource;
use super::first_page::{FirstPage, SecondPage, SegmentHeader, SegmentName};
use super::notes::{NoteKind, NoteLevel, Notes};
use super::set::{WalSetError, WalSetOptions};
use crate::cluster::backup_files::HISTORY_LIMIT_BYTES;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::parsers::wal::version::{Major, UnknownMagic};
use crate::types::TimelineId;

/// History files that are kept, those of the newest timelines.
const MAX_HISTORIES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Found where a server keeps its WAL: files with older content are normal there.
    pub in_pg_wal: bool,
    /// Found in the `pg_wal` of a data directory that was named before anything else.
    pub is_of_cluster: bool,
    pub named: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SegmentCandidate {
    pub label: String,
    pub name: Option<SegmentName>,
    pub stored_at: StoredAt,
    /// Plain bytes, when known; one more than a segment has when there are more.
    pub size_bytes: Option<u64>,
    pub codecs: Vec<Codec>,
    pub header: Option<SegmentHeader>,
    /// Set when the first page is damaged.
    pub second: Option<SecondPage>,
    pub origin: Origin,
}

impl SegmentCandidate {
    /// Number of the segment whose WAL it holds; `None` where its name is that of another, or it is not known.
    pub(super) fn written_number(&self) -> Option<u64> {
        let header = self.header?;
        let named = self.name.as_ref()?.segment(header.segment_size)?;
        (named.number == header.number()).then_some(named.number)
    }

    /// Not a file of `pg_wal` whose name or form no server takes there.
    pub(super) fn is_read_by_server(&self) -> bool {
        let is_plain = |name: &SegmentName| !name.partial && !name.lower_case && self.codecs.is_empty();
        !self.origin.in_pg_wal || self.name.as_ref().is_some_and(is_plain)
    }
}

/// A file that begins like a segment of a version that is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVersionSegment {
    /// Magic of its first page.
    pub magic: UnknownMagic,
    /// The 24 digits of its name, where it has such a name.
    name: Option<String>,
}

impl UnknownVersionSegment {
    /// Which segment it is by its name; `None` when its name is not that of a segment of this size.
    pub fn segment(&self, segment_size: u32) -> Option<WalSegment> {
        WalSegment::from_file_name(self.name.as_deref()?, segment_size)
    }
}

/// A file of `pg_wal`, or the directory itself, that is there and that the system does not let this user open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedFile {
    /// Its path.
    pub path: PathBuf,
    /// The 24 digits of its name, where it has such a name.
    pub(super) name: Option<String>,
}

impl DeniedFile {
    /// The directory itself.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), name: None }
    }

    /// Which segment it is by its name; `None` when its name is not that of a segment of this size.
    pub fn segment(&self, segment_size: u32) -> Option<WalSegment> {
        WalSegment::from_file_name(self.name.as_deref()?, segment_size)
    }
}

/// Everything that the sources gave.
#[derive(Clone)]
pub(super) struct Candidates {
    pub notes: Notes,
    pub list: Vec<SegmentCandidate>,
    pub histories: BTreeMap<TimelineId, (String, TimelineHistory)>,
    /// From the first data directory that has a valid one.
    pub control: Option<ControlFile>,
    /// Major by `PG_VERSION` of the data directory whose control file is used.
    pub data_major: Option<Major>,
    pub unknown_versions: Vec<UnknownVersionSegment>,
    /// Files of `pg_wal` that the system does not let this user open.
    pub denied: Vec<DeniedFile>,
    /// A file of `pg_wal` no longer existed when it was opened.
    pub has_vanished: bool,
    timeline: Option<TimelineId>,
}

impl Candidates {
    /// Nothing yet. `timeline`: the only one that is wanted.
    pub(super) fn new(timeline: Option<TimelineId>) -> Self {
        Self {
            notes: Notes::default(),
            list: Vec::new(),
            histories: BTreeMap::new(),
            control: None,
            data_major: None,
            unknown_versions: Vec::new(),
            denied: Vec::new(),
            has_vanished: false,
            timeline,
        }
    }

    /// Judges what a file begins with: its header, when it may be a segment, else a note.
    pub(super) fn first_page(
        &mut self,
        label: &str,
        name: Option<&SegmentName>,
        head: &[u8],
        origin: Origin,
    ) -> Option<(Option<SegmentHeader>, Option<SecondPage>)> {
        let may_be_unwritten = origin.in_pg_wal || name.is_some_and(|name| name.partial);
        let normal_if = |normal: bool| if normal { NoteLevel::Note } else { NoteLevel::Problem };
        match FirstPage::of(head) {
            FirstPage::Sound(header) => return Some((Some(header), None)),
            _ if unknown_packing(label, head).is_some() => {
                let what = unknown_packing(label, head).unwrap_or_default();
                self.notes.add(NoteLevel::Skipped, NoteKind::CannotUnpack, label, what);
            }
            FirstPage::Damaged { why, second } if name.is_some() => {
                let what = format!("first page: {why}; the second is that of a segment at {}", second.first_lsn);
                self.notes.add(NoteLevel::Problem, NoteKind::FirstPageDamaged, label, what);
                return Some((None, Some(second)));
            }
            FirstPage::Damaged { why, .. } => {
                let what = format!("first page: {why}; not used, because its name is not that of a segment");
                self.notes.add(NoteLevel::Skipped, NoteKind::FirstPageDamaged, label, what);
            }
            FirstPage::Version(magic) => {
                let name = name.map(|name| name.digits.clone());
                self.unknown_versions.push(UnknownVersionSegment { magic, name });
                self.notes.add(NoteLevel::Skipped, NoteKind::ForeignVersion, label, format!("{magic}; left out"));
            }
            FirstPage::Zero => {
                let what = "zero-filled at the beginning: created in advance and not written later";
                self.notes.add(normal_if(may_be_unwritten), NoteKind::Unwritten, label, what);
            }
            FirstPage::Empty => self.notes.add(NoteLevel::Problem, NoteKind::Empty, label, "no bytes"),
            FirstPage::Other(why) => {
                let level = if name.is_some() { NoteLevel::Problem } else { NoteLevel::Skipped };
                self.notes.add(level, NoteKind::NotWal, label, format!("not WAL: {why}"));
            }
        }
        None
    }

    /// Reads a history file from its stored bytes.
    pub(super) fn add_history(&mut self, label: &str, tli: TimelineId, source: Stream<'_>, window_bytes: u32) {
        if self.timeline.is_some_and(|wanted| wanted != tli) {
            return;
        }
        let text = match history_text(source, window_bytes) {
            Ok(text) => text,
            Err(error) => {
                return self.notes.add(NoteLevel::Skipped, NoteKind::BadHistory, label, format!("not read: {error}"));
            }
        };
        let history = match TimelineHistory::parse(tli, &text) {
            Ok(history) => history,
            Err(error) => return self.notes.add(NoteLevel::Problem, NoteKind::BadHistory, label, error),
        };
        if let Some((before, first)) = self.histories.get(&tli) {
            if *first != history {
                let what = format!("contradicts {before}, which is used");
                self.notes.add(NoteLevel::Problem, NoteKind::BadHistory, label, what);
            }
            return;
        }
        self.histories.insert(tli, (label.to_owned(), history));
        if self.histories.len() > MAX_HISTORIES {
            self.histories.pop_first();
        }
    }

    /// Says that a file of `pg_wal` was renamed or removed meanwhile.
    pub(super) fn note_vanished(&mut self, label: &str) {
        let what = "existed when the directory was listed, but was renamed or removed since";
        self.notes.add(NoteLevel::Note, NoteKind::Recycled, label, what);
        self.has_vanished = true;
    }

    /// Says that something cannot be unpacked.
    pub(super) fn note_unpack_error(&mut self, label: &str, offset: u64, error: &io::Error) {
        let what = format!("cannot be unpacked: {error}");
        self.notes.add_at(NoteLevel::Skipped, NoteKind::CannotUnpack, label, offset, what);
    }
}

/// The unsupported compression of a file. Neither brotli nor what lzop writes is known by its content.
fn unknown_packing(label: &str, head: &[u8]) -> Option<&'static str> {
    match label {
        _ if head.starts_with(b"Salted__") => Some("encrypted; not read: decrypt it with the program that archived it"),
        _ if label.ends_with(".br") => Some("packed with brotli, which is not read here: unpack it with brotli -d"),
        _ if label.ends_with(".lzo") => Some("packed with lzop, which is not read here: unpack it with lzop -d"),
        _ => None,
    }
}

fn history_text(source: Stream<'_>, window_bytes: u32) -> io::Result<String> {
    let mut stream = peel(source, 16, window_bytes)?.stream;
    let mut text = vec![0; HISTORY_LIMIT_BYTES + 1];
    let (filled, failed) = fill(&mut stream, &mut text);
    if let Some(error) = failed {
        return Err(error);
    }
    if filled > HISTORY_LIMIT_BYTES {
        return Err(io::Error::other(format!("longer than {HISTORY_LIMIT_BYTES} bytes")));
    }
    text.truncate(filled);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Path that stands for standard input.
const STDIN_PATH: &str = "-";

/// Examines all paths: data directories, directories of segments, segments, archives, patterns, and `-`. Gives what was
/// found, and the scratch file if there was need for one.
pub(super) fn read_sources(
    paths: &[PathBuf],
    options: WalSetOptions<'_>,
) -> Result<(Candidates, Option<File>), WalSetError> {
    let mut found = Candidates::new(options.timeline);
    found.control = options.control;
    let mut scratch = Scratch::new(options.scratch, options.spill_bytes);
    let window_bytes = options.window_bytes;
    let mut stdin = options.stdin;
    for path in paths {
        if path.as_os_str() == STDIN_PATH {
            let input = stdin.take().ok_or(WalSetError::Stdin)?;
            let source = OnceSource { label: STDIN_LABEL, found: &mut found, scratch: &mut scratch, window_bytes };
            source.read(Box::new(input))?;
        } else {
            let fifos = options.fifos;
            PathSource { found: &mut found, scratch: &mut scratch, window_bytes, fifos }.read(path)?;
        }
    }
    Ok((found, scratch.into_file()))
}
