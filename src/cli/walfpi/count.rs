//! Counting what is in WAL, for tables and for the screen.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use super::images::redo_points;
use super::source::{WalSource, heard, note_interruption};
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::wal::cause::CauseClassifier;
use crate::analysis::wal::collect::{collect_run, end_of_part};
use crate::analysis::wal::group::{GroupBy, Groups};
use crate::analysis::wal::interval::{Interval, IntervalFold};
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::segment::read_segment;
use crate::analysis::wal::tally::Tally;
use crate::parsers::wal::block::Keep;
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
    source: &mut WalSource,
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
        let stretch = plan.stretch(set, &run, Keep::Heads);
        let begin = |index| Counter::new(set, index, &plan, &[]);
        let watch = |bytes| heard(interrupted, Some(&progress), bytes);
        let read = collect_run(&stretch, jobs, &watch, begin, |part| {
            let counts = &mut part.found.counts;
            counted.total.add(&counts.total());
            counted.reach(part.extent.first_lsn, part.extent.last_end_lsn);
            undecoded.extend(counts.undecoded.take());
            if let Some(groups) = counts.groups.take() {
                match &mut counted.groups {
                    Some(all) => all.merge(&groups),
                    all => *all = Some(groups),
                }
            }
            if group.is_some() {
                return Ok(());
            }
            let end_lsn = end_of_part(part);
            fold.push(part, end_lsn, &mut |segments, cuts| {
                let (mut slices, mut buffer) = (Vec::new(), Vec::new());
                for index in segments {
                    let counter = Counter::new(set, index, &plan, cuts);
                    let part = read_segment(&stretch, index, index, counter, &|_| watch(0), &mut buffer)?;
                    slices.extend(part.found.counts.slices);
                }
                Ok(slices)
            })
        });
        fold.end_run();
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                source.note_unread(&run, error);
                continue;
            }
        };
        if read.interrupted {
            note_interruption(&mut source.coverage);
            break;
        }
        let reached_end = read.reached_end;
        source.judge_walk(&run, read);
        if reached_end {
            break;
        }
    }
    for error in undecoded {
        source.findings.push(Finding::problem(FindingKind::Payload(error)));
    }
    counted.intervals = fold.finish();
    counted
}

/// Counts by cause: redo points first, then every record in order.
pub(super) fn count_causes(source: &mut WalSource, plan: ScanPlan, jobs: usize, interrupted: &AtomicBool) -> Counted {
    let geometry = source.set.geometry();
    let mut classifier = CauseClassifier::new(redo_points(&source.set, &plan, jobs, interrupted), geometry.block_size);
    let mut counted = Counted::default();
    let mut groups = Groups::new(GroupBy::Cause, geometry.wal_segment_size);
    let mut causes = Vec::new();
    source.each_record(&plan, false, interrupted, |_, record| {
        classifier.causes(record, &mut causes);
        groups.add_cause(record, &causes);
        counted.total.add_record(record);
        counted.reach(Some(record.start_lsn), Some(record.end_lsn));
        ControlFlow::Continue(())
    });
    counted.groups = Some(groups);
    counted
}
