//! Opening and reading files that may be anything, may shrink and may vanish.
//! Also here: a file as others can recognise it: size and SHA-256.

use std::ffi::OsString;
use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Pid};

use crate::parsers::crc::Sha256Sum;

/// Whether a symbolic link as the last part of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Yes: the user named the path.
    Follow,
    /// No: the path was found inside a data directory.
    Refuse,
}

/// Something could not be examined. Names the path and, for an I/O error, the operation.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The operating system refused.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Not a regular file: opening it could block or have effects.
    #[error("{} is a {kind}, not a regular file; not read", path.display())]
    NotRegular {
        /// The path as given.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// Not a directory where the server keeps one.
    #[error("{} is a {kind}, not a directory; not read", path.display())]
    NotADirectory {
        /// The path as given.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// A text file of the server is longer than any server makes it.
    #[error("{} has {size_bytes} bytes, more than the {limit_bytes} expected; not read", path.display())]
    TooLong {
        /// The path as given.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The most that is read.
        limit_bytes: u64,
    },
}

impl AccessError {
    /// Wraps an I/O error with what was tried.
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }

    /// The reason, where the path is told already.
    pub(crate) fn without_path(&self) -> String {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => "missing".to_owned(),
            Self::Io { operation, source, .. } => format!("cannot {operation} it: {source}"),
            Self::NotRegular { kind, .. } => format!("a {kind}, not a regular file; not read"),
            Self::NotADirectory { kind, .. } => format!("a {kind}, not a directory; not read"),
            Self::TooLong { size_bytes, limit_bytes, .. } => {
                format!("{size_bytes} bytes, more than the {limit_bytes} expected; not read")
            }
        }
    }

    /// True when the system does not let this user open what is there.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// True when something other than a directory is at the path to list.
    pub(crate) fn is_no_directory(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory)
    }

    /// True when the file does not exist, as against one that cannot be read.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A regular file opened for reading.
#[derive(Debug)]
pub struct ReadFile {
    file: File,
    path: PathBuf,
    size_bytes: u64,
}

impl ReadFile {
    /// Opens a regular file. Never blocks on a FIFO, never opens a device.
    ///
    /// # Errors
    /// When the file cannot be opened or is not regular.
    pub fn open(path: &Path, links: Links) -> Result<Self, AccessError> {
        let metadata = match links {
            Links::Follow => path.metadata(),
            Links::Refuse => path.symlink_metadata(),
        };
        let found = metadata.map_err(|source| AccessError::io("examine", path, source))?;
        regular(path, found.file_type())?;
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if links == Links::Refuse {
            flags |= OFlags::NOFOLLOW;
        }
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|source| AccessError::io("open", path, source))?;
        // Asked again through the handle: the path may have been exchanged since.
        let metadata = file.metadata().map_err(|source| AccessError::io("examine", path, source))?;
        regular(path, metadata.file_type())?;
        Ok(Self { file, path: path.to_owned(), size_bytes: metadata.len() })
    }

    /// Number of another process that holds a lock on the file, as `fcntl` gives them; `None` where none does, or the system
    /// cannot tell.
    pub(crate) fn locked_by(&self) -> Option<i32> {
        let wanted = Flock { length: 0, ..Flock::from(FlockType::ReadLock) };
        let held = rustix::process::fcntl_getlk(&self.file, &wanted).ok().flatten()?;
        held.pid.map(Pid::as_raw_pid)
    }

    /// The file on its device, by which two paths to one file are known.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn identity(&self) -> Result<(u64, u64), AccessError> {
        let metadata = self.file.metadata().map_err(|source| AccessError::io("examine", &self.path, source))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// The bytes from the beginning on.
    pub(crate) fn into_reader(self) -> impl std::io::Read {
        self.file
    }

    /// The path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size when the file was opened.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fills `buf` from `offset` as far as the file reaches; returns the bytes read, fewer than asked only at the end.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, AccessError> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.file.read_at(&mut buf[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(bytes) => filled = filled.saturating_add(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AccessError::io("read", &self.path, error)),
            }
        }
        Ok(filled)
    }

    /// True when the file system says that all bytes from `from` to `to` lie in a hole, so that they are zero and need no
    /// reading. A file may be of any size at no cost that way.
    pub(crate) fn is_hole(&self, from: u64, to: u64) -> bool {
        if to > self.size_bytes {
            return false;
        }
        match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
            Ok(data) => data >= to,
            // Nothing but a hole up to the end of the file.
            Err(error) => error == Errno::NXIO,
        }
    }

    /// Reads exactly `length` bytes, or `None` when the file ends before.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn bytes_at(&self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, AccessError> {
        let mut buf = vec![0; length];
        Ok((self.read_at(&mut buf, offset)? == length).then_some(buf))
    }
}

