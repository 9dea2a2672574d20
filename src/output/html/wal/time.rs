//! Images over time, and how their share falls after a checkpoint.

use super::super::parts::{Cell, Table};
use super::{Figure, Part, WalReport, exact};
use crate::analysis::wal::interval::{DECAY_BUCKETS, Interval, IntervalKind};
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceSpan};
use crate::analysis::wal::tally::Tally;
use crate::output::figures::{megabytes, percent};
use crate::output::json::time_text;
use crate::output::plot::{Bar, Bars, Line, LineShape, Lines, Unit};

/// Bars of a plot; of more intervals, neighbours are summed up.
const MAX_BARS: usize = 60;

/// One interval, or several neighbours summed up.
struct Stretch {
    label: String,
    first: String,
    kind: String,
    time: String,
    wal_bytes: u64,
    tally: Tally,
    /// How long it lasted, in seconds, where all of it tells.
    duration_s: Option<f64>,
    distinct_blocks: Option<u64>,
}

impl WalReport<'_> {
    /// Images and other records by interval, and the share of images.
    pub(super) fn over_time(&self) -> Vec<Part> {
        if self.intervals.is_empty() {
            return vec![Part::Absent("There are no records in this range.")];
        }
        let each = self.intervals.len().div_ceil(MAX_BARS);
        let is_one_day = is_one_day(self.intervals);
        let stretches: Vec<Stretch> =
            self.intervals.chunks(each).map(|intervals| stretch(intervals, is_one_day)).collect();
        let below = if self.intervals.iter().all(|interval| interval.checkpoint.is_some()) {
            "time of the checkpoint with which an interval begins, UTC"
        } else {
            "redo point with which an interval begins, or the time of its checkpoint, UTC"
        };
        let notes = if each > 1 {
            vec![format!(
                "{} intervals, {each} neighbours summed up in each bar and row; stats lists them one by one.",
                self.intervals.len()
            )]
        } else {
            vec!["An interval goes from redo point to redo point; < marks one that began before this WAL, or in a gap of it: what is counted is a part of it.".to_owned()]
        };
        let bytes = Bars {
            title: "Bytes of WAL records by checkpoint interval".to_owned(),
            description: "For each interval the bytes of full-page images as stored, and of the rest of the records"
                .to_owned(),
            series: vec!["images".to_owned(), "other bytes of records".to_owned()],
            bars: stretches
                .iter()
                .map(|one| Bar {
                    label: one.label.clone(),
                    values: vec![one.tally.fpi_bytes as f64, one.tally.record_bytes as f64],
                })
                .collect(),
            unit: Unit::Bytes,
            left: "bytes".to_owned(),
            below: below.to_owned(),
        };
        let share = Lines {
            title: "Share of images by checkpoint interval".to_owned(),
            description: "For each interval, which part of the bytes of records is full-page images".to_owned(),
            places: stretches.iter().map(|one| one.label.clone()).collect(),
            lines: vec![Line {
                name: "share of images".to_owned(),
                values: stretches
                    .iter()
                    .map(|one| (one.tally.combined_bytes() > 0).then(|| one.tally.fpi_share()))
                    .collect(),
            }],
            shape: LineShape::Steps,
            unit: Unit::Share,
            left: "share of images in the bytes of records".to_owned(),
            below: below.to_owned(),
        };
        let counts = |one: &Stretch| {
            let blocks = one.distinct_blocks.map_or_else(|| Cell::number("-"), exact);
            vec![
                Cell::code(&one.first),
                Cell::code(&one.time),
                Cell::text(&one.kind),
                exact(one.wal_bytes),
                exact(one.tally.records),
                exact(one.tally.record_bytes),
                exact(one.tally.fpi_count),
                exact(one.tally.fpi_bytes),
                Cell::Number(percent(one.tally.fpi_share())),
                blocks,
                Cell::Number(one.duration_s.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"))),
                Cell::Number(
                    one.bytes_per_s().map_or_else(|| "-".to_owned(), |rate| format!("{:.3}", megabytes(rate))),
                ),
            ]
        };
        let numbers = Table {
            caption: "Intervals: bytes exactly, the share of images in percent".to_owned(),
            headings: vec![
                "redo",
                "time",
                "kind",
                "WAL",
                "records",
                "other bytes",
                "images",
                "image bytes",
                "share",
                "blocks",
                "seconds",
                "MB/s",
            ],
            rows: stretches.iter().map(counts).collect(),
        };
        let mut parts = vec![
            Part::Figure(Box::new(Figure { name: "bytes", plot: bytes.draw(), numbers: Some(numbers), notes })),
            Part::Figure(Box::new(Figure {
                name: "share",
                plot: share.draw(),
                numbers: None,
                notes: vec!["The numbers are in the column share of the table above.".to_owned()],
            })),
        ];
        if stretches.iter().any(|one| one.bytes_per_s().is_some()) {
            let rate = Lines {
                title: "Rate of WAL by checkpoint interval".to_owned(),
                description: "For each interval, bytes of WAL in a second".to_owned(),
                places: stretches.iter().map(|one| one.label.clone()).collect(),
                lines: vec![Line {
                    name: "WAL".to_owned(),
                    values: stretches.iter().map(Stretch::bytes_per_s).collect(),
                }],
                shape: LineShape::Steps,
                unit: Unit::BytesPerSecond,
                left: "bytes per second".to_owned(),
                below: below.to_owned(),
            };
            let notes = vec!["The numbers are in the column MB/s of the table above, each 1,048,576 bytes.".to_owned()];
            parts.push(Part::Figure(Box::new(Figure { name: "rate", plot: rate.draw(), numbers: None, notes })));
        }
        parts
    }

    /// Images per second after redo points, and their share in equal parts of the intervals.
    pub(super) fn after_checkpoints(&self) -> Vec<Part> {
        self.by_seconds().into_iter().chain(self.by_parts()).collect()
    }

    /// Images per second by seconds after the redo point, where times are known.
    fn by_seconds(&self) -> Option<Part> {
        let since = self.since_redo;
        if since.spans.iter().all(|span| span.images_per_s().is_none()) {
            return Some(Part::Absent(
                "How many seconds after redo points images were written is unknown: no interval tells its times.",
            ));
        }
        let ends = SPAN_STARTS_S.iter().skip(1).map(|end| format!(" to {end} s")).chain([" s and more".to_owned()]);
        let places: Vec<String> = SPAN_STARTS_S.iter().zip(ends).map(|(start, end)| format!("{start}{end}")).collect();
        let plot = Bars {
            title: "Images per second after redo points".to_owned(),
            description: "How many images were written in a second, by seconds after the redo point".to_owned(),
            series: vec!["images per second".to_owned()],
            bars: places
                .iter()
                .zip(&since.spans)
                .map(|(place, span)| Bar { label: place.clone(), values: vec![span.images_per_s().unwrap_or(0.0)] })
                .collect(),
            unit: Unit::Count,
            left: "images per second".to_owned(),
            below: "seconds after the redo point".to_owned(),
        };
        let row = |(place, span): (&String, &SinceSpan)| {
            let rate = span.images_per_s().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
            vec![
                Cell::text(place),
                exact(span.fpi_count),
                exact(span.fpi_bytes),
                exact(span.combined_bytes),
                Cell::Number(format!("{:.1}", span.observed_us as f64 / 1e6)),
                Cell::Number(rate),
            ]
        };
        let numbers = Table {
            caption: format!(
                "Intervals counted: {}; without a known time or redo point, so not counted: {}",
                since.intervals, since.left_out
            ),
            headings: vec![
                "after the redo point",
                "images",
                "image bytes",
                "bytes of records",
                "seconds seen",
                "images/s",
            ],
            rows: places.iter().zip(&since.spans).map(row).collect(),
        };
        let step = since.step_us as f64 / 1e6;
        let notes = vec![format!(
            "The time of a record is that of the last commit or the like before it; steps of time are up to {step:.1} s long."
        )];
        Some(Part::Figure(Box::new(Figure { name: "since_redo", plot: plot.draw(), numbers: Some(numbers), notes })))
    }

    /// The share of images in equal parts of the intervals.
    fn by_parts(&self) -> Vec<Part> {
        // Of the others the redo point is not known, or the end.
        let whole: Vec<&Interval> = self
            .intervals
            .iter()
            .filter(|interval| interval.redo_lsn.is_some() && interval.kind != IntervalKind::Unknown)
            .filter(|interval| interval.parts.len() == DECAY_BUCKETS)
            .collect();
        if whole.is_empty() {
            return vec![Part::Absent(
                "No redo point is known in this range, so nothing is known of what comes after one.",
            )];
        }
        let shares: Vec<_> = whole.iter().map(|interval| interval.decay()).collect();
        let means: Vec<(Option<f64>, usize)> = (0..DECAY_BUCKETS)
            .map(|part| {
                let known: Vec<f64> = shares.iter().filter_map(|shares| shares[part]).collect();
                let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
                (mean, known.len())
            })
            .collect();
        let places: Vec<String> = (1..=DECAY_BUCKETS).map(|part| format!("{part} of {DECAY_BUCKETS}")).collect();
        let plot = Lines {
            title: "Share of images in equal parts of the intervals".to_owned(),
            description:
                "The mean over all intervals of the share of images in each eighth of an interval after the redo point"
                    .to_owned(),
            places: places.clone(),
            lines: vec![Line {
                name: "share of images".to_owned(),
                values: means.iter().map(|(mean, _)| *mean).collect(),
            }],
            shape: LineShape::Steps,
            unit: Unit::Share,
            left: "share of images in the bytes of records, mean over intervals".to_owned(),
            below: "part of the interval, from the redo point on".to_owned(),
        };
        let rows = places
            .into_iter()
            .zip(&means)
            .map(|(place, (mean, intervals))| {
                let mean = mean.map_or_else(|| "-".to_owned(), percent);
                vec![Cell::Text(place), Cell::Number(mean), Cell::number(intervals)]
            })
            .collect();
        let numbers = Table {
            caption: "Mean share of images in percent, and in how many intervals such a part has records".to_owned(),
            headings: vec!["part", "share", "intervals"],
            rows,
        };
        vec![Part::Figure(Box::new(Figure {
            name: "decay",
            plot: plot.draw(),
            numbers: Some(numbers),
            notes: vec!["The parts of an interval last equally long where all of it tells times, else they have equally many records.".to_owned()],
        }))]
    }
}

