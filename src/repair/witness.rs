//! Proof that no server ran since a repair began. A server that is started writes `pg_control` before it touches a
//! page, and WAL after its end; the bytes of both are compared, never a checksum that they carry themselves: the CRC-32C of
//! bytes followed by their own CRC-32C is the same number for all bytes.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::crc_text;
use super::target::DataRoot;
use crate::analysis::dwb::format::directories;
use crate::cluster::control_file::CONTROL_PATH;
use crate::cluster::open::AccessError;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile};
use crate::parsers::crc::sha256_text;
use crate::parsers::dwb::DwbDirectory;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

/// Pages of WAL that are kept from its end on: the next record begins in the first of them or in the second.
const WAL_PAGES: u32 = 2;

/// Files that startup writes even if it fails.
const STARTED_FILES: [&str; 4] = [CONTROL_PATH, "postmaster.opts", "postmaster.pid", "pg_wal"];

/// `pg_control` as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlMark {
    /// SHA-256 of the whole file.
    pub sha256: String,
    /// When the server wrote it, by its own field, for readers.
    pub written: Option<String>,
    /// Its checkpoint, for readers.
    pub checkpoint_lsn: Option<String>,
}

impl ControlMark {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(root: &DataRoot) -> Result<Self, AccessError> {
        Ok(Self::of(&root.read_small(Path::new(CONTROL_PATH), CONTROL_FILE_SIZE as u64 * 2)?))
    }

    fn of(bytes: &[u8]) -> Self {
        let control = ControlFile::decode(bytes).ok().flatten();
        Self {
            sha256: sha256_text(bytes),
            written: control.as_ref().and_then(written).map(|time| time.to_string()),
            checkpoint_lsn: control.map(|control| control.checkpoint_lsn.to_string()),
        }
    }
}

impl std::fmt::Display for ControlMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unknown = "unknown".to_owned();
        let (written, lsn) = (self.written.as_ref(), self.checkpoint_lsn.as_ref());
        write!(f, "written {}, checkpoint {}", written.unwrap_or(&unknown), lsn.unwrap_or(&unknown))
    }
}

fn written(control: &ControlFile) -> Option<Timestamp> {
    Timestamp::from_second(control.time_s).ok()
}

/// The position in `pg_wal` where a server would continue writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalMark {
    /// End of WAL.
    pub lsn: String,
    /// The segment, relative to the data directory.
    pub path: String,
    /// Offset of the page in it.
    pub offset: u64,
    /// Bytes from there on that are compared, fewer where the file ends.
    pub length: u32,
    /// SHA-256 of them; `None` when there is no such file.
    pub sha256: Option<String>,
}

impl WalMark {
    /// Reads the pages from the end of WAL on; `None` when no segment can have this position.
    ///
    /// # Errors
    /// When the segment is there and cannot be read.
    pub fn read(root: &DataRoot, control: &ControlFile, end_lsn: Lsn) -> Result<Option<Self>, AccessError> {
        let (page, segment) = (u64::from(control.geometry.wal_block_size), control.geometry.wal_segment_size);
        let within = end_lsn.0.checked_rem(u64::from(segment)).unwrap_or_default();
        let holding = WalSegment::holding(control.checkpoint.tli, end_lsn, segment);
        let Some(name) = holding.and_then(|holding| holding.file_name(segment)) else { return Ok(None) };
        let mut mark = Self {
            lsn: end_lsn.to_string(),
            path: format!("pg_wal/{name}"),
            offset: within.saturating_sub(within.checked_rem(page).unwrap_or_default()),
            length: control.geometry.wal_block_size.saturating_mul(WAL_PAGES),
            sha256: None,
        };
        mark.sha256 = mark.look(root)?;
        Ok(Some(mark))
    }

    fn look(&self, root: &DataRoot) -> Result<Option<String>, AccessError> {
        let bytes = root.read_up_to(Path::new(&self.path), self.offset, self.length)?;
        Ok(bytes.map(|bytes| sha256_text(&bytes)))
    }
}

