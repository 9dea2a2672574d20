//! Blocks that were changed, each once in a checkpoint interval: about what goes through a double write buffer.
//!
//! The last change that is sure to have set a page's LSN says of most blocks whether they were met in the open interval;
//! a set holds the others. Blocks that were changed before a gap count again only after the next redo point that is known,
//! so that WAL that is missing never makes the number larger.
//!
//! Up to 16 a redo point is known only when its checkpoint is done. Until then it is counted how many blocks were changed
//! on both sides of each place where it may lie.

use rustc_hash::FxHashMap;

use super::touches::BlockState;
use crate::analysis::wal::block_map::key_of;
use crate::types::{BlockNumber, Lsn};

#[derive(Debug)]
pub(crate) struct Dirtied {
    blocks: u64,
    /// The last change of blocks that were changed in the open interval, where their state does not tell it.
    others: FxHashMap<u64, Lsn>,
    /// Blocks changed on both sides of places; `None` where redo points are known as they stand.
    straddling: Option<Straddling>,
}

impl Dirtied {
    /// None yet. `marks_redo`: redo points are marked where they stand.
    pub(crate) fn new(marks_redo: bool) -> Self {
        let straddling = (!marks_redo).then(Straddling::default);
        Self { blocks: 0, others: FxHashMap::default(), straddling }
    }

    pub(crate) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// When the state says that the block was changed after `redo_lsn`, otherwise than by being logged as a whole.
    fn met_at(state: BlockState, redo_lsn: Lsn) -> Option<Lsn> {
        state.touched_at().filter(|at| *at >= redo_lsn && !state.is_logged_whole())
    }

    /// Takes a change at `at`: of a page logged as a whole, and sure to set the LSN or not. `old`: what was known of the
    /// block, and the redo point. False when nothing but records that log the page as a whole has changed it so far.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        (fork, block): (u32, BlockNumber),
        at: Lsn,
        is_new_page: bool,
        is_sure: bool,
        (old, redo_lsn): (BlockState, Lsn),
    ) -> bool {
        let by_state = Self::met_at(old, redo_lsn);
        let met_at = match by_state {
            // Where redo points are known as they stand, it does not matter when it was.
            Some(_) if self.straddling.is_none() => by_state,
            _ if self.others.is_empty() => by_state,
            _ => by_state.max(self.others.get(&key_of(fork, block)).copied()),
        };
        if is_new_page && met_at.is_none() {
            return false;
        }
        match met_at {
            Some(before) => {
                if let Some(straddling) = &mut self.straddling {
                    straddling.add(before, at);
                }
            }
            None => self.blocks = self.blocks.saturating_add(1),
        }
        if !is_sure && (by_state.is_none() || self.straddling.is_some()) {
            self.others.insert(key_of(fork, block), at);
        }
        true
    }

    /// The redo point of the interval that is open from now on.
    pub(crate) fn redo_point(&mut self, redo_lsn: Lsn) {
        self.others.retain(|_, at| *at >= redo_lsn);
        if let Some(straddling) = &mut self.straddling {
            self.blocks = self.blocks.saturating_add(straddling.pass(redo_lsn));
        }
    }

    /// What was known of a block is forgotten, though its interval may continue.
    pub(crate) fn forget(&mut self, key: u64, state: BlockState, redo_lsn: Option<Lsn>) {
        if let Some(at) = Self::met_at(state, redo_lsn.unwrap_or_default()) {
            self.others.insert(key, at);
        }
    }

    /// A run ends: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self) {
        self.straddling = self.straddling.take().map(|_| Straddling::default());
    }
}

/// Steps of WAL, before they become twice as long.
const MAX_STEPS: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Bits of an LSN inside of the first steps: 1 kB.
const STEP_BITS: u32 = 10;

/// How many blocks were changed before and after each place since the redo point, with no change between.
#[derive(Debug)]
struct Straddling {
    bits: u32,
    latest: Lsn,
    first: u64,
    carried: i64,
    steps: Vec<i64>,
}

impl Default for Straddling {
    fn default() -> Self {
        Self { bits: STEP_BITS, latest: Lsn::INVALID, first: 0, carried: 0, steps: Vec::new() }
    }
}

impl Straddling {
    const fn step_of(&self, lsn: Lsn) -> u64 {
        match lsn.0.checked_shr(self.bits) {
            Some(step) => step,
            None => 0,
        }
    }

    #[inline(always)]
    fn add(&mut self, before: Lsn, at: Lsn) {
        if self.step_of(before) < self.step_of(at) {
            self.add_pair(before, at);
        }
    }

    fn add_pair(&mut self, before: Lsn, at: Lsn) {
        self.latest = at;
        if self.steps.is_empty() {
            self.first = self.step_of(before);
        }
        while self.step_of(at).saturating_sub(self.first) >= MAX_STEPS as u64 {
            self.coarsen();
        }
        for (lsn, more) in [(before, 1), (at, -1)] {
            let index = self.step_of(lsn).saturating_add(1).saturating_sub(self.first);
            let Ok(index) = usize::try_from(index) else { continue };
            if self.steps.len() <= index {
                self.steps.resize(index.saturating_add(1), 0);
            }
            if let Some(step) = self.steps.get_mut(index) {
                *step = step.saturating_add(more);
            }
        }
    }

