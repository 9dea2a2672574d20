//! A relation file opened for changing one page: never through a link, never anything but a regular file.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::cluster::open::AccessError;

/// A file of a relation, opened for reading and writing, with the directory that it stands in.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    file: File,
    directory: OwnedFd,
}

impl TargetFile {
    /// Opens `relative` below the data directory `root`. Only the link of a tablespace (`pg_tblspc/OID`) is followed; any
    /// other link on the way is refused.
    ///
    /// # Errors
    /// When a part of the path is a link, is no directory, or the file is not regular, has several names, or cannot be
    /// opened for writing.
    pub fn open(root: &Path, relative: &Path) -> Result<Self, AccessError> {
        let path = root.join(relative);
        let fail = |operation, error: rustix::io::Errno| AccessError::io(operation, &path, error.into());
        let base = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::open(root, base, Mode::empty()).map_err(|error| fail("open", error))?;
        let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
        for part in relative.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                _ => return Err(fail("open", rustix::io::Errno::INVAL)),
            }
        }
        let Some((name, directories)) = parts.split_last() else { return Err(fail("open", rustix::io::Errno::INVAL)) };
        for (depth, part) in directories.iter().enumerate() {
            let is_tablespace = depth == 1 && directories.first().is_some_and(|first| *first == "pg_tblspc");
            let flags = if is_tablespace { base } else { base | OFlags::NOFOLLOW };
            directory =
                rustix::fs::openat(&directory, *part, flags, Mode::empty()).map_err(|error| fail("open", error))?;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, *name, flags, Mode::empty()).map_err(|error| fail("open", error))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|source| AccessError::io("look at", &path, source))?;
        if let Some(kind) = crate::cluster::open::kind_of(metadata.file_type()) {
            return Err(AccessError::NotRegular { path, kind });
        }
        if metadata.nlink() != 1 {
            // No server makes a second name for a relation file: writing here would change another file too.
            return Err(AccessError::NotRegular { path, kind: "file with several names" });
        }
        Ok(Self { path, file, directory })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the page at `offset`; `None` when the file ends inside or before it.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read_page(&self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, AccessError> {
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(source) => Err(AccessError::io("read", &self.path, source)),
        }
    }

    /// Overwrites the page at `offset`, waits until it is on disk, and reads it back. The file never becomes longer: the
    /// caller has read the page before.
    ///
    /// # Errors
    /// When the system refuses, or what is read back is not what was written.
    pub fn write_page(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let fail = |operation, source| AccessError::io(operation, &self.path, source);
        self.file.write_all_at(bytes, offset).map_err(|source| fail("write", source))?;
        self.file.sync_all().map_err(|source| fail("sync", source))?;
        let back = self.read_page(offset, bytes.len())?;
        if back.as_deref() != Some(bytes) {
            return Err(fail("read back", io::Error::other("the page is not what was written")));
        }
        Ok(())
    }

    /// Waits until the directory of the file is on disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn sync_directory(&self) -> Result<(), AccessError> {
        rustix::fs::fsync(&self.directory)
            .map_err(|error| AccessError::io("sync directory of", &self.path, error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn data_dir() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("base/5")).unwrap();
        fs::write(root.path().join("base/5/1259"), vec![7; 16_384]).unwrap();
        root
    }

    #[test]
    fn page_is_written_in_place() {
        let root = data_dir();
        let target = TargetFile::open(root.path(), Path::new("base/5/1259")).unwrap();
        target.write_page(8192, &[9; 8192]).unwrap();
        target.sync_directory().unwrap();
        let bytes = fs::read(root.path().join("base/5/1259")).unwrap();
        assert_eq!((bytes.len(), bytes[8191], bytes[8192]), (16_384, 7, 9));
        assert_eq!(target.read_page(16_384, 8192).unwrap(), None);
    }

    #[test]
    fn links_are_refused_but_for_a_tablespace() {
        let (root, elsewhere) = (data_dir(), data_dir());
        symlink(root.path().join("base/5/1259"), root.path().join("base/5/2")).unwrap();
        symlink(elsewhere.path().join("base"), root.path().join("base/6")).unwrap();
        fs::hard_link(root.path().join("base/5/1259"), root.path().join("base/5/3")).unwrap();
        for refused in ["base/5/2", "base/6/5/1259", "base/5/3", "../data/base/5/1259", "/etc/passwd", "", "base/5"] {
            assert!(TargetFile::open(root.path(), Path::new(refused)).is_err(), "{refused}");
        }
        fs::create_dir(root.path().join("pg_tblspc")).unwrap();
        symlink(elsewhere.path().join("base"), root.path().join("pg_tblspc/16384")).unwrap();
        assert!(TargetFile::open(root.path(), Path::new("pg_tblspc/16384/5/1259")).is_ok());
    }
}
