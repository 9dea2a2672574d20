//! Statistics in the text format of Prometheus, as the textfile collector of its node exporter takes it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::Value;

use super::closing::Closing;
use super::escape::printable;
use super::json::wal::{GROUP_KEYS, Naming, group_row, grouping_name};
use super::wal_columns::{COUNTS, rounded};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::bill::{BillPart, WalBill};
use crate::analysis::wal::group::GroupRow;
use crate::analysis::wal::group_key::Grouping;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::tally::Tally;
use crate::cluster::wal::WalOrigin;

const PREFIX: &str = "pg_walfpi_";

pub(crate) struct Metrics<'a> {
    pub total: &'a Tally,
    /// Bytes of WAL that they lie in, page headers and padding included.
    pub wal_bytes: u64,
    /// Those of them that no record has; `None` where some relations are counted alone.
    pub bill: Option<&'a WalBill>,
    /// Bytes between good records that could not be read, where counting continued after damage.
    pub damaged_bytes: Option<u64>,
    pub origin: WalOrigin,
    pub parts: Parts<'a>,
}

pub(crate) enum Parts<'a> {
    Intervals(&'a [Interval]),
    Groups(Grouping, &'a [GroupRow], &'a Naming<'a>),
}

/// Writes all of it and ends the output.
pub(crate) fn write_metrics(out: &mut dyn Write, metrics: &Metrics<'_>, closing: &Closing) -> io::Result<Answer> {
    let alone = |value: u64| vec![(String::new(), value.to_string())];
    write_counts(out, "", "in the range read", &[(String::new(), metrics.total)])?;
    family(
        out,
        "wal_bytes",
        "Bytes of WAL in the range read, page headers and padding included",
        &alone(metrics.wal_bytes),
    )?;
    if let Some(bill) = metrics.bill {
        for (name, what, part) in [
            ("unused_bytes", "Bytes of WAL that segment switches left unused", BillPart::Unused),
            ("page_header_bytes", "Bytes of headers of WAL pages", BillPart::PageHeaders),
            ("padding_bytes", "Bytes between WAL records", BillPart::Padding),
        ] {
            family(out, name, &format!("{what} in the range read"), &alone(bill.bytes(part)))?;
        }
    }
    if let Some(bytes) = metrics.damaged_bytes {
        family(out, "damaged_bytes", "Bytes between good records that could not be read", &alone(bytes))?;
    }
    match &metrics.parts {
        Parts::Intervals(intervals) => write_parts(out, intervals)?,
        Parts::Groups(by, rows, naming) => {
            let labels = group_labels(*by, rows, naming);
            let samples: Vec<_> = labels.into_iter().zip(rows.iter().map(|row| &row.tally)).collect();
            write_counts(out, "group_", "of the group", &samples)?;
        }
    }
    let answer = closing.answer();
    family(out, "problems", "Findings that are problems", &alone(closing.problems() as u64))?;
    family(out, "not_examined", "Parts of the input that were not checked", &alone(closing.skipped.len() as u64))?;
    family(out, "exit_status", "Exit status of this run", &alone(answer.status().into()))?;
    let major = metrics.origin.major.map_or_else(String::new, |major| major.number().to_string());
    let system = metrics.origin.system_identifier.map_or_else(String::new, |system| system.to_string());
    let labels = label_set(&[("major", major.as_str().into()), ("system_identifier", system.as_str().into())]);
    family(out, "cluster_info", "The cluster that the WAL belongs to", &[(labels, "1".to_owned())])?;
    out.flush()?;
    Ok(answer)
}

/// Redo points, time, and the last interval that begins and ends with a redo point.
fn write_parts(out: &mut dyn Write, intervals: &[Interval]) -> io::Result<()> {
    let alone = |value: String| vec![(String::new(), value)];
    let redo_points =
        intervals.iter().filter(|interval| interval.redo_lsn.is_some() || interval.hidden.is_some()).count();
    family(out, "redo_points", "Redo points of checkpoints in the range read", &alone(redo_points.to_string()))?;
    let lengths = intervals.iter().filter_map(Interval::duration_s);
    if let Some(seconds) = lengths.reduce(|sum, length| sum + length) {
        family(
            out,
            "seconds",
            "Seconds that checkpoint intervals of known length last",
            &alone(rounded(seconds).to_string()),
        )?;
    }
    let Some(last) = last_whole(intervals) else { return Ok(()) };
    write_counts(out, "last_interval_", "of the last complete checkpoint interval", &[(String::new(), &last.tally)])?;
    let numbers = [
        ("last_interval_wal_bytes", "Bytes of WAL", Some(last.wal_bytes().to_string())),
        ("last_interval_distinct_blocks", "Distinct blocks in records", Some(last.distinct_blocks.to_string())),
        ("last_interval_seconds", "Length", last.duration_s().map(|seconds| rounded(seconds).to_string())),
    ];
    for (name, what, value) in numbers {
        if let Some(value) = value {
            family(out, name, &format!("{what} of the last complete checkpoint interval"), &alone(value))?;
        }
    }
    Ok(())
}

/// The last interval from one redo point to the next.
fn last_whole(intervals: &[Interval]) -> Option<&Interval> {
    let pairs = intervals.iter().zip(intervals.iter().skip(1));
    let is_whole = |(interval, next): &(&Interval, &Interval)| {
        interval.redo_lsn == Some(interval.start_lsn) && next.redo_lsn == Some(interval.end_lsn)
    };
    pairs.rev().find(is_whole).map(|(interval, _)| interval)
}

/// Labels of groups, in their order. No two are equal: a reader would refuse the whole file.
fn group_labels(by: Grouping, rows: &[GroupRow], naming: &Naming<'_>) -> Vec<String> {
    let mut seen: HashMap<String, u64> = HashMap::new();
    let labels = rows.iter().map(|group| {
        let row = group_row(by, group, naming);
        let text = |name: &&'static str| match row.get(*name)? {
            Value::Null => None,
            Value::String(text) => Some((*name, Cow::Borrowed(text.as_str()))),
            other => Some((*name, Cow::Owned(other.to_string()))),
        };
        let names = GROUP_KEYS.iter().filter(|name| **name != "by").chain(&["kind", "access_method"]);
        let mut labels: Vec<_> = names.filter_map(text).collect();
        labels.insert(0, ("by", grouping_name(by).into()));
        let set = label_set(&labels);
        let times = seen.entry(set.clone()).or_default();
        *times += 1;
        if *times == 1 {
            return set;
        }
        labels.push(("nth", times.to_string().into()));
        label_set(&labels)
    });
    labels.collect()
}

/// The counts of each sample, one family after the other.
fn write_counts(out: &mut dyn Write, part: &str, of: &str, samples: &[(String, &Tally)]) -> io::Result<()> {
    for column in COUNTS {
        let (name, what) = column.metric;
        let values = samples.iter().map(|(labels, tally)| (labels.clone(), (column.value)(tally).to_string()));
        family(out, &format!("{part}{name}"), &format!("{what} {of}"), &values.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// One metric: what it is, its type, its samples.
pub(super) fn family(out: &mut dyn Write, name: &str, help: &str, samples: &[(String, String)]) -> io::Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    writeln!(out, "# HELP {PREFIX}{name} {help}.\n# TYPE {PREFIX}{name} gauge")?;
    samples.iter().try_for_each(|(labels, value)| writeln!(out, "{PREFIX}{name}{labels} {value}"))
}

pub(super) fn label_set(labels: &[(&str, Cow<'_, str>)]) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}

/// The value of a label between quotation marks. A line end has an escape of its own there.
fn escaped(value: &str) -> String {
    let lines: Vec<String> = value.split('\n').map(printable).collect();
    lines.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
