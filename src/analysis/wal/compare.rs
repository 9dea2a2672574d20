//! Figures of several sets of WAL beside each other, and by how much each differs from the first set.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cause::Cause;
use super::clock::{Clock, Told};
use super::group::Groups;
use super::group_key::{GroupBy, Key, RowKey};
use super::interval::Interval;
use super::segment::Visitor;
use super::tally::Tally;
use crate::parsers::image::Compression;
use crate::parsers::wal::names::{RM_XACT, type_key};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::record_time::record_time;
use crate::types::{Lsn, RelFileLocator};

/// Types of the resource manager Transaction that commit one: `COMMIT` and `COMMIT_PREPARED`.
const COMMITS: [u8; 2] = [0x00, 0x30];

/// Something that is told of each set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Bytes of all records with their images.
    WalBytes,
    /// Records.
    Records,
    /// Bytes of all records without their images.
    RecordBytes,
    /// Images.
    Images,
    /// Bytes of images as stored.
    ImageBytes,
    /// Part of the bytes that is images, 0 to 1.
    ImageShare,
    /// Checkpoint intervals that lie in the set from their redo point to the next one.
    WholeIntervals,
    /// WAL of such an interval on average, in bytes, page headers and padding included.
    BytesPerInterval,
    /// Images of such an interval on average.
    ImagesPerInterval,
    /// Seconds from the first to the last record that tells a time.
    Seconds,
    /// Bytes of records with their images in a second.
    BytesPerSecond,
    /// Images in a second.
    ImagesPerSecond,
    /// Transactions that were committed.
    Commits,
    /// Bytes of records with their images for each of them.
    BytesPerCommit,
    /// Images for a thousand of them.
    ImagesPerThousandCommits,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things, in whole numbers.
    Count,
    /// Things on average.
    Average,
    /// Bytes on average.
    AverageBytes,
    /// A part of something, 0 to 1.
    Share,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// Stable name for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Average => "average",
            Self::AverageBytes => "average_bytes",
            Self::Share => "share",
            Self::Seconds => "seconds",
        }
    }
}

impl Figure {
    /// Those of everything, in the order of tables.
    pub const OF_ALL: [Self; 15] = [
        Self::WalBytes,
        Self::Records,
        Self::RecordBytes,
        Self::Images,
        Self::ImageBytes,
        Self::ImageShare,
        Self::WholeIntervals,
        Self::BytesPerInterval,
        Self::ImagesPerInterval,
        Self::Seconds,
        Self::BytesPerSecond,
        Self::ImagesPerSecond,
        Self::Commits,
        Self::BytesPerCommit,
        Self::ImagesPerThousandCommits,
    ];

    /// Those of a cause, a compression or a relation.
    pub const OF_PART: [Self; 2] = [Self::Images, Self::ImageBytes];

    /// Those of a part.
    #[must_use]
    pub const fn of(part: &Part) -> &'static [Self] {
        match part {
            Part::All => &Self::OF_ALL,
            _ => &Self::OF_PART,
        }
    }

    /// Stable name for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::WalBytes => "wal_bytes",
            Self::Records => "records",
            Self::RecordBytes => "record_bytes",
            Self::Images => "images",
            Self::ImageBytes => "image_bytes",
            Self::ImageShare => "image_share",
            Self::WholeIntervals => "whole_intervals",
            Self::BytesPerInterval => "bytes_per_interval",
            Self::ImagesPerInterval => "images_per_interval",
            Self::Seconds => "seconds",
            Self::BytesPerSecond => "bytes_per_second",
            Self::ImagesPerSecond => "images_per_second",
            Self::Commits => "commits",
            Self::BytesPerCommit => "bytes_per_commit",
            Self::ImagesPerThousandCommits => "images_per_1000_commits",
        }
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::WalBytes | Self::RecordBytes | Self::ImageBytes => Unit::Bytes,
            Self::BytesPerInterval | Self::BytesPerSecond | Self::BytesPerCommit => Unit::AverageBytes,
            Self::Records | Self::Images | Self::WholeIntervals | Self::Commits => Unit::Count,
            Self::ImagesPerInterval | Self::ImagesPerSecond | Self::ImagesPerThousandCommits => Unit::Average,
            Self::ImageShare => Unit::Share,
            Self::Seconds => Unit::Seconds,
        }
    }
}

/// What of a set a figure is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All of it.
    All,
    /// Images that were written for this reason.
    Cause(Cause),
    /// Images that are compressed so.
    Compression(Option<Compression>),
    /// What is of this relation.
    Relation(RelationKey),
}

impl Part {
    /// Stable name of what the set is divided by.
    #[must_use]
    pub const fn by(&self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Cause(_) => Some("cause"),
            Self::Compression(_) => Some("compression"),
            Self::Relation(_) => Some("relation"),
        }
    }
}