impl Stretch {
    /// Bytes of WAL in a second, where the duration is known.
    fn bytes_per_s(&self) -> Option<f64> {
        self.duration_s.filter(|duration| *duration > 0.0).map(|duration| self.wal_bytes as f64 / duration)
    }
}

fn stretch(intervals: &[Interval], is_one_day: bool) -> Stretch {
    let mut tally = Tally::default();
    intervals.iter().for_each(|interval| tally.add(&interval.tally));
    let (first, only) = (intervals.first(), intervals.len() == 1);
    let redo = first.map_or_else(String::new, |interval| {
        interval.redo_lsn.map_or_else(|| format!("<{}", interval.start_lsn), |lsn| lsn.to_string())
    });
    let time = first.and_then(|interval| interval.checkpoint?.time_s).map(time_text);
    let kind = match first {
        Some(interval) if only => interval.kind.name().to_owned(),
        _ => format!("{} intervals", intervals.len()),
    };
    Stretch {
        label: time.as_deref().map_or_else(|| redo.clone(), |time| clock(time, is_one_day)),
        first: redo,
        kind,
        time: time.unwrap_or_else(|| "-".to_owned()),
        wal_bytes: intervals.iter().map(Interval::wal_bytes).sum(),
        duration_s: intervals.iter().map(Interval::duration_s).sum(),
        tally,
        distinct_blocks: first.filter(|_| only).map(|interval| interval.distinct_blocks),
    }
}

/// The checkpoints of all intervals are of one day.
fn is_one_day(intervals: &[Interval]) -> bool {
    let day =
        |interval: &Interval| interval.checkpoint.and_then(|seen| seen.time_s).map(|time_s| time_s.div_euclid(86_400));
    let mut days = intervals.iter().filter_map(day);
    let first = days.next();
    days.all(|day| Some(day) == first)
}

/// The part of a time that has room below a bar.
fn clock(time: &str, is_one_day: bool) -> String {
    let part = if is_one_day { time.get(11..19) } else { time.get(5..16) };
    part.unwrap_or(time).replace('T', " ")
}
