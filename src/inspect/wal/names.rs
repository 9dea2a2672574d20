//! Names instead of numbers.
//! Also here: some WAL in short stretches, and its records one by one.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::images::cause_facts;
use super::request::WatchWal;
use super::source::WalSource;
use crate::analysis::wal::catalog_rows::{CatalogFileNumbers, CatalogRowReader, CatalogRows};
use crate::analysis::wal::cause::{Cause, CauseClassifier};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::record_sheet::{MAX_LISTED, RecordLine, RecordList, RecordSheet, StoppedAt};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::timeline::{Timeline, TimelineCounter};
use crate::analysis::wal::unreadable::UnreadableImages;
use crate::analysis::wal::walk::walk_run;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::cluster::wal::WalSet;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::parsers::wal::block::Keep;
use crate::report::Finding;
use crate::types::{Lsn, RelFileLocator};

/// What is known of names of relations and databases.
#[derive(Debug, Default)]
pub struct NameLookup {
    known: Option<RelationNames>,
    gaps: Vec<NameGap>,
    /// There is nothing but the WAL to take names from.
    of_wal_alone: bool,
}

/// What stands for the WAL itself as the source of names.
pub(crate) const NAMES_OF_WAL: &str = "wal";

impl NameLookup {
    /// Reads the names of a data directory, or those in a file; no path: none are known.
    ///
    /// # Errors
    /// When they cannot be read at all.
    pub fn open(path: Option<&Path>) -> Result<Self, InspectError> {
        let Some(path) = path else { return Ok(Self::default()) };
        if path == Path::new(NAMES_OF_WAL) {
            return Ok(Self { known: Some(RelationNames::default()), gaps: Vec::new(), of_wal_alone: true });
        }
        let (known, gaps) =
            if path.is_dir() { RelationNames::read(&open_data_dir(path)?) } else { RelationNames::from_json(path)? };
        Ok(Self { known: Some(known), gaps, of_wal_alone: false })
    }

    /// The names of the data directory that the WAL is of, as far as they can be read: nobody asked for them.
    pub(super) fn unasked(data_dir: &Path) -> Self {
        Self::open(Some(data_dir)).map_or_else(|_| Self::default(), |names| Self { gaps: Vec::new(), ..names })
    }

    /// No catalog that names come from was missing or damaged.
    pub(crate) const fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    pub fn relation(&self, rel: RelFileLocator) -> Option<String> {
        self.known.as_ref().and_then(|known| known.full_name(rel))
    }

    /// True when names come from the WAL alone, so they belong to its cluster.
    pub(crate) const fn is_of_wal_alone(&self) -> bool {
        self.of_wal_alone
    }

    /// Adds names that rows of catalogs in the WAL tell, doubtful ones, where names were asked for. The WAL is read once for
    /// it, as a whole: what a range leaves out may name what lies in it. Images of catalogs that cannot be restored are
    /// findings: names may be missing. Whoever reads the WAL tells what else is wrong with it.
    pub(super) fn add_from_wal(&mut self, set: &WalSet, jobs: usize) -> Vec<Finding> {
        let (Some(known), Some(major)) = (&mut self.known, set.major()) else { return Vec::new() };
        let files = CatalogFileNumbers::of(known);
        let mut rows = CatalogRows::new(major.facts().catalog, files.clone());
        let (block_size, mut unreadable) = (set.geometry().block_size, UnreadableImages::default());
        for run in set.runs() {
            let stretch = ScanPlan::totals().stretch(set, &run, Keep::Blocks);
            let begin = |_| CatalogRowReader::new(&files, block_size);
            let read = collect_run(&stretch, jobs, &|_| ControlFlow::Continue(()), begin, |part| {
                unreadable.append(std::mem::take(&mut part.found.unreadable));
                rows.push(&mut part.found);
                Ok(())
            });
            // The counts that belong to these names meet the same errors, and tell them.
            drop(read);
        }
        rows.name(known);
        unreadable.findings()
    }

    /// The names, if any were asked for.
    pub const fn known(&self) -> Option<&RelationNames> {
        self.known.as_ref()
    }

    /// What could not be read.
    pub fn gaps(&self) -> &[NameGap] {
        &self.gaps
    }
}

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
