//! `pg_xact`: how transactions ended, looked up one by one in small pieces.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use super::name_gaps::NameGap;
use super::open::{Links, ReadFile};
use crate::parsers::heap::XactStatus;

/// Transactions in one byte, 2 bits each, lowest bits first.
///
/// Source: `CLOG_XACTS_PER_BYTE`, `src/backend/access/transam/clog.c`.
const XACTS_PER_BYTE: u32 = 4;

/// Pages in one segment file, where the control file does not say (before 19devel it is a constant).
///
/// Source: `SLRU_PAGES_PER_SEGMENT`, `src/include/access/slru.h`.
pub(crate) const SLRU_PAGES_PER_SEGMENT: u32 = 32;

/// Pages that are kept in memory; with 8 kB pages each holds 32768 transactions.
const MAX_PAGES: usize = 256;

/// The files below `pg_xact`. A missing or short file makes the transactions in it unknown and is reported once.
///
/// Source: `TransactionIdToPage` and its neighbours, `src/backend/access/transam/clog.c`.
#[derive(Debug)]
pub(super) struct XactLog {
    directory: PathBuf,
    page_bytes: NonZeroU32,
    pages_per_segment: NonZeroU32,
    pages: HashMap<u32, Vec<u8>>,
    reported: BTreeSet<u32>,
    missing: BTreeSet<u32>,
}

/// Where the 2 bits of a transaction are.
#[derive(Debug, PartialEq, Eq)]
struct StatusBits {
    segment: u32,
    page: u32,
    /// Byte in the page.
    at: usize,
    shift: u32,
}

impl XactLog {
    /// `page_bytes`: block size of the cluster.
    pub(super) fn new(data_dir: &Path, page_bytes: u32, pages_per_segment: u32) -> Self {
        Self {
            directory: data_dir.join("pg_xact"),
            page_bytes: NonZeroU32::new(page_bytes).unwrap_or(NonZeroU32::MIN),
            pages_per_segment: NonZeroU32::new(pages_per_segment).unwrap_or(NonZeroU32::MIN),
            pages: HashMap::new(),
            reported: BTreeSet::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Outcome of a transaction. The first two ids belong to the server itself and count as committed, 0 is invalid.
    pub(super) fn status(&mut self, xid: u32, gaps: &mut Vec<NameGap>) -> XactStatus {
        match xid {
            0 => return XactStatus::Aborted,
            1 | 2 => return XactStatus::Committed,
            _ => {}
        }
        let StatusBits { segment, page, at, shift } = self.locate(xid);
        if self.missing.contains(&segment) {
            return XactStatus::Unknown;
        }
        if !self.pages.contains_key(&page) {
            if self.pages.len() >= MAX_PAGES {
                self.pages.clear();
            }
            match self.read(page) {
                Ok(bytes) => drop(self.pages.insert(page, bytes)),
                Err(error) => {
                    self.missing.insert(segment);
                    gaps.push(error.into());
                    return XactStatus::Unknown;
                }
            }
        }
        match self.pages.get(&page).and_then(|bytes| bytes.get(at)) {
            Some(bits) => XactStatus::from_bits(bits >> shift),
            None => {
                if self.reported.insert(segment) {
                    gaps.push(NameGap::XactsMissing { path: self.path(segment), xid });
                }
                XactStatus::Unknown
            }
        }
    }

    fn locate(&self, xid: u32) -> StatusBits {
        let byte = xid / XACTS_PER_BYTE;
        let page = byte / self.page_bytes;
        let at = usize::try_from(byte % self.page_bytes).unwrap_or(usize::MAX);
        StatusBits { segment: page / self.pages_per_segment, page, at, shift: (xid % XACTS_PER_BYTE) << 1 }
    }

    /// The file of a transaction, relative to the data directory.
    pub(super) fn file_of(&self, xid: u32) -> PathBuf {
        Path::new("pg_xact").join(format!("{:04X}", self.locate(xid).segment))
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.directory.join(format!("{segment:04X}"))
    }

    fn read(&self, page: u32) -> Result<Vec<u8>, super::open::AccessError> {
        let file = ReadFile::open(&self.path(page / self.pages_per_segment), Links::Refuse)?;
        let mut bytes = vec![0; usize::try_from(self.page_bytes.get()).unwrap_or_default()];
        let offset = u64::from(page % self.pages_per_segment).saturating_mul(u64::from(self.page_bytes.get()));
        let filled = file.read_at(&mut bytes, offset)?;
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bits_a_transaction_lowest_first() {
        let log = XactLog::new(Path::new("/nowhere"), 8192, 32);
        assert_eq!(log.locate(6), StatusBits { segment: 0, page: 0, at: 1, shift: 4 });
        assert_eq!(log.locate(1_048_575), StatusBits { segment: 0, page: 31, at: 8191, shift: 6 });
        assert_eq!(log.locate(1_048_576), StatusBits { segment: 1, page: 32, at: 0, shift: 0 });
        assert_eq!(log.path(log.locate(u32::MAX).segment), Path::new("/nowhere/pg_xact/0FFF"));
    }

    #[test]
    fn missing_segment_is_reported_once() {
        let mut log = XactLog::new(Path::new("/nowhere"), 8192, 32);
        let mut gaps = Vec::new();
        let mut of = |xid| log.status(xid, &mut gaps);
        assert_eq!([of(0), of(1), of(2)], [XactStatus::Aborted, XactStatus::Committed, XactStatus::Committed]);
        assert_eq!([of(3), of(900_000), of(1_048_576)], [XactStatus::Unknown; 3]);
        assert_eq!(gaps.len(), 2, "{gaps:?}");
    }
}
