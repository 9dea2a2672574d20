//! Leaf pages of SP-GiST. Their entries are never taken away: they turn into marks that later entries replace.

use super::super::Misfit;
use super::{Entry, ListItems};
use crate::analysis::changes::change_log::{PageChange, u16_at};
use crate::parsers::wal::records::RecordKind;

const LEAF: u16 = 0x04;

/// Bytes of the header of an entry: state and length, the next entry of its chain, the row.
const HEADER_BYTES: usize = 12;

/// Where an entry has its link, and the bits of it.
const LINK_AT: usize = 4;
const LINK: u16 = 0x3FFF;

/// Kind of mark where an entry was, in the low 2 bits of the first word.
const REDIRECT: u8 = 1;
const DEAD: u8 = 2;
const PLACEHOLDER: u8 = 3;

/// True for the special space of a leaf page.
pub(crate) fn is_leaf(special: &[u8]) -> bool {
    u16_at(special, 0).is_some_and(|flags| flags & LEAF != 0)
}

/// An entry as on a page or in a record. For a mark only its kind is kept.
pub(crate) fn entry(bytes: &[u8]) -> Entry {
    let state = bytes.first()? & 3;
    if state == 0 { Some(bytes.into()) } else { mark(state) }
}

/// The next entry of the chain that a live entry belongs to, 0 after the last; `None` for marks.
///
/// Source: `SpGistLeafTupleData`, `src/include/access/spgist_private.h`: the upper two bits are not part of it since 14, and
/// never set before.
fn next_of(entry: &[u8]) -> Option<u16> {
    if entry.len() < HEADER_BYTES { None } else { Some(u16_at(entry, LINK_AT)? & LINK) }
}

