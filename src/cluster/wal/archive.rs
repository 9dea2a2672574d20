//! Segments inside tar archives: read in place when the archive is a plain file, else unpacked into the scratch file.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::bytes::{StoredAt, StoredWindow};
use super::candidates::{Candidates, Origin, SegmentCandidate};
use super::codec::{Codec, Peeled, Stream, fill, peel};
use super::first_page::{HEAD_BYTES, SecondPage, SegmentHeader};
use super::names::{NameKind, SegmentName, is_ignored_directory, kind_of_name};
use super::notes::{NoteKind, NoteLevel};
use super::once::Scratch;
use super::options::WalSetError;
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
