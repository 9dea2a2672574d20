//! Rules of a valid record.

use crate::parsers::wal::block::{BodyLayout, Keep};
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::page::PageFault;
use crate::parsers::wal::payload;
use crate::parsers::wal::record::{PrevLink, RecordHeader};
use crate::parsers::wal::version::{Major, UnknownMagic};
use crate::types::Lsn;

pub(super) struct Sound {
    pub(super) header: RecordHeader,
    pub(super) layout: BodyLayout,
    pub(super) major: Major,
}

/// Facts known at the start of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordRules {
    /// Version of the pages, if one was read.
    pub(super) major: Option<Major>,
    /// `xlp_magic` of the current page.
    pub(super) magic: u16,
    /// Start of the record before, once one was read in order.
    pub(super) link: Option<Lsn>,
    /// Start of a record that was given up just now.
    pub(super) aborted: Option<Lsn>,
    /// Bytes of a page of a relation.
    pub(super) block_size: u32,
    pub(super) keep: Keep,
}

impl RecordRules {
    /// Version of the current page. Nothing is read of a page before that is known.
    #[inline]
    fn page_major(&self) -> Result<Major, EndReason> {
        self.major.ok_or(EndReason::Page(PageFault::UnknownMagic(UnknownMagic(self.magic))))
    }

    pub(super) fn judge_length(&self, tot_len: u32) -> Result<(), EndReason> {
        if tot_len == 0 {
            return Err(EndReason::ZeroLength);
        }
        RecordHeader::check_length(tot_len, self.page_major()?).map_err(EndReason::Header)
    }

    /// Checks the header at the start of `bytes`.
    #[inline]
    pub(super) fn judge_header(&self, start_lsn: Lsn, bytes: &[u8]) -> Result<RecordHeader, EndReason> {
        let header = RecordHeader::decode(start_lsn, bytes).map_err(EndReason::Body)?;
        let link = self.link.map_or(PrevLink::Below(start_lsn), PrevLink::Exactly);
        match header.faults(self.page_major()?, link).first() {
            Some(&fault) => Err(EndReason::Header(fault)),
            None => Ok(header),
        }
    }

    /// Checks everything after the header of a whole record: its checksum, `computed` over all of it, and what its first
    /// `bytes` say; those that `header` counts beyond them were not kept.
    #[inline]
    pub(super) fn judge_body(
        &self,
        start_lsn: Lsn,
        header: RecordHeader,
        bytes: &[u8],
        computed: u32,
    ) -> Result<Sound, EndReason> {
        if computed != header.crc {
            return Err(EndReason::Checksum { found: header.crc, computed });
        }
        let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
        let major = self.page_major()?;
        let beyond = u64::from(header.tot_len).saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let layout = BodyLayout::decode_cut(start_lsn, major, self.block_size, body, (beyond, self.keep))
            .map_err(EndReason::Body)?;
        if let Some(expected) = self.aborted
            && let Some(found) = payload::overwritten_lsn(&header, layout.main_data(body))
            && found != expected
        {
            return Err(EndReason::Overwritten { found, expected });
        }
        Ok(Sound { header, layout, major })
    }
}
