//! The lists of items in records that prune and freeze a page of a table, from 17 on.

use super::version::{Major, PruneRecords};
use crate::parsers::decode::u16_at;

/// Bytes of a plan of freezing: `xlhp_freeze_plan`.
const PLAN_BYTES: usize = 12;
/// Where the number of items stands in it.
const PLAN_COUNT_AT: usize = 10;

/// Flags of `xl_heap_prune` that say which lists there are, `src/include/access/heapam_xlog.h`.
const FREEZE_PLANS: u8 = 1 << 4;
const REDIRECTIONS: u8 = 1 << 5;
const DEAD_ITEMS: u8 = 1 << 6;
const UNUSED_ITEMS: u8 = 1 << 7;

/// Item numbers by what becomes of the items.
///
/// Source: `heap_xlog_deserialize_prune_and_freeze`, `src/backend/access/rmgrdesc/heapdesc.c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneLists {
    /// Item, and the item that it leads to from now on.
    pub redirected: Vec<[u16; 2]>,
    /// Items that become dead.
    pub dead: Vec<u16>,
    /// Items that become unused.
    pub unused: Vec<u16>,
    /// Items whose rows are frozen.
    pub frozen: Vec<u16>,
}

impl PruneLists {
    /// The flags that name lists, of a record's main data; `None` before 17, whose records have none.
    #[must_use]
    pub fn flags_of(major: Major, main: &[u8]) -> Option<u8> {
        match major.facts().prune {
            PruneRecords::To13 | PruneRecords::To16 => None,
            // A byte with the reason stands before a byte of flags.
            PruneRecords::To18 => main.get(1).copied(),
            PruneRecords::Since19 => main.first().copied(),
        }
    }

    /// The lists that `flags` names in the block's data; `None` when it ends before them.
    #[must_use]
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
fn numbers(data: &[u8], at: usize, count: usize) -> Option<Vec<u16>> {
    let bytes = data.get(at..at.saturating_add(count.saturating_mul(2)))?;
    Some(bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
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
