//! What records of indexes do inside a page.

use super::{ActionKind, Counted, PageAction, Part};
use crate::parsers::wal::names::{RM_BRIN, RM_BTREE, RM_GIN, RM_GIST, RM_HASH, RM_SPGIST};
use crate::parsers::wal::version::BtreeRecords;

/// Flag of GIN `INSERT`: into a page of rows, not of keys (`GIN_INSERT_ISDATA`).
const GIN_IS_DATA: u16 = 1;

/// A record of a resource manager that keeps indexes.
pub(super) fn of(rmgr_id: u8, part: &Part<'_>) -> Option<PageAction> {
    let insert = |at: usize| Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(at)?]));
    match (rmgr_id, part.info, part.block_id) {
        (RM_BTREE, ..) => btree(part),
        (RM_HASH, 0x20, 0) => insert(0),
        (RM_HASH, 0x20, 1) => Some(PageAction::bare(ActionKind::Metapage)),
        (RM_GIN, 0x20, 0) if part.main_u16(0)? & GIN_IS_DATA == 0 => {
            let item = part.data_items(0, 1)?;
            Some(PageAction::of_items(ActionKind::InsertEntry, item))
        }
        (RM_GIN, 0x20, 1) | (RM_GIST, 0x00, 1) => Some(PageAction::bare(ActionKind::FinishSplitBelow)),
        (RM_GIST, 0x00, 0) => {
            let (deleted, inserted) = (part.main_u16(0)?, part.main_u16(2)?);
            let counts = [(Counted::Deleted, deleted.into()), (Counted::Inserted, inserted.into())];
            // Without data the page's image is in the record.
            let items = part.data_items(0, deleted.into()).into_iter().flatten();
            Some(PageAction::of_items(ActionKind::ReplaceEntries, items).counting(counts))
        }
        // New page, nulls, item of the leaf.
        (RM_SPGIST, 0x10, 0) => insert(2),
        _ if rmgr_id == RM_BRIN => brin(part),
        _ => None,
    }
}

/// Sources: `btree_redo`, `src/backend/access/nbtree/nbtxlog.c`.
fn btree(part: &Part<'_>) -> Option<PageAction> {
    let bare = |kind: ActionKind| Some(PageAction::bare(kind));
    let with_posting = part.major.facts().btree >= BtreeRecords::V13;
    match (part.info, part.block_id) {
        (0x00 | 0x10 | 0x20, 0) => Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(0)?])),
        (0x50, 0) if with_posting => Some(PageAction::of_items(ActionKind::SplitPosting, [part.main_u16(0)?])),
        (0x10 | 0x20, 1) | (0x30 | 0x40, 3) | (0xA0, 1) => bare(ActionKind::FinishSplitBelow),
        (0x60, 0) if with_posting => {
            let runs = part.main_u16(0)?;
            Some(PageAction::bare(ActionKind::Deduplicate).counting([(Counted::Runs, runs.into())]))
        }
        // SPLIT_L, SPLIT_R; up to 11 also those of a root or with a high key of their own.
        (0x30 | 0x40 | 0x50 | 0x60, block_id) => match block_id {
            0 => Some(PageAction::of_items(ActionKind::Split, [part.main_u16(4)?])),
            1 => bare(ActionKind::SplitRight),
            2 => bare(ActionKind::LinkLeft),
            _ => bare(ActionKind::FinishSplitBelow),
        },
        (0x70 | 0xC0, 0) => removed(part),
        (0x80 | 0x90, 0) | (0xB0, 0) => {
            bare(if part.info == 0xB0 { ActionKind::MarkHalfDead } else { ActionKind::Unlink })
        }
        (0x80 | 0x90, 1) => bare(ActionKind::LinkRight),
        (0x80 | 0x90, 2) => bare(ActionKind::LinkLeft),
        (0xB0, 1) => bare(ActionKind::RemoveDownlink),
        (0xA0, 0) => bare(ActionKind::NewRoot),
        (0x20 | 0xA0, 2) | (0x90, 4) | (0xE0, 0) => bare(ActionKind::Metapage),
        _ => None,
    }
}

/// DELETE and VACUUM: how many entries go, how many lose some of their rows; their items, where the data begins with them.
fn removed(part: &Part<'_>) -> Option<PageAction> {
    let btree = part.major.facts().btree;
    let (deleted, updated, has_items) = match (part.info, btree) {
        (0x70, BtreeRecords::Since14) => (part.main_u16(4)?.into(), part.main_u16(6)?.into(), true),
        (0x70, BtreeRecords::V13) => (part.main_u32(4)?, 0, true),
        // The file of the table comes first up to 11.
        (0x70, BtreeRecords::To12) if part.major.facts().btree_delete_names_table => (part.main_u32(12)?, 0, false),
        (0x70, BtreeRecords::To12) => (part.main_u32(4)?, 0, false),
        (_, BtreeRecords::To12) => (u32::try_from(part.data.len() / 2).ok()?, 0, true),
        _ => (part.main_u16(0)?.into(), part.main_u16(2)?.into(), true),
    };
    // Without data the page's image is in the record.
    let listed = if has_items { usize::try_from(deleted).ok()? } else { 0 };
    let items = part.data_items(0, listed).into_iter().flatten();
    let action = PageAction::of_items(ActionKind::RemoveEntries, items);
    Some(action.counting([(Counted::Deleted, deleted), (Counted::Updated, updated)]))
}

/// Sources: `brin_xlog_insert_update`, `src/backend/access/brin/brin_xlog.c`; `xl_brin_insert`, `xl_brin_update`.
fn brin(part: &Part<'_>) -> Option<PageAction> {
    match (part.info & 0x70, part.block_id) {
        // Block of the table, blocks in a range, item.
        (0x10, 0) => Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(8)?])),
        // The old item, two bytes of padding, then as above.
        (0x20, 0) => Some(PageAction::of_items(ActionKind::InsertEntry, [part.main_u16(12)?])),
        (0x20, 2) => Some(PageAction::of_items(ActionKind::RemoveEntries, [part.main_u16(0)?])),
        (0x30, 0) => Some(PageAction::of_items(ActionKind::OverwriteEntry, [part.main_u16(0)?])),
        (0x10 | 0x20, 1) | (0x50, 0) => Some(PageAction::bare(ActionKind::ChangeRangeMap)),
        // DESUMMARIZE: block of the table, blocks in a range, item.
        (0x50, 1) => Some(PageAction::of_items(ActionKind::RemoveEntries, [part.main_u16(8)?])),
        (0x40, 0) => Some(PageAction::bare(ActionKind::Metapage)),
        _ => None,
    }
}
