//! What one segment contributes, read on its own from its first record start.

use std::ops::Range;

use super::block_set::{BlockSet, RecentBlocks};
use super::group::{GroupBy, Groups};
use super::tally::{Decay, Tally};
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::error::ParseError;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::reader::{Aborted, Event, ReaderOptions};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::scan::{ScanSummary, SegmentScan};
use crate::types::{Lsn, TimelineId};

/// Points of the decay curve in one segment.
const DECAY_POINTS: u64 = 256;

/// The timeline that has no history file.
const FIRST_TIMELINE: TimelineId = TimelineId(1);

/// What is counted, and over which records.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// Records that start before this are not counted.
    pub start_lsn: Lsn,
    /// Records that end behind this are not counted, nor any that follows.
    pub end_lsn: Lsn,
    /// Grouping, if any.
    pub group: Option<GroupBy>,
    /// Whether distinct blocks are counted.
    pub blocks: bool,
}

impl ScanPlan {
    /// Everything, counted in no groups.
    #[must_use]
    pub const fn totals() -> Self {
        Self { start_lsn: Lsn::INVALID, end_lsn: Lsn(u64::MAX), group: None, blocks: false }
    }
}

/// Kind of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// At shutdown or at the end of recovery.
    Shutdown,
    /// While the server was running.
    Online,
}

/// A checkpoint record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSeen {
    /// Its start.
    pub lsn: Lsn,
    /// Its end.
    pub end_lsn: Lsn,
    /// Where replay from it starts.
    pub redo_lsn: Lsn,
    /// Kind.
    pub kind: CheckpointKind,
    /// When it was made, Unix seconds.
    pub time_s: i64,
    /// Its timeline.
    pub tli: TimelineId,
    /// The setting `full_page_writes` then.
    pub full_page_writes: bool,
}

/// Records from one cut to the next.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Where it starts: a redo point, or the start of the segment.
    pub start_lsn: Lsn,
    /// Counts; nothing where records are grouped, which counts them there.
    pub tally: Tally,
    /// Share of images along the way.
    pub decay: Decay,
    /// Distinct blocks, if they are counted.
    pub blocks: BlockSet,
}

/// What one segment contributes.
#[derive(Debug)]
pub struct SegmentPartial {
    /// Place of the segment in the set.
    pub index: usize,
    /// For joining.
    pub summary: ScanSummary,
    /// Cut at redo points that the records themselves mark, and at the cuts that were asked for.
    pub slices: Vec<Slice>,
    /// Groups, if records are grouped.
    pub groups: Option<Groups>,
    /// Checkpoint records, in order.
    pub checkpoints: Vec<CheckpointSeen>,
    /// Records that a crash cut off and that were replaced.
    pub aborted: Vec<Aborted>,
    /// A record ended behind the end of the plan: nothing further is counted.
    pub reached_end: bool,
    /// Bytes of the segment that were read.
    pub bytes_read: u64,
    /// End of the last record that was counted.
    pub counted_to: Option<Lsn>,
    /// Start of the first record that was counted.
    pub counted_from: Option<Lsn>,
    /// The first record with a right checksum whose payload is not that of its type, so that a checkpoint may be missing.
    pub undecoded: Option<ParseError>,
    /// Why the segment's bytes could not be read to the end.
    pub error: Option<WalReadError>,
}

/// Counts records as they come.
#[derive(Debug)]
struct Counter<'a> {
    plan: &'a ScanPlan,
    cuts: &'a [Lsn],
    grid_bytes: u64,
    recent: RecentBlocks,
    partial: SegmentPartial,
}

impl Counter<'_> {
    /// Always inlined: what is not asked for of a record need not be put together then.
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        let partial = &mut self.partial;
        if record.start_lsn < self.plan.start_lsn || partial.reached_end {
            return;
        }
        if record.data_end_lsn > self.plan.end_lsn {
            partial.reached_end = true;
            return;
        }
        partial.counted_from.get_or_insert(record.start_lsn);
        partial.counted_to = Some(record.end_lsn);
        while let Some((cut, rest)) = self.cuts.split_first().filter(|(cut, _)| **cut <= record.start_lsn) {
            partial.cut(*cut);
            self.recent.clear();
            self.cuts = rest;
        }
        if record.header.rmgr_id == 0 {
            let slices = partial.slices.len();
            // A copy, so that other records need not be in memory as a whole.
            partial.xlog_record(&{ *record });
            if partial.slices.len() > slices {
                self.recent.clear();
            }
        }
        if let Some(groups) = &mut partial.groups {
            return groups.add(record);
        }
        let Some(slice) = partial.slices.last_mut() else { return };
        slice.tally.add_record(record);
        slice.decay.add(record, self.grid_bytes);
        if self.plan.blocks && record.layout.block_count > 0 {
            for (_, block) in record.block_heads() {
                if self.recent.is_new(block.rel, block.fork_code(), block.block) {
                    slice.blocks.insert(block.rel, block.fork_code(), block.block);
                }
            }
        }
    }
}

impl Counter<'_> {
    /// As [`Self::record`], where there are fewer records.
    #[inline(never)]
    fn record_apart(&mut self, record: &Record<'_>) {
        self.record(record);
    }
}

impl SegmentPartial {
    fn cut(&mut self, at: Lsn) {
        match self.slices.last_mut() {
            Some(last) if last.start_lsn == at => {}
            _ => self.slices.push(Slice { start_lsn: at, ..Slice::default() }),
        }
    }

