//! Sparse WAL: some records at their own addresses, and as little as possible between them.
//!
//! The server reads WAL in order and believes nothing but what is there, so the space between two records is filled with
//! records that do nothing, and the rest of a segment without records is cut short by one that says so. In front stands a
//! checkpoint that never was; each record gets a new link to the one before it and a new checksum. Page headers are where
//! they stood, by address, so that every record ends where it ended.

use super::StreamFault;
use crate::cluster::open::AccessError;
use crate::parsers::crc::{crc32c, crc32c_append, crc32c_of_two};
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page::{FIRST_IS_CONTRECORD, LONG_HEADER};
use crate::parsers::wal::record::{CHECK_CONSISTENCY, RecordHeader};
use crate::parsers::wal::records::{XLOG_NOOP, XLOG_SWITCH};
use crate::parsers::wal::scan::record_position;
use crate::types::{Geometry, LONG_WAL_HEADER_BYTES, Lsn};

/// Timeline of all pages that are written: no history is needed then.
pub(crate) const STREAM_TIMELINE: u32 = 1;

/// Bytes of a record without a body.
const SHORTEST: u64 = RecordHeader::SIZE as u64;

/// Bytes of a record's main data that one byte can count.
const MAX_SHORT_DATA: u64 = u8::MAX as u64;

/// Bytes of a filler before its main data, which is all zero: header, id and length.
const NOOP_HEAD_BYTES: usize = RecordHeader::SIZE + 5;

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 256 * 1024;

