//! `pg_walfpi export`: the same sums as `stats`, by the queries of docs/export.md in DuckDB; files that are the same
//! whatever the number of threads; nothing overwritten, nothing inside what is read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common;
use crate::common::{Ran, arg, copy_tree, run, unpack};
use serde_json::{Value, json};

const TABLES: [&str; 3] = ["records", "blocks", "images"];

const SUMS: [&str; 5] = ["records", "record_bytes", "fpi_count", "fpi_bytes", "fpi_raw_bytes"];

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// The document that a command printed.
fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn data(major: u32) -> PathBuf {
    unpack::data_dir(&format!("wal/pg{major}")).expect("unpack fixture")
}

fn export(table: &str, out: &Path, more: &[&str], wal: &Path) -> Ran {
    walfpi(&[&["export", "--table", table, "-o", arg(out), "--format", "json"], more, &[arg(wal)]].concat())
}

/// An array of a document without the types of its members.
fn untyped(array: &Value) -> Value {
    let mut array = array.clone();
    for member in array.as_array_mut().into_iter().flatten() {
        member.as_object_mut().expect("an object").remove("type");
    }
    array
}

/// Files below a directory, by their path in it.
fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => {
                    let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

/// The queries of docs/export.md by name.
fn queries() -> BTreeMap<String, String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md")).unwrap();
    let mut found = BTreeMap::new();
    for block in text.split("```sql ").skip(1) {
        let (name, query) = block.split_once('\n').unwrap();
        let query = query.split("```").next().unwrap();
        assert!(found.insert(name.to_owned(), query.to_owned()).is_none(), "{name} twice");
    }
    found
}

