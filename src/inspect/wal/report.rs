//! The report on some WAL: one reading for all that `advise` says, and one for what redo points must be known for.

use rustc_hash::FxHashMap;

use super::advise::{AdvisedRelation, SurveyPlan, Surveyed, bill_and_savings, overview_of};
use super::counting::{Reading, RunStep};
use super::images::{ImageCauses, ImageHeads, cause_facts, redo_points_of};
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal};
use super::source::WalSource;
use super::stats::WalCounts;
use super::whatif::usual_spacings;
use crate::analysis::plan::dwb_size::{DirtiedInterval, DirtyBlocks, DirtyCut, DirtyFold};
use crate::analysis::plan::savings::tried_spacings;
use crate::analysis::plan::whatif::compression::SampleSize;
use crate::analysis::plan::whatif::{Spacing, WhatIfPlan};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::cause_facts::CauseFacts;
use crate::analysis::wal::group::RelationFigures;
use crate::analysis::wal::group_key::{GroupBy, Key};
use crate::analysis::wal::hidden_redo::RedoInForce;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::output::closing::Closing;
use crate::output::document::Document;
use crate::output::json::wal::Naming;
use crate::output::report::Provenance;
use crate::output::report::wal::{CostlyRelation, MainCause, RelationRow, WalReport};
use crate::output::wal_text::name_of;
use crate::parsers::wal::block::Keep;
use crate::types::RelFileLocator;

const MAX_RELATIONS: usize = 40;

/// Relations that are shown by all their bytes.
const MAX_COSTLY: usize = 10;

#[derive(Clone, Debug)]
pub(crate) struct WalReportRequest {
    pub wal: WalRequest,
    /// How many images are compressed again; `None`: none are.
    pub compression: Option<SampleSize>,
    pub made: Provenance,
}

#[derive(Clone, Debug)]
pub(crate) struct MadeWalReport {
    pub document: Document,
    pub answer: Answer,
}

/// Reads some WAL and reports on its images.
pub(crate) fn wal_report(request: &WalReportRequest, watch: WatchWal<'_>) -> Result<MadeWalReport, InspectError> {
    let mut names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    let jobs = request.wal.jobs;
    let settings = WhatIfPlan {
        spacings: tried_spacings().into_iter().chain(usual_spacings()).collect(),
        completion_target: None,
    };
    let survey = SurveyPlan { settings: &settings, sample: request.compression, causes: true };
    let Surveyed { counts, by_relation, mut what_if, compression, facts } = source.survey(&survey, jobs, watch);
    let (bill, savings) = bill_and_savings(&source, &counts, &by_relation, &what_if, compression.as_ref());
    // Both at once are for the proposals alone.
    what_if.spacing.retain(|row| !matches!(row.spacing, Spacing::Both { .. }));
    let redo_points = redo_points_of(&source.set, &counts.intervals);
    let looked_again = source.once_more(|source| source.look_again(facts, &redo_points, jobs, watch));
    let hints = what_if.hints;
    let what_if = (!source.coverage.is_interrupted()).then_some(what_if);
    if by_relation.has_unnamed(&names) {
        source.find_names(&mut names, jobs);
    }
    let advised = AdvisedRelation::of(&by_relation, &names, &hints);
    let figures: FxHashMap<Key, RelationFigures> =
        advised.iter().filter_map(|one| Some((one.row.key.first, one.row.figures?))).collect();
    let set_origin = source.set.origin();
    let naming = Naming::new(&set_origin, names.known());
    let (images, dirtied) = looked_again.unzip();
    let (relations, causes) =
        images.as_ref().map(|images| relations_and_causes(images, &figures, &naming)).unwrap_or_default();
    let relations_in_all = relations.len();
    let costly = costly_relations(&advised, &naming);
    let paths: Vec<String> = request.wal.paths.iter().map(|path| path.display().to_string()).collect();
    let block_size = source.set.geometry().block_size;
    let origin = origin_of(&counts, &source);
    let closing = Closing::new(source.findings, &source.coverage);
    let report = WalReport {
        made: &request.made,
        paths: &paths.join(" "),
        origin,
        closing: &closing,
        total: counts.total,
        overview: overview_of(&counts),
        bill: bill.as_ref(),
        savings: &savings,
        costly,
        wal_bytes: counts.wal_bytes,
        intervals: &counts.intervals,
        since_redo: &counts.since_redo,
        relations: relations.into_iter().take(MAX_RELATIONS).collect(),
        relations_in_all,
        causes,
        compression: compression.as_ref(),
        what_if: what_if.as_ref(),
        dirtied: dirtied.as_deref(),
        block_size,
    };
    Ok(MadeWalReport { document: report.document(), answer: closing.answer() })
}

/// Images by relation and cause.
type CountedImages = FxHashMap<(RelFileLocator, Cause), Tally>;

