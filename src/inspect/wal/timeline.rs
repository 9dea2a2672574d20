//! Some WAL in short stretches, and its records one by one.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::images::cause_facts;
use super::request::WatchWal;
use super::source::WalSource;
use crate::analysis::wal::cause::{Cause, CauseClassifier};
use crate::analysis::wal::record_sheet::{MAX_LISTED, RecordLine, RecordList, RecordSheet, StoppedAt};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::timeline::{Timeline, TimelineCounter};
use crate::analysis::wal::walk::walk_run;
use crate::parsers::wal::block::Keep;
use crate::types::Lsn;

impl WalSource {
    /// Reads all of it in order, and counts relations and causes by stretch. What the causes leave open becomes findings.
    pub fn timeline(&mut self, jobs: usize, watch: WatchWal<'_>) -> Timeline {
        let (watched, plan) = (self.watched(watch), self.plan());
        let facts = cause_facts(&self.set, &plan, jobs, &watched);
        let geometry = self.set.geometry();
        let redo_points = Arc::clone(&facts.redo_points);
        let mut counter = TimelineCounter::new(redo_points, geometry.wal_segment_size, self.total_bytes());
        let mut classifier = CauseClassifier::new(facts, geometry.block_size);
        let mut causes = Vec::new();
        self.each_record(&plan, &watched, |_, record| {
            classifier.causes(record, &mut causes);
            counter.add(record, &causes);
            ControlFlow::Continue(())
        });
        self.note_causes(&classifier);
        counter.finish()
    }

    /// Records from `from` on that start before `to`, and up to [`MAX_LISTED`] of them. `causes`: those of the images from
    /// `from` on, in order, where they are known.
    pub(crate) fn list_records(&self, from: Lsn, to: Lsn, causes: Option<&[Cause]>) -> RecordList {
        let mut list = RecordList::from(from);
        let mut causes = causes;
        let stopped = self.walk_from(from, Keep::Heads, |record| {
            if record.start_lsn >= to {
                return ControlFlow::Break(());
            }
            if list.lines.len() >= MAX_LISTED {
                list.next = Some(record.start_lsn);
                return ControlFlow::Break(());
            }
            let images = usize::from(record.layout.image_count);
            let own = causes.and_then(|causes| causes.get(..images));
            causes = causes.and_then(|causes| causes.get(images..));
            list.lines.push(RecordLine::of(record, own.and_then(<[Cause]>::first).copied()));
            list.images += images;
            ControlFlow::Continue(())
        });
        list.stopped = stopped;
        list
    }

    /// All about the record that starts at `lsn`.
    ///
    /// # Errors
    /// When nothing can be read there.
    pub fn record_sheet(&self, lsn: Lsn, causes: &[Cause]) -> Result<RecordSheet, Box<StoppedAt>> {
        let mut sheet = None;
        let stopped = self.walk_from(lsn, Keep::Blocks, |record| {
            sheet = Some(RecordSheet::of(record, causes));
            ControlFlow::Break(())
        });
        let sheet = sheet.filter(|sheet| sheet.start_lsn == lsn);
        sheet.ok_or_else(|| Box::new(stopped.unwrap_or(StoppedAt::NoRecord { at: lsn })))
    }

    /// Shows the records from `from` on; why reading stopped, if it did so by itself.
    fn walk_from(
        &self,
        from: Lsn,
        keep: Keep,
        visit: impl FnMut(&crate::parsers::wal::record::Record<'_>) -> ControlFlow<()>,
    ) -> Option<StoppedAt> {
        let size = u64::from(self.set.geometry().wal_segment_size);
        let segments = self.set.segments();
        let holds = |run: &std::ops::Range<usize>| {
            let first = segments.get(run.start).map(|file| file.start_lsn);
            let last = run.end.checked_sub(1).and_then(|last| segments.get(last)).map(|file| file.start_lsn);
            first.zip(last).is_some_and(|(first, last)| (first..last.advanced_by(size)).contains(&from))
        };
        let Some(run) = self.set.runs().into_iter().find(holds) else {
            return Some(StoppedAt::NoSegment { at: from });
        };
        let end_lsn = self.plan().end_lsn;
        let stretch = Stretch { set: &self.set, run, start_lsn: from, end_lsn, keep };
        match walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), visit) {
            Ok(walked) => walked.error.map(StoppedAt::unreadable).or(walked.end.map(StoppedAt::End)),
            Err(error) => Some(StoppedAt::unreadable(error)),
        }
    }
}
