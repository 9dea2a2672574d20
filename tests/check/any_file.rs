//! The rule above all, on any file of any crashed cluster: evidence that goes missing never makes an answer safer.
//!
//! For a cluster W and the same cluster D in which one or two files (never `postmaster.pid`) were made unreadable (a FIFO, a
//! link or a directory stands in their place), removed, cut, zeroed in a part or as a whole, or replaced by a file from the
//! same directory:
//!
//! 1. Every page that `repair` would write in D, of a relation file that was not changed, it would write in W, and the same
//!    bytes (by the CRC of what is to be written). Pages of a file that was changed are other pages in D: they may be damaged
//!    there and have an image that is proven.
//! 2. The exit status is not lower in D (0 < 1 < 2), unless what was wrong in W lay in the changed files; a start that does
//!    not work or is not certain in W is not called one that works in D, but with status 2: replay runs as far as WAL goes.
//!    Where something was not read, no start is called one that works.
//!
//! The choice is made by a fixed sequence of numbers. `PGFORENSICS_ANY_FILE=N` tries N changes of each cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::edit::ClusterCopy;
use crate::common::{arg, dwbinspect};

/// Changes of each cluster that are tried, of which every fourth is one of two files.
const CHANGES: usize = 8;

/// Numbers that look like chance, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end.max(1)
    }
}

/// What is answered about a cluster.
struct Answered {
    status: i32,
    /// The start works, by the prediction.
    works: bool,
    /// Damaged pages, by file.
    damaged: BTreeSet<String>,
    /// Pages that would be written, and the CRC of what.
    steps: BTreeMap<(String, u64), String>,
    said: String,
}

fn ask(data: &Path) -> Answered {
    let check = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let start = check.of_type("summary").first().map(|summary| summary["on_start"]["start"].clone());
    let works = start.is_some_and(|start| start == "completes" || start == "without_replay");
    let plan = dwbinspect(&["repair", arg(data), "--format", "ndjson"]);
    let text = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
    let steps = plan.of_type("step").into_iter().map(|step| {
        let path = text(&step, "path").expect("path");
        let block = step["page"]["block"].as_u64().or(step["block"].as_u64()).expect("block");
        ((path, block), text(&step, "after_crc").expect("CRC"))
    });
    Answered {
        status: check.status,
        works,
        damaged: check.of_type("page").iter().filter_map(|row| text(row, "path")).collect(),
        steps: steps.collect(),
        said: format!("{}{}", check.stdout, check.stderr),
    }
}

/// Something was not read.
fn has_unread(answered: &Answered) -> bool {
    answered.said.contains("\"something_unread\"")
}

/// All regular files below the directories that matter, relative to the data directory.
fn files_of(data: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> =
        ["base", "global", "pg_wal", "pg_dwbuf", "pg_xact"].iter().map(PathBuf::from).collect();
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(data.join(&directory)) else { continue };
        for entry in entries {
            let entry = entry.expect("list");
            let path = directory.join(entry.file_name());
            let kind = entry.file_type().expect("kind");
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && entry.metadata().expect("size").len() > 0 {
                found.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Changes a file in one of the ways; says how.
fn change(copy: &ClusterCopy, name: &str, others: &[String], numbers: &mut Numbers) -> String {
    let path = copy.data().join(name);
    let bytes = copy.read(name);
    let way = numbers.below(8);
    if way < 3 {
        copy.remove(name);
    }
    match way {
        0 => assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success()),
        1 => {
            let aside = copy.beside(&format!("aside_{}", name.replace('/', "_")));
            fs::write(&aside, &bytes).expect("write");
            std::os::unix::fs::symlink(&aside, &path).expect("link");
        }
        2 => fs::create_dir(&path).expect("directory"),
        3 => copy.remove(name),
        4 => copy.cut(name, numbers.below(bytes.len())),
        5 => copy.write(name, &vec![0; bytes.len()]),
        6 => {
            let from = numbers.below(bytes.len());
            let mut part = bytes.clone();
            part[from..].fill(0);
            copy.write(name, &part);
        }
        _ => {
            let directory = Path::new(name).parent();
            let near: Vec<_> = others.iter().filter(|other| Path::new(other).parent() == directory).collect();
            let other = near[numbers.below(near.len())];
            let content = copy.read(other);
            copy.write(name, &content);
            return format!("{name} replaced by {other}");
        }
    }
    let ways = ["a FIFO", "a link", "a directory", "removed", "cut", "zeroed", "zeroed from a place on"];
    format!("{name}: {}", ways[way])
}

fn restore(copy: &ClusterCopy, name: &str) {
    let path = copy.data().join(name);
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(&path).expect("remove");
    }
    copy.undo(name);
}

fn try_cluster(archive: &str) {
    let copy = ClusterCopy::of_archive(archive);
    let whole = ask(copy.data());
    let files = files_of(copy.data());
    let changes = std::env::var("PGFORENSICS_ANY_FILE").map_or(CHANGES, |text| text.parse().expect("a number"));
    let seed = archive.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut numbers = Numbers(seed);
    for number in 0..changes {
        let count = if number % 4 == 3 { 2 } else { 1 };
        // Every other change is of WAL or of the double write buffer, which are few files among many.
        let few: Vec<&String> = files.iter().filter(|name| name.starts_with("pg_")).collect();
        let mut changed: Vec<String> = Vec::new();
        let mut what = Vec::new();
        for _ in 0..count {
            let name = match numbers.below(2) {
                0 => few[numbers.below(few.len())].clone(),
                _ => files[numbers.below(files.len())].clone(),
            };
            if !changed.contains(&name) {
                what.push(change(&copy, &name, &files, &mut numbers));
                changed.push(name);
            }
        }
        let what = format!("{archive}, change {number}: {}", what.join("; "));
        let answered = ask(copy.data());
        for ((path, block), crc) in &answered.steps {
            if !changed.contains(path) {
                let before = whole.steps.get(&(path.clone(), *block));
                assert_eq!(before, Some(crc), "{what}: {path} block {block}\n{}", answered.said);
            }
        }
        let is_gone = whole.damaged.iter().any(|path| changed.contains(path));
        assert!(answered.status >= whole.status || is_gone, "{what}: {} to {}", whole.status, answered.status);
        // What can be read and says less WAL is taken for less WAL, which is said with the answer.
        assert!(whole.works || !answered.works || is_gone || answered.status == 2, "{what}\n{}", answered.said);
        assert!(!answered.works || !has_unread(&answered), "{what}\n{}", answered.said);
        changed.iter().for_each(|name| restore(&copy, name));
    }
}

macro_rules! clusters {
    ($($name:ident: $archive:literal,)*) => {
        $(#[test] #[ignore = "long: `cargo test-all` runs it"] fn $name() { try_cluster($archive); })*
    };
}

clusters! {
    aligned: "dwb/aligned",
    checkpoint: "dwb/checkpoint",
    clean: "dwb/clean",
    evict: "dwb/evict",
    nochecksums: "dwb/nochecksums",
    reva: "dwb/reva",
    tablespace: "dwb/tablespace",
    wrapped: "dwb/wrapped",
    brin: "cases/brin",
    copy_without_wal: "cases/copy-without-wal",
    map_leave: "cases/map-leave",
    nochecksums_mixed: "cases/nochecksums-mixed",
    nochecksums_stops: "cases/nochecksums-stops",
    stale_tail: "cases/stale-tail",
    standby_fresh: "cases/standby-fresh",
}
