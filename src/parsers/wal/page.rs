//! WAL page headers.

use nom::Parser;
use nom::error::context;

use super::version::{Major, PageFlags, UnknownMagic};
use crate::parsers::decode::{ParseError, decode_at, le_u16, le_u32, le_u64, take};
use crate::types::{LONG_WAL_HEADER_BYTES, Lsn, SHORT_WAL_HEADER_BYTES, TimelineId};

/// Page data begins with the continuation of a record (`XLP_FIRST_IS_CONTRECORD`).
pub(crate) const FIRST_IS_CONTRECORD: u16 = 0x0001;
/// The header has the long form (`XLP_LONG_HEADER`).
pub(crate) const LONG_HEADER: u16 = 0x0002;
/// Flags that mean the same in all majors.
const COMMON_FLAGS: u16 = FIRST_IS_CONTRECORD | LONG_HEADER;

/// Header at the start of every WAL page, little-endian: 24 bytes, or 40 when flag `LONG_HEADER` is set.
///
/// | bytes  | field          | C type       | meaning                                                         |
/// |--------|----------------|--------------|-----------------------------------------------------------------|
/// | 0..2   | `xlp_magic`    | `uint16`     | version, see [`Major`]                                          |
/// | 2..4   | `xlp_info`     | `uint16`     | flags                                                           |
/// | 4..8   | `xlp_tli`      | `TimeLineID` | timeline                                                        |
/// | 8..16  | `xlp_pageaddr` | `XLogRecPtr` | LSN of this page's first byte                                   |
/// | 16..20 | `xlp_rem_len`  | `uint32`     | bytes still to come of a record from the previous page, or 0    |
/// | 20..24 | -              | -            | padding                                                         |
/// | 24..40 | `xlp_sysid` .. | -            | [`LongPageHeader`], only with the flag                          |
///
/// Source: `XLogPageHeaderData`, `src/include/access/xlog_internal.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Version of the format.
    pub magic: u16,
    /// Flags, unknown ones kept.
    pub info: u16,
    /// Timeline on which the page was written.
    pub tli: TimelineId,
    /// LSN of the page's first byte.
    pub page_addr: Lsn,
    /// Bytes of a continued record that are still to come, counted from the start of this page's data.
    pub rem_len: u32,
    /// The rest of the long form.
    pub long: Option<LongPageHeader>,
}

/// Rest of the long header, on the first page of every segment: 16 bytes at 24, little-endian.
///
/// | bytes  | field             | C type   | meaning                              |
/// |--------|-------------------|----------|--------------------------------------|
/// | 24..32 | `xlp_sysid`       | `uint64` | system identifier, as in pg_control  |
/// | 32..36 | `xlp_seg_size`    | `uint32` | bytes of a segment                   |
/// | 36..40 | `xlp_xlog_blcksz` | `uint32` | bytes of a WAL page                  |
///
/// Source: `XLogLongPageHeaderData`, `src/include/access/xlog_internal.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPageHeader {
    /// System identifier of the cluster.
    pub system_identifier: u64,
    /// Bytes of a WAL segment.
    pub segment_size: u32,
    /// Bytes of a WAL page.
    pub block_size: u32,
}

/// Values that a page header must agree with.
#[derive(Clone, Copy, Debug)]
pub struct PageExpectation<'a> {
    /// Version of the pages before, when known.
    pub major: Option<Major>,
    /// LSN at which the page was found.
    pub page_addr: Lsn,
    /// Bytes of a segment.
    pub segment_size: u32,
    /// Bytes of a page.
    pub block_size: u32,
    /// System identifier, when known.
    pub system_identifier: Option<u64>,
    /// Timeline of the page before.
    pub last_tli: TimelineId,
    /// Timelines that may occur; any when empty.
    pub timelines: &'a [TimelineId],
}

