//! Words of the server that every other module shares: addresses, identities, sizes.
//! Transaction numbers wrap around.

use std::fmt;
use std::str::FromStr;

use strum::IntoStaticStr;

/// Number of a block inside one fork, counted across the fork's segment files.
pub(crate) type BlockNumber = u32;

/// Highest number of a block.
///
/// Source: `MaxBlockNumber`, `src/include/storage/block.h`.
pub(crate) const MAX_BLOCK_NUMBER: BlockNumber = BlockNumber::MAX - 1;

/// Object identifier of a tablespace, database or relation.
pub(crate) type Oid = u32;

/// Tablespace `pg_default`: relations live under `base/`.
///
/// Source: `DEFAULTTABLESPACE_OID`, `src/include/catalog/pg_tablespace.dat`.
pub const DEFAULT_TABLESPACE_OID: Oid = 1663;

/// Tablespace `pg_global`: shared catalogs live under `global/`.
///
/// Source: `GLOBALTABLESPACE_OID`, `src/include/catalog/pg_tablespace.dat`.
pub(crate) const GLOBAL_TABLESPACE_OID: Oid = 1664;

/// Smallest data block and WAL block that a server can be built with, in bytes.
pub(crate) const MIN_BLOCK_SIZE: u32 = 1024;

/// Largest data block that a server can be built with, in bytes.
pub(crate) const MAX_BLOCK_SIZE: u32 = 32768;

/// Largest WAL page that a server can be built with, in bytes.
pub(crate) const MAX_WAL_BLOCK_SIZE: u32 = 65536;

/// Smallest WAL segment, in bytes.
pub(crate) const MIN_WAL_SEGMENT_SIZE: u32 = 1 << 20;

/// Largest WAL segment, in bytes.
pub(crate) const MAX_WAL_SEGMENT_SIZE: u32 = 1 << 30;

/// True for the size of a data page that a server can be built with.
pub(crate) const fn is_block_size(size: u32) -> bool {
    size.is_power_of_two() && size >= MIN_BLOCK_SIZE && size <= MAX_BLOCK_SIZE
}

/// True for the size of a WAL page that a server can be built with.
pub(crate) const fn is_wal_block_size(size: u32) -> bool {
    size.is_power_of_two() && size >= MIN_BLOCK_SIZE && size <= MAX_WAL_BLOCK_SIZE
}

/// True for the size of a WAL segment that a server accepts.
pub(crate) const fn is_wal_segment_size(size: u32) -> bool {
    size.is_power_of_two() && size >= MIN_WAL_SEGMENT_SIZE && size <= MAX_WAL_SEGMENT_SIZE
}

/// A byte address in the WAL stream; 0 means "none".
///
/// Source: `XLogRecPtr`, `src/include/access/xlogdefs.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The address that stands for "none" (`InvalidXLogRecPtr`).
    pub const INVALID: Self = Self(0);

    /// True unless this is the address 0, which stands for "none".
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }

    /// The address `bytes` further on; stays at the end of the address space instead of wrapping.
    pub const fn advanced_by(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Bytes from `earlier` to this address, or `None` when `earlier` is after it.
    pub const fn bytes_since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }

    /// This address rounded up to the alignment of WAL records, 8 bytes (`MAXALIGN`).
    pub const fn aligned(self) -> Self {
        Self(self.0.saturating_add(7) & !7)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:X}/{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF);
        f.pad(&text)
    }
}

/// Why a text is not a valid LSN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a valid LSN: expected two hexadecimal numbers of up to 8 digits, as in 1/2A000028")]
pub struct LsnParseError(String);

impl FromStr for Lsn {
    type Err = LsnParseError;

    /// Reads `H/L`, with or without the zeros that newer servers print.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let half = |part: &str| {
            let hex = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            hex.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Self(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| LsnParseError(text.to_owned()))
    }
}

