//! Heap tuples: header, user data, and their visibility as far as it is known without a running server.

use super::decode::{ParseError, decode_at, field, le_u8, le_u16, le_u32};
use super::page::{LinePointerState, PageHeader, line_pointers};
use crate::types::{BlockNumber, Oid};

/// Bits of `t_infomask`.
///
/// Source: `HEAP_HASNULL` and its neighbours, `src/include/access/htup_details.h`.
pub mod infomask {
    pub(crate) const HAS_NULLS: u16 = 0x0001;
    /// All hints of how transactions ended: they may differ between copies of a row.
    pub(crate) const HINTS: u16 = 0x0F00;
    /// The row's OID stands before the user data (majors 10 and 11).
    pub(crate) const HAS_OID: u16 = 0x0008;
    /// `t_xmax` is an exclusive locker.
    pub(crate) const XMAX_EXCLUSIVE_LOCK: u16 = 0x0040;
    /// `t_xmax` has only locked the row.
    pub(crate) const XMAX_LOCK_ONLY: u16 = 0x0080;
    /// Any lock; also the bit for share locks.
    pub(crate) const LOCK_MASK: u16 = 0x0050;
    /// Hint: `t_xmin` committed.
    pub(crate) const XMIN_COMMITTED: u16 = 0x0100;
    /// Hint: `t_xmin` aborted; together with [`XMIN_COMMITTED`] the row is frozen.
    pub(crate) const XMIN_INVALID: u16 = 0x0200;
    /// Hint: `t_xmax` committed.
    pub(crate) const XMAX_COMMITTED: u16 = 0x0400;
    pub(crate) const XMAX_INVALID: u16 = 0x0800;
    /// `t_xmax` is a multixact id.
    pub(crate) const XMAX_IS_MULTI: u16 = 0x1000;
}

/// Header of a heap tuple: 23 bytes at the line pointer's offset, little-endian.
///
/// | bytes  | field             | C type   | meaning                                             |
/// |--------|-------------------|----------|-----------------------------------------------------|
/// | 0..4   | `xmin`            | `uint32` | inserting transaction                               |
/// | 4..8   | `xmax`            | `uint32` | deleting or locking transaction, or multixact       |
/// | 8..12  | `command_id`      | `uint32` | command within the transaction                      |
/// | 12..16 | `ctid_block`      | `uint16` | two halves, high first: block of the newer version  |
/// | 16..18 | `ctid_item`       | `uint16` | its item number                                     |
/// | 18..20 | `infomask2`       | `uint16` | low 11 bits: number of attributes                   |
/// | 20..22 | `infomask`        | `uint16` | see [`infomask`]                                    |
/// | 22..23 | `data_offset`     | `uint8`  | `t_hoff`: offset of the user data                   |
/// | 23..   | null bitmap       | `bits8`  | with `infomask::HAS_NULLS`; a set bit is not null |
///
/// Source: `HeapTupleHeaderData`, `src/include/access/htup_details.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TupleHeader {
    /// Inserting transaction; kept when the row is frozen.
    pub xmin: u32,
    /// Deleting or locking transaction, or a multixact id; 0 none.
    pub xmax: u32,
    /// Command number.
    pub command_id: u32,
    /// Block of the newer version of the row, its own if no newer one exists.
    pub ctid_block: BlockNumber,
    /// Item number there, from 1.
    pub ctid_item: u16,
    /// Number of attributes and flags.
    pub infomask2: u16,
    /// Flags.
    pub infomask: u16,
    /// Offset of the user data from the start of the tuple.
    pub data_offset: u8,
}

impl TupleHeader {
    /// On-disk size in bytes, without null bitmap.
    pub const SIZE: usize = 23;

