//! Segments inside tar archives: read in place when the archive is a plain file, else unpacked into the scratch file.
//! Also here: inputs that can be read only once, standard input or a FIFO.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::bytes::{StoredAt, StoredWindow};
use super::candidates::{Candidates, Origin, SegmentCandidate};
use super::codec::{Codec, Peeled, Stream, fill, peel};
use super::first_page::{
    HEAD_BYTES, NameKind, SecondPage, SegmentHeader, SegmentName, is_ignored_directory, kind_of_name,
};
use super::notes::{NoteKind, NoteLevel, Notes};
use super::set::WalSetError;
use super::tar::{Counted, Member, MemberKind, TarError, TarSource, TarWalk, is_tar};
use crate::cluster::open::{Links, ReadFile};
use crate::types::{Geometry, MAX_WAL_SEGMENT_SIZE, TimelineId};

/// Size that a segment with a damaged first page is taken to have while nothing better is known.
const DEFAULT_SEGMENT_SIZE: u64 = Geometry::USUAL.wal_segment_size as u64;

/// Plain bytes of one archive that are skipped or read: more counts as a decompression bomb.
const MAX_STREAM_BYTES: u64 = 64 << 40;

/// Label of something inside something else.
pub(super) fn stream_label(outer: &str, inner: &str) -> String {
    format!("{outer}:{inner}")
}

enum Wanted {
    Nothing,
    History(String, TimelineId),
    Segment(String, SegmentName, Origin),
}

/// Takes the members of a plain archive on disk, without copying them.
pub(super) fn read_plain(
    label: &str,
    (path, links, file): (&Arc<PathBuf>, Links, ReadFile),
    found: &mut Candidates,
    window_bytes: u32,
) {
    let file_bytes = file.size_bytes();
    let mut window = StoredWindow::whole(file);
    let mut walk = TarWalk::default();
    let mut archive = Archive::new(label, found, window_bytes);
    while let Some(member) = archive.next(&mut walk, &mut window) {
        let available = member.size_bytes.min(window.end().saturating_sub(member.offset));
        let wanted = archive.wanted(&member);
        let part = Box::new(window.part(member.offset, available));
        let Some((segment, peeled)) = archive.open(wanted, member.offset, part) else { continue };
        let size_bytes = peeled.codecs.is_empty().then_some(available);
        let path = Arc::clone(path);
        let stored_at = StoredAt::File { path, links, file_bytes, offset: member.offset, size_bytes: available };
        archive.add(segment, stored_at, size_bytes, peeled.codecs);
    }
    archive.finish();
}

/// Takes the members of an archive that is read only once, unpacking segments into the scratch file.
pub(super) fn read_stream(
    label: &str,
    stream: Stream<'_>,
    found: &mut Candidates,
    scratch: &mut Scratch<'_>,
    window_bytes: u32,
) -> Result<(), WalSetError> {
    let mut source = Counted { source: stream.take(MAX_STREAM_BYTES), position: 0 };
    let mut walk = TarWalk::default();
    let mut archive = Archive::new(label, found, window_bytes);
    let mut segment_size = None;
    while let Some(member) = archive.next(&mut walk, &mut source) {
        let wanted = archive.wanted(&member);
        let part = Box::new((&mut source).take(member.size_bytes));
        let Some((segment, mut peeled)) = archive.open(wanted, member.offset, part) else { continue };
        segment_size = segment.header.map(|header| u64::from(header.segment_size)).or(segment_size);
        let limit = segment_size.unwrap_or(DEFAULT_SEGMENT_SIZE).min(u64::from(MAX_WAL_SEGMENT_SIZE));
        let spilled = scratch.spill(&mut peeled.stream, limit)?;
        let mut size_bytes = spilled.size_bytes;
        let mut failed = spilled.failed;
        if failed.is_none() && size_bytes == limit {
            let (more, error) = fill(&mut peeled.stream, &mut [0]);
            size_bytes = size_bytes.saturating_add(more as u64);
            failed = error;
        }
        let notes = &mut archive.found.notes;
        if let Some(error) = failed {
            let what = format!("stops after {size_bytes} bytes: {error}");
            notes.add_at(NoteLevel::Problem, NoteKind::Truncated, &segment.label, size_bytes, what);
        }
        if spilled.limit_reached {
            scratch.note_limit(&segment.label, notes);
        }
        archive.add(segment, spilled.stored_at, Some(size_bytes), peeled.codecs);
        if spilled.limit_reached {
            break;
        }
    }
    archive.finish();
    Ok(())
}

struct SegmentMember {
    label: String,
    name: SegmentName,
    origin: Origin,
    header: Option<SegmentHeader>,
    second: Option<SecondPage>,
}

/// An archive on the way through its members.
struct Archive<'l, 'c> {
    label: &'l str,
    found: &'c mut Candidates,
    window_bytes: u32,
    /// Candidates that were there before.
    known: usize,
    is_pg_wal: bool,
    unrecognized: u64,
}

impl<'l, 'c> Archive<'l, 'c> {
    const fn new(label: &'l str, found: &'c mut Candidates, window_bytes: u32) -> Self {
        let known = found.list.len();
        Self { label, found, window_bytes, known, is_pg_wal: false, unrecognized: 0 }
    }

