//! A segment that was cut between two records, with sound ones after it: nothing looks wrong where it ends.

use std::fs;
use std::path::Path;

use crate::common::wal::{Fixture, expected_records};
use crate::common::{arg, run};

/// Cuts asked for in each of the segments that are cut.
const CUTS: usize = 4;

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn cut_between_two_records_is_damage_and_no_end() {
    for major in [10, 13, 16, 18] {
        let fixture = Fixture::load(major);
        let size = fixture.segments[0].1.len() as u64;
        let starts: Vec<u64> =
            expected_records(&fixture.expected("records.txt")).iter().map(|record| record.start_lsn.0).collect();
        let last = starts[starts.len() - 1] / size;
        let first = starts[0] / size;
        let mut tried = 0;
        for (index, (name, bytes)) in fixture.segments.iter().enumerate() {
            let number = first + index as u64;
            if number >= last {
                break;
            }
            // Where a page begins, its header comes before the record: the cut is not between two records.
            let inside: Vec<u64> = starts
                .iter()
                .copied()
                .filter(|start| start / size == number && start % size > size / 4 && start % 8192 > 64)
                .collect();
            for start in inside.iter().step_by((inside.len() / CUTS).max(1)) {
                let temporary = tempfile::tempdir().unwrap();
                for (other, bytes) in &fixture.segments {
                    fs::write(temporary.path().join(other), bytes).unwrap();
                }
                fs::write(temporary.path().join(name), &bytes[..(start % size) as usize]).unwrap();
                assert_damage(temporary.path(), &format!("{major}: {name} cut at {start:X}"));
                tried += 1;
            }
        }
        assert!(tried >= CUTS, "{major}: {tried}");
    }
}

fn assert_damage(directory: &Path, what: &str) {
    let verify = run("pg_walfpi", &["verify", "--format", "ndjson", arg(directory)]);
    assert_eq!(verify.status, 2, "{what}");
    // Some of the fixtures have a gap, and so more runs than one.
    let verdicts: Vec<String> = verify.of_type("run").iter().map(|run| run["verdict"].to_string()).collect();
    assert!(verdicts.contains(&"\"damage\"".to_owned()), "{what}: {verdicts:?}");
    for command in [&["stats"][..], &["advise", "--no-compression"], &["dwb-size"], &["whatif", "--section", "spacing"]]
    {
        let ran = run("pg_walfpi", &[command, &["--format", "ndjson", arg(directory)]].concat());
        assert_eq!(ran.status, 2, "{what}: {command:?}");
        let kinds: Vec<String> = ran.of_type("finding").iter().map(|row| row["kind"].to_string()).collect();
        assert!(kinds.iter().any(|kind| kind.contains("damage")), "{what}: {command:?} {kinds:?}");
    }
}
