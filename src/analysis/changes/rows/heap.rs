//! Rows of a heap page, followed from record to record.

use std::borrow::Cow;

use super::Misfit;
use super::stored_row::{Stored, WAL_TUPLE_HEADER_BYTES};
use crate::analysis::changes::change_log::PageChange;
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::{LinePointerState, PageHeader, line_pointers};
use crate::parsers::wal::prune::PruneLists;
use crate::parsers::wal::records::RecordKind;
use crate::types::FIRST_NORMAL_XID;

/// Bits of a record that say how it means the transaction which it puts on a row, `src/include/access/heapam_xlog.h`.
const XMAX_IS_MULTI: u8 = 0x01;
const XMAX_LOCK_ONLY: u8 = 0x02;

/// Known facts of a row. Hint bits, command numbers and links to other versions are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row<'a> {
    xmin: Option<u32>,
    xmax: Option<u32>,
    /// `xmax` deleted or replaced it, and did not only lock it.
    is_ended: bool,
    stored: Option<Stored<'a>>,
    /// The data alone, as an update in place left them.
    in_place: Option<&'a [u8]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Item<'a> {
    #[default]
    Unknown,
    Unused,
    Dead,
    Redirect(u16),
    Row(Row<'a>),
}

/// Known facts of the items of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeapItems<'a> {
    items: Vec<Item<'a>>,
    /// All items after the list are known to be unused.
    is_closed: bool,
    is_broken: bool,
}

impl<'a> HeapItems<'a> {
    pub fn unknown() -> Self {
        Self::default()
    }

    /// The items of a page; `None` when its header makes no sense.
    pub fn of(page: &'a [u8]) -> Option<Self> {
        Self::those_of(page, |_| true)
    }

