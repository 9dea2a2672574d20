//! Sums over parts of some WAL that were read apart from each other, added up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::WalSource;
use super::stats::{WalStats, WalStatsRequest, count};
use super::watch::WatchWal;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::{FindingKind, WalRemark};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::wal::seam::{PartRun, Seam};
use crate::analysis::wal::tally::Tally;
use crate::cluster::open::AccessError;
use crate::cluster::wal::NoteKind;
use crate::inspect::error::InspectError;
use crate::inspect::wal::names::NameLookup;
use crate::output::json::partial::{PARTIAL_SCHEMA, PartialJson, keys_of, merged_row, tally_of};
use crate::output::json::wal::Row;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

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

/// A part that was counted.
#[derive(Debug)]
pub struct WalPart {
    /// What was counted.
    pub stats: WalStats,
    /// Runs of segments.
    pub runs: Vec<PartRun>,
}

/// Counts a part of some WAL: records that start before segment `before`. That segment, and those after it, are read only
/// for the end of the last record.
///
/// # Errors
/// As [`super::stats::wal_stats`], and when no segment has such a name.
pub fn wal_part(request: &WalStatsRequest, before: Option<&str>, watch: WatchWal<'_>) -> Result<WalPart, InspectError> {
    let names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open(&request.wal)?;
    source.take_names(&names)?;
    let segment_size = source.set.geometry().wal_segment_size;
    if let Some(name) = before {
        let start = WalSegment::from_file_name(name, segment_size).and_then(|segment| segment.start_lsn(segment_size));
        let wrong = || InspectError::NotASegment { name: name.to_owned(), segment_size };
        source.limit_at(start.ok_or_else(wrong)?);
    }
    let (watched, start_lsn) = (source.watched(watch), source.plan().start_lsn);
    let mut runs: Vec<PartRun> = Vec::new();
    let counts = count(&mut source, request.group, request.wal.jobs, &watched, |_, part| {
        if !runs.last_mut().is_some_and(|run| run.push(&part.summary)) {
            runs.push(PartRun::new(&part.summary, start_lsn));
        }
    });
    source.coverage.examined = counts.total.records;
    source.note_empty_range();
    Ok(WalPart { stats: WalStats::of(source, counts, names), runs })
}

/// All parts together.
#[derive(Debug)]
pub struct Merged {
    /// What rows are grouped by, the columns, the cluster, and what was met in the parts.
    pub first: PartialJson,
    /// Groups, those with most image bytes first.
    pub groups: Vec<Row>,
    /// Sums.
    pub total: Tally,
    /// Bytes of WAL.
    pub wal_bytes: u64,
    /// Start of the first part's first record, as text.
    pub start_lsn: Option<String>,
    /// End of the last part's last record.
    pub end_lsn: Option<String>,
    /// What is odd about how the parts lie.
    pub findings: Vec<Finding>,
    /// What nobody has counted.
    pub coverage: Coverage,
}

/// Adds partial results up.
///
/// # Errors
/// When a file cannot be read or is none, or they do not belong together.
pub fn merge(paths: &[PathBuf]) -> Result<Merged, InspectError> {
    let parts = paths.iter().map(|path| Ok((path.as_path(), read(path)?))).collect::<Result<Vec<_>, InspectError>>()?;
    let Some((_, first)) = parts.first() else { return Err(InspectError::NoPartial) };
    let mut merged = Merged {
        first: PartialJson { findings: Vec::new(), skipped: Vec::new(), examined: 0, ..first.clone() },
        groups: Vec::new(),
        total: Tally::default(),
        wal_bytes: 0,
        start_lsn: None,
        end_lsn: None,
        findings: Vec::new(),
        coverage: Coverage::default(),
    };
    let mut runs: Vec<(PartRun, usize)> = Vec::new();
    for (index, (path, part)) in parts.iter().enumerate() {
        merged.first.agree(parts[0].0, path, part)?;
        runs.extend(part.runs.iter().map(|run| (PartRun::from(run), index)));
    }
    runs.sort_by_key(|(run, index)| (run.start_lsn, *index));
    for pair in runs.windows(2) {
        let [(one, of), (other, by)] = pair else { continue };
        if of != by {
            merged.join(one, other, (parts[*of].0, parts[*by].0))?;
        }
    }
    let mut order: Vec<usize> = runs.iter().map(|(_, index)| *index).collect();
    order.extend(0..parts.len());
    let mut groups: BTreeMap<String, (Row, Tally)> = BTreeMap::new();
    let mut done = vec![false; parts.len()];
    for index in order {
        if !std::mem::replace(&mut done[index], true) {
            let (path, part) = &parts[index];
            merged.add(part, &mut groups).ok_or_else(|| not_ours(path))?;
        }
    }
    let mut rows: Vec<(String, (Row, Tally))> = groups.into_iter().collect();
    rows.sort_by_key(|(_, (_, tally))| std::cmp::Reverse(tally.fpi_bytes));
    merged.groups = rows.into_iter().map(|(_, (keys, tally))| merged_row(keys, &tally)).collect();
    merged.coverage.examined = merged.first.examined;
    Ok(merged)
}