/// Bytes that startup would have changed, from when a repair began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// When it was taken.
    pub taken: String,
    /// `pg_control`.
    pub control: ControlMark,
    /// The end of WAL, where it is known.
    pub wal_end: Option<WalMark>,
}

impl Witness {
    /// A witness of this moment.
    pub fn now(control: ControlMark, wal_end: Option<WalMark>) -> Self {
        Self { taken: Timestamp::now().to_string(), control, wal_end }
    }

    /// Sign that a server was started since, if any.
    pub(crate) fn contradicted_by(&self, root: &DataRoot) -> Result<Option<StartSign>, AccessError> {
        let control = self.control_contradicted_by(root)?;
        let Some(wal) = self.wal_end.as_ref().filter(|_| control.is_none()) else { return Ok(control) };
        // The length is that of two pages of WAL: nothing larger is read because a file says so.
        let length = wal.length.min(crate::types::MAX_WAL_BLOCK_SIZE.saturating_mul(WAL_PAGES));
        let wal = WalMark { length, ..wal.clone() };
        let same = wal.look(root)? == wal.sha256;
        Ok((!same).then_some(StartSign::Wal { lsn: wal.lsn, path: wal.path }))
    }

    /// Like [`Self::contradicted_by`], but only with `pg_control`, which is quick.
    pub(crate) fn control_contradicted_by(&self, root: &DataRoot) -> Result<Option<StartSign>, AccessError> {
        let now = ControlMark::read(root)?;
        let same = now.sha256 == self.control.sha256;
        Ok((!same).then(|| StartSign::Control { then: self.control.to_string(), now: now.to_string() }))
    }
}

/// Sign that a server was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartSign {
    /// `pg_control` is another one.
    #[error("pg_control has changed: then {then}, now {now}")]
    Control {
        /// Earlier value.
        then: String,
        /// Present value.
        now: String,
    },
    /// WAL continues after its end.
    #[error("WAL was written after its end at {lsn}, in {path}")]
    Wal {
        /// Where WAL ended.
        lsn: String,
        /// The segment.
        path: String,
    },
    /// `pg_control` was written after the repair began, by its own time.
    #[error("pg_control was written at {control}, after the repair began at {began}")]
    Later {
        /// Time in `pg_control`.
        control: Timestamp,
        /// When the repair began.
        began: Timestamp,
    },
}

/// Sign from a journal of format 1, which kept a CRC-32C of `pg_control` that never changes: its CRC is part of
/// it. A time in `pg_control` after the beginning of the repair is proof nevertheless; an earlier one proves nothing.
pub(super) fn old_contradicted_by(
    root: &DataRoot,
    control_crc: &str,
    began: Option<Timestamp>,
) -> Result<Option<StartSign>, AccessError> {
    let bytes = root.read_small(Path::new(CONTROL_PATH), CONTROL_FILE_SIZE as u64 * 2)?;
    let control = ControlFile::decode(&bytes).ok().flatten().as_ref().and_then(written);
    if let (Some(control), Some(began)) = (control, began)
        && control > began
    {
        return Ok(Some(StartSign::Later { control, began }));
    }
    let now = ControlMark::of(&bytes).to_string();
    Ok((crc_text(&bytes) != control_crc).then(|| StartSign::Control { then: "unknown".to_owned(), now }))
}

/// Files that a start of a server writes and that were written after `began`, by their times. A hint only: a copy of the
/// data directory has new times too, and a restored one may have old ones.
pub(super) fn newer_files(root: &DataRoot, began: Timestamp) -> Vec<PathBuf> {
    let is_newer = |name: &&'static str| {
        let time = root.modified(Path::new(name)).ok().flatten();
        time.is_some_and(|time| time > began)
    };
    let buffers = directories().into_iter().map(DwbDirectory::directory);
    STARTED_FILES.into_iter().chain(buffers).filter(is_newer).map(PathBuf::from).collect()
}