    /// The items of a page of which something is known here.
    pub fn same_of<'b>(&self, page: &'b [u8]) -> Option<HeapItems<'b>> {
        let is_known = |item| u16::try_from(item).is_ok_and(|item| *self.get(item) != Item::Unknown);
        HeapItems::those_of(page, is_known)
    }

    fn those_of(page: &'a [u8], is_wanted: impl Fn(usize) -> bool) -> Option<Self> {
        let header = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty())?;
        let items = line_pointers(&header, page).enumerate().map(|(index, pointer)| {
            let at = usize::from(pointer.offset());
            match pointer.state() {
                _ if !is_wanted(index.saturating_add(1)) => Item::Unknown,
                LinePointerState::Unused => Item::Unused,
                LinePointerState::Dead => Item::Dead,
                LinePointerState::Redirect => Item::Redirect(pointer.offset()),
                LinePointerState::Normal => page
                    .get(at..at.saturating_add(usize::from(pointer.length())))
                    .map_or(Item::Unknown, |tuple| Item::Row(row_of(tuple))),
            }
        });
        Some(Self { items: items.collect(), is_closed: true, is_broken: false })
    }

    fn get(&self, item: u16) -> &Item<'a> {
        const UNUSED: &Item<'_> = &Item::Unused;
        const UNKNOWN: &Item<'_> = &Item::Unknown;
        let rest = if self.is_closed { UNUSED } else { UNKNOWN };
        usize::from(item).checked_sub(1).and_then(|index| self.items.get(index)).unwrap_or(rest)
    }

    fn get_mut(&mut self, item: u16) -> Option<&mut Item<'a>> {
        let index = usize::from(item).checked_sub(1)?;
        if self.items.len() <= index {
            self.items.resize(index.saturating_add(1), if self.is_closed { Item::Unused } else { Item::Unknown });
        }
        self.items.get_mut(index)
    }

    fn forget(&mut self) {
        *self = Self { is_broken: true, ..Self::unknown() };
    }

    fn insert(&mut self, item: u16, row: Row<'a>) -> Result<(), Misfit> {
        let is_free = matches!(self.get(item), Item::Unused | Item::Unknown);
        if let Some(old) = self.get_mut(item) {
            *old = Item::Row(row);
        }
        if is_free { Ok(()) } else { Err(Misfit::Taken { item: item.into() }) }
    }

    fn change(&mut self, item: u16, change: impl FnOnce(&mut Row<'a>)) -> Result<(), Misfit> {
        let missing = Err(Misfit::Missing { item: item.into() });
        let Some(old) = self.get_mut(item) else { return missing };
        if *old == Item::Unknown {
            *old = Item::Row(Row::default());
        }
        let Item::Row(row) = old else { return missing };
        change(row);
        Ok(())
    }

    /// Puts a line pointer into another state; `needs` says whether its old one can be.
    fn turn(&mut self, item: u16, into: Item<'a>, needs: impl FnOnce(&Item<'_>) -> bool) -> Result<(), Misfit> {
        let missing = Err(Misfit::Missing { item: item.into() });
        let Some(old) = self.get_mut(item) else { return missing };
        let before = std::mem::replace(old, into);
        if before == Item::Unknown || needs(&before) { Ok(()) } else { missing }
    }

    /// Does what a record does.
    ///
    /// Sources: `src/backend/access/heap/heapam_xlog.c` (`heapam.c` before 18), `src/include/access/heapam_xlog.h`.
    ///
    /// # Errors
    /// When the items are not what the record needs.
    pub fn apply(&mut self, change: &'a PageChange) -> Result<(), Misfit> {
        if let Some(image) = &change.image {
            *self = Self::of(image).unwrap_or_default();
            return Ok(());
        }
        if change.is_init {
            *self = Self { items: Vec::new(), is_closed: true, is_broken: false };
        }
        // A record too short for what it says leaves nothing known.
        self.apply_known(change).unwrap_or_else(|| {
            self.forget();
            Ok(())
        })
    }

    fn apply_known(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        let xid = change.xid;
        Some(match change.kind {
            // INSERT: the item, then flags.
            RecordKind::HeapInsert => {
                let stored = Some(Stored::of_record(&change.data)?);
                self.insert(change.main_u16(0)?, Row { xmin: Some(xid), xmax: Some(0), stored, ..Row::default() })
            }
            // DELETE: transaction, item, bits, flags; the last for a row that was never visible.
            RecordKind::HeapDelete => {
                let item = change.main_u16(4)?;
                match *change.main.get(7)? & 0x08 {
                    0 => return self.end(change, true),
                    _ => self.change(item, |row| row.xmin = None),
                }
            }
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => return self.update(change),
            // TRUNCATE names no page. CONFIRM: the row's link to itself.
            RecordKind::HeapHeapConfirm => self.change(change.main_u16(0)?, |_| ()),
            // LOCK; LOCK_UPDATED: transaction, item.
            RecordKind::HeapLock => return self.end(change, false),
            RecordKind::Heap2LockUpdated => {
                let (xmax, item) = (change.main_u32(0)?, change.main_u16(4)?);
                self.change(item, |row| (row.xmax, row.is_ended) = (Some(xmax), false))
            }
            RecordKind::HeapInplace => return self.update_in_place(change),
            // VISIBLE: a flag of the page.
            RecordKind::Heap2Visible => Ok(()),
            RecordKind::Heap2MultiInsert => return self.multi_insert(change),
            _ => return self.prune(change),
        })
    }

    /// Effect of DELETE, UPDATE and locks on a row: transaction, item, how it is meant.
    ///
    /// A transaction that ended a row does not do so again, and does not lock it then: a row that shows it earlier comes from
    /// a later page.
    fn end(&mut self, change: &'a PageChange, ends: bool) -> Option<Result<(), Misfit>> {
        let (xmax, item, bits) = (change.main_u32(0)?, change.main_u16(4)?, *change.main.get(6)?);
        let is_early = bits & XMAX_IS_MULTI == 0
            && matches!(self.get(item), Item::Row(row) if row.is_ended && row.xmax == Some(xmax));
        let done = self.change(item, |row| {
            row.xmax = Some(xmax);
            row.is_ended = ends && bits & (XMAX_IS_MULTI | XMAX_LOCK_ONLY) == 0;
        });
        Some(if is_early { Err(Misfit::Taken { item: item.into() }) } else { done })
    }

    /// INPLACE: the item; then all data of its row.
    fn update_in_place(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        let item = change.main_u16(0)?;
        let data: &'a [u8] = &change.data;
        let is_early = change.major.facts().updates_in_place_change
            && matches!(self.get(item), Item::Row(Row { stored: Some(stored), .. }) if stored.has_data(data));
        let done = self.change(item, |row| {
            row.stored = row.stored.take().and_then(|stored| stored.with_data(data));
            row.in_place = Some(data);
        });
        Some(if is_early { Err(Misfit::Taken { item: item.into() }) } else { done })
    }

    /// UPDATE and HOT_UPDATE: transaction and item of the old row, bits, flags, transaction and item of the new one.
    fn update(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        let (old_item, flags) = (change.main_u16(4)?, *change.main.get(7)?);
        let (new_xmax, new_item) = (change.main_u32(8)?, change.main_u16(12)?);
        if change.block_id == 1 {
            return self.end(change, true);
        }
        let mut at = 0_usize;
        let mut length = |flag: u8| -> Option<usize> {
            if flags & flag == 0 {
                return Some(0);
            }
            at = at.saturating_add(2);
            change.data_u16(at.saturating_sub(2)).map(usize::from)
        };
        let (prefix, suffix) = (length(0x20)?, length(0x40)?);
        let data = change.data.get(at..)?;
        let old = match self.get(old_item) {
            Item::Row(row) if change.is_alone => row.stored.as_ref(),
            _ => None,
        };
        let stored = Some(Stored::of_update(data, (prefix, suffix), old)?);
        let closed = if change.is_alone { self.end(change, true)? } else { Ok(()) };
        let inserted =
            self.insert(new_item, Row { xmin: Some(change.xid), xmax: Some(new_xmax), stored, ..Row::default() });
        Some(closed.and(inserted))
    }

    /// MULTI_INSERT: flags, the count, the items unless the page is new; for each row the length of its data, then the rest.
    fn multi_insert(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        let count = change.main_u16(2)?;
        let (mut at, mut done) = (0_usize, Ok(()));
        for index in 0..count {
            at = at.next_multiple_of(2);
            let length = usize::from(change.data_u16(at)?);
            let end = at.saturating_add(2).saturating_add(WAL_TUPLE_HEADER_BYTES).saturating_add(length);
            let stored = Some(Stored::of_record(change.data.get(at.saturating_add(2)..end)?)?);
            at = end;
            let item = if change.is_init {
                index.saturating_add(1)
            } else {
                change.main_u16(usize::from(index).saturating_mul(2).saturating_add(4))?
            };
            let row = Row { xmin: Some(change.xid), xmax: Some(0), stored, ..Row::default() };
            done = done.and(self.insert(item, row));
        }
        Some(done)
    }

    /// PRUNE and its kin: the fate of items; `None` for all other records.
    fn prune(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        let lists = PruneLists::of(change.major, change.kind, &change.main, &change.data)?;
        let mut done = Ok(());
        let is_used = |item: &Item<'_>| *item != Item::Unused;
        for [item, target] in lists.redirected {
            done = done
                .and(self.turn(item, Item::Redirect(target), |item| matches!(item, Item::Row(_) | Item::Redirect(_))));
        }
        for item in lists.dead {
            done = done.and(self.turn(item, Item::Dead, is_used));
        }
        for item in lists.unused {
            done = done.and(self.turn(item, Item::Unused, is_used));
        }
        for item in lists.frozen {
            done = done.and(self.change(item, |row| (row.xmax, row.is_ended) = (None, false)));
        }
        Some(done)
    }

    /// True when a record was not followed: these items may know nothing of what it did.
    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// An item of `page` that names a transaction of which these items, made by all records since it began, know nothing there.
    /// `is_new` is true for such transactions.
    pub(crate) fn unexplained(&self, page: &[u8], is_new: &dyn Fn(u32) -> bool) -> Option<usize> {
        let header = PageHeader::decode(0, page).ok().filter(|_| !self.is_broken)?;
        page_tuples(&header, page).find_map(|tuple| {
            let found = TupleHeader::decode(0, tuple.bytes).ok()?;
            let known = match self.get(u16::try_from(tuple.item).ok()?) {
                Item::Row(row) => (row.xmin, row.xmax),
                _ => (None, None),
            };
            let is_strange = |xid: u32, known: Option<u32>| xid >= FIRST_NORMAL_XID && is_new(xid) && known.is_none();
            let is_multi = found.has(infomask::XMAX_IS_MULTI);
            (is_strange(found.xmin, known.0) || !is_multi && is_strange(found.xmax, known.1)).then_some(tuple.item)
        })
    }

    /// The first item of which something is known on both sides that differs.
    pub fn difference(&self, other: &HeapItems<'_>) -> Option<usize> {
        let count = self.items.len().max(other.items.len());
        (1..=u16::try_from(count).unwrap_or(u16::MAX))
            .find(|item| !agree(self.get(*item), other.get(*item)))
            .map(usize::from)
    }
}

