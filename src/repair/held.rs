//! A directory that is held open. Its files are found through the handle, so the directory that was checked is the one that
//! is read and written, whatever its path stands for by then.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::cluster::open::{AccessError, kind_of};

#[derive(Debug)]
pub(super) struct HeldDir {
    path: PathBuf,
    handle: OwnedFd,
}

/// True when both are the same file.
pub(super) fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl HeldDir {
    /// Opens a directory that the user named: a link is followed.
    pub(super) fn open(path: &Path) -> Result<Self, AccessError> {
        let handle = retry_on_intr(|| rustix::fs::open(path, DIRECTORY, Mode::empty()))
            .map_err(|error| AccessError::io("open", path, error.into()))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    pub(super) fn subdirectory(&self, name: &Path, follow: bool) -> Result<Self, AccessError> {
        let path = self.path.join(name);
        let flags = if follow { DIRECTORY } else { DIRECTORY | OFlags::NOFOLLOW };
        match retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::empty())) {
            Ok(handle) => Ok(Self { path, handle }),
            Err(error) => Err(AccessError::io("open", &path, error.into())),
        }
    }

    /// Sets the path that the user gave.
    pub(super) fn called(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn stat(&self) -> Result<Stat, AccessError> {
        rustix::fs::fstat(&self.handle).map_err(|error| self.failed("examine", Path::new(""), error))
    }

    /// Metadata of an entry; a link is not followed.
    pub(super) fn stat_of(&self, name: &Path) -> Result<Stat, AccessError> {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed("examine", name, error))
    }

    /// True as long as its path stands for it.
    pub(super) fn is_in_place(&self) -> Result<bool, AccessError> {
        match rustix::fs::stat(&self.path) {
            Ok(there) => Ok(is_same(&there, &self.stat()?)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(self.failed("examine", Path::new(""), error)),
        }
    }

    /// Opens a regular file in it. Never blocks on a FIFO, never follows a link, never opens a device.
    pub(super) fn open_file(&self, name: &Path, flags: OFlags) -> Result<(File, Metadata), AccessError> {
        let path = self.path.join(name);
        // Before it is opened: to open a device can have effects. A file to create need not exist.
        match self.stat_of(name) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {}
                FileType::Symlink => return Err(AccessError::NotRegular { path, kind: "symbolic link" }),
                FileType::Directory => return Err(AccessError::NotRegular { path, kind: "directory" }),
                FileType::Fifo => return Err(AccessError::NotRegular { path, kind: "FIFO" }),
                _ => return Err(AccessError::NotRegular { path, kind: "special file" }),
            },
            Err(error) if error.is_not_found() && flags.contains(OFlags::CREATE) => {}
            Err(error) => return Err(error),
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR));
        let file = File::from(opened.map_err(|error| self.failed("open", name, error))?);
        let metadata = file.metadata().map_err(|source| AccessError::io("examine", &path, source))?;
        match kind_of(metadata.file_type()) {
            None => Ok((file, metadata)),
            Some(kind) => Err(AccessError::NotRegular { path, kind }),
        }
    }

    /// Makes a file in it, for this user alone. Nothing that is there is opened.
    pub(super) fn create_file(&self, name: &Path) -> Result<File, AccessError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR));
        opened.map(File::from).map_err(|error| self.failed("create", name, error))
    }

    /// Makes a file with this content; `is_synced`: and waits until it is on disk. Where that fails, nothing of the file stays:
    /// half of a page or of a plan under its name would look complete.
    pub(super) fn write_new(&self, name: &Path, bytes: &[u8], is_synced: bool) -> Result<(), AccessError> {
        let fail = |operation, source| AccessError::io(operation, &self.path.join(name), source);
        let mut file = self.create_file(name)?;
        let written = file.write_all(bytes).map_err(|source| fail("write", source));
        let sync = || if is_synced { file.sync_all().map_err(|source| fail("sync", source)) } else { Ok(()) };
        written.and_then(|()| sync()).inspect_err(|_| self.discard(name, &file))
    }

    /// Removes a file that was made in it, unless its name stands for another one by now. That it stays where that fails, too, is
    /// no worse than what failed before.
    fn discard(&self, name: &Path, file: &File) {
        let is_it =
            rustix::fs::fstat(file).is_ok_and(|made| self.stat_of(name).is_ok_and(|there| is_same(&made, &there)));
        if is_it {
            rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()).ok();
        }
    }

    /// Makes a directory in it, for this user alone; false when something of that name is there.
    pub(super) fn make_directory(&self, name: &Path) -> Result<bool, AccessError> {
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(self.failed("make directory", name, error)),
        }
    }

    /// True when nothing is in it.
    pub(super) fn is_empty(&self) -> Result<bool, AccessError> {
        Ok(!self.has_name(Path::new("."), |_| true)?)
    }

    /// True when a directory that is found from this one has something in it whose name is like that.
    pub(super) fn has_name(&self, directory: &Path, is_like: impl Fn(&[u8]) -> bool) -> Result<bool, AccessError> {
        let failed = |error| self.failed("list", directory, error);
        let opened = retry_on_intr(|| rustix::fs::openat(&self.handle, directory, DIRECTORY, Mode::empty()));
        for entry in rustix::fs::Dir::new(opened.map_err(failed)?).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if ![&b"."[..], b".."].contains(&name) && is_like(name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bytes that are free for this user.
    pub(super) fn free_bytes(&self) -> Result<u64, AccessError> {
        let room = rustix::fs::fstatvfs(&self.handle).map_err(|error| self.failed("examine", Path::new(""), error))?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Fails when this user cannot make anything in it. Nothing is made to find that out.
    pub(super) fn demand_writable(&self) -> Result<(), AccessError> {
        let failed = |error| self.failed("write into", Path::new(""), error);
        rustix::fs::accessat(&self.handle, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(failed)?;
        let room = rustix::fs::fstatvfs(&self.handle).map_err(failed)?;
        // A file system without a count of its files has no limit of them.
        if room.f_files > 0 && room.f_favail == 0 { Err(failed(Errno::NOSPC)) } else { Ok(()) }
    }

    /// Waits until its entries are on disk.
    pub(super) fn sync(&self) -> Result<(), AccessError> {
        retry_on_intr(|| rustix::fs::fsync(&self.handle))
            .map_err(|error| self.failed("sync directory", Path::new(""), error))
    }

    pub(super) fn handle(&self) -> impl AsFd + '_ {
        self.handle.as_fd()
    }

    fn failed(&self, operation: &'static str, name: &Path, error: Errno) -> AccessError {
        let path = if name.as_os_str().is_empty() { self.path.clone() } else { self.path.join(name) };
        AccessError::io(operation, &path, error.into())
    }
}

/// A path as directory and name; a path without a directory stands in the current one. `None` for `/` and what ends in
/// `..`.
pub(super) fn split(path: &Path) -> Option<(&Path, &Path)> {
    let name = path.file_name()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((parent, Path::new(name)))
}
