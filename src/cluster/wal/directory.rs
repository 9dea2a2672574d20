//! Directories that hold segments: `pg_wal`, and archives as archivers lay them out; from the paths that a
//! user gives to files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::archive::{OnceSource, Scratch, read_plain, read_stream};
use super::bytes::{StoredAt, StoredWindow};
use super::candidates::{Candidates, DeniedFile, Origin, SegmentCandidate};
use super::codec::peel;
use super::first_page::{
    HEAD_BYTES, NameKind, SecondPage, SegmentName, history_id_of_directory, holds_segment_name, is_ignored_directory,
    is_segment, is_segment_directory, kind_of_name, without_codec,
};
use super::notes::{NoteKind, NoteLevel};
use super::set::WalSetError;
use super::tar::is_tar;
use crate::cluster::control_file::ControlRead;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::{AccessError, Links, ReadFile, open_fifo};
use crate::parsers::wal::page::PageHeader;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

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

/// How often, and after which pause, files are looked for again where one has vanished or is missing.
pub(super) const MAX_LOOKS: usize = 10;
pub(super) const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct PathSource<'i, 'o> {
    pub found: &'i mut Candidates,
    pub scratch: &'i mut Scratch<'o>,
    pub window_bytes: u32,
    pub fifos: bool,
}

