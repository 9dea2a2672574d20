//! What the fuzz targets share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A directory of this process, gone with it; in memory where the machine has such a place.
#[must_use]
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    let made = DIRECTORY.get_or_init(|| {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
    });
    made.path()
}

/// Writes a file of that name into [`directory`], for what reads files alone.
#[must_use]
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory().join(name);
    fs::write(&path, bytes).expect("a temporary file");
    path
}

/// Splits the input into `N` parts: each but the last has its length, two bytes, in front.
#[must_use]
pub fn parts<const N: usize>(mut data: &[u8]) -> [&[u8]; N] {
    let mut parts = [&data[..0]; N];
    let last = N - 1;
    for part in &mut parts[..last] {
        let Some((length, rest)) = data.split_first_chunk::<2>() else { return parts };
        (*part, data) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    }
    parts[last] = data;
    parts
}
