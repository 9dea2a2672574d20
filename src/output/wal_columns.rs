//! The columns of `pg_walfpi stats`: one entry each, which JSON, CSV and the tables of the text output are made from.

use serde_json::{Value, json};

use super::figures::{duration, megabytes, percent, rate, size, sparkline};
use super::json::wal::Row;
use super::json::{lsn_text, time_text};
use crate::analysis::wal::interval::{Interval, IntervalKind};
use crate::analysis::wal::interval_rows::IntervalRow;
use crate::analysis::wal::tally::Tally;

/// A cell of the table of checkpoint intervals.
pub(crate) struct IntervalCell<T: 'static> {
    /// Heading; cells under the same heading stand in one column.
    pub heading: &'static str,
    pub screens: Screens,
    pub text: fn(&T) -> String,
    pub is_number: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screens {
    All,
    Wide,
    Narrow,
}

impl Screens {
    /// True when a screen shows it.
    pub(crate) fn include(self, is_wide: bool) -> bool {
        match self {
            Self::All => true,
            Self::Wide => is_wide,
            Self::Narrow => !is_wide,
        }
    }
}

/// A cell of the table of groups: a number, and the share of the total that it is.
pub(crate) struct GroupCell {
    pub heading: &'static str,
    pub number: fn(&Tally) -> u64,
    /// On which screens the share is shown: all or wide ones; `None`: nowhere.
    pub share: Option<Screens>,
}

/// A count over records: of an interval, a group, or everything.
pub(crate) struct CountColumn {
    pub field: &'static str,
    /// Name of the metric of Prometheus, and what it counts.
    pub metric: (&'static str, &'static str),
    pub value: fn(&Tally) -> Value,
    /// How it is shown for an interval, if it is.
    pub interval: Option<IntervalCell<Tally>>,
    /// How it is shown for a group, if it is.
    pub group: Option<GroupCell>,
}

/// The counts, in the order of CSV and of the tables.
pub static COUNTS: &[CountColumn] = &[
    CountColumn {
        field: "records",
        metric: ("records", "WAL records"),
        value: |tally| json!(tally.records),
        interval: Some(number("records", Screens::Wide, |tally| tally.records.to_string())),
        group: Some(GroupCell { heading: "records", number: |tally| tally.records, share: Some(Screens::Wide) }),
    },
    CountColumn {
        field: "record_bytes",
        metric: ("record_bytes", "Bytes of WAL records without their images"),
        value: |tally| json!(tally.record_bytes),
        interval: None,
        group: Some(GroupCell { heading: "bytes", number: |tally| tally.record_bytes, share: Some(Screens::Wide) }),
    },
    CountColumn {
        field: "fpi_count",
        metric: ("images", "Full-page images"),
        value: |tally| json!(tally.fpi_count),
        interval: Some(number("images", Screens::All, |tally| tally.fpi_count.to_string())),
        group: Some(GroupCell { heading: "images", number: |tally| tally.fpi_count, share: None }),
    },
    CountColumn {
        field: "fpi_bytes",
        metric: ("image_bytes", "Bytes of full-page images as stored"),
        value: |tally| json!(tally.fpi_bytes),
        interval: Some(number("stored", Screens::All, |tally| size(tally.fpi_bytes))),
        group: Some(GroupCell { heading: "image bytes", number: |tally| tally.fpi_bytes, share: Some(Screens::Wide) }),
    },
    CountColumn {
        field: "fpi_raw_bytes",
        metric: ("image_raw_bytes", "Bytes of full-page images as whole pages"),
        value: |tally| json!(tally.fpi_raw_bytes),
        interval: Some(number("raw", Screens::Wide, |tally| size(tally.fpi_raw_bytes))),
        group: None,
    },
    CountColumn {
        field: "combined_bytes",
        metric: ("combined_bytes", "Bytes of WAL records with their images"),
        value: |tally| json!(tally.combined_bytes()),
        interval: None,
        group: Some(GroupCell { heading: "together", number: Tally::combined_bytes, share: Some(Screens::All) }),
    },
    CountColumn {
        field: "fpi_share",
        metric: ("image_share", "Share of images in the bytes of WAL records, 0 to 1"),
        value: |tally| json!((tally.fpi_share() * 1e6).round() / 1e6),
        interval: Some(number("share", Screens::All, |tally| percent(tally.fpi_share()))),
        group: None,
    },
];

const fn number<T>(heading: &'static str, screens: Screens, text: fn(&T) -> String) -> IntervalCell<T> {
    IntervalCell { heading, screens, text, is_number: true }
}

const fn words<T>(heading: &'static str, screens: Screens, text: fn(&T) -> String) -> IntervalCell<T> {
    IntervalCell { heading, screens, text, is_number: false }
}

/// A property of an interval that is not a count.
pub(crate) struct IntervalColumn {
    pub field: &'static str,
    pub value: fn(&Interval) -> Value,
    pub cells: &'static [IntervalCell<IntervalRow>],
    pub follows_counts: bool,
}

