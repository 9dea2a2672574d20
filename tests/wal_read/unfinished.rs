//! The page of WAL that was written last: a server copies it while sessions still write into it, so records there may follow
//! one that is not finished. Anywhere else the same bytes are damage.
//!
//! Fact sheet: a server of 15 under load, stopped at once, left zeros from 0/5A9DED60 to 0/5A9DF000 (4 KiB into the page), the
//! end of a record, and sound records from 0/5A9DF018 to the end of the page. It replayed up to 0/5A9DED60.

use std::fs;
use std::path::Path;

use crate::common::wal::{Fixture, expected_records};
use crate::common::{arg, run};

const PAGE: u64 = 8192;

/// A fixture whose WAL ends with a page that holds many records.
struct Scene {
    fixture: Fixture,
    /// Index of the segment, and its bytes up to that end.
    last: (usize, Vec<u8>),
    /// Where records start in the page of the end and in the one before, bytes into the segment.
    in_page: Vec<u64>,
    in_page_before: Vec<u64>,
}

impl Scene {
    fn of(major: u32) -> Self {
        let fixture = Fixture::load(major);
        let size = fixture.segments[0].1.len() as u64;
        let starts: Vec<u64> =
            expected_records(&fixture.expected("records.txt")).iter().map(|record| record.start_lsn.0).collect();
        let first = starts[0] / size;
        let in_page_of = |page: u64| -> Vec<u64> {
            // The first record of a page may begin after the rest of another: those that follow it lie in this page alone.
            starts.iter().copied().filter(|start| start / PAGE == page).map(|start| start % size).collect()
        };
        let is_busy = |page: u64| in_page_of(page).len() > 12;
        // Not the first pages of a segment.
        let page = starts
            .iter()
            .rev()
            .map(|start| start / PAGE)
            .find(|page| page % (size / PAGE) > 4 && is_busy(*page) && is_busy(page - 1));
        let page = page.expect("two busy pages");
        let index = usize::try_from(page * PAGE / size - first).unwrap();
        let mut bytes = fixture.segments[index].1.clone();
        bytes[usize::try_from((page + 1) * PAGE % size).unwrap()..].fill(0);
        Self { last: (index, bytes), in_page: in_page_of(page), in_page_before: in_page_of(page - 1), fixture }
    }

    /// `verify` of the WAL up to that end, after `change` of its last segment: status, verdict, kinds of findings.
    fn verify(&self, change: impl FnOnce(&mut [u8])) -> (i32, String, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in &self.fixture.segments[..self.last.0] {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let mut bytes = self.last.1.clone();
        change(&mut bytes);
        fs::write(directory.path().join(&self.fixture.segments[self.last.0].0), bytes).unwrap();
        verdict_of(directory.path())
    }
}

fn verdict_of(directory: &Path) -> (i32, String, Vec<String>) {
    let ran = run("pg_walfpi", &["verify", "--format", "ndjson", arg(directory)]);
    let run = ran.of_type("run").pop().expect("a run");
    let kinds = ran.of_type("finding").iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect();
    (ran.status, run["verdict_code"].as_str().unwrap().to_owned(), kinds)
}

fn zero(bytes: &mut [u8], from: u64, to: u64) {
    bytes[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()].fill(0);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn unfinished_record_in_the_last_page_is_no_damage() {
    for major in [10, 13, 15, 16, 18] {
        let scene = Scene::of(major);
        let (status, verdict, kinds) = scene.verify(|_| ());
        assert!(!kinds.contains(&"wal_unfinished".to_owned()), "{major}: {status} {verdict} {kinds:?}");
        let starts = &scene.in_page;
        for from in 2..8 {
            for to in [starts[from + 1], starts[from + 1] + 8, starts[from + 3]] {
                let (status, verdict, kinds) = scene.verify(|bytes| zero(bytes, starts[from], to));
                assert_eq!((status, verdict.as_str()), (0, "end_of_wal"), "{major}: {from} to {to:X}: {kinds:?}");
                assert!(kinds.contains(&"wal_unfinished".to_owned()), "{major}: {from} to {to:X}: {kinds:?}");
            }
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn the_same_elsewhere_is_damage() {
    for major in [10, 13, 15, 16, 18] {
        let scene = Scene::of(major);
        let (before, starts) = (&scene.in_page_before, &scene.in_page);
        let is_damage = |what: &str, change: &dyn Fn(&mut [u8])| {
            let (status, verdict, kinds) = scene.verify(change);
            assert_eq!((status, verdict.as_str()), (2, "damage"), "{major}: {what}: {kinds:?}");
            assert!(!kinds.contains(&"wal_unfinished".to_owned()), "{major}: {what}: {kinds:?}");
        };
        for at in 2..8 {
            // The page before the last was finished when the last was written.
            is_damage("page before", &|bytes| zero(bytes, before[at], before[at + 1]));
            // A record that was put there in part has its header.
            is_damage("length alone", &|bytes| zero(bytes, starts[at], starts[at] + 8));
            is_damage("a bit", &|bytes| bytes[usize::try_from(starts[at]).unwrap() + 17] ^= 4);
            is_damage("an end", &|bytes| zero(bytes, starts[at] + 20, starts[at + 1]));
        }
    }
}
