//! The journal of a repair: the bytes that are overwritten and the bytes that take their place, on disk before the first
//! page is touched. With it a repair that was cut off can be finished or taken back.

#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audit;
use super::plan::{Plan, PlanPage, crc_text};
use crate::cluster::open::{AccessError, Links, ReadFile, read_small};

/// Number of the journal's format.
const JOURNAL_SCHEMA: u32 = 1;

/// Longest manifest that is read, in bytes: a million pages.
const MANIFEST_LIMIT_BYTES: u64 = 512 << 20;

const MANIFEST: &str = "journal.json";
const BEFORE: &str = "before.pages";
const AFTER: &str = "after.pages";
const PLAN: &str = "plan.json";

/// Why a journal cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// There is something in the directory.
    #[error("{} exists and is not empty: a journal takes a new directory", .0.display())]
    NotEmpty(PathBuf),
    /// The directory lies inside the data directory.
    #[error("{} lies inside {}: a journal is not kept in the data that it protects", directory.display(), protected.display())]
    Inside {
        /// The journal.
        directory: PathBuf,
        /// The data.
        protected: PathBuf,
    },
    /// There is no room.
    #[error("{} has room for {free_bytes} bytes, the journal needs {needed_bytes}", directory.display())]
    NoRoom {
        /// Where the journal would be.
        directory: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// The directory holds no journal that was finished, and no log, without which nothing is overwritten.
    #[error("{} holds no complete journal: it has no journal.json, and no log, which is made before a page is overwritten", .0.display())]
    Incomplete(PathBuf),
    /// There was a journal, and its manifest is gone.
    #[error("{} has lost its journal.json, without which nothing is put back: {told}; {images}", directory.display())]
    ManifestGone {
        /// The journal.
        directory: PathBuf,
        /// What its log tells.
        told: String,
        /// Where the old bytes are.
        images: &'static str,
    },
    /// The journal is damaged.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// One page of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Which page.
    #[serde(flatten)]
    pub page: PlanPage,
    /// Its file, relative to the data directory.
    pub path: String,
    /// Its offset in the file.
    pub offset: u64,
    /// CRC-32C of the old bytes.
    pub before_crc: String,
    /// CRC-32C of the new bytes.
    pub after_crc: String,
}

/// What a journal is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// See `JOURNAL_SCHEMA`.
    pub schema: u32,
    /// The data directory, as it was named.
    pub data_dir: String,
    /// The cluster.
    pub system_identifier: String,
    /// CRC-32C of `pg_control` when the repair began: another one means that a server was started since.
    pub control_crc: String,
    /// Bytes of a page.
    pub block_size: usize,
    /// The pages, in the order of the page files.
    pub entries: Vec<JournalEntry>,
}

impl Manifest {
    /// A manifest without pages.
    #[must_use]
    pub fn new(data_dir: &Path, system_identifier: u64, control_crc: String, block_size: usize) -> Self {
        Self {
            schema: JOURNAL_SCHEMA,
            data_dir: data_dir.display().to_string(),
            system_identifier: system_identifier.to_string(),
            control_crc,
            block_size,
            entries: Vec::new(),
        }
    }
}

/// A journal that is being made.
#[derive(Debug)]
pub struct NewJournal {
    directory: PathBuf,
    before: BufWriter<File>,
    after: BufWriter<File>,
    manifest: Manifest,
}

impl NewJournal {
    /// Makes the directory (or takes an empty one) and its page files. `needed_bytes`: what all pages together take.
    ///
    /// # Errors
    /// When the directory is not empty, lies inside `protected`, or there is no room.
    pub fn create(
        directory: &Path,
        protected: &[PathBuf],
        manifest: Manifest,
        plan: &Plan,
        needed_bytes: u64,
    ) -> Result<Self, JournalError> {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let existing = if directory.exists() { directory } else { parent };
        let real = fs::canonicalize(existing).map_err(|source| AccessError::io("find", existing, source))?;
        for protected in protected.iter().filter_map(|path| fs::canonicalize(path).ok()) {
            if real.starts_with(&protected) {
                return Err(JournalError::Inside { directory: directory.to_owned(), protected });
            }
        }
        let room = rustix::fs::statvfs(&real).map_err(|error| AccessError::io("look at", &real, error.into()))?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        if free_bytes < needed_bytes {
            return Err(JournalError::NoRoom { directory: real, free_bytes, needed_bytes });
        }
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut entries =
                    fs::read_dir(directory).map_err(|source| AccessError::io("list", directory, source))?;
                if entries.next().is_some() {
                    return Err(JournalError::NotEmpty(directory.to_owned()));
                }
            }
            Err(source) => return Err(AccessError::io("make directory", directory, source).into()),
        }
        let text = serde_json::to_vec_pretty(plan).map_err(io::Error::from);
        let text = text.map_err(|source| AccessError::io("write", &directory.join(PLAN), source))?;
        write_synced(&directory.join(PLAN), &text)?;
        let before = BufWriter::new(create(&directory.join(BEFORE))?);
        let after = BufWriter::new(create(&directory.join(AFTER))?);
        sync_directory(parent)?;
        Ok(Self { directory: directory.to_owned(), before, after, manifest })
    }

    /// Adds a page.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add(&mut self, entry: JournalEntry, before: &[u8], after: &[u8]) -> Result<(), JournalError> {
        for (file, name, bytes) in [(&mut self.before, BEFORE, before), (&mut self.after, AFTER, after)] {
            let path = self.directory.join(name);
            file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
        }
        self.manifest.entries.push(entry);
        Ok(())
    }

    /// Waits until everything is on disk and writes the manifest, which makes the journal valid.
    ///
    /// # Errors
    /// When the system refuses; then no page may be overwritten.
    pub fn finish(self) -> Result<Journal, JournalError> {
        for (file, name) in [(self.before, BEFORE), (self.after, AFTER)] {
            let path = self.directory.join(name);
            let file = file.into_inner().map_err(|error| AccessError::io("write", &path, error.into_error()))?;
            file.sync_all().map_err(|source| AccessError::io("sync", &path, source))?;
        }
        let path = self.directory.join(MANIFEST);
        let body = serde_json::to_string(&self.manifest).map_err(io::Error::from);
        let body = body.map_err(|source| AccessError::io("write", &path, source))?;
        let text = format!("{body}\n{}\n", crc_text(body.as_bytes()));
        write_synced(&path, text.as_bytes())?;
        sync_directory(&self.directory)?;
        Journal::open(&self.directory)
    }
}

