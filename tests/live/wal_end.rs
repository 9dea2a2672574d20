//! WAL whose end is gone from `pg_wal`: what is said of it, and what the server makes of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::live::{Server, all_programs, version_of};
use crate::common::{arg, dwbinspect, temporary};

/// Of a check: status, codes of doubts, and the first step.
struct Told {
    status: i32,
    doubts: BTreeSet<String>,
    sentences: Value,
    problems: Vec<Value>,
    step: Value,
}

fn told(data: &Path, wal: Option<&Path>) -> Told {
    let mut args = vec!["check", "--format", "ndjson"];
    args.extend(wal.into_iter().flat_map(|wal| ["--wal", arg(wal)]));
    args.push(arg(data));
    let ran = dwbinspect(&args);
    let summary = ran.of_type("summary").pop().expect("summary");
    let steps = summary["next"].as_array().unwrap();
    let doubts = summary["doubt_codes"].as_array().unwrap().iter();
    let doubts = doubts.map(|code| code.as_str().unwrap().to_owned()).collect();
    let problems = ran.of_type("finding").into_iter().filter(|finding| finding["severity"] == "problem").collect();
    Told {
        status: ran.status,
        doubts,
        problems,
        sentences: summary["doubts"].clone(),
        step: steps.iter().find(|step| step["step"] != "copy_first").expect("a step").clone(),
    }
}

/// Segments of `pg_wal`, in order.
fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.file_name().unwrap().len() == 24).collect();
    found.sort();
    found
}

/// Waits until every segment that was finished is archived.
fn archiver_is_done(data: &Path) {
    let waits = || {
        fs::read_dir(data.join("pg_wal/archive_status"))
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".ready"))
    };
    for _ in 0..600 {
        if !waits() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the archiver does not come to an end");
}

fn rows(server: &Server) -> u64 {
    server.sql("select count(*) from t").trim().parse().unwrap()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn wal_that_was_written_and_is_gone_is_missed() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        let is_10 = version_of(&bin).first() == Some(&10);
        // Version 10 has no option for the size of segments.
        let initdb: &[&str] = if is_10 { &["-k"] } else { &["-k", "--wal-segsize=1"] };
        let rounds = if is_10 { 12 } else { 1 };
        let server =
            Server::create_with(bin.clone(), client.clone(), initdb, "max_wal_size = 2GB\ncheckpoint_timeout = 1h");
        let archive = server.keep_archive();
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int, v text); checkpoint;");
        for _ in 0..rounds {
            server.sql("insert into t select i, repeat('x', 1000) from generate_series(1, 8000) i");
        }
        server.sql("insert into t select i, 'last' from generate_series(1, 20) i");
        archiver_is_done(&server.data());
        let all_rows = rows(&server);
        server.stop("immediate");
        let what = bin.display();

        for given in [None, Some(archive.as_path())] {
            let sound = told(&server.data(), given);
            assert_eq!(
                (sound.status, sound.doubts.len()),
                (0, 0),
                "{what}, {given:?}: {} {:?}",
                sound.sentences,
                sound.problems
            );
        }
        let newest = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path());
        let newest = newest.filter(|path| path.file_name().unwrap().len() == 24).max().unwrap();
        let newest = newest.file_name().unwrap().to_str().unwrap().to_owned();
        let status = "pg_wal/archive_status";

        // From the segment before the last that was archived: the copy shows it, or the mark does, or the cut itself.
        for (mark, with_archive, code) in [
            (Some("done"), true, "end_missing"),
            (None, true, "end_missing"),
            (Some("done"), false, "end_missing"),
            (Some("ready"), false, "end_missing"),
            (None, false, "end_cut_off"),
        ] {
            let copy = server.copy();
            let data = copy.data();
            let from = newest_before(&newest, 1, &data);
            for gone in segments(&data).into_iter().filter(|path| *path >= from) {
                fs::remove_file(gone).unwrap();
            }
            fs::remove_dir_all(data.join(status)).unwrap();
            drop(fs::remove_dir_all(data.join("pg_wal/summaries")));
            fs::create_dir(data.join(status)).unwrap();
            if let Some(mark) = mark {
                fs::write(data.join(status).join(format!("{newest}.{mark}")), "").unwrap();
            }
            let found = told(&data, with_archive.then_some(archive.as_path()));
            let case = format!(
                "{what}: mark {mark:?}, archive {with_archive}: {:?} {} {}",
                found.doubts, found.step, found.sentences
            );
            assert_eq!(found.status, 2, "{case}");
            assert!(found.doubts.contains(code), "{case}");
            assert_eq!(found.step["step"], "bring_rest_of_wal", "{case}");
            let copies = found.step["commands"][0].as_str().unwrap().to_owned();
            assert_eq!(copies.starts_with("cp -p "), with_archive, "{case}");
            if with_archive {
                // What the step says leads to a cluster that has all that was archived.
                assert!(copies.contains(&newest), "{case}");
                let ran = std::process::Command::new("sh").args(["-c", &copies]).status().unwrap();
                assert!(ran.success(), "{case}");
                assert!(!told(&data, Some(&archive)).doubts.contains("end_missing"), "{case}");
            } else {
                let first = from.file_name().unwrap().to_str().unwrap();
                assert!(found.step["sentence"].as_str().unwrap().contains(first), "{case}");
                copy.configure("archive_mode = off");
                assert!(copy.launch(&[]), "{case}: {}", copy.log());
                assert!(rows(&copy) < all_rows, "{case}: the server replays what is gone");
                copy.stop("fast");
            }
        }

        // Nothing is gone that was ever committed: a forced switch, and a stop right after it.
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("insert into t values (1); select 1 from pg_switch_wal(); checkpoint;");
        archiver_is_done(&server.data());
        server.stop("immediate");
        for given in [None, Some(archive.as_path())] {
            let sound = told(&server.data(), given);
            assert_eq!(
                (sound.status, sound.doubts.len()),
                (0, 0),
                "{what}, {given:?}: {} {:?}",
                sound.sentences,
                sound.problems
            );
        }
    }
}

