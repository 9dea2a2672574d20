//! Files that a server reads whole at its start: prepared transactions, replication slots, replication origins.

use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{AccessError, Links, list, read_small};
use super::server_files::{FileFault, is_missing};
use super::xact_log::{SLRU_PAGES_PER_SEGMENT, XactLog};
use crate::parsers::control::ControlFile;
use crate::parsers::state_files::{MAX_STATE_BYTES, StateFault, check_origins, check_slot, check_twophase};

/// How far replication origins came, relative to the data directory.
const ORIGINS_PATH: &str = "pg_logical/replorigin_checkpoint";

/// Kind of file that stops startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFile {
    /// A transaction that was prepared for a commit in two phases.
    Prepared,
    /// One of a transaction for which `pg_xact` has no file.
    PreparedUnknown,
    Slot,
    Origins,
}

/// Something is wrong with one of them.
#[derive(Debug)]
pub(crate) struct StateFileFault {
    /// The file, relative to the data directory.
    pub file: PathBuf,
    pub of: StateFile,
    pub fault: FileFault,
}

/// Examines all of them. A missing directory is not a fault here. `replays`: startup replays WAL.
pub(crate) fn state_faults(directory: &DataDir, control: Option<&ControlFile>, replays: bool) -> Vec<StateFileFault> {
    let mut faults = Vec::new();
    let root = directory.root();
    let mut check = |file: PathBuf, of: StateFile, check: fn(&[u8]) -> Result<(), StateFault>| {
        let read = read_small(&root.join(&file), Links::Refuse, MAX_STATE_BYTES).map_err(FileFault::from);
        if let Err(fault) = read.and_then(|bytes| check(&bytes).map_err(FileFault::State)) {
            faults.push(StateFileFault { file, of, fault });
        }
    };
    let (mut failed, mut unknown) = (Vec::new(), Vec::new());
    for name in entries(root, Path::new("pg_twophase"), &mut failed) {
        let is_read = is_prepared(directory, control, &name);
        let file = Path::new("pg_twophase").join(&name);
        if let Some(xid) = unknown_xact(directory, control, &name, replays) {
            unknown.push(StateFileFault {
                file,
                of: StateFile::PreparedUnknown,
                fault: FileFault::XactUnknown { xid },
            });
        } else if is_read {
            check(file, StateFile::Prepared, check_twophase);
        }
    }
    for name in entries(root, Path::new("pg_replslot"), &mut failed) {
        let slot = Path::new("pg_replslot").join(&name);
        let is_directory = root.join(&slot).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        // What a crash left of a slot that was being made or dropped is removed first.
        if is_directory && !name.ends_with(".tmp") {
            check(slot.join("state"), StateFile::Slot, check_slot);
        }
    }
    let origins = Path::new(ORIGINS_PATH);
    if root.join(origins).symlink_metadata().is_ok() {
        check(origins.to_owned(), StateFile::Origins, check_origins);
    }
    faults.extend(unknown);
    faults.extend(failed.into_iter().map(|(file, of, error)| StateFileFault { file, of, fault: error.into() }));
    faults
}

/// Names of entries, sorted; none where there is no such directory.
fn entries(root: &Path, of: &Path, failed: &mut Vec<(PathBuf, StateFile, AccessError)>) -> Vec<String> {
    let path = root.join(of);
    let kind = if of.ends_with("pg_twophase") { StateFile::Prepared } else { StateFile::Slot };
    match list(&path) {
        Ok(entries) => entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect(),
        Err(error) => {
            if !error.is_not_found() {
                failed.push((of.to_owned(), kind, error));
            }
            Vec::new()
        }
    }
}

/// The file of a prepared transaction, relative to the data directory.
///
/// Source: `TwoPhaseFilePath`, `src/backend/access/transam/twophase.c`.
pub(crate) fn prepared_file(directory: &DataDir, control: &ControlFile, xid: u32) -> PathBuf {
    let next = control.checkpoint.next_full_xid;
    let low = next & u64::from(u32::MAX);
    let epoch = (next >> 32).saturating_sub(u64::from(u64::from(xid) >= low));
    let name = if directory.major().facts().prepares_by_full_xid {
        format!("{:016X}", epoch << 32 | u64::from(xid))
    } else {
        format!("{xid:08X}")
    };
    Path::new("pg_twophase").join(name)
}

/// The transaction of a file in `pg_twophase`, sound or not, for which `pg_xact` has no file. Startup looks up its outcome
/// there before it tests whether it is a future one.
///
/// Source: `ProcessTwoPhaseBuffer`, `src/backend/access/transam/twophase.c`.
fn unknown_xact(directory: &DataDir, control: Option<&ControlFile>, name: &str, replays: bool) -> Option<u32> {
    let (control, xid) = (control?, prepared_xid(directory, name)?);
    let needs_no_file = replays && directory.major().facts().prepares_without_xact_file;
    if needs_no_file && !is_prepared(directory, Some(control), name) {
        return None;
    }
    let xid = u32::try_from(xid & u64::from(u32::MAX)).ok()?;
    let pages = control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT);
    let file = XactLog::new(directory.root(), control.geometry.block_size, pages).file_of(xid);
    is_missing(directory, &file).then_some(xid)
}

/// The number that the name of a file in `pg_twophase` is.
fn prepared_xid(directory: &DataDir, name: &str) -> Option<u64> {
    let digits = if directory.major().facts().prepares_by_full_xid { 16 } else { 8 };
    let is_name = name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    u64::from_str_radix(name, 16).ok().filter(|_| is_name)
}

/// True for a file that a start reads: of a transaction from before the checkpoint. It removes those of later ones.
///
/// Source: `restoreTwoPhaseData` and `ProcessTwoPhaseBuffer`, `src/backend/access/transam/twophase.c`.
pub(super) fn is_prepared(directory: &DataDir, control: Option<&ControlFile>, name: &str) -> bool {
    let Some(xid) = prepared_xid(directory, name) else { return false };
    control.is_none_or(|control| {
        let next = control.checkpoint.next_full_xid;
        let low = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default();
        if directory.major().facts().prepares_by_full_xid {
            xid < next
        } else {
            low(xid).wrapping_sub(low(next)).cast_signed() < 0
        }
    })
}
