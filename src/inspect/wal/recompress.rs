//! Images compressed again, with every method that a server has, and how long that takes.
//! Also here: full-page images as the pages that they hold.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::images::{FoundImage, ImageSelection};
use super::request::WatchWal;
use super::source::{Notes, WalSource};
use crate::analysis::plan::whatif::WhatIfPlan;
use crate::analysis::plan::whatif::compression::{
    CompressionSampler, CompressionWhatIf, SampleLimits, SampleSize, Setting,
};
use crate::analysis::skipped::SkippedPart;
use crate::analysis::wal::unreadable::{UnreadableImage, UnreadableImages};
use crate::inspect::wal::rules;
use crate::parsers::image::{Compression, ImageDecoder, ready_page};
use crate::parsers::image_encoder::ImageEncoder;
use crate::parsers::wal::block::Keep;

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
