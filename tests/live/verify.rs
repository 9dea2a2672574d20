//! Base backups of a live server with torn pages in them: what `verify --replay` says, and what the server makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::live::Server;
use crate::common::wal_set;
use crate::common::{Ran, arg, copy_tree, dwbinspect};
use serde_json::Value;

const BLOCK: usize = 8192;

/// A server with two tables: rows of `changed` are updated all the time, `quiet` stays as it is.
struct Loaded {
    server: Server,
    /// Files of the tables, relative to the data directory.
    changed: String,
    quiet: String,
}

impl Loaded {
    fn start() -> Option<Self> {
        let server = Server::start("")?;
        server.sql(
            "create table changed (id int, filler text); create table quiet (id int, filler text);\n\
             insert into changed select g, repeat('x', 300) from generate_series(1, 400) g;\n\
             insert into quiet select g, repeat('y', 300) from generate_series(1, 400) g;\n\
             create unlogged table brief (id int); insert into brief select generate_series(1, 1000);\n\
             checkpoint;",
        );
        let path = |table: &str| server.sql(&format!("select pg_relation_filepath('{table}')")).trim().to_owned();
        let (changed, quiet) = (path("changed"), path("quiet"));
        Some(Self { server, changed, quiet })
    }

    /// Where backups are written.
    fn beside(&self, name: &str) -> PathBuf {
        self.server.data().with_file_name(name)
    }