    /// Decodes without judging. `base` is the offset of `buf[0]` in the file, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    pub fn decode(base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("HeapTupleHeaderData", base, buf, |i| {
            let (i, xmin) = field(i, "t_xmin", le_u32)?;
            let (i, xmax) = field(i, "t_xmax", le_u32)?;
            let (i, command_id) = field(i, "t_cid", le_u32)?;
            let (i, block_high) = field(i, "t_ctid.ip_blkid", le_u16)?;
            let (i, block_low) = field(i, "t_ctid.ip_blkid", le_u16)?;
            let (i, ctid_item) = field(i, "t_ctid.ip_posid", le_u16)?;
            let (i, infomask2) = field(i, "t_infomask2", le_u16)?;
            let (i, infomask) = field(i, "t_infomask", le_u16)?;
            let (i, data_offset) = field(i, "t_hoff", le_u8)?;
            let ctid_block = u32::from(block_high) << 16 | u32::from(block_low);
            Ok((i, Self { xmin, xmax, command_id, ctid_block, ctid_item, infomask2, infomask, data_offset }))
        })
    }

    /// True when all these bits of `t_infomask` are set.
    pub const fn has(&self, bits: u16) -> bool {
        self.infomask & bits == bits
    }

    /// Number of attributes that the tuple stores.
    pub(crate) const fn attribute_count(&self) -> u16 {
        self.infomask2 & 0x07FF
    }

    /// Smallest `t_hoff` that leaves room for null bitmap and OID, in bytes.
    pub(crate) fn min_data_offset(&self) -> usize {
        let bitmap = if self.has(infomask::HAS_NULLS) { usize::from(self.attribute_count()).div_ceil(8) } else { 0 };
        let oid = if self.has(infomask::HAS_OID) { 4 } else { 0 };
        Self::SIZE.saturating_add(bitmap).saturating_add(oid)
    }

    /// Every rule that the header of a tuple of `length` bytes breaks; empty when sound.
    ///
    /// The alignment is that of the machine that wrote it, 8 bytes or, on some 32-bit ones, 4: 4 is required.
    pub fn faults(&self, length: usize) -> Vec<TupleFault> {
        let mut faults = Vec::new();
        let (data_offset, least) = (usize::from(self.data_offset), self.min_data_offset());
        if data_offset < least {
            faults.push(TupleFault::DataInsideHeader { data_offset, least });
        }
        if !data_offset.is_multiple_of(4) {
            faults.push(TupleFault::DataNotAligned { data_offset });
        }
        if data_offset > length {
            faults.push(TupleFault::DataBeyondTuple { data_offset, length });
        }
        faults
    }

    /// The OID that majors 10 and 11 keep in the 4 bytes before the user data; `None` when the tuple has none.
    ///
    /// Source: `HeapTupleHeaderGetOid`, `src/include/access/htup_details.h` of these majors.
    pub(crate) fn row_oid(&self, tuple: &[u8]) -> Option<Oid> {
        let at = usize::from(self.data_offset).checked_sub(4).filter(|_| self.has(infomask::HAS_OID))?;
        tuple.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The bytes after the header: attributes of fixed width that are not null stand at fixed offsets in it.
    pub(crate) fn user_data<'a>(&self, tuple: &'a [u8]) -> &'a [u8] {
        tuple.get(usize::from(self.data_offset)..).unwrap_or_default()
    }

    /// True when attribute `index` (from 0) is null or not stored at all.
    pub fn is_null(&self, tuple: &[u8], index: u16) -> bool {
        if index >= self.attribute_count() {
            return true;
        }
        let byte = tuple.get(Self::SIZE.saturating_add(usize::from(index / 8))).copied().unwrap_or_default();
        self.has(infomask::HAS_NULLS) && byte >> (index % 8) & 1 == 0
    }

    /// True when `xmax` has only locked the row. The second form was written before 9.3.
    ///
    /// Source: `HEAP_XMAX_IS_LOCKED_ONLY`, `src/include/access/htup_details.h`.
    pub(crate) const fn is_only_locked(&self) -> bool {
        let old = self.infomask & (infomask::XMAX_IS_MULTI | infomask::LOCK_MASK) == infomask::XMAX_EXCLUSIVE_LOCK;
        self.has(infomask::XMAX_LOCK_ONLY) || old
    }

    /// True when nothing ever deleted or replaced the row, whether or not that committed.
    pub(crate) const fn was_never_deleted(&self) -> bool {
        self.has(infomask::XMAX_INVALID) || self.xmax == 0 || self.is_only_locked()
    }

    /// Whether the row is part of the table, with all sessions gone. `status` looks a transaction up in `pg_xact`; it is
    /// asked only where the hint bits leave the question open.
    ///
    /// Differs from the server in one thing: a deletion by a member of a multixact is not followed into `pg_multixact`;
    /// such a row is reported as [`Liveness::PerhapsDeleted`].
    ///
    /// Source: `HeapTupleSatisfiesMVCC`, `src/backend/access/heap/heapam_visibility.c`.
    pub fn liveness(&self, mut status: impl FnMut(u32) -> XactStatus) -> Liveness {
        let inserted = match (self.has(infomask::XMIN_COMMITTED), self.has(infomask::XMIN_INVALID)) {
            (true, _) => XactStatus::Committed,
            (false, true) => XactStatus::Aborted,
            (false, false) => status(self.xmin),
        };
        let open = match inserted {
            XactStatus::Committed => None,
            XactStatus::Aborted => return Liveness::Dead,
            XactStatus::InProgress | XactStatus::SubCommitted => Some(Liveness::InsertionOpen),
            XactStatus::Unknown => Some(Liveness::InsertionUnknown),
        };
        if self.was_never_deleted() {
            return open.unwrap_or(Liveness::Live);
        }
        if self.has(infomask::XMAX_IS_MULTI) {
            return open.unwrap_or(Liveness::PerhapsDeleted);
        }
        let deleted = if self.has(infomask::XMAX_COMMITTED) { XactStatus::Committed } else { status(self.xmax) };
        match deleted {
            XactStatus::Committed => Liveness::Dead,
            XactStatus::Unknown => open.unwrap_or(Liveness::PerhapsDeleted),
            // Inserted and deleted by the same unfinished transaction: its own end does not bring it back.
            _ if open.is_some() && self.xmin == self.xmax => Liveness::Dead,
            _ => open.unwrap_or(Liveness::Live),
        }
    }
}

