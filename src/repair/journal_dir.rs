//! The directory of a journal: nobody else may be able to change what is in it, and its files are found through a handle
//! that is held from the check to the last use.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};

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
        let read = self.file.by_ref().take(limit_bytes).read_to_end(&mut bytes);
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
