//! Sets of blocks, compressed, so that distinct blocks can be counted over any amount of WAL.

use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use crate::types::{BlockNumber, RelFileLocator};

type ForkKey = (RelFileLocator, u8);

/// Bytes of memory that a block is assumed to take: a container of the bitmap takes 2 a block or fewer once it has some.
const ASSUMED_BYTES: u64 = 8;

#[derive(Clone, Debug, Default)]
pub struct BlockSet {
    indexes: FxHashMap<ForkKey, usize>,
    bitmaps: Vec<(ForkKey, RoaringBitmap)>,
    last: usize,
    count: u64,
}

impl BlockSet {
    /// Adds a block; true when it was not in the set.
    #[inline]
    pub fn insert(&mut self, rel: RelFileLocator, fork_code: u8, block: BlockNumber) -> bool {
        let fork = (rel, fork_code);
        if self.bitmaps.get(self.last).is_none_or(|(last, _)| *last != fork) {
            self.last = self.index_of(fork);
        }
        let new = self.bitmaps[self.last].1.insert(block);
        self.count = self.count.saturating_add(u64::from(new));
        new
    }

    pub fn remove(&mut self, rel: RelFileLocator, fork_code: u8, block: BlockNumber) {
        let Some(index) = self.indexes.get(&(rel, fork_code)) else { return };
        if self.bitmaps.get_mut(*index).is_some_and(|(_, bitmap)| bitmap.remove(block)) {
            self.count = self.count.saturating_sub(1);
        }
    }

    pub(crate) fn union_with(&mut self, other: &Self) {
        for (fork, bitmap) in &other.bitmaps {
            let index = self.index_of(*fork);
            let own = &mut self.bitmaps[index].1;
            let before = own.len();
            *own |= bitmap;
            self.count = self.count.saturating_add(own.len().saturating_sub(before));
        }
    }

    /// Adds those blocks of another set that are not in `known`.
    pub(crate) fn union_with_others(&mut self, other: &Self, known: &Self) {
        for (fork, bitmap) in &other.bitmaps {
            let known = known.indexes.get(fork).and_then(|index| known.bitmaps.get(*index));
            #[allow(clippy::arithmetic_side_effects, reason = "a difference of sets")]
            let others = known.map_or_else(|| bitmap.clone(), |(_, known)| bitmap - known);
            if !others.is_empty() {
                let index = self.index_of(*fork);
                let own = &mut self.bitmaps[index].1;
                let before = own.len();
                *own |= others;
                self.count = self.count.saturating_add(own.len().saturating_sub(before));
            }
        }
    }

    /// True when some block is in both sets.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        let has_common = |fork: &ForkKey, bitmap: &RoaringBitmap| {
            let others = other.indexes.get(fork).and_then(|index| other.bitmaps.get(*index));
            others.is_some_and(|(_, others)| !bitmap.is_disjoint(others))
        };
        self.bitmaps.iter().any(|(fork, bitmap)| has_common(fork, bitmap))
    }

    /// Removes the blocks of each fork from the one on that `from` gives.
    pub(crate) fn remove_from(&mut self, from: &impl Fn(RelFileLocator, u8) -> Option<BlockNumber>) {
        for ((rel, fork_code), bitmap) in &mut self.bitmaps {
            if let Some(first) = from(*rel, *fork_code) {
                let before = bitmap.len();
                bitmap.remove_range(first..);
                self.count = self.count.saturating_sub(before.saturating_sub(bitmap.len()));
            }
        }
    }

    /// All blocks, those of one fork together and in order.
    pub fn iter(&self) -> impl Iterator<Item = (RelFileLocator, u8, BlockNumber)> + '_ {
        self.bitmaps
            .iter()
            .flat_map(|((rel, fork_code), bitmap)| bitmap.iter().map(move |block| (*rel, *fork_code, block)))
    }

    /// Each fork with the number of its blocks.
    pub fn forks(&self) -> impl Iterator<Item = (RelFileLocator, u8, u64)> + '_ {
        self.bitmaps.iter().map(|((rel, fork_code), bitmap)| (*rel, *fork_code, bitmap.len()))
    }

    pub const fn len(&self) -> u64 {
        self.count
    }

    /// True when the set has no block.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Memory that the set takes, in bytes, by a cautious guess.
    pub(crate) const fn approximate_bytes(&self) -> u64 {
        self.count.saturating_mul(ASSUMED_BYTES)
    }

    fn index_of(&mut self, fork: ForkKey) -> usize {
        let next = self.bitmaps.len();
        let index = *self.indexes.entry(fork).or_insert(next);
        if index == next {
            self.bitmaps.push((fork, RoaringBitmap::new()));
        }
        index
    }
}

