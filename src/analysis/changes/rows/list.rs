//! Entries of an index page, followed from record to record: access methods that keep them in a list without holes.

mod spgist;

use super::Misfit;
use crate::analysis::changes::change_log::{PageChange, u16_at};
use crate::parsers::page::{PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::parsers::wal::records::RecordKind as Kind;
use crate::parsers::wal::version::BtreeRecords;
use crate::types::ForkNumber;

/// Shortest entry that is looked for by its bytes.
const SHORTEST_ENTRY_BYTES: usize = 16;

/// Bytes of the header of an entry: the row it leads to, then a word whose low 13 bits are the length.
const ENTRY_HEADER_BYTES: usize = 8;

/// An entry: its bytes, or none when only its being there is known.
type Entry = Option<Box<[u8]>>;

/// The entries of a page, in item order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListItems {
    entries: Vec<Entry>,
    /// The first entry of a B-tree page is its high key.
    has_high_key: bool,
    /// There may be more entries, of which nothing is known. So only where entries keep their numbers.
    is_partial: bool,
}

enum Step<'a> {
    Nothing,
    Insert(u16, &'a [u8]),
    /// Something else.
    Other,
}

impl ListItems {
    /// The entries of a page; `None` when it keeps no such list.
    pub fn of(page: &[u8]) -> Option<Self> {
        let header = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty())?;
        let kind = PageKind::of(&header, page, ForkNumber::Main);
        let special = page.get(usize::from(header.special)..)?;
        let is_list = match kind {
            PageKind::Btree | PageKind::Hash | PageKind::Gist | PageKind::GinEntry => true,
            // Inner pages hold links that records change in place.
            PageKind::SpGist => spgist::is_leaf(special),
            _ => false,
        };
        if !is_list {
            return None;
        }
        let entries = line_pointers(&header, page).map(|pointer| {
            let at = usize::from(pointer.offset());
            let bytes =
                page.get(at..at.saturating_add(usize::from(pointer.length()))).filter(|bytes| !bytes.is_empty())?;
            if kind == PageKind::SpGist { spgist::entry(bytes) } else { Some(bytes.into()) }
        });
        // The link to the right sibling: 0 on the rightmost page, which has no high key.
        let has_high_key = kind == PageKind::Btree && special.get(4..8)? != [0; 4];
        Some(Self { entries: entries.collect(), has_high_key, is_partial: false })
    }

    /// Entries of a leaf page of SP-GiST as far as these records tell of them.
    pub(crate) fn told_by(changes: &[PageChange]) -> Self {
        let nothing = || Self { is_partial: true, ..Self::default() };
        changes.iter().fold(nothing(), |mut items, change| match items.apply(change) {
            Some(Ok(())) => items,
            _ => nothing(),
        })
    }

    /// True for a leaf page of SP-GiST.
    pub(crate) fn keep_their_numbers(page: &[u8]) -> bool {
        PageHeader::decode(0, page).is_ok_and(|header| {
            PageKind::of(&header, page, ForkNumber::Main) == PageKind::SpGist
                && page.get(usize::from(header.special)..).is_some_and(spgist::is_leaf)
        })
    }

    /// The entries of a page that a record recreates; `None` when that is not followed.
    pub(crate) fn built_by(change: &PageChange) -> Option<Self> {
        if let Some(image) = &change.image {
            return Self::of(image);
        }
        if !change.is_init {
            return None;
        }
        let mut list = Self::default();
        match (change.kind, change.block_id) {
            // The right half of a split, its last entry first; without a page to the right of it there is no high key.
            (Kind::BtreeSplitL | Kind::BtreeSplitR, 1) => {
                list.entries = entries_of(&change.data, 8)?;
                list.entries.reverse();
                let own_blocks = if change.main_u32(0)? == 0 { 2 } else { 3 };
                list.has_high_key = change.block_count > own_blocks;
            }
            // The number of entries stands before them.
            (Kind::GistPageSplit, _) => list.entries = entries_of(change.data.get(4..)?, 1)?,
            // A page of the list of entries that wait.
            (Kind::GinInsertListpage, 0) => list.entries = entries_of(&change.data, 1)?,
            _ => list.apply_spgist(change)?.ok()?,
        }
        Some(list)
    }

    /// Does what a record does; `None` when that is not followed.
    ///
    /// Sources: `btree_xlog_insert`, `btree_xlog_split`, `btree_xlog_vacuum`, `btree_xlog_delete`,
    /// `src/backend/access/nbtree/nbtxlog.c`; `hash_xlog_insert`, `src/backend/access/hash/hash_xlog.c`;
    /// `gistRedoPageUpdateRecord`, `src/backend/access/gist/gistxlog.c`; `ginRedoInsertEntry`,
    /// `src/backend/access/gin/ginxlog.c`.
    pub fn apply(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        if change.image.is_some() || change.is_init {
            *self = Self::built_by(change)?;
            return Some(Ok(()));
        }
        match step_of(change) {
            Step::Nothing => return Some(Ok(())),
            Step::Insert(item, entry) => return Some(self.insert(item, Some(entry.into()))),
            Step::Other => {}
        }
        match (change.kind, change.block_id) {
            (Kind::BtreeSplitL | Kind::BtreeSplitR, 0) => self.keep_left_half(change),
            // INSERT_POST: the list of rows before the new entry loses one and gains one.
            (Kind::BtreeInsertPost, 0) => {
                let item = change.main_u16(0)?;
                let before = self.forget(item.checked_sub(1)?);
                Some(before.and(self.insert(item, None)))
            }
            (Kind::BtreeDedup, 0) => self.merge(change),
            (Kind::BtreeDelete, 0) if change.major.facts().btree >= BtreeRecords::Since14 => {
                self.remove_some(change, change.main_u16(4)?, change.main_u16(6)?)
            }
            (Kind::BtreeVacuum, 0) if change.major.facts().btree >= BtreeRecords::V13 => {
                self.remove_some(change, change.main_u16(0)?, change.main_u16(2)?)
            }
            (Kind::GinInsert, 0) if change.main_u16(0)? & 0x01 == 0 => self.insert_gin(change),
            // The flag of an incomplete split below; entries that wait, added to their last page.
            (Kind::GinInsert, 1) => Some(Ok(())),
            (Kind::GinUpdateMetaPage, 1) => {
                self.entries.extend(entries_of(&change.data, 1)?);
                Some(Ok(()))
            }
            (Kind::GistPageUpdate, 0) => self.update_gist(change),
            (Kind::GistPageUpdate, 1) => Some(Ok(())),
            _ => self.apply_spgist(change),
        }
    }

    fn insert(&mut self, item: u16, entry: Entry) -> Result<(), Misfit> {
        let item = usize::from(item);
        let index = item.checked_sub(1).filter(|index| *index <= self.entries.len());
        let index = index.ok_or(Misfit::Missing { item: item.saturating_sub(1) })?;
        self.entries.insert(index, entry);
        Ok(())
    }

    fn entry_mut(&mut self, item: u16) -> Result<&mut Entry, Misfit> {
        if self.is_partial && self.entries.len() < usize::from(item) {
            self.entries.resize(item.into(), None);
        }
        let entry = usize::from(item).checked_sub(1).and_then(|index| self.entries.get_mut(index));
        entry.ok_or(Misfit::Missing { item: item.into() })
    }

    /// Only that there is an entry stays known.
    fn forget(&mut self, item: u16) -> Result<(), Misfit> {
        *self.entry_mut(item)? = None;
        Ok(())
    }

    /// Takes entries away, all numbered as they stand before.
    fn remove(&mut self, mut items: Vec<u16>) -> Result<(), Misfit> {
        items.sort_unstable();
        for item in items.into_iter().rev() {
            self.entry_mut(item)?;
            self.entries.remove(usize::from(item).saturating_sub(1));
        }
        Ok(())
    }

    /// DELETE and VACUUM of a B-tree: the entries that go, those that lose some of their rows, and which.
    fn remove_some(&mut self, change: &PageChange, deleted: u16, updated: u16) -> Option<Result<(), Misfit>> {
        let (deleted, updated) = (usize::from(deleted), usize::from(updated));
        let mut done = Ok(());
        for index in deleted..deleted.saturating_add(updated) {
            done = done.and(self.forget(change.data_u16(index.saturating_mul(2))?));
        }
        let items = (0..deleted).map(|index| change.data_u16(index.saturating_mul(2))).collect::<Option<_>>()?;
        Some(done.and(self.remove(items)))
    }

    /// DEDUP: runs of entries become one each: the first entry of a run, how many.
    fn merge(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let count = usize::from(change.main_u16(0)?);
        // All runs are numbered as the entries stand before.
        for index in (0..count).rev() {
            let first = usize::from(change.data_u16(index.saturating_mul(4))?);
            let length = usize::from(change.data_u16(index.saturating_mul(4).saturating_add(2))?);
            let run = first.checked_sub(1).map(|start| start..start.saturating_add(length));
            let Some(run) = run.filter(|run| run.end <= self.entries.len()) else {
                return Some(Err(Misfit::Missing { item: first.saturating_add(length) }));
            };
            self.entries.splice(run, [None]);
        }
        Some(Ok(()))
    }

    /// SPLIT: level, first item that goes to the right, item of the new entry, index in a list of rows; the new entry if it
    /// stays on the left, then the high key.
    fn keep_left_half(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let (first_right, new_item) = (change.main_u16(4)?, change.main_u16(6)?);
        if change.major.facts().btree < BtreeRecords::V13 || change.main_u16(8)? != 0 {
            return None;
        }
        let mut data = entries_of(&change.data, 8)?.into_iter();
        let new = if change.kind == Kind::BtreeSplitL { Some(data.next()?) } else { None };
        let high_key = data.next()?;
        let first_data = usize::from(self.has_high_key);
        let right = usize::from(first_right).checked_sub(1)?;
        let Some(left) = self.entries.get(first_data..right) else {
            return Some(Err(Misfit::Missing { item: right }));
        };
        let mut left = Self { entries: left.to_vec(), has_high_key: true, is_partial: false };
        if let Some(new) = new
            && let Err(misfit) = left.insert(new_item.checked_sub(u16::from(self.has_high_key))?, new)
        {
            return Some(Err(misfit));
        }
        left.entries.insert(0, high_key);
        *self = left;
        Some(Ok(()))
    }

    /// INSERT of GIN into a page of keys: the item, whether an entry stands there that goes, then the new one. On an inner page
    /// the entry that was there leads to the right half of a split from now on.
    fn insert_gin(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let (item, replaces) = (change.data_u16(0)?, *change.data.get(2)? != 0);
        let entry = entries_of(change.data.get(4..)?, 1)?.into_iter().next()?;
        let mut done = Ok(());
        if change.main_u16(0)? & 0x02 == 0 {
            done = done.and(self.forget(item));
        }
        if replaces {
            done = done.and(self.remove(vec![item]));
        }
        Some(done.and(self.insert(item, entry)))
    }

    /// PAGE_UPDATE of GiST: how many go, how many come; their items, then the new ones.
    fn update_gist(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let (deleted, inserted) = (usize::from(change.main_u16(0)?), change.main_u16(2)?);
        let items = (0..deleted).map(|index| change.data_u16(index.saturating_mul(2))).collect::<Option<Vec<u16>>>()?;
        let mut new = entries_of(change.data.get(deleted.saturating_mul(2)..)?, 1)?;
        if (deleted, inserted) == (1, 1) {
            let old = self.entry_mut(*items.first()?);
            return Some(old.map(|old| *old = new.pop().flatten()));
        }
        let done = self.remove(items);
        self.entries.append(&mut new);
        Some(done)
    }

    pub fn difference(&self, other: &Self) -> Option<usize> {
        let differs = |(one, other): (&Entry, &Entry)| one.is_some() && other.is_some() && one != other;
        let at = self.entries.iter().zip(&other.entries).position(differs);
        let (longer, shorter) = if self.entries.len() > other.entries.len() { (self, other) } else { (other, self) };
        let count = shorter.entries.len();
        let more = longer.entries.get(count..).unwrap_or_default();
        let more = match (longer.is_partial, shorter.is_partial) {
            (_, true) => None,
            (true, false) => more.iter().position(Option::is_some).map(|index| index.saturating_add(count)),
            (false, false) => (!more.is_empty()).then_some(count),
        };
        at.or(more).map(|index| index.saturating_add(1))
    }

    fn holds(&self, entry: &[u8]) -> Option<usize> {
        self.entries.iter().position(|own| own.as_deref() == Some(entry)).map(|index| index.saturating_add(1))
    }
}