/// The segment so many before the one of this name.
fn newest_before(newest: &str, back: usize, data: &Path) -> PathBuf {
    let all = segments(data);
    let at =
        all.iter().position(|path| path.ends_with(newest)).expect("the newest segment of the archive is in pg_wal");
    all[at - back].clone()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn segment_under_a_name_that_no_server_takes_is_missed() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        let server = Server::create_with(bin.clone(), client.clone(), &["-k"], "checkpoint_timeout = 1h");
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t (i int); insert into t select generate_series(1, 100); checkpoint;");
        // The end of the segment before is between two records, so that nothing in it is cut off.
        server.sql("select pg_switch_wal()");
        server.sql("insert into t values (101)");
        server.stop("immediate");
        let what = bin.display();
        let sound = told(&server.data(), None);
        assert_eq!((sound.status, sound.doubts), (0, BTreeSet::new()), "{what}: {}", sound.sentences);

        let recycled = |path: &PathBuf| fs::read(path).unwrap()[..8].iter().all(|byte| *byte == 0);
        let last = segments(&server.data()).into_iter().rfind(|path| !recycled(path)).unwrap();
        let name = last.file_name().unwrap().to_str().unwrap().to_owned();
        let lost: BTreeSet<String> = BTreeSet::from(["end_missing".to_owned()]);
        for suffix in ["partial", "gz", "zst"] {
            let copy = server.copy();
            let path = copy.data().join("pg_wal").join(&name);
            let bytes = fs::read(&path).unwrap();
            let packed = match suffix {
                "gz" => {
                    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    encoder.write_all(&bytes).unwrap();
                    encoder.finish().unwrap()
                }
                "zst" => zstd::encode_all(&bytes[..], 1).unwrap(),
                _ => bytes,
            };
            fs::write(path.with_extension(suffix), packed).unwrap();
            fs::remove_file(&path).unwrap();
            let found = told(&copy.data(), None);
            assert_eq!((found.status, &found.doubts), (2, &lost), "{what}, {suffix}: {}", found.sentences);
            assert_eq!(found.step["step"], "bring_rest_of_wal", "{what}, {suffix}");
            assert!(copy.launch(&[]), "{}", copy.log());
            assert_eq!(rows(&copy), 100, "{what}, {suffix}: the server gives up what it does not find");

            let archive = temporary();
            let copy = server.copy();
            fs::rename(copy.data().join("pg_wal").join(&name), archive.path().join(&name)).unwrap();
            let found = told(&copy.data(), Some(archive.path()));
            assert_eq!((found.status, &found.doubts), (2, &lost), "{what}, archive: {}", found.sentences);
        }
    }
}
