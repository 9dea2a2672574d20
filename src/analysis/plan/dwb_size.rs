//! How large a double write buffer must be: distinct blocks that are dirtied in each checkpoint interval.
//!
//! Each of them goes through the buffer once, a page that is evicted and changed again each time, and one that is changed
//! again before a checkpoint writes it once for two intervals. Where more go through than there are slots, the first images
//! are overwritten while their pages may not have reached the disk.

use strum::IntoStaticStr;

use crate::analysis::wal::block_set::{BlockSet, RecentBlocks};
use crate::analysis::wal::hidden_redo::{HiddenRedo, RedoInForce};
use crate::analysis::wal::segment::Visitor;
use crate::analysis::wal::stretch::Stretch;
use crate::parsers::dwb::{DwbLayout, LAYOUTS};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::types::Lsn;

/// Smallest size that is proposed, in MB: that of the server's own header file.
const SMALLEST_MB: u32 = 16;
/// Largest value of `double_write_buffer_size`, in MB.
pub(crate) const LARGEST_MB: u32 = 1024;

/// Blocks that were dirtied in one checkpoint interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtiedInterval {
    /// Its redo point; `None`: it began before the WAL that was read, or at one that is hidden.
    pub redo_lsn: Option<Lsn>,
    /// Between which addresses its redo point lies, where no record names it.
    pub hidden: Option<HiddenRedo>,
    /// Where it ends; before a redo point that is hidden, the earliest that can be.
    pub end_lsn: Lsn,
    /// Distinct blocks. Those that were changed where a hidden redo point may lie belong to no interval for sure, and count
    /// in none.
    pub blocks: u64,
    pub is_whole: bool,
}

/// Blocks of one segment, cut at redo points. Pages that are logged as a whole are left out: bulk writes, which pass the
/// buffer by.
#[derive(Debug)]
pub(crate) struct DirtyBlocks<'a> {
    cuts: &'a [DirtyCut],
    recent: RecentBlocks,
    pub records: u64,
    /// Where each part begins, unless that is the start of the segment, and its blocks.
    pub parts: Vec<(Option<DirtyCut>, BlockSet)>,
}

/// A place where the count of blocks starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyCut {
    Redo(Lsn),
    MayBegin(Lsn),
    Hidden(HiddenRedo),
}

impl DirtyCut {
    /// Places to cut at for redo points, which ascend.
    pub fn at(redo_points: &[RedoInForce]) -> Vec<Self> {
        let cuts = redo_points.iter().flat_map(|redo| match redo.hidden() {
            Some(hidden) => [Some(Self::MayBegin(hidden.after)), Some(Self::Hidden(hidden))],
            None => [Some(Self::Redo(redo.latest)), None],
        });
        cuts.flatten().collect()
    }

    const fn lsn(self) -> Lsn {
        match self {
            Self::Redo(lsn) | Self::MayBegin(lsn) => lsn,
            Self::Hidden(hidden) => hidden.before,
        }
    }
}

impl<'a> DirtyBlocks<'a> {
    /// `cuts`: ascending; those up to `start_lsn` do not count.
    pub fn of_segment(stretch: &Stretch<'_>, index: usize, cuts: &'a [DirtyCut]) -> Self {
        Self::new(cuts, stretch.set.segments()[index].start_lsn.max(stretch.start_lsn))
    }

    /// `cuts`: ascending; those up to `start_lsn` do not count.
    fn new(cuts: &'a [DirtyCut], start_lsn: Lsn) -> Self {
        let cuts = cuts.split_at(cuts.partition_point(|cut| cut.lsn() < start_lsn)).1;
        Self { cuts, recent: RecentBlocks::default(), records: 0, parts: vec![(None, BlockSet::default())] }
    }
}

impl Visitor for DirtyBlocks<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.records = self.records.saturating_add(1);
        while let Some((cut, rest)) = self.cuts.split_first().filter(|(cut, _)| cut.lsn() <= record.start_lsn) {
            self.parts.push((Some(*cut), BlockSet::default()));
            self.recent.clear();
            self.cuts = rest;
        }
        if record.layout.block_count == 0 || record.kind() == RecordKind::XlogFpi {
            return;
        }
        let Some((_, blocks)) = self.parts.last_mut() else { return };
        for (_, block) in record.block_heads() {
            if self.recent.is_new(block.rel, block.fork_code(), block.block) {
                blocks.insert(block.rel, block.fork_code(), block.block);
            }
        }
    }
}

