//! Reads the segments of a run with several threads and replays their touches in order.

use std::ops::Range;

use super::replay::Replay;
use super::touches::{Full, GiveUp, TouchList, Touches};
use super::{WhatIf, WhatIfPlan};
use crate::analysis::wal::collect::{collect_run, end_of_part};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::segment::{WatchRead, read_segment};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::error::ParseError;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::version::Major;

/// Replays WAL under other settings, run by run.
#[derive(Debug)]
pub struct WhatIfReplay {
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

impl WhatIfReplay {
    /// Nothing was taken yet.
    #[must_use]
    pub fn new(plan: &WhatIfPlan, set: &WalSet) -> Self {
        let major = set.major().unwrap_or(Major::NEWEST);
        Self { replay: Replay::new(plan, set.geometry(), major) }
    }

    /// Takes the next run of segments, of which `plan` gives the range.
    ///
    /// # Errors
    /// When the first segment cannot be opened.
    pub fn take_run(
        &mut self,
        set: &WalSet,
        run: &Range<usize>,
        plan: &ScanPlan,
        jobs: usize,
        watch: WatchRead<'_>,
    ) -> Result<WalkEnd, WalReadError> {
        let stretch = plan.stretch(set, run, Keep::Heads);
        let segment_size = set.geometry().wal_segment_size;
        let base_of = |index: usize| set.segments()[index].start_lsn.max(plan.start_lsn);
        let begin = |index| TouchList::new(base_of(index), segment_size, GiveUp);
        let mut end_lsn = None;
        let replay = &mut self.replay;
        let read = collect_run(&stretch, jobs, watch, begin, |part| {
            end_lsn = Some(end_of_part(part));
            if part.found.is_incomplete {
                let directly = TouchList::new(base_of(part.index), segment_size, Directly(replay));
                let quiet = |_| watch(0);
                let read = read_segment(&stretch, part.index, part.from, directly, &quiet, &mut Vec::new())?;
                let (rest, directly) = read.found.into_parts();
                directly.0.take(&rest);
            } else {
                replay.take(&part.found.list);
            }
            Ok(())
        });
        if let Some(end_lsn) = end_lsn {
            self.replay.end_run(end_lsn);
        }
        read
    }

    /// What came of it, all that was counted, and records whose payload is not that of their type.
    #[must_use]
    pub fn finish(self) -> (WhatIf, Tally, Vec<ParseError>) {
        self.replay.finish()
    }
}
