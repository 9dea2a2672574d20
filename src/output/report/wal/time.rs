//! Images over time, and how their share falls after a checkpoint.

use super::{WalReport, exact};
use crate::analysis::wal::interval::{DECAY_BUCKETS, Interval, IntervalKind};
use crate::analysis::wal::since_redo::{SPAN_STARTS_S, SinceSpan};
use crate::analysis::wal::tally::Tally;
use crate::output::document::{Blocks, Span};
use crate::output::figures::{megabytes, percent};
use crate::output::json::time_text;
use crate::output::plot::{Chart, Unit, grouped};

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
    pub(super) fn write_intervals(&self, to: &mut Blocks) {
        if self.intervals.is_empty() {
            return to.paragraph("There are no records in this range.");
        }
        let each = self.intervals.len().div_ceil(MAX_BARS);
        let is_one_day = is_one_day(self.intervals);
        let stretches: Vec<Stretch> =
            self.intervals.chunks(each).map(|intervals| stretch(intervals, is_one_day)).collect();
        let chart = |name, title, description, unit, left, series| Chart {
            name,
            title,
            description,
            unit,
            left,
            below: if self.intervals.iter().all(|interval| interval.checkpoint.is_some()) {
                "time of the checkpoint with which an interval begins, UTC"
            } else {
                "redo point with which an interval begins, or the time of its checkpoint, UTC"
            },
            places: stretches.iter().map(|one| one.label.clone()).collect(),
            series,
        };
        let values = |value: fn(&Stretch) -> Option<f64>| stretches.iter().map(value).collect();
        let bytes = chart(
            "bytes",
            "Bytes of WAL records by checkpoint interval",
            "For each interval the bytes of full-page images as stored, and of the rest of the records",
            Unit::Bytes,
            "bytes",
            vec![
                ("images", values(|one| Some(one.tally.fpi_bytes as f64))),
                ("other bytes of records", values(|one| Some(one.tally.record_bytes as f64))),
            ],
        );
        let row = |one: &Stretch| {
            [
                Span::code(&one.first),
                Span::code(&one.time),
                Span::text(&one.kind),
                exact(one.wal_bytes),
                exact(one.tally.records),
                exact(one.tally.record_bytes),
                exact(one.tally.fpi_count),
                exact(one.tally.fpi_bytes),
                Span::Number(percent(one.tally.fpi_share())),
                Span::number_or_dash(one.distinct_blocks.map(grouped)),
                Span::number_or_dash(one.duration_s.map(|seconds| format!("{seconds:.1}"))),
                Span::number_or_dash(one.bytes_per_s().map(|rate| format!("{:.3}", megabytes(rate)))),
            ]
        };
        to.figure(bytes.bars(), |figure| {
            figure.note(if each > 1 {
                format!(
                    "{} intervals, {each} neighbours summed up in each bar and row; stats lists them one by one.",
                    self.intervals.len()
                )
            } else {
                "An interval goes from redo point to redo point; < marks one that began before this WAL, or in a gap of it: what is counted is a part of it.".to_owned()
            });
            let headings = [
                "redo", "time", "kind", "WAL", "records", "other bytes", "images", "image bytes", "share", "blocks",
                "seconds", "MB/s",
            ];
            let caption = "Intervals: bytes exactly, the share of images in percent";
            figure.table(caption, headings, stretches.iter().map(row));
        });
        let share = chart(
            "share",
            "Share of images by checkpoint interval",
            "For each interval, which part of the bytes of records is full-page images",
            Unit::Share,
            "share of images in the bytes of records",
            vec![("share of images", values(|one| (one.tally.combined_bytes() > 0).then(|| one.tally.fpi_share())))],
        );
        to.figure(share.steps(), |figure| figure.note("The numbers are in the column share of the table above."));
        if stretches.iter().any(|one| one.bytes_per_s().is_some()) {
            let rate = chart(
                "rate",
                "Rate of WAL by checkpoint interval",
                "For each interval, bytes of WAL in a second",
                Unit::BytesPerSecond,
                "bytes per second",
                vec![("WAL", values(Stretch::bytes_per_s))],
            );
            to.figure(rate.steps(), |figure| {
                figure.note("The numbers are in the column MB/s of the table above, each 1,048,576 bytes.");
            });
        }
    }

    /// Images per second by seconds after the redo point, where times are known.
    pub(super) fn write_seconds(&self, to: &mut Blocks) {
        let since = self.since_redo;
        if since.spans.iter().all(|span| span.images_per_s().is_none()) {
            return to.paragraph(
                "How many seconds after redo points images were written is unknown: no interval has timestamps.",
            );
        }
        let ends = SPAN_STARTS_S.iter().skip(1).map(|end| format!(" to {end} s")).chain([" s and more".to_owned()]);
        let plot = Chart {
            name: "since_redo",
            title: "Images per second after redo points",
            description: "How many images were written in a second, by seconds after the redo point",
            unit: Unit::Count,
            left: "images per second",
            below: "seconds after the redo point",
            places: SPAN_STARTS_S.iter().zip(ends).map(|(start, end)| format!("{start}{end}")).collect(),
            series: vec![("images per second", since.spans.iter().map(SinceSpan::images_per_s).collect())],
        };
        let row = |(place, span): (&String, &SinceSpan)| {
            [
                Span::text(place),
                exact(span.fpi_count),
                exact(span.fpi_bytes),
                exact(span.combined_bytes),
                Span::Number(format!("{:.1}", span.observed_us as f64 / 1e6)),
                Span::number_or_dash(span.images_per_s().map(|rate| format!("{rate:.1}"))),
            ]
        };
        to.figure(plot.bars(), |figure| {
            let step = since.step_us as f64 / 1e6;
            figure.note(format!("The time of a record is that of the last commit or the like before it; steps of time are up to {step:.1} s long."));
            let caption = format!(
                "Intervals counted: {}; without a known time or redo point, so not counted: {}",
                since.intervals, since.left_out
            );
            let headings =
                ["after the redo point", "images", "image bytes", "bytes of records", "seconds seen", "images/s"];
            figure.table(caption, headings, plot.places.iter().zip(&since.spans).map(row));
        });
    }

    /// The share of images in equal parts of the intervals.
    pub(super) fn write_parts(&self, to: &mut Blocks) {
        // Of the others the redo point is not known, or the end.
        let whole = |interval: &&Interval| {
            interval.redo_lsn.is_some()
                && interval.kind != IntervalKind::Unknown
                && interval.parts.len() == DECAY_BUCKETS
        };
        let shares: Vec<_> = self.intervals.iter().filter(whole).map(Interval::decay).collect();
        if shares.is_empty() {
            return to.paragraph("No redo point is known in this range, so nothing is known of what comes after one.");
        }
        let mean_of = |part: usize| {
            let known: Vec<f64> = shares.iter().filter_map(|shares| shares[part]).collect();
            let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
            (mean, known.len())
        };
        let means: Vec<(Option<f64>, usize)> = (0..DECAY_BUCKETS).map(mean_of).collect();
        let plot = Chart {
            name: "decay",
            title: "Share of images in equal parts of the intervals",
            description: "The mean over all intervals of the share of images in each eighth of an interval after the redo point",
            unit: Unit::Share,
            left: "share of images in the bytes of records, mean over intervals",
            below: "part of the interval, starting at the redo point",
            places: (1..=DECAY_BUCKETS).map(|part| format!("{part} of {DECAY_BUCKETS}")).collect(),
            series: vec![("share of images", means.iter().map(|(mean, _)| *mean).collect())],
        };
        to.figure(plot.steps(), |figure| {
            figure.note(
                "The parts of an interval have equal duration if all of it has timestamps, else equally many \
                records.",
            );
            let rows = plot.places.iter().zip(&means).map(|(place, (mean, intervals))| {
                [Span::text(place), Span::number_or_dash(mean.map(percent)), Span::number(intervals)]
            });
            let caption = "Mean share of images in percent, and in how many intervals such a part has records";
            figure.table(caption, ["part", "share", "intervals"], rows);
        });
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
