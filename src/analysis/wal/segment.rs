//! Reads one segment on its own, from its first record start to the end of the last record that starts in it.

use std::ops::{ControlFlow, Range};

use super::feed::{FedEnd, Feed, feed};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::reader::{Aborted, ReaderOptions, Step};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::scan::{ScanSummary, SegmentScan};
use crate::types::{Lsn, TimelineId};

/// The timeline that has no history file.
const FIRST_TIMELINE: TimelineId = TimelineId(1);

/// Takes the records of one segment as they come.
pub trait Visitor {
    /// Takes a record of the range. Inlined where it is called for most records: what is not asked for of a record need not
    /// be put together then.
    fn record(&mut self, record: &Record<'_>);
}

/// Told the bytes that were read; breaks reading off. Called from all threads.
pub type Watch<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// A part of a run of segments, and how it is read.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
    /// The segments.
    pub set: &'a WalSet,
    /// Those that follow each other.
    pub run: Range<usize>,
    /// Records that start before this are not shown.
    pub start_lsn: Lsn,
    /// Records that end after this are not shown, nor any that follows.
    pub end_lsn: Lsn,
    /// What is kept of records that do not lie inside one page; less is faster.
    pub keep: Keep,
}

/// Which records were shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Start of the first.
    pub first_lsn: Option<Lsn>,
    /// Its end.
    pub first_end_lsn: Option<Lsn>,
    /// End of the last.
    pub last_end_lsn: Option<Lsn>,
}

impl Extent {
    /// Adds those of the next stretch.
    pub fn append(&mut self, next: &Self) {
        self.first_lsn = self.first_lsn.or(next.first_lsn);
        self.first_end_lsn = self.first_end_lsn.or(next.first_end_lsn);
        self.last_end_lsn = next.last_end_lsn.or(self.last_end_lsn);
    }

    #[inline(always)]
    pub(super) fn add(&mut self, record: &Record<'_>) {
        if self.first_lsn.is_none() {
            self.first_lsn = Some(record.start_lsn);
            self.first_end_lsn = Some(record.end_lsn);
        }
        self.last_end_lsn = Some(record.end_lsn);
    }
}

/// What one segment contributes.
#[derive(Debug)]
pub struct SegmentRead<V> {
    /// Place of the segment in the set.
    pub index: usize,
    /// The segment at which reading started, this one or an earlier.
    pub from: usize,
    /// For joining.
    pub summary: ScanSummary,
    /// Which records were shown.
    pub extent: Extent,
    /// Records that a crash cut off and that were replaced.
    pub aborted: Vec<Aborted>,
    /// A record ended after the end of the range: nothing further is shown.
    pub reached_end: bool,
    /// Reading was broken off.
    pub interrupted: bool,
    /// Why the segment's bytes could not be read to the end.
    pub error: Option<WalReadError>,
    /// The segment's file has more bytes than belong to it.
    pub behind: Option<WalReadError>,
    /// What was made of the records.
    pub found: V,
}

/// Shows the records that start in segment `index` to `visitor`.
///
/// `from`: segment at which reading starts, normally `index` itself. Reading from an earlier one checks the link
/// between them as reading in order does; its records are not shown. `buffer` is of any content; it is taken into use and
/// given back, so that the next segment needs no memory of its own.
///
/// # Errors
/// When the segment cannot be opened.
pub fn read_segment<V: Visitor>(
    stretch: &Stretch<'_>,
    index: usize,
    from: usize,
    visitor: V,
    watch: Watch<'_>,
    buffer: &mut Vec<u8>,
) -> Result<SegmentRead<V>, WalReadError> {
    let Stretch { set, run, start_lsn, end_lsn, keep } = stretch;
    let geometry = set.geometry();
    let block = u64::from(geometry.wal_block_size).max(1);
    let segment_start = set.segments()[index].start_lsn;
    let limit_lsn = segment_start.advanced_by(u64::from(geometry.wal_segment_size));
    let file_start = set.segments()[from].start_lsn;
    // A start inside the segment is entered at its page.
    let first_page =
        Lsn(file_start.0.max(start_lsn.0.saturating_sub(start_lsn.0.checked_rem(block).unwrap_or_default())));
    let options = ReaderOptions { keep: *keep, ..reader_options(set) };
    let mut scan = SegmentScan::new(options, first_page, limit_lsn).map_err(WalReadError::Sizes)?;
    let mut read = SegmentRead {
        index,
        from,
        summary: scan.summary().clone(),
        extent: Extent::default(),
        aborted: Vec::new(),
        reached_end: false,
        interrupted: false,
        error: None,
        behind: None,
        found: visitor,
    };
    let mut shown = Shown { start_lsn: (*start_lsn).max(segment_start), end_lsn: *end_lsn, read: &mut read };
    let mut reading = from;
    let fed = feed(set, from..run.end, first_page.0.saturating_sub(file_start.0), index, buffer, |fed| {
        let mut input = match fed {
            Feed::File(file) => {
                reading = file;
                // What an own file holds after the end of WAL is read too: it may be unreadable.
                let enough = file > index && scan.is_finished();
                return if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            Feed::Piece(piece) => piece,
        };
        let own_bytes = if reading == index { input.len() as u64 } else { 0 };
        if watch(own_bytes).is_break() {
            shown.read.interrupted = true;
            return ControlFlow::Break(());
        }
        loop {
            let step = scan.read(&mut input, |record| match shown.record(record) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
            match step {
                Step::BrokenOff => return ControlFlow::Break(()),
                Step::Aborted(aborted) if aborted.start_lsn >= segment_start => shown.read.aborted.push(aborted),
                Step::Aborted(_) | Step::Damage(_) | Step::End(_) => {}
                Step::NeedMore => break,
            }
        }
        if reading > index && scan.is_finished() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // Of a file before or after its own, those say it that read it as their own.
    read.behind = fed.behind.into_iter().find_map(|(file, error)| (file == index).then_some(error));
    match fed.how {
        FedEnd::Closed(error) if fed.file == from => return Err(error),
        FedEnd::Closed(error) | FedEnd::Short(Some(error)) => read.error = Some(error),
        FedEnd::Short(None) | FedEnd::Enough | FedEnd::Whole => {}
    }
    read.summary = scan.finish();
    Ok(read)
}

/// Shows the records of the range.
struct Shown<'r, V> {
    start_lsn: Lsn,
    end_lsn: Lsn,
    read: &'r mut SegmentRead<V>,
}

impl<V: Visitor> Shown<'_, V> {
    /// False once the end of the range was reached.
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) -> bool {
        if record.start_lsn < self.start_lsn {
            return true;
        }
        if record.data_end_lsn > self.end_lsn {
            self.read.reached_end = true;
        }
        if self.read.reached_end {
            return false;
        }
        self.read.extent.add(record);
        self.read.found.record(record);
        true
    }
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
