//! Data directories of MySQL and MariaDB, read and never written: tablespaces, the doublewrite buffer, the redo log.
//! Also here: which files of InnoDB a directory has.

pub(crate) mod doublewrite;
pub(crate) mod redo_log;
pub(crate) mod tablespace;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::open::{AccessError, kind_of};
use crate::parsers::innodb::layout::DoublewriteName;

/// True when the files of a directory are those of MySQL or MariaDB.
pub(crate) fn is_innodb(path: &Path) -> bool {
    ["ibdata1", "mysql.ibd"].iter().any(|name| path.join(name).is_file())
}

/// Directories below the data directory that are followed: servers make one level.
const MAX_DEPTH: usize = 4;

/// Directory of the redo log in MySQL 8.0.30 and later.
const REDO_DIRECTORY: &str = "#innodb_redo";

pub(crate) const REDO_NAME: &str = "#ib_redo";

/// Directory of temporary tablespaces, which startup recreates.
const TEMPORARY_DIRECTORY: &str = "#innodb_temp";

/// Files of a data directory in other places. Except `doublewrite` and `data_home`, paths are as the server has them, relative
/// to the data directory or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    pub doublewrite: Option<PathBuf>,
    /// Directory where it may be as well as in the data directory, where none is told.
    pub data_home: Option<PathBuf>,
    pub system: Vec<PathBuf>,
    pub undo: Option<PathBuf>,
    pub redo: Option<PathBuf>,
    pub tablespaces: Vec<PathBuf>,
}

/// Files by their names; their content is not read here.
#[derive(Debug, Default)]
pub struct InnodbFiles {
    /// Files of the system tablespace, in the order of their pages, relative to the data directory.
    pub system: Vec<PathBuf>,
    /// Files that may hold a tablespace each, relative to the data directory, in the order of their names.
    pub spaces: Vec<PathBuf>,
    /// Files with the path of a data file elsewhere.
    pub links: Vec<PathBuf>,
    pub doublewrite: Vec<(DoublewriteName, PathBuf)>,
    pub redo_directory: Vec<PathBuf>,
    /// The first file of the redo log in other servers.
    pub redo_file: Option<PathBuf>,
    /// `mysql.ibd` is there, which no server before MySQL 8 has.
    pub has_dictionary: bool,
    pub skipped: Vec<AccessError>,
}