/// Number of a timeline, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(pub u32);

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One of the files that together store a relation.
///
/// Source: `ForkNumber`, `src/include/common/relpath.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ForkNumber {
    /// The data itself.
    #[default]
    Main,
    /// Free space map.
    Fsm,
    /// Visibility map.
    Vm,
    /// Empty template of an unlogged relation.
    Init,
}

impl ForkNumber {
    /// All forks, in the order of their codes 0 to 3.
    pub const ALL: [Self; 4] = [Self::Main, Self::Fsm, Self::Vm, Self::Init];

    /// The fork with this code on disk, if there is one.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|fork| fork.code() == code)
    }

    /// The code on disk: 0 main, 1 fsm, 2 vm, 3 init.
    pub const fn code(self) -> i32 {
        match self {
            Self::Main => 0,
            Self::Fsm => 1,
            Self::Vm => 2,
            Self::Init => 3,
        }
    }

    /// The name that file names and the server's tools use.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for ForkNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ForkNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|fork| fork.name() == text)
            .ok_or_else(|| format!("\"{text}\" is not a valid fork: expected main, fsm, vm or init"))
    }
}

/// Where a relation's storage is: the key of its files.
///
/// Source: `RelFileLocator`, `src/include/storage/relfilelocator.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelFileLocator {
    /// Tablespace.
    pub spc_oid: Oid,
    /// Database; 0 for shared relations.
    pub db_oid: Oid,
    /// File number, not the relation's OID.
    pub rel_number: u32,
}

impl fmt::Display for RelFileLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}/{}", self.spc_oid, self.db_oid, self.rel_number))
    }
}

/// Identity of one page in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// Relation that the page belongs to.
    pub rel: RelFileLocator,
    /// Fork of the relation.
    pub fork: ForkNumber,
    /// Block within the fork.
    pub block: BlockNumber,
}

/// Sizes that a server was built and initialised with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a data page (`BLCKSZ`).
    pub block_size: u32,
    /// Blocks in one segment file of a relation (`RELSEG_SIZE`).
    pub rel_segment_blocks: u32,
    /// Bytes of a WAL page (`XLOG_BLCKSZ`).
    pub wal_block_size: u32,
    /// Bytes of a WAL segment file.
    pub wal_segment_size: u32,
}

/// Bytes of the header of a WAL page.
///
/// Source: `SizeOfXLogShortPHD`, `src/include/access/xlog_internal.h`.
pub(crate) const SHORT_WAL_HEADER_BYTES: u32 = 24;

/// Bytes of the header of the first page of a WAL segment.
///
/// Source: `SizeOfXLogLongPHD`, `src/include/access/xlog_internal.h`.
pub(crate) const LONG_WAL_HEADER_BYTES: u32 = 40;

impl Geometry {
    /// Sizes of servers as they are delivered: pages of 8 KiB, relation segments of 1 GiB, WAL segments of 16 MiB. Taken
    /// where nothing says otherwise, and never without saying so.
    pub(crate) const USUAL: Self =
        Self { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 16 << 20 };

    /// Sizes of a server that is built for pages of `block_size` bytes, all else as usual.
    pub fn usual_with(block_size: u32) -> Self {
        let usual_bytes = u64::from(Self::USUAL.block_size).saturating_mul(u64::from(Self::USUAL.rel_segment_blocks));
        let rel_segment_blocks = usual_bytes.checked_div(u64::from(block_size)).unwrap_or_default();
        Self {
            block_size,
            rel_segment_blocks: u32::try_from(rel_segment_blocks).unwrap_or(u32::MAX),
            wal_block_size: block_size,
            ..Self::USUAL
        }
    }

    /// Bytes of the page header that stands at this address: 0 inside a page.
    pub(crate) fn wal_header_bytes(&self, lsn: Lsn) -> u64 {
        let at = |size: u32| lsn.0.is_multiple_of(u64::from(size.max(1)));
        u64::from(match (at(self.wal_block_size), at(self.wal_segment_size)) {
            (true, true) => LONG_WAL_HEADER_BYTES,
            (true, false) => SHORT_WAL_HEADER_BYTES,
            (false, _) => 0,
        })
    }

