//! Requirements of a repair other than proven images, tested before anything is written.
//! Also here: journals that repairs have left beside a data directory; nothing is written.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cluster::data_dir::DataDir;
use crate::cluster::open::AccessError;
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::{Examination, Remaining};
use crate::repair::blocker::{Blocker, Overrides, RepairLock, find_blockers};
use crate::repair::journal::JournalError;
use crate::repair::journal_seen::{FoundJournals, journals_beside, look_at, newest_first};
use crate::types::PageId;

/// Where the journal goes, and the files that are written.
#[derive(Debug)]
pub struct Readiness {
    /// Directory of the journal, which is made when the repair begins.
    pub journal: PathBuf,
    /// Bytes that are free there, or why no journal can be made.
    pub site: Result<u64, JournalError>,
    /// Bytes that the journal needs. Pages are overwritten, so they need none.
    pub needed_bytes: u64,
    /// Number of files.
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
    /// Its result.
    pub state: GuardState,
}

/// Result of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardState {
    /// It holds.
    Passed,
    /// It does not, and the user allows that.
    Allowed(Blocker),
    /// It does not.
    Refused(Blocker),
}

/// Facts before a repair is applied.
#[derive(Debug)]
pub struct BeforeRepair {
    /// The guards, in order.
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

pub(in crate::inspect) fn disk_reader(examined: &Examination) -> impl FnMut(PageId) -> Option<Vec<u8>> {
    let root = examined.source.directory.as_ref().map_or(Path::new("."), |directory| directory.root());
    let pages = RelationPages::new(root, examined.paths.clone());
    let block_size = examined.block_size;
    move |page| {
        let mut bytes = vec![0; block_size];
        matches!(pages.read_page(page, &mut bytes), Ok(PageRead::Whole)).then_some(bytes)
    }
}

/// The journals that lie beside the data directory, and those that are `named`, compared with its pages as they are now.
pub(crate) fn journals_of(examined: &Examination, named: &[PathBuf]) -> FoundJournals {
    let Some(directory) = &examined.source.directory else {
        return FoundJournals { journals: Ok(Vec::new()), more: 0 };
    };
    let (mut found, more) = match journals_beside(directory.root()) {
        Ok(found) => found,
        Err(error) => return FoundJournals { journals: Err(error.to_string()), more: 0 },
    };
    let mut owners = vec![rustix::process::geteuid().as_raw()];
    owners.extend(directory.root().metadata().map(|metadata| metadata.uid()));
    let system = directory.control().trusted().map(|control| control.prefix.system_identifier);
    let mut disk = disk_reader(examined);
    for journal in named {
        // One that was named may lie beside the data directory, too.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !found.iter().any(|other| real(other) == real(journal)) {
            found.push(journal.clone());
        }
    }
    let seen = found.into_iter().map(|journal| look_at(journal, directory.root(), &owners, system, &mut disk));
    FoundJournals { journals: Ok(newest_first(seen.collect())), more }
}
