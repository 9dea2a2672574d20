//! Counting what is in WAL, for tables and for the screen.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use super::images::redo_points;
use super::source::{Source, note_interruption};
use crate::analysis::finding::Finding;
use crate::analysis::wal::cause::CauseTeller;
use crate::analysis::wal::collect::{collect_run, end_of_part};
use crate::analysis::wal::group::{GroupBy, Groups};
use crate::analysis::wal::interval::{Interval, IntervalFold};
use crate::analysis::wal::partial::{ScanPlan, scan_segment};
use crate::analysis::wal::tally::Tally;
use crate::types::Lsn;

/// What was counted.
#[derive(Default)]
pub(super) struct Counted {
    /// All of it.
    pub(super) total: Tally,
    /// By group, if one was asked for.
    pub(super) groups: Option<Groups>,
    /// By checkpoint interval, if no group was asked for.
    pub(super) intervals: Vec<Interval>,
    /// Start of the first record.
    pub(super) from: Option<Lsn>,
    /// End of the last.
    pub(super) to: Option<Lsn>,
}

impl Counted {
    fn reach(&mut self, from: Option<Lsn>, to: Option<Lsn>) {
        self.from = self.from.or(from);
        self.to = to.or(self.to);
    }
}

/// Counts with several threads.
pub(super) fn count(
    source: &mut Source,
    range: ScanPlan,
    group: Option<GroupBy>,
    jobs: usize,
    interrupted: &AtomicBool,
) -> Counted {
    let plan = ScanPlan { group, blocks: group.is_none(), ..range };
    let progress = source.progress();
    let mut counted = Counted::default();
    let mut fold = IntervalFold::new();
    let mut undecoded = Vec::new();
    source.begin_runs();
    while let Some(run) = source.next_run() {
        let set = &source.set;
        let end = collect_run(set, &run, &plan, jobs, interrupted, |part| {
            progress.advance(part.bytes_read);
            counted.total.add(&part.total());
            counted.reach(part.counted_from, part.counted_to);
            undecoded.extend(part.undecoded.take());
            if let Some(groups) = part.groups.take() {
                match &mut counted.groups {
                    Some(all) => all.merge(&groups),
                    all => *all = Some(groups),
                }
            }
            if group.is_some() {
                return Ok(());
            }
            fold.push(part, end_of_part(part), &mut |segments, cuts| {
                let (mut slices, mut buffer) = (Vec::new(), Vec::new());
                for index in segments {
                    slices.extend(scan_segment(set, &run, index, index, &plan, cuts, &mut buffer)?.slices);
                }
                Ok(slices)
            })
        });
        fold.end_run();
        if end.interrupted {
            note_interruption(&mut source.coverage);
            break;
        }
        let ended = end.end.filter(|_| !end.reached_end);
        source.judge_end(&run, ended.as_ref(), end.error);
        if end.reached_end {
            break;
        }
    }
    for error in undecoded {
        let why = "its checksum is right, but it is no record of its type: a checkpoint may be missing from the rows";
        source.findings.push(Finding::problem("payload", error.to_string(), why));
    }
    counted.intervals = fold.finish();
    counted
}

/// Counts by cause: redo points first, then every record in order.
pub(super) fn count_causes(source: &mut Source, plan: ScanPlan, jobs: usize, interrupted: &AtomicBool) -> Counted {
    let geometry = source.set.geometry();
    let mut teller = CauseTeller::new(redo_points(&source.set, &plan, jobs, interrupted), geometry.block_size);
    let mut counted = Counted::default();
    let mut groups = Groups::new(GroupBy::Cause, geometry.wal_segment_size);
    let mut causes = Vec::new();
    source.each_record(&plan, false, interrupted, |_, record| {
        teller.causes(record, &mut causes);
        groups.add_cause(record, &causes);
        counted.total.add_record(record);
        counted.reach(Some(record.start_lsn), Some(record.end_lsn));
        ControlFlow::Continue(())
    });
    counted.groups = Some(groups);
    counted
}
