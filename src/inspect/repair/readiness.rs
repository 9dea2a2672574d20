//! Requirements of a repair other than proven images, tested before anything is written.

use std::path::PathBuf;

use crate::cluster::data_dir::DataDir;
use crate::cluster::open::AccessError;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::Remaining;
use crate::repair::blocker::{Blocker, Overrides, RepairLock, find_blockers};
use crate::repair::journal::JournalError;

/// Where the journal goes, and the files that are written.
#[derive(Debug)]
pub struct Readiness {
    /// Directory of the journal, which is made when the repair begins.
    pub journal: PathBuf,
    /// Bytes that are free there, or why no journal can be made.
    pub site: Result<u64, JournalError>,
    /// Bytes that the journal needs. Pages are overwritten, so they need none.
    pub needed_bytes: u64,
    pub files: usize,
    /// Those of them that cannot be opened for writing.
    pub closed: Vec<AccessError>,
}

impl Readiness {
    /// Itself, when nothing is in the way.
    pub(crate) fn demand(self) -> Result<Self, InspectError> {
        let Self { journal, site, needed_bytes, files, closed } = self;
        let free_bytes = site.map_err(InspectError::JournalNotBegun)?;
        if !closed.is_empty() {
            return Err(InspectError::FilesClosed(closed));
        }
        Ok(Self { journal, site: Ok(free_bytes), needed_bytes, files, closed })
    }
}

/// A reason not to write that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Stable name: [`Blocker::kind`].
    pub kind: &'static str,
    pub state: GuardState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardState {
    Passed,
    Allowed(Blocker),
    Refused(Blocker),
}

/// Facts before a repair is applied.
#[derive(Debug)]
pub struct BeforeRepair {
    pub guards: Vec<Guard>,
    /// Journal and files, or why they could not be examined.
    pub ready: Result<Readiness, InspectError>,
    /// Remaining damage after the repair.
    pub after: Remaining,
}

/// Kinds of blockers, in the order in which they are looked for.
const KINDS: [&str; 8] =
    ["locked", "server_running", "control", "version", "shut_down", "standby", "recovery_signal", "backup_label"];

const OWNER: &str = "other_user";

/// Every guard of a data directory as it is now. The lock is tried and given back.
///
/// # Errors
/// When the directory cannot be opened.
pub fn guards(data_dir: &std::path::Path, overrides: Overrides) -> Result<Vec<Guard>, InspectError> {
    let directory: DataDir = open_data_dir(data_dir)?;
    let mut all = find_blockers(&directory, Overrides::default());
    all.extend(RepairLock::take(data_dir).err());
    let refused = find_blockers(&directory, overrides);
    let guard = |kind: &'static str| {
        let found = all.iter().find(|blocker| blocker.kind == kind).cloned();
        let state = match found {
            None => GuardState::Passed,
            Some(blocker) if kind == "locked" || refused.iter().any(|one| one.kind == kind) => {
                GuardState::Refused(blocker)
            }
            Some(blocker) => GuardState::Allowed(blocker),
        };
        Guard { kind, state }
    };
    Ok(KINDS.into_iter().chain([OWNER]).map(guard).collect())
}