    /// The next member; notes why the walk ends, if not where the archive does.
    fn next(&mut self, walk: &mut TarWalk, source: &mut dyn TarSource) -> Option<Member> {
        walk.next(source).unwrap_or_else(|error| {
            let kind = match error {
                TarError::Truncated(_) | TarError::Read(_) => NoteKind::Truncated,
                TarError::TooMany | TarError::TooManyEmpty | TarError::LongExtension(_) => NoteKind::Limit,
                TarError::BadHeader | TarError::Header(_) => NoteKind::CannotUnpack,
            };
            self.found.notes.add_at(NoteLevel::Problem, kind, self.label, walk.offset(), error);
            None
        })
    }

    /// Takes a history from the bytes of a member, or the beginning of a segment.
    fn open<'s>(&mut self, wanted: Wanted, offset: u64, part: Stream<'s>) -> Option<(SegmentMember, Peeled<'s>)> {
        let (label, name, origin) = match wanted {
            Wanted::Nothing => return None,
            Wanted::History(label, tli) => {
                self.found.add_history(&label, tli, part, self.window_bytes);
                return None;
            }
            Wanted::Segment(label, name, origin) => (label, name, origin),
        };
        let peeled = match peel(part, HEAD_BYTES, self.window_bytes) {
            Ok(peeled) => peeled,
            Err(error) => {
                self.found.note_unpack_error(&label, offset, &error);
                return None;
            }
        };
        if is_tar(&peeled.head) {
            let what = "an archive inside an archive; not read";
            self.found.notes.add(NoteLevel::Skipped, NoteKind::NotWal, &label, what);
            return None;
        }
        let (header, second) = self.found.first_page(&label, Some(&name), &peeled.head, origin)?;
        Some((SegmentMember { label, name, origin, header, second }, peeled))
    }

    fn add(&mut self, segment: SegmentMember, stored_at: StoredAt, size_bytes: Option<u64>, codecs: Vec<Codec>) {
        let SegmentMember { label, name, origin, header, second } = segment;
        let name = Some(name);
        self.found.list.push(SegmentCandidate { label, name, stored_at, size_bytes, codecs, header, second, origin });
    }

    /// Use of a member according to its name.
    fn wanted(&mut self, member: &Member) -> Wanted {
        let mut parts = member.name.rsplit('/').filter(|part| !part.is_empty() && *part != ".");
        let (base, parent) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if is_ignored_directory(parent) || is_ignored_directory(base) {
            self.is_pg_wal |= parent == "archive_status" || base == "archive_status";
            return Wanted::Nothing;
        }
        if member.kind == MemberKind::Directory {
            return Wanted::Nothing;
        }
        let label = stream_label(self.label, &member.name);
        let found = match kind_of_name(base) {
            NameKind::Ignored => return Wanted::Nothing,
            NameKind::Stranger | NameKind::Temporary => {
                self.unrecognized = self.unrecognized.saturating_add(1);
                return Wanted::Nothing;
            }
            NameKind::History(tli) => Wanted::History(label, tli),
            NameKind::Segment(name) => Wanted::Segment(
                label,
                name,
                Origin { in_pg_wal: parent == "pg_wal", is_of_cluster: false, named: false },
            ),
        };
        if let MemberKind::Other(kind) = member.kind {
            let (Wanted::History(label, _) | Wanted::Segment(label, ..)) = &found else { return Wanted::Nothing };
            self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, label, format!("is a {kind}; not read"));
            return Wanted::Nothing;
        }
        found
    }

    /// Says what else the archive holds.
    fn finish(self) {
        if self.is_pg_wal {
            for candidate in self.found.list.iter_mut().skip(self.known) {
                candidate.origin.in_pg_wal = true;
            }
        }
        if self.unrecognized > 0 {
            let what = format!("{} members whose names are not WAL names; not checked", self.unrecognized);
            self.found.notes.add(NoteLevel::Note, NoteKind::Unrecognized, self.label, what);
        }
    }
}

pub(super) const STDIN_LABEL: &str = "standard input";

/// An input that can be read only once, unpacked into the scratch file.
pub(super) struct OnceSource<'i, 'o> {
    pub label: &'i str,
    pub found: &'i mut Candidates,
    pub scratch: &'i mut Scratch<'o>,
    pub window_bytes: u32,
}

impl OnceSource<'_, '_> {
    /// Reads it to its end: an archive, a segment, or several one after the other.
    pub(super) fn read(mut self, input: Stream<'_>) -> Result<(), WalSetError> {
        let peeled = match peel(input, HEAD_BYTES, self.window_bytes) {
            Ok(peeled) => peeled,
            Err(error) => {
                let what = format!("cannot be read: {error}");
                self.found.notes.add(NoteLevel::Skipped, NoteKind::CannotUnpack, self.label, what);
                return Ok(());
            }
        };
        if is_tar(&peeled.head) {
            return read_stream(self.label, peeled.stream, self.found, self.scratch, self.window_bytes);
        }
        self.add_concatenated(peeled.stream)
    }

