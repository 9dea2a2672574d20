//! A set of blocks of many relations: one bit for each block of the stretches in which there are any.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::types::{BlockNumber, RelFileLocator};

/// Blocks of one stretch.
const STRETCH: u32 = 1 << 15;
const WORDS: usize = (STRETCH / u64::BITS) as usize;

/// A set of blocks.
#[derive(Debug, Default)]
pub struct BlockSet {
    stretches: FxHashMap<(RelFileLocator, u32), Box<[u64; WORDS]>>,
}

impl BlockSet {
    /// Adds blocks.
    pub fn add(&mut self, rel: RelFileLocator, blocks: Range<BlockNumber>) {
        for block in blocks {
            let words = self.stretches.entry((rel, block / STRETCH)).or_insert_with(|| Box::new([0; WORDS]));
            if let Some(word) = words.get_mut(word_of(block)) {
                *word |= bit_of(block);
            }
        }
    }

    /// True when the block was added.
    #[must_use]
    pub fn holds(&self, rel: RelFileLocator, block: BlockNumber) -> bool {
        let words = self.stretches.get(&(rel, block / STRETCH));
        words.and_then(|words| words.get(word_of(block))).is_some_and(|word| word & bit_of(block) != 0)
    }
}

const fn word_of(block: BlockNumber) -> usize {
    (block % STRETCH / u64::BITS) as usize
}

const fn bit_of(block: BlockNumber) -> u64 {
    1 << (block % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_and_nothing_else() {
        let rel = |rel_number| RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number };
        let mut set = BlockSet::default();
        set.add(rel(1), 63..66);
        set.add(rel(1), STRETCH - 1..STRETCH + 1);
        set.add(rel(2), u32::MAX - 1..u32::MAX);
        let held: Vec<u32> = (0..STRETCH * 2).filter(|block| set.holds(rel(1), *block)).collect();
        assert_eq!(held, [63, 64, 65, STRETCH - 1, STRETCH]);
        assert!(set.holds(rel(2), u32::MAX - 1) && !set.holds(rel(2), u32::MAX) && !set.holds(rel(2), 63));
    }
}
