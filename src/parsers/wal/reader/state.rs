//! State that the state machine passes between steps.

use super::event::Aborted;
use super::rules::Sound;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::types::{Lsn, TimelineId};

/// As [`super::Event`], without the bytes of a record that lie in the reader's own buffer.
pub(super) enum FoundEvent<'c> {
    Inside(Whole, &'c [u8]),
    Assembled(Whole),
    Aborted(Aborted),
    Damage(EndOfWal),
    End(EndOfWal),
}

/// Facts about a record in addition to its bytes.
pub(super) struct Whole {
    pub(super) start_lsn: Lsn,
    pub(super) end_lsn: Lsn,
    pub(super) data_end_lsn: Lsn,
    pub(super) sound: Sound,
    pub(super) tli: TimelineId,
    pub(super) page_info: u16,
}

pub(super) enum Flow<'c> {
    Again,
    NeedMore,
    Found(FoundEvent<'c>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ReaderState {
    Page,
    /// In a page, where a record may start.
    Record,
    /// In a page, inside a record that is put together in the buffer.
    Collect,
    /// Not examining bytes before this address.
    Pass(Lsn),
    /// After the end.
    Stopped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Collecting {
    pub(super) start_lsn: Lsn,
    pub(super) tli: TimelineId,
    pub(super) page_info: u16,
    pub(super) tot_len: u32,
}

impl Whole {
    /// The record with its bytes. `recovered`: damage was skipped somewhere before it.
    #[inline]
    pub(super) fn with_bytes(self, bytes: &[u8], block_size: u32, recovered: bool) -> Record<'_> {
        let Self { start_lsn, end_lsn, data_end_lsn, sound: Sound { header, layout, major }, tli, page_info } = self;
        Record { start_lsn, end_lsn, data_end_lsn, header, layout, bytes, major, block_size, tli, page_info, recovered }
    }
}
