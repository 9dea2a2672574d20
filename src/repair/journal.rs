//! The journal of a repair: the bytes that are overwritten and the bytes that replace them, on disk before the first
//! page is touched. With it a repair that was cut off can be finished or taken back.

#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::Stat;
use serde_json::Value;

use super::held::{HeldDir, split};
use super::journal_dir::{self, Exposure, JournalDir, JournalFile};
use super::manifest::{JournalEntry, Manifest};
use super::outside::{OutsideError, check, open_parent};
use super::plan::{Plan, crc_text};
use crate::cluster::open::AccessError;

/// Longest manifest that is written, and read back, in bytes: some 300,000 pages.
const MANIFEST_LIMIT_BYTES: u64 = 64 << 20;

const MANIFEST: &str = "journal.json";
const BEFORE: &str = "before.pages";
const AFTER: &str = "after.pages";
const PLAN: &str = "plan.json";

/// How the name of a journal beside a data directory begins.
pub(super) const JOURNAL_PREFIX: &str = "pgforensics_undo_";

/// Why a journal cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It would stand in the data that it protects, or that cannot be found out.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// There is something in the directory.
    #[error("journal directory {} is not empty: pass a new or empty one with --journal", .0.display())]
    NotEmpty(PathBuf),
    /// Somebody else could have changed it.
    #[error("{} {why}; no other user may be able to change a journal", path.display())]
    Exposed {
        /// The directory or a file in it.
        path: PathBuf,
        /// How.
        why: Exposure,
    },
    /// There is no room.
    #[error("{} has room for {free_bytes} bytes, the journal needs {needed_bytes}", directory.display())]
    NoRoom {
        /// Where the journal would be.
        directory: PathBuf,
        /// Free bytes.
        free_bytes: u64,
        /// Needed bytes.
        needed_bytes: u64,
    },
    /// Its manifest would not be read back.
    #[error(
        "too many pages for one journal: at page {pages} its journal.json would become larger than the {limit_bytes} bytes that can be read back; repair fewer pages at a time, with --relation or --page"
    )]
    TooManyPages {
        /// Pages up to there.
        pages: usize,
        /// The limit.
        limit_bytes: u64,
    },
    /// The directory holds no journal that was finished, and no log, without which nothing is overwritten.
    #[error("{} has no complete journal: neither journal.json nor a log. No page was overwritten with it, because the \
        log is created first", .0.display())]
    Incomplete(PathBuf),
    /// There was a journal, and its manifest is gone.
    #[error("{} has lost its journal.json, so nothing can be undone with it: {told}; {images}", directory.display())]
    ManifestGone {
        /// The journal.
        directory: PathBuf,
        /// Summary of its log.
        told: String,
        /// Where the old bytes are.
        images: &'static str,
    },
    /// The journal is damaged.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// It no longer exists.
    #[error("the journal {} no longer exists: no page is overwritten without it", .0.display())]
    Gone(PathBuf),
}

/// Makes sure, without making anything, that a journal can be made: see [`NewJournal::create`]. Gives the bytes that are
/// free there.
pub(crate) fn examine_site(directory: &Path, protected: &[PathBuf], needed_bytes: u64) -> Result<u64, JournalError> {
    let (parent, name) = open_parent(directory, protected)?;
    let free_bytes = match parent.stat_of(name) {
        Err(error) if error.is_not_found() => {
            parent.demand_writable()?;
            parent.free_bytes()?
        }
        _ => {
            let held = parent.subdirectory(name, true)?.called(directory);
            check(&held, None, protected)?;
            let held = JournalDir::take(held, &[rustix::process::geteuid().as_raw()])?;
            if !held.held().is_empty()? {
                return Err(JournalError::NotEmpty(directory.to_owned()));
            }
            held.held().demand_writable()?;
            held.held().free_bytes()?
        }
    };
    if free_bytes < needed_bytes {
        return Err(JournalError::NoRoom { directory: directory.to_owned(), free_bytes, needed_bytes });
    }
    Ok(free_bytes)
}

