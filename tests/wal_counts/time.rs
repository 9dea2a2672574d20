//! Times and rates of `pg_walfpi`, against what pg_waldump says of commits.

use std::fs;
use std::path::PathBuf;

use crate::common::{Ran, arg, run, unpack};
use pgforensics::analysis::wal::interval_rows::IntervalRow;
use pgforensics::analysis::wal::tally::Tally;
use pgforensics::inspect::wal::request::{WalRequest, unwatched};
use pgforensics::inspect::wal::stats::{WalStatsRequest, wal_stats};
use pgforensics::output::text::{Layout, Paint};
use pgforensics::output::wal_text::write_intervals;
use serde_json::Value;

fn unpacked(major: u32) -> PathBuf {
    unpack::unpack(&format!("wal/pg{major}")).expect("unpack fixture")
}

fn data(major: u32) -> PathBuf {
    unpacked(major).join(format!("pg{major}"))
}

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

fn number(text: &str) -> u64 {
    let (high, low) = text.split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn unix_us(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

/// A record as pg_waldump lists it.
struct Listed {
    lsn: u64,
    /// Bytes with images, without images.
    bytes: [u64; 2],
    images: u64,
    /// The time that it tells, in microseconds since 1970.
    told: Option<i64>,
}

/// `expected/records.txt`. Times of checkpoints, which pg_waldump does not print, are those of the intervals.
fn listed(major: u32, intervals: &[Value]) -> Vec<Listed> {
    let text = fs::read_to_string(unpacked(major).join("expected/records.txt")).unwrap();
    let mut records: Vec<Listed> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.split("lsn: ").nth(1) {
            let lsn = number(rest.split(',').next().unwrap());
            let lengths = line.split("len (rec/tot):").nth(1).unwrap().split(',').next().unwrap();
            let mut lengths = lengths.split('/').map(|word| word.trim().parse::<u64>().unwrap());
            let (record, total) = (lengths.next().unwrap(), lengths.next().unwrap());
            let told = line.find(" UTC").filter(|_| line.starts_with("rmgr: Transaction")).map(|end| {
                let words: Vec<&str> = line[..end].split(' ').collect();
                unix_us(&format!("{}T{}Z", words[words.len() - 2], words[words.len() - 1]))
            });
            let of_checkpoint = intervals.iter().find(|row| row["checkpoint_lsn"].as_str().map(number) == Some(lsn));
            let told = told.or_else(|| of_checkpoint.map(|row| unix_us(row["time"].as_str().unwrap())));
            records.push(Listed { lsn, bytes: [total, record], images: 0, told });
        }
        if let Some(last) = records.last_mut() {
            last.images += line.matches("FPW").count() as u64;
        }
    }
    records
}

fn intervals(major: u32) -> Vec<Value> {
    walfpi(&["stats", "--format", "ndjson", arg(&data(major))]).of_type("interval")
}

#[test]
fn interval_lasts_from_its_redo_point_to_the_next() {
    for major in 10..=19 {
        let rows = intervals(major);
        let records = listed(major, &rows);
        let clock_at =
            |lsn: u64| records.iter().filter(|record| record.lsn < lsn).filter_map(|record| record.told).max();
        // A redo point lies after all times told before it, and after the second in which its checkpoint began.
        let begun = |row: &Value| clock_at(number(row["redo_lsn"].as_str()?)).max(row["time"].as_str().map(unix_us));
        let mut known = 0;
        for pair in rows.windows(2) {
            let (Some(start), Some(end)) = (begun(&pair[0]), begun(&pair[1])) else { continue };
            let expected = (end - start) as f64 / 1e6;
            let found = pair[0]["duration_s"].as_f64().unwrap();
            // pg_waldump does not print what restore points tell, and that of 10 not what prepared transactions do.
            assert!((found - expected).abs() < 0.01, "{major} {}: {found} is not {expected}", pair[0]["redo_lsn"]);
            known += 1;
            let distance =
                number(pair[0]["end_lsn"].as_str().unwrap()) - number(pair[0]["start_lsn"].as_str().unwrap());
            if found >= 0.1 {
                // Of a duration that is rounded to a thousandth.
                let near =
                    |field: &str, amount: f64| (pair[0][field].as_f64().unwrap() * found / amount - 1.0).abs() < 0.02;
                assert!(near("wal_mb_per_s", distance as f64 / 1_048_576.0), "{major}: {}", pair[0]);
                let images = pair[0]["fpi_count"].as_f64().unwrap();
                assert!(images == 0.0 || near("images_per_s", images), "{major}: {}", pair[0]);
            }
        }
        assert!(known >= 5, "{major}: {known} of {}", rows.len());
    }
}

#[test]
fn decay_is_by_as_many_records_where_an_interval_is_shorter_than_a_second() {
    for major in [10, 15, 19] {
        let rows = intervals(major);
        let records = listed(major, &rows);
        for row in rows.iter().filter(|row| row["records"].as_u64().unwrap() <= 200) {
            let [start, end] = ["start_lsn", "end_lsn"].map(|name| number(row[name].as_str().unwrap()));
            let inside: Vec<&Listed> = records.iter().filter(|record| (start..end).contains(&record.lsn)).collect();
            assert_eq!(row["decay_by"], "records", "{major}");
            assert_eq!(inside.len() as u64, row["records"].as_u64().unwrap(), "{major}");
            let mut sums = [[0; 2]; 8];
            for (at, record) in inside.iter().enumerate() {
                let sum = &mut sums[at * 8 / inside.len()];
                sum[0] += record.bytes[0];
                sum[1] += record.bytes[0] - record.bytes[1];
            }
            for (sum, share) in sums.iter().zip(row["decay"].as_array().unwrap()) {
                let expected = (sum[0] > 0).then(|| sum[1] as f64 / sum[0] as f64);
                let same = match (expected, share.as_f64()) {
                    (Some(expected), Some(share)) => (expected - share).abs() < 0.0006,
                    (None, None) => true,
                    _ => false,
                };
                assert!(same, "{major} {}: {share} is not {expected:?}", row["redo_lsn"]);
            }
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn buckets_hold_the_records_that_were_written_in_them() {
    for major in 10..=19 {
        let rows = intervals(major);
        let records = listed(major, &rows);
        for (bucket, us) in [("1s", 1_000_000), ("200ms", 200_000), ("1h", 3_600_000_000)] {
            // By the clock: the latest time told so far.
            let mut expected: std::collections::BTreeMap<Option<i64>, [u64; 4]> = Default::default();
            let mut now: Option<i64> = None;
            for record in &records {
                now = now.max(record.told);
                let sums = expected.entry(now.map(|now| now.div_euclid(us) * us)).or_default();
                let counts = [1, record.bytes[1], record.bytes[0] - record.bytes[1], record.images];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let args = |jobs| ["stats", "--by", "time", "--bucket", bucket, "--jobs", jobs, "--format", "ndjson"];
            let ran = walfpi(&[&args("1")[..], &[arg(&data(major))]].concat());
            assert_eq!(ran.status, 0, "{major} {bucket}: {}", ran.stderr);
            let found: std::collections::BTreeMap<Option<i64>, [u64; 4]> = ran
                .of_type("bucket")
                .iter()
                .filter(|row| row["records"] != 0)
                .map(|row| {
                    let counts = ["records", "record_bytes", "fpi_bytes", "fpi_count"];
                    (row["start_time"].as_str().map(unix_us), counts.map(|name| row[name].as_u64().unwrap()))
                })
                .collect();
            assert_eq!(found, expected, "{major} {bucket}");
            let checkpoints: u64 = ran.of_type("bucket").iter().map(|row| row["checkpoints"].as_u64().unwrap()).sum();
            assert_eq!(
                checkpoints,
                rows.iter().filter(|row| !row["checkpoint_lsn"].is_null()).count() as u64,
                "{major}"
            );
            // However the segments are shared out.
            let many = walfpi(&[&args("7")[..], &[arg(&data(major))]].concat());
            assert_eq!(ran.stdout, many.stdout, "{major} {bucket}");
        }
    }
}

#[test]
fn images_since_redo_points_are_those_of_the_intervals_with_one() {
    for major in [10, 16, 18] {
        let ran = walfpi(&["stats", "--by", "since-redo", "--format", "ndjson", arg(&data(major))]);
        let rows = ran.of_type("since_redo");
        assert_eq!((ran.status, rows.len()), (0, 5), "{major}");
        // All of this WAL was written within two seconds.
        let known = |row: &&Value| !row["redo_lsn"].is_null() && !row["duration_s"].is_null();
        let whole = intervals(major);
        let images: u64 = whole.iter().filter(known).map(|row| row["fpi_count"].as_u64().unwrap()).sum();
        let lasts: f64 = whole.iter().filter(known).map(|row| row["duration_s"].as_f64().unwrap()).sum();
        assert_eq!(rows[0]["fpi_count"].as_u64(), Some(images), "{major}");
        assert!((rows[0]["observed_s"].as_f64().unwrap() - lasts).abs() < 0.02, "{major}: {lasts}");
        assert!(rows[1..].iter().all(|row| row["fpi_count"] == 0 && row["images_per_s"].is_null()), "{major}");
    }
}

#[test]
fn range_of_time_takes_the_records_that_were_written_in_it() {
    for major in [10, 15, 18] {
        let rows = intervals(major);
        let records = listed(major, &rows);
        let told: Vec<i64> = records.iter().filter_map(|record| record.told).collect();
        let (first, last) = (*told.iter().min().unwrap(), *told.iter().max().unwrap());
        let text = |us: i64| jiff::Timestamp::from_microsecond(us).unwrap().to_string();
        let counted = |args: &[&str]| {
            let ran = walfpi(&[&["stats", "--by", "rmgr", "--format", "ndjson"], args, &[arg(&data(major))]].concat());
            let summary = ran.of_type("summary").pop();
            (ran.status, summary.map(|summary| summary["records"].as_u64().unwrap()), ran.stderr)
        };
        for part in [2, 5, 9] {
            // One of a commit: those of checkpoints are older than what stands before them.
            let commits: Vec<i64> = told.iter().copied().filter(|time| time % 1_000_000 != 0).collect();
            let time = commits[commits.len() * part / 10];
            // From the first record on that tells this time or a later one.
            let from = records.iter().position(|record| record.told >= Some(time)).unwrap() as u64;
            let since = counted(&["--since", &text(time)]);
            assert_eq!((since.0, since.1), (0, Some(records.len() as u64 - from)), "{major} {part}: {}", since.2);
            let until = counted(&["--until", &text(time)]);
            assert_eq!((until.0, until.1), (0, Some(from)), "{major} {part}: {}", until.2);
            // The same time before the end.
            let before = format!("{}us", last - time);
            assert_eq!(counted(&["--since", &before]).1, since.1, "{major} {before}");
        }
        let (status, _, error) = counted(&["--since", &text(last + 1)]);
        assert!(status == 2 && error.contains("the last timestamp in this WAL is"), "{major}: {error}");
        let (status, _, error) = counted(&["--until", &text(first)]);
        assert!(status == 2 && error.contains("the first timestamp in this WAL is"), "{major}: {error}");
        assert_eq!(counted(&["--since", "yesterday"]).0, 2);
    }
}

/// Records that reach over the end of a segment are counted once, whatever rows stand for.
#[test]
fn bytes_of_wal_by_time_are_those_by_checkpoint() {
    for major in [10, 15, 19] {
        let of = |by: &str| {
            let ran = walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&data(major))]);
            ran.of_type("summary").remove(0)["wal_bytes"].as_u64().unwrap()
        };
        assert!(of("time").abs_diff(of("checkpoint")) < 8192, "{major}");
    }
}

#[test]
fn wal_before_the_first_told_time_is_said_to_be_left_out() {
    for major in [10, 15, 18] {
        let records = listed(major, &intervals(major));
        let first = records.iter().find(|record| record.told.is_some()).unwrap();
        let bytes = first.lsn - records[0].lsn;
        let note = |args: &[&str]| {
            let ran = walfpi(&[&["stats", "--format", "ndjson"], args, &[arg(&data(major))]].concat());
            assert_eq!(ran.status, 0, "{major}: {}", ran.stderr);
            let found = ran.of_type("finding");
            let mut notes = found.iter().filter(|finding| finding["kind"] == "time_unknown_before");
            (notes.next().map(|note| note["what"].as_str().unwrap().to_owned()), ran.of_type("summary").remove(0))
        };
        let (said, summary) = note(&["--since", "2020-01-01"]);
        let start = summary["start_lsn"].as_str().unwrap();
        assert_eq!(number(start), first.lsn, "{major}");
        match bytes {
            0 => assert_eq!(said, None, "{major}"),
            _ => {
                let said = said.unwrap_or_else(|| panic!("{major}: {bytes} bytes are left out"));
                assert!(said.starts_with(&format!("{bytes} bytes of WAL before {start} ")), "{major}: {said}");
            }
        }
        // All that is left out then is known to be older.
        let commits = records.iter().filter_map(|record| record.told).filter(|time| time % 1_000_000 != 0);
        let later = jiff::Timestamp::from_microsecond(commits.max().unwrap()).unwrap().to_string();
        assert_eq!(note(&["--since", &later]).0, None, "{major}");
        assert_eq!(note(&[]).0, None, "{major}");
    }
}

#[test]
fn rows_by_time_come_in_the_order_asked_for() {
    let rows = |args: &[&str]| {
        let start = ["stats", "--by", "time", "--bucket", "200ms", "--format", "ndjson"];
        let ran = walfpi(&[&start[..], args, &[arg(&data(16))]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.of_type("bucket")
    };
    let all = rows(&[]);
    let start = |row: &Value| row["start_time"].as_str().map(unix_us);
    assert!(all.len() > 4 && all.windows(2).all(|pair| start(&pair[0]) < start(&pair[1])));
    let mut expected = all.clone();
    expected.sort_by_key(|row| std::cmp::Reverse(row["fpi_bytes"].as_u64()));
    assert_ne!(expected, all);
    assert_eq!(rows(&["--sort", "fpi-bytes"]), expected);
    assert_eq!(rows(&["--sort", "fpi-bytes", "--top", "2"]), expected[..2]);
    assert_eq!(rows(&["--sort", "key"]), all);
    let text = walfpi(&["stats", "--by", "time", "--bucket", "200ms", "--sort", "fpi-bytes", arg(&data(16))]);
    let timed = all.iter().filter(|row| !row["start_time"].is_null()).count();
    assert_eq!(text.stdout.lines().filter(|line| line.starts_with("  20")).count(), timed, "{}", text.stdout);
    for other in [["--top", "2"], ["--sort", "key"]] {
        let ran = walfpi(&[&["stats", "--by", "since-redo"], &other[..], &[arg(&data(16))]].concat());
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains("leave out --top and --sort"), "{}", ran.stderr);
    }
}

/// The cells of a text table, without the two columns of indentation.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn neighbours_that_do_not_fit_are_put_together_and_lose_nothing() {
    for major in [10, 16, 18] {
        let wal = WalRequest::of_paths(vec![data(major)]);
        let request = WalStatsRequest { wal, group: None, resynchronise: false, relations: Vec::new() };
        let counts = wal_stats(&request, &unwatched).unwrap().counts;
        let all = intervals(major);
        let field = |rows: &[Value], name: &str| -> u64 { rows.iter().map(|row| row[name].as_u64().unwrap()).sum() };
        for max_rows in [1, 2, 3, 5, all.len(), usize::MAX] {
            let rows = IntervalRow::of(&counts.intervals, max_rows);
            assert!(rows.len() <= max_rows && rows.len() <= all.len(), "{major} {max_rows}");
            assert!(rows.len() == all.len() || max_rows < all.len());
            let mut rest = &all[..];
            for row in &rows {
                let (own, others) = rest.split_at(row.intervals as usize);
                rest = others;
                assert_eq!(row.wal_bytes, field(own, "wal_bytes"), "{major} {max_rows}");
                assert_eq!(row.distinct_blocks, field(own, "distinct_blocks"));
                let Tally { records, record_bytes, fpi_count, fpi_bytes, fpi_raw_bytes, .. } = row.tally;
                for (sum, name) in [
                    (records, "records"),
                    (record_bytes, "record_bytes"),
                    (fpi_count, "fpi_count"),
                    (fpi_bytes, "fpi_bytes"),
                    (fpi_raw_bytes, "fpi_raw_bytes"),
                ] {
                    assert_eq!(sum, field(own, name), "{major} {max_rows} {name}");
                }
                let lasts: Option<f64> = own.iter().map(|interval| interval["duration_s"].as_f64()).sum();
                assert_eq!(row.duration_s.is_some(), lasts.is_some());
                assert!(lasts.zip(row.duration_s).is_none_or(|(one, other)| (one - other).abs() < 0.02));
                // Between those of the intervals, part by part.
                for (part, share) in row.decay().into_iter().enumerate() {
                    let shares = || own.iter().filter_map(|interval| interval["decay"][part].as_f64());
                    let (least, most) = (shares().fold(2.0, f64::min), shares().fold(-1.0, f64::max));
                    assert!(share.is_none_or(|share| (least - 0.001..=most + 0.001).contains(&share)));
                    assert_eq!(share.is_none(), shares().count() == 0);
                }
                let kinds: std::collections::BTreeSet<&str> =
                    own.iter().map(|interval| interval["kind"].as_str().unwrap()).collect();
                assert_eq!(row.kind.map(|kind| kind.name()), (kinds.len() == 1).then(|| *kinds.first().unwrap()));
            }
            assert!(rest.is_empty());
            for width in [80, 200] {
                let mut text = Vec::new();
                let layout = Layout { width, paint: Paint::new(false) };
                write_intervals(&mut text, layout, &rows, (&counts.total, counts.wal_bytes)).unwrap();
                let text = String::from_utf8(text).unwrap();
                assert_eq!(text.contains("--all"), rows.len() < all.len(), "{major} {max_rows}");
                let table = cells(&text);
                assert_eq!(table.len(), rows.len() + 2, "{text}");
                if rows.len() < all.len() {
                    assert_eq!(table[0][1], if width == 80 { "n" } else { "intervals" });
                    assert_eq!(table[1][1], rows[0].intervals.to_string());
                    assert_eq!(table.last().unwrap()[1], all.len().to_string());
                }
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_put_together_unless_all_are_asked_for() {
    let text = |args: &[&str]| {
        let start = ["stats", "--width", "120", "--by", "time", "--bucket", "20ms"];
        let ran = walfpi(&[&start[..], args, &[arg(&data(16))]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    let (few, all, first) = (text(&[]), text(&["--all"]), text(&["--top", "30"]));
    let (few, all, first) = (cells(&few), cells(&all), cells(&first));
    assert_eq!(few[0][2], "n");
    assert!((4..=27).contains(&few.len()) && all.len() > 40 && all[0][2] == "records");
    assert!(first.len() > 30 && first[0][2] == "records");
    // What is in the last row, from the records on, is the same: a rate is of no whole.
    assert_eq!(few.last().unwrap()[2..], all.last().unwrap()[1..]);
    let whole = ["stats", "--by", "time", "--bucket", "20ms", "--format", "csv"];
    let machine = |args: &[&str]| walfpi(&[&whole[..], args, &[arg(&data(16))]].concat()).stdout;
    assert_eq!(machine(&[]), machine(&["--all"]));
}

/// Periods divided by relation: over all periods what `--by relation` counts, in each what `--by time` counts.
#[test]
fn periods_by_relation_add_up_to_both_of_them() {
    let path = unpack::data_dir("wal/pg16").unwrap();
    let rows = |by: &str, kind: &str| {
        let ran = walfpi(&["stats", "--by", by, "--bucket", "1s", "--format", "ndjson", arg(&path)]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.of_type(kind)
    };
    let sums = |rows: &[Value], field: &dyn Fn(&Value) -> String| {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for row in rows {
            *sums.entry(field(row)).or_default() += row["combined_bytes"].as_u64().unwrap();
        }
        sums.retain(|_, bytes| *bytes > 0);
        sums
    };
    let both = rows("time,relation", "group");
    let time = |row: &Value| row["start_time"].to_string();
    assert_eq!(sums(&both, &time), sums(&rows("time", "bucket"), &time));
    let relation = |row: &Value| format!("{} {} {}", row["spc_oid"], row["db_oid"], row["rel_number"]);
    let ran = walfpi(&["stats", "--by", "relation", "--format", "ndjson", arg(&path)]);
    assert_eq!(sums(&both, &relation), sums(&ran.of_type("group"), &relation));
    assert_eq!(walfpi(&["stats", "--by", "time,cause", arg(&path)]).status, 2);
}
