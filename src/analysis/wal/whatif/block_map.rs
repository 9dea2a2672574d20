//! What is known of each block that was touched: 16 bytes a block, and what a hash table needs besides.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::types::{BlockNumber, Lsn};

/// Parts of the table, so that no more than one of them grows at a time.
const SHARDS: usize = 64;

/// Bits of an LSN that are always 0: records start at multiples of 8.
const ALIGNED_BITS: u32 = 3;
/// Bits that an LSN takes: enough for the first 128 TiB of WAL.
const LSN_BITS: u32 = 44;
const LSN_MASK: u64 = (1 << LSN_BITS) - 1;
/// Bits that the bytes of an image take.
const IMAGE_MASK: u64 = (1 << 16) - 1;
const MAYBE: u64 = 1 << 60;

/// What is known of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockState(u64);

impl BlockState {
    /// Start of the last record that is sure to have set the page's LSN.
    pub(super) const fn touched_at(self) -> Option<Lsn> {
        match self.0 & LSN_MASK {
            0 => None,
            lsn => Some(Lsn(lsn << ALIGNED_BITS)),
        }
    }

    /// A record after that may have set the LSN too.
    pub(super) const fn maybe_later(self) -> bool {
        self.0 & MAYBE != 0
    }

    /// Bytes of an image for hint bits, after which nothing else is known to have changed the page.
    pub(super) fn hint_bytes(self) -> Option<u64> {
        Some(self.0 >> LSN_BITS & IMAGE_MASK).filter(|bytes| *bytes > 0)
    }

    /// A record at `lsn` is sure to have set the page's LSN.
    pub(super) const fn touched(lsn: Lsn) -> Self {
        let lsn = lsn.0 >> ALIGNED_BITS;
        Self(if lsn > LSN_MASK { LSN_MASK } else { lsn })
    }

    /// So many bytes of image were written for hint bits.
    pub(super) fn with_hint(self, bytes: u16) -> Self {
        Self(self.0 | u64::from(bytes) << LSN_BITS)
    }

    /// A record may have set the page's LSN.
    pub(super) const fn maybe_touched(self) -> Self {
        Self(self.0 | MAYBE)
    }
}

/// The blocks, by number of their fork and block number.
#[derive(Debug)]
pub(super) struct BlockMap {
    shards: Vec<FxHashMap<u64, BlockState>>,
}

impl BlockMap {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| FxHashMap::default()).collect() }
    }

    /// The state of a block, made where there is none.
    #[inline(always)]
    pub(super) fn entry(&mut self, fork: u32, block: BlockNumber) -> &mut BlockState {
        let key = u64::from(fork) << 32 | u64::from(block);
        // The bits in the middle: the table uses those at both ends.
        let shard = usize::try_from(FxBuildHasher.hash_one(key) >> 28).unwrap_or(0) & SHARDS.saturating_sub(1);
        self.shards[shard].entry(key).or_default()
    }

    /// Forgets the blocks of a fork from `first` on.
    pub(super) fn forget(&mut self, fork: u32, first: BlockNumber) {
        let from = u64::from(fork) << 32;
        let range = from | u64::from(first)..=from | u64::from(BlockNumber::MAX);
        for shard in &mut self.shards {
            shard.retain(|key, _| !range.contains(key));
        }
    }

    /// Shows each block's state.
    pub(super) fn each(&self, mut show: impl FnMut(BlockState)) {
        self.shards.iter().flat_map(FxHashMap::values).for_each(|state| show(*state));
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Blocks that are known.
    pub(super) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_keeps_what_it_is_told() {
        let none = BlockState::default();
        assert_eq!((none.touched_at(), none.hint_bytes(), none.maybe_later()), (None, None, false));
        let state = BlockState::touched(Lsn(0x7FFF_FFFF_FFF8)).with_hint(32_768);
        assert_eq!((state.touched_at(), state.hint_bytes()), (Some(Lsn(0x7FFF_FFFF_FFF8)), Some(32_768)));
        let maybe = state.maybe_touched();
        assert!(maybe.maybe_later() && maybe.touched_at() == state.touched_at());
        assert_eq!(none.maybe_touched().touched_at(), None);
    }

    #[test]
    fn blocks_of_a_fork_are_forgotten_from_the_first_on() {
        let mut map = BlockMap::new();
        for fork in 0..3 {
            for block in (0..1000).chain([u32::MAX]) {
                *map.entry(fork, block) = BlockState::touched(Lsn(8));
            }
        }
        map.forget(1, 600);
        assert_eq!(map.len(), 3003 - 401);
        assert!(map.entry(1, 599).touched_at().is_some() && map.entry(1, 600).touched_at().is_none());
        assert!(map.entry(2, 600).touched_at().is_some() && map.entry(0, u32::MAX).touched_at().is_some());
    }
}