/// Puts the parts of segments together to intervals.
#[derive(Debug, Default)]
pub(crate) struct DirtyFold {
    begun: Option<DirtyCut>,
    open: BlockSet,
    done: Vec<DirtiedInterval>,
}

impl DirtyFold {
    pub fn push(&mut self, parts: &[(Option<DirtyCut>, BlockSet)]) {
        for (cut, blocks) in parts {
            if let Some(cut) = cut {
                self.close(cut.lsn(), matches!(cut, DirtyCut::Redo(_)));
                self.begun = Some(*cut);
            }
            self.open.union_with(blocks);
        }
    }

    /// Ends a run: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, end_lsn: Lsn) {
        self.close(end_lsn, false);
        self.begun = None;
    }

    fn close(&mut self, end_lsn: Lsn, at_redo: bool) {
        let blocks = std::mem::take(&mut self.open).len();
        let (redo_lsn, hidden) = match self.begun.take() {
            None => (None, None),
            Some(DirtyCut::Redo(redo_lsn)) => (Some(redo_lsn), None),
            Some(DirtyCut::Hidden(hidden)) => (None, Some(hidden)),
            Some(DirtyCut::MayBegin(_)) => return,
        };
        if blocks > 0 || redo_lsn.is_some() || hidden.is_some() {
            let is_whole = redo_lsn.is_some() && at_redo;
            self.done.push(DirtiedInterval { redo_lsn, hidden, end_lsn, blocks, is_whole });
        }
    }

    pub fn finish(self) -> Vec<DirtiedInterval> {
        self.done
    }
}

/// How many blocks were dirtied in an interval, over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtySummary {
    /// Whole intervals, or incomplete ones when no interval is whole.
    pub intervals: u64,
    pub peak: u64,
    /// So many or fewer in 95 of 100 intervals.
    pub p95: u64,
    pub mean: u64,
    /// Most blocks of an interval that is not whole; it had so many at least.
    pub peak_of_partial: u64,
}

impl DirtySummary {
    /// Over these intervals. Without a whole one those that are not are taken.
    pub fn of(intervals: &[DirtiedInterval]) -> Self {
        let partial = || intervals.iter().filter(|interval| !interval.is_whole);
        let mut blocks: Vec<u64> =
            intervals.iter().filter(|interval| interval.is_whole).map(|interval| interval.blocks).collect();
        if blocks.is_empty() {
            blocks = partial().map(|interval| interval.blocks).collect();
        }
        blocks.sort_unstable();
        let count = blocks.len();
        // The smallest number that 95 of 100 do not exceed.
        let at = count.saturating_mul(95).div_ceil(100).saturating_sub(1);
        let sum = blocks.iter().fold(0_u64, |sum, blocks| sum.saturating_add(*blocks));
        Self {
            intervals: count as u64,
            peak: blocks.last().copied().unwrap_or_default(),
            p95: blocks.get(at).copied().unwrap_or_default(),
            mean: sum.checked_div(count as u64).unwrap_or_default(),
            peak_of_partial: partial().map(|interval| interval.blocks).max().unwrap_or_default(),
        }
    }
}

/// What one layout needs so that an interval with so many blocks does not wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutNeed {
    pub layout: &'static str,
    pub blocks: u64,
    /// The smallest `double_write_buffer_size` that has as many slots, in MB; `None`: not even the largest has.
    pub setting_mb: Option<u32>,
    /// Slots under that setting, or under the largest.
    pub slots: u64,
}

fn slots_of(layout: &dyn DwbLayout, setting_mb: u32, block_size: u32) -> Option<u64> {
    layout.ring(setting_mb, block_size).map(|ring| ring.files.saturating_mul(ring.slots_per_file))
}

