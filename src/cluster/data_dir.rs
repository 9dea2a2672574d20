//! A data directory as a whole.

use std::fs::{DirEntry, FileType};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::backup_files::{RecoverySigns, read_signs};
use super::control_file::{CONTROL_PATH, ControlRead, read_control};
use super::open::{AccessError, Links, kind_of, list, read_small};
use super::running::{ServerSign, look_for_server};
use super::server_files::sudo_name;
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::version::Major;

/// Longest `PG_VERSION` that is read, in bytes.
pub(super) const VERSION_LIMIT_BYTES: u64 = 64;

/// Directories between a data directory and the deepest ones that belong to it: `pg_tblspc/OID/PG_…/OID`.
const DEEPEST: usize = 4;

/// A link in a data directory to a directory that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryLink {
    /// Where it is, below the data directory.
    pub path: PathBuf,
    /// Where it leads.
    pub target: PathBuf,
}

/// Reason why a path is not a data directory.
#[derive(Debug, thiserror::Error)]
pub enum NotADataDir {
    /// The path itself cannot be examined.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The directory belongs to another user, and the system does not let this one read `PG_VERSION`.
    #[error("{error}; run this as the owner: sudo -u {owner}")]
    Denied {
        /// The refusal.
        error: AccessError,
        /// The owner, as `sudo -u` takes it.
        owner: String,
    },
    /// A directory without the file that marks a data directory.
    #[error("{} is not a PostgreSQL data directory (no PG_VERSION). Usual places: /var/lib/postgresql/VERSION/main, \
        /var/lib/pgsql/data", .0.display())]
    NoVersion(PathBuf),
    /// A directory of a data directory, without or with a `PG_VERSION` of its own.
    #[error("{} is not a data directory, but is inside one: did you mean {}?", path.display(), data_dir.display())]
    Inside {
        /// The directory.
        path: PathBuf,
        /// The data directory.
        data_dir: PathBuf,
    },
    /// A directory that holds data directories below it.
    #[error("{} is not a data directory: did you mean {}?", path.display(), list_of(data_dirs))]
    Above {
        /// The directory.
        path: PathBuf,
        /// The data directories.
        data_dirs: Vec<PathBuf>,
    },
    /// `PG_VERSION` names a major that is not known here.
    #[error(
        "{}: PG_VERSION says {version}, which is not supported (supported: {} to {})",
        path.display(), Major::OLDEST.number(), Major::NEWEST.number()
    )]
    Unsupported {
        /// The directory.
        path: PathBuf,
        /// Content of the file.
        version: String,
    },
    /// `PG_VERSION` does not begin with a number.
    #[error("{}: PG_VERSION says {found:?}, which is not a valid version", path.display())]
    BadVersion {
        /// The directory.
        path: PathBuf,
        /// Content of the file.
        found: String,
    },
}

/// A stopped (or running) data directory, opened for reading.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    version: String,
    major: Major,
    control: ControlRead,
}

/// Directories in which servers keep the keys of encrypted relations: Percona's `pg_tde`, EDB's `pg_encryption`.
const KEY_DIRECTORIES: [&str; 2] = ["pg_tde", "pg_encryption"];

/// The directory with keys of encrypted relations, if there is one.
pub(crate) fn encryption_keys(directory: &DataDir) -> Option<&'static str> {
    let is_there = |name: &&str| directory.root().join(name).symlink_metadata().is_ok();
    KEY_DIRECTORIES.into_iter().find(is_there)
}

impl DataDir {
    /// Opens a data directory: reads `PG_VERSION` and the control file.
    ///
    /// # Errors
    /// When the path is not a data directory. A control file that is missing or damaged is not an error here: see
    /// [`Self::control`].
    pub fn open(root: &Path) -> Result<Self, NotADataDir> {
        let metadata = root.metadata().map_err(|source| AccessError::io("examine", root, source))?;
        if !metadata.is_dir() {
            let kind = kind_of(metadata.file_type()).unwrap_or("file");
            return Err(AccessError::NotADirectory { path: root.to_owned(), kind }.into());
        }
        if let Some(data_dir) = enclosing(root) {
            return Err(NotADataDir::Inside { path: root.to_owned(), data_dir });
        }
        let version_path = root.join("PG_VERSION");
        let text = match read_small(&version_path, Links::Refuse, VERSION_LIMIT_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
            Err(error) if error.is_not_found() => return Err(NotADataDir::NoVersion(root.to_owned())),
            Err(error) if error.is_denied() && metadata.uid() != geteuid().as_raw() => {
                return Err(NotADataDir::Denied { error, owner: sudo_name(metadata.uid()) });
            }
            Err(error) => return Err(error.into()),
        };
        let control = read_control(root);
        let major = major_of(root, &text, &control)?;
        Ok(Self { root: root.to_owned(), version: text, major, control })
    }

