//! WAL records: the header, its checks, the checksum, and the view of a whole record.

use super::block::{BlockHeads, BlockRefs, BodyLayout};
use super::names::{RM_XLOG, RecordTypeName};
use super::records::{RecordKind, RecordType, record_type_name};
use super::version::Major;
use crate::parsers::crc::crc32c_of_two;
use crate::parsers::decode::{ParseError, decode_at, field, le_u8, le_u32, le_u64, take};
use crate::types::{Lsn, TimelineId};

/// Bits of `xl_info` that belong to the resource manager.
pub(crate) const RMGR_INFO_MASK: u8 = 0xF0;
/// Flag of `xl_info`: all blocks carry an image to compare with (`XLR_CHECK_CONSISTENCY`).
pub(crate) const CHECK_CONSISTENCY: u8 = 0x02;

/// Header of a WAL record: 24 bytes at an 8-byte aligned LSN, little-endian, maybe split by a page header.
///
/// | bytes  | field        | C type          | meaning                                                                 |
/// |--------|--------------|-----------------|-------------------------------------------------------------------------|
/// | 0..4   | `xl_tot_len` | `uint32`        | bytes of the record, header included, page headers and padding excluded |
/// | 4..8   | `xl_xid`     | `TransactionId` | transaction, 0 if none                                                  |
/// | 8..16  | `xl_prev`    | `XLogRecPtr`    | LSN of the record before                                                |
/// | 16..17 | `xl_info`    | `uint8`         | high 4 bits: for the resource manager; low: flags                       |
/// | 17..18 | `xl_rmid`    | `RmgrId`        | resource manager                                                        |
/// | 18..20 | -            | -               | padding, zero                                                           |
/// | 20..24 | `xl_crc`     | `pg_crc32c`     | CRC-32C of the body, then of bytes 0..20                                |
///
/// Source: `XLogRecord`, `src/include/access/xlogrecord.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the whole record, this header included.
    pub tot_len: u32,
    /// Transaction id, 0 if none.
    pub xid: u32,
    /// Start of the record before this one; 0 for the first of a cluster.
    pub prev: Lsn,
    /// Type of the record within its resource manager, and flags.
    pub info: u8,
    /// Resource manager.
    pub rmgr_id: u8,
    /// Checksum as stored.
    pub crc: u32,
}

/// Facts about the previous record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrevLink {
    /// Reading in order: the record before starts exactly here.
    Exactly(Lsn),
    /// Reading starts here: any address before this record's own start is believed.
    Below(Lsn),
}

/// A rule that a record header breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordHeaderFault {
    /// Shorter than a header.
    #[error("record length {found}, expected at least 24")]
    TooShort {
        /// `xl_tot_len`.
        found: u32,
    },
    /// Longer than any record.
    #[error("record length {found}, at most {limit} is possible")]
    TooLong {
        /// `xl_tot_len`.
        found: u32,
        /// Longest record of this major, in bytes.
        limit: u32,
    },
    /// No such resource manager.
    #[error("resource manager id {found}")]
    RmgrId {
        /// `xl_rmid`.
        found: u8,
    },
    /// The record does not follow the one read before.
    #[error("previous record at {found}, expected {expected}")]
    PrevLink {
        /// `xl_prev`.
        found: Lsn,
        /// Start of the record read before.
        expected: Lsn,
    },
    /// The record claims to follow one at a higher address.
    #[error("previous record at {found}, not before this record at {own}")]
    PrevNotBefore {
        /// `xl_prev`.
        found: Lsn,
        /// Start of this record.
        own: Lsn,
    },
}

impl RecordHeader {
    /// On-disk size in bytes.
    pub const SIZE: usize = 24;
    /// Bytes of the header under the checksum: all before `xl_crc`.
    pub(super) const CHECKED_SIZE: usize = 20;

    /// Decodes without judging. `base` is the LSN of `buf[0]`, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    #[inline]
    pub fn decode(base: Lsn, buf: &[u8]) -> Result<Self, ParseError> {
        // Nearly every call: without looking at each field for whether bytes are left.
        if let Some([l0, l1, l2, l3, x0, x1, x2, x3, p0, p1, p2, p3, p4, p5, p6, p7, info, rmgr_id, _, _, crc @ ..]) =
            buf.first_chunk::<{ Self::SIZE }>()
        {
            return Ok(Self {
                tot_len: u32::from_le_bytes([*l0, *l1, *l2, *l3]),
                xid: u32::from_le_bytes([*x0, *x1, *x2, *x3]),
                prev: Lsn(u64::from_le_bytes([*p0, *p1, *p2, *p3, *p4, *p5, *p6, *p7])),
                info: *info,
                rmgr_id: *rmgr_id,
                crc: u32::from_le_bytes(*crc),
            });
        }
        decode_at("XLogRecord", base.0, buf, |i| {
            let (i, tot_len) = field(i, "xl_tot_len", le_u32)?;
            let (i, xid) = field(i, "xl_xid", le_u32)?;
            let (i, prev) = field(i, "xl_prev", le_u64)?;
            let (i, info) = field(i, "xl_info", le_u8)?;
            let (i, rmgr_id) = field(i, "xl_rmid", le_u8)?;
            let (i, _) = field(i, "padding", take(2))?;
            let (i, crc) = field(i, "xl_crc", le_u32)?;
            Ok((i, Self { tot_len, xid, prev: Lsn(prev), info, rmgr_id, crc }))
        })
    }