/// A Python that has `module`; `None`, and said so loudly, where there is none.
fn python(module: &str) -> Option<String> {
    let python = std::env::var("PGFORENSICS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    common::skipped(&format!("{python} has no {module}"));
    None
}

/// Runs queries where the tables lie below `directory/wal`.
fn duckdb(python: &str, directory: &Path, setup: &str, queries: &BTreeMap<&str, &str>) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/duckdb_queries.py");
    let mut child = Command::new(python)
        .arg(script)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python");
    let setup: Vec<&str> = setup.split_inclusive(";\n").collect();
    child.stdin.take().unwrap().write_all(json!({"setup": setup, "queries": queries}).to_string().as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "duckdb");
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// Sums by the fields that name a group, groups without a record left out.
fn by_key(rows: &Value, keys: &[&str], context: &str) -> BTreeMap<String, Vec<u64>> {
    let mut found = BTreeMap::new();
    for row in rows.as_array().unwrap_or(&Vec::new()).iter().filter(|row| row["records"] != 0) {
        let key: Vec<String> = keys.iter().map(|key| row[key].to_string()).collect();
        let sums = SUMS.iter().map(|sum| row[sum].as_u64().unwrap_or_else(|| panic!("{context}: {row}"))).collect();
        assert!(found.insert(key.join(" "), sums).is_none(), "{context}: {key:?} twice");
    }
    found
}

#[test]
fn queries_in_the_docs_give_what_stats_counts() {
    let Some(python) = python("duckdb") else { return };
    let queries = queries();
    let groupings: [(&str, &[&str]); 11] = [
        ("rmgr", &["rmgr"]),
        ("record", &["rmgr", "record"]),
        ("segment", &["segment", "timeline"]),
        ("checkpoint", &["start_lsn", "redo_lsn"]),
        ("relation", &["spc_oid", "db_oid", "rel_number"]),
        ("fork", &["fork"]),
        ("block", &["spc_oid", "db_oid", "rel_number", "fork", "block"]),
        ("database", &["db_oid"]),
        ("tablespace", &["spc_oid"]),
        ("compression", &["compression"]),
        ("cause", &["cause"]),
    ];
    let asked: BTreeMap<&str, &str> = groupings.iter().map(|(by, _)| (*by, queries[*by].as_str())).collect();
    for major in [10, 15, 16, 17, 19] {
        let (data, out) = (data(major), tempfile::tempdir().unwrap());
        fs::create_dir(out.path().join("wal")).unwrap();
        for table in TABLES {
            let ran = export(table, &out.path().join("wal").join(table), &["--as", "parquet", "--group", "1"], &data);
            assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{major} {table}");
        }
        let found = duckdb(&python, out.path(), &queries["setup"], &asked);
        for (by, keys) in groupings {
            let stats = json(&walfpi(&["stats", "--by", by, "--format", "json", arg(&data)]));
            let rows = if by == "checkpoint" { &stats["intervals"] } else { &stats["groups"] };
            let (expected, context) = (by_key(rows, keys, by), format!("{major} {by}"));
            assert!(!expected.is_empty(), "{context}");
            assert_eq!(by_key(&found[by], keys, &context), expected, "{context}");
        }
    }
}

/// NDJSON and CSV hold the same rows as Parquet, compressed or not.
#[test]
fn formats_hold_the_same_rows() {
    let Some(python) = python("duckdb") else { return };
    let (queries, data, out) = (queries(), data(15), tempfile::tempdir().unwrap());
    fs::create_dir(out.path().join("wal")).unwrap();
    for table in TABLES {
        export(table, &out.path().join("wal").join(table), &["--as", "parquet"], &data);
    }
    let parquet = "SELECT * FROM records ORDER BY lsn";
    let rows_of = |query: &str| format!("SELECT * FROM ({}) ORDER BY lsn", query.trim().trim_end_matches(';'));
    let example = queries["example"].as_str();
    let expected =
        duckdb(&python, out.path(), &queries["setup"], &BTreeMap::from([("rows", parquet), ("example", example)]));
    assert!(expected["rows"].as_array().unwrap().len() > 5000 && !expected["example"].as_array().unwrap().is_empty());
    for format in ["ndjson", "csv"] {
        for zstd in [&["--zstd"][..], &[]] {
            let directory = out.path().join(format!("{format}{}", zstd.len()));
            fs::create_dir_all(directory.join("wal")).unwrap();
            let ran = export("records", &directory.join("wal/records"), &[&["--as", format], zstd].concat(), &data);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            let found =
                duckdb(&python, &directory, "", &BTreeMap::from([("rows", rows_of(&queries[format]).as_str())]));
            assert_eq!(found["rows"], expected["rows"], "{format} {zstd:?}");
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn number_of_threads_changes_nothing() {
    for major in [10, 16, 18] {
        let (data, out) = (data(major), tempfile::tempdir().unwrap());
        for (table, format) in TABLES.into_iter().zip(["parquet", "ndjson", "csv"]) {
            let trees = ["1", "5"].map(|jobs| {
                let out = out.path().join(format!("{table}{jobs}"));
                let ran = export(table, &out, &["--as", format, "--group", "1", "--jobs", jobs], &data);
                assert_eq!(ran.status, 0, "{major} {table}: {}", ran.stderr);
                tree(&out)
            });
            assert!(trees[0].len() > 2, "{major} {table}");
            assert!(trees[0] == trees[1], "{major} {table}");
        }
    }
}

/// The manifest says what was written: here, with the numbers that `stats` has.
#[test]
fn manifest_completes_an_export() {
    let (data, out) = (data(17), tempfile::tempdir().unwrap());
    for table in TABLES {
        let directory = out.path().join(table);
        let ran = export(table, &directory, &["--as", "ndjson", "--group", "2"], &data);
        let files = tree(&directory);
        let manifest: Value = serde_json::from_slice(&files["_manifest.json"]).unwrap();
        assert_eq!(manifest["exit_status"], 0, "{table}");
        assert_eq!(manifest["files"], untyped(&json(&ran)["exported_files"]), "{table}");
        let lines = |name: &str| files[name].iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut rows = 0;
        for file in manifest["files"].as_array().unwrap() {
            let name = file["path"].as_str().unwrap();
            assert_eq!(
                (file["rows"].as_u64(), file["bytes"].as_u64()),
                (Some(lines(name)), Some(files[name].len() as u64))
            );
            rows += lines(name);
        }
        assert_eq!(
            (files.len() - 1, rows),
            (manifest["files"].as_array().unwrap().len(), manifest["rows"].as_u64().unwrap())
        );
        let stats = json(&walfpi(&["stats", "--format", "json", arg(&data)]));
        for sum in SUMS.iter().chain(&["start_lsn", "end_lsn", "major", "system_identifier"]) {
            assert_eq!(manifest["totals"][sum], stats["summary"][sum], "{table} {sum}");
        }
        let expected = match table {
            "records" => stats["summary"]["records"].clone(),
            "images" => stats["summary"]["fpi_count"].clone(),
            _ => rows.into(),
        };
        assert_eq!(manifest["rows"], expected, "{table}");
        let columns: Vec<&str> =
            manifest["columns"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
        let first = files.values().find(|bytes| bytes.starts_with(b"{\"lsn\"")).unwrap();
        let line: Value = serde_json::from_slice(first.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        let mut names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let mut sorted = columns;
        names.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(names, sorted, "{table}");
    }
}

#[test]
fn nothing_is_overwritten_nor_written_into_what_is_read() {
    let out = tempfile::tempdir().unwrap();
    let data = out.path().join("data");
    copy_tree(&self::data(16), &data);
    let archive = out.path().join("archive");
    copy_tree(&data.join("pg_wal"), &archive);
    let before = tree(out.path());
    for table in TABLES {
        for (directory, wal) in [
            (data.join("new"), &data),
            (data.join("pg_wal/new"), &data),
            (archive.join("new"), &archive),
            (archive.clone(), &archive),
        ] {
            let ran = export(table, &directory, &[], wal);
            assert_eq!(ran.status, 2, "{}", directory.display());
            assert!(!ran.stderr.is_empty());
        }
    }
    assert!(tree(out.path()) == before);
    let full = out.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "content").unwrap();
    let ran = export("records", &full, &[], &archive);
    assert!(ran.status == 2 && ran.stderr.contains("not empty"), "{}", ran.stderr);
    assert_eq!(tree(&full).len(), 1);
}

/// What `stats` does not count has no row, and the manifest says why.
#[test]
fn rows_end_where_wal_is_damaged() {
    let out = tempfile::tempdir().unwrap();
    let archive = out.path().join("archive");
    copy_tree(&data(16).join("pg_wal"), &archive);
    let mut segments: Vec<PathBuf> = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    let mut bytes = fs::read(&segments[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xA5);
    fs::write(&segments[1], bytes).unwrap();
    let stats = walfpi(&["stats", "--format", "json", arg(&archive)]);
    assert_eq!(stats.status, 2);
    for table in TABLES {
        let directory = out.path().join(table);
        let ran = export(table, &directory, &["--as", "ndjson"], &archive);
        assert_eq!(ran.status, 2, "{table}: {}", ran.stderr);
        let manifest: Value = serde_json::from_slice(&tree(&directory)["_manifest.json"]).unwrap();
        assert_eq!(manifest["exit_status"], 2);
        // `stats` has an option to read on, and says so. A manifest has `null` where a field does not apply.
        let without_why = |mut findings: Value| {
            for finding in findings.as_array_mut().unwrap() {
                finding.as_object_mut().unwrap().retain(|name, value| name != "why" && !value.is_null());
            }
            findings
        };
        let of_stats = untyped(&json(&stats)["findings"]);
        assert_eq!(without_why(manifest["findings"].clone()), without_why(of_stats), "{table}");
        assert_eq!(manifest["totals"]["records"], json(&stats)["summary"]["records"]);
        if table == "records" {
            assert_eq!(manifest["rows"], json(&stats)["summary"]["records"]);
        }
    }
}

#[test]
fn tables_in_the_docs_have_the_columns_of_the_files() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md")).unwrap();
    let out = tempfile::tempdir().unwrap();
    for table in TABLES {
        let directory = out.path().join(table);
        export(table, &directory, &["--as", "csv"], &data(18));
        let files = tree(&directory);
        let csv = files.iter().find(|(name, _)| name.ends_with(".csv")).unwrap().1;
        let mut columns: Vec<&str> =
            std::str::from_utf8(csv.split(|byte| *byte == b'\n').next().unwrap()).unwrap().split(',').collect();
        let section = text.split(&format!("### `{table}`\n")).nth(1).unwrap().split("\n#").next().unwrap();
        let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let mut documented: Vec<&str> =
            names.flat_map(|names| names.split(['`', ',', ' '])).filter(|name| !name.is_empty()).collect();
        columns.sort_unstable();
        documented.sort_unstable();
        assert_eq!(columns, documented, "{table}");
    }
}

/// Names of segments, compressed or not, in the order of their numbers: of each the one of the newest timeline.
fn segments_of(archive: &Path) -> Vec<String> {
    let names = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_segment = |name: &String| {
        name.len() >= 24 && name[..24].bytes().all(|byte| byte.is_ascii_hexdigit()) && !name.ends_with(".backup")
    };
    let mut newest = BTreeMap::<String, String>::new();
    for name in names.filter(is_segment) {
        let known = newest.entry(name[8..24].to_owned()).or_default();
        if *known < name {
            *known = name;
        }
    }
    newest.into_values().collect()
}

/// Each segment exported by a job of its own, with the one after it. History goes to all.
fn export_by_jobs(archive: &Path, out: &Path) -> i32 {
    let names = segments_of(archive);
    let entries = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    let history: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "history")).collect();
    let mut worst = 0;
    for (at, name) in names.iter().enumerate() {
        let paths: Vec<PathBuf> =
            names[at..names.len().min(at + 2)].iter().map(|name| archive.join(name)).chain(history.clone()).collect();
        let directory = out.join(format!("wal/job={at:02}"));
        let own = format!("{0}..{0}", &name[..24]);
        let mut args = vec!["export", "--table", "all", "--own", &own, "-o", arg(&directory)];
        args.extend(paths.iter().map(|path| arg(path)));
        worst = worst.max(walfpi(&args).status);
    }
    worst
}

/// Ways to group the rows of all jobs: name for `stats`, query, and the columns that name a group.
const BY_JOBS: [(&str, &str, &[&str]); 7] = [
    ("rmgr", "rmgr", &["rmgr"]),
    ("record", "record", &["rmgr", "record"]),
    ("relation", "relation", &["spc_oid", "db_oid", "rel_number"]),
    ("fork", "fork", &["fork"]),
    ("block", "block", &["spc_oid", "db_oid", "rel_number", "fork", "block"]),
    ("checkpoint", "jobs-checkpoint", &["redo_lsn"]),
    ("cause", "jobs-cause", &["cause"]),
];

fn asked_of_jobs(queries: &BTreeMap<String, String>) -> BTreeMap<&'static str, &str> {
    BY_JOBS.iter().map(|(by, query, _)| (*by, queries[*query].as_str())).collect()
}

/// The segments of an archive that `stats` finds records in. Those that wait to be written again are removed: they have no WAL of their own.
fn remove_recycled(archive: &Path) -> usize {
    let stats = json(&walfpi(&["stats", "--by", "segment", "--format", "json", arg(archive)]));
    let groups = stats["groups"].as_array().unwrap();
    let written: Vec<&str> = groups.iter().map(|row| row["segment"].as_str().unwrap()).collect();
    for name in segments_of(archive).iter().filter(|name| !written.iter().any(|known| known[8..] == name[8..24])) {
        fs::remove_file(archive.join(name)).unwrap();
    }
    written.len()
}

/// Compares the sums of all jobs with what one process counts.
fn assert_counted(found: &Value, archive: &Path, label: &str) {
    for (by, _, keys) in BY_JOBS {
        let stats = json(&walfpi(&["stats", "--by", by, "--format", "json", arg(archive)]));
        let rows = if by == "checkpoint" { &stats["intervals"] } else { &stats["groups"] };
        let (mut expected, context) = (by_key(rows, keys, by), format!("{label} {by}"));
        // Records without an image have no cause; the query is about images.
        expected.retain(|key, _| by != "cause" || key != "null");
        let mut sums = by_key(&found[by], keys, &context);
        if by == "cause" {
            // A record with images of two causes counts for both, its other bytes for the first.
            for sums in expected.values_mut().chain(sums.values_mut()) {
                sums.drain(..2);
            }
        }
        assert_eq!(sums, expected, "{context}");
    }
}

/// One job for each segment, and the sums of all by the queries of docs/export.md: what one process counts.
#[test]
fn jobs_of_one_segment_each_add_up_to_what_stats_counts() {
    let Some(python) = python("duckdb") else { return };
    let queries = queries();
    let mut asked = asked_of_jobs(&queries);
    asked.insert("check", &queries["jobs-check"]);
    let two_timelines = unpack::unpack("field/wal-two-timelines").unwrap().join("archive");
    let fixtures = [10, 13, 16, 18, 19].map(|major| (major.to_string(), data(major).join("pg_wal")));
    for (major, pg_wal) in fixtures.into_iter().chain([("two timelines".to_owned(), two_timelines)]) {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir(out.path().join("wal")).unwrap();
        let archive = out.path().join("archive");
        copy_tree(&pg_wal, &archive);
        let written = remove_recycled(&archive);
        assert!(export_by_jobs(&archive, out.path()) < 2, "{major}");
        let setup = format!("{}{}", queries["jobs-setup"], queries["jobs-views"]);
        let found = duckdb(&python, out.path(), &setup, &asked);
        assert_eq!(found["check"], json!([]), "{major}: manifests fit");
        assert_counted(&found, &archive, &major);
        // A hole is found before anything is added up.
        if written < 3 {
            continue;
        }
        fs::remove_dir_all(out.path().join("wal/job=01")).unwrap();
        let check = BTreeMap::from([("check", queries["jobs-check"].as_str())]);
        assert_ne!(duckdb(&python, out.path(), "", &check)["check"], json!([]), "{major}");
    }
}

/// The record that goes on in a segment that was not given, and an own segment that is missing: findings, status 2.
#[test]
fn own_records_that_are_not_whole_are_said() {
    let (archive, out) = (data(16).join("pg_wal"), tempfile::tempdir().unwrap());
    let names = segments_of(&archive);
    let job = |own: &str, paths: &[&String], directory: &str| {
        let paths: Vec<PathBuf> = paths.iter().map(|name| archive.join(name)).collect();
        let out = out.path().join(directory);
        let mut args = vec!["export", "--table", "records", "--own", own, "--format", "json", "-o", arg(&out)];
        args.extend(paths.iter().map(|path| arg(path)));
        let ran = walfpi(&args);
        let kinds: Vec<String> = json(&ran)["findings"]
            .as_array()
            .unwrap_or(&Vec::new())
            .iter()
            .map(|finding| finding["kind"].as_str().unwrap().to_owned())
            .collect();
        (ran.status, kinds, json(&ran)["summary"]["rows"].as_u64().unwrap())
    };
    let own = format!("{}..{}", names[0], names[0]);
    let (status, kinds, cut) = job(&own, &[&names[0]], "cut");
    assert!(status == 2 && kinds.contains(&"own_record_cut".to_owned()), "{kinds:?}");
    let (status, kinds, whole) = job(&own, &[&names[0], &names[1]], "whole");
    assert!(status < 2 && !kinds.contains(&"own_record_cut".to_owned()), "{kinds:?}");
    assert_eq!(whole, cut + 1, "the record that goes on in the next segment");
    let both = format!("{}..{}", &names[0][8..], &names[1][8..]);
    let (status, kinds, _) = job(&both, &[&names[0]], "missing");
    assert!(status == 2 && kinds.contains(&"own_segments_missing".to_owned()), "{kinds:?}");
}

/// The example of docs/export.md in Spark over two timelines: jobs side by side, the same sums, and a failed job fails all.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn spark_runs_jobs_side_by_side_and_gives_what_stats_counts() {
    let Some(python) = python("pyspark") else { return };
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md")).unwrap();
    let blocks = text.split("```python spark\n").skip(1).map(|block| block.split("```").next().unwrap());
    let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/spark_jobs.py")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let program: String = blocks.chain([script.as_str()]).collect::<Vec<_>>().join("\n");
    fs::write(out.path().join("jobs.py"), program).unwrap();
    let queries = queries();
    let asked = json!({"views": queries["jobs-views"], "queries": asked_of_jobs(&queries)});
    fs::write(out.path().join("asked.json"), asked.to_string()).unwrap();
    let archive = out.path().join("archive");
    copy_tree(&unpack::unpack("field/wal-two-timelines").unwrap().join("archive"), &archive);
    remove_recycled(&archive);
    let ended = Command::new(&python)
        .arg("jobs.py")
        .args([arg(&archive), env!("CARGO_BIN_EXE_pg_walfpi")])
        .current_dir(out.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_counted(&found, &archive, "spark");
    assert!(found["most_at_once"].as_u64() >= Some(2), "jobs ran one after the other: {}", found["most_at_once"]);
    assert_eq!(found["failed_job_is_an_error"], true);
}
