//! The touches of a part of some WAL as bytes, so that they can be replayed together with those of the parts before and
//! after it, under any setting.
//!
//! The lists are those that one process replays, segment by segment. A touch takes some 7 bytes, and never fewer than 5, so
//! that a short file cannot stand for much.

use rustc_hash::FxHashMap;

use super::collect::WhatIfReplay;
use super::touches::{Event, Full, Kind, Touch, TouchList, Touches};
use crate::analysis::wal::segment::Visitor;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::parsers::error::ParseError;
use crate::parsers::portable::{BadState, Portable, StateReader, Wrong};
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Units in which records start.
const ALIGNED_BITS: u32 = 3;

/// Touches of a run of segments.
#[derive(Clone, Debug, Default)]
pub struct RunTouches {
    lists: Vec<TouchBytes>,
    /// Where its WAL ends.
    end_lsn: Lsn,
}

crate::parsers::portable::portable!(RunTouches { lists, end_lsn });

/// One list.
#[derive(Clone, Debug, Default)]
struct TouchBytes(Vec<u8>);

impl Portable for TouchBytes {
    fn put(&self, out: &mut Vec<u8>) {
        (self.0.len() as u64).put(out);
        out.extend_from_slice(&self.0);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let length = u64::get(from)?;
        Ok(Self(from.take(length)?.to_vec()))
    }
}

/// Keeps full lists as bytes.
#[derive(Debug, Default)]
struct Kept {
    lists: Vec<TouchBytes>,
    total: Tally,
}

impl Full for Kept {
    fn full(&mut self, list: &Touches) -> bool {
        self.total.add(&list.tally);
        self.lists.push(TouchBytes::of(list));
        true
    }
}

/// The touches of one segment, all of them kept as bytes.
#[derive(Debug)]
pub struct SegmentTouchLog(TouchList<Kept>);

impl SegmentTouchLog {
    /// None yet of segment `index`.
    #[must_use]
    pub fn new(stretch: &Stretch<'_>, index: usize) -> Self {
        Self(TouchList::of_segment(stretch, index, Kept::default()))
    }
}

impl Visitor for SegmentTouchLog {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.0.record(record);
    }
}

impl RunTouches {
    /// Takes the next segment, whose WAL ends at `end_lsn`: all its records, and one whose payload is not that of its type.
    pub fn push(&mut self, segment: &mut SegmentTouchLog, end_lsn: Lsn) -> (Tally, Option<ParseError>) {
        let (list, kept) = segment.0.parts();
        kept.full(list);
        self.lists.append(&mut kept.lists);
        self.end_lsn = end_lsn;
        (kept.total, list.undecoded.take())
    }

    /// Where its WAL ends.
    #[must_use]
    pub const fn end_lsn(&self) -> Lsn {
        self.end_lsn
    }

    /// Has its touches replayed.
    ///
    /// # Errors
    /// When the bytes are not such lists.
    pub fn replay(&self, replay: &mut WhatIfReplay) -> Result<(), BadState> {
        self.lists.iter().try_for_each(|list| {
            replay.take_list(&list.list()?);
            Ok(())
        })
    }
}

impl Portable for Kind {
    fn put(&self, out: &mut Vec<u8>) {
        let (rmgr_id, info, block_id) = self.key;
        ((rmgr_id, info), (block_id, (self.count, self.data_bytes))).put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let ((rmgr_id, info), (block_id, (count, data_bytes))) = Portable::get(from)?;
        Ok(Self { key: (rmgr_id, info, block_id), count, data_bytes })
    }
}

impl Portable for Event {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Time(time) => (0_u8, time).put(out),
            Self::Redo => 1_u8.put(out),
            Self::Checkpoint { redo_lsn, is_shutdown } => (2_u8, (redo_lsn, is_shutdown)).put(out),
            Self::Truncated { rel, keeps_blocks } => (3_u8, (rel, keeps_blocks)).put(out),
        }
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        Ok(match u8::get(from)? {
            0 => Self::Time(Portable::get(from)?),
            1 => Self::Redo,
            2 => {
                let (redo_lsn, is_shutdown) = Portable::get(from)?;
                Self::Checkpoint { redo_lsn, is_shutdown }
            }
            3 => {
                let (rel, keeps_blocks) = Portable::get(from)?;
                Self::Truncated { rel, keeps_blocks }
            }
            _ => return Err(at.wrong(Wrong::Unknown("event"))),
        })
    }
}

