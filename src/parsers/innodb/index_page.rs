//! Records of a page of an index.

use crate::parsers::decode::{be_u16_at, be_u32_at, be_u64_at};

/// Type of pages of an index.
const INDEX_PAGE: u16 = 17855;

/// Records that a page can have: each takes five bytes at least.
const MAX_RECORDS: usize = 65536 / 5;

/// Bytes before a record of the newer format: flags, number and kind, and the way to the next.
const COMPACT_EXTRA_BYTES: usize = 5;

/// The same of the older format.
const REDUNDANT_EXTRA_BYTES: usize = 6;

/// A record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    /// Offset of its first field in the page; flags and lengths are before it.
    pub origin: usize,
    /// It is marked as deleted.
    pub is_deleted: bool,
}

/// A page of an index.
///
/// | bytes  | field                | meaning                                                        |
/// |--------|----------------------|----------------------------------------------------------------|
/// | 42..44 | `PAGE_N_HEAP`        | records made so far; the highest bit says that the newer format is used |
/// | 54..56 | `PAGE_N_RECS`        | records that count                                             |
/// | 64..66 | `PAGE_LEVEL`         | 0 for a leaf                                                   |
/// | 66..74 | `PAGE_INDEX_ID`      | the index                                                      |
///
/// Source: `PAGE_HEADER` and the offsets after it, `storage/innobase/include/page0types.h`.
#[derive(Clone, Copy, Debug)]
pub struct IndexPage<'a> {
    page: &'a [u8],
    /// Records are of the newer format.
    pub is_compact: bool,
    /// 0 for a leaf.
    pub level: u16,
    /// The index.
    pub index_id: u64,
    /// The next page of the level; `None` for the last.
    pub next: Option<u32>,
}

impl<'a> IndexPage<'a> {
    /// Reads the header; `None` when the page is not one of an index.
    #[must_use]
    pub fn of(page: &'a [u8]) -> Option<Self> {
        if be_u16_at(page, 24)? != INDEX_PAGE {
            return None;
        }
        let next = be_u32_at(page, 12)?;
        Some(Self {
            page,
            is_compact: be_u16_at(page, 42)? & 0x8000 != 0,
            level: be_u16_at(page, 64)?,
            index_id: be_u64_at(page, 66)?,
            next: (next != u32::MAX).then_some(next),
        })
    }

    /// Its records in their order; `None` when the way from one to the next is broken.
    ///
    /// Source: `rec_get_next_offs`, `storage/innobase/include/rem0rec.ic`.
    #[must_use]
    pub fn records(&self) -> Option<Vec<IndexRecord>> {
        // The least and the greatest record of every page.
        let (first, last) = if self.is_compact { (99, 112) } else { (101, 116) };
        let mut records = Vec::new();
        let mut at: usize = first;
        loop {
            let way = usize::from(be_u16_at(self.page, at.checked_sub(2)?)?);
            at = if self.is_compact { at.checked_add(way)? & 0xFFFF } else { way };
            if at == last {
                let counted = usize::from(be_u16_at(self.page, 54)?);
                return (records.len() == counted).then_some(records);
            }
            if at < last || records.len() > MAX_RECORDS {
                return None;
            }
            let extra = if self.is_compact { COMPACT_EXTRA_BYTES } else { REDUNDANT_EXTRA_BYTES };
            let flags = *self.page.get(at.checked_sub(extra)?)?;
            records.push(IndexRecord { origin: at, is_deleted: flags & 0x20 != 0 });
        }
    }

    /// Bytes of the page from a record's first field on.
    #[must_use]
    pub fn data(&self, record: IndexRecord) -> &'a [u8] {
        self.page.get(record.origin..).unwrap_or_default()
    }

    /// A byte before the record: 0 is the one just before its flags.
    #[must_use]
    pub fn before(&self, record: IndexRecord, index: usize) -> Option<u8> {
        let extra = if self.is_compact { COMPACT_EXTRA_BYTES } else { REDUNDANT_EXTRA_BYTES };
        let at = record.origin.checked_sub(extra)?.checked_sub(index)?.checked_sub(1)?;
        self.page.get(at).copied()
    }

    /// The fields of a record of the older format, `None` for each that is null; nothing when they do not fit.
    ///
    /// Source: `rec_get_nth_field_offs_old`, `storage/innobase/include/rem0rec.ic`.
    #[must_use]
    pub fn redundant_fields(&self, record: IndexRecord) -> Option<Vec<Option<&'a [u8]>>> {
        let data = self.data(record);
        let bits = be_u16_at(self.page, record.origin.checked_sub(4)?)?;
        let count = usize::from(bits >> 1 & 0x3FF);
        let is_short = bits & 1 != 0;
        let mut start = 0;
        let mut fields = Vec::new();
        for index in 0..count {
            let (end, is_null) = if is_short {
                let byte = self.before(record, index)?;
                (usize::from(byte & 0x7F), byte & 0x80 != 0)
            } else {
                let at = index.checked_mul(2)?;
                let word = u16::from_be_bytes([self.before(record, at.checked_add(1)?)?, self.before(record, at)?]);
                (usize::from(word & 0x3FFF), word & 0x8000 != 0)
            };
            let field = data.get(start..end)?;
            fields.push((!is_null).then_some(field));
            start = end;
        }
        Some(fields)
    }
}
