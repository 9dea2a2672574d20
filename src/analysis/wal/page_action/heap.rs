//! What records of tables do inside a page.

use super::{ActionKind, Counted, PageAction, Part};
use crate::parsers::decode::u16_at;
use crate::parsers::wal::prune::PruneLists;
use crate::parsers::wal::records::RecordKind;

/// `XLH_DELETE_IS_SUPER`.
const DELETE_IS_SUPER: u8 = 0x08;

/// Resource manager Heap.
pub(super) fn heap(part: &Part<'_>) -> Option<PageAction> {
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
pub(super) fn heap2(part: &Part<'_>) -> Option<PageAction> {
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
