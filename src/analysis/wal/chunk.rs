//! A stretch of a checkpoint interval that is not over, which may turn out to hold the redo point of the next.

use std::ops::Range;

use super::block_set::BlockSet;
use super::curve::{RecordCurve, TimeCurve};
use super::hidden_redo::ImageHints;
use super::partial::Slice;
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::Lsn;

#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) segments: Range<usize>,
    pub(super) start_lsn: Lsn,
    pub(super) end_lsn: Lsn,
    pub(super) entering: Option<PgTimestamp>,
    pub(super) leaving: Option<PgTimestamp>,
    pub(super) tally: Tally,
    pub(super) by_records: RecordCurve,
    pub(super) by_time: TimeCurve,
    pub(super) blocks: BlockSet,
    pub(super) all_blocks: Option<BlockSet>,
    pub(super) images: ImageHints,
}

impl Chunk {
    /// One without records yet.
    pub(super) fn new(segments: Range<usize>, start_lsn: Lsn, end_lsn: Lsn, entering: Option<PgTimestamp>) -> Self {
        Self { segments, start_lsn, end_lsn, entering, leaving: entering, ..Self::default() }
    }

    /// Adds a slice that was read by itself.
    pub(super) fn add(&mut self, mut slice: Slice) {
        slice.finish();
        self.tally.add(&slice.tally);
        self.by_records.append(&slice.by_records);
        self.by_time.append(&slice.by_time, self.leaving);
        self.leaving = self.leaving.max(slice.latest);
        self.images.append(&slice.images, self.all_blocks.as_ref().unwrap_or(&self.blocks));
        match &mut self.all_blocks {
            Some(all) => slice.all_blocks.iter().for_each(|own| all.union_with(own)),
            all => *all = slice.all_blocks,
        }
        if self.blocks.is_empty() {
            self.blocks = slice.blocks;
        } else {
            self.blocks.union_with(&slice.blocks);
        }
    }

    pub(super) fn append(&mut self, next: &Self) {
        self.segments.end = self.segments.end.max(next.segments.end);
        self.end_lsn = next.end_lsn;
        self.leaving = self.leaving.max(next.leaving);
        self.tally.add(&next.tally);
        self.by_records.append(&next.by_records);
        self.by_time.append(&next.by_time, next.entering);
        self.images.append(&next.images, self.all_blocks.as_ref().unwrap_or(&self.blocks));
        self.blocks.union_with(&next.blocks);
        if let Some((all, own)) = self.all_blocks.as_mut().zip(next.all_blocks.as_ref()) {
            all.union_with(own);
        }
    }

    /// Blocks that were met, those of relations that are not counted included.
    pub(super) fn all_blocks(&self) -> &BlockSet {
        self.all_blocks.as_ref().unwrap_or(&self.blocks)
    }

    pub(super) fn approximate_bytes(&self) -> u64 {
        let all = self.all_blocks.as_ref().map_or(0, BlockSet::approximate_bytes);
        let sets = self.blocks.approximate_bytes().saturating_add(all).saturating_add(self.images.approximate_bytes());
        sets.saturating_add(self.by_time.approximate_bytes())
    }
}