/// A rule that a page header breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// The magic is that of no supported version.
    #[error("{0}")]
    UnknownMagic(UnknownMagic),
    /// The magic is that of another major than the pages before.
    #[error("page written by major {found}, expected {expected}")]
    ForeignMagic {
        /// Major of this page.
        found: Major,
        /// Major of the pages before.
        expected: Major,
    },
    /// Flag bits that no server sets.
    #[error("unknown flag bits in 0x{info:04X}")]
    UnknownFlags {
        /// All flags as stored.
        info: u16,
    },
    /// The page belongs to another cluster.
    #[error("system identifier {found}, expected {expected}")]
    ForeignSystem {
        /// System identifier in the page.
        found: u64,
        /// System identifier of the cluster.
        expected: u64,
    },
    /// The page belongs to a cluster with another segment size.
    #[error("segment size {found}, expected {expected}")]
    SegmentSize {
        /// Bytes, from the page.
        found: u32,
        /// Bytes expected.
        expected: u32,
    },
    /// The page belongs to a cluster with another WAL page size.
    #[error("WAL page size {found}, expected {expected}")]
    BlockSize {
        /// Bytes, from the page.
        found: u32,
        /// Bytes expected.
        expected: u32,
    },
    /// The first page of a segment has a short header.
    #[error("first page of a segment without long header")]
    LongHeaderMissing,
    /// The page was written for another address.
    #[error("page address {found}, expected {expected}")]
    Address {
        /// Address in the page.
        found: Lsn,
        /// Address at which it was found.
        expected: Lsn,
    },
    /// The page is on an older timeline than the page before it.
    #[error("timeline {found} after {last}")]
    TimelineBackwards {
        /// Timeline of this page.
        found: TimelineId,
        /// Timeline of the page before.
        last: TimelineId,
    },
    /// The page is on a timeline outside the history that is read.
    #[error("timeline {found} is not in the history")]
    ForeignTimeline {
        /// Timeline of this page.
        found: TimelineId,
    },
}

impl PageHeader {
    /// On-disk size of the short form in bytes, padding included.
    pub(crate) const SHORT_SIZE: usize = SHORT_WAL_HEADER_BYTES as usize;
    /// On-disk size of the long form in bytes.
    pub(crate) const LONG_SIZE: usize = LONG_WAL_HEADER_BYTES as usize;

    /// Decodes without judging; the flag decides whether the long form is read. `base` is the LSN of `buf[0]`, for error
    /// messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than the header.
    pub fn decode(base: Lsn, buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("XLogPageHeaderData", base.0, buf, |i| {
            let (i, magic) = context("xlp_magic", le_u16).parse(i)?;
            let (i, info) = context("xlp_info", le_u16).parse(i)?;
            let (i, tli) = context("xlp_tli", le_u32).parse(i)?;
            let (i, page_addr) = context("xlp_pageaddr", le_u64).parse(i)?;
            let (i, rem_len) = context("xlp_rem_len", le_u32).parse(i)?;
            let (i, _) = context("padding", take(4)).parse(i)?;
            let short = Self { magic, info, tli: TimelineId(tli), page_addr: Lsn(page_addr), rem_len, long: None };
            if !short.has(LONG_HEADER) {
                return Ok((i, short));
            }
            let (i, system_identifier) = context("xlp_sysid", le_u64).parse(i)?;
            let (i, segment_size) = context("xlp_seg_size", le_u32).parse(i)?;
            let (i, block_size) = context("xlp_xlog_blcksz", le_u32).parse(i)?;
            Ok((i, Self { long: Some(LongPageHeader { system_identifier, segment_size, block_size }), ..short }))
        })
    }

    /// True when all of these flags are set.
    pub const fn has(&self, flags: u16) -> bool {
        self.info & flags == flags
    }

    /// The page replaces the missing rest of a record that a crash cut off.
    pub(crate) fn overwrites(&self) -> bool {
        self.info & self.flags().overwrites != 0
    }

    /// Flags are set that servers of its major do not know.
    pub(crate) fn has_unknown_flags(&self) -> bool {
        let PageFlags { overwrites, no_backup } = self.flags();
        self.info & !(COMMON_FLAGS | overwrites | no_backup) != 0
    }

    fn flags(&self) -> PageFlags {
        Major::from_magic(self.magic).map_or(PageFlags::TO_18, |major| major.facts().page_flags)
    }

    /// Bytes from the start of the page to its data.
    pub const fn size(&self) -> usize {
        if self.has(LONG_HEADER) { Self::LONG_SIZE } else { Self::SHORT_SIZE }
    }