    /// Whether a record can be as long as `tot_len` says; known before the rest of the header may be.
    #[inline]
    pub(crate) fn check_length(tot_len: u32, major: Major) -> Result<(), RecordHeaderFault> {
        if usize::try_from(tot_len).is_ok_and(|length| length < Self::SIZE) {
            return Err(RecordHeaderFault::TooShort { found: tot_len });
        }
        let limit = major.facts().max_record_length;
        if tot_len > limit {
            return Err(RecordHeaderFault::TooLong { found: tot_len, limit });
        }
        Ok(())
    }

    /// Every rule this header breaks, in the order in which the server looks; empty when sound.
    ///
    /// Source: `ValidXLogRecordHeader`, `src/backend/access/transam/xlogreader.c`. The upper limit of the length is ours:
    /// the server fails when it cannot allocate as much.
    #[inline]
    pub fn faults(&self, major: Major, link: PrevLink) -> Vec<RecordHeaderFault> {
        let mut faults = Vec::new();
        if let Err(fault) = Self::check_length(self.tot_len, major) {
            faults.push(fault);
        }
        if !major.has_rmgr(self.rmgr_id) {
            faults.push(RecordHeaderFault::RmgrId { found: self.rmgr_id });
        }
        let found = self.prev;
        match link {
            PrevLink::Exactly(expected) if found != expected => {
                faults.push(RecordHeaderFault::PrevLink { found, expected });
            }
            PrevLink::Below(own) if found >= own => faults.push(RecordHeaderFault::PrevNotBefore { found, own }),
            _ => {}
        }
        faults
    }

    /// True for the record that ends a segment early (`XLOG_SWITCH`).
    pub fn is_switch(&self) -> bool {
        self.rmgr_id == RM_XLOG && self.kind_in_all_majors() == RecordKind::XlogSwitch
    }

    /// True for a record that is nothing but images (`XLOG_FPI_FOR_HINT`, `XLOG_FPI`).
    pub fn is_images(&self) -> bool {
        self.rmgr_id == RM_XLOG && self.kind_in_all_majors().is_images()
    }

    /// The kind, of types that all majors have. What is asked of every record looks for the resource manager first.
    pub(crate) fn kind_in_all_majors(&self) -> RecordKind {
        RecordKind::of(Major::OLDEST, self.rmgr_id, self.info)
    }
}

/// CRC-32C of a whole record, page headers removed: the body first, then the header up to `xl_crc`. 0 for what is shorter
/// than a header.
///
/// Source: `ValidXLogRecord`, `src/backend/access/transam/xlogreader.c`.
#[inline]
pub(crate) fn record_crc(record: &[u8]) -> u32 {
    match (record.get(RecordHeader::SIZE..), record.first_chunk::<{ RecordHeader::CHECKED_SIZE }>()) {
        (Some(body), Some(header)) => crc32c_of_two(body, header),
        _ => 0,
    }
}

/// One record that passed every check. Copying it copies no bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Address of the header's first byte: the record's LSN.
    pub start_lsn: Lsn,
    /// Address after the record, rounded up to 8; for a segment switch the start of the next segment. This is what
    /// `pd_lsn` of a changed page says.
    pub end_lsn: Lsn,
    /// Address after the record's last byte, not rounded.
    pub data_end_lsn: Lsn,
    /// The header, decoded.
    pub header: RecordHeader,
    /// Layout of the body.
    pub layout: BodyLayout,
    /// Header and body, page headers removed. For a record longer than [`super::reader::KEPT_RECORD_BYTES`], or than
    /// [`super::reader::HEAD_RECORD_BYTES`] where only heads are kept, the first that many bytes, see [`Self::is_cut`].
    pub bytes: &'a [u8],
    /// Major whose format the record has.
    pub major: Major,
    /// Bytes of a data page, from which holes are computed.
    pub block_size: u32,
    /// Timeline of the page on which the record starts.
    pub tli: TimelineId,
    /// Flags of the page on which the record starts.
    pub page_info: u16,
    /// True when damage was skipped somewhere before this record, so that its `xl_prev` may not have been checked.
    pub recovered: bool,
}

