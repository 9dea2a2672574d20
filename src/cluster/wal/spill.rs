//! Unpacking into the scratch file what can be read only once.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};

use super::archive::stream_label;
use super::bytes::StoredAt;
use super::codec::{Stream, fill, peel};
use super::collect::{Candidate, Collector, Origin};
use super::first_page::HEAD_BYTES;
use super::notes::{NoteKind, NoteLevel};
use super::set::WalSetError;
use super::tar::is_tar;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 64 * 1024;

/// What standard input is called.
pub(super) const STDIN_LABEL: &str = "standard input";

/// The scratch file, and how far it is written.
#[derive(Debug)]
pub(super) struct Scratch {
    pub file: File,
    next: u64,
    written: u64,
}

/// What became of a segment that was unpacked.
pub(super) struct Spilled {
    pub place: StoredAt,
    pub size_bytes: u64,
    /// The stream failed behind these bytes.
    pub failed: Option<io::Error>,
    /// Nothing more may be unpacked.
    pub limit_reached: bool,
}

impl Collector<'_> {
    /// Copies at most `limit_bytes` from a stream into the scratch file.
    ///
    /// # Errors
    /// When the scratch file cannot be made or written.
    pub(super) fn spill(&mut self, stream: &mut dyn Read, limit_bytes: u64) -> Result<Spilled, WalSetError> {
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => {
                let mut file = (self.make_scratch)().map_err(WalSetError::Scratch)?;
                let next = file.stream_position().map_err(WalSetError::Scratch)?;
                none.insert(Scratch { file, next, written: 0 })
            }
        };
        let offset = scratch.next;
        let allowed = limit_bytes.min(self.spill_bytes.saturating_sub(scratch.written));
        let mut buffer = vec![0; COPY_BYTES];
        let mut size_bytes = 0;
        let mut failed = None;
        while size_bytes < allowed && failed.is_none() {
            let length = COPY_BYTES.min(usize::try_from(allowed.saturating_sub(size_bytes)).unwrap_or(COPY_BYTES));
            let (filled, error) = fill(stream, &mut buffer[..length]);
            scratch.file.write_all(&buffer[..filled]).map_err(WalSetError::Scratch)?;
            size_bytes = size_bytes.saturating_add(filled as u64);
            failed = error;
            if filled < length {
                break;
            }
        }
        scratch.next = scratch.next.saturating_add(size_bytes);
        scratch.written = scratch.written.saturating_add(size_bytes);
        let limit_reached = size_bytes == allowed && allowed < limit_bytes;
        Ok(Spilled { place: StoredAt::Scratch { offset, size_bytes }, size_bytes, failed, limit_reached })
    }

    pub(super) fn note_spill_limit(&mut self, label: &str) {
        let what = format!("{} bytes were unpacked in all, which is the limit; the rest is not read", self.spill_bytes);
        self.notes.add(NoteLevel::Skipped, NoteKind::Limit, label, what);
    }

    /// Reads standard input: an archive, a segment, or several one behind the other.
    ///
    /// # Errors
    /// As [`Self::spill`].
    pub(super) fn add_stdin(&mut self, input: Stream<'_>) -> Result<(), WalSetError> {
        let peeled = match peel(input, HEAD_BYTES, self.window_bytes) {
            Ok(peeled) => peeled,
            Err(error) => {
                let what = format!("cannot be read: {error}");
                self.notes.add(NoteLevel::Skipped, NoteKind::CannotUnpack, STDIN_LABEL, what);
                return Ok(());
            }
        };
        if is_tar(&peeled.head) {
            return self.walk_stream(STDIN_LABEL, peeled.stream);
        }
        self.add_concatenated(peeled.stream)
    }

    fn add_concatenated(&mut self, mut stream: Stream<'_>) -> Result<(), WalSetError> {
        let origin = Origin { in_pg_wal: false, named: true };
        let mut segment_size = None;
        let mut at = 0_u64;
        for number in 1_u64.. {
            let mut head = vec![0; HEAD_BYTES];
            let (filled, mut failed) = fill(&mut stream, &mut head);
            head.truncate(filled);
            if filled == 0 && number > 1 {
                if let Some(error) = failed {
                    let what = format!("input stops: {error}");
                    self.notes.add_at(NoteLevel::Problem, NoteKind::Truncated, STDIN_LABEL, at, what);
                }
                return Ok(());
            }
            let label = stream_label(STDIN_LABEL, &number.to_string());
            let page = self.first_page(&label, None, &head, origin);
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
            let spilled = self.spill(&mut chunk, limit)?;
            failed = failed.or(spilled.failed);
            at = at.saturating_add(spilled.size_bytes);
            self.candidates.push(Candidate {
                label: label.clone(),
                name: None,
                place: spilled.place,
                size_bytes: Some(spilled.size_bytes),
                codecs: Vec::new(),
                header,
                second,
                origin,
            });
            if let Some(error) = failed {
                let what = format!("input stops: {error}");
                self.notes.add_at(NoteLevel::Problem, NoteKind::Truncated, STDIN_LABEL, at, what);
                return Ok(());
            }
            if spilled.limit_reached {
                self.note_spill_limit(STDIN_LABEL);
                return Ok(());
            }
            if spilled.size_bytes < limit {
                return Ok(());
            }
        }
        Ok(())
    }
}
