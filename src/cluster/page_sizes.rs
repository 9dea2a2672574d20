//! The page size that page headers name, asked of a few files: something to compare the control file with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::open::{Links, ReadFile, real_directory};
use crate::parsers::page::PageHeader;

const ENOUGH_HEADERS: u64 = 64;

/// Files of one directory that are asked at most.
const MAX_FILES: usize = 128;

/// Directories of databases that are asked at most.
const MAX_DATABASES: usize = 4;

/// Sizes that the first pages of shared catalogs and of some databases name, and the number of pages that name each.
/// Pages without content, and those whose header breaks a rule, have no say; nor have files that cannot be read, since
/// reading their pages will report that.
pub(super) fn page_sizes_named(data_dir: &Path) -> BTreeMap<u32, u64> {
    let mut named = BTreeMap::<u32, u64>::new();
    let base = data_dir.join("base");
    let databases = entries_with_numbers(&base, usize::MAX);
    let directories = [data_dir.join("global")].into_iter().chain(databases.into_iter().take(MAX_DATABASES));
    for directory in directories {
        for file in entries_with_numbers(&directory, MAX_FILES) {
            if named.values().sum::<u64>() >= ENOUGH_HEADERS {
                return named;
            }
            if let Some(size) = size_named_by(&file) {
                let count = named.entry(size).or_default();
                *count = count.saturating_add(1);
            }
        }
    }
    named
}

/// Up to `most` entries whose names begin with a digit, in order.
fn entries_with_numbers(directory: &Path, most: usize) -> Vec<PathBuf> {
    let list = real_directory(directory).ok().and_then(|()| fs::read_dir(directory).ok());
    let numbered = list.into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().as_encoded_bytes().first()?.is_ascii_digit().then(|| entry.path())
    });
    let mut paths: Vec<PathBuf> = numbered.take(most).collect();
    paths.sort_unstable();
    paths
}

fn size_named_by(path: &Path) -> Option<u32> {
    let file = ReadFile::open(path, Links::Refuse).ok()?;
    let bytes = file.bytes_at(0, PageHeader::SIZE).ok()??;
    PageHeader::decode(0, &bytes).ok()?.named_page_size()
}
