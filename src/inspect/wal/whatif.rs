//! What other settings would have made of some WAL.

use super::counting::{Reading, RunStep};
use super::names::NameLookup;
use super::recompress::keep_of;
use super::request::{WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use crate::analysis::plan::whatif::compression::{CompressionSampler, CompressionWhatIf, SampleLimits, SampleSize};
use crate::analysis::plan::whatif::{SegmentTouches, Spacing, WhatIf, WhatIfPlan, WhatIfReplay};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::inspect::wal::rules;

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