impl<'a> Record<'a> {
    /// True when [`Self::bytes`] lacks the end of the record, which was checked but not kept.
    pub fn is_cut(&self) -> bool {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX) < u64::from(self.header.tot_len)
    }

    /// Everything after the header, as far as it was kept.
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(RecordHeader::SIZE..).unwrap_or_default()
    }

    /// The blocks that the record refers to, by ascending id. Those whose bytes were not kept are missing: only records
    /// read with [`super::block::Keep::Heads`] can lack any, and [`Self::block_heads`] has them all.
    pub fn blocks(&self) -> BlockRefs<'a> {
        self.layout.blocks(self.major, self.block_size, self.body())
    }

    /// As [`Self::blocks`], without the bytes of images and data, which a record read with [`super::block::Keep::Heads`]
    /// may lack.
    #[inline]
    pub fn block_heads(&self) -> BlockHeads<'a> {
        self.layout.block_heads(self.major, self.block_size, self.body())
    }

    /// The part of the record that belongs to no block; its beginning when the record [is cut](Self::is_cut).
    pub fn main_data(&self) -> &'a [u8] {
        self.layout.main_data(self.body())
    }

    /// Bytes of the main data, kept or not.
    pub(crate) fn main_data_length(&self) -> u32 {
        let before = u32::try_from(RecordHeader::SIZE).unwrap_or(u32::MAX).saturating_add(self.layout.main_start());
        self.header.tot_len.saturating_sub(before)
    }

    /// Address of the first byte of the main data, were there no page headers in the record; for messages only.
    pub fn main_data_lsn(&self) -> Lsn {
        let before = self.bytes.len().saturating_sub(self.main_data().len());
        self.start_lsn.advanced_by(u64::try_from(before).unwrap_or(u64::MAX))
    }

    /// Kind of the record.
    #[inline]
    pub fn kind(&self) -> RecordKind {
        RecordKind::of(self.major, self.header.rmgr_id, self.header.info)
    }

    pub(crate) fn record_type(&self) -> RecordType {
        RecordType::new(self.major, self.header.rmgr_id, self.header.info)
    }

    /// Bytes of images in the record, as stored: what `pg_waldump --stats` calls FPI size.
    pub const fn fpi_length(&self) -> u32 {
        self.layout.fpi_length
    }

    /// Bytes of the record without images: what `pg_waldump --stats` calls record size.
    pub const fn length_without_images(&self) -> u32 {
        self.header.tot_len.saturating_sub(self.layout.fpi_length)
    }

    /// Name of the record's type, such as `INSERT+INIT`.
    pub fn type_name(&self) -> RecordTypeName {
        record_type_name(self.major, self.header.rmgr_id, self.header.info)
    }

    /// True when a base backup was running as the WAL page holding the record's start was begun. The first page that
    /// initdb or pg_resetwal wrote looks the same. `None` where pages do not say it.
    pub(crate) const fn during_backup(&self) -> Option<bool> {
        match self.major.facts().page_flags.no_backup {
            0 => None,
            flag => Some(self.page_info & flag == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::tests::{VECTORS, bytes_of};

    #[test]
    fn checksums_of_real_records_fit() {
        for vector in VECTORS {
            let bytes = bytes_of(vector.hex);
            let header = RecordHeader::decode(vector.lsn, &bytes).unwrap();
            assert_eq!(header.tot_len as usize, bytes.len(), "{}", vector.name);
            assert_eq!(header.crc, record_crc(&bytes), "{}", vector.name);
            assert_eq!(header.faults(vector.major, PrevLink::Below(vector.lsn)), [], "{}", vector.name);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found() {
        for vector in VECTORS {
            let bytes = bytes_of(vector.hex);
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let stored = RecordHeader::decode(vector.lsn, &damaged).unwrap().crc;
                assert_ne!(stored, record_crc(&damaged), "{} bit {bit}", vector.name);
            }
        }
    }

    #[test]
    fn every_truncation_of_the_header_is_an_error_with_its_offset() {
        let bytes = bytes_of(VECTORS[0].hex);
        for cut in 0..RecordHeader::SIZE {
            let error = RecordHeader::decode(Lsn(0x1000), &bytes[..cut]).unwrap_err();
            assert!((0x1000..=0x1000 + cut as u64).contains(&error.offset), "{error}");
        }
    }

    #[test]
    fn broken_rules_are_listed_in_the_order_of_the_server() {
        let header = RecordHeader { tot_len: u32::MAX, xid: 0, prev: Lsn(8), info: 0, rmgr_id: 128, crc: 0 };
        assert_eq!(
            header.faults(Major::V14, PrevLink::Exactly(Lsn(16))),
            [
                RecordHeaderFault::TooLong { found: u32::MAX, limit: (1 << 30) - 1 },
                RecordHeaderFault::RmgrId { found: 128 },
                RecordHeaderFault::PrevLink { found: Lsn(8), expected: Lsn(16) },
            ]
        );
        let header = RecordHeader { tot_len: 23, rmgr_id: 128, ..header };
        assert_eq!(
            header.faults(Major::V18, PrevLink::Below(Lsn(8))),
            [
                RecordHeaderFault::TooShort { found: 23 },
                RecordHeaderFault::PrevNotBefore { found: Lsn(8), own: Lsn(8) }
            ]
        );
    }
}
