//! What WAL did to one page: the records that change its rows, as recovery applies them.

use std::collections::BTreeMap;

use super::heap_redo::RowRecord;
use super::records::RecordKind;
use crate::parsers::crc::crc32c;
use crate::parsers::heap::{PageTuple, TupleHeader, page_tuples};
use crate::parsers::page::PageHeader;
use crate::types::Lsn;

/// The changes of one page since its last image, in order, and what its earlier states were.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageLog {
    changes: Vec<RowRecord>,
    /// Changes are missing.
    is_short: bool,
    /// They are missing because too many were kept: WAL has them.
    pub is_forgotten: bool,
    /// Ends of all its records, unless some are unknown.
    ends: Vec<Lsn>,
    lacks_ends: bool,
    /// Start of the record from which the changes are needed, or less.
    pub from_lsn: Lsn,
    /// End of the last one.
    pub last_end_lsn: Lsn,
    /// LSN and rows of the page before its first record, if that has an image.
    before: Option<(Lsn, RowSums)>,
    bytes: usize,
}

/// Transaction and a sum over the values of each row of a page, by item.
type RowSums = BTreeMap<u16, (u32, u32)>;

fn row_sums(page: &[u8]) -> RowSums {
    let header = PageHeader::decode(0, page).ok();
    let tuples = header.iter().flat_map(|header| page_tuples(header, page));
    let sum = |tuple: PageTuple<'_>| {
        let header = TupleHeader::decode(0, tuple.bytes).ok().filter(|header| header.xmin != 0)?;
        Some((u16::try_from(tuple.item).ok()?, (header.xmin, crc32c(header.user_data(tuple.bytes)))))
    };
    tuples.filter_map(sum).collect()
}

/// True when no item has another row in one than in the other.
fn same_rows(one: &RowSums, other: &RowSums) -> bool {
    one.iter().all(|(item, sum)| other.get(item).is_none_or(|other| other == sum))
}

impl PageLog {
    /// Adds the change of a record that starts there.
    pub fn push(&mut self, change: RowRecord, start_lsn: Lsn) {
        if change.starts_over || self.last_end_lsn == Lsn::INVALID {
            self.from_lsn = start_lsn;
        }
        if self.ends.is_empty()
            && !self.lacks_ends
            && let Some(image) = &change.image
            && let Ok(header) = PageHeader::decode(0, image)
        {
            // One kind overwrites values in place.
            let rows = if change.kind == RecordKind::HeapInplace { RowSums::new() } else { row_sums(image) };
            self.bytes = self.bytes.saturating_add(rows.len().saturating_mul(size_of::<(u16, u32, u32)>()));
            self.before = Some((header.lsn, rows));
        }
        self.ends.push(change.end_lsn);
        self.last_end_lsn = change.end_lsn;
        self.keep(change);
    }

    fn keep(&mut self, change: RowRecord) {
        if change.starts_over {
            let held: usize = self.changes.iter().map(RowRecord::bytes).sum();
            (self.changes, self.bytes) = (Vec::new(), self.bytes.saturating_sub(held));
            (self.is_short, self.is_forgotten) = (false, false);
        }
        if !self.is_short {
            self.bytes = self.bytes.saturating_add(change.bytes());
            self.changes.push(change);
        }
    }

    /// Adds those that follow.
    pub fn append(&mut self, next: Self) {
        if self.ends.is_empty() && !self.lacks_ends {
            *self = next;
            return;
        }
        self.lacks_ends |= next.lacks_ends;
        self.last_end_lsn = next.last_end_lsn;
        self.ends.extend(next.ends);
        if next.is_short {
            (self.changes, self.is_short, self.bytes) = (Vec::new(), true, 0);
            self.is_forgotten |= next.is_forgotten;
        } else {
            next.changes.into_iter().for_each(|change| self.keep(change));
        }
    }

    /// Bytes that it holds.
    pub const fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.ends.len().saturating_mul(size_of::<Lsn>()))
    }

    /// Drops the changes: one is unknown, or they need too much memory and are forgotten.
    pub fn shorten(&mut self, last_end_lsn: Lsn, is_forgotten: bool) {
        let from_lsn = self.from_lsn;
        *self = Self { is_short: true, is_forgotten, from_lsn, last_end_lsn, lacks_ends: true, ..Self::default() };
    }

    /// The page after all changes. `on_disk`: the page as it is there, if it is sound. `None`: the page on disk is all there is.
    pub fn page(&self, on_disk: Option<&[u8]>, block_size: usize) -> Option<Vec<u8>> {
        let (first, last) = self.changes.first().zip(self.changes.last()).filter(|_| !self.is_short)?;
        let on_disk = on_disk.and_then(|page| Some((PageHeader::decode(0, page).ok()?.lsn, page)));
        if on_disk.is_some_and(|(lsn, _)| lsn > last.end_lsn || lsn == last.end_lsn && !first.starts_over) {
            return None;
        }
        let (page, from) = match on_disk {
            _ if first.starts_over => (vec![0; block_size], Lsn(0)),
            Some((lsn, page)) => (page.to_vec(), lsn),
            None => return None,
        };
        self.applied(page, (from, last.end_lsn))
    }

    fn applied(&self, mut page: Vec<u8>, (from, to): (Lsn, Lsn)) -> Option<Vec<u8>> {
        let size = page.len();
        let mut wanted = self.changes.iter().filter(|change| change.end_lsn > from && change.end_lsn <= to);
        wanted.try_for_each(|change| change.apply(&mut page))?;
        (page.len() == size).then_some(page)
    }

    /// Whether one of its records ends at this LSN; `None` where that is unknown.
    pub fn has_end(&self, lsn: Lsn) -> Option<bool> {
        (!self.lacks_ends).then(|| self.ends.binary_search(&lsn).is_ok())
    }

    /// Whether the page on disk is one of the states that WAL gives it: its LSN is the end of a record of it, or what it was before the
    /// first, and its rows are those. `None` where nothing can be compared.
    pub fn agrees(&self, on_disk: &[u8], wal_end: Lsn) -> Option<bool> {
        let lsn = PageHeader::decode(0, on_disk).ok()?.lsn;
        let first = *self.ends.first().filter(|_| !self.lacks_ends && lsn.0 > 0 && lsn <= wal_end)?;
        if lsn < first {
            let (before, rows) = self.before.as_ref()?;
            return Some(*before == lsn && same_rows(rows, &row_sums(on_disk)));
        }
        let start = self.changes.first().filter(|start| start.starts_over && start.end_lsn <= lsn);
        let built = start.and_then(|_| self.applied(vec![0; on_disk.len()], (Lsn(0), lsn)));
        let has_rows = built.is_none_or(|built| same_rows(&row_sums(&built), &row_sums(on_disk)));
        Some(self.has_end(lsn)? && has_rows)
    }
}
