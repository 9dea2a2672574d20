//! `pg_walfpi stats --format prometheus`: the numbers are those of JSON, and each line is one that Prometheus takes.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use crate::common;
use crate::common::{Ran, arg, run, unpack};
use serde_json::{Value, json};

type Labels = BTreeMap<String, String>;

/// Samples by name, after a check of every line: each metric once, HELP and TYPE before its samples, no sample twice.
fn parsed(text: &str) -> BTreeMap<String, Vec<(Labels, f64)>> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Vec<(Labels, f64)>> = BTreeMap::new();
    let mut seen = HashSet::new();
    let (mut helped, mut typed) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, what) = help.split_once(' ').unwrap();
            assert!(what.len() > 5 && !what.contains('\\'), "{line}");
            name.clone_into(&mut helped);
            assert!(families.insert(helped.clone(), Vec::new()).is_none(), "{name} is there twice");
        } else if let Some(typ) = line.strip_prefix("# TYPE ") {
            typed = typ.strip_suffix(" gauge").unwrap().to_owned();
            assert_eq!(typed, helped);
        } else {
            let end = line.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap();
            let (name, rest) = line.split_at(end);
            assert!(name.starts_with("pg_walfpi_") && name == typed, "{line}");
            let (labels, value) =
                if let Some(inside) = rest.strip_prefix('{') { labels(inside) } else { (Labels::new(), rest) };
            assert!(seen.insert((name.to_owned(), labels.clone())), "a sample is there twice: {line}");
            let value = value.strip_prefix(' ').unwrap().parse().unwrap();
            families.get_mut(name).unwrap().push((labels, value));
        }
    }
    assert!(families.values().all(|samples| !samples.is_empty()));
    families
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> (Labels, &str) {
    let mut found = Labels::new();
    loop {
        let (name, quoted) = rest.split_once("=\"").unwrap();
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} is not an escape of this format"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(found.insert(name.to_owned(), value).is_none(), "{name} is there twice");
        rest = &quoted[end + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (found, rest.strip_prefix('}').unwrap()),
        }
    }
}

fn both(args: &[&str]) -> (BTreeMap<String, Vec<(Labels, f64)>>, Ran) {
    let of = |format| run("pg_walfpi", &[&["stats", "--format", format], args].concat());
    let (metrics, rows) = (of("prometheus"), of("ndjson"));
    assert_eq!((metrics.status, metrics.stderr.as_str()), (rows.status, rows.stderr.as_str()));
    (parsed(&metrics.stdout), rows)
}

/// Names of the counts, beside the fields of JSON.
const COUNTS: [(&str, &str); 7] = [
    ("records", "records"),
    ("record_bytes", "record_bytes"),
    ("images", "fpi_count"),
    ("image_bytes", "fpi_bytes"),
    ("image_raw_bytes", "fpi_raw_bytes"),
    ("combined_bytes", "combined_bytes"),
    ("image_share", "fpi_share"),
];

fn same_counts(metrics: &BTreeMap<String, Vec<(Labels, f64)>>, part: &str, index: usize, row: &Value) {
    for (name, field) in COUNTS {
        let value = metrics[&format!("pg_walfpi_{part}{name}")][index].1;
        assert_eq!(value, row[field].as_f64().unwrap(), "{part}{name} of {row}");
    }
}

#[test]
fn sums_and_the_last_whole_interval_are_those_of_json() {
    for major in 10..=19 {
        let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
        let (metrics, rows) = both(&[arg(&data)]);
        let summary = &rows.of_type("summary")[0];
        same_counts(&metrics, "", 0, summary);
        let only = |name: &str| match metrics[&format!("pg_walfpi_{name}")].as_slice() {
            [(labels, value)] if labels.is_empty() => *value,
            other => panic!("{name}: {other:?}"),
        };
        for (name, field) in [
            ("wal_bytes", "wal_bytes"),
            ("problems", "problems"),
            ("not_examined", "skipped"),
            ("exit_status", "exit_status"),
        ] {
            assert_eq!(only(name), summary[field].as_f64().unwrap(), "{major} {name}");
        }
        let intervals = rows.of_type("interval");
        let redo_points = intervals.iter().filter(|row| row["redo_lsn"].is_string()).count();
        assert_eq!(only("redo_points"), redo_points as f64);
        let seconds: f64 = intervals.iter().filter_map(|row| row["duration_s"].as_f64()).sum();
        assert!((only("seconds") - seconds).abs() < 0.001 * intervals.len() as f64, "{major}");
        // The last one ends where the WAL does; the one before it is whole.
        let whole = &intervals[intervals.len() - 2];
        assert!(whole["redo_lsn"].is_string() && intervals.len() > 3, "{major}");
        same_counts(&metrics, "last_interval_", 0, whole);
        assert_eq!(only("last_interval_wal_bytes"), whole["wal_bytes"].as_f64().unwrap());
        assert_eq!(only("last_interval_distinct_blocks"), whole["distinct_blocks"].as_f64().unwrap());
        let cluster = &metrics["pg_walfpi_cluster_info"][0].0;
        assert_eq!(cluster["major"], major.to_string());
        assert_eq!(cluster["system_identifier"], summary["system_identifier"]);
    }
}

