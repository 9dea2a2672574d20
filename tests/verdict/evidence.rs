//! The rule above all: a verdict never becomes safer because evidence is missing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::edit::{ClusterCopy, same_page};
use crate::common::truth::{Torn, check, chosen_image, torn_writes};
use crate::common::wal_tail::{SEGMENT, segment_name};

type Place = (String, String, u64);
/// Something that is done to a file; `None` removes it.
type Way = fn(&[u8]) -> Option<Vec<u8>>;

fn place_of(row: &Value) -> Place {
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    (text("path"), text("fork"), row["block"].as_u64().unwrap())
}

/// A cluster, its torn pages, and what is said of them while all evidence is there.
struct Whole {
    case: &'static str,
    copy: ClusterCopy,
    torn: Vec<Torn>,
    verdicts: BTreeMap<Place, String>,
    /// Slots with an image of the page that replay brings to where the page was.
    safe_slots: BTreeMap<Place, Vec<Value>>,
}

impl Whole {
    fn of(case: &'static str) -> Self {
        let copy = ClusterCopy::of(case);
        let rows = check(copy.data()).pages;
        let verdicts = rows.iter().map(|row| (place_of(row), row["verdict"].as_str().unwrap().to_owned())).collect();
        let safe = |row: &Value| {
            let candidates = row["candidates"].as_array().unwrap().iter();
            candidates.filter(|image| image["outcome"] == "safe").map(|image| image["slot_index"].clone()).collect()
        };
        let safe_slots = rows.iter().map(|row| (place_of(row), safe(row))).collect();
        Self { case, copy, torn: torn_writes(case), verdicts, safe_slots }
    }

    /// Segments that hold the WAL that their name says.
    fn segments(&self) -> Vec<String> {
        let names = self.copy.names_in("pg_wal").into_iter().filter(|name| name.len() == 24);
        let of_its_name = |name: &String| {
            let bytes = self.copy.read(&format!("pg_wal/{name}"));
            let start = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
            start.is_multiple_of(SEGMENT) && segment_name(start) == *name
        };
        names.filter(of_its_name).map(|name| format!("pg_wal/{name}")).collect()
    }

    /// Fails when anything is called safe that was not before, or another image than the right one is to be put back.
    fn assert_no_safer(&self, what: &str) {
        let checked = check(self.copy.data());
        for row in &checked.pages {
            let verdict = row["verdict"].as_str().unwrap();
            if !["restore", "heals_in_replay"].contains(&verdict) {
                continue;
            }
            let case = self.case;
            let place = place_of(row);
            let before = self.verdicts.get(&place).map(String::as_str);
            assert_eq!(before, Some(verdict), "{case}, {what}: {place:?} {row:#}");
            if verdict == "restore" {
                let torn = self.torn.iter().find(|torn| torn.is_in(row)).expect("a page that was torn");
                let image = chosen_image(self.copy.data(), row);
                // Without the newest image an older one will do that was as safe before.
                let was_safe = self.safe_slots[&place].contains(&row["chosen"]["slot_index"]);
                let is_intended = same_page(&image, &torn.intended);
                assert!(was_safe && (is_intended || case == "reva"), "{case}, {what}: {place:?}");
            }
        }
    }

    /// Changes a file in several ways, one after the other, and looks what that makes of the verdicts.
    fn spoil(&self, name: &str, ways: &[(&str, Way)]) {
        let bytes = self.copy.read(name);
        for (what, way) in ways {
            match way(&bytes) {
                Some(changed) => self.copy.write(name, &changed),
                None => self.copy.remove(name),
            }
            self.assert_no_safer(&format!("{name} {what}"));
            self.copy.undo(name);
        }
    }
}

fn removed(_: &[u8]) -> Option<Vec<u8>> {
    None
}

fn halved(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes[..bytes.len() / 2].to_vec())
}

fn half_zeroed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let half = bytes.len() / 2;
    bytes[half..].fill(0);
    Some(bytes)
}

fn page_zeroed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let at = bytes.len() / 3 / 8192 * 8192;
    bytes[at..at + 8192].fill(0);
    Some(bytes)
}

fn start_spoiled(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    bytes[..16].fill(0xA5);
    Some(bytes)
}

fn bit_flipped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    bytes[60] ^= 1;
    Some(bytes)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn segment_that_is_missing() {
    for case in ["aligned", "checkpoint", "evict", "reva", "tablespace", "wrapped"] {
        let whole = Whole::of(case);
        assert!(whole.verdicts.values().any(|verdict| verdict == "restore"));
        let segments = whole.segments();
        assert!(segments.len() >= 2, "{segments:?}");
        for name in segments {
            whole.spoil(&name, &[("removed", removed)]);
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn segment_that_is_damaged() {
    for case in ["checkpoint", "wrapped"] {
        let whole = Whole::of(case);
        for name in whole.segments() {
            let ways: [(&str, Way); 4] = [
                ("cut", halved),
                ("zeroed from the middle", half_zeroed),
                ("with a hole", page_zeroed),
                ("without header", start_spoiled),
            ];
            whole.spoil(&name, &ways);
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn several_segments_that_are_missing() {
    let whole = Whole::of("checkpoint");
    let segments = whole.segments();
    for from in 0..segments.len() {
        for name in &segments[from..] {
            whole.copy.remove(name);
        }
        whole.assert_no_safer(&format!("segments from {}", segments[from]));
        segments.iter().for_each(|name| whole.copy.undo(name));
        for name in &segments[..from] {
            whole.copy.remove(name);
        }
        whole.assert_no_safer(&format!("segments before {}", segments[from]));
        segments.iter().for_each(|name| whole.copy.undo(name));
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn control_file_and_headers_that_are_damaged() {
    for case in ["aligned", "checkpoint", "evict", "nochecksums", "reva", "tablespace", "wrapped"] {
        let whole = Whole::of(case);
        whole.spoil(
            "global/pg_control",
            &[("with a wrong CRC", bit_flipped), ("cut", halved), ("spoiled", start_spoiled)],
        );
        for name in whole.copy.names_in("pg_dwbuf") {
            let name = format!("pg_dwbuf/{name}");
            whole.spoil(&name, &[("removed", removed), ("cut", halved), ("without header", start_spoiled)]);
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn other_files_that_are_missing() {
    for (case, names) in [
        // pg_class, its map, the transaction log, the init fork of an unlogged table, the configuration.
        (
            "wrapped",
            &["base/5/1259", "base/5/pg_filenode.map", "pg_xact/0000", "base/5/16418_init", "postgresql.conf"][..],
        ),
        ("checkpoint", &["base/5/1259_vm", "base/5/pg_filenode.map", "global/pg_filenode.map", "postgresql.conf"]),
    ] {
        let whole = Whole::of(case);
        for name in names {
            whole.spoil(name, &[("removed", removed)]);
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn slots_that_are_missing() {
    // Those of the torn pages, by their place in the reports: the next best image is never taken for as good.
    for case in ["checkpoint", "evict", "tablespace", "wrapped"] {
        let whole = Whole::of(case);
        let rows = check(whole.copy.data()).pages;
        for row in rows.iter().filter(|row| row["verdict"] == "restore") {
            let name = format!("pg_dwbuf/{}", row["chosen"]["file"].as_str().unwrap());
            let index = u32::try_from(row["chosen"]["slot_index"].as_u64().unwrap()).unwrap();
            whole.copy.clear_slot(&name, index);
            whole.assert_no_safer(&format!("{name} slot {index} empty"));
            whole.copy.undo(&name);
        }
    }
}