    /// True when a server can have pages and segment files of these sizes.
    pub const fn is_possible(&self) -> bool {
        is_block_size(self.block_size) && self.rel_segment_blocks > 0
    }

    /// Address of the first byte after a WAL record of `length_bytes` that starts at `start_lsn`, rounded up to the
    /// next record position: the value that a page's LSN takes. Page headers inside the record are counted in.
    pub fn wal_record_end(&self, start_lsn: Lsn, length_bytes: u64) -> Lsn {
        let page = u64::from(self.wal_block_size.max(MIN_BLOCK_SIZE));
        let mut at = start_lsn.0;
        let mut left = length_bytes;
        loop {
            let in_page = page.saturating_sub(at % page);
            if left <= in_page {
                return Lsn(at.saturating_add(left)).aligned();
            }
            left = left.saturating_sub(in_page);
            at = at.saturating_add(in_page);
            at = at.saturating_add(self.wal_header_bytes(Lsn(at)));
        }
    }
}

/// True when `xid` was handed out after `other`: numbers wrap around, so this is about distance.
///
/// Source: `TransactionIdFollows`, `src/backend/access/transam/transam.c`.
pub(crate) const fn is_newer_xid(xid: u32, other: u32) -> bool {
    xid.wrapping_sub(other).cast_signed() > 0
}

#[inline]
pub(crate) fn newer_xid(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if is_newer_xid(other, one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// First transaction id that is handed out to anybody; lower ones have a meaning of their own.
///
/// Source: `FirstNormalTransactionId`, `src/include/access/transam.h`.
pub(crate) const FIRST_NORMAL_XID: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsn_is_read_with_and_without_padding() {
        assert_eq!("0/21A4E30".parse(), Ok(Lsn(0x21A_4E30)));
        assert_eq!("0/021A4E30".parse(), Ok(Lsn(0x21A_4E30)));
        assert_eq!("A/2".parse(), Ok(Lsn(0xA_0000_0002)));
        assert_eq!(Lsn(0xA_0000_0002).to_string(), "A/00000002");
    }

    #[test]
    fn text_that_is_no_lsn_is_refused() {
        for text in ["", "/", "1", "1/", "/1", "1/2/3", "g/0", "+1/0", "123456789/0", "1/123456789", " 1/2"] {
            assert!(text.parse::<Lsn>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn usual_sizes_are_those_of_servers_as_delivered() {
        assert_eq!(Geometry::usual_with(8192), Geometry::USUAL);
        let large = Geometry::usual_with(32_768);
        assert_eq!(
            (large.rel_segment_blocks, large.wal_block_size, large.wal_segment_size),
            (32_768, 32_768, 16_777_216)
        );
        assert!(!Geometry::usual_with(0).is_possible());
        let header = |lsn| Geometry::USUAL.wal_header_bytes(Lsn(lsn));
        assert_eq!([header(0x100_0000), header(0x100_2000), header(0x100_2008)], [40, 24, 0]);
    }

    #[test]
    fn record_end_counts_page_headers_and_alignment() {
        let geometry =
            Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };
        // Fact sheet: the checkpoint record of 19devel is 122 bytes long; header of the fixture `clean`.
        assert_eq!(geometry.wal_record_end(Lsn(0x15B_B748), 122), Lsn(0x15B_B7C8));
        // Crosses into a page with a short header, then into one with a long header.
        assert_eq!(geometry.wal_record_end(Lsn(0x1_1FF8), 24), Lsn(0x1_2000 + 24 + 16));
        assert_eq!(geometry.wal_record_end(Lsn(0xF_FFF8), 24), Lsn(0x10_0000 + 40 + 16));
        // Ends exactly on a page boundary: the next header is not counted.
        assert_eq!(geometry.wal_record_end(Lsn(0x1_1FE8), 24), Lsn(0x1_2000));
    }
}