/// What a relation of one set is found by in another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelationKey {
    /// Its name with database and schema, as stored.
    Name(String),
    /// The numbers of its file, which mean nothing in another cluster.
    Numbers(RelFileLocator),
    /// All relations whose name is unknown, where numbers mean nothing.
    Unnamed,
}

/// Figures of one set. What is missing is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetFigures {
    /// All of the set was read, and nothing is missing inside it.
    pub is_whole: bool,
    /// By what they are about.
    pub values: BTreeMap<(Part, Figure), f64>,
}

impl SetFigures {
    /// A figure. Of what does not occur in a set there is none: 0. A relation may be one of those without a name.
    #[must_use]
    pub fn value(&self, part: &Part, figure: Figure) -> Option<f64> {
        let found = self.values.get(&(part.clone(), figure)).copied();
        let is_none = match part {
            Part::All => false,
            Part::Cause(_) | Part::Compression(_) | Part::Relation(RelationKey::Unnamed) => true,
            Part::Relation(_) => !self.has_unnamed(),
        };
        found.or_else(|| is_none.then_some(0.0))
    }

    /// There are images of relations that cannot be found in other sets.
    #[must_use]
    pub fn has_unnamed(&self) -> bool {
        self.values.contains_key(&(Part::Relation(RelationKey::Unnamed), Figure::Images))
    }

    /// By how many percentage points a share differs from that of `first`; `None` for what is not a share, and as for
    /// [`Self::difference_percent`].
    #[must_use]
    pub fn difference_points(&self, first: &Self, part: &Part, figure: Figure) -> Option<f64> {
        let (own, first_value) = (self.value(part, figure)?, first.value(part, figure)?);
        let is_share = figure.unit() == Unit::Share;
        (is_share && self.is_whole && first.is_whole).then_some((own - first_value) * 100.0)
    }

    /// By how many percent a figure differs from that of `first`; `None` where one of them is unknown or 0 at first, or
    /// where a set was not read whole.
    #[must_use]
    pub fn difference_percent(&self, first: &Self, part: &Part, figure: Figure) -> Option<f64> {
        // How many have no name says nothing of what they are.
        if *part == Part::Relation(RelationKey::Unnamed) {
            return None;
        }
        let (own, first_value) = (self.value(part, figure)?, first.value(part, figure)?);
        (self.is_whole && first.is_whole && first_value != 0.0).then(|| (own / first_value - 1.0) * 100.0)
    }

    /// Figures of everything. `intervals`: all of the set, in order.
    pub fn put_totals(&mut self, total: &Tally, intervals: &[IntervalExtent], times: &TimesAndCommits) {
        let (wal_bytes, images) = (total.combined_bytes() as f64, total.fpi_count as f64);
        self.put(Figure::WalBytes, wal_bytes);
        self.put(Figure::Records, total.records as f64);
        self.put(Figure::RecordBytes, total.record_bytes as f64);
        self.put(Figure::Images, images);
        self.put(Figure::ImageBytes, total.fpi_bytes as f64);
        if total.combined_bytes() > 0 {
            self.put(Figure::ImageShare, total.fpi_share());
        }
        let whole: Vec<&IntervalExtent> = whole_intervals(intervals).collect();
        let count = whole.len() as f64;
        self.put(Figure::WholeIntervals, count);
        if !whole.is_empty() {
            let bytes: u64 = whole.iter().filter_map(|interval| interval.end_lsn.bytes_since(interval.start_lsn)).sum();
            let images: u64 = whole.iter().map(|interval| interval.images).sum();
            self.put(Figure::BytesPerInterval, bytes as f64 / count);
            self.put(Figure::ImagesPerInterval, images as f64 / count);
        }
        if let Some(seconds) = times.seconds().filter(|seconds| *seconds > 0.0) {
            self.put(Figure::Seconds, seconds);
            self.put(Figure::BytesPerSecond, wal_bytes / seconds);
            self.put(Figure::ImagesPerSecond, images / seconds);
        }
        self.put(Figure::Commits, times.commits as f64);
        if times.commits > 0 {
            let commits = times.commits as f64;
            self.put(Figure::BytesPerCommit, wal_bytes / commits);
            self.put(Figure::ImagesPerThousandCommits, images / commits * 1000.0);
        }
    }

    /// Images and their bytes by `part_of`. A group that it gives no part is left out; those of the same part are added up.
    pub fn put_groups(&mut self, groups: &[(RowKey, Tally)], mut part_of: impl FnMut(&Key) -> Option<Part>) {
        for (key, tally) in groups.iter().filter(|(_, tally)| tally.fpi_count > 0) {
            let Some(part) = part_of(&key.first) else { continue };
            *self.values.entry((part.clone(), Figure::Images)).or_default() += tally.fpi_count as f64;
            *self.values.entry((part, Figure::ImageBytes)).or_default() += tally.fpi_bytes as f64;
        }
    }