#[test]
fn groups_are_those_of_json_whatever_they_are_made_by() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    for by in [
        "rmgr",
        "record",
        "relation",
        "fork",
        "block",
        "cause",
        "segment",
        "compression",
        "database",
        "tablespace",
        "xid",
        "kind",
        "table",
        "relation,cause",
        "relation,checkpoint",
        "table,kind",
        "block,relation",
        "checkpoint,rmgr",
    ] {
        for top in ["5", "1000000"] {
            let (metrics, rows) = both(&["--by", by, "--top", top, "--names", arg(&data), arg(&data)]);
            let groups = rows.of_type("group");
            same_counts(&metrics, "", 0, &rows.of_type("summary")[0]);
            let series = &metrics["pg_walfpi_group_records"];
            assert!(series.len() == groups.len() && (top != "5" || series.len() <= 5), "{by} {top}");
            for (index, group) in groups.iter().enumerate() {
                same_counts(&metrics, "group_", index, group);
                let labels = &series[index].0;
                assert_eq!(labels["by"], by);
                for (name, value) in labels.iter().filter(|(name, _)| !["by", "nth"].contains(&name.as_str())) {
                    assert_eq!(*value, common::cell(&group[name]), "{by} {name}");
                }
            }
        }
    }
}

#[test]
fn a_hostile_name_stays_within_its_label() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let rows = run("pg_walfpi", &["stats", "--by", "relation", "--format", "ndjson", arg(&data)]).of_type("group");
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("names.json");
    let hostile = "a\"} 1\n# HELP pg_walfpi_x\\n\\\",b=\"c\\";
    let names: Vec<Value> = rows[..2]
        .iter()
        .map(|row| {
            json!({
                "spc_oid": row["spc_oid"], "db_oid": row["db_oid"], "rel_number": row["rel_number"],
                "database": "db", "schema": "public", "relation": hostile,
            })
        })
        .collect();
    fs::write(&file, serde_json::to_string(&names).unwrap()).unwrap();
    for by in ["relation", "table"] {
        let (metrics, rows) = both(&["--by", by, "--names", arg(&file), arg(&data)]);
        let named: Vec<_> = metrics["pg_walfpi_group_images"]
            .iter()
            .filter(|(labels, _)| labels.get(by).is_some_and(|name| name.ends_with(hostile)))
            .collect();
        // Two of the same name stay two.
        assert_eq!(named.len(), 2, "{by}");
        let groups = rows.of_type("group");
        let of_json = groups.iter().filter(|row| row[by].as_str().is_some_and(|name| name.ends_with(hostile)));
        assert!(of_json.map(|row| row["fpi_count"].as_f64().unwrap()).eq(named.iter().map(|(_, value)| *value)));
    }
}

#[test]
fn what_is_wrong_is_a_number() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let mut segments: Vec<_> = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    segments.remove(1);
    let paths: Vec<&str> = segments.iter().map(|path| arg(path)).collect();
    let (metrics, rows) = both(&paths);
    let summary = &rows.of_type("summary")[0];
    assert_ne!(summary["exit_status"], 0);
    for (name, field) in [("problems", "problems"), ("not_examined", "skipped"), ("exit_status", "exit_status")] {
        assert_eq!(metrics[&format!("pg_walfpi_{name}")][0].1, summary[field].as_f64().unwrap(), "{name}");
    }
}

#[test]
fn other_commands_and_periods_of_time_do_not_take_it() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let commands: [&[&str]; 5] =
        [&["list"], &["verify"], &["whatif"], &["stats", "--by", "time"], &["stats", "--by", "since-redo"]];
    for command in commands {
        let ran = run("pg_walfpi", &[command, &["--format", "prometheus", arg(&data)]].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command:?}");
        assert!(ran.stderr.contains("prometheus"), "{command:?}: {}", ran.stderr);
    }
    let ran = run("pg_dwbinspect", &["info", "--format", "prometheus", arg(&data)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
}