fn read(path: &Path) -> Result<PartialJson, InspectError> {
    let text = std::fs::read(path).map_err(|source| AccessError::io("read", path, source))?;
    let part: PartialJson =
        serde_json::from_slice(&text).map_err(|source| MergeError::NotAPartial { path: path.to_owned(), source })?;
    match part.pgforensics_partial {
        PARTIAL_SCHEMA => Ok(part),
        found => Err(MergeError::Schema { path: path.to_owned(), found }.into()),
    }
}

fn not_ours(path: &Path) -> MergeError {
    let source = <serde_json::Error as serde::de::Error>::custom("a row lacks its sums");
    MergeError::NotAPartial { path: path.to_owned(), source }
}

impl PartialJson {
    /// Makes sure that another part is of the same WAL and counted in the same way.
    fn agree(&self, own: &Path, path: &Path, other: &Self) -> Result<(), MergeError> {
        let what = match (&self.wal, &other.wal) {
            (one, other) if one.system_identifier != other.system_identifier => "the system identifier",
            (one, other) if one.major != other.major => "the major",
            (one, other) if one.wal_segment_size != other.wal_segment_size => "the segment size",
            _ if self.by != other.by => "what they are grouped by",
            _ => return Ok(()),
        };
        Err(MergeError::Differs { one: own.to_owned(), other: path.to_owned(), what })
    }
}

impl Merged {
    /// Judges how two runs of different parts lie to each other.
    fn join(&mut self, one: &PartRun, other: &PartRun, (of, by): (&Path, &Path)) -> Result<(), MergeError> {
        let between = |start, end| SkippedPart::LsnRange { start: Some(start), end: Some(end) };
        match one.seam(other) {
            Seam::Fits => {}
            Seam::Overlaps => {
                return Err(MergeError::Overlap { one: of.to_owned(), other: by.to_owned(), lsn: other.start_lsn });
            }
            Seam::Gap => {
                let what = format!("nothing was counted from {} to {}", one.limit_lsn, other.start_lsn);
                self.findings.push(Finding::problem(FindingKind::Wal(WalRemark::Note { kind: NoteKind::Gap, what })));
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
        Ok(())
    }

    /// Bytes of the last record so far that lie in the first segment of the part that follows, which counts them as well.
    fn reaches_into(&self, part: &PartialJson) -> u64 {
        let end: Option<Lsn> = self.end_lsn.as_ref().and_then(|lsn| lsn.parse().ok());
        let start = part.runs.first().map(|run| PartRun::from(run).start_lsn);
        end.zip(start).and_then(|(end, start)| end.bytes_since(start)).unwrap_or(0)
    }

    /// Adds a part; parts come in order. `None` when a row lacks its sums.
    fn add(&mut self, part: &PartialJson, groups: &mut BTreeMap<String, (Row, Tally)>) -> Option<()> {
        for row in &part.groups {
            let (keys, tally) = (keys_of(row), tally_of(row)?);
            let name = serde_json::to_string(&keys).ok()?;
            groups.entry(name).or_insert_with(|| (keys, Tally::default())).1.add(&tally);
        }
        self.total.add(&tally_of(&part.totals)?);
        let overlap = self.reaches_into(part);
        self.wal_bytes = self.wal_bytes.saturating_add(part.totals.get("wal_bytes")?.as_u64()?).saturating_sub(overlap);
        let text = |name: &str| part.totals.get(name).and_then(|value| value.as_str()).map(str::to_owned);
        self.start_lsn = self.start_lsn.take().or_else(|| text("start_lsn"));
        self.end_lsn = text("end_lsn").or_else(|| self.end_lsn.take());
        for finding in &part.findings {
            if !self.first.findings.contains(finding) {
                self.first.findings.push(finding.clone());
            }
        }
        for skipped in &part.skipped {
            if !self.first.skipped.contains(skipped) {
                self.first.skipped.push(skipped.clone());
            }
        }
        self.first.examined = self.first.examined.saturating_add(part.examined);
        Some(())
    }
}
