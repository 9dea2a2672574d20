//! Segments inside tar archives: read in place when the archive is a plain file, else unpacked into the scratch file.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::bytes::{StoredAt, Window};
use super::codec::{Stream, fill, peel};
use super::collect::{Candidate, Collector, Origin};
use super::first_page::HEAD_BYTES;
use super::names::{NameKind, is_ignored_directory, kind_of_name};
use super::notes::{NoteKind, NoteLevel};
use super::set::WalSetError;
use super::tar::{Counted, Member, MemberKind, TarError, TarWalk, is_tar};
use crate::cluster::open::{Links, ReadFile};
use crate::types::MAX_WAL_SEGMENT_SIZE;

/// Size that a segment with a damaged first page is taken to have while nothing better is known.
const DEFAULT_SEGMENT_SIZE: u64 = 16 << 20;

/// Plain bytes of one archive that are passed over or read: more is taken for a bomb.
const MAX_STREAM_BYTES: u64 = 64 << 40;

/// Label of something inside something else.
pub(super) fn stream_label(outer: &str, inner: &str) -> String {
    format!("{outer}:{inner}")
}

/// What walking over an archive found besides segments.
#[derive(Default)]
struct Walked {
    first_candidate: usize,
    is_pg_wal: bool,
    unrecognized: u64,
}

/// What is to be done with a member.
enum Wanted {
    Nothing,
    History(String, crate::types::TimelineId),
    Segment(String, super::names::SegmentName, Origin),
}

