//! Parts of some WAL that were counted apart from each other, added up.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::BASE64;

use super::images::open_findings;
use super::names::{NameLabels, NameLookup};
use super::read_wal::ReadWal;
use super::stats::{WalCounts, WalStats};
use super::times::{CountedTimes, WalTimes};
use super::whatif::WhatIfReport;
use crate::analysis::finding::{Coverage, Finding, Severity};
use crate::analysis::finding_kind::{FindingKind, WalRemark};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::wal::cause::CauseClassifier;
use crate::analysis::wal::cause_facts::FactsFold;
use crate::analysis::wal::certainty::Certainty;
use crate::analysis::wal::group::Groups;
use crate::analysis::wal::group_key::Grouping;
use crate::analysis::wal::image_log::{CauseCounter, RecordChain, RunImages};
use crate::analysis::wal::part_state::{PartBody, PartState};
use crate::analysis::wal::relation_filter::RelationFilter;
use crate::analysis::wal::relation_use::RelationUses;
use crate::analysis::wal::seam::{PartRun, Seam};
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::time_buckets::TimeBuckets;
use crate::analysis::wal::whatif::WhatIfPlan;
use crate::analysis::wal::whatif::collect::WhatIfReplay;
use crate::analysis::wal::whatif::compression::{CompressionWhatIf, PartSample, SampleSize};
use crate::cluster::open::AccessError;
use crate::cluster::wal::{NoteKind, WalOrigin};
use crate::inspect::error::InspectError;
use crate::output::json::partial::{PARTIAL_SCHEMA, PartialJson};
use crate::output::json::{FindingJson, SkippedJson};
use crate::parsers::portable::{BadState, Wrong};
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn};

/// Longest file that is read, in bytes.
const MAX_PARTIAL_BYTES: u64 = 4 << 30;

/// Why partial results cannot be added up.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Not one of ours, or cut off.
    #[error("{} is not a valid partial result: {source}", path.display())]
    NotAPartial {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What it counted cannot be read.
    #[error("{} is not a valid partial result: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadState,
    },
    /// Sizes that no server has, or a major that is not known.
    #[error("{} is not a valid partial result: it says that {what}", path.display())]
    Wal {
        /// The file.
        path: PathBuf,
        /// What it says.
        what: String,
    },
    /// Longer than any.
    #[error("{} has more than {MAX_PARTIAL_BYTES} bytes: count it in smaller parts", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Of another version.
    #[error("{} has schema {found}, expected {PARTIAL_SCHEMA}: count that part again with this version", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// Of another cluster, or grouped otherwise.
    #[error("{} and {} differ in {what}", one.display(), other.display())]
    Differs {
        /// A file.
        one: PathBuf,
        /// Another one.
        other: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// Counted twice.
    #[error("{} and {} have counted the same WAL, at {lsn}", one.display(), other.display())]
    Overlap {
        /// A file.
        one: PathBuf,
        /// Another one.
        other: PathBuf,
        /// Where the second begins.
        lsn: Lsn,
    },
}

/// All parts together.
#[derive(Debug)]
pub struct Merged {
    /// What was counted, and what is odd about how the parts lie.
    pub answer: MergedAnswer,
    /// What was met in the parts.
    pub findings: Vec<FindingJson>,
    /// What was not examined in the parts.
    pub skipped: Vec<SkippedJson>,
    /// At least, where something is missing.
    pub certainty: Certainty,
}

/// What one process would have counted.
#[derive(Debug)]
pub enum MergedAnswer {
    /// By groups.
    Groups(Grouping, Box<WalStats>),
    /// By time.
    Times(Box<WalTimes>),
    /// What other settings would have made of it.
    WhatIf(Box<WhatIfReport>),
}

impl MergedAnswer {
    /// The WAL of all parts.
    const fn wal(&self) -> &ReadWal {
        match self {
            Self::Groups(_, stats) => &stats.wal,
            Self::Times(times) => &times.wal,
            Self::WhatIf(report) => &report.wal,
        }
    }
}

/// A partial result that was read.
struct Part<'a> {
    path: &'a Path,
    json: PartialJson,
    state: PartState,
    runs: Vec<PartRun>,
}