/// A complete journal.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    manifest: Manifest,
    before: ReadFile,
    after: ReadFile,
}

impl Journal {
    /// Opens a journal and checks it whole: manifest and every page.
    ///
    /// # Errors
    /// When it is incomplete or damaged.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        let path = directory.join(MANIFEST);
        let bytes = match read_small(&path, Links::Refuse, MANIFEST_LIMIT_BYTES) {
            Err(error) if error.is_not_found() && directory.is_dir() => {
                let directory = directory.to_owned();
                let Some(told) = audit::told(&directory)? else { return Err(JournalError::Incomplete(directory)) };
                let images = match directory.join(BEFORE).is_file() {
                    true => "the old bytes are in before.pages, in the order of the log",
                    false => "before.pages with the old bytes is gone too",
                };
                return Err(JournalError::ManifestGone { directory, told, images });
            }
            other => other?,
        };
        let damaged = |path: &Path, what: &str| JournalError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let text = String::from_utf8(bytes).map_err(|_| damaged(&path, "not UTF-8"))?;
        let mut lines = text.lines();
        let (body, crc) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if crc_text(body.as_bytes()) != crc {
            return Err(damaged(&path, "its CRC is not that of its content"));
        }
        let manifest: Manifest =
            serde_json::from_str(body).map_err(|error| damaged(&path, &format!("not a manifest: {error}")))?;
        if manifest.schema != JOURNAL_SCHEMA {
            return Err(damaged(&path, "made by another version of this program"));
        }
        let sane = u32::try_from(manifest.block_size).is_ok_and(crate::types::is_block_size);
        if !sane {
            return Err(damaged(&path, "page size that no server has"));
        }
        let open = |name| ReadFile::open(&directory.join(name), Links::Refuse);
        let journal = Self { directory: directory.to_owned(), manifest, before: open(BEFORE)?, after: open(AFTER)? };
        for (place, entry) in journal.manifest.entries.iter().enumerate() {
            for (file, expected) in [(&journal.before, &entry.before_crc), (&journal.after, &entry.after_crc)] {
                if crc_text(&journal.page(file, place)?) != *expected {
                    return Err(damaged(file.path(), &format!("page {place} is not what the manifest says")));
                }
            }
        }
        Ok(journal)
    }

    /// What it is about.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The old bytes of an entry.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn before(&self, place: usize) -> Result<Vec<u8>, JournalError> {
        self.page(&self.before, place)
    }

    /// The new bytes of an entry.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn after(&self, place: usize) -> Result<Vec<u8>, JournalError> {
        self.page(&self.after, place)
    }

    fn page(&self, file: &ReadFile, place: usize) -> Result<Vec<u8>, JournalError> {
        let offset = (place as u64).saturating_mul(self.manifest.block_size as u64);
        file.bytes_at(offset, self.manifest.block_size)?.ok_or_else(|| JournalError::Damaged {
            path: file.path().to_owned(),
            what: format!("it ends before page {place}"),
        })
    }

    /// Adds a line to the audit log and waits until it is on disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn audit(&self, event: &str, details: Value) -> Result<(), JournalError> {
        Ok(audit::append(&self.directory, event, details)?)
    }
}

fn create(path: &Path) -> Result<File, AccessError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|source| AccessError::io("create", path, source))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), AccessError> {
    let mut file = create(path)?;
    file.write_all(bytes).map_err(|source| AccessError::io("write", path, source))?;
    file.sync_all().map_err(|source| AccessError::io("sync", path, source))
}

fn sync_directory(path: &Path) -> Result<(), AccessError> {
    let flags = OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path);
    opened.and_then(|directory| directory.sync_all()).map_err(|source| AccessError::io("sync directory", path, source))
}