/// Links a live entry to another. Marks are skipped: a mark has no link, and where one is needed it belongs to another page.
fn link(entry: &mut [u8], next: u16) {
    if entry.len() < HEADER_BYTES {
        return;
    }
    if let Some(bytes) = entry.get_mut(LINK_AT..).and_then(|bytes| bytes.first_chunk_mut::<2>()) {
        *bytes = (u16::from_le_bytes(*bytes) & !LINK | next & LINK).to_le_bytes();
    }
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
    pub(crate) fn apply_spgist(&mut self, change: &PageChange) -> Option<Result<(), Misfit>> {
        match (change.kind, change.block_id) {
            // Two flags, the item, the head of its chain, the tuple above, the entry.
            (RecordKind::SpgistAddLeaf, 0) => {
                let (item, head) = (change.main_u16(2)?, change.main_u16(4)?);
                let entry = entries_of(change.main.get(10..)?, 1)?.pop()?;
                if item == head {
                    return Some(self.entry_mut(item).map(|old| *old = entry));
                }
                let next = entry.as_deref().and_then(next_of)?;
                let linked = if head == 0 { Ok(()) } else { self.link_after(head, item, next) };
                Some(self.put(item, entry).and(linked))
            }
            (RecordKind::SpgistMoveLeafs, 0 | 1) => self.move_leafs(change),
            (RecordKind::SpgistVacuumLeaf, 0) => self.vacuum_leaf(change),
            (RecordKind::SpgistVacuumRedirect, 0) if change.major.facts().follows_spgist_redirects => {
                self.vacuum_redirect(change)
            }
            _ => None,
        }
    }

    /// Links the head of a chain to a new entry, which points to the former next entry.
    fn link_after(&mut self, head: u16, item: u16, next: u16) -> Result<(), Misfit> {
        let Some(old) = self.entry_mut(head)? else { return Ok(()) };
        let fits = next_of(old) == Some(next);
        link(old, item);
        if fits { Ok(()) } else { Err(Misfit::Differs { item: head.into() }) }
    }

    /// Puts an entry after the last, or over a mark.
    fn put(&mut self, item: u16, entry: Entry) -> Result<(), Misfit> {
        if !self.is_partial && usize::from(item) == self.entries.len().saturating_add(1) {
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
        let (dead, placeholder, moved, linked) = (count(0)?, count(2)?, count(4)?, count(6)?);
        let pairs = moved.saturating_add(linked).saturating_mul(2);
        let items = items_at(change, 16, dead.saturating_add(placeholder).saturating_add(pairs))?;
        let (dead, items) = items.split_at(dead);
        let (placeholder, items) = items.split_at(placeholder);
        let (from, items) = items.split_at(moved);
        let (to, items) = items.split_at(moved);
        let (links, targets) = items.split_at(linked);
        let mut done = self.turn(dead, DEAD, DEAD).and(self.turn(placeholder, PLACEHOLDER, PLACEHOLDER));
        for (from, to) in from.iter().zip(to) {
            // Both have to be there.
            if let Err(missing) = self.entry_mut(*from.max(to)) {
                return Some(Err(missing));
            }
            self.entries.swap(usize::from(*from).checked_sub(1)?, usize::from(*to).checked_sub(1)?);
        }
        done = done.and(self.turn(from, PLACEHOLDER, PLACEHOLDER));
        for (item, target) in links.iter().zip(targets) {
            match self.entry_mut(*item) {
                Ok(Some(entry)) => link(entry, *target),
                Ok(None) => {}
                Err(missing) => done = done.and(Err(missing)),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::names::RM_SPGIST;
    use crate::parsers::wal::version::Major;
    use crate::types::Lsn;

    fn change(info: u8, main: &[u8]) -> PageChange {
        PageChange {
            start_lsn: Lsn(8),
            end_lsn: Lsn(16),
            xid: 700,
            major: Major::V14,
            kind: RecordKind::of(Major::V14, RM_SPGIST, info),
            block_id: 0,
            is_alone: true,
            block_count: 1,
            is_init: false,
            image: None,
            data: Box::default(),
            main: main.into(),
        }
    }

    /// A live entry of 16 bytes that leads to `next`, with a letter as its key.
    fn live(next: u8, letter: u8) -> Vec<u8> {
        vec![16 << 2, 0, 0, 0, next, 0, 0, 0, 9, 0, 1, 0, letter, letter, letter, letter]
    }

    /// ADD_LEAF of an entry that comes after the head of a chain.
    fn add(item: u8, head: u8, entry: &[u8]) -> PageChange {
        change(0x10, &[&[0, 0, item, 0, head, 0, 0, 0, 0, 0], entry].concat())
    }

    fn list(entries: &[Vec<u8>]) -> ListItems {
        ListItems { entries: entries.iter().map(|bytes| entry(bytes)).collect(), ..ListItems::default() }
    }

    #[test]
    fn head_of_a_chain_leads_to_the_new_entry() {
        let mut items = list(&[live(2, b'a'), live(0, b'b')]);
        assert_eq!(items.apply(&add(3, 1, &live(2, b'c'))), Some(Ok(())));
        assert_eq!(items, list(&[live(3, b'a'), live(0, b'b'), live(2, b'c')]));
        // A new chain.
        assert_eq!(items.apply(&add(4, 0, &live(0, b'd'))), Some(Ok(())));
        // The head points elsewhere: it belongs to a later page, or to an earlier one.
        let mut later = list(&[live(3, b'a'), live(0, b'b')]);
        assert_eq!(later.apply(&add(3, 1, &live(2, b'c'))), Some(Err(Misfit::Differs { item: 1 })));
    }

    #[test]
    fn vacuum_links_what_stays() {
        let mut items = list(&[live(2, b'a'), live(3, b'b'), live(0, b'c')]);
        // Nothing dead, item 2 a placeholder, nothing moved, item 1 leads to 3.
        let vacuum = change(0x60, &[0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 3, 0]);
        assert_eq!(items.apply(&vacuum), Some(Ok(())));
        assert_eq!(items, list(&[live(3, b'a'), vec![PLACEHOLDER], live(0, b'c')]));
    }

    #[test]
    fn page_holds_what_its_last_records_put_there() {
        let told = ListItems::told_by(&[add(2, 1, &live(0, b'b')), add(3, 1, &live(2, b'c'))]);
        assert_eq!(told.difference(&list(&[live(3, b'a'), live(0, b'b'), live(2, b'c'), live(0, b'd')])), None);
        let lacking = [
            vec![live(3, b'a'), live(0, b'x'), live(2, b'c')],
            vec![live(3, b'a'), live(0, b'b'), live(0, b'c')],
            vec![live(3, b'a'), live(0, b'b')],
        ];
        let found: Vec<_> = lacking.iter().map(|entries| told.difference(&list(entries))).collect();
        assert_eq!(found, [Some(2), Some(3), Some(3)]);
        // After a record that is not followed nothing before it counts.
        let split = change(0x50, &[]);
        let told = ListItems::told_by(&[add(2, 1, &live(0, b'b')), split, add(3, 1, &live(2, b'c'))]);
        assert_eq!(told.difference(&list(&[live(3, b'a'), live(0, b'x'), live(2, b'c')])), None);
    }
}
