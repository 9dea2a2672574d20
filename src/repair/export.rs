//! Writes page images into new files, outside every data directory. Never overwrites anything.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cluster::open::AccessError;

/// Why images are not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The directory lies inside the data that is being looked at.
    #[error("{} lies inside {}: images are not written into a data directory", directory.display(), protected.display())]
    Inside {
        /// Directory that was asked for.
        directory: PathBuf,
        /// Directory that is left alone.
        protected: PathBuf,
    },
}

/// A directory that takes page images as files.
#[derive(Debug)]
pub struct ExportDir {
    path: PathBuf,
}

impl ExportDir {
    /// Takes a directory, making it if it does not exist. `protected`: directories that nothing is written into,
    /// besides every data directory.
    ///
    /// # Errors
    /// When the directory lies inside a protected one or cannot be made.
    pub fn create<'a>(path: &Path, protected: impl IntoIterator<Item = &'a Path>) -> Result<Self, ExportError> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let existing = if path.exists() { path } else { parent };
        let real = fs::canonicalize(existing).map_err(|source| AccessError::io("find", existing, source))?;
        let named = protected.into_iter().filter_map(|protected| fs::canonicalize(protected).ok());
        let data = real.ancestors().filter(|above| above.join("PG_VERSION").exists()).map(Path::to_owned);
        for protected in named.chain(data) {
            if real.starts_with(&protected) {
                return Err(ExportError::Inside { directory: path.to_owned(), protected });
            }
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(source) => return Err(AccessError::io("make directory", path, source).into()),
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Writes a new file. `name` has no directory part.
    ///
    /// # Errors
    /// When a file of that name exists or the system refuses.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ExportError> {
        let path = self.path.join(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|source| AccessError::io("create", &path, source))?;
        file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_never_overwritten() {
        let temporary = tempfile::tempdir().unwrap();
        let export = ExportDir::create(&temporary.path().join("out"), []).unwrap();
        export.write_new("page", b"first").unwrap();
        assert!(export.write_new("page", b"second").is_err());
        assert_eq!(fs::read(temporary.path().join("out/page")).unwrap(), b"first");
    }

    #[test]
    fn directory_inside_a_protected_one_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        fs::create_dir(&data).unwrap();
        for inside in ["new", "../data/new", "."] {
            let refused = ExportDir::create(&data.join(inside), [data.as_path()]);
            assert!(matches!(refused, Err(ExportError::Inside { .. })), "{inside}");
        }
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}
