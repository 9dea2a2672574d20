//! Reads what a request names segment by segment: several at a time, handed over in order.

use std::ops::ControlFlow;

use super::source::WalSource;
use super::watch::Watched;
use crate::analysis::wal::collect::{collect_resynchronised, collect_run, end_of_part};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::segment::{SegmentRead, Visitor};
use crate::analysis::wal::stretch::Stretch;
use crate::cluster::wal::WalReadError;
use crate::parsers::wal::block::Keep;
use crate::types::Lsn;

pub(super) struct Reading<'a> {
    pub(super) plan: &'a ScanPlan,
    pub(super) keep: Keep,
    pub(super) jobs: usize,
    pub(super) watched: &'a Watched<'a>,
}

pub(super) enum RunStep<'a, V> {
    /// The next segment of a run, whose WAL ends at this LSN.
    Segment(&'a mut SegmentRead<V>, Lsn),
    /// The run is over; what follows does not follow in WAL. Where its WAL ends; `None`: nothing of it was read.
    End(Option<Lsn>),
}

impl WalSource {
    /// Has a visitor from `begin` for each segment shown its records, and `take` given the segments of each run in order,
    /// until the end of the range, or the user, ends it. Where reading continues after damage, one thread reads.
    pub(super) fn each_segment<V: Visitor + Send>(
        &mut self,
        reading: &Reading<'_>,
        begin: impl Fn(&Stretch<'_>, usize) -> V + Sync,
        mut take: impl FnMut(&Stretch<'_>, RunStep<'_, V>) -> Result<(), WalReadError>,
    ) {
        let Reading { plan, keep, jobs, watched } = *reading;
        let resync = self.resync;
        self.each_run(
            watched,
            |set, run, _| {
                let stretch = plan.stretch(set, run, keep);
                let begin = |index| begin(&stretch, index);
                let watch = |bytes| watched.advance(bytes);
                let mut run_end = None;
                let mut take_up = |part: &mut SegmentRead<V>| {
                    let end_lsn = end_of_part(part);
                    run_end = Some(end_lsn);
                    take(&stretch, RunStep::Segment(part, end_lsn))
                };
                let read = if resync.is_on() {
                    // After damage, where to continue is only known in order.
                    collect_resynchronised(&stretch, run.end, &watch, begin, &mut take_up)
                } else {
                    collect_run(&stretch, jobs, &watch, begin, &mut take_up)
                };
                let ended = take(&stretch, RunStep::End(run_end));
                (read.and_then(|walked| ended.map(|()| walked)), ())
            },
            |_, _, run, ()| if run.walked.reached_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
        );
    }
}