/// Entries of the memory for blocks seen of late; a power of two.
const RECENT: usize = 1024;

/// Remembers blocks that were met of late: records come back to the same few, and asking here costs less than the set.
#[derive(Debug)]
pub struct RecentBlocks {
    seen: Box<[Option<(ForkKey, BlockNumber)>]>,
}

impl RecentBlocks {
    /// True unless this block is known to have been asked for since the last [`Self::clear`].
    #[inline]
    pub fn is_new(&mut self, rel: RelFileLocator, fork_code: u8, block: BlockNumber) -> bool {
        let Some(known) = self.seen.get_mut(Self::slot_of(rel, fork_code, block)) else { return true };
        let own = Some(((rel, fork_code), block));
        let is_new = *known != own;
        if is_new {
            *known = own;
        }
        is_new
    }

    pub(crate) fn forget(&mut self, rel: RelFileLocator, fork_code: u8, block: BlockNumber) {
        let known = self.seen.get_mut(Self::slot_of(rel, fork_code, block));
        if let Some(known) = known.filter(|known| **known == Some(((rel, fork_code), block))) {
            *known = None;
        }
    }

    #[inline]
    fn slot_of(rel: RelFileLocator, fork_code: u8, block: BlockNumber) -> usize {
        const SPREAD: u32 = 0x9E37_79B1;
        let mixed = (rel.rel_number.rotate_left(16) ^ block ^ u32::from(fork_code)).wrapping_mul(SPREAD);
        usize::try_from(mixed >> u32::BITS.saturating_sub(RECENT.ilog2())).unwrap_or(0)
    }

    pub fn clear(&mut self) {
        self.seen.fill(None);
    }
}

impl Default for RecentBlocks {
    fn default() -> Self {
        Self { seen: vec![None; RECENT].into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_once_over_relations_and_forks() {
        let rel = |rel_number| RelFileLocator { spc_oid: 1, db_oid: 2, rel_number };
        let mut set = BlockSet::default();
        assert!(set.insert(rel(1), 0, 7) && set.insert(rel(1), 1, 7) && set.insert(rel(2), 0, 7));
        assert!(!set.insert(rel(1), 0, 7));
        let mut other = BlockSet::default();
        assert!(other.insert(rel(2), 0, 7) && other.insert(rel(2), 0, u32::MAX) && other.insert(rel(3), 0, 0));
        set.union_with(&other);
        assert_eq!(set.len(), 5);
    }

    #[test]
    fn removed_blocks_are_new_again() {
        let rel = |rel_number| RelFileLocator { spc_oid: 1, db_oid: 2, rel_number };
        let mut set = BlockSet::default();
        for (number, fork_code, block) in [(1, 0, 3), (1, 0, 7), (1, 0, u32::MAX), (1, 1, 9), (2, 0, 8)] {
            assert!(set.insert(rel(number), fork_code, block));
        }
        set.remove_from(&|other, fork_code| (other == rel(1) && fork_code == 0).then_some(7));
        assert_eq!(set.iter().collect::<Vec<_>>(), [(rel(1), 0, 3), (rel(1), 1, 9), (rel(2), 0, 8)]);
        assert_eq!(set.len(), 3);
        assert!(set.insert(rel(1), 0, 7) && !set.insert(rel(1), 0, 3));
    }

    #[test]
    fn blocks_seen_of_late_are_never_mistaken_for_others() {
        let mut recent = RecentBlocks::default();
        let mut set = BlockSet::default();
        let mut seen = std::collections::BTreeSet::new();
        for step in 0_u32..40_000 {
            let number = step.wrapping_mul(2_654_435_761) >> 15;
            let rel = RelFileLocator { spc_oid: 1, db_oid: number & 1, rel_number: number & 6 };
            let (fork_code, block) = ((number >> 3 & 1) as u8, number >> 4 & 2047);
            let is_new = seen.insert((rel, fork_code, block));
            assert!(recent.is_new(rel, fork_code, block) || !is_new);
            set.insert(rel, fork_code, block);
            if step == 20_000 {
                recent.clear();
                seen.clear();
            }
        }
        assert!(!seen.is_empty());
    }
}
