//! Rows of `pg_walfpi stats` with one key and with two, against the records that pg_waldump of the same major lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::{Ran, arg, run, unpack};
use serde_json::Value;

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// A block reference as pg_waldump prints it.
struct Block {
    rel: String,
    fork: String,
    number: u32,
    has_image: bool,
}

/// A record as pg_waldump prints it.
struct Record {
    rmgr: String,
    name: String,
    xid: u32,
    lsn: u64,
    text: String,
    blocks: Vec<Block>,
}

fn lsn_of(text: &str) -> u64 {
    let (high, low) = text.trim_end_matches([';', ',']).split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn word_after<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    line.split_once(label)?.1.split_whitespace().next()
}

fn records(major: u32) -> Vec<Record> {
    let path = unpack::unpack(&format!("wal/pg{major}")).unwrap().join("expected/records.txt");
    let mut records: Vec<Record> = Vec::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        if let Some(rel) = word_after(line, "blkref #").and_then(|_| word_after(line, ": rel ")) {
            let block = Block {
                rel: rel.to_owned(),
                fork: word_after(line, " fork ").unwrap_or("main").to_owned(),
                number: word_after(line, " blk ").unwrap().trim_end_matches(';').parse().unwrap(),
                has_image: line.contains("FPW"),
            };
            records.last_mut().unwrap().blocks.push(block);
        } else if line.starts_with("rmgr: ") {
            let text = line.split_once("desc: ").unwrap().1.to_owned();
            records.push(Record {
                rmgr: word_after(line, "rmgr: ").unwrap().to_owned(),
                name: text.split_whitespace().next().unwrap().to_owned(),
                xid: word_after(line, "tx: ").unwrap().trim_end_matches(',').parse().unwrap(),
                lsn: lsn_of(word_after(line, "lsn: ").unwrap()),
                text,
                blocks: Vec::new(),
            });
        }
    }
    assert!(records.len() > 8000, "{major}");
    records
}

/// Records and images by keys, as texts.
type Expected = BTreeMap<Vec<String>, (u64, u64)>;

/// What `keys_of` makes of each block of each record; a record counts once in each group.
fn by_blocks(records: &[Record], keys_of: impl Fn(&Record, Option<&Block>) -> Vec<String>) -> Expected {
    let mut expected = Expected::new();
    for record in records {
        let mut touched = BTreeSet::new();
        for block in &record.blocks {
            let keys = keys_of(record, Some(block));
            expected.entry(keys.clone()).or_default().1 += u64::from(block.has_image);
            touched.insert(keys);
        }
        if record.blocks.is_empty() {
            touched.insert(keys_of(record, None));
        }
        for keys in touched {
            expected.entry(keys).or_default().0 += 1;
        }
    }
    expected
}

fn rows(major: u32, by: &str) -> Vec<Value> {
    let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
    let ran = walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&data)]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{major} {by}");
    let rows = ran.of_type("group");
    assert!(rows.iter().all(|row| !by.contains(',') || row["by"] == by), "{major} {by}");
    let summary = ran.of_type("summary").remove(0);
    for name in ["record_bytes", "fpi_count", "fpi_bytes", "fpi_raw_bytes", "combined_bytes"] {
        let sum: u64 = rows.iter().map(|row| row[name].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), summary[name].as_u64(), "{major} {by}: {name} of all rows is the total");
    }
    rows
}

