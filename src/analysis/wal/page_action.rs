//! What a record does inside one page, as far as its payload says: which items of the page it is about, and how many.
//!
//! Redo of a record whose image is restored does nothing else; its payload still says why the page was changed.
//!
//! Sources: `src/include/access/heapam_xlog.h`, `nbtxlog.h`, `hash_xlog.h`, `ginxlog.h`, `gistxlog.h`, `spgxlog.h`,
//! `brin_xlog.h`.

mod heap;
mod index;

use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::names::{RM_HEAP, RM_HEAP2, RM_SEQUENCE};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::ForkNumber;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ActionKind {
    /// Rows are added under these items.
    Insert,
    /// The row of this item is deleted.
    Delete,
    /// An insertion that waited for a conflict is taken back.
    TakeBack,
    /// The row of the first item is replaced by that of the second, in the same page.
    Update,
    /// As before, without new index entries.
    HotUpdate,
    /// The row of this item is replaced by one in another page.
    UpdateOld,
    /// The row of this item replaces one in another page.
    UpdateNew,
    /// An insertion that waited for a conflict stays.
    Confirm,
    /// The row of this item is locked.
    Lock,
    /// The row of this item is overwritten as it stands.
    Overwrite,
    /// Rows that nobody can see are removed, their items redirected, dead or unused from now on; rows may be frozen.
    Prune,
    /// Dead items become unused.
    FreeItems,
    /// Rows are frozen.
    Freeze,
    /// The page is marked as visible to all.
    MarkVisible,
    /// Bits of the visibility map are set.
    SetMapBits,
    /// Bits of the visibility map may be cleared.
    ClearMapBits,
    /// An entry is added under this item.
    InsertEntry,
    /// A list of rows is cut in two around a new entry under this item.
    SplitPosting,
    /// The flag of a split further down that was not finished is cleared.
    FinishSplitBelow,
    /// The page is split: items from this one on, as they were numbered before, go to a new page.
    Split,
    /// The page is the new right half of a split.
    SplitRight,
    /// The link to the left sibling is changed.
    LinkLeft,
    /// The link to the right sibling is changed.
    LinkRight,
    /// Entries for the same key become one.
    Deduplicate,
    /// Entries go away, or lose some of their rows.
    RemoveEntries,
    /// Entries go away and others come.
    ReplaceEntries,
    /// The page is taken out of the tree.
    Unlink,
    /// The page is marked to be taken out of the tree.
    MarkHalfDead,
    /// The link down to a page that is taken out of the tree is removed.
    RemoveDownlink,
    /// The page becomes the root.
    NewRoot,
    /// The first page of the index, which leads to the root.
    Metapage,
    /// An entry is overwritten as it stands.
    OverwriteEntry,
    /// The map of a BRIN index is changed.
    ChangeRangeMap,
    /// The sequence gets a new value.
    SetSequence,
}

impl ActionKind {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// The codes of all kinds.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        Self::iter().map(Self::code)
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Counted {
    /// Items that lead to others from now on.
    Redirected,
    /// Items that become dead.
    Dead,
    /// Items that become unused.
    Unused,
    /// Rows that are frozen.
    Frozen,
    /// Entries that go away.
    Deleted,
    /// Entries that lose some of their rows.
    Updated,
    /// Entries that come.
    Inserted,
    /// Runs of entries that become one each.
    Runs,
}

impl Counted {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// What a record does inside one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAction {
    /// What is done.
    pub kind: ActionKind,
    /// Items concerned, in the order of the record, as runs of consecutive numbers: first and last.
    runs: Box<[(u16, u16)]>,
    /// How many of what.
    pub counts: Box<[(Counted, u32)]>,
}

impl PageAction {
    /// What `record` does inside its block `block`; `None` where its payload says no more than the record's name.
    pub fn of(record: &Record<'_>, block: &BlockRef<'_>) -> Option<Self> {
        let part = Part {
            major: record.major,
            kind: record.kind(),
            block_id: block.block_id,
            is_init: block.will_init(),
            blocks: record.layout.block_count,
            main: record.main_data(),
            data: block.data,
        };
        match record.header.rmgr_id {
            RM_HEAP | RM_HEAP2 if block.fork() == Some(ForkNumber::Vm) => Some(Self::bare(ActionKind::SetMapBits)),
            RM_HEAP => heap::heap(&part),
            RM_HEAP2 => heap::heap2(&part),
            RM_SEQUENCE => Some(Self::bare(ActionKind::SetSequence)),
            _ => index::of(&part),
        }
    }

    /// Nothing is known of items.
    pub fn bare(kind: ActionKind) -> Self {
        Self { kind, runs: Box::default(), counts: Box::default() }
    }

    fn of_items(kind: ActionKind, items: impl IntoIterator<Item = u16>) -> Self {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for item in items {
            match runs.last_mut().filter(|(_, last)| last.checked_add(1) == Some(item)) {
                Some((_, last)) => *last = item,
                None => runs.push((item, item)),
            }
        }
        Self { kind, runs: runs.into(), counts: Box::default() }
    }

    /// About two items, which are not a run.
    fn of_pair(kind: ActionKind, one: u16, other: u16) -> Self {
        Self { kind, runs: Box::new([(one, one), (other, other)]), counts: Box::default() }
    }

    /// A count with its noun; empty counts are left out.
    fn counting(self, counts: impl IntoIterator<Item = (Counted, u32)>) -> Self {
        Self { counts: counts.into_iter().filter(|(_, count)| *count > 0).collect(), ..self }
    }

    /// The items concerned, in the order of the record.
    pub fn items(&self) -> impl Iterator<Item = u16> + '_ {
        self.runs.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The items concerned as runs of consecutive numbers, first and last.
    pub fn runs(&self) -> &[(u16, u16)] {
        &self.runs
    }
}

struct Part<'a> {
    major: Major,
    kind: RecordKind,
    block_id: u8,
    is_init: bool,
    blocks: u8,
    main: &'a [u8],
    data: &'a [u8],
}

impl Part<'_> {
    /// Two bytes of what belongs to no page.
    fn main_u16(&self, at: usize) -> Option<u16> {
        u16_at(self.main, at)
    }

    /// Four bytes of what belongs to no page.
    fn main_u32(&self, at: usize) -> Option<u32> {
        u32_at(self.main, at)
    }

    fn data_items(&self, from: usize, count: usize) -> Option<impl Iterator<Item = u16> + '_> {
        let start = from.saturating_mul(2);
        let bytes = self.data.get(start..start.saturating_add(count.saturating_mul(2)))?;
        Some(bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)))
    }
}
