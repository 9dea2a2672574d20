//! What other settings would have made of some WAL.
//! Also here: how large a double write buffer must be for some WAL, and whether the one that is there has wrapped.
//! Also here: images compressed again, with every method that a server has, and how long that takes; full-page images
//! as the pages that they hold.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::counting::{Reading, RunStep};
use super::images::{FoundImage, ImageSelection, redo_points};
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal};
use super::rules;
use super::source::{Notes, ReadWal, WalSource};
use crate::analysis::dwb::format::patch::WRAPPED;
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::plan::dwb_size::{BufferWrap, DirtiedInterval, DirtyBlocks, DirtyCut, DirtyFold};
use crate::analysis::plan::whatif::compression::{
    CompressionSampler, CompressionWhatIf, SampleLimits, SampleSize, Setting,
};
use crate::analysis::plan::whatif::{SegmentTouches, Spacing, WhatIf, WhatIfPlan, WhatIfReplay};
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::wal::segment::{Stretch, Undecoded};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::unreadable::{UnreadableImage, UnreadableImages};
use crate::inspect::dwb_source::DwbSource;
use crate::inspect::error::InspectError;
use crate::parsers::dwb::LAYOUTS;
use crate::parsers::image::{Compression, ImageDecoder, ImageEncoder, ready_page};
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

/// Processor time after which nothing more is measured of a method.
const MEASURED: Duration = Duration::from_millis(40);

/// Rounds over all images that are measured, the best of which counts.
const MAX_ROUNDS: u32 = 5;

impl WalSource {
    /// Compresses the images of the range again, all of them or a sample, and measures how long that takes. Images that
    /// cannot be restored are findings.
    pub fn recompress(&mut self, size: SampleSize, jobs: usize, watch: WatchWal<'_>) -> CompressionWhatIf {
        let settings = WhatIfPlan { spacings: Vec::new(), completion_target: None };
        self.replay_under(&settings, Some(size), jobs, watch).2.unwrap_or_default()
    }

    pub(super) fn sample_limits(&self, size: SampleSize) -> SampleLimits {
        SampleLimits::new(size, self.set.geometry().block_size, self.set.segments().len())
    }

    /// Sizes of the sample under each method, and the time that it takes; `None` when reading was interrupted.
    pub(super) fn end_of_sample(
        &mut self,
        sampler: Option<CompressionSampler<'_>>,
        jobs: usize,
    ) -> Option<CompressionWhatIf> {
        let mut what_if = sampler.filter(|_| !self.coverage.is_interrupted())?.finish(jobs);
        self.findings.extend(what_if.unreadable.findings());
        measure(&mut what_if);
        Some(what_if)
    }
}

/// How records are kept for a sample: one of images needs their bytes.
pub(super) const fn keep_of(limits: Option<&SampleLimits>) -> Keep {
    if limits.is_some() { Keep::Blocks } else { Keep::Heads }
}

/// Measures all methods, one after the other, on this thread, with the images that were kept for it.
fn measure(what_if: &mut CompressionWhatIf) {
    let pages = &what_if.timed;
    let bytes: usize = pages.iter().map(Vec::len).sum();
    for row in what_if.rows.iter_mut().filter(|_| bytes > 0) {
        let Setting::On(method) = row.setting else { continue };
        row.seconds_per_gb = best_round(pages, method).map(|time| time.as_secs_f64() / bytes as f64 * 1e9);
    }
}

/// Processor time of the best round; the first one warms up and does not count. `None` where the system has no clock.
fn best_round(pages: &[Vec<u8>], method: Compression) -> Option<Duration> {
    let mut encoder = ImageEncoder::new();
    let mut best: Option<Duration> = None;
    let mut measured = Duration::ZERO;
    for round in 0..=MAX_ROUNDS {
        let begin = thread_time()?;
        for page in pages {
            // Whether a page has a hole decides what is done with the result, not how long it takes.
            encoder.forget_context();
            std::hint::black_box(encoder.compress(method, std::hint::black_box(page), false));
        }
        let time = thread_time()?.saturating_sub(begin);
        measured += time;
        if round > 0 {
            best = Some(best.map_or(time, |best| best.min(time)));
        }
        if best.is_some() && measured > MEASURED {
            break;
        }
    }
    best
}

/// Processor time of this thread so far.
fn thread_time() -> Option<Duration> {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).ok()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageForm {
    /// As redo would leave them: with the LSN of the record's end and a checksum that fits. Images that redo does not
    /// apply are left out.
    #[default]
    AfterRedo,
    /// As the record holds them, byte for byte; all images.
    AsStored,
}

impl WalSource {
    /// Shows the page of every image that was selected, in order, and counts the images that were left out because redo
    /// does not apply them. An image that cannot be restored is a finding. An error of `visit` ends it.
    pub(crate) fn each_page<E>(
        &mut self,
        selection: &ImageSelection,
        form: PageForm,
        jobs: usize,
        watch: WatchWal<'_>,
        mut visit: impl FnMut(&mut Notes<'_>, &FoundImage<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        // Without a control file the checksum is set: where checksums are off the field may hold anything.
        let checksums = self.set.control().is_none_or(|control| control.checksums.is_written());
        let mut page = vec![0; usize::try_from(self.set.geometry().block_size).unwrap_or_default()];
        let mut decoder = ImageDecoder::new();
        let (mut left_out, mut unreadable) = (0, UnreadableImages::default());
        let shown = self.each_image(selection, jobs, watch, |notes, found| {
            if form == PageForm::AfterRedo && !found.image.applies() {
                left_out += 1;
                return Ok(());
            }
            if let Err(error) = decoder.restore(found.image, &mut page) {
                let (block, record_lsn) = (found.block.block, found.record.start_lsn);
                unreadable.push(UnreadableImage { block, record_lsn, error });
                return Ok(());
            }
            if form == PageForm::AfterRedo {
                ready_page(&mut page, found.record.end_lsn, found.block.block, checksums);
            }
            visit(notes, found, &page)
        });
        for finding in unreadable.findings() {
            // What its cause is told by may have been looked for in it before.
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        shown?;
        if left_out > 0 {
            self.findings
                .push(rules::NOT_APPLIED.note(format!("{left_out} images that redo does not apply were left out")));
        }
        Ok(left_out)
    }
}

impl FoundImage<'_> {
    /// What a report calls it when it was not examined or written.
    pub(crate) const fn as_part(&self) -> SkippedPart {
        SkippedPart::Image { block: self.block.block, record_lsn: self.record.start_lsn }
    }
}