/// How a transaction ended, by its 2 bits in `pg_xact`.
///
/// Source: `TRANSACTION_STATUS_COMMITTED` and its neighbours, `src/include/access/clog.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XactStatus {
    /// 0: unfinished, or ended by a crash, or finished in WAL that was not replayed.
    InProgress,
    /// 1.
    Committed,
    /// 2.
    Aborted,
    /// 3: a subtransaction that is done while its parent is not.
    SubCommitted,
    /// `pg_xact` has no such page, or it cannot be read.
    Unknown,
}

impl XactStatus {
    /// The status in the low 2 bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::InProgress,
            1 => Self::Committed,
            2 => Self::Aborted,
            _ => Self::SubCommitted,
        }
    }
}

/// Whether a row is part of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// Yes.
    Live,
    /// Inserted by a committed transaction; whether the deletion counts is unknown.
    PerhapsDeleted,
    /// `pg_xact` does not say whether the insertion was committed.
    InsertionUnknown,
    /// Inserted by a transaction that `pg_xact` shows as unfinished. After a clean stop it never was committed; after a
    /// crash the WAL may know better.
    InsertionOpen,
    /// No.
    Dead,
}

/// A broken rule of a heap tuple, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TupleFault {
    /// The tuple is shorter than a header.
    #[error("{length} bytes are too short for a tuple header")]
    Short {
        /// Length of the tuple.
        length: usize,
    },
    /// `t_hoff` leaves no room for header, null bitmap and OID.
    #[error("t_hoff {data_offset} is inside the tuple header of {least} bytes")]
    DataInsideHeader {
        /// `t_hoff`.
        data_offset: usize,
        /// Bytes that the header needs.
        least: usize,
    },
    /// `t_hoff` is not aligned.
    #[error("t_hoff {data_offset} is not aligned")]
    DataNotAligned {
        /// `t_hoff`.
        data_offset: usize,
    },
    /// `t_hoff` lies past the end of the tuple.
    #[error("t_hoff {data_offset} is past the end of the tuple of {length} bytes")]
    DataBeyondTuple {
        /// `t_hoff`.
        data_offset: usize,
        /// Length of the tuple.
        length: usize,
    },
    /// Two tuples share bytes.
    #[error("the tuple overlaps that of item {other}")]
    Overlap {
        /// Item number of the other tuple, from 1.
        other: usize,
    },
}

/// A tuple on a page.
#[derive(Clone, Copy, Debug)]
pub struct PageTuple<'a> {
    /// Item number, from 1.
    pub item: usize,
    /// Offset within the page.
    pub offset: usize,
    /// Header, user data and all.
    pub bytes: &'a [u8],
}

