//! What one reading of some WAL says of its images: how much there is, whose, when, and what would have saved some.

use super::counting::Counting;
use super::names::NameLookup;
use super::read_wal::ReadWal;
use super::request::WalRequest;
use super::segments::{Reading, RunStep};
use super::source::WalSource;
use super::watch::WatchWal;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::group_rows::{GroupRow, group_rows};
use crate::analysis::wal::overview::Overview;
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::savings::{SPREADS, Savings};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::whatif::collect::{SegmentTouches, WhatIfReplay};
use crate::analysis::wal::whatif::compression::{CompressionWhatIf, SampleSize};
use crate::analysis::wal::whatif::{Spacing, WhatIf, WhatIfPlan};
use crate::inspect::error::InspectError;
use crate::parsers::wal::block::Keep;

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct AdviseRequest {
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
    /// How many images are compressed again; `None`: none.
    pub sample: Option<SampleSize>,
    /// `checkpoint_completion_target`, which WAL does not tell; `None`: the default of the major.
    pub completion_target: Option<f64>,
}

/// What was found.
#[derive(Debug)]
pub struct WalAdvice {
    /// All of it in a few figures.
    pub overview: Overview,
    /// What each remedy would have saved.
    pub savings: Savings,
    /// Relations, those with the most image bytes first.
    pub relations: Vec<GroupRow>,
    /// What other settings would have made of it.
    pub what_if: WhatIf,
    /// What compression would have made of its images, if that was asked for.
    pub compression: Option<CompressionWhatIf>,
    /// The WAL that was read.
    pub wal: ReadWal,
}

/// Reads some WAL once, and once more where images are to be compressed again. Damage is a finding, and what could not be
/// read is part of the coverage; when `watch` breaks it off, the answer is about what was read up to there and the coverage
/// says so.
///
/// # Errors
/// When there is no such WAL, the range is empty, or names were asked for that cannot be read.
pub fn advise(request: &AdviseRequest, watch: WatchWal<'_>) -> Result<WalAdvice, InspectError> {
    let mut names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    let by_interval = ScanPlan { blocks: true, ..source.plan() };
    let by_relation = ScanPlan { group: Some(GroupBy::Relation.into()), ..source.plan() };
    let (mut intervals, mut relations) = (Counting::new(&by_interval, false), Counting::new(&by_relation, false));
    let spacings = SPREADS.map(Spacing::Every).to_vec();
    let what_if_plan = WhatIfPlan { spacings, completion_target: request.completion_target };
    let mut replay = WhatIfReplay::new(&what_if_plan, source.set.geometry(), source.set.major());
    let (watched, jobs) = (source.watched(watch), request.wal.jobs);
    let reading = Reading { plan: &by_interval, keep: Keep::Heads, jobs, watched: &watched };
    let begin = |stretch: &Stretch<'_>, index| {
        let counter = |plan| Counter::new(stretch.set, index, plan, &[]);
        ((counter(&by_interval), counter(&by_relation)), SegmentTouches::new(stretch, index))
    };
    source.each_segment(&reading, begin, |stretch, step| {
        let (part, end_lsn) = match step {
            RunStep::Segment(part, end_lsn) => (part, end_lsn),
            RunStep::End(end_lsn) => {
                end_lsn.into_iter().for_each(|end_lsn| replay.end_run(end_lsn));
                return intervals.end_run(stretch, &watched);
            }
        };
        let segment = (part.index, &part.extent);
        let ((by_interval, by_relation), touches) = &mut part.found;
        intervals.take(stretch, segment, &mut by_interval.counts, end_lsn, &watched)?;
        relations.take(stretch, segment, &mut by_relation.counts, end_lsn, &watched)?;
        replay.take(stretch, part.index, part.from, touches, &|bytes| watched.advance(bytes))
    });
    let counts = intervals.finish(&mut source.findings);
    // The same records again: what was odd about them has been said.
    let by_relation = relations.finish(&mut Vec::new());
    if !source.coverage.is_interrupted() && by_relation.has_unnamed(&names) {
        source.find_names(&mut names, jobs);
    }
    let (mut what_if, _, _) = replay.finish();
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    let mut compression =
        request.sample.and_then(|size| source.once_more(|source| source.recompress(size, jobs, watch)));
    if !source.is_whole() {
        what_if.mark_part();
        compression.iter_mut().for_each(CompressionWhatIf::mark_part);
    }
    let groups = by_relation.groups.as_ref();
    let mut relations =
        groups.map_or_else(Vec::new, |groups| group_rows(groups, by_relation.uses.as_ref(), names.known()));
    relations.retain(|row| row.figures.is_some() && row.tally.fpi_bytes > 0);
    relations.sort_by_key(|row| std::cmp::Reverse(row.tally.fpi_bytes));
    let overview = Overview::new(
        counts.total,
        counts.wal_bytes,
        counts.from.zip(counts.to),
        &counts.intervals,
        &counts.times,
        counts.since_redo,
    );
    Ok(WalAdvice {
        overview,
        savings: Savings::of(&what_if, compression.as_ref(), source.set.major()),
        relations,
        what_if,
        compression,
        wal: ReadWal::of(source, names),
    })
}
