//! WAL that is followed while it grows: nothing is counted twice or lost, what is wrong is said once, and only what is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::wal_set::originals;
use crate::common::{arg, run, unpack};
use flate2::Compression;
use flate2::write::GzEncoder;
use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use pgforensics::analysis::wal::tally::Certainty;
use pgforensics::inspect::WalRequest;
use pgforensics::inspect::wal::follow::{
    FollowBy, FollowRequest, Followed, FollowedLine, FollowedRow, Oddity, Round, WalFollow,
};
use pgforensics::report::Severity;
use pgforensics::types::Lsn;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The last line of `expected/stats.txt` of the archive.
const RECORDS: u64 = 10_607;
const IMAGE_BYTES: u64 = 1_657_400;

fn follow_by(path: &Path, by: FollowBy, patience: Duration) -> WalFollow {
    let wal = WalRequest { jobs: 2, ..WalRequest::of_paths(vec![path.to_owned()]) };
    WalFollow::new(FollowRequest { wal, by, patience })
}

fn follow(path: &Path) -> WalFollow {
    follow_by(path, FollowBy::Checkpoint, Duration::ZERO)
}

fn round(follow: &mut WalFollow) -> Round {
    follow.round(&|| false).unwrap()
}

fn records(line: &FollowedLine) -> u64 {
    match &line.row {
        FollowedRow::Interval(interval) => interval.tally.records,
        FollowedRow::Bucket(bucket) => bucket.tally.records,
    }
}

/// The code of each oddity, without notes.
fn wrong(told: &[Oddity]) -> Vec<&'static str> {
    let code = |oddity: &Oddity| match oddity {
        Oddity::Finding(finding) => (finding.severity == Severity::Problem).then_some(finding.rule.code),
        Oddity::Skipped(skipped) => Some(skipped.reason.code()),
    };
    told.iter().filter_map(code).collect()
}

/// What was said while something was looked at so often.
fn looks(follow: &mut WalFollow, count: usize) -> (Vec<FollowedLine>, Vec<Oddity>) {
    let (mut lines, mut told) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let round = round(follow);
        lines.extend(round.lines);
        told.extend(round.told);
    }
    (lines, told)
}