/// Takes the bytes of segments.
pub(crate) trait SegmentSink {
    /// Writes bytes into a segment, which reads as zeros where nothing was written.
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), AccessError>;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFormat {
    pub geometry: Geometry,
    pub magic: u16,
    pub system_identifier: u64,
    /// Bytes of the payload of a checkpoint record.
    pub checkpoint_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamSummary {
    pub checkpoint_lsn: Lsn,
    pub last_lsn: Lsn,
    pub end_lsn: Lsn,
    /// Bytes written.
    pub bytes: u64,
}

/// Writes records at their own addresses, in order.
#[derive(Debug)]
pub(crate) struct StreamWriter<S> {
    format: StreamFormat,
    sink: S,
    /// Start of the fabricated checkpoint, once the first record is known.
    checkpoint_lsn: Option<Lsn>,
    /// Address after the last record.
    at: Lsn,
    last_lsn: Lsn,
    /// Bytes that were not given to the sink yet; they begin at a page.
    pending: Vec<u8>,
    pending_start: Lsn,
    bytes: u64,
    record: Vec<u8>,
    /// The last filler: bytes that it takes, checksum of its body, its first bytes.
    noop_usable: usize,
    noop_body_crc: u32,
    noop_head: Vec<u8>,
}

impl<S: SegmentSink> StreamWriter<S> {
    /// Nothing is written before the first record.
    pub const fn new(format: StreamFormat, sink: S) -> Self {
        Self {
            format,
            sink,
            checkpoint_lsn: None,
            at: Lsn(0),
            last_lsn: Lsn(0),
            pending: Vec::new(),
            pending_start: Lsn(0),
            bytes: 0,
            record: Vec::new(),
            noop_usable: 0,
            noop_body_crc: 0,
            noop_head: Vec::new(),
        }
    }

    /// Writes a record at its own address.
    ///
    /// # Errors
    /// When the sink refuses, or the record cannot stand there.
    pub fn put(&mut self, start_lsn: Lsn, record: &[u8]) -> Result<(), StreamError> {
        if self.checkpoint_lsn.is_none() {
            self.begin(start_lsn)?;
        }
        self.fill_to(start_lsn)?;
        let mut own = std::mem::take(&mut self.record);
        own.clear();
        own.extend_from_slice(record);
        if let Some(info) = own.get_mut(16) {
            // The server would compare pages with images of them, also those that it does not have.
            *info &= !CHECK_CONSISTENCY;
        }
        let laid = self.lay(&mut own);
        self.record = own;
        laid
    }

    /// Writes what is left, and the checkpoint with this payload. `None` when there is no record.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn finish(mut self, payload: impl FnOnce(Lsn) -> Vec<u8>) -> Result<(Option<StreamSummary>, S), StreamError> {
        let Some(checkpoint_lsn) = self.checkpoint_lsn else { return Ok((None, self.sink)) };
        self.flush()?;
        let record = checkpoint_record(&payload(checkpoint_lsn));
        let (segment, offset) = self.locate(checkpoint_lsn);
        self.sink.write(segment, offset, &record)?;
        let summary = StreamSummary { checkpoint_lsn, last_lsn: self.last_lsn, end_lsn: self.at, bytes: self.bytes };
        Ok((Some(summary), self.sink))
    }

    fn segment_bytes(&self) -> u64 {
        u64::from(self.format.geometry.wal_segment_size)
    }

    fn page_bytes(&self) -> u64 {
        u64::from(self.format.geometry.wal_block_size)
    }

    fn locate(&self, lsn: Lsn) -> (u64, u64) {
        (lsn.0 / self.segment_bytes(), lsn.0 % self.segment_bytes())
    }

    /// Writes the checkpoint, so that the first record can follow: in the segment before, or in the same one where there
    /// has no record before it.
    fn begin(&mut self, first_lsn: Lsn) -> Result<(), StreamError> {
        let number = first_lsn.0 / self.segment_bytes();
        // No server has WAL in segment 0, and none looks for any there.
        let segment = if number > 1 { number - 1 } else { number };
        let start = Lsn(segment * self.segment_bytes());
        let mut record = checkpoint_record(&vec![0; self.format.checkpoint_bytes]);
        let checkpoint_lsn = start.advanced_by(u64::from(LONG_WAL_HEADER_BYTES));
        let end = checkpoint_lsn.advanced_by(record.len() as u64).aligned();
        if end > first_lsn || (1..SHORTEST).contains(&self.usable(end, first_lsn)) {
            return Err(StreamFault::NoRoomBefore { lsn: first_lsn }.into());
        }
        (self.at, self.pending_start) = (start, start);
        self.checkpoint_lsn = Some(checkpoint_lsn);
        self.lay(&mut record)
    }

    /// Bytes of records between two addresses: all but page headers. Far ahead, any large number.
    fn usable(&self, from: Lsn, to: Lsn) -> u64 {
        let (mut at, mut sum) = (from.0, 0);
        while at < to.0 && sum <= self.page_bytes() * 2 {
            let stop = to.0.min((at / self.page_bytes() + 1) * self.page_bytes());
            sum += (stop - at).saturating_sub(self.format.geometry.wal_header_bytes(Lsn(at)));
            at = stop;
        }
        sum
    }

    /// True when nothing is left before `target`, or enough for a record.
    fn can_go_on(&self, from: Lsn, target: Lsn) -> bool {
        !(1..SHORTEST).contains(&self.usable(from, target))
    }

    /// Writes records that do nothing up to `target`.
    fn fill_to(&mut self, target: Lsn) -> Result<(), StreamError> {
        loop {
            let here = record_position(self.format.geometry, self.at);
            if here == target {
                return Ok(());
            }
            let impossible = StreamFault::NoRecordFits { from: here, to: target };
            if here > target || !target.0.is_multiple_of(8) {
                return Err(impossible.into());
            }
            let segment_end = Lsn((here.0 / self.segment_bytes() + 1) * self.segment_bytes());
            let is_far = target >= segment_end;
            if is_far && self.usable(here, segment_end) >= SHORTEST && self.can_go_on(segment_end, target) {
                self.lay(&mut bare_record(XLOG_SWITCH))?;
                self.skip_to(segment_end)?;
                continue;
            }
            let page_end = Lsn((here.0 / self.page_bytes() + 1) * self.page_bytes());
            let ends = [page_end, page_end.advanced_by(self.page_bytes()), target];
            let fits =
                |end: &Lsn| *end <= target && self.usable(here, *end) >= SHORTEST && self.can_go_on(*end, target);
            let end = ends.into_iter().find(fits).ok_or(impossible)?;
            let usable = self.usable(here, end);
            // Most fill a page, and there can be many.
            if here.0 + usable == end.0 && usable > SHORTEST {
                self.lay_noop_in_page(usable)?;
            } else {
                self.lay(&mut noop_record(usable))?;
            }
        }
    }

    /// Writes a record at the next position, with its link and checksum.
    fn lay(&mut self, record: &mut [u8]) -> Result<(), StreamError> {
        let header = |writer: &mut Self, left: usize| {
            if writer.at.0.is_multiple_of(writer.page_bytes()) {
                writer.write_page_header(left);
            }
        };
        header(self, 0);
        let start_lsn = self.at;
        sign(record, self.last_lsn);
        self.last_lsn = start_lsn;
        let mut rest = &*record;
        while !rest.is_empty() {
            header(self, rest.len());
            let room = self.page_bytes() - self.at.0 % self.page_bytes();
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            self.push(now);
            rest = later;
            self.flush_when_due()?;
        }
        let padding = self.at.aligned().bytes_since(self.at).unwrap_or_default();
        self.push(&[0; 8][..usize::try_from(padding).unwrap_or_default()]);
        self.flush_when_due()
    }

    /// Writes a record that does nothing and ends in the page in which it begins: what [`Self::lay`] does with
    /// [`noop_record`], without going over its zeros.
    fn lay_noop_in_page(&mut self, usable: u64) -> Result<(), StreamError> {
        if self.at.0.is_multiple_of(self.page_bytes()) {
            self.write_page_header(0);
        }
        let (start_lsn, usable) = (self.at, usize::try_from(usable).unwrap_or_default());
        if self.noop_usable != usable {
            let record = noop_record(usable as u64);
            let head = record.len().min(NOOP_HEAD_BYTES);
            let body = record.get(RecordHeader::SIZE..).unwrap_or_default();
            (self.noop_usable, self.noop_body_crc, self.noop_head) = (usable, crc32c(body), record[..head].to_vec());
        }
        let mut head = std::mem::take(&mut self.noop_head);
        if let Some((header, _)) = head.split_first_chunk_mut::<{ RecordHeader::SIZE }>() {
            header[8..16].copy_from_slice(&self.last_lsn.0.to_le_bytes());
            let crc = crc32c_append(self.noop_body_crc, &header[..20]);
            header[20..24].copy_from_slice(&crc.to_le_bytes());
        }
        self.last_lsn = start_lsn;
        self.push(&head);
        // Main data and padding: zeros up to where the next record stands.
        let rest = usable.saturating_sub(head.len());
        self.pending.resize(self.pending.len() + rest, 0);
        self.at = self.at.advanced_by(rest as u64);
        self.noop_head = head;
        self.flush_when_due()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.at = self.at.advanced_by(bytes.len() as u64);
    }

    /// `left`: bytes of a record that continues here, 0 for none.
    fn write_page_header(&mut self, left: usize) {
        let start = self.at;
        let is_first = start.0.is_multiple_of(self.segment_bytes());
        let flags = if left > 0 { FIRST_IS_CONTRECORD } else { 0 } | if is_first { LONG_HEADER } else { 0 };
        self.push(&self.format.magic.to_le_bytes());
        self.push(&flags.to_le_bytes());
        self.push(&STREAM_TIMELINE.to_le_bytes());
        self.push(&start.0.to_le_bytes());
        self.push(&u32::try_from(left).unwrap_or(u32::MAX).to_le_bytes());
        self.push(&[0; 4]);
        if is_first {
            self.push(&self.format.system_identifier.to_le_bytes());
            self.push(&self.format.geometry.wal_segment_size.to_le_bytes());
            self.push(&self.format.geometry.wal_block_size.to_le_bytes());
        }
    }

    /// Hands over whole pages once there are enough, and at the end of a segment.
    fn flush_when_due(&mut self) -> Result<(), StreamError> {
        let at_page = self.at.0.is_multiple_of(self.page_bytes());
        if at_page && (self.pending.len() >= WRITE_BYTES || self.at.0.is_multiple_of(self.segment_bytes())) {
            self.flush()?;
        }
        Ok(())
    }

    fn skip_to(&mut self, lsn: Lsn) -> Result<(), StreamError> {
        self.flush()?;
        (self.at, self.pending_start) = (lsn, lsn);
        Ok(())
    }

    /// Hands over all that is pending, to the end of its last page.
    fn flush(&mut self) -> Result<(), StreamError> {
        let page = usize::try_from(self.page_bytes()).unwrap_or(usize::MAX);
        self.pending.resize(self.pending.len().next_multiple_of(page), 0);
        let (segment, offset) = self.locate(self.pending_start);
        if !self.pending.is_empty() {
            self.sink.write(segment, offset, &self.pending)?;
        }
        self.bytes = self.bytes.saturating_add(self.pending.len() as u64);
        self.pending.clear();
        self.pending_start = self.at;
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) enum StreamError {
    Access(AccessError),
    /// The record does not fit at its address.
    Fault(StreamFault),
}

impl From<AccessError> for StreamError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

impl From<StreamFault> for StreamError {
    fn from(fault: StreamFault) -> Self {
        Self::Fault(fault)
    }
}

fn sign(record: &mut [u8], prev: Lsn) {
    let Some((header, body)) = record.split_first_chunk_mut::<{ RecordHeader::SIZE }>() else { return };
    header[8..16].copy_from_slice(&prev.0.to_le_bytes());
    let mut checked = [0; 20];
    checked.copy_from_slice(&header[..20]);
    let crc = crc32c_of_two(body, &checked);
    header[20..24].copy_from_slice(&crc.to_le_bytes());
}

/// A record of the resource manager XLOG without transaction and body.
fn bare_record(info: u8) -> Vec<u8> {
    let mut record = vec![0; RecordHeader::SIZE];
    record[0] = 24;
    (record[16], record[17]) = (info, RM_XLOG);
    record
}

/// Appends main data and sets the length.
fn with_main_data(mut record: Vec<u8>, data: &[u8]) -> Vec<u8> {
    match u8::try_from(data.len()) {
        Ok(short) => record.extend([255, short]),
        Err(_) => {
            record.push(254);
            record.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    record.extend_from_slice(data);
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record
}

/// A record that does nothing and takes `usable` bytes, 24 or more and a multiple of 8.
fn noop_record(usable: u64) -> Vec<u8> {
    let data = match usable {
        ..=SHORTEST => return bare_record(XLOG_NOOP),
        length if length - SHORTEST - 2 <= MAX_SHORT_DATA => length - SHORTEST - 2,
        length => length - SHORTEST - 5,
    };
    with_main_data(bare_record(XLOG_NOOP), &vec![0; usize::try_from(data).unwrap_or_default()])
}

/// The record of a shutdown checkpoint.
fn checkpoint_record(payload: &[u8]) -> Vec<u8> {
    let mut record = with_main_data(bare_record(0), payload);
    sign(&mut record, Lsn(0));
    record
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
