//! Unpacking into the scratch file what can be read only once.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use super::bytes::StoredAt;
use super::codec::fill;
use super::error::WalSetError;
use super::notes::{NoteKind, NoteLevel, Notes};

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
