//! The directory of a journal: nobody else may be able to change what is in it, and its files are found through a handle
//! that is held from the check to the last use.
//! Also here: the log of a journal: what was written when, a JSON object a line.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, Stat};
use serde_json::{Value, json};

use super::held::{HeldDir, is_same};
use super::journal::JournalError;
use crate::cluster::open::AccessError;

/// Why a journal is not safe from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    Owner(u32),
    Writable(u32),
    /// The file has so many names: whoever writes it writes something else too.
    Names(u64),
}

impl std::fmt::Display for Exposure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner(user) => write!(f, "belongs to user {user}, who could have written anything into it"),
            Self::Writable(mode) => {
                write!(f, "may be written by other users (mode {mode:04o}); if none did, `chmod go-w` makes it usable")
            }
            Self::Names(count) => write!(f, "has {count} names (hard links), so it may be a file of something else"),
        }
    }
}

#[derive(Debug)]
pub(super) struct JournalDir {
    held: HeldDir,
    owners: Vec<u32>,
}

/// A file of a journal, opened for reading.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
}

impl JournalDir {
    /// Takes a directory that is held, if it belongs to one of `owners` and nobody else may write in it.
    pub(super) fn take(held: HeldDir, owners: &[u32]) -> Result<Self, JournalError> {
        let taken = Self { held, owners: owners.to_vec() };
        let stat = taken.held.stat()?;
        taken.demand_private(taken.held.path(), stat.st_uid, Mode::from_raw_mode(stat.st_mode))?;
        Ok(taken)
    }

    pub(super) fn held(&self) -> &HeldDir {
        &self.held
    }

    /// Path of a file in it, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.held.path().join(name)
    }

    /// Opens a file: regular, of one name, of one of the owners, and not to be written by others.
    pub(super) fn open(&self, name: &str, flags: OFlags) -> Result<(File, u64), JournalError> {
        let (file, metadata) = self.held.open_file(Path::new(name), flags)?;
        let path = self.path_of(name);
        if metadata.nlink() != 1 {
            return Err(JournalError::Exposed { path, why: Exposure::Names(metadata.nlink()) });
        }
        let stat = rustix::fs::fstat(&file).map_err(|error| AccessError::io("examine", &path, error.into()))?;
        self.demand_private(&path, stat.st_uid, Mode::from_raw_mode(stat.st_mode))?;
        Ok((file, metadata.len()))
    }

    pub(super) fn open_to_read(&self, name: &str) -> Result<JournalFile, JournalError> {
        let (file, size_bytes) = self.open(name, OFlags::RDONLY)?;
        Ok(JournalFile { path: self.path_of(name), file, size_bytes })
    }

    /// True as long as the file with this path is the one that `stat` was made of.
    pub(super) fn holds(&self, name: &str, stat: &Stat) -> Result<bool, AccessError> {
        match self.held.stat_of(Path::new(name)) {
            Ok(there) => Ok(is_same(&there, stat)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn demand_private(&self, path: &Path, owner: u32, mode: Mode) -> Result<(), JournalError> {
        let exposed = |why| Err(JournalError::Exposed { path: path.to_owned(), why });
        if !self.owners.contains(&owner) {
            return exposed(Exposure::Owner(owner));
        }
        if mode.intersects(Mode::WGRP | Mode::WOTH) {
            return exposed(Exposure::Writable(mode.bits() & 0o7777));
        }
        Ok(())
    }
}

impl JournalFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn stat(&self) -> Result<Stat, AccessError> {
        rustix::fs::fstat(&self.file).map_err(|error| AccessError::io("examine", &self.path, error.into()))
    }

    pub(super) fn sync(&self) -> Result<(), AccessError> {
        self.file.sync_all().map_err(|source| AccessError::io("sync", &self.path, source))
    }

    /// Reads a whole file that is not too long.
    pub(super) fn read_small(mut self, limit_bytes: u64) -> Result<Vec<u8>, AccessError> {
        if self.size_bytes > limit_bytes {
            return Err(AccessError::TooLong { path: self.path, size_bytes: self.size_bytes, limit_bytes });
        }
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self.file).take(limit_bytes).read_to_end(&mut bytes);
        read.map_err(|source| AccessError::io("read", &self.path, source))?;
        Ok(bytes)
    }

    /// Reads exactly `length` bytes; `None` when the file ends before.
    pub(super) fn bytes_at(&self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, AccessError> {
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(source) => Err(AccessError::io("read", &self.path, source)),
        }
    }
}

/// Name of the log in a journal's directory.
pub(super) const AUDIT: &str = "audit.ndjson";

/// Event that begins a repair; it stands in the log before the first page is overwritten.
const REPAIR_BEGINS: &str = "repair_begins";

/// Bytes of a log that are read, from its beginning on. A log becomes longer with each resume and undo, and nothing that is
/// put back depends on it.
const AUDIT_LIMIT_BYTES: u64 = 64 << 20;

