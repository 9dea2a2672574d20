//! What a record does inside one page, as far as its payload says: which items of the page it is about, and how many.
//!
//! Redo of a record whose image is restored does nothing else; its payload still says why the page was changed.
//!
//! Sources: `src/include/access/heapam_xlog.h`, `nbtxlog.h`, `hash_xlog.h`, `ginxlog.h`, `gistxlog.h`, `spgxlog.h`,
//! `brin_xlog.h`.

use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::names::{RM_HEAP, RM_HEAP2, RM_SEQUENCE};
use crate::parsers::wal::prune::PruneLists;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::{RecordKind, RecordKind as Kind};
use crate::parsers::wal::version::{BtreeRecords, Major};
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
            RM_HEAP => heap(&part),
            RM_HEAP2 => heap2(&part),
            RM_SEQUENCE => Some(Self::bare(ActionKind::SetSequence)),
            _ => of(&part),
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

/// `XLH_DELETE_IS_SUPER`.
const DELETE_IS_SUPER: u8 = 0x08;

/// Resource manager Heap.
fn heap(part: &Part<'_>) -> Option<PageAction> {
    let at = |kind: ActionKind, at: usize| Some(PageAction::of_items(kind, [part.main_u16(at)?]));
    match part.kind {
        RecordKind::HeapInsert => at(ActionKind::Insert, 0),
        // Transaction, item, bits of the row, flags.
        RecordKind::HeapDelete => match part.main.get(7)? & DELETE_IS_SUPER {
            0 => at(ActionKind::Delete, 4),
            _ => at(ActionKind::TakeBack, 4),
        },
        RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => update(part),
        RecordKind::HeapHeapConfirm => at(ActionKind::Confirm, 0),
        RecordKind::HeapLock => at(ActionKind::Lock, 4),
        RecordKind::HeapInplace => at(ActionKind::Overwrite, 0),
        _ => None,
    }
}

/// Transaction and item of the old row, bits, flags, transaction and item of the new one. The new row is in the first
/// block; the old one in the second, if there is one.
fn update(part: &Part<'_>) -> Option<PageAction> {
    let (old, new) = (part.main_u16(4)?, part.main_u16(12)?);
    let is_hot = part.kind == RecordKind::HeapHotUpdate;
    Some(match (part.block_id, part.blocks) {
        (0, 1) if is_hot => PageAction::of_pair(ActionKind::HotUpdate, old, new),
        (0, 1) => PageAction::of_pair(ActionKind::Update, old, new),
        (0, _) => PageAction::of_items(ActionKind::UpdateNew, [new]),
        _ => PageAction::of_items(ActionKind::UpdateOld, [old]),
    })
}

/// Resource manager Heap2.
fn heap2(part: &Part<'_>) -> Option<PageAction> {
    match part.kind {
        kind if kind.is_prune_and_freeze() => lists(part),
        RecordKind::Heap2Prune => clean(part),
        RecordKind::Heap2FreezePage => freeze(part),
        RecordKind::Heap2Vacuum => {
            // Without data the page's image is in the record.
            let count = usize::from(part.main_u16(0)?);
            let items = part.data_items(0, count).into_iter().flatten();
            let count = u32::try_from(count).ok()?;
            Some(PageAction::of_items(ActionKind::FreeItems, items).counting([(Counted::Unused, count)]))
        }
        RecordKind::Heap2Visible => Some(PageAction::bare(ActionKind::MarkVisible)),
        RecordKind::Heap2MultiInsert => {
            // Flags, a byte of padding, the count, the items unless the page is new.
            let count = part.main_u16(2)?;
            if part.is_init {
                return Some(PageAction::of_items(ActionKind::Insert, 1..=count));
            }
            let items: Option<Vec<u16>> =
                (0..usize::from(count)).map(|index| part.main_u16(index.saturating_mul(2).saturating_add(4))).collect();
            Some(PageAction::of_items(ActionKind::Insert, items?))
        }
        RecordKind::Heap2LockUpdated => Some(PageAction::of_items(ActionKind::Lock, [part.main_u16(4)?])),
        _ => None,
    }
}

/// `CLEAN` and `PRUNE` up to 16: transaction, pairs of redirections, dead items; in the data their numbers, then those of
/// unused items.
fn clean(part: &Part<'_>) -> Option<PageAction> {
    let (redirected, dead) = (u32::from(part.main_u16(4)?), u32::from(part.main_u16(6)?));
    let listed = u32::try_from(part.data.len() / 2).ok()?;
    let unused = listed.saturating_sub(redirected.saturating_mul(2)).saturating_sub(dead);
    let counts = [(Counted::Redirected, redirected), (Counted::Dead, dead), (Counted::Unused, unused)];
    Some(PageAction::bare(ActionKind::Prune).counting(counts))
}

