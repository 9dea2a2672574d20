//! Sets of WAL beside each other: one table of what was counted of each, and by how much each differs from the first set.

use std::collections::BTreeMap;

use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::clock::{Clock, Told};
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::tally::Tally;
use crate::parsers::image::Compression;
use crate::parsers::wal::lifecycle::record_time;
use crate::parsers::wal::record::Record;
use crate::types::RelFileLocator;

/// What a figure counts; averages and shares are not whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    Bytes,
    Count,
    Average,
    AverageBytes,
    Share,
    Seconds,
}

/// Something that is told of each set.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Stable name for programs.
    pub code: &'static str,
    /// Its unit.
    pub unit: Unit,
    value: fn(&SetCounts, &Tally) -> Option<f64>,
}

const fn figure(code: &'static str, unit: Unit, value: fn(&SetCounts, &Tally) -> Option<f64>) -> Figure {
    Figure { code, unit, value }
}

/// All figures, in the order of the table. Those of everything are all; of a cause, compression or relation [`OF_PART`].
static FIGURES: [Figure; 15] = [
    figure("wal_bytes", Unit::Bytes, |_, all| Some(all.combined_bytes() as f64)),
    figure("records", Unit::Count, |_, all| Some(all.records as f64)),
    figure("record_bytes", Unit::Bytes, |_, all| Some(all.record_bytes as f64)),
    figure("images", Unit::Count, |_, part| Some(part.fpi_count as f64)),
    figure("image_bytes", Unit::Bytes, |_, part| Some(part.fpi_bytes as f64)),
    figure("image_share", Unit::Share, |_, all| (all.combined_bytes() > 0).then(|| all.fpi_share())),
    figure("whole_intervals", Unit::Count, |set, _| Some(set.intervals as f64)),
    figure("bytes_per_interval", Unit::AverageBytes, |set, _| per(set.interval_bytes, set.intervals as f64)),
    figure("images_per_interval", Unit::Average, |set, _| per(set.interval_images, set.intervals as f64)),
    figure("seconds", Unit::Seconds, |set, _| set.work.seconds()),
    figure("bytes_per_second", Unit::AverageBytes, |set, all| per(all.combined_bytes(), set.work.seconds()?)),
    figure("images_per_second", Unit::Average, |set, all| per(all.fpi_count, set.work.seconds()?)),
    figure("commits", Unit::Count, |set, _| Some(set.work.commits as f64)),
    figure("bytes_per_commit", Unit::AverageBytes, |set, all| per(all.combined_bytes(), set.work.commits as f64)),
    figure("images_per_1000_commits", Unit::Average, |set, all| {
        per(all.fpi_count, set.work.commits as f64).map(|images| images * 1000.0)
    }),
];

/// Which of [`FIGURES`] a part has: images and their bytes.
const OF_PART: std::ops::Range<usize> = 3..5;

fn per(sum: u64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| sum as f64 / of)
}

/// What of a set a figure is about; a relation by what it is found by in other sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All of it.
    All,
    /// Images that were written for this reason.
    Cause(Cause),
    /// Images that are compressed so.
    Compression(Option<Compression>),
    /// The relation of this name, with database and schema.
    Named(String),
    /// The relation with these files; the numbers mean nothing in another cluster.
    Numbered(RelFileLocator),
    /// All relations whose name is unknown, where numbers mean nothing.
    Unnamed,
}

impl Part {
    /// The grouping of the set.
    pub const fn by(&self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Cause(_) => Some("cause"),
            Self::Compression(_) => Some("compression"),
            Self::Named(_) | Self::Numbered(_) | Self::Unnamed => Some("relation"),
        }
    }

    /// Its name among those of its kind.
    pub fn key(&self) -> Option<String> {
        Some(match self {
            Self::All => return None,
            Self::Cause(cause) => cause.name().to_owned(),
            Self::Compression(method) => method.map_or("none", Compression::name).to_owned(),
            Self::Named(name) => name.clone(),
            Self::Numbered(rel) => rel.to_string(),
            Self::Unnamed => "(unnamed)".to_owned(),
        })
    }
}

/// The time over which records were written, and commits.
#[derive(Clone, Debug, Default)]
pub struct Work {
    clock: Clock,
    commits: u64,
}

impl Work {
    /// Takes what a record tells.
    pub fn record(&mut self, record: &Record<'_>) {
        record_time(record).into_iter().for_each(|time| self.clock.tell(record.start_lsn, Told::now(time)));
        if record.kind().commits() {
            self.commits = self.commits.saturating_add(1);
        }
    }

    /// Takes what was told by the WAL that follows.
    pub fn append(&mut self, next: &Self) {
        self.commits = self.commits.saturating_add(next.commits);
        self.clock.append(&next.clock);
    }

    fn seconds(&self) -> Option<f64> {
        let span_us = self.clock.span_us().filter(|_| !self.clock.contradicts_itself());
        span_us.map(|us| us as f64 / 1e6).filter(|seconds| *seconds > 0.0)
    }
}

/// Counts of one set.
#[derive(Clone, Debug, Default)]
pub struct SetCounts {
    /// All of it was read, and nothing is missing inside it.
    pub is_whole: bool,
    total: Tally,
    work: Work,
    parts: BTreeMap<Part, Tally>,
    intervals: u64,
    interval_bytes: u64,
    interval_images: u64,
}

impl SetCounts {
    /// Counts of a set without its parts. Intervals count that go from their redo point to the next one.
    pub fn new(is_whole: bool, total: Tally, work: Work, intervals: &[Interval]) -> Self {
        let mut set = Self { is_whole, total, work, ..Self::default() };
        for interval in intervals.iter().filter(|interval| interval.is_whole()) {
            let bytes = interval.end_lsn.bytes_since(interval.start_lsn).unwrap_or(0);
            set.intervals = set.intervals.saturating_add(1);
            set.interval_bytes = set.interval_bytes.saturating_add(bytes);
            set.interval_images = set.interval_images.saturating_add(interval.tally.fpi_count);
        }
        set
    }

