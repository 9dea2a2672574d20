//! Checkpoint intervals: from redo point to redo point.
//!
//! Up to 16 nothing marks a redo point where it stands: it is known only from the checkpoint record that comes later.
//! The open interval is therefore kept in chunks; when a redo point turns out to lie inside one, that chunk's segments
//! are read again with a cut there.

use std::ops::Range;

use super::block_set::BlockSet;
use super::partial::{CheckpointKind, CheckpointSeen, SegmentCounts, Slice};
use super::tally::{Decay, Tally};
use crate::cluster::wal::WalReadError;
use crate::types::Lsn;

/// Memory that the block sets of open chunks may take before the oldest are merged.
const OPEN_BLOCKS_BYTES: u64 = 16 << 20;

/// Chunks that may be open before the oldest are merged.
const OPEN_CHUNKS: usize = 4096;

/// Parts in which the decay inside an interval is shown.
pub const DECAY_BUCKETS: usize = 8;

/// What began an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalKind {
    /// A checkpoint at shutdown or at the end of recovery.
    Shutdown,
    /// A checkpoint while the server was running.
    Online,
    /// A redo point without a checkpoint record: the checkpoint did not finish, or its record lies after the range.
    Unfinished,
    /// The range or a run of segments begins here; the redo point lies before it and is not known.
    Unknown,
}

impl IntervalKind {
    /// The word for reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::Online => "online",
            Self::Unfinished => "unfinished",
            Self::Unknown => "unknown",
        }
    }
}

/// One interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Redo point; `None` when it is not known.
    pub redo_lsn: Option<Lsn>,
    /// Where counting starts: the redo point, or the start of the range.
    pub start_lsn: Lsn,
    /// Where it ends: the next redo point, or the end of the range.
    pub end_lsn: Lsn,
    /// The checkpoint whose redo point this is.
    pub checkpoint: Option<CheckpointSeen>,
    /// What began it.
    pub kind: IntervalKind,
    /// Counts.
    pub tally: Tally,
    /// Distinct blocks that records of the interval refer to.
    pub distinct_blocks: u64,
    /// Share of images in equal parts of the interval.
    pub decay: Vec<Option<f64>>,
}

impl Interval {
    /// Bytes of WAL from its start to its end, page headers and padding included.
    #[must_use]
    pub fn wal_bytes(&self) -> u64 {
        self.end_lsn.bytes_since(self.start_lsn).unwrap_or(0)
    }
}

/// A stretch of the open interval.
#[derive(Debug, Default)]
struct Chunk {
    segments: Range<usize>,
    start_lsn: Lsn,
    end_lsn: Lsn,
    tally: Tally,
    decay: Decay,
    blocks: BlockSet,
}

impl Chunk {
    fn of(segments: Range<usize>, slice: Slice, end_lsn: Lsn) -> Self {
        let Slice { start_lsn, tally, decay, blocks } = slice;
        Self { segments, start_lsn, end_lsn, tally, decay, blocks }
    }

    fn append(&mut self, next: &Self) {
        self.segments.end = self.segments.end.max(next.segments.end);
        self.end_lsn = next.end_lsn;
        self.tally.add(&next.tally);
        self.decay.append(&next.decay);
        self.blocks.union_with(&next.blocks);
    }
}

/// Reads segments again with cuts; returns their slices in order.
pub type Rescan<'a> = &'a mut dyn FnMut(Range<usize>, &[Lsn]) -> Result<Vec<Slice>, WalReadError>;

/// Folds segments into intervals.
#[derive(Debug)]
pub struct IntervalFold {
    redo_lsn: Option<Lsn>,
    checkpoint: Option<CheckpointSeen>,
    chunks: Vec<Chunk>,
    done: Vec<Interval>,
}