/// Where records start: their distances, in units of 8 bytes.
struct Starts {
    base: Lsn,
    before: u64,
}

impl Starts {
    const fn new(base: Lsn) -> Self {
        Self { base, before: base.0 >> ALIGNED_BITS }
    }

    fn put(&mut self, offset: u32, out: &mut Vec<u8>) {
        let start = self.base.advanced_by(u64::from(offset)).0 >> ALIGNED_BITS;
        start.saturating_sub(self.before).put(out);
        self.before = start;
    }

    fn get(&mut self, from: &mut StateReader<'_>) -> Result<u32, BadState> {
        let at = *from;
        self.before = self.before.saturating_add(u64::get(from)?);
        let start = self.before.checked_mul(1 << ALIGNED_BITS).map(Lsn);
        // What the list begins with may lie after the start of its unit.
        let offset = start.map(|start| start.bytes_since(self.base).unwrap_or(0));
        offset.and_then(|offset| u32::try_from(offset).ok()).ok_or_else(|| at.wrong(Wrong::LargeNumber))
    }
}

/// Blocks of each fork: their distances from the one before.
#[derive(Default)]
struct Blocks(Vec<u32>);

impl Blocks {
    fn before(&mut self, fork: u16) -> &mut u32 {
        let index = usize::from(fork);
        if index >= self.0.len() {
            self.0.resize(index.saturating_add(1), 0);
        }
        &mut self.0[index]
    }
}

impl TouchBytes {
    fn of(list: &Touches) -> Self {
        let mut out = Vec::new();
        list.base.put(&mut out);
        list.tally.put(&mut out);
        list.forks.put(&mut out);
        list.kinds.put(&mut out);
        (list.events.len() as u64).put(&mut out);
        let mut starts = Starts::new(list.base);
        for (offset, event) in &list.events {
            starts.put(*offset, &mut out);
            event.put(&mut out);
        }
        // Few combinations of these are met.
        let (mut shapes, mut indexes) = (Vec::new(), FxHashMap::default());
        for touch in &list.touches {
            let shape = (touch.fork, (touch.kind, touch.flags()));
            indexes.entry(shape).or_insert_with(|| {
                shapes.push(shape);
                shapes.len().saturating_sub(1) as u64
            });
        }
        shapes.put(&mut out);
        (list.touches.len() as u64).put(&mut out);
        let (mut starts, mut blocks) = (Starts::new(list.base), Blocks::default());
        for touch in &list.touches {
            starts.put(touch.offset, &mut out);
            let shape = indexes.get(&(touch.fork, (touch.kind, touch.flags()))).copied();
            shape.unwrap_or_default().put(&mut out);
            let before = blocks.before(touch.fork);
            i64::from(touch.block).saturating_sub(i64::from(*before)).put(&mut out);
            *before = touch.block;
            (touch.image_bytes, touch.data_bytes).put(&mut out);
        }
        out.shrink_to_fit();
        Self(out)
    }

    fn list(&self) -> Result<Touches, BadState> {
        let from = &mut StateReader::new(&self.0);
        let (base, tally) = Portable::get(from)?;
        let mut list = Touches { base, tally, ..Touches::default() };
        (list.forks, list.kinds) = Portable::get(from)?;
        let mut starts = Starts::new(base);
        for _ in 0..u64::get(from)? {
            list.events.push((starts.get(from)?, Event::get(from)?));
        }
        let shapes: Vec<(u16, (u8, u8))> = Portable::get(from)?;
        let (mut starts, mut blocks) = (Starts::new(base), Blocks::default());
        for _ in 0..u64::get(from)? {
            let (offset, at) = (starts.get(from)?, *from);
            let shape = usize::try_from(u64::get(from)?).ok().and_then(|index| shapes.get(index).copied());
            let (fork, (kind, flags)) = shape.ok_or_else(|| at.wrong(Wrong::Unknown("touch")))?;
            let (before, at) = (blocks.before(fork), *from);
            let block = i64::from(*before).checked_add(i64::get(from)?).and_then(|block| u32::try_from(block).ok());
            *before = block.ok_or_else(|| at.wrong(Wrong::LargeNumber))?;
            let block = *before;
            let (image_bytes, data_bytes) = Portable::get(from)?;
            list.touches.push(Touch::of_parts((offset, block), (fork, kind, flags), (image_bytes, data_bytes)));
        }
        if from.is_at_end() { Ok(list) } else { Err(from.wrong(Wrong::Trailing)) }
    }
}
