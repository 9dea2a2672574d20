//! Directories that hold segments: `pg_wal`, and archives as archivers lay them out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::candidates::{Origin, SegmentCandidate};
use super::names::{
    NameKind, history_id_of_directory, holds_segment_name, is_ignored_directory, is_segment_directory, kind_of_name,
    without_codec,
};
use super::notes::{NoteKind, NoteLevel};
use super::options::WalSetError;
use super::paths::{MAX_LOOKS, PAUSE, PathSource};
use crate::cluster::open::{AccessError, Links};

/// Endings of archives, without what stands for compression.
const ARCHIVE_SUFFIXES: [&str; 5] = [".tar", ".tgz", ".tbz2", ".txz", ".tzst"];

/// Directories inside each other that are read, or looked through for segments.
const MAX_DEPTH: usize = 4;

/// Entries that are looked through for segments below one directory.
const MAX_ENTRIES: usize = 100_000;

/// Time after which a directory with segments missing is not listed again.
const LOOKS_LIMIT: Duration = Duration::from_secs(1);

/// Treatment of directories of segments below the one that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    Read,
    Say,
}

#[derive(Default)]
struct Listing {
    /// Files that hold WAL or a history by their names.
    files: Vec<(PathBuf, Links)>,
    below: Vec<(OsString, PathBuf)>,
    unrecognized: u64,
    example: Option<String>,
    /// Those of them whose names hold that of a segment, and the first.
    renamed: (u64, Option<String>),
}

impl Listing {
    /// A file whose name is not one of WAL.
    fn note_name(&mut self, name: &str) {
        self.unrecognized = self.unrecognized.saturating_add(1);
        self.example.get_or_insert_with(|| name.to_owned());
        if holds_segment_name(name) {
            self.renamed.0 = self.renamed.0.saturating_add(1);
            self.renamed.1.get_or_insert_with(|| name.to_owned());
        }
    }
}

impl PathSource<'_, '_> {
    /// Lists a directory and takes what holds WAL.
    pub(super) fn list(&mut self, directory: &Path, origin: Origin, below: Below) -> Result<(), WalSetError> {
        let read_dir = || fs::read_dir(directory).map_err(|error| AccessError::io("list", directory, error));
        if !origin.in_pg_wal {
            return self.list_entries(directory, read_dir()?, origin, below, MAX_DEPTH);
        }
        // A running server renames segments while they are listed, in any order, and writes new ones: one may be missed
        // between two that are met. What is missing is missing each time.
        let (before, started) = (self.found.clone(), Instant::now());
        for look in 1.. {
            self.list_entries(directory, read_dir()?, origin, below, MAX_DEPTH)?;
            let added = self.found.list.get(before.list.len()..).unwrap_or_default();
            if look == MAX_LOOKS || started.elapsed() > LOOKS_LIMIT || !has_gap(added) {
                break;
            }
            *self.found = before.clone();
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn list_entries(
        &mut self,
        directory: &Path,
        entries: fs::ReadDir,
        origin: Origin,
        below: Below,
        depth: usize,
    ) -> Result<(), WalSetError> {
        let label = directory.display().to_string();
        let mut listing = Listing::default();
        for entry in entries {
            match entry {
                Ok(entry) => self.sort_entry(&entry, &mut listing),
                Err(error) => {
                    let what = format!("cannot list: {error}");
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, &label, what);
                    break;
                }
            }
        }
        let directories = self.read_below(&mut listing, below);
        if let Some(example) = listing.example {
            let unrecognized = listing.unrecognized;
            let renamed = match listing.renamed {
                (0, _) | (_, None) => String::new(),
                (number, Some(name)) => format!("; {number} of them hold more than the name of a segment, as {name}"),
            };
            let what =
                format!("{unrecognized} files whose names are not WAL names, such as {example}; not checked{renamed}");
            self.found.notes.add(NoteLevel::Note, NoteKind::Unrecognized, &label, what);
        }
        listing.files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let known = self.found.list.len();
        for (file, links) in listing.files {
            self.add_file(&file, links, origin)?;
        }
        if origin.in_pg_wal && self.found.has_vanished {
            self.drop_vanished(known);
        }
        for path in directories {
            match fs::read_dir(&path) {
                Ok(entries) => {
                    let next = if depth > 1 { below } else { Below::Say };
                    self.list_entries(&path, entries, origin, next, depth.saturating_sub(1))?;
                }
                Err(error) => {
                    let label = path.display().to_string();
                    let what = format!("cannot list: {error}");
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, &label, what);
                }
            }
        }
        Ok(())
    }

