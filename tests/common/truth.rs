//! What is known of the torn writes of the crashed clusters (`truth.json`), and what a check says of them.

use std::fs;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::common::edit::{Key, slot_at, slot_offset};
use crate::common::{Ran, arg, cluster, dwbinspect};

/// A write that was cut.
#[derive(Debug)]
pub struct Torn {
    /// Path of the file.
    pub file: String,
    pub fork: u8,
    pub block: u32,
    /// Bytes of the page that reached the disk.
    pub reached: Range<usize>,
    /// The page as the server meant to write it.
    pub intended: Vec<u8>,
    /// The part that did not reach the disk was there already.
    pub is_invisible: bool,
    /// The page on disk has the checksum of its bytes, as that before the write does.
    pub checksum_fits: bool,
}

impl Torn {
    /// Name of the fork as reports give it.
    pub fn fork_name(&self) -> &'static str {
        ["main", "fsm", "vm", "init"][usize::from(self.fork)]
    }

    /// True when a row is about this page.
    pub fn is_in(&self, row: &Value) -> bool {
        row["path"] == self.file.as_str() && row["fork"] == self.fork_name() && row["block"] == self.block
    }
}

/// The torn writes of a case; none for a clean shutdown.
pub fn torn_writes(case: &str) -> Vec<Torn> {
    let truth = cluster(case).with_file_name("truth");
    if case == "clean" {
        assert!(!truth.exists(), "nothing is torn there");
        return Vec::new();
    }
    let text = fs::read_to_string(truth.join("truth.json")).expect("truth.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("small");
    let read = |entry: &Value| Torn {
        file: entry["file"].as_str().expect("file").to_owned(),
        fork: number(&entry["fork"]) as u8,
        block: number(&entry["block"]) as u32,
        reached: number(&entry["reached_disk"][0])..number(&entry["reached_disk"][1]),
        intended: fs::read(truth.join(entry["intended"].as_str().expect("intended"))).expect("page"),
        is_invisible: entry["disk_equals_intended"].as_bool().expect("flag"),
        checksum_fits: entry["disk_checksum_ok"].as_bool().expect("flag"),
    };
    document["torn"].as_array().expect("list").iter().map(read).collect()
}

/// A page of a relation file.
pub fn page_of(data_dir: &Path, file: &str, block: u32) -> Vec<u8> {
    let bytes = fs::read(data_dir.join(file)).expect("relation file");
    let start = block as usize * 8192;
    bytes.get(start..start + 8192).unwrap_or_default().to_vec()
}

/// True when two pages are the same but for `pd_checksum`.
pub fn same_page(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.get(..8) == other.get(..8) && one.get(10..) == other.get(10..)
}

/// The image of the double write buffer that is to be put back, read from its slot.
pub fn chosen_image(data: &Path, row: &Value) -> Vec<u8> {
    let chosen = &row["chosen"];
    assert_eq!(chosen["source"], "dwb", "{row}");
    let index = u32::try_from(chosen["slot_index"].as_u64().expect("place")).expect("small");
    // Offset of the slot in layouts C, A and B, less the 40 bytes of header before the image; those of A have 48.
    let offset = match data.file_name().and_then(|name| name.to_str()) {
        Some("aligned") => 4096 + u64::from(index) * 12_288,
        Some("reva") => 48 + u64::from(index) * 8240,
        _ => slot_offset(index),
    };
    slot_at(&data.join("pg_dwbuf").join(chosen["file"].as_str().expect("name")), offset).2
}

/// The outcome of `pg_dwbinspect check`.
pub struct Checked {
    pub ran: Ran,
    pub pages: Vec<Value>,
    /// Pages in order, where they were asked for.
    pub others: Vec<Value>,
    pub summary: Value,
}

/// Runs a check of the pages that the double write buffer holds.
pub fn check(data: &Path) -> Checked {
    check_with(data, &["--dwb-only"])
}

/// Runs a check with these arguments.
pub fn check_with(data: &Path, more: &[&str]) -> Checked {
    let mut args = vec!["check", "--format", "ndjson", arg(data)];
    args.extend(more);
    let ran = dwbinspect(&args);
    let mut lines = ran.lines();
    let summary = lines.pop().unwrap_or_else(|| panic!("no output: {}", ran.stderr));
    assert_eq!(summary["type"], "summary", "{}", ran.stderr);
    let of_type = |name: &str| lines.iter().filter(|line| line["type"] == name).cloned().collect();
    Checked { pages: of_type("page"), others: of_type("comparison"), summary, ran }
}

impl Checked {
    /// What is said of a page, if anything.
    pub fn page(&self, key: Key) -> Option<&Value> {
        let fork = ["main", "fsm", "vm", "init"][usize::from(key.fork)];
        self.pages.iter().chain(&self.others).find(|row| {
            (&row["spc_oid"], &row["db_oid"], &row["rel_number"]) == (&key.spc.into(), &key.db.into(), &key.rel.into())
                && row["fork"] == fork
                && row["block"] == key.block
        })
    }

    /// The doubts that keep every page from being called safe, as one text.
    pub fn doubts(&self) -> String {
        let doubts = self.summary["doubts"].as_array().expect("list").iter();
        doubts.map(|doubt| doubt.as_str().expect("text")).collect::<Vec<_>>().join("\n")
    }

    /// True when a doubt has this code.
    pub fn has_doubt(&self, code: &str) -> bool {
        self.summary["doubt_codes"].as_array().expect("list").iter().any(|doubt| doubt == code)
    }

    /// What was not examined, as one text.
    pub fn skipped(&self) -> String {
        let skipped = self.ran.of_type("skipped");
        skipped.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}