/// Entries one after the other, each of a multiple of `align` bytes.
fn entries_of(mut data: &[u8], align: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let length = usize::from(u16_at(data, 6)? & 0x1FFF);
        if length < ENTRY_HEADER_BYTES {
            return None;
        }
        let (entry, after) = data.split_at_checked(length.next_multiple_of(align))?;
        entries.push(Some(entry.into()));
        data = after;
    }
    Some(entries)
}

/// Step of a record, if it inserts one entry or nothing.
fn step_of(change: &PageChange) -> Step<'_> {
    match (change.kind, change.block_id) {
        (Kind::BtreeInsertLeaf | Kind::BtreeInsertUpper | Kind::BtreeInsertMeta | Kind::HashInsert, 0)
            if !change.data.is_empty() =>
        {
            change.main_u16(0).map_or(Step::Other, |item| Step::Insert(item, &change.data))
        }
        // A flag of the page below, the link back of the right sibling.
        (Kind::BtreeInsertUpper | Kind::BtreeInsertMeta, 1) | (Kind::BtreeSplitL | Kind::BtreeSplitR, 2 | 3) => {
            Step::Nothing
        }
        _ => Step::Other,
    }
}

/// True for a record that takes no entry away.
fn adds_only(change: &PageChange) -> bool {
    match change.kind {
        Kind::BtreeInsertLeaf | Kind::BtreeInsertUpper | Kind::BtreeInsertMeta => true,
        Kind::HashInsert => change.block_id == 0,
        kind => kind.is_hint(),
    }
}

