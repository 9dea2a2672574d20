//! The report on some WAL: one pass for the intervals, one for relations and causes together, one for each question that
//! needs more.

use rustc_hash::FxHashMap;

use super::names::NameLookup;
use super::request::WalRequest;
use super::source::WalSource;
use super::stats::WalCounts;
use super::watch::WatchWal;
use super::whatif::usual_spacings;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key};
use crate::analysis::wal::group_rows::{RelationFigures, group_rows};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::whatif::compression::{CompressionWhatIf, SampleSize};
use crate::analysis::wal::whatif::{WhatIf, WhatIfPlan};
use crate::inspect::error::InspectError;
use crate::output::closing::Closing;
use crate::output::document::Document;
use crate::output::json::wal::Naming;
use crate::output::report::Provenance;
use crate::output::report::wal::{MainCause, RelationRow, WalReport};
use crate::output::wal_text::name_of;

const MAX_RELATIONS: usize = 40;

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
    let counts = source.count(None, jobs, watch);
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    let pair = Grouping::pair(GroupBy::Relation, GroupBy::Cause);
    let grouped = source.once_more(|source| source.count(Some(pair), jobs, watch));
    let by_relation = GroupBy::Relation.into();
    let used = source.once_more(|source| source.count(Some(by_relation), jobs, watch));
    let dirtied = source.once_more(|source| source.dirtied(jobs, watch).0);
    let mut compression =
        request.compression.and_then(|size| source.once_more(|source| source.recompress(size, jobs, watch)));
    let settings = WhatIfPlan { spacings: usual_spacings(), completion_target: None };
    let mut what_if = source.once_more(|source| source.replay_under(&settings, jobs, watch).0);
    if !source.is_whole() {
        what_if.iter_mut().for_each(WhatIf::mark_part);
        compression.iter_mut().for_each(CompressionWhatIf::mark_part);
    }
    if used.as_ref().is_some_and(|counted| counted.has_unnamed(&names)) {
        source.find_names(&mut names, jobs);
    }
    let figures: FxHashMap<Key, RelationFigures> =
        used.as_ref().map(|counted| figures_of(counted, &names)).unwrap_or_default();
    let (relations, causes) =
        grouped.as_ref().map(|counted| relations_and_causes(counted, &figures, &source, &names)).unwrap_or_default();
    let relations_in_all = relations.len();
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

/// Relations with their images and the cause of most of them, and the causes, each list by image bytes.
fn relations_and_causes(
    counted: &WalCounts,
    figures: &FxHashMap<Key, RelationFigures>,
    source: &WalSource,
    names: &NameLookup,
) -> (Vec<RelationRow>, Vec<(&'static str, Tally)>) {
    let (relation, database) = (|rel| names.relation(rel), |oid| names.database(oid));
    let naming = Naming {
        major: source.set.major(),
        segment_size: source.set.geometry().wal_segment_size,
        relation: &relation,
        database: &database,
    };
    let mut relations: FxHashMap<Key, (Tally, MainCause)> = FxHashMap::default();
    let mut causes: FxHashMap<&'static str, Tally> = FxHashMap::default();
    for (key, tally) in counted.rows() {
        let Some(Key::Cause(cause)) = key.second else { continue };
        causes.entry(cause.name()).or_default().add(&tally);
        let (sum, most) = relations.entry(key.first).or_default();
        sum.add(&tally);
        if most.is_none_or(|(name, bytes)| (tally.fpi_bytes, name) > (bytes, cause.name())) {
            *most = Some((cause.name(), tally.fpi_bytes));
        }
    }
    let mut rows: Vec<(Key, RelationRow)> = relations
        .into_iter()
        .map(|(key, (images, cause))| {
            let name = name_of(GroupBy::Relation, &key, &naming);
            (key, RelationRow { name, images, cause, figures: figures.get(&key).copied() })
        })
        .collect();
    rows.sort_unstable_by_key(|(key, row)| (std::cmp::Reverse(row.images.fpi_bytes), *key));
    let mut causes: Vec<(&'static str, Tally)> = causes.into_iter().collect();
    causes.sort_unstable_by_key(|(cause, tally)| (std::cmp::Reverse(tally.fpi_bytes), *cause));
    (rows.into_iter().map(|(_, row)| row).collect(), causes)
}

fn figures_of(counted: &WalCounts, names: &NameLookup) -> FxHashMap<Key, RelationFigures> {
    let Some(groups) = &counted.groups else { return FxHashMap::default() };
    let rows = group_rows(groups, counted.uses.as_ref(), names.known()).into_iter();
    rows.filter_map(|row| Some((row.key.first, row.figures?))).collect()
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
