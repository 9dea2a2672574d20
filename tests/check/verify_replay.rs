//! `pg_dwbinspect verify --replay` and `--wal`: which damaged pages replay heals, compared with what a check says, and with
//! evidence taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{DWB_CASES, Ran, arg, cluster, copy_tree, dwbinspect, unpack};
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::{Geometry, Lsn};
use serde_json::Value;

/// Crashed clusters beside those of [`DWB_CASES`].
const CASES: [&str; 6] = ["brin", "map-leave", "nochecksums-mixed", "nochecksums-stops", "stale-tail", "standby-fresh"];

fn clusters() -> Vec<(String, PathBuf)> {
    let of_dwb = DWB_CASES.iter().map(|case| ((*case).to_owned(), cluster(case)));
    let of_cases = CASES.iter().map(|case| {
        let unpacked = unpack::unpack(&format!("cases/{case}")).expect("unpack");
        ((*case).to_owned(), unpacked.join(case))
    });
    of_dwb.chain(of_cases).collect()
}

fn copy(data: &Path) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let to = temporary.path().join("data");
    copy_tree(data, &to);
    (temporary, to)
}

fn verify(data: &Path, more: &[&str]) -> Ran {
    dwbinspect(&[&["verify", "--format", "ndjson", arg(data)], more].concat())
}

fn summary(ran: &Ran) -> Value {
    ran.of_type("summary").remove(0)
}

fn key(row: &Value) -> (String, String, u64) {
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    (text("path"), text("fork"), row["block"].as_u64().unwrap())
}

/// What is said of each damaged page.
fn fates(ran: &Ran) -> BTreeMap<(String, String, u64), Value> {
    ran.of_type("damaged_page").into_iter().map(|row| (key(&row), row)).collect()
}

fn count(fates: &BTreeMap<(String, String, u64), Value>, word: &str) -> usize {
    fates.values().filter(|row| row["replay"] == word).count()
}

/// The segments of `pg_wal`, in order.
fn segments(data: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = names.filter(|path| path.file_name().unwrap().len() == 24).collect();
    found.sort();
    found
}

/// Number of a segment of 1 MB by its name.
fn number(path: &Path) -> u64 {
    let name = path.file_name().unwrap().to_str().unwrap();
    u64::from_str_radix(&name[8..16], 16).unwrap() * 4096 + u64::from_str_radix(&name[16..], 16).unwrap()
}

fn lsn(value: &Value) -> u64 {
    let (high, low) = value.as_str().unwrap().split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

/// A page is healed exactly where a check of the same cluster asks nobody to act; the record is the one that the check names.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_page_of_every_cluster_is_judged_as_a_check_does() {
    let (mut healed, mut real) = (0, 0);
    for (case, data) in clusters() {
        let ran = verify(&data, &["--replay"]);
        let checked = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
        let verdicts: BTreeMap<_, _> = checked.of_type("page").into_iter().map(|row| (key(&row), row)).collect();
        let fates = fates(&ran);
        let summary = summary(&ran);
        let expected = summary["damaged"].as_u64().unwrap() + summary["partial_pages"].as_u64().unwrap();
        assert_eq!(fates.len() as u64, expected, "{case}");
        for (page, row) in &fates {
            let verdict = verdicts.get(page).unwrap_or_else(|| panic!("{case}: check does not know {page:?}"));
            let word = verdict["verdict"].as_str().unwrap();
            // Of a map page that servers take for an empty one there may be an image, too: nobody needs it.
            let is_map = row["replay_code"] == "map_taken_for_empty";
            assert!(
                !is_map || ["fsm", "vm"].contains(&page.1.as_str()) && row["server_rejects"] == true,
                "{case}: {row}"
            );
            let is_harmless = is_map || ["heals_in_replay", "leave"].contains(&word);
            assert_eq!(row["replay"], if is_harmless { "healed" } else { "real_damage" }, "{case} {page:?}: {word}");
            if is_harmless && !is_map {
                assert_eq!(row["replay_code"], verdict["reason_codes"][0], "{case} {page:?}");
            }
        }
        for word in ["healed", "real_damage", "unknown"] {
            assert_eq!(summary[word], count(&fates, word), "{case}: {word}");
        }
        (healed, real) = (healed + count(&fates, "healed"), real + count(&fates, "real_damage"));
        let is_wrong = ran.of_type("finding").iter().any(|finding| finding["severity"] == "problem");
        // Files that WAL removes are missing in some of them, which is nothing that was left unexamined.
        assert_eq!((ran.status, &summary["skipped"]), (i32::from(is_wrong), &Value::from(0)), "{case}");
        assert!(is_wrong || count(&fates, "real_damage") == 0, "{case}");
    }
    assert!(healed > 300 && real > 200, "{healed} healed, {real} real");
}

