//! Rows that records of a heap write: the tuple as it stands in the page afterwards, or what is stored of it.
//! Also here: the lists of items in records that prune and freeze a page of a table.

use super::record::Record;
use super::records::RecordKind;
use super::version::{Major, PruneRecords};
use crate::parsers::decode::u16_at;
use crate::parsers::heap::TupleHeader;
use crate::types::{BlockNumber, RelFileLocator};

/// Bytes of `xl_heap_header`: `t_infomask2`, `t_infomask`, `t_hoff`.
///
/// Source: `xl_heap_header`, `src/include/access/heapam_xlog.h`.
const STORED_HEADER: usize = 5;

/// Flags of `xl_heap_update`: the row begins, or ends, like the old one; those bytes are left out.
const PREFIX_FROM_OLD: u8 = 1 << 5;
const SUFFIX_FROM_OLD: u8 = 1 << 6;

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlace {
    /// The relation.
    pub rel: RelFileLocator,
    /// The block of its main fork.
    pub block: BlockNumber,
    /// Item number, from 1.
    pub item: u16,
}

/// A row that a record writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite {
    /// Where it stands from now on.
    pub at: RowPlace,
    /// Where the row stood that it replaces, with the bytes at its beginning and its end that are those of that row; `None`
    /// where all is stored.
    pub like: Option<(RowPlace, usize, usize)>,
    /// The tuple: its header, then what is stored; the bytes that are those of the old row are missing in between.
    tuple: Vec<u8>,
}

impl RowWrite {
    /// The row that `record` writes into a page without an image: `INSERT`, `UPDATE` or `HOT_UPDATE` of one row. `None` for any
    /// other record, and for what does not fit its type.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let is_update = match record.kind() {
            RecordKind::HeapInsert => false,
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => true,
            _ => return None,
        };
        let main = record.main_data();
        let mut blocks = record.blocks();
        let new =
            blocks.next().filter(|block| block.block_id == 0 && block.image.is_none() && block.fork_code() == 0)?;
        let place = |block, item| RowPlace { rel: new.rel, block, item };
        let mut data = new.data;
        let (item, like) = if is_update {
            // old_xmax, old_offnum, old_infobits_set, flags, new_xmax, new_offnum.
            let (old_item, flags, item) = (u16_at(main, 4)?, *main.get(7)?, u16_at(main, 12)?);
            let mut length = |flag: u8| -> Option<usize> {
                if flags & flag == 0 {
                    return Some(0);
                }
                let length = u16_at(data, 0)?;
                data = data.get(2..)?;
                Some(usize::from(length))
            };
            let (prefix, suffix) = (length(PREFIX_FROM_OLD)?, length(SUFFIX_FROM_OLD)?);
            let old_block = blocks.next().map_or(new.block, |old| old.block);
            let like = (prefix > 0 || suffix > 0).then(|| (place(old_block, old_item), prefix, suffix));
            (item, like)
        } else {
            (u16_at(main, 0)?, None)
        };
        let (header, rest) = data.split_at_checked(STORED_HEADER)?;
        let mut tuple = record.header.xid.to_le_bytes().to_vec();
        tuple.resize(18, 0);
        tuple.extend_from_slice(header);
        tuple.extend_from_slice(rest);
        Some(Self { at: place(new.block, item), like, tuple })
    }

    /// The whole tuple. `old`: the tuple that stood at the place that [`Self::like`] names; without it what is incomplete
    /// stays so, and no other one follows.
    ///
    /// Source: `heap_xlog_update`, `src/backend/access/heap/heapam.c`.
    pub fn tuple(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        let Some((_, prefix, suffix)) = self.like else { return Some(self.tuple.clone()) };
        let old = old?;
        let old_data = old.get(usize::from(TupleHeader::decode(0, old).ok()?.data_offset)..)?;
        let data_offset = usize::from(TupleHeader::decode(0, &self.tuple).ok()?.data_offset);
        let (header, stored) = self.tuple.split_at_checked(data_offset)?;
        let mut whole = header.to_vec();
        whole.extend_from_slice(old_data.get(..prefix)?);
        whole.extend_from_slice(stored);
        whole.extend_from_slice(old_data.get(old_data.len().checked_sub(suffix)?..)?);
        Some(whole)
    }
}

