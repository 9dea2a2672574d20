//! Inputs that can be read only once, standard input or a FIFO: an archive, or segments.
//! Also here: unpacking into the scratch file what can be read only once.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};

use super::archive::{read_stream, stream_label};
use super::bytes::StoredAt;
use super::candidates::{Candidates, Origin, SegmentCandidate};
use super::codec::{Stream, fill, peel};
use super::first_page::HEAD_BYTES;
use super::notes::{NoteKind, NoteLevel, Notes};
use super::options::WalSetError;
use super::tar::is_tar;

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

/// Bytes that are copied at once.
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