fn agree(one: &Item<'_>, other: &Item<'_>) -> bool {
    let same = |one: Option<u32>, other: Option<u32>| one.is_none() || other.is_none() || one == other;
    match (one, other) {
        (Item::Unknown, _) | (_, Item::Unknown) => true,
        (Item::Row(one), Item::Row(other)) => {
            let has_data = |data: Option<&[u8]>, row: &Row<'_>| {
                data.zip(row.stored.as_ref()).is_none_or(|(data, stored)| stored.may_have_data(data))
            };
            same(one.xmin, other.xmin)
                && same(one.xmax, other.xmax)
                && one.stored.as_ref().zip(other.stored.as_ref()).is_none_or(|(one, other)| one.may_be(other))
                && has_data(one.in_place, other)
                && has_data(other.in_place, one)
        }
        _ => one == other,
    }
}

fn row_of(tuple: &[u8]) -> Row<'_> {
    let Ok(header) = TupleHeader::decode(0, tuple) else { return Row::default() };
    let bytes = tuple.get(TupleHeader::SIZE..).unwrap_or_default();
    let stored = Stored::of(header.infomask2, header.infomask, header.data_offset, Cow::Borrowed(bytes));
    let is_ended = header.xmax >= FIRST_NORMAL_XID && !header.is_only_locked() && !header.has(infomask::XMAX_IS_MULTI);
    Row { xmin: Some(header.xmin), xmax: Some(header.xmax), is_ended, stored: Some(stored), in_place: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::names::{RM_HEAP, RM_HEAP2};
    use crate::parsers::wal::version::Major;
    use crate::types::Lsn;

    fn record(rmgr_id: u8, info: u8, main: &[u8], data: &[u8]) -> PageChange {
        PageChange {
            start_lsn: Lsn(8),
            end_lsn: Lsn(16),
            xid: 700,
            major: Major::V19,
            kind: RecordKind::of(Major::V19, rmgr_id, info),
            block_id: 0,
            is_alone: true,
            block_count: 1,
            is_init: false,
            image: None,
            data: data.into(),
            main: main.into(),
        }
    }

    /// A row as WAL has it: two attributes, no nulls, data from byte 24 on.
    fn wal_row(data: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 24, 0], data].concat()
    }

    fn insert(item: u8, data: &[u8]) -> PageChange {
        record(RM_HEAP, 0x00, &[item, 0, 0], &wal_row(data))
    }

    /// Old transaction and item, bits, flags, new transaction and item.
    fn update(old: u8, new: u8, flags: u8, data: &[u8]) -> PageChange {
        record(RM_HEAP, 0x40, &[188, 2, 0, 0, old, 0, 0, flags, 0, 0, 0, 0, new, 0], data)
    }

    /// A page on which these rows stand, all of transaction 700.
    fn page(rows: &[(u32, &[u8])]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let mut upper = 8192;
        for (index, (xmax, data)) in rows.iter().enumerate() {
            let tuple =
                [&700_u32.to_le_bytes()[..], &xmax.to_le_bytes(), &[0; 10], &[2, 0, 0, 0, 24, 0], *data].concat();
            upper -= tuple.len().next_multiple_of(8);
            page[upper..upper + tuple.len()].copy_from_slice(&tuple);
            let pointer = u32::try_from(upper | 1 << 15 | tuple.len() << 17).unwrap();
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
        }
        for (at, value) in [(12, 24 + 4 * rows.len()), (14, upper), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
        }
        page
    }

    fn items_of(page: &[u8]) -> HeapItems<'static> {
        HeapItems::of(page.to_vec().leak()).unwrap()
    }

    fn apply(items: &mut HeapItems<'static>, change: &PageChange) -> Result<(), Misfit> {
        items.apply(Box::leak(Box::new(change.clone())))
    }

    fn made(changes: &[PageChange]) -> HeapItems<'static> {
        let mut items = HeapItems::unknown();
        for change in changes {
            apply(&mut items, change).unwrap();
        }
        items
    }

    #[test]
    fn row_has_the_bytes_that_its_record_put_there() {
        let items = made(&[insert(1, b"left"), insert(2, b"right")]);
        let of = |rows: &[(u32, &[u8])]| items.difference(&HeapItems::of(&page(rows)).unwrap());
        assert_eq!(of(&[(0, b"left"), (0, b"right")]), None);
        assert_eq!(of(&[(0, b"left"), (0, b"wrong")]), Some(2));
        assert_eq!(of(&[(0, b"left")]), Some(2));
        assert_eq!(of(&[(701, b"left"), (0, b"right")]), Some(1), "no one deleted it");
    }

    #[test]
    fn update_takes_what_it_does_not_hold_from_the_row_before() {
        // Two bytes of the front and one of the end are those of the old row.
        let shortened = [&[2, 0, 1, 0], &wal_row(b"-")[..]].concat();
        let known = made(&[insert(1, b"abcd"), update(1, 2, 0x60, &shortened)]);
        let unknown = made(&[update(1, 2, 0x60, &shortened)]);
        for (data, by_known, by_unknown) in
            [(b"ab-d", None, None), (b"xb-d", Some(2), None), (b"abxd", Some(2), Some(2))]
        {
            let rows = page(&[(700, b"abcd"), (0, data)]);
            let own = HeapItems::of(&rows).unwrap();
            assert_eq!((known.difference(&own), unknown.difference(&own)), (by_known, by_unknown), "{data:?}");
        }
    }

    #[test]
    fn record_needs_what_it_changes_and_room_for_what_it_adds() {
        let rows = items_of(&page(&[(0, b"left")]));
        assert_eq!(apply(&mut rows.clone(), &insert(1, b"more")), Err(Misfit::Taken { item: 1 }));
        assert_eq!(apply(&mut rows.clone(), &insert(2, b"more")), Ok(()));
        let delete = |item| record(RM_HEAP, 0x10, &[188, 2, 0, 0, item, 0, 0, 0], &[]);
        assert_eq!(apply(&mut rows.clone(), &delete(1)), Ok(()));
        assert_eq!(apply(&mut rows.clone(), &delete(2)), Err(Misfit::Missing { item: 2 }));
        // PRUNE with a list of dead items; in 17 and 18 a reason stands before the flags, to 16 only the dead are counted.
        for (major, main, data) in [
            (Major::V19, &[0x40, 0][..], &[1, 0, 1, 0][..]),
            (Major::V17, &[0, 0x40], &[1, 0, 1, 0]),
            (Major::V10, &[7, 0, 0, 0, 0, 0, 1, 0], &[1, 0]),
        ] {
            let kind = RecordKind::of(major, RM_HEAP2, 0x10);
            let prune = PageChange { major, kind, ..record(RM_HEAP2, 0x10, main, data) };
            let mut pruned = rows.clone();
            assert_eq!(apply(&mut pruned, &prune), Ok(()));
            assert_eq!(pruned.difference(&rows), Some(1));
        }
    }

    #[test]
    fn row_that_is_ended_before_its_record_is_of_a_later_page() {
        // By transaction 700: bits of the record, then flags.
        let delete = |bits: u8| record(RM_HEAP, 0x10, &[188, 2, 0, 0, 1, 0, bits, 0], &[]);
        let lock = record(RM_HEAP, 0x60, &[188, 2, 0, 0, 1, 0, XMAX_LOCK_ONLY, 0], &[]);
        let after = |page: &[u8], change: &PageChange| apply(&mut items_of(page), change);
        let ended = page(&[(700, b"left")]);
        for change in [&delete(0), &update(1, 2, 0, &wal_row(b"more")), &lock] {
            assert_eq!(after(&ended, change), Err(Misfit::Taken { item: 1 }));
        }
        assert_eq!(after(&page(&[(699, b"left")]), &delete(0)), Ok(()), "another transaction, which was undone");
        assert_eq!(after(&ended, &delete(XMAX_IS_MULTI)), Ok(()), "a multixact of that number");
        // A lock is taken again, and followed by an end.
        let mut locked = ended.clone();
        let infomask_at = 8192 - 32 + 20;
        locked[infomask_at] |= 0x80;
        assert_eq!(after(&locked, &lock), Ok(()));
        let mut items = items_of(&locked);
        assert_eq!((apply(&mut items, &lock), apply(&mut items, &delete(0))), (Ok(()), Ok(())));
    }

    #[test]
    fn update_in_place_changes_the_data_of_a_row() {
        let in_place = |major, data: &[u8]| PageChange { major, ..record(RM_HEAP, 0x70, &[1, 0], data) };
        let of = |data: &'static [u8]| items_of(&page(&[(0, data)]));
        for told in [made(&[in_place(Major::V15, b"new!")]), made(&[insert(1, b"left"), in_place(Major::V15, b"new!")])]
        {
            assert_eq!((told.difference(&of(b"new!")), told.difference(&of(b"left"))), (None, Some(1)));
        }
        assert_eq!(apply(&mut of(b"left"), &in_place(Major::V15, b"new!")), Ok(()));
        assert_eq!(apply(&mut of(b"new!"), &in_place(Major::V15, b"new!")), Err(Misfit::Taken { item: 1 }));
        assert_eq!(apply(&mut of(b"new!"), &in_place(Major::V13, b"new!")), Ok(()), "it may have been so before");
    }

    #[test]
    fn transaction_that_no_record_brought_is_a_contradiction() {
        let items = made(&[insert(1, b"left")]);
        let is_new = |xid: u32| xid >= 700;
        assert_eq!(items.unexplained(&page(&[(0, b"left")]), &is_new), None);
        assert_eq!(
            items.unexplained(&page(&[(701, b"left")]), &is_new),
            None,
            "WAL shows that no one deleted it: a difference"
        );
        assert_eq!(items.unexplained(&page(&[(0, b"left"), (0, b"more")]), &is_new), Some(2));
        assert_eq!(items.unexplained(&page(&[(0, b"left"), (0, b"more")]), &|xid| xid > 700), None);
    }

    #[test]
    fn record_that_is_not_followed_leaves_nothing_known() {
        let mut items = made(&[insert(1, b"left")]);
        // CLEANUP_INFO of 13, and an insert that is too short.
        for change in [
            PageChange { kind: RecordKind::Heap2CleanupInfo, ..record(RM_HEAP2, 0x30, &[], &[]) },
            record(RM_HEAP, 0x00, &[1], &[]),
        ] {
            apply(&mut items, &change).unwrap();
            assert_eq!(items.difference(&HeapItems::of(&page(&[])).unwrap()), None);
            assert_eq!(items.unexplained(&page(&[(0, b"x")]), &|_| true), None);
        }
    }
}