fn put(directory: &Path, files: &BTreeMap<String, Vec<u8>>, wanted: impl Fn(usize) -> bool) {
    for (_, (name, bytes)) in files.iter().enumerate().filter(|(index, _)| wanted(*index)) {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

/// A directory with the first so many segments of 16.
fn first_segments(name: &str, count: usize) -> (TempDir, std::path::PathBuf, BTreeMap<String, Vec<u8>>) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join(name);
    fs::create_dir(&directory).unwrap();
    let files = originals(16);
    put(&directory, &files, |index| index < count);
    (temporary, directory, files)
}

#[test]
fn files_that_arrive_piece_by_piece_add_up_and_are_no_damage() {
    for (packed, by) in [
        (false, FollowBy::Checkpoint),
        (true, FollowBy::Checkpoint),
        (false, FollowBy::Time { bucket_us: 1_000_000 }),
        (true, FollowBy::Time { bucket_us: 1_000_000 }),
    ] {
        let (_keep, directory, files) = first_segments("archive", 1);
        let mut follow = follow_by(&directory, by, Duration::ZERO);
        let (mut lines, mut told) = looks(&mut follow, 1);
        for (name, bytes) in files.iter().skip(1) {
            let (name, content) = if packed {
                let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
                packer.write_all(bytes).unwrap();
                (format!("{name}.gz"), packer.finish().unwrap())
            } else {
                (name.clone(), bytes.clone())
            };
            let mut file = fs::File::create(directory.join(name)).unwrap();
            for piece in content.chunks(content.len() / 7 + 1) {
                let found = looks(&mut follow, 2);
                lines.extend(found.0);
                told.extend(found.1);
                file.write_all(piece).unwrap();
            }
        }
        let (last, more) = looks(&mut follow, 5);
        lines.extend(last);
        told.extend(more);
        let Followed { lines: rest, told: at_end, counts, .. } = follow.finish();
        lines.extend(rest);
        told.extend(at_end);
        assert_eq!(wrong(&told), Vec::<&str>::new(), "{packed} {by:?}: {told:?}");
        assert_eq!((counts.total.records, counts.total.fpi_bytes), (RECORDS, IMAGE_BYTES), "{packed} {by:?}");
        assert_eq!(lines.iter().map(records).sum::<u64>(), RECORDS);
        assert!(lines.len() >= 3 && lines.iter().all(|line| line.certainty == Certainty::Exact), "{lines:?}");
    }
}

#[test]
fn lines_of_a_growing_archive_are_those_of_the_whole_one() {
    for (by, rows) in [(&[][..], "intervals"), (&["--by", "time", "--bucket", "1s"], "buckets")] {
        let (_keep, directory, _) = first_segments("archive", 9);
        let whole = run("pg_walfpi", &[&["stats", "--format", "json"], by, &[arg(&directory)]].concat());
        let follow = ["stats", "--follow", "--for", "300ms", "--poll", "100ms", "--format", "json"];
        let followed = run("pg_walfpi", &[&follow[..], by, &[arg(&directory)]].concat());
        assert_eq!((followed.status, followed.stderr.as_str()), (0, ""));
        let [mut followed, whole]: [Value; 2] =
            [followed, whole].map(|ran| serde_json::from_str(&ran.stdout).expect("a document"));
        for row in followed[rows].as_array_mut().unwrap() {
            assert_eq!(row.as_object_mut().unwrap().remove("certainty"), Some("exact".into()));
        }
        assert_eq!(followed[rows], whole[rows], "{rows}");
        assert_eq!(followed["summary"], whole["summary"], "{rows}");
    }
}

/// The segment, and whether WAL goes on in what is missing of it.
const CUT: [&str; 2] = ["unreadable", "unreadable"];

#[test]
fn file_that_stays_cut_is_said_once_with_what_follows_it_not_examined() {
    let (_keep, directory, files) = first_segments("archive", 2);
    let (name, bytes) = files.iter().nth(2).unwrap();
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    let packed = packer.finish().unwrap();
    fs::write(directory.join(format!("{name}.gz")), &packed[..packed.len() / 2]).unwrap();
    let mut patient = follow_by(&directory, FollowBy::Checkpoint, Duration::from_secs(3600));
    assert_eq!(wrong(&looks(&mut patient, 20).1), Vec::<&str>::new());
    // At the end it has not grown, and is not called whole.
    assert_eq!(wrong(&patient.finish().told), CUT);
    let mut impatient = follow(&directory);
    let mut told = Vec::new();
    let rounds = (0..20).take_while(|_| {
        let round = round(&mut impatient);
        told.extend(round.told);
        !round.is_last
    });
    assert!((2..10).contains(&rounds.count()));
    assert_eq!(wrong(&told), CUT);
    assert_eq!(wrong(&impatient.finish().told), Vec::<&str>::new(), "once");
}

#[test]
fn segments_that_a_server_removed_before_they_were_read_make_lines_at_least() {
    for by in [FollowBy::Checkpoint, FollowBy::Time { bucket_us: 1_000 }] {
        let (_keep, directory, files) = first_segments("pg_wal", 2);
        let mut follow = follow_by(&directory, by, Duration::from_secs(3600));
        let (mut lines, _) = looks(&mut follow, 1);
        let names: Vec<&String> = files.keys().collect();
        names[..2].iter().for_each(|name| fs::remove_file(directory.join(name)).unwrap());
        put(&directory, &files, |index| index >= 3);
        let (more, told) = looks(&mut follow, 2);
        lines.extend(more);
        let [Oddity::Skipped(skipped)] =
            &told.iter().filter(|oddity| !wrong(&[(*oddity).clone()]).is_empty()).collect::<Vec<_>>()[..]
        else {
            panic!("{told:?}")
        };
        // Segments are of 1 MiB, and the first is number 8; the last record of number 9 reaches into the next one.
        let SkippedPart::LsnRange { start: Some(start), end } = skipped.what else { panic!("{skipped:?}") };
        assert!(start > Lsn(0x0090_0000) && start <= Lsn(0x00A0_0000) && end == Some(Lsn(0x00B0_0000)), "{skipped:?}");
        let bytes = 0x00B0_0000 - start.0;
        assert_eq!(skipped.reason, SkipReason::RemovedBeforeRead { bytes });
        let followed = follow.finish();
        assert_eq!(wrong(&followed.told), Vec::<&str>::new());
        lines.extend(followed.lines);
        let unsure: Vec<usize> =
            (0..lines.len()).filter(|index| lines[*index].certainty == Certainty::AtLeast).collect();
        assert!(lines.len() > unsure.len() && (1..=2).contains(&unsure.len()), "{unsure:?}");
        // The line that ends at the gap, and the one after it unless that begins with a redo point of its own.
        assert!(unsure.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{by:?} {unsure:?}");
        if let FollowedRow::Interval(interval) = &lines[unsure[0]].row {
            assert_eq!(interval.end_lsn, start);
        }
        assert!(followed.counts.total.records < RECORDS);
        assert_eq!(lines.iter().map(records).sum::<u64>(), followed.counts.total.records);
    }
}

#[test]
fn gap_in_an_archive_is_waited_for_and_then_said() {
    let (_keep, directory, files) = first_segments("archive", 2);
    let mut late = follow_by(&directory, FollowBy::Checkpoint, Duration::from_secs(3600));
    let mut lost = follow(&directory);
    looks(&mut late, 1);
    looks(&mut lost, 1);
    put(&directory, &files, |index| index >= 3);
    assert_eq!(wrong(&looks(&mut late, 10).1), Vec::<&str>::new());
    assert_eq!(wrong(&looks(&mut lost, 10).1), ["wal_gap", "segments_missing"]);
    let lost = lost.finish();
    assert!(lost.counts.total.records < RECORDS && wrong(&lost.told).is_empty());
    put(&directory, &files, |index| index == 2);
    assert_eq!(wrong(&looks(&mut late, 3).1), Vec::<&str>::new());
    let late = late.finish();
    assert_eq!((late.counts.total.records, wrong(&late.told)), (RECORDS, Vec::new()));
}

#[test]
fn segment_of_another_cluster_is_a_finding_and_is_not_counted() {
    let (_keep, directory, files) = first_segments("archive", 2);
    let mut follow = follow(&directory);
    looks(&mut follow, 1);
    let other = originals(17);
    let (name, bytes) = other.iter().last().unwrap();
    fs::write(directory.join(name).with_extension("other"), bytes).unwrap();
    let foreign = directory.join("00000001000000000000007F");
    fs::write(&foreign, bytes).unwrap();
    assert_eq!(wrong(&looks(&mut follow, 10).1), ["wal_foreign_system"]);
    put(&directory, &files, |_| true);
    assert_eq!(wrong(&looks(&mut follow, 10).1), Vec::<&str>::new(), "once");
    let followed = follow.finish();
    assert_eq!((followed.counts.total.records, wrong(&followed.told)), (RECORDS, Vec::new()));
}

#[test]
fn cluster_that_was_replaced_by_another_ends_it() {
    let (_keep, directory, _) = first_segments("pg_wal", 3);
    let mut follow = follow(&directory);
    looks(&mut follow, 1);
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let other = originals(17);
    put(&directory, &other, |_| true);
    let mut told = Vec::new();
    let ended = (0..10).any(|_| {
        let round = round(&mut follow);
        told.extend(round.told);
        round.is_last
    });
    assert!(ended);
    let foreign = other.len();
    let codes = wrong(&told);
    assert_eq!(codes.iter().filter(|code| **code == "wal_foreign_system").count(), foreign, "{codes:?}");
    assert_eq!(codes.last(), Some(&"unreadable"));
}

#[test]
fn directory_that_vanishes_ends_it_with_what_was_counted() {
    let (_keep, directory, _) = first_segments("archive", 9);
    let mut follow = follow(&directory);
    looks(&mut follow, 1);
    let away = directory.with_extension("away");
    fs::rename(&directory, &away).unwrap();
    assert_eq!(wrong(&looks(&mut follow, 2).1), Vec::<&str>::new());
    fs::rename(&away, &directory).unwrap();
    assert_eq!(wrong(&looks(&mut follow, 5).1), Vec::<&str>::new(), "it came back");
    fs::rename(&directory, &away).unwrap();
    looks(&mut follow, 1);
    let followed = follow.finish();
    assert_eq!((followed.counts.total.records, wrong(&followed.told)), (RECORDS, vec!["unreadable"]));
}

#[test]
fn damage_is_said_once_and_ends_it() {
    let (_keep, directory, files) = first_segments("archive", 9);
    let (name, bytes) = files.iter().nth(2).unwrap();
    let mut damaged = bytes.clone();
    damaged[500_000..500_008].copy_from_slice(&[0xA5; 8]);
    fs::write(directory.join(name), damaged).unwrap();
    // The same round counts records, and meets the damage.
    let broken = follow_by(&directory, FollowBy::Checkpoint, Duration::from_secs(3600));
    let mut broken = broken;
    assert_eq!(wrong(&round(&mut broken).told), Vec::<&str>::new());
    let broken = broken.finish();
    assert!(broken.counts.total.records > 0 && broken.counts.total.records < RECORDS);
    assert_eq!(wrong(&broken.told), ["damage", "damaged_wal"]);
    let mut follow = follow(&directory);
    let mut told = Vec::new();
    let ended = (0..10).any(|_| {
        let round = round(&mut follow);
        told.extend(round.told);
        round.is_last
    });
    told.extend(follow.finish().told);
    assert_eq!((ended, wrong(&told)), (true, vec!["damage", "damaged_wal"]));
}

#[test]
fn counting_goes_on_where_a_promoted_standby_does() {
    let archive = unpack::unpack("wal/pgbackrest").unwrap();
    let records = fs::read_to_string(archive.join("expected/records.txt")).unwrap();
    let expected = records.lines().filter(|line| line.starts_with("rmgr:")).count() as u64;
    let mut files = Vec::new();
    let mut waiting = vec![archive.join("archive")];
    while let Some(path) = waiting.pop() {
        match path.is_dir() {
            true => waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => files.push(path),
        }
    }
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.retain(|path| name(path).starts_with("0000000"));
    // As an archiver sends them: the history before the segments of the new timeline.
    files.sort_by_key(|path| (name(path)[..8].to_owned(), !name(path).ends_with(".history"), name(path)));
    let directory = tempfile::tempdir().unwrap();
    let first = files.remove(0);
    fs::copy(&first, directory.path().join(name(&first))).unwrap();
    let mut follow = follow_by(directory.path(), FollowBy::Checkpoint, Duration::from_secs(3600));
    for file in files {
        assert!(!round(&mut follow).is_last);
        fs::copy(&file, directory.path().join(name(&file))).unwrap();
    }
    looks(&mut follow, 2);
    let followed = follow.finish();
    assert_eq!(followed.counts.total.records, expected, "{:?}", followed.told);
    assert_eq!(wrong(&followed.told), Vec::<&str>::new());
}

#[test]
fn signal_ends_it_with_the_totals_and_lines_come_at_once() {
    for signal in [Signal::INT, Signal::TERM] {
        let (_keep, directory, files) = first_segments("archive", 5);
        let program = assert_cmd::cargo::cargo_bin("pg_walfpi");
        let mut command = Command::new(program);
        command.args(["stats", "--follow", "--poll", "50ms", "--format", "ndjson", arg(&directory)]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(next()["type"], "begin");
        // What comes is from the first segments, as the others are not there yet.
        let mut counted = 0;
        let mut row = next();
        assert_eq!((&row["type"], &row["certainty"]), (&"interval".into(), &"exact".into()));
        counted += row["records"].as_u64().unwrap();
        put(&directory, &files, |_| true);
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), signal).unwrap();
        loop {
            row = next();
            match row["type"].as_str().unwrap() {
                "interval" => counted += row["records"].as_u64().unwrap(),
                "finding" => assert_eq!(row["severity"], "note"),
                other => {
                    assert_eq!(other, "summary");
                    break;
                }
            }
        }
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{signal:?}");
        assert_eq!((counted, row["examined"].as_u64(), row["exit_status"].as_u64()), (RECORDS, Some(RECORDS), Some(0)));
    }
}

#[test]
fn status_and_counts_are_those_of_all_that_was_said() {
    let (_keep, directory, files) = first_segments("archive", 9);
    let (name, bytes) = files.iter().nth(2).unwrap();
    let mut damaged = bytes.clone();
    damaged[500_000..500_008].copy_from_slice(&[0xA5; 8]);
    fs::write(directory.join(name), damaged).unwrap();
    for format in ["ndjson", "json", "csv", "text"] {
        let args = ["stats", "--follow", "--poll", "10ms", "--patience", "30ms", "--format", format, arg(&directory)];
        let ran = run("pg_walfpi", &args);
        assert_eq!((ran.status, ran.stderr.as_str()), (2, ""), "{format}");
        match format {
            "ndjson" => {
                assert_eq!(ran.of_type("finding").iter().filter(|finding| finding["kind"] == "damage").count(), 1);
                assert_eq!(ran.of_type("summary")[0]["problems"], 1);
            }
            "json" => {
                let document: Value = serde_json::from_str(&ran.stdout).unwrap();
                assert_eq!(
                    (&document["summary"]["problems"], &document["summary"]["exit_status"]),
                    (&1.into(), &2.into())
                );
            }
            "csv" => assert!(ran.stdout.lines().all(|line| line.split(',').count() >= 20), "{}", ran.stdout),
            _ => assert!(ran.stdout.contains("is damaged") && ran.stdout.contains("total"), "{}", ran.stdout),
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn time_to_begin_at_is_found_once() {
    let (_keep, directory, _) = first_segments("archive", 9);
    let whole = run("pg_walfpi", &["stats", "--since", "1s", "--format", "ndjson", arg(&directory)]);
    let follow = ["stats", "--follow", "--for", "3s", "--poll", "50ms", "--since", "1s", "--format", "ndjson"];
    let followed = run("pg_walfpi", &[&follow[..], &[arg(&directory)]].concat());
    let [whole, followed] = [whole, followed].map(|ran| ran.of_type("summary").remove(0));
    assert!(whole["records"].as_u64().unwrap() > 0 && whole["records"].as_u64().unwrap() < RECORDS);
    assert_eq!(whole, followed);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let (_keep, directory, files) = first_segments("archive", 2);
    let path = arg(&directory);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    for (args, words) in [
        (&["--by", "relation", path][..], "--by time"),
        (&["--by", "relation,time", path], "--by time"),
        (&["--format", "prometheus", path], "prometheus"),
        (&["-"], "standard input"),
        (&["-p", path, names[0], names[1]], "only the first"),
        (&["--end", "0/1", path], "--end"),
        (&["--until", "2026-01-01", path], "--until"),
        (&["--resync", path], "--resync"),
        (&["--top", "2", path], "--top"),
        (&["--names", "wal", path], "--names"),
        (&["/nonexistent"], "nonexistent"),
    ] {
        let ran = run("pg_walfpi", &[&["stats", "--follow", "--for", "1s"], args].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
    let one = run("pg_walfpi", &["stats", "--follow", "--for", "100ms", "-p", path, names[1], "--format", "ndjson"]);
    assert_eq!((one.status, &one.of_type("summary")[0]["start_lsn"]), (0, &"0/00900030".into()), "{}", one.stdout);
}

#[test]
fn last_line_says_that_it_is_not_over() {
    let (_keep, directory, _) = first_segments("archive", 9);
    for by in [&["--by", "checkpoint"][..], &["--by", "time", "--bucket", "1s"]] {
        let follow = ["stats", "--follow", "--for", "300ms", "--poll", "50ms"];
        let ran = run("pg_walfpi", &[&follow[..], by, &[arg(&directory)]].concat());
        let lines: Vec<&str> = ran.stdout.lines().collect();
        let total = lines.iter().position(|line| line.trim_start().starts_with("total")).unwrap();
        let marked: Vec<usize> = (0..lines.len()).filter(|index| lines[*index].ends_with("(not over)")).collect();
        assert_eq!(marked, [total - 1], "{}", ran.stdout);
    }
}