    fn coarsen(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        let first = self.first;
        (self.bits, self.first) = (self.bits.saturating_add(1), first >> 1);
        for (step, more) in (first..).zip(steps) {
            let index = usize::try_from((step >> 1).saturating_sub(self.first)).unwrap_or(usize::MAX);
            if self.steps.len() == index {
                self.steps.push(0);
            }
            if let Some(sum) = self.steps.get_mut(index) {
                *sum = sum.saturating_add(more);
            }
        }
    }

    /// Blocks that were changed on both sides of `redo_lsn`, up to which pairs are forgotten then.
    fn pass(&mut self, redo_lsn: Lsn) -> u64 {
        let passed = usize::try_from(self.step_of(redo_lsn).saturating_sub(self.first)).unwrap_or(usize::MAX);
        let passed = passed.min(self.steps.len());
        let before: i64 = self.steps.drain(..passed).sum();
        self.carried = self.carried.saturating_add(before);
        self.first = self.first.saturating_add(passed as u64);
        let here = self.steps.first().copied().unwrap_or_default();
        match self.latest {
            // At the redo point of a shutdown nothing comes after it yet.
            latest if latest < redo_lsn => 0,
            _ => u64::try_from(self.carried.saturating_add(here)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn straddling(pairs: &[(u64, u64)]) -> Straddling {
        let mut straddling = Straddling::default();
        pairs.iter().for_each(|(before, at)| straddling.add(Lsn(before << 10), Lsn(at << 10)));
        straddling
    }

    #[test]
    fn blocks_changed_on_both_sides_of_a_redo_point_are_counted() {
        let pairs = [(100, 103), (100, 104), (103, 104), (104, 109), (108, 112)];
        for (redo, expected) in [(99, 0), (101, 2), (103, 2), (104, 2), (105, 1), (109, 2), (112, 1), (113, 0)] {
            assert_eq!(straddling(&pairs).pass(Lsn(redo << 10)), expected, "{redo}");
        }
        // One redo point after the other: each knows only of what follows the one before.
        let mut both = straddling(&pairs);
        assert_eq!(both.pass(Lsn(104 << 10)), 2);
        both.add(Lsn(112 << 10), Lsn(120 << 10));
        assert_eq!((both.pass(Lsn(110 << 10)), both.pass(Lsn(115 << 10)), both.pass(Lsn(121 << 10))), (1, 1, 0));
    }

    #[test]
    fn long_intervals_have_longer_steps_and_lose_no_block() {
        let pairs: Vec<(u64, u64)> = (0..1000).map(|number| (1000 + number, 3000 + number)).collect();
        let mut long = straddling(&pairs);
        assert!(long.steps.len() <= MAX_STEPS + 1 && long.bits > STEP_BITS, "{} {}", long.steps.len(), long.bits);
        assert_eq!(long.pass(Lsn(2500 << 10)), 1000);
        let half = straddling(&pairs).pass(Lsn(3500 << 10));
        assert!((450..=550).contains(&half), "{half}");
    }

    /// A block that is changed before and after a gap counts once, as long as no redo point is known to lie between.
    #[test]
    fn block_counts_again_only_after_a_redo_point() {
        for marks_redo in [false, true] {
            let (mut dirtied, none) = (Dirtied::new(marks_redo), (BlockState::default(), Lsn::INVALID));
            let state = BlockState::touched(Lsn(800));
            assert!(dirtied.take((0, 7), Lsn(800), false, true, none));
            assert!(dirtied.take((0, 8), Lsn(800), false, false, none));
            assert!(dirtied.take((0, 8), Lsn(808), false, false, none));
            dirtied.forget(key_of(0, 7), state, None);
            dirtied.end_run();
            assert!(dirtied.take((0, 7), Lsn(80_000), false, true, none));
            assert!(dirtied.take((0, 8), Lsn(80_000), false, false, none));
            assert_eq!(dirtied.blocks(), 2);
            dirtied.redo_point(Lsn(90_000));
            assert!(dirtied.take((0, 7), Lsn(90_008), false, true, (BlockState::touched(Lsn(80_000)), Lsn(90_000))));
            assert_eq!(dirtied.blocks(), 3, "{marks_redo}");
            // A page that is logged as a whole passes the buffer by, until something else changes it.
            assert!(!dirtied.take((0, 9), Lsn(90_016), true, true, (BlockState::default(), Lsn(90_000))));
            let whole = BlockState::touched(Lsn(90_016)).logged_whole();
            assert!(dirtied.take((0, 9), Lsn(90_024), false, true, (whole, Lsn(90_000))));
            assert_eq!(dirtied.blocks(), 4);
        }
    }
}
