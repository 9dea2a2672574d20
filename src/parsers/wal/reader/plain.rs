//! The short way through a page: records that lie inside it, follow each other and pass every check.

use super::{State, WalReader};
use crate::parsers::wal::block::BodyLayout;
use crate::parsers::wal::names::RM_XLOG;
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
    /// Takes records off the front of `input` for as long as each lies inside the current page and has nothing odd about
    /// it, and shows them to `visit`. All checks of [`Self::next`] are made; a record that fails one, or that needs a
    /// closer look, stays in `input` for [`Self::next`], which says what is the matter.
    ///
    /// `None`: there is no such record here. It costs next to nothing to ask.
    #[inline]
    pub fn take_plain<'c>(&mut self, input: &mut &'c [u8], mut visit: impl FnMut(&Record<'c>)) -> Option<Plain> {
        if let State::Pass(until) = self.state {
            // The padding behind the record before, unless it reaches the end of the page or of the input.
            let missing = usize::try_from(until.bytes_since(self.lsn)?).ok()?;
            if self.at_page_boundary() || missing >= self.left_in_page() || missing >= input.len() {
                return None;
            }
            self.consume(input, missing);
            self.state = State::Record;
        }
        let (State::Record, None, false) = (self.state, self.aborted, self.searching) else { return None };
        let mut link = self.link?;
        let to_limit = self.options.limit.map_or(u64::MAX, |limit| limit.0.saturating_sub(self.lsn.0));
        let room = self.left_in_page().min(usize::try_from(to_limit).unwrap_or(usize::MAX));
        let mut rest: &'c [u8] = input.get(..room).unwrap_or(input);
        let before = rest.len();
        let mut start_lsn = self.lsn;
        let mut records = 0;
        while let Some((bytes, step, behind)) = whole_record(rest) {
            let Ok(header) = RecordHeader::decode(start_lsn, bytes) else { break };
            // Records of the WAL machinery itself change how reading goes on.
            if header.prev != link || header.rmgr_id == RM_XLOG || !self.major.has_rmgr(header.rmgr_id) {
                break;
            }
            if record_crc(bytes) != header.crc {
                break;
            }
            let block_size = self.options.geometry.block_size;
            let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
            let Some(layout) = BodyLayout::quick(self.major, block_size, body) else { break };
            let end_lsn = start_lsn.advanced_by(step);
            visit(&Record {
                start_lsn,
                end_lsn,
                data_end_lsn: start_lsn.advanced_by(u64::from(header.tot_len)),
                header,
                layout,
                bytes,
                major: self.major,
                block_size,
                tli: self.page.tli,
                page_info: self.page.info,
                recovered: self.recovered,
            });
            records = u64::saturating_add(records, 1);
            link = start_lsn;
            start_lsn = end_lsn;
            rest = behind;
        }
        if records == 0 {
            return None;
        }
        self.consume(input, before.saturating_sub(rest.len()));
        self.link = Some(link);
        self.last_record = Some(link);
        self.end_of_last = Some(start_lsn);
        self.state = if self.at_page_boundary() { State::Page } else { State::Record };
        Some(Plain { records, last_record: link, end_lsn: start_lsn })
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
