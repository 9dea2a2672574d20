//! The fast path: records that are there as a whole, follow each other and pass every check, inside a page or over several.
//! Anything else is left to the full path, which says what is the matter.

use std::ops::ControlFlow;

use super::buffer::RecordBuffer;
use super::pages::Pages;
use super::rules::{RecordRules, Sound};
use crate::parsers::crc::{crc32c, crc32c_append};
use crate::parsers::wal::block::BodyLayout;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page::{FIRST_IS_CONTRECORD, PageHeader};
use crate::parsers::wal::record::{Record, RecordHeader, record_crc};
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// Records that took the fast path together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::parsers::wal) struct FastRun {
    /// Number of records, at least 1.
    pub(in crate::parsers::wal) records: u64,
    pub(in crate::parsers::wal) last_record: Lsn,
    pub(in crate::parsers::wal) end_lsn: Lsn,
}

/// Records that took the fast path in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCount {
    /// Those that lie inside a page, with more than images in them.
    pub inside: u64,
    /// Records that continue on another page, or only have images.
    pub single: u64,
}

/// Where the fast path begins: at the start of a record that follows another, with nothing odd about either.
pub(super) struct FastStart {
    pub(super) lsn: Lsn,
    /// Start of the record before.
    pub(super) link: Lsn,
    pub(super) major: Major,
    pub(super) rules: RecordRules,
    pub(super) page: PageHeader,
    pub(super) left_in_page: usize,
    /// Records that start here or after are not wanted.
    pub(super) limit: Option<Lsn>,
    /// Reading continued after earlier damage.
    pub(super) recovered: bool,
}

/// A record that continues on other pages, or only has images.
pub(super) struct Single<'c> {
    pub(super) sound: Sound,
    pub(super) data_end_lsn: Lsn,
    pub(super) page: PageHeader,
    /// Its bytes, unless they were put together in the buffer.
    pub(super) borrowed: Option<&'c [u8]>,
    /// The input after it.
    pub(super) rest: &'c [u8],
}

impl FastStart {
    /// Takes records off the front of `input` that are inside the page, and shows them to `visit` until it stops. All
    /// checks of the full path are made; a record that fails one, or that needs a closer look, stays in `input`.
    #[inline]
    pub(super) fn take_inside(
        &self,
        input: &mut &[u8],
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Option<FastRun> {
        let Self { major, rules: RecordRules { block_size, .. }, recovered, .. } = *self;
        let (tli, page_info) = (self.page.tli, self.page.info);
        let to_limit = self.limit.map_or(u64::MAX, |limit| limit.0.saturating_sub(self.lsn.0));
        let room = self.left_in_page.min(usize::try_from(to_limit).unwrap_or(usize::MAX));
        let mut rest = input.get(..room).unwrap_or(input);
        let before = rest.len();
        let (mut start_lsn, mut link) = (self.lsn, self.link);
        let mut records = 0;
        while let Some((bytes, step, after)) = whole_record(rest) {
            let Ok(header) = RecordHeader::decode(start_lsn, bytes) else { break };
            // Records of the WAL machinery itself change how reading continues.
            if header.prev != link || header.rmgr_id == RM_XLOG || !major.has_rmgr(header.rmgr_id) {
                break;
            }
            if record_crc(bytes) != header.crc {
                break;
            }
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
                tli,
                page_info,
                recovered,
            });
            records = u64::saturating_add(records, 1);
            link = start_lsn;
            start_lsn = end_lsn;
            rest = after;
            if visited.is_break() {
                break;
            }
        }
        if records == 0 {
            return None;
        }
        *input = input.get(before.saturating_sub(rest.len())..).unwrap_or_default();
        Some(FastRun { records, last_record: link, end_lsn: start_lsn })
    }

    /// The record at the front of `input`, when it ends in a later page than it starts in, or is nothing but images. What
    /// does not lie inside one page is put together in `buffer`.
    pub(super) fn single<'c>(&self, input: &'c [u8], pages: &Pages, buffer: &mut RecordBuffer) -> Option<Single<'c>> {
        let start_lsn = self.lsn;
        let header = self.rules.judge_header(start_lsn, input).ok()?;
        let length = usize::try_from(header.tot_len).ok()?;
        let left = self.left_in_page;
        let (front, mut rest) = input.split_at_checked(length.min(left))?;
        // Those of the WAL machinery itself may change how reading continues, those that are only images do not.
        let is_plain = header.rmgr_id != RM_XLOG && length > left;
        if !is_plain && !header.is_images() {
            return None;
        }
        let borrowed = front.get(..buffer.most_bytes().min(length));
        if borrowed.is_none() {
            buffer.clear();
            buffer.keep(front);
        }
        let body = front.get(RecordHeader::SIZE..)?;
        // CRC of the body so far, if it continues on another page.
        let mut body_crc = None;
        let (mut page, mut data_end_lsn) = (self.page, start_lsn.advanced_by(u64::try_from(front.len()).ok()?));
        let mut missing = length.saturating_sub(front.len());
        while missing > 0 {
            let page_start = data_end_lsn;
            // Room for the longer header, as everywhere.
            let next =
                rest.get(..PageHeader::LONG_SIZE).and_then(|bytes| PageHeader::decode(page_start, bytes).ok())?;
            let goes_on = next.has(FIRST_IS_CONTRECORD) && !next.overwrites();
            let is_next = goes_on && next.long.is_none() && usize::try_from(next.rem_len) == Ok(missing);
            let expected = pages.expectation(page_start, page.tli);
            if !is_next || !next.faults(&expected).is_empty() {
                return None;
            }
            let block = usize::try_from(expected.block_size).ok()?;
            let taken = missing.min(block.saturating_sub(PageHeader::SHORT_SIZE));
            let (piece, after) = rest.get(PageHeader::SHORT_SIZE..)?.split_at_checked(taken)?;
            body_crc = Some(crc32c_append(body_crc.unwrap_or_else(|| crc32c(body)), piece));
            if borrowed.is_none() {
                buffer.keep(piece);
            }
            (page, rest) = (next, after);
            missing = missing.saturating_sub(taken);
            data_end_lsn = page_start.advanced_by(u64::try_from(PageHeader::SHORT_SIZE.saturating_add(taken)).ok()?);
        }
        let crc = match body_crc {
            Some(body_crc) => crc32c_append(body_crc, front.get(..RecordHeader::CHECKED_SIZE)?),
            None => record_crc(front),
        };
        if self.limit.is_some_and(|limit| data_end_lsn.aligned() > limit) {
            return None;
        }
        let kept = borrowed.unwrap_or(buffer.kept());
        let sound = self.rules.judge_body(start_lsn, header, kept, crc).ok()?;
        Some(Single { sound, data_end_lsn, page, borrowed, rest })
    }
}

/// The record at the start of `rest`, the distance to the next and what is after, when all of that is there.
#[inline]
fn whole_record(rest: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let length = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    if length < RecordHeader::SIZE {
        return None;
    }
    let step = length.checked_next_multiple_of(8)?;
    let after = rest.get(step..)?;
    Some((rest.get(..length)?, u64::try_from(step).ok()?, after))
}
