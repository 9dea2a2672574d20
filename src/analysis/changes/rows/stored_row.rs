//! Content of a row of a heap page, as a page or a record has it.

use std::borrow::Cow;
use std::ops::Range;

use crate::parsers::decode::u16_at;
use crate::parsers::heap::TupleHeader;

/// Bytes of `xl_heap_header` and what it stands for: number of attributes, flags, offset of the data.
pub(crate) const WAL_TUPLE_HEADER_BYTES: usize = 5;

/// Parts of a row that only an update changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    /// Number of attributes, and the flags that say how they are stored.
    attributes: u16,
    flags: u16,
    /// `t_hoff`.
    data_offset: u8,
    /// Everything after the header.
    bytes: Cow<'a, [u8]>,
    /// Bytes that WAL does not hold: an update repeats only what it changes.
    unknown: Vec<Range<usize>>,
}

impl<'a> Stored<'a> {
    /// Flags for nulls, variable width, values out of line, OID.
    pub(crate) fn of(infomask2: u16, infomask: u16, data_offset: u8, bytes: Cow<'a, [u8]>) -> Self {
        Self { attributes: infomask2 & 0x07FF, flags: infomask & 0x000F, data_offset, bytes, unknown: Vec::new() }
    }

    /// A row as WAL has it: `xl_heap_header`, the null bitmap, then the data.
    pub(crate) fn of_record(data: &'a [u8]) -> Option<Self> {
        let after = data.get(WAL_TUPLE_HEADER_BYTES..)?;
        let stored = Self::of(u16_at(data, 0)?, u16_at(data, 2)?, *data.get(4)?, Cow::Borrowed(after));
        let is_whole = usize::from(stored.data_offset) >= TupleHeader::SIZE && stored.data_at() <= after.len();
        is_whole.then_some(stored)
    }

    /// The row of an update, whose data lack as many bytes at the start and at the end as it shares with the row before.
    pub(crate) fn of_update(
        data: &'a [u8],
        (prefix, suffix): (usize, usize),
        old: Option<&Stored<'_>>,
    ) -> Option<Self> {
        let stored = Self::of_record(data)?;
        if prefix == 0 && suffix == 0 {
            return Some(stored);
        }
        let (bitmap, own) = stored.bytes.split_at_checked(stored.data_at())?;
        let old = old.filter(|old| prefix.max(suffix) <= old.data().len());
        let mut bytes = Vec::with_capacity(stored.bytes.len().saturating_add(prefix).saturating_add(suffix));
        let mut unknown = Vec::new();
        bytes.extend_from_slice(bitmap);
        share(old, 0..prefix, &mut bytes, &mut unknown);
        bytes.extend_from_slice(own);
        let end = old.map_or(suffix, |old| old.data().len());
        share(old, end.saturating_sub(suffix)..end, &mut bytes, &mut unknown);
        Some(Self { bytes: Cow::Owned(bytes), unknown, ..stored })
    }

    /// Where the data begin, after the null bitmap.
    fn data_at(&self) -> usize {
        usize::from(self.data_offset).saturating_sub(TupleHeader::SIZE)
    }

    fn data(&self) -> &[u8] {
        self.bytes.get(self.data_at()..).unwrap_or_default()
    }

    /// True when all data are known, and are these.
    pub(crate) fn has_data(&self, data: &[u8]) -> bool {
        self.data() == data && self.unknown.iter().all(|range| range.end <= self.data_at())
    }

    /// True when the data may be these.
    pub(crate) fn may_have_data(&self, data: &[u8]) -> bool {
        are_same(self.data(), data, self.unknown.iter().map(|range| below(range, self.data_at())))
    }

    /// The row with other data; `None` when it is too short to have any.
    pub(crate) fn with_data(self, data: &[u8]) -> Option<Self> {
        let at = self.data_at();
        let bytes = [self.bytes.get(..at)?, data].concat();
        let unknown = self.unknown.into_iter().filter(|range| range.end <= at).collect();
        Some(Self { bytes: Cow::Owned(bytes), unknown, ..self })
    }

    pub(crate) fn may_be(&self, other: &Stored<'_>) -> bool {
        let head = |of: &Stored<'_>| (of.attributes, of.flags, of.data_offset);
        head(self) == head(other)
            && are_same(&self.bytes, &other.bytes, self.unknown.iter().chain(&other.unknown).cloned())
    }
}

/// The part of a range from `at` on, counted from there.
fn below(range: &Range<usize>, at: usize) -> Range<usize> {
    range.start.saturating_sub(at)..range.end.saturating_sub(at)
}

/// Adds a part of the data of the row before, unknown where it is.
fn share(old: Option<&Stored<'_>>, part: Range<usize>, bytes: &mut Vec<u8>, unknown: &mut Vec<Range<usize>>) {
    let at = bytes.len();
    let end = at.saturating_add(part.len());
    let Some(old) = old else {
        bytes.resize(end, 0);
        unknown.extend((!part.is_empty()).then_some(at..end));
        return;
    };
    bytes.extend_from_slice(old.data().get(part.clone()).unwrap_or_default());
    let of_part = old.unknown.iter().map(|range| below(&below(range, old.data_at()), part.start));
    let moved = of_part.map(|range| range.start.saturating_add(at)..range.end.saturating_add(at).min(end));
    unknown.extend(moved.filter(|range| !range.is_empty()));
}

/// True when two rows are of one length and the same but for bytes that are not known.
fn are_same(one: &[u8], other: &[u8], unknown: impl Iterator<Item = Range<usize>> + Clone) -> bool {
    let is_known = |at: usize| !unknown.clone().any(|range| range.contains(&at));
    one.len() == other.len()
        && (one == other || one.iter().zip(other).enumerate().all(|(at, (one, other))| one == other || !is_known(at)))
}
