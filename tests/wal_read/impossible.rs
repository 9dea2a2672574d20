//! Checkpoints and times that cannot be right, in records whose checksum is.

use crate::common;
use crate::common::wal::Fixture;
use crate::common::wal_edit;
use crate::common::wal_edit::{change, findings, records_of, walfpi, write};
use pgforensics::inspect::WalRequest;
use pgforensics::inspect::wal::follow::{FollowBy, FollowRequest, FollowedLine, FollowedRow, Oddity, WalFollow};
use serde_json::Value;

/// Where the main data of a record without blocks begins: after its header, and two bytes that announce it.
const MAIN_DATA: usize = 24 + 2;

/// All that reads checkpoints.
const OF_CHECKPOINTS: [&[&str]; 10] = [
    &["stats"],
    &["stats", "--by", "relation"],
    &["stats", "--by", "cause"],
    &["stats", "--by", "time"],
    &["stats", "--by", "since-redo"],
    &["whatif", "--section", "spacing"],
    &["dwb-size"],
    &["advise", "--no-compression"],
    &["list"],
    &["verify"],
];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn impossible_redo_point_is_a_finding_and_begins_no_interval() {
    for major in [10, 18] {
        let sound = Fixture::load(major);
        let lsn = *records_of(&sound, "CHECKPOINT_ONLINE").last().unwrap();
        // After the record itself, far after it, and before the first segment that any server writes.
        for redo in [lsn + 8, 0x5_0000_0000, 0x28] {
            let mut fixture = Fixture::load(major);
            change(&mut fixture, lsn, |record| record[MAIN_DATA..MAIN_DATA + 8].copy_from_slice(&redo.to_le_bytes()));
            let directory = write(&fixture);
            let redo_text = format!("{:X}/{:08X}", redo >> 32, redo & 0xFFFF_FFFF);
            for command in OF_CHECKPOINTS {
                let ran = walfpi(command, directory.path());
                let found = findings(&ran, "payload");
                assert_eq!(found.len(), 1, "{major} {redo:X} {command:?}: {}", ran.stdout);
                let offset = format!("at offset {:#X}", lsn + MAIN_DATA as u64).replace("0X", "0x");
                assert!(found[0]["what"].as_str().unwrap().contains(&offset), "{}", found[0]);
                assert!(ran.status > 0, "{major} {redo:X} {command:?}");
                let intervals = ran.of_type("interval");
                assert!(intervals.iter().all(|row| row["redo_lsn"] != *redo_text), "{major} {redo:X}");
            }
            let bytes = |ran: &common::Ran| ran.of_type("summary")[0]["wal_bytes"].clone();
            let (of_sound, own) = (write(&sound), walfpi(&["stats"], directory.path()));
            assert_eq!(bytes(&own), bytes(&walfpi(&["stats"], of_sound.path())), "{major} {redo:X}");
        }
    }
}

/// Writes this time, in microseconds since 2000, into a commit in the middle.
fn with_time(major: u32, us: i64) -> (tempfile::TempDir, u64) {
    let mut fixture = Fixture::load(major);
    let commits = records_of(&fixture, "COMMIT");
    let lsn = commits[commits.len() / 2];
    let at = {
        let record = wal_edit::record(&fixture, lsn).unwrap();
        MAIN_DATA + if record[24] == 255 { 0 } else { 3 }
    };
    change(&mut fixture, lsn, |record| record[at..at + 8].copy_from_slice(&us.to_le_bytes()));
    (write(&fixture), lsn)
}

