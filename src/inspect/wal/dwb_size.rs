//! How large a double write buffer must be for some WAL, and whether the one that is there has wrapped.

use std::ops::ControlFlow;
use std::path::Path;

use super::counting::{Reading, RunStep};
use super::images::redo_points;
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use crate::analysis::dwb::format::patch::WRAPPED;
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::plan::dwb_size::{BufferWrap, DirtiedInterval, DirtyBlocks, DirtyCut, DirtyFold};
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::wal::segment::Undecoded;
use crate::analysis::wal::stretch::Stretch;
use crate::inspect::dwb_source::DwbSource;
use crate::inspect::error::InspectError;
use crate::inspect::wal::rules;
use crate::parsers::dwb::LAYOUTS;
use crate::parsers::wal::block::Keep;

/// What WAL says of a double write buffer.
#[derive(Debug)]
pub(crate) struct DwbSizeReport {
    pub intervals: Vec<DirtiedInterval>,
    /// What the buffer of a data directory among the paths shows; `None`: no data directory was named.
    pub buffer: Option<BufferWrap>,
    pub wal: ReadWal,
}

/// Counts the blocks that are dirtied in each checkpoint interval, and looks into the buffer of a data directory that was
/// named. Damage is a finding, and what could not be read is part of the coverage.
pub(crate) fn dwb_size(request: &WalRequest, watch: WatchWal<'_>) -> Result<DwbSizeReport, InspectError> {
    let mut source = WalSource::open_watched(request, watch)?;
    let (intervals, records) = source.dirtied(request.jobs, watch);
    source.coverage.examined = records;
    source.note_range_without_wal();
    let data_dir = request.paths.iter().find(|path| path.join("PG_VERSION").is_file());
    let buffer = data_dir.map(|path| buffer_of(path, request.jobs, &mut source.coverage));
    Ok(DwbSizeReport { intervals, buffer, wal: ReadWal::of(source, NameLookup::default()) })
}

impl WalSource {
    /// Blocks that were dirtied in each checkpoint interval, and how many records were read.
    pub(super) fn dirtied(&mut self, jobs: usize, watch: WatchWal<'_>) -> (Vec<DirtiedInterval>, u64) {
        let (watched, plan) = (self.watched(watch), self.plan());
        let redo_points = redo_points(self, &plan, jobs, &watched);
        let watched = self.watched(watch);
        let cuts = DirtyCut::at(&redo_points);
        let (mut fold, mut records) = (DirtyFold::default(), 0_u64);
        let reading = Reading { plan: &plan, keep: Keep::Heads, jobs, watched: &watched };
        let begin = |stretch: &Stretch<'_>, index: usize| {
            (DirtyBlocks::of_segment(stretch, index, &cuts), Undecoded::default())
        };
        let mut undecoded = Vec::new();
        self.each_segment(&reading, begin, |_, step| {
            match step {
                RunStep::Segment(part, _) => {
                    let (found, wrong) = &mut part.found;
                    records = records.saturating_add(found.records);
                    fold.push(&found.parts);
                    undecoded.extend(wrong.0.take());
                }
                RunStep::End(Some(end_lsn)) => fold.end_run(end_lsn),
                RunStep::End(None) => {}
            }
            Ok(())
        });
        self.findings.extend(undecoded.into_iter().map(|error| rules::PAYLOAD.problem(error.to_string())));
        (fold.finish(), records)
    }
}

/// Whether the buffer of a data directory has wrapped. What of it cannot be read is not examined.
fn buffer_of(path: &Path, jobs: usize, coverage: &mut Coverage) -> BufferWrap {
    let source = match DwbSource::open(&[path.to_owned()]) {
        Ok(source) => source,
        Err(error) => {
            coverage.skip(SkippedPart::DoubleWriteBuffer, SkipReason::Unreadable(ErrorWords::of_other(&error)));
            return BufferWrap::Unknown;
        }
    };
    if source.set.files.is_empty() && source.set.skipped.is_empty() {
        return BufferWrap::NoBuffer;
    }
    let has_setting = |name: &str| LAYOUTS.iter().any(|layout| layout.name() == name);
    if !source.set.files.is_empty() && !source.set.files.iter().any(|file| has_setting(file.detection.layout.name())) {
        return BufferWrap::Never;
    }
    let (report, findings) = source.examine_slots(jobs, |_, _| ControlFlow::Continue(()));
    let mut is_current = false;
    for (index, file) in source.set.files.iter().enumerate() {
        is_current |= (0..file.detection.slot_count).any(|slot| {
            report.staleness.verdict(index, slot).is_some_and(|(verdict, _)| verdict == BatchVerdict::Current)
        });
    }
    coverage.append_once(report.coverage);
    if findings.iter().any(|finding| finding.is(&WRAPPED)) {
        BufferWrap::Likely
    } else if is_current {
        BufferWrap::No
    } else {
        BufferWrap::Unknown
    }
}