/// The row that an UPDATE or DELETE replaced, where the record holds it for logical decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OldRow {
    /// Bytes of it in the record.
    pub(crate) bytes: u32,
    /// All its columns (`REPLICA IDENTITY FULL`), not those of a key alone; `None` where the end of the record was not kept.
    pub(crate) is_whole: Option<bool>,
}

impl OldRow {
    /// That of a record, if it has one.
    ///
    /// Source: `xl_heap_update`, `xl_heap_delete`, `src/include/access/heapam_xlog.h`.
    pub(crate) fn of(record: &Record<'_>) -> Option<Self> {
        const FLAGS: usize = 7;
        let (fixed_bytes, whole_flag) = match record.kind() {
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => (14, 1 << 2),
            RecordKind::HeapDelete => (8, 1 << 1),
            _ => return None,
        };
        let bytes = record.main_data_length().checked_sub(fixed_bytes).filter(|bytes| *bytes > 0)?;
        let is_whole = record.main_data().get(FLAGS).map(|flags| flags & whole_flag != 0);
        Some(Self { bytes, is_whole })
    }
}

/// Bytes of a plan of freezing: `xlhp_freeze_plan`.
const PLAN_BYTES: usize = 12;
/// Where the number of items stands in it.
const PLAN_COUNT_AT: usize = 10;
/// Where the item stands in what 10 to 15 have for each row, `xl_heap_freeze_tuple`, of as many bytes.
const FROZEN_ITEM_AT: usize = 4;

/// Flags of `xl_heap_prune` that say which lists there are, `src/include/access/heapam_xlog.h`.
const FREEZE_PLANS: u8 = 1 << 4;
const REDIRECTIONS: u8 = 1 << 5;
const DEAD_ITEMS: u8 = 1 << 6;
const UNUSED_ITEMS: u8 = 1 << 7;

/// Item numbers by what happens to the items.
///
/// Source: `heap_xlog_deserialize_prune_and_freeze`, `src/backend/access/rmgrdesc/heapdesc.c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PruneLists {
    /// Item, and the item that it leads to from now on.
    pub redirected: Vec<[u16; 2]>,
    pub dead: Vec<u16>,
    pub unused: Vec<u16>,
    pub frozen: Vec<u16>,
}

impl PruneLists {
    /// The lists of a record: `main` are its main data, `data` those of the page. `None` when they end before the lists, and
    /// for kinds that have none.
    ///
    /// Sources: `xl_heap_clean`, `xl_heap_prune`, `xl_heap_vacuum`, `xl_heap_freeze_page`, `xl_heap_freeze_tuple` and
    /// `xl_heap_freeze_plan`, `src/include/access/heapam_xlog.h` of 10 to 16.
    pub fn of(major: Major, kind: RecordKind, main: &[u8], data: &[u8]) -> Option<Self> {
        match kind {
            RecordKind::Heap2Prune => Self::of_clean(main, data),
            RecordKind::Heap2Vacuum => {
                let unused = numbers(data, 0, usize::from(u16_at(main, 0)?))?;
                Some(Self { unused, ..Self::default() })
            }
            RecordKind::Heap2FreezePage => Self::of_freeze(major, main, data),
            _ if kind.is_prune_and_freeze() => Self::decode(Self::flags_of(major, main)?, data),
            _ => None,
        }
    }

    /// `CLEAN` and `PRUNE` up to 16: transaction, pairs of redirections, dead items; in the data their numbers, then those of
    /// unused items.
    fn of_clean(main: &[u8], data: &[u8]) -> Option<Self> {
        let (redirected, dead) = (usize::from(u16_at(main, 4)?), usize::from(u16_at(main, 6)?));
        let pairs = numbers(data, 0, redirected.saturating_mul(2))?;
        let dead_at = redirected.saturating_mul(4);
        let unused_at = dead.saturating_mul(2).saturating_add(dead_at);
        let unused = data.get(unused_at..)?.len() / 2;
        Some(Self {
            redirected: pairs.as_chunks::<2>().0.to_vec(),
            dead: numbers(data, dead_at, dead)?,
            unused: numbers(data, unused_at, unused)?,
            frozen: Vec::new(),
        })
    }

