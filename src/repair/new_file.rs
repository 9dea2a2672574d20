//! A new file outside the data: where it may stand is found out first, and it is written when its content is known.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::path::{Path, PathBuf};

use super::held::HeldDir;
use super::outside::{OutsideError, open_parent};
use crate::cluster::open::AccessError;

/// A file that does not exist yet, in a directory that is held.
#[derive(Debug)]
pub(crate) struct NewFile {
    directory: HeldDir,
    name: PathBuf,
}

impl NewFile {
    /// Makes sure that a file can be made there: outside of `protected` and of every data directory, and that nothing of
    /// that name is there. Makes nothing yet.
    ///
    /// # Errors
    /// When something is there, it lies inside a protected directory or that cannot be found out, or the system refuses.
    pub fn at(path: &Path, protected: &[PathBuf]) -> Result<Self, OutsideError> {
        let (directory, name) = open_parent(path, protected)?;
        match directory.stat_of(name) {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(OutsideError::Exists(path.to_owned())),
        }
        let name = name.to_owned();
        Ok(Self { directory, name })
    }

    /// Makes the file, writes it, and waits until it is on disk. Where it cannot be written whole, nothing of it stays.
    ///
    /// # Errors
    /// When something of that name is there by now, or the system refuses.
    pub fn write(&self, bytes: &[u8]) -> Result<(), AccessError> {
        self.directory.write_new(&self.name, bytes, true)?;
        self.directory.sync()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_is_overwritten_and_nothing_goes_into_the_data() {
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        fs::create_dir(&data).unwrap();
        let protected = std::slice::from_ref(&data);
        assert!(matches!(NewFile::at(&data.join("x"), protected), Err(OutsideError::Inside { .. })));
        let path = temporary.path().join("new");
        let (first, second) = (NewFile::at(&path, protected).unwrap(), NewFile::at(&path, protected).unwrap());
        assert!(!path.exists());
        first.write(b"first").unwrap();
        assert!(second.write(b"second").is_err());
        assert!(NewFile::at(&path, protected).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}
