//! Holds salvaged rows against the truth: what a healthy server printed of each row.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::unpack::unpack;

/// A tuple of the truth.
pub struct TrueRow {
    pub class: String,
    pub is_intact: bool,
    /// The row, with NULL for values of which TOAST chunks are lost.
    pub text: Vec<u8>,
    /// A TOAST chunk has changed bytes.
    pub is_altered: bool,
}

/// A table of the truth.
pub struct TrueTable {
    pub database: String,
    /// `schema.table`, without quotation marks.
    pub name: String,
    pub live: u64,
    pub live_intact: u64,
    pub rows: Vec<TrueRow>,
}

/// What came of the rows of one table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Score {
    pub found: u64,
    pub uncertain: u64,
    /// Rows in the file of rows that no healthy server would print.
    pub false_rows: u64,
    /// Live rows with intact bytes that are in no file.
    pub missed: u64,
}

pub fn case(name: &str) -> PathBuf {
    unpack(&format!("salvage/{name}")).expect("unpack the case").join("data")
}

pub fn truth(name: &str) -> PathBuf {
    unpack(&format!("salvage/{name}.truth")).expect("unpack the truth").join("truth")
}

/// The tables of the truth of a case.
pub fn tables(name: &str) -> Vec<TrueTable> {
    let truth = truth(name);
    let list = fs::read_to_string(truth.join("tables.tsv")).unwrap();
    list.lines().skip(1).map(|line| table(&truth, line)).collect()
}

fn table(truth: &Path, line: &str) -> TrueTable {
    let fields: Vec<&str> = line.split('\t').collect();
    let columns: Vec<&str> = fields[13].split(',').collect();
    let file = fs::read(truth.join(fields[0])).unwrap();
    let rows = file.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty());
    TrueTable {
        database: fields[1].to_owned(),
        name: fields[2].replace("\"\"", "\u{0}").replace('"', "").replace('\u{0}', "\""),
        live: fields[8].parse().unwrap(),
        live_intact: fields[9].parse().unwrap(),
        rows: rows.map(|line| row(line, &columns)).collect(),
    }
}

fn row(line: &[u8], columns: &[&str]) -> TrueRow {
    let fields: Vec<&[u8]> = line.splitn(6, |byte| *byte == b'\t').collect();
    let (lost, mut text) = (String::from_utf8(fields[4].to_vec()).unwrap(), fields[5].to_vec());
    if lost != "-" {
        let mut values: Vec<&[u8]> = text.split(|byte| *byte == b'\t').collect();
        for entry in lost.split(',') {
            let column = entry.split(':').next().unwrap();
            values[columns.iter().position(|name| *name == column).unwrap()] = b"\\N";
        }
        text = values.join(&b'\t');
    }
    TrueRow {
        class: String::from_utf8(fields[1].to_vec()).unwrap(),
        is_intact: fields[2] == b"intact",
        text,
        is_altered: lost.contains('~'),
    }
}

/// `tables.csv`: its fields by database and `schema.table`.
pub fn listed(out: &Path) -> BTreeMap<(String, String), HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(out.join("tables.csv")).unwrap();
    let names = reader.headers().unwrap().clone();
    let mut found = BTreeMap::new();
    for record in reader.records() {
        let record = record.unwrap();
        let fields: HashMap<String, String> =
            names.iter().zip(&record).map(|(name, field)| (name.to_owned(), field.to_owned())).collect();
        found.insert((fields["database"].clone(), format!("{}.{}", fields["schema"], fields["table"])), fields);
    }
    found
}

fn lines(out: &Path, file: &str) -> HashMap<Vec<u8>, u64> {
    let mut counts = HashMap::new();
    if file.is_empty() {
        return counts;
    }
    let text = fs::read(out.join(file)).unwrap();
    let text = text.strip_suffix(b"\n").map(|text| text.split(|byte| *byte == b'\n'));
    for line in text.into_iter().flatten() {
        *counts.entry(line.to_vec()).or_default() += 1;
    }
    counts
}

/// Holds the salvage in `out` against the truth of a case.
pub fn judge(name: &str, out: &Path) -> BTreeMap<(String, String), Score> {
    let listed = listed(out);
    let mut scores = BTreeMap::new();
    for table in tables(name) {
        let key = (table.database, table.name);
        let fields = listed.get(&key).unwrap_or_else(|| panic!("{key:?} is not in tables.csv"));
        let [mut rows, mut uncertain] = ["rows_file", "uncertain_file"].map(|column| lines(out, &fields[column]));
        let mut score = Score::default();
        for row in table.rows.iter().filter(|row| row.class.starts_with("live")) {
            let take = |lines: &mut HashMap<Vec<u8>, u64>| {
                let left = lines.get_mut(&row.text).filter(|count| **count > 0);
                left.map(|count| *count -= 1).is_some()
            };
            if take(&mut rows) {
                score.found += 1;
            } else if take(&mut uncertain) {
                score.uncertain += 1;
            } else if row.is_intact && !row.is_altered {
                score.missed += 1;
            }
        }
        score.false_rows = rows.values().sum();
        scores.insert(key, score);
    }
    scores
}