/// Longest line that is read, in bytes; a longer one says nothing.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// Adds a line to the log and waits until it is on disk. Never blocks on a FIFO, never writes through a link, nor into a
/// file that has another name too.
pub(super) fn append(directory: &JournalDir, event: &str, details: Value) -> Result<(), JournalError> {
    let path = directory.path_of(AUDIT);
    let mut line = json!({"time": Timestamp::now().to_string(), "event": event});
    if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
        line.extend(details);
    }
    let (mut file, size_bytes) = directory.open(AUDIT, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
    // A line that was cut off must not take the next one with it.
    let mut last = *b"\n";
    if let Some(at) = size_bytes.checked_sub(1) {
        file.read_exact_at(&mut last, at).map_err(|source| AccessError::io("read", &path, source))?;
    }
    let begin = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{begin}{line}\n").as_bytes()).map_err(|source| AccessError::io("write", &path, source))?;
    file.sync_data().map_err(|source| AccessError::io("sync", &path, source))?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogRead {
    /// No log exists.
    Missing,
    Whole,
    Part,
}

/// Shows the lines of the log one after the other, as long as `visit` wants more. A line that was cut off, is damaged or too
/// long says nothing and is `None`; the others do.
fn read_lines(directory: &JournalDir, mut visit: impl FnMut(Option<&Value>) -> bool) -> Result<LogRead, JournalError> {
    let (file, size_bytes) = match directory.open(AUDIT, OFlags::RDONLY) {
        Ok(opened) => opened,
        Err(JournalError::Access(error)) if error.is_not_found() => return Ok(LogRead::Missing),
        Err(error) => return Err(error),
    };
    let failed = |source: io::Error| AccessError::io("read", &directory.path_of(AUDIT), source);
    let mut reader = BufReader::new(file.take(AUDIT_LIMIT_BYTES));
    let (mut line, mut is_rest) = (Vec::new(), false);
    loop {
        line.clear();
        if reader.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let is_end = line.ends_with(b"\n");
        if !is_rest && !visit(serde_json::from_slice(&line).ok().as_ref()) {
            return Ok(LogRead::Whole);
        }
        is_rest = !is_end;
    }
    Ok(if size_bytes > AUDIT_LIMIT_BYTES { LogRead::Part } else { LogRead::Whole })
}

/// When the first repair with this journal began, by its log; `None` when the log does not say.
pub(super) fn began(directory: &JournalDir) -> Result<Option<Timestamp>, JournalError> {
    let mut began = None;
    let read = read_lines(directory, |line| {
        let Some(line) = line.filter(|line| line["event"] == REPAIR_BEGINS) else { return true };
        began = line["time"].as_str().and_then(|time| time.parse().ok());
        false
    })?;
    match read {
        LogRead::Part => Err(JournalError::Damaged {
            path: directory.path_of(AUDIT),
            what: format!("no repair begins in its first {AUDIT_LIMIT_BYTES} bytes"),
        }),
        LogRead::Missing | LogRead::Whole => Ok(began),
    }
}

/// State of the pages according to the log, in words; `None` without a log, which is created before the first
/// page is overwritten.
pub(super) fn told(directory: &JournalDir) -> Result<Option<String>, JournalError> {
    let (mut begun, mut overwritten, mut put_back) = (false, BTreeSet::new(), 0_usize);
    let mut unreadable = 0_usize;
    let read = read_lines(directory, |line| {
        let Some(line) = line else {
            unreadable = unreadable.saturating_add(1);
            return true;
        };
        begun |= line["event"] == REPAIR_BEGINS;
        let position = (line["path"].to_string(), line["offset"].as_u64());
        match line["what"].as_str() {
            Some("repair") => {
                overwritten.insert(position);
            }
            Some("undo") => put_back += usize::from(overwritten.remove(&position)),
            _ => {}
        }
        true
    })?;
    match read {
        LogRead::Missing => return Ok(None),
        LogRead::Part => {
            return Ok(Some(format!("its log is longer than the {AUDIT_LIMIT_BYTES} bytes that are read")));
        }
        LogRead::Whole => {}
    }
    let told = match (overwritten.len(), put_back) {
        (0, 0) if !begun => "its log records no repair".to_owned(),
        (0, 0) => "its log shows that a repair began; the first page may have been overwritten".to_owned(),
        (0, back) => format!("its log shows that all {back} overwritten pages were undone"),
        (1, _) => "its log shows 1 page that was overwritten and not undone".to_owned(),
        (count, _) => format!("its log shows {count} pages that were overwritten and not undone"),
    };
    Ok(Some(match unreadable {
        0 => told,
        1 => format!("{told}; 1 line of it cannot be read, so there may be more"),
        count => format!("{told}; {count} lines of it cannot be read, so there may be more"),
    }))
}