/// What each layout that has a setting needs for so many blocks.
pub fn needs(blocks: u64, block_size: u32) -> Vec<LayoutNeed> {
    let need = |layout: &&'static dyn DwbLayout| {
        let slots = |setting_mb| slots_of(*layout, setting_mb, block_size);
        let fits = (SMALLEST_MB..=LARGEST_MB).find(|mb| slots(*mb).is_some_and(|slots| slots >= blocks));
        let slots = slots(fits.unwrap_or(LARGEST_MB))?;
        Some(LayoutNeed { layout: layout.name(), blocks, setting_mb: fits, slots })
    };
    LAYOUTS.iter().filter_map(need).collect()
}

/// How often a buffer of one layout and size would have wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeTrial {
    pub layout: &'static str,
    /// `double_write_buffer_size`, in MB.
    pub setting_mb: u32,
    pub slots: u64,
    /// Intervals with more blocks than slots, those that are not whole included.
    pub wrapped: u64,
    pub of: u64,
}

pub(crate) fn trials(intervals: &[DirtiedInterval], sizes_mb: &[u32], block_size: u32) -> Vec<SizeTrial> {
    let trial = |layout: &'static dyn DwbLayout, setting_mb: u32| {
        let slots = slots_of(layout, setting_mb, block_size)?;
        let wrapped = intervals.iter().filter(|interval| interval.blocks > slots).count() as u64;
        Some(SizeTrial { layout: layout.name(), setting_mb, slots, wrapped, of: intervals.len() as u64 })
    };
    LAYOUTS.iter().flat_map(|layout| sizes_mb.iter().filter_map(|mb| trial(*layout, *mb))).collect()
}

/// Whether the buffer of a cluster has overwritten images of its current batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum BufferWrap {
    NoBuffer,
    /// Its slots are used again only after their pages are durable: it cannot.
    Never,
    /// The current batch reaches from the first slot to the last: very probably it has.
    Likely,
    /// The current batch ends before the last slot.
    No,
    /// No slot is known to belong to the current batch: nothing shows it.
    Unknown,
}

impl BufferWrap {
    pub fn code(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(blocks: u64, is_whole: bool) -> DirtiedInterval {
        DirtiedInterval { redo_lsn: Some(Lsn(8)), hidden: None, end_lsn: Lsn(16), blocks, is_whole }
    }

    #[test]
    fn intervals_that_are_not_whole_do_not_lower_the_mean() {
        let whole: Vec<_> = (1..=100).map(|blocks| interval(blocks, true)).chain([interval(7, false)]).collect();
        let expected = DirtySummary { intervals: 100, peak: 100, p95: 95, mean: 50, peak_of_partial: 7 };
        assert_eq!(DirtySummary::of(&whole), expected);
        let one = DirtySummary { intervals: 1, peak: 7, p95: 7, mean: 7, peak_of_partial: 7 };
        assert_eq!(DirtySummary::of(&whole[100..]), one);
        assert_eq!(DirtySummary::of(&[]).peak, 0);
    }

    /// Slots by the tables of the patch: 64 MB has 8152 in revision B, 8144 in A, 5460 in C; 1 GB has 130,432 in B.
    #[test]
    fn smallest_setting_is_found_by_the_tables_of_the_patch() {
        let of =
            |blocks| needs(blocks, 8192).into_iter().map(|need| (need.layout, need.setting_mb)).collect::<Vec<_>>();
        let (fits_64, fits_65) = (of(8144), of(8153));
        assert!(fits_64.contains(&("B", Some(64))) && fits_64.contains(&("A", Some(64))));
        assert!(fits_65.iter().all(|(_, mb)| mb.is_some_and(|mb| mb > 64)));
        assert!(of(130_433).contains(&("B", None)) && of(1).iter().all(|(_, mb)| *mb == Some(16)));
        let tried = trials(&[interval(8152, true), interval(8153, true), interval(5461, false)], &[64], 8192);
        let wrapped: Vec<_> = tried.iter().map(|trial| (trial.layout, trial.slots, trial.wrapped, trial.of)).collect();
        assert_eq!(wrapped, [("B", 8152, 1, 3), ("A", 8144, 2, 3), ("C", 5460, 3, 3)]);
    }
}