impl IntervalFold {
    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { redo_lsn: None, checkpoint: None, chunks: Vec::new(), done: Vec::new() }
    }

    /// Takes the next segment of a run. `end_lsn`: where its WAL ends.
    ///
    /// # Errors
    /// When a segment that must be read again cannot be.
    pub fn push(&mut self, part: &mut SegmentCounts<'_>, end_lsn: Lsn, rescan: Rescan<'_>) -> Result<(), WalReadError> {
        let counts = &mut part.found.counts;
        let slices = std::mem::take(&mut counts.slices);
        let ends: Vec<Lsn> = slices.iter().skip(1).map(|slice| slice.start_lsn).chain([end_lsn]).collect();
        let mut checkpoints = counts.checkpoints.iter().peekable();
        for (at, (slice, slice_end)) in slices.into_iter().zip(ends).enumerate() {
            if at > 0 {
                self.close(slice.start_lsn, Some(slice.start_lsn));
            }
            self.chunks.push(Chunk::of(part.index..part.index.saturating_add(1), slice, slice_end));
            while let Some(checkpoint) =
                checkpoints.next_if(|checkpoint| checkpoint.lsn < slice_end || slice_end == end_lsn)
            {
                self.checkpoint(checkpoint, rescan)?;
            }
        }
        self.merge_old_chunks();
        Ok(())
    }

    /// Ends a run: what follows does not follow in WAL.
    pub fn end_run(&mut self) {
        if let Some(last) = self.chunks.last() {
            let end_lsn = last.end_lsn;
            self.close(end_lsn, None);
        }
    }

    /// All intervals, in order.
    #[must_use]
    pub fn finish(mut self) -> Vec<Interval> {
        self.end_run();
        self.done
    }

    /// Intervals that are complete so far.
    #[must_use]
    pub fn intervals(&self) -> &[Interval] {
        &self.done
    }

    fn checkpoint(&mut self, seen: &CheckpointSeen, rescan: Rescan<'_>) -> Result<(), WalReadError> {
        let start = self.chunks.first().map_or(seen.redo_lsn, |chunk| chunk.start_lsn);
        let inside = seen.redo_lsn > start && self.redo_lsn != Some(seen.redo_lsn);
        if inside {
            self.split(seen.redo_lsn, rescan)?;
        } else if seen.redo_lsn <= start && self.redo_lsn.is_none() {
            self.redo_lsn = Some(seen.redo_lsn);
        }
        if self.redo_lsn == Some(seen.redo_lsn) {
            self.checkpoint = Some(*seen);
        }
        Ok(())
    }

    /// Ends the open interval at `redo_lsn`, which lies somewhere inside it.
    fn split(&mut self, redo_lsn: Lsn, rescan: Rescan<'_>) -> Result<(), WalReadError> {
        let first_after = self.chunks.partition_point(|chunk| chunk.start_lsn < redo_lsn);
        let mut after: Vec<Chunk> = self.chunks.drain(first_after..).collect();
        let cut = self.chunks.pop_if(|chunk| chunk.end_lsn > redo_lsn);
        if let Some(chunk) = cut {
            let mut first = Chunk {
                segments: chunk.segments.clone(),
                start_lsn: chunk.start_lsn,
                end_lsn: redo_lsn,
                ..Chunk::default()
            };
            let mut second = Chunk {
                segments: chunk.segments.clone(),
                start_lsn: redo_lsn,
                end_lsn: chunk.end_lsn,
                ..Chunk::default()
            };
            for slice in rescan(chunk.segments.clone(), &[chunk.start_lsn, redo_lsn, chunk.end_lsn])? {
                let side = match slice.start_lsn {
                    lsn if lsn < chunk.start_lsn || lsn >= chunk.end_lsn => continue,
                    lsn if lsn < redo_lsn => &mut first,
                    _ => &mut second,
                };
                side.tally.add(&slice.tally);
                side.decay.append(&slice.decay);
                side.blocks.union_with(&slice.blocks);
            }
            self.chunks.push(first);
            after.insert(0, second);
        }
        self.close(redo_lsn, Some(redo_lsn));
        self.chunks = after;
        Ok(())
    }

    /// Ends the open interval at `end_lsn` and opens the next with redo point `next_redo`.
    fn close(&mut self, end_lsn: Lsn, next_redo: Option<Lsn>) {
        let mut chunks = std::mem::take(&mut self.chunks).into_iter();
        let redo_lsn = std::mem::replace(&mut self.redo_lsn, next_redo);
        let checkpoint = self.checkpoint.take();
        let Some(mut whole) = chunks.next() else { return };
        chunks.for_each(|chunk| whole.append(&chunk));
        if whole.tally.records == 0 && redo_lsn.is_none() {
            return;
        }
        let kind = match (checkpoint.map(|checkpoint| checkpoint.kind), redo_lsn) {
            (Some(CheckpointKind::Shutdown), _) => IntervalKind::Shutdown,
            (Some(CheckpointKind::Online), _) => IntervalKind::Online,
            (None, Some(_)) => IntervalKind::Unfinished,
            (None, None) => IntervalKind::Unknown,
        };
        self.done.push(Interval {
            redo_lsn,
            start_lsn: whole.start_lsn,
            end_lsn,
            checkpoint,
            kind,
            tally: whole.tally,
            distinct_blocks: whole.blocks.len(),
            decay: whole.decay.shares(whole.start_lsn, end_lsn, DECAY_BUCKETS),
        });
    }

    fn merge_old_chunks(&mut self) {
        loop {
            let bytes: u64 = self.chunks.iter().map(|chunk| chunk.blocks.approximate_bytes()).sum();
            let count = self.chunks.len();
            if count < 3 || (bytes <= OPEN_BLOCKS_BYTES && count <= OPEN_CHUNKS) {
                return;
            }
            // The oldest pairs become one each, so that sizes double towards the start.
            let mut merged: Vec<Chunk> = Vec::with_capacity(count);
            let last = self.chunks.pop();
            for chunk in self.chunks.drain(..) {
                match merged.last_mut() {
                    Some(before) if before.segments.len() <= chunk.segments.len() => before.append(&chunk),
                    _ => merged.push(chunk),
                }
            }
            merged.extend(last);
            if merged.len() == count {
                let second = merged.remove(1);
                merged[0].append(&second);
            }
            self.chunks = merged;
        }
    }
}

impl Default for IntervalFold {
    fn default() -> Self {
        Self::new()
    }
}
