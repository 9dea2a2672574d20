//! The truth about the torn pages of a crashed cluster, as its fixture tells it.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One torn write.
pub struct Torn {
    /// File, relative to the data directory.
    pub file: String,
    /// Block within the fork.
    pub block: u32,
    /// Bytes of the page that reached the disk.
    pub reached: std::ops::Range<usize>,
    /// The page as the server meant to write it.
    pub intended: Vec<u8>,
    /// The page on disk is the intended one all the same.
    pub is_invisible: bool,
}

/// All torn writes of a case. `data_dir`: where the fixture was unpacked.
pub fn torn_writes(data_dir: &Path) -> Vec<Torn> {
    let truth = truth_dir(data_dir);
    let Ok(text) = fs::read(truth.join("truth.json")) else { return Vec::new() };
    let json: Value = serde_json::from_slice(&text).expect("truth");
    let list = json["torn"].as_array().expect("list");
    list.iter()
        .map(|torn| {
            let at = |place: usize| torn["reached_disk"][place].as_u64().expect("offset") as usize;
            let name = Path::new(torn["intended"].as_str().expect("name"));
            let page = truth.join("pages").join(name.file_name().expect("name"));
            Torn {
                file: torn["file"].as_str().expect("file").to_owned(),
                block: torn["block"].as_u64().expect("block") as u32,
                reached: at(0)..at(1),
                intended: fs::read(page).expect("intended page"),
                is_invisible: torn["disk_equals_intended"].as_bool().expect("bool"),
            }
        })
        .collect()
}

fn truth_dir(data_dir: &Path) -> PathBuf {
    data_dir.parent().expect("parent").join("truth")
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
