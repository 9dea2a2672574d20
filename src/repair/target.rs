//! A relation file opened for changing one page: never through a link, never anything but a regular file.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::OFlags;

use super::held::HeldDir;
use super::manifest::DirectoryId;
use crate::cluster::open::AccessError;

/// A data directory, held open: whatever its path stands for later, files are found in the directory that was checked.
#[derive(Debug)]
pub struct DataRoot {
    held: HeldDir,
}

impl DataRoot {
    /// Opens a data directory that the user named.
    ///
    /// # Errors
    /// When it is not a directory or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, AccessError> {
        Ok(Self { held: HeldDir::open(path)? })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        self.held.path()
    }

    /// Which file of its system it is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn id(&self) -> Result<DirectoryId, AccessError> {
        let stat = self.held.stat()?;
        Ok(DirectoryId { device: stat.st_dev, inode: stat.st_ino })
    }

    pub(super) const fn held(&self) -> &HeldDir {
        &self.held
    }

    /// Opens the directory that a file stands in. Only the link of a tablespace (`pg_tblspc/OID`), and that of `pg_wal`,
    /// is followed; any other link on the way is refused.
    fn directory_of<'a>(&self, relative: &'a Path) -> Result<(Option<HeldDir>, &'a Path), AccessError> {
        let wrong = || AccessError::io("open", &self.path().join(relative), io::ErrorKind::InvalidInput.into());
        let parts = relative.components().map(|part| match part {
            Component::Normal(name) => Ok(Path::new(name)),
            _ => Err(wrong()),
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let Some((name, directories)) = parts.split_last() else { return Err(wrong()) };
        let mut directory = None::<HeldDir>;
        for (depth, part) in directories.iter().enumerate() {
            let above = directories.first().filter(|_| depth == 1);
            let is_link = above.is_some_and(|first| *first == Path::new("pg_tblspc"))
                || (depth == 0 && *part == Path::new("pg_wal"));
            directory = Some(directory.as_ref().unwrap_or(&self.held).subdirectory(part, is_link)?);
        }
        Ok((directory, name))
    }

    fn open_file(&self, relative: &Path, flags: OFlags) -> Result<(File, std::fs::Metadata), AccessError> {
        let (directory, name) = self.directory_of(relative)?;
        directory.as_ref().unwrap_or(&self.held).open_file(name, flags)
    }

    /// Reads a whole small file.
    pub(crate) fn read_small(&self, relative: &Path, limit_bytes: u64) -> Result<Vec<u8>, AccessError> {
        let (mut file, metadata) = self.open_file(relative, OFlags::RDONLY)?;
        let path = self.path().join(relative);
        if metadata.len() > limit_bytes {
            return Err(AccessError::TooLong { path, size_bytes: metadata.len(), limit_bytes });
        }
        let mut bytes = Vec::new();
        let read = io::Read::read_to_end(&mut io::Read::take(&mut file, limit_bytes), &mut bytes);
        read.map_err(|source| AccessError::io("read", &path, source))?;
        Ok(bytes)
    }

    /// Reads up to `length` bytes from `offset` on, fewer where the file ends; `None` when there is no such file.
    pub(crate) fn read_up_to(&self, relative: &Path, offset: u64, length: u32) -> Result<Option<Vec<u8>>, AccessError> {
        let mut file = match self.open_file(relative, OFlags::RDONLY) {
            Ok((file, _)) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        let read = io::Seek::seek(&mut file, io::SeekFrom::Start(offset))
            .and_then(|_| io::Read::read_to_end(&mut io::Read::take(&mut file, length.into()), &mut bytes));
        read.map_err(|source| AccessError::io("read", &self.path().join(relative), source))?;
        Ok(Some(bytes))
    }

    /// Time of the last write of a file or directory; `None` if it is missing.
    pub(crate) fn modified(&self, relative: &Path) -> Result<Option<Timestamp>, AccessError> {
        let path = self.path().join(relative);
        match path.symlink_metadata().and_then(|metadata| metadata.modified()) {
            Ok(time) => Ok(Timestamp::try_from(time).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(AccessError::io("examine", &path, source)),
        }
    }
}

/// A file of a relation, opened for reading and writing, with the directory that it stands in.
#[derive(Debug)]
pub(crate) struct TargetFile {
    path: PathBuf,
    file: File,
    directory: HeldDir,
}

impl TargetFile {
    /// Opens `relative` below the data directory.
    ///
    /// # Errors
    /// When a part of the path is a link or not a directory, or the file is not regular, has several names, or cannot be
    /// opened for writing.
    pub fn open(root: &DataRoot, relative: &Path) -> Result<Self, AccessError> {
        let path = root.path().join(relative);
        let (directory, name) = root.directory_of(relative)?;
        // No relation lies in the data directory itself.
        let directory = directory.ok_or_else(|| AccessError::io("open", &path, io::ErrorKind::InvalidInput.into()))?;
        let (file, metadata) = directory.open_file(name, OFlags::RDWR)?;
        if metadata.nlink() != 1 {
            // No server makes a second name for a relation file: writing here would change another file too.
            return Err(AccessError::NotRegular { path, kind: "file with several names" });
        }
        Ok(Self { path, file, directory })
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
            return Err(fail("read back", io::Error::other("the page differs from what was written")));
        }
        Ok(())
    }

    /// Waits until the directory of the file is on disk.
    pub(crate) fn sync_directory(&self) -> Result<(), AccessError> {
        self.directory.sync()
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

    fn open(root: &tempfile::TempDir) -> DataRoot {
        DataRoot::open(root.path()).unwrap()
    }

    #[test]
    fn page_is_written_in_place() {
        let root = data_dir();
        let target = TargetFile::open(&open(&root), Path::new("base/5/1259")).unwrap();
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
        // The way out and in again leads to a file that is there.
        let back = format!("../{}/base/5/1259", elsewhere.path().file_name().unwrap().display());
        for refused in ["base/5/2", "base/6/5/1259", "base/5/3", &back, "/etc/passwd", "", "base/5"] {
            assert!(TargetFile::open(&open(&root), Path::new(refused)).is_err(), "{refused}");
        }
        fs::create_dir(root.path().join("pg_tblspc")).unwrap();
        symlink(elsewhere.path().join("base"), root.path().join("pg_tblspc/16384")).unwrap();
        assert!(TargetFile::open(&open(&root), Path::new("pg_tblspc/16384/5/1259")).is_ok());
    }
}
