//! What records of indexes do inside a page.

use super::{ActionKind, Counted, PageAction, Part};
use crate::parsers::wal::records::RecordKind as Kind;
use crate::parsers::wal::version::BtreeRecords;

/// Flag of GIN `INSERT`: into a page of rows, not of keys (`GIN_INSERT_ISDATA`).
const GIN_IS_DATA: u16 = 1;

/// Sources: `btree_redo`, `src/backend/access/nbtree/nbtxlog.c`; `brin_xlog_insert_update`,
/// `src/backend/access/brin/brin_xlog.c`; `xl_brin_insert`, `xl_brin_update`.
pub(super) fn of(part: &Part<'_>) -> Option<PageAction> {
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
