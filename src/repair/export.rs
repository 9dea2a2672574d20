//! Writes new files outside every data directory: page images, tables. Never overwrites anything.
//! Also here: temporary files without a name, for input that cannot be read twice.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use super::held::HeldDir;
use super::outside::{OutsideError, open_outside, open_parent};
use crate::cluster::open::AccessError;

#[derive(Debug)]
pub(crate) struct ExportDir {
    directory: HeldDir,
}

impl ExportDir {
    /// Takes a directory, making it if it does not exist. `protected`: directories that nothing is written into,
    /// in addition to every data directory.
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

    /// As [`Self::create`], for a directory that nothing else is in.
    pub(crate) fn create_empty(path: &Path, protected: &[PathBuf]) -> Result<Self, OutsideError> {
        let created = Self::create(path, protected)?;
        match created.directory.is_empty()? {
            true => Ok(created),
            false => Err(AccessError::io("write into", path, Errno::NOTEMPTY.into()).into()),
        }
    }

    /// Makes sure that files of these names can be made in it: that none of them is there, and that this user may make files.
    pub(crate) fn check_new<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), AccessError> {
        for name in names {
            match self.directory.stat_of(Path::new(name)) {
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(AccessError::io("create", &self.directory.path().join(name), Errno::EXIST.into())),
            }
        }
        let may = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(self.directory.handle(), ".", may, AtFlags::EACCESS)
            .map_err(|error| AccessError::io("write into", self.directory.path(), error.into()))
    }

    /// Makes a new file below it, and the directories above that file where they do not exist.
    ///
    /// # Errors
    /// When a file of that name exists, the system refuses, or a name is more than a name.
    pub fn begin(&self, directories: &[&str], name: &str) -> Result<NewFile, AccessError> {
        let path = directories.iter().fold(self.directory.path().to_owned(), |path, name| path.join(name)).join(name);
        if directories.iter().chain([&name]).any(|name| Path::new(name).file_name().is_none_or(|file| file != *name)) {
            return Err(AccessError::io("create", &path, io::ErrorKind::InvalidInput.into()));
        }
        let mut inside: Option<HeldDir> = None;
        for name in directories {
            let above = inside.as_ref().unwrap_or(&self.directory);
            above.make_directory(Path::new(name))?;
            inside = Some(above.subdirectory(Path::new(name), false)?);
        }
        let file = inside.as_ref().unwrap_or(&self.directory).create_file(Path::new(name))?;
        Ok(NewFile { file, path, bytes: 0 })
    }

    /// Writes a new file, of which nothing stays where it cannot be written whole. `name` has no directory part.
    pub(crate) fn write_new(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, AccessError> {
        let path = self.directory.path().join(name);
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(AccessError::io("create", &path, io::ErrorKind::InvalidInput.into()));
        }
        self.directory.write_new(Path::new(name), bytes, false)?;
        Ok(path)
    }
}

#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl NewFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all of it is on disk; how many bytes that is.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(self) -> Result<u64, AccessError> {
        self.file.sync_all().map_err(|source| AccessError::io("sync", &self.path, source))?;
        Ok(self.bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes a file in the system's temporary directory that goes away with its handle. No other program can find it.
pub(crate) fn scratch_file() -> io::Result<File> {
    tempfile::tempfile()
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
    fn files_below_an_empty_directory_are_new() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("out");
        let export = ExportDir::create_empty(&path, &[]).unwrap();
        let mut file = export.begin(&["one", "two"], "file").unwrap();
        file.write_all(b"content").unwrap();
        assert_eq!(file.path(), path.join("one/two/file"));
        assert_eq!(file.finish().unwrap(), 7);
        assert_eq!(fs::read(path.join("one/two/file")).unwrap(), b"content");
        assert!(export.begin(&["one", "two"], "file").is_err() && export.begin(&["one", ".."], "file").is_err());
        assert!(export.begin(&["one"], "other").is_ok());
        assert!(matches!(ExportDir::create_empty(&path, &[]), Err(OutsideError::Access(_))));
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