    /// Adds the images of a part, if there are any.
    pub fn add(&mut self, part: Part, tally: &Tally) {
        if tally.fpi_count > 0 {
            self.parts.entry(part).or_default().add(tally);
        }
    }

    /// A figure; 0 for a group that a set does not contain. A relation may be one without a name.
    fn value(&self, part: &Part, figure: &Figure) -> Option<f64> {
        let may_be_unnamed = matches!(part, Part::Named(_) | Part::Numbered(_)) && self.has_unnamed();
        match (part, self.parts.get(part)) {
            (Part::All, _) => (figure.value)(self, &self.total),
            (_, Some(tally)) => (figure.value)(self, tally),
            (_, None) => (!may_be_unnamed).then_some(0.0),
        }
    }

    /// There are images of relations that cannot be found in other sets.
    pub(crate) fn has_unnamed(&self) -> bool {
        self.parts.contains_key(&Part::Unnamed)
    }
}

/// A figure of one set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// `None`: unknown.
    pub value: Option<f64>,
    /// By how many percent it differs from the first set; `None` where either is unknown or not whole, or the first 0.
    pub percent: Option<f64>,
    /// A share: by how many percentage points.
    pub points: Option<f64>,
}

/// A figure of all sets.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its subject.
    pub part: Part,
    /// The figure.
    pub figure: &'static Figure,
    /// A cell for each set.
    pub cells: Vec<Cell>,
}

/// The table: everything, by cause, by compression, then the `top` relations whose image bytes differ most from those of the
/// first set.
pub fn compare(sets: &[&SetCounts], top: usize) -> Vec<Line> {
    let mut parts: Vec<&Part> = sets.iter().flat_map(|set| set.parts.keys()).chain([&Part::All]).collect();
    parts.sort();
    parts.dedup();
    let (mut relations, mut shown): (Vec<&Part>, Vec<&Part>) =
        parts.into_iter().partition(|part| **part >= Part::Named(String::new()));
    // Alone it tells nothing that the totals do not.
    if relations == [&Part::Unnamed] {
        relations.clear();
    }
    let bytes = |set: &SetCounts, part: &Part| set.parts.get(part).map_or(0, |tally| tally.fpi_bytes);
    let difference = |part: &Part| {
        let first = sets.first().map_or(0, |first| bytes(first, part));
        sets.iter().map(|set| bytes(set, part).abs_diff(first)).max()
    };
    relations.sort_by_key(|part| std::cmp::Reverse(difference(part)));
    shown.extend(relations.into_iter().take(top));
    let line = |part: &Part, figure| {
        let cells = sets.iter().enumerate().map(|(index, set)| {
            let value = set.value(part, figure);
            let first = sets.first().filter(|first| index > 0 && set.is_whole && first.is_whole);
            let pair = value.zip(first.and_then(|first| first.value(part, figure)));
            // How many have no name says nothing of what they are.
            let in_percent = pair.filter(|(_, first)| *first != 0.0 && *part != Part::Unnamed);
            let in_points = pair.filter(|_| figure.unit == Unit::Share);
            Cell {
                value,
                percent: in_percent.map(|(own, first)| (own / first - 1.0) * 100.0),
                points: in_points.map(|(own, first)| (own - first) * 100.0),
            }
        });
        Line { part: part.clone(), figure, cells: cells.collect() }
    };
    let figures = |part: &Part| if *part == Part::All { &FIGURES[..] } else { &FIGURES[OF_PART] };
    shown.into_iter().flat_map(|part| figures(part).iter().map(move |figure| line(part, figure))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(parts: &[(Part, u64)]) -> SetCounts {
        let mut set = SetCounts { is_whole: true, ..SetCounts::default() };
        parts.iter().for_each(|(part, bytes)| {
            set.add(part.clone(), &Tally { fpi_count: 1, fpi_bytes: *bytes, ..Tally::default() });
        });
        set
    }

    /// Relations with the image bytes of the second set, and the difference in percent.
    fn relations(first: &[(Part, u64)], second: &[(Part, u64)]) -> Vec<(Part, Option<f64>, Option<f64>)> {
        let lines = compare(&[&set(first), &set(second)], 3);
        let of = lines.into_iter().filter(|line| line.part != Part::All && line.figure.code == "image_bytes");
        of.map(|line| (line.part, line.cells[1].value, line.cells[1].percent)).collect()
    }

    #[test]
    fn relations_that_differ_most_come_first_and_unnamed_ones_never_alone() {
        let named = |name: &str, bytes| (Part::Named(name.to_owned()), bytes);
        let found = relations(
            &[named("same", 900), named("less", 500), named("gone", 50)],
            &[named("same", 900), named("less", 300), named("new", 100)],
        );
        let names: Vec<_> = found.iter().filter_map(|(part, ..)| part.key()).collect();
        assert_eq!(names, ["less", "new", "gone"]);
        assert_eq!(found[1].1.zip(found[2].2), Some((100.0, -100.0)));
        assert_eq!(found[1].2, None);
        assert_eq!(relations(&[(Part::Unnamed, 1)], &[(Part::Unnamed, 2)]), []);
        // Of two sets with relations without a name, what one lacks may be among them.
        let found = relations(&[named("a", 1)], &[(Part::Unnamed, 2)]);
        assert_eq!(found, [(Part::Unnamed, Some(2.0), None), (Part::Named("a".to_owned()), None, None)]);
    }
}