/// The columns of an interval that are not counts, in the order of CSV.
pub(crate) static INTERVAL_COLUMNS: &[IntervalColumn] = &[
    IntervalColumn {
        field: "redo_lsn",
        value: |interval| json!(interval.redo_lsn.map(lsn_text)),
        cells: &[words("redo", Screens::All, |row| {
            let part = if row.begins_before { "<" } else { "" };
            format!("{part}{}", row.redo_lsn.unwrap_or(row.start_lsn))
        })],
        follows_counts: false,
    },
    IntervalColumn {
        field: "redo_after_lsn",
        value: |interval| json!(interval.hidden.map(|hidden| lsn_text(hidden.after))),
        cells: &[],
        follows_counts: false,
    },
    IntervalColumn {
        field: "redo_before_lsn",
        value: |interval| json!(interval.hidden.map(|hidden| lsn_text(hidden.before))),
        cells: &[],
        follows_counts: false,
    },
    IntervalColumn {
        field: "checkpoint_lsn",
        value: |interval| json!(interval.checkpoint.map(|seen| lsn_text(seen.lsn))),
        cells: &[words("checkpoint", Screens::Wide, |row| {
            row.checkpoint.map_or_else(|| "-".to_owned(), |seen| seen.lsn.to_string())
        })],
        follows_counts: false,
    },
    IntervalColumn {
        field: "start_lsn",
        value: |interval| json!(lsn_text(interval.start_lsn)),
        cells: &[],
        follows_counts: false,
    },
    IntervalColumn {
        field: "end_lsn",
        value: |interval| json!(lsn_text(interval.end_lsn)),
        cells: &[],
        follows_counts: false,
    },
    IntervalColumn {
        field: "time",
        value: |interval| json!(interval.checkpoint.and_then(|seen| seen.time_s).map(time_text)),
        cells: &[words("time", Screens::Narrow, clock), words("time", Screens::Wide, date_and_time)],
        follows_counts: false,
    },
    IntervalColumn {
        field: "kind",
        value: |interval| json!(interval.kind.name()),
        cells: &[words("kind", Screens::Wide, |row| row.kind.map_or("several", IntervalKind::name).to_owned())],
        follows_counts: false,
    },
    IntervalColumn {
        field: "is_whole",
        value: |interval| json!(interval.is_whole()),
        cells: &[],
        follows_counts: false,
    },
    IntervalColumn {
        field: "wal_bytes",
        value: |interval| json!(interval.wal_bytes()),
        cells: &[number("WAL", Screens::All, |row| size(row.wal_bytes))],
        follows_counts: false,
    },
    IntervalColumn {
        field: "duration_s",
        value: |interval| json!(interval.duration_s().map(rounded)),
        cells: &[number("lasts", Screens::All, |row| row.duration_s.map_or_else(|| "-".to_owned(), duration))],
        follows_counts: false,
    },
    IntervalColumn {
        field: "wal_mb_per_s",
        value: |interval| json!(interval.per_second(interval.wal_bytes()).map(megabytes).map(rounded)),
        cells: &[number("MB/s", Screens::All, |row| rate_or_dash(row.per_second(row.wal_bytes).map(megabytes)))],
        follows_counts: false,
    },
    IntervalColumn {
        field: "images_per_s",
        value: |interval| json!(interval.per_second(interval.tally.fpi_count).map(rounded)),
        cells: &[number("img/s", Screens::Wide, |row| rate_or_dash(row.per_second(row.tally.fpi_count)))],
        follows_counts: false,
    },
    IntervalColumn {
        field: "distinct_blocks",
        value: |interval| json!(interval.distinct_blocks),
        cells: &[number("blocks", Screens::All, |row| row.distinct_blocks.to_string())],
        follows_counts: true,
    },
    IntervalColumn {
        field: "decay",
        value: |interval| {
            let rounded = |share: &Option<f64>| share.map(|share| (share * 1000.0).round() / 1000.0);
            json!(interval.decay().iter().map(rounded).collect::<Vec<_>>())
        },
        cells: &[words("decay", Screens::All, |row| sparkline(&row.decay()))],
        follows_counts: true,
    },
    IntervalColumn {
        field: "decay_by",
        value: |interval| json!(interval.decay_by.name()),
        cells: &[],
        follows_counts: true,
    },
];

pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn rate_or_dash(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| "-".to_owned(), rate)
}

fn date_and_time(row: &IntervalRow) -> String {
    row.checkpoint.and_then(|seen| seen.time_s).map_or_else(|| "-".to_owned(), time_text)
}

fn clock(row: &IntervalRow) -> String {
    match date_and_time(row).get(11..19) {
        Some(clock) => clock.to_owned(),
        None if row.kind == Some(IntervalKind::Unfinished) => "no end".to_owned(),
        None => "-".to_owned(),
    }
}

pub(crate) fn put_tally(row: &mut Row, tally: &Tally) {
    row.extend(COUNTS.iter().map(|column| (column.field.to_owned(), (column.value)(tally))));
}

pub(crate) fn interval_row(interval: &Interval) -> Row {
    let mut row = Row::new();
    row.extend(INTERVAL_COLUMNS.iter().map(|column| (column.field.to_owned(), (column.value)(interval))));
    put_tally(&mut row, &interval.tally);
    row
}

/// Columns of the counts in CSV, in order.
pub(crate) fn count_fields() -> impl Iterator<Item = &'static str> {
    COUNTS.iter().map(|column| column.field)
}

/// Columns of an interval in CSV, in order.
pub(crate) fn interval_fields() -> impl Iterator<Item = &'static str> {
    INTERVAL_COLUMNS.iter().map(|column| column.field).chain(count_fields())
}
