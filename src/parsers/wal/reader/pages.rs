//! How the reader takes page headers.

use super::{Aborted, Collecting, Flow, FoundEvent, ReaderState, WalReader};
use crate::parsers::wal::end::{EndReason, stale_page};
use crate::parsers::wal::page::{
    FIRST_IS_CONTRECORD, FIRST_IS_OVERWRITE_CONTRECORD, LONG_HEADER, PageExpectation, PageFault, PageHeader,
};
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

impl WalReader {
    pub(super) fn read_page<'c>(&mut self, input: &mut &'c [u8]) -> Flow<'c> {
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.lsn);
        }
        let page_start = self.page_start();
        let decoded = if self.staged.is_empty() && input.len() >= PageHeader::LONG_SIZE {
            let decoded = PageHeader::decode(page_start, input);
            let size = decoded.as_ref().map_or(PageHeader::SHORT_SIZE, PageHeader::size);
            self.consume(input, size);
            decoded
        } else {
            loop {
                let is_long = self.staged.get(2).is_some_and(|&info| u16::from(info) & LONG_HEADER != 0);
                let size = if is_long { PageHeader::LONG_SIZE } else { PageHeader::SHORT_SIZE };
                let missing = size.saturating_sub(self.staged.len());
                if missing == 0 {
                    break;
                }
                // The flags come first: they decide how many bytes there are.
                let wanted = if self.staged.len() < 3 { 1 } else { missing };
                let piece = self.consume(input, wanted);
                if piece.is_empty() {
                    return Flow::NeedMore;
                }
                self.staged.extend_from_slice(piece);
            }
            let decoded = PageHeader::decode(page_start, &self.staged);
            self.staged.clear();
            decoded
        };
        match decoded {
            Ok(header) => self.judge_page(header, page_start),
            Err(error) => self.fail(EndReason::Body(error), page_start),
        }
    }

    fn judge_page<'c>(&mut self, header: PageHeader, page_start: Lsn) -> Flow<'c> {
        let expected = self.expectation(page_start, self.page.tli);
        if let Some(fault) = header.faults(&expected).into_iter().next() {
            let empty = header.magic == 0 && header.info == 0 && header.page_addr == Lsn(0) && header.rem_len == 0;
            let reason = match fault {
                PageFault::UnknownMagic(_) if empty => EndReason::NeverWritten,
                PageFault::Address { found, expected: place } => {
                    stale_page(found, place, expected.segment_size, expected.block_size)
                        .unwrap_or(EndReason::Page(fault))
                }
                other => EndReason::Page(other),
            };
            return self.fail_page(reason, page_start, None);
        }
        match Major::from_magic(header.magic) {
            Ok(major) => self.options.major = Some(major),
            Err(unknown) => {
                return self.fail_page(EndReason::Page(PageFault::UnknownMagic(unknown)), page_start, None);
            }
        }
        if let Some(long) = &header.long {
            self.options.system_identifier = Some(long.system_identifier);
        }
        if self.options.limit.is_none_or(|limit| page_start < limit) {
            let first = self.timelines.map_or(header.tli, |(first, _)| first);
            self.timelines = Some((first, header.tli));
        }
        let data = page_start.advanced_by(u64::try_from(header.size()).unwrap_or(0));
        self.continues.get_or_insert(header.has(FIRST_IS_CONTRECORD).then_some(data));
        self.page = header;
        self.enter_page(header, page_start)
    }

    /// What the page at `page_start` must say that follows one of timeline `last_tli`.
    pub(super) fn expectation(&self, page_start: Lsn, last_tli: TimelineId) -> PageExpectation<'_> {
        PageExpectation {
            major: self.options.major,
            page_addr: page_start,
            segment_size: self.options.geometry.wal_segment_size,
            block_size: self.options.geometry.wal_block_size,
            system_identifier: self.options.system_identifier,
            last_tli,
            timelines: &self.options.timelines,
        }
    }

    /// Decides how a sound page is read.
    fn enter_page<'c>(&mut self, header: PageHeader, page_start: Lsn) -> Flow<'c> {
        let Some(Collecting { start_lsn, tot_len, .. }) = self.collecting else {
            if !header.has(FIRST_IS_CONTRECORD) {
                self.state = ReaderState::Record;
            } else if self.link.is_none() {
                self.state = ReaderState::Pass(self.first_record_position());
            } else {
                let reason = EndReason::UnexpectedContinuation { rem_len: header.rem_len };
                return self.fail_page(reason, page_start, Some(header));
            }
            return Flow::Again;
        };
        let have = u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        if header.has(FIRST_IS_OVERWRITE_CONTRECORD) {
            self.aborted = Some(start_lsn);
            self.collecting = None;
            self.state = ReaderState::Record;
            return Flow::Found(FoundEvent::Aborted(Aborted { start_lsn, missing_lsn: page_start, have, tot_len }));
        }
        if !header.has(FIRST_IS_CONTRECORD) {
            return self.fail_page(EndReason::ContinuationMissing, page_start, Some(header));
        }
        let expected = tot_len.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
        if header.rem_len != expected {
            let reason = EndReason::ContinuationLength { found: header.rem_len, expected };
            return self.fail_page(reason, page_start, Some(header));
        }
        self.state = ReaderState::Collect;
        Flow::Again
    }

    /// Where the current page's first record starts, or its end when a record goes on through all of it.
    pub(super) fn first_record_position(&self) -> Lsn {
        let start = self.page_start();
        let data = start.advanced_by(u64::try_from(self.page.size()).unwrap_or(0));
        let rest = if self.page.has(FIRST_IS_CONTRECORD) { u64::from(self.page.rem_len) } else { 0 };
        let page_end = start.advanced_by(u64::from(self.options.geometry.wal_block_size));
        data.advanced_by(rest).aligned().min(page_end)
    }
}
