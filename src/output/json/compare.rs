//! JSON of sets of WAL that are compared.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::lsn_text;
use super::wal::Row;
use crate::analysis::wal::certainty::Certainty;
use crate::analysis::wal::compare::{Figure, Part, RelationKey, SetFigures, Unit};
use crate::cluster::wal::WalOrigin;
use crate::parsers::image::Compression;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// Fields of a figure, in order.
pub const FIGURE_COLUMNS: [&str; 9] =
    ["set", "by", "key", "figure", "unit", "value", "difference_percent", "difference_points", "certainty"];

/// Where a set comes from.
#[derive(Clone, Copy, Debug)]
pub struct SetOrigin<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What was read.
    pub paths: &'a [PathBuf],
    /// All of it was.
    pub is_whole: bool,
    /// Whose it is.
    pub wal: WalOrigin,
    /// Start of the first record and end of the last.
    pub range: (Option<Lsn>, Option<Lsn>),
}

/// A set as a row.
#[must_use]
pub fn set_row(set: &SetOrigin<'_>) -> Row {
    let paths: Vec<String> = set.paths.iter().map(|path| path.display().to_string()).collect();
    let mut row = Row::new();
    for (name, value) in [
        ("name", json!(set.name)),
        ("paths", json!(paths)),
        ("is_whole", json!(set.is_whole)),
        ("major", json!(set.wal.major.map(Major::number))),
        ("system_identifier", json!(set.wal.system_identifier.map(|id| id.to_string()))),
        ("start_lsn", json!(set.range.0.map(lsn_text))),
        ("end_lsn", json!(set.range.1.map(lsn_text))),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// A figure of a set as a row. `first`: the set that it is compared with, unless it is that one.
#[must_use]
pub fn figure_row(name: &str, set: &SetFigures, first: Option<&SetFigures>, part: &Part, figure: Figure) -> Row {
    let value = set.value(part, figure);
    let difference = first.and_then(|first| set.difference_percent(first, part, figure));
    let points = first.and_then(|first| set.difference_points(first, part, figure));
    let mut row = Row::new();
    for (name, value) in [
        ("set", json!(name)),
        ("by", json!(part.by())),
        ("key", json!(key_text(part))),
        ("figure", json!(figure.code())),
        ("unit", json!(figure.unit().code())),
        ("value", json!(value.map(|value| number(value, figure.unit())))),
        ("difference_percent", json!(difference.map(|percent| rounded(percent, 3)))),
        ("difference_points", json!(points.map(|points| rounded(points, 3)))),
        ("certainty", json!(certainty(set.is_whole, figure.unit()).code())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// How sure a figure is: what is missing can only make sums larger, but shares and averages anything.
const fn certainty(is_whole: bool, unit: Unit) -> Certainty {
    match (is_whole, unit) {
        (true, _) => Certainty::Exact,
        (false, Unit::Count | Unit::Bytes | Unit::Seconds) => Certainty::AtLeast,
        (false, Unit::Average | Unit::AverageBytes | Unit::Share) => Certainty::Estimate,
    }
}

/// The name of a part among those of its kind; none of everything.
#[must_use]
pub fn key_text(part: &Part) -> Option<String> {
    Some(match part {
        Part::All => return None,
        Part::Cause(cause) => cause.name().to_owned(),
        Part::Compression(method) => method.map_or("none", Compression::name).to_owned(),
        Part::Relation(RelationKey::Name(name)) => name.clone(),
        Part::Relation(RelationKey::Numbers(rel)) => rel.to_string(),
        Part::Relation(RelationKey::Unnamed) => "(unnamed)".to_owned(),
    })
}

/// A figure as JSON has it: whole numbers where it counts.
fn number(value: f64, unit: Unit) -> Value {
    match unit {
        Unit::Count | Unit::Bytes => json!(value.round() as u64),
        Unit::AverageBytes | Unit::Average => json!(rounded(value, 3)),
        Unit::Share | Unit::Seconds => json!(rounded(value, 6)),
    }
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let factor = 10_f64.powi(decimals);
    (value * factor).round() / factor
}
