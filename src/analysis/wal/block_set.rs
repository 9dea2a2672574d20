//! Sets of blocks, compressed, so that distinct blocks can be counted over any amount of WAL.
//! Also here: a value for each of many blocks; with values of 8 bytes, a block takes 16 bytes plus the
//! overhead of a hash table: less than 40 in all.

use std::hash::BuildHasher;

use roaring::RoaringBitmap;
use rustc_hash::{FxBuildHasher, FxHashMap};

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

    pub(crate) fn contains(&self, rel: RelFileLocator, fork_code: u8, block: BlockNumber) -> bool {
        let index = self.indexes.get(&(rel, fork_code));
        index.and_then(|index| self.bitmaps.get(*index)).is_some_and(|(_, bitmap)| bitmap.contains(block))
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

/// Parts of the table, so that no more than one of them grows at a time.
const SHARDS: usize = 64;

/// The blocks, by number of their fork and block number.
#[derive(Debug)]
pub(crate) struct BlockMap<V> {
    forks: FxHashMap<(RelFileLocator, u8), u32>,
    shards: Vec<FxHashMap<u64, V>>,
}

impl<V> Default for BlockMap<V> {
    fn default() -> Self {
        Self { forks: FxHashMap::default(), shards: Self::no_blocks() }
    }
}

impl<V> BlockMap<V> {
    fn no_blocks() -> Vec<FxHashMap<u64, V>> {
        (0..SHARDS).map(|_| FxHashMap::default()).collect()
    }

    /// The number of a fork, given where it has none: from 0 on.
    pub(crate) fn fork(&mut self, rel: RelFileLocator, fork_code: u8) -> u32 {
        let next = u32::try_from(self.forks.len()).unwrap_or(u32::MAX);
        *self.forks.entry((rel, fork_code)).or_insert(next)
    }

    pub(crate) fn known_fork(&self, rel: RelFileLocator, fork_code: u8) -> Option<u32> {
        self.forks.get(&(rel, fork_code)).copied()
    }

    /// The value of a block, created when it is missing.
    #[inline(always)]
    pub(crate) fn entry(&mut self, fork: u32, block: BlockNumber) -> &mut V
    where
        V: Default,
    {
        let key = key_of(fork, block);
        self.shards[shard_of(key)].entry(key).or_default()
    }

    /// Sets the value of a block, and gives the one that it had.
    pub(crate) fn insert(&mut self, fork: u32, block: BlockNumber, value: V) -> Option<V> {
        let key = key_of(fork, block);
        self.shards[shard_of(key)].insert(key, value)
    }

    /// Forgets a block, and gives the value that it had.
    pub(crate) fn remove(&mut self, fork: u32, block: BlockNumber) -> Option<V> {
        let key = key_of(fork, block);
        self.shards[shard_of(key)].remove(&key)
    }

    /// Forgets the blocks of a fork from `first` on; `dropped` is shown each with its key.
    pub(crate) fn forget(&mut self, fork: u32, first: BlockNumber, mut dropped: impl FnMut(u64, &V)) {
        let range = key_of(fork, first)..=key_of(fork, BlockNumber::MAX);
        for shard in &mut self.shards {
            shard.retain(|key, value| {
                let goes = range.contains(key);
                if goes {
                    dropped(*key, value);
                }
                !goes
            });
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.shards.iter().flatten().map(|(key, value)| (*key, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Forgets all blocks, and gives the memory back. Forks keep their numbers.
    pub(crate) fn clear(&mut self) {
        self.shards = Self::no_blocks();
    }

    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }
}

#[inline(always)]
pub(crate) fn key_of(fork: u32, block: BlockNumber) -> u64 {
    u64::from(fork) << 32 | u64::from(block)
}

#[inline(always)]
fn shard_of(key: u64) -> usize {
    // The bits in the middle: the table uses those at both ends.
    usize::try_from(FxBuildHasher.hash_one(key) >> 28).unwrap_or(0) & SHARDS.saturating_sub(1)
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

    #[test]
    fn blocks_of_a_fork_are_forgotten_from_the_first_on() {
        let mut map = BlockMap::default();
        for fork in 0..3 {
            for block in (0..1000).chain([u32::MAX]) {
                *map.entry(fork, block) = block;
            }
        }
        let mut dropped = 0;
        map.forget(1, 600, |_, _| dropped += 1);
        assert_eq!(dropped, 401);
        assert_eq!(map.len(), 3003 - 401);
        assert_eq!((map.remove(1, 599), map.remove(1, 600), map.remove(1, 599)), (Some(599), None, None));
        assert_eq!(
            (map.insert(2, 600, 7), map.insert(2, 600, 8), map.remove(0, u32::MAX)),
            (Some(600), Some(7), Some(u32::MAX))
        );
    }

    #[test]
    fn forks_keep_their_numbers_when_blocks_are_forgotten() {
        let rel = |rel_number| RelFileLocator { spc_oid: 1, db_oid: 2, rel_number };
        let mut map = BlockMap::default();
        assert_eq!([map.fork(rel(1), 0), map.fork(rel(1), 2), map.fork(rel(3), 0), map.fork(rel(1), 0)], [0, 1, 2, 0]);
        map.insert(2, 5, 'x');
        map.clear();
        assert_eq!((map.len(), map.known_fork(rel(3), 0), map.known_fork(rel(3), 1)), (0, Some(2), None));
    }

    /// The goal is 40 bytes a block; a table of this kind has between 8/7 and 16/7 places for each entry, and a byte for each
    /// place. Because of the shards all but one have been of their size for long when one grows.
    #[test]
    fn a_block_takes_less_than_forty_bytes() {
        let mut map = BlockMap::<u64>::default();
        for block in 0..1_001_245 {
            map.insert(0, block, 0);
        }
        let capacity: usize = map.shards.iter().map(FxHashMap::capacity).sum();
        let bytes = capacity * 8 / 7 * (size_of::<(u64, u64)>() + 1);
        assert!(bytes < 40 * 1_001_245, "{bytes}");
    }
}
