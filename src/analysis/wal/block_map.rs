//! A value for each of many blocks. With values of 8 bytes, a block takes 16 bytes plus the overhead of a hash table: less
//! than 40 in all.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::types::{BlockNumber, RelFileLocator};

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

/// The key of a block of the fork with this number.
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