    /// Finds out by its name what an entry is good for.
    fn sort_entry(&mut self, entry: &DirEntry, listing: &mut Listing) {
        let (name, path) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy();
        // Segments may be links, so may the directories in which they are.
        let (is_dir, links) = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => (path.is_dir(), Links::Follow),
            Ok(kind) => (kind.is_dir(), Links::Refuse),
            Err(_) => (false, Links::Refuse),
        };
        if is_dir {
            if !is_ignored_directory(&text) {
                listing.below.push((name, path));
            }
            return;
        }
        if ARCHIVE_SUFFIXES.iter().any(|suffix| without_codec(&text).ends_with(suffix)) {
            let what = "an archive in a directory of segments is not read: pass it as a separate path to read it";
            let label = path.display().to_string();
            self.found.notes.add(NoteLevel::Skipped, NoteKind::Unrecognized, &label, what);
            return;
        }
        match kind_of_name(&text) {
            NameKind::Ignored => {}
            NameKind::Temporary => {
                let what = "a temporary file of the server, which it removes at startup; not checked";
                let label = path.display().to_string();
                self.found.notes.add(NoteLevel::Note, NoteKind::Unrecognized, &label, what);
            }
            NameKind::Stranger => {
                listing.note_name(&text);
            }
            NameKind::Segment(_) | NameKind::History(_) => listing.files.push((path, links)),
        }
    }

    /// Directories that are read, in order. Says of others if there are segments in them.
    fn read_below(&mut self, listing: &mut Listing, below: Below) -> Vec<PathBuf> {
        let mut read = Vec::new();
        let mut stanzas = Vec::new();
        let mut newest: Option<(u64, PathBuf)> = None;
        for (name, path) in std::mem::take(&mut listing.below) {
            let text = name.to_string_lossy();
            if below == Below::Read && is_segment_directory(&text) {
                read.push(path);
            } else if below == Below::Read && text == "archive" {
                // That of pgBackRest, beside its backups.
                read.push(path);
            } else if below == Below::Read && path.join("archive.info").is_file() {
                stanzas.push(path);
            } else if below == Below::Read
                && let Some(id) = history_id_of_directory(&text)
            {
                // After an upgrade a stanza holds WAL of two clusters.
                let older = match &newest {
                    Some((known, _)) if *known > id => path,
                    _ => match newest.replace((id, path)) {
                        Some((_, older)) => older,
                        None => continue,
                    },
                };
                self.say_not_examined(listing, &text, &older);
            } else {
                self.say_not_examined(listing, &text, &path);
            }
        }
        match stanzas.len() {
            0 | 1 => read.append(&mut stanzas),
            _ => stanzas.iter().for_each(|path| self.say_not_examined(listing, "", path)),
        }
        read.extend(newest.map(|(_, path)| path));
        read.sort_unstable();
        read
    }

    /// Says that a directory was not examined; counted as any other name where there are no segments in it.
    fn say_not_examined(&mut self, listing: &mut Listing, name: &str, path: &Path) {
        let mut left = MAX_ENTRIES;
        let what = match find_segment(path, MAX_DEPTH, &mut left) {
            Some(found) => format!("has segments, such as {found}; not checked: pass it as a separate path to read it"),
            None if left == 0 => "has too many files to look through; not checked".to_owned(),
            None => {
                listing.note_name(name);
                return;
            }
        };
        self.found.notes.add(NoteLevel::Skipped, NoteKind::Unrecognized, &path.display().to_string(), what);
    }
}

/// True for a directory in which nothing has the name of a segment or of an archive, as far as its files were looked through.
pub fn holds_no_wal(directory: &Path) -> bool {
    let is_archive = |name: &str| ARCHIVE_SUFFIXES.iter().any(|suffix| without_codec(name).ends_with(suffix));
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let mut left = MAX_ENTRIES;
    let has_archive = entries.flatten().take(MAX_ENTRIES).any(|entry| is_archive(&entry.file_name().to_string_lossy()));
    !has_archive && find_segment(directory, MAX_DEPTH, &mut left).is_none() && left > 0
}

/// True if segments are missing between others. Segments that wait to be overwritten under another name do not count.
fn has_gap(candidates: &[SegmentCandidate]) -> bool {
    let numbers: BTreeSet<u64> = candidates.iter().filter_map(SegmentCandidate::written_number).collect();
    numbers.iter().zip(numbers.iter().skip(1)).any(|(&one, &next)| next.saturating_sub(one) > 1)
}

/// The name of a segment below a directory; at most `left` entries are looked at. What cannot be listed says so when it is
/// named.
fn find_segment(directory: &Path, depth: usize, left: &mut usize) -> Option<String> {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory).ok()?.map_while(Result::ok) {
        *left = left.checked_sub(1)?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if matches!(kind_of_name(&text), NameKind::Segment(_)) {
            return Some(text.into_owned());
        }
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below.push(entry.path());
        }
    }
    below.iter().find_map(|path| find_segment(path, depth.saturating_sub(1), left))
}