/// `PRUNE_ON_ACCESS` and its kin from 17 on.
fn lists(part: &Part<'_>) -> Option<PageAction> {
    let flags = PruneLists::flags_of(part.major, part.main)?;
    // Without data the page's image is in the record.
    let lists = PruneLists::decode(flags, part.data).unwrap_or_default();
    let count = |list: &[u16]| u32::try_from(list.len()).unwrap_or(u32::MAX);
    let redirected = u32::try_from(lists.redirected.len()).unwrap_or(u32::MAX);
    let (dead, unused, frozen) = (count(&lists.dead), count(&lists.unused), count(&lists.frozen));
    let kind = match (redirected, dead, unused, frozen) {
        (0, 0, 0, 1..) => ActionKind::Freeze,
        (0, 0, 1.., 0) if part.kind == RecordKind::Heap2PruneVacuumCleanup => ActionKind::FreeItems,
        _ => ActionKind::Prune,
    };
    let items = match kind {
        ActionKind::Freeze => lists.frozen,
        ActionKind::FreeItems => lists.unused,
        _ => Vec::new(),
    };
    Some(PageAction::of_items(kind, items).counting([
        (Counted::Redirected, redirected),
        (Counted::Dead, dead),
        (Counted::Unused, unused),
        (Counted::Frozen, frozen),
    ]))
}

/// `FREEZE_PAGE`: transaction, then the number of rows; in 16 that of plans, which stand in the data.
fn freeze(part: &Part<'_>) -> Option<PageAction> {
    let count = part.main_u16(4)?;
    let rows = if part.major.facts().freezes_by_plans {
        let plans = (0..usize::from(count)).map(|plan| u16_at(part.data, plan.saturating_mul(12).saturating_add(10)));
        plans.map(|rows| rows.map(u32::from)).sum::<Option<u32>>().unwrap_or(0)
    } else {
        u32::from(count)
    };
    Some(PageAction::bare(ActionKind::Freeze).counting([(Counted::Frozen, rows)]))
}

/// Flag of GIN `INSERT`: into a page of rows, not of keys (`GIN_INSERT_ISDATA`).
const GIN_IS_DATA: u16 = 1;

/// Sources: `btree_redo`, `src/backend/access/nbtree/nbtxlog.c`; `brin_xlog_insert_update`,
/// `src/backend/access/brin/brin_xlog.c`; `xl_brin_insert`, `xl_brin_update`.
fn of(part: &Part<'_>) -> Option<PageAction> {
    let insert = |at: usize| Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(at)?]));
    match (part.kind, part.block_id) {
        (Kind::HashInsert, 0) => insert(0),
        (Kind::HashInsert, 1) => Some(PageAction::bare(ActionKind::Metapage)),
        (Kind::GinInsert, 0) if part.main_u16(0)? & GIN_IS_DATA == 0 => {
            let item = part.data_items(0, 1)?;
            Some(PageAction::of_items(ActionKind::InsertEntry, item))
        }
        (Kind::GinInsert | Kind::GistPageUpdate, 1) => Some(PageAction::bare(ActionKind::FinishSplitBelow)),
        (Kind::GistPageUpdate, 0) => {
            let (deleted, inserted) = (part.main_u16(0)?, part.main_u16(2)?);
            let counts = [(Counted::Deleted, deleted.into()), (Counted::Inserted, inserted.into())];
            // Without data the page's image is in the record.
            let items = part.data_items(0, deleted.into()).into_iter().flatten();
            Some(PageAction::of_items(ActionKind::ReplaceEntries, items).counting(counts))
        }
        // New page, nulls, item of the leaf.
        (Kind::SpgistAddLeaf, 0) => insert(2),
        _ => btree(part).or_else(|| brin(part)),
    }
}