    /// Takes a backup while rows are updated. The rows of the first page are among them from the start of the backup on.
    fn backup(&self, name: &str, options: &[&str]) -> PathBuf {
        let (directory, done) = (self.beside(name), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    self.server.sql("update changed set filler = filler where id <= 100; select pg_switch_wal()");
                    // A machine that is slow to copy must not lose the WAL of the beginning.
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let host = self.beside("");
            let mut args = vec!["-h", arg(&host), "-U", "postgres", "-D", arg(&directory), "-c", "fast"];
            args.extend(options);
            let output = self.server.run("pg_basebackup", &args);
            done.store(true, Ordering::Relaxed);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        directory
    }
}

/// Exchanges the second half of a page for bytes that were never there.
fn tear(page: &mut [u8]) {
    page[BLOCK / 2..].iter_mut().for_each(|byte| *byte ^= 0x55);
}

fn tear_in_file(path: &Path, block: usize) {
    let mut bytes = fs::read(path).unwrap();
    tear(&mut bytes[block * BLOCK..][..BLOCK]);
    fs::write(path, bytes).unwrap();
}

fn verify(path: &Path, more: &[&str]) -> Ran {
    dwbinspect(&[&["verify", "--format", "ndjson", arg(path)], more].concat())
}

fn fates(ran: &Ran) -> BTreeMap<(String, u64), (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ran.of_type("damaged_page")
        .into_iter()
        .map(|row| {
            ((text(&row["path"]), row["block"].as_u64().unwrap()), (text(&row["replay"]), text(&row["replay_code"])))
        })
        .collect()
}

fn summary(ran: &Ran) -> Value {
    ran.of_type("summary").remove(0)
}

/// Pages that the server's own tool reports after a start and a clean stop of the server on a copy of the files.
fn bad_after_start(loaded: &Loaded, backup: &Path) -> BTreeSet<(String, u64)> {
    let copy = loaded.server.copy();
    fs::remove_dir_all(copy.data()).unwrap();
    let status = std::process::Command::new("cp").arg("-a").arg(backup).arg(copy.data()).status().unwrap();
    assert!(status.success());
    copy.configure("");
    assert!(copy.launch(&[]), "{}", copy.log());
    copy.stop("fast");
    let output = copy.run("pg_checksums", &["--check", "-D", arg(&copy.data())]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let bad = errors.lines().filter(|line| line.contains("verification failed in file")).map(|line| {
        let path = line.split('"').nth(1).unwrap();
        let block = line.split("block ").nth(1).unwrap().split(':').next().unwrap();
        let relative = path.split("/data/").nth(1).unwrap_or(path);
        (relative.to_owned(), block.parse().unwrap())
    });
    bad.collect()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn torn_pages_of_a_base_backup_heal_and_rotten_ones_do_not() {
    let Some(loaded) = Loaded::start() else { return };
    let backup = loaded.backup("backup", &["-X", "stream", "--max-rate", "8M"]);
    assert_eq!(verify(&backup, &["--replay"]).status, 0, "nothing is wrong with the backup");
    tear_in_file(&backup.join(&loaded.changed), 0);
    let ran = verify(&backup, &["--replay"]);
    let healed = ("healed".to_owned(), "overwritten_in_replay".to_owned());
    assert_eq!(fates(&ran), BTreeMap::from([((loaded.changed.clone(), 0), healed.clone())]));
    assert_eq!((ran.status, &summary(&ran)["backup_end"]), (0, &"reached".into()));
    assert_eq!(verify(&backup, &[]).status, 1, "without WAL every damaged page counts");
    tear_in_file(&backup.join(&loaded.quiet), 3);
    let ran = verify(&backup, &["--replay"]);
    let real = ("real_damage".to_owned(), "not_in_replay".to_owned());
    let expected = BTreeMap::from([((loaded.changed.clone(), 0), healed), ((loaded.quiet.clone(), 3), real)]);
    assert_eq!((fates(&ran), ran.status), (expected.clone(), 1));
    assert_eq!(
        bad_after_start(&loaded, &backup),
        BTreeSet::from([(loaded.quiet.clone(), 3)]),
        "what the server makes of it"
    );

    // The same with the WAL elsewhere, whole, with another server's, and with a segment missing.
    let archive = loaded.beside("archive");
    copy_tree(&backup.join("pg_wal"), &archive);
    for entry in fs::read_dir(backup.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() {
            fs::remove_file(entry).unwrap();
        }
    }
    assert_eq!(fates(&verify(&backup, &["--wal", arg(&archive)])), expected);
    let alone = verify(&backup, &["--replay"]);
    assert!(fates(&alone).values().all(|(word, code)| (word.as_str(), code.as_str()) == ("unknown", "no_wal")));
    assert_eq!(alone.status, 2);
    let mut segments: Vec<PathBuf> = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    assert!(segments.len() >= 3, "{segments:?}");
    // Some that lie after the end of the backup may be there, too.
    let (name, ran) = loop {
        let last = segments.pop().unwrap();
        fs::remove_file(&last).unwrap();
        let ran = verify(&backup, &["--wal", arg(&archive)]);
        if ran.status != 1 {
            break (last.file_name().unwrap().to_str().unwrap().to_owned(), ran);
        }
        assert_eq!(fates(&ran), expected);
    };
    assert!(!segments.is_empty());
    let end = ran.of_type("damaged_page").into_iter().find(|row| row["path"] == loaded.quiet.as_str()).unwrap();
    assert_eq!((&end["replay"], &end["replay_code"]), (&"unknown".into(), &"backup_end_missing".into()));
    assert_eq!(end["missing_segment"], name.as_str());
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "backup_wal_incomplete"));
    assert_eq!((ran.status, &summary(&ran)["backup_end"]), (2, &"missing".into()));
    // The start is missing.
    fs::remove_file(&segments[0]).unwrap();
    let ran = verify(&backup, &["--wal", arg(&archive)]);
    let name = segments[0].file_name().unwrap().to_str().unwrap();
    for row in ran.of_type("damaged_page") {
        assert_eq!((&row["replay"], &row["missing_segment"]), (&"unknown".into(), &name.into()));
    }
    assert_eq!(ran.status, 2);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn files_of_a_crashed_server_are_judged_as_the_server_will_find_them() {
    let Some(loaded) = Loaded::start() else { return };
    let server = &loaded.server;
    server.sql(
        "create table gone (id int); insert into gone select generate_series(1, 1000);\n\
         create table short (id int); insert into short select generate_series(1, 1000);\n\
         checkpoint;\n",
    );
    let path = |table: &str| server.sql(&format!("select pg_relation_filepath('{table}')")).trim().to_owned();
    let (gone, short, brief) = (path("gone"), path("short"), path("brief"));
    let content = fs::read(server.data().join(&gone)).unwrap();
    server.sql("update changed set filler = filler where id <= 100; drop table gone;\n");
    server.stop("immediate");
    let data = server.data();
    // As if the file had not been removed before the crash.
    fs::write(data.join(&gone), &content).unwrap();
    for (file, block) in [(&loaded.changed, 0), (&loaded.quiet, 3), (&gone, 2), (&brief, 1)] {
        tear_in_file(&data.join(file), block);
    }
    let bytes = fs::read(data.join(&short)).unwrap();
    fs::write(data.join(&short), &bytes[..bytes.len() - 1000]).unwrap();
    let short_block = (bytes.len() / BLOCK - 1) as u64;
    let word = |word: &str, code: &str| (word.to_owned(), code.to_owned());
    let ran = verify(&data, &["--replay"]);
    let expected = BTreeMap::from([
        ((loaded.changed.clone(), 0), word("healed", "overwritten_in_replay")),
        ((loaded.quiet.clone(), 3), word("real_damage", "not_in_replay")),
        ((gone, 2), word("healed", "removed_in_replay")),
        ((brief, 1), word("healed", "unlogged_relation")),
        ((short.clone(), short_block), word("real_damage", "not_in_replay")),
    ]);
    assert_eq!((fates(&ran), ran.status), (expected, 1));
    fs::write(data.join(&short), bytes).unwrap();
    assert_eq!(bad_after_start(&loaded, &data), BTreeSet::from([(loaded.quiet.clone(), 3)]));
}

/// Where the data of a member starts in an archive.
fn data_of(archive: &Path, member: &str) -> usize {
    let mut reader = tar::Archive::new(fs::File::open(archive).unwrap());
    let mut found = reader.entries().unwrap().map(|entry| entry.unwrap());
    let entry = found.find(|entry| entry.path().unwrap() == Path::new(member)).unwrap_or_else(|| panic!("{member}"));
    usize::try_from(entry.raw_file_position()).unwrap()
}

fn unpack(archive: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    tar::Archive::new(fs::File::open(archive).unwrap()).unpack(into).unwrap();
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn backup_in_tar_format_is_judged_as_the_unpacked_one() {
    let Some(loaded) = Loaded::start() else { return };
    let tar = loaded.backup("tar", &["-F", "t", "-X", "stream", "--max-rate", "8M"]);
    let clean = verify(&tar, &["--replay"]);
    assert_eq!((clean.status, &summary(&clean)["backup_end"]), (0, &"reached".into()), "{}", clean.stdout);
    let base = tar.join("base.tar");
    let mut bytes = fs::read(&base).unwrap();
    for (file, block) in [(&loaded.changed, 0), (&loaded.quiet, 3)] {
        let at = data_of(&base, file) + block * BLOCK;
        tear(&mut bytes[at..at + BLOCK]);
    }
    fs::write(&base, &bytes).unwrap();
    let ran = verify(&tar, &["--replay"]);
    let word = |word: &str, code: &str| (word.to_owned(), code.to_owned());
    let expected = BTreeMap::from([
        ((loaded.changed.clone(), 0), word("healed", "overwritten_in_replay")),
        ((loaded.quiet.clone(), 3), word("real_damage", "not_in_replay")),
    ]);
    assert_eq!((fates(&ran), ran.status), (expected.clone(), 1));

    let unpacked = loaded.beside("unpacked");
    unpack(&base, &unpacked);
    unpack(&tar.join("pg_wal.tar"), &unpacked.join("pg_wal"));
    let of_directory = verify(&unpacked, &["--replay"]);
    let rows = |ran: &Ran| {
        let mut rows = ran.of_type("damaged_page");
        for name in ["relation", "database"] {
            rows.iter_mut().for_each(|row| row[name] = Value::Null);
        }
        rows
    };
    assert_eq!(rows(&ran), rows(&of_directory));
    assert_eq!(summary(&ran), summary(&of_directory));

    // The same packed, and with its WAL elsewhere, or nowhere.
    fs::write(tar.join("base.tar.gz"), wal_set::gzip(&bytes)).unwrap();
    fs::remove_file(&base).unwrap();
    assert_eq!(fates(&verify(&tar, &["--replay"])), expected);
    let elsewhere = loaded.beside("wal.tar");
    fs::rename(tar.join("pg_wal.tar"), &elsewhere).unwrap();
    assert_eq!(fates(&verify(&tar, &["--wal", arg(&elsewhere)])), expected);
    let alone = verify(&tar, &["--replay"]);
    assert!(fates(&alone).values().all(|(word, _)| word == "unknown"));
    assert_eq!(alone.status, 2);

    // As the server compresses it, with WAL among the other files.
    let packed = loaded.backup("packed", &["-F", "t", "-z", "-X", "fetch", "--max-rate", "8M"]);
    let ran = verify(&packed, &["--replay"]);
    assert_eq!((ran.status, &summary(&ran)["backup_end"]), (0, &"reached".into()), "{}", ran.stdout);
}