/// Opens a FIFO that the user named, as the shell makes one for `<(...)`: waits for its writer, as every program does.
pub(crate) fn open_fifo(path: &Path) -> Result<File, AccessError> {
    let file = OpenOptions::new().read(true).open(path).map_err(|source| AccessError::io("open", path, source))?;
    let metadata = file.metadata().map_err(|source| AccessError::io("examine", path, source))?;
    if metadata.file_type().is_fifo() {
        return Ok(file);
    }
    let kind = kind_of(metadata.file_type()).unwrap_or("file");
    Err(AccessError::NotRegular { path: path.to_owned(), kind })
}

/// Names of the entries of a directory in order, each with what it is itself: a link is not followed.
///
/// # Errors
/// When it cannot be listed to its end, or the system does not tell what an entry is.
pub fn list(directory: &Path) -> Result<Vec<(OsString, FileType)>, AccessError> {
    let failed = |source| AccessError::io("list", directory, source);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(|source| AccessError::io("examine", &entry.path(), source))?;
        found.push((entry.file_name(), kind));
    }
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// Makes sure that a path is a directory itself, not a link to one.
pub(crate) fn real_directory(path: &Path) -> Result<(), AccessError> {
    let metadata = path.symlink_metadata().map_err(|source| AccessError::io("examine", path, source))?;
    match metadata.is_dir() {
        true => Ok(()),
        false => {
            let kind = kind_of(metadata.file_type()).unwrap_or("file");
            Err(AccessError::NotADirectory { path: path.to_owned(), kind })
        }
    }
}

/// Makes sure that a path is a directory or a symbolic link to one, which the server allows for some.
pub(crate) fn linked_directory(path: &Path) -> Result<(), AccessError> {
    let metadata = path.metadata().map_err(|source| AccessError::io("examine", path, source));
    match metadata.map(|metadata| metadata.is_dir()) {
        Ok(true) => Ok(()),
        // The entry itself is reported: a dangling symlink exists.
        Ok(false) | Err(_) => real_directory(path),
    }
}

/// Makes sure that every directory on the way from `root` to a file is one itself, not a link that leads out of the
/// cluster. A tablespace is reached by a link, which the server makes; everything below it is held to the same rule.
pub(crate) fn real_directories(root: &Path, relative: &Path) -> Result<(), AccessError> {
    let mut path = root.to_owned();
    let parent = relative.parent().unwrap_or(Path::new(""));
    let in_tablespace = parent.starts_with("pg_tblspc");
    for (depth, part) in parent.components().enumerate() {
        path.push(part);
        if !(in_tablespace && depth == 1) {
            real_directory(&path)?;
        }
    }
    Ok(())
}

/// Opens a file below the data directory by a way without links but those of tablespaces.
pub(crate) fn open_inside(root: &Path, relative: &Path) -> Result<ReadFile, AccessError> {
    real_directories(root, relative)?;
    ReadFile::open(&root.join(relative), Links::Refuse)
}

/// Reads a whole small file.
pub(crate) fn read_small(path: &Path, links: Links, limit_bytes: u64) -> Result<Vec<u8>, AccessError> {
    let file = ReadFile::open(path, links)?;
    let size_bytes = file.size_bytes();
    if size_bytes > limit_bytes {
        return Err(AccessError::TooLong { path: path.to_owned(), size_bytes, limit_bytes });
    }
    let mut buf = vec![0; usize::try_from(size_bytes).unwrap_or_default()];
    let filled = file.read_at(&mut buf, 0)?;
    buf.truncate(filled);
    Ok(buf)
}

fn regular(path: &Path, file_type: FileType) -> Result<(), AccessError> {
    match kind_of(file_type) {
        None => Ok(()),
        Some(kind) => Err(AccessError::NotRegular { path: path.to_owned(), kind }),
    }
}

/// Kind of a directory entry, or `None` for a regular file.
pub(crate) fn kind_of(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("directory")
    } else if file_type.is_symlink() {
        Some("symbolic link")
    } else if file_type.is_fifo() {
        Some("FIFO")
    } else if file_type.is_socket() {
        Some("socket")
    } else if file_type.is_block_device() || file_type.is_char_device() {
        Some("device")
    } else {
        Some("special file")
    }
}

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub path: PathBuf,
    /// Bytes that were read.
    pub size_bytes: u64,
    /// SHA-256 of them, in hexadecimal digits.
    pub sha256: String,
}

/// Reads a whole file, while `go_on`, called after each piece, allows it. `None`: interrupted.
pub(crate) fn digest_file(
    path: &Path,
    links: Links,
    go_on: &dyn Fn(u64) -> ControlFlow<()>,
) -> Result<Option<FileDigest>, AccessError> {
    let file = ReadFile::open(path, links)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut sum, mut size_bytes) = (Sha256Sum::default(), 0_u64);
    loop {
        let read = file.read_at(&mut piece, size_bytes)?;
        sum.add(piece.get(..read).unwrap_or_default());
        size_bytes = size_bytes.saturating_add(read as u64);
        if read < PIECE_BYTES {
            return Ok(Some(FileDigest { path: path.to_owned(), size_bytes, sha256: sum.text() }));
        }
        if go_on(read as u64).is_break() {
            return Ok(None);
        }
    }
}
