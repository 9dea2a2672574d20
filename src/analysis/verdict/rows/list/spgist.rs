//! Leaf pages of SP-GiST. Their entries are never taken away: they turn into marks that later entries replace.

use super::super::Misfit;
use super::{Entry, ListItems};
use crate::analysis::verdict::change_log::{PageChange, u16_at};

/// Flag of a leaf page.
const LEAF: u16 = 0x04;

/// Bytes of the header of an entry: state and length, the next entry of its chain, the row.
const HEADER_BYTES: usize = 12;

/// What stands where an entry was, in the low 2 bits of the first word.
const REDIRECT: u8 = 1;
const DEAD: u8 = 2;
const PLACEHOLDER: u8 = 3;

/// True for the special space of a leaf page.
pub(super) fn is_leaf(special: &[u8]) -> bool {
    u16_at(special, 0).is_some_and(|flags| flags & LEAF != 0)
}

/// An entry as it stands on a page or in a record, without its link in the chain, which records change in place. Of a mark only
/// its kind is kept.
pub(super) fn entry(bytes: &[u8]) -> Entry {
    let state = bytes.first()? & 3;
    if state != 0 {
        return mark(state);
    }
    let mut entry: Box<[u8]> = bytes.into();
    entry.get_mut(4..6)?.copy_from_slice(&[0, bytes.get(5)? & 0xC0]);
    Some(entry)
}

fn mark(state: u8) -> Entry {
    Some(Box::new([state]))
}

/// Entries of a record, one after the other.
fn entries_of(mut data: &[u8], count: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for _ in 0..count {
        let word = data.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        let length = usize::try_from(word >> 2).ok().filter(|length| *length >= HEADER_BYTES)?;
        let (own, after) = data.split_at_checked(length)?;
        entries.push(entry(own));
        data = after;
    }
    Some(entries)
}

impl ListItems {
    /// Does what a record of SP-GiST does to a leaf page; `None` when that is not followed.
    ///
    /// Source: `src/backend/access/spgist/spgxlog.c`.
    pub(super) fn apply_spgist(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        match (change.info & 0xF0, change.block_id) {
            // ADD_LEAF: two flags, the item, the head of its chain, the tuple above, the entry.
            (0x10, 0) => {
                let (item, head) = (change.main_u16(2)?, change.main_u16(4)?);
                let entry = entries_of(change.main.get(10..)?, 1)?.pop()?;
                Some(if item == head { self.entry_mut(item).map(|old| *old = entry) } else { self.put(item, entry) })
            }
            (0x20, 0 | 1) => self.move_leafs(change),
            (0x60, 0) => self.vacuum_leaf(change),
            (0x80, 0) if change.major.facts().follows_spgist_redirects => self.vacuum_redirect(change),
            _ => None,
        }
    }

    /// Puts an entry after the last, or over a mark.
    fn put(&mut self, item: u16, entry: Entry) -> Result<(), Misfit> {
        if usize::from(item) == self.entries.len().saturating_add(1) {
            self.entries.push(entry);
            return Ok(());
        }
        let old = self.entry_mut(item)?;
        let is_free = old.is_none() || *old == mark(PLACEHOLDER);
        *old = entry;
        if is_free { Ok(()) } else { Err(Misfit::Taken { item: item.into() }) }
    }

    /// Entries turn into marks, the first of them into another than the rest.
    fn turn(&mut self, items: &[u16], first: u8, rest: u8) -> Result<(), Misfit> {
        for (index, item) in items.iter().enumerate() {
            *self.entry_mut(*item)? = mark(if index == 0 { first } else { rest });
        }
        Ok(())
    }

    /// MOVE_LEAFS: how many move, flags, the tuple above, how marks are made; their items on the old page and on the new one,
    /// and the entries.
    fn move_leafs(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let moves = usize::from(change.main_u16(0)?);
        let (replaces_dead, is_build) = (*change.main.get(3)? != 0, *change.main.get(16)? != 0);
        let inserted = if replaces_dead { 1 } else { moves + 1 };
        let mut items = items_at(change, 20, moves.saturating_add(inserted))?;
        let to = items.split_off(moves);
        if change.block_id == 0 {
            return Some(self.turn(&items, if is_build { PLACEHOLDER } else { REDIRECT }, PLACEHOLDER));
        }
        let entries = entries_of(
            change.main.get(moves.saturating_add(inserted).saturating_mul(2).saturating_add(20)..)?,
            inserted,
        )?;
        Some(to.into_iter().zip(entries).try_for_each(|(item, entry)| self.put(item, entry)))
    }

    /// VACUUM_LEAF: four numbers, how marks are made; items that turn into one mark or the other, that are exchanged, that get
    /// another link.
    fn vacuum_leaf(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let count = |at: usize| change.main_u16(at).map(usize::from);
        let (dead, placeholder, moved) = (count(0)?, count(2)?, count(4)?);
        let items = items_at(change, 16, dead.saturating_add(placeholder).saturating_add(moved.saturating_mul(2)))?;
        let (dead, items) = items.split_at(dead);
        let (placeholder, items) = items.split_at(placeholder);
        let (from, to) = items.split_at(moved);
        let mut done = self.turn(dead, DEAD, DEAD).and(self.turn(placeholder, PLACEHOLDER, PLACEHOLDER));
        for (from, to) in from.iter().zip(to) {
            let count = self.entries.len();
            let pair = (usize::from(*from).checked_sub(1)?, usize::from(*to).checked_sub(1)?);
            if pair.0.max(pair.1) >= count {
                return Some(Err(Misfit::Missing { item: pair.0.max(pair.1).saturating_add(1) }));
            }
            self.entries.swap(pair.0, pair.1);
        }
        done = done.and(self.turn(from, PLACEHOLDER, PLACEHOLDER));
        Some(done)
    }

    /// VACUUM_REDIRECT: how many marks turn into others, the first of those at the end that go, a transaction, a flag; items.
    fn vacuum_redirect(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        let (count, first) = (usize::from(change.main_u16(0)?), usize::from(change.main_u16(2)?));
        let done = self.turn(&items_at(change, 10, count)?, PLACEHOLDER, PLACEHOLDER);
        if first > 0 {
            self.entries.truncate(first.saturating_sub(1));
        }
        Some(done)
    }
}

fn items_at(change: &PageChange, at: usize, count: usize) -> Option<Vec<u16>> {
    (0..count).map(|index| change.main_u16(at.saturating_add(index.saturating_mul(2)))).collect()
}