/// Adds partial results up. `names`: a data directory or a list of names, as for `stats`; `settings`: those that are replayed,
/// where the parts keep touches.
///
/// # Errors
/// When a file cannot be read or is none, or they do not belong together.
pub fn merge(paths: &[PathBuf], names: Option<&Path>, settings: &WhatIfPlan) -> Result<Merged, InspectError> {
    let mut parts = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, InspectError>>()?;
    let Some(first) = parts.first() else { return Err(InspectError::NoPartial) };
    for part in &parts {
        first.agree(part)?;
    }
    let (wal, geometry) = (first.json.wal.clone(), first.geometry()?);
    let major = wal.major.map(|number| first.major(number)).transpose()?;
    let mut merging = Merging { findings: Vec::new(), coverage: Coverage::default() };
    merging.drop_repeated(&mut parts);
    let mut runs: Vec<(PartRun, usize, usize)> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        runs.extend(part.runs.iter().enumerate().map(|(number, run)| (*run, index, number)));
    }
    runs.sort_by_key(|(run, index, _)| (run.start_lsn, *index));
    let mut goes_on = vec![false];
    for pair in runs.windows(2) {
        let [(one, of, _), (other, by, _)] = pair else { continue };
        goes_on.push(of != by && merging.join(one, other, (parts[*of].path, parts[*by].path))?);
    }
    let mut order: Vec<usize> = runs.iter().map(|(_, index, _)| *index).collect();
    order.extend(0..parts.len());
    let mut sums = Sums::default();
    let mut done = vec![false; parts.len()];
    for index in order {
        if !std::mem::replace(&mut done[index], true) {
            sums.add(&mut parts[index]);
        }
    }
    let mut lookup = NameLookup::open(names)?;
    lookup.add_labels(std::mem::take(&mut sums.labels));
    if let Some((known, wal)) =
        lookup.known().and_then(crate::cluster::names::RelationNames::system_identifier).zip(wal.system_identifier)
        && known != wal
    {
        return Err(InspectError::NamesOfOtherCluster { names: known, wal });
    }
    let origin = WalOrigin { major, system_identifier: wal.system_identifier, geometry };
    let Sums { findings: met, skipped, .. } = &mut sums;
    let (met, skipped) = (std::mem::take(met), std::mem::take(skipped));
    let pieces: Vec<Piece> =
        runs.iter().zip(goes_on).map(|((_, part, run), goes_on)| Piece { part: *part, run: *run, goes_on }).collect();
    let keeps_touches = parts.iter().any(|part| matches!(part.state.body, PartBody::Touches(_)));
    let mut answer = if keeps_touches {
        merging.replay(sums, (&mut parts, &pieces), origin, settings)?
    } else {
        merging.answer(sums, (&parts, &pieces), origin, lookup)?
    };
    let all_there = skipped.is_empty() && answer.wal().coverage.skipped.is_empty();
    if let MergedAnswer::WhatIf(report) = &mut answer {
        let own = &report.wal.findings;
        let has_problem = met.iter().any(|finding| finding.severity == "problem")
            || own.iter().any(|finding| finding.severity == Severity::Problem);
        if !all_there || has_problem {
            report.what_if.mark_part();
            report.compression.iter_mut().for_each(CompressionWhatIf::mark_part);
        }
    }
    let certainty = if all_there { Certainty::Exact } else { Certainty::AtLeast };
    Ok(Merged { answer, findings: met, skipped, certainty })
}

fn read(path: &Path) -> Result<Part<'_>, InspectError> {
    let failed = |source| AccessError::io("read", path, source);
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_PARTIAL_BYTES.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_PARTIAL_BYTES {
        return Err(MergeError::TooLong { path: path.to_owned() }.into());
    }
    let not_one = |source| MergeError::NotAPartial { path: path.to_owned(), source };
    // Other schemas have other fields.
    let Schema { pgforensics_partial: found } = serde_json::from_slice(&text).map_err(not_one)?;
    if found != PARTIAL_SCHEMA {
        return Err(MergeError::Schema { path: path.to_owned(), found }.into());
    }
    let mut json: PartialJson = serde_json::from_slice(&text).map_err(not_one)?;
    drop(text);
    let wrong = |what| MergeError::State { path: path.to_owned(), source: BadState { what, offset: 0 } };
    let bytes = BASE64.decode(std::mem::take(&mut json.state).as_bytes()).map_err(|_| wrong(Wrong::Base64))?;
    let state = PartState::of_bytes(&bytes, json.wal.wal_segment_size)
        .map_err(|source| MergeError::State { path: path.to_owned(), source })?;
    let kept = match &state.body {
        PartBody::Causes { runs, .. } => Some(runs.len()),
        PartBody::Touches(runs) => Some(runs.len()),
        PartBody::Groups { .. } | PartBody::Times(_) => None,
    };
    if kept.is_some_and(|runs| runs != json.runs.len()) {
        return Err(wrong(Wrong::Runs).into());
    }
    let runs = json.runs.iter().map(PartRun::from).collect();
    Ok(Part { path, json, state, runs })
}