impl WalSource {
    /// The second reading, which needs redo points and the facts of the first: why images were written, and
    /// the blocks that were dirtied between redo points. `facts`: `None` where they are not of all WAL.
    fn look_again(
        &mut self,
        facts: Option<CauseFacts>,
        redo_points: &[RedoInForce],
        jobs: usize,
        watch: WatchWal<'_>,
    ) -> (CountedImages, Vec<DirtiedInterval>) {
        let (watched, plan, block_size) = (self.watched(watch), self.plan(), self.set.geometry().block_size);
        let facts = facts.unwrap_or_else(|| cause_facts(&self.set, &plan, jobs, &watched));
        let mut causes = ImageCauses::new(facts, block_size);
        let (cuts, mut fold) = (DirtyCut::at(redo_points), DirtyFold::default());
        let mut images = CountedImages::default();
        let reading = Reading { plan: &plan, keep: Keep::Blocks, jobs, watched: &watched };
        let begin = |stretch: &Stretch<'_>, index| {
            (ImageHeads::new(block_size), DirtyBlocks::of_segment(stretch, index, &cuts))
        };
        self.each_segment(&reading, begin, |stretch, step| match step {
            RunStep::Segment(part, _) => {
                let (heads, blocks) = &part.found;
                fold.push(&blocks.parts);
                let watch = |bytes| watched.advance(bytes);
                causes.take(stretch, (part.index, part.from), heads, &watch, &mut |found| {
                    let sum = images.entry((found.block.rel, found.cause)).or_default();
                    sum.fpi_count = sum.fpi_count.saturating_add(1);
                    sum.fpi_bytes = sum.fpi_bytes.saturating_add(found.stored_bytes as u64);
                })
            }
            RunStep::End(end_lsn) => {
                end_lsn.into_iter().for_each(|end_lsn| fold.end_run(end_lsn));
                Ok(())
            }
        });
        self.note_causes(&causes.classifier);
        (images, fold.finish())
    }
}

/// Relations with their images and the cause of most of them, and the causes, each list by image bytes.
fn relations_and_causes(
    images: &CountedImages,
    figures: &FxHashMap<Key, RelationFigures>,
    naming: &Naming<'_>,
) -> (Vec<RelationRow>, Vec<(&'static str, Tally)>) {
    let mut relations: FxHashMap<Key, (Tally, MainCause)> = FxHashMap::default();
    let mut causes: FxHashMap<&'static str, Tally> = FxHashMap::default();
    for ((rel, cause), tally) in images {
        causes.entry(cause.name()).or_default().add(tally);
        let (sum, most) = relations.entry(Key::Relation(*rel)).or_default();
        sum.add(tally);
        if most.is_none_or(|(name, bytes)| (tally.fpi_bytes, name) > (bytes, cause.name())) {
            *most = Some((cause.name(), tally.fpi_bytes));
        }
    }
    let mut rows: Vec<(Key, RelationRow)> = relations
        .into_iter()
        .map(|(key, (images, cause))| {
            let name = name_of(GroupBy::Relation, &key, naming);
            (key, RelationRow { name, images, cause, figures: figures.get(&key).copied() })
        })
        .collect();
    rows.sort_unstable_by_key(|(key, row)| (std::cmp::Reverse(row.images.fpi_bytes), *key));
    let mut causes: Vec<(&'static str, Tally)> = causes.into_iter().collect();
    causes.sort_unstable_by_key(|(cause, tally)| (std::cmp::Reverse(tally.fpi_bytes), *cause));
    (rows.into_iter().map(|(_, row)| row).collect(), causes)
}

/// Relations by all their bytes: name, counts, and what their images probably come from.
fn costly_relations(advised: &[AdvisedRelation], naming: &Naming<'_>) -> Vec<CostlyRelation> {
    let one = |one: &AdvisedRelation| CostlyRelation {
        name: name_of(GroupBy::Relation, &one.row.key.first, naming),
        tally: one.row.tally,
        main_record: one.main_record.map(|(key, _)| name_of(GroupBy::Record, &key, naming)),
        likely_cause: one.row.figures.and_then(|figures| figures.likely_cause),
    };
    advised.iter().take(MAX_COSTLY).map(one).collect()
}

/// Where the WAL comes from.
fn origin_of(counts: &WalCounts, source: &WalSource) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let set = &source.set;
    let range = match counts.from.zip(counts.to) {
        Some((from, to)) => format!("{from} to {to}, timeline {}", set.timeline()),
        None => "no records in this range".to_owned(),
    };
    vec![
        ("range", range),
        ("major", set.major().map_or_else(unknown, |major| major.number().to_string())),
        ("system identifier", set.system_identifier().map_or_else(unknown, |id| id.to_string())),
    ]
}
