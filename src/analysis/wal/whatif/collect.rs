//! Takes the touches of segments, which are read with several threads, and replays them in order.

use super::replay::Replay;
use super::touches::{Full, GiveUp, TouchList, Touches};
use super::{WhatIf, WhatIfPlan};
use crate::analysis::wal::segment::{Visitor, WatchRead, read_segment};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::cluster::wal::WalReadError;
use crate::parsers::error::ParseError;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::version::Major;
use crate::report::Finding;
use crate::types::{Geometry, Lsn};

/// Replays WAL under other settings, run by run.
#[derive(Debug)]
pub(crate) struct WhatIfReplay {
    replay: Replay,
}

/// Hands lists to the replay as they fill up.
struct Directly<'a>(&'a mut Replay);

impl Full for Directly<'_> {
    fn full(&mut self, list: &Touches) -> bool {
        self.0.take(list);
        true
    }
}

/// The touches of one segment, as they come.
#[derive(Debug)]
pub(crate) struct SegmentTouches(TouchList<GiveUp>);

impl SegmentTouches {
    /// None yet of segment `index`.
    pub fn new(stretch: &Stretch<'_>, index: usize) -> Self {
        Self(TouchList::of_segment(stretch, index, GiveUp))
    }
}

impl Visitor for SegmentTouches {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.0.record(record);
    }
}

impl WhatIfReplay {
    pub fn new(plan: &WhatIfPlan, geometry: Geometry, major: Option<Major>) -> Self {
        Self { replay: Replay::new(plan, geometry, major.unwrap_or(Major::NEWEST)) }
    }

    /// Takes the touches of the next segment of a run, whose reading began at segment `from`. One with too many is read
    /// again.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn take(
        &mut self,
        stretch: &Stretch<'_>,
        index: usize,
        from: usize,
        touches: &SegmentTouches,
        watch: WatchRead<'_>,
    ) -> Result<(), WalReadError> {
        if !touches.0.is_incomplete {
            self.replay.take(&touches.0.list);
            return Ok(());
        }
        let directly = TouchList::of_segment(stretch, index, Directly(&mut self.replay));
        let quiet = |_| watch(0);
        let read = read_segment(stretch, index, from, directly, &quiet, &mut Vec::new())?;
        let (rest, directly) = read.found.into_parts();
        directly.0.take(&rest);
        Ok(())
    }

    /// Ends a run, whose WAL ends at `end_lsn`: what follows does not follow in WAL.
    pub(crate) fn end_run(&mut self, end_lsn: Lsn) {
        self.replay.end_run(end_lsn);
    }

    /// What is odd about the times that records told so far.
    pub(crate) fn odd_times(&self) -> Vec<Finding> {
        self.replay.odd_times()
    }

    /// What came of it, all that was counted, and records whose payload is not that of their type.
    pub fn finish(self) -> (WhatIf, Tally, Vec<ParseError>) {
        self.replay.finish()
    }
}