    /// Notes checkpoints, and cuts at the redo points that records mark where they stand.
    fn xlog_record(&mut self, record: &Record<'_>) {
        let payload = match XlogPayload::of(record) {
            Ok(Some(payload)) => payload,
            Ok(None) => return,
            Err(error) => {
                self.undecoded.get_or_insert(error);
                return;
            }
        };
        let (kind, checkpoint) = match payload {
            XlogPayload::CheckpointShutdown(checkpoint) => (CheckpointKind::Shutdown, checkpoint),
            XlogPayload::CheckpointOnline(checkpoint) => (CheckpointKind::Online, checkpoint),
            XlogPayload::CheckpointRedo { .. } => return self.cut(record.start_lsn),
            _ => return,
        };
        if checkpoint.redo_lsn == record.start_lsn {
            self.cut(record.start_lsn);
        }
        self.checkpoints.push(CheckpointSeen {
            lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            redo_lsn: checkpoint.redo_lsn,
            kind,
            time_s: checkpoint.time_s,
            tli: checkpoint.tli,
            full_page_writes: checkpoint.full_page_writes != 0,
        });
    }

    /// All that was counted.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = self.groups.as_ref().map(Groups::total).unwrap_or_default();
        self.slices.iter().for_each(|slice| total.add(&slice.tally));
        total
    }
}

/// Reads the records that start in segment `index` of `run`, cut at `cuts` (ascending).
///
/// `from`: segment at which reading starts, normally `index` itself. Reading from an earlier one checks the link
/// between them as reading in order does; its records are not counted. `buffer` is of any content; it is taken into use and
/// given back, so that the next segment needs no memory of its own.
///
/// # Errors
/// When the segment cannot be opened.
pub fn scan_segment(
    set: &WalSet,
    run: &Range<usize>,
    index: usize,
    from: usize,
    plan: &ScanPlan,
    cuts: &[Lsn],
    buffer: &mut Vec<u8>,
) -> Result<SegmentPartial, WalReadError> {
    let geometry = set.geometry();
    let block = u64::from(geometry.wal_block_size).max(1);
    let segment_start = set.segments()[index].start_lsn;
    let limit_lsn = segment_start.advanced_by(u64::from(geometry.wal_segment_size));
    let file_start = set.segments()[from].start_lsn;
    // A start inside the segment is entered at its page.
    let wanted = if index == from { plan.start_lsn.0 } else { 0 };
    let first_page = Lsn(file_start.0.max(wanted - wanted % block));
    let options = ReaderOptions { keep: Keep::Heads, ..reader_options(set) };
    let mut scan = SegmentScan::new(options, first_page, limit_lsn).map_err(WalReadError::Sizes)?;
    let partial = SegmentPartial {
        index,
        summary: scan.summary().clone(),
        slices: vec![Slice { start_lsn: segment_start.max(plan.start_lsn), ..Slice::default() }],
        groups: plan.group.map(|by| Groups::new(by, geometry.wal_segment_size)),
        checkpoints: Vec::new(),
        aborted: Vec::new(),
        reached_end: false,
        bytes_read: 0,
        counted_from: None,
        counted_to: None,
        undecoded: None,
        error: None,
    };
    let grid_bytes = u64::from(geometry.wal_segment_size) / DECAY_POINTS;
    let mut counter = Counter { plan, cuts, grid_bytes, recent: RecentBlocks::default(), partial };
    let mut skip = first_page.0 - file_start.0;
    let mut file = from;
    'files: while file < run.end && !scan.is_finished() {
        let mut reader = match set.reader_into(file, std::mem::take(buffer)) {
            // Behind the segment only the rest of its last record is wanted.
            Ok(reader) if file > index => reader.from_small_pieces(),
            Ok(reader) => reader,
            Err(error) if file == index => return Err(error),
            Err(error) => {
                counter.partial.error = Some(error);
                break;
            }
        };
        let mut delivered = 0;
        while !scan.is_finished() {
            let piece = match reader.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) if error.is_short() => break,
                Err(error) if error.is_behind_the_segment() => {
                    counter.partial.error = Some(error);
                    break;
                }
                Err(error) => {
                    counter.partial.error = Some(error);
                    break 'files;
                }
            };
            delivered += piece.len() as u64;
            if file == index {
                counter.partial.bytes_read += piece.len() as u64;
            }
            let passed = skip.min(piece.len() as u64);
            skip -= passed;
            let mut input = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            loop {
                let own = scan.position() >= segment_start;
                if own {
                    scan.take_plain(&mut input, |record| counter.record(record));
                    if scan.take_single(&mut input, |record| counter.record_apart(record)) {
                        continue;
                    }
                }
                let Some(event) = scan.next(&mut input) else { break };
                match event {
                    Event::Record(record) if record.start_lsn >= segment_start => counter.record_apart(&record),
                    Event::Aborted(aborted) => counter.partial.aborted.push(aborted),
                    Event::Record(_) | Event::Damage(_) | Event::End(_) => {}
                }
            }
        }
        *buffer = reader.into_buffer();
        if delivered < u64::from(geometry.wal_segment_size) {
            // A short segment: what follows it in the next file does not follow in WAL.
            break;
        }
        file += 1;
    }
    counter.partial.summary = scan.finish();
    Ok(counter.partial)
}

/// Options under which the segments of a set are read.
#[must_use]
pub fn reader_options(set: &WalSet) -> ReaderOptions {
    let mut options = ReaderOptions::new(set.geometry());
    options.major = set.major();
    options.system_identifier = set.system_identifier();
    // Without a history file the timelines before this one are not known, unless it is the first.
    options.timelines = match set.history() {
        Some(history) => history.timelines(),
        None if set.timeline() == FIRST_TIMELINE => vec![FIRST_TIMELINE],
        None => Vec::new(),
    };
    options
}