fn btree(part: &Part<'_>) -> Option<PageAction> {
    let bare = |kind: ActionKind| Some(PageAction::bare(kind));
    match (part.kind, part.block_id) {
        (Kind::BtreeInsertLeaf | Kind::BtreeInsertUpper | Kind::BtreeInsertMeta, 0) => {
            Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(0)?]))
        }
        (Kind::BtreeInsertPost, 0) => Some(PageAction::of_items(ActionKind::SplitPosting, [part.main_u16(0)?])),
        (Kind::BtreeInsertUpper | Kind::BtreeInsertMeta | Kind::BtreeNewroot, 1) => bare(ActionKind::FinishSplitBelow),
        (Kind::BtreeDedup, 0) => {
            let runs = part.main_u16(0)?;
            Some(PageAction::bare(ActionKind::Deduplicate).counting([(Counted::Runs, runs.into())]))
        }
        (Kind::BtreeSplitL | Kind::BtreeSplitR | Kind::BtreeSplitOld, block_id) => match block_id {
            0 => Some(PageAction::of_items(ActionKind::Split, [part.main_u16(4)?])),
            1 => bare(ActionKind::SplitRight),
            2 => bare(ActionKind::LinkLeft),
            _ => bare(ActionKind::FinishSplitBelow),
        },
        (Kind::BtreeDelete | Kind::BtreeVacuum, 0) => removed(part),
        (Kind::BtreeMarkPageHalfdead, 0) => bare(ActionKind::MarkHalfDead),
        (Kind::BtreeMarkPageHalfdead, 1) => bare(ActionKind::RemoveDownlink),
        (Kind::BtreeUnlinkPage | Kind::BtreeUnlinkPageMeta, 0) => bare(ActionKind::Unlink),
        (Kind::BtreeUnlinkPage | Kind::BtreeUnlinkPageMeta, 1) => bare(ActionKind::LinkRight),
        (Kind::BtreeUnlinkPage | Kind::BtreeUnlinkPageMeta, 2) => bare(ActionKind::LinkLeft),
        (Kind::BtreeNewroot, 0) => bare(ActionKind::NewRoot),
        (Kind::BtreeInsertMeta | Kind::BtreeNewroot, 2) => bare(ActionKind::Metapage),
        (Kind::BtreeUnlinkPageMeta, 4) | (Kind::BtreeMetaCleanup, 0) => bare(ActionKind::Metapage),
        _ => None,
    }
}

/// DELETE and VACUUM: how many entries go, how many lose some of their rows; their items, where the data begins with them.
fn removed(part: &Part<'_>) -> Option<PageAction> {
    let btree = part.major.facts().btree;
    let (deleted, updated, has_items) = match (part.kind, btree) {
        (Kind::BtreeDelete, BtreeRecords::Since14) => (part.main_u16(4)?.into(), part.main_u16(6)?.into(), true),
        (Kind::BtreeDelete, BtreeRecords::V13) => (part.main_u32(4)?, 0, true),
        // The file of the table comes first up to 11.
        (Kind::BtreeDelete, BtreeRecords::To12) if part.major.facts().btree_delete_names_table => {
            (part.main_u32(12)?, 0, false)
        }
        (Kind::BtreeDelete, BtreeRecords::To12) => (part.main_u32(4)?, 0, false),
        (_, BtreeRecords::To12) => (u32::try_from(part.data.len() / 2).ok()?, 0, true),
        _ => (part.main_u16(0)?.into(), part.main_u16(2)?.into(), true),
    };
    // Without data the page's image is in the record.
    let listed = if has_items { usize::try_from(deleted).ok()? } else { 0 };
    let items = part.data_items(0, listed).into_iter().flatten();
    let action = PageAction::of_items(ActionKind::RemoveEntries, items);
    Some(action.counting([(Counted::Deleted, deleted), (Counted::Updated, updated)]))
}

fn brin(part: &Part<'_>) -> Option<PageAction> {
    match (part.kind, part.block_id) {
        // Block of the table, blocks in a range, item.
        (Kind::BrinInsert, 0) => Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(8)?])),
        // The old item, two bytes of padding, then as above.
        (Kind::BrinUpdate, 0) => Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(12)?])),
        (Kind::BrinUpdate, 2) => Some(PageAction::of_items(ActionKind::RemoveEntries, [part.main_u16(0)?])),
        (Kind::BrinSamepageUpdate, 0) => Some(PageAction::of_items(ActionKind::OverwriteEntry, [part.main_u16(0)?])),
        (Kind::BrinInsert | Kind::BrinUpdate, 1) | (Kind::BrinDesummarize, 0) => {
            Some(PageAction::bare(ActionKind::ChangeRangeMap))
        }
        // Block of the table, blocks in a range, item.
        (Kind::BrinDesummarize, 1) => Some(PageAction::of_items(ActionKind::RemoveEntries, [part.main_u16(8)?])),
        (Kind::BrinRevmapExtend, 0) => Some(PageAction::bare(ActionKind::Metapage)),
        _ => None,
    }
}
