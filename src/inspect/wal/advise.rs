//! What one reading of some WAL says of its images: how much there is, whose, when, and what would have saved some.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::counting::{Counting, Reading, RunStep};
use super::images::redo_in_control;
use super::kept::kept_of_paths;
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use super::stats::WalCounts;
use super::whatif::keep_of;
use crate::analysis::plan::kept::KeptWal;
use crate::analysis::plan::savings::{Savings, tried_spacings};
use crate::analysis::plan::whatif::compression::{CompressionSampler, CompressionWhatIf, SampleLimits, SampleSize};
use crate::analysis::plan::whatif::{SegmentTouches, WhatIf, WhatIfPlan, WhatIfReplay};
use crate::analysis::wal::bill::WalBill;
use crate::analysis::wal::cause_facts::{CauseFacts, FactsFold, SegmentFacts};
use crate::analysis::wal::curve::Overview;
use crate::analysis::wal::group::{GroupRow, RelationFigures};
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key, RelationKind};
use crate::analysis::wal::likely_cause::HintCost;
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::relation_use::RelationUses;
use crate::analysis::wal::segment::Stretch;
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::inspect::error::InspectError;
use crate::types::{Lsn, RelFileLocator};

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
    /// Every byte of it by what it is.
    pub bill: Option<WalBill>,
    /// Relations with records or images, and records of none, those with the most bytes first.
    pub relations: Vec<AdvisedRelation>,
    /// What other settings would have made of it.
    pub what_if: WhatIf,
    /// What keeps `pg_wal`, where a data directory was named.
    pub(crate) kept: Option<KeptWal>,
    pub wal: ReadWal,
}

/// What one relation costs.
#[derive(Clone, Debug)]
pub struct AdvisedRelation {
    /// Its counts.
    pub row: GroupRow,
    /// The type of record that most of its bytes are in, images included, and these bytes.
    pub main_record: Option<(Key, u64)>,
    /// Bytes of WAL that the cure of its likely cause saves, and how sure that is.
    pub gain: Option<(u64, Certainty)>,
}

impl AdvisedRelation {
    /// One row for each relation, from rows for each type of record of it.
    pub(super) fn of(counted: &WalCounts, names: &NameLookup, hints: &HintCost) -> Vec<Self> {
        let (uses, names) = (counted.uses.as_ref(), names.known());
        let mut relations: FxHashMap<Key, (Tally, Option<(Key, u64)>)> = FxHashMap::default();
        for (key, tally) in counted.rows() {
            let (sum, most) = relations.entry(key.first).or_default();
            sum.add(&tally);
            let bytes = tally.combined_bytes();
            if let Some(record) = key.second.filter(|_| most.is_none_or(|(_, most)| bytes > most)) {
                *most = Some((record, bytes));
            }
        }
        let blocks = uses.map(RelationUses::distinct_blocks).unwrap_or_default();
        let rows = relations.into_iter().map(|(key, (tally, main_record))| {
            let figures = match (key, uses) {
                (Key::Relation(rel), Some(uses)) => {
                    blocks.get(&rel).map(|of| RelationFigures::new(rel, uses, *of, names))
                }
                _ => None,
            };
            Self { row: GroupRow { key: key.into(), tally, figures }, main_record, gain: None }
        });
        let mut rows: Vec<Self> = rows.collect();
        let owners = names.map(RelationNames::owners);
        let mut indexes: FxHashMap<RelFileLocator, u64> = FxHashMap::default();
        for one in rows.iter().filter(|one| one.kind().is_some_and(|kind| matches!(kind, RelationKind::Index(_)))) {
            let owner = one.rel().zip(owners.as_ref()).and_then(|(rel, owners)| owners.get(&rel));
            owner.into_iter().for_each(|owner| *indexes.entry(*owner).or_default() += one.row.tally.combined_bytes());
        }
        for one in &mut rows {
            let own = owners.is_some().then(|| one.rel().and_then(|rel| indexes.get(&rel)).copied().unwrap_or(0));
            one.gain = one.row.figures.and_then(|figures| figures.likely_cause?.gain(&figures.activity, own, hints));
        }
        rows.sort_unstable_by_key(|one| (std::cmp::Reverse(one.row.tally.combined_bytes()), one.row.key));
        rows
    }
}

impl AdvisedRelation {
    const fn rel(&self) -> Option<RelFileLocator> {
        match self.row.key.first {
            Key::Relation(rel) => Some(rel),
            _ => None,
        }
    }

    fn kind(&self) -> Option<RelationKind> {
        self.row.figures.map(|figures| figures.kind)
    }
}

/// The data directory that WAL was asked for, if it was one and no names were.
fn own_data_dir(request: &WalRequest) -> Option<&Path> {
    let [path] = &request.paths[..] else { return None };
    (request.names.is_none() && DataDir::open(path).is_ok()).then_some(path)
}

/// Reads WAL once, and again to compress images. Damage is a finding, unreadable WAL is part of the coverage. When `watch`
/// interrupts it, the answer covers the WAL read so far, as the coverage says.
///
/// # Errors
/// When there is no such WAL, the range is empty, or names were asked for that cannot be read.
pub fn advise(request: &AdviseRequest, watch: WatchWal<'_>) -> Result<WalAdvice, InspectError> {
    let mut names = match own_data_dir(&request.wal) {
        Some(data_dir) => NameLookup::unasked(data_dir),
        None => NameLookup::open(request.wal.names.as_deref())?,
    };
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    let what_if_plan = WhatIfPlan { spacings: tried_spacings(), completion_target: request.completion_target };
    let survey = SurveyPlan { settings: &what_if_plan, sample: request.sample, causes: false };
    let Surveyed { counts, by_relation, what_if, compression, .. } = source.survey(&survey, request.wal.jobs, watch);
    if !source.coverage.is_interrupted() && by_relation.has_unnamed(&names) {
        source.find_names(&mut names, request.wal.jobs);
    }
    let relations = AdvisedRelation::of(&by_relation, &names, &what_if.hints);
    let (bill, savings) = bill_and_savings(&source, &counts, &by_relation, &what_if, compression.as_ref());
    Ok(WalAdvice {
        overview: overview_of(&counts),
        kept: kept_of_paths(&request.wal.paths).map(|report| report.wal),
        bill,
        savings,
        relations,
        what_if,
        wal: ReadWal::of(source, names),
    })
}

