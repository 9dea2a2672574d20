//! The short way: records that are there as a whole, follow each other and pass every check, inside a page or over several.

use std::ops::ControlFlow;

use super::{ReaderState, WalReader};
use crate::parsers::crc::{crc32c, crc32c_append};
use crate::parsers::wal::block::BodyLayout;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page::{FIRST_IS_CONTRECORD, FIRST_IS_OVERWRITE_CONTRECORD, PageHeader};
use crate::parsers::wal::record::{Record, RecordHeader, record_crc};
use crate::types::Lsn;

/// What the short way took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Number of records, at least 1.
    pub records: u64,
    /// Start of the last one.
    pub last_record: Lsn,
    /// End of the last one.
    pub end_lsn: Lsn,
}

impl WalReader {
    /// Takes records off the front of `input` for as long as each is there as a whole and has nothing odd about it, and
    /// shows them to `visit` until it breaks off. All checks of [`Self::next`] are made; a record that fails one, or that
    /// needs a closer look, stays in `input` for [`Self::next`], which says what is the matter.
    ///
    /// `None`: there is no such record here. It costs next to nothing to ask.
    #[inline]
    pub fn take_plain(
        &mut self,
        input: &mut &[u8],
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Option<Plain> {
        if let ReaderState::Pass(until) = self.state {
            // The padding behind the record before, unless it reaches the end of the page or of the input.
            let missing = usize::try_from(until.bytes_since(self.lsn)?).ok()?;
            if self.at_page_boundary() || missing >= self.left_in_page() || missing >= input.len() {
                return None;
            }
            self.consume(input, missing);
            self.state = ReaderState::Record;
        }
        let (ReaderState::Record, None, false) = (self.state, self.aborted, self.searching) else { return None };
        let (mut link, major) = (self.link?, self.options.major?);
        let to_limit = self.options.limit.map_or(u64::MAX, |limit| limit.0.saturating_sub(self.lsn.0));
        let room = self.left_in_page().min(usize::try_from(to_limit).unwrap_or(usize::MAX));
        let mut rest = input.get(..room).unwrap_or(input);
        let before = rest.len();
        let mut start_lsn = self.lsn;
        let mut records = 0;
        while let Some((bytes, step, behind)) = whole_record(rest) {
            let Ok(header) = RecordHeader::decode(start_lsn, bytes) else { break };
            // Records of the WAL machinery itself change how reading goes on.
            if header.prev != link || header.rmgr_id == RM_XLOG || !major.has_rmgr(header.rmgr_id) {
                break;
            }
            if record_crc(bytes) != header.crc {
                break;
            }
            let block_size = self.options.geometry.block_size;
            let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
            let Some(layout) = BodyLayout::quick(major, block_size, body, 0) else { break };
            let end_lsn = start_lsn.advanced_by(step);
            let visited = visit(&Record {
                start_lsn,
                end_lsn,
                data_end_lsn: start_lsn.advanced_by(u64::from(header.tot_len)),
                header,
                layout,
                bytes,
                major,
                block_size,
                tli: self.page.tli,
                page_info: self.page.info,
                recovered: self.recovered,
            });
            records = u64::saturating_add(records, 1);
            link = start_lsn;
            start_lsn = end_lsn;
            rest = behind;
            if visited.is_break() {
                break;
            }
        }
        if records == 0 {
            return None;
        }
        self.consume(input, before.saturating_sub(rest.len()));
        self.link = Some(link);
        self.last_record = Some(link);
        self.end_of_last = Some(start_lsn);
        self.state = if self.at_page_boundary() { ReaderState::Page } else { ReaderState::Record };
        Some(Plain { records, last_record: link, end_lsn: start_lsn })
    }

    /// As [`Self::take_plain`] for a single record that ends in a later page than it starts in, or is nothing but images.
    #[inline(never)]
    pub fn take_single(&mut self, input: &mut &[u8], visit: impl FnOnce(&Record<'_>)) -> Option<Plain> {
        let (ReaderState::Record, None, false) = (self.state, self.aborted, self.searching) else { return None };
        self.link?;
        let (start_lsn, first_page) = (self.lsn, self.page);
        let header = self.judge_header(start_lsn, input).ok()?;
        let length = usize::try_from(header.tot_len).ok()?;
        let left = self.left_in_page();
        let (front, mut rest) = input.split_at_checked(length.min(left))?;
        // Those of the WAL machinery itself may change how reading goes on, those that are only images do not.
        let is_plain = header.rmgr_id != RM_XLOG && length > left;
        if !is_plain && !header.is_images() {
            return None;
        }
        let most_bytes = self.buffer.most_bytes().min(length);
        let borrowed = front.get(..most_bytes);
        if borrowed.is_none() {
            self.buffer.clear();
            self.buffer.keep(front);
        }
        let body = front.get(RecordHeader::SIZE..)?;
        // Of the body so far, once it goes on in another page.
        let mut body_crc = None;
        let block = usize::try_from(self.options.geometry.wal_block_size).ok()?;
        let (mut page, mut data_end_lsn) = (first_page, start_lsn.advanced_by(u64::try_from(front.len()).ok()?));
        let mut missing = length.saturating_sub(front.len());
        while missing > 0 {
            let page_start = data_end_lsn;
            // Room for the longer header, as everywhere.
            let next =
                rest.get(..PageHeader::LONG_SIZE).and_then(|bytes| PageHeader::decode(page_start, bytes).ok())?;
            let goes_on = next.has(FIRST_IS_CONTRECORD) && !next.has(FIRST_IS_OVERWRITE_CONTRECORD);
            let is_next = goes_on && next.long.is_none() && usize::try_from(next.rem_len) == Ok(missing);
            if !is_next || !next.faults(&self.expectation(page_start, page.tli)).is_empty() {
                return None;
            }
            let taken = missing.min(block.saturating_sub(PageHeader::SHORT_SIZE));
            let (piece, behind) = rest.get(PageHeader::SHORT_SIZE..)?.split_at_checked(taken)?;
            body_crc = Some(crc32c_append(body_crc.unwrap_or_else(|| crc32c(body)), piece));
            if borrowed.is_none() {
                self.buffer.keep(piece);
            }
            (page, rest) = (next, behind);
            missing = missing.saturating_sub(taken);
            data_end_lsn = page_start.advanced_by(u64::try_from(PageHeader::SHORT_SIZE.saturating_add(taken)).ok()?);
        }
        let crc = match body_crc {
            Some(body_crc) => crc32c_append(body_crc, front.get(..RecordHeader::CHECKED_SIZE)?),
            None => record_crc(front),
        };
        if self.options.limit.is_some_and(|limit| data_end_lsn.aligned() > limit) {
            return None;
        }
        let sound = self.judge_body(start_lsn, header, borrowed.unwrap_or(self.buffer.kept()), crc).ok()?;
        *input = rest;
        self.lsn = data_end_lsn;
        self.page = page;
        self.timelines = Some((self.timelines.map_or(page.tli, |(first, _)| first), page.tli));
        let whole = self.accept(start_lsn, sound, first_page.tli, first_page.info);
        let end_lsn = whole.end_lsn;
        visit(&self.record(whole, borrowed.unwrap_or(self.buffer.kept())));
        Some(Plain { records: 1, last_record: start_lsn, end_lsn })
    }
}

/// The record at the start of `rest`, the distance to the next and what is behind, when all of that is there.
#[inline]
fn whole_record(rest: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let length = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    if length < RecordHeader::SIZE {
        return None;
    }
    let step = length.checked_next_multiple_of(8)?;
    let behind = rest.get(step..)?;
    Some((rest.get(..length)?, u64::try_from(step).ok()?, behind))
}
