//! Page headers as they come, and what they say of the pages that follow.

use super::cursor::Cursor;
use super::options::ReaderOptions;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::end::{EndReason, stale_page};
use crate::parsers::wal::page::{FIRST_IS_CONTRECORD, LONG_HEADER, PageExpectation, PageFault, PageHeader};
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, TimelineId};

#[derive(Debug)]
pub(super) struct Pages {
    geometry: Geometry,
    /// Timelines that may occur; any when empty.
    allowed: Vec<TimelineId>,
    /// Version, as given or as the last page says.
    pub(super) major: Option<Major>,
    /// As given, or as the last long header says.
    pub(super) system_identifier: Option<u64>,
    pub(super) current: PageHeader,
    /// Timelines of the first and of the last page before the limit.
    pub(super) timelines: Option<(TimelineId, TimelineId)>,
    /// Whether the first page says that it begins with the rest of a record, and where that lies.
    continues: Option<Option<Lsn>>,
    /// Bytes of a page header that came in pieces.
    staged: Vec<u8>,
}

impl Pages {
    /// None yet; the first will start at `first`.
    pub(super) fn new(options: &ReaderOptions, first: Lsn) -> Self {
        Self {
            geometry: options.geometry,
            allowed: options.timelines.clone(),
            major: options.major,
            system_identifier: options.system_identifier,
            current: PageHeader { magic: 0, info: 0, tli: TimelineId(0), page_addr: first, rem_len: 0, long: None },
            timelines: None,
            continues: None,
            staged: Vec::with_capacity(PageHeader::LONG_SIZE),
        }
    }

    /// Takes a header off `input`; `None` when there is not all of it yet.
    pub(super) fn take(&mut self, at: &mut Cursor, input: &mut &[u8]) -> Option<Result<PageHeader, ParseError>> {
        let page_start = at.page_start();
        if self.staged.is_empty() && input.len() >= PageHeader::LONG_SIZE {
            let decoded = PageHeader::decode(page_start, input);
            at.consume(input, decoded.as_ref().map_or(PageHeader::SHORT_SIZE, PageHeader::size));
            return Some(decoded);
        }
        loop {
            let is_long = self.staged.get(2).is_some_and(|&info| u16::from(info) & LONG_HEADER != 0);
            let size = if is_long { PageHeader::LONG_SIZE } else { PageHeader::SHORT_SIZE };
            let missing = size.saturating_sub(self.staged.len());
            if missing == 0 {
                break;
            }
            // The flags come first: they decide how many bytes there are.
            let wanted = if self.staged.len() < 3 { 1 } else { missing };
            let piece = at.consume(input, wanted);
            if piece.is_empty() {
                return None;
            }
            self.staged.extend_from_slice(piece);
        }
        let decoded = PageHeader::decode(page_start, &self.staged);
        self.staged.clear();
        Some(decoded)
    }

    /// Bytes of an incomplete header.
    pub(super) fn staged_bytes(&self) -> usize {
        self.staged.len()
    }

    /// Checks a header, and makes its page the current one. `is_before_limit`: its timeline counts.
    pub(super) fn judge(
        &mut self,
        header: PageHeader,
        page_start: Lsn,
        is_before_limit: bool,
    ) -> Result<(), EndReason> {
        let expected = self.expectation(page_start, self.current.tli);
        if let Some(fault) = header.faults(&expected).into_iter().next() {
            let empty = header.magic == 0 && header.info == 0 && header.page_addr == Lsn(0) && header.rem_len == 0;
            return Err(match fault {
                PageFault::UnknownMagic(_) if empty => EndReason::NeverWritten,
                PageFault::Address { found, expected: address } => {
                    stale_page(found, address, expected.segment_size, expected.block_size)
                        .unwrap_or(EndReason::Page(fault))
                }
                other => EndReason::Page(other),
            });
        }
        let major = Major::from_magic(header.magic);
        self.major = Some(major.map_err(|unknown| EndReason::Page(PageFault::UnknownMagic(unknown)))?);
        if let Some(long) = &header.long {
            self.system_identifier = Some(long.system_identifier);
        }
        let data = page_start.advanced_by(u64::try_from(header.size()).unwrap_or(0));
        self.continues.get_or_insert(header.has(FIRST_IS_CONTRECORD).then_some(data));
        if is_before_limit {
            self.go_on(header);
        } else {
            self.current = header;
        }
        Ok(())
    }

    /// Makes a sound page the current one.
    pub(super) fn go_on(&mut self, header: PageHeader) {
        self.timelines = Some((self.timelines.map_or(header.tli, |(first, _)| first), header.tli));
        self.current = header;
    }

    /// Required header of the page at `page_start` after a page on timeline `last_tli`.
    pub(super) fn expectation(&self, page_start: Lsn, last_tli: TimelineId) -> PageExpectation<'_> {
        PageExpectation {
            major: self.major,
            page_addr: page_start,
            segment_size: self.geometry.wal_segment_size,
            block_size: self.geometry.wal_block_size,
            system_identifier: self.system_identifier,
            last_tli,
            timelines: &self.allowed,
        }
    }

    /// Where the rest of a record lies with which the first page says that it begins.
    pub(super) fn continues(&self) -> Option<Lsn> {
        self.continues.flatten()
    }

    /// Where the current page's first record starts, or its end when a record continues through all of it.
    pub(super) fn first_record_position(&self, at: &Cursor) -> Lsn {
        let data = at.page_start().advanced_by(u64::try_from(self.current.size()).unwrap_or(0));
        let rest = if self.current.has(FIRST_IS_CONTRECORD) { u64::from(self.current.rem_len) } else { 0 };
        data.advanced_by(rest).aligned().min(at.page_end())
    }
}
