//! Where in the files of a redo log an LSN is.

use std::path::{Path, PathBuf};

use super::files::InnodbFiles;
use super::redo_log::RedoLog;
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::redo::{REDO_HEAD_BYTES, RedoFormat, RedoHeader};
use crate::parsers::innodb::redo_records::{MTR_LOG_START, REDO_HEADER_BYTES, block_start};

/// Files that a log may have.
const MAX_FILES: usize = 100;

/// A file of the log, without its header.
#[derive(Debug)]
struct Part {
    file: ReadFile,
    /// LSN of the first byte after the header.
    start_lsn: InnodbLsn,
    /// Bytes after the header.
    bytes: u64,
}

/// The files of a log in the order in which they are written.
#[derive(Debug)]
pub struct RedoMap {
    parts: Vec<Part>,
    /// Bytes of a file that are its header.
    header_bytes: u64,
    /// Files that a server makes at least.
    least_files: usize,
    /// For a log that is written over and over: an LSN, and where its byte is among those after the headers. `None` where each file
    /// tells its own.
    ring: Option<(InnodbLsn, u64)>,
}

impl RedoMap {
    /// Opens the files of a log with a checkpoint; `None` where its format is not known to be followed, or nothing tells where in the
    /// files the checkpoint is.
    ///
    /// # Errors
    /// When a file cannot be opened or read.
    pub fn open(data_dir: &Path, files: &InnodbFiles, log: &RedoLog) -> Result<Option<Self>, AccessError> {
        let (Some(format), Some((checkpoint, _))) = (log.format, &log.checkpoint) else { return Ok(None) };
        let header_bytes = if format == RedoFormat::MariadbPhysical { MTR_LOG_START } else { REDO_HEADER_BYTES };
        let mut parts = Vec::new();
        for path in paths(data_dir, files) {
            parts.extend(Part::open(&path, header_bytes)?);
        }
        let least_files = if log.may_have_one_file() { 1 } else { 2 };
        let mut map = Self { parts, header_bytes, least_files, ring: None };
        map.ring = match format {
            RedoFormat::Directory => None,
            RedoFormat::MariadbPhysical => {
                map.parts.first().filter(|first| first.bytes > 0).map(|first| (first.start_lsn, 0))
            }
            RedoFormat::Block | RedoFormat::Old => {
                let start = block_start(checkpoint.lsn);
                let inside = checkpoint.lsn.0.saturating_sub(start.0);
                let at = checkpoint.position.and_then(|at| at.checked_sub(inside)).and_then(|at| map.after_headers(at));
                match at {
                    Some(at) => Some((start, at)),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(map))
    }

    /// How many bytes after headers are before an offset into all files laid end to end.
    fn after_headers(&self, mut offset: u64) -> Option<u64> {
        let mut before: u64 = 0;
        for part in &self.parts {
            let size = part.bytes.saturating_add(self.header_bytes);
            if offset < size {
                return before.checked_add(offset.checked_sub(self.header_bytes)?);
            }
            offset = offset.saturating_sub(size);
            before = before.saturating_add(part.bytes);
        }
        None
    }

    /// Bytes that the files hold after their headers.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// How often the log was written over its files before this LSN; `None` where it is not.
    #[must_use]
    pub fn turn(&self, lsn: InnodbLsn) -> Option<u64> {
        let (origin, _) = self.ring?;
        lsn.0.checked_sub(origin.0)?.checked_div(self.capacity())
    }

    /// True when the files are of one size and as many as servers make of a log that is written over and over.
    #[must_use]
    pub fn has_even_files(&self) -> bool {
        let are_even = self.parts.windows(2).all(|two| matches!(two, [one, next] if one.bytes == next.bytes));
        self.ring.is_none() || (are_even && self.parts.len() >= self.least_files)
    }

    /// True for an LSN at which a log that is written over and over goes on at the start of its first file.
    #[must_use]
    pub fn starts_over(&self, lsn: InnodbLsn) -> bool {
        let Some((origin, at)) = self.ring else { return false };
        let distance = lsn.0.saturating_sub(origin.0);
        distance > 0 && at.saturating_add(distance).checked_rem(self.capacity()) == Some(0)
    }

    /// The file of an LSN, the offset in it, and how many bytes of the log follow there.
    fn locate(&self, lsn: InnodbLsn) -> Option<(&Part, u64, u64)> {
        let Some((origin, at)) = self.ring else {
            let of = |part: &&Part| lsn.0.checked_sub(part.start_lsn.0).is_some_and(|inside| inside < part.bytes);
            let part = self.parts.iter().find(of)?;
            let inside = lsn.0.saturating_sub(part.start_lsn.0);
            return Some((part, inside, part.bytes.saturating_sub(inside)));
        };
        let distance = lsn.0.checked_sub(origin.0)?.checked_rem(self.capacity())?;
        let mut inside = at.checked_add(distance)?.checked_rem(self.capacity())?;
        for part in &self.parts {
            if inside < part.bytes {
                return Some((part, inside, part.bytes.saturating_sub(inside)));
            }
            inside = inside.saturating_sub(part.bytes);
        }
        None
    }

    /// Fills `buf` with the log from an LSN on, as far as files have it; returns the bytes read.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&self, lsn: InnodbLsn, buf: &mut [u8]) -> Result<usize, AccessError> {
        let mut filled: usize = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some((part, inside, left)) = self.locate(InnodbLsn(lsn.0.saturating_add(filled as u64))) else { break };
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            let Some(wanted) = rest.get_mut(..length) else { break };
            let read = part.file.read_at(wanted, self.header_bytes.saturating_add(inside))?;
            filled = filled.saturating_add(read);
            if read < length {
                break;
            }
        }
        Ok(filled)
    }
}

impl Part {
    /// Opens a file; `None` where it has no header.
    fn open(path: &Path, header_bytes: u64) -> Result<Option<Self>, AccessError> {
        let file = ReadFile::open(path, Links::Refuse)?;
        let mut head = vec![0; REDO_HEAD_BYTES];
        let filled = file.read_at(&mut head, 0)?;
        head.truncate(filled);
        let Some(header) = RedoHeader::decode(&head) else { return Ok(None) };
        let bytes = file.size_bytes().saturating_sub(header_bytes);
        Ok(Some(Self { file, start_lsn: header.start_lsn, bytes }))
    }
}

/// The files of the log: those of its directory, or `ib_logfile0` and those that follow it.
fn paths(data_dir: &Path, files: &InnodbFiles) -> Vec<PathBuf> {
    if !files.redo_directory.is_empty() {
        return files.redo_directory.clone();
    }
    let Some(first) = &files.redo_file else { return Vec::new() };
    let first = data_dir.join(first);
    let further = (1..MAX_FILES).map(|number| first.with_file_name(format!("ib_logfile{number}")));
    let further: Vec<PathBuf> = further.take_while(|path| path.symlink_metadata().is_ok()).collect();
    std::iter::once(first).chain(further).collect()
}