    /// Every rule this header breaks, in the order in which the server looks; empty when sound.
    ///
    /// Source: `XLogReaderValidatePageHeader`, `src/backend/access/transam/xlogreader.c`. The last rule is that of
    /// recovery, `src/backend/access/transam/xlogrecovery.c`.
    pub fn faults(&self, expected: &PageExpectation<'_>) -> Vec<PageFault> {
        let mut faults = Vec::new();
        match (Major::from_magic(self.magic), expected.major) {
            (Err(unknown), _) => faults.push(PageFault::UnknownMagic(unknown)),
            (Ok(found), Some(expected)) if found != expected => {
                faults.push(PageFault::ForeignMagic { found, expected });
            }
            _ => {}
        }
        if self.has_unknown_flags() {
            faults.push(PageFault::UnknownFlags { info: self.info });
        }
        if let Some(long) = &self.long {
            if let Some(system) = expected.system_identifier.filter(|&system| system != long.system_identifier) {
                faults.push(PageFault::ForeignSystem { found: long.system_identifier, expected: system });
            }
            if long.segment_size != expected.segment_size {
                faults.push(PageFault::SegmentSize { found: long.segment_size, expected: expected.segment_size });
            }
            if long.block_size != expected.block_size {
                faults.push(PageFault::BlockSize { found: long.block_size, expected: expected.block_size });
            }
        } else if expected.page_addr.0.is_multiple_of(u64::from(expected.segment_size)) {
            faults.push(PageFault::LongHeaderMissing);
        }
        if self.page_addr != expected.page_addr {
            faults.push(PageFault::Address { found: self.page_addr, expected: expected.page_addr });
        }
        if self.tli < expected.last_tli {
            faults.push(PageFault::TimelineBackwards { found: self.tli, last: expected.last_tli });
        }
        if !expected.timelines.is_empty() && !expected.timelines.contains(&self.tli) {
            faults.push(PageFault::ForeignTimeline { found: self.tli });
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::tests::bytes_of;

    const LONG_18: &str = "18d102000100000000000001000000000000000000000000c3999a88e29b006b0000000100200000";
    const LONG_15: &str = "10d102000100000000000001000000000000000000000000ca18619cde9b006b0000000100200000";
    const SHORT_15: &str = "10d10500010000000020000100000000d100000000000000";

    fn expected(page_addr: u64) -> PageExpectation<'static> {
        PageExpectation {
            major: None,
            page_addr: Lsn(page_addr),
            segment_size: 16 << 20,
            block_size: 8192,
            system_identifier: None,
            last_tli: TimelineId(1),
            timelines: &[],
        }
    }

    #[test]
    fn real_headers_are_sound() {
        let long = PageHeader::decode(Lsn(0x100_0000), &bytes_of(LONG_18)).unwrap();
        assert_eq!((long.magic, long.info, long.tli, long.rem_len), (0xD118, 2, TimelineId(1), 0));
        assert_eq!(
            long.long,
            Some(LongPageHeader { system_identifier: 0x6B00_9BE2_889A_99C3, segment_size: 16 << 20, block_size: 8192 })
        );
        assert_eq!((long.size(), long.faults(&expected(0x100_0000))), (40, vec![]));
        let long = PageHeader::decode(Lsn(0x100_0000), &bytes_of(LONG_15)).unwrap();
        assert_eq!((long.magic, long.faults(&expected(0x100_0000))), (0xD110, vec![]));
        let short = PageHeader::decode(Lsn(0x100_2000), &bytes_of(SHORT_15)).unwrap();
        assert_eq!((short.info, short.rem_len, short.size()), (5, 209, 24));
        assert_eq!(short.faults(&expected(0x100_2000)), vec![]);
    }

    #[test]
    fn every_truncation_is_an_error_with_its_offset() {
        for (text, size) in [(LONG_18, 40), (SHORT_15, 24)] {
            let bytes = bytes_of(text);
            for cut in 0..size {
                let error = PageHeader::decode(Lsn(0x1000), &bytes[..cut]).unwrap_err();
                assert!((0x1000..=0x1000 + cut as u64).contains(&error.offset), "{error}");
            }
        }
    }

    #[test]
    fn every_broken_rule_is_listed_in_the_order_of_the_server() {
        let mut bytes = bytes_of(LONG_18);
        bytes[0..2].copy_from_slice(&0xD104_u16.to_le_bytes());
        bytes[2] |= 0x40;
        bytes[4] = 3;
        let header = PageHeader::decode(Lsn(0), &bytes).unwrap();
        let faults = header.faults(&PageExpectation {
            major: Some(Major::V18),
            page_addr: Lsn(0x200_0000),
            segment_size: 1 << 20,
            block_size: 4096,
            system_identifier: Some(7),
            last_tli: TimelineId(4),
            timelines: &[TimelineId(1), TimelineId(4)],
        });
        let kinds: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            kinds,
            [
                "page magic 0xD104: a development version of 13 that was never released",
                "unknown flag bits in 0x0042",
                "system identifier 7710333959315036611, expected 7",
                "segment size 16777216, expected 1048576",
                "WAL page size 8192, expected 4096",
                "page address 0/01000000, expected 0/02000000",
                "timeline 3 after 4",
                "timeline 3 is not in the history",
            ]
        );
    }

    #[test]
    fn first_page_of_a_segment_needs_the_long_form() {
        let mut bytes = bytes_of(SHORT_15);
        bytes[8..16].copy_from_slice(&0x100_0000_u64.to_le_bytes());
        let header = PageHeader::decode(Lsn(0), &bytes).unwrap();
        assert_eq!(header.faults(&expected(0x100_0000)), [PageFault::LongHeaderMissing]);
        let foreign = PageExpectation { major: Some(Major::V14), ..expected(0x100_0000) };
        assert_eq!(
            header.faults(&foreign).first(),
            Some(&PageFault::ForeignMagic { found: Major::V15, expected: Major::V14 })
        );
    }
}
