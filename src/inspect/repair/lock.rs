//! Preparation of every write: the lock on the data directory, and a check of the blockers.

use std::path::Path;

use crate::cluster::data_dir::DataDir;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::repair::blocker::{Overrides, RepairLock, find_blockers};
use crate::repair::witness::ControlMark;

/// A data directory that is locked, and what was in its `pg_control` before it was judged.
pub(super) struct Locked {
    pub lock: RepairLock,
    /// `pg_control`.
    pub control: ControlMark,
    pub overrides: Overrides,
}

impl Locked {
    /// Takes the lock, then reads `pg_control`.
    pub(super) fn take(data_dir: &Path, overrides: Overrides) -> Result<Self, InspectError> {
        let (lock, _) = guarded(data_dir, overrides)?;
        let control = ControlMark::read(lock.root())?;
        Ok(Self { lock, control, overrides })
    }
}

/// Takes the lock, then looks whether anything forbids writing.
pub(super) fn guarded(data_dir: &Path, overrides: Overrides) -> Result<(RepairLock, DataDir), InspectError> {
    // Says what is wrong with a path that is not a data directory before anything is locked.
    open_data_dir(data_dir)?;
    let lock = RepairLock::take(data_dir).map_err(|blocker| InspectError::Refused(vec![blocker]))?;
    let directory = open_data_dir(data_dir)?;
    let blockers = find_blockers(&directory, overrides);
    if blockers.is_empty() { Ok((lock, directory)) } else { Err(InspectError::Refused(blockers)) }
}
