//! Why reading stopped, and where.

use super::page::PageFault;
use super::record::RecordHeaderFault;
use crate::parsers::decode::ParseError;
use crate::types::Lsn;

/// The end of readable WAL: a value, not an error. Whether it is damage depends on how far the cluster is known to have
/// written.
///
/// Displays as `WAL ends at 0/00B3BCE0, after the record at 0/00B3BC68: record length 0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndOfWal {
    /// The reason.
    pub reason: EndReason,
    /// Where reading failed: the start of a page or of a record.
    pub at: Lsn,
    /// Start of the record that was being collected over several pages, if any.
    pub unfinished: Option<Lsn>,
    /// Start of the last good record.
    pub last_record: Option<Lsn>,
    /// End of the last good record (its `end_lsn`).
    pub end_of_last: Option<Lsn>,
}

/// Content found where a record or page should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// Zeros instead of a record: nothing was written from here on.
    #[error("record length 0")]
    ZeroLength,
    /// A page header of zeros: the page was never written, or lies after a segment switch.
    #[error("page was never written")]
    NeverWritten,
    /// The page was written for an earlier address in WAL, and its file was renamed since.
    #[error("page of a recycled segment, written for {found}")]
    Recycled {
        /// The address in the page.
        found: Lsn,
    },
    /// The page repeats one that lies before it in the segment: the unwritten rest of the first segment of a new timeline.
    #[error("repeats the page at {found}, as after a timeline switch")]
    RepeatedPage {
        /// The address in the page.
        found: Lsn,
    },
    /// The page header breaks a rule.
    #[error("page header: {0}")]
    Page(PageFault),
    /// A page begins with the rest of a record where a record should start.
    #[error("page begins with {rem_len} bytes of a record that was not being read")]
    UnexpectedContinuation {
        /// `xlp_rem_len` of the page.
        rem_len: u32,
    },
    /// A record should continue on this page, but the page starts with another one.
    #[error("page does not continue the record")]
    ContinuationMissing,
    /// A record continues on this page, but the remaining length on the page disagrees with the record.
    #[error("page says that {found} bytes of the record are left, expected {expected}")]
    ContinuationLength {
        /// `xlp_rem_len` of the page.
        found: u32,
        /// Remaining length according to the record.
        expected: u32,
    },
    /// The record header breaks a rule.
    #[error("record header: {0}")]
    Header(RecordHeaderFault),
    /// The checksum of the record does not fit its bytes.
    #[error("record checksum 0x{found:08X}, computed 0x{computed:08X}")]
    Checksum {
        /// `xl_crc`.
        found: u32,
        /// CRC-32C of the bytes.
        computed: u32,
    },
    /// The record's checksum fits, but its body breaks a rule.
    #[error("record body: {0}")]
    Body(ParseError),
    /// The record that replaces a cut-off one names another than was found cut off.
    #[error("record says that it replaces the one at {found}, but the one at {expected} was cut off")]
    Overwritten {
        /// LSN in the record.
        found: Lsn,
        /// Start of the record that was being collected.
        expected: Lsn,
    },
    /// The input ended where a record or page could follow: a missing file, or all that was asked for.
    #[error("no more bytes")]
    InputEnds,
    /// The input ended inside a record or page header.
    #[error("input ends after {have} bytes of {structure}")]
    CutShort {
        /// `record` or `page header`.
        structure: &'static str,
        /// Bytes that had come.
        have: u64,
    },
    /// The limit of a scan was reached, with the last record before it complete.
    #[error("limit reached")]
    Limit,
}

/// Meaning of an end of WAL, judged by the bytes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndKind {
    /// All that was asked for was read.
    Complete,
    /// Nothing was written from here on. Normal for the newest segment of a server.
    Unwritten,
    /// Leftovers of older WAL from here on. Normal too.
    Stale,
    /// The last record is incomplete. Normal after a crash, or when input is missing.
    Torn,
    /// Bytes contradict the format. Normal only where a write was under way when the server crashed.
    Damaged,
}

impl EndReason {
    /// Meaning of this end. A broken link to the record before is counted as stale: the reader finds it
    /// when the older content of a recycled page continues after the last new record.
    pub fn kind(&self) -> EndKind {
        match self {
            Self::InputEnds | Self::Limit => EndKind::Complete,
            Self::ZeroLength | Self::NeverWritten => EndKind::Unwritten,
            Self::Recycled { .. } | Self::RepeatedPage { .. } => EndKind::Stale,
            Self::Header(RecordHeaderFault::PrevLink { .. }) => EndKind::Stale,
            Self::CutShort { .. } | Self::ContinuationMissing => EndKind::Torn,
            Self::Page(_)
            | Self::UnexpectedContinuation { .. }
            | Self::ContinuationLength { .. }
            | Self::Header(_)
            | Self::Checksum { .. }
            | Self::Body(_)
            | Self::Overwritten { .. } => EndKind::Damaged,
        }
    }
}

impl std::fmt::Display for EndOfWal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WAL ends at {}", self.at)?;
        if let Some(last) = self.last_record {
            write!(f, ", after the record at {last}")?;
        }
        if let Some(unfinished) = self.unfinished {
            write!(f, ", inside the record at {unfinished}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Distinguishes a page of a recycled segment and a repeated page from damage by the address found instead of the expected one.
///
/// A segment is recycled as a whole, so an old page keeps its offset within the segment.
pub(crate) fn stale_page(found: Lsn, expected: Lsn, segment_size: u32, block_size: u32) -> Option<EndReason> {
    let segment = u64::from(segment_size);
    let back = expected.bytes_since(found).filter(|&back| back > 0)?;
    if back.is_multiple_of(segment) {
        return Some(EndReason::Recycled { found });
    }
    let same_segment = expected.0.checked_div(segment) == found.0.checked_div(segment);
    (same_segment && found.0.is_multiple_of(u64::from(block_size))).then_some(EndReason::RepeatedPage { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_pages_are_distinguished_from_damage() {
        let stale = |found, expected| stale_page(Lsn(found), Lsn(expected), 1 << 20, 8192);
        assert_eq!(stale(0x50_2000, 0x70_2000), Some(EndReason::Recycled { found: Lsn(0x50_2000) }));
        assert_eq!(stale(0x70_0000, 0x70_2000), Some(EndReason::RepeatedPage { found: Lsn(0x70_0000) }));
        for (found, expected) in [
            (0x90_2000, 0x70_2000),
            (0x70_2000, 0x70_2000),
            (0x60_4000, 0x70_2000),
            (0x70_0001, 0x70_2000),
            (u64::MAX, 0),
        ] {
            assert_eq!(stale(found, expected), None, "{found:#x}");
        }
    }

    #[test]
    fn an_end_says_where_and_why() {
        let end = EndOfWal {
            reason: EndReason::ZeroLength,
            at: Lsn(0xB3_BCE0),
            unfinished: None,
            last_record: Some(Lsn(0xB3_BC68)),
            end_of_last: Some(Lsn(0xB3_BCE0)),
        };
        assert_eq!(end.to_string(), "WAL ends at 0/00B3BCE0, after the record at 0/00B3BC68: record length 0");
        assert_eq!(end.reason.kind(), EndKind::Unwritten);
    }
}