    fn add_concatenated(&mut self, mut stream: Stream<'_>) -> Result<(), WalSetError> {
        let origin = Origin { in_pg_wal: false, is_of_cluster: false, named: true };
        let mut segment_size = None;
        let mut at = 0_u64;
        for number in 1_u64.. {
            let mut head = vec![0; HEAD_BYTES];
            let (filled, mut failed) = fill(&mut stream, &mut head);
            head.truncate(filled);
            if filled == 0 && number > 1 {
                if let Some(error) = failed {
                    let what = format!("input stops: {error}");
                    self.found.notes.add_at(NoteLevel::Problem, NoteKind::Truncated, self.label, at, what);
                }
                return Ok(());
            }
            let label = stream_label(self.label, &number.to_string());
            let page = self.found.first_page(&label, None, &head, origin);
            if let Some((Some(header), _)) = page {
                segment_size = Some(header.segment_size);
            }
            let Some(limit) = segment_size.map(u64::from) else {
                // Without a first segment nothing says where the next would start.
                return Ok(());
            };
            let mut chunk = Cursor::new(head).chain(&mut stream).take(limit);
            let Some((header, second)) = page else {
                let left = limit.saturating_sub(filled as u64);
                let passed = io::copy(&mut stream.by_ref().take(left), &mut io::sink()).unwrap_or_default();
                at = at.saturating_add(filled as u64).saturating_add(passed);
                if passed < left {
                    return Ok(());
                }
                continue;
            };
            let spilled = self.scratch.spill(&mut chunk, limit)?;
            failed = failed.or(spilled.failed);
            at = at.saturating_add(spilled.size_bytes);
            self.found.list.push(SegmentCandidate {
                label: label.clone(),
                name: None,
                stored_at: spilled.stored_at,
                size_bytes: Some(spilled.size_bytes),
                codecs: Vec::new(),
                header,
                second,
                origin,
            });
            if let Some(error) = failed {
                let what = format!("input stops: {error}");
                self.found.notes.add_at(NoteLevel::Problem, NoteKind::Truncated, self.label, at, what);
                return Ok(());
            }
            if spilled.limit_reached {
                self.scratch.note_limit(self.label, &mut self.found.notes);
                return Ok(());
            }
            if spilled.size_bytes < limit {
                return Ok(());
            }
        }
        Ok(())
    }
}

const COPY_BYTES: usize = 64 * 1024;

/// The scratch file, made when it is needed first, and how far it is written.
pub(super) struct Scratch<'o> {
    make: &'o dyn Fn() -> io::Result<File>,
    limit_bytes: u64,
    file: Option<File>,
    next: u64,
    written: u64,
}

/// Result of unpacking a segment.
pub(super) struct Spilled {
    pub stored_at: StoredAt,
    pub size_bytes: u64,
    /// The stream failed after these bytes.
    pub failed: Option<io::Error>,
    pub limit_reached: bool,
}

impl<'o> Scratch<'o> {
    /// No file yet. `limit_bytes`: so many bytes are unpacked in all.
    pub(super) const fn new(make: &'o dyn Fn() -> io::Result<File>, limit_bytes: u64) -> Self {
        Self { make, limit_bytes, file: None, next: 0, written: 0 }
    }

    /// The file, if anything was unpacked.
    pub(super) fn into_file(self) -> Option<File> {
        self.file
    }

    /// Copies at most `limit_bytes` from a stream into the scratch file.
    pub(super) fn spill(&mut self, stream: &mut dyn Read, limit_bytes: u64) -> Result<Spilled, WalSetError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = (self.make)().map_err(WalSetError::Scratch)?;
                self.next = file.stream_position().map_err(WalSetError::Scratch)?;
                none.insert(file)
            }
        };
        let offset = self.next;
        let allowed = limit_bytes.min(self.limit_bytes.saturating_sub(self.written));
        let mut buffer = vec![0; COPY_BYTES];
        let mut size_bytes = 0;
        let mut failed = None;
        while size_bytes < allowed && failed.is_none() {
            let length = COPY_BYTES.min(usize::try_from(allowed.saturating_sub(size_bytes)).unwrap_or(COPY_BYTES));
            let (filled, error) = fill(stream, &mut buffer[..length]);
            file.write_all(&buffer[..filled]).map_err(WalSetError::Scratch)?;
            size_bytes = size_bytes.saturating_add(filled as u64);
            failed = error;
            if filled < length {
                break;
            }
        }
        self.next = self.next.saturating_add(size_bytes);
        self.written = self.written.saturating_add(size_bytes);
        let limit_reached = size_bytes == allowed && allowed < limit_bytes;
        Ok(Spilled { stored_at: StoredAt::Scratch { offset, size_bytes }, size_bytes, failed, limit_reached })
    }

    /// Says that nothing more may be unpacked.
    pub(super) fn note_limit(&self, label: &str, notes: &mut Notes) {
        let what = format!("{} bytes were unpacked in all, which is the limit; the rest is not read", self.limit_bytes);
        notes.add(NoteLevel::Skipped, NoteKind::Limit, label, what);
    }
}
