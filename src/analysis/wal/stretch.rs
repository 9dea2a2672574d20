//! A part of a run of segments that is read, and which of its records were shown.

use std::ops::{ControlFlow, Range};

use crate::cluster::wal::WalSet;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::reader::ReaderOptions;
use crate::parsers::wal::record::Record;
use crate::types::{Lsn, TimelineId};

/// The timeline that has no history file.
const FIRST_TIMELINE: TimelineId = TimelineId(1);

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

impl Stretch<'_> {
    /// The segments that the range touches.
    pub fn touched(&self) -> Range<usize> {
        let size = u64::from(self.set.geometry().wal_segment_size);
        let start_of = |index: usize| self.set.segments()[index].start_lsn;
        let first = self.run.clone().find(|index| start_of(*index).advanced_by(size) > self.start_lsn);
        let last = self.run.clone().rev().find(|index| start_of(*index) < self.end_lsn);
        let first = first.unwrap_or(self.run.end);
        first..last.map_or(self.run.start, |index| index.saturating_add(1)).max(first)
    }

    /// The page at which reading begins that starts in segment `from`, and the bytes of the segment before it. A range that
    /// begins inside the segment is entered at its page.
    pub(crate) fn first_page(&self, from: usize) -> (Lsn, u64) {
        let block = u64::from(self.set.geometry().wal_block_size).max(1);
        let file_start = self.set.segments()[from].start_lsn.0;
        let page_start = self.start_lsn.0.saturating_sub(self.start_lsn.0.checked_rem(block).unwrap_or_default());
        let first = file_start.max(page_start);
        (Lsn(first), first.saturating_sub(file_start))
    }

    pub(crate) fn reader_options(&self) -> ReaderOptions {
        ReaderOptions { keep: self.keep, ..reader_options(self.set) }
    }
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
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if self.first_lsn.is_none() {
            self.first_lsn = Some(record.start_lsn);
            self.first_end_lsn = Some(record.end_lsn);
        }
        self.last_end_lsn = Some(record.end_lsn);
    }
}

/// Shows records of a range, as they come.
#[derive(Debug)]
pub(crate) struct Shown {
    start_lsn: Lsn,
    end_lsn: Lsn,
    pub(crate) extent: Extent,
    /// A record ended after the end of the range: nothing further is shown.
    pub(crate) reached_end: bool,
}

impl Shown {
    /// None yet.
    pub(crate) fn new(start_lsn: Lsn, end_lsn: Lsn) -> Self {
        Self { start_lsn, end_lsn, extent: Extent::default(), reached_end: false }
    }

    /// Shows a record to `visit` if it lies in the range. Stops where `visit` does, and after the range.
    #[inline(always)]
    pub(crate) fn show(
        &mut self,
        record: &Record<'_>,
        visit: impl FnOnce(&Record<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if record.start_lsn < self.start_lsn {
            return ControlFlow::Continue(());
        }
        self.reached_end |= record.data_end_lsn > self.end_lsn;
        if self.reached_end {
            return ControlFlow::Break(());
        }
        self.extent.add(record);
        visit(record)
    }
}

/// Options under which the segments of a set are read.
pub(crate) fn reader_options(set: &WalSet) -> ReaderOptions {
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