    fn put(&mut self, figure: Figure, value: f64) {
        self.values.insert((Part::All, figure), value);
    }
}

/// What an interval is compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalExtent {
    /// Redo point, where it is known.
    pub redo_lsn: Option<Lsn>,
    /// Where counting starts.
    pub start_lsn: Lsn,
    /// Where it ends.
    pub end_lsn: Lsn,
    /// Its images.
    pub images: u64,
}

impl From<&Interval> for IntervalExtent {
    fn from(interval: &Interval) -> Self {
        let Interval { redo_lsn, start_lsn, end_lsn, tally, .. } = *interval;
        Self { redo_lsn, start_lsn, end_lsn, images: tally.fpi_count }
    }
}

/// Intervals that begin at a redo point and end at the next.
fn whole_intervals(intervals: &[IntervalExtent]) -> impl Iterator<Item = &IntervalExtent> {
    let pairs = intervals.iter().zip(intervals.iter().skip(1));
    let is_whole = |(this, next): &(&IntervalExtent, &IntervalExtent)| {
        this.redo_lsn == Some(this.start_lsn) && next.redo_lsn == Some(this.end_lsn)
    };
    pairs.filter(is_whole).map(|(this, _)| this)
}

/// The parts of all sets that a table shows, in order: everything, by cause, by compression, then the `top` relations whose
/// image bytes differ most from those of the first set.
#[must_use]
pub fn shown_parts(sets: &[SetFigures], top: usize) -> Vec<Part> {
    let mut parts: Vec<Part> = sets.iter().flat_map(|set| set.values.keys().map(|(part, _)| part.clone())).collect();
    parts.sort();
    parts.dedup();
    let (mut relations, mut shown): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| matches!(part, Part::Relation(_)));
    let bytes = |set: &SetFigures, part: &Part| set.value(part, Figure::ImageBytes).unwrap_or_default();
    let difference = |part: &Part| {
        let Some((first, others)) = sets.split_first() else { return 0.0 };
        others.iter().map(|set| (bytes(set, part) - bytes(first, part)).abs()).fold(0.0, f64::max)
    };
    // Alone it tells nothing that the totals do not.
    if relations == [Part::Relation(RelationKey::Unnamed)] {
        relations.clear();
    }
    relations.sort_by(|one, other| difference(other).total_cmp(&difference(one)));
    shown.extend(relations.into_iter().take(top));
    shown
}

/// When records were written, and commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimesAndCommits {
    /// Earliest and latest time that records tell, microseconds.
    times: Option<(i64, i64)>,
    clock: Clock,
    /// Transactions that were committed.
    pub commits: u64,
}

impl TimesAndCommits {
    /// From the earliest to the latest time.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let times = self.times.filter(|_| !self.clock.contradicts_itself());
        times.map(|(first, last)| last.saturating_sub(first) as f64 / 1e6)
    }

    fn record(&mut self, record: &Record<'_>) {
        let told = record_time(record).map(Told::now);
        told.into_iter().for_each(|told| self.clock.tell(record.start_lsn, told));
        if let Some(time) = told.and_then(Told::time) {
            let (first, last) = self.times.unwrap_or((time.0, time.0));
            self.times = Some((first.min(time.0), last.max(time.0)));
        }
        let (rmgr_id, info) = (record.header.rmgr_id, record.header.info);
        if rmgr_id == RM_XACT && COMMITS.contains(&type_key(rmgr_id, info)) {
            self.commits = self.commits.saturating_add(1);
        }
    }

    fn add(&mut self, other: &Self) {
        self.commits = self.commits.saturating_add(other.commits);
        self.clock.append(&other.clock);
        self.times = match (self.times, other.times) {
            (Some((first, last)), Some((other_first, other_last))) => {
                Some((first.min(other_first), last.max(other_last)))
            }
            (one, other) => one.or(other),
        };
    }
}

/// What is counted of one segment, or of several.
#[derive(Clone, Debug)]
pub struct SetCounter {
    /// Times and commits.
    pub times: TimesAndCommits,
    /// By relation.
    pub relations: Groups,
    /// By compression.
    pub compressions: Groups,
}

impl SetCounter {
    /// Nothing yet. `segment_size`: bytes of a WAL segment.
    #[must_use]
    pub fn new(segment_size: u32) -> Self {
        Self {
            times: TimesAndCommits::default(),
            relations: Groups::new(GroupBy::Relation.into(), segment_size, Arc::default()),
            compressions: Groups::new(GroupBy::Compression.into(), segment_size, Arc::default()),
        }
    }

    /// Adds another part.
    pub fn merge(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.relations.merge(&other.relations);
        self.compressions.merge(&other.compressions);
    }
}

impl Visitor for SetCounter {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.times.record(record);
        if record.layout.image_count > 0 {
            let record = &{ *record };
            self.relations.add(record);
            self.compressions.add(record);
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
