//! Lets writes that no sync has followed be torn, lost or old.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::draw::Draw;
use super::log::{Unsynced, Write};
use super::settings::WalTail;

/// Bytes of a page.
pub const PAGE: usize = 8192;
/// Bytes that a disk writes as a whole.
const SECTOR: usize = 512;

/// A page by its file, below the data directory, and block.
pub type Place = (PathBuf, u64);

/// A page of which more than one version may be on disk.
pub struct Versions {
    /// The one that was synced, or zeros where the file ended, then each that was written.
    pub all: Vec<Vec<u8>>,
}

/// What became of a page.
pub struct Fault {
    /// Whole pages that this one may be taken for.
    pub versions: Vec<Vec<u8>>,
    pub on_disk: Vec<u8>,
    /// It is none of them.
    pub torn: bool,
}

fn is_wal(path: &Path) -> bool {
    path.starts_with("pg_wal")
}

fn is_buffer(path: &Path) -> bool {
    path.to_string_lossy().starts_with("pg_dwb")
}

/// Pages of relations that were written and not synced.
pub fn pages(unsynced: &Unsynced, data: &Path) -> BTreeMap<Place, Versions> {
    let mut pages: BTreeMap<Place, Versions> = BTreeMap::new();
    for (path, writes) in unsynced.0.iter().filter(|(path, _)| !is_wal(path) && !is_buffer(path)) {
        let length = data.join(path).metadata().map_or(0, |file| file.len());
        for write in writes {
            for (number, after) in write.after.chunks(PAGE).enumerate() {
                let offset = write.offset + (number * PAGE) as u64;
                if after.len() < PAGE || !offset.is_multiple_of(PAGE as u64) || offset + PAGE as u64 > length {
                    continue;
                }
                let known = pages.entry((path.clone(), offset / PAGE as u64)).or_insert_with(|| {
                    let mut before = write.before.get(number * PAGE..).unwrap_or_default().to_vec();
                    before.resize(PAGE, 0);
                    Versions { all: vec![before] }
                });
                if known.all.last().is_some_and(|last| last != after) {
                    known.all.push(after.to_vec());
                }
            }
        }
    }
    pages.retain(|_, versions| versions.all.len() > 1);
    pages
}

/// Draws what became of the pages, and writes that into the data directory.
pub fn tear(data: &Path, pages: &BTreeMap<Place, Versions>, draw: &mut Draw) -> io::Result<BTreeMap<Place, Fault>> {
    let (torn, old) = (draw.one_of(&[1, 5, 20, 50, 90]), draw.one_of(&[0, 0, 10, 40]));
    let mut found = BTreeMap::new();
    for (place, versions) in pages {
        let all = &versions.all;
        let last = all.len() - 1;
        let (is_torn, is_old) = (draw.percent(torn), draw.percent(old));
        if !is_torn && !is_old {
            continue;
        }
        let (first, second) = (draw.below(last), draw.percent(70));
        let second = if second { last } else { draw.between(first + 1, last) };
        let at = if draw.percent(50) { PAGE / 2 } else { draw.between(1, PAGE / SECTOR - 1) * SECTOR };
        let (front, back) = if draw.percent(50) { (first, second) } else { (second, first) };
        let on_disk = if is_torn { [&all[front][..at], &all[back][at..]].concat() } else { all[first].clone() };
        let is_torn = all.iter().all(|one| *one != on_disk);
        if on_disk == all[last] {
            continue;
        }
        write_at(data, place, &on_disk)?;
        let _same = found.insert(place.clone(), Fault { versions: all.clone(), on_disk, torn: is_torn });
    }
    Ok(found)
}

/// Writes a page.
pub fn write_at(data: &Path, place: &Place, page: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(data.join(&place.0))?;
    file.write_all_at(page, place.1 * PAGE as u64)
}

/// Lets WAL that was not synced be on disk in part, or not at all.
pub fn cut_wal(data: &Path, unsynced: &Unsynced, tail: WalTail, draw: &mut Draw) -> io::Result<()> {
    for (path, writes) in unsynced.0.iter().filter(|(path, _)| is_wal(path)) {
        let keep = match tail {
            WalTail::Whole => continue,
            WalTail::Lost => 0,
            WalTail::Sectors => draw.one_of(&[20, 50, 80]),
        };
        write_in_part(&data.join(path), writes, keep, draw)?;
    }
    Ok(())
}

/// Lets slots of the server's double write buffer that were not synced be on disk in part. Returns how many writes these were.
pub fn tear_buffer(data: &Path, unsynced: &Unsynced, draw: &mut Draw) -> io::Result<usize> {
    let mut all = 0;
    for (path, writes) in unsynced.0.iter().filter(|(path, _)| is_buffer(path)) {
        let keep = draw.one_of(&[0, 30, 70, 95, 100]);
        write_in_part(&data.join(path), writes, keep, draw)?;
        all += writes.len();
    }
    Ok(all)
}

/// Takes writes back and makes them again, of each sector this many of a hundred.
fn write_in_part(path: &Path, writes: &[Write], percent: usize, draw: &mut Draw) -> io::Result<()> {
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return Ok(()) };
    for write in writes.iter().rev() {
        let mut before = write.before.clone();
        before.resize(write.after.len(), 0);
        file.write_all_at(&before, write.offset)?;
    }
    for write in writes {
        let whole = draw.percent(50);
        let arrives = draw.percent(percent);
        for (number, part) in sectors(write.offset, &write.after) {
            if if whole { arrives } else { draw.percent(percent) } {
                file.write_all_at(part, number)?;
            }
        }
    }
    Ok(())
}

/// Parts of a write that lie in one sector, with their offsets.
fn sectors(offset: u64, bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let (mut parts, mut at, mut rest) = (Vec::new(), offset, bytes);
    while !rest.is_empty() {
        let length = (SECTOR - (at % SECTOR as u64) as usize).min(rest.len());
        let (part, next) = rest.split_at(length);
        parts.push((at, part));
        at += length as u64;
        rest = next;
    }
    parts
}