impl Collector<'_> {
    /// Takes the members of a plain archive on disk, without copying them.
    pub(super) fn walk_file(&mut self, label: &str, path: &Arc<PathBuf>, links: Links, file: ReadFile) {
        let file_bytes = file.size_bytes();
        let mut window = Window::whole(file);
        let mut walk = TarWalk::default();
        let mut walked = Walked { first_candidate: self.candidates.len(), ..Walked::default() };
        loop {
            let member = match walk.next(&mut window) {
                Ok(Some(member)) => member,
                Ok(None) => break,
                Err(error) => {
                    self.note_tar_error(label, walk.offset(), &error);
                    break;
                }
            };
            let available = member.size_bytes.min(window.end().saturating_sub(member.offset));
            match self.wanted(label, &member, &mut walked) {
                Wanted::Nothing => {}
                Wanted::History(label, tli) => {
                    self.add_history(&label, tli, Box::new(window.part(member.offset, available)));
                }
                Wanted::Segment(label, name, origin) => {
                    let part = Box::new(window.part(member.offset, available));
                    let peeled = match peel(part, HEAD_BYTES, self.window_bytes) {
                        Ok(peeled) => peeled,
                        Err(error) => {
                            self.note_unpack_error(&label, member.offset, &error);
                            continue;
                        }
                    };
                    if self.is_inner_archive(&label, &peeled.head) {
                        continue;
                    }
                    let Some((header, second)) = self.first_page(&label, Some(&name), &peeled.head, origin) else {
                        continue;
                    };
                    let size_bytes = peeled.codecs.is_empty().then_some(available);
                    let place = StoredAt::File {
                        path: Arc::clone(path),
                        links,
                        file_bytes,
                        offset: member.offset,
                        size_bytes: available,
                    };
                    let codecs = peeled.codecs;
                    let name = Some(name);
                    self.candidates.push(Candidate { label, name, place, size_bytes, codecs, header, second, origin });
                }
            }
        }
        self.finish_walk(label, &walked);
    }

    /// Takes the members of an archive that is read only once, unpacking segments into the scratch file.
    ///
    /// # Errors
    /// When the scratch file cannot be made or written.
    pub(super) fn walk_stream(&mut self, label: &str, stream: Stream<'_>) -> Result<(), WalSetError> {
        let mut source = Counted { source: stream.take(MAX_STREAM_BYTES), position: 0 };
        let mut walk = TarWalk::default();
        let mut walked = Walked { first_candidate: self.candidates.len(), ..Walked::default() };
        let mut segment_size = None;
        loop {
            let member = match walk.next(&mut source) {
                Ok(Some(member)) => member,
                Ok(None) => break,
                Err(error) => {
                    self.note_tar_error(label, walk.offset(), &error);
                    break;
                }
            };
            let wanted = self.wanted(label, &member, &mut walked);
            let part = (&mut source).take(member.size_bytes);
            match wanted {
                Wanted::Nothing => {}
                Wanted::History(label, tli) => self.add_history(&label, tli, Box::new(part)),
                Wanted::Segment(label, name, origin) => {
                    let mut peeled = match peel(Box::new(part), HEAD_BYTES, self.window_bytes) {
                        Ok(peeled) => peeled,
                        Err(error) => {
                            self.note_unpack_error(&label, member.offset, &error);
                            continue;
                        }
                    };
                    if self.is_inner_archive(&label, &peeled.head) {
                        continue;
                    }
                    let Some((header, second)) = self.first_page(&label, Some(&name), &peeled.head, origin) else {
                        continue;
                    };
                    segment_size = header.map(|header| u64::from(header.segment_size)).or(segment_size);
                    let limit = segment_size.unwrap_or(DEFAULT_SEGMENT_SIZE).min(u64::from(MAX_WAL_SEGMENT_SIZE));
                    let spilled = self.spill(&mut peeled.stream, limit)?;
                    let mut size_bytes = spilled.size_bytes;
                    let mut failed = spilled.failed;
                    if failed.is_none() && size_bytes == limit {
                        let (more, error) = fill(&mut peeled.stream, &mut [0]);
                        size_bytes = size_bytes.saturating_add(more as u64);
                        failed = error;
                    }
                    if let Some(error) = failed {
                        let what = format!("stops after {size_bytes} bytes: {error}");
                        self.notes.add_at(NoteLevel::Problem, NoteKind::Truncated, &label, size_bytes, what);
                    }
                    let (place, codecs) = (spilled.place, peeled.codecs);
                    let (name, size_bytes) = (Some(name), Some(size_bytes));
                    self.candidates.push(Candidate {
                        label: label.clone(),
                        name,
                        place,
                        size_bytes,
                        codecs,
                        header,
                        second,
                        origin,
                    });
                    if spilled.limit_reached {
                        self.note_spill_limit(&label);
                        break;
                    }
                }
            }
        }
        self.finish_walk(label, &walked);
        Ok(())
    }

    fn wanted(&mut self, archive: &str, member: &Member, walked: &mut Walked) -> Wanted {
        let mut parts = member.name.rsplit('/').filter(|part| !part.is_empty() && *part != ".");
        let (base, parent) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if is_ignored_directory(parent) || is_ignored_directory(base) {
            walked.is_pg_wal |= parent == "archive_status" || base == "archive_status";
            return Wanted::Nothing;
        }
        if member.kind == MemberKind::Directory {
            return Wanted::Nothing;
        }
        let label = stream_label(archive, &member.name);
        let found = match kind_of_name(base) {
            NameKind::Ignored => return Wanted::Nothing,
            NameKind::Stranger => {
                walked.unrecognized = walked.unrecognized.saturating_add(1);
                return Wanted::Nothing;
            }
            NameKind::History(tli) => Wanted::History(label, tli),
            NameKind::Segment(name) => {
                Wanted::Segment(label, name, Origin { in_pg_wal: parent == "pg_wal", named: false })
            }
        };
        if let MemberKind::Other(kind) = member.kind {
            let (Wanted::History(label, _) | Wanted::Segment(label, ..)) = &found else { return Wanted::Nothing };
            self.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, label, format!("is a {kind}; not read"));
            return Wanted::Nothing;
        }
        found
    }

    fn is_inner_archive(&mut self, label: &str, head: &[u8]) -> bool {
        let is_archive = is_tar(head);
        if is_archive {
            let what = "an archive inside an archive; not looked into";
            self.notes.add(NoteLevel::Skipped, NoteKind::NotWal, label, what);
        }
        is_archive
    }

    fn finish_walk(&mut self, label: &str, walked: &Walked) {
        if walked.is_pg_wal {
            for candidate in self.candidates.iter_mut().skip(walked.first_candidate) {
                candidate.origin.in_pg_wal = true;
            }
        }
        if walked.unrecognized > 0 {
            let what = format!("{} members whose names are not those of WAL; not looked at", walked.unrecognized);
            self.notes.add(NoteLevel::Note, NoteKind::Stranger, label, what);
        }
    }

    fn note_tar_error(&mut self, label: &str, offset: u64, error: &TarError) {
        let kind = match error {
            TarError::Truncated(_) | TarError::Read(_) => NoteKind::Truncated,
            TarError::TooMany | TarError::TooManyEmpty | TarError::LongExtension(_) => NoteKind::Limit,
            TarError::BadHeader | TarError::Header(_) => NoteKind::CannotUnpack,
        };
        self.notes.add_at(NoteLevel::Problem, kind, label, offset, error);
    }

    pub(super) fn note_unpack_error(&mut self, label: &str, offset: u64, error: &std::io::Error) {
        let what = format!("cannot be unpacked: {error}");
        self.notes.add_at(NoteLevel::Skipped, NoteKind::CannotUnpack, label, offset, what);
    }
}