    /// `FREEZE_PAGE`: transaction, then how many rows; in 16 how many plans, each for several rows, whose numbers stand after all
    /// plans.
    fn of_freeze(major: Major, main: &[u8], data: &[u8]) -> Option<Self> {
        let count = usize::from(u16_at(main, 4)?);
        let in_plan = |plan: usize, at: usize| u16_at(data, plan.saturating_mul(PLAN_BYTES).saturating_add(at));
        let frozen = if major.facts().freezes_by_plans {
            let rows = (0..count).map(|plan| in_plan(plan, PLAN_COUNT_AT).map(usize::from)).sum::<Option<usize>>()?;
            numbers(data, count.saturating_mul(PLAN_BYTES), rows)?
        } else {
            (0..count).map(|row| in_plan(row, FROZEN_ITEM_AT)).collect::<Option<_>>()?
        };
        Some(Self { frozen, ..Self::default() })
    }

    /// The flags that name lists, of a record's main data; `None` before 17, whose records have none.
    pub(crate) fn flags_of(major: Major, main: &[u8]) -> Option<u8> {
        match major.facts().prune {
            PruneRecords::To13 | PruneRecords::To16 => None,
            // A byte with the reason stands before a byte of flags.
            PruneRecords::To18 => main.get(1).copied(),
            PruneRecords::Since19 => main.first().copied(),
        }
    }

    /// The lists that `flags` names in the block's data; `None` when it ends before them.
    pub fn decode(flags: u8, data: &[u8]) -> Option<Self> {
        let mut lists = Self::default();
        let (mut at, mut frozen) = (0_usize, 0_usize);
        if flags & FREEZE_PLANS != 0 {
            let plans = usize::from(u16_at(data, 0)?);
            // The count, then two bytes of padding.
            at = plans.saturating_mul(PLAN_BYTES).saturating_add(4);
            for plan in 0..plans {
                let count_at = plan.saturating_mul(PLAN_BYTES).saturating_add(4).saturating_add(PLAN_COUNT_AT);
                frozen = frozen.saturating_add(usize::from(u16_at(data, count_at)?));
            }
        }
        let mut list = |flag: u8, width: usize| -> Option<Vec<u16>> {
            if flags & flag == 0 {
                return Some(Vec::new());
            }
            let count = usize::from(u16_at(data, at)?).saturating_mul(width);
            let items = numbers(data, at.saturating_add(2), count)?;
            at = at.saturating_add(count.saturating_mul(2)).saturating_add(2);
            Some(items)
        };
        let redirected = list(REDIRECTIONS, 2)?;
        lists.redirected = redirected.as_chunks::<2>().0.to_vec();
        lists.dead = list(DEAD_ITEMS, 1)?;
        lists.unused = list(UNUSED_ITEMS, 1)?;
        lists.frozen = numbers(data, at, frozen)?;
        Some(lists)
    }
}

/// So many numbers from `at` on.
/// Whether a record of vacuum freezes rows; `None` of other records, and where the end of the record was not kept.
pub(crate) fn freezes(record: &Record<'_>) -> Option<bool> {
    match record.kind() {
        RecordKind::Heap2FreezePage => Some(true),
        RecordKind::Heap2Vacuum | RecordKind::Heap2PruneVacuumCleanup => Some(false),
        RecordKind::Heap2PruneVacuumScan => {
            PruneLists::flags_of(record.major, record.main_data()).map(|flags| flags & FREEZE_PLANS != 0)
        }
        _ => None,
    }
}

