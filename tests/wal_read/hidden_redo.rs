//! Redo points that no record names: WAL of real servers in which the records of a checkpoint are turned into `NOOP`, so that
//! the answer is known from the WAL as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::wal::{Fixture, checkpoints, read_all, without};
use crate::common::{Ran, arg, run};
use pgforensics::inspect::WalRequest;
use pgforensics::inspect::wal::follow::{
    FollowBy, FollowRequest, Followed, FollowedLine, FollowedRow, Oddity, WalFollow,
};
use pgforensics::parsers::wal::records::RecordKind;
use pgforensics::types::Lsn;
use serde_json::Value;
use tempfile::TempDir;

fn number(lsn: &Value) -> u64 {
    let (high, low) = lsn.as_str().unwrap().split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn walfpi(args: &[&str]) -> Ran {
    let ran = run("pg_walfpi", args);
    assert!(ran.status < 2, "{args:?}: {} {:?}", ran.stderr, ran.of_type("skipped"));
    ran
}

fn ndjson(command: &[&str], paths: &[PathBuf]) -> Ran {
    let paths = paths.iter().map(|path| arg(path));
    walfpi(&command.iter().copied().chain(["--format", "ndjson"]).chain(paths).collect::<Vec<_>>())
}

/// WAL with a hidden redo point.
struct Case {
    major: u32,
    /// The redo point that no record names any more.
    gone: Lsn,
    _keep: TempDir,
    paths: Vec<PathBuf>,
    /// Rows of `stats`.
    rows: Vec<Value>,
    stats: Ran,
    /// All images of the WAL as it was: address and bytes.
    images: Vec<(u64, u64)>,
}

/// The first and the last redo point of each fixture whose absence shows, the one where its WAL begins left out.
fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(make_cases)
}

fn make_cases() -> Vec<Case> {
    let mut found = Vec::new();
    for major in 10..=16 {
        let fixture = Fixture::load(major);
        let all = checkpoints(&fixture);
        let mut images = Vec::new();
        read_all(&fixture, 1 << 20, |record| {
            let of = record.blocks().filter_map(|block| block.image);
            images.extend(of.map(|image| (record.start_lsn.0, image.bytes.len() as u64)));
        });
        let mut shown = all.iter().skip(1).filter_map(|one| {
            let (keep, paths) = without(&fixture, one.lsn)?;
            let stats = ndjson(&["stats"], &paths);
            let rows = stats.of_type("interval");
            let (gone, images) = (one.redo_lsn, images.clone());
            rows.iter().any(|row| row["kind"] == "hidden").then_some(Case {
                major,
                gone,
                _keep: keep,
                paths,
                rows,
                stats,
                images,
            })
        });
        found.extend(shown.next());
        found.extend(shown.next_back());
    }
    found
}

/// Addresses between which the redo point of a hidden row lies.
fn bounds(row: &Value) -> (u64, u64) {
    (number(&row["redo_after_lsn"]), number(&row["redo_before_lsn"]))
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn hidden_redo_point_begins_a_row_of_its_own_in_every_answer() {
    let cases = cases();
    let majors: BTreeSet<u32> = cases.iter().map(|case| case.major).collect();
    assert!(cases.len() >= 7 && majors.len() >= 4, "{} {majors:?}", cases.len());
    for case in cases {
        let Case { major, gone, paths, rows, stats, images, .. } = case;
        let name = format!("{major} without {gone}");
        let hidden: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "hidden").collect();
        assert_eq!(hidden.len(), 1, "{name}");
        let row = hidden[0];
        let (after, before) = bounds(row);
        assert!((after..=before).contains(&gone.0), "{name}: {row}");
        assert_eq!(
            (&row["redo_lsn"], &row["checkpoint_lsn"], &row["is_whole"]),
            (&Value::Null, &Value::Null, &false.into())
        );
        assert_eq!(number(&row["start_lsn"]), before, "{name}");

        // Nothing is lost or counted twice, and the row has the images from its start on.
        let end = number(&row["end_lsn"]);
        let own = |range: Range<u64>| images.iter().filter(|(lsn, _)| range.contains(lsn)).copied().collect::<Vec<_>>();
        let counted = own(before..end);
        let bytes: u64 = counted.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!((&row["fpi_count"], &row["fpi_bytes"]), (&counted.len().into(), &bytes.into()), "{name}");
        let at = rows.iter().position(|other| other == row).unwrap();
        let prior = &rows[at - 1];
        assert_eq!((number(&prior["end_lsn"]), &prior["is_whole"]), (before, &false.into()), "{name}");
        let summary = &stats.of_type("summary")[0];
        for field in ["records", "fpi_count", "fpi_bytes", "combined_bytes"] {
            let sum: u64 = rows.iter().map(|row| row[field].as_u64().unwrap()).sum();
            assert_eq!(summary[field], sum, "{name} {field}");
        }

        // The finding says the same as where causes are told.
        let finding = |ran: &Ran| -> Vec<Value> {
            ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "hidden_redo").collect()
        };
        let by_cause = finding(&ndjson(&["list"], paths));
        assert_eq!((finding(stats), by_cause.len()), (by_cause.clone(), 1), "{name}");

        same_intervals(case, &name);
        same_blocks(case, (after, before), &name);

        // As many redo points are known wherever they are counted.
        let known = rows.iter().filter(|row| row["kind"] != "unknown").count();
        let actual = ndjson(&["whatif", "--section", "spacing"], paths).of_type("spacing").remove(0);
        assert_eq!((&actual["setting"], &actual["checkpoints"]), (&"actual".into(), &known.into()), "{name}");
        let advice = ndjson(&["advise", "--no-compression"], paths).of_type("summary").remove(0);
        assert_eq!(advice["checkpoints"], known, "{name}");
        let metrics = walfpi(&["stats", "--format", "prometheus", arg(paths[0].parent().unwrap())]).stdout;
        assert!(metrics.contains(&format!("pg_walfpi_redo_points {known}\n")), "{name}: {metrics}");
        let page = walfpi(&["report", "--no-compression", "-o", "-", arg(paths[0].parent().unwrap())]).stdout;
        assert!(page.contains(">hidden<"), "{name}");
    }
}