    /// A data directory that lies in archives at `root`. `version`: what `PG_VERSION` says.
    pub(super) fn in_archives(root: &Path, version: &str, control: ControlRead) -> Result<Self, NotADataDir> {
        let text = version.trim().to_owned();
        let major = major_of(root, &text, &control)?;
        Ok(Self { root: root.to_owned(), version: text, major, control })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Content of `PG_VERSION`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Links in the data directory to directories, as those of tablespaces and of WAL that is kept elsewhere. A link to nothing is
    /// left out.
    pub(crate) fn links(&self) -> Result<Vec<DirectoryLink>, AccessError> {
        let mut found = Vec::new();
        for (path, _) in self.entries()?.into_iter().filter(|(_, kind)| kind.is_symlink()) {
            let link = self.root.join(&path);
            let target = match std::fs::canonicalize(&link) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                target => target.map_err(|source| AccessError::io("read link", &link, source))?,
            };
            if target.is_dir() {
                found.push(DirectoryLink { path, target });
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    /// Everything that belongs to the cluster: the directory, those in it and of its databases, and where the links in it lead.
    pub(crate) fn own_directories(&self) -> Result<Vec<PathBuf>, AccessError> {
        let mut own = vec![self.root.clone()];
        for (path, kind) in self.entries()? {
            let path = self.root.join(path);
            if kind.is_symlink() {
                let leads_to =
                    std::fs::read_link(&path).map_err(|source| AccessError::io("read link", &path, source))?;
                own.push(path.parent().unwrap_or(&self.root).join(leads_to));
            } else if kind.is_dir() {
                // A bind mount may give it another name outside.
                own.push(path);
            }
        }
        Ok(own)
    }

    /// What is in the directory, in `base` and in `pg_tblspc`, by path below it.
    fn entries(&self) -> Result<Vec<(PathBuf, FileType)>, AccessError> {
        let mut all = Vec::new();
        for directory in ["", "base", "pg_tblspc"].map(Path::new) {
            let entries = match list(&self.root.join(directory)) {
                Err(error) if error.is_not_found() && !directory.as_os_str().is_empty() => continue,
                listed => listed?,
            };
            all.extend(entries.into_iter().map(|(name, kind)| (directory.join(name), kind)));
        }
        Ok(all)
    }

    /// Major version by `PG_VERSION`.
    pub const fn major(&self) -> Major {
        self.major
    }

    /// The control file.
    pub const fn control(&self) -> &ControlRead {
        &self.control
    }

    /// Path of the control file.
    pub fn control_path(&self) -> PathBuf {
        self.root.join(CONTROL_PATH)
    }

    /// True when the control file's version is not one that the major in `PG_VERSION` writes; `None` when the control
    /// file's version is not known.
    pub(crate) fn versions_disagree(&self) -> Option<bool> {
        let layout = ControlLayout::of_version(self.control.known()?.prefix.pg_control_version)?;
        Some(!layout.is_written_by(self.major))
    }

    /// Whether a server runs on this directory.
    pub(crate) fn server_sign(&self) -> ServerSign {
        look_for_server(&self.root)
    }

    /// Files that change where recovery begins or how it works.
    pub(crate) fn recovery_signs(&self) -> RecoverySigns {
        read_signs(&self.root, self.control.trusted())
    }
}

/// The major that `PG_VERSION` of `root` names; of two formats with one number the one that `pg_control` has.
fn major_of(root: &Path, text: &str, control: &ControlRead) -> Result<Major, NotADataDir> {
    let digits = text.split('.').next().unwrap_or_default();
    let number = digits.parse();
    let number = number.map_err(|_| NotADataDir::BadVersion { path: root.to_owned(), found: text.to_owned() })?;
    Major::from_files(number, control.known().map(|control| control.prefix.pg_control_version))
        .ok_or_else(|| NotADataDir::Unsupported { path: root.to_owned(), version: text.to_owned() })
}

fn list_of(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    texts.join(" or ")
}

/// Entries of a level that are looked at for a data directory.
const MOST_ENTRIES: usize = 1000;

/// Data directories at most two levels below `path`, as `18/docker` and `15/main` are.
pub(crate) fn data_dirs_below(path: &Path) -> Vec<PathBuf> {
    let children = |path: &PathBuf| -> Vec<PathBuf> {
        let entries = path.read_dir().map(|entries| entries.take(MOST_ENTRIES).flatten().collect::<Vec<_>>());
        let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        entries.unwrap_or_default().into_iter().filter(is_dir).map(|entry| entry.path()).collect()
    };
    let first = children(&path.to_owned());
    let second = first.iter().filter(|path| !is_whole(path)).flat_map(children).take(MOST_ENTRIES);
    let mut found: Vec<PathBuf> = first.iter().cloned().chain(second).filter(|path| is_whole(path)).collect();
    found.sort_unstable();
    found
}

/// True for a directory that is a data directory by itself.
fn is_whole(path: &Path) -> bool {
    path.join("PG_VERSION").is_file() && path.join("global").is_dir()
}

/// The data directory that a directory belongs to as a part. A part that holds `global/` is a data directory by itself.
fn enclosing(path: &Path) -> Option<PathBuf> {
    if is_whole(path) {
        return None;
    }
    let real = path.canonicalize().ok()?;
    real.ancestors().skip(1).take(DEEPEST).find(|path| is_whole(path)).map(Path::to_owned)
}