/// The server dropped `base/5/16389` after its checkpoint; that of the table `b` it did not.
#[test]
fn files_are_missing_unless_wal_removes_them() {
    let (_keep, data) = copy(&unpack::data_dir("cases/brin").expect("unpack fixture"));
    let missing = |ran: &Ran| -> Vec<Value> {
        let found = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "relation_file_missing");
        found.map(|finding| finding["file"].clone()).collect()
    };
    for more in [&[][..], &["--replay"]] {
        let ran = verify(&data, more);
        assert_eq!((ran.status, missing(&ran), &summary(&ran)["skipped"]), (0, vec![], &0.into()), "{}", ran.stdout);
    }
    let table = data.join("base/5/16384");
    let bytes = fs::read(&table).unwrap();
    fs::remove_file(&table).unwrap();
    for more in [&[][..], &["--replay"]] {
        let ran = verify(&data, more);
        assert_eq!((ran.status, missing(&ran)), (1, vec!["base/5/16384".into()]), "{}", ran.stdout);
    }
    fs::write(&table, bytes).unwrap();
    for segment in segments(&data) {
        fs::remove_file(segment).unwrap();
    }
    for more in [&[][..], &["--replay"]] {
        let ran = verify(&data, more);
        let skipped = ran.of_type("skipped");
        let unread = skipped.iter().find(|skipped| skipped["cause"] == "unless_wal_removes").expect("said");
        assert_eq!((ran.status, &unread["what"], missing(&ran)), (2, &"base/5/16389".into(), vec![]), "{}", ran.stdout);
    }
}

/// Where no WAL is missing, the words do not depend on where it lies.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn wal_of_an_archive_is_as_good_as_that_of_the_directory() {
    let data = cluster("evict");
    let before = fates(&verify(&data, &["--replay"]));
    assert!(count(&before, "healed") > 0 && count(&before, "real_damage") > 0);
    let (kept, copy) = copy(&data);
    let archive = kept.path().join("archive");
    fs::rename(copy.join("pg_wal"), &archive).unwrap();
    fs::create_dir(copy.join("pg_wal")).unwrap();
    let ran = verify(&copy, &["--wal", arg(&archive)]);
    assert_eq!(fates(&ran), before);
    assert_eq!(ran.of_type("skipped"), Vec::<Value>::new());
    // Without the archive nothing is known, and the segment with the redo point is the one to look for.
    let alone = verify(&copy, &["--replay"]);
    let redo = number(segments_in(&archive, lsn(&summary(&ran)["redo_lsn"])).as_path());
    for row in fates(&alone).values() {
        assert_eq!((&row["replay"], &row["replay_code"]), (&"unknown".into(), &"no_wal".into()));
        assert_eq!(number(Path::new(row["missing_segment"].as_str().unwrap())), redo);
    }
    assert_eq!(alone.status, 2);
}

/// The file in `archive` that holds an address, by segments of 1 MB.
fn segments_in(archive: &Path, lsn: u64) -> PathBuf {
    let names = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().len() == 24).find(|path| number(path) == lsn >> 20).unwrap()
}

/// Where the last record that begins in the first 800 KiB of a segment does; nothing looks wrong with a file that ends there.
fn between_records(path: &Path, bytes: &[u8]) -> usize {
    let start = Lsn(number(path) << 20);
    let geometry = Geometry { wal_segment_size: 1 << 20, ..Geometry::usual_with(8192) };
    let mut reader = WalReader::new(ReaderOptions::new(geometry), start).unwrap();
    let (mut rest, mut cut) = (bytes, None);
    while let Some(event) = reader.next(&mut rest) {
        if let Event::Record(record) = event {
            let offset = usize::try_from(record.start_lsn.0 - start.0).unwrap();
            // At the start of a page its header stands before the record.
            cut = Some(offset).filter(|offset| *offset < 800 << 10 && offset % 8192 > 64).or(cut);
        }
    }
    // A leftover holds none.
    cut.unwrap_or(bytes.len() / 2)
}