/// Questions to one reading of some WAL in addition to the counts.
pub(super) struct SurveyPlan<'a> {
    pub(super) settings: &'a WhatIfPlan,
    /// How many images are compressed again; `None`: none.
    pub(super) sample: Option<SampleSize>,
    /// Facts are gathered by which a second reading tells causes.
    pub(super) causes: bool,
}

/// Results of one reading of some WAL.
#[derive(Debug)]
pub(super) struct Surveyed {
    /// By checkpoint interval.
    pub(super) counts: WalCounts,
    /// By relation and type of record, with what was done with each relation.
    pub(super) by_relation: WalCounts,
    pub(super) what_if: WhatIf,
    pub(super) compression: Option<CompressionWhatIf>,
    pub(super) facts: Option<CauseFacts>,
}

impl WalSource {
    /// Counts the range by interval and by relation, replays it under other settings, and compresses a sample of its images.
    pub(super) fn survey(&mut self, wanted: &SurveyPlan<'_>, jobs: usize, watch: WatchWal<'_>) -> Surveyed {
        let by_interval = ScanPlan { blocks: true, ..self.plan() };
        let pair = Grouping::pair(GroupBy::Relation, GroupBy::Record);
        let by_relation = ScanPlan { group: Some(pair), ..self.plan() };
        let (mut intervals, mut relations) = (Counting::new(&by_interval, false), Counting::new(&by_relation, false));
        let mut replay = WhatIfReplay::new(wanted.settings, self.set.geometry(), self.set.major());
        let limits = wanted.sample.map(|size| self.sample_limits(size));
        let mut sampler = limits.as_ref().map(CompressionSampler::new);
        // Facts need all WAL, including that after the end of the range.
        let gathers_facts = wanted.causes && by_interval.end_lsn == Lsn(u64::MAX);
        let mut facts = FactsFold::default();
        let watched = self.watched(watch);
        let reading = Reading { plan: &by_interval, keep: keep_of(limits.as_ref()), jobs, watched: &watched };
        let begin = |stretch: &Stretch<'_>, index| {
            let counter = |plan| Counter::new(stretch.set, index, plan, &[]);
            let causes = gathers_facts.then(SegmentFacts::default);
            (
                (counter(&by_interval), counter(&by_relation)),
                (SegmentTouches::new(stretch, index), (limits.as_ref().map(SampleLimits::segment), causes)),
            )
        };
        self.each_segment(&reading, begin, |stretch, step| {
            let (part, end_lsn) = match step {
                RunStep::Segment(part, end_lsn) => (part, end_lsn),
                RunStep::End(end_lsn) => {
                    end_lsn.into_iter().for_each(|end_lsn| replay.end_run(end_lsn));
                    facts.end_run();
                    return intervals.end_run(stretch, &watched);
                }
            };
            let segment = (part.index, &part.extent);
            let ((by_interval, by_relation), (touches, (images, causes))) = &mut part.found;
            sampler.iter_mut().zip(images).for_each(|(sampler, images)| sampler.add(images));
            causes.iter().for_each(|causes| facts.push(causes));
            intervals.take(stretch, segment, &mut by_interval.counts, end_lsn, &watched)?;
            relations.take(stretch, segment, &mut by_relation.counts, end_lsn, &watched)?;
            replay.take(stretch, part.index, part.from, touches, &|bytes| watched.advance(bytes))
        });
        let counts = intervals.finish(&mut self.findings);
        // The same records again: their findings were reported the first time.
        let by_relation = relations.finish(&mut Vec::new());
        let (mut what_if, _, _) = replay.finish();
        self.coverage.examined = counts.total.records;
        self.note_range_without_wal();
        let mut compression = self.end_of_sample(sampler, jobs);
        let facts = gathers_facts.then(|| facts.finish(redo_in_control(&self.set)));
        if !self.is_whole() {
            what_if.mark_part();
            compression.iter_mut().for_each(CompressionWhatIf::mark_part);
        }
        Surveyed { counts, by_relation, what_if, compression, facts }
    }
}

/// Every byte of the WAL, and what each remedy would have saved of it.
pub(super) fn bill_and_savings(
    source: &WalSource,
    counts: &WalCounts,
    by_relation: &WalCounts,
    what_if: &WhatIf,
    compression: Option<&CompressionWhatIf>,
) -> (Option<WalBill>, Savings) {
    let old_rows = by_relation.uses.as_ref().map(RelationUses::old_rows).unwrap_or_default();
    let mut savings = Savings::of(what_if, compression, source.set.major());
    if let Some(rest) = &counts.rest {
        savings = savings.and_of_rest(rest, old_rows, source.set.geometry().wal_segment_size);
    }
    (counts.bill(old_rows), savings.with_checkpoints_of(&counts.intervals))
}

/// The WAL in a few figures.
pub(super) fn overview_of(counts: &WalCounts) -> Overview {
    Overview::new(
        counts.total,
        counts.wal_bytes,
        counts.from.zip(counts.to),
        &counts.intervals,
        &counts.times,
        counts.since_redo,
    )
}
