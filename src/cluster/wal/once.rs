//! Inputs that can be read only once, standard input or a FIFO: an archive, or segments.

use std::io::{self, Cursor, Read};

use super::archive::{read_stream, stream_label};
use super::candidates::{Candidates, Origin, SegmentCandidate};
use super::codec::{Stream, fill, peel};
use super::error::WalSetError;
use super::first_page::HEAD_BYTES;
use super::notes::{NoteKind, NoteLevel};
use super::scratch::Scratch;
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