fn numbers(data: &[u8], at: usize, count: usize) -> Option<Vec<u16>> {
    let bytes = data.get(at..at.saturating_add(count.saturating_mul(2)))?;
    Some(bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::names::RM_HEAP2;

    const PLACE: RowPlace =
        RowPlace { rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1259 }, block: 3, item: 7 };

    /// A header of 24 bytes, `t_hoff` included, then `data`.
    fn tuple(data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[22] = 24;
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn what_is_left_out_comes_from_the_old_row() {
        let write = RowWrite { at: PLACE, like: Some((PLACE, 3, 2)), tuple: tuple(b"NEW") };
        assert_eq!(write.tuple(Some(&tuple(b"abcdefgh"))), Some(tuple(b"abcNEWgh")));
        assert_eq!(write.tuple(None), None, "never a guess");
        assert_eq!(write.tuple(Some(&tuple(b"ab"))), None, "the old row is too short to be that one");
        let whole = RowWrite { like: None, ..write };
        assert_eq!(whole.tuple(None), Some(tuple(b"NEW")));
    }

    fn bytes(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// The lists of a record of Heap2 with this `xl_info`.
    fn lists(major: Major, info: u8, main: &[u8], data: &[u8]) -> Option<PruneLists> {
        PruneLists::of(major, RecordKind::of(major, RM_HEAP2, info), main, data)
    }

    #[test]
    fn lists_stand_in_the_order_of_their_flags() {
        let plan = [0, 0, 0, 0, 0, 2];
        let data = bytes(&[&[1, 0][..], &plan, &[1, 3, 4], &[2, 5, 6], &[1, 7], &[8, 9]].concat());
        let lists = PruneLists::decode(FREEZE_PLANS | REDIRECTIONS | DEAD_ITEMS | UNUSED_ITEMS, &data).unwrap();
        let expected = PruneLists { redirected: vec![[3, 4]], dead: vec![5, 6], unused: vec![7], frozen: vec![8, 9] };
        assert_eq!(lists, expected);
        for cut in 0..data.len() {
            let flags = FREEZE_PLANS | REDIRECTIONS | DEAD_ITEMS | UNUSED_ITEMS;
            assert_eq!(PruneLists::decode(flags, &data[..cut]), None, "{cut} bytes");
        }
    }

    /// Records of `pg_waldump`: `CLEAN` of 13 and `PRUNE` of 16 with `nredirected: 1, ndead: 2` and one unused item.
    #[test]
    fn lists_of_servers_to_16_follow_each_other() {
        let main = [7, 0, 0, 0, 1, 0, 2, 0];
        let data = bytes(&[3, 4, 5, 6, 7]);
        let cleaned = PruneLists { redirected: vec![[3, 4]], dead: vec![5, 6], unused: vec![7], frozen: vec![] };
        for major in [Major::V10, Major::V13, Major::V14, Major::V16] {
            assert_eq!(lists(major, 0x10, &main, &data).as_ref(), Some(&cleaned), "{major:?}");
            assert_eq!(lists(major, 0x10, &main, &data[..6]), None);
            assert_eq!(lists(major, 0x10, &main[..6], &data), None);
        }
        let unused = PruneLists { unused: vec![3, 4], ..PruneLists::default() };
        assert_eq!(lists(Major::V14, 0x20, &[2, 0], &data[..4]), Some(unused));
        assert_eq!(lists(Major::V14, 0x20, &[3, 0], &data[..4]), None);
    }

    #[test]
    fn rows_are_frozen_one_by_one_or_by_plans() {
        let frozen = |items: &[u16]| Some(PruneLists { frozen: items.to_vec(), ..PruneLists::default() });
        let main = [7, 0, 0, 0, 2, 0, 1, 0];
        let rows = bytes(&[0, 0, 8, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
        for (major, info) in [(Major::V10, 0x20), (Major::V13, 0x20), (Major::V14, 0x30), (Major::V15, 0x30)] {
            assert_eq!(lists(major, info, &main, &rows), frozen(&[8, 9]), "{major:?}");
            assert_eq!(lists(major, info, &main, &rows[..16]), None);
        }
        let plans = bytes(&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 8, 9, 10]);
        assert_eq!(lists(Major::V16, 0x30, &main, &plans), frozen(&[8, 9, 10]));
        assert_eq!(lists(Major::V16, 0x30, &main, &plans[..28]), None);
        // CLEANUP_INFO of 13 names no page.
        assert_eq!(lists(Major::V13, 0x30, &main, &rows), None);
    }

    #[test]
    fn without_flags_there_are_no_lists() {
        assert_eq!(PruneLists::decode(0x0F, &[1, 2, 3]), Some(PruneLists::default()));
    }

    #[test]
    fn flags_moved_in_19() {
        assert_eq!(PruneLists::flags_of(Major::V17, &[2, 0x40]), Some(0x40));
        assert_eq!(PruneLists::flags_of(Major::V19, &[0x40, 2]), Some(0x40));
        assert_eq!(PruneLists::flags_of(Major::V18, &[2]), None);
        assert_eq!(PruneLists::flags_of(Major::V16, &[2, 0x40]), None);
    }
}
