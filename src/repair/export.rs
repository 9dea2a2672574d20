//! Writes page images into new files, outside every data directory. Never overwrites anything.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::io::Write;
use std::path::{Path, PathBuf};

use super::held::HeldDir;
use super::outside::{OutsideError, open_outside, open_parent};
use crate::cluster::open::AccessError;

/// A directory that takes page images as files.
#[derive(Debug)]
pub struct ExportDir {
    directory: HeldDir,
}

impl ExportDir {
    /// Takes a directory, making it if it does not exist. `protected`: directories that nothing is written into,
    /// besides every data directory.
    ///
    /// # Errors
    /// When the directory lies inside a protected one, or that cannot be found out, or it cannot be made.
    pub fn create(path: &Path, protected: &[PathBuf]) -> Result<Self, OutsideError> {
        match open_outside(path, protected) {
            Err(OutsideError::Access(error)) if error.is_not_found() => {
                let (parent, name) = open_parent(path, protected)?;
                parent.make_directory(name)?;
                let directory = parent.subdirectory(name, false)?;
                Ok(Self { directory })
            }
            opened => Ok(Self { directory: opened? }),
        }
    }

    /// Writes a new file. `name` has no directory part.
    ///
    /// # Errors
    /// When a file of that name exists or the system refuses.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, AccessError> {
        let path = self.directory.path().join(name);
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(AccessError::io("create", &path, std::io::ErrorKind::InvalidInput.into()));
        }
        let mut file = self.directory.create_file(Path::new(name))?;
        file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn existing_file_is_never_overwritten() {
        let temporary = tempfile::tempdir().unwrap();
        let export = ExportDir::create(&temporary.path().join("out"), &[]).unwrap();
        export.write_new("page", b"first").unwrap();
        assert!(export.write_new("page", b"second").is_err());
        assert!(export.write_new("../page", b"elsewhere").is_err());
        assert_eq!(fs::read(temporary.path().join("out/page")).unwrap(), b"first");
        assert!(!temporary.path().join("page").exists());
    }

    #[test]
    fn directory_inside_a_protected_one_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        fs::create_dir(&data).unwrap();
        for inside in ["new", "../data/new", "."] {
            let refused = ExportDir::create(&data.join(inside), std::slice::from_ref(&data));
            assert!(matches!(refused, Err(OutsideError::Inside { .. })), "{inside}");
        }
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}