fn relation_of(row: &Value) -> String {
    match row["rel_number"].as_u64() {
        Some(number) => format!("{}/{}/{number}", row["spc_oid"], row["db_oid"]),
        None => "-".to_owned(),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn counted(rows: &[Value], keys_of: impl Fn(&Value) -> Vec<String>) -> Expected {
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let mut counted = Expected::new();
    for row in rows {
        let before = counted.insert(keys_of(row), (number(row, "records"), number(row, "fpi_count")));
        assert_eq!(before, None, "one row for each pair: {row}");
    }
    counted
}

fn rel_of(block: Option<&Block>) -> String {
    block.map_or_else(|| "-".to_owned(), |block| block.rel.clone())
}

#[test]
fn records_of_each_relation_by_type_are_those_of_pg_waldump() {
    for major in 10..=19 {
        let records = records(major);
        let expected =
            by_blocks(&records, |record, block| vec![rel_of(block), record.rmgr.clone(), record.name.clone()]);
        let own = counted(&rows(major, "relation,record"), |row| {
            vec![relation_of(row), text_of(&row["rmgr"]), text_of(&row["record"])]
        });
        // Generic records have one type, and pg_waldump prints none.
        let plain = |all: &Expected| -> BTreeMap<Vec<String>, (u64, u64)> {
            all.iter().filter(|(keys, _)| keys[1] != "Generic").map(|(keys, counts)| (keys.clone(), *counts)).collect()
        };
        assert_eq!(plain(&own), plain(&expected), "{major}");
        assert!(own.len() > 100, "{major}");
    }
}

#[test]
fn pairs_with_a_checkpoint_are_cut_at_its_redo_point() {
    for major in [10, 14, 16, 17, 19] {
        let records = records(major);
        let redo_points: BTreeSet<u64> = records
            .iter()
            .filter(|record| ["CHECKPOINT_SHUTDOWN", "CHECKPOINT_ONLINE"].contains(&record.name.as_str()))
            .map(|record| lsn_of(word_after(&record.text, "redo ").unwrap()))
            .collect();
        let redo_of = |record: &Record| {
            redo_points.range(..=record.lsn).next_back().map_or_else(|| "-".to_owned(), |redo| redo.to_string())
        };
        let own_redo = |row: &Value| row["redo_lsn"].as_str().map_or("-".to_owned(), |text| lsn_of(text).to_string());
        let expected = by_blocks(&records, |record, block| vec![rel_of(block), redo_of(record)]);
        for by in ["relation,checkpoint", "checkpoint,relation"] {
            let own = counted(&rows(major, by), |row| vec![relation_of(row), own_redo(row)]);
            assert_eq!(own, expected, "{major} {by}");
        }
        let segments = counted(&rows(major, "checkpoint,rmgr"), |row| vec![own_redo(row), text_of(&row["rmgr"])]);
        let sums = segments.values().fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
        let images = records.iter().flat_map(|record| &record.blocks).filter(|block| block.has_image).count();
        assert_eq!(sums, (records.len() as u64, images as u64), "{major}: whole records have one row each");
    }
}

#[test]
fn subtransactions_count_for_the_transaction_above_them() {
    for major in 10..=19 {
        let records = records(major);
        // As pg_waldump tells them, with a comma or a semicolon after the list.
        let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
        for record in records.iter().filter(|record| record.rmgr == "Transaction") {
            let Some((_, list)) = record.text.split_once("subxacts: ") else { continue };
            let top = match word_after(&record.text, "xtop ") {
                Some(top) => top.trim_end_matches(':').parse().unwrap(),
                None => record.xid,
            };
            let list = list.split(';').next().unwrap();
            for xid in list.split_whitespace().map_while(|word| word.trim_end_matches(',').parse().ok()) {
                parents.entry(xid).or_insert(top);
            }
        }
        assert!(!parents.is_empty(), "{major}: subtransactions are in the fixture");
        let mut expected: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
        for record in &records {
            let xid = parents.get(&record.xid).copied().unwrap_or(record.xid);
            let images = record.blocks.iter().filter(|block| block.has_image).count() as u64;
            let key = if xid == 0 { "-".to_owned() } else { xid.to_string() };
            let counts = expected.entry(vec![key]).or_default();
            *counts = (counts.0 + 1, counts.1 + images);
        }
        assert_eq!(counted(&rows(major, "xid"), |row| vec![text_of(&row["xid"])]), expected, "{major}");
        let pairs = rows(major, "xid,rmgr");
        assert!(pairs.iter().all(|row| {
            let xid = row["xid"].as_u64().map(|xid| u32::try_from(xid).unwrap());
            xid.is_none_or(|xid| !parents.contains_key(&xid))
        }));
    }
}

#[test]
fn images_by_relation_and_cause_are_those_that_are_listed() {
    for major in [11, 16, 18] {
        let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
        let images = walfpi(&["list", "--format", "ndjson", arg(&data)]).of_type("image");
        let mut expected: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for image in &images {
            let counts = expected.entry((relation_of(image), text_of(&image["cause"]))).or_default();
            *counts = (counts.0 + 1, counts.1 + image["stored_bytes"].as_u64().unwrap());
        }
        let pairs = rows(major, "relation,cause");
        let own: BTreeMap<(String, String), (u64, u64)> = pairs
            .iter()
            .filter(|row| !row["cause"].is_null())
            .map(|row| {
                let counts = (row["fpi_count"].as_u64().unwrap(), row["fpi_bytes"].as_u64().unwrap());
                ((relation_of(row), text_of(&row["cause"])), counts)
            })
            .collect();
        assert_eq!(own, expected, "{major}");
        // What else a relation has of the WAL stands beside a cause of null: all of it is what the relation has alone.
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for row in &pairs {
            *bytes.entry(relation_of(row)).or_default() += row["combined_bytes"].as_u64().unwrap();
        }
        let alone: BTreeMap<String, u64> = rows(major, "relation")
            .iter()
            .map(|row| (relation_of(row), row["combined_bytes"].as_u64().unwrap()))
            .collect();
        assert_eq!(bytes, alone, "{major}");
    }
}

#[test]
fn keys_are_one_or_two_that_differ() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    for (by, words) in [
        ("relation,relation", "has the same key twice"),
        ("checkpoint,checkpoint", "has the same key twice"),
        ("time,time", "has the same key twice"),
        ("relation,cause,xid", "there are 3"),
        ("time,cause", "--by since-redo takes no second key, and --by time"),
        ("relation,time", "--by since-redo takes no second key, and --by time"),
        ("since-redo,cause", "--by since-redo takes no second key, and --by time"),
        ("time,since-redo", "--by since-redo takes no second key, and --by time"),
    ] {
        let ran = walfpi(&["stats", "--by", by, arg(&data)]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{by}");
        assert!(ran.stderr.contains(words), "{by}: {}", ran.stderr);
    }
    let header = |by: &str| {
        let ran = walfpi(&["stats", "--by", by, "--format", "csv", arg(&data)]);
        ran.stdout.lines().next().unwrap().split(",records").next().unwrap().to_owned()
    };
    assert_eq!(header("database,relation"), "db_oid,database,spc_oid,rel_number,relation");
    assert_eq!(header("xid,checkpoint"), "xid,redo_lsn,redo_after_lsn,redo_before_lsn");
}

/// What was done with a relation, as far as the list of records says: changes, images, hint images, whole pages, inserts,
/// multi-inserts, updates, moved updates, HOT updates, deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Work([u64; 10], BTreeSet<(String, u32)>, BTreeSet<String>);

const FIELDS: [&str; 10] = [
    "changes",
    "fpi_count",
    "hint_images",
    "whole_page_images",
    "inserts",
    "multi_inserts",
    "updates",
    "moved_updates",
    "hot_updates",
    "deletes",
];

#[test]
fn work_on_each_relation_is_that_of_its_records() {
    for major in 10..=19 {
        let mut expected: BTreeMap<String, Work> = BTreeMap::new();
        for record in &records(major) {
            let name = record.name.trim_end_matches("+INIT");
            let is_images = record.rmgr == "XLOG" && ["FPI", "FPI_FOR_HINT"].contains(&name);
            for block in &record.blocks {
                let Work(counts, blocks, rmgrs) = expected.entry(block.rel.clone()).or_default();
                counts[0] += u64::from(!is_images);
                counts[1] += u64::from(block.has_image);
                counts[2] += u64::from(block.has_image && is_images && name == "FPI_FOR_HINT");
                counts[3] += u64::from(block.has_image && is_images && name == "FPI");
                blocks.insert((block.fork.clone(), block.number));
                rmgrs.insert(record.rmgr.clone());
            }
            let Some(first) = record.blocks.first() else { continue };
            let Work(counts, ..) = expected.get_mut(&first.rel).unwrap();
            match (record.rmgr.as_str(), name) {
                ("Heap", "INSERT") => counts[4] += 1,
                ("Heap2", "MULTI_INSERT") => counts[5] += 1,
                ("Heap", "UPDATE") => {
                    counts[6] += 1;
                    counts[7] += u64::from(record.blocks.len() == 2);
                }
                ("Heap", "HOT_UPDATE") => counts[8] += 1,
                ("Heap", "DELETE") => counts[9] += 1,
                _ => {}
            }
        }
        let rows = rows(major, "relation");
        for row in rows.iter().filter(|row| !row["rel_number"].is_null()) {
            let rel = relation_of(row);
            let Work(counts, blocks, rmgrs) = &expected[&rel];
            assert_eq!(FIELDS.map(|field| row[field].as_u64().unwrap()), *counts, "{major} {rel}");
            assert_eq!(row["distinct_blocks"].as_u64(), Some(blocks.len() as u64), "{major} {rel}");
            let of = |names: &[&str]| names.iter().any(|name| rmgrs.contains(*name));
            let kinds: Vec<&str> = [
                (of(&["Heap", "Heap2"]), "table"),
                (of(&["Btree"]), "btree"),
                (of(&["Hash"]), "hash"),
                (of(&["Gin"]), "gin"),
                (of(&["Gist"]), "gist"),
                (of(&["SPGist"]), "spgist"),
                (of(&["BRIN"]), "brin"),
                (of(&["Sequence"]), "sequence"),
            ]
            .into_iter()
            .filter_map(|(is, kind)| is.then_some(kind))
            .collect();
            let own = row["access_method"].as_str().or(row["kind"].as_str()).unwrap();
            assert_eq!(own, kinds.first().copied().unwrap_or("unknown"), "{major} {rel} {rmgrs:?}");
            let all = counts[6] + counts[8];
            let share = row["hot_share"].as_f64();
            assert_eq!(share.is_some(), all > 0, "{major} {rel}");
            assert!(share.is_none_or(|share| (share * all as f64 - counts[8] as f64).abs() < 0.01), "{major} {rel}");
        }
        assert!(expected.len() > 30 && expected.len() <= rows.len(), "{major}");
        let hot: u64 = expected.values().map(|work| work.0[8]).sum();
        assert!(hot > 20, "{major}: {hot} HOT updates");
    }
}

/// Servers of 19, and of 17 and 18 since August 2026, name pages of the map in records of updates. `pg_waldump -b` counts 303
/// updates of this table, of which 110 name another page of it; 8 name a page of its map.
#[test]
fn update_that_names_the_map_alone_found_room_in_its_page() {
    let data = unpack::data_dir("wal/pg19rc1").unwrap();
    let ran = walfpi(&["stats", "--by", "relation", "--format", "ndjson", arg(&data)]);
    let rows = ran.of_type("group");
    let row = rows.iter().find(|row| row["rel_number"] == 16403).unwrap();
    assert_eq!((&row["updates"], &row["moved_updates"]), (&303.into(), &110.into()));
}

#[test]
fn indexes_and_toast_count_for_their_table() {
    let case = unpack::data_dir("dwb/checkpoint").unwrap_or_else(|_| unpack::data_dir("dwb/clean").unwrap());
    let rows = |by: &str| {
        let ran = walfpi(&["stats", "--by", by, "--names", arg(&case), "--format", "ndjson", arg(&case)]);
        assert!(!ran.stdout.is_empty(), "{by}: {}", ran.stderr);
        ran.of_type("group")
    };
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows("table,relation") {
        let sum = sums.entry(text_of(&row["table"])).or_default();
        *sum = (sum.0 + row["fpi_bytes"].as_u64().unwrap(), sum.1 + row["record_bytes"].as_u64().unwrap());
        let (table, relation) = (text_of(&row["table"]), text_of(&row["relation"]));
        // Catalogs are named so that their indexes begin with their name: pg_class_oid_index.
        if relation.contains(".pg_catalog.pg_class_") {
            assert!(table.ends_with(".pg_catalog.pg_class"), "{relation} counts for {table}");
        }
        // A TOAST table is called pg_toast_OID, and no table of its own.
        if relation.contains(".pg_toast.") {
            assert!(!table.contains(".pg_toast."), "{relation} counts for {table}");
        }
    }
    let tables = rows("table");
    for row in &tables {
        let own = (row["fpi_bytes"].as_u64().unwrap(), row["record_bytes"].as_u64().unwrap());
        assert_eq!(Some(&own), sums.get(&text_of(&row["table"])), "{row}");
        // WAL names an index that is gone, and does not say of which table it was.
        assert!(row["kind"] != "index" || text_of(&row["table"]).ends_with('?'), "{row}");
    }
    assert_eq!(tables.len(), sums.len());
    assert!(tables.len() < rows("relation").len());
    let ran = walfpi(&["stats", "--by", "table", arg(&case)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("needs --names"), "{}", ran.stderr);
}

#[test]
fn kinds_are_those_of_the_forks_and_relations() {
    for major in [10, 13, 17, 19] {
        let records = records(major);
        let images = |fork: &str| {
            records
                .iter()
                .flat_map(|record| &record.blocks)
                .filter(|block| block.has_image && block.fork == fork)
                .count()
        };
        let rows = rows(major, "kind");
        let own = |kind: &str| -> u64 {
            rows.iter().filter(|row| row["kind"] == kind).map(|row| row["fpi_count"].as_u64().unwrap()).sum()
        };
        assert_eq!(own("free_space_map"), images("fsm") as u64, "{major}");
        assert_eq!(own("visibility_map"), images("vm") as u64, "{major}");
        assert!(images("vm") > 0, "{major}");
        let methods: BTreeSet<&str> = rows.iter().filter_map(|row| row["access_method"].as_str()).collect();
        assert_eq!(methods, BTreeSet::from(["brin", "btree", "gin", "gist", "hash", "spgist"]), "{major}");
    }
}

#[test]
fn names_of_another_cluster_are_refused() {
    let wal = unpack::data_dir("wal/pg16").unwrap();
    let other = unpack::data_dir("dwb/clean").unwrap();
    for command in [&["stats", "--by", "relation"][..], &["list"]] {
        let ran = walfpi(&[command, &["--names", arg(&other), arg(&wal)]].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command:?}");
        // The WAL's, as pg_controldata of the fixture and every first page of a segment tell it.
        assert!(
            ran.stderr.contains("belongs to another cluster") && ran.stderr.contains("7710336502487488329"),
            "{}",
            ran.stderr
        );
    }
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("names.json");
    let list = |identifier: &str| {
        format!(
            r#"[{{"spc_oid":1663,"db_oid":5,"rel_number":16429,"database":"postgres","schema":"public","relation":"items"{identifier}}}]"#
        )
    };
    let with = |identifier: &str| {
        fs::write(&file, list(identifier)).unwrap();
        walfpi(&["stats", "--by", "relation", "--names", arg(&file), "--format", "ndjson", arg(&wal)])
    };
    let is_named = |ran: &Ran| ran.of_type("group").iter().any(|row| row["relation"] == "postgres.public.items");
    let is_noted = |ran: &Ran| ran.of_type("finding").iter().any(|row| row["kind"] == "names_of_unknown_cluster");
    let own = with(r#","system_identifier":"7710336502487488329""#);
    assert!(own.status == 0 && is_named(&own) && !is_noted(&own), "{}", own.stderr);
    let old = with("");
    assert!(old.status == 0 && is_named(&old) && is_noted(&old), "a list that does not say: {}", old.stderr);
    let other = with(r#","system_identifier":"7710336502487488328""#);
    assert_eq!((other.status, other.stdout.as_str()), (2, ""));
}

/// Fields of counts that add up.
const SUMS: [&str; 4] = ["record_bytes", "fpi_count", "fpi_bytes", "fpi_raw_bytes"];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn relations_counted_alone_are_the_records_that_refer_to_them() {
    let keys = [
        "checkpoint",
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
        "time",
        "since-redo",
        "xid",
        "kind",
        "relation,cause",
        "xid,checkpoint",
        "rmgr,compression",
    ];
    for major in [10, 16] {
        let path = unpack::unpack(&format!("wal/pg{major}")).unwrap().join(format!("pg{major}"));
        let listed = records(major);
        let mut touched: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for record in &listed {
            for rel in record.blocks.iter().map(|block| block.rel.as_str()).collect::<BTreeSet<_>>() {
                let images = record.blocks.iter().filter(|block| block.rel == rel && block.has_image).count();
                let sums = touched.entry(rel).or_default();
                sums[0] += 1;
                sums[1] += images as u64;
            }
        }
        let mut by_records: Vec<(&str, [u64; 2])> = touched.into_iter().collect();
        by_records.sort_by_key(|(_, sums)| std::cmp::Reverse(*sums));
        let all = walfpi(&["stats", "--by", "relation", "--format", "ndjson", arg(&path)]).of_type("group");
        let own = |rel: &str| {
            let is_it = |row: &&Value| format!("{}/{}/{}", row["spc_oid"], row["db_oid"], row["rel_number"]) == rel;
            all.iter().find(is_it).unwrap()
        };
        let (first, second) = (by_records[0], by_records[2]);
        for chosen in [vec![first], vec![first, second]] {
            let names: Vec<&str> = chosen.iter().map(|(rel, _)| *rel).collect();
            let images: u64 = chosen.iter().map(|(_, sums)| sums[1]).sum();
            for by in keys {
                let args = ["stats", "--by", by, "--relation", &names.join(","), "--format", "ndjson", arg(&path)];
                let ran = walfpi(&args);
                assert_eq!(ran.status, 0, "{major} {by}: {}", ran.stderr);
                let summary = ran.of_type("summary").remove(0);
                assert_eq!(summary["fpi_count"].as_u64(), Some(images), "{major} {by} {names:?}");
                if let [(_, [count, _])] = chosen[..] {
                    assert_eq!(summary["records"].as_u64(), Some(count), "{major} {by}");
                }
                for field in SUMS {
                    let known: u64 = names.iter().map(|rel| own(rel)[field].as_u64().unwrap()).sum();
                    assert_eq!(summary[field].as_u64(), Some(known), "{major} {by} {field}");
                    if by != "since-redo" {
                        let rows: u64 = ["group", "interval", "bucket"]
                            .iter()
                            .flat_map(|kind| ran.of_type(kind))
                            .map(|row| row[field].as_u64().unwrap())
                            .sum();
                        assert_eq!(rows, known, "{major} {by} {field}");
                    }
                }
            }
        }
    }
}

#[test]
fn relations_are_chosen_by_number_path_and_name() {
    let path = unpack::unpack("wal/pg16").unwrap().join("pg16");
    let groups = walfpi(&["stats", "--by", "relation", "--format", "ndjson", arg(&path)]).of_type("group");
    let row = groups.iter().find(|row| row["spc_oid"] == 1663 && row["fpi_count"] != 0).unwrap();
    let (db, rel) = (row["db_oid"].to_string(), row["rel_number"].to_string());
    let other =
        groups.iter().find(|other| other["spc_oid"] == 1663 && other["rel_number"] != row["rel_number"]).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let names = temporary.path().join("names.json");
    let name = |row: &Value, relation: &str, oid: u32| {
        serde_json::json!({"spc_oid": row["spc_oid"], "db_oid": row["db_oid"], "rel_number": row["rel_number"], "oid": oid,
            "database": "shop", "schema": "public", "relation": relation})
    };
    let known = [name(row, "orders", 77), name(other, "lines", 78)];
    fs::write(&names, serde_json::to_string(&known).unwrap()).unwrap();
    let images = |args: &[&str]| {
        let ran = walfpi(&[&["stats", "--by", "rmgr", "--format", "ndjson", arg(&path)], args].concat());
        (ran.status, ran.of_type("summary").pop().map(|summary| summary["fpi_bytes"].clone()), ran.stderr)
    };
    let expected = Some(row["fpi_bytes"].clone());
    for text in [rel.clone(), format!("{db}/{rel}"), format!("1663/{db}/{rel}"), format!("base/{db}/{rel}")] {
        let (status, found, error) = images(&["--relation", &text]);
        assert_eq!((status, &found), (0, &expected), "{text}: {error}");
    }
    for text in ["orders", "public.orders", "shop.public.orders", "77"] {
        let (_, found, error) = images(&["--names", arg(&names), "--relation", text]);
        assert_eq!(found, expected, "{text}: {error}");
    }
    let both = row["fpi_bytes"].as_u64().unwrap() + other["fpi_bytes"].as_u64().unwrap();
    let (_, found, error) = images(&["--names", arg(&names), "--relation", "orders", "--relation", "lines"]);
    assert_eq!(found, Some(both.into()), "{error}");
    for (args, words) in [
        (&["--relation", "orders"][..], "--names"),
        (&["--names", arg(&names), "--relation", "order"], "no relation named \"order\""),
        (&["--relation", "4123456"], "no record that was read refers to this relation"),
        (&["--relation", "1/2/3/4"], "1/2/3/4"),
    ] {
        let ran = walfpi(&[&["stats", "--by", "rmgr", arg(&path)], args].concat());
        assert_eq!(ran.status, 2, "{args:?}");
        assert!(
            format!("{}{}", ran.stdout.split_whitespace().collect::<Vec<_>>().join(" "), ran.stderr).contains(words),
            "{args:?}: {}",
            ran.stderr
        );
    }
}