/// A missing or broken segment never makes a page better off: what was settled before it stays, the rest is unknown.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn gap_leaves_later_pages_unknown_and_names_the_segment() {
    let (_kept, copy) = copy(&cluster("evict"));
    let data = copy.as_path();
    // A page that no record touches.
    let quiet = data.join("base/1/1259");
    let mut bytes = fs::read(&quiet).unwrap();
    bytes[5000] ^= 0x10;
    fs::write(quiet, bytes).unwrap();
    let whole = verify(data, &["--replay"]);
    let (redo, before) = (lsn(&summary(&whole)["redo_lsn"]), fates(&whole));
    type Spoil = fn(&Path);
    let ways: [(&str, Spoil); 5] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("garbage", |path| fs::write(path, vec![0xA5; 1 << 20]).unwrap()),
        ("zeros", |path| fs::write(path, vec![0; 1 << 20]).unwrap()),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..100_000]).unwrap();
        }),
        ("cut between records", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..between_records(path, &bytes)]).unwrap();
        }),
    ];
    let (mut kept_words, mut codes) = (0, BTreeSet::new());
    for path in segments(data).iter().filter(|path| number(path) >= redo >> 20) {
        let (broken, bytes) = (number(path), fs::read(path).unwrap());
        for (what, spoil) in &ways {
            fs::write(path, &bytes).unwrap();
            spoil(path);
            let ran = verify(data, &["--replay"]);
            for (page, row) in fates(&ran) {
                let old = &before[&page];
                let record = old["record_lsn"].as_str().map(|_| lsn(&old["record_lsn"]));
                if row["replay"] == "unknown" {
                    codes.insert(row["replay_code"].as_str().unwrap().to_owned());
                    // WAL never touched it, or only from there on, or in a record that reaches into the segment; or replay
                    // does not begin, since the checkpoint that it begins with is not there.
                    let begins =
                        !["no_wal_at_redo", "no_record_at_redo", "ends_before_checkpoint", "not_the_checkpoint"]
                            .contains(&row["replay_code"].as_str().unwrap());
                    assert!(
                        !begins || record.is_none_or(|lsn| lsn >> 20 >= broken - 1),
                        "{what} {broken}: {row} {old}"
                    );
                    if let Some(segment) = row["missing_segment"].as_str() {
                        assert_eq!(number(Path::new(segment)), broken, "{what}: {row}");
                    }
                } else {
                    kept_words += 1;
                    assert_eq!((&row["replay"], &row["record_lsn"]), (&old["replay"], &old["record_lsn"]), "{what}");
                    // Real damage for want of a record is certain only while WAL goes on to its end.
                    let is_after_end = broken > lsn(&summary(&whole)["wal_end_lsn"]) >> 20;
                    let is_settled = !row["record_lsn"].is_null() || row["replay"] == "healed";
                    assert!(is_settled || is_after_end, "{what} {broken}: {row}");
                }
            }
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(kept_words > 20 && codes.len() >= 3, "{kept_words} {codes:?}");
}

#[test]
fn nothing_replays_after_a_clean_shutdown() {
    let (_kept, data) = copy(&cluster("clean"));
    for file in ["base/5/1259", "base/5/1259_fsm", "base/5/1259_vm"] {
        let mut bytes = fs::read(data.join(file)).unwrap();
        bytes[5000] ^= 0x10;
        fs::write(data.join(file), bytes).unwrap();
    }
    let ran = verify(&data, &["--replay"]);
    let fates = fates(&ran);
    assert_eq!((fates.len(), count(&fates, "real_damage"), ran.status), (3, 3, 1));
    assert!(fates.values().all(|row| row["replay_code"] == "nothing_replays"));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn wal_of_another_cluster_proves_nothing() {
    let (_kept, data) = copy(&cluster("evict"));
    fs::remove_dir_all(data.join("pg_wal")).unwrap();
    fs::create_dir(data.join("pg_wal")).unwrap();
    let foreign = cluster("checkpoint").join("pg_wal");
    let ran = verify(&data, &["--wal", arg(&foreign)]);
    assert_eq!(ran.status, 2);
    assert_eq!(count(&fates(&ran), "healed"), 0);
    // Under its own WAL the foreign one changes no word.
    let own = cluster("evict");
    assert_eq!(fates(&verify(&own, &["--wal", arg(&foreign)])), fates(&verify(&own, &["--replay"])));
}

#[test]
fn control_file_that_cannot_be_trusted_leaves_every_page_unknown() {
    let (_kept, data) = copy(&cluster("evict"));
    let path = data.join("global/pg_control");
    let mut bytes = fs::read(&path).unwrap();
    bytes[48] ^= 1;
    fs::write(&path, bytes).unwrap();
    let ran = verify(&data, &["--replay"]);
    let fates = fates(&ran);
    assert!(!fates.is_empty() && count(&fates, "unknown") == fates.len());
    assert!(fates.values().all(|row| row["replay_code"] == "control_not_trusted"));
    assert_eq!(ran.status, 2);
}

/// A label decides where replay begins; the server reads the checkpoint that it names first.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn label_that_names_no_checkpoint_of_the_wal_proves_nothing() {
    let data = cluster("evict");
    let redo = summary(&verify(&data, &["--replay"]))["redo_lsn"].as_str().unwrap().to_owned();
    let last = segments(&data).pop().unwrap();
    let later = format!("0/{:08X}", number(&last) * (1 << 20) + 40);
    for (start, checkpoint) in [(later.as_str(), later.as_str()), (redo.as_str(), later.as_str()), ("0/0", "0/0")] {
        let (_kept, copy) = copy(&data);
        let label = format!(
            "START WAL LOCATION: {start} (file 000000010000000000000001)\nCHECKPOINT LOCATION: {checkpoint}\n\
             BACKUP METHOD: streamed\nBACKUP FROM: primary\n"
        );
        fs::write(copy.join("backup_label"), label).unwrap();
        let ran = verify(&copy, &["--replay"]);
        let fates = fates(&ran);
        assert!(!fates.is_empty() && count(&fates, "unknown") == fates.len(), "{start} {checkpoint}");
        assert_eq!(ran.status, 2);
        let kinds: Vec<Value> = ran.of_type("finding").iter().map(|finding| finding["kind"].clone()).collect();
        assert!(kinds.contains(&"replay_cannot_begin".into()), "{kinds:?}");
    }
}