/// Makes sure that a manifest of these entries can be read back.
pub(crate) fn demand_short(entries: &[JournalEntry]) -> Result<(), JournalError> {
    let mut manifest_bytes = 0_u64;
    for (pages, entry) in entries.iter().enumerate() {
        let length = serde_json::to_string(entry).map_or(0, |text| text.len() as u64);
        manifest_bytes = manifest_bytes.saturating_add(length).saturating_add(1);
        if manifest_bytes > MANIFEST_LIMIT_BYTES {
            return Err(JournalError::TooManyPages { pages, limit_bytes: MANIFEST_LIMIT_BYTES });
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct NewJournal {
    directory: JournalDir,
    before: BufWriter<File>,
    after: BufWriter<File>,
    manifest: Manifest,
    manifest_bytes: u64,
}

impl NewJournal {
    /// Makes the directory (or takes an empty one) and its page files. `needed_bytes`: what all pages together take.
    ///
    /// # Errors
    /// When the directory is not empty, is open to others, lies inside `protected` or that cannot be found out, or there is
    /// no room.
    pub fn create(
        directory: &Path,
        protected: &[PathBuf],
        manifest: Manifest,
        plan: &Plan,
        needed_bytes: u64,
    ) -> Result<Self, JournalError> {
        let (parent, name) = open_parent(directory, protected)?;
        let is_new = match parent.stat_of(name) {
            Err(error) if error.is_not_found() => {
                let free_bytes = parent.free_bytes()?;
                if free_bytes < needed_bytes {
                    return Err(JournalError::NoRoom { directory: directory.to_owned(), free_bytes, needed_bytes });
                }
                parent.make_directory(name)?
            }
            _ => false,
        };
        // What was just made is not a link; what the user made may be one.
        let held = parent.subdirectory(name, !is_new)?.called(directory);
        check(&held, None, protected)?;
        let held = JournalDir::take(held, &[rustix::process::geteuid().as_raw()])?;
        if !held.held().is_empty()? {
            return Err(JournalError::NotEmpty(directory.to_owned()));
        }
        let free_bytes = held.held().free_bytes()?;
        if free_bytes < needed_bytes {
            return Err(JournalError::NoRoom { directory: directory.to_owned(), free_bytes, needed_bytes });
        }
        let failed = |error: serde_json::Error| AccessError::io("write", &held.path_of(PLAN), error.into());
        write_synced(&held, PLAN, &serde_json::to_vec_pretty(plan).map_err(failed)?)?;
        let before = BufWriter::new(held.held().create_file(Path::new(BEFORE))?);
        let after = BufWriter::new(held.held().create_file(Path::new(AFTER))?);
        parent.sync()?;
        Ok(Self { directory: held, before, after, manifest, manifest_bytes: 0 })
    }

    pub fn directory(&self) -> &Path {
        self.directory.held().path()
    }

    /// Adds a page.
    ///
    /// # Errors
    /// When the system refuses, or the manifest becomes longer than what is read back.
    pub fn add(&mut self, entry: JournalEntry, before: &[u8], after: &[u8]) -> Result<(), JournalError> {
        let text = serde_json::to_string(&entry).map_err(io::Error::from);
        let text = text.map_err(|source| AccessError::io("write", &self.directory.path_of(MANIFEST), source))?;
        self.manifest_bytes = self.manifest_bytes.saturating_add(text.len() as u64).saturating_add(1);
        self.demand_readable(self.manifest_bytes)?;
        for (file, name, bytes) in [(&mut self.before, BEFORE, before), (&mut self.after, AFTER, after)] {
            let path = self.directory.path_of(name);
            file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
        }
        self.manifest.entries.push(entry);
        Ok(())
    }

    fn demand_readable(&self, manifest_bytes: u64) -> Result<(), JournalError> {
        let (pages, limit_bytes) = (self.manifest.entries.len(), MANIFEST_LIMIT_BYTES);
        if manifest_bytes > limit_bytes {
            return Err(JournalError::TooManyPages { pages, limit_bytes });
        }
        Ok(())
    }

    /// Waits until everything is on disk and writes the manifest, which makes the journal valid.
    ///
    /// # Errors
    /// When the system refuses; then no page may be overwritten.
    pub fn finish(self) -> Result<Journal, JournalError> {
        let text = self.manifest.to_text().map_err(io::Error::from);
        let text = text.map_err(|source| AccessError::io("write", &self.directory.path_of(MANIFEST), source))?;
        self.demand_readable(text.len() as u64)?;
        for (file, name) in [(self.before, BEFORE), (self.after, AFTER)] {
            let path = self.directory.path_of(name);
            let file = file.into_inner().map_err(|error| AccessError::io("write", &path, error.into_error()))?;
            file.sync_all().map_err(|source| AccessError::io("sync", &path, source))?;
        }
        write_synced(&self.directory, MANIFEST, text.as_bytes())?;
        self.directory.held().sync()?;
        Journal::of(self.directory)
    }
}

fn write_synced(directory: &JournalDir, name: &str, bytes: &[u8]) -> Result<(), AccessError> {
    let path = directory.path_of(name);
    let mut file = directory.held().create_file(Path::new(name))?;
    file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
    file.sync_all().map_err(|source| AccessError::io("sync", &path, source))
}

/// A complete journal.
#[derive(Debug)]
pub struct Journal {
    directory: JournalDir,
    manifest: Manifest,
    before: JournalFile,
    /// Only a repair needs them; to put the old bytes back takes no new ones.
    after: Result<JournalFile, JournalError>,
    /// The files without which nothing can be put back, as they were when they were opened.
    kept: [(&'static str, Stat); 2],
}

impl Journal {
    /// Opens a journal of one of the users `owners`. Its pages are checked each time that they are read.
    ///
    /// # Errors
    /// When it is incomplete or damaged, belongs to somebody else, or may be written by others.
    pub fn open(directory: &Path, owners: &[u32]) -> Result<Self, JournalError> {
        Self::of(JournalDir::take(HeldDir::open(directory)?, owners)?)
    }

    fn of(directory: JournalDir) -> Result<Self, JournalError> {
        let file = match directory.open_to_read(MANIFEST) {
            Err(JournalError::Access(error)) if error.is_not_found() => {
                let path = directory.held().path().to_owned();
                let Some(told) = journal_dir::told(&directory)? else { return Err(JournalError::Incomplete(path)) };
                let images = match directory.open_to_read(BEFORE) {
                    Ok(_) => "the old bytes are in before.pages, in the order of the log",
                    Err(_) => "before.pages with the old bytes is also missing, or cannot be read",
                };
                return Err(JournalError::ManifestGone { directory: path, told, images });
            }
            other => other?,
        };
        let stat = file.stat()?;
        let manifest = Manifest::parse(file.read_small(MANIFEST_LIMIT_BYTES)?)
            .map_err(|what| JournalError::Damaged { path: directory.path_of(MANIFEST), what })?;
        let before = directory.open_to_read(BEFORE)?;
        let kept = [(MANIFEST, stat), (BEFORE, before.stat()?)];
        let after = directory.open_to_read(AFTER);
        Ok(Self { directory, manifest, before, after, kept })
    }

    /// Its manifest.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.held().path()
    }

    /// Makes sure that the journal is outside of the data: its log is written while pages are.
    pub(crate) fn demand_outside(&self, protected: &[PathBuf]) -> Result<(), JournalError> {
        Ok(check(self.directory.held(), None, protected)?)
    }

    /// Makes sure that the journal is still where it was.
    pub(crate) fn demand_in_place(&self) -> Result<(), JournalError> {
        let mut in_place = self.directory.held().is_in_place()?;
        for (name, stat) in &self.kept {
            in_place = in_place && self.directory.holds(name, stat)?;
        }
        if in_place { Ok(()) } else { Err(JournalError::Gone(self.directory().to_owned())) }
    }

    /// Waits until all of it is on disk.
    ///
    /// # Errors
    /// When the system refuses, or the new bytes are unusable.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.directory.open_to_read(MANIFEST)?.sync()?;
        self.before.sync()?;
        self.new_bytes()?.sync()?;
        Ok(self.directory.held().sync()?)
    }

    /// When the first repair with this journal began, by its log, if the log says so.
    ///
    /// # Errors
    /// When the log is there but cannot be read.
    pub fn began(&self) -> Result<Option<Timestamp>, JournalError> {
        journal_dir::began(&self.directory)
    }

    /// The old bytes of an entry, checked now.
    ///
    /// # Errors
    /// When they cannot be read, or are not what the manifest says.
    pub fn before(&self, index: usize) -> Result<Vec<u8>, JournalError> {
        self.page(&self.before, index, |entry| &entry.before_crc)
    }

    /// The new bytes of an entry, checked now.
    ///
    /// # Errors
    /// When they cannot be read, or are not what the manifest says.
    pub fn after(&self, index: usize) -> Result<Vec<u8>, JournalError> {
        self.page(self.new_bytes()?, index, |entry| &entry.after_crc)
    }

    fn new_bytes(&self) -> Result<&JournalFile, JournalError> {
        let path = || self.directory.path_of(AFTER);
        let unusable = |error| JournalError::Damaged { path: path(), what: format!("unusable: {error}") };
        self.after.as_ref().map_err(unusable)
    }

    fn page(
        &self,
        file: &JournalFile,
        index: usize,
        crc: impl Fn(&JournalEntry) -> &String,
    ) -> Result<Vec<u8>, JournalError> {
        let damaged = |what: String| JournalError::Damaged { path: file.path().to_owned(), what };
        let entry = self.manifest.entries.get(index).ok_or_else(|| damaged(format!("there is no page {index}")))?;
        let offset = (index as u64).saturating_mul(self.manifest.block_size as u64);
        let bytes = file.bytes_at(offset, self.manifest.block_size)?;
        let bytes = bytes.ok_or_else(|| damaged(format!("it ends before page {index} at {offset:#x}")))?;
        match crc_text(&bytes) == *crc(entry) {
            true => Ok(bytes),
            false => Err(damaged(format!("page {index} at {offset:#x} is not what the manifest says"))),
        }
    }

    /// Adds a line to the audit log and waits until it is on disk.
    ///
    /// # Errors
    /// When the system refuses, or the log is not a file of this journal alone.
    pub fn audit(&self, event: &str, details: Value) -> Result<(), JournalError> {
        journal_dir::append(&self.directory, event, details)
    }
}

/// A new directory beside the data directory.
///
/// # Errors
/// When it cannot be found out where the data directory is.
pub fn beside(root: &Path) -> Result<PathBuf, AccessError> {
    let real = root.canonicalize().map_err(|source| AccessError::io("find", root, source))?;
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let name = format!("{JOURNAL_PREFIX}{time}_{}", std::process::id());
    let (parent, _) = split(&real).ok_or_else(|| AccessError::io("find", root, io::ErrorKind::InvalidInput.into()))?;
    Ok(parent.join(name))
}
