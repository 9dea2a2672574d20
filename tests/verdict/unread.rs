//! A cluster that has lost the end of its WAL: only pages show it. Whatever becomes of those pages, nothing is called safe.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::edit::ClusterCopy;
use crate::common::truth::check_with;
use crate::common::wal_tail::{SEGMENT, segment_name};
use crate::common::{arg, dwbinspect};

/// The first bytes of the records that are kept after the redo point.
const KEPT: u64 = 0x4000;

fn lsn_of(text: &str) -> u64 {
    let (high, low) = text.split_once('/').expect("an LSN");
    u64::from_str_radix(high, 16).expect("hex") << 32 | u64::from_str_radix(low, 16).expect("hex")
}

/// A witness: a page of a logged relation with an LSN past the end of WAL.
struct LsnWitness {
    file: String,
    offset: u64,
}

struct Cut {
    copy: ClusterCopy,
    witnesses: Vec<LsnWitness>,
}

/// A copy of the case whose WAL is zero soon after the checkpoint record.
fn without_tail(case: &str) -> Cut {
    let copy = ClusterCopy::of(case);
    let whole = check_with(copy.data(), &[]);
    assert!(whole.pages.iter().any(|page| page["verdict"] == "restore"), "{case}");
    let (redo, end) =
        (lsn_of(whole.summary["redo_lsn"].as_str().unwrap()), lsn_of(whole.summary["end_lsn"].as_str().unwrap()));
    let from = redo + KEPT;
    assert!(from < end, "{case}: {redo:x} {end:x}");
    let mut at = from;
    while at < end + SEGMENT {
        let start = at / SEGMENT * SEGMENT;
        let name = format!("pg_wal/{}", segment_name(start));
        if copy.exists(&name) {
            copy.patch(&name, at - start, &vec![0; usize::try_from(SEGMENT - (at - start)).unwrap()]);
        }
        at = start + SEGMENT;
    }
    let cut = check_with(copy.data(), &[]);
    assert!(
        cut.summary["doubt_codes"].as_array().unwrap().contains(&"page_after_end".into()),
        "{case}: {}",
        cut.doubts()
    );
    let end = lsn_of(cut.summary["end_lsn"].as_str().unwrap());
    let witnesses = witnesses_in(&copy, end);
    assert!(!witnesses.is_empty(), "{case}");
    assert_nothing_safe(&copy, case);
    Cut { copy, witnesses }
}

/// All pages below `base` and `global` whose header names an LSN past `end`; relations with an init fork are not logged.
fn witnesses_in(copy: &ClusterCopy, end: u64) -> Vec<LsnWitness> {
    let mut found = Vec::new();
    for directory in ["base/5", "global"] {
        for name in copy.names_in(directory) {
            let main = name.split(['_', '.']).next().unwrap();
            let is_relation = main.parse::<u32>().is_ok();
            if !is_relation || copy.exists(&format!("{directory}/{main}_init")) {
                continue;
            }
            let file = format!("{directory}/{name}");
            for (block, page) in copy.read(&file).chunks_exact(8192).enumerate() {
                let half = |at: usize| u64::from(u32::from_le_bytes(page[at..at + 4].try_into().unwrap()));
                if half(0) << 32 | half(4) > end {
                    found.push(LsnWitness { file: file.clone(), offset: block as u64 * 8192 });
                }
            }
        }
    }
    found
}

/// Neither `check` nor `repair` finds anything that is safe, and neither says that all is well.
fn assert_nothing_safe(copy: &ClusterCopy, what: &str) {
    for more in [&[][..], &["--dwb-only"]] {
        let checked = check_with(copy.data(), more);
        let safe: Vec<_> = checked.pages.iter().filter(|page| page["verdict"] == "restore").collect();
        assert!(safe.is_empty(), "{what} {more:?}: {} {safe:#?}", checked.doubts());
        assert_ne!(checked.ran.status, 0, "{what} {more:?}");
    }
    let plan = dwbinspect(&["repair", arg(copy.data()), "--format", "ndjson"]);
    assert!(plan.of_type("step").is_empty() && plan.status == 2, "{what}: {} {}", plan.status, plan.stdout);
}

/// Puts something that is not a regular file where one should be.
fn make_unreadable(copy: &ClusterCopy, name: &str, way: usize) {
    let path = copy.data().join(name);
    let aside = copy.beside(&format!("aside_{}", name.replace('/', "_")));
    fs::rename(&path, &aside).expect("move");
    match way % 3 {
        0 => assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success()),
        1 => std::os::unix::fs::symlink(&aside, &path).expect("link"),
        _ => fs::create_dir(&path).expect("directory"),
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn witnesses_that_cannot_be_read_are_missed() {
    for (way, case) in ["evict", "checkpoint", "wrapped"].into_iter().enumerate() {
        let cut = without_tail(case);
        let mut files: Vec<&String> = cut.witnesses.iter().map(|witness| &witness.file).collect();
        files.dedup();
        for (number, file) in files.iter().enumerate() {
            make_unreadable(&cut.copy, file, way + number);
        }
        assert_nothing_safe(&cut.copy, case);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn witnesses_whose_lsn_is_zeroed_are_missed() {
    for case in ["evict", "checkpoint", "wrapped"] {
        let cut = without_tail(case);
        for witness in &cut.witnesses {
            cut.copy.patch(&witness.file, witness.offset, &[0; 8]);
        }
        assert_nothing_safe(&cut.copy, case);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn relation_directory_that_is_a_link_is_not_read_from_outside() {
    for directory in ["base", "base/5", "global"] {
        let cut = without_tail("evict");
        let (path, aside) = (cut.copy.data().join(directory), cut.copy.beside("outside"));
        fs::rename(&path, &aside).expect("move");
        std::os::unix::fs::symlink(&aside, &path).expect("link");
        let ran = dwbinspect(&["check", arg(cut.copy.data()), "--format", "ndjson"]);
        assert_eq!(ran.status, 2, "{directory}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.of_type("page").iter().all(|page| page["verdict"] != "restore"), "{directory}");
    }
}

#[test]
fn page_that_was_asked_for_hears_of_what_was_not_read() {
    let copy = ClusterCopy::of("checkpoint");
    let whole = check_with(copy.data(), &[]);
    let row = whole.pages.iter().find(|page| page["verdict"] == "restore").expect("a proven page").clone();
    let (path, block) = (row["path"].as_str().unwrap().to_owned(), row["block"].to_string());
    let page = |data: &Path| dwbinspect(&["page", "--format", "ndjson", arg(data), &path, &block]);
    let before = page(copy.data());
    assert_eq!((before.status, &before.of_type("page")[0]["verdict"]), (1, &"restore".into()), "{}", before.stdout);
    let other = copy.names_in("base/5").into_iter().find(|name| !path.ends_with(name.as_str()) && name.len() == 4);
    make_unreadable(&copy, &format!("base/5/{}", other.expect("another relation")), 0);
    let after = page(copy.data());
    let found = &after.of_type("page")[0];
    assert_eq!((after.status, &found["verdict"]), (2, &"restore_unproven".into()), "{}", after.stdout);
}