const YEAR_US: i64 = 365 * 86_400 * 1_000_000;

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn impossible_time_is_a_finding_and_is_not_used() {
    for major in [10, 15, 18] {
        let sound = write(&Fixture::load(major));
        for years in [-300, -31, 101, 146_000] {
            let (directory, lsn) = with_time(major, years * YEAR_US);
            for command in [&["stats"][..], &["stats", "--by", "time"], &["whatif", "--section", "spacing"]] {
                let ran = walfpi(command, directory.path());
                let found = findings(&ran, "impossible_time");
                assert_eq!(found.len(), 1, "{major} {years} {command:?}: {}", ran.stdout);
                let at = format!("{:X}/{:08X}", lsn >> 32, lsn & 0xFFFF_FFFF);
                assert!(found[0]["what"].as_str().unwrap().contains(&at) && ran.status > 0, "{}", found[0]);
            }
            // Every interval lasts as long as without it, to the resolution of the commits beside it.
            let seconds = |ran: &common::Ran| -> Vec<Option<f64>> {
                ran.of_type("interval").iter().map(|row| row["duration_s"].as_f64()).collect()
            };
            let (own, of_sound) = (walfpi(&["stats"], directory.path()), walfpi(&["stats"], sound.path()));
            let (own, of_sound) = (seconds(&own), seconds(&of_sound));
            assert!(of_sound.iter().flatten().count() > 0 && own.len() == of_sound.len());
            for (own, of_sound) in own.iter().zip(&of_sound) {
                assert!(
                    (own.unwrap_or(0.0) - of_sound.unwrap_or(0.0)).abs() < 60.0,
                    "{major} {years}: {own:?} {of_sound:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn where_the_clock_goes_back_by_years_no_duration_is_told() {
    for major in [10, 15, 18] {
        // Commits after it tell a time 40 years before; of a time years before all others the same is true.
        for years in [60, 5] {
            let (directory, _) = with_time(major, years * YEAR_US);
            let stats = walfpi(&["stats"], directory.path());
            let back = findings(&stats, "clock_set_back");
            assert_eq!((back.len(), &back[0]["severity"]), (1, &Value::from("problem")), "{major} {years}");
            let intervals = stats.of_type("interval");
            assert!(!intervals.is_empty());
            for row in &intervals {
                assert_eq!((&row["duration_s"], &row["decay_by"]), (&Value::Null, &Value::from("records")), "{row}");
            }
            let advice = walfpi(&["advise", "--no-compression"], directory.path());
            let summary = &advice.of_type("summary")[0];
            assert_eq!((&summary["duration_s"], &summary["peak_bytes_per_s"]), (&Value::Null, &Value::Null));
            let periods = walfpi(&["stats", "--by", "time"], directory.path()).of_type("bucket");
            assert_eq!((periods.len(), &periods[0]["start_time"]), (1, &Value::Null), "{periods:?}");
            let what_if = walfpi(&["whatif", "--section", "spacing"], directory.path());
            let by_time = what_if.of_type("spacing").into_iter().filter(|row| row["checkpoint_timeout_s"].is_u64());
            assert_eq!((by_time.count(), &what_if.of_type("summary")[0]["seconds"]), (0, &Value::Null), "{major}");
        }
    }
}

/// WAL is followed while it comes page by page. A line that is given out before a right time contradicts the wrong one has a
/// duration that can be right, or none; later lines have none, and it is said once, at once.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn no_line_of_followed_wal_has_the_duration_of_a_wrong_clock() {
    const PIECE: usize = 256 << 10;
    let mut lasting = 0;
    for major in [10, 15, 18] {
        let sound = Fixture::load(major);
        let commits = records_of(&sound, "COMMIT").len();
        // Anywhere, the last commit of an interval included.
        for at in (0..commits).step_by(commits / 4 + 1) {
            let mut fixture = Fixture::load(major);
            let lsn = records_of(&fixture, "COMMIT")[at];
            let time_at = MAIN_DATA + if wal_edit::record(&fixture, lsn).unwrap()[24] == 255 { 0 } else { 3 };
            let wrong = (60 * YEAR_US).to_le_bytes();
            change(&mut fixture, lsn, |record| record[time_at..time_at + 8].copy_from_slice(&wrong));
            let directory = tempfile::tempdir().unwrap();
            let (mut follow, mut told) = (None, 0);
            let mut judge = |lines: Vec<FollowedLine>, oddities: &[Oddity]| {
                let is_told = told > 0;
                let wrong = |oddity: &&Oddity| matches!(oddity, Oddity::Finding(finding) if finding.rule.code == "clock_set_back");
                told += oddities.iter().filter(wrong).count();
                for line in lines {
                    let FollowedRow::Interval(interval) = line.row else { unreachable!("followed by checkpoint") };
                    let duration = interval.duration_s();
                    assert!(duration.is_none_or(|duration| duration < 3600.0), "{major} {at}: {duration:?}");
                    assert!(duration.is_none() || !is_told, "{major} {at}: {duration:?}");
                    lasting += usize::from(duration.is_some_and(|duration| duration > 0.0));
                }
            };
            for (name, bytes) in &fixture.segments {
                // A server makes the file as a whole and fills it.
                let mut file = vec![0; bytes.len()];
                for start in (0..bytes.len()).step_by(PIECE) {
                    let end = bytes.len().min(start + PIECE);
                    file[start..end].copy_from_slice(&bytes[start..end]);
                    std::fs::write(directory.path().join(name), &file).unwrap();
                    let follow = follow.get_or_insert_with(|| {
                        let wal = WalRequest::of_paths(vec![directory.path().to_owned()]);
                        let patience = std::time::Duration::from_secs(3600);
                        WalFollow::new(FollowRequest { wal, by: FollowBy::Checkpoint, patience })
                    });
                    let round = follow.round(&|| false).unwrap();
                    judge(round.lines, &round.told);
                }
            }
            let followed = follow.unwrap().finish();
            judge(followed.lines, &followed.told);
            assert_eq!(told, 1, "{major} {at}");
        }
    }
    // Those before it are not all left without.
    assert!(lasting > 0);
}
