//! Times and rates of `pg_walfpi`, against what pg_waldump says of commits.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Ran, arg, run, unpack};
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