/// With two keys at once the rows of an interval add up to its row.
fn same_intervals(case: &Case, name: &str) {
    type Sums = BTreeMap<[String; 3], [u64; 3]>;
    let sums = |rows: &[Value]| -> Sums {
        let mut sums = Sums::new();
        for row in rows {
            let key = ["redo_lsn", "redo_after_lsn", "redo_before_lsn"].map(|field| row[field].to_string());
            let sum = sums.entry(key).or_default();
            for (sum, field) in sum.iter_mut().zip(["fpi_count", "fpi_bytes", "combined_bytes"]) {
                *sum += row[field].as_u64().unwrap();
            }
        }
        sums.retain(|_, sum| sum[2] > 0);
        sums
    };
    let own = sums(&case.rows);
    for by in ["checkpoint,relation", "checkpoint,cause"] {
        assert_eq!(sums(&ndjson(&["stats", "--by", by], &case.paths).of_type("group")), own, "{name} {by}");
    }
    // Which relations are counted makes no other intervals.
    let some = ndjson(&["stats", "--relation", "1259"], &case.paths).of_type("interval");
    let ends =
        |rows: &[Value]| rows.iter().map(|row| (row["start_lsn"].clone(), row["kind"].clone())).collect::<Vec<_>>();
    assert_eq!(ends(&some), ends(&case.rows), "{name}");
}

/// Blocks that are dirtied for sure in an interval: those of records from its latest start to its earliest end.
fn same_blocks(case: &Case, (after, before): (u64, u64), name: &str) {
    let fixture = Fixture::load(case.major);
    let blocks = |range: Range<u64>| {
        let mut blocks = BTreeSet::new();
        read_all(&fixture, 1 << 20, |record| {
            let is_new_page = record.kind() == RecordKind::XlogFpi;
            if range.contains(&record.start_lsn.0) && !is_new_page {
                let own = record.blocks().map(|block| (block.rel, block.fork_code(), block.block));
                blocks.extend(own);
            }
        });
        blocks.len()
    };
    let rows = ndjson(&["dwb-size"], &case.paths).of_type("dirtied");
    let at = rows.iter().position(|row| row["redo_after_lsn"].is_string()).unwrap();
    assert_eq!(bounds(&rows[at]), (after, before), "{name}");
    let end = number(&rows[at]["end_lsn"]);
    assert_eq!((&rows[at]["blocks"], &rows[at]["is_whole"]), (&blocks(before..end).into(), &false.into()), "{name}");
    let prior = &rows[at - 1];
    let begin = if prior["redo_lsn"].is_string() { number(&prior["redo_lsn"]) } else { 0 };
    assert_eq!((number(&prior["end_lsn"]), &prior["is_whole"]), (after, &false.into()), "{name}");
    assert_eq!(prior["blocks"], blocks(begin..after), "{name}");
}

/// Lines of WAL that is followed, in which the segments of an archive arrive one by one.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn followed_wal_has_the_same_rows() {
    for case in cases() {
        let directory = tempfile::tempdir().unwrap();
        let wal = WalRequest { jobs: 2, ..WalRequest::of_paths(vec![directory.path().to_owned()]) };
        let patience = Duration::from_secs(60);
        let mut follow = WalFollow::new(FollowRequest { wal, by: FollowBy::Checkpoint, patience });
        let mut lines: Vec<FollowedLine> = Vec::new();
        let mut told = Vec::new();
        for path in &case.paths {
            fs::copy(path, directory.path().join(path.file_name().unwrap())).unwrap();
            let round = follow.round(&|| false).unwrap();
            lines.extend(round.lines);
            told.extend(round.told);
        }
        let Followed { lines: rest, told: at_end, .. } = follow.finish();
        lines.extend(rest);
        told.extend(at_end);
        let row = |line: &FollowedLine| match &line.row {
            FollowedRow::Interval(interval) => (
                interval.start_lsn.0,
                interval.kind.name().to_owned(),
                interval.tally.fpi_bytes,
                interval.distinct_blocks,
            ),
            FollowedRow::Bucket(bucket) => panic!("{bucket:?}"),
        };
        let of_stats = |row: &Value| {
            let kind = row["kind"].as_str().unwrap().to_owned();
            (
                number(&row["start_lsn"]),
                kind,
                row["fpi_bytes"].as_u64().unwrap(),
                row["distinct_blocks"].as_u64().unwrap(),
            )
        };
        let (lines, rows): (Vec<_>, Vec<_>) =
            (lines.iter().map(row).collect(), case.rows.iter().map(of_stats).collect());
        assert_eq!(lines, rows, "{} {}", case.major, case.gone);
        let is_hidden_redo = |oddity: &&Oddity| matches!(oddity, Oddity::Finding(of) if of.rule.code == "hidden_redo");
        let said = told.iter().filter(is_hidden_redo).count();
        assert_eq!(said, 1, "{} {}: {told:?}", case.major, case.gone);
    }
}