/// The tuples of a heap page, in item order: line pointers in state "normal" whose bytes lie on the page. Those that
/// point elsewhere are faults of the page: see [`super::page::line_pointer_faults`].
pub fn page_tuples<'a>(header: &PageHeader, page: &'a [u8]) -> impl Iterator<Item = PageTuple<'a>> + use<'a> {
    line_pointers(header, page).enumerate().filter_map(move |(index, pointer)| {
        let offset = usize::from(pointer.offset());
        let end = offset.saturating_add(usize::from(pointer.length()));
        let bytes = page.get(offset..end).filter(|_| pointer.state() == LinePointerState::Normal)?;
        Some(PageTuple { item: index.saturating_add(1), offset, bytes })
    })
}

/// The first broken rule among the tuples of a heap page, with the item number; `None` when they are sound. A torn page
/// whose line pointers are new and whose tuples are old shows here.
pub fn first_tuple_fault(header: &PageHeader, page: &[u8]) -> Option<(usize, TupleFault)> {
    let mut extents: Vec<(usize, usize, usize)> = Vec::new();
    for tuple in page_tuples(header, page) {
        let length = tuple.bytes.len();
        let Ok(decoded) = TupleHeader::decode(0, tuple.bytes) else {
            return Some((tuple.item, TupleFault::Short { length }));
        };
        if let Some(fault) = decoded.faults(length).first() {
            return Some((tuple.item, *fault));
        }
        extents.push((tuple.offset, tuple.offset.saturating_add(length), tuple.item));
    }
    extents.sort_unstable();
    extents.windows(2).find_map(|pair| match pair {
        [(_, end, other), (start, _, item)] if start < end => Some((*item, TupleFault::Overlap { other: *other })),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROW: TupleHeader = TupleHeader {
        xmin: 700,
        xmax: 0,
        command_id: 0,
        ctid_block: 0,
        ctid_item: 1,
        infomask2: 33,
        infomask: 0,
        data_offset: 32,
    };

    fn liveness(xmin: u32, xmax: u32, infomask: u16) -> Liveness {
        TupleHeader { xmin, xmax, infomask, ..ROW }.liveness(|xid| match xid {
            700..800 => XactStatus::Committed,
            800..900 => XactStatus::Aborted,
            900..1000 => XactStatus::InProgress,
            _ => XactStatus::Unknown,
        })
    }

    #[test]
    fn fields_stand_where_the_server_puts_them() {
        let mut bytes: Vec<u8> = (1..=32).collect();
        bytes[20..22].copy_from_slice(&0x0009_u16.to_le_bytes());
        bytes[22] = 32;
        let header = TupleHeader::decode(0, &bytes).unwrap();
        assert_eq!((header.xmin, header.xmax, header.command_id), (0x0403_0201, 0x0807_0605, 0x0C0B_0A09));
        assert_eq!((header.ctid_block, header.ctid_item, header.infomask2), (0x0E0D_100F, 0x1211, 0x1413));
        assert_eq!(header.row_oid(&bytes), Some(0x201F_1E1D));
        assert!(!header.is_null(&bytes, 3) && header.is_null(&bytes, 0), "byte 23 is 24: bits 3 and 4");
    }

    #[test]
    fn hints_decide_before_pg_xact_is_asked() {
        assert_eq!(liveness(850, 0, infomask::XMIN_COMMITTED), Liveness::Live);
        assert_eq!(liveness(750, 0, infomask::XMIN_INVALID), Liveness::Dead);
        assert_eq!(liveness(850, 0, infomask::XMIN_COMMITTED | infomask::XMIN_INVALID), Liveness::Live);
        assert_eq!(liveness(750, 850, infomask::XMAX_COMMITTED), Liveness::Dead);
        assert_eq!(liveness(750, 750, infomask::XMAX_INVALID), Liveness::Live);
    }

    #[test]
    fn pg_xact_decides_without_hints() {
        assert_eq!(liveness(750, 0, 0), Liveness::Live);
        assert_eq!(liveness(850, 0, 0), Liveness::Dead);
        assert_eq!(liveness(950, 0, 0), Liveness::InsertionOpen);
        assert_eq!(liveness(5000, 0, 0), Liveness::InsertionUnknown);
        assert_eq!(liveness(750, 751, 0), Liveness::Dead);
        assert_eq!(liveness(750, 850, 0), Liveness::Live);
        assert_eq!(liveness(750, 950, 0), Liveness::Live);
        assert_eq!(liveness(750, 5000, 0), Liveness::PerhapsDeleted);
        assert_eq!(liveness(950, 950, 0), Liveness::Dead);
    }

    #[test]
    fn locks_and_multixacts_do_not_delete() {
        assert_eq!(liveness(750, 751, infomask::XMAX_LOCK_ONLY), Liveness::Live);
        assert_eq!(liveness(750, 751, infomask::XMAX_EXCLUSIVE_LOCK), Liveness::Live);
        assert_eq!(
            liveness(750, 751, infomask::LOCK_MASK),
            Liveness::Dead,
            "share lock bits alone are not an old lock"
        );
        assert_eq!(liveness(750, 3, infomask::XMAX_IS_MULTI), Liveness::PerhapsDeleted);
        assert_eq!(liveness(750, 3, infomask::XMAX_IS_MULTI | infomask::XMAX_LOCK_ONLY), Liveness::Live);
    }

    #[test]
    fn broken_data_offset_is_a_fault() {
        assert_eq!(ROW.faults(32), []);
        assert_eq!(ROW.faults(31), [TupleFault::DataBeyondTuple { data_offset: 32, length: 31 }]);
        let header = TupleHeader { infomask: infomask::HAS_NULLS | infomask::HAS_OID, ..ROW };
        assert_eq!(header.min_data_offset(), 23 + 5 + 4);
        assert_eq!(TupleHeader { infomask2: 41, ..header }.faults(40).len(), 1, "41 attributes need 6 bytes of bitmap");
        assert_eq!(TupleHeader { data_offset: 33, ..ROW }.faults(40), [TupleFault::DataNotAligned { data_offset: 33 }]);
    }

    fn page_with(tuples: &[(u32, u32)]) -> (PageHeader, Vec<u8>) {
        let mut page = vec![0; 8192];
        let lower = 24 + u16::try_from(tuples.len()).unwrap() * 4;
        page[12..14].copy_from_slice(&lower.to_le_bytes());
        page[14..16].copy_from_slice(&8000_u16.to_le_bytes());
        page[16..18].copy_from_slice(&8192_u16.to_le_bytes());
        for (index, (offset, length)) in tuples.iter().enumerate() {
            let pointer = offset | 1 << 15 | length << 17;
            page[24 + index * 4..28 + index * 4].copy_from_slice(&pointer.to_le_bytes());
            if let Some(byte) = page.get_mut(*offset as usize + 22) {
                *byte = 24;
            }
        }
        (PageHeader::decode(0, &page).unwrap(), page)
    }

    #[test]
    fn overlapping_and_short_tuples_are_faults() {
        let fault = |tuples: &[(u32, u32)]| {
            let (header, page) = page_with(tuples);
            first_tuple_fault(&header, &page)
        };
        assert_eq!(fault(&[(8000, 64), (8064, 64)]), None);
        assert_eq!(fault(&[(8040, 64), (8000, 64)]), Some((1, TupleFault::Overlap { other: 2 })));
        assert_eq!(fault(&[(8000, 22)]), Some((1, TupleFault::Short { length: 22 })));
        assert_eq!(fault(&[(8190, 64)]), None, "a pointer beyond the page gives no tuple");
    }

    proptest! {
        #[test]
        fn any_page_never_panics(page in proptest::collection::vec(any::<u8>(), 24..2048)) {
            let header = PageHeader::decode(0, &page).unwrap();
            for tuple in page_tuples(&header, &page) {
                if let Ok(header) = TupleHeader::decode(0, tuple.bytes) {
                    let data = header.user_data(tuple.bytes);
                    prop_assert!(data.len() <= tuple.bytes.len());
                    prop_assert!(header.row_oid(tuple.bytes).is_none() || header.has(infomask::HAS_OID));
                }
            }
            prop_assert!(first_tuple_fault(&header, &page).is_none_or(|(item, _)| item <= page.len() / 4));
        }
    }
}
