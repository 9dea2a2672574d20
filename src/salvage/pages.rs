//! New heap pages in the files of a sandbox: tuples packed one after the other.

use std::path::{Path, PathBuf};

use super::fit::{freeze, put};
use super::rows::sound_tuples;
use crate::cluster::open::{AccessError, ReadFile};
use crate::parsers::tuple::index::Tid;
use crate::rebuild::sandbox::{SandboxFile, SandboxRun};

/// Bytes of a page header, and of a line pointer.
const HEADER: usize = 24;
const POINTER: usize = 4;

/// Layout version of pages since 8.3.
const LAYOUT_VERSION: usize = 4;

/// Bytes of one segment file.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Pages that are written at once.
const BUFFERED_PAGES: usize = 64;

/// Writes a relation page by page.
pub(crate) struct HeapWriter<'a> {
    run: &'a SandboxRun,
    relative: PathBuf,
    block_size: usize,
    page: Vec<u8>,
    lower: usize,
    upper: usize,
    block: u32,
    file: SandboxFile,
    buffer: Vec<u8>,
    written: u64,
    segment: u32,
    /// Tuples on each page.
    pub counts: Vec<u16>,
    /// The segment that was read last.
    opened: Option<(u32, ReadFile)>,
}

impl<'a> HeapWriter<'a> {
    /// Begins a new relation.
    pub fn create(run: &'a SandboxRun, relative: &Path, block_size: usize) -> Result<Self, AccessError> {
        let file = run.create(relative, 0)?;
        Ok(Self::at(run, relative, block_size, (file, 0)))
    }

    /// Continues after the last page of a relation.
    pub fn append(run: &'a SandboxRun, relative: &Path, block_size: usize) -> Result<Self, AccessError> {
        let opened = run.extend(relative)?;
        Ok(Self::at(run, relative, block_size, opened))
    }

    fn at(run: &'a SandboxRun, relative: &Path, block_size: usize, (file, length): (SandboxFile, u64)) -> Self {
        let block = u32::try_from(length.checked_div(block_size as u64).unwrap_or_default()).unwrap_or(u32::MAX);
        Self {
            run,
            relative: relative.to_owned(),
            block_size,
            page: vec![0; block_size],
            lower: HEADER,
            upper: block_size,
            block,
            file,
            buffer: Vec::new(),
            written: length,
            segment: 0,
            counts: Vec::new(),
            opened: None,
        }
    }

    /// Adds a tuple, frozen; its place. One that is longer than a page is left out; no server writes such a one.
    pub fn add(&mut self, tuple: &[u8]) -> Result<Option<Tid>, AccessError> {
        let needed = tuple.len().next_multiple_of(8);
        if needed.saturating_add(HEADER).saturating_add(POINTER) > self.block_size {
            return Ok(None);
        }
        if self.upper < self.lower.saturating_add(POINTER).saturating_add(needed) {
            self.end_page()?;
        }
        let item = u16::try_from(self.lower.saturating_sub(HEADER) / POINTER).unwrap_or_default().saturating_add(1);
        self.upper = self.upper.saturating_sub(needed);
        let length = tuple.len();
        let pointer = u32::try_from(self.upper | 1 << 15 | length << 17).unwrap_or_default();
        if let Some(place) = self.page.get_mut(self.upper..self.upper.saturating_add(length)) {
            place.copy_from_slice(tuple);
            freeze(place, self.block, item);
        }
        put(&mut self.page, self.lower, &pointer.to_le_bytes());
        self.lower = self.lower.saturating_add(POINTER);
        Ok(Some((self.block, item)))
    }

    /// A tuple that was added; `None` for any other place.
    pub fn tuple(&mut self, (block, item): Tid) -> Result<Option<Vec<u8>>, AccessError> {
        if block == self.block {
            self.end_page()?;
        }
        self.flush()?;
        let offset = u64::from(block).saturating_mul(self.block_size as u64);
        let segment = u32::try_from(offset / SEGMENT_BYTES).unwrap_or_default();
        if self.opened.as_ref().is_none_or(|(opened, _)| *opened != segment) {
            self.opened = Some((segment, self.run.open(&self.segment_name(segment))?));
        }
        let Some((_, file)) = &self.opened else { return Ok(None) };
        let page = file.bytes_at(offset % SEGMENT_BYTES, self.block_size)?.unwrap_or_default();
        let found = sound_tuples(&page).find(|tuple| tuple.item == usize::from(item));
        Ok(found.map(|tuple| tuple.bytes.to_vec()))
    }

    fn segment_name(&self, segment: u32) -> PathBuf {
        match segment {
            0 => self.relative.clone(),
            _ => PathBuf::from(format!("{}.{segment}", self.relative.display())),
        }
    }

    fn end_page(&mut self) -> Result<(), AccessError> {
        let half = |value: usize| u16::try_from(value).unwrap_or_default().to_le_bytes();
        let head = [
            half(0),
            half(self.lower),
            half(self.upper),
            half(self.block_size),
            half(self.block_size | LAYOUT_VERSION),
        ];
        put(&mut self.page, 10, &head.concat());
        self.counts.push(u16::try_from(self.lower.saturating_sub(HEADER) / POINTER).unwrap_or_default());
        self.buffer.extend_from_slice(&self.page);
        self.page.fill(0);
        (self.lower, self.upper, self.block) = (HEADER, self.block_size, self.block.saturating_add(1));
        if self.buffer.len() >= self.block_size.saturating_mul(BUFFERED_PAGES) {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), AccessError> {
        let mut rest = std::mem::take(&mut self.buffer);
        while !rest.is_empty() {
            let room = usize::try_from(SEGMENT_BYTES.saturating_sub(self.written)).unwrap_or(usize::MAX);
            if room == 0 {
                self.segment = self.segment.saturating_add(1);
                (self.file, self.written) = (self.run.create(&self.segment_name(self.segment), 0)?, 0);
                continue;
            }
            let later = rest.split_off(room.min(rest.len()));
            self.file.write_at(self.written, &rest)?;
            self.written = self.written.saturating_add(rest.len() as u64);
            rest = later;
        }
        Ok(())
    }

    /// Writes what is left; the number of tuples on each page.
    pub fn finish(mut self) -> Result<Vec<u16>, AccessError> {
        if self.lower > HEADER {
            self.end_page()?;
        }
        self.flush()?;
        Ok(self.counts)
    }
}