/// Entries that the last records up to the page's LSN inserted and that are missing. `before` is sorted by LSN.
pub(crate) fn lost_entry<'a>(items: &ListItems, before: &'a [PageChange]) -> Option<&'a PageChange> {
    for change in before.iter().rev() {
        match step_of(change) {
            // With an image of the page the entry itself is left out of the record; the others are still there.
            _ if change.image.is_some() && adds_only(change) => {}
            _ if change.image.is_some() || change.is_init => return None,
            Step::Nothing => {}
            Step::Insert(_, entry) if items.holds(entry).is_none() => return Some(change),
            Step::Insert(..) => {}
            Step::Other => return None,
        }
    }
    None
}

/// An entry that stands on the page although only a later record puts it there. Only records before the first that takes
/// something away are asked: an entry can come back.
pub(crate) fn early_entry<'a>(items: &ListItems, after: &'a [PageChange]) -> Option<(&'a PageChange, usize)> {
    for change in after {
        match step_of(change) {
            _ if change.image.is_some() || change.is_init => return None,
            Step::Nothing => {}
            Step::Insert(_, entry) => {
                if let Some(item) = items.holds(entry).filter(|_| entry.len() >= SHORTEST_ENTRY_BYTES) {
                    return Some((change, item));
                }
            }
            Step::Other => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::names::RM_BTREE;
    use crate::parsers::wal::version::Major;
    use crate::types::Lsn;

    const ENTRY: &[u8] = &[0, 0, 1, 0, 1, 0, 16, 0, 7, 0, 0, 0, 0, 0, 0, 0];

    fn change(kind: Kind, image: bool) -> PageChange {
        PageChange {
            start_lsn: Lsn(0x100_0000),
            end_lsn: Lsn(0x100_0040),
            xid: 700,
            major: Major::V15,
            kind,
            block_id: 0,
            is_alone: true,
            block_count: 1,
            is_init: false,
            image: image.then(Box::default),
            data: if image { Box::default() } else { ENTRY.into() },
            main: [1, 0].into(),
        }
    }

    /// `XLOG_BTREE_SPLIT_R_HIGHKEY` of 11, `src/include/access/nbtxlog.h`, has the number of `XLOG_BTREE_DEDUP` of 13: it said
    /// that entries were missing in a whole page, which a campaign of crashes found.
    #[test]
    fn splits_of_old_majors_are_not_taken_for_what_has_their_number_later() {
        for (major, is_followed) in
            [(Major::V10, false), (Major::V11, false), (Major::V12, false), (Major::V13, true), (Major::V18, true)]
        {
            for info in [0x50, 0x60] {
                let kind = Kind::of(major, RM_BTREE, info);
                let record = PageChange { major, main: [1, 0, 38, 0, 51, 0].into(), ..change(kind, false) };
                let done = ListItems::default().apply(&record);
                assert_eq!(done.is_some(), is_followed, "{major:?} {info:#x}: {done:?}");
            }
        }
    }

    #[test]
    fn entry_is_lost_only_if_no_record_after_it_takes_entries_away() {
        const INSERT: Kind = Kind::BtreeInsertLeaf;
        const DEDUP: Kind = Kind::BtreeDedup;
        let none = ListItems::default();
        for (later, image, is_lost) in
            [(INSERT, false, true), (INSERT, true, true), (DEDUP, false, false), (DEDUP, true, false)]
        {
            let records = [change(INSERT, false), change(later, image)];
            assert_eq!(lost_entry(&none, &records).is_some(), is_lost, "{later:?} {image}");
        }
        let there = ListItems { entries: vec![Some(ENTRY.into())], ..ListItems::default() };
        assert!(lost_entry(&there, &[change(INSERT, false)]).is_none());
    }
}
