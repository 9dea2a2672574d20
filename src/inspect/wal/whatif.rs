//! What other settings would have made of some WAL.
//! Also here: how large a double write buffer must be for some WAL, and whether the one that is there has wrapped.

use std::ops::ControlFlow;
use std::path::Path;

use super::counting::{Reading, RunStep};
use super::images::redo_points;
use super::names::NameLookup;
use super::recompress::keep_of;
use super::request::{WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use crate::analysis::dwb::format::patch::WRAPPED;
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::plan::dwb_size::{BufferWrap, DirtiedInterval, DirtyBlocks, DirtyCut, DirtyFold};
use crate::analysis::plan::whatif::compression::{CompressionSampler, CompressionWhatIf, SampleLimits, SampleSize};
use crate::analysis::plan::whatif::{SegmentTouches, Spacing, WhatIf, WhatIfPlan, WhatIfReplay};
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::wal::segment::{Stretch, Undecoded};
use crate::analysis::wal::tally::Tally;
use crate::inspect::dwb_source::DwbSource;
use crate::inspect::error::InspectError;
use crate::inspect::wal::rules;
use crate::parsers::dwb::LAYOUTS;
use crate::parsers::wal::block::Keep;

/// What is replayed.
#[derive(Clone, Debug)]
pub struct WhatIfRequest {
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
    /// Under which settings.
    pub plan: WhatIfPlan,
    /// How many images are compressed again; `None`: none are.
    pub compression: Option<SampleSize>,
}

/// What other settings would have made of some WAL.
#[derive(Debug)]
pub struct WhatIfReport {
    /// What came of each.
    pub what_if: WhatIf,
    /// What each setting of `wal_compression` makes of the images, where that was asked for.
    pub compression: Option<CompressionWhatIf>,
    /// The WAL that was read.
    pub wal: ReadWal,
}

/// Values of `max_wal_size` from 64 MiB to 64 GiB, and of `checkpoint_timeout` from 30 s to 1 h.
pub(crate) fn usual_spacings() -> Vec<Spacing> {
    /// 64 MiB.
    const SMALLEST: u64 = 64 << 20;
    /// Each twice the one before it.
    const SIZES: u32 = 11;
    const SECONDS: [u32; 8] = [30, 60, 120, 300, 600, 900, 1800, 3600];
    let every = [2, 4, 8].map(Spacing::Every);
    let sizes = (0..SIZES).map(|doubled| Spacing::MaxWalSize { bytes: SMALLEST << doubled });
    let timeouts = SECONDS.map(|seconds| Spacing::Timeout { seconds });
    every.into_iter().chain(sizes).chain(timeouts).collect()
}

impl WalSource {
    /// Replays the range under other settings, counts its records, and compresses a sample of its images.
    pub(crate) fn replay_under(
        &mut self,
        settings: &WhatIfPlan,
        sample: Option<SampleSize>,
        jobs: usize,
        watch: WatchWal<'_>,
    ) -> (WhatIf, Tally, Option<CompressionWhatIf>) {
        let limits = sample.map(|size| self.sample_limits(size));
        let mut sampler = limits.as_ref().map(CompressionSampler::new);
        let (watched, plan) = (self.watched(watch), self.plan());
        let mut replay = WhatIfReplay::new(settings, self.set.geometry(), self.set.major());
        let reading = Reading { plan: &plan, keep: keep_of(limits.as_ref()), jobs, watched: &watched };
        let begin = |stretch: &Stretch<'_>, index| {
            (SegmentTouches::new(stretch, index), limits.as_ref().map(SampleLimits::segment))
        };
        self.each_segment(&reading, begin, |stretch, step| match step {
            RunStep::Segment(part, _) => {
                let (touches, images) = &mut part.found;
                sampler.iter_mut().zip(images).for_each(|(sampler, images)| sampler.add(images));
                replay.take(stretch, part.index, part.from, touches, &|bytes| watched.advance(bytes))
            }
            RunStep::End(end_lsn) => {
                end_lsn.into_iter().for_each(|end_lsn| replay.end_run(end_lsn));
                Ok(())
            }
        });
        self.findings.extend(replay.odd_times());
        let (what_if, tally, undecoded) = replay.finish();
        for error in undecoded {
            self.findings.push(rules::PAYLOAD.problem(error.to_string()));
        }
        (what_if, tally, self.end_of_sample(sampler, jobs))
    }
}

/// Replays some WAL under other settings. Damage is a finding, and what could not be read is part of the coverage; when
/// `watch` interrupts it, the answer is about what was read up to there and the coverage says so.
///
/// # Errors
/// When there is no such WAL, or the range is empty.
pub fn what_if(request: &WhatIfRequest, watch: WatchWal<'_>) -> Result<WhatIfReport, InspectError> {
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    let (mut what_if, tally, mut compression) =
        source.replay_under(&request.plan, request.compression, request.wal.jobs, watch);
    source.coverage.examined = tally.records;
    source.note_range_without_wal();
    if !source.is_whole() {
        what_if.mark_part();
        compression.iter_mut().for_each(CompressionWhatIf::mark_part);
    }
    Ok(WhatIfReport { what_if, compression, wal: ReadWal::of(source, NameLookup::default()) })
}

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