impl InnodbFiles {
    /// Lists a data directory, and what of it is elsewhere. Files of a directory that cannot be listed are in `skipped`, but for that
    /// of the doublewrite buffer.
    pub fn list(data_dir: &Path, elsewhere: &Elsewhere) -> Result<Self, AccessError> {
        let mut files = Self::default();
        fs::read_dir(data_dir).map_err(|source| AccessError::io("list", data_dir, source))?;
        files.directory(data_dir, Path::new(""), 0);
        if let Some(directory) = &elsewhere.doublewrite {
            files.doublewrite.clear();
            files.doublewrite_files(directory);
            fs::read_dir(directory).map_err(|source| AccessError::io("list", directory, source))?;
        } else if let Some(home) = &elsewhere.data_home {
            files.doublewrite_files(home);
        }
        files.system.sort_by_key(|path| number_after(path, "ibdata"));
        files.add_elsewhere(data_dir, elsewhere);
        files.spaces.sort_by(|one, other| one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes()));
        files.links.sort();
        files.doublewrite.sort();
        files.redo_directory.sort_by_key(|path| (number_after(path, REDO_NAME), path.clone()));
        Ok(files)
    }

    fn add_elsewhere(&mut self, data_dir: &Path, elsewhere: &Elsewhere) {
        if let Some(directory) = &elsewhere.redo {
            (self.redo_file, self.redo_directory) = (None, Vec::new());
            let (several, one) = (directory.join(REDO_DIRECTORY), directory.join("ib_logfile0"));
            if data_dir.join(&several).is_dir() {
                self.subdirectory(data_dir, &several, REDO_DIRECTORY, 0);
            } else if data_dir.join(&one).is_file() {
                self.redo_file = Some(one);
            }
        }
        if !elsewhere.system.is_empty() {
            self.system.clone_from(&elsewhere.system);
        }
        for directory in elsewhere.undo.iter().chain(&elsewhere.tablespaces) {
            self.directory(data_dir, directory, 1);
        }
        if elsewhere.undo.is_some() || !elsewhere.tablespaces.is_empty() {
            // A directory may be named twice, or be one of the data directory.
            let mut seen = BTreeSet::new();
            let real = |path: &PathBuf| fs::canonicalize(data_dir.join(path)).unwrap_or_else(|_| path.clone());
            self.spaces.retain(|path| seen.insert(real(path)));
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.system.is_empty() && self.spaces.is_empty() && self.doublewrite.is_empty()
    }

    fn entries(&mut self, directory: &Path) -> Vec<fs::DirEntry> {
        let listing = match fs::read_dir(directory) {
            Ok(listing) => listing.collect(),
            Err(source) => vec![Err(source)],
        };
        let mut keep = |source| self.skipped.push(AccessError::io("list", directory, source));
        listing.into_iter().filter_map(|entry| entry.map_err(&mut keep).ok()).collect()
    }

    fn directory(&mut self, root: &Path, relative: &Path, depth: usize) {
        for entry in self.entries(&root.join(relative)) {
            let name = entry.file_name();
            let path = relative.join(&name);
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.subdirectory(root, &path, &name, depth);
            } else if !self.file(root, &path, &name, depth) {
                self.skipped.extend(not_followed(&entry));
            }
        }
    }

    fn subdirectory(&mut self, root: &Path, path: &Path, name: &str, depth: usize) {
        if depth == 0 && name == REDO_DIRECTORY {
            let entries = self.entries(&root.join(path)).into_iter();
            let redo = entries.filter(|entry| numbered(&entry.file_name().to_string_lossy(), REDO_NAME));
            self.redo_directory.extend(redo.map(|entry| entry.path()));
        } else if !(depth == 0 && name == TEMPORARY_DIRECTORY) && depth < MAX_DEPTH {
            self.directory(root, path, depth.saturating_add(1));
        }
    }

    /// Adds a file; false when it does not belong to InnoDB.
    fn file(&mut self, root: &Path, path: &Path, name: &str, depth: usize) -> bool {
        if depth == 0 && numbered(name, "ibdata") {
            self.system.push(path.to_owned());
        } else if name.ends_with(".ibd") || name.ends_with(".ibu") || is_undo(name) {
            self.has_dictionary |= depth == 0 && name == "mysql.ibd";
            self.spaces.push(path.to_owned());
        } else if name.ends_with(".isl") {
            self.links.push(path.to_owned());
        } else if depth == 0 && name == "ib_logfile0" {
            self.redo_file = Some(path.to_owned());
        } else {
            return depth == 0 && self.doublewrite_file(name, root.join(path));
        }
        true
    }

    fn doublewrite_files(&mut self, directory: &Path) {
        for entry in self.entries(directory) {
            self.doublewrite_file(&entry.file_name().to_string_lossy(), entry.path());
        }
    }

    fn doublewrite_file(&mut self, name: &str, path: PathBuf) -> bool {
        let name = DoublewriteName::parse(name);
        self.doublewrite.extend(name.map(|name| (name, path)));
        name.is_some()
    }
}

/// Reason why databases under this name may be unread: links to directories are not followed, and the directory that a
/// dangling symlink names may be missing.
fn not_followed(entry: &fs::DirEntry) -> Option<AccessError> {
    let path = entry.path();
    let kind = match entry.file_type() {
        Ok(kind) if kind.is_symlink() => kind,
        Ok(_) => return None,
        Err(source) => return Some(AccessError::io("examine", &path, source)),
    };
    match path.metadata() {
        Ok(found) if !found.is_dir() => None,
        Ok(_) => Some(AccessError::NotADirectory { kind: kind_of(kind).unwrap_or("file"), path }),
        Err(source) => Some(AccessError::io("follow", &path, source)),
    }
}

/// True for this word and a number after it.
fn numbered(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_undo(name: &str) -> bool {
    numbered(name, "undo_") || numbered(name, "undo")
}

pub(crate) fn number_after(path: &Path, word: &str) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches(word).parse().unwrap_or(u64::MAX)
}