impl PathSource<'_, '_> {
    /// Takes a path as the user gave it: a file, a directory, or a pattern.
    pub(super) fn read(mut self, path: &Path) -> Result<(), WalSetError> {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => self.add_directory(path),
            Ok(metadata) if metadata.file_type().is_fifo() && self.fifos => self.add_fifo(path),
            Ok(_) => self.add_file(path, Links::Follow, Origin { in_pg_wal: false, is_of_cluster: false, named: true }),
            Err(error) if error.kind() == ErrorKind::NotFound => self.add_pattern(path, error),
            Err(error) => Err(AccessError::io("examine", path, error).into()),
        }
    }

    /// Reads a FIFO, as standard input: it can be read only once.
    fn add_fifo(&mut self, path: &Path) -> Result<(), WalSetError> {
        let label = path.display().to_string();
        let input = open_fifo(path)?;
        let (found, scratch) = (&mut *self.found, &mut *self.scratch);
        OnceSource { label: &label, found, scratch, window_bytes: self.window_bytes }.read(Box::new(input))
    }

    fn add_pattern(&mut self, path: &Path, error: std::io::Error) -> Result<(), WalSetError> {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']));
        let Some(pattern) = pattern else {
            return Err(AccessError::io("examine", path, error).into());
        };
        let matches =
            glob::glob(pattern).map_err(|source| WalSetError::Pattern { pattern: pattern.to_owned(), source })?;
        let mut found = false;
        for path in matches {
            found = true;
            match path {
                Ok(path) if path.is_dir() => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if !is_ignored_directory(&name) {
                        self.add_directory(&path)?;
                    }
                }
                Ok(path) => {
                    self.add_file(&path, Links::Follow, Origin { in_pg_wal: false, is_of_cluster: false, named: true })?
                }
                Err(error) => {
                    let label = error.path().display().to_string();
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, &label, error.error());
                }
            }
        }
        if found { Ok(()) } else { Err(WalSetError::NoMatch(pattern.to_owned())) }
    }

    fn add_directory(&mut self, path: &Path) -> Result<(), WalSetError> {
        match DataDir::open(path) {
            Ok(data) => self.add_data_dir(&data),
            Err(NotADataDir::NoVersion(_) | NotADataDir::Inside { .. }) => {
                let is_called_so = |path: &Path| path.file_name().is_some_and(|name| name == "pg_wal");
                // It may be named by a link, or as the current directory.
                let is_pg_wal = is_called_so(path)
                    || fs::canonicalize(path).is_ok_and(|real| is_called_so(&real))
                    || path.join("archive_status").symlink_metadata().is_ok_and(|found| found.is_dir());
                self.list(path, Origin { in_pg_wal: is_pg_wal, is_of_cluster: false, named: false }, Below::Read)
            }
            Err(error) => Err(WalSetError::DataDir(error)),
        }
    }

    fn add_data_dir(&mut self, data: &DataDir) -> Result<(), WalSetError> {
        match data.control().trusted() {
            Some(control) if self.found.control.is_none() => {
                self.found.control = Some(control.clone());
                self.found.data_major = Some(data.major());
            }
            Some(_) => {}
            None => {
                let why = match data.control() {
                    ControlRead::Unreadable(error) => error.to_string(),
                    ControlRead::Short(error) => error.to_string(),
                    ControlRead::UnknownVersion { prefix, .. } => {
                        format!("its version {} is unknown", prefix.pg_control_version)
                    }
                    ControlRead::WrongSizes(_, faults) => {
                        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                        faults.join("; ")
                    }
                    ControlRead::Known(_) => "its checksum is wrong".to_owned(),
                };
                let label = data.control_path().display().to_string();
                self.found.notes.add(NoteLevel::Problem, NoteKind::Control, &label, format!("not used: {why}"));
            }
        }
        self.list(
            &data.root().join("pg_wal"),
            Origin { in_pg_wal: true, is_of_cluster: self.found.list.is_empty(), named: false },
            Below::Say,
        )
    }

    pub(super) fn add_file(&mut self, path: &Path, links: Links, origin: Origin) -> Result<(), WalSetError> {
        let label = path.display().to_string();
        let kind = kind_of_name(&path.file_name().unwrap_or_default().to_string_lossy());
        if kind == NameKind::Ignored {
            return Ok(());
        }
        let file = match ReadFile::open(path, links) {
            Ok(file) => file,
            // A dangling symlink has not vanished.
            Err(error) if origin.in_pg_wal && error.is_not_found() && !path.is_symlink() => {
                self.found.note_vanished(&label);
                return Ok(());
            }
            Err(error) => {
                self.note_unreadable(&label, path, &error, origin);
                return Ok(());
            }
        };
        let file_bytes = file.size_bytes();
        let window = Box::new(StoredWindow::whole(file));
        let taken = window.taken();
        if let NameKind::History(tli) = kind {
            self.found.add_history(&label, tli, window, self.window_bytes);
            return Ok(());
        }
        let peeled = match peel(window, HEAD_BYTES, self.window_bytes) {
            Ok(peeled) => peeled,
            Err(error) => {
                self.found.note_unpack_error(&label, taken.load(Ordering::Relaxed), &error);
                return Ok(());
            }
        };
        let path = Arc::new(path.to_owned());
        if is_tar(&peeled.head) && !is_segment(&peeled.head) {
            return match (origin.named, peeled.codecs.is_empty()) {
                (true, true) => match ReadFile::open(&path, links) {
                    Ok(file) => {
                        read_plain(&label, (&path, links, file), self.found, self.window_bytes);
                        Ok(())
                    }
                    Err(error) => {
                        self.note_unreadable(&label, &path, &error, origin);
                        Ok(())
                    }
                },
                (true, false) => read_stream(&label, peeled.stream, self.found, self.scratch, self.window_bytes),
                (false, _) => {
                    let what = "an archive under the name of a segment; pass it as a separate path to read it";
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::NotWal, &label, what);
                    Ok(())
                }
            };
        }
        let name = kind.segment();
        let hole = match &name {
            Some(name) if origin.in_pg_wal && peeled.codecs.is_empty() && peeled.head.iter().all(|&byte| byte == 0) => {
                match self.page_after_zeros(&path, links, name) {
                    Ok(page) => page,
                    Err(error) if error.is_not_found() => {
                        self.found.note_vanished(&label);
                        return Ok(());
                    }
                    // What cannot be read may be such a page.
                    Err(error) => {
                        self.note_unreadable(&label, &path, &error, origin);
                        return Ok(());
                    }
                }
            }
            _ => None,
        };
        let first = match hole {
            Some(page) => {
                let what = "not zero-filled, although its first bytes are";
                self.found.notes.add(NoteLevel::Problem, NoteKind::FirstPageDamaged, &label, what);
                Some((None, Some(page)))
            }
            None => self.found.first_page(&label, name.as_ref(), &peeled.head, origin),
        };
        let Some((header, second)) = first else {
            return Ok(());
        };
        let size_bytes = peeled.codecs.is_empty().then_some(file_bytes);
        let stored_at = StoredAt::File { path, links, file_bytes, offset: 0, size_bytes: file_bytes };
        let codecs = peeled.codecs;
        self.found.list.push(SegmentCandidate { label, name, stored_at, size_bytes, codecs, header, second, origin });
        Ok(())
    }

    /// A page of the named segment in a file that begins with zeros: its start was lost, it was not made beforehand.
    fn page_after_zeros(
        &self,
        path: &Path,
        links: Links,
        name: &SegmentName,
    ) -> Result<Option<SecondPage>, AccessError> {
        let Some(geometry) = self.found.control.as_ref().map(|control| control.geometry) else { return Ok(None) };
        let segment = name.segment(geometry.wal_segment_size);
        let Some(first_lsn) = segment.and_then(|segment| segment.start_lsn(geometry.wal_segment_size)) else {
            return Ok(None);
        };
        let file = ReadFile::open(path, links)?;
        let block_size = usize::try_from(geometry.wal_block_size).unwrap_or(usize::MAX).max(1);
        for offset in (0..file.size_bytes().min(u64::from(geometry.wal_segment_size))).step_by(block_size) {
            let Some(bytes) = file.bytes_at(offset, PageHeader::SHORT_SIZE)? else { break };
            let Ok(header) = PageHeader::decode(Lsn(offset), &bytes) else { continue };
            let Ok(major) = Major::from_magic(header.magic) else { continue };
            if header.page_addr == first_lsn.advanced_by(offset) {
                return Ok(Some(SecondPage { major, first_lsn, block_size: geometry.wal_block_size }));
            }
        }
        Ok(None)
    }

    /// Leaves out the candidates from `known` on whose files have vanished since. A server gives several old segments new
    /// names one after the other; without this, those that it had not reached yet would look as if others were missing
    /// after them.
    pub(super) fn drop_vanished(&mut self, known: usize) {
        for _ in 0..MAX_LOOKS {
            std::thread::sleep(PAUSE);
            let added = self.found.list.split_off(known.min(self.found.list.len()));
            let (gone, here): (Vec<_>, Vec<_>) = added.into_iter().partition(|candidate| match &candidate.stored_at {
                StoredAt::File { path, .. } => {
                    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
                }
                StoredAt::Scratch { .. } => false,
            });
            self.found.list.extend(here);
            gone.iter().for_each(|candidate| self.found.note_vanished(&candidate.label));
            if gone.is_empty() {
                return;
            }
        }
    }

    fn note_unreadable(&mut self, label: &str, path: &Path, error: &AccessError, origin: Origin) {
        if origin.in_pg_wal && error.is_denied() {
            let kind = kind_of_name(&path.file_name().unwrap_or_default().to_string_lossy());
            let name = kind.segment().map(|name| name.digits);
            self.found.denied.push(DeniedFile { path: path.to_owned(), name });
        }
        let what = match error {
            AccessError::NotRegular { kind, .. } => format!("is a {kind}, not a regular file; not read"),
            _ => error.to_string(),
        };
        self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, label, what);
    }
}
