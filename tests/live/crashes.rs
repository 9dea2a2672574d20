//! A few variants of the campaign, and the log of writes and syncs that all of it rests on.

#[allow(dead_code, reason = "its command uses the rest")]
#[path = "../campaign/mod.rs"]
mod campaign;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use campaign::draw::Draw;
use campaign::faults::{self, PAGE};
use campaign::judge::Inspector;
use campaign::log::Unsynced;
use campaign::settings::{Programs, WalTail};
use campaign::{Request, read_results, run, table, watch};

use crate::common::{live, skipped};

/// Variants of the first crash, of a server with checksums and without full-page writes.
const VARIANTS: u64 = 3;
const SEED: u64 = 1062;

fn request(directory: &Path, bin: PathBuf) -> Request {
    Request {
        seed: SEED,
        variants: VARIANTS,
        until: Instant::now() + Duration::from_secs(20),
        only: None,
        directory: directory.to_owned(),
        keep: 0,
        jobs: 1,
        programs: vec![Programs::of(bin.clone(), bin).unwrap()],
        inspector: Inspector(vec![env!("CARGO_BIN_EXE_pg_dwbinspect").to_owned()]),
        is_stopped: Arc::default(),
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn variants_of_a_crash_are_judged_without_a_wrong_answer() {
    let Some(bin) = live::find_programs() else { return skipped("no PostgreSQL server is installed here") };
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        return skipped("no C compiler is installed here");
    }
    let directory = tempfile::tempdir().unwrap();
    let request = request(directory.path(), bin);
    run(&request, &|_| ()).unwrap();
    let lines = read_results(directory.path());
    assert!(!lines.is_empty());
    for line in &lines {
        assert!(line["failed"].is_null() && line["checksums"] == true && line["full_page_writes"] == false, "{line}");
        assert_eq!(line["wrong"].as_array().map(Vec::len), Some(0), "{line}");
        assert_eq!((&line["missed"], &line["unseen"]), (&0.into(), &0.into()), "{line}");
    }
    let sum = |field: &str| lines.iter().filter_map(|line| line[field].as_u64()).sum::<u64>();
    assert!(sum("failing") > 0 && sum("found") >= sum("failing"), "{lines:?}");
    let text = table::markdown(&lines);
    assert!(text.contains(&format!("| all | | |  | {} | {} |", lines.len(), sum("torn"))), "{text}");
    // What is done is not done again, and nothing but the results and the library is left.
    if lines.len() as u64 == VARIANTS {
        run(&request, &|line| panic!("{line}")).unwrap();
    }
    let mut left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["record.so", "variants.ndjson"]);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_campaign_that_is_stopped_ends_its_servers_and_removes_its_clusters() {
    let Some(bin) = live::find_programs() else { return skipped("no PostgreSQL server is installed here") };
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        return skipped("no C compiler is installed here");
    }
    let directory = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(directory.path()).unwrap();
    // What a campaign that was killed has left, and what one has kept.
    for name in [".tmpleft", ".tmpkept"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    let kept = at.join(".tmpkept");
    fs::write(campaign::results(&at), format!("{}\n", serde_json::json!({ "variant": 90, "kept": [kept] }))).unwrap();
    let request = request(&at, bin);
    let is_stopped = Arc::clone(&request.is_stopped);
    std::thread::scope(|scope| {
        let campaign = scope.spawn(|| run(&request, &|line| panic!("{line}")));
        let has_server = || watch::processes(&at).iter().any(|(_, is_server)| *is_server);
        while !has_server() {
            assert!(!campaign.is_finished(), "no server was seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        is_stopped.store(true, Ordering::SeqCst);
        let below = at.clone();
        std::thread::spawn(move || watch::end_processes(&below));
        campaign.join().unwrap().unwrap();
    });
    assert_eq!(watch::processes(&at), []);
    let mut left: Vec<_> = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".tmpkept", "record.so", "variants.ndjson"]);
    assert_eq!(read_results(&at).len(), 1);
}

/// An entry of the log: kind, path, offset, bytes from before and after.
fn entry(kind: u32, path: &Path, offset: u64, before: &[u8], after: &[u8]) -> Vec<u8> {
    let path = path.to_str().unwrap().as_bytes();
    let mut entry = [kind.to_le_bytes(), u32::try_from(path.len()).unwrap().to_le_bytes()].concat();
    entry.extend(offset.to_le_bytes());
    for bytes in [before, after] {
        entry.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
    }
    [&entry, path, before, after].concat()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn only_what_no_sync_has_followed_may_be_lost() {
    const WRITE: u32 = 1;
    const SYNC: u32 = 2;
    const TRUNCATE: u32 = 3;
    const RENAME: u32 = 4;
    const UNLINK: u32 = 5;
    let directory = tempfile::tempdir().unwrap();
    let data = fs::canonicalize(directory.path()).unwrap();
    let path = |name: &str| data.join("base/5").join(name);
    let pages = |fill: u8, number: usize| vec![fill; PAGE * number];
    let log = [
        entry(WRITE, &path("1"), 0, &pages(1, 1), &pages(2, 1)),
        entry(SYNC, &path("1"), 0, &[], &[]),
        entry(WRITE, &path("1"), 0, &pages(2, 1), &pages(3, 2)),
        entry(WRITE, &path("1"), 0, &pages(3, 1), &pages(4, 1)),
        entry(WRITE, &path("2"), 0, &[], &pages(5, 2)),
        entry(TRUNCATE, &path("2"), PAGE as u64, &[], &[]),
        entry(WRITE, &path("3"), 0, &[], &pages(6, 1)),
        entry(UNLINK, &path("3"), 0, &[], &[]),
        entry(WRITE, &path("4"), 0, &[], &pages(7, 1)),
        // Names are below the data directory or absolute.
        entry(RENAME, Path::new("base/5/4"), 0, &[], b"base/5/9"),
        // The crash cut this one.
        entry(WRITE, &path("1"), 0, &pages(4, 1), &pages(8, 1))[..900].to_vec(),
    ];
    fs::write(data.join("log"), log.concat()).unwrap();
    let unsynced = Unsynced::read(&data.join("log"), &data).unwrap();
    let names: Vec<_> = unsynced.0.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(names, ["base/5/1", "base/5/2", "base/5/9"]);

    fs::create_dir_all(data.join("base/5")).unwrap();
    for (name, content) in [("1", [pages(4, 1), pages(3, 1)].concat()), ("2", pages(5, 1)), ("9", pages(7, 1))] {
        fs::write(path(name), content).unwrap();
    }
    let found = faults::pages(&unsynced, &data);
    let versions: BTreeMap<(PathBuf, u64), Vec<u8>> = found
        .iter()
        .map(|(place, versions)| (place.clone(), versions.all.iter().map(|page| page[0]).collect()))
        .collect();
    let place = |name: &str, block: u64| (PathBuf::from("base/5").join(name), block);
    let expected = [
        (place("1", 0), vec![2, 3, 4]),
        (place("1", 1), vec![0, 3]),
        (place("2", 0), vec![0, 5]),
        (place("9", 0), vec![0, 7]),
    ];
    assert_eq!(versions, BTreeMap::from(expected));

    // Every page that is torn is of two versions of it, and all others are as they were.
    let mut torn = 0;
    for seed in 0..40 {
        let faults = faults::tear(&data, &found, &mut Draw::of(&[seed])).unwrap();
        for (place, versions) in &found {
            let bytes = fs::read(data.join(&place.0)).unwrap();
            let page = &bytes[PAGE * place.1 as usize..][..PAGE];
            let is_known = |sector: &[u8]| versions.all.iter().any(|version| version[..512] == *sector);
            assert!(page.chunks(512).all(is_known));
            match faults.get(place) {
                Some(fault) => assert_eq!((&fault.on_disk[..], fault.torn), (page, page[0] != page[PAGE - 1])),
                None => assert_eq!(page, versions.all.last().unwrap()),
            }
            torn += usize::from(page[0] != page[PAGE - 1]);
            faults::write_at(&data, place, versions.all.last().unwrap()).unwrap();
        }
    }
    assert!(torn > 20, "{torn}");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn lost_wal_is_what_was_there_before() {
    let directory = tempfile::tempdir().unwrap();
    let data = fs::canonicalize(directory.path()).unwrap();
    let segment = data.join("pg_wal/000000010000000000000001");
    let log = [
        entry(1, &segment, 0, &[1; 1024], &[2; 1024]),
        entry(2, &segment, 0, &[], &[]),
        entry(1, &segment, 512, &[2; 512], &[3; 512]),
        entry(1, &segment, 512, &[3; 512], &[4; 1024]),
    ];
    fs::write(data.join("log"), log.concat()).unwrap();
    fs::create_dir(data.join("pg_wal")).unwrap();
    let unsynced = Unsynced::read(&data.join("log"), &data).unwrap();
    let mut draw = Draw::of(&[1]);
    for (tail, third) in [(WalTail::Whole, [4, 4]), (WalTail::Lost, [2, 0])] {
        fs::write(&segment, [vec![2; 512], vec![4; 1024]].concat()).unwrap();
        faults::cut_wal(&data, &unsynced, tail, &mut draw).unwrap();
        let bytes = fs::read(&segment).unwrap();
        assert_eq!((bytes[0], bytes[512], bytes[1024]), (2, third[0], third[1]));
    }
}