/// What every schema has.
#[derive(serde::Deserialize)]
struct Schema {
    pgforensics_partial: u32,
}

impl Part<'_> {
    /// Makes sure that another part is of the same WAL and counted in the same way.
    fn agree(&self, other: &Self) -> Result<(), MergeError> {
        let way = |part: &Self| match &part.state.body {
            PartBody::Groups { by, .. } => (0, Some(*by), 0),
            PartBody::Times(times) => (1, None, times.width_us()),
            PartBody::Causes { by, .. } => (2, Some(*by), 0),
            PartBody::Touches(_) => (3, None, 0),
        };
        let what = match (&self.json.wal, &other.json.wal) {
            (one, other) if one.system_identifier != other.system_identifier => "the system identifier",
            (one, other) if one.major != other.major => "the major",
            (one, other) if one.wal_segment_size != other.wal_segment_size => "the segment size",
            (one, other) if one != other => "the sizes of pages",
            _ if (way(self).0 == 3) != (way(other).0 == 3) => "the command that wrote them",
            _ if self.json.by != other.json.by || way(self) != way(other) => "what they are grouped by",
            _ if !self.counts_relations_of(other) => "the relations that are counted alone",
            _ if self.sample_size() != other.sample_size() => "how many images were compressed again",
            _ => return Ok(()),
        };
        Err(MergeError::Differs { one: self.path.to_owned(), other: other.path.to_owned(), what })
    }

    fn counts_relations_of(&self, other: &Self) -> bool {
        match (&self.state.relations, &other.state.relations) {
            (Some(own), Some(other)) => own.is_as(other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    fn sample_size(&self) -> Option<SampleSize> {
        self.state.sample.as_ref().map(PartSample::size)
    }

    fn geometry(&self) -> Result<Geometry, MergeError> {
        let what = || "pages or segments have a size that no server uses".to_owned();
        self.json.wal.geometry().ok_or_else(|| MergeError::Wal { path: self.path.to_owned(), what: what() })
    }

    fn major(&self, number: u32) -> Result<Major, MergeError> {
        let what = || format!("the major is {number}");
        let of_magic = || u16::try_from(number).ok().and_then(|magic| Major::from_magic(magic).ok());
        Major::from_number(number)
            .or_else(of_magic)
            .ok_or_else(|| MergeError::Wal { path: self.path.to_owned(), what: what() })
    }
}

/// Sums over all parts so far.
#[derive(Default)]
struct Sums {
    total: Tally,
    wal_bytes: u64,
    from: Option<Lsn>,
    to: Option<Lsn>,
    groups: Option<Groups>,
    uses: Option<RelationUses>,
    times: Option<TimeBuckets>,
    in_control: Option<(Lsn, bool)>,
    relations: Option<RelationFilter>,
    sample: Option<PartSample>,
    labels: NameLabels,
    findings: Vec<FindingJson>,
    skipped: Vec<SkippedJson>,
    examined: u64,
}

impl Sums {
    /// Adds a part; parts come in order.
    fn add(&mut self, part: &mut Part<'_>) {
        // Bytes of the last record so far that lie in the first segment of this part, which counts them as well.
        let start = part.runs.first().map(|run| run.start_lsn);
        let overlap = self.to.zip(start).and_then(|(end, start)| end.bytes_since(start)).unwrap_or(0);
        let state = &mut part.state;
        self.total.add(&state.total);
        self.wal_bytes = self.wal_bytes.saturating_add(state.wal_bytes).saturating_sub(overlap);
        self.from = self.from.or(state.from);
        self.to = state.to.or(self.to);
        match &mut state.body {
            PartBody::Groups { by, groups, uses } | PartBody::Causes { by, groups, uses, .. } => {
                self.groups
                    .get_or_insert_with(|| Groups::new(*by, part.json.wal.wal_segment_size, Arc::default()))
                    .merge(groups);
                if let Some(uses) = uses {
                    self.uses.get_or_insert_default().merge(uses);
                }
            }
            PartBody::Times(times) => match &mut self.times {
                Some(all) => all.append(times),
                all => *all = Some(times.clone()),
            },
            PartBody::Touches(_) => {}
        }
        if let PartBody::Causes { in_control, .. } = &state.body {
            self.in_control = self.in_control.or(*in_control);
        }
        if let Some(filter) = state.relations.take() {
            self.relations.get_or_insert_with(|| filter.clone()).meet_as(&filter);
        }
        if let Some(sample) = state.sample.take() {
            match &mut self.sample {
                Some(all) => all.append(sample),
                all => *all = Some(sample),
            }
        }
        let json = &mut part.json;
        self.labels.relations.extend(json.relations.iter().map(|name| name.named()));
        self.labels.databases.extend(json.databases.iter().cloned());
        for finding in json.findings.drain(..) {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        for skipped in json.skipped.drain(..) {
            if !self.skipped.contains(&skipped) {
                self.skipped.push(skipped);
            }
        }
        self.examined = self.examined.saturating_add(json.examined);
    }
}

/// A run of a part, in the order of all.
struct Piece {
    part: usize,
    run: usize,
    /// It goes on where the one before ends.
    goes_on: bool,
}

impl Piece {
    fn images<'a>(&self, parts: &'a [Part<'_>]) -> Option<&'a RunImages> {
        match &parts.get(self.part)?.state.body {
            PartBody::Causes { runs, .. } => runs.get(self.run),
            _ => None,
        }
    }
}

/// What is odd about how the parts lie.
struct Merging {
    findings: Vec<Finding>,
    coverage: Coverage,
}

impl Merging {
    /// Leaves out parts that are there already.
    fn drop_repeated(&mut self, parts: &mut Vec<Part<'_>>) {
        let mut kept: Vec<Part<'_>> = Vec::new();
        for part in parts.drain(..) {
            let same = kept.iter().find(|known| !part.runs.is_empty() && known.runs == part.runs);
            let Some(known) = same else {
                kept.push(part);
                continue;
            };
            let what = format!("{} and {} count the same WAL: counted once", known.path.display(), part.path.display());
            self.findings.push(Finding::note(FindingKind::Wal(WalRemark::Note { kind: NoteKind::Duplicate, what })));
        }
        *parts = kept;
    }

    /// Judges how two runs of different parts lie to each other; true when the second goes on where the first ends.
    fn join(&mut self, one: &PartRun, other: &PartRun, (of, by): (&Path, &Path)) -> Result<bool, MergeError> {
        let between = |start, end| SkippedPart::LsnRange { start: Some(start), end: Some(end) };
        match one.seam(other) {
            Seam::Fits => return Ok(true),
            Seam::Overlaps => {
                return Err(MergeError::Overlap { one: of.to_owned(), other: by.to_owned(), lsn: other.start_lsn });
            }
            Seam::Gap => {
                let what = format!("nothing was counted from {} to {}", one.limit_lsn, other.start_lsn);
                self.findings.push(Finding::problem(FindingKind::Wal(WalRemark::Note { kind: NoteKind::Gap, what })));
                self.coverage.skip(between(one.limit_lsn, other.start_lsn), SkipReason::SegmentsMissing);
            }
            Seam::RecordBetween(lsn) => {
                self.coverage.skip(between(lsn, other.start_lsn), SkipReason::RecordBetweenParts);
            }
            Seam::Ended => {
                let end = one.next_lsn.unwrap_or(one.start_lsn);
                self.coverage.skip(between(end, other.start_lsn), SkipReason::EndsInPart);
            }
            Seam::DoesNotFollow => {
                self.coverage.skip(between(one.limit_lsn, other.start_lsn), SkipReason::PartDoesNotFollow);
            }
        }
        Ok(false)
    }

    /// Replays the touches of all parts, in order.
    fn replay(
        mut self,
        sums: Sums,
        (parts, pieces): (&mut [Part<'_>], &[Piece]),
        origin: WalOrigin,
        settings: &WhatIfPlan,
    ) -> Result<MergedAnswer, InspectError> {
        self.coverage.examined = sums.examined;
        let mut replay = WhatIfReplay::new(settings, origin.geometry, origin.major);
        let mut end_lsn = None;
        for piece in pieces {
            let Some(part) = parts.get_mut(piece.part) else { continue };
            let PartBody::Touches(runs) = &mut part.state.body else { continue };
            // Memory is given back as blocks become known.
            let Some(run) = runs.get_mut(piece.run).map(std::mem::take) else { continue };
            if !piece.goes_on {
                end_lsn.into_iter().for_each(|end_lsn| replay.end_run(end_lsn));
            }
            run.replay(&mut replay).map_err(|source| MergeError::State { path: part.path.to_owned(), source })?;
            end_lsn = Some(run.end_lsn());
        }
        end_lsn.into_iter().for_each(|end_lsn| replay.end_run(end_lsn));
        self.findings.extend(replay.odd_times());
        let (what_if, ..) = replay.finish();
        let compression = sums.sample.map(PartSample::finish);
        self.findings.extend(compression.iter().flat_map(|compression| compression.unreadable.findings()));
        let Self { findings, coverage } = self;
        let wal = ReadWal { origin, names: NameLookup::default(), findings, coverage };
        let report = WhatIfReport { what_if, compression, wal };
        Ok(MergedAnswer::WhatIf(Box::new(report)))
    }

    /// Puts together what was counted, and tells what only all parts together tell.
    fn answer(
        mut self,
        sums: Sums,
        (parts, pieces): (&[Part<'_>], &[Piece]),
        origin: WalOrigin,
        names: NameLookup,
    ) -> Result<MergedAnswer, InspectError> {
        self.coverage.examined = sums.examined;
        let Sums { total, mut wal_bytes, from, to, groups, uses, times, in_control, relations, .. } = sums;
        relations.iter().for_each(|filter| filter.note_unmet(&mut self.coverage));
        if let Some(buckets) = times {
            let counted = CountedTimes { buckets, total, wal_bytes, from, to };
            let Self { findings, coverage } = self;
            let wal = ReadWal { origin, names, findings, coverage };
            return Ok(MergedAnswer::Times(Box::new(WalTimes::of(counted, wal))));
        }
        let mut groups = groups.ok_or(InspectError::NoPartial)?;
        let has_causes = parts.iter().any(|part| matches!(part.state.body, PartBody::Causes { .. }));
        if let Some(major) = origin.major.filter(|_| has_causes) {
            let (counter, chain) = {
                let own = Groups::new(groups.by(), origin.geometry.wal_segment_size, Arc::default()).of(relations);
                causes((parts, pieces), own, in_control, (major, origin.geometry))?
            };
            wal_bytes = chain.bytes;
            self.findings.extend(open_findings(counter.classifier()));
            groups.merge(&counter.groups);
        }
        let by = groups.by();
        let counts = WalCounts { total, wal_bytes, groups: Some(groups), uses, from, to, ..WalCounts::default() };
        let Self { findings, coverage } = self;
        let stats = WalStats { counts, wal: ReadWal { origin, names, findings, coverage } };
        Ok(MergedAnswer::Groups(by, Box::new(stats)))
    }
}

/// Tells the causes of all images: facts of all parts first, then every record with an image in order.
fn causes(
    (parts, pieces): (&[Part<'_>], &[Piece]),
    groups: Groups,
    in_control: Option<(Lsn, bool)>,
    (major, geometry): (Major, Geometry),
) -> Result<(CauseCounter, RecordChain), MergeError> {
    let (mut fold, mut chain) = (FactsFold::default(), RecordChain::default());
    for piece in pieces {
        if !piece.goes_on {
            fold.end_run();
        }
        if let Some(run) = piece.images(parts) {
            run.segments.iter().for_each(|(facts, _)| fold.push(facts));
            chain.append(&run.chain);
        }
    }
    let classifier = CauseClassifier::new(fold.finish(in_control), geometry.block_size);
    let mut counter = CauseCounter::new(classifier, groups);
    for piece in pieces {
        if let Some(run) = piece.images(parts) {
            let path = || parts.get(piece.part).map(|part| part.path.to_owned()).unwrap_or_default();
            let pushed = counter.push(run, major, geometry.block_size);
            pushed.map_err(|source| MergeError::State { path: path(), source })?;
        }
    }
    Ok((counter, chain))
}
